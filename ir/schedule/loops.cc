// The primitives that reshape loops: split, fuse, reorder, merge and the loop kinds.
#include <algorithm>

#include "ir/schedule/primitives.h"
#include "ir/schedule/region.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

Status CheckNewNames(const Func& f, const std::vector<std::string>& names) {
  NameSupply used(f);
  for (const std::string& n : names) {
    if (used.Fresh(n) != n) return InvalidArgument("the name '", n, "' is already used in @", f.name);
  }
  return absl::OkStatus();
}

// Every block below also requires `cond`.
Stmt AddPredicate(Context& c, const Stmt& s, Expr cond) {
  return RewriteStmts(s, [&](const Stmt& x) -> Stmt {
    const Block* n = As<Block>(x);
    if (n == nullptr) return nullptr;
    Block b = *n;
    b.predicate = b.predicate == nullptr ? cond : c.And(b.predicate, cond);
    return MakeStmt(std::move(b));
  });
}

constexpr int64_t kMaxTile = int64_t{1} << 40;

}  // namespace

StatusOr<Func> Split(Func f, const std::string& loop, const std::vector<int64_t>& factors,
                     const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(StmtPath path, FindLoop(f, loop));
  const For& n = *As<For>(path.back());
  if (n.kind != ForKind::kSerial) return InvalidArgument("split ", loop, ": the loop is already ", Name(n.kind));
  if (factors.empty() || names.size() != factors.size() + 1) {
    return InvalidArgument("split ", loop, ": ", factors.size(), " factors need ", factors.size() + 1, " names, got ",
                           names.size());
  }
  int64_t tile = 1;
  for (int64_t k : factors) {
    if (k < 1) return InvalidArgument("split ", loop, ": factor ", k, " is not positive");
    // Extents and bounds of the new loops stay far from overflow.
    if (k > kMaxTile / tile) return InvalidArgument("split ", loop, ": the factors' product is beyond ", kMaxTile);
    tile *= k;
  }
  RETURN_IF_ERROR(CheckNewNames(f, names));
  Context& c = *f.context;
  Expr value = c.Int(0);
  int64_t weight = tile;
  std::vector<Expr> vars;
  for (size_t i = 0; i < names.size(); ++i) {
    vars.push_back(c.Var(names[i]));
    value = c.Add(value, c.Mul(vars[i], c.Int(weight)));
    if (i < factors.size()) weight /= factors[i];
  }
  Analyzer a(c);
  BindFacts(a, f, LoopsOf(path));
  Stmt body = Substitute(c, n.body, {{n.var, value}});
  if (!a.CanProve(c.Eq(c.Mod(n.extent, c.Int(tile)), c.Int(0)))) body = AddPredicate(c, body, c.Lt(value, n.extent));
  for (size_t i = names.size(); i-- > 0;) {
    Expr extent = i == 0 ? a.Simplify(c.CeilDiv(n.extent, c.Int(tile))) : c.Int(factors[i - 1]);
    body = MakeStmt(For{vars[i], extent, ForKind::kSerial, body});
  }
  f.body = Replace(f.body, path.back(), body);
  return SimplifyBindings(std::move(f));
}

StatusOr<Func> Fuse(Func f, const std::vector<std::string>& loops, const std::string& name) {
  if (loops.empty()) return InvalidArgument("fuse: no loops");
  ASSIGN_OR_RETURN(StmtPath path, FindLoop(f, loops[0]));
  RETURN_IF_ERROR(CheckNewNames(f, {name}));
  Context& c = *f.context;
  std::vector<const For*> chain;
  Stmt s = path.back();
  for (size_t i = 0; i < loops.size(); ++i) {
    const For* n = As<For>(s);
    if (n == nullptr || n->var->name != loops[i]) {
      return InvalidArgument("fuse: the body of loop ", loops[i - 1], " is not just loop ", loops[i]);
    }
    if (n->kind != ForKind::kSerial) return InvalidArgument("fuse: loop ", loops[i], " is already ", Name(n->kind));
    chain.push_back(n);
    s = n->body;
  }
  Expr var = c.Var(name), extent = c.Int(1), rest = var;
  VarMap map;
  for (size_t i = chain.size(); i-- > 0;) {
    map[chain[i]->var] = i == 0 ? rest : c.Mod(rest, chain[i]->extent);
    rest = c.Div(rest, chain[i]->extent);
    extent = c.Mul(chain[i]->extent, extent);
  }
  f.body = Replace(f.body, path.back(), MakeStmt(For{var, extent, ForKind::kSerial, Substitute(c, s, map)}));
  return SimplifyBindings(std::move(f));
}

StatusOr<Func> Reorder(Func f, const std::vector<std::string>& loops) {
  if (loops.size() < 2) return f;
  // The outermost of them, then the chain of perfectly nested loops below it that holds all.
  StmtPath path;
  for (const std::string& name : loops) {
    ASSIGN_OR_RETURN(StmtPath p, FindLoop(f, name));
    if (path.empty() || p.size() < path.size()) path = std::move(p);
  }
  std::vector<const For*> chain;
  size_t found = 0;
  Stmt s = path.back();
  while (found < loops.size()) {
    const For* n = As<For>(s);
    if (n == nullptr)
      return InvalidArgument("reorder: the loops ", loops[0], ", ... are not one perfect nest:\n", Print(path.back()));
    chain.push_back(n);
    found += std::count(loops.begin(), loops.end(), n->var->name);
    s = n->body;
  }
  std::vector<const For*> order = chain;
  size_t next = 0;
  for (const For*& slot : order) {
    if (std::count(loops.begin(), loops.end(), slot->var->name) == 0) continue;
    for (const For* n : chain) {
      if (n->var->name == loops[next]) {
        slot = n;
        break;
      }
    }
    ++next;
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i; j < order.size(); ++j) {
      if (j > i && Uses(order[i]->extent, order[j]->var)) {
        return InvalidArgument("reorder: the extent of ", order[i]->var->name, " depends on ", order[j]->var->name);
      }
    }
  }
  for (size_t i = order.size(); i-- > 0;) s = MakeStmt(For{order[i]->var, order[i]->extent, order[i]->kind, s});
  f.body = Replace(f.body, path.back(), s);
  return f;
}

StatusOr<Func> SetKind(Func f, const std::string& loop, ForKind kind) {
  ASSIGN_OR_RETURN(StmtPath path, FindLoop(f, loop));
  For n = *As<For>(path.back());
  if (n.kind != ForKind::kSerial) return InvalidArgument(Name(kind), " ", loop, ": the loop is already ", Name(n.kind));
  if ((kind == ForKind::kVectorized || kind == ForKind::kUnrolled || IsThreadAxis(kind)) && !IsInt(n.extent)) {
    return InvalidArgument(Name(kind), " ", loop, ": the extent ", Print(n.extent), " is not constant");
  }
  if ((kind == ForKind::kParallel || IsBlockAxis(kind)) && IsReductionLoop(n)) {
    return InvalidArgument(Name(kind), " ", loop, ": the loop carries a reduction:\n", Print(path.back()));
  }
  n.kind = kind;
  f.body = Replace(f.body, path.back(), MakeStmt(std::move(n)));
  return f;
}

StatusOr<Func> Merge(Func f, const std::vector<std::string>& loops) {
  if (loops.size() < 2) return f;
  Context& c = *f.context;
  std::vector<StmtPath> paths;
  for (const std::string& name : loops) {
    ASSIGN_OR_RETURN(StmtPath p, FindLoop(f, name));
    if (!paths.empty() &&
        (p.size() != paths[0].size() || (p.size() > 1 && p[p.size() - 2] != paths[0][p.size() - 2]))) {
      return InvalidArgument("merge: ", name, " and ", loops[0], " are not siblings");
    }
    paths.push_back(std::move(p));
  }
  const For& first = *As<For>(paths[0].back());
  Analyzer a(c);
  BindFacts(a, f, LoopsOf(paths[0]));
  std::vector<Stmt> bodies;
  // For each buffer written so far, what one iteration writes of each dimension.
  struct Part {
    std::optional<Span> span;
    Expr index;  // with the inner loops numbered
  };
  absl::flat_hash_map<Buffer, std::vector<Part>> written;
  for (size_t i = 0; i < paths.size(); ++i) {
    const For& n = *As<For>(paths[i].back());
    if (!a.CanProve(c.Eq(n.extent, first.extent))) {
      return InvalidArgument("merge: the extents of ", loops[0], " and ", loops[i], " differ: ", Print(first.extent),
                             " and ", Print(n.extent));
    }
    if (n.kind != first.kind) return InvalidArgument("merge: ", loops[0], " and ", loops[i], " are of different kinds");
    Func body = f;
    body.body = Substitute(c, n.body, {{n.var, first.var}});
    for (const StmtPath& path : FindBlocks(body)) {
      const Block& b = *As<Block>(path.back());
      absl::flat_hash_map<Expr, Expr> inner;
      VarMap numbered;
      for (const For* l : LoopsOf(path)) {
        numbered[l->var] = c.Var(Cat("#", inner.size(), " in ", Print(l->extent)));
        inner[l->var] = l->extent;
        a.BindRange(l->var, c.Int(0), l->extent);
      }
      const VarMap bindings = Bindings(b);
      auto part_of = [&](Expr e) {
        const Expr index = a.Simplify(Substitute(c, e, bindings));
        return Part{SpanOf(a, index, inner), Substitute(c, index, numbered)};
      };
      auto moves = [&](const Part& p) { return !p.span || Uses(p.span->min, first.var); };
      // A dimension that the merged variable moves must be read where the same iteration has written.
      Status status;
      auto check = [&](Expr load) {
        auto it = written.find(load->buffer);
        for (size_t d = 0; it != written.end() && d < it->second.size(); ++d) {
          const Part read = part_of(load->args[d]), write = it->second[d];
          if ((!moves(read) && !moves(write)) || read.index == write.index) continue;
          if (read.span && write.span && read.span->min == write.span->min &&
              a.CanProve(c.Le(read.span->extent, write.span->extent)))
            continue;
          status = InvalidArgument("merge: block ", b.name, " reads ", load->buffer->name, " at ", Print(load->args[d]),
                                   " in dimension ", d, ", which is not what the same iteration of ", first.var->name,
                                   " has written");
        }
      };
      ForEachExpr(b.body, [&](Expr e) {
        Visit(e, [&](Expr x) {
          if (x->op == ExprOp::kLoad) check(x);
          return true;
        });
      });
      RETURN_IF_ERROR(status);
      VisitStmts(b.body, [&](const Stmt& x) {
        if (const Store* st = As<Store>(x)) {
          std::vector<Part> parts;
          for (Expr e : st->indices) parts.push_back(part_of(e));
          written[st->buffer] = std::move(parts);
        }
        return true;
      });
    }
    bodies.push_back(body.body);
  }
  // What stands between the loops (allocations apart) must not be passed over.
  for (size_t i = 1; i < paths.size(); ++i) f.body = Replace(f.body, paths[i].back(), MakeSeq({}));
  f.body =
      Replace(f.body, paths[0].back(), MakeStmt(For{first.var, first.extent, first.kind, MakeSeq(std::move(bodies))}));
  return SimplifyBindings(std::move(f));
}

}  // namespace cinn_like::ir
