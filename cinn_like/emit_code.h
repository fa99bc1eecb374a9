// What a lowered module becomes, as text or bytes, of every kind that its device has:
//
//   EmitCode({module, "mlp", "mlp_prepare"}, context, device, "ptx", "graph, loops")
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "backends/device.h"
#include "cinn_like/base/pass_pipeline.h"
#include "ir/stmt.h"

namespace cinn_like {

struct EntryModule {
  const ir::Module& module;
  std::string main, prepare;  // names of the entries; `prepare` may be empty
};
// "llvm", "asm", "object" (but of what leaves as source), for CPUs "c", for a device with kernels what its compiler
// makes ("cuda", "ptx"). NotFound lists the kinds there are, after those that the caller has besides.
StatusOr<std::string> EmitCode(const EntryModule& code, const PassContext& context, const Device& device,
                               std::string_view kind, std::string kinds);

}  // namespace cinn_like
