// A compiled host module as a shared library, for programs that have no compiler (runtime/library.h): its objects, as
// the JIT has them, and what it says of itself, linked by the system's linker.
#pragma once
#include <string>
#include <vector>

#include "cinn_like/base/target.h"
#include "runtime/library_format.h"

namespace cinn_like {

// The file's bytes. `function` and its `prepare` are entries of `objects`, which were compiled for `target`; `weights`
// are the block that `function.weights` describes, or empty.
// InvalidArgument where a name can't be that of a library's function; for errors of the linker see system_linker.h.
StatusOr<std::string> MakeLibrary(const LibraryFunction& function, std::vector<std::string> objects,
                                  std::string_view weights, const Target& target);

}  // namespace cinn_like
