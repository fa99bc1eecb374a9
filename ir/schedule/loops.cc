// The primitives that reshape loops: split, peel, fuse, reorder, merge and the loop kinds.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "ir/clone.h"
#include "ir/intrinsic.h"
#include "ir/mma.h"
#include "ir/schedule/legality.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/tree.h"
#include "ir/tensor_copy.h"
#include "ir/vector_nests.h"

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

// What stands in no block runs whatever the blocks' predicates say, and so does what memory is asked for in one of
// them; nullptr: nothing does.
Stmt FindOutsideBlocks(const Stmt& s) {
  Stmt found;
  VisitStmts(s, [&](const Stmt& x) {
    if (const Block* b = As<Block>(x); b != nullptr) {
      if (found == nullptr && b->predicate != nullptr && b->predicate->reads) found = x;
      return false;
    }
    const If* condition = As<If>(x);
    const For* loop = As<For>(x);
    const bool reads = condition != nullptr ? condition->cond->reads : loop != nullptr && loop->extent->reads;
    const bool holds_others = As<Seq>(x) != nullptr || As<For>(x) != nullptr || As<If>(x) != nullptr;
    if (found == nullptr && (reads || (!holds_others && As<Alloc>(x) == nullptr))) found = x;
    return found == nullptr;
  });
  return found;
}

// An extent that the loop itself, or what it stands in, may change before it is asked again.
bool IsWritten(Expr extent, const Stmt& within) {
  const std::vector<Buffer> written = extent->reads ? BuffersWritten(within) : std::vector<Buffer>{};
  bool found = false;
  VisitLoads(extent,
             [&](Expr load) { found |= std::find(written.begin(), written.end(), load->buffer) != written.end(); });
  return found;
}

constexpr int64_t kMaxTile = int64_t{1} << 40;

}  // namespace

StatusOr<Func> Split(Func f, const std::string& loop, const std::vector<int64_t>& factors,
                     const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(StmtPath path, FindLoop(f, loop));
  const For& n = *As<For>(path.back());
  if (n.kind != ForKind::kSerial) return InvalidArgument("split ", loop, ": the loop is already ", Name(n.kind));
  if (IsWritten(n.extent, path.back()))
    return InvalidArgument("split ", loop, ": the loop writes what its extent ", Print(n.extent), " reads");
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
  BindFactsOf(a, f, path);
  Stmt body = Substitute(c, n.body, {{n.var, value}});
  if (!a.CanProve(c.Eq(c.Mod(n.extent, c.Int(tile)), c.Int(0)))) {
    if (const Stmt bare = FindOutsideBlocks(body)) {
      return InvalidArgument("split ", loop, ": ", tile, " is not known to divide the extent ", Print(n.extent),
                             ", and what stands in no block would run beyond it:\n", Print(bare));
    }
    body = AddPredicate(c, body, c.Lt(value, n.extent));
  }
  for (size_t i = names.size(); i-- > 0;) {
    Expr extent = i == 0 ? a.Simplify(c.CeilDiv(n.extent, c.Int(tile))) : c.Int(factors[i - 1]);
    body = MakeStmt(For{vars[i], extent, ForKind::kSerial, body});
  }
  f.body = Replace(f.body, path.back(), body);
  return SimplifyBindings(std::move(f), body);
}

StatusOr<Func> Peel(Func f, const std::string& loop, bool front, int64_t count, const std::string& name) {
  ASSIGN_OR_RETURN(StmtPath path, FindLoop(f, loop));
  const For& n = *As<For>(path.back());
  auto refuse = [&](const auto&... why) { return InvalidArgument("peel ", loop, ": ", why...); };
  if (n.kind != ForKind::kSerial) return refuse("the loop is already ", Name(n.kind));
  if (n.extent->reads) return refuse("its extent ", Print(n.extent), " reads memory");
  if (count < 1 || count > kMaxTile) return refuse("expected a count of 1 to ", kMaxTile, " and got ", count);
  RETURN_IF_ERROR(CheckNewNames(f, {name}));
  Context& c = *f.context;
  Analyzer a(c);
  BindFactsOf(a, f, path);
  const Expr number = c.Int(count), zero = c.Int(0);
  if (a.CanProve(c.Le(n.extent, number))) return refuse("of its ", Print(n.extent), " iterations none would be left");
  if (const std::string block = StartedBy(path.back()); !block.empty())
    return refuse("it carries the reduction of block ", block, ", whose start is to be split off first (split_init)");

  const bool enough = a.CanProve(c.Le(number, n.extent));
  const Expr less = c.Sub(n.extent, number);
  const Expr rest = a.Simplify(enough ? less : c.Max(less, zero));
  const Expr part = enough ? number : a.Simplify(c.Min(n.extent, number));
  NameSupply names(f);
  names.Reserve(name);
  const Expr var = c.Var(name);
  Stmt peeled = CloneFresh(c, n.body, names, {{n.var, front ? var : c.Add(rest, var)}});
  const BufferMap own = CopiesOfPrivate(f, path.back(), names);  // both have some
  peeled = MakeStmt(For{var, part, ForKind::kSerial, ReplaceBuffers(c, peeled, own)});
  const Stmt main = MakeStmt(
      For{n.var, rest, ForKind::kSerial, front ? Substitute(c, n.body, {{n.var, c.Add(n.var, number)}}) : n.body});
  f.body = Replace(f.body, path.back(), front ? MakeSeq({peeled, main}) : MakeSeq({main, peeled}));
  f = SimplifyBindings(SimplifyBindings(std::move(f), main), peeled);
  f.body = DeclareCopies(f.body, own);
  return f;
}

StatusOr<Func> Fuse(Func f, const std::vector<std::string>& loops, const std::string& name) {
  if (loops.empty()) return InvalidArgument("fuse: no loops");
  ASSIGN_OR_RETURN(StmtPath path, FindLoop(f, loops[0]));
  RETURN_IF_ERROR(CheckNewNames(f, {name}));
  Context& c = *f.context;
  std::vector<const For*> chain;
  double times = 1;
  Stmt s = path.back();
  for (size_t i = 0; i < loops.size(); ++i) {
    const For* n = As<For>(s);
    if (n == nullptr || n->var->name != loops[i]) {
      return InvalidArgument("fuse: the body of loop ", loops[i - 1], " is not just loop ", loops[i]);
    }
    if (n->kind != ForKind::kSerial) return InvalidArgument("fuse: loop ", loops[i], " is already ", Name(n->kind));
    if (n->extent->reads)
      return InvalidArgument("fuse: the extent ", Print(n->extent), " of loop ", loops[i], " reads memory");
    for (const For* outer : chain) {
      if (Uses(n->extent, outer->var)) {
        return InvalidArgument("fuse: the extent ", Print(n->extent), " of loop ", loops[i], " depends on loop ",
                               outer->var->name);
      }
    }
    chain.push_back(n);
    if (IsInt(n->extent)) times *= static_cast<double>(n->extent->int_value);
    if (times > kMaxBytes)
      return InvalidArgument("fuse: the loops to ", loops[i], " have more iterations than can be counted");
    s = n->body;
  }
  // A reduction starts ahead of loops that are its own: of one with data loops, that they may not run must be seen.
  Analyzer a(c);
  BindFactsOf(a, f, path);
  Status never;
  VisitStmts(s, [&](const Stmt& x) {
    const Block* b = As<Block>(x);
    if (b == nullptr || !never.ok()) return true;
    const auto reduces = [&](const For* n) {
      return std::any_of(b->iters.begin(), b->iters.end(),
                         [&](const BlockIter& i) { return i.kind == IterKind::kReduce && Uses(i.binding, n->var); });
    };
    if (std::none_of(chain.begin(), chain.end(), reduces)) return true;
    for (const For* n : chain) {
      if (reduces(n) || a.CanProve(c.Lt(c.Int(0), n->extent))) continue;
      never = InvalidArgument("fuse: loop ", n->var->name, " may not run, and others carry the reduction of block ",
                              b->name);
    }
    return true;
  });
  RETURN_IF_ERROR(never);
  Expr var = c.Var(name), extent = c.Int(1), rest = var;
  VarMap map;
  for (size_t i = chain.size(); i-- > 0;) {
    extent = c.Mul(chain[i]->extent, extent);
    if (i > 0 && a.ConstBounds(chain[i]->extent).hi == 1) {  // where it runs, it has one iteration
      map[chain[i]->var] = c.Int(0);
      continue;
    }
    map[chain[i]->var] = i == 0 ? rest : c.Mod(rest, chain[i]->extent);
    rest = c.Div(rest, chain[i]->extent);
  }
  const Stmt fused = MakeStmt(For{var, extent, ForKind::kSerial, Substitute(c, s, map)});
  f.body = Replace(f.body, path.back(), fused);
  // A loop of a reduction that also moves its result starts it more than once: memory made before it stays.
  Status status;
  VisitStmts(fused, [&](const Stmt& x) {
    const Block* b = As<Block>(x);
    if (b == nullptr) return status.ok();
    bool reduces = false, moves = false;
    for (const BlockIter& i : b->iters) (i.kind == IterKind::kReduce ? reduces : moves) |= Uses(i.binding, var);
    for (Buffer w : BuffersWritten(x)) {
      if (status.ok() && reduces && moves && w->scope != Scope::kGlobal)
        status = Annotate(CheckMemory(f, w, w->scope), Cat("fuse ", absl::StrJoin(loops, " ")));
    }
    return status.ok();
  });
  RETURN_IF_ERROR(status);
  return SimplifyBindings(std::move(f), fused);
}

StatusOr<Func> Reorder(Func f, const std::vector<std::string>& loops) {
  if (loops.size() < 2) return f;
  for (const std::string& name : loops) {
    if (std::count(loops.begin(), loops.end(), name) > 1)
      return InvalidArgument("reorder: loop ", name, " is named more than once");
  }
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
  for (const For* n : chain) {
    if (IsWritten(n->extent, path.back()))
      return InvalidArgument("reorder: the nest writes what the extent ", Print(n->extent), " of ", n->var->name,
                             " reads");
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i; j < order.size(); ++j) {
      if (j > i && Uses(order[i]->extent, order[j]->var)) {
        return InvalidArgument("reorder: the extent of ", order[i]->var->name, " depends on ", order[j]->var->name);
      }
    }
  }
  if (order == chain) return f;
  Dependences dependences(f);
  if (const auto conflict = dependences.ChangedByOrder(path, chain, order)) {
    return InvalidArgument("reorder: the order of ", absl::StrJoin(loops, ", "),
                           " can't change, as the nest carries a dependence: ", dependences.Describe(*conflict),
                           " in different iterations of more than one loop:\n", Print(path.back()));
  }
  for (size_t i = order.size(); i-- > 0;) s = MakeStmt(For{order[i]->var, order[i]->extent, order[i]->kind, s});
  f.body = Replace(f.body, path.back(), s);
  // A loop that runs at once with its neighbours may now hold loops that it stood in.
  ASSIGN_OR_RETURN(StmtPath inner, FindLoop(f, order.back()->var->name));
  inner.erase(inner.begin(), inner.begin() + static_cast<ptrdiff_t>(path.size() - 1));
  RETURN_IF_ERROR(Annotate(CheckLoopKinds(f, inner), "reorder"));
  return f;
}

StatusOr<Func> SetKind(Func f, const std::string& loop, const LoopKind& kind) {
  ASSIGN_OR_RETURN(StmtPath path, FindLoop(f, loop));
  For n = *As<For>(path.back());
  if (n.kind != ForKind::kSerial) return InvalidArgument(Name(kind), " ", loop, ": the loop is already ", Name(n.kind));
  if ((kind == ForKind::kVectorized || kind == ForKind::kUnrolled || IsThreadAxis(kind)) && !IsInt(n.extent)) {
    return InvalidArgument(Name(kind), " ", loop, ": the extent ", Print(n.extent), " is not constant");
  }
  n.kind = kind;
  const Stmt changed = MakeStmt(std::move(n));
  f.body = Replace(f.body, path.back(), changed);
  RETURN_IF_ERROR(CheckLoopKinds(f, {changed}));
  return f;
}

StatusOr<Func> PipelineLoop(Func f, const std::string& loop, int64_t stages) {
  constexpr int64_t kMost = 4;
  if (stages < 2 || stages > kMost)
    return InvalidArgument("pipeline ", loop, ": expected 2 to ", kMost, " stages and got ", stages);
  ASSIGN_OR_RETURN(const StmtPath path, FindLoop(f, loop));
  if (const Expr extent = As<For>(path.back())->extent; extent->reads)
    return InvalidArgument("pipeline ", loop, ": its extent ", Print(extent), " reads memory");
  return SetKind(std::move(f), loop, static_cast<ForKind>(static_cast<int64_t>(ForKind::kPipelined2) + stages - 2));
}

StatusOr<Func> Tensorize(Func f, const std::string& loop, const std::string& intrinsic) {
  const std::optional<LoopKind> kind = ParseLoopKind(intrinsic);
  if (!kind || !IsTensorized(*kind)) {
    return InvalidArgument("tensorize ", loop, ": expected ", Name(ForKind::kMma), ", ", Name(ForKind::kWgmma), ", ",
                           Name(ForKind::kDot2), ", ", Name(ForKind::kDot4), ", ", Name(ForKind::kTranspose), ", ",
                           Name(ForKind::kTensorCopy), " or intrinsic.NAME and got '", intrinsic, "'");
  }
  ASSIGN_OR_RETURN(const StmtPath path, FindLoop(f, loop));
  std::vector<const For*> around = LoopsOf(path);
  around.pop_back();
  const For& nest = *As<For>(path.back());
  Analyzer a(*f.context);
  BindFacts(a, f, around);
  const bool of_tiles = DotSize(*kind) > 0 && IsOfTiles(nest);
  RETURN_IF_ERROR(*kind == ForKind::kIntrinsic    ? InstructionNestOf(*f.context, nest).status()
                  : of_tiles                      ? MatchTiles(a, nest, *kind).status()
                  : DotSize(*kind) > 0            ? MatchDot(a, nest, *kind).status()
                  : *kind == ForKind::kTranspose  ? MatchTranspose(a, nest).status()
                  : *kind == ForKind::kTensorCopy ? MatchTensorCopy(a, nest).status()
                                                  : MatchMma(*f.context, nest, around, *kind).status());
  return SetKind(std::move(f), loop, *kind);
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
  BindFactsOf(a, f, paths[0]);
  std::vector<Stmt> bodies;
  for (size_t i = 0; i < paths.size(); ++i) {
    const For& n = *As<For>(paths[i].back());
    if (std::count(loops.begin(), loops.end(), loops[i]) > 1)
      return InvalidArgument("merge: loop ", loops[i], " is named more than once");
    if (!a.CanProve(c.Eq(n.extent, first.extent))) {
      return InvalidArgument("merge: the extents of ", loops[0], " and ", loops[i], " differ: ", Print(first.extent),
                             " and ", Print(n.extent));
    }
    if (n.kind != first.kind) return InvalidArgument("merge: ", loops[0], " and ", loops[i], " are of different kinds");
    bodies.push_back(Substitute(c, n.body, {{n.var, first.var}}));
  }
  // Later loops move up to the first: past each iteration of those before, and past what stands between.
  Dependences dependences(f);
  std::vector<const For*> outer = LoopsOf(paths[0]);
  outer.pop_back();
  std::vector<Stmt> siblings;
  if (const Seq* seq = paths[0].size() > 1 ? As<Seq>(paths[0][paths[0].size() - 2]) : nullptr) siblings = seq->stmts;
  std::vector<Stmt> first_of_all, stays;  // of what stands between
  bool inside = false;
  size_t next = 0;
  for (const Stmt& s : siblings) {
    if (next == paths.size()) break;
    if (s == paths[next].back()) {
      for (size_t i = 0; i < next; ++i) {
        if (const auto conflict = dependences.ChangedByMerge(paths[i], paths[next])) {
          return InvalidArgument(
              "merge: ", loops[i], " and ", loops[next], " can't be one loop: ", dependences.Describe(*conflict),
              ", but not at the same iteration:\n", Print(paths[i].back()), Print(paths[next].back()));
        }
      }
      ++next;
      inside = true;
      continue;
    }
    if (!inside) continue;
    if (As<Alloc>(s) != nullptr) {
      first_of_all.push_back(s);
      continue;
    }
    // It moves in front of the loops where it has nothing to do with what comes before it (the start of a sum).
    const auto meets = [&](const Stmt& before) { return dependences.Between(before, s, outer).has_value(); };
    const bool moves = (As<For>(s) != nullptr || As<Block>(s) != nullptr) &&
                       std::none_of(stays.begin(), stays.end(), meets) &&
                       std::none_of(paths.begin(), paths.begin() + static_cast<ptrdiff_t>(next),
                                    [&](const StmtPath& p) { return meets(p.back()); });
    if (moves) {
      first_of_all.push_back(s);
      continue;
    }
    stays.push_back(s);
    const Let* let = As<Let>(s);
    for (size_t i = next; i < paths.size(); ++i) {
      const Stmt& later = paths[i].back();
      if (As<Barrier>(s) != nullptr || (let != nullptr && UsesVar(later, let->var))) {
        return InvalidArgument("merge: ", loops[i], " can't move past what stands before it:\n", Print(s));
      }
      if (const auto conflict = dependences.Between(s, later, outer)) {
        return InvalidArgument("merge: ", loops[i], " can't move past what stands before it, as ",
                               dependences.Describe(*conflict), ":\n", Print(s));
      }
    }
  }
  if (next != paths.size()) return InvalidArgument("merge: name the loops in the order in which they stand");
  const Func before = f;
  for (const Stmt& s : first_of_all) f.body = Replace(f.body, s, MakeSeq({}));
  for (size_t i = 1; i < paths.size(); ++i) f.body = Replace(f.body, paths[i].back(), MakeSeq({}));
  const Stmt merged = MakeStmt(For{first.var, first.extent, first.kind, MakeSeq(std::move(bodies))});
  first_of_all.push_back(merged);
  f.body = Replace(f.body, paths[0].back(), MakeSeq(std::move(first_of_all)));
  RETURN_IF_ERROR(CheckLoopKinds(f, {merged}));
  RETURN_IF_ERROR(Annotate(CheckPlaces(before, f), "merge"));
  return SimplifyBindings(std::move(f), merged);
}

}  // namespace cinn_like::ir
