// What targets, passes and cost models know of a kind of device, as pure data: the part of a device's registration
// (backends/device.h) that every room sees. Its name is the first word of a target's text and what an entry function
// of it says: "cuda -arch=sm_90a", func @f entry cuda (...).
#pragma once
#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/dtype.h"
#include "cinn_like/base/speeds.h"

namespace cinn_like {

// What rooms above know: a device hands them its own.
namespace hlir {
struct Tactic;
}
namespace ir {
struct HookedPass;
}

// For cost models; the fields of Target of these names.
struct DeviceNumbers {
  int64_t cores, vector_bytes, l1_bytes, l2_bytes, bandwidth, shared_bytes, registers, warp_size;
  int64_t cluster = 1;
};

// Of a kernel's launch: a grid of blocks of threads.
struct LaunchLimits {
  std::array<int64_t, 3> grid = {2147483647, 65535, 65535};
  std::array<int64_t, 3> block = {1024, 1024, 64};
  int64_t threads = 1024;      // of a block
  int64_t cluster = 1;         // blocks that share memory and barriers; 1: none do
  int64_t warp = 32;           // threads that exchange values by shuffles; a power of 2, 1: they don't
  bool mma = false;            // warps of 32 have matrix units, which run nests of that kind (ir/mma.h)
  bool tensor_copies = false;  // a copy engine fills shared memory, which one thread asks (ir/tensor_copy.h)
  // Of memory that a block shares, for every kernel. 0: blocks share none and have no barriers.
  int64_t shared_bytes = int64_t{48} << 10;
};

// An instruction of a device for a nest of loops: matrix units, copies. Schedules name it (`tensorize i
// intrinsic.NAME`), loops say it (for i in 0..8 @intrinsic.NAME), and stay what it means. ir/intrinsic.h has the rules.
struct Intrinsic {
  std::string name;  // an identifier
  // Its operands, in the memory that it finds them in, and loops that compute the same:
  //   func @mm8() { alloc a: f32[8, 8] @shared ... for i in 0..8 { ... c[i, j] = c[i, j] + a[i, k] * b[k, j] ... } }
  std::string meaning;
  // In the device's language: $a is the address of operand a's first element, $a.0 the distance in elements of its
  // neighbours along dimension 0.
  std::string text;
  double seconds = 0;  // that one takes, for cost models
};

struct DeviceKind {
  std::string name;                    // an identifier
  std::string alias;                   // another first word of a target; may be empty
  DLDeviceType type = kDLCPU;          // of its tensors
  bool has_kernels = false;            // else functions of it are host functions
  bool kernels_assert = false;         // a kernel can say that an index is out of range, and the call fails
  bool faults_where_unaligned = true;  // wide accesses do
  bool is_source = false;  // its functions, or kernels, leave as source text and are compiled and run elsewhere
  LaunchLimits limits;     // of kernels

  // What is typical of a model of it. A target's -arch (without kernels: -mcpu) names one; the first is the default,
  // and "native" stands for the devices of this machine.
  struct Row {
    std::string name;
    DeviceNumbers numbers;
  };
  std::vector<Row> rows;
  std::vector<std::string> options;  // of those that base/target.cc knows, the ones that its targets take
  std::vector<std::string> libs;     // that -libs takes; each runs on it
  std::string_view (*speed_class)(std::string_view row) = SpeedClassOfCpu;  // a row of base/speeds.h for each model

  std::vector<DType> lacks;  // no op on it has values of these
  // Of copies between its memory and the host's, which cost models count where a graph is shared out between devices.
  double copy_seconds = 1e-5;         // of one
  double copy_bandwidth = 12e9;       // bytes a second
  std::vector<Intrinsic> intrinsics;  // of its kernels

  // Beside what there is for all devices. Null: nothing.
  const std::vector<hlir::Tactic>* tactics = nullptr;   // schedules of its kernels (hlir/tactics/tactic.h)
  const std::vector<ir::HookedPass>* passes = nullptr;  // loop passes (ir/pass_table.h)

  bool IsCalled(std::string_view word) const { return !word.empty() && (word == name || word == alias); }
};

// "x86_64" (alias "cpu"): this process.
const DeviceKind& HostKind();
const DeviceKind& CudaKind();
const DeviceKind& OpenClKind();  // any device of any OpenCL driver of this machine
const DeviceKind& HipKind();     // AMD's GPUs
const DeviceKind& MetalKind();   // Apple's GPUs
const DeviceKind& CKind();       // any CPU that has a compiler of C99
// Those six.
std::span<const DeviceKind* const> BuiltInKinds();

}  // namespace cinn_like
