#include "cinn_like/base/device_kind.h"

#include <sched.h>
#include <unistd.h>

#include "cinn_like/base/host_cpu.h"

namespace cinn_like {
namespace {

constexpr int64_t kKi = 1024, kMi = 1024 * 1024;
constexpr DeviceNumbers kBaseline = {8, 16, 32 * kKi, 256 * kKi, 25, 0, 16, 1};

// This machine, as far as the C library and cpuid say.
DeviceNumbers HostNumbers() {
  DeviceNumbers n = kBaseline;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) n.cores = CPU_COUNT(&set);
  if (ThisCpu().has_avx2) n.vector_bytes = 32;
  if (ThisCpu().has_avx512) {
    n.vector_bytes = 64;
    n.registers = 32;
  }
  if (const long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE); l1 > 0) n.l1_bytes = l1;
  if (const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE); l2 > 0) n.l2_bytes = l2;
  return n;
}

// CPUs are named as LLVM does.
DeviceKind MakeHost() {
  DeviceKind d;
  d.name = "x86_64";
  d.alias = "cpu";
  d.faults_where_unaligned = false;
  d.rows = {
      {"native", HostNumbers()},
      {"x86-64", kBaseline},
      {"x86-64-v2", {8, 16, 32 * kKi, 256 * kKi, 25, 0, 16, 1}},
      {"x86-64-v3", {8, 32, 32 * kKi, 512 * kKi, 40, 0, 16, 1}},
      {"x86-64-v4", {16, 64, 32 * kKi, 1 * kMi, 100, 0, 32, 1}},
      {"haswell", {8, 32, 32 * kKi, 256 * kKi, 50, 0, 16, 1}},
      {"broadwell", {8, 32, 32 * kKi, 256 * kKi, 60, 0, 16, 1}},
      {"skylake", {4, 32, 32 * kKi, 256 * kKi, 35, 0, 16, 1}},
      {"skylake-avx512", {24, 64, 32 * kKi, 1 * kMi, 110, 0, 32, 1}},
      {"cascadelake", {24, 64, 32 * kKi, 1 * kMi, 120, 0, 32, 1}},
      {"icelake-server", {32, 64, 48 * kKi, 1280 * kKi, 180, 0, 32, 1}},
      {"rocketlake", {8, 64, 48 * kKi, 512 * kKi, 50, 0, 32, 1}},
      {"alderlake", {12, 32, 48 * kKi, 1280 * kKi, 70, 0, 16, 1}},
      {"sapphirerapids", {48, 64, 48 * kKi, 2 * kMi, 280, 0, 32, 1}},
      {"emeraldrapids", {56, 64, 48 * kKi, 2 * kMi, 320, 0, 32, 1}},
      {"graniterapids", {96, 64, 48 * kKi, 2 * kMi, 550, 0, 32, 1}},
      {"znver1", {16, 32, 32 * kKi, 512 * kKi, 100, 0, 16, 1}},
      {"znver2", {32, 32, 32 * kKi, 512 * kKi, 150, 0, 16, 1}},
      {"znver3", {32, 32, 32 * kKi, 512 * kKi, 160, 0, 16, 1}},
      {"znver4", {64, 64, 32 * kKi, 1 * kMi, 400, 0, 32, 1}},
      {"znver5", {64, 64, 48 * kKi, 1 * kMi, 500, 0, 32, 1}},
  };
  d.options = {"mcpu",         "features", "framework", "num-threads", "cores",
               "vector-bytes", "l1-bytes", "l2-bytes",  "bandwidth",   "registers"};
  return d;
}

DeviceKind MakeCuda() {
  DeviceKind d;
  d.name = "cuda";
  d.type = kDLCUDA;
  d.has_kernels = true;
  d.kernels_assert = true;
  d.rows = {
      {"native", {108, 16, 128 * kKi, 40 * kMi, 1500, 99 * kKi, 65536, 32}},
      {"sm_75", {40, 16, 64 * kKi, 4 * kMi, 300, 64 * kKi, 65536, 32}},
      {"sm_80", {108, 16, 192 * kKi, 40 * kMi, 1555, 163 * kKi, 65536, 32}},
      {"sm_86", {84, 16, 128 * kKi, 6 * kMi, 700, 99 * kKi, 65536, 32}},
      {"sm_87", {16, 16, 192 * kKi, 4 * kMi, 200, 163 * kKi, 65536, 32}},
      {"sm_88", {16, 16, 192 * kKi, 4 * kMi, 200, 163 * kKi, 65536, 32}},
      {"sm_89", {128, 16, 128 * kKi, 72 * kMi, 900, 99 * kKi, 65536, 32}},
      {"sm_90", {132, 16, 256 * kKi, 50 * kMi, 3350, 227 * kKi, 65536, 32, 8}},
      {"sm_90a", {132, 16, 256 * kKi, 50 * kMi, 3350, 227 * kKi, 65536, 32, 8}},
      {"sm_100", {148, 16, 256 * kKi, 126 * kMi, 8000, 227 * kKi, 65536, 32}},
      {"sm_100a", {148, 16, 256 * kKi, 126 * kMi, 8000, 227 * kKi, 65536, 32}},
      {"sm_103", {148, 16, 256 * kKi, 126 * kMi, 8000, 227 * kKi, 65536, 32}},
      {"sm_103a", {148, 16, 256 * kKi, 126 * kMi, 8000, 227 * kKi, 65536, 32}},
      {"sm_110", {20, 16, 256 * kKi, 32 * kMi, 270, 227 * kKi, 65536, 32}},
      {"sm_110a", {20, 16, 256 * kKi, 32 * kMi, 270, 227 * kKi, 65536, 32}},
      {"sm_120", {170, 16, 128 * kKi, 96 * kMi, 1790, 99 * kKi, 65536, 32}},
      {"sm_120a", {170, 16, 128 * kKi, 96 * kMi, 1790, 99 * kKi, 65536, 32}},
      {"sm_121", {48, 16, 128 * kKi, 24 * kMi, 270, 99 * kKi, 65536, 32}},
      {"sm_121a", {48, 16, 128 * kKi, 24 * kMi, 270, 99 * kKi, 65536, 32}},
  };
  d.options = {"arch",      "libs",      "allow-tf32",   "allow-tf32-convolutions",
               "framework", "sm-count",  "vector-bytes", "l1-bytes",
               "l2-bytes",  "bandwidth", "shared-bytes", "registers",
               "warp-size", "cluster"};
  d.limits.mma = true;
  d.limits.cluster = 8;  // of those that have them
  d.libs = {"cublas"};
  d.speed_class = SpeedClassOfArch;
  return d;
}

// OpenCL has no archs: a driver compiles a kernel's source for its device. Blocks are as large as all GPUs of today run
// them, and share what a device must have at least; threads shuffle in sub-groups, where a target says how many.
DeviceKind MakeOpenCl() {
  DeviceKind d;
  d.name = "opencl";
  d.type = kDLOpenCL;
  d.has_kernels = true;
  d.kernels_assert = true;
  constexpr DeviceNumbers kTypical = {32, 16, 64 * kKi, 4 * kMi, 300, 32 * kKi, 65536, 32};
  d.rows = {{"native", kTypical}, {"generic", kTypical}};
  d.options = {"arch",     "features",  "cores",        "vector-bytes", "l1-bytes",
               "l2-bytes", "bandwidth", "shared-bytes", "registers",    "subgroup-size"};
  d.limits.block = {256, 256, 256};
  d.limits.threads = 256;
  d.limits.warp = 1;  // what a target's sub-groups are of, else
  d.limits.shared_bytes = 32 * kKi;
  d.speed_class = [](std::string_view) { return std::string_view("sm_70"); };  // a GPU without matrix units
  return d;
}

// GPUs of AMD whose waves are of 64 threads; shuffles are among 32.
DeviceKind MakeHip() {
  DeviceKind d;
  d.name = "hip";
  d.type = kDLROCM;
  d.has_kernels = true;
  d.rows = {
      {"native", {104, 16, 16 * kKi, 8 * kMi, 1600, 64 * kKi, 131072, 32}},
      {"gfx90a", {104, 16, 16 * kKi, 8 * kMi, 1600, 64 * kKi, 131072, 32}},
      {"gfx942", {304, 16, 32 * kKi, 32 * kMi, 5300, 64 * kKi, 131072, 32}},
  };
  d.options = {"arch", "cores", "vector-bytes", "l1-bytes", "l2-bytes", "bandwidth", "shared-bytes", "registers"};
  d.limits.block = {1024, 1024, 1024};
  d.speed_class = [](std::string_view) { return std::string_view("sm_70"); };  // a GPU whose matrix units we don't use
  return d;
}

// Its language doesn't say how threads lie in SIMD groups, so there are no shuffles.
DeviceKind MakeMetal() {
  DeviceKind d;
  d.name = "metal";
  d.type = kDLMetal;
  d.has_kernels = true;
  d.is_source = true;
  d.rows = {{"generic", {16, 16, 16 * kKi, 8 * kMi, 200, 32 * kKi, 65536, 32}}};
  d.options = {"arch", "cores", "vector-bytes", "l1-bytes", "l2-bytes", "bandwidth", "shared-bytes", "registers"};
  d.limits.block = {256, 256, 256};
  d.limits.threads = 256;
  d.limits.warp = 1;
  d.limits.shared_bytes = 32 * kKi;
  d.speed_class = [](std::string_view) { return std::string_view("sm_70"); };  // a GPU whose matrix units we don't use
  d.lacks = {DType::kF64};
  return d;
}

// Vectors are what any CPU of today has; who knows more of it says so.
DeviceKind MakeC() {
  DeviceKind d;
  d.name = "c";
  d.is_source = true;
  d.rows = {{"generic", kBaseline}};
  d.options = {"cores", "vector-bytes", "l1-bytes", "l2-bytes", "bandwidth", "registers"};
  return d;
}

}  // namespace

const DeviceKind& HostKind() {
  static const auto* kind = new DeviceKind(MakeHost());
  return *kind;
}

const DeviceKind& CudaKind() {
  static const auto* kind = new DeviceKind(MakeCuda());
  return *kind;
}

const DeviceKind& OpenClKind() {
  static const auto* kind = new DeviceKind(MakeOpenCl());
  return *kind;
}

const DeviceKind& HipKind() {
  static const auto* kind = new DeviceKind(MakeHip());
  return *kind;
}

const DeviceKind& MetalKind() {
  static const auto* kind = new DeviceKind(MakeMetal());
  return *kind;
}

const DeviceKind& CKind() {
  static const auto* kind = new DeviceKind(MakeC());
  return *kind;
}

std::span<const DeviceKind* const> BuiltInKinds() {
  static const DeviceKind* const kinds[] = {&HostKind(), &CudaKind(),  &OpenClKind(),
                                            &HipKind(),  &MetalKind(), &CKind()};
  return kinds;
}

}  // namespace cinn_like
