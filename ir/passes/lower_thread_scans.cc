#include "ir/passes/lower_thread_scans.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/join.h"
#include "ir/schedule/tree.h"
#include "ir/te.h"

namespace cinn_like::ir {
namespace {

absl::flat_hash_set<Expr> ReducedOf(const Block& b) {
  absl::flat_hash_set<Expr> r;
  for (const BlockIter& i : b.iters) {
    if (i.kind == IterKind::kReduce) r.insert(i.var);
  }
  return r;
}

using Exprs = std::vector<Expr>;
using Buffers = std::vector<Buffer>;

class Lowering {
 public:
  Lowering(const Func& f, int64_t warp) : c_(*f.context), names_(f), warp_(warp) {}

  // `body` with the scan at the end of `path` lowered, whose threads' loop is path[at].
  StatusOr<Stmt> Run(const Stmt& body, const StmtPath& path, size_t at, const ScanStep& step) {
    const Block& b = *As<Block>(path.back());
    const For& loop = *As<For>(path[at]);
    const auto refuse = [&](const auto&... why) { return Unimplemented("block ", b.name, ": ", why...); };
    join_ = FindJoin(c_, step.running.values, step.running.Running(c_));
    if (!join_) return refuse(Print(step.running.values[0]), " is no associative combination");
    const std::optional<Stores> init = b.init == nullptr ? std::nullopt : StoresOf(c_, b.init);
    if (!init || init->buffers != step.running.buffers) return refuse("a scan by threads needs its start");
    for (Buffer x : init->buffers) {
      if (x->scope != Scope::kLocal) return refuse("threads would share what runs, ", x->name);
    }
    if (loop.kind == ForKind::kClusterX || !IsInt(loop.extent))
      return refuse("a scan by ", Print(loop.extent), " iterations of ", Name(loop.kind));
    threads_ = loop.extent->int_value;
    size_t first = at;
    for (size_t i = 0; i < at; ++i) {
      const For* n = As<For>(path[i]);
      if (n == nullptr || !Carries(b, *n)) continue;
      if ((n->kind != ForKind::kSerial && n->kind != ForKind::kUnrolled) || Carries(b, *n, IterKind::kData))
        return refuse("loop ", n->var->name, " around thread loop ", loop.var->name);
      first = std::min(first, i);
    }
    for (size_t i = at + 1; i + 1 < path.size(); ++i) {
      const For* n = As<For>(path[i]);
      if (n == nullptr) return refuse("loop ", loop.var->name, " holds more than the scan");
      if (IsThreadAxis(n->kind) || !IsInt(n->extent) || Carries(b, *n, IterKind::kData) ||
          (!Carries(b, *n) && !IsInt(n->extent, 1)))
        return refuse("loop ", n->var->name, " inside thread loop ", loop.var->name);
      inner_.push_back(n);
    }

    const VarMap bindings = Bindings(b);
    const size_t values = step.vars.size();
    Exprs start, neutral;
    for (size_t k = 0; k < values; ++k) {
      start.push_back(Substitute(c_, init->values[k], bindings));
      // The start of a choice is what changes nothing.
      const ExprOp op = step.running.values[k]->op;
      neutral.push_back(op == ExprOp::kSelect ? start[k] : NeutralOf(c_, op, start[k]->type.dtype));
      if (neutral[k] == nullptr) return refuse(Print(step.running.values[k]), " has no neutral element");
    }
    const auto ran_at = [&](size_t k) {
      Exprs r;
      for (Expr e : step.running.indices[k]) r.push_back(Substitute(c_, e, bindings));
      return r;
    };
    std::vector<Stmt> starts, out;
    for (size_t k = 0; k < values; ++k)
      starts.push_back(MakeStmt(Store{step.running.buffers[k], ran_at(k), start[k], nullptr}));

    // A thread's own elements, then what they have come to.
    Exprs shape = {c_.Int(1)};
    for (const For* n : inner_) shape.push_back(n->extent);
    const Buffers e = Local(out, "e", start, shape), part = Local(out, "part", start, {c_.Int(1)}),
                  before = Local(out, "before", start, {c_.Int(1)});
    for (const Buffers& x : {part, before}) Set(out, x, {c_.Int(0)}, neutral);
    if (b.predicate != nullptr)
      out.push_back(Along([&](std::vector<Stmt>& to, const Exprs& own) { Set(to, e, own, neutral); }));
    out.push_back(Each(b, [&](std::vector<Stmt>& to, const Exprs& own) { Set(to, e, own, join_->elements); }));
    out.push_back(Along([&](std::vector<Stmt>& to, const Exprs& own) {
      Set(to, part, {c_.Int(0)}, join_->Joined(c_, Loads(part, {c_.Int(0)}), Loads(e, own)));
      Set(to, e, own, Loads(part, {c_.Int(0)}));
    }));
    JoinThreads(out, loop.var, LanesBetween(path, loop.kind), part, before, neutral, ThreadsAround(c_, path, at));

    Exprs ran;
    for (size_t k = 0; k < values; ++k) ran.push_back(c_.Load(step.running.buffers[k], ran_at(k)));
    const Exprs none = {c_.Int(0)};
    Set(out, before, none, join_->Joined(c_, ran, Loads(before, none)));
    out.push_back(Each(b, [&](std::vector<Stmt>& to, const Exprs& own) {
      Exprs whole = join_->Joined(c_, Loads(before, none), Loads(e, own));
      if (values > 1) whole = Named(c_, names_, to, whole);
      VarMap now;
      for (size_t k = 0; k < values; ++k) now[step.vars[k]] = whole[k];
      for (const Store& s : step.results)
        to.push_back(MakeStmt(Store{s.buffer, s.indices, Substitute(c_, s.value, now), nullptr}));
    }));
    const Exprs next = Named(c_, names_, out, join_->Joined(c_, ran, Loads(part, none)));
    for (size_t k = 0; k < values; ++k)
      out.push_back(MakeStmt(Store{step.running.buffers[k], ran_at(k), next[k], nullptr}));

    const Stmt all = MakeStmt(For{loop.var, loop.extent, loop.kind, MakeSeq(std::move(out))});
    starts.push_back(Replace(path[first], path[at], all));
    return Replace(body, path[first], MakeSeq(std::move(starts)));
  }

 private:
  Exprs Loads(const Buffers& from, const Exprs& at) {
    Exprs r;
    for (Buffer b : from) r.push_back(c_.Load(b, at));
    return r;
  }
  // What is stored may be read by other values.
  void Set(std::vector<Stmt>& out, const Buffers& to, const Exprs& at, Exprs values) {
    if (values.size() > 1) values = Named(c_, names_, out, values);
    for (size_t k = 0; k < to.size(); ++k) out.push_back(MakeStmt(Store{to[k], at, values[k], nullptr}));
  }
  Buffers Make(std::vector<Stmt>& out, std::string_view name, const Exprs& like, const Exprs& shape, Scope scope) {
    Buffers r;
    for (Expr v : like) {
      r.push_back(c_.MakeBuffer({.name = names_.Fresh(name), .dtype = v->type.dtype, .shape = shape, .scope = scope}));
      out.push_back(MakeStmt(Alloc{r.back()}));
    }
    return r;
  }
  Buffers Local(std::vector<Stmt>& out, std::string_view name, const Exprs& like, const Exprs& shape) {
    return Make(out, name, like, shape, Scope::kLocal);
  }
  using Add = std::function<void(std::vector<Stmt>& to, const Exprs& own)>;

  // For each of a thread's own elements in order, which have places in memory of its own.
  Stmt Along(const Add& add) {
    Exprs own = {c_.Int(0)};
    for (const For* n : inner_) own.push_back(c_.Var(names_.Fresh(n->var->name), n->var->type));
    std::vector<Stmt> body;
    add(body, own);
    Stmt r = MakeSeq(std::move(body));
    for (size_t i = inner_.size(); i-- > 0;)
      r = MakeStmt(For{own[i + 1], inner_[i]->extent, ForKind::kUnrolled, std::move(r)});
    return r;
  }
  // The same in loops as the scan's own are, where the block's predicate holds.
  Stmt Each(const Block& b, const Add& add) {
    Exprs own = {c_.Int(0)};
    VarMap fresh;
    for (const For* n : inner_) {
      own.push_back(c_.Var(names_.Fresh(n->var->name), n->var->type));
      fresh[n->var] = own.back();
    }
    Block r;
    r.name = names_.Fresh(b.name);
    if (b.predicate != nullptr) r.predicate = Substitute(c_, b.predicate, fresh);
    VarMap iters;
    for (const BlockIter& i : b.iters) {
      r.iters.push_back({c_.Var(names_.Fresh(i.var->name), i.var->type), i.extent, IterKind::kData,
                         Substitute(c_, i.binding, fresh)});
      iters[i.var] = r.iters.back().var;
    }
    Exprs at = {own[0]};
    for (size_t i = 0; i < inner_.size(); ++i) {
      r.iters.push_back({c_.Var(names_.Fresh(inner_[i]->var->name), own[i + 1]->type), inner_[i]->extent,
                         IterKind::kData, own[i + 1]});
      at.push_back(r.iters.back().var);
    }
    std::vector<Stmt> body;
    add(body, at);
    r.body = Substitute(c_, MakeSeq(std::move(body)), iters);
    Stmt all = MakeStmt(std::move(r));
    for (size_t i = inner_.size(); i-- > 0;)
      all = MakeStmt(For{own[i + 1], inner_[i]->extent, inner_[i]->kind, std::move(all)});
    return all;
  }

  // From a thread of the axis to the next one: as many lanes as the kernel has threads on the axes before it.
  static int64_t LanesBetween(const StmtPath& path, ForKind axis) {
    const Stmt& kernel = *std::find_if(path.begin(), path.end(), [](const Stmt& s) {
      const For* n = As<For>(s);
      return n != nullptr && (IsBlockAxis(n->kind) || IsThreadAxis(n->kind));
    });
    std::map<ForKind, int64_t> most;
    VisitStmts(kernel, [&](const Stmt& s) {
      const For* n = As<For>(s);
      if (n != nullptr && IsThreadAxis(n->kind) && n->kind < axis)
        most[n->kind] = std::max({most[n->kind], n->extent->int_value, int64_t{1}});
      return true;
    });
    int64_t lanes = 1;
    for (const auto& [kind, threads] : most) lanes *= threads;
    return lanes;
  }

  // `part` becomes what all threads have come to, `before` what those before this one have.
  void JoinThreads(std::vector<Stmt>& out, Expr thread, int64_t lanes, const Buffers& part, const Buffers& before,
                   const Exprs& neutral, const std::pair<Expr, Expr>& scan) {
    const Exprs none = {c_.Int(0)};
    const auto take_before = [&](Expr is_before, const Exprs& others) {
      const Exprs had = Loads(before, none), joined = join_->Joined(c_, had, others);
      Exprs r;
      for (size_t k = 0; k < had.size(); ++k) r.push_back(c_.Select(is_before, joined[k], had[k]));
      Set(out, before, none, r);
    };
    int64_t width = 1;  // threads that a warp has of each scan
    while (threads_ % (2 * width) == 0 && warp_ % (2 * width * lanes) == 0) width *= 2;
    for (int64_t d = 1; d < width; d *= 2) {
      Exprs others;
      for (Expr p : Loads(part, none))
        others.push_back(c_.Make(ExprOp::kShuffleXor, {p, c_.Int(d * lanes, DType::kI32)}));
      others = Named(c_, names_, out, others);
      take_before(c_.Eq(c_.Mod(c_.Div(thread, c_.Int(d)), c_.Int(2)), c_.Int(1)), others);
      Set(out, part, none, join_->Joined(c_, Loads(part, none), others));
    }
    if (threads_ == width) return;
    // Neighbours in a warp access neighbours.
    const Expr parts = c_.Int(threads_ / width), own = c_.Div(thread, c_.Int(width));
    const Buffers found = Make(out, "red", neutral, {parts, scan.second}, Scope::kShared);
    std::vector<Stmt> stores;
    Set(stores, found, {own, scan.first}, Loads(part, none));
    Stmt store = MakeSeq(std::move(stores));
    if (width > 1) store = MakeStmt(If{c_.Eq(c_.Mod(thread, c_.Int(width)), c_.Int(0)), store, nullptr});
    out.push_back(std::move(store));
    Set(out, part, none, neutral);
    for (int64_t w = 0; w < threads_ / width; ++w) {
      const Exprs others = Named(c_, names_, out, Loads(found, {c_.Int(w), scan.first}));
      take_before(c_.Lt(c_.Int(w), own), others);
      Set(out, part, none, join_->Joined(c_, Loads(part, none), others));
    }
  }

  Context& c_;
  NameSupply names_;
  const int64_t warp_;  // threads that shuffle
  int64_t threads_ = 0;
  std::vector<const For*> inner_;  // loops inside of the threads' own
  std::optional<Join> join_;
};

}  // namespace

StatusOr<Func> LowerThreadScans(Func f, const LaunchLimits& limits) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const StmtPath& path : FindBlocks(f)) {
      const Block& b = *As<Block>(path.back());
      const std::optional<size_t> loop = ReducingThreads(path);
      if (!loop) continue;
      const std::optional<ScanStep> step = ScanStepOf(*f.context, b.body, ReducedOf(b));
      if (!step) continue;
      ASSIGN_OR_RETURN(f.body, Lowering(f, limits.warp).Run(f.body, path, *loop, *step));
      changed = true;
      break;
    }
  }
  return f;
}

}  // namespace cinn_like::ir
