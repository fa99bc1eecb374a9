#include "ir/passes/lower_thread_reductions.h"

#include <algorithm>
#include <optional>

#include "ir/join.h"
#include "ir/schedule/tree.h"
#include "ir/te.h"

namespace cinn_like::ir {
namespace {

constexpr int kDirect = 8;  // parts that one thread adds up, where there is a choice

class Lowering {
 public:
  Lowering(const Func& f, int64_t warp) : c_(*f.context), names_(f), warp_(warp) {}

  StatusOr<Stmt> Run(const StmtPath& path, size_t loop_index) {
    const Block& b = *As<Block>(path.back());
    // Blocks of a cluster and their threads reduce together.
    cluster_ = As<For>(path[loop_index]);
    if (cluster_->kind != ForKind::kClusterX) {
      cluster_ = nullptr;
    } else if (const For* n = As<For>(path[loop_index + 1]); n == nullptr || !IsThreadAxis(n->kind)) {
      return Unimplemented("block ", b.name, ": loop ", cluster_->var->name,
                           " over a cluster's blocks is not around "
                           "one over their threads");
    }
    const size_t outer_index = loop_index;
    if (cluster_ != nullptr) ++loop_index;
    const For& loop = *As<For>(path[loop_index]);
    const int64_t blocks = cluster_ == nullptr ? 1 : cluster_->extent->int_value;
    // The first of as many slots of a block as there are threads or groups of them.
    const auto slot_of = [&](int64_t slots) {
      return cluster_ == nullptr ? c_.Int(0) : c_.Mul(cluster_->var, c_.Int(slots));
    };
    // Without a start: what was found before is joined at the end, by each thread in memory of its own.
    const bool goes_on = b.init == nullptr;
    const std::optional<Stores> update = StoresOf(c_, b.body), init = goes_on ? update : StoresOf(c_, b.init);
    if (!init || !update || init->buffers != update->buffers) {
      return Unimplemented("block ", b.name, ": what starts and what continues the reduction store different values");
    }
    join_ = FindJoin(c_, update->values, update->Running(c_));
    if (!join_)
      return Unimplemented("block ", b.name, ": ", Print(update->values[0]), " is no associative combination");
    const VarMap bindings = Bindings(b);
    start_.clear();
    for (size_t k = 0; k < init->values.size(); ++k) {
      const Expr v = init->values[k];
      start_.push_back(goes_on ? NeutralOf(c_, v->op, v->type.dtype) : Substitute(c_, v, bindings));
      if (start_.back() == nullptr || (goes_on && update->buffers[k]->scope != Scope::kLocal))
        return Unimplemented("block ", b.name, " goes on with what another one started, in memory that threads share");
    }
    for (size_t i = 0; i < outer_index && !goes_on; ++i) {
      const For* n = As<For>(path[i]);
      for (const BlockIter& it : b.iters) {
        if (n != nullptr && it.kind == IterKind::kReduce && Uses(it.binding, n->var)) {
          return Unimplemented("block ", b.name, ": reduction loop ", n->var->name, " around thread loop ",
                               loop.var->name);
        }
      }
    }
    for (size_t i = loop_index + 1; i + 1 < path.size(); ++i) {
      const For* n = As<For>(path[i]);
      if (n == nullptr)
        return Unimplemented("block ", b.name, ": loop ", loop.var->name, " holds more than the reduction");
      if (IsThreadAxis(n->kind)) return Unimplemented("block ", b.name, ": a reduction over two thread axes");
      const auto of_kind = [&](IterKind kind) {
        return std::any_of(b.iters.begin(), b.iters.end(),
                           [&](const BlockIter& it) { return it.kind == kind && Uses(it.binding, n->var); });
      };
      if (!of_kind(IterKind::kData)) continue;
      if (!IsInt(n->extent) || of_kind(IterKind::kReduce))
        return Unimplemented("block ", b.name, ": data loop ", n->var->name,
                             " of no constant extent, or that is reduced, ", "inside thread loop ", loop.var->name);
      data_.push_back(n);
    }
    const int64_t threads = loop.extent->int_value;
    std::vector<Expr> shape;
    for (const For* n : data_) shape.push_back(n->extent);
    if (shape.empty()) shape = {c_.Int(1)};
    for (Buffer x : update->buffers)
      part_.push_back(
          c_.MakeBuffer({.name = names_.Fresh("part"), .dtype = x->dtype, .shape = shape, .scope = Scope::kLocal}));
    std::vector<Stmt> out;
    for (Buffer x : part_) out.push_back(MakeStmt(Alloc{x}));
    ForResults(out, [&](std::vector<Stmt>& to) { StoreParts(to, Here(start_)); });
    Block partial = b;
    partial.init = nullptr;
    for (BlockIter& x : partial.iters) x.kind = IterKind::kData;  // of what each thread does alone
    at_.clear();
    for (const For* n : data_) {
      at_.push_back(c_.Var(names_.Fresh(n->var->name), n->var->type));
      partial.iters.push_back({at_.back(), n->extent, IterKind::kData, n->var});
    }
    std::vector<Stmt> step;
    JoinWith(step, join_->elements);
    partial.body = MakeSeq(std::move(step));
    out.push_back(Replace(loop.body, path.back(), MakeStmt(std::move(partial))));

    // The results of warps are combined by one warp, which joins several of them at a time.
    if (loop.kind == ForKind::kThreadX && warp_ > 1 && (threads <= warp_ * warp_ || blocks > 1)) {
      if ((threads & (threads - 1)) != 0) {
        return Unimplemented("block ", b.name, ": ", threads, " threads along threadIdx.x are no power of two");
      }
      AddShuffles(out, std::min(threads, warp_));
      if (threads > warp_ || blocks > 1) {
        if (threads < warp_ || (blocks & (blocks - 1)) != 0)
          return Unimplemented("block ", b.name, ": a cluster of ", blocks, " blocks of ", threads, " threads");
        const int64_t own = threads / warp_, warps = own * blocks;
        const Expr lane = c_.Mod(loop.var, c_.Int(warp_)), warp = c_.Div(loop.var, c_.Int(warp_));
        auto [row, rows] = ThreadsAround(c_, path, outer_index);
        const Expr has = c_.Lt(lane, c_.Int(warps));
        std::vector<Buffer> red;
        for (size_t k = 0; k < part_.size(); ++k) red.push_back(Shared(out, k, {rows, c_.Int(warps)}));
        std::vector<Stmt> stores;
        ForResults(stores, [&](std::vector<Stmt>& to) {
          for (size_t k = 0; k < part_.size(); ++k)
            to.push_back(MakeStmt(Store{red[k], Slot(row, c_.Add(slot_of(own), warp)), Part(k)}));
        });
        out.push_back(MakeStmt(If{c_.Eq(lane, c_.Int(0)), MakeSeq(std::move(stores)), nullptr}));
        for (int64_t q = 0; q < std::max<int64_t>(warps / warp_, 1); ++q) {
          ForResults(out, [&](std::vector<Stmt>& to) {
            const Expr at = c_.Add(c_.Mod(lane, c_.Int(warps)), c_.Int(q * warp_));
            std::vector<Expr> others;
            for (size_t k = 0; k < part_.size(); ++k)
              others.push_back(c_.Select(has, c_.Load(red[k], Slot(row, at)), Here(start_)[k]));
            if (q == 0)
              StoreParts(to, others);
            else
              JoinWith(to, others.size() > 1 ? Named(c_, names_, to, others) : others);
          });
        }
        AddShuffles(out, warp_);  // lanes past the warps hold the neutral element
      }
    } else {
      const std::pair<Expr, Expr> column = ThreadsAround(c_, path, outer_index);
      // Many parts are combined in two rounds: by groups of threads, then their results.
      const bool groups = threads > kDirect && threads % kDirect == 0;
      const Expr group = c_.Div(loop.var, c_.Int(kDirect)), leads = c_.Eq(c_.Mod(loop.var, c_.Int(kDirect)), c_.Int(0));
      const Expr own = slot_of(threads), all = c_.Int(threads * blocks);
      if (groups) {
        Exchange(out, column, all, c_.Add(own, loop.var), nullptr, c_.Add(own, c_.Mul(group, c_.Int(kDirect))),
                 c_.Int(kDirect));
        const Expr count = c_.Int(threads / kDirect * blocks);
        Exchange(out, column, count, c_.Add(slot_of(threads / kDirect), group), leads, c_.Int(0), count);
      } else {
        Exchange(out, column, all, c_.Add(own, loop.var), nullptr, c_.Int(0), all);
      }
    }
    // Of what the block shares with others one thread writes, and only where the block's result exists.
    ForResults(out, [&](std::vector<Stmt>& to) {
      if (goes_on) {
        std::vector<Expr> before;
        for (Expr e : update->Running(c_)) before.push_back(Here(Substitute(c_, e, bindings)));
        JoinWith(to, before);
      }
      std::vector<Stmt> shared;
      for (size_t k = 0; k < part_.size(); ++k) {
        std::vector<Expr> at;
        for (Expr e : update->indices[k]) at.push_back(Here(Substitute(c_, e, bindings)));
        std::vector<Stmt>& stores = update->buffers[k]->scope == Scope::kLocal ? to : shared;
        stores.push_back(MakeStmt(Store{update->buffers[k], at, Part(k)}));
      }
      if (shared.empty()) return;
      Expr writes = c_.And(Here(DataCondition(b, path, outer_index)), c_.Eq(loop.var, c_.Int(0)));
      if (cluster_ != nullptr) writes = c_.And(writes, c_.Eq(cluster_->var, c_.Int(0)));
      to.push_back(MakeStmt(If{writes, MakeSeq(std::move(shared)), nullptr}));
    });
    const Stmt all = MakeStmt(For{loop.var, loop.extent, loop.kind, MakeSeq(std::move(out))});
    if (cluster_ == nullptr) return all;
    return MakeStmt(For{cluster_->var, cluster_->extent, cluster_->kind, all});
  }

 private:
  // A thread has several results where data loops stand inside of its own: statements for each of them, in loops of
  // their own, of which `at_` are the variables.
  void ForResults(std::vector<Stmt>& out, const std::function<void(std::vector<Stmt>&)>& add) {
    at_.clear();
    for (const For* n : data_) at_.push_back(c_.Var(names_.Fresh(n->var->name), n->var->type));
    std::vector<Stmt> stmts;
    add(stmts);
    Stmt all = MakeSeq(std::move(stmts));
    for (size_t i = data_.size(); i-- > 0;) all = MakeStmt(For{at_[i], data_[i]->extent, ForKind::kUnrolled, all});
    out.push_back(all);
  }
  Expr Here(Expr e) {
    VarMap to;
    for (size_t i = 0; i < data_.size(); ++i) to[data_[i]->var] = at_[i];
    return Substitute(c_, e, to);
  }
  std::vector<Expr> Here(std::vector<Expr> list) {
    for (Expr& e : list) e = Here(e);
    return list;
  }
  // Of shared memory, by groups of threads and places.
  std::vector<Expr> Slot(Expr a, Expr b) {
    std::vector<Expr> r = {a, b};
    r.insert(r.end(), at_.begin(), at_.end());
    return r;
  }
  std::vector<Expr> PartAt() { return at_.empty() ? std::vector<Expr>{c_.Int(0)} : at_; }
  Expr Part(size_t k) { return c_.Load(part_[k], PartAt()); }
  std::vector<Expr> Parts() {
    std::vector<Expr> r;
    for (size_t k = 0; k < part_.size(); ++k) r.push_back(Part(k));
    return r;
  }
  // The parts become `values`, which may read them.
  void StoreParts(std::vector<Stmt>& out, std::vector<Expr> values) {
    if (values.size() > 1) values = Named(c_, names_, out, values);
    for (size_t k = 0; k < part_.size(); ++k) out.push_back(MakeStmt(Store{part_[k], PartAt(), values[k]}));
  }
  void JoinWith(std::vector<Stmt>& out, const std::vector<Expr>& others) {
    StoreParts(out, join_->Joined(c_, Parts(), others));
  }
  Buffer Shared(std::vector<Stmt>& out, size_t k, std::vector<Expr> shape) {
    for (const For* n : data_) shape.push_back(n->extent);
    const Buffer red = c_.MakeBuffer(
        {.name = names_.Fresh("red"), .dtype = part_[k]->dtype, .shape = std::move(shape), .scope = Scope::kShared});
    out.push_back(MakeStmt(Alloc{red}));
    return red;
  }
  // The parts become the combination of the parts first..first+count of `slots`; of those each thread fills `slot`,
  // where `fills`.
  void Exchange(std::vector<Stmt>& out, std::pair<Expr, Expr> column, Expr slots, Expr slot, Expr fills, Expr first,
                Expr count) {
    std::vector<Buffer> red;
    for (size_t k = 0; k < part_.size(); ++k) red.push_back(Shared(out, k, {slots, column.second}));
    std::vector<Stmt> stores, joins;
    ForResults(stores, [&](std::vector<Stmt>& to) {
      for (size_t k = 0; k < part_.size(); ++k)
        to.push_back(MakeStmt(Store{red[k], Slot(slot, column.first), Part(k)}));
    });
    const Stmt store = MakeSeq(std::move(stores));
    out.push_back(fills == nullptr ? store : MakeStmt(If{fills, store, nullptr}));
    ForResults(out, [&](std::vector<Stmt>& to) { StoreParts(to, Here(start_)); });
    const Expr q = c_.Var(names_.Fresh("q"));
    ForResults(joins, [&](std::vector<Stmt>& to) {
      std::vector<Expr> others;
      for (size_t k = 0; k < part_.size(); ++k) others.push_back(c_.Load(red[k], Slot(c_.Add(first, q), column.first)));
      JoinWith(to, others);
    });
    out.push_back(MakeStmt(For{q, count, ForKind::kUnrolled, MakeSeq(std::move(joins))}));
  }
  void AddShuffles(std::vector<Stmt>& out, int64_t width) {
    for (int64_t s = width / 2; s > 0; s /= 2) {
      ForResults(out, [&](std::vector<Stmt>& to) {
        std::vector<Expr> others;
        for (Expr p : Parts()) others.push_back(c_.Make(ExprOp::kShuffleXor, {p, c_.Int(s, DType::kI32)}));
        JoinWith(to, others.size() > 1 ? Named(c_, names_, to, others) : others);
      });
    }
  }
  // The part of the block's predicate that does not speak of the reduction's loops.
  Expr DataCondition(const Block& b, const StmtPath& path, size_t loop_index) {
    Expr r = c_.Bool(true);
    std::function<void(Expr)> add = [&](Expr e) {
      if (e->op == ExprOp::kAnd) {
        for (Expr x : e->args) add(x);
        return;
      }
      for (size_t i = loop_index; i < path.size(); ++i) {
        const For* n = As<For>(path[i]);
        if (n != nullptr && Uses(e, n->var) && std::count(data_.begin(), data_.end(), n) == 0) return;
      }
      r = c_.And(r, e);
    };
    if (b.predicate != nullptr) add(b.predicate);
    return r;
  }

  Context& c_;
  NameSupply names_;
  const int64_t warp_;  // threads that shuffle
  const For* cluster_ = nullptr;
  std::vector<const For*> data_;  // loops inside of the threads' own, each with a result of its own
  std::vector<Expr> at_;
  std::optional<Join> join_;
  std::vector<Expr> start_;
  std::vector<Buffer> part_;
};

}  // namespace

StatusOr<Func> LowerThreadReductions(Func f, const LaunchLimits& limits) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const StmtPath& path : FindBlocks(f)) {
      const std::optional<size_t> loop = ReducingThreads(path);
      if (!loop) continue;
      ASSIGN_OR_RETURN(Stmt s, Lowering(f, limits.warp).Run(path, *loop));
      f.body = Replace(f.body, path[*loop], s);
      changed = true;
      break;
    }
  }
  return f;
}

}  // namespace cinn_like::ir
