#include <string>
#include <vector>

#include "ir/schedule/stage_parts.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::ir {
StatusOr<TeProgram> Compensate(TeProgram p, const std::string& stage, const std::string& factor,
                               const std::string& name) {
  if (factor != "lhs" && factor != "rhs") return InvalidArgument("expected lhs or rhs and got '", factor, "'");
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  Stage& s = p.stages[at];
  if (!s.IsReduction() || s.values.size() != 1 || s.outputs[0]->dtype != DType::kI32)
    return InvalidArgument("stage ", stage, " is no sum of i32");
  if (!WritesAllocations(p, s))
    return InvalidArgument("stage ", stage, " writes a result, whose values stay: keep it first");
  const Expr running = RunningOf(c, s)[0], v = s.values[0];
  const Expr product = v->op != ExprOp::kAdd   ? nullptr
                       : v->args[0] == running ? v->args[1]
                       : v->args[1] == running ? v->args[0]
                                               : nullptr;
  if (product == nullptr || product->op != ExprOp::kMul)
    return InvalidArgument("stage ", stage, " is no sum of products");
  const size_t k = factor == "lhs" ? 0 : 1;
  const Expr own = product->args[k], other = product->args[1 - k];
  if (own->op != ExprOp::kCast || !IsByte(own->args[0]->type.dtype)) {
    return InvalidArgument("stage ", stage, ": expected i32 of i8 or of u8 as its ", factor, ", got ",
                           PrintsWithin(own, 100) ? Print(own) : std::string("more"));
  }
  // x + 128 of an i8 is in u8, x - 128 of an u8 in i8; of bytes both are the same sum.
  const bool was_signed = own->args[0]->type.dtype == DType::kI8;
  const DType from = own->args[0]->type.dtype, to = was_signed ? DType::kU8 : DType::kI8;
  const Expr half = c.Int(was_signed ? -128 : 128, from);
  const Expr moved = c.Cast(DType::kI32, c.Cast(to, c.Add(own->args[0], half)));

  Stage sum;
  sum.name = name;
  sum.origin = s.origin;
  std::vector<std::string> names = {name};
  std::vector<Expr> shape, indices;  // of the sum, and of it where the stage's result is read
  std::vector<size_t> dims;
  VarMap renamed;
  const auto add = [&](const StageIter& i, std::vector<StageIter>& iters) {
    names.push_back(Cat(name, "_", names.size() - 1));
    iters.push_back({c.Var(names.back()), i.extent});
    renamed[i.var] = iters.back().var;
  };
  for (size_t d = 0; d < s.iters.size(); ++d) {
    if (!IsInt(s.iters[d].extent, 1) && !Uses(other, s.iters[d].var)) continue;
    add(s.iters[d], sum.iters);
    shape.push_back(s.iters[d].extent);
    dims.push_back(d);
  }
  if (dims.empty()) {  // one number
    sum.iters.push_back({c.Var(Cat(name, "_", 0)), c.Int(1)});
    names.push_back(sum.iters[0].var->name);
    shape.push_back(c.Int(1));
  }
  for (const StageIter& i : s.reduce_iters) add(i, sum.reduce_iters);
  RETURN_IF_ERROR(CheckNew(p, names));
  const Buffer made = c.MakeBuffer({.name = name, .dtype = DType::kI32, .shape = shape});
  sum.outputs = {made};
  sum.inits = {c.Const(0, DType::kI32)};
  sum.values = {c.Add(c.Load(made, VarsOf(sum.iters)), Substitute(c, other, renamed))};

  s.values[0] = c.Add(running, k == 0 ? c.Mul(moved, other) : c.Mul(other, moved));
  const Expr times = c.Int(was_signed ? -128 : 128, DType::kI32);
  const Buffer result = s.outputs[0];
  for (size_t r = at + 1; r < p.stages.size(); ++r) {
    for (Expr& value : p.stages[r].values) {
      Rewriter* self = nullptr;
      Rewriter rewrite(c, [&](Expr e) -> Expr {
        if (e->op != ExprOp::kLoad || e->buffer != result) return nullptr;
        std::vector<Expr> places, of_sum;
        for (Expr i : IndicesOf(e)) places.push_back((*self)(i));
        for (size_t d : dims) of_sum.push_back(places[d]);
        if (dims.empty()) of_sum.push_back(c.Int(0));
        const Expr mask = MaskOf(e) == nullptr ? nullptr : (*self)(MaskOf(e));
        return c.Add(c.Load(result, places, mask), c.Mul(c.Load(made, of_sum, mask), times));
      });
      self = &rewrite;
      value = rewrite(value);
    }
  }
  p.stages.insert(p.stages.begin() + static_cast<ptrdiff_t>(at) + 1, std::move(sum));
  return p;
}

}  // namespace cinn_like::ir
