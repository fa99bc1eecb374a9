#include "hlir/tactics/rows_gpu_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cinn_like/base/costs.h"
#include "cinn_like/base/powers_of_two.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "ir/analyzer.h"
#include "ir/join.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages are all there is here

namespace {

constexpr int64_t kRowLoads = 4;          // of 16 bytes, of all inputs, a thread's of a row in registers
constexpr int64_t kOwnRegisters = 24;     // a thread's, beside its elements of a row
constexpr int64_t kNarrowRegisters = 36;  // the same where these have 16 bits
constexpr int64_t kMostNarrow = 112;      // of a thread's elements of a row
constexpr int64_t kWarpRowElements = 32;  // of all inputs, a thread's of a row whose length is not known
constexpr int64_t kClusterThreads = 256;  // of each of the blocks that share a row
constexpr int64_t kStripThreads = 512;    // of a block that shares a strip of columns
constexpr int64_t kLongestRow = 1 << 20;  // more than registers hold
constexpr int64_t kNarrow = 4;            // accesses that many times as narrow as can be are made wide
constexpr int64_t kFewAccesses = 4;       // of a thread
constexpr int64_t kNarrowBytes = 4;       // accesses of less are worth being shifted where no row is reduced
constexpr int64_t kShiftedLine = 100;     // and there are so many in a line
constexpr int64_t kLikelyEnd = 8;         // of rows whose end a value in memory says
constexpr int kSectorBytes = 32;          // that memory moves at once
constexpr int64_t kCrossed = 16;          // rows and columns of fewer elements lie across for little
constexpr int64_t kLikelyRow = 2048;      // a row whose length is not known is expected to be at least that long

// Threads that share a row of so many accesses, `narrow` of which are 16 bytes: each has about as many bytes of its
// own, and as few threads as can be have one access less than others. 0: the row is longer than a warp's part.
int64_t ThreadsOfShortRow(int64_t accesses, int64_t narrow) {
  const int64_t own = std::clamp<int64_t>(narrow, 1, 4);
  int64_t best = 0, least = 0;
  for (int64_t threads = 1; threads <= RowsGpuPlan::kWarp; threads *= 2) {
    if (4 * accesses > 5 * own * threads) continue;
    const int64_t slots = (accesses + threads - 1) / threads * threads;
    if (best > 0 && (slots >= least || 2 * accesses <= own * threads)) continue;
    best = threads;
    least = slots;
  }
  return best;
}

// A start of lines that differs from one to another, as their places alone say; null: it is another one.
Expr Differs(Expr start) { return start == nullptr || start->reads || IsInt(start) ? nullptr : start; }

}  // namespace

std::vector<RowNests::Input> SharedOf(std::vector<RowNests::Input> inputs) {
  std::erase_if(inputs, [](const RowNests::Input& input) { return input.read.size() < 2; });
  return inputs;
}

RowsGpuPlan::RowsGpuPlan(const RowNests& r, const Target& target)
    : r_(r), target_(target), most_threads_(PowerOfTwoBelow(std::min(kMostThreads, target.device->limits.threads))) {}

double RowsGpuPlan::Seconds(int vector) const {
  const GpuCosts& gpu = GpuCostsOf(target_);
  const double memory = BytesMoved(r_.group) / BytesPerSecond(target_),
               products = SecondsOfRowProducts(r_.group, target_);
  if (r_.sums || vector < 0) return gpu.kernel_seconds + memory + products;
  const bool along = r_.space.dims[vector].reduced;
  // Along rows of products elements are multiplied while others are on their way.
  double seconds = along ? std::max(memory, products) : memory + products;
  const auto narrow = [&](const std::vector<int>& line) {
    return std::log2(static_cast<double>(AccessElements(line.back())) / static_cast<double>(VectorFor(line)));
  };
  if (!r_.space.HasReduction()) {
    const auto t = r_.FindTransposition();
    seconds *= 1 + (t ? gpu.narrow_tile * (narrow(r_.LineAround(t->in)) + narrow(r_.LineAround(t->out)))
                      : gpu.narrow_access * (ShiftOfLine(vector) ? 0 : narrow(r_.LineAround(vector))));
    const std::vector<int> direct = t ? std::vector<int>{t->in, t->out} : r_.LineAround(vector);
    std::vector<int> across = r_.Dims(false);
    std::erase_if(across, [&](int d) { return std::count(direct.begin(), direct.end(), d) > 0; });
    seconds += BytesBeside(across) / BytesPerSecond(target_);
    return gpu.kernel_seconds +
           std::max(seconds, SecondsOfPlaces(r_.Dims(false), t ? 1 : VectorFor(r_.LineAround(vector))));
  }
  const int64_t passes = Passes();
  const double rows = r_.LikelySize(r_.Dims(false));  // or columns
  bool in_registers = false;
  int64_t together = 1;  // elements of an access
  double waits = 0, parts = 0;
  double drawn = 1;  // of memory's bandwidth
  if (along) {
    const Row row = PlanRow(vector);
    in_registers = row.in_registers;
    if (!in_registers) drawn = std::min(1.0, std::max(rows, 1.0) * gpu.core_bytes_per_second / BytesPerSecond(target_));
    seconds /= drawn;
    together = row.v;
    if (row.blocks > 1)
      seconds *= 1 + gpu.narrow_cluster * std::log2(static_cast<double>(AccessElements(vector) / row.v));
    const bool pairs = std::any_of(r_.group.stages.begin(), r_.group.stages.end(), ChoosesPairs);
    const auto threads = static_cast<double>(row.threads * row.blocks);
    // All parts that a row can have are asked for, of all of a block's rows.
    const double length = static_cast<double>(row.longest > 0 ? row.longest : LikelyRowLength());
    parts = rows * std::ceil(length / (static_cast<double>(row.v) * threads)) * threads / kWarp;
    const auto rows_together = static_cast<double>(RowsTogether(row.threads));
    const double at_once =
        std::min(static_cast<double>(gpu.threads) / threads, rows_together * static_cast<double>(gpu.blocks)) *
        Cores(target_);
    waits = std::ceil(rows / at_once) * static_cast<double>(passes) * gpu.pass_seconds *
            (pairs && !in_registers ? gpu.pair_passes : 1);
    // What a row that is not written waits for its own threads is beside no memory's work but that of other rows.
    if (in_registers && passes > 1 && !WritesRows()) {
      const double there = static_cast<double>(target_.registers) / row.registers;  // rows of a core
      seconds += rows / (there * Cores(target_)) * static_cast<double>(passes) * gpu.pass_seconds / there;
    }
  } else {
    const Strip strip = PlanStrip(vector);
    in_registers = strip.in_registers;
    together = strip.lanes;
    const int64_t likely = EndsInMemory() ? std::min(kLikelyEnd, LikelyRowLength()) : LikelyRowLength();
    const auto length = static_cast<double>(in_registers ? LongestRow() : likely);
    parts = rows * length / static_cast<double>(kWarp * strip.lanes);
    const double line = r_.LikelySize(r_.LineAround(vector));
    const auto columns = static_cast<double>(strip.columns), sharers = static_cast<double>(strip.sharers);
    const double blocks = rows / line * std::ceil(line / columns);
    double of_core =
        std::min(static_cast<double>(gpu.threads * strip.lanes) / (columns * sharers), static_cast<double>(gpu.blocks));
    if (strip.crosses) {
      const auto bytes = columns * length * static_cast<double>(BytesAcross());
      of_core = std::min(of_core, std::floor(static_cast<double>(target_.shared_bytes) / bytes));
    }
    const double at_once = of_core * Cores(target_) / static_cast<double>(strip.blocks);
    // What registers don't hold is asked for by so many loads at once, which wait for those before them.
    const double asked = sharers * static_cast<double>(LoadsOfStrip(vector, strip.columns, strip.sharers));
    const double turns = in_registers ? 1 : std::ceil(length / asked);
    waits = std::ceil(blocks / at_once) * turns * static_cast<double>(passes) * gpu.pass_seconds;
  }
  if (!in_registers) seconds += BytesAgain(passes) / (gpu.again_per_byte * BytesPerSecond(target_) * drawn);
  if (along || !PlanStrip(vector).crosses) seconds += BytesBeside(r_.Dims(!along)) / BytesPerSecond(target_);
  const double places = SecondsOfPlaces(r_.Dims(true), together) * static_cast<double>(in_registers ? 1 : passes);
  return gpu.kernel_seconds + std::max({seconds, waits, places}) +
         parts * static_cast<double>(passes + 1) * gpu.part_seconds / Cores(target_);
}

double RowsGpuPlan::BytesBeside(const std::vector<int>& dims) const {
  double bytes = 0;
  const auto beside = [](DType t) { return static_cast<double>(kSectorBytes - BytesOf(t)); };
  for (int d : dims) {
    if (r_.LikelySize(r_.LineAround(d)) < kCrossed) continue;
    for (Buffer b : r_.FindResultsAlong(d)) bytes += beside(b->dtype);
    for (const RowNests::Input& input : r_.FindInputsAlong(d)) bytes += beside(input.load->type.dtype);
  }
  for (size_t d = 0; d < r_.space.dims.size(); ++d) bytes *= static_cast<double>(r_.LikelyExtent(static_cast<int>(d)));
  return bytes;
}

double RowsGpuPlan::SecondsOfPlaces(const std::vector<int>& dims, int64_t at_once) const {
  double elements = 1, most = 1;
  int64_t divisions = 0;
  for (size_t d = 0; d < r_.space.dims.size(); ++d)
    elements *= static_cast<double>(r_.LikelyExtent(static_cast<int>(d)));
  for (size_t k = 0; k < dims.size(); ++k) {
    most *= static_cast<double>(r_.LargestExtent(dims[k]));
    if (k + 1 == dims.size() || r_.ConstExtent(dims[k + 1]) > 0) continue;
    divisions += dims[k + 1] != dims[k] + 1 || !r_.CanCoalesce(dims[k]);
  }
  absl::flat_hash_set<std::pair<Expr, Expr>> quotients;  // a remainder is what its quotient leaves
  for (const Stage& s : r_.group.stages) {
    for (Expr v : s.values) {
      Visit(v, [&](Expr e) {
        if ((e->op == ExprOp::kDiv || e->op == ExprOp::kMod) && e->type == kIndexType && !IsInt(e->args[1]))
          quotients.emplace(e->args[0], e->args[1]);
        return true;
      });
    }
  }
  divisions += static_cast<int64_t>(quotients.size());
  const GpuCosts& gpu = GpuCostsOf(target_);
  constexpr double kMostNarrow = 2147483647;
  const double each = most > kMostNarrow ? gpu.wide_division_seconds : gpu.division_seconds;
  return elements / static_cast<double>(at_once) * static_cast<double>(divisions) * each / Cores(target_);
}

bool RowsGpuPlan::WritesRows() const {
  for (size_t k = 0; k < r_.group.stages.size(); ++k) {
    const Stage& s = r_.group.stages[k];
    if (!s.IsReduction() && IsRowSized(k) && IsParam(r_.group, s.outputs[0])) return true;
  }
  return false;
}

int64_t RowsGpuPlan::Passes() const {
  int64_t passes = WritesRows();
  for (const Stage& s : r_.group.stages) passes += s.IsReduction();
  return std::max<int64_t>(passes, 1);
}

double RowsGpuPlan::BytesAgain(int64_t passes) const {
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

bool RowsGpuPlan::IsRowSized(size_t k) const {
  for (size_t i = 0; i < r_.group.stages[k].iters.size(); ++i) {
    const int d = r_.space.dim_of[k][i];
    if (d >= 0 && r_.space.dims[d].reduced) return true;
  }
  return false;
}

int64_t RowsGpuPlan::VectorFor(const std::vector<int>& dims) const {
  return VectorFor(dims, AccessElements(dims.back()));
}

int64_t RowsGpuPlan::VectorFor(const std::vector<int>& dims, int64_t access) const {
  // Where all elements are one line, each access but the last is a whole one, whatever their number.
  if (dims.size() == r_.space.dims.size()) return access;
  Context& c = *r_.group.context;
  Analyzer a(c);
  for (const SymbolFact& f : r_.group.symbols) a.BindSymbol(f);
  Expr length = c.Int(1);
  for (int d : dims) length = c.Mul(length, r_.space.dims[d].extent);
  const int64_t divisor = a.KnownDivisor(length);
  return std::gcd(access, divisor);
}

bool RowsGpuPlan::CanShare() const {
  constexpr int64_t kShort = 64;
  const int64_t length = RowLength();
  return (length == 0 || length > kShort || !r_.ReadsWindows()) &&
         std::all_of(r_.group.stages.begin(), r_.group.stages.end(), [&](const Stage& s) {
           return !s.IsReduction() ||
                  FindJoin(*r_.group.context, s.values, RunningOf(*r_.group.context, s)).has_value();
         });
}

bool RowsGpuPlan::EndsInMemory() const {
  return std::any_of(r_.group.stages.begin(), r_.group.stages.end(),
                     [&](const Stage& s) { return hlir::EndsInMemory(*r_.group.context, s); });
}

int64_t RowsGpuPlan::RowLength() const {
  int64_t n = 1;
  for (int d : r_.Dims(true)) n *= r_.ConstExtent(d);
  return n;
}

int64_t RowsGpuPlan::LongestRow() const { return Longest(r_.Dims(true)); }

int64_t RowsGpuPlan::Longest(const std::vector<int>& line) const {
  int64_t n = 1;
  for (int d : line) n = std::min(n * r_.LargestExtent(d), kLongestRow);
  return n;
}

int64_t RowsGpuPlan::LikelyRowLength() const {
  return static_cast<int64_t>(std::min(r_.LikelySize(r_.Dims(true)), 1e9));
}

RowsGpuPlan::Row RowsGpuPlan::PlanRow(int vector, std::optional<int64_t> width, std::optional<int64_t> threads) const {
  const bool constant = RowLength() > 0;
  Row row{LongestRow()};
  const int64_t access = AccessElements(vector);
  const int64_t own = r_.Dims(true).back() == vector && CanShare() ? VectorFor({vector}) : 1;
  // Of a symbolic length each access asks anyway whether it is there.
  row.shifted = constant && !width && own * kNarrow <= access && CanShare() && ShiftOfRow(vector, access) != nullptr;
  row.v = row.shifted ? access : width.value_or(own);
  const int64_t v = row.v;
  if (row.shifted) row.longest += v - 1;
  const std::vector<RowNests::Input> read = r_.FindInputs();
  const auto inputs = std::max<int64_t>(static_cast<int64_t>(read.size()), 1);
  const int64_t loads = std::max<int64_t>(kRowLoads / inputs, 2);
  // Registers of an element, and a thread's own: two of 16 bits share one, and more are used to take them apart.
  double each = 0;
  for (const RowNests::Input& input : read) each += BytesOf(input.load->type.dtype) / 4.0;
  const bool narrow = !read.empty() && std::all_of(read.begin(), read.end(), [](const RowNests::Input& input) {
    return BytesOf(input.load->type.dtype) <= 2;
  });
  if (!narrow) each = static_cast<double>(inputs);
  const int64_t beside = narrow ? kNarrowRegisters : kOwnRegisters;
  const auto share = [&](int64_t length) {
    const int64_t accesses = (length + v - 1) / v;
    row.threads = std::clamp<int64_t>(PowerOfTwoBelow(std::max<int64_t>(accesses * v / (loads * access), 1)), kWarp,
                                      accesses > 4096 ? kMostThreads : 512);
    if (const int64_t few = ThreadsOfShortRow(accesses, access / v); few > 0) row.threads = few;
    row.threads = CanShare() ? threads.value_or(std::min(row.threads, most_threads_)) : 1;
  };
  const auto accesses_of = [&](const Row& x) {
    const int64_t all = x.threads * x.blocks;
    return ((x.longest + v - 1) / v + all - 1) / all;
  };
  const auto fits = [&](const Row& x) {  // of a symbolic length each access is under a condition of its own
    const bool is_packed = constant && each < 1 && 2 * x.threads <= kMostThreads;
    return accesses_of(x) * v <= (is_packed ? kMostNarrow : kMaxRegisterElements);
  };
  share(row.longest);
  // Of one that may be much shorter a warp has all: others would wait for each other.
  if (!constant && CanShare() && !threads && (row.longest + v - 1) / v * v * inputs <= kWarp * kWarpRowElements)
    row.threads = std::min(row.threads, kWarp);
  row.in_registers = fits(row);
  // Where a core has registers for one block with its row alone, that either loads, computes or stores; blocks of a
  // cluster, that have a part of a row each, do so side by side.
  const double registers = static_cast<double>(row.longest) * each;
  row.registers = registers + static_cast<double>(row.threads * beside);
  if (CanShare() && target_.cluster > 1 && 2 * row.registers > static_cast<double>(target_.registers)) {
    Row shared = row;
    shared.threads = kClusterThreads;
    shared.blocks = 2;
    const auto holds = [&] {
      return static_cast<double>(shared.blocks * kClusterThreads * kMaxRegisterElements) >= registers && fits(shared);
    };
    while (shared.blocks < target_.cluster && !holds()) shared.blocks *= 2;
    shared.in_registers = fits(shared);
    shared.registers = registers + static_cast<double>(shared.blocks * shared.threads * beside);
    if (shared.in_registers) row = shared;
  }
  // Each access but a row's first and last ones is a whole one: worth it where a row is long, and a thread has several.
  const bool few = accesses_of(row) <= kFewAccesses || RowsTogether(row.threads) > 1;
  if (row.shifted && (!row.in_registers || few)) return PlanRow(vector, own, threads);
  if (constant || row.in_registers) return row;
  // One whose length is not known may be longer than the likely one.
  row.longest = 0;
  share(std::max(LikelyRowLength(), kLikelyRow));
  return row;
}

Expr RowsGpuPlan::ShiftOfRow(int vector, int64_t v) const {
  if (r_.Dims(true) != std::vector<int>{vector}) return nullptr;
  const std::vector<RowNests::Input> inputs = r_.FindInputsAlong(vector);
  const auto bytes = [&](const RowNests::Input& x) { return TypicalBytes(x.load->buffer, r_.group.symbols); };
  const auto largest =
      std::max_element(inputs.begin(), inputs.end(), [&](const auto& x, const auto& y) { return bytes(x) < bytes(y); });
  if (largest == inputs.end()) return nullptr;
  const Expr offset = ElementOffset(*r_.group.context, largest->load->buffer, IndicesOf(largest->load));
  return Differs(r_.StartOfLine(offset, vector, v));
}

Expr RowsGpuPlan::ShiftOfLine(int vector) const {
  const std::vector<int> along = r_.LineAround(vector);
  const int64_t access = AccessElements(vector), length = r_.ConstExtent(vector);
  // A line's first and last access ask for each element of theirs.
  const bool narrow = VectorFor(along) * r_.WidestAlong(vector) < kNarrowBytes;
  if (!narrow || along.size() > 1 || length < kShiftedLine * access) return nullptr;
  return Differs(r_.StartOfLines(vector, access));
}

int64_t RowsGpuPlan::RowsTogether(int64_t threads) const {
  return std::max<int64_t>(1, std::min<int64_t>(kThreads, most_threads_) / threads);
}

int64_t RowsGpuPlan::ColumnsOfStrip(const std::vector<int>& along, int64_t wanted) const {
  const int64_t n = Longest(along);
  if (n >= 4 * wanted) return std::min(wanted, most_threads_);
  const int64_t strips = std::max<int64_t>(n / wanted, 1);
  return std::min((n + strips - 1) / strips, most_threads_);
}

int64_t RowsGpuPlan::LoadsOfStrip(int vector, int64_t columns, int64_t sharers) const {
  // Of long columns as many as the compiler itself would make of a constant number.
  int64_t read = 0;
  for (const Param& p : r_.group.params) read += p.role == ParamRole::kInput && p.buffer != nullptr;
  const int64_t most = std::max<int64_t>(kUnroll, PowerOfTwoBelow(kMostLoads / std::max<int64_t>(read, 1)));
  const int64_t length = RowLength();
  // Of each column whether it is one; in the only strip once for all of a thread's loads.
  const bool asks = length == 0 && !IsInt(r_.space.dims[vector].extent) && Longest(r_.LineAround(vector)) > columns;
  return !asks && (length == 0 || length >= 4 * most * sharers) ? most : kUnroll;
}

std::optional<RowsGpuPlan::Strip> RowsGpuPlan::PlanOwn(const std::vector<int>& along, double all_columns) const {
  if (!EndsInMemory()) return std::nullopt;
  double most = 0;
  int64_t bytes = 1;
  for (const Param& p : r_.group.params) {
    if (p.buffer == nullptr || TypicalBytes(p.buffer, r_.group.symbols) <= most) continue;
    most = TypicalBytes(p.buffer, r_.group.symbols);
    bytes = BytesOf(p.buffer->dtype);
  }
  Strip own;
  own.lanes = VectorFor(along, kAccessBytes / bytes);
  own.columns = (ColumnsOfStrip(along, kThreads * own.lanes) + own.lanes - 1) / own.lanes * own.lanes;
  const double threads = static_cast<double>(GpuCostsOf(target_).threads) * Cores(target_);
  return 4 * all_columns < static_cast<double>(own.lanes) * threads ? std::nullopt : std::optional(own);
}

int RowsGpuPlan::VectorDim() const {
  if (r_.space.dims.empty()) return -1;
  const int most = r_.VectorDim();
  if (r_.sums || !r_.space.dims[most].reduced || r_.Dims(false).empty()) return most;
  const int column = r_.VectorDim(/*of_rows=*/false);
  return PlanCrossed(column) ? column : most;
}

int64_t RowsGpuPlan::BytesAcross() const {
  const int across = r_.Dims(true).back();
  int64_t bytes = 0;
  for (Buffer b : r_.FindResultsAlong(across)) bytes += BytesOf(b->dtype);
  for (const RowNests::Input& input : r_.FindInputsAlong(across)) bytes += BytesOf(input.load->type.dtype);
  return bytes;
}

std::optional<RowsGpuPlan::Strip> RowsGpuPlan::PlanCrossed(int vector) const {
  const std::vector<int> along = r_.LineAround(vector);
  const int64_t bytes = BytesAcross();
  const bool both = bytes > 0 && !(r_.FindResultsAlong(vector).empty() && r_.FindInputsAlong(vector).empty());
  const int64_t longest = LongestRow(), likely = LikelyRowLength();
  if (!both || !CanShare() || likely < kCrossed || r_.LikelySize(along) < kCrossed) return std::nullopt;
  // As many neighbours as leave room for a second block of a core, if those are two sectors of memory; else what fits.
  for (const int64_t blocks : {2, 1}) {
    const int64_t fewest = blocks * kSectorBytes / r_.WidestAlong(vector);
    for (int64_t columns = kWarp; columns >= fewest; columns /= 2) {
      Strip s{.columns = ColumnsOfStrip(along, columns), .in_registers = true, .crosses = true};
      const int64_t useful = PowerOfTwoBelow(std::max<int64_t>(longest / 8, 1));
      const auto threads = [&](int64_t n) { return PowerOfTwoBelow(std::max<int64_t>(n / s.columns, 1)); };
      s.sharers = std::min(useful, threads(kStripThreads));
      if (longest > s.sharers * kMaxRegisterElements && blocks == 1) s.sharers = threads(most_threads_);
      if (blocks * longest * s.columns * bytes <= target_.shared_bytes - kReserved &&
          longest <= s.sharers * kMaxRegisterElements)
        return s;
    }
  }
  return std::nullopt;
}

RowsGpuPlan::Strip RowsGpuPlan::PlanStrip(int vector) const {
  if (const std::optional<Strip> crossed = PlanCrossed(vector)) return *crossed;
  const std::vector<int> along = r_.LineAround(vector);
  const int64_t length = RowLength(), longest = LongestRow();
  // Threads of a block: each has several elements of a column, which is shared by so many.
  // One of a length that is not known is shared for the sake of few columns; of as many as fill the device the hint
  // tells.
  const double all_columns = r_.LikelySize(r_.Dims(false));
  const bool unknown = length == 0 && longest >= kLongestRow;
  const bool fills = all_columns >= static_cast<double>(GpuCostsOf(target_).threads) * Cores(target_);
  const bool again =
      !SharedOf(r_.FindInputs()).empty() || std::any_of(r_.group.stages.begin(), r_.group.stages.end(), ChoosesPairs);
  if (const std::optional<Strip> own = PlanOwn(along, all_columns); own && !again) return *own;
  const int64_t likely = !unknown ? longest : fills ? LikelyRowLength() : 64;
  const int64_t useful = CanShare() ? PowerOfTwoBelow(std::max<int64_t>(likely / 8, 1)) : 1;
  Strip strip{ColumnsOfStrip(along, std::max(kWarp, kThreads / useful))};
  int64_t most_sharers =
      PowerOfTwoBelow(std::min(std::max<int64_t>(kStripThreads / strip.columns, 8), most_threads_ / strip.columns));
  if (unknown && fills) most_sharers = std::min(most_sharers, useful);
  strip.sharers = std::min(useful, most_sharers);
  strip.in_registers = longest <= strip.sharers * kMaxRegisterElements;
  // Columns that are read again and too long for a block's registers are a cluster's, with few threads to a column:
  // two blocks fit on a core, so that one loads while another stores.
  const auto kept = std::max<int64_t>(static_cast<int64_t>(r_.FindInputs().size()), 1);
  int64_t reductions = 0;
  for (const Stage& s : r_.group.stages) reductions += s.IsReduction() ? static_cast<int64_t>(s.outputs.size()) : 0;
  for (const int64_t threads : {most_sharers / 2, most_sharers}) {  // of a column in a block
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
  if (strip.in_registers || !CanShare()) return strip;
  const int64_t per_access = AccessElements(vector), element = kAccessBytes / per_access;
  strip.columns = ColumnsOfStrip(along, kWarp * std::max<int64_t>(1, per_access / 4));
  // Where those are fewer strips than cores, and don't ask for enough at once, they are half as wide where that
  // still is whole sectors of memory: 64 bytes.
  const int64_t half = strip.columns / 2;
  const double strips = all_columns / static_cast<double>(strip.columns);
  const auto asked = static_cast<double>(most_threads_ * LoadsOfStrip(vector, strip.columns, most_sharers) * element);
  if (strips < Cores(target_) && half * element % 64 == 0 &&
      strips * asked < GpuCostsOf(target_).bytes_in_flight * Cores(target_)) {
    strip.columns = ColumnsOfStrip(along, half);
    most_sharers = PowerOfTwoBelow(most_threads_ / strip.columns);
  }
  strip.sharers = std::min(most_sharers, PowerOfTwoBelow(most_threads_ / strip.columns));
  return strip;
}

}  // namespace cinn_like::hlir
