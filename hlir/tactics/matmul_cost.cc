#include "hlir/tactics/matmul_cost.h"

#include <algorithm>
#include <cmath>

#include "hlir/stage_analysis.h"

namespace cinn_like::hlir {
namespace {

constexpr double kFlopsWithoutReuse = 0.015;     // of the device's rate
constexpr double kFlopsPerSm = 128 * 2 * 1.7e9;  // 128 lanes multiply and add at 1.7 GHz

}  // namespace

double TypicalSize(ir::Expr extent, const std::vector<ir::SymbolFact>& symbols) {
  if (extent->op == ir::ExprOp::kInt) return static_cast<double>(extent->int_value);
  if (extent->op == ir::ExprOp::kVar) {
    for (const ir::SymbolFact& s : symbols) {
      if (s.var != extent) continue;
      if (s.hint > 0) return static_cast<double>(s.hint);
      return std::round(std::sqrt(std::max(static_cast<double>(s.lo), 1.0) * static_cast<double>(s.hi)));
    }
  }
  if (extent->args.size() != 2) return 1;
  const double a = TypicalSize(extent->args[0], symbols), b = TypicalSize(extent->args[1], symbols);
  switch (extent->op) {
    case ir::ExprOp::kAdd:
      return a + b;
    case ir::ExprOp::kSub:
      return std::max(a - b, 1.0);
    case ir::ExprOp::kMul:
      return a * b;
    case ir::ExprOp::kDiv:
      return std::max(std::floor(a / std::max(b, 1.0)), 1.0);
    case ir::ExprOp::kMod:
      return std::max(std::fmod(a, std::max(b, 1.0)), 1.0);
    case ir::ExprOp::kMin:
      return std::min(a, b);
    case ir::ExprOp::kMax:
      return std::max(a, b);
    default:
      return 1;
  }
}

MatmulCost CostOfMatmuls(const ir::TeProgram& group) {
  MatmulCost r;
  for (const ir::Stage& s : group.stages) {
    if (!FindContraction(s)) continue;
    double flops = 2;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const ir::StageIter& i : *list) flops *= TypicalSize(i.extent, group.symbols);
    }
    r.flops += flops;
  }
  for (const ir::Param& p : group.params) {
    if (p.buffer == nullptr) continue;
    double bytes = BytesOf(p.buffer->dtype);
    for (ir::Expr e : p.buffer->shape) bytes *= TypicalSize(e, group.symbols);
    r.bytes += bytes;
  }
  return r;
}

double PeakFlops(const Target& target) { return static_cast<double>(std::max<int64_t>(target.cores, 1)) * kFlopsPerSm; }

double BytesPerSecond(const Target& target) {
  return static_cast<double>(target.bandwidth > 0 ? target.bandwidth : 100) * 1e9;
}

double Cores(const Target& target) {
  const int64_t cores = !target.IsGpu() && target.num_threads > 0 ? target.num_threads : target.cores;
  return static_cast<double>(std::max<int64_t>(cores, 1));
}

const SpeedRow& SpeedsOf(const Target& target) {
  const SpeedRow* row = FindSpeedRow(target.framework);
  if (row == nullptr) row = FindSpeedRow(target.IsGpu() ? SpeedClassOfArch(target.arch) : SpeedClassOfCpu(target.mcpu));
  return *row;  // every class has one
}

double SecondsWithoutReuse(double flops, const Target& target) {
  return flops / (kFlopsWithoutReuse * PeakFlops(target));
}

}  // namespace cinn_like::hlir
