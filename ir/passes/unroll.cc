#include "ir/passes/unroll.h"

#include <algorithm>

#include "ir/clone.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMaxStmts = 1 << 14;

int64_t CountStmts(const Stmt& s) {
  int64_t n = 0;
  VisitStmts(s, [&](const Stmt&) { return ++n <= kMaxStmts; });
  return n;
}

}  // namespace

StatusOr<Func> Unroll(Func f) {
  Context& c = *f.context;
  NameSupply names(f);
  f.body = RewriteStmts(f.body, [&](const Stmt& s) -> Stmt {
    const For* n = As<For>(s);
    if (n == nullptr || n->kind != ForKind::kUnrolled) return nullptr;
    const bool fits = IsInt(n->extent) && n->extent->int_value <= kMaxStmts / std::max<int64_t>(CountStmts(n->body), 1);
    if (!fits) return MakeStmt(For{n->var, n->extent, ForKind::kSerial, n->body});
    std::vector<Stmt> copies;
    for (int64_t i = 0; i < n->extent->int_value; ++i) {
      const VarMap at{{n->var, c.Int(i, n->var->type.dtype)}};
      copies.push_back(i == 0 ? Substitute(c, n->body, at) : CloneFresh(c, n->body, names, at));
    }
    return MakeSeq(std::move(copies));
  });
  return f;
}

}  // namespace cinn_like::ir
