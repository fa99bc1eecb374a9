#include "runtime/range_error.h"

#include "runtime/last_error.h"

namespace cinn_like {

Status RangeError(std::string_view what, int64_t value, int64_t lo, int64_t end) {
  const std::string expected = lo < end ? Cat(lo, " to ", end - 1) : "none, there is no place for any";
  return absl::OutOfRangeError(Cat(what, ": expected ", expected, ", got ", value));
}

}  // namespace cinn_like

extern "C" int32_t cinn_range_error(const char* what, int64_t value, int64_t lo, int64_t end, const CinnCallEnv*) {
  return cinn_like::SetLastError(cinn_like::RangeError(what, value, lo, end));
}

extern "C" int32_t cinn_bounds_error(const char* what, int64_t index, int64_t size, const CinnCallEnv* env) {
  return cinn_range_error(what, index, 0, size, env);
}
