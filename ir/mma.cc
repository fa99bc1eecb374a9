#include "ir/mma.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_join.h"
#include "ir/linear.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {

Expr MmaOffset(Context& c, const std::vector<Expr>& indices) {
  constexpr int64_t kFar = 4096;
  if (indices.size() == 1) return indices[0];
  Expr r = c.Int(0);
  int64_t stride = 1;
  for (size_t d = indices.size(); d-- > 0; stride *= kFar)
    r = c.Add(c.Mul(c.Cast(DType::kI64, indices[d]), c.Int(stride)), r);
  return r;
}

Expr InWarps(Context& c, Expr offset, Expr y, Expr warp, Expr row) {
  Rewriter digits(c, [&](Expr e) -> Expr {
    if (e == y) return c.Add(c.Mul(warp, c.Int(8, y->type.dtype)), row);
    if (e->args.size() != 2 || e->args[0] != y || !IsInt(e->args[1], 8)) return nullptr;
    if (e->op == ExprOp::kDiv || e->op == ExprOp::kTruncDiv) return warp;
    return e->op == ExprOp::kMod || e->op == ExprOp::kTruncMod ? row : nullptr;
  });
  return digits(offset);
}

namespace {

class Matcher {
 public:
  Matcher(Context& c, const For& loop, const std::vector<const For*>& around, ForKind kind)
      : c_(c), loop_(loop), around_(around), kind_(kind) {}

  StatusOr<MmaNest> Run() {
    RETURN_IF_ERROR(FindLoops());
    RETURN_IF_ERROR(FindThreads());
    MmaNest r;
    r.m_tiles = extents_[0];
    r.n_tiles = extents_[1];
    const Store* s = As<Store>(body_);
    if (s == nullptr || s->mask != nullptr || s->buffer->dtype != DType::kF32 || s->buffer->scope != Scope::kLocal)
      return Refuse("expected one store of f32 to local memory, without a mask");
    const Expr load = c_.Load(s->buffer, s->indices);
    if (s->value->op != ExprOp::kAdd || (s->value->args[0] != load && s->value->args[1] != load))
      return Refuse("expected what is stored to be added to");
    const Expr product = s->value->args[s->value->args[0] == load ? 1 : 0];
    if (product->op != ExprOp::kMul) return Refuse("expected a product to be added");
    r.acc = s->buffer;
    // acc
    const Expr offset = MmaOffset(c_, s->indices);
    Linear l = ToLinear(c_, offset);
    r.acc_i = Take(l, Loop(0)), r.acc_j = Take(l, Loop(1)), r.acc_h = Take(l, Loop(2)), r.acc_l = Take(l, Loop(3));
    if (Take(l, Loop(4)) != 0 || Moves(l)) return Refuse("expected sums of each thread's own, the same for all k");
    r.acc_base = FromLinear(c_, l, offset->type.dtype);
    // The operand that speaks of h is the left one.
    const bool swapped = !Uses(product->args[0], Loop(2));
    ASSIGN_OR_RETURN(
        r.lhs, OperandOf(product->args[swapped ? 1 : 0], 0, 2, kind_ == ForKind::kMma ? 16 : 64, 8, thread_y_, 1));
    ASSIGN_OR_RETURN(r.rhs, OperandOf(product->args[swapped ? 0 : 1], 1, 3, 8, 1, thread_x_, 2));
    if (r.lhs.buffer->dtype != r.rhs.buffer->dtype) return Refuse("expected operands of one type");
    return r;
  }

 private:
  template <class... Args>
  Status Refuse(const Args&... why) const {
    return InvalidArgument(Name(kind_), " ", loop_.var->name, ": ", why...);
  }

  Status FindLoops() {
    const For* n = &loop_;
    body_ = nullptr;
    while (n != nullptr) {
      if (!IsInt(n->extent) || (n != &loop_ && n->kind != ForKind::kSerial))
        return Refuse("expected loops of constant extents inside, got ", n->var->name);
      loops_.push_back(n);
      body_ = n->body;
      n = As<For>(body_);
    }
    if (const Block* b = As<Block>(body_)) {
      if (b->init != nullptr || (b->predicate != nullptr && !IsInt(b->predicate, 1)))
        return Refuse("block ", b->name, " has a start or a condition");
      body_ = Substitute(c_, b->body, Bindings(*b));
    }
    for (const For* n : loops_) extents_.push_back(n->extent->int_value);
    // A loop of one iteration may be none.
    if (loops_.size() == 4) loops_.insert(loops_.begin(), nullptr), extents_.insert(extents_.begin(), 1);
    const int64_t most = kind_ == ForKind::kMma ? std::numeric_limits<int64_t>::max() : 32;
    if (extents_.size() != 5 || extents_[2] != 2 || extents_[3] != 2 || extents_[4] != 16 || extents_[1] % 2 != 0 ||
        extents_[0] < 1 || extents_[1] > most) {
      return Refuse("expected a nest of [I,] J, 2, 2, 16 iterations with J even",
                    kind_ == ForKind::kMma ? "" : " and at most 32", ", got ", absl::StrJoin(extents_, ", "));
    }
    return absl::OkStatus();
  }

  Status FindThreads() {
    const int64_t rows = kind_ == ForKind::kMma ? 8 : 32;
    for (const For* n : around_) {
      if (n->kind == ForKind::kThreadX && IsInt(n->extent, 4)) thread_x_ = n->var;
      if (n->kind == ForKind::kThreadY && IsInt(n->extent, rows)) thread_y_ = n->var;
    }
    if (thread_x_ == nullptr || thread_y_ == nullptr)
      return Refuse("expected to stand in loops of ", rows, " iterations on threadIdx.y and 4 on threadIdx.x");
    return absl::OkStatus();
  }

  // Of the threads of four warps: the warp, and a row of its threads.
  Expr InWarps(Expr offset) {
    if (kind_ == ForKind::kMma) return offset;
    if (warp_ == nullptr) warp_ = c_.Var("warp", thread_y_->type), row_ = c_.Var("row", thread_y_->type);
    return ir::InWarps(c_, offset, thread_y_, warp_, row_);
  }

  // Takes the loop's term away; its coefficient.
  int64_t Take(Linear& l, Expr var) {
    for (const LinearTerm& t : l.terms) {
      if (var == nullptr || t.atom != var) continue;
      const int64_t coef = t.coef;
      RemoveTerm(l, var);
      return coef;
    }
    return 0;
  }
  Expr Loop(size_t k) const { return loops_[k] == nullptr ? nullptr : loops_[k]->var; }

  // What is left moves with the nest's loops.
  bool Moves(const Linear& l) const {
    return !l.exact || std::any_of(l.terms.begin(), l.terms.end(), [&](const LinearTerm& t) {
      return std::any_of(loops_.begin(), loops_.end(),
                         [&](const For* n) { return n != nullptr && Uses(t.atom, n->var); });
    });
  }

  // Rows: `tile_rows` * tile + `half_rows` * half + `thread_rows` * thread.
  StatusOr<MmaNest::Operand> OperandOf(Expr e, size_t tile, size_t half, int64_t tile_rows, int64_t half_rows,
                                       Expr thread, int64_t thread_rows) {
    const bool is_cast = e->op == ExprOp::kCast && e->type.dtype == DType::kF32;
    const Expr load = is_cast ? e->args[0] : e;
    if (load->op != ExprOp::kLoad || load->has_mask || !IsHalf(load->type.dtype) ||
        (load->buffer->scope != Scope::kShared && (tile != 0 || load->buffer->scope != Scope::kWarp)))
      return Refuse("expected f32 of an element of shared memory of a 16-bit float type, got ", Print(e));
    const Expr offset = InWarps(MmaOffset(c_, IndicesOf(load)));
    Linear l = ToLinear(c_, offset);
    MmaNest::Operand r{.buffer = load->buffer};
    const bool four = tile == 0 && kind_ == ForKind::kWgmma;
    const int64_t of_tile = Take(l, Loop(tile)), of_half = Take(l, Loop(half)),
                  of_thread = Take(l, four ? row_ : thread), of_warp = four ? Take(l, warp_) : 0;
    r.k_step = Take(l, Loop(4));
    r.row_step = of_thread / thread_rows;
    const bool fits = of_thread == r.row_step * thread_rows && of_half == r.row_step * half_rows &&
                      (Loop(tile) == nullptr || of_tile == r.row_step * tile_rows) &&
                      of_warp == (four ? r.row_step * 16 : 0) && (r.row_step == 1 || r.k_step == 1);
    r.base = FromLinear(c_, l, offset->type.dtype);
    const bool moves = Moves(l) || Uses(r.base, thread_x_) || Uses(r.base, thread_y_) ||
                       (warp_ != nullptr && (Uses(r.base, warp_) || Uses(r.base, row_)));
    if (!fits || moves)
      return Refuse("expected rows at ", tile_rows, " * tile + ", four ? "16 * warp + " : "", half_rows, " * half + ",
                    thread_rows, " * thread, contiguous along them or along k, got ", Print(load));
    return r;
  }

  Context& c_;
  const For& loop_;
  const std::vector<const For*>& around_;
  const ForKind kind_;
  std::vector<const For*> loops_;  // i, j, h, l, k; null: no loop, one iteration
  std::vector<int64_t> extents_;   // of these
  Stmt body_;
  Expr thread_x_ = nullptr, thread_y_ = nullptr, warp_ = nullptr, row_ = nullptr;
};

}  // namespace

StatusOr<MmaNest> MatchMma(Context& c, const For& loop, const std::vector<const For*>& around, ForKind kind) {
  return Matcher(c, loop, around, kind).Run();
}

}  // namespace cinn_like::ir
