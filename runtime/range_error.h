// What a call found of its arguments that types can't say: an index outside of its axis, sizes that leave no room.
#pragma once
#include <cstdint>
#include <string_view>

#include "cinn_like/base/status.h"
#include "runtime/call.h"

namespace cinn_like {

// OutOfRange: "<what>: expected <lo> to <end - 1>, got <value>".
Status RangeError(std::string_view what, int64_t value, int64_t lo, int64_t end);

}  // namespace cinn_like

// The call fails with code -OutOfRange and that message. Kernels of a GPU have an assertion in its place, those of
// OpenCL a report (runtime/opencl_module.h).
extern "C" int32_t cinn_range_error(const char* what, int64_t value, int64_t lo, int64_t end, const CinnCallEnv* env);

// The same of code compiled with --cinn_check_bounds that would touch an element outside of a buffer of `size`. Kernels
// of a GPU leave a report in its place (runtime/bounds_report.h).
extern "C" int32_t cinn_bounds_error(const char* what, int64_t index, int64_t size, const CinnCallEnv* env);
