#include "hlir/tactics/matmul_cost.h"

#include <algorithm>
#include <cmath>

#include "hlir/stage_analysis.h"

namespace cinn_like::hlir {
namespace {

constexpr double kFlopsWithoutReuse = 0.015;     // of the device's rate
constexpr double kFlopsPerSm = 128 * 2 * 1.7e9;  // 128 lanes multiply and add at 1.7 GHz

}  // namespace

MatmulCost CostOfMatmuls(const ir::TeProgram& group) {
  MatmulCost r;
  for (const ir::Stage& s : group.stages) {
    if (!FindContraction(s)) continue;
    r.flops += 2 * TypicalSize(s.iters, group.symbols) * TypicalSize(s.reduce_iters, group.symbols);
  }
  for (const ir::Param& p : group.params) {
    if (p.buffer != nullptr) r.bytes += TypicalBytes(p.buffer, group.symbols);
  }
  return r;
}

double PeakFlops(const Target& target) { return static_cast<double>(std::max<int64_t>(target.cores, 1)) * kFlopsPerSm; }

double BytesPerSecond(const Target& target) {
  return static_cast<double>(target.bandwidth > 0 ? target.bandwidth : 100) * 1e9;
}

double Cores(const Target& target) {
  const int64_t cores = !target.HasKernels() && target.num_threads > 0 ? target.num_threads : target.cores;
  return static_cast<double>(std::max<int64_t>(cores, 1));
}

const SpeedRow& SpeedsOf(const Target& target) {
  const SpeedRow* row = FindSpeedRow(target.framework);
  if (row == nullptr) row = FindSpeedRow(target.device->speed_class(target.RowName()));
  return *row;  // every class has one
}

double SecondsWithoutReuse(double flops, const Target& target) {
  return flops / (kFlopsWithoutReuse * PeakFlops(target));
}

}  // namespace cinn_like::hlir
