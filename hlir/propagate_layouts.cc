#include "hlir/propagate_layouts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hlir/stage_analysis.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

constexpr size_t kImageRank = 4;  // of the caller's tensors whose order says anything: an image's and more

// For each dimension in memory the one of the value as given.
using Order = std::vector<size_t>;

std::vector<Expr> Permute(const std::vector<Expr>& v, const Order& order) {
  std::vector<Expr> r;
  for (size_t d : order) r.push_back(v[d]);
  return r;
}

class Propagator {
 public:
  explicit Propagator(TeProgram p) : p_(std::move(p)), c_(*p_.context) {
    for (const Param& q : p_.params) {
      if (q.role == ParamRole::kResult) fixed_.insert(q.buffer);
      if (q.role != ParamRole::kResult && q.buffer != nullptr && IsPermutedImage(q.buffer)) images_.insert(q.buffer);
    }
    fixed_.insert(p_.kept.begin(), p_.kept.end());
  }

  TeProgram Run() {
    if (images_.empty()) return std::move(p_);
    for (Stage& s : p_.stages) {
      const Order order = OrderOf(s);
      if (!order.empty()) {
        for (Buffer& b : s.outputs) {
          BufferNode n = *b;
          n.shape = Permute(n.shape, order);
          const Buffer laid_out = c_.MakeBuffer(std::move(n));
          moved_[b] = {laid_out, order};
          images_.insert(laid_out);
          b = laid_out;
        }
        std::vector<StageIter> iters;
        for (size_t d : order) iters.push_back(s.iters[d]);
        s.iters = std::move(iters);
      }
      for (Expr& v : s.values) v = Moved(v);
    }
    return std::move(p_);
  }

 private:
  // Dense, in another order than its dimensions'.
  bool IsPermutedImage(Buffer b) const {
    if (b->shape.size() < kImageRank || b->strides.empty()) return false;
    double least = HUGE_VAL;
    bool permuted = false;
    for (size_t d = 0; d < b->shape.size(); ++d) {
      if (IsInt(b->shape[d], 1)) continue;
      const double stride = TypicalSize(b->strides[d], p_.symbols);
      permuted |= stride > least;
      least = std::min(least, stride);
    }
    return permuted && least == 1;
  }

  // The value with its loads of what was moved as they are now.
  Expr Moved(Expr e) {
    Rewriter* self = nullptr;
    Rewriter rewrite(c_, [&](Expr x) -> Expr {
      const auto to = x->op == ExprOp::kLoad ? moved_.find(x->buffer) : moved_.end();
      if (to == moved_.end()) return nullptr;
      std::vector<Expr> at;
      for (Expr i : IndicesOf(x)) at.push_back((*self)(i));
      const Expr mask = MaskOf(x);
      return c_.Load(to->second.first, Permute(at, to->second.second), mask == nullptr ? nullptr : (*self)(mask));
    });
    self = &rewrite;
    return rewrite(e);
  }

  // The elements that one of the stage's is computed of, of an image whose places move with most of its iterators.
  Expr ImageOf(const Stage& s) {
    Expr r = nullptr;
    size_t most = 0;
    for (Expr v : s.values) {
      VisitLoads(Moved(v), [&](Expr e) {
        if (!images_.contains(e->buffer)) return;
        size_t used = 0;
        for (const StageIter& i : s.iters) used += Uses(e, i.var);
        if (used > most) r = e, most = used;
      });
    }
    return r;
  }

  // How far apart in memory neighbours along the iterator are; 0: it does not move the place.
  double StrideAlong(Expr image, const Stage& s, const StageIter& i) {
    VarMap first;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& x : *list) first[x.var] = c_.Int(0);
    }
    VarMap last = first;
    last[i.var] = c_.Sub(i.extent, c_.Int(1));
    const Expr offset = ElementOffset(c_, image->buffer, IndicesOf(image));
    Analyzer a(c_);
    const Expr apart = a.Simplify(c_.Sub(Substitute(c_, offset, last), Substitute(c_, offset, first)));
    return std::abs(TypicalSize(apart, p_.symbols)) / std::max(1.0, TypicalSize(i.extent, p_.symbols) - 1);
  }

  // Heads of attention are no images: a contraction for each of them has its results as given.
  static bool IsOfHeads(const Stage& s) {
    const std::optional<Contraction> con = FindContraction(s);
    if (!con) return false;
    const auto uses_any = [](Expr e, const std::vector<StageIter>& iters) {
      return std::any_of(iters.begin(), iters.end(), [&](const StageIter& i) { return Uses(e, i.var); });
    };
    for (Expr load : {con->lhs, con->rhs}) {
      for (Expr at : IndicesOf(load)) {
        if (uses_any(at, s.iters) && uses_any(at, s.reduce_iters)) return false;  // a window
      }
    }
    return std::any_of(con->batch.begin(), con->batch.end(), [](const StageIter& i) { return !IsInt(i.extent, 1); });
  }

  // Empty: as given.
  Order OrderOf(const Stage& s) {
    if (!s.at.empty() || s.IsScan() || s.iters.size() < kImageRank || IsOfHeads(s) ||
        std::any_of(s.outputs.begin(), s.outputs.end(), [&](Buffer b) { return fixed_.contains(b); }))
      return {};
    const Expr image = ImageOf(s);
    if (image == nullptr) return {};
    // What takes the place of channels that are summed up lies as they did.
    double summed = HUGE_VAL;
    for (const StageIter& r : s.reduce_iters) {
      if (!IsInt(r.extent, 1) && Uses(image, r.var)) summed = std::min(summed, StrideAlong(image, s, r));
    }
    const bool contracts = FindContraction(s).has_value();
    std::vector<double> strides;
    for (const StageIter& i : s.iters) {
      if (IsInt(i.extent, 1)) {
        strides.push_back(strides.empty() ? HUGE_VAL : strides.back());
      } else if (Uses(image, i.var)) {
        strides.push_back(StrideAlong(image, s, i));
      } else if (contracts && summed < HUGE_VAL) {
        strides.push_back(summed);
      } else {
        return {};
      }
    }
    Order order(s.iters.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
    return std::is_sorted(order.begin(), order.end()) ? Order() : order;
  }

  TeProgram p_;
  Context& c_;
  absl::flat_hash_set<Buffer> fixed_;   // that the caller gets
  absl::flat_hash_set<Buffer> images_;  // that lie in another order than their dimensions', where they lie now
  absl::flat_hash_map<Buffer, std::pair<Buffer, Order>> moved_;
};

}  // namespace

TeProgram PropagateLayouts(TeProgram program) { return Propagator(std::move(program)).Run(); }

}  // namespace cinn_like::hlir
