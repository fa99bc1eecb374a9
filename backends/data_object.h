// Bytes as an object file for x86_64, for the linker, which LLVM would copy several times on the way.
#pragma once
#include <string>
#include <string_view>

namespace cinn_like {

// Read-only, under a global symbol, aligned to 64 bytes; of a section that may lie further from code than 2 GB.
std::string MakeDataObject(std::string_view symbol, std::string_view bytes);

}  // namespace cinn_like
