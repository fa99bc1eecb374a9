#include "backends/llvm_lanes.h"

#include <algorithm>

#include "cinn_like/base/int_math.h"

namespace cinn_like {
namespace {

using ir::Expr;
using ir::ExprOp;

// What the lanes of an integer are: all of it, or but how far each is from a value that is not known.
struct Offsets {
  bool known;
  std::vector<int64_t> at;
};

std::optional<Offsets> OffsetsOf(Expr e, size_t lanes) {
  const auto all = [&](bool known, int64_t v) { return Offsets{known, std::vector<int64_t>(lanes, v)}; };
  if (ir::IsInt(e)) return all(true, e->int_value);
  if (e->op == ExprOp::kBroadcast) return OffsetsOf(e->args[0], lanes);
  if (e->op == ExprOp::kRamp) {
    if (!ir::IsInt(e->args[1])) return std::nullopt;
    std::optional<Offsets> r = OffsetsOf(e->args[0], lanes);
    WrapInt step = 0;
    for (size_t i = 0; r && i < lanes; ++i, step = step + e->args[1]->int_value) r->at[i] = step + r->at[i];
    return r;
  }
  if (e->type.lanes == 1) return all(false, 0);
  const bool is_sum = e->op == ExprOp::kAdd || e->op == ExprOp::kSub;
  if (!is_sum && e->op != ExprOp::kMul && e->op != ExprOp::kTruncDiv && e->op != ExprOp::kTruncMod &&
      e->op != ExprOp::kDiv && e->op != ExprOp::kMod && e->op != ExprOp::kMin && e->op != ExprOp::kMax)
    return std::nullopt;
  const std::optional<Offsets> x = OffsetsOf(e->args[0], lanes), y = OffsetsOf(e->args[1], lanes);
  if (!x || !y || (!is_sum && !(x->known && y->known))) return std::nullopt;
  Offsets r = all(x->known && y->known, 0);
  for (size_t i = 0; i < lanes; ++i) {
    const std::optional<int64_t> v = ir::FoldInt(e->op, e->type.dtype, {x->at[i], y->at[i]});
    if (!v) return std::nullopt;
    r.at[i] = *v;
  }
  return r;
}

}  // namespace

std::optional<NearLanes> FindNearLanes(Expr index, size_t most_turns) {
  constexpr int64_t kMostParts = 4;
  const auto lanes = static_cast<size_t>(index->type.lanes);
  const std::optional<Offsets> offsets = OffsetsOf(index, lanes);
  if (!offsets) return std::nullopt;
  const std::vector<int64_t>& at = offsets->at;
  const auto [low, high] = std::minmax_element(at.begin(), at.end());
  const auto width = static_cast<int64_t>(lanes);
  const WrapInt distance = WrapInt(*high) - *low;
  if (distance < 0 || distance >= kMostParts * width) return std::nullopt;
  const int64_t span = distance + 1, num_parts = (span + width - 1) / width;
  NearLanes r;
  for (int64_t k = 0; k < num_parts; ++k) {
    NearLanes::Part part;
    // None reaches beyond the last lane's element.
    const int64_t first = std::max<int64_t>(std::min(k * width, span - width), 0);
    part.first = WrapInt(*low) - at[0] + first;
    part.elements = static_cast<int>(std::min(span, width));
    r.parts.push_back(part);
  }
  for (size_t i = 0; i < lanes; ++i) {
    const int64_t element = WrapInt(at[i]) - at[0];
    const auto part = std::find_if(r.parts.begin(), r.parts.end(),
                                   [&](const NearLanes::Part& p) { return element < p.first + p.elements; });
    const int64_t e = element - part->first;
    size_t turn = 0;
    while (turn < part->lanes.size() && part->lanes[turn][static_cast<size_t>(e)] >= 0) ++turn;
    if (turn == most_turns) return std::nullopt;
    if (turn == part->lanes.size()) part->lanes.emplace_back(part->elements, -1);
    part->lanes[turn][static_cast<size_t>(e)] = static_cast<int>(i);
    r.part_of.push_back(static_cast<int>(part - r.parts.begin()));
    r.element_of.push_back(static_cast<int>(e));
  }
  return r;
}

}  // namespace cinn_like
