// Machine code in this process: objects go in, addresses come out, and each group of objects can be freed.
//
//   JitCode code = JitCode::Load("mlp", objects, symbols);  code.Lookup("mlp")  ->  address; ~JitCode frees the code
//
// One engine per process and listener, made at first use; thread-safe. A listener ("gdb", "perf") is told of new code.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cinn_like/base/status.h"

namespace cinn_like {

using SymbolAddresses = std::vector<std::pair<std::string, void*>>;

// A group of objects linked with each other and with `symbols`: one compiled subgraph.
class JitCode {
 public:
  // The objects' bytes are copied. An unresolved symbol is an error that names it.
  static StatusOr<std::unique_ptr<JitCode>> Load(std::string_view name, std::span<const std::string> objects,
                                                 const SymbolAddresses& symbols, std::string_view listener = "");
  ~JitCode();
  JitCode(const JitCode&) = delete;
  JitCode& operator=(const JitCode&) = delete;

  // Null if the objects define no such symbol.
  void* Lookup(std::string_view symbol) const;

 private:
  struct Impl;
  explicit JitCode(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cinn_like
