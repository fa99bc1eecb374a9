// rescale: a part of a sum is under the maximum of its own part alone.
#include <algorithm>

#include "ir/schedule/chain_elements.h"
#include "ir/schedule/stage_parts.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::ir {
namespace {

// What a stage joins by `op`, if it is a reduction of one float; null: it is none.
Expr JoinedBy(Context& c, const Stage& s, ExprOp op) {
  if (!s.IsReduction() || s.values.size() != 1 || s.values[0]->op != op || !IsFloat(s.outputs[0]->dtype))
    return nullptr;
  const StatusOr<Join> join = JoinOf(c, s);
  return join.ok() ? join->elements[0] : nullptr;
}

const Stage* WriterOf(const TeProgram& p, Buffer b) {
  const auto it = std::find_if(p.stages.begin(), p.stages.end(), [&](const Stage& s) { return Writes(s, b); });
  return it == p.stages.end() || !it->at.empty() ? nullptr : &*it;
}

}  // namespace

StatusOr<TeProgram> Rescale(TeProgram p, const std::string& stage) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  Stage& s = p.stages[at];
  const Expr element = JoinedBy(c, s, ExprOp::kAdd);
  if (element == nullptr) return InvalidArgument("stage ", stage, " is no sum of floats");
  if (!WritesAllocations(p, s)) return InvalidArgument("stage ", stage, " sums into a result: keep it first");

  // The maximum, of parts that are maxima.
  Expr load = nullptr, part = nullptr;
  const Stage *whole = nullptr, *parts = nullptr;
  Status one;
  VisitLoads(element, [&](Expr e) {
    const Stage* w = WriterOf(p, e->buffer);
    const Expr of = w == nullptr ? nullptr : JoinedBy(c, *w, ExprOp::kMax);
    if (of == nullptr || of->op != ExprOp::kLoad || of->has_mask) return;
    const Stage* q = WriterOf(p, of->buffer);
    if (q == nullptr || JoinedBy(c, *q, ExprOp::kMax) == nullptr) return;
    if (e->has_mask || (load != nullptr && load != e))
      one = InvalidArgument("stage ", stage, " needs a maximum at more than one place: ", Print(e));
    load = e, part = of, whole = w, parts = q;
  });
  RETURN_IF_ERROR(one);
  if (load == nullptr) return InvalidArgument("stage ", stage, " needs no maximum that is joined of parts");
  const auto is_reduced = [&](Expr e) {
    return std::any_of(s.reduce_iters.begin(), s.reduce_iters.end(),
                       [&](const StageIter& i) { return Uses(e, i.var); });
  };
  if (std::any_of(load->args.begin(), load->args.end(), is_reduced))
    return InvalidArgument("stage ", stage, " needs another ", load->buffer->name, " for each element: ", Print(load));

  // Where the sum's own part of the maximum is, and that it is of the same elements.
  const auto differ = [&] {
    return InvalidArgument("stages ", parts->name, " and ", stage, " do not reduce the same parts");
  };
  if (parts->reduce_iters.size() != s.reduce_iters.size()) return differ();
  VarMap to_load, to_sum;
  for (size_t d = 0; d < whole->iters.size(); ++d) to_load[whole->iters[d].var] = load->args[d];
  Analyzer a(c);
  BindFacts(a, p, AllIters(s));
  std::vector<StageIter> of_parts;  // the sum's iterators of which the maximum has none
  for (const StageIter& i : s.iters) {
    const auto uses = [&](Expr e) { return Uses(e, i.var); };
    if (!IsInt(i.extent, 1) && std::none_of(load->args.begin(), load->args.end(), uses)) of_parts.push_back(i);
  }
  std::vector<Expr> own;
  for (size_t d = 0; d < part->args.size(); ++d) {
    const Expr e = part->args[d], extent = parts->iters[d].extent;
    const bool joined = std::any_of(whole->reduce_iters.begin(), whole->reduce_iters.end(),
                                    [&](const StageIter& i) { return i.var == e; });
    if (joined && (of_parts.size() != 1 || !a.CanProve(c.Eq(extent, of_parts[0].extent)))) return differ();
    own.push_back(joined ? of_parts[0].var : a.Simplify(Substitute(c, e, to_load)));
    to_sum[parts->iters[d].var] = own[d];
  }
  for (size_t d = 0; d < s.reduce_iters.size(); ++d) {
    if (!a.CanProve(c.Eq(parts->reduce_iters[d].extent, s.reduce_iters[d].extent))) return differ();
    to_sum[parts->reduce_iters[d].var] = s.reduce_iters[d].var;
  }
  Expr summed = Widened(c, element), compared = Widened(c, Substitute(c, JoinedBy(c, *parts, ExprOp::kMax), to_sum));
  DropConditions(c, summed, compared);
  const DType type = load->type.dtype;
  const Expr was = c.Var("#was", Type{type}), is = c.Var("#is", Type{type});
  Repair repair(a, load, compared, was, is, [](Expr e) { return IsConst(e) ? e : nullptr; });
  StatusOr<Expr> factor = repair.Of(summed);
  RETURN_IF_ERROR(Annotate(factor.status(), Cat("stage ", stage)));

  // What readers make of a part: as chains do (chain.cc), with what was summed while there was nothing above -inf.
  const Buffer sums = s.outputs[0];
  const std::vector<Expr> vars = VarsOf(s.iters);
  const Expr of_part = c.Load(part->buffer, own), sum = c.Load(sums, vars), none = Identity(c, Combiner::kMax, type);
  const Expr moved = c.Mul(sum, c.Cast(sums->dtype, Substitute(c, *factor, {{was, of_part}, {is, load}})));
  const Expr rescaled = c.Select(c.Eq(of_part, none), c.Select(c.Eq(load, none), sum, c.Const(0, sums->dtype)), moved);
  for (size_t k = 0; k < p.stages.size(); ++k) {
    if (k == at) continue;
    for (Expr& v : p.stages[k].values) v = InlineLoads(c, v, sums, vars, rescaled);
  }
  s.values[0] = Rewriter(c, [&](Expr e) -> Expr { return e == load ? of_part : nullptr; })(s.values[0]);
  // Behind the last that it reads now.
  size_t before = at;
  while (before > 0 && std::none_of(p.stages[before - 1].outputs.begin(), p.stages[before - 1].outputs.end(),
                                    [&](Buffer b) { return Contains(InputsOf(p.stages[at]), b); }))
    --before;
  const auto begin = p.stages.begin();
  std::rotate(begin + static_cast<ptrdiff_t>(before), begin + static_cast<ptrdiff_t>(at),
              begin + static_cast<ptrdiff_t>(at) + 1);
  return p;
}

}  // namespace cinn_like::ir
