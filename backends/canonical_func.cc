#include "backends/canonical_func.h"

namespace cinn_like {

ir::Func CanonicalFunc(const ir::Func& func) {
  absl::flat_hash_map<std::string, std::string> names;
  ir::Func r = ir::CloneInto(func, std::make_shared<ir::Context>(), [&](const std::string& name) {
    return names.try_emplace(name, Cat("v", names.size())).first->second;
  });
  r.name = "f";
  return r;
}

ir::Func RenameCallees(ir::Func func, const CalleeNames& names) {
  func.body = ir::RewriteStmts(func.body, [&](const ir::Stmt& s) -> ir::Stmt {
    const auto* call = ir::As<ir::Call>(s);
    auto it = call == nullptr || call->is_runtime ? names.end() : names.find(call->callee);
    if (it == names.end()) return nullptr;
    ir::Call r = *call;
    r.callee = it->second;
    return ir::MakeStmt(std::move(r));
  });
  return func;
}

}  // namespace cinn_like
