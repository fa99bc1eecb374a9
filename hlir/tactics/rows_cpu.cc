// Row spaces on a CPU: the parallel dimensions are one loop over the threads; inside, every stage of the group runs
// over its row while the row is in cache. The vector dimension is the one along which most memory is contiguous;
// where it is reduced, lanes hold partial results. Where it is not, rows run across it: a chunk of neighbouring rows
// goes through all stages together, with an accumulator for each, so that memory is read in long runs.
#include "hlir/tactics/rows_cpu.h"

#include <algorithm>
#include <numeric>

#include "cinn_like/base/costs.h"
#include "hlir/line_middle.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/row_nests.h"
#include "hlir/tactics/rows_cpu_across.h"
#include "hlir/tactics/tactics.h"
#include "ir/analyzer.h"
#include "ir/join.h"

namespace cinn_like::hlir {
namespace {

constexpr int64_t kManyRows = 64;
constexpr int64_t kMaxVectors = 16;      // of a chunk
constexpr int64_t kMostTileVectors = 8;  // of a tile that is transposed, either way

}  // namespace

int64_t WidestLanes(const ir::TeProgram& group, const Target& target) {
  int widest = 4;
  for (const ir::Param& p : group.params) {
    if (p.buffer != nullptr && BytesOf(p.buffer->dtype) == 8 && IsFloat(p.buffer->dtype)) widest = 8;
  }
  return std::max<int64_t>(target.vector_bytes, 16) / widest;
}

int64_t LikelyLength(const RowNests& r, int dim) {
  int64_t length = 1;
  for (int d : r.LineAround(dim)) length = std::min(length * std::max<int64_t>(r.LikelyExtent(d), 1), kMostRows);
  return length;
}

int64_t LanesFor(const RowNests& r, const Target& target, int dim) {
  int64_t lanes = WidestLanes(r.group, target), length = 1;
  for (int d : r.LineAround(dim)) length = std::min(length * r.ConstExtent(d), kMostRows);
  while (length > 0 && lanes > length) lanes /= 2;
  return lanes;
}

int64_t LanesInFlight(const RowNests& r, int64_t lanes, int dim) {
  constexpr double kWaste = 1.1;
  const int64_t length = LikelyLength(r, dim), many = kInFlight * lanes;
  const int64_t padded = (length + many - 1) / many * many;
  return lanes > 1 && static_cast<double>(padded) <= kWaste * static_cast<double>(length) ? many : lanes;
}

void PlaceOnStack(RowNests& r, const Target& target, int64_t most, const std::function<int64_t(ir::Buffer)>& bytes_of,
                  const std::vector<std::string>& placed) {
  int64_t stack = 0;
  for (ir::Buffer b : r.Temporaries()) {
    if (std::count(placed.begin(), placed.end(), b->name) > 0) continue;
    const int64_t bytes = bytes_of(b);
    const bool fits = bytes <= most && stack + bytes <= CpuCostsOf(target).stack_bytes;
    if (!fits && r.schedule.Try(Cat("inline b_", b->name))) continue;
    r.schedule.Step("scope ", b->name, " local");
    stack += bytes;
  }
}

int64_t RowBytes(const RowNests& r, const Target& target, ir::Buffer b) {
  int64_t bytes = BytesOf(b->dtype);
  for (size_t k = 0; k < r.group.stages.size(); ++k) {
    const ir::Stage& stage = r.group.stages[k];
    if (!Writes(stage, b)) continue;
    for (size_t i = 0; i < stage.iters.size(); ++i) {
      if (stage.iters[i].var == stage.along && Contains(stage.running, b)) continue;
      const int d = r.space.dim_of[k][i];
      if (d >= 0 && (r.space.dims[d].reduced || IsColumn(r, d)))
        bytes *= r.ConstExtent(d) == 0 ? CpuCostsOf(target).row_bytes : r.ConstExtent(d);
    }
  }
  return bytes;
}

namespace {

// Whether long columns are read once, by one stage, so that memory decides what they take.
bool ReadsLongColumns(const RowNests& r, const CpuCosts& cpu) {
  const std::vector<int> reduced = r.Dims(true);
  const auto reads = [&](const RowNest& nest) {
    return std::any_of(reduced.begin(), reduced.end(), [&](int d) { return nest.loops.contains(d); });
  };
  int64_t length = 1;
  for (int d : reduced) length = std::min(length * std::max<int64_t>(r.LikelyExtent(d), 1), kMostRows);
  return length >= cpu.column_rows && std::count_if(r.nests.begin(), r.nests.end(), reads) == 1;
}

// How many vectors of neighbouring rows go through the stages together: as many as have their accumulators in
// registers, and of what memory alone decides as many as it gives the fastest. Fewer, for the sake of more tasks, would
// make threads share pages of memory, where each fetches ahead what the other is about to write; few columns are split
// by rows instead (hlir/split_reductions.h).
int64_t VectorsInChunk(const RowNests& r, int vector, int64_t lanes, const Target& target) {
  int64_t sums = 1;
  for (const ir::Stage& s : r.group.stages) {
    int64_t own = s.IsReduction() ? static_cast<int64_t>(s.outputs.size()) : 0;
    for (ir::Buffer b : s.running) own += (BytesOf(b->dtype) + 3) / 4;
    sums = std::max(sums, own);
  }
  const int64_t registers = target.vector_bytes >= 64 ? kMaxVectors : kMaxVectors / 2;
  int64_t most = registers / sums;
  const CpuCosts& cpu = CpuCostsOf(target);
  if (ReadsLongColumns(r, cpu)) most = std::min(most, cpu.column_bytes / (lanes * r.WidestAlong(vector)));
  most = std::max<int64_t>(most, 1);
  const int64_t all = (LikelyLength(r, vector) + lanes - 1) / lanes, chunks = (all + most - 1) / most;
  return std::max<int64_t>((all + chunks - 1) / chunks, 1);
}

// Where what is read lies across what is written, tiles go through the first-level cache: their rows are read in,
// through registers if lines are whole numbers of vectors, or of halves or quarters of them, and columns of them
// written out. Where nothing else is read along what is written, tiles may be longer where they are read.
Status Transpose(RowNests& r, RowNests::Transposition t, const Target& target, Point& point) {
  ir::Schedule& s = r.schedule;
  const bool copies_alone = r.FindInputsAlong(t.out).empty();
  ASSIGN_OR_RETURN(const size_t copies, r.StageInputs(r.FindInputsAlong(t.in)));
  for (ir::Buffer b : r.Temporaries()) s.Step("scope ", b->name, " local align 64");
  const std::vector<int> in = r.LineAround(t.in), out = r.LineAround(t.out);
  std::vector<int> outer;
  for (int d : r.Dims(false)) {
    if (std::count(in.begin(), in.end(), d) + std::count(out.begin(), out.end(), d) == 0) outer.push_back(d);
  }
  r.ReorderAll({outer, in, out});
  ir::Context& c = *r.group.context;
  ir::Analyzer a(c);
  for (const ir::SymbolFact& f : r.group.symbols) a.BindSymbol(f);
  const auto length_of = [&](const std::vector<int>& dims) {
    ir::Expr n = c.Int(1);
    for (int d : dims) n = c.Mul(n, r.space.dims[d].extent);
    return a.Simplify(n);
  };
  const ir::Expr length = length_of(in);
  int64_t lanes = WidestLanes(r.group, target);
  // Parts of vectors of which a line is a whole number can be turned.
  constexpr int64_t kLeast = 4;
  if (const int64_t part = std::gcd(a.KnownDivisor(length), lanes); part >= kLeast) lanes = part;
  // Several vectors, where the line is that long: tiles with a rest take longer, all of them.
  const auto choose = [&](std::string_view name, ir::Expr length, int64_t vectors) {
    std::vector<int64_t> options = {lanes};
    while (options.back() < kMostTileVectors * lanes && !(ir::IsInt(length) && length->int_value <= options.back()))
      options.push_back(2 * options.back());
    int64_t predicted = std::min(options.back(), vectors * lanes);
    const int64_t divisor = a.KnownDivisor(length);
    while (predicted > lanes && divisor % lanes == 0 && divisor % predicted != 0) predicted /= 2;
    return point.Choose(name, options, predicted);
  };
  const CpuCosts& cpu = CpuCostsOf(target);
  const int64_t rows = choose("tile_in", length, copies_alone ? cpu.copy_in : cpu.tile_in),
                columns = choose("tile_out", length_of(out), copies_alone ? cpu.copy_out : cpu.tile_out);
  const bool is_whole = a.KnownDivisor(length) % rows == 0;
  std::vector<std::string> tasks;
  for (size_t i = 0; i < r.nests.size(); ++i) {
    RowNest& nest = r.nests[i];
    const bool reads = i < copies;
    const auto cut = [&](const std::vector<int>& dims, int64_t size) {
      std::vector<std::string> loops = {s.Fresh("b"), s.Fresh("x")};
      s.Step("split ", r.FuseDims(nest, dims, "v"), " ", size, " -> ", loops[0], " ", loops[1]);
      return loops;
    };
    const std::vector<std::string> x = cut(in, rows), y = cut(out, columns);
    const std::string &around = (reads ? y : x)[1], &line = (reads ? x : y)[1];
    s.Step("reorder ", x[0], " ", y[0], " ", around, " ", line);
    const std::string vector = s.Fresh("v"), lane = s.Fresh("l");
    s.Step("split ", line, " ", lanes, " -> ", vector, " ", lane);
    std::string columns_of;  // of matrices that change places in registers
    if (reads && is_whole) {
      const std::string w = s.Fresh("w");
      columns_of = s.Fresh("c");
      s.Step("split ", around, " ", lanes, " -> ", w, " ", columns_of);
      s.Step("reorder ", w, " ", vector, " ", lane, " ", columns_of).Step("pad ", nest.block);
    }
    if (columns_of.empty() || !s.Try(Cat("tensorize ", lane, " transpose"))) s.Step("vectorize ", lane);
    const std::string row = r.FuseDims(nest, outer, "p");
    tasks.push_back(s.Fresh("p"));
    s.Step("fuse ", row, row.empty() ? "" : " ", x[0], " ", y[0], " -> ", tasks.back());
  }
  std::string merge = "merge";
  for (const std::string& l : tasks) merge += " " + l;
  if (tasks.size() > 1) s.Run(merge);
  return s.Step("parallel ", tasks[0]).status();
}

// The ends of `line` as loops of their own: a few elements one by one, more of them in lanes.
void PeelEnds(ir::Schedule& s, const std::string& line, const LineMiddle& middle, int64_t lanes) {
  constexpr int64_t kFew = 8;
  for (const auto& [side, count] : {std::pair("front", middle.front), std::pair("back", middle.back)}) {
    if (count == 0) continue;
    const std::string end = s.Fresh("end");
    s.Step("peel ", line, " ", side, " ", count, " -> ", end);
    if (count <= kFew) {
      s.Try("unroll " + end);  // of a line of at least so many elements
      continue;
    }
    const std::string outer = s.Fresh("vo"), lane = s.Fresh("vi");
    s.Step("split ", end, " ", lanes, " -> ", outer, " ", lane).Step("vectorize ", lane);
  }
}

}  // namespace

StatusOr<std::vector<Proposal>> ProposeRowsCpu(const ir::TeProgram& group, const Target& target, Until until,
                                               Point& point) {
  if (target.HasKernels()) return std::vector<Proposal>();
  ASSIGN_OR_RETURN(std::optional<RowNests> created, RowNests::CreateInPhases(group));
  if (created && !point.ChooseBool("phases", true)) created.reset();
  const bool in_phases = created.has_value();
  if (!created) {
    ASSIGN_OR_RETURN(created, RowNests::Create(group));
  }
  if (!created) {
    ASSIGN_OR_RETURN(created, RowNests::CreateWithSums(group, true));
    return created ? ProposeRowsWithSums(*created, target, until, point) : std::vector<Proposal>();
  }
  RowNests& r = *created;
  RETURN_IF_ERROR(r.KeepResults(false));
  ir::Schedule& s = r.schedule;
  const std::vector<int> parallel = r.Dims(false), reduced = r.Dims(true);
  if (r.space.dims.empty()) {
    return std::vector<Proposal>{{"rows_cpu", s.func(), s.text(), 1e-7}};
  }
  if (const auto t = reduced.empty() ? r.FindTransposition() : std::nullopt; t && point.ChooseBool("tiles", true)) {
    const double seconds = PredictSeconds(r, t->out, LanesFor(r, target, t->out), target);
    if (until == Until::kPrice) return std::vector<Proposal>{{"rows_cpu", {}, "", seconds}};
    RETURN_IF_ERROR(Transpose(r, *t, target, point));
    return std::vector<Proposal>{{"rows_cpu", s.func(), s.text(), seconds}};
  }
  std::vector<int64_t> dims(r.space.dims.size());
  std::iota(dims.begin(), dims.end(), 0);
  const int vector = static_cast<int>(point.Choose("vector_dim", dims, ChooseVectorDim(r, target)));
  const bool vector_is_reduced = r.space.dims[vector].reduced;
  // Lanes join single values, and lines shorter than a vector wait less for each.
  if (vector_is_reduced || LikelyLength(r, vector) < WidestLanes(r.group, target))
    RETURN_IF_ERROR(r.SeparatePairs(true));
  const int64_t vector_lanes = LanesFor(r, target, vector);
  const int64_t period = reduced.empty() ? PeriodOf(r, vector) : 1, odd = period / std::gcd(period, vector_lanes);
  const bool in_flight = (vector_is_reduced && !r.space.dims[vector].scanned) || (reduced.empty() && odd == 1);
  const int64_t lanes = point.Choose(
      "lanes", {vector_lanes, std::max<int64_t>(vector_lanes / 2, 1), 2 * vector_lanes, kInFlight * vector_lanes},
      in_flight ? LanesInFlight(r, vector_lanes, vector) : vector_lanes);
  const double seconds = PredictSeconds(r, vector, lanes, target);
  if (until == Until::kPrice) return std::vector<Proposal>{{"rows_cpu", {}, "", seconds}};

  // Only on the stack is what is accumulated under a mask kept in registers.
  if (!vector_is_reduced && !reduced.empty() && !r.IsMultiple(r.LineAround(vector), lanes))
    RETURN_IF_ERROR(r.KeepReduced());
  TilesAcross tiles;
  if (!vector_is_reduced && !reduced.empty()) {
    ASSIGN_OR_RETURN(tiles, TilesAcross::Create(r, vector));
  }
  // Dimensions next to the vector dimension that memory runs through as one stay in its loop.
  const std::vector<int> along = r.LineAround(vector);
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
  int64_t vectors = odd;
  if (!vector_is_reduced && !reduced.empty()) {
    vectors = VectorsInChunk(r, vector, lanes, target);
    if (!tiles.IsEmpty()) vectors = std::min(vectors, kMostTileVectors / 2);
    vectors = point.Choose("vectors", UpTo(kMaxVectors), vectors);
  }
  // Where the ends of a line ask more of each element than its middle does, they are loops of their own.
  std::optional<LineMiddle> middle;
  if (reduced.empty() && r.nests.size() == 1 && along.size() == 1 && lanes > 1) {
    const ir::Stage& only = r.group.stages[0];
    for (size_t i = 0; i < only.iters.size(); ++i) {
      if (r.space.dim_of[0][i] == vector)
        middle = FindLineMiddle(*r.group.context, only, only.iters[i], r.group.symbols);
    }
    if (middle && !point.ChooseBool("ends", true)) middle.reset();
  }
  // What lines have in common is read once for a block of rows, which goes through each chunk of them together.
  std::vector<int> beside = middle || lanes == 1 ? std::vector<int>() : RowsBeside(r, vector);
  if (!beside.empty() && !point.ChooseBool("blocks_of_rows", true)) beside.clear();
  if (!beside.empty()) num_rows = (num_rows + kRowsOfBlock - 1) / kRowsOfBlock;
  const bool shares_chunks =
      vector_is_reduced || point.ChooseBool("tasks_of_chunks", num_rows < (middle ? 2 : kManyRows));
  std::vector<std::string> rows, chunks, in_blocks;
  std::vector<size_t> in_lanes;                                         // loops of each nest that are those of a chunk
  const int64_t tile = lanes * std::max(1, 4 / r.WidestAlong(vector));  // elements of a line
  for (size_t k = 0; k < r.nests.size(); ++k) {
    RowNest& nest = r.nests[k];
    const bool has_vector = nest.loops.contains(vector);
    std::string chunk = has_vector ? r.FuseDims(nest, along, "v") : "", lane;
    if (middle) PeelEnds(s, chunk, *middle, lanes);
    if (tiles.Holds(r.group.stages[k].name)) {
      chunk = tiles.Split(r, k, chunk, inner_reduced, vectors, lanes, tile);
    } else if (has_vector && lanes > 1) {
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
    if (!beside.empty()) {
      const std::string line = r.FuseDims(nest, beside, "s"), block = s.Fresh("b"), in_block = s.Fresh("bi");
      s.Step("split ", line, " ", kRowsOfBlock, " -> ", block, " ", in_block);
      s.Step("reorder ", block, " ", chunk, " ", in_block);
      nest.loops[beside[0]] = block;
      for (size_t i = 1; i < beside.size(); ++i) nest.loops.erase(beside[i]);
      in_blocks.push_back(in_block);
    }
    std::string row = r.FuseDims(nest, outer, "p");
    if (has_vector && !vector_is_reduced) {
      if (row.empty()) {
        row = chunk;
      } else if (shares_chunks) {
        const std::string p = s.Fresh("p");
        s.Step("fuse ", row, " ", chunk, " -> ", p);
        row = p;
      } else {
        chunks.push_back(chunk);
      }
    }
    if (!row.empty()) rows.push_back(row);
    if (!lane.empty()) s.Step("vectorize ", lane);
    in_lanes.push_back(lane.empty() ? 0 : !vector_is_reduced && vectors > 1 ? 2 : 1);
  }
  MergeLoops(s, rows);
  MergeLoops(s, chunks);
  MergeLoops(s, in_blocks);
  tiles.Merge(s);
  if (!rows.empty()) s.Step("parallel ", rows[0]);
  const size_t shared_loops = (rows.empty() ? 0 : 1) + (chunks.empty() ? 0 : 1) + (in_blocks.empty() ? 0 : 1);
  // What is scanned goes on to who reads it, a chunk at a time, where nobody waits for all of a row.
  bool in_step = r.space.HasScan() && r.nests.size() > 1;
  for (size_t depth = shared_loops; in_step; ++depth) {
    std::vector<std::string> same;
    size_t inner = 0;
    for (size_t k = 0; k < r.nests.size(); ++k) {
      const std::vector<std::string> loops = s.LoopsAround(r.nests[k].block);
      if (loops.size() > depth + in_lanes[k])
        same.push_back(loops[depth]);
      else
        ++inner;
    }
    if (inner == r.nests.size()) break;
    std::string step = "merge";
    for (const std::string& l : same) step += " " + l;
    in_step = inner == 0 && s.Try(step);
  }
  for (const RowNest& nest : r.nests) {
    if (!nest.reduction) continue;
    const std::vector<std::string> loops = s.LoopsAround(nest.block);
    if (loops.size() > shared_loops)
      s.Step("split_init ", nest.block, " ", loops[shared_loops], " -> ", s.Fresh(nest.block + "_init"));
    // Taps that a phase has none of are asked for once for all lanes.
    if (in_phases && !vector_is_reduced && lanes > 1 && loops.size() > shared_loops + 1)
      s.Try(Cat("guard ", nest.block, " ", loops[loops.size() - (vectors > 1 ? 2 : 1)]));
  }
  const CpuCosts& cpu = CpuCostsOf(target);
  const auto bytes_of = [&](ir::Buffer b) {
    return in_step ? BytesOf(b->dtype) * vectors * lanes
                   : RowBytes(r, target, b) * (vector_is_reduced ? 1 : vectors * lanes);
  };
  PlaceOnStack(r, target, vector_is_reduced ? cpu.row_bytes : cpu.chunk_bytes, bytes_of, tiles.buffers());
  RETURN_IF_ERROR(s.status());
  return std::vector<Proposal>{{"rows_cpu", s.func(), s.text(), seconds}};
}

}  // namespace cinn_like::hlir
