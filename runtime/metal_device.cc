// Metal is of Apple's systems, where this library does not run: kernels leave as source text (DeviceKind::is_source).
#include "runtime/device_api.h"

extern "C" const cinn_like::RuntimeDevice cinn_device_metal = {
    kDLMetal, kDLMetal, []() -> cinn_like::StatusOr<cinn_like::DeviceApi*> {
      return absl::FailedPreconditionError(
          "no Metal: it is of Apple's systems, to which its kernels go as source text");
    }};
