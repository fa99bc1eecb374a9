#include "hlir/tactics/matmul_cost.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cinn_like/base/costs.h"
#include "hlir/stage_analysis.h"

namespace cinn_like::hlir {
namespace {

int AlignmentOf(ir::Buffer b, const std::vector<ir::SymbolFact>& symbols) {
  int r = kRowBytes;
  double dense = 1;
  for (size_t d = b->shape.size(); d-- > 0;) {
    const double extent = TypicalSize(b->shape[d], symbols);
    const double stride = b->strides.empty() ? dense : TypicalSize(b->strides[d], symbols);
    dense *= extent;
    if (extent == 1 || stride == 1) continue;
    while (r > 1 && std::fmod(stride * BytesOf(b->dtype), static_cast<double>(r)) != 0) r /= 2;
  }
  return r;
}

}  // namespace

MatmulCost CostOfMatmuls(const ir::TeProgram& group) {
  MatmulCost r;
  for (const ir::Stage& s : group.stages) {
    if (!FindProduct(s)) continue;
    r.flops += 2 * TypicalSize(s.iters, group.symbols) * TypicalSize(s.reduce_iters, group.symbols);
  }
  r.bytes = BytesMoved(group);
  return r;
}

double PeakFlops(const Target& target) {
  return static_cast<double>(std::max<int64_t>(target.cores, 1)) * GpuCostsOf(target).flops;
}

double BytesPerSecond(const Target& target) {
  return static_cast<double>(target.bandwidth > 0 ? target.bandwidth : 100) * 1e9 *
         (target.IsGpu() ? GpuCostsOf(target).part_of_bandwidth : 1);
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

bool AllowsTf32(const ir::Stage& s, const Target& target) {
  return target.IsGpu() && (s.is_convolution ? target.allow_tf32_convolutions : target.allow_tf32) != 0;
}

double ProductRate(const ir::Stage& s, ir::Buffer result, const std::vector<ir::SymbolFact>& symbols,
                   const SpeedRow& row, const Target& target, std::optional<DType> of) {
  const DType dtype = of.value_or(NarrowestType(s, result));
  const bool tf32 = dtype == DType::kF32 && AllowsTf32(s, target);
  double rate = tf32 ? row.product.bf16 / 2 : RateFor(row.product, dtype);
  if (tf32 || BytesOf(dtype) == 2) rate *= PartAtAlignment(row, RowAlignment(s, result, symbols));
  return rate * 1e9 * Cores(target);
}

DType NarrowestType(const ir::Stage& s, ir::Buffer result) {
  DType r = result->dtype;
  for (ir::Buffer b : InputsOf(s)) {
    if (BytesOf(b->dtype) < BytesOf(r)) r = b->dtype;
  }
  return r;
}

int RowAlignment(const ir::Stage& s, ir::Buffer result, const std::vector<ir::SymbolFact>& symbols) {
  int r = AlignmentOf(result, symbols);
  for (ir::Buffer b : InputsOf(s)) r = std::min(r, AlignmentOf(b, symbols));
  return r;
}

double PartAtAlignment(const SpeedRow& row, int alignment) {
  // From any element of 16 bits on, each doubling gives back the same factor.
  return std::pow(row.misaligned, std::log2(static_cast<double>(kRowBytes) / alignment) / 3);
}

double SecondsWithoutReuse(double flops, const Target& target) {
  return flops / (GpuCostsOf(target).part_without_reuse * PeakFlops(target));
}

double SecondsOfRowProducts(const ir::TeProgram& group, const Target& target) {
  const GpuCosts& gpu = GpuCostsOf(target);
  double seconds = 0;
  for (const ir::Stage& s : group.stages) {
    const std::optional<Contraction> product = FindProduct(s);
    if (!product) continue;
    const double reads = TypicalSize(s.iters, group.symbols) * TypicalSize(s.reduce_iters, group.symbols);
    seconds += 2 * reads / (gpu.row_part * PeakFlops(target));
    // Of both operands: how often elements are read again, and their bytes.
    std::array<double, 2> again, elements, width;
    for (const size_t side : {0, 1}) {
      const ir::Expr factor = side == 0 ? product->lhs : product->rhs;
      elements[side] = 1;
      for (const auto* list : {&s.iters, &s.reduce_iters}) {
        for (const ir::StageIter& i : *list)
          elements[side] *= ir::Uses(factor, i.var) ? TypicalSize(i.extent, group.symbols) : 1;
      }
      again[side] = std::max(reads - elements[side], 0.0);
      width[side] = BytesOf(MainLoad(s, {factor})->type.dtype);
    }
    for (const size_t side : {0, 1}) {
      const bool near = again[1 - side] == 0 && elements[side] * width[side] <= gpu.row_near_bytes;
      seconds += again[side] / Cores(target) *
                 (near ? width[side] / gpu.row_near_bytes_per_second
                       : std::max(width[side], 4.0) / gpu.row_far_bytes_per_second);
    }
  }
  return seconds;
}

}  // namespace cinn_like::hlir
