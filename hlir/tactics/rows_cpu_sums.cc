#include <algorithm>

#include "cinn_like/base/costs.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/rows_cpu.h"

namespace cinn_like::hlir {

size_t SumOf(const RowNests& r) {
  size_t k = 0;
  while (k < r.group.stages.size() && !(r.sums && r.group.stages[k].name == r.sums->stage)) ++k;
  return k;
}

bool IsColumn(const RowNests& r, int dim) {
  const size_t sum = SumOf(r);
  return sum < r.space.dim_of.size() && std::count(r.space.dim_of[sum].begin(), r.space.dim_of[sum].end(), dim) > 0;
}

namespace {

// Reductions over a row that do not wait for one another go through it together, but for the lanes. `shared` loops are
// around all nests.
void MergeReductions(RowNests& r, size_t shared, size_t but) {
  ir::Schedule& s = r.schedule;
  std::vector<std::string> last;
  for (size_t k = 0; k < r.nests.size(); ++k) {
    if (!r.nests[k].reduction || k == but) continue;
    std::vector<std::string> loops = s.LoopsAround(r.nests[k].block);
    for (size_t i = shared; i + 1 < loops.size() && loops.size() == last.size(); ++i) {
      if (!s.Try(Cat("merge ", last[i], " ", loops[i]))) break;
      loops[i] = last[i];
    }
    last = std::move(loops);
  }
}

}  // namespace

StatusOr<std::vector<Proposal>> ProposeRowsWithSums(RowNests& r, const Target& target, Until until, Point& point) {
  RETURN_IF_ERROR(r.KeepResults(false));
  ir::Schedule& s = r.schedule;
  const size_t sum = SumOf(r);
  RET_CHECK(sum < r.nests.size(), r.sums->stage);
  int row = -1;
  std::vector<int> columns;
  for (int d = 0; d < static_cast<int>(r.space.dims.size()); ++d) {
    if (IsColumn(r, d))
      columns.push_back(d);
    else
      row = d;
  }
  const int vector = columns.empty() ? -1 : ChooseVectorDim(r, target);
  if (row < 0 || columns.size() + 1 != r.space.dims.size() || vector == row || vector < 0)
    return std::vector<Proposal>();
  const bool vector_is_reduced = r.space.dims[vector].reduced;
  const int64_t vector_lanes = LanesFor(r, target, vector);
  const int64_t lanes = point.Choose(
      "lanes", {vector_lanes, std::max<int64_t>(vector_lanes / 2, 1), 2 * vector_lanes, kInFlight * vector_lanes},
      LanesInFlight(r, vector_lanes, vector));
  const double seconds = PredictSeconds(r, vector, lanes, target);
  if (until == Until::kPrice) return std::vector<Proposal>{{"rows_cpu", {}, "", seconds}};
  const std::vector<int> along = r.LineAround(vector);
  std::vector<int> outer, reduced;
  for (int d : columns) {
    if (std::count(along.begin(), along.end(), d) == 0) (r.space.dims[d].reduced ? reduced : outer).push_back(d);
  }
  std::vector<std::string> parts, elements;
  std::vector<std::vector<std::string>> inside(r.nests.size());  // the loops in a row, but for the lanes
  for (size_t k = 0; k < r.nests.size(); ++k) {
    RowNest& nest = r.nests[k];
    const bool is_sum = k == sum;
    if (is_sum) {
      parts.push_back(r.sums->part_loop);
      elements.push_back(r.sums->element_loop);
    } else {
      parts.push_back(s.Fresh("p"));
      elements.push_back(s.Fresh("q"));
      s.Step("split ", nest.loops[row], " ", r.sums->chunk, " -> ", parts.back(), " ", elements.back());
    }
    std::string order = Cat("reorder ", parts.back(), " ", elements.back());
    const auto add = [&](const std::vector<int>& dims) {
      for (int d : dims) {
        if (!nest.loops.contains(d)) continue;
        order += " " + nest.loops[d];
        if (std::count(along.begin(), along.end(), d) == 0) inside[k].push_back(nest.loops[d]);
      }
    };
    add(outer);
    if (vector_is_reduced || is_sum) add(reduced);
    add(along);
    s.Run(order);
    if (!nest.loops.contains(vector)) continue;
    std::string chunk = r.FuseDims(nest, along, "v"), lane;
    if (lanes > 1) {
      const std::string line = chunk;
      chunk = s.Fresh("vo");
      lane = s.Fresh("vi");
      s.Step("split ", line, " ", lanes, " -> ", chunk, " ", lane);
    }
    inside[k].push_back(chunk);
    if (!vector_is_reduced && !is_sum) {
      order = "reorder " + chunk;
      for (int d : reduced) {
        if (nest.loops.contains(d)) order += " " + nest.loops[d];
      }
      if (!lane.empty()) s.Run(order + " " + lane);
    }
    if (!lane.empty()) s.Step("vectorize ", lane);
  }
  // Behind the last row nothing is added.
  s.Step("split_init ", r.nests[sum].block, " ", elements[sum], " -> ", s.Fresh(r.nests[sum].block + "_init"));
  RETURN_IF_ERROR(s.status());
  s.Try(Cat("guard ", r.nests[sum].block, " ", s.LoopsAround(r.nests[sum].block)[2]));
  MergeLoops(s, parts);
  MergeLoops(s, elements);
  // The last stage that has loops of the same kind.
  for (size_t k = r.nests.size(); k-- > 0;) {
    if (k == sum || r.nests[k].reduction || inside[k].size() != inside[sum].size()) continue;
    const auto [first, second] = std::minmax(k, sum);
    bool joined = true;
    for (size_t i = 0; i < inside[k].size() && joined; ++i)
      joined = s.Try(Cat("merge ", inside[first][i], " ", inside[second][i]));
    break;
  }
  s.Step("parallel ", parts[0]);
  for (size_t k = 0; k < r.nests.size(); ++k) {
    const RowNest& nest = r.nests[k];
    if (!nest.reduction || k == sum) continue;
    const std::vector<std::string> loops = s.LoopsAround(nest.block);
    if (loops.size() > 2) s.Step("split_init ", nest.block, " ", loops[2], " -> ", s.Fresh(nest.block + "_init"));
  }
  // Of shorter rows, one vector at a time, two loops were measured to be faster.
  if (lanes > vector_lanes) MergeReductions(r, 2, sum);
  PlaceOnStack(r, target, CpuCostsOf(target).row_bytes, [&](ir::Buffer b) { return RowBytes(r, target, b); });
  RETURN_IF_ERROR(s.status());
  return std::vector<Proposal>{{"rows_cpu", s.func(), s.text(), seconds}};
}

}  // namespace cinn_like::hlir
