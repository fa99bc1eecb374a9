// The step pad (primitives.h): a block computes beyond its bounds, so that tiles need no branches.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "ir/join.h"
#include "ir/schedule/legality.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

using VarSet = absl::flat_hash_set<Expr>;

// Whether a block may compute beyond the ends of these iterators: what it writes there is beyond the ends of its
// results, and computing it is harmless where none of the sizes that are given back is 0: it divides by them, as it
// does within the ends, where there may be no element.
StatusOr<std::vector<Expr>> CheckPads(Analyzer& a, const Func& f, const Block& b,
                                      const std::vector<std::pair<Expr, Expr>>& extents) {
  Context& c = a.context();
  Status status;
  std::vector<Expr> sizes;
  const auto is_size = [&](Expr e) {
    const std::vector<Expr> vars = VarsOf(e);
    return !e->reads && std::all_of(vars.begin(), vars.end(), [&](Expr v) {
      return std::any_of(f.symbols.begin(), f.symbols.end(), [&](const SymbolFact& s) { return s.var == v; });
    });
  };
  auto refuse = [&](const auto&... why) {
    if (status.ok()) status = InvalidArgument("pad ", b.name, ": ", why...);
  };
  Analyzer beyond(c);  // where iterators are not negative, and that is all
  for (const SymbolFact& s : f.symbols) beyond.BindSymbol(s);
  for (const BlockIter& i : b.iters) beyond.BindRange(i.var, c.Int(0), c.Int(int64_t{1} << 40));
  auto check = [&](const Stmt& s) {
    const Store* n = As<Store>(s);
    for (const auto& [var, extent] : extents) {
      if (n == nullptr) break;
      // An index that grows with it, and is out of range where it is.
      bool is_beyond = false;
      for (size_t d = 0; d < n->indices.size() && !is_beyond; ++d) {
        const Expr at = n->indices[d];
        if (!Uses(at, var)) continue;
        const Expr step = c.Sub(Substitute(c, at, {{var, c.Add(var, c.Int(1))}}), at);
        is_beyond = beyond.CanProve(c.Le(c.Int(0), step)) &&
                    beyond.CanProve(c.Le(n->buffer->shape[d], Substitute(c, at, {{var, extent}})));
      }
      if (!is_beyond)
        refuse("beyond ", Print(extent), ", ", var->name, " would write other elements of ", n->buffer->name);
    }
    ForEachChild(
        s,
        [&](Expr e) {
          Visit(e, [&](Expr x) {
            const bool divides = (x->op == ExprOp::kDiv || x->op == ExprOp::kMod) && !IsFloat(x->type.dtype);
            if (!divides || IsInt(x->args[1]) || a.CanProve(c.Lt(c.Int(0), x->args[1]))) return true;
            if (!is_size(x->args[1]))
              refuse("it divides by what may be 0 beyond its bounds: ", Print(x));
            else if (std::find(sizes.begin(), sizes.end(), x->args[1]) == sizes.end())
              sizes.push_back(x->args[1]);
            return true;
          });
        },
        [](const Stmt&) {});
    return status.ok();
  };
  VisitStmts(b.body, check);
  if (b.init != nullptr) VisitStmts(b.init, check);
  RETURN_IF_ERROR(status);
  return sizes;
}

}  // namespace

StatusOr<Func> Pad(Func f, const std::string& block, const std::vector<std::string>& names) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(StmtPath path, FindBlock(f, block));
  Block b = *As<Block>(path.back());
  // Iterators that may run over, and loops whose iterations that lie beyond are left out.
  absl::flat_hash_set<std::string> iters, whole;
  for (const std::string& name : names) {
    const bool is_iter =
        std::any_of(b.iters.begin(), b.iters.end(), [&](const BlockIter& i) { return i.var->name == name; });
    const std::vector<const For*> loops = LoopsOf(path);
    if (!is_iter && std::none_of(loops.begin(), loops.end(), [&](const For* n) { return n->var->name == name; })) {
      return InvalidArgument(
          "pad ", block, ": '", name, "' is none of its iterators, ",
          absl::StrJoin(b.iters, ", ", [](std::string* out, const BlockIter& i) { *out += i.var->name; }),
          ", and no loop around it");
    }
    (is_iter ? iters : whole).insert(name);
  }
  for (Buffer w : BuffersWritten(b.body)) {
    if (IsParam(f, w)) return InvalidArgument("pad ", block, ": its result ", w->name, " is a parameter");
  }
  if (b.predicate == nullptr) return f;
  bool waits = false;
  VisitStmts(b.body, [&](const Stmt& s) { return !(waits |= As<While>(s) != nullptr); });
  if (waits) return InvalidArgument("pad ", block, ": beyond the end, its loop `while` may never end");
  for (Buffer w : BuffersWritten(b.body)) {
    if (w->scope == Scope::kGlobal)
      return InvalidArgument("pad ", block, ": its result ", w->name,
                             " is in global memory, of which there is no more");
  }
  Analyzer a(c);
  BindFactsOf(a, f, path);
  // What keeps these iterators inside may go; other conditions stay.
  const auto may_run_over = [&](const BlockIter& i) {
    return i.kind == IterKind::kData && (iters.empty() || iters.contains(i.var->name));
  };
  Expr bounds = c.Bool(true), stays = nullptr;
  for (const BlockIter& i : b.iters) {
    if (!may_run_over(i)) continue;
    // A quotient is inside where what is divided is.
    const bool is_quotient = i.binding->op == ExprOp::kDiv && a.CanProve(c.Lt(c.Int(0), i.binding->args[1]));
    bounds = c.And(bounds, is_quotient ? c.Lt(i.binding->args[0], c.Mul(i.extent, i.binding->args[1]))
                                       : c.Lt(i.binding, i.extent));
  }
  const auto keep = [&](Expr e) { stays = stays == nullptr ? e : c.And(stays, e); };
  std::vector<Expr> go;
  {
    const Analyzer::Assume inside(a, bounds);
    for (Expr e : ConjunctsOf(b.predicate)) {
      if (a.CanProve(e))
        go.push_back(e);
      else
        keep(e);
    }
  }
  // Of an iteration that is left out nothing is inside, which is seen at its first element.
  VarMap first;
  bool is_in = false;
  for (const For* n : LoopsOf(path)) {
    const bool is_named = whole.contains(n->var->name);
    if (is_in && !is_named) first[n->var] = c.Int(0);
    is_in = is_in || is_named;
  }
  for (Expr e : go) {
    if (!is_in) break;
    e = a.Simplify(Substitute(c, e, first));
    if (a.CanProve(e)) continue;
    const Analyzer::Assume holds(a, b.predicate);
    if (a.CanProve(e)) keep(e);
  }
  // The iterators that may run over: they write beyond the end, where no results are, and their reads are kept inside.
  std::vector<std::pair<Expr, Expr>> extents;
  for (const BlockIter& i : b.iters) {
    if (a.CanProve(c.Lt(i.binding, i.extent))) continue;
    if (!may_run_over(i)) {
      const Analyzer::Assume inside(a, stays == nullptr ? c.Bool(true) : stays);
      if (a.CanProve(c.Lt(i.binding, i.extent))) continue;
      return InvalidArgument("pad ", block, ": ", i.kind == IterKind::kReduce ? "reduction " : "", "iterator ",
                             i.var->name, " would run over");
    }
    extents.emplace_back(i.var, i.extent);
  }
  ASSIGN_OR_RETURN(const std::vector<Expr> sizes, CheckPads(a, f, b, extents));
  for (Expr size : sizes) {
    const Expr given = c.Lt(c.Int(0), size);
    keep(a.CanProve(c.Le(c.Int(0), size)) ? given : c.Make(ExprOp::kNe, {size, c.Int(0)}));
  }
  VarSet lets;
  VisitStmts(b.body, [&](const Stmt& s) {
    if (const Let* n = As<Let>(s)) lets.insert(n->var);
    return true;
  });
  // Lanes stay neighbours under a mask, all else at the last element, unless that is another iteration's result; where
  // no lanes are known yet, any loop may become them.
  VarSet lanes, lane_loops;
  for (const For* n : LoopsOf(path)) {
    if (n->kind == ForKind::kVectorized) lane_loops.insert(n->var);
  }
  for (const BlockIter& i : b.iters) {
    if (lane_loops.empty() || Uses(i.binding, lane_loops)) lanes.insert(i.var);
  }
  const std::vector<Buffer> written = BuffersWritten(f.body);
  const auto is_result = [&](Buffer x) {
    return std::find(written.begin(), written.end(), x) != written.end() &&
           std::any_of(f.params.begin(), f.params.end(), [&](const Param& p) { return p.buffer == x; });
  };
  auto keep_inside = [&](Expr load) -> Expr {
    std::vector<Expr> indices = IndicesOf(load);
    Expr mask = MaskOf(load);
    const bool at_let = std::any_of(indices.begin(), indices.end(), [&](Expr e) { return Uses(e, lets); });
    for (const auto& [var, extent] : extents) {
      const bool moves = std::any_of(indices.begin(), indices.end(), [&, v = var](Expr e) { return Uses(e, v); });
      const bool of_lanes = moves && lanes.contains(var) && (!lane_loops.empty() || Uses(indices.back(), var));
      const bool of_result = moves && is_result(load->buffer);
      if (of_lanes || of_result || at_let || load->buffer->scope != Scope::kGlobal) {
        const Expr inside = c.Lt(var, extent);
        mask = mask == nullptr ? inside : c.And(mask, inside);
      } else {
        const VarMap last = {{var, c.Min(var, c.Sub(extent, c.Int(1)))}};
        for (Expr& i : indices) i = Substitute(c, i, last);
        if (mask != nullptr) mask = Substitute(c, mask, last);
      }
    }
    return c.Load(load->buffer, std::move(indices), mask);
  };
  // Of what is in no global memory, which has room, that counts as inside which was written there.
  Block padded = b;
  padded.predicate = stays;
  const Stmt changed = MakeStmt(padded);
  absl::flat_hash_set<Buffer> unwritten;
  {
    Func after = f;
    after.body = Replace(f.body, path.back(), changed);
    Dependences dependences(after);
    const Dependences::Range own = dependences.RangeOf(changed);
    for (size_t k = own.first; k < own.second; ++k) {
      const Access& x = dependences.accesses()[k];
      if (x.writes || x.buffer->scope == Scope::kGlobal) continue;
      if (x.sum != nullptr && b.init != nullptr) continue;  // starts what it reads
      if (dependences.FindsWritten(x)) continue;
      if (x.sum != nullptr) {
        return InvalidArgument("pad ", block, ": it continues ", x.buffer->name,
                               ", which is not known to be started beyond its bounds");
      }
      unwritten.insert(x.buffer);
    }
  }
  auto reads = [&](Expr e) -> Expr {
    if (e->op != ExprOp::kLoad || (e->buffer->scope != Scope::kGlobal && !unwritten.contains(e->buffer)))
      return nullptr;
    return keep_inside(e);
  };
  padded.body = RewriteExprs(c, b.body, reads);
  f.body = Replace(f.body, path.back(), MakeStmt(std::move(padded)));
  ASSIGN_OR_RETURN(path, FindBlock(f, block));
  RETURN_IF_ERROR(Annotate(CheckLoopKinds(f, path, {.within = path.back()}), Cat("pad ", block)));
  return f;
}

}  // namespace cinn_like::ir
