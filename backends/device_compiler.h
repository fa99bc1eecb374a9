// What a device target adds to a host compiler: kernels -> source text -> code for devices.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/object_cache.h"
#include "backends/source_hooks.h"
#include "cinn_like/base/flags.h"
#include "cinn_like/base/target.h"
#include "ir/stmt.h"
#include "runtime/kernel_images.h"

namespace cinn_like {

class DeviceCompiler {
 public:
  virtual ~DeviceCompiler() = default;
  // Source text of the module's kernels, for people: equal kernels once.
  virtual StatusOr<std::string> EmitSource(const ir::Module& module) = 0;
  // Compiles the kernels, from `source` where it is not empty: it must define each under its name, or under the one
  // that EmitSource gave it. Needs no device.
  virtual StatusOr<KernelImages> Compile(const ir::Module& module, std::string_view source) = 0;

  // The same kernels, in the same order, in forms that other devices of the kind take, too, for files that leave this
  // machine (backends/library.h): those that more devices take last.
  virtual StatusOr<std::vector<KernelImages>> CompileForOthers(const ir::Module&) {
    return std::vector<KernelImages>();
  }

  // What can be had of a module's kernels: the language of EmitSource first, then what Emit knows. "cuda", "ptx",
  // "cubin".
  virtual std::vector<std::string> Forms() const = 0;
  // All kernels of the module, or of `source` where it is not empty, in one of the forms but the first. NotFound where
  // there are no kernels.
  virtual StatusOr<std::string> Emit(const ir::Module& module, std::string_view form, std::string_view) {
    return absl::NotFoundError(Cat("no form '", form, "' of the ", module.funcs.size(), " functions"));
  }

  // SourceHooks::compile, from now on. InvalidArgument where there is no such compiler to replace.
  virtual Status ReplaceCompiler(std::function<StatusOr<std::string>(const CompileRequest&)>) {
    return InvalidArgument("there is no compiler of ", Forms()[0], " source to replace");
  }
};

}  // namespace cinn_like
