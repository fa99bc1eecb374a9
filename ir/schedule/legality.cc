#include "ir/schedule/legality.h"

#include <algorithm>

#include "ir/join.h"
#include "ir/schedule/dependence.h"
#include "ir/te.h"

namespace cinn_like::ir {

namespace {

// Whether it reduces into local memory, by operators with neutral elements.
bool GoesOnLocally(Context& c, const Block& b) {
  const std::optional<Stores> stores = StoresOf(c, b.body);
  if (!stores || !FindJoin(c, stores->values, stores->Running(c))) return false;
  for (size_t k = 0; k < stores->values.size(); ++k) {
    if (stores->buffers[k]->scope != Scope::kLocal ||
        NeutralOf(c, stores->values[k]->op, stores->buffers[k]->dtype) == nullptr)
      return false;
  }
  return true;
}

}  // namespace

Status CheckLoopKinds(const Func& f, const std::vector<Stmt>& loops, const Dependences::Changed& changed) {
  std::optional<Dependences> dependences;
  for (const Stmt& s : loops) {
    const For* n = As<For>(s);
    if (n == nullptr || n->kind == ForKind::kSerial || n->kind == ForKind::kUnrolled) continue;
    if (IsTensorized(n->kind) || PipelineStages(n->kind) > 0) continue;  // in order
    if (!dependences) dependences.emplace(f);
    ASSIGN_OR_RETURN(const StmtPath path, FindLoop(f, n->var->name));
    const std::string what = Cat(Name(n->kind), " ", n->var->name);
    const bool thread = IsThreadAxis(n->kind);
    if (const auto conflict =
            dependences->CarriedBy(path, n->kind, thread || n->kind == ForKind::kVectorized, changed)) {
      const bool reduces = conflict->a->sum != nullptr && conflict->a->sum == conflict->b->sum &&
                           conflict->a->sum->loops.contains(n->var);
      if (reduces) return InvalidArgument(what, ": the loop carries a reduction:\n", Print(s));
      return InvalidArgument(what, ": the loop carries a dependence: ", dependences->Describe(*conflict),
                             " in different iterations:\n", Print(s));
    }
    if (thread || IsBlockAxis(n->kind)) {
      // Other loops on the same axis are the same threads.
      StmtPath kernel = path;
      const auto first = std::find_if(path.begin(), path.end(), [](const Stmt& x) {
        return As<For>(x) != nullptr && IsBlockAxis(As<For>(x)->kind);
      });
      const size_t top = As<Seq>(path[0]) != nullptr ? 1 : 0;
      kernel.resize(first != path.end() ? static_cast<size_t>(first - path.begin()) + 1 : top + 1);
      // What is in no loop of these meets as it did before the step. (A loop of blocks changes which memory is whose.)
      Dependences::Changed met = changed;
      if (thread && met.within == nullptr) met.within = s;
      if (const auto conflict = dependences->BetweenThreads(kernel, true, met)) {
        return InvalidArgument(what, ": threads would meet in memory, with nothing to wait for: ",
                               dependences->Describe(*conflict), " in different threads:\n", Print(kernel.back()));
      }
    }
    // Threads that reduce together need the start, to join what each has found; or each has memory of its own for what
    // was found before, and the join has a neutral element to begin with.
    Status status;
    VisitStmts(s, [&](const Stmt& x) {
      const Block* b = As<Block>(x);
      if (b == nullptr || !thread || b->init != nullptr || GoesOnLocally(*f.context, *b)) return status.ok();
      for (const BlockIter& i : b->iters) {
        if (i.kind != IterKind::kReduce || !Uses(i.binding, n->var)) continue;
        status = InvalidArgument(what, ": the loop carries the reduction of block ", b->name,
                                 ", whose start was split off:\n", Print(s));
      }
      return true;
    });
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

namespace {

// The path to the innermost statement that holds every use of a buffer, for each that is used.
absl::flat_hash_map<Buffer, StmtPath> HomesOf(const Func& f) {
  absl::flat_hash_map<Buffer, StmtPath> homes;
  StmtPath path;
  std::function<void(const Stmt&)> go = [&](const Stmt& s) {
    path.push_back(s);
    const bool holds_others = As<Seq>(s) != nullptr || As<For>(s) != nullptr || As<If>(s) != nullptr;
    if (holds_others) {
      ForEachChild(s, go);
    } else if (As<Prefetch>(s) == nullptr) {  // a hint, which may be left out
      for (const std::vector<Buffer>& used : {BuffersRead(s), BuffersWritten(s)}) {
        for (Buffer b : used) {
          StmtPath& common = homes.try_emplace(b, path).first->second;
          size_t same = 0;
          while (same < common.size() && same < path.size() && common[same] == path[same]) ++same;
          common.resize(same);
        }
      }
    }
    path.pop_back();
  };
  go(f.body);
  return homes;
}

// No value passes from one iteration of a loop to another in memory that each makes anew.
Status CheckNoFlow(Dependences& dependences, const StmtPath& home, Buffer b) {
  // A reduction that nobody reads: its start comes before its loops, and so does the memory.
  const Block* only = As<Block>(home.back());
  for (size_t k = home.size(); k > 0; --k) {
    const For* n = As<For>(home[k - 1]);
    if (n == nullptr || IsThreadAxis(n->kind)) continue;
    auto moves = [&](IterKind kind) {
      return std::any_of(only->iters.begin(), only->iters.end(),
                         [&](const BlockIter& i) { return i.kind == kind && Uses(i.binding, n->var); });
    };
    if (only != nullptr && only->init != nullptr && moves(IterKind::kReduce) && !moves(IterKind::kData)) continue;
    const StmtPath loop(home.begin(), home.begin() + static_cast<ptrdiff_t>(k));
    if (const auto conflict = dependences.FlowsBetweenIterations(loop, b)) {
      return InvalidArgument("loop ", n->var->name,
                             " holds all of its uses and would have memory of its own at each "
                             "iteration, but ",
                             dependences.Describe(*conflict), ", which may be an earlier iteration's:\n",
                             Print(home[k - 1]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckMemory(const Func& f, Buffer b, Scope before) {
  const StmtPath home = HomesOf(f)[b];
  if (home.empty()) return absl::OkStatus();
  // What iterations had for themselves they may now meet in.
  if (before != Scope::kGlobal) RETURN_IF_ERROR(CheckLoopKinds(f, home, {.buffer = b}));
  Dependences dependences(f);
  if (b->scope != Scope::kGlobal) return CheckNoFlow(dependences, home, b);
  for (const Access& x : dependences.accesses()) {
    if (x.buffer != b || !x.writes || x.is_whole) continue;
    Analyzer& a = dependences.analyzer();
    Context& c = a.context();
    const std::vector<Expr>& at = dependences.IndicesOf(x);
    const Analyzer::Assume inside(a, x.condition == nullptr ? c.Bool(true) : x.condition);
    for (size_t d = 0; d < at.size(); ++d) {
      if (a.CanProve(c.Lt(at[d], b->shape[d]))) continue;
      return InvalidArgument(x.block != nullptr ? Cat("block ", x.block->name) : std::string("a statement"),
                             " may write beyond its end, at ", Print(at[d]), " in dimension ", d);
    }
  }
  return absl::OkStatus();
}

Status CheckPlaces(const Func& before, const Func& after) {
  std::optional<Dependences> dependences;
  std::vector<Buffer> allocations;
  VisitStmts(after.body, [&](const Stmt& s) {
    const Alloc* n = As<Alloc>(s);
    if (n != nullptr && n->buffer->scope != Scope::kGlobal) allocations.push_back(n->buffer);
    return true;
  });
  if (allocations.empty()) return absl::OkStatus();
  auto homes = HomesOf(after), before_homes = HomesOf(before);
  for (Buffer b : allocations) {
    const StmtPath& home = homes[b];
    const std::vector<const For*> around = LoopsOf(home), held = LoopsOf(before_homes[b]);
    const bool same = std::all_of(around.begin(), around.end(), [&](const For* n) {
      return std::any_of(held.begin(), held.end(), [&](const For* m) { return m->var == n->var; });
    });
    if (same) continue;
    if (!dependences) dependences.emplace(after);
    RETURN_IF_ERROR(Annotate(CheckNoFlow(*dependences, home, b), Cat("memory ", b->name)));
  }
  return absl::OkStatus();
}

Status CheckThreads(const Func& f) {
  bool has_threads = false, has_blocks = false, has_memory = false;
  VisitStmts(f.body, [&](const Stmt& s) {
    const For* n = As<For>(s);
    has_threads |= n != nullptr && IsThreadAxis(n->kind);
    has_blocks |= n != nullptr && IsBlockAxis(n->kind);
    const Alloc* a = As<Alloc>(s);
    has_memory |= a != nullptr && a->buffer->scope == Scope::kGlobal;
    return true;
  });
  if (!has_threads && !has_blocks) return absl::OkStatus();
  // What becomes one kernel (guard_stores): without block loops or memory between, all; else each statement apart,
  // where block loops are in others those.
  std::vector<StmtPath> kernels;
  StmtPath path;
  std::function<void(const Stmt&)> go = [&](const Stmt& s) {
    path.push_back(s);
    const For* n = As<For>(s);
    if (n != nullptr && (IsBlockAxis(n->kind) || IsThreadAxis(n->kind)))
      kernels.push_back(path);
    else
      ForEachChild(s, go);
    path.pop_back();
  };
  const Seq* seq = As<Seq>(f.body);
  if (seq == nullptr || (!has_blocks && !has_memory)) {
    if (has_blocks)
      go(f.body);
    else
      kernels.push_back({f.body});
  } else {
    path.push_back(f.body);
    for (const Stmt& s : seq->stmts) {
      bool bound = false;
      VisitStmts(s, [&](const Stmt& x) {
        bound |= As<For>(x) != nullptr && IsBlockAxis(As<For>(x)->kind);
        return !bound;
      });
      if (bound)
        go(s);
      else
        kernels.push_back({f.body, s});
    }
  }
  Dependences dependences(f);
  for (const StmtPath& kernel : kernels) {
    if (const auto conflict = dependences.BetweenThreads(kernel, false, {})) {
      return InvalidArgument("@", f.name, ": threads would meet in memory, with nothing to wait for: ",
                             dependences.Describe(*conflict), " in different threads:\n", Print(kernel.back()));
    }
  }
  return absl::OkStatus();
}

}  // namespace cinn_like::ir
