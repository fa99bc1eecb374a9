// What targets, passes and cost models know of it.
#include "examples/dpu/dpu.h"

namespace dpu {
namespace {

constexpr int64_t kKi = 1024;

DeviceKind MakeKind() {
  DeviceKind k;
  k.name = "dpu";
  k.type = kDLExtDev;
  k.has_kernels = true;
  // A block is one thread of a core. What "shared" is on a GPU is the core's scratchpad here.
  k.limits = {.block = {1, 1, 1}, .threads = 1, .warp = 1, .shared_bytes = 64 * kKi};
  // Cores, bytes of an access, of a first and a second cache, GB/s of its memory, scratchpad, registers, warp.
  k.rows = {{"dpu1", {8, 32, 0, 0, 60, 64 * kKi, 32, 1}}, {"dpu2", {32, 32, 0, 0, 200, 64 * kKi, 32, 1}}};
  k.options = {"arch", "cores", "bandwidth"};
  k.lacks = {DType::kF64, DType::kI64, DType::kU64, DType::kF16, DType::kBF16};
  k.copy_seconds = 5e-6;
  k.copy_bandwidth = 20e9;

  k.intrinsics = {
      {.name = "mm8",
       .meaning = R"(func @mm8() {
  alloc c: f32[8, 8] @local
  alloc a: f32[8, 8] @shared
  alloc b: f32[8, 8] @shared
  for i in 0..8 {
    for j in 0..8 {
      for k in 0..8 {
        c[i, j] = c[i, j] + a[i, k] * b[k, j]
      }
    }
  }
}
)",
       .text = "dpu_mm8($c, $c.0, $a, $a.0, $b, $b.0);",
       .seconds = 16e-9},
      {.name = "copy8",
       .meaning = R"(func @copy8() {
  alloc to: f32[8] @shared
  alloc from: f32[8] @global
  for i in 0..8 {
    to[i] = from[i]
  }
}
)",
       .text = "dpu_copy8($to, $from);",
       .seconds = 2e-9},
  };

  k.tactics = &Tactics();
  k.passes = &Passes();
  return k;
}

}  // namespace

const DeviceKind& Kind() {
  static const auto* kind = new DeviceKind(MakeKind());
  return *kind;
}

const cinn_like::Devices& Devices() {
  static const auto* devices = [] {
    auto* d = new cinn_like::Devices(cinn_like::Devices::BuiltIn());
    const auto make_compiler = [](const Target&, const CompileOptions&, ObjectCache*) { return MakeCompiler(); };
    d->Add({&Kind(), &cinn_device_dpu, make_compiler}).IgnoreError();  // a test holds that it is there
    return d;
  }();
  return *devices;
}

}  // namespace dpu
