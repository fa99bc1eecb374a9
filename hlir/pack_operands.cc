#include "hlir/pack_operands.h"

#include "cinn_like/base/costs.h"
#include "hlir/library_matmul.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

using Iters = std::vector<StageIter>;

Iters Join(std::initializer_list<const Iters*> parts) {
  Iters r;
  for (const Iters* p : parts) r.insert(r.end(), p->begin(), p->end());
  return r;
}

// Elements that lie side by side in memory stay so: the last iterator is the one that steps by the last index.
bool EndsWith(Expr load, const Iters& iters) {
  const std::vector<Expr> at = IndicesOf(load);
  return !at.empty() && !iters.empty() && Uses(at.back(), iters.back().var);
}

Stage Copy(Context& c, Expr load, const Iters& iters, const std::string& name, int origin) {
  Stage s;
  s.name = name;
  s.origin = origin;
  VarMap own;
  std::vector<Expr> shape;
  for (const StageIter& i : iters) {
    own[i.var] = c.Var(Cat(name, "_", i.var->name));
    s.iters.push_back({own[i.var], i.extent});
    shape.push_back(i.extent);
  }
  s.outputs = {c.MakeBuffer({.name = name, .dtype = load->buffer->dtype, .shape = shape})};
  s.values = {Substitute(c, load, own)};
  return s;
}

}  // namespace

std::vector<Stage> PackOperands(const TeProgram& program, const Target& target, NameSupply& names) {
  const Stage& stage = program.stages.back();
  const auto con = FindContraction(stage);
  if (!target.HasLib("cublas") || !con || FindLibraryMatmul(program)) return {};
  Context& c = *program.context;
  const double flops = CostOfMatmuls(program).flops;
  constexpr int kLhs = 1, kRhs = 2;
  for (const int packed : {kLhs, kRhs, kLhs | kRhs}) {
    std::vector<Stage> stages;
    TeProgram changed = program;
    double seconds = flops / PeakFlops(target);
    for (const int side : {kLhs, kRhs}) {
      if ((packed & side) == 0) continue;
      const Expr load = side == kLhs ? con->lhs : con->rhs;
      const Iters& own = side == kLhs ? con->m : con->n;
      const Iters iters = EndsWith(load, own) ? Join({&con->batch, &con->k, &own}) : Join({&con->batch, &own, &con->k});
      stages.push_back(
          Copy(c, load, iters, names.Fresh(Cat(stage.name, side == kLhs ? "_lhs" : "_rhs")), stage.origin));
      const Expr read = c.Load(stages.back().outputs[0], VarsOf(iters));
      Expr& value = changed.stages.back().values[0];
      value = Rewriter(c, [&](Expr e) -> Expr { return e == load ? read : nullptr; })(value);
      const double bytes = 2.0 * BytesOf(load->buffer->dtype) * TypicalSize(iters, program.symbols);
      seconds += GpuCostsOf(target).kernel_seconds + bytes / BytesPerSecond(target);
    }
    if (seconds > SecondsWithoutReuse(flops, target) || !FindLibraryMatmul(changed)) continue;
    stages.push_back(changed.stages.back());
    return stages;
  }
  return {};
}

}  // namespace cinn_like::hlir
