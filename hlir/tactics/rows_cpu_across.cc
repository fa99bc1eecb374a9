// Rows that go through the stages together, lanes along `vector`, of which some of what is read or written lies across:
// next to each other in memory is what one row reduces. A tile of it passes through the first-level cache, where its
// lines are turned in registers: one element after the other they would be gathered, and a line of memory fetched for
// each lane. Each stage has tiles of its own beside it, so that they are of constant size whatever a row's length is.
#include "hlir/tactics/rows_cpu_across.h"

#include <algorithm>

#include "hlir/tactics/matmul_cost.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {
namespace {

constexpr double kShortest = 16;  // side of what is worth turning

// Where elements of a tile lie that is over the dimensions that a stage has: rows of any number of dimensions are one
// side, which is last or, unless it is turned, next to last. Arguments of a step.
std::string LayoutOf(const RowNests& r, const std::vector<int>& dims, const std::vector<int>& along, int dim,
                     bool turned, const std::string& name) {
  std::string names, places, line, element;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int d = dims[i];
    const std::string n = Cat("e", i);
    names += Cat(names.empty() ? "" : ", ", n);
    if (d < 0) continue;
    if (d == dim)
      element = n;
    else if (std::count(along.begin(), along.end(), d) == 0)
      places += n + ", ";
    else
      line = line.empty() ? n : Cat("(", line, ") * (", ir::Print(r.space.dims[d].extent), ") + ", n);
  }
  return Cat(name, "[", names, "] -> [", places, turned ? Cat(element, ", ", line) : Cat(line, ", ", element), "]");
}

}  // namespace

int DimAcross(const RowNests& r, size_t stage, ir::Expr offset, int vector) {
  ir::Context& c = *r.group.context;
  ir::Analyzer a(c);
  const auto step = [&](int d) {
    const ir::Expr i = IterOf(r.group, r.space, stage, d);
    return i == nullptr ? c.Int(0) : a.Simplify(c.Sub(ir::Substitute(c, offset, {{i, c.Add(i, c.Int(1))}}), offset));
  };
  if (r.space.HasScan() || r.space.dims[vector].reduced || r.LikelySize(r.LineAround(vector)) < kShortest) return -1;
  if (const ir::Expr s = step(vector); ir::IsInt(s) && std::abs(s->int_value) <= 2) return -1;
  for (int d : r.Dims(true)) {
    if (ir::IsInt(step(d), 1) && r.LikelySize({d}) >= kShortest) return d;
  }
  return -1;
}

const TilesAcross::Role* TilesAcross::RoleOf(const std::string& stage) const {
  const auto it = stages.find(stage);
  return it == stages.end() ? nullptr : &it->second;
}

StatusOr<TilesAcross> StageAcross(RowNests& r, int vector) {
  using Part = TilesAcross::Part;
  TilesAcross tiles;
  ir::Context& c = *r.group.context;
  const std::vector<int> along = r.LineAround(vector);
  const auto is_param = [&](ir::Buffer b) {
    return std::any_of(r.group.params.begin(), r.group.params.end(), [&](const ir::Param& p) { return p.buffer == b; });
  };
  const auto find = [&](const std::string& name) {
    size_t k = 0;
    while (k < r.group.stages.size() && r.group.stages[k].name != name) ++k;
    return k;
  };
  // A value of a stage as a stage of its own, in front of it; empty: it can't be.
  const auto define = [&](const std::string& stage, ir::Expr value, TilesAcross::Role role,
                          bool turned) -> StatusOr<std::string> {
    const std::string name = r.schedule.Fresh("tile");
    const size_t k = find(stage);
    ASSIGN_OR_RETURN(const bool defined, r.Define(k, value, name));
    if (!defined) return std::string();
    tiles.layouts.push_back(LayoutOf(r, r.space.dim_of[k], along, role.dim, turned, name));
    tiles.buffers.push_back(name);
    if (role.main.empty()) role.main = name;
    tiles.stages[name] = role;
    return name;
  };
  const auto value_of = [&](const std::string& stage) { return r.group.stages[find(stage)].values[0]; };
  std::vector<std::string> names;
  for (const ir::Stage& s : r.group.stages) names.push_back(s.name);
  for (std::string name : names) {
    const ir::Stage s = r.group.stages[find(name)];
    if (s.IsCall() || s.IsScan()) continue;
    if (s.IsPointwise() && s.outputs.size() == 1 && is_param(s.outputs[0])) {
      const ir::Expr offset = ElementOffset(c, s.outputs[0], s.at.empty() ? VarsOf(s.iters) : s.at);
      if (const int dim = DimAcross(r, find(name), offset, vector); dim >= 0) {
        ASSIGN_OR_RETURN(const std::string main, define(name, s.values[0], {Part::kMain, "", dim}, true));
        if (main.empty()) continue;
        ASSIGN_OR_RETURN(const std::string back, define(name, value_of(name), {Part::kTurnedBack, main, dim}, false));
        RET_CHECK(!back.empty(), r.schedule.text());
        tiles.stages[name] = {Part::kWritten, main, dim};
        name = main;
      }
    }
    std::vector<ir::Expr> refused;
    while (true) {  // all that it reads across, one by one
      const size_t k = find(name);
      const TilesAcross::Role* role = tiles.RoleOf(name);
      ir::Expr load = nullptr;
      int across = -1;
      for (ir::Expr v : r.group.stages[k].values) {
        VisitLoads(v, [&](ir::Expr e) {
          if (load != nullptr || !is_param(e->buffer) || std::count(refused.begin(), refused.end(), e) > 0) return;
          const int dim = DimAcross(r, k, ElementOffset(c, e->buffer, ir::IndicesOf(e)), vector);
          if (dim < 0 || (role != nullptr && role->dim != dim)) return;
          load = e;
          across = dim;
        });
      }
      if (load == nullptr) break;
      ASSIGN_OR_RETURN(const std::string turned, define(name, load, {Part::kTurned, name, across}, true));
      if (turned.empty()) {
        refused.push_back(load);
        continue;
      }
      ASSIGN_OR_RETURN(const std::string lines, define(turned, value_of(turned), {Part::kLines, name, across}, false));
      RET_CHECK(!lines.empty(), r.schedule.text());
      tiles.stages.try_emplace(name, TilesAcross::Role{Part::kMain, name, across});
    }
  }
  // What rows keep of themselves lies as lanes do.
  for (size_t k = 0; k < r.group.stages.size() && !tiles.stages.empty(); ++k) {
    const ir::Stage& s = r.group.stages[k];
    const std::vector<int>& dims = r.space.dim_of[k];
    if (tiles.RoleOf(s.name) != nullptr &&
        std::count(tiles.buffers.begin(), tiles.buffers.end(), s.outputs[0]->name) > 0)
      continue;
    if (!s.IsPointwise() || s.IsCall() || !s.at.empty() || dims.empty() || dims.back() < 0 ||
        !r.space.dims[dims.back()].reduced)
      continue;
    for (ir::Buffer b : s.outputs) {
      if (!is_param(b)) tiles.layouts.push_back(LayoutOf(r, dims, along, dims.back(), true, b->name));
    }
  }
  return tiles;
}

TileLoops ScheduleTile(RowNests& r, RowNest& nest, const TilesAcross::Role& role, const std::string& line,
                       const std::vector<std::string>& others, int64_t vectors, int64_t lanes, int64_t size) {
  using Part = TilesAcross::Part;
  ir::Schedule& s = r.schedule;
  const TileLoops loops = {s.Fresh("vo"), s.Fresh("co")};
  const std::string element = s.Fresh("ce"), vector = s.Fresh("vc"), lane = s.Fresh("vi");
  s.Step("split ", nest.loops[role.dim], " ", size, " -> ", loops.tile, " ", element);
  nest.loops.erase(role.dim);
  const auto reorder = [&](const std::vector<std::string>& inner) {
    ReorderLoops(s, {{loops.chunk}, others, {loops.tile}, inner});
  };
  // What is read beyond an end is another element, which nobody reads.
  const bool is_whole = r.IsMultiple({role.dim}, size);
  switch (role.part) {
    case Part::kMain:
      s.Step("split ", line, " ", vectors, " ", lanes, " -> ", loops.chunk, " ", vector, " ", lane);
      reorder({element, vector, lane});
      s.Step("unroll ", vector).Step("vectorize ", lane);
      break;
    case Part::kLines:
    case Part::kWritten: {
      const std::string row = s.Fresh("vr");
      s.Step("split ", line, " ", vectors * lanes, " -> ", loops.chunk, " ", row);
      s.Step("split ", element, " ", lanes, " -> ", vector, " ", lane);
      reorder({row, vector, lane});
      if (role.part == Part::kLines && is_whole) s.Step("pad ", nest.block);
      s.Step("vectorize ", lane);
      break;
    }
    case Part::kTurned:
    case Part::kTurnedBack: {
      const std::string group = s.Fresh("cv"), of_group = s.Fresh("ci");
      s.Step("split ", line, " ", vectors, " ", lanes, " -> ", loops.chunk, " ", vector, " ", lane);
      s.Step("split ", element, " ", lanes, " -> ", group, " ", of_group);
      reorder({vector, group, lane, of_group});
      if (is_whole) s.Step("pad ", nest.block);
      if (!is_whole || !s.Try(Cat("tensorize ", lane, " transpose"))) s.Step("vectorize ", of_group);
      break;
    }
  }
  return loops;
}

}  // namespace cinn_like::hlir
