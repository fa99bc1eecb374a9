// Scans on a GPU: a thread for each sum that runs, which asks for some elements at once and adds them one after the
// other; or the threads of a block for each, which join what their elements come to. Neighbours along threadIdx.x
// access neighbours: elements of a row, or columns.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

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
constexpr int64_t kSector = 32;                         // bytes that memory is read by
constexpr int64_t kAccess = 16;                         // bytes of a thread's access
constexpr int64_t kLeastOfBlock = 128;                  // threads of several rows
constexpr int64_t kMostColumns = 128;                   // of a block
constexpr double kOwnRegisters = 16;                    // of a thread, beside what runs of its elements

// Scans by threads, each of which has some elements of each turn.
struct Sharing {
  int64_t threads = 1;     // of a scan
  int64_t at_once = 1;     // elements of a thread
  bool is_vector = false;  // they are one access
  int64_t scans = 1;       // of a block
  double seconds = 0;
};

// Stages that are one kernel: a scan with what reads it, or one alone. What it moves, the widest element, how many sums
// run and over how many elements each (of elements alone: how many, one each), and how many columns lie side by side.
struct Kernel {
  std::vector<const Stage*> stages;
  double reads = 0, writes = 0;
  int64_t widest = 1;
  double scans = 1, steps = 1, columns = 1;
  bool has_columns = false;
  const Stage& first() const { return *stages[0]; }
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
  const Stage& s = r.first();
  for (const StageIter& i : s.iters) {
    (i.var == s.along ? r.steps : r.scans) *= TypicalSize(i.extent, group.symbols);
    r.columns = i.var == s.along ? 1 : r.columns * TypicalSize(i.extent, group.symbols);
  }
  r.scans = std::max(r.scans, 1.0), r.columns = std::max(r.columns, 1.0);
  r.has_columns = s.IsScan() && ScansColumns(s);
  return r;
}

Expr ExtentAlong(const Stage& s) {
  return std::find_if(s.iters.begin(), s.iters.end(), [&](const StageIter& i) { return i.var == s.along; })->extent;
}

// Elements that a thread asks for at once: more where few threads do, which wait for memory alone.
int64_t AtOnce(const Kernel& kernel, const Target& target) {
  return kernel.scans < kManyThreads * Cores(target) ? kMostAtOnce : kLeastAtOnce;
}

double StepSeconds(const Stage& s, const GpuCosts& gpu) {
  const auto is_wide = [](Buffer b) { return b->dtype == DType::kF64; };
  return std::any_of(s.running.begin(), s.running.end(), is_wide) ? gpu.scan_wide_step_seconds : gpu.scan_step_seconds;
}

// What waiting for columns' elements takes longer where L2 does not have all of them.
double FarSeconds(const Kernel& kernel, const Target& target) {
  const double bytes = kernel.reads + kernel.writes;
  return GpuCostsOf(target).scan_far_seconds * std::max(0.0, 1 - static_cast<double>(target.l2_bytes) / bytes);
}

// The part of moving columns' elements, or of waiting for them, that is left beside the longer one: of a core's blocks,
// `most` at a time, one moves while others wait.
double Exposed(double blocks, double most, const Target& target) {
  return GpuCostsOf(target).scan_exposed / std::clamp(std::ceil(blocks / Cores(target)), 1.0, most);
}

// Of a kernel with a thread for each sum that runs.
double SecondsOf(const Kernel& kernel, const Target& target) {
  const GpuCosts& gpu = GpuCostsOf(target);
  const Stage& s = kernel.first();
  const double reads = kernel.reads, bytes = kernel.writes, threads = kernel.scans;
  const double moves = (bytes + reads) / BytesPerSecond(target);
  if (!s.IsScan()) return gpu.kernel_seconds + moves;
  const bool is_apart = !kernel.has_columns && threads > 1;  // threads side by side, not their elements
  double turn = 0;
  if (reads > 0)
    turn = gpu.scan_turn_seconds +
           (is_apart ? gpu.scan_apart_seconds * std::min(1.0, threads / 32) : FarSeconds(kernel, target));
  const double wait =
      std::ceil(kernel.steps / static_cast<double>(AtOnce(kernel, target))) * turn + kernel.steps * StepSeconds(s, gpu);
  const double waits = std::ceil(threads / (static_cast<double>(gpu.threads) * Cores(target))) * wait;
  double seconds = std::max(moves, waits);
  if (kernel.has_columns)
    seconds += Exposed(threads / kMostThreads, static_cast<double>(gpu.threads) / kMostThreads, target) *
               std::min(moves, waits);
  if (is_apart && bytes / threads > kSector)
    seconds = std::max(seconds, threads * kernel.steps * (reads > 0 ? 2 : 1) * gpu.scan_apart_access / Cores(target));
  return gpu.kernel_seconds + seconds;
}

// Of one whose scans are shared so.
double SecondsOf(const Kernel& kernel, const Sharing& by, const Target& target) {
  const GpuCosts& gpu = GpuCostsOf(target);
  const Stage& s = kernel.first();
  double words = 0;
  for (Buffer b : s.running) words += BytesOf(b->dtype) / 8.0;
  const auto threads = static_cast<double>(by.threads), at_once = static_cast<double>(by.at_once),
             scans = static_cast<double>(by.scans), warp = static_cast<double>(target.Limits().warp);
  const double turns = std::ceil(kernel.steps / (threads * at_once));
  // What exchanges through shared memory: a warp, or less of it that goes along one scan.
  const double parts = std::ceil(threads / (kernel.has_columns ? std::max(warp / scans, 1.0) : warp));
  auto held = static_cast<double>(gpu.threads);  // threads of a core
  if (target.registers > 0)
    held = std::min(held, static_cast<double>(target.registers) / (kOwnRegisters + 2 * words * at_once));
  const double at_a_time = std::min(std::floor(held / (threads * scans)), static_cast<double>(gpu.blocks));
  if (at_a_time < 1) return std::numeric_limits<double>::infinity();
  const double blocks = std::ceil(kernel.scans / scans), waves = std::ceil(blocks / (at_a_time * Cores(target)));
  const bool is_pair = s.running.size() > 1;
  const double times = is_pair ? gpu.scan_pairs : 1;
  double wait = times * (gpu.scan_wait_seconds + (parts > 1 ? parts * gpu.scan_warp_wait_seconds : 0));
  const double exchange = parts * gpu.scan_exchange_seconds * (is_pair ? gpu.scan_pair_exchanges : 1);
  const double work = times * words * (gpu.scan_warp_seconds + (parts > 1 ? exchange : 0));
  double rate = BytesPerSecond(target), beside = 0;
  if (kernel.has_columns) {
    wait += at_once * StepSeconds(s, gpu) + FarSeconds(kernel, target);
    const double bytes = std::min(scans, kernel.columns) * static_cast<double>(kernel.widest);
    rate = std::min(rate, std::min(blocks, Cores(target)) * gpu.tile_bytes_per_second) /
           (1 + gpu.scan_narrow * std::max(0.0, std::log2(gpu.scan_wide_bytes / bytes)));
    beside = Exposed(blocks, at_a_time, target);
  }
  const double moves = (kernel.reads + kernel.writes) / rate, waits = waves * turns * wait;
  return gpu.kernel_seconds + std::max({moves, waits, kernel.scans * turns * threads / warp * work / Cores(target)}) +
         beside * std::min(moves, waits);
}

// 1, 2, 4, ... from `least` on, one at least.
std::vector<int64_t> PowersOfTwo(int64_t least, int64_t most) {
  std::vector<int64_t> r = {least};
  while (2 * r.back() <= most) r.push_back(2 * r.back());
  return r;
}

// nullopt: a thread each, which takes `alone`.
std::optional<Sharing> ShareRows(const Kernel& kernel, double alone, const TeProgram& group, const Target& target,
                                 Analyzer& a, Point& point) {
  const LaunchLimits& limits = target.device->limits;
  const Expr extent = ExtentAlong(kernel.first());
  if (limits.warp < 2 || IsInt(extent, 1)) return std::nullopt;
  Sharing r;
  r.at_once = point.Choose("lanes", {1, 2, 4, 8}, std::clamp<int64_t>(kAccess / kernel.widest, 1, 8));
  r.is_vector = r.at_once > 1 && a.KnownDivisor(extent) % r.at_once == 0;
  const int64_t enough = PowerOfTwoAbove(static_cast<int64_t>(TypicalSize(extent, group.symbols)) / r.at_once);
  // Rows of fewer threads than a warp has lie apart.
  const std::vector<int64_t> options =
      PowersOfTwo(std::min(enough, limits.warp), std::min({enough, limits.threads, limits.block[0]}));
  const auto by = [&](int64_t threads) {
    r.threads = threads;
    r.scans = std::max<int64_t>(kLeastOfBlock / threads, 1);
    r.seconds = SecondsOf(kernel, r, target);
    return r;
  };
  std::optional<Sharing> best;
  for (int64_t n : options) {
    const Sharing x = by(n);
    // Of equals the most that are a block at least.
    if (!best || x.seconds < best->seconds || (x.seconds == best->seconds && n <= kLeastOfBlock)) best = x;
  }
  best = by(point.Choose("threads", options, best->threads));
  return best->seconds > alone ? std::nullopt : best;
}

std::optional<Sharing> ShareColumns(const Kernel& kernel, double alone, const Target& target, Point& point) {
  const LaunchLimits limits = target.Limits();
  const auto up_to = [](double n, int64_t most) {
    return PowerOfTwoAbove(static_cast<int64_t>(std::clamp(n, 1.0, static_cast<double>(most))));
  };
  const int64_t side_by_side = up_to(kernel.scans, kMostColumns);
  // What memory is read by at least.
  const int64_t least = std::min(side_by_side, std::max<int64_t>(kSector / kernel.widest, 1));
  std::vector<int64_t> at_once = {kLeastAtOnce / 2, kLeastAtOnce, kMostAtOnce};
  const int64_t enough = up_to(std::floor(kernel.steps / static_cast<double>(at_once[0])), limits.threads);
  std::vector<int64_t> columns = PowersOfTwo(least, side_by_side);
  std::vector<int64_t> threads = PowersOfTwo(1, std::min({limits.threads / least, limits.block[1], enough}));
  std::optional<Sharing> best;
  const auto choose = [&] {
    best = std::nullopt;
    for (int64_t x : columns) {
      for (int64_t y : threads) {
        for (int64_t n : at_once) {
          if (y == 1 || x * y > limits.threads) continue;
          Sharing r{.threads = y, .at_once = n, .scans = x};
          r.seconds = SecondsOf(kernel, r, target);
          if (!best || r.seconds < best->seconds) best = r;
        }
      }
    }
  };
  choose();
  const int64_t n = point.Choose("threads", threads, best && best->seconds < alone ? best->threads : 1);
  if (n == 1) return std::nullopt;
  threads = {n};
  std::erase_if(columns, [&](int64_t x) { return x * n > limits.threads; });
  choose();
  columns = {point.Choose("columns", columns, best->scans)};
  choose();
  at_once = {point.Choose("at_once", at_once, best->at_once)};
  choose();
  return best;
}

// Threads of a scan go along it, those of the block's other scans beside them.
Status ScheduleShared(const Stage& s, const Sharing& by, Schedule& schedule, const Target& target) {
  const bool has_columns = ScansColumns(s);
  const std::string_view own = has_columns ? "threadIdx.y" : "threadIdx.x",
                         others = has_columns ? "threadIdx.x" : "threadIdx.y";
  ASSIGN_OR_RETURN(const std::string along, ThreadAnElement(s, schedule, target, by.scans, others));
  const std::string o = schedule.Fresh("k"), t = schedule.Fresh("t"), u = schedule.Fresh("u");
  schedule.Step("split ", along, " ", by.threads, " ", by.at_once, " -> ", o, " ", t, " ", u)
      .Step("bind ", t, " ", own)
      .Step(by.is_vector ? "vectorize " : "unroll ", u);
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
  std::vector<std::optional<Sharing>> shared;
  for (const Kernel& k : kernels) {
    const double alone = SecondsOf(k, target);
    shared.push_back(!k.first().IsScan() ? std::nullopt
                     : k.has_columns     ? ShareColumns(k, alone, target, point)
                                         : ShareRows(k, alone, group, target, a, point));
    r.seconds += shared.back() ? shared.back()->seconds : alone;
  }
  if (until == Until::kPrice) return std::vector<Proposal>{std::move(r)};
  ASSIGN_OR_RETURN(Func loops, ToLoops(group));
  Schedule schedule(std::move(loops));
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Stage& s = kernels[k].first();
    for (size_t i = 1; i < kernels[k].stages.size(); ++i)
      schedule.Step("reverse_inline b_", kernels[k].stages[i]->name);
    if (shared[k]) {
      RETURN_IF_ERROR(ScheduleShared(s, *shared[k], schedule, target));
      continue;
    }
    // As many blocks as there are cores, where these have a warp each.
    const auto threads = PowerOfTwoAbove(static_cast<int64_t>(kernels[k].scans / Cores(target)));
    ASSIGN_OR_RETURN(const std::string along,
                     ThreadAnElement(s, schedule, target, std::clamp<int64_t>(threads, 32, kMostThreads)));
    if (along.empty()) continue;
    const std::string outer = schedule.Fresh("k"), inner = schedule.Fresh("u");
    const Expr extent = ExtentAlong(s);
    int64_t at_once = point.Choose("at_once", {8, 16, 32, 64}, AtOnce(kernels[k], target));
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
