// What kernels compiled with --cinn_check_bounds leave where they would have touched memory outside of a buffer: the
// first thread that would fills it and ends. An image with such kernels has one under this name, which the launch reads
// and clears (runtime/cuda_module.cc); its twin in device code is the helper of backends/dialects.cc.
#pragma once
#include <cstdint>

namespace cinn_like {

inline constexpr char kBoundsReportName[] = "cinn_bounds_report";

struct BoundsReport {
  int32_t taken = 0;  // by a thread
  int32_t block[3] = {}, thread[3] = {};
  int32_t unused = 0;
  int64_t index = 0, size = 0;
  char text[256] = {};  // ends with a NUL
};
static_assert(sizeof(BoundsReport) == 304);

}  // namespace cinn_like
