#include "ir/passes/keep_fragments.h"

#include <algorithm>

#include "ir/linear.h"
#include "ir/mma.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMostElements = 128;  // of a thread

class Finder {
 public:
  Finder(Func& f, Buffer b) : c_(*f.context), b_(b) { Walk(f.body); }

  bool Fits() const {
    if (!fits_ || reads_.empty() || writes_.empty()) return false;
    const MmaNest::Operand& first = reads_[0].m.lhs;
    const int64_t step = first.row_step;
    WrapInt warp = 0;
    for (const Read& r : reads_) {
      const Linear l = ToLinear(c_, r.m.lhs.base);
      if (r.m.lhs.k_step != 1 || r.m.lhs.row_step != step || !l.exact || l.constant.value % 16 != 0) return false;
      WrapInt own = 0;
      for (const LinearTerm& t : l.terms) {
        const For* n = LoopOf(t.atom, r.around);
        if (n != nullptr && n->kind == ForKind::kThreadZ) {
          own = t.coef;
        } else if (n == nullptr || n->kind != ForKind::kUnrolled || t.coef.value >= step || t.coef.value % 16 != 0) {
          return false;
        }
      }
      if ((own != 0 || HasWarps(r.around)) && own != r.m.m_tiles * (r.four ? 64 : 16) * step) return false;
      if (r.four != reads_[0].four) return false;
      if (&r != &reads_[0] && own != warp) return false;
      warp = own;
    }
    return std::all_of(writes_.begin(), writes_.end(), [&](const Write& w) { return IsOwn(w, step, warp); });
  }

 private:
  struct Read {
    MmaNest m;
    bool four;  // warps
    std::vector<const For*> around;
  };
  struct Write {
    const Store* store;
    std::vector<const For*> around;
  };

  static const For* LoopOf(Expr var, const std::vector<const For*>& around) {
    const auto it = std::find_if(around.begin(), around.end(), [&](const For* n) { return n->var == var; });
    return it == around.end() ? nullptr : *it;
  }

  static bool HasWarps(const std::vector<const For*>& around) {
    return std::any_of(around.begin(), around.end(),
                       [](const For* n) { return n->kind == ForKind::kThreadZ && !IsInt(n->extent, 1); });
  }

  // Thread (z, y, x) writes rows z * (rows of a warp) + 8 * .. + y, columns 8 * .. + x * 2 + l; of four warps rows z *
  // (rows of these) + y / 8 * 16 + 8 * .. + y % 8.
  bool IsOwn(const Write& w, int64_t step, WrapInt warp) const {
    const bool four = reads_[0].four;
    Expr offset = MmaOffset(c_, w.store->indices), of_four = nullptr, row = nullptr;
    for (const For* n : w.around) {
      if (!four || n->kind != ForKind::kThreadY || !IsInt(n->extent, 32)) continue;
      of_four = c_.Var("warp", n->var->type), row = c_.Var("row", n->var->type);
      offset = InWarps(c_, offset, n->var, of_four, row);
    }
    if (four && of_four == nullptr) return false;
    const Linear l = ToLinear(c_, offset);
    const auto is_tile = [&](int64_t n) { return n % 8 == 0 && (n < step || n % (8 * step) == 0); };
    if (!l.exact || w.store->mask != nullptr || l.constant.value < 0 || !is_tile(l.constant.value % step) ||
        !is_tile(l.constant.value / step * step))
      return false;
    int threads = 0;
    int64_t elements = 1;
    for (const LinearTerm& t : l.terms) {
      if (four && (t.atom == of_four || t.atom == row)) {
        if (t.coef != (t.atom == row ? step : 16 * step)) return false;
        ++threads;
        continue;
      }
      const For* n = LoopOf(t.atom, w.around);
      const int64_t coef = t.coef.value;
      if (n == nullptr || coef <= 0 || !IsInt(n->extent)) return false;
      const int64_t extent = n->extent->int_value;
      if (n->kind == ForKind::kThreadZ) {
        if (t.coef != warp) return false;
        ++threads;
      } else if (n->kind == ForKind::kThreadY || n->kind == ForKind::kThreadX) {
        const bool y = n->kind == ForKind::kThreadY;
        if (coef != (y ? step : 2) || extent != (y ? 8 : 4)) return false;
        ++threads;
      } else if (n->kind == ForKind::kUnrolled || n->kind == ForKind::kVectorized) {
        if (!is_tile(coef) && (coef != 1 || extent != 2)) return false;
        elements *= extent;
      } else {
        return false;
      }
    }
    return threads == (HasWarps(w.around) ? 3 : 2) + (four ? 1 : 0) && elements <= kMostElements;
  }

  void Walk(const Stmt& s) {
    if (const For* n = As<For>(s)) {
      const std::vector<Buffer> read = BuffersRead(s), written = BuffersWritten(s);
      if (std::find(read.begin(), read.end(), b_) == read.end() &&
          std::find(written.begin(), written.end(), b_) == written.end())
        return;
      if (n->kind == ForKind::kMma || n->kind == ForKind::kWgmma) {
        const StatusOr<MmaNest> m = MatchMma(c_, *n, around_, n->kind);
        fits_ = fits_ && m.ok() && m->lhs.buffer == b_ && m->rhs.buffer != b_;
        if (m.ok()) reads_.push_back({*m, n->kind == ForKind::kWgmma, around_});
        return;
      }
      around_.push_back(n);
      Walk(n->body);
      around_.pop_back();
      return;
    }
    if (const Store* n = As<Store>(s); n != nullptr && n->buffer == b_) writes_.push_back({n, around_});
    ForEachChild(
        s, [&](Expr e) { VisitLoads(e, [&](Expr x) { fits_ = fits_ && x->buffer != b_; }); },
        [&](const Stmt& x) { Walk(x); });
  }

  Context& c_;
  const Buffer b_;
  std::vector<const For*> around_;
  std::vector<Read> reads_;
  std::vector<Write> writes_;
  bool fits_ = true;
};

}  // namespace

StatusOr<Func> KeepFragments(Func f, const LaunchLimits& limits) {
  if (!limits.mma) return f;
  std::vector<Buffer> shared;
  VisitStmts(f.body, [&](const Stmt& s) {
    const Alloc* a = As<Alloc>(s);
    if (a != nullptr && a->buffer->scope == Scope::kShared && IsHalf(a->buffer->dtype)) shared.push_back(a->buffer);
    return true;
  });
  for (Buffer b : shared) {
    if (!Finder(f, b).Fits()) continue;
    BufferNode n = *b;
    n.scope = Scope::kWarp;
    f.body = ReplaceBuffers(*f.context, f.body, {{b, f.context->MakeBuffer(std::move(n))}});
  }
  return f;
}

}  // namespace cinn_like::ir
