// Objects -> a shared library, by the linker of this system, cc, gcc, clang or ld, or where it has none by LLVM's
// own, ld.lld; started without a shell.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"

namespace cinn_like {

struct LinkInputs {
  std::span<const std::string> objects;
  std::span<const std::string> exported;  // symbols that others see
  // A library that the result is to be loaded with, by its soname, and an object that defines its symbols, as what is
  // linked against: it need not be here itself.
  std::string_view needed;
  std::string_view needed_symbols;
};

// The bytes of the library, which finds `needed` beside itself or where the system looks, and needs the C library and
// libm beside it. FailedPrecondition where there is no linker; Internal with its words where it fails.
StatusOr<std::string> LinkSharedLibrary(const LinkInputs& inputs);

}  // namespace cinn_like
