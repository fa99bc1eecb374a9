// What a contraction is predicted to take on a CPU, from the rates of its class (cinn_like/base/speeds.h) and the costs
// of caches and memory (cinn_like/base/costs.h).
#include <algorithm>
#include <cmath>

#include "cinn_like/base/costs.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/contraction_plan.h"
#include "hlir/tactics/contraction_sides.h"
#include "hlir/tactics/matmul_cost.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

double SecondsOfFarRows(const ContractionPlan& t, const Target& target) {
  const CpuCosts& cpu = CpuCostsOf(target);
  const FlatContraction& f = t.flat;
  if (t.dots || t.copy_rows || t.depth_step == nullptr || !IsInt(t.row_step)) return 0;
  auto size = [&](Expr e) { return TypicalSize(e, f.group.symbols); };
  const auto bytes = static_cast<double>(BytesOf(f.of_rows->buffer->dtype));
  const double step_bytes = bytes * std::abs(static_cast<double>(t.depth_step->int_value));
  if (step_bytes < cpu.ahead_bytes) return 0;
  const double depth = TypicalSize(f.group.stages[0].reduce_iters, f.group.symbols);
  const double row_bytes = bytes * std::abs(static_cast<double>(t.row_step->int_value));
  // Tiles of one of a batch follow each other.
  const double given = TypicalBytes(f.of_rows->buffer, f.group.symbols) / (Uses(f.rows_value, f.vb) ? size(f.b) : 1);
  if (std::min(size(f.i) * row_bytes * depth, given) <= cpu.near_bytes) return 0;
  const auto rows = static_cast<double>(t.rows);
  const double lines = 1 + (rows - 1) * std::min(row_bytes / cpu.line_bytes, 1.0);
  const double tiles = std::ceil(size(f.i) / rows) * std::ceil(size(f.j) / static_cast<double>(t.tile.width()));
  return size(f.b) * tiles * depth * lines * cpu.far_line_seconds;
}

int64_t TurnedTogether(const ContractionPlan& t) {
  Expr steps = t.flat.i;  // of the innermost loop
  for (const StageIter& i : t.flat.group.stages[0].reduce_iters) {
    if (!IsInt(i.extent, 1)) steps = i.extent;
  }
  constexpr int64_t kLeast = 4;
  int64_t r = IsInt(t.row_step, 1) ? t.tile.lanes : 1;
  const auto leaves_rest = [&](Expr extent) { return IsInt(extent) && extent->int_value % r != 0; };
  while (r >= kLeast && (leaves_rest(steps) || leaves_rest(t.flat.i) || !IsInt(t.flat.i))) r /= 2;
  return r >= kLeast ? r : 1;
}

double SecondsOfTurnedRow(const ContractionPlan& t, const Target& target) {
  const CpuCosts& cpu = CpuCostsOf(target);
  const double apart = IsInt(t.row_step) ? std::abs(static_cast<double>(t.row_step->int_value)) : cpu.line_bytes;
  const double of_line = apart * static_cast<double>(BytesOf(t.flat.of_rows->buffer->dtype)) / cpu.line_bytes;
  return (TurnedTogether(t) > 1 ? cpu.transpose_seconds : cpu.move_seconds) +
         cpu.far_line_seconds * std::min(of_line, 1.0);
}

double PredictSeconds(const ContractionPlan& t, const Target& target) {
  const SpeedRow& speeds = SpeedsOf(target);
  const CpuCosts& cpu = CpuCostsOf(target);
  const double op_seconds = 1e-9 / speeds.own_rows;
  constexpr double kMostReads = 2;
  const FlatContraction& f = t.flat;
  const Stage& acc = f.group.stages[0];
  auto size = [&](Expr e) { return TypicalSize(e, f.group.symbols); };
  const double depth = TypicalSize(acc.reduce_iters, f.group.symbols);
  const double cores = Cores(target), b = size(f.b);
  const auto width = static_cast<double>(t.tile.width());
  const double row_tiles = std::ceil(size(f.i) / static_cast<double>(t.rows));
  const double panels = std::ceil(size(f.j) / width);
  const double results = b * row_tiles * panels * static_cast<double>(t.rows) * width;
  const double row_blocks = t.row_block == 0 ? 1 : std::ceil(size(f.i) / static_cast<double>(t.row_block));
  const double tasks = t.padded ? b * row_blocks : b * panels * (t.pack ? row_blocks : row_tiles);
  const double balance = tasks > 0 ? std::ceil(tasks / cores) * cores / tasks : 1;
  const auto chains = static_cast<double>(t.rows * t.tile.vectors);
  const double busy =
      t.dots && t.dots->tiles
          ? (t.rows > kTileRows / 2 ? 1 : 0.5)
          : std::min({1.0, chains / cpu.busy_sums, chains / static_cast<double>(t.rows + t.tile.vectors)});
  constexpr double kOfIntegers = 2;  // a product and a sum are an instruction each
  const DType sum_type = acc.outputs[0]->dtype;
  const bool is_pairs = t.dots && t.dots->kind == ForKind::kDot2, tiles = t.dots && t.dots->tiles;
  // Of another machine's tiles what the framework makes of them is known.
  const double of_tiles = is_pairs ? speeds.own_tile2 : speeds.own_tile4;
  const double rate = !t.dots ? speeds.own_product / (IsFloat(sum_type) ? 1 : kOfIntegers)
                      : tiles
                          ? (of_tiles > 0 ? of_tiles : RateFor(speeds.product, is_pairs ? DType::kBF16 : DType::kI8))
                      : is_pairs ? speeds.own_dot2
                                 : speeds.own_dot4;
  double compute = 2 * results * depth * (BytesOf(sum_type) > 4 ? 2 : 1) / (rate * 1e9 * busy);
  // Sums of each panel keep but its vectors busy.
  if (t.dots && t.dots->compensated)
    compute += 2 * b * panels * row_blocks * width * depth / (rate * 1e9) * cpu.busy_sums /
               static_cast<double>(t.tile.vectors);
  const bool strided = t.lane_step != nullptr && IsInt(t.lane_step, kEveryOther);
  // Of windows, the rows of a tile have most of what they read in registers.
  const bool shares_loads = t.padded && !t.taps.empty();
  if (!t.pack && !t.dots && !shares_loads)
    compute *= t.contiguous ? (!t.near     ? cpu.far_rows_factor
                               : t.aligned ? 1
                                           : cpu.anywhere_factor)
               : strided    ? cpu.strided_factor
                            : cpu.gather_factor;
  if (!t.pack && !t.dots && t.masks_lanes) compute *= cpu.masked_lanes_factor;
  if (t.is_masked) compute *= cpu.masked_factor;
  // What is computed of elements, for each tile again.
  if (!t.pack) compute *= 1 + CostOf(f.lanes_value) / static_cast<double>(t.rows);
  if (!t.copy_rows) compute *= 1 + CostOf(f.rows_value) / static_cast<double>(t.tile.vectors);
  // One tap at a time, whose steps lie pages apart.
  if (t.is_guarded) compute *= t.part * (t.guarding.empty() ? 1 : cpu.far_taps_factor);
  const double scatter = !tiles ? cpu.scatter_seconds : t.near_results ? cpu.result_seconds : cpu.tile_scatter_seconds;
  compute +=
      results * (static_cast<double>(t.placed) * cpu.result_seconds + static_cast<double>(t.scattered) * scatter +
                 static_cast<double>(t.placed + t.scattered - 1) * cpu.further_result_seconds);
  if (tiles) {
    // Sums go to memory and back; what a core's cache does not hold comes again for each panel.
    compute += results * cpu.tile_result_seconds;
    const double rows = row_blocks > 1 ? static_cast<double>(t.row_block) : size(f.i);
    const double row_bytes = depth * BytesOf(f.of_rows->buffer->dtype);
    // So does what tasks of a batch read by turns (phases), where all of it does not fit.
    const double of_all = TypicalBytes(f.of_rows->buffer, f.group.symbols);
    const bool by_turns =
        Uses(f.rows_value, f.vb) && of_all > cpu.near_bytes && b * size(f.i) * row_bytes > kMostReads * of_all;
    if (rows * row_bytes > cpu.near_bytes || by_turns)
      compute += b * size(f.i) * row_bytes * panels / cpu.far_bytes_per_second;
  }
  const double lane_bytes = t.lane_step == nullptr ? 0
                                                   : std::abs(static_cast<double>(t.lane_step->int_value)) *
                                                         BytesOf(f.of_lanes->buffer->dtype);
  const bool far = TypicalBytes(f.of_lanes->buffer, f.group.symbols) > cpu.near_bytes;
  const auto gather_seconds = [&](double step_bytes, bool is_far) {
    return step_bytes > cpu.page_bytes ? cpu.gather_pages_seconds : is_far ? cpu.gather_far_seconds : cpu.move_seconds;
  };
  const bool moves_groups = t.dots && t.dots->lanes == DotProduct::Lanes::kOther;
  const bool is_near = t.lane_step != nullptr && std::abs(t.lane_step->int_value) <= kMostNear;
  const double element_seconds = moves_groups && !t.has_lanes  ? cpu.move_seconds
                                 : moves_groups && !is_near    ? gather_seconds(lane_bytes, far)
                                 : moves_groups                ? cpu.tile_strided_seconds
                                 : t.dots || t.contiguous      ? cpu.pack_seconds
                                 : t.has_lines                 ? cpu.transpose_seconds + cpu.pack_seconds
                                 : t.across                    ? cpu.transpose_seconds
                                 : strided                     ? cpu.strided_seconds
                                 : lane_bytes > cpu.page_bytes ? cpu.gather_pages_seconds
                                 : far                         ? cpu.gather_far_seconds
                                                               : cpu.gather_seconds;
  // Each step through the first-level cache is one more; that to pairs of bf16 rounds, too.
  const bool converts = !(tiles && t.has_lanes && f.lanes_value->args[0] == f.of_lanes);
  const double value_seconds = (converts ? CostOf(f.lanes_value) * op_seconds : 0) +
                               cpu.pack_seconds * ((t.has_raw ? 1 : 0) + (t.has_lanes && t.has_raw ? 2 : 0));
  const double packing = t.pack ? b * panels * row_blocks * width * depth * (element_seconds + value_seconds) : 0;
  if (!t.across) compute += packing;
  // What a tile's rows are copied for comes again for each panel, too.
  const bool copies_groups = t.dots && !tiles && t.copy_rows && !t.copies_runs && !t.turns_rows;
  const double copied = size(f.i) * depth * BytesOf(f.of_rows->buffer->dtype);
  if (copies_groups && copied > cpu.near_bytes) compute += b * copied * panels / cpu.far_bytes_per_second;
  if (t.copy_rows) {
    using Runs = ContractionPlan::Runs;
    const bool from_far = TypicalBytes(f.of_rows->buffer, f.group.symbols) > cpu.near_bytes;
    const double step_bytes = t.run_step == nullptr ? 0
                                                    : std::abs(static_cast<double>(t.run_step->int_value)) *
                                                          BytesOf(f.of_rows->buffer->dtype);
    const double run_seconds = t.copies_runs             ? cpu.pack_seconds
                               : t.turns_rows            ? SecondsOfTurnedRow(t, target)
                               : !t.in_tiles             ? cpu.move_seconds
                               : t.runs == Runs::kAlong  ? cpu.pack_seconds
                               : t.runs == Runs::kTurned ? (from_far ? cpu.turn_far_seconds : cpu.turn_seconds)
                                                         : gather_seconds(step_bytes, from_far);
    compute += (t.in_batch ? b : 1) * size(f.i) * depth * (CostOf(f.rows_value) * op_seconds + run_seconds);
  }
  if (t.padded) {  // whole vectors, there and back where they don't stay near
    const double line = size(f.of_lanes->buffer->shape.back()),
                 bytes = TypicalBytes(f.of_lanes->buffer, f.group.symbols);
    const auto lanes = static_cast<double>(t.tile.lanes);
    const double vectors = bytes / BytesOf(sum_type) / line * std::ceil(line / lanes);
    compute += vectors * lanes * cpu.pack_seconds * (bytes > cpu.near_bytes ? 6 : 2) + b * cpu.padded_image_seconds;
  }
  compute += t.copied_elements * cpu.move_seconds + SecondsOfFarRows(t, target);
  // Of a window's parts a unit's sums stay nearer: panels are of a few places (order: more than its own three).
  if (t.depth.outer > 0)
    compute += results * depth / static_cast<double>(t.depth.steps) *
               (tiles && t.order.size() > 3 ? cpu.tile_part_seconds : cpu.result_seconds);
  const double memory = CostOfMatmuls(f.group).bytes / BytesPerSecond(target);
  // Whole matrices are waited for before any of it is multiplied.
  if (t.across) {
    const double read = TypicalBytes(f.of_lanes->buffer, f.group.symbols) / BytesPerSecond(target);
    const double wait = std::max(packing * balance / cores, read);
    return cpu.loop_seconds + wait + std::max(compute * balance / cores, memory - read);
  }
  return cpu.loop_seconds + std::max(compute * balance / cores, memory);
}

}  // namespace cinn_like::hlir
