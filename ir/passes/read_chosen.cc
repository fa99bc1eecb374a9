#include "ir/passes/read_chosen.h"

#include "ir/clone.h"

namespace cinn_like::ir {
namespace {

// What is read for `root`: all of it, or without operand `k` of `choice`, by whatever way there.
absl::flat_hash_set<Expr> LoadsFor(Expr root, Expr choice = nullptr, size_t k = 0) {
  absl::flat_hash_set<Expr> loads, seen = {root};
  std::vector<Expr> stack = {root};
  while (!stack.empty()) {
    const Expr e = stack.back();
    stack.pop_back();
    if (e->op == ExprOp::kLoad) loads.insert(e);
    for (size_t i = 0; i < e->args.size(); ++i) {
      if ((e != choice || i != k) && e->args[i]->reads && seen.insert(e->args[i]).second) stack.push_back(e->args[i]);
    }
  }
  return loads;
}

Expr ReadChosen(Context& c, Expr root, Expr lane) {
  std::vector<Expr> choices, reads;
  Visit(root, [&](Expr e) {
    if (e->op == ExprOp::kSelect && e->type.lanes == 1 && !Uses(e->args[0], lane)) choices.push_back(e);
    return e->reads;
  });
  if (choices.empty()) return root;
  for (Expr load : LoadsFor(root)) {
    if (load->buffer->scope == Scope::kGlobal && Uses(load, lane)) reads.push_back(load);
  }
  absl::flat_hash_map<Expr, Expr> chosen;  // load -> the condition
  for (Expr choice : choices) {
    for (size_t k : {1, 2}) {
      const absl::flat_hash_set<Expr> elsewhere = LoadsFor(root, choice, k);
      for (Expr load : reads) {
        if (elsewhere.contains(load)) continue;
        const Expr condition = k == 1 ? choice->args[0] : c.Not(choice->args[0]);
        Expr& all = chosen[load];
        all = all == nullptr ? condition : c.And(all, condition);
      }
    }
  }
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr e) -> Expr {
    if (!e->reads) return e;
    const auto it = chosen.find(e);
    if (it == chosen.end()) return nullptr;
    std::vector<Expr> indices = IndicesOf(e);
    for (Expr& i : indices) i = (*self)(i);
    const Expr own = MaskOf(e);
    return c.Load(e->buffer, std::move(indices), own == nullptr ? it->second : c.And(it->second, (*self)(own)));
  });
  self = &rewrite;
  return rewrite(root);
}

Stmt Walk(Context& c, const Stmt& s) {
  const For* n = As<For>(s);
  if (n != nullptr && n->kind == ForKind::kVectorized)
    return RewriteExprs(c, s, [&](Expr e) { return ReadChosen(c, e, n->var); });
  return MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return Walk(c, x); });
}

}  // namespace

StatusOr<Func> ReadChosen(Func f) {
  f.body = Walk(*f.context, f.body);
  return f;
}

}  // namespace cinn_like::ir
