#include "ir/clone.h"

namespace cinn_like::ir {

Stmt CloneFresh(Context& c, const Stmt& s, NameSupply& names, const VarMap& map, std::string_view suffix) {
  VarMap vars = map;
  BufferMap buffers;
  absl::flat_hash_map<std::string, std::string> blocks;
  const auto fresh_name = [&](const std::string& name) { return names.Fresh(Cat(name, suffix)); };
  auto fresh = [&](Expr v) { vars[v] = c.Var(fresh_name(v->name), v->type); };
  VisitStmts(s, [&](const Stmt& x) {
    if (const For* n = As<For>(x)) fresh(n->var);
    if (const Let* n = As<Let>(x)) fresh(n->var);
    if (const Block* n = As<Block>(x)) {
      blocks[n->name] = fresh_name(n->name);
      for (const BlockIter& i : n->iters) fresh(i.var);
    }
    if (const Alloc* n = As<Alloc>(x)) {
      BufferNode b = *n->buffer;
      b.name = fresh_name(b.name);
      for (Expr& e : b.shape) e = Substitute(c, e, vars);
      for (Expr& e : b.strides) e = Substitute(c, e, vars);
      buffers[n->buffer] = c.MakeBuffer(std::move(b));
    }
    return true;
  });
  Stmt r = Substitute(c, s, vars);
  if (!buffers.empty()) r = ReplaceBuffers(c, r, buffers);
  auto var = [&](Expr v) {
    auto it = vars.find(v);
    return it == vars.end() ? v : it->second;
  };
  return RewriteStmts(r, [&](const Stmt& x) -> Stmt {
    if (const For* n = As<For>(x)) return MakeStmt(For{var(n->var), n->extent, n->kind, n->body});
    if (const Let* n = As<Let>(x)) return MakeStmt(Let{var(n->var), n->value});
    if (const Block* n = As<Block>(x)) {
      Block b = *n;
      b.name = blocks[b.name];
      for (BlockIter& i : b.iters) i.var = var(i.var);
      return MakeStmt(std::move(b));
    }
    return nullptr;
  });
}

}  // namespace cinn_like::ir
