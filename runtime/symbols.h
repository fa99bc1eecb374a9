// Names that generated code may refer to -> addresses. A value: a compiler starts from the runtime's own functions and
// adds its kernels; several compilers never share names. Any thread may use one.
#pragma once
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"

namespace cinn_like {

class RuntimeSymbols {
 public:
  // Holds every function of runtime_calls.def.
  RuntimeSymbols();

  // AlreadyExists if the name has another address.
  Status Add(std::string_view name, void* address);
  void Remove(std::string_view name);
  void* Find(std::string_view name) const;  // null: none
  std::vector<std::pair<std::string, void*>> All() const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, void*, std::less<>> symbols_;
};

}  // namespace cinn_like
