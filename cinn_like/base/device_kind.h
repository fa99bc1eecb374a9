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

#include "cinn_like/base/speeds.h"

namespace cinn_like {

// For cost models; the fields of Target of these names.
struct DeviceNumbers {
  int64_t cores, vector_bytes, l1_bytes, l2_bytes, bandwidth, shared_bytes, registers, warp_size;
  int64_t cluster = 1;
};

// Of a kernel's launch: a grid of blocks of threads.
struct LaunchLimits {
  std::array<int64_t, 3> grid = {2147483647, 65535, 65535};
  std::array<int64_t, 3> block = {1024, 1024, 64};
  int64_t threads = 1024;  // of a block
  int64_t cluster = 1;     // blocks that share memory and barriers; 1: none do
  int64_t warp = 32;       // threads that exchange values by shuffles; a power of 2, 1: they don't
  bool mma = false;        // warps of 32 have matrix units, which run nests of that kind (ir/mma.h)
  // Of memory that a block shares, for every kernel. 0: blocks share none and have no barriers.
  int64_t shared_bytes = int64_t{48} << 10;
};

struct DeviceKind {
  std::string name;                    // an identifier
  std::string alias;                   // another first word of a target; may be empty
  DLDeviceType type = kDLCPU;          // of its tensors
  bool has_kernels = false;            // else functions of it are host functions
  bool faults_where_unaligned = true;  // wide accesses do
  bool is_source = false;              // its functions leave as source text and are compiled and run elsewhere
  LaunchLimits limits;                 // of kernels

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
};

// "x86_64" (alias "cpu"): this process.
const DeviceKind& HostKind();
const DeviceKind& CudaKind();
const DeviceKind& OpenClKind();  // any device of any OpenCL driver of this machine
const DeviceKind& CKind();       // any CPU that has a compiler of C99
// Those four.
std::span<const DeviceKind* const> BuiltInKinds();

}  // namespace cinn_like
