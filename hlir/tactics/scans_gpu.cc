// Scans on a GPU: a thread for each sum that runs, which asks for some elements at once and adds them one after the
// other.
#include <algorithm>
#include <cmath>

#include "cinn_like/base/costs.h"
#include "cinn_like/base/powers_of_two.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactics.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages are all there is here

namespace {

constexpr int64_t kMostThreads = 128;  // of a block
constexpr int64_t kAtOnce = 16;        // elements that a thread asks for
constexpr double kSector = 32;         // bytes that memory is read by

double ThreadsOf(const Stage& s, const TeProgram& group) {
  double threads = 1;
  for (const StageIter& i : s.iters) threads *= i.var == s.along ? 1 : TypicalSize(i.extent, group.symbols);
  return threads;
}

double SecondsOf(const Stage& s, const TeProgram& group, const Target& target) {
  const GpuCosts& gpu = GpuCostsOf(target);
  double bytes = 0, reads = 0;
  for (Buffer b : InputsOf(s)) reads += BytesRead(s, b, group.symbols);
  for (Buffer b : s.outputs) bytes += TypicalBytes(b, group.symbols);
  double seconds = (bytes + reads) / BytesPerSecond(target);
  if (s.IsScan()) {
    const double threads = ThreadsOf(s, group), elements = TypicalSize(s.iters, group.symbols),
                 steps = elements / threads;
    const bool is_apart = !ScansColumns(s) && threads > 1;  // threads side by side, not their elements
    const bool is_wide =
        std::any_of(s.running.begin(), s.running.end(), [](Buffer b) { return b->dtype == DType::kF64; });
    double turn = 0;
    if (reads > 0) turn = gpu.scan_turn_seconds + (is_apart ? gpu.scan_apart_seconds * std::min(1.0, threads / 32) : 0);
    const double waits =
        std::ceil(steps / kAtOnce) * turn + steps * (is_wide ? gpu.scan_wide_step_seconds : gpu.scan_step_seconds);
    seconds = std::max(seconds, std::ceil(threads / (static_cast<double>(gpu.threads) * Cores(target))) * waits);
    if (is_apart && bytes / threads > kSector)
      seconds = std::max(seconds, elements * (reads > 0 ? 2 : 1) * gpu.scan_apart_access / Cores(target));
  }
  return gpu.kernel_seconds + seconds;
}

}  // namespace

StatusOr<std::vector<Proposal>> ProposeScansGpu(const TeProgram& group, const Target& target, Until until, Point&) {
  const auto is_known = [](const Stage& s) { return s.IsPointwise() || s.IsScan(); };
  const std::vector<Stage>& stages = group.stages;
  if (!target.IsGpu() || !std::all_of(stages.begin(), stages.end(), is_known) ||
      std::none_of(stages.begin(), stages.end(), [](const Stage& s) { return s.IsScan(); }))
    return std::vector<Proposal>();
  Proposal r{"scans_gpu", {}, "", 0};
  for (const Stage& s : stages) r.seconds += SecondsOf(s, group, target);
  if (until == Until::kPrice) return std::vector<Proposal>{std::move(r)};
  ASSIGN_OR_RETURN(Func loops, ToLoops(group));
  Schedule schedule(std::move(loops));
  for (const Stage& s : stages) {
    // As many blocks as there are cores, where these have a warp each.
    const auto threads = PowerOfTwoAbove(static_cast<int64_t>(ThreadsOf(s, group) / Cores(target)));
    ASSIGN_OR_RETURN(const std::string along,
                     ThreadAnElement(s, schedule, target, std::clamp<int64_t>(threads, 32, kMostThreads)));
    if (along.empty()) continue;
    const std::string outer = schedule.Fresh("k"), inner = schedule.Fresh("u");
    schedule.Step("split ", along, " ", kAtOnce, " -> ", outer, " ", inner).Step("unroll ", inner);
  }
  RETURN_IF_ERROR(schedule.status());
  r.func = schedule.func();
  r.schedule = schedule.text();
  return std::vector<Proposal>{std::move(r)};
}

}  // namespace cinn_like::hlir
