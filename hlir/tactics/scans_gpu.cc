// Scans on a GPU: a thread for each sum that runs, which asks for some elements at once and adds them one after the
// other; or, along rows, the threads of a block for each, which join what their elements come to.
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_join.h"
#include "cinn_like/base/costs.h"
#include "cinn_like/base/powers_of_two.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactics.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages are all there is here

namespace {

constexpr int64_t kMostThreads = 128;                   // of a block
constexpr int64_t kLeastAtOnce = 16, kMostAtOnce = 32;  // elements that a thread asks for
constexpr double kManyThreads = 32;                     // of a core, for which the least is enough
constexpr double kSector = 32;                          // bytes that memory is read by
constexpr int64_t kAccess = 16;                         // bytes of a thread's access
constexpr int64_t kLeastOfBlock = 128;                  // threads of several rows

// A row by threads, each of which has some elements of each of its turns.
struct RowThreads {
  int64_t threads = 1, lanes = 1;
  bool is_vector = false;  // its elements of a turn are one access
  int64_t rows = 1;        // of a block
  double seconds = 0;
};

// Stages that are one kernel: a scan with what reads it, or one alone. What it moves, and the widest element.
struct Kernel {
  std::vector<const Stage*> stages;
  double reads = 0, writes = 0;
  int64_t widest = 1;
};

Kernel KernelOf(std::vector<const Stage*> stages, const TeProgram& group) {
  Kernel r{std::move(stages)};
  const auto any = [&](const auto& uses) { return std::any_of(r.stages.begin(), r.stages.end(), uses); };
  for (const Stage* s : r.stages) {
    for (Buffer b : InputsOf(*s)) {
      if (any([&](const Stage* t) { return Contains(t->outputs, b); })) continue;
      r.reads += BytesRead(*s, b, group.symbols);
      r.widest = std::max<int64_t>(r.widest, BytesOf(b->dtype));
    }
    for (Buffer b : s->outputs) {
      if (any([&](const Stage* t) { return Contains(InputsOf(*t), b); })) continue;
      r.writes += TypicalBytes(b, group.symbols);
      r.widest = std::max<int64_t>(r.widest, BytesOf(b->dtype));
    }
  }
  return r;
}

Expr ExtentAlong(const Stage& s) {
  return std::find_if(s.iters.begin(), s.iters.end(), [&](const StageIter& i) { return i.var == s.along; })->extent;
}

double ThreadsOf(const Stage& s, const TeProgram& group) {
  double threads = 1;
  for (const StageIter& i : s.iters) threads *= i.var == s.along ? 1 : TypicalSize(i.extent, group.symbols);
  return std::max(threads, 1.0);
}

// Elements that a thread asks for at once: more where few threads do, which wait for memory alone.
int64_t AtOnce(const Stage& s, const TeProgram& group, const Target& target) {
  return ThreadsOf(s, group) < kManyThreads * Cores(target) ? kMostAtOnce : kLeastAtOnce;
}

// Of a kernel with a thread for each sum that runs.
double SecondsOf(const Kernel& kernel, const TeProgram& group, const Target& target) {
  const GpuCosts& gpu = GpuCostsOf(target);
  const Stage& s = *kernel.stages[0];
  const double reads = kernel.reads, bytes = kernel.writes;
  double seconds = (bytes + reads) / BytesPerSecond(target);
  if (s.IsScan()) {
    const double threads = ThreadsOf(s, group), elements = TypicalSize(s.iters, group.symbols),
                 steps = elements / threads;
    const bool is_apart = !ScansColumns(s) && threads > 1;  // threads side by side, not their elements
    const bool is_wide =
        std::any_of(s.running.begin(), s.running.end(), [](Buffer b) { return b->dtype == DType::kF64; });
    double turn = 0;
    if (reads > 0) turn = gpu.scan_turn_seconds + (is_apart ? gpu.scan_apart_seconds * std::min(1.0, threads / 32) : 0);
    const double waits = std::ceil(steps / static_cast<double>(AtOnce(s, group, target))) * turn +
                         steps * (is_wide ? gpu.scan_wide_step_seconds : gpu.scan_step_seconds);
    seconds = std::max(seconds, std::ceil(threads / (static_cast<double>(gpu.threads) * Cores(target))) * waits);
    if (is_apart && bytes / threads > kSector)
      seconds = std::max(seconds, elements * (reads > 0 ? 2 : 1) * gpu.scan_apart_access / Cores(target));
  }
  return gpu.kernel_seconds + seconds;
}

// What a scan along rows takes by so many threads a row, each with `lanes` elements a turn.
double SecondsOf(const Kernel& kernel, const RowThreads& by, const TeProgram& group, const Target& target) {
  const GpuCosts& gpu = GpuCostsOf(target);
  const Stage& s = *kernel.stages[0];
  double running = 0;
  for (Buffer b : s.running) running += BytesOf(b->dtype) / 8.0;
  const double rows = ThreadsOf(s, group), steps = TypicalSize(s.iters, group.symbols) / rows;
  const auto warp = static_cast<double>(target.device->limits.warp), threads = static_cast<double>(by.threads);
  const double turns = std::ceil(steps / (threads * static_cast<double>(by.lanes))), warps = std::ceil(threads / warp);
  const double at_once = std::floor(gpu.threads / threads) * Cores(target);
  const bool is_pair = s.running.size() > 1;
  const double times = is_pair ? gpu.scan_pairs : 1;
  const double wait = times * (gpu.scan_wait_seconds + (warps > 1 ? warps * gpu.scan_warp_wait_seconds : 0));
  const double exchange = warps * gpu.scan_exchange_seconds * (is_pair ? gpu.scan_pair_exchanges : 1);
  const double work = times * running * (gpu.scan_warp_seconds + (warps > 1 ? exchange : 0));
  return gpu.kernel_seconds +
         std::max({(kernel.reads + kernel.writes) / BytesPerSecond(target), std::ceil(rows / at_once) * turns * wait,
                   rows * turns * threads / warp * work / Cores(target)});
}

std::optional<RowThreads> ThreadsOfRows(const Kernel& kernel, const TeProgram& group, const Target& target, Analyzer& a,
                                        Point& point) {
  const Stage& s = *kernel.stages[0];
  const LaunchLimits& limits = target.device->limits;
  if (!s.IsScan() || ScansColumns(s) || limits.warp < 2 || limits.shared_bytes == 0) return std::nullopt;
  const Expr extent = ExtentAlong(s);
  if (IsInt(extent, 1)) return std::nullopt;
  RowThreads r;
  r.lanes = point.Choose("lanes", {1, 2, 4, 8}, std::clamp<int64_t>(kAccess / kernel.widest, 1, 8));
  r.is_vector = r.lanes > 1 && a.KnownDivisor(extent) % r.lanes == 0;
  const int64_t enough = PowerOfTwoAbove(static_cast<int64_t>(TypicalSize(extent, group.symbols)) / r.lanes);
  // Rows of fewer threads than a warp has lie apart.
  std::vector<int64_t> options = {std::min(enough, limits.warp)};
  while (options.back() < std::min({enough, limits.threads, limits.block[0]})) options.push_back(2 * options.back());
  std::optional<RowThreads> best;
  for (int64_t n : options) {
    r.threads = n;
    r.seconds = SecondsOf(kernel, r, group, target);
    // Of equals the most that are a block at least.
    if (!best || r.seconds < best->seconds || (r.seconds == best->seconds && n <= kLeastOfBlock)) best = r;
  }
  best->threads = point.Choose("threads", options, best->threads);
  best->seconds = SecondsOf(kernel, *best, group, target);
  best->rows = std::max<int64_t>(kLeastOfBlock / best->threads, 1);
  return best;
}

// Its rows are blocks, or parts of them.
Status ScheduleRows(const Stage& s, const RowThreads& by, Schedule& schedule) {
  std::vector<std::string> loops = schedule.LoopsAround("b_" + s.name);
  for (Buffer b : s.running) schedule.Step("scope ", b->name, " local");
  const std::string along = loops.back(), o = schedule.Fresh("k"), t = schedule.Fresh("t"), u = schedule.Fresh("u");
  loops.pop_back();
  schedule.Step("split ", along, " ", by.threads, " ", by.lanes, " -> ", o, " ", t, " ", u);
  if (!loops.empty()) {
    const std::string all = schedule.Fresh("e"), block = schedule.Fresh("eb"), row = schedule.Fresh("er");
    schedule.Step("fuse ", absl::StrJoin(loops, " "), " -> ", all)
        .Step("split ", all, " ", by.rows, " -> ", block, " ", row)
        .Step("bind ", block, " blockIdx.x")
        .Step("bind ", row, " threadIdx.y");
  }
  schedule.Step("bind ", t, " threadIdx.x").Step(by.is_vector ? "vectorize " : "unroll ", u);
  return schedule.status();
}

}  // namespace

StatusOr<std::vector<Proposal>> ProposeScansGpu(const TeProgram& group, const Target& target, Until until,
                                                Point& point) {
  const auto is_known = [](const Stage& s) { return s.IsPointwise() || s.IsScan(); };
  const std::vector<Stage>& stages = group.stages;
  if (!target.IsGpu() || !std::all_of(stages.begin(), stages.end(), is_known) ||
      std::none_of(stages.begin(), stages.end(), [](const Stage& s) { return s.IsScan(); }))
    return std::vector<Proposal>();
  Analyzer a(*group.context);
  for (const SymbolFact& f : group.symbols) a.BindSymbol(f);
  Proposal r{"scans_gpu", {}, "", 0};
  std::vector<Buffer> results;
  for (const Param& p : group.params) {
    if (p.role == ParamRole::kResult) results.push_back(p.buffer);
  }
  std::vector<Kernel> kernels;
  std::vector<const Stage*> all;
  for (const Stage& s : stages) all.push_back(&s);
  if (IsScanWithReaders(stages, results))
    kernels.push_back(KernelOf(all, group));
  else
    for (const Stage* s : all) kernels.push_back(KernelOf({s}, group));
  std::vector<std::optional<RowThreads>> rows;
  for (const Kernel& k : kernels) {
    const double alone = SecondsOf(k, group, target);
    rows.push_back(ThreadsOfRows(k, group, target, a, point));
    if (rows.back() && rows.back()->seconds > alone) rows.back() = std::nullopt;
    r.seconds += rows.back() ? rows.back()->seconds : alone;
  }
  if (until == Until::kPrice) return std::vector<Proposal>{std::move(r)};
  ASSIGN_OR_RETURN(Func loops, ToLoops(group));
  Schedule schedule(std::move(loops));
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Stage& s = *kernels[k].stages[0];
    for (size_t i = 1; i < kernels[k].stages.size(); ++i)
      schedule.Step("reverse_inline b_", kernels[k].stages[i]->name);
    if (rows[k]) {
      RETURN_IF_ERROR(ScheduleRows(s, *rows[k], schedule));
      continue;
    }
    // As many blocks as there are cores, where these have a warp each.
    const auto threads = PowerOfTwoAbove(static_cast<int64_t>(ThreadsOf(s, group) / Cores(target)));
    ASSIGN_OR_RETURN(const std::string along,
                     ThreadAnElement(s, schedule, target, std::clamp<int64_t>(threads, 32, kMostThreads)));
    if (along.empty()) continue;
    const std::string outer = schedule.Fresh("k"), inner = schedule.Fresh("u");
    const Expr extent = ExtentAlong(s);
    int64_t at_once = point.Choose("at_once", {8, 16, 32, 64}, AtOnce(s, group, target));
    if (IsInt(extent)) at_once = std::clamp<int64_t>(extent->int_value, 1, at_once);
    schedule.Step("split ", along, " ", at_once, " -> ", outer, " ", inner).Step("unroll ", inner);
    // Only of the last ones does each ask whether it is there.
    if (a.KnownDivisor(extent) % at_once != 0)
      schedule.Step("split_init b_", s.name, " ", outer, " -> ", schedule.Fresh("start"))
          .Step("peel ", outer, " back 1 -> ", schedule.Fresh("rest"));
  }
  RETURN_IF_ERROR(schedule.status());
  r.func = schedule.func();
  r.schedule = schedule.text();
  return std::vector<Proposal>{std::move(r)};
}

}  // namespace cinn_like::hlir
