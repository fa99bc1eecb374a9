// Compiled functions as a shared library, for programs that have no compiler (runtime/library.h): host objects, as the
// JIT has them, kernels, weights, and what the file says of itself, linked by the system's linker.
#pragma once
#include <string>
#include <vector>

#include "backends/compiled_code.h"
#include "backends/device_compiler.h"
#include "cinn_like/base/target.h"
#include "runtime/library_format.h"

namespace cinn_like {

// A function for one target.
struct LibraryPart {
  std::string name, signature, interface;  // as LibraryFunction has them
  int params = 0, results = 0;
  std::vector<int> statics;
  Target target;
  std::vector<std::string> cpu_features;  // that `objects` need
  std::vector<std::string> objects;       // host code
  std::string prepare;                    // an entry of it, as `name` is, or empty
  int slots = 0;                          // that it fills
  std::vector<KernelImages> kernels;      // in several forms, the best first; empty: there are none
  std::string weights;                    // the block that `description` describes
  std::optional<LibraryWeights> description = std::nullopt;
  // Of a function that several devices share, whose code is that of its parts: these, in the plan's order.
  std::optional<PartsPlan> plan = std::nullopt;
  std::vector<LibraryPart> parts = {};
};

// Code of `module` for a library: its part's target, objects and kernels. `device` is null for a host target; for
// others host code, which checks arguments and launches, is for any x86_64 CPU.
Status CompileForLibrary(const ir::Module& module, const Target& target, const CompileOptions& options,
                         DeviceCompiler* device, ObjectCache* cache, LibraryPart* part);

// The file's bytes. Parts of one name are variants of one function, and must be alike but for their targets.
// InvalidArgument where they are not, or a name can't be that of a library's function; for errors of the linker see
// system_linker.h.
StatusOr<std::string> MakeLibrary(std::vector<LibraryPart> parts);

}  // namespace cinn_like
