// The host functions of a lowered module -> objects, in parallel, identical functions once.
//
//   @f (entry) calling @a, @b (equal but for names)  ->  { object of f, object of the one body of a and b }
//
// An internal function is compiled under a symbol that is the hash of its canonical text, target and options: so its
// object serves every module, and a cache may keep it under that name.
#pragma once
#include <string>
#include <vector>

#include "backends/canonical_func.h"
#include "backends/object_cache.h"
#include "cinn_like/base/flags.h"
#include "cinn_like/base/target.h"
#include "ir/stmt.h"

namespace cinn_like {

struct HostObjects {
  std::vector<std::string> objects;
  CalleeNames symbols;  // of each host function of the module
  int functions = 0;    // internal functions of the module
  int unique = 0;       // those that are different
  int cached = 0;       // of these, how many came from the cache
};
// Entries keep their names. `cache` may be null.
StatusOr<HostObjects> CompileHostModule(const ir::Module& module, const Target& target, const CompileOptions& options,
                                        ObjectCache* cache);

enum class HostText { kLlvm, kAssembly, kObject };
// The whole module as one text or object, under the module's own names.
StatusOr<std::string> EmitHostModule(const ir::Module& module, const Target& target, const CompileOptions& options,
                                     HostText kind);
// Writes the object to a file.
Status ExportHostObject(const ir::Module& module, const Target& target, const CompileOptions& options,
                        const std::string& path);

}  // namespace cinn_like
