// Row spaces on a GPU. Three shapes, by where memory is contiguous:
//   along a reduced dimension: a block (or a few warps) a row; the row stays in registers between the stages, is read
//   and written 16 bytes a thread, and reductions are warp shuffles plus shared memory;
//   along a parallel dimension under a reduction: a warp's lanes are neighbouring columns, the block's warps share the
//   rows; no reduction: one thread two accesses of 16 bytes, or a tile where what is read lies across what is written.
// Where there is a reduction and some of what moves lies along rows and some along columns, a block takes columns, and
// what lies along rows passes through shared memory.
// Sums over columns beside rows (a norm's gradients): a block takes every so many-th row and adds up what it has of the
// columns in registers, a part of the sums; rows that follow each other are on their way together.
// Rows and columns that would fill a core's registers are shared by the blocks of a cluster.
#include <algorithm>
#include <optional>

#include "cinn_like/base/costs.h"
#include "cinn_like/base/powers_of_two.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/row_nests.h"
#include "hlir/tactics/rows_gpu_plan.h"
#include "hlir/tactics/tactics.h"
#include "hlir/tactics/transpose_gpu.h"
#include "ir/analyzer.h"
#include "ir/join.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

constexpr int64_t kAccessBytes = RowsGpuPlan::kAccessBytes;
constexpr int64_t kWarp = RowsGpuPlan::kWarp;
constexpr int64_t kMaxRegisterElements = RowsGpuPlan::kMaxRegisterElements;
constexpr int64_t kThreads = RowsGpuPlan::kThreads;
constexpr int64_t kLineLoads = 2;     // of 16 bytes, a thread's in flight there
constexpr int64_t kRowsTogether = 4;  // of a block that adds up columns, on their way
constexpr int64_t kUnroll = RowsGpuPlan::kUnroll;
constexpr int64_t kOwnLoads = 2;  // the same where memory says when they end: more leave registers for fewer threads
constexpr int64_t kMostLoads = RowsGpuPlan::kMostLoads;
constexpr int kWordBytes = 4;  // of shared memory, of which neighbours lie in different banks

class RowsGpu {
 public:
  RowsGpu(RowNests r, const Target& target, Point& point)
      : r_(std::move(r)),
        s_(r_.schedule),
        target_(target),
        plan_(r_, target),
        most_threads_(plan_.most_threads()),
        point_(point) {}

  StatusOr<std::vector<Proposal>> Run(Until until) {
    // Single values are joined by far fewer instructions than pairs, and what is read twice lies in registers or in L2.
    if (!r_.sums) RETURN_IF_ERROR(r_.SeparatePairs(false));
    const int vector = plan_.VectorDim();
    const double seconds = plan_.Seconds(vector);
    if (until == Until::kPrice) return std::vector<Proposal>{{"rows_gpu", {}, "", seconds}};
    RETURN_IF_ERROR(r_.TakePowersOf2());
    Status status = absl::OkStatus();
    if (r_.sums)
      status = WithSums();
    else if (vector < 0)
      PlaceTemporaries(true);  // single elements, by one thread
    else if (!r_.space.HasReduction())
      status = Pointwise(vector);
    else if (r_.space.dims[vector].reduced)
      status = AlongRow(vector);
    else
      status = AcrossRows();
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(s_.status());
    return std::vector<Proposal>{{"rows_gpu", s_.func(), s_.text(), seconds}};
  }

 private:
  // Those of `options` that a block can have, and the predicted one, which it has.
  int64_t ChooseThreads(std::vector<int64_t> options, int64_t predicted) {
    std::erase_if(options, [&](int64_t n) { return n > most_threads_; });
    if (options.empty()) options = {most_threads_};
    return point_.Choose("threads", options, std::min(predicted, options.back()));
  }

  bool ReadsUnderConditions() const {
    bool r = false;
    for (const Stage& s : r_.group.stages) {
      for (Expr v : s.values) VisitLoads(v, [&](Expr load) { r |= load->has_mask; });
    }
    return r;
  }

  Status Pointwise(int vector) {
    if (const auto t = r_.FindTransposition()) return TransposeOnGpu(r_, plan_, target_, *t);
    const Expr shift = plan_.ShiftOfLine(vector);
    if (shift != nullptr) RETURN_IF_ERROR(r_.Shift(vector, shift));
    const std::vector<int> along = r_.LineAround(vector);
    std::vector<int> outer;
    for (int d : r_.Dims(false)) {
      if (std::count(along.begin(), along.end(), d) == 0) outer.push_back(d);
    }
    r_.ReorderAll({outer, along});
    const int64_t v = shift != nullptr ? plan_.AccessElements(vector) : plan_.VectorFor(along);
    std::vector<std::string> elements, lanes;
    for (RowNest& nest : r_.nests) {
      std::string line = r_.FuseDims(nest, along, "v");
      if (v > 1) {
        const std::string chunk = s_.Fresh("vo"), lane = s_.Fresh("vi");
        s_.Step("split ", line, " ", v, " -> ", chunk, " ", lane);
        line = chunk;
        lanes.push_back(lane);
      }
      const std::string row = r_.FuseDims(nest, outer, "p"), e = s_.Fresh("e");
      s_.Step("fuse ", row, row.empty() ? "" : " ", line, " -> ", e);
      elements.push_back(e);
    }
    MergeLoops(s_, elements);
    // A thread has two accesses of 16 bytes in flight (one where what is read stands under conditions: a second one
    // waits until that is asked for the first); of those that lines of odd lengths make narrow, as many as 16 bytes
    // hold. They lie side by side with the other threads', unless the device would have idle cores then.
    const int64_t whole = plan_.AccessElements(along.back()), at_once = ReadsUnderConditions() ? 1 : kLineLoads;
    int64_t accesses = v == whole ? at_once : whole / v;
    const double blocks = r_.LikelySize(r_.Dims(false)) / static_cast<double>(v * kThreads);
    const double busy = static_cast<double>(GpuCostsOf(target_).threads / kThreads) * Cores(target_);
    while (accesses > 1 && blocks / static_cast<double>(accesses) < busy) accesses /= 2;
    accesses = point_.Choose("accesses", {1, 2, 4, 8}, accesses);
    const int64_t threads = ChooseThreads({kThreads / 2, kThreads, 2 * kThreads, 4 * kThreads}, kThreads);
    if (accesses > 1)
      s_.Step("split ", elements[0], " ", accesses, " ", threads, " -> eb eu et")
          .Run("reorder eb et eu")
          .Run("unroll eu");
    else
      s_.Step("split ", elements[0], " ", threads, " -> eb et");
    s_.Run("bind eb blockIdx.x").Run("bind et threadIdx.x");
    for (const std::string& lane : lanes) s_.Step("vectorize ", lane);
    for (Buffer b : r_.Temporaries()) s_.Step("scope ", b->name, " local");
    return absl::OkStatus();
  }

  // Lanes reduce several values by an operator each, and not pairs.
  static bool IsTuple(const Stage& s) {
    return s.IsReduction() && s.outputs.size() > 1 &&
           std::any_of(s.values.begin(), s.values.end(), [](Expr v) { return v->op == ExprOp::kSelect; });
  }

  // Where row-sized temporaries live: in registers, but for those of more than 16 bits where these are computed
  // `again`; or nowhere (recomputed). Those of `shared` lie in shared memory.
  void PlaceTemporaries(bool in_registers, const std::vector<Buffer>& shared = {}, bool again = false) {
    for (Buffer b : r_.Temporaries()) {
      bool row_sized = false;
      std::string writer;
      for (size_t k = 0; k < r_.group.stages.size(); ++k) {
        const Stage& stage = r_.group.stages[k];
        if (std::count(stage.outputs.begin(), stage.outputs.end(), b) == 0) continue;
        row_sized |= plan_.IsRowSized(k);
        writer = stage.name;
      }
      if (Contains(shared, b))
        s_.Step("scope ", b->name, " shared");
      else if (row_sized && (!in_registers || (again && BytesOf(b->dtype) > 2)))
        s_.Step("inline b_", writer);
      else
        s_.Step("scope ", b->name, " local");
    }
  }

  // What threads keep has one dimension for each of these lines, behind its others, whatever dimensions a line has: a
  // thread's or a block's part of it is then what its own loops go over.
  void LayOutKept(const std::vector<Buffer>& kept, const std::vector<std::vector<int>>& lines) {
    for (size_t k = 0; k < r_.group.stages.size(); ++k) {
      const Stage& stage = r_.group.stages[k];
      if (s_.LoopsAround("b_" + stage.name).empty()) continue;  // substituted away
      std::string dims;
      std::vector<std::string> name_of(r_.space.dims.size());
      std::vector<std::string> others;
      for (size_t i = 0; i < stage.iters.size(); ++i) {
        const int d = r_.space.dim_of[k][i];
        const std::string name = Cat("d", i);
        dims += Cat(dims.empty() ? "" : ", ", name);
        const bool in_line = d >= 0 && std::any_of(lines.begin(), lines.end(), [&](const std::vector<int>& line) {
                               return std::count(line.begin(), line.end(), d) > 0;
                             });
        if (in_line)
          name_of[d] = name;
        else
          others.push_back(name);
      }
      bool whole = true;  // has all of each line
      bool several = false;
      for (const std::vector<int>& line : lines) {
        std::string place;
        for (int d : line) {
          const Expr extent = r_.space.dims[d].extent;
          const std::string by = IsInt(extent) ? Print(extent) : Cat("(", Print(extent), ")");
          whole = whole && !name_of[d].empty();
          place = place.empty() ? name_of[d] : Cat("(", place, ") * ", by, " + ", name_of[d]);
        }
        several |= line.size() > 1;
        others.push_back(place);
      }
      if (!whole || !several) continue;
      std::string to;
      for (const std::string& index : others) to += Cat(to.empty() ? "" : ", ", index);
      for (Buffer b : kept) {
        if (Contains(stage.outputs, b)) s_.Step("transform_layout ", b->name, "[", dims, "] -> [", to, "]");
      }
    }
  }

  // What lies in memory along rows, where columns are read side by side, passes through shared memory: the stages that
  // copy it. Gives them and what lies there.
  StatusOr<std::vector<std::string>> CopyAcross(std::vector<Buffer>& shared) {
    const int across = r_.Dims(true).back();
    ASSIGN_OR_RETURN(const size_t inputs, r_.StageInputs(r_.FindInputsAlong(across)));
    const auto find = [&](Buffer out) -> const Stage& {
      return *std::find_if(r_.group.stages.begin(), r_.group.stages.end(),
                           [&](const Stage& s) { return Contains(s.outputs, out); });
    };
    const auto is_copy = [&](const Stage& s) {
      return s.values[0]->op == ExprOp::kLoad && !IsParam(r_.group, s.values[0]->buffer);
    };
    const std::vector<Buffer> results = r_.FindResultsAlong(across);
    for (Buffer out : results) {
      if (!is_copy(find(out))) s_.Step("keep ", out->name, " -> ", s_.Fresh("kept_" + out->name));
    }
    RETURN_IF_ERROR(r_.ReadAgain());
    std::vector<std::string> copies;
    for (size_t k = 0; k < inputs; ++k) {
      copies.push_back(r_.group.stages[k].name);
      shared.push_back(r_.group.stages[k].outputs[0]);
    }
    for (Buffer out : results) {
      copies.push_back(find(out).name);
      shared.push_back(find(out).values[0]->buffer);
    }
    return copies;
  }

  Status AlongRow(int vector) {
    RowsGpuPlan::Row row = plan_.PlanRow(vector);
    if (!row.in_registers) {  // what comes from memory each time comes once for all reductions of it
      RETURN_IF_ERROR(r_.JoinReductions());
      vector = r_.VectorDim();
      row = plan_.PlanRow(vector);
    }
    const std::vector<int> parallel = r_.Dims(false), reduced = r_.Dims(true);
    std::optional<int64_t> chosen;
    if (plan_.CanShare() && row.blocks == 1) {
      chosen =
          ChooseThreads({kWarp, 2 * kWarp, 4 * kWarp, 8 * kWarp, 16 * kWarp, RowsGpuPlan::kMostThreads}, row.threads);
      row = plan_.PlanRow(vector, std::nullopt, chosen);
    }
    const bool tuple = std::any_of(r_.group.stages.begin(), r_.group.stages.end(), IsTuple);
    if (tuple && row.v > 1 && !row.in_registers) row = plan_.PlanRow(vector, 1, chosen);
    const int64_t longest = row.longest, v = row.v, threads = row.threads, blocks = row.blocks;
    const bool shifted = row.shifted, in_registers = row.in_registers;
    const int64_t rows = plan_.RowsTogether(threads);
    // A row of a symbolic length has as many parts as the longest, each under a condition; there is one such row.
    const bool may_be_shorter = in_registers && plan_.RowLength() == 0;
    const int64_t parts = ((longest + v - 1) / v + threads * blocks - 1) / (threads * blocks);
    const Expr shift = shifted ? plan_.ShiftOfRow(vector, v) : nullptr;
    RETURN_IF_ERROR(r_.KeepResults(in_registers));
    // More elements than registers are 16-bit ones alone: what is computed of them is computed again.
    const bool again = in_registers && parts * v > kMaxRegisterElements;
    // What several stages read, or a stage one lane at a time, comes from memory once and 16 bytes wide.
    if (in_registers)
      RETURN_IF_ERROR(r_.StageInputs((tuple && v > 1) || again ? r_.FindInputs() : SharedOf(r_.FindInputs())).status());
    if (shift != nullptr) RETURN_IF_ERROR(r_.Shift(vector, shift));
    PlaceTemporaries(in_registers, {}, again);
    if (in_registers) LayOutKept(r_.Temporaries(), {reduced});
    r_.ReorderAll({parallel, reduced});
    std::vector<std::string> row_loops, thread_loops, cluster_loops;
    for (size_t i = 0; i < r_.nests.size(); ++i) {
      RowNest& nest = r_.nests[i];
      if (s_.LoopsAround(nest.block).empty()) continue;  // substituted away, or a single element
      const std::string outer = r_.FuseDims(nest, parallel, "p"), line = r_.FuseDims(nest, reduced, "r");
      if (!outer.empty()) row_loops.push_back(outer);
      if (line.empty()) continue;
      const std::string k = s_.Fresh("k"), t = s_.Fresh("t"), lane = s_.Fresh("l"), c = s_.Fresh("c");
      const std::string all = may_be_shorter ? Cat(parts, " ") : "", one = may_be_shorter ? s_.Fresh("one") + " " : "";
      if (threads == 1 && v == 1) {
        if (may_be_shorter) s_.Step("split ", line, " ", parts, " -> ", one, k);
        if (in_registers) s_.Step("unroll ", may_be_shorter ? k : line);
        continue;
      }
      const std::string of_cluster = blocks > 1 ? Cat(blocks, " ") : "", in_cluster = blocks > 1 ? c + " " : "";
      if (v > 1)
        s_.Step("split ", line, " ", all, of_cluster, threads, " ", v, " -> ", one, k, " ", in_cluster, t, " ", lane);
      else
        s_.Step("split ", line, " ", all, of_cluster, threads, " -> ", one, k, " ", in_cluster, t);
      s_.Step("reorder ", in_cluster, t, " ", k);
      if (blocks > 1) cluster_loops.push_back(c);
      if (threads > 1) thread_loops.push_back(t);
      if (v > 1) s_.Step(IsTuple(r_.group.stages[i]) ? "unroll " : "vectorize ", lane);
      if (in_registers) s_.Step("unroll ", k);
    }
    MergeLoops(s_, row_loops);
    if (!row_loops.empty()) {
      std::string block = row_loops[0];
      if (rows > 1) {
        s_.Step("split ", block, " ", rows, " -> pb py").Step("bind py threadIdx.", threads > 1 ? "y" : "x");
        block = "pb";
      }
      s_.Step("bind ", block, " blockIdx.x");
    }
    for (const std::string& t : thread_loops) s_.Step("bind ", t, " threadIdx.x");
    for (const std::string& c : cluster_loops) s_.Step("bind ", c, " clusterIdx.x");
    return absl::OkStatus();
  }

  Status AcrossRows() {
    RETURN_IF_ERROR(r_.JoinReductions());
    // The stages may come in another order now, and so their dimensions.
    const int vector = r_.VectorDim(/*of_rows=*/false);
    const std::vector<int> reduced = r_.Dims(true), along = r_.LineAround(vector);
    std::vector<int> outer;
    for (int d : r_.Dims(false)) {
      if (std::count(along.begin(), along.end(), d) == 0) outer.push_back(d);
    }
    const int64_t length = plan_.RowLength(), longest = plan_.LongestRow();
    RowsGpuPlan::Strip strip = plan_.PlanStrip(vector);
    auto& [columns, sharers, lanes, blocks, in_registers, crosses] = strip;
    RETURN_IF_ERROR(r_.KeepResults(in_registers, lanes > 1));
    // Loads under conditions, as those of columns of a symbolic length are, are not found to be the same.
    if (blocks > 1 || (in_registers && length == 0)) {
      std::vector<RowNests::Input> inputs = SharedOf(r_.FindInputs());
      if (crosses) {
        for (const RowNests::Input& across : r_.FindInputsAlong(reduced.back()))
          std::erase_if(inputs, [&](const RowNests::Input& x) { return x.load == across.load; });
      }
      RETURN_IF_ERROR(r_.StageInputs(inputs).status());
    }
    size_t staged = 0;
    std::vector<Buffer> shared;
    std::vector<std::string> copies;
    if (crosses) {
      ASSIGN_OR_RETURN(copies, CopyAcross(shared));
    } else if (!in_registers && plan_.CanShare()) {
      // What is read again waits in shared memory, if a strip is wide enough for memory's sectors.
      const std::vector<RowNests::Input> inputs = SharedOf(r_.FindInputs());
      const int64_t narrowest = 2 * plan_.AccessElements(vector);
      const int64_t bytes = longest * static_cast<int64_t>(inputs.size()) * kAccessBytes / plan_.AccessElements(vector);
      if (bytes > 0 && bytes * narrowest <= target_.shared_bytes - RowsGpuPlan::kReserved) {
        while (bytes * columns > target_.shared_bytes - RowsGpuPlan::kReserved) columns /= 2;
        sharers = PowerOfTwoBelow(most_threads_ / columns);
        ASSIGN_OR_RETURN(staged, r_.StageInputs(inputs));
        for (size_t k = 0; k < staged; ++k) shared.push_back(r_.group.stages[k].outputs[0]);
      }
    }
    PlaceTemporaries(in_registers, shared);
    if (in_registers) {
      std::vector<Buffer> own = r_.Temporaries();
      std::erase_if(own, [&](Buffer b) { return Contains(shared, b); });
      LayOutKept(own, {reduced});
    }
    if (crosses) {
      LayOutKept(shared, {along, reduced});
      // An odd number of words from one column to the next: those of a row lie in different banks.
      for (Buffer b : shared) {
        const int word = std::max(kWordBytes / BytesOf(b->dtype), 1);
        s_.Step("storage_align ", b->name, " ", 2 * word, " ", word);
      }
    }
    r_.ReorderAll({outer, along, reduced});
    // As along rows: of a symbolic length there are as many parts as of the longest.
    const bool may_be_shorter = length == 0 && (in_registers || staged > 0);
    int64_t v = plan_.VectorFor(along);
    while (columns % v != 0) v /= 2;
    struct Line {
      std::string rows, columns;
      bool staged;
    };
    const bool ends = plan_.EndsInMemory();
    std::vector<std::string> clusters, strips, columns_of, rows, elements;
    std::vector<Line> lines;
    for (size_t i = 0; i < r_.nests.size(); ++i) {
      RowNest& nest = r_.nests[i];
      if (s_.LoopsAround(nest.block).empty()) continue;
      const std::string chunk = s_.Fresh("c"), lane = s_.Fresh("x"), block = s_.Fresh("b");
      const std::string element = lanes > 1 ? s_.Fresh("l") : "";
      s_.Step("split ", r_.FuseDims(nest, along, "v"), " ", columns / lanes, lanes > 1 ? Cat(" ", lanes) : "", " -> ",
              chunk, " ", lane, lanes > 1 ? " " + element : "");
      const std::string row = r_.FuseDims(nest, outer, "p"), line = r_.FuseDims(nest, reduced, "r");
      s_.Step("fuse ", row, row.empty() ? "" : " ", chunk, " -> ", block);
      strips.push_back(block);
      if (std::find(copies.begin(), copies.end(), r_.group.stages[i].name) != copies.end()) {
        // Along a row lie the threads of a strip's columns and as many of those that share them as fill a warp, or find
        // no column.
        int64_t beside = 1;
        while (beside < sharers && (beside * columns < kWarp || sharers / beside > columns)) beside *= 2;
        // A word each: of more those of neighbours would lie in one bank.
        const int64_t word = std::max(kWordBytes / BytesOf(r_.group.stages[i].outputs[0]->dtype), 1);
        const int64_t access = plan_.VectorFor({reduced.back()}, word), turn = beside * columns * access;
        const std::string u = s_.Fresh("u"), y = s_.Fresh("y"), yc = s_.Fresh("yc"), yr = s_.Fresh("yr"),
                          k = s_.Fresh("k"), x = s_.Fresh("x"), e = s_.Fresh("e"),
                          one = may_be_shorter ? s_.Fresh("one") : "";
        s_.Step("split ", lane, " ", sharers / beside, " -> ", u, " ", yc);
        s_.Step("split ", line, may_be_shorter ? Cat(" ", (longest + turn - 1) / turn) : "", " ", beside, " ", columns,
                " ", access, " -> ", one, " ", k, " ", yr, " ", x, " ", e);
        s_.Step("reorder ", yc, " ", yr, " ", x, " ", u, " ", k, " ", e).Step("fuse ", yc, " ", yr, " -> ", y);
        s_.Step("unroll ", u).Step("unroll ", k).Step("vectorize ", e);
        columns_of.push_back(x);
        rows.push_back(y);
        continue;
      }
      columns_of.push_back(lane);
      if (lanes > 1) elements.push_back(element);
      if (line.empty() || sharers == 1) {
        if (line.empty()) continue;
        if (!in_registers) {
          if (length > 0 && !ends) continue;
          const std::string k = s_.Fresh("k"), u = s_.Fresh("u");
          s_.Step("split ", line, " ", ends ? kOwnLoads : kUnroll, " -> ", k, " ", u).Step("unroll ", u);
          if (lanes > 1) s_.Step("reorder ", lane, " ", k, " ", u, " ", element);
          continue;
        }
        const std::string k = may_be_shorter ? s_.Fresh("k") : line;
        if (may_be_shorter) s_.Step("split ", line, " ", longest, " -> ", s_.Fresh("one"), " ", k);
        s_.Step("unroll ", k);
        continue;
      }
      lines.push_back({line, lane, i < staged});
    }
    for (const std::string& element : elements) s_.Step("vectorize ", element);
    MergeLoops(s_, strips);
    int64_t unroll = plan_.LoadsOfStrip(vector, columns, sharers);
    if (staged == 0 && !in_registers) unroll = point_.Choose("unroll", {4, kUnroll, 16, kMostLoads}, unroll);
    for (const Line& line : lines) {
      const std::string k = s_.Fresh("k"), y = s_.Fresh("y"), u = s_.Fresh("u"), c = s_.Fresh("c");
      rows.push_back(y);
      const bool by_lanes = line.staged && v > 1;
      const int64_t at_once = blocks * sharers * (by_lanes ? v : 1);
      const std::string all = may_be_shorter ? Cat((longest + at_once - 1) / at_once, " ") : "",
                        one = may_be_shorter ? s_.Fresh("one") + " " : "";
      if (blocks > 1) {
        s_.Step("split ", line.rows, " ", all, blocks, " ", sharers, " -> ", one, k, " ", c, " ", y);
        s_.Step("reorder ", c, " ", y, " ", k).Step("unroll ", k);
        clusters.push_back(c);
      } else if (by_lanes) {
        // A thread fetches 16 bytes of a row, so the threads of one row fetch several.
        const std::string w = s_.Fresh("w"), e = s_.Fresh("e"), l = s_.Fresh("l"), x = s_.Fresh("x");
        s_.Step("split ", line.columns, " ", v, " -> ", w, " ", e);
        s_.Step("split ", line.rows, " ", all, sharers, " ", v, " -> ", one, k, " ", y, " ", l);
        s_.Step("reorder ", y, " ", l, " ", w, " ", k, " ", e).Step("fuse ", l, " ", w, " -> ", x);
        s_.Step("unroll ", k).Step("vectorize ", e);
        *std::find(columns_of.begin(), columns_of.end(), line.columns) = x;
      } else if (in_registers || staged > 0) {
        s_.Step("split ", line.rows, " ", all, sharers, " -> ", one, k, " ", y);
        s_.Step("reorder ", y, " ", k).Step("unroll ", k);
      } else {
        s_.Step("split ", line.rows, " ", unroll, " ", sharers, " -> ", k, " ", u, " ", y);
        s_.Step("reorder ", y, " ", k, " ", u).Step("unroll ", u);
      }
    }
    std::string block = strips[0];
    if (const int64_t together = std::max<int64_t>(kThreads * lanes / columns, 1); sharers == 1 && together > 1) {
      s_.Step("split ", block, " ", together, " -> pb py").Run("bind py threadIdx.y");
      block = "pb";
    }
    s_.Step("bind ", block, " blockIdx.x");
    for (const std::string& l : clusters) s_.Step("bind ", l, " clusterIdx.x");
    for (const std::string& l : columns_of) s_.Step("bind ", l, " threadIdx.x");
    for (const std::string& l : rows) s_.Step("bind ", l, " threadIdx.y");
    return absl::OkStatus();
  }

  Status WithSums() {
    const auto sum = [&]() -> const Stage& {
      return *std::find_if(r_.group.stages.begin(), r_.group.stages.end(),
                           [&](const Stage& s) { return s.name == r_.sums->stage; });
    };
    const std::string name = r_.sums->stage;
    // What is written is added up elsewhere, and what is read again lies in registers.
    const std::vector<Buffer> outputs = sum().outputs;
    for (size_t o = outputs.size(); o-- > 0;)
      s_.Step("keep ", outputs[o]->name, " -> ", s_.Fresh("kept_" + outputs[o]->name));
    RETURN_IF_ERROR(r_.KeepResults(true));
    RETURN_IF_ERROR(r_.StageInputs(SharedOf(r_.FindInputs())).status());
    for (Buffer b : r_.Temporaries()) s_.Step("scope ", b->name, " local");
    std::vector<int> serial, columns;
    int part = -1;
    for (size_t i = 0; i < sum().iters.size() + sum().reduce_iters.size(); ++i) {
      const int d = r_.space.dim_of[static_cast<size_t>(&sum() - r_.group.stages.data())][i];
      const bool reduced = i >= sum().iters.size();
      if (d < 0) continue;
      if (!reduced && sum().iters[i].var == r_.sums->part)
        part = d;
      else
        (reduced ? serial : columns).push_back(d);
    }
    RET_CHECK(part >= 0 && !serial.empty() && !columns.empty(), name);
    // Of the rows' dimensions that a block goes through, the longest is the inner one.
    std::stable_sort(serial.begin(), serial.end(),
                     [&](int x, int y) { return r_.LikelyExtent(x) < r_.LikelyExtent(y); });
    r_.ReorderAll({{part}, serial, columns});
    const int vector = columns.back();
    const int64_t v = plan_.VectorFor({vector});
    int64_t length = 1;
    for (int d : columns) length *= r_.ConstExtent(d);
    RET_CHECK(length > 0, name);
    // Without sums of rows no thread waits for others: as many as there are accesses, fewer rows on their way.
    const bool waits = std::any_of(r_.group.stages.begin(), r_.group.stages.end(),
                                   [&](const Stage& s) { return s.IsReduction() && s.name != name; });
    int64_t threads = waits ? ThreadsOfSummedRow(length / v, most_threads_) : kWarp;
    while (!waits && threads < std::min(RowsGpuPlan::kMostThreads / 2, most_threads_) && threads * v < length)
      threads *= 2;
    int64_t kept = 0;  // elements of one row, a thread's
    for (size_t k = 0; k < r_.group.stages.size(); ++k) {
      const Stage& s = r_.group.stages[k];
      bool whole = !s.IsReduction();
      for (size_t d = 0; d < r_.space.dims.size(); ++d)
        whole = whole && std::count(r_.space.dim_of[k].begin(), r_.space.dim_of[k].end(), static_cast<int>(d)) > 0;
      for (Buffer b : s.outputs)
        kept += whole && Contains(r_.Temporaries(), b) ? (length / v + threads - 1) / threads * v : 0;
    }
    int64_t together = waits ? kRowsTogether : kRowsTogether / 2;
    while (together > 1 && (together > r_.LikelyExtent(serial.back()) || together * kept > kMaxRegisterElements))
      together /= 2;
    together = point_.Choose("rows_together", {1, 2, kRowsTogether, 2 * kRowsTogether}, together);
    std::vector<std::string> blocks, thread_loops;
    std::vector<std::vector<std::string>> row_loops(serial.size());
    for (size_t i = 0; i < r_.nests.size(); ++i) {
      RowNest& nest = r_.nests[i];
      if (s_.LoopsAround(nest.block).empty()) continue;
      blocks.push_back(nest.loops.at(part));
      std::string u;
      const bool in_rows = nest.loops.contains(serial[0]);
      for (size_t d = 0; in_rows && d < serial.size(); ++d) row_loops[d].push_back(nest.loops.at(serial[d]));
      if (in_rows && together > 1) {
        std::string& row = row_loops.back().back();
        const std::string outer = s_.Fresh("qo");
        u = s_.Fresh("u");
        s_.Step("split ", row, " ", together, " -> ", outer, " ", u);
        row = outer;
      }
      const std::string line = r_.FuseDims(nest, columns, "r");
      if (!line.empty()) {
        const std::string k = s_.Fresh("k"), t = s_.Fresh("t"), lane = s_.Fresh("l");
        if (v > 1)
          s_.Step("split ", line, " ", threads, " ", v, " -> ", k, " ", t, " ", lane);
        else
          s_.Step("split ", line, " ", threads, " -> ", k, " ", t);
        s_.Step("reorder ", t, " ", u, u.empty() ? "" : " ", k).Step("unroll ", k);
        if (v > 1) s_.Step("vectorize ", lane);
        thread_loops.push_back(t);
      }
      if (!u.empty()) s_.Step("unroll ", u);
      if (nest.block != "b_" + name) continue;
      const std::string start = s_.Fresh("start_" + name);
      s_.Step("split_init b_", name, " ", row_loops[0].back(), " -> ", start);
      RETURN_IF_ERROR(s_.status());
      thread_loops.push_back(s_.LoopsAround(start).at(1));
    }
    MergeLoops(s_, blocks);
    for (const std::vector<std::string>& loops : row_loops) MergeLoops(s_, loops);
    s_.Step("bind ", blocks[0], " blockIdx.x");
    for (const std::string& t : thread_loops) s_.Step("bind ", t, " threadIdx.x");
    return absl::OkStatus();
  }

  RowNests r_;
  Schedule& s_;  // r_'s
  const Target& target_;
  const RowsGpuPlan plan_;
  const int64_t most_threads_;
  Point& point_;
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeRowsGpu(const TeProgram& group, const Target& target, Until until,
                                               Point& point) {
  if (!target.IsGpu() || target.device->limits.threads < kWarp) return std::vector<Proposal>();
  ASSIGN_OR_RETURN(std::optional<RowNests> r, RowNests::Create(group));
  if (!r) {
    ASSIGN_OR_RETURN(r, RowNests::CreateWithSums(group, false));
  }
  if (!r || r->space.HasScan()) return std::vector<Proposal>();
  return RowsGpu(*std::move(r), target, point).Run(until);
}

}  // namespace cinn_like::hlir
