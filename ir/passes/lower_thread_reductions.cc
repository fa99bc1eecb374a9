#include "ir/passes/lower_thread_reductions.h"

#include <algorithm>

#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

constexpr int kWarp = 32;
constexpr int kDirect = 8;  // parts that one thread adds up, where there is a choice

bool IsAssociative(ExprOp op) {
  switch (op) {
    case ExprOp::kAdd:
    case ExprOp::kMul:
    case ExprOp::kMin:
    case ExprOp::kMax:
    case ExprOp::kAnd:
    case ExprOp::kOr:
      return true;
    default:
      return false;
  }
}

class Lowering {
 public:
  explicit Lowering(Func& f) : f_(f), c_(*f.context), names_(f) {}

  StatusOr<Stmt> Run(const StmtPath& path, size_t loop_index) {
    const For& loop = *As<For>(path[loop_index]);
    const Block& b = *As<Block>(path.back());
    const Store* init = As<Store>(b.init);
    const Store* update = As<Store>(b.body);
    if (init == nullptr || update == nullptr) {
      return Unimplemented("block ", b.name, ": a reduction of several values cannot be bound to threads");
    }
    const Expr value = update->value;
    const Expr accumulator = c_.Load(update->buffer, update->indices);
    if (!IsAssociative(value->op) || (value->args[0] != accumulator && value->args[1] != accumulator)) {
      return Unimplemented("block ", b.name, ": ", Print(value), " is no associative combination");
    }
    const ExprOp op = value->op;
    const Expr start = Substitute(c_, init->value, Bindings(b));
    const Expr element = value->args[0] == accumulator ? value->args[1] : value->args[0];
    for (size_t i = 0; i < loop_index; ++i) {
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
      for (const BlockIter& it : b.iters) {
        if (it.kind == IterKind::kData && Uses(it.binding, n->var)) {
          return Unimplemented("block ", b.name, ": data loop ", n->var->name, " inside thread loop ", loop.var->name);
        }
      }
      if (IsThreadAxis(n->kind)) return Unimplemented("block ", b.name, ": a reduction over two thread axes");
    }
    const int64_t threads = loop.extent->int_value;
    const DType t = update->buffer->dtype;
    part_ = c_.MakeBuffer({.name = names_.Fresh("part"), .dtype = t, .shape = {c_.Int(1)}, .scope = Scope::kLocal});
    const Expr part = c_.Load(part_, {c_.Int(0)});
    std::vector<Stmt> out = {MakeStmt(Alloc{part_}), StorePart(start)};
    Block partial = b;
    partial.init = nullptr;
    partial.body = StorePart(c_.Make(op, {part, element}));
    out.push_back(Replace(loop.body, path.back(), MakeStmt(std::move(partial))));

    if (loop.kind == ForKind::kThreadX) {
      if ((threads & (threads - 1)) != 0) {
        return Unimplemented("block ", b.name, ": ", threads, " threads along threadIdx.x are no power of two");
      }
      AddShuffles(out, op, std::min<int64_t>(threads, kWarp));
      if (threads > kWarp) {
        const int64_t warps = threads / kWarp;
        const Expr lane = c_.Mod(loop.var, c_.Int(kWarp)), warp = c_.Div(loop.var, c_.Int(kWarp));
        auto [row, rows] = OtherThreads(path, loop_index);
        Buffer red = c_.MakeBuffer(
            {.name = names_.Fresh("red"), .dtype = t, .shape = {rows, c_.Int(warps)}, .scope = Scope::kShared});
        out.push_back(MakeStmt(Alloc{red}));
        out.push_back(MakeStmt(If{c_.Eq(lane, c_.Int(0)), MakeStmt(Store{red, {row, warp}, part}), nullptr}));
        const Expr has = c_.Lt(lane, c_.Int(warps));
        out.push_back(StorePart(c_.Select(has, c_.Load(red, {row, c_.Mod(lane, c_.Int(warps))}), start)));
        AddShuffles(out, op, kWarp);  // lanes past the warps hold the neutral element
      }
    } else {
      const std::pair<Expr, Expr> column = OtherThreads(path, loop_index);
      // Many parts are combined in two rounds: by groups of threads, then their results.
      const bool groups = threads > kDirect && threads % kDirect == 0;
      const Expr group = c_.Div(loop.var, c_.Int(kDirect)), leads = c_.Eq(c_.Mod(loop.var, c_.Int(kDirect)), c_.Int(0));
      if (groups) {
        Exchange(out, op, start, column, loop.extent, loop.var, nullptr, c_.Mul(group, c_.Int(kDirect)),
                 c_.Int(kDirect));
        const Expr count = c_.Int(threads / kDirect);
        Exchange(out, op, start, column, count, group, leads, c_.Int(0), count);
      } else {
        Exchange(out, op, start, column, loop.extent, loop.var, nullptr, c_.Int(0), loop.extent);
      }
    }
    const VarMap bindings = Bindings(b);
    std::vector<Expr> at;
    for (Expr e : update->indices) at.push_back(Substitute(c_, e, bindings));
    Stmt result = MakeStmt(Store{update->buffer, at, part});
    if (update->buffer->scope != Scope::kLocal) {
      // One thread writes, and only where the block's result exists.
      result = MakeStmt(If{c_.And(DataCondition(b, path, loop_index), c_.Eq(loop.var, c_.Int(0))), result, nullptr});
    }
    out.push_back(result);
    return MakeStmt(For{loop.var, loop.extent, loop.kind, MakeSeq(std::move(out))});
  }

 private:
  Stmt StorePart(Expr v) { return MakeStmt(Store{part_, {c_.Int(0)}, v}); }
  // The part becomes the combination of the parts first..first+count of `slots`; of those each thread fills `slot`,
  // where `fills`.
  void Exchange(std::vector<Stmt>& out, ExprOp op, Expr start, std::pair<Expr, Expr> column, Expr slots, Expr slot,
                Expr fills, Expr first, Expr count) {
    const Expr part = c_.Load(part_, {c_.Int(0)});
    Buffer red = c_.MakeBuffer(
        {.name = names_.Fresh("red"), .dtype = part_->dtype, .shape = {slots, column.second}, .scope = Scope::kShared});
    out.push_back(MakeStmt(Alloc{red}));
    const Stmt store = MakeStmt(Store{red, {slot, column.first}, part});
    out.push_back(fills == nullptr ? store : MakeStmt(If{fills, store, nullptr}));
    out.push_back(StorePart(start));
    const Expr q = c_.Var(names_.Fresh("q"));
    const Expr sum = c_.Make(op, {part, c_.Load(red, {c_.Add(first, q), column.first})});
    out.push_back(MakeStmt(For{q, count, ForKind::kUnrolled, StorePart(sum)}));
  }
  void AddShuffles(std::vector<Stmt>& out, ExprOp op, int64_t width) {
    const Expr part = c_.Load(part_, {c_.Int(0)});
    for (int64_t s = width / 2; s > 0; s /= 2) {
      out.push_back(StorePart(c_.Make(op, {part, c_.Make(ExprOp::kShuffleXor, {part, c_.Int(s, DType::kI32)})})));
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
        if (n != nullptr && Uses(e, n->var)) return;
      }
      r = c_.And(r, e);
    };
    if (b.predicate != nullptr) add(b.predicate);
    return r;
  }
  // The index and number of the groups of threads that reduce apart: the other thread axes around.
  std::pair<Expr, Expr> OtherThreads(const StmtPath& path, size_t loop_index) {
    Expr index = c_.Int(0), count = c_.Int(1);
    for (size_t i = 0; i < loop_index; ++i) {
      const For* n = As<For>(path[i]);
      if (n == nullptr || !IsThreadAxis(n->kind)) continue;
      index = c_.Add(c_.Mul(index, n->extent), n->var);
      count = c_.Mul(count, n->extent);
    }
    return {index, count};
  }

  Func& f_;
  Context& c_;
  NameSupply names_;
  Buffer part_ = nullptr;
};

}  // namespace

StatusOr<Func> LowerThreadReductions(Func f) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const StmtPath& path : FindBlocks(f)) {
      const Block& b = *As<Block>(path.back());
      if (b.init == nullptr) continue;
      for (size_t i = 0; i < path.size() && !changed; ++i) {
        const For* n = As<For>(path[i]);
        if (n == nullptr || !IsThreadAxis(n->kind)) continue;
        const bool carries = std::any_of(b.iters.begin(), b.iters.end(), [&](const BlockIter& it) {
          return it.kind == IterKind::kReduce && Uses(it.binding, n->var);
        });
        if (!carries) continue;
        ASSIGN_OR_RETURN(Stmt s, Lowering(f).Run(path, i));
        f.body = Replace(f.body, path[i], s);
        changed = true;
      }
      if (changed) break;
    }
  }
  return f;
}

}  // namespace cinn_like::ir
