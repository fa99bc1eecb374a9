// Rows that go through the stages together, lanes along `vector`, of which some of what is read or written lies across:
// next to each other in memory is what one row reduces. A tile of it passes through the first-level cache, where its
// lines are turned in registers: one element after the other they would be gathered, and a line of memory fetched for
// each lane. Each stage has tiles of its own beside it, so that they are of constant size whatever a row's length is.
#include "hlir/tactics/rows_cpu_across.h"

#include <algorithm>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {
namespace {

constexpr double kShortest = 16;  // side of what is worth turning

}  // namespace

int DimAcross(const RowNests& r, size_t stage, ir::Expr offset, int vector) {
  ir::Context& c = *r.group.context;
  ir::Analyzer a(c);
  const auto step = [&](int d) {
    const ir::Expr i = IterOf(r.group, r.space, stage, d);
    return i == nullptr ? c.Int(0) : StepAlong(a, offset, i);
  };
  if (r.space.HasScan() || r.space.dims[vector].reduced || r.LikelySize(r.LineAround(vector)) < kShortest) return -1;
  // Lanes of one element, or of neighbours, are no lines of their own.
  if (const ir::Expr s = step(vector); ir::IsInt(s) && std::abs(s->int_value) <= 2) return -1;
  for (int d : r.Dims(true)) {
    if (ir::IsInt(step(d), 1) && r.LikelySize({d}) >= kShortest) return d;
  }
  return -1;
}

StatusOr<TilesAcross> TilesAcross::Create(RowNests& r, int vector) {
  TilesAcross tiles;
  ir::Context& c = *r.group.context;
  const std::vector<int> along = r.LineAround(vector);
  using Lines = std::vector<std::vector<int>>;
  std::vector<std::string> layouts;
  const auto find = [&](const std::string& name) {
    size_t k = 0;
    while (k < r.group.stages.size() && r.group.stages[k].name != name) ++k;
    return k;
  };
  // A value of a stage as a tile in front of it, a stage of its own; empty: it can't be.
  const auto define = [&](const std::string& stage, ir::Expr value, Part part, const std::string& main,
                          int dim) -> StatusOr<std::string> {
    std::string name = r.schedule.Fresh("tile");
    const size_t k = find(stage);
    ASSIGN_OR_RETURN(const bool defined, r.Define(k, value, name));
    if (!defined) return std::string();
    const bool turned = part != Part::kLines && part != Part::kTurnedBack;
    layouts.push_back(r.LayoutOf(name, r.space.dim_of[k], turned ? Lines{{dim}, along} : Lines{along, {dim}}));
    tiles.buffers_.push_back(name);
    tiles.roles_[name] = {part, part == Part::kMain ? name : main, dim};
    return name;
  };
  const auto value_of = [&](const std::string& stage) { return StageNamed(r.group.stages, stage).values[0]; };
  std::vector<std::string> names;
  names.reserve(r.group.stages.size());
  for (const ir::Stage& s : r.group.stages) names.push_back(s.name);
  for (std::string name : names) {
    const ir::Stage s = StageNamed(r.group.stages, name);
    if (s.IsCall() || s.IsScan()) continue;
    if (s.IsPointwise() && s.outputs.size() == 1 && IsParam(r.group, s.outputs[0])) {
      const ir::Expr offset = ElementOffset(c, s.outputs[0], s.at.empty() ? VarsOf(s.iters) : s.at);
      if (const int dim = DimAcross(r, find(name), offset, vector); dim >= 0) {
        ASSIGN_OR_RETURN(const std::string main, define(name, s.values[0], Part::kMain, "", dim));
        if (main.empty()) continue;
        ASSIGN_OR_RETURN(const std::string back, define(name, value_of(name), Part::kTurnedBack, main, dim));
        RET_CHECK(!back.empty(), r.schedule.text());
        tiles.roles_[name] = {Part::kWritten, main, dim};
        name = main;
      }
    }
    std::vector<ir::Expr> refused;
    while (true) {  // all that it reads across, one by one
      const size_t k = find(name);
      const auto role = tiles.roles_.find(name);
      ir::Expr load = nullptr;
      int across = -1;
      for (ir::Expr v : r.group.stages[k].values) {
        VisitLoads(v, [&](ir::Expr e) {
          if (load != nullptr || !IsParam(r.group, e->buffer) || std::count(refused.begin(), refused.end(), e) > 0)
            return;
          const int dim = DimAcross(r, k, ElementOffset(c, e->buffer, ir::IndicesOf(e)), vector);
          if (dim < 0 || (role != tiles.roles_.end() && role->second.dim != dim)) return;
          load = e;
          across = dim;
        });
      }
      if (load == nullptr) break;
      ASSIGN_OR_RETURN(const std::string turned, define(name, load, Part::kTurned, name, across));
      if (turned.empty()) {
        refused.push_back(load);
        continue;
      }
      ASSIGN_OR_RETURN(const std::string lines, define(turned, value_of(turned), Part::kLines, name, across));
      RET_CHECK(!lines.empty(), r.schedule.text());
      tiles.roles_.try_emplace(name, Role{Part::kMain, name, across});
    }
  }
  if (tiles.IsEmpty()) return tiles;
  // What rows keep of themselves lies as lanes do, too.
  for (size_t k = 0; k < r.group.stages.size(); ++k) {
    const ir::Stage& s = r.group.stages[k];
    const std::vector<int>& dims = r.space.dim_of[k];
    if (!s.IsPointwise() || s.IsCall() || !s.at.empty() || dims.empty() || dims.back() < 0 ||
        !r.space.dims[dims.back()].reduced)
      continue;
    for (ir::Buffer b : s.outputs) {
      if (!IsParam(r.group, b) && std::count(tiles.buffers_.begin(), tiles.buffers_.end(), b->name) == 0)
        layouts.push_back(r.LayoutOf(b->name, dims, {{dims.back()}, along}));
    }
  }
  for (const std::string& layout : layouts) r.schedule.Step("transform_layout ", layout);
  for (const std::string& tile : tiles.buffers_) r.schedule.Step("scope ", tile, " local align 64");
  return tiles;
}

std::string TilesAcross::Split(RowNests& r, size_t stage, const std::string& line, const std::vector<int>& reduced,
                               int64_t vectors, int64_t lanes, int64_t size) {
  ir::Schedule& s = r.schedule;
  RowNest& nest = r.nests[stage];
  const ir::Stage& own = r.group.stages[stage];
  const Role& role = roles_.at(own.name);
  const std::string chunk = s.Fresh("vo"), tile = s.Fresh("co"), element = s.Fresh("ce"), vector = s.Fresh("vc"),
                    lane = s.Fresh("vi");
  s.Step("split ", nest.loops[role.dim], " ", size, " -> ", tile, " ", element);
  Nest n = {nest.block, {}, std::count(buffers_.begin(), buffers_.end(), own.outputs[0]->name) > 0, {}};
  for (int d : reduced) {
    if (d != role.dim && nest.loops.contains(d)) n.shared.push_back(nest.loops[d]);
  }
  n.shared.push_back(tile);
  nest.loops.erase(role.dim);
  if (role.part == Part::kLines || role.part == Part::kWritten) {
    const std::string row = s.Fresh("vr");
    s.Step("split ", line, " ", vectors * lanes, " -> ", chunk, " ", row);
    s.Step("split ", element, " ", lanes, " -> ", vector, " ", lane);
    ReorderLoops(s, {{chunk}, n.shared, {row, vector, lane}});
    s.Step("vectorize ", lane);
  } else {
    s.Step("split ", line, " ", vectors, " ", lanes, " -> ", chunk, " ", vector, " ", lane);
    if (role.part == Part::kMain) {
      ReorderLoops(s, {{chunk}, n.shared, {element, vector, lane}});
      s.Step("unroll ", vector).Step("vectorize ", lane);
    } else {
      const std::string group = s.Fresh("cv"), of_group = s.Fresh("ci");
      s.Step("split ", element, " ", lanes, " -> ", group, " ", of_group);
      // Neighbours in what is read first: how far apart others lie may be a symbol.
      n.matrix = role.part == Part::kTurned ? std::pair(of_group, lane) : std::pair(lane, of_group);
      ReorderLoops(s, {{chunk}, n.shared, {vector, group, n.matrix.first, n.matrix.second}});
    }
  }
  nests_[role.main].push_back(std::move(n));
  return chunk;
}

void TilesAcross::Merge(ir::Schedule& s) const {
  for (const auto& [main, nests] : nests_) {
    for (size_t depth = 0; depth < nests[0].shared.size(); ++depth) {
      std::vector<std::string> same;
      for (const Nest& n : nests) same.push_back(n.shared[depth]);
      MergeLoops(s, same);
    }
    // Tiles are filled beyond the ends of rows and lines, by what nobody reads in the end: then all of them is turned.
    for (const Nest& n : nests) {
      if (n.is_tile) s.Try("pad " + n.block);
      if (const auto& [outer, inner] = n.matrix; !outer.empty() && !s.Try(Cat("tensorize ", outer, " transpose")))
        s.Step("vectorize ", inner);
    }
  }
}

}  // namespace cinn_like::hlir
