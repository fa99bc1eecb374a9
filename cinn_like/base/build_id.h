// Names this build of the library: what the linker hashed from its contents. Empty where it was linked without
// --build-id. Part of cache keys, so that no compiler reads what another one wrote.
#pragma once
#include <string_view>

namespace cinn_like {

std::string_view BuildId();

}  // namespace cinn_like
