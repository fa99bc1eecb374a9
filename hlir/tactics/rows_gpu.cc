// Row spaces on a GPU. Three shapes, by where memory is contiguous:
//   along a reduced dimension: a block (or a few warps) a row; the row stays in registers between the stages, is read
//   and written 16 bytes a thread, and reductions are warp shuffles plus shared memory;
//   along a parallel dimension under a reduction: a warp's lanes are neighbouring columns, the block's warps share the
//   rows; no reduction: one thread two accesses of 16 bytes, or a tile where what is read lies across what is written.
// Sums over columns beside rows (a norm's gradients): a block takes every so many-th row and adds up what it has of the
// columns in registers, a part of the sums; rows that follow each other are on their way together.
// Rows and columns that would fill a core's registers are shared by the blocks of a cluster.
#include <algorithm>
#include <cmath>
#include <optional>

#include "cinn_like/base/costs.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/row_nests.h"
#include "hlir/tactics/tactics.h"
#include "ir/analyzer.h"
#include "ir/join.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr int64_t kWarp = 32;
constexpr int64_t kMaxRegisterElements = 64;  // of one row, a thread
constexpr int64_t kMostThreads = 1024;        // of a block, where the device runs as many
constexpr int64_t kThreads = 128;             // where each has elements of its own
constexpr int64_t kLineLoads = 2;             // of 16 bytes, a thread's in flight there
constexpr int64_t kRowLoads = 4;              // of 16 bytes, of all inputs, a thread's of a row in registers
constexpr int64_t kReserved = 10 * 1024;      // of shared memory, for exchanges between threads
constexpr int64_t kOwnRegisters = 24;         // a thread's, beside its elements of a row
constexpr int64_t kClusterThreads = 256;      // of each of the blocks that share a row
constexpr int64_t kStripThreads = 512;        // of a block that shares a strip of columns
constexpr int64_t kRowsTogether = 4;          // of a block that adds up columns, on their way
constexpr int64_t kUnroll = 8;                // loads in flight, a thread
constexpr int64_t kMostLoads = 32;            // and where a loop is long, in all
constexpr int64_t kLongestRow = 1 << 20;      // more than registers hold
constexpr int64_t kLikelyRow = 2048;          // a row whose length is not known is expected to be at least that long
// Threads of a block along what a transposition reads and what it writes; a thread's elements where they are not 16
// bytes in a row.
constexpr int64_t kTransposeIn = 8, kTransposeOut = 32, kTile = 4;
constexpr int64_t kTileBytes = 512;  // in registers

// What several stages read is read from memory once.
std::vector<RowNests::Input> SharedOf(std::vector<RowNests::Input> inputs) {
  std::erase_if(inputs, [](const RowNests::Input& input) { return input.read.size() < 2; });
  return inputs;
}

// Elements in 16 bytes of the widest of the largest tensors that are read or written along a dimension.
int64_t AccessElements(const RowNests& r, int dim) { return kAccessBytes / r.WidestAlong(dim); }

int64_t PowerOfTwoBelow(int64_t n) {
  int64_t p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

class RowsGpu {
 public:
  RowsGpu(RowNests r, const Target& target, Point& point)
      : r_(std::move(r)),
        s_(r_.schedule),
        target_(target),
        most_threads_(PowerOfTwoBelow(std::min(kMostThreads, target.device->limits.threads))),
        point_(point) {}

  StatusOr<std::vector<Proposal>> Run(Until until) {
    const int vector = r_.space.dims.empty() ? -1 : r_.VectorDim();
    const double seconds = Seconds(vector);
    if (until == Until::kPrice) return std::vector<Proposal>{{"rows_gpu", {}, "", seconds}};
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
      status = AcrossRows(vector);
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(s_.status());
    return std::vector<Proposal>{{"rows_gpu", s_.func(), s_.text(), seconds}};
  }

 private:
  // Predicted, by what is read once and again, the width of accesses, and rows that wait for memory and for threads.
  double Seconds(int vector) const {
    const GpuCosts& gpu = GpuCostsOf(target_);
    const double memory = r_.Bytes() / BytesPerSecond(target_), products = SecondsOfRowProducts(r_.group, target_);
    if (r_.sums || vector < 0) return gpu.kernel_seconds + memory + products;
    const bool along = r_.space.dims[vector].reduced;
    // Along rows of products elements are multiplied while others are on their way.
    double seconds = along ? std::max(memory, products) : memory + products;
    if (!r_.space.HasReduction()) {
      const auto narrow = [&](const std::vector<int>& line) {
        return std::log2(static_cast<double>(AccessElements(r_, line.back())) / static_cast<double>(VectorFor(line)));
      };
      const auto t = r_.FindTransposition();
      seconds *= 1 + (t ? gpu.narrow_tile * (narrow(r_.LineAround(t->in)) + narrow(r_.LineAround(t->out)))
                        : gpu.narrow_access * narrow(r_.LineAround(vector)));
      return gpu.kernel_seconds + seconds;
    }
    const int64_t passes = Passes();
    double rows = 1;  // or columns
    for (int d : r_.Dims(false)) rows *= static_cast<double>(r_.LikelyExtent(d));
    bool in_registers = false;
    double waits = 0, parts = 0;
    if (along) {
      const Row row = PlanRow(vector);
      in_registers = row.in_registers;
      const bool pairs = std::any_of(r_.group.stages.begin(), r_.group.stages.end(), ChoosesPairs);
      const auto threads = static_cast<double>(row.threads * row.blocks);
      // All parts that a row can have are asked for, of all of a block's rows.
      const double length = static_cast<double>(row.longest > 0 ? row.longest : LikelyRowLength());
      parts = rows * std::ceil(length / (static_cast<double>(row.v) * threads)) * threads / kWarp;
      const auto together = static_cast<double>(RowsTogether(row.threads));
      const double at_once =
          std::min(static_cast<double>(gpu.threads) / threads, together * static_cast<double>(gpu.blocks)) *
          Cores(target_);
      waits = std::ceil(rows / at_once) * static_cast<double>(passes) * gpu.pass_seconds *
              (pairs && !in_registers ? gpu.pair_passes : 1);
    } else {
      in_registers = PlanStrip(r_.LineAround(vector)).in_registers;
      parts = rows * static_cast<double>(in_registers ? LongestRow() : LikelyRowLength()) / kWarp;
    }
    if (!in_registers) seconds += BytesAgain(passes) / (gpu.again_per_byte * BytesPerSecond(target_));
    return gpu.kernel_seconds + std::max(seconds, waits) +
           parts * static_cast<double>(passes + 1) * gpu.part_seconds / Cores(target_);
  }

  // How often the group goes through a row: for each reduction, and once for what is as large as it.
  int64_t Passes() const {
    int64_t passes = 0;
    bool results = false;
    for (size_t k = 0; k < r_.group.stages.size(); ++k) {
      const Stage& s = r_.group.stages[k];
      passes += s.IsReduction();
      results |= !s.IsReduction() && IsRowSized(k) && IsParam(r_.group, s.outputs[0]);
    }
    return std::max<int64_t>(passes + results, 1);
  }

  // Bytes of a row's elements that are read after the first time, of rows that lie in no registers.
  double BytesAgain(int64_t passes) const {
    bool inlined = false;
    for (size_t k = 0; k < r_.group.stages.size(); ++k) {
      const Stage& s = r_.group.stages[k];
      inlined |= !s.IsReduction() && IsRowSized(k) && !IsParam(r_.group, s.outputs[0]);
    }
    double bytes = 0;
    for (const RowNests::Input& input : r_.FindInputs()) {
      const auto times = inlined ? passes : static_cast<int64_t>(input.read.size());
      bytes += static_cast<double>(times - 1) * TypicalBytes(input.load->buffer, r_.group.symbols);
    }
    return bytes;
  }

  // What stage k writes has an element for each of a row's.
  bool IsRowSized(size_t k) const {
    for (size_t i = 0; i < r_.group.stages[k].iters.size(); ++i) {
      const int d = r_.space.dim_of[k][i];
      if (d >= 0 && r_.space.dims[d].reduced) return true;
    }
    return false;
  }

  // Those of `options` that a block can have, and the predicted one, which it has.
  int64_t ChooseThreads(std::vector<int64_t> options, int64_t predicted) {
    std::erase_if(options, [&](int64_t n) { return n > most_threads_; });
    if (options.empty()) options = {most_threads_};
    return point_.Choose("threads", options, std::min(predicted, options.back()));
  }

  // Elements of one access where `dims` are one line of memory.
  int64_t VectorFor(const std::vector<int>& dims) const {
    Context& c = *r_.group.context;
    Analyzer a(c);
    for (const SymbolFact& f : r_.group.symbols) a.BindSymbol(f);
    Expr length = c.Int(1);
    for (int d : dims) length = c.Mul(length, r_.space.dims[d].extent);
    const int64_t divisor = a.KnownDivisor(length);
    int64_t v = AccessElements(r_, dims.back());
    while (v > 1 && divisor % v != 0) v /= 2;
    return v;
  }

  void Merge(const std::vector<std::string>& loops) {
    std::string step = "merge";
    for (const std::string& l : loops) step += " " + l;
    if (loops.size() > 1) s_.Run(step);
  }

  // A thread rearranges a tile in its registers, 16 bytes by 16 bytes: it reads rows of the tile and writes columns.
  // Threads lie side by side both ways, so that neither way memory moves more than what is used.
  Status Transpose(RowNests::Transposition t) {
    ASSIGN_OR_RETURN(const size_t copies, r_.StageInputs(r_.FindInputsAlong(t.in)));
    for (Buffer b : r_.Temporaries()) s_.Step("scope ", b->name, " local");
    const std::vector<int> in = r_.LineAround(t.in), out = r_.LineAround(t.out);
    std::vector<int> outer;
    for (int d : r_.Dims(false)) {
      if (std::count(in.begin(), in.end(), d) + std::count(out.begin(), out.end(), d) == 0) outer.push_back(d);
    }
    r_.ReorderAll({outer, in, out});
    int64_t v_in = VectorFor(in), v_out = VectorFor(out), bytes = 0;
    for (Buffer b : r_.Temporaries()) bytes += BytesOf(b->dtype);
    while (v_in * v_out * bytes > kTileBytes) (v_in >= v_out ? v_in : v_out) /= 2;
    struct Side {
      std::string block, thread, element;
    };
    const int64_t transpose_out = std::min(kTransposeOut, most_threads_ / kTransposeIn);
    std::vector<std::string> blocks, threads_in, threads_out;
    std::vector<std::pair<Side, Side>> sides;
    for (RowNest& nest : r_.nests) {
      auto cut = [&](const std::vector<int>& dims, int64_t threads, int64_t v) {
        const Side s{s_.Fresh("b"), s_.Fresh("t"), s_.Fresh("x")};
        const std::string line = r_.FuseDims(nest, dims, "v");
        if (v > 1)
          s_.Step("split ", line, " ", threads, " ", v, " -> ", s.block, " ", s.thread, " ", s.element);
        else
          s_.Step("split ", line, " ", kTile, " ", threads, " -> ", s.block, " ", s.element, " ", s.thread);
        return s;
      };
      const Side x = cut(in, kTransposeIn, v_in), y = cut(out, transpose_out, v_out);
      s_.Step("reorder ", x.block, " ", y.block, " ", x.thread, " ", y.thread, " ", x.element, " ", y.element);
      const std::string row = r_.FuseDims(nest, outer, "p");
      blocks.push_back(s_.Fresh("e"));
      s_.Step("fuse ", row, row.empty() ? "" : " ", x.block, " ", y.block, " -> ", blocks.back());
      threads_in.push_back(x.thread);
      threads_out.push_back(y.thread);
      sides.emplace_back(x, y);
    }
    Merge(blocks);  // while all nests have one order
    for (size_t i = 0; i < sides.size(); ++i) {
      const auto& [x, y] = sides[i];
      const bool reads = i < copies;
      const std::string &first = reads ? y.element : x.element, &last = reads ? x.element : y.element;
      s_.Step("reorder ", first, " ", last).Step("unroll ", first);
      s_.Step((reads ? v_in : v_out) > 1 ? "vectorize " : "unroll ", last);
    }
    s_.Step("bind ", blocks[0], " blockIdx.x");
    for (const std::string& l : threads_in) s_.Step("bind ", l, " threadIdx.x");
    for (const std::string& l : threads_out) s_.Step("bind ", l, " threadIdx.y");
    return absl::OkStatus();
  }

  Status Pointwise(int vector) {
    if (const auto t = r_.FindTransposition()) return Transpose(*t);
    const std::vector<int> along = r_.LineAround(vector);
    std::vector<int> outer;
    for (int d : r_.Dims(false)) {
      if (std::count(along.begin(), along.end(), d) == 0) outer.push_back(d);
    }
    r_.ReorderAll({outer, along});
    const int64_t v = VectorFor(along);
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
    Merge(elements);
    // A thread has two accesses of 16 bytes in flight; of those that lines of odd lengths make narrow, as many as 16
    // bytes hold. They lie side by side with the other threads', unless the device would have idle cores then.
    int64_t accesses = v == AccessElements(r_, along.back()) ? kLineLoads : AccessElements(r_, along.back()) / v;
    double blocks = 1.0 / static_cast<double>(v * kThreads);
    for (int d : r_.Dims(false)) blocks *= static_cast<double>(r_.LikelyExtent(d));
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

  // Threads can share a reduction, each with a part of it; else one does it all. Of short windows each has its own:
  // then they read neighbours.
  bool CanShare() const {
    constexpr int64_t kShort = 64;
    const int64_t length = RowLength();
    return (length == 0 || length > kShort || !r_.ReadsWindows()) &&
           std::all_of(r_.group.stages.begin(), r_.group.stages.end(), [&](const Stage& s) {
             return !s.IsReduction() ||
                    FindJoin(*r_.group.context, s.values, RunningOf(*r_.group.context, s)).has_value();
           });
  }
  // Lanes reduce by one operator only.
  static bool IsTuple(const Stage& s) { return s.IsReduction() && s.outputs.size() > 1; }

  // A row's length; 0 if symbolic.
  int64_t RowLength() const {
    int64_t n = 1;
    for (int d : r_.Dims(true)) n *= r_.ConstExtent(d);
    return n;
  }

  // The most that it can be, and no more than what any cluster's registers hold.
  int64_t LongestRow() const {
    int64_t n = 1;
    for (int d : r_.Dims(true)) n = std::min(n * r_.LargestExtent(d), kLongestRow);
    return n;
  }

  int64_t LikelyRowLength() const {
    double n = 1;
    for (int d : r_.Dims(true)) n *= static_cast<double>(r_.LikelyExtent(d));
    return static_cast<int64_t>(std::min(n, 1e9));
  }

  // Where row-sized temporaries live: those of the first `staged` stages in shared memory, the others in registers or
  // nowhere (recomputed).
  void PlaceTemporaries(bool in_registers, size_t staged = 0) {
    for (Buffer b : r_.Temporaries()) {
      bool row_sized = false, is_staged = false;
      for (size_t k = 0; k < r_.group.stages.size(); ++k) {
        const Stage& stage = r_.group.stages[k];
        if (std::count(stage.outputs.begin(), stage.outputs.end(), b) == 0) continue;
        is_staged = k < staged;
        row_sized |= IsRowSized(k);
      }
      if (row_sized && !in_registers && !is_staged)
        s_.Step("inline b_", b->name);
      else
        s_.Step("scope ", b->name, is_staged ? " shared" : " local");
    }
  }

  // A row that threads keep in registers lies there as one line, whatever dimensions it has: a thread's part of it is
  // then what its own loops go over.
  void LayOutKept() {
    const std::vector<int> reduced = r_.Dims(true);
    if (reduced.size() < 2) return;
    for (size_t k = 0; k < r_.group.stages.size(); ++k) {
      const Stage& stage = r_.group.stages[k];
      std::string dims, others, line;
      std::vector<std::string> name_of(r_.space.dims.size());
      for (size_t i = 0; i < stage.iters.size(); ++i) {
        const int d = r_.space.dim_of[k][i];
        const std::string name = Cat("d", i);
        dims += Cat(dims.empty() ? "" : ", ", name);
        if (d >= 0 && r_.space.dims[d].reduced)
          name_of[d] = name;
        else
          others += name + ", ";
      }
      for (int d : reduced) {
        if (name_of[d].empty()) break;  // no row
        line = Cat(line.empty() ? "" : Cat("(", line, ") * (", Print(r_.space.dims[d].extent), ") + "), name_of[d]);
        if (d != reduced.back()) continue;
        for (Buffer b : r_.Temporaries()) {
          if (std::count(stage.outputs.begin(), stage.outputs.end(), b) > 0)
            s_.Step("transform_layout ", b->name, "[", dims, "] -> [", others, line, "]");
        }
      }
    }
  }

  // Threads that share a row of so many accesses, `narrow` of which are 16 bytes: each has about as many bytes of its
  // own, and as few threads as can be have one access less than others. 0: the row is longer than a warp's part.
  static int64_t ThreadsOfShortRow(int64_t accesses, int64_t narrow) {
    const int64_t own = std::clamp<int64_t>(narrow, 1, 4);
    int64_t best = 0, least = 0;
    for (int64_t threads = 1; threads <= kWarp; threads *= 2) {
      if (4 * accesses > 5 * own * threads) continue;
      const int64_t slots = (accesses + threads - 1) / threads * threads;
      if (best > 0 && (slots >= least || 2 * accesses <= own * threads)) continue;
      best = threads;
      least = slots;
    }
    return best;
  }

  // How a row that is contiguous along its last reduced dimension is shared.
  struct Row {
    int64_t longest = 0;              // elements; 0: not known
    int64_t v = 1;                    // of an access
    int64_t threads = 1, blocks = 1;  // that share it
    bool in_registers = false;
  };
  // With accesses of so many elements and so many threads, where these are said.
  Row PlanRow(int vector, std::optional<int64_t> width = std::nullopt,
              std::optional<int64_t> threads = std::nullopt) const {
    const bool constant = RowLength() > 0;
    Row row{LongestRow()};
    row.v = width.value_or(r_.Dims(true).back() == vector && CanShare() ? VectorFor({vector}) : 1);
    const int64_t v = row.v, access = AccessElements(r_, vector);
    const auto inputs = std::max<int64_t>(static_cast<int64_t>(r_.FindInputs().size()), 1);
    const int64_t loads = std::max<int64_t>(kRowLoads / inputs, 2);
    const auto share = [&](int64_t length) {
      const int64_t accesses = (length + v - 1) / v;
      row.threads = std::clamp<int64_t>(PowerOfTwoBelow(std::max<int64_t>(accesses * v / (loads * access), 1)), kWarp,
                                        accesses > 4096 ? kMostThreads : 512);
      if (const int64_t few = ThreadsOfShortRow(accesses, access / v); few > 0) row.threads = few;
      row.threads = CanShare() ? threads.value_or(std::min(row.threads, most_threads_)) : 1;
    };
    const auto fits = [&] {
      const int64_t threads = row.threads * row.blocks;
      return ((row.longest + v - 1) / v + threads - 1) / threads * v <= kMaxRegisterElements;
    };
    share(row.longest);
    row.in_registers = fits();
    // Where a core has registers for one block with its row alone, that either loads, computes or stores; blocks of a
    // cluster, that have a part of a row each, do so side by side.
    if (CanShare() && 2 * (row.longest * inputs + row.threads * kOwnRegisters) > target_.registers) {
      Row shared = row;
      while (shared.blocks < target_.cluster &&
             shared.blocks * kClusterThreads * kMaxRegisterElements < row.longest * inputs)
        shared.blocks *= 2;
      shared.threads = kClusterThreads;
      std::swap(row, shared);
      row.in_registers = row.blocks > 1 && fits();
      if (!row.in_registers) std::swap(row, shared);
    }
    if (constant || row.in_registers) return row;
    // One whose length is not known may be longer than the likely one.
    row.longest = 0;
    share(std::max(LikelyRowLength(), kLikelyRow));
    return row;
  }

  // Rows of a block.
  int64_t RowsTogether(int64_t threads) const {
    return std::max<int64_t>(1, std::min<int64_t>(kThreads, most_threads_) / threads);
  }

  Status AlongRow(int vector) {
    const std::vector<int> parallel = r_.Dims(false), reduced = r_.Dims(true);
    Row row = PlanRow(vector);
    std::optional<int64_t> chosen;
    if (CanShare() && row.blocks == 1) {
      chosen = ChooseThreads({kWarp, 2 * kWarp, 4 * kWarp, 8 * kWarp, 16 * kWarp, kMostThreads}, row.threads);
      row = PlanRow(vector, std::nullopt, chosen);
    }
    // What lies in registers is read twice for nothing, and single values are joined by far fewer instructions than
    // pairs.
    if (row.in_registers) RETURN_IF_ERROR(r_.SeparatePairs(false));
    const bool tuple = std::any_of(r_.group.stages.begin(), r_.group.stages.end(), IsTuple);
    if (tuple && row.v > 1 && !row.in_registers) row = PlanRow(vector, 1, chosen);
    const auto& [longest, v, threads, blocks, in_registers] = row;
    const int64_t rows = RowsTogether(threads);
    // A row of a symbolic length has as many parts as the longest, each under a condition; there is one such row.
    const bool may_be_shorter = in_registers && RowLength() == 0;
    const int64_t parts = ((longest + v - 1) / v + threads * blocks - 1) / (threads * blocks);
    RETURN_IF_ERROR(r_.KeepResults(in_registers));
    // What several stages read, or a stage one lane at a time, comes from memory once and 16 bytes wide.
    if (in_registers)
      RETURN_IF_ERROR(r_.StageInputs(tuple && v > 1 ? r_.FindInputs() : SharedOf(r_.FindInputs())).status());
    PlaceTemporaries(in_registers);
    if (in_registers) LayOutKept();
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
    Merge(row_loops);
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

  // Neighbouring columns that a block takes, about `wanted`; of few, strips of one size.
  int64_t ColumnsOfStrip(const std::vector<int>& along, int64_t wanted) const {
    int64_t n = 1;
    for (int d : along) n *= r_.ConstExtent(d);
    if (n == 0 || n >= 4 * wanted) return std::min(wanted, most_threads_);
    const int64_t strips = std::max<int64_t>(n / wanted, 1);
    return std::min((n + strips - 1) / strips, most_threads_);
  }

  // How a block takes columns.
  struct Strip {
    int64_t columns = 1, sharers = 1;  // threads: of neighbours, of each column
    int64_t most_sharers = 1;
    int64_t blocks = 1;  // that share a column
    bool in_registers = false;
  };
  Strip PlanStrip(const std::vector<int>& along) const {
    const int64_t length = RowLength(), longest = LongestRow();
    // Threads of a block: each has several elements of a column, which is shared by so many.
    const int64_t likely = longest < kLongestRow ? longest : length == 0 ? 64 : length;
    const int64_t useful = CanShare() ? PowerOfTwoBelow(std::max<int64_t>(likely / 8, 1)) : 1;
    Strip strip{ColumnsOfStrip(along, std::max(kWarp, kThreads / useful))};
    strip.most_sharers =
        PowerOfTwoBelow(std::min(std::max<int64_t>(kStripThreads / strip.columns, 8), most_threads_ / strip.columns));
    strip.sharers = std::min(useful, strip.most_sharers);
    strip.in_registers = longest <= strip.sharers * kMaxRegisterElements;
    // Columns that are read again and too long for a block's registers are a cluster's, with few threads to a column:
    // two blocks fit on a core, so that one loads while another stores.
    const auto kept = std::max<int64_t>(static_cast<int64_t>(r_.FindInputs().size()), 1);
    const bool again =
        !SharedOf(r_.FindInputs()).empty() || std::any_of(r_.group.stages.begin(), r_.group.stages.end(), ChoosesPairs);
    int64_t reductions = 0;
    for (const Stage& s : r_.group.stages) reductions += s.IsReduction() ? static_cast<int64_t>(s.outputs.size()) : 0;
    for (const int64_t threads : {strip.most_sharers / 2, strip.most_sharers}) {  // of a column in a block
      if (strip.in_registers || !again || !CanShare()) break;
      const int64_t elements = std::min(
          target_.registers / std::max<int64_t>(2 * strip.columns * threads, 1) - kOwnRegisters, kMaxRegisterElements);
      if (threads < 1 || elements < 1) continue;
      int64_t wanted = 1;
      while (wanted * threads * elements < longest * kept) wanted *= 2;
      // Where they exchange what they found they have memory for all of them, each of the two blocks.
      const int64_t exchanged = reductions * wanted * threads * strip.columns * BytesOf(DType::kF64);
      if (wanted > target_.cluster || 2 * exchanged > target_.shared_bytes) continue;
      strip.in_registers = true;
      strip.blocks = wanted;
      strip.sharers = threads;
    }
    return strip;
  }

  Status AcrossRows(int vector) {
    RETURN_IF_ERROR(r_.JoinReductions());
    const std::vector<int> reduced = r_.Dims(true), along = r_.LineAround(vector);
    std::vector<int> outer;
    for (int d : r_.Dims(false)) {
      if (std::count(along.begin(), along.end(), d) == 0) outer.push_back(d);
    }
    const int64_t length = RowLength(), longest = LongestRow();
    Strip strip = PlanStrip(along);
    auto& [columns, sharers, most_sharers, blocks, in_registers] = strip;
    if (in_registers) RETURN_IF_ERROR(r_.SeparatePairs(false));
    RETURN_IF_ERROR(r_.KeepResults(in_registers));
    if (blocks > 1) RETURN_IF_ERROR(r_.StageInputs(SharedOf(r_.FindInputs())).status());
    size_t staged = 0;
    if (!in_registers && CanShare()) {
      columns = ColumnsOfStrip(along, kWarp * std::max<int64_t>(1, AccessElements(r_, vector) / 4));
      sharers = std::min(most_sharers, PowerOfTwoBelow(most_threads_ / columns));
      // What is read again waits in shared memory, if a strip is wide enough for memory's sectors.
      const std::vector<RowNests::Input> inputs = SharedOf(r_.FindInputs());
      const int64_t narrowest = 2 * AccessElements(r_, vector);
      const int64_t bytes = longest * static_cast<int64_t>(inputs.size()) * kAccessBytes / AccessElements(r_, vector);
      if (bytes > 0 && bytes * narrowest <= target_.shared_bytes - kReserved) {
        while (bytes * columns > target_.shared_bytes - kReserved) columns /= 2;
        sharers = PowerOfTwoBelow(most_threads_ / columns);
        ASSIGN_OR_RETURN(staged, r_.StageInputs(inputs));
      }
    }
    PlaceTemporaries(in_registers, staged);
    if (in_registers) LayOutKept();
    r_.ReorderAll({outer, along, reduced});
    // As along rows: of a symbolic length there are as many parts as of the longest.
    const bool may_be_shorter = length == 0 && (in_registers || staged > 0);
    int64_t v = VectorFor(along);
    while (columns % v != 0) v /= 2;
    struct Line {
      std::string rows, columns;
      bool staged;
    };
    std::vector<std::string> clusters, strips, columns_of, rows;
    std::vector<Line> lines;
    for (size_t i = 0; i < r_.nests.size(); ++i) {
      RowNest& nest = r_.nests[i];
      if (s_.LoopsAround(nest.block).empty()) continue;
      const std::string chunk = s_.Fresh("c"), lane = s_.Fresh("x"), block = s_.Fresh("b");
      s_.Step("split ", r_.FuseDims(nest, along, "v"), " ", columns, " -> ", chunk, " ", lane);
      const std::string row = r_.FuseDims(nest, outer, "p"), line = r_.FuseDims(nest, reduced, "r");
      s_.Step("fuse ", row, row.empty() ? "" : " ", chunk, " -> ", block);
      strips.push_back(block);
      columns_of.push_back(lane);
      if (line.empty() || sharers == 1) {
        if (line.empty() || !in_registers) continue;
        const std::string k = may_be_shorter ? s_.Fresh("k") : line;
        if (may_be_shorter) s_.Step("split ", line, " ", longest, " -> ", s_.Fresh("one"), " ", k);
        s_.Step("unroll ", k);
        continue;
      }
      lines.push_back({line, lane, i < staged});
    }
    Merge(strips);
    // Loads that wait for memory at once: of long columns as many as the compiler itself would make of a constant
    // number.
    int64_t inputs = 0;
    for (const Param& p : r_.group.params) inputs += p.role == ParamRole::kInput && p.buffer != nullptr;
    const int64_t most = std::max<int64_t>(kUnroll, PowerOfTwoBelow(kMostLoads / std::max<int64_t>(inputs, 1)));
    const bool asks = length == 0 && !IsInt(r_.space.dims[vector].extent);  // of each column whether it is one
    int64_t unroll = !asks && (length == 0 || length >= 4 * most * sharers) ? most : kUnroll;
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
    if (const int64_t together = std::max<int64_t>(kThreads / columns, 1); sharers == 1 && together > 1) {
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
    const int64_t v = VectorFor({vector});
    int64_t length = 1;
    for (int d : columns) length *= r_.ConstExtent(d);
    RET_CHECK(length > 0, name);
    // Without sums of rows no thread waits for others: as many as there are accesses, fewer rows on their way.
    const bool waits = std::any_of(r_.group.stages.begin(), r_.group.stages.end(),
                                   [&](const Stage& s) { return s.IsReduction() && s.name != name; });
    int64_t threads = waits ? ThreadsOfSummedRow(length / v, most_threads_) : kWarp;
    while (!waits && threads < std::min(kMostThreads / 2, most_threads_) && threads * v < length) threads *= 2;
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
    Merge(blocks);
    for (const std::vector<std::string>& loops : row_loops) Merge(loops);
    s_.Step("bind ", blocks[0], " blockIdx.x");
    for (const std::string& t : thread_loops) s_.Step("bind ", t, " threadIdx.x");
    return absl::OkStatus();
  }

  RowNests r_;
  Schedule& s_;  // r_'s
  const Target& target_;
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
