// Row spaces on a CPU: the parallel dimensions are one loop over the threads; inside, every stage of the group runs
// over its row while the row is in cache. The vector dimension is the one along which most memory is contiguous;
// where it is reduced, lanes hold partial results. Where it is not, rows run across it: a chunk of neighbouring rows
// goes through all stages together, with an accumulator for each, so that memory is read in long runs.
#include <algorithm>

#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/row_nests.h"
#include "hlir/tactics/tactics.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {
namespace {

constexpr int64_t kManyRows = 64;
constexpr int64_t kMostRows = 1 << 30;          // that are counted
constexpr int64_t kMaxRowBytes = 64 * 1024;     // of one intermediate on a thread's stack
constexpr int64_t kMaxChunkBytes = 256 * 1024;  // the same, of a chunk of rows
constexpr int64_t kMaxVectors = 8;              // of a chunk
constexpr int64_t kMinTasks = 8;                // if the number of threads is not known

int64_t WidestLanes(const ir::TeProgram& group, const Target& target) {
  int widest = 4;
  for (const ir::Param& p : group.params) {
    if (p.buffer != nullptr && BytesOf(p.buffer->dtype) == 8 && IsFloat(p.buffer->dtype)) widest = 8;
  }
  return std::max<int64_t>(target.vector_bytes, 16) / widest;
}

int64_t LanesFor(const RowNests& r, const Target& target, int dim) {
  int64_t lanes = WidestLanes(r.group, target);
  const int64_t extent = r.ConstExtent(dim);
  while (extent > 0 && lanes > extent) lanes /= 2;
  return lanes;
}

// Bytes that one row needs of an intermediate.
int64_t RowBytes(const RowNests& r, ir::Buffer b) {
  int64_t bytes = BytesOf(b->dtype);
  for (size_t k = 0; k < r.group.stages.size(); ++k) {
    const ir::Stage& stage = r.group.stages[k];
    if (std::count(stage.outputs.begin(), stage.outputs.end(), b) == 0) continue;
    for (size_t i = 0; i < stage.iters.size(); ++i) {
      const int d = r.space.dim_of[k][i];
      if (d >= 0 && r.space.dims[d].reduced) bytes *= r.ConstExtent(d) == 0 ? kMaxRowBytes : r.ConstExtent(d);
    }
  }
  return bytes;
}

// How many vectors of neighbouring rows go through the stages together: as many as have their accumulators in registers
// while there is work for all threads. `others`: chunks there are along the other dimensions.
int64_t VectorsInChunk(int64_t extent, int64_t lanes, int64_t others, const Target& target) {
  const int64_t all = (extent + lanes - 1) / lanes, least = target.num_threads > 0 ? 4 * target.num_threads : kMinTasks;
  const int64_t tasks = (least + others - 1) / others;
  const int64_t most = std::clamp<int64_t>(all / tasks, 1, kMaxVectors);
  const int64_t chunks = (all + most - 1) / most;
  return (all + chunks - 1) / chunks;
}

// What all threads together need for the values of a group: vector operations, fewer elements at a time where a load is
// masked or its lanes lie apart, and the bytes that come from memory.
double PredictSeconds(const RowNests& r, int vector, int64_t lanes, const Target& target) {
  constexpr double kLoopSeconds = 1.5e-6;
  constexpr double kMasked = 0.4, kApart = 0.12;  // of the speed
  const ir::TeProgram& group = r.group;
  ir::Context& c = *group.context;
  ir::Analyzer a(c);
  for (const ir::SymbolFact& s : group.symbols) a.BindSymbol(s);
  double work = 0, bytes = CostOfMatmuls(group).bytes;
  for (size_t k = 0; k < group.stages.size(); ++k) {
    const ir::Stage& s = group.stages[k];
    double elements = 1, repeated = 1;
    ir::Expr lane = nullptr;
    size_t at = 0;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const ir::StageIter& i : *list) {
        const double size = TypicalSize(i.extent, group.symbols);
        const int dim = r.space.dim_of[k][at++];
        elements *= size;
        if (dim == vector) {
          lane = i.var;
          elements *= std::ceil(size / static_cast<double>(lanes)) * static_cast<double>(lanes) / std::max(size, 1.0);
        }
      }
    }
    const double part = static_cast<double>(lanes) / static_cast<double>(WidestLanes(group, target));
    double speed = lane == nullptr ? part / static_cast<double>(lanes) : part, cost = 0;
    for (ir::Expr value : s.values) {
      cost += CostOf(value);
      ir::Visit(value, [&](ir::Expr e) {
        if (e->op != ir::ExprOp::kLoad || lane == nullptr || !ir::Uses(e, lane)) return true;
        const ir::Expr offset = ElementOffset(c, e->buffer, ir::IndicesOf(e));
        const ir::Expr step = a.Simplify(c.Sub(ir::Substitute(c, offset, {{lane, c.Add(lane, c.Int(1))}}), offset));
        if (!ir::IsInt(step, 1) && !ir::IsInt(step, 0)) speed = std::min(speed, part * kApart);
        if (e->has_mask) speed = std::min(speed, part * kMasked);
        return true;
      });
    }
    work += elements * std::max(cost, 1.0) / speed;
    // A product reads the larger operand again for each row of the other, from memory if no cache holds it.
    if (const auto con = FindContraction(s)) {
      repeated *= TypicalSize(con->m, group.symbols);
      const double rhs = TypicalBytes(con->rhs->buffer, group.symbols);
      if (rhs > static_cast<double>(target.l2_bytes)) bytes += rhs * (repeated - 1);
    }
  }
  return kLoopSeconds +
         std::max(work / (SpeedsOf(target).own_rows * 1e9 * Cores(target)), bytes / BytesPerSecond(target));
}

}  // namespace

StatusOr<std::vector<Proposal>> ProposeRowsCpu(const ir::TeProgram& group, const Target& target, Until until) {
  if (target.HasKernels()) return std::vector<Proposal>();
  ASSIGN_OR_RETURN(std::optional<RowNests> created, RowNests::Create(group));
  if (!created) return std::vector<Proposal>();
  RowNests& r = *created;
  RETURN_IF_ERROR(r.KeepResults(false));
  ir::Schedule& s = r.schedule;
  const std::vector<int> parallel = r.Dims(false), reduced = r.Dims(true);
  if (r.space.dims.empty()) {
    return std::vector<Proposal>{{"rows_cpu", s.func(), s.text(), 1e-7}};
  }
  const int vector = r.VectorDim();
  const bool vector_is_reduced = r.space.dims[vector].reduced;
  const int64_t lanes = LanesFor(r, target, vector);
  const double seconds = PredictSeconds(r, vector, lanes, target);
  if (until == Until::kPrice) return std::vector<Proposal>{{"rows_cpu", {}, "", seconds}};

  // Parallel dimensions next to the vector dimension that memory runs through as one stay in its loop.
  std::vector<int> along = {vector};
  if (reduced.empty()) {
    while (along.front() > 0 && along.back() == vector && r.CanCoalesce(along.front() - 1))
      along.insert(along.begin(), along.front() - 1);
    while (along.back() + 1 < static_cast<int>(r.space.dims.size()) && r.CanCoalesce(along.back()))
      along.push_back(along.back() + 1);
  }
  auto without = [&](const std::vector<int>& dims) {
    std::vector<int> v;
    for (int d : dims) {
      if (std::count(along.begin(), along.end(), d) == 0) v.push_back(d);
    }
    return v;
  };
  const std::vector<int> outer = without(parallel), inner_reduced = without(reduced);
  r.ReorderAll(vector_is_reduced ? std::vector<std::vector<int>>{outer, inner_reduced, along}
                                 : std::vector<std::vector<int>>{outer, along, inner_reduced});
  // Few rows: the chunks of a row are shared out too.
  int64_t num_rows = 1;
  for (int d : outer) num_rows = std::min(num_rows * std::max<int64_t>(r.LikelyExtent(d), 1), kMostRows);
  const int64_t vectors = vector_is_reduced || reduced.empty()
                              ? 1
                              : VectorsInChunk(std::max<int64_t>(r.LikelyExtent(vector), 1), lanes, num_rows, target);
  std::vector<std::string> rows, chunks;
  for (RowNest& nest : r.nests) {
    const bool has_vector = nest.loops.contains(vector);
    std::string chunk = has_vector ? r.FuseDims(nest, along, "v") : "", lane;
    if (has_vector && lanes > 1) {
      const std::string line = chunk, in_chunk = vectors > 1 ? s.Fresh("vc") : "";
      chunk = s.Fresh("vo");
      lane = s.Fresh("vi");
      if (vectors > 1)
        s.Step("split ", line, " ", vectors, " ", lanes, " -> ", chunk, " ", in_chunk, " ", lane);
      else
        s.Step("split ", line, " ", lanes, " -> ", chunk, " ", lane);
      if (!vector_is_reduced) {
        std::string order = "reorder " + chunk;
        for (int d : inner_reduced) {
          if (nest.loops.contains(d)) order += " " + nest.loops[d];
        }
        s.Run(order + " " + in_chunk + " " + lane);
        if (vectors > 1) s.Step("unroll ", in_chunk);
      }
    }
    std::string row = r.FuseDims(nest, outer, "p");
    if (has_vector && !vector_is_reduced) {
      if (row.empty()) {
        row = chunk;
      } else if (num_rows < kManyRows) {
        const std::string p = s.Fresh("p");
        s.Step("fuse ", row, " ", chunk, " -> ", p);
        row = p;
      } else {
        chunks.push_back(chunk);
      }
    }
    if (!row.empty()) rows.push_back(row);
    if (!lane.empty()) s.Step("vectorize ", lane);
  }
  auto merge = [&](const std::vector<std::string>& loops) {
    std::string step = "merge";
    for (const std::string& l : loops) step += " " + l;
    if (loops.size() > 1) s.Run(step);
  };
  merge(rows);
  merge(chunks);
  if (!rows.empty()) s.Step("parallel ", rows[0]);
  const size_t shared_loops = (rows.empty() ? 0 : 1) + (chunks.empty() ? 0 : 1);
  for (const RowNest& nest : r.nests) {
    if (!nest.reduction) continue;
    const std::vector<std::string> loops = s.LoopsAround(nest.block);
    if (loops.size() > shared_loops)
      s.Step("split_init ", nest.block, " ", loops[shared_loops], " -> ", s.Fresh(nest.block + "_init"));
  }
  for (ir::Buffer b : r.Temporaries()) {
    const int64_t rows_together = vector_is_reduced ? 1 : vectors * lanes;
    if (RowBytes(r, b) * rows_together > (vector_is_reduced ? kMaxRowBytes : kMaxChunkBytes)) {
      s.Step("inline b_", b->name);
    } else {
      s.Step("scope ", b->name, " local");
    }
  }
  RETURN_IF_ERROR(s.status());
  return std::vector<Proposal>{{"rows_cpu", s.func(), s.text(), seconds}};
}

}  // namespace cinn_like::hlir
