// The primitives about blocks and memory: inline, stage, scope, split_init, pad, implement.
#include <algorithm>

#include "ir/schedule/primitives.h"
#include "ir/schedule/tree.h"
#include "ir/te.h"

namespace cinn_like::ir {
namespace {

bool IsParam(const Func& f, Buffer b) {
  return std::any_of(f.params.begin(), f.params.end(), [&](const Param& p) { return p.buffer == b; });
}

Stmt RemoveAlloc(const Stmt& s, Buffer b) {
  return RewriteStmts(s, [&](const Stmt& x) -> Stmt {
    const Alloc* a = As<Alloc>(x);
    return a != nullptr && a->buffer == b ? MakeSeq({}) : nullptr;
  });
}

}  // namespace

StatusOr<Func> Inline(Func f, const std::string& block) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(StmtPath path, FindBlock(f, block));
  const Block b = *As<Block>(path.back());
  const Store* store = As<Store>(b.body);
  if (b.init != nullptr || store == nullptr)
    return InvalidArgument("inline ", block, ": only a block of one store without reduction can be inlined");
  if (IsParam(f, store->buffer)) return InvalidArgument("inline ", block, ": ", store->buffer->name, " is a result");
  for (size_t d = 0; d < store->indices.size(); ++d) {
    if (store->indices[d] != b.iters[d].var)
      return InvalidArgument("inline ", block, ": it does not write at its iterators");
  }
  const Buffer buffer = store->buffer;
  Expr value = store->value;
  f.body = RemoveAlloc(Replace(f.body, WholeNest(path), MakeSeq({})), buffer);
  std::vector<Expr> iters;
  for (const BlockIter& i : b.iters) iters.push_back(i.var);
  std::function<Stmt(const Stmt&)> go = [&](const Stmt& s) {
    return MapChildren(s, [&](Expr e) { return InlineLoads(c, e, buffer, iters, value); }, go);
  };
  f.body = go(f.body);
  return f;
}

StatusOr<Func> StageBuffer(Func f, const std::string& buffer, const std::string& block, const std::string& name) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(Buffer from, FindBuffer(f, buffer));
  ASSIGN_OR_RETURN(StmtPath path, FindBlock(f, block));
  NameSupply names(f);
  if (names.Fresh(name) != name) return InvalidArgument("stage ", buffer, ": the name '", name, "' is already used");
  Buffer to = c.MakeBuffer({.name = name, .dtype = from->dtype, .shape = from->shape});
  Block copy;
  copy.name = names.Fresh(name + "_copy");
  std::vector<Expr> at;
  std::vector<std::pair<Expr, Expr>> loops;
  for (size_t d = 0; d < from->shape.size(); ++d) {
    Expr var = c.Var(names.Fresh(Cat("v", d, "_", name))), loop = c.Var(names.Fresh(Cat("l", d, "_", name)));
    copy.iters.push_back({var, from->shape[d], IterKind::kData, loop});
    loops.emplace_back(loop, from->shape[d]);
    at.push_back(var);
  }
  copy.body = MakeStmt(Store{to, at, c.Load(from, at)});
  Stmt nest = MakeStmt(std::move(copy));
  for (size_t d = loops.size(); d-- > 0;) nest = MakeStmt(For{loops[d].first, loops[d].second, ForKind::kSerial, nest});
  // Reads only: a reduction's own accumulator stays.
  const std::vector<Buffer> written = BuffersWritten(path.back());
  if (std::find(written.begin(), written.end(), from) != written.end()) {
    return InvalidArgument("stage ", buffer, ": block ", block, " writes it");
  }
  const std::vector<Buffer> read = BuffersRead(path.back());
  if (std::find(read.begin(), read.end(), from) == read.end())
    return InvalidArgument("stage ", buffer, ": block ", block, " does not read it");
  const Stmt reader = ReplaceBuffers(c, path.back(), {{from, to}});
  const Stmt top = path.size() > 1 && As<Seq>(path[0]) != nullptr ? path[1] : path[0];
  const Stmt changed = Replace(top, path.back(), reader);
  f.body = MakeSeq({MakeStmt(Alloc{to}), Replace(f.body, top, MakeSeq({nest, changed}))});
  return f;
}

StatusOr<Func> SetScope(Func f, const std::string& buffer, Scope scope) {
  ASSIGN_OR_RETURN(Buffer b, FindBuffer(f, buffer));
  if (IsParam(f, b)) return InvalidArgument("scope ", buffer, ": it is a parameter");
  BufferNode n = *b;
  n.scope = scope;
  f.body = ReplaceBuffers(*f.context, f.body, {{b, f.context->MakeBuffer(std::move(n))}});
  return f;
}

StatusOr<Func> Implement(Func f, const std::string& call) {
  ASSIGN_OR_RETURN(const Stmt s, ParseStmtOf(f, call));
  const Call* parsed = As<Call>(s);
  if (parsed == nullptr || !parsed->is_runtime || parsed->meaning != nullptr)
    return InvalidArgument("implement: expected a call of a runtime function and got '", call, "'");
  Call implementation = *parsed;
  implementation.meaning = f.body;
  f.body = MakeStmt(std::move(implementation));
  return f;
}

StatusOr<Func> Pad(Func f, const std::string& block) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(StmtPath path, FindBlock(f, block));
  Block b = *As<Block>(path.back());
  for (Buffer w : BuffersWritten(b.body)) {
    if (IsParam(f, w)) return InvalidArgument("pad ", block, ": its result ", w->name, " is a parameter");
  }
  if (b.predicate == nullptr) return f;
  Analyzer a(c);
  BindFacts(a, f, LoopsOf(path));
  // The iterators that may run over: their reads are kept inside.
  absl::flat_hash_map<Expr, Expr> extents;
  for (const BlockIter& i : b.iters) {
    if (a.CanProve(c.Lt(i.binding, i.extent))) continue;
    if (i.kind == IterKind::kReduce)
      return InvalidArgument("pad ", block, ": reduction iterator ", i.var->name, " would run over");
    extents[i.var] = i.extent;
  }
  auto keep_inside = [&](Expr load) -> Expr {
    std::vector<Expr> indices = IndicesOf(load);
    Expr mask = MaskOf(load);
    for (const auto& [var, extent] : extents) {
      const bool along_last = !indices.empty() && Uses(indices.back(), var);
      if (along_last) {
        const Expr inside = c.Lt(var, extent);
        mask = mask == nullptr ? inside : c.And(mask, inside);
      } else {
        for (Expr& i : indices) i = Substitute(c, i, {{var, c.Min(var, c.Sub(extent, c.Int(1)))}});
      }
    }
    return c.Load(load->buffer, std::move(indices), mask);
  };
  auto reads = [&](Expr e) -> Expr {
    if (e->op != ExprOp::kLoad || !IsParam(f, e->buffer)) return nullptr;
    return keep_inside(e);
  };
  b.body = RewriteExprs(c, b.body, reads);
  b.predicate = nullptr;
  f.body = Replace(f.body, path.back(), MakeStmt(std::move(b)));
  return f;
}

StatusOr<Func> SplitInit(Func f, const std::string& block, const std::string& loop, const std::string& name) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(StmtPath path, FindBlock(f, block));
  Block b = *As<Block>(path.back());
  if (b.init == nullptr) return InvalidArgument("split_init ", block, ": the block has no init");
  size_t depth = 0;
  while (depth < path.size() && !(As<For>(path[depth]) != nullptr && As<For>(path[depth])->var->name == loop)) ++depth;
  if (depth == path.size()) return InvalidArgument("split_init ", block, ": it is not inside loop ", loop);
  NameSupply names(f);
  if (names.Fresh(name) != name)
    return InvalidArgument("split_init ", block, ": the name '", name, "' is already used");
  auto carries = [&](Expr var) {
    return std::any_of(b.iters.begin(), b.iters.end(),
                       [&](const BlockIter& i) { return i.kind == IterKind::kReduce && Uses(i.binding, var); });
  };
  for (size_t k = 0; k < depth; ++k) {
    const For* n = As<For>(path[k]);
    if (n != nullptr && carries(n->var)) {
      return InvalidArgument("split_init ", block, " ", loop, ": loop ", n->var->name,
                             " outside of it carries the reduction");
    }
  }
  // The data loops from `loop` inwards, again, around a block that only starts the accumulators.
  Block init;
  init.name = name;
  init.predicate = nullptr;
  VarMap vars, loop_vars;
  std::vector<For> loops;
  for (size_t k = depth; k < path.size(); ++k) {
    const For* n = As<For>(path[k]);
    if (n == nullptr || carries(n->var)) continue;
    bool used = false;
    for (const BlockIter& i : b.iters) used |= i.kind == IterKind::kData && Uses(i.binding, n->var);
    if (!used) continue;
    Expr var = c.Var(names.Fresh(n->var->name + "_init"));
    loop_vars[n->var] = var;
    loops.push_back({var, n->extent, n->kind, nullptr});
  }
  for (const BlockIter& i : b.iters) {
    if (i.kind != IterKind::kData) continue;
    Expr var = c.Var(names.Fresh(i.var->name + "_init"));
    vars[i.var] = var;
    init.iters.push_back({var, i.extent, IterKind::kData, Substitute(c, i.binding, loop_vars)});
  }
  init.body = Substitute(c, b.init, vars);
  if (b.predicate != nullptr) {
    // Only the conditions on data loops are the init's.
    std::function<void(Expr)> conditions = [&](Expr e) {
      if (e->op == ExprOp::kAnd) {
        for (Expr x : e->args) conditions(x);
        return;
      }
      for (Expr v : VarsOf(e)) {
        if (carries(v)) return;
      }
      Expr p = Substitute(c, e, loop_vars);
      init.predicate = init.predicate == nullptr ? p : c.And(init.predicate, p);
    };
    conditions(b.predicate);
  }
  Stmt nest = MakeStmt(std::move(init));
  for (size_t k = loops.size(); k-- > 0;) nest = MakeStmt(For{loops[k].var, loops[k].extent, loops[k].kind, nest});
  b.init = nullptr;
  const Stmt update = Replace(path[depth], path.back(), MakeStmt(std::move(b)));
  f.body = Replace(f.body, path[depth], MakeSeq({nest, update}));
  return SimplifyBindings(std::move(f));
}

}  // namespace cinn_like::ir
