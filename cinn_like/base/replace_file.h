// Writes a file as a whole: whoever has the old one open or loaded keeps it.
#pragma once
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"

namespace cinn_like {
Status ReplaceFile(const std::string& path, std::string_view bytes);
}  // namespace cinn_like
