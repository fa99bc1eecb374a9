#include "cinn_like/base/runtime_calls.h"

#include <algorithm>
#include <vector>

namespace cinn_like {
namespace {

struct Row {
  std::string_view name, signature, effects;
  int64_t workspace_bytes;
};
constexpr Row kRows[] = {
#define X(name, signature, effects, workspace) {#name, signature, effects, workspace},
#include "cinn_like/base/runtime_calls.def"
#undef X
};

CallType TypeOf(std::string_view word) {
  return word == "i32"   ? CallType::kI32
         : word == "i64" ? CallType::kI64
         : word == "ptr" ? CallType::kPtr
                         : CallType::kVoid;
}

struct Table {
  std::vector<RuntimeCall> calls;
  std::vector<std::vector<CallType>> params;
  Table() {
    for (const Row& row : kRows) {
      const size_t open = row.signature.find('(');
      std::vector<CallType> types;
      for (size_t at = open + 1; at < row.signature.size();) {
        const size_t end = row.signature.find_first_of(",)", at);
        types.push_back(TypeOf(row.signature.substr(at, end - at)));
        at = end + 1;
      }
      params.push_back(std::move(types));
      calls.push_back({row.name, row.signature, row.effects, row.workspace_bytes, TypeOf(row.signature.substr(0, open)),
                       params.back()});
    }
  }
};

}  // namespace

const RuntimeCall* FindRuntimeCall(std::string_view name) {
  static const Table* table = new Table;
  const auto at = std::find_if(table->calls.begin(), table->calls.end(), [&](const auto& c) { return c.name == name; });
  return at == table->calls.end() ? nullptr : &*at;
}

}  // namespace cinn_like
