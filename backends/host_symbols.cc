#include "backends/host_symbols.h"

#include <cmath>
#include <cstring>

extern "C" {
// libgcc's; the types are those of the calling convention.
float __extendhfsf2(_Float16);
_Float16 __truncsfhf2(float);
}

namespace cinn_like {

SymbolAddresses HostSymbols(const RuntimeSymbols& runtime) {
  SymbolAddresses r = runtime.All();
  auto add = [&](const char* name, auto* function) { r.emplace_back(name, reinterpret_cast<void*>(function)); };
#define CINN_LIBM_1(name)                              \
  add(#name, static_cast<double (*)(double)>(::name)); \
  add(#name "f", static_cast<float (*)(float)>(::name##f));
#define CINN_LIBM_2(name)                                      \
  add(#name, static_cast<double (*)(double, double)>(::name)); \
  add(#name "f", static_cast<float (*)(float, float)>(::name##f));
  // clang-format off
  CINN_LIBM_1(exp) CINN_LIBM_1(exp2) CINN_LIBM_1(expm1) CINN_LIBM_1(log) CINN_LIBM_1(log1p) CINN_LIBM_1(tanh)
  CINN_LIBM_1(erf) CINN_LIBM_1(sin) CINN_LIBM_1(cos) CINN_LIBM_1(floor) CINN_LIBM_1(ceil) CINN_LIBM_1(trunc)
  CINN_LIBM_1(roundeven) CINN_LIBM_2(pow) CINN_LIBM_2(fmod)
#undef CINN_LIBM_1
#undef CINN_LIBM_2
      // clang-format on
      add("fma", static_cast<double (*)(double, double, double)>(::fma));
  add("fmaf", static_cast<float (*)(float, float, float)>(::fmaf));
  add("memcpy", static_cast<void* (*)(void*, const void*, size_t)>(::memcpy));
  add("memmove", static_cast<void* (*)(void*, const void*, size_t)>(::memmove));
  add("memset", static_cast<void* (*)(void*, int, size_t)>(::memset));
  add("__extendhfsf2", __extendhfsf2);
  add("__truncsfhf2", __truncsfhf2);
  return r;
}

}  // namespace cinn_like
