// What code is made for, as pure data. Text form: a kind and options, in any order; Parse(Print(t)) == t, and unknown
// kinds, options and values are errors that list what is known.
//
//   "x86_64 -mcpu=sapphirerapids -num-threads=2"    "cuda -arch=sm_90a -libs=cublas"    "opencl -cores=64"
//
// The kinds are devices (base/device_kind.h): those of this project, or a registry's (backends/device.h) for others.
// "cpu" means "x86_64 -mcpu=native". Numbers come from a table row per CPU or arch and may be written in the text
// ("cuda -arch=sm_90a -sm-count=114"); they feed cost models and never change what code means.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/device_kind.h"
#include "cinn_like/base/status.h"

namespace cinn_like {

struct Target {
  const DeviceKind* device = &HostKind();  // outlives the target
  std::string mcpu;                        // CPU name or "native" (this machine); without kernels only
  std::string arch;                        // "sm_90a" or "native" (the device of the call); with kernels only
  std::vector<std::string> features;       // "+avx512f", "-amx-bf16", on top of mcpu; "-fp64": the device has no f64
  std::vector<std::string> libs;           // library calls that tactics may propose: "cublas"
  int64_t num_threads = 0;                 // 0: as many as the process may use
  int64_t allow_tf32 = 0;                  // 1: products of f32 may round their operands to TF32
  int64_t allow_tf32_convolutions = 0;     // the same of convolutions
  // Who computes what we leave, by a row of base/speeds.h; "auto" in the text means the row of this CPU or arch.
  // Empty: nobody, and everything is compiled.
  std::string framework;

  // For cost models.
  int64_t cores = 0;         // CPU cores, or SMs
  int64_t vector_bytes = 0;  // widest register, or widest access of one GPU thread
  int64_t l1_bytes = 0;      // per core, or SM
  int64_t l2_bytes = 0;      // per core (CPU), whole device (GPU)
  int64_t bandwidth = 0;     // main memory, GB/s
  int64_t shared_bytes = 0;  // per block, opted in
  int64_t registers = 0;     // 32-bit, per SM (GPU); vector registers (CPU)
  int64_t warp_size = 0;
  int64_t cluster = 1;  // most blocks of a cluster (GPU); 1: they make none
  // Threads that exchange values by shuffles, where models of a device differ in that (OpenCL); 1: they don't.
  int64_t subgroup_size = 1;

  bool operator==(const Target&) const = default;

  static StatusOr<Target> Parse(std::string_view text, std::span<const DeviceKind* const> kinds = BuiltInKinds());
  // All that code and schedules depend on, numbers that were detected or come from a row included. One line.
  std::string CacheKey() const;
  // Canonical: kind, then options that differ from the defaults, in table order.
  std::string Print() const;
  // `device` with every option that this target sets itself: what "native" stands for on that device.
  Target ResolvedBy(const Target& device) const;

  // Functions run as kernels that host functions launch, on grids of blocks of threads.
  bool HasKernels() const { return device->has_kernels; }
  // And a block's threads share memory and wait for each other, which tactics for GPUs count on; how many threads and
  // how much memory, the device's limits say.
  bool IsGpu() const;
  // The device's, for kernels of this target.
  LaunchLimits Limits() const;
  // mcpu or arch, whichever the device has.
  const std::string& RowName() const { return HasKernels() ? arch : mcpu; }
  bool HasLib(std::string_view name) const;
};

}  // namespace cinn_like
