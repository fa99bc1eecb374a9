// Contractions by the target's matrix library: one call, whose meaning stays beside it as loops.
#include <algorithm>
#include <cmath>

#include "cinn_like/base/costs.h"
#include "hlir/library_matmul.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactics.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::hlir {
namespace {

constexpr double kTile = 64;  // rows and columns that matrix units are fed with; products of fewer leave them idle

// What is computed for each element that is asked for.
double Computed(const LibraryMatmul& f, const ir::TeProgram& group) {
  double r = 1;
  for (ir::Expr side : {f.m, f.n}) {
    const double size = TypicalSize(side, group.symbols);
    r *= std::ceil(size / kTile) * kTile / size;
  }
  return r;
}

}  // namespace

StatusOr<std::vector<Proposal>> ProposeMatmulLibrary(const ir::TeProgram& group, const Target& target, Until until,
                                                     Point& /*point*/) {
  if (!target.HasLib("cublas")) return std::vector<Proposal>();
  std::optional<LibraryMatmul> found = FindLibraryMatmul(group);
  if (!found) return std::vector<Proposal>();
  const MatmulCost cost = CostOfMatmuls(group);
  const ir::Buffer result = group.stages.back().outputs[0];
  const double rate = ProductRate(group.stages[0], result, group.symbols, SpeedsOf(target), target);
  const double idle = BytesOf(NarrowestType(group.stages[0], result)) == 2 ? Computed(*found, group) : 1;
  const GpuCosts& gpu = GpuCostsOf(target);
  const double memory = cost.bytes / (gpu.library_part_of_copies * BytesPerSecond(target));
  const double seconds = gpu.library_seconds + std::max(cost.flops * idle / rate, memory);
  if (until == Until::kPrice) return std::vector<Proposal>{{"matmul_library", {}, "", seconds}};
  LibraryMatmul& f = *found;
  f.spec.allow_tf32 = f.spec.dtype == DType::kF32 && AllowsTf32(group.stages[0], target);
  ir::Context& c = *group.context;
  if (f.bias == nullptr) f.bias = c.Int(0, DType::kU64);
  std::string args = Cat(f.spec.Encode());
  for (ir::Expr e :
       {f.a, f.b, f.bias, f.d, f.m, f.n, f.k, f.batch, f.lda, f.ldb, f.ldd, f.stride_a, f.stride_b, f.stride_d}) {
    args += Cat(", ", ir::Print(e));
  }
  ASSIGN_OR_RETURN(ir::Func loops, ir::ToLoops(group));
  ir::Schedule s(std::move(loops));
  s.Step("implement call cinn_cublaslt_matmul(", args, ")");
  RETURN_IF_ERROR(s.status());
  return std::vector<Proposal>{{"matmul_library", s.func(), s.text(), seconds}};
}

}  // namespace cinn_like::hlir
