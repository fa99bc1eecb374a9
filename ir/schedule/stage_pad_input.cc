#include <algorithm>

#include "ir/join.h"
#include "ir/linear.h"
#include "ir/schedule/region.h"
#include "ir/schedule/stage_parts.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::ir {
namespace {

// `condition` as "sum >= 0"; not exact where it is no comparison of integers.
Linear BoundOf(Context& c, Expr condition) {
  Linear r;
  r.exact = false;
  if ((condition->op != ExprOp::kLt && condition->op != ExprOp::kLe) || condition->args[0]->type != kIndexType)
    return r;
  r = AddScaled(ToLinear(c, condition->args[1]), ToLinear(c, condition->args[0]), -1);
  if (condition->op == ExprOp::kLt) AddConstant(r, -1);
  return r;
}

// The bound as one of `var`, which stands for `index`: index + constant >= 0, or constant - index >= 0.
std::optional<Expr> BoundOn(Context& c, const Linear& bound, const Linear& index, Expr var) {
  for (int64_t sign : {1, -1}) {
    const Linear rest = AddScaled(bound, index, -sign);
    const bool moves = std::any_of(rest.terms.begin(), rest.terms.end(), [&](const LinearTerm& t) {
      return std::any_of(index.terms.begin(), index.terms.end(), [&](const LinearTerm& u) { return u.atom == t.atom; });
    });
    if (!rest.exact || moves) continue;
    const Expr e = FromLinear(c, rest, kIndexType.dtype);
    return c.Le(c.Int(0), sign > 0 ? c.Add(e, var) : c.Sub(e, var));
  }
  return std::nullopt;
}

}  // namespace

StatusOr<TeProgram> PadInput(TeProgram p, const std::string& stage, const std::string& buffer,
                             const std::string& name) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  Stage& s = p.stages[at];
  Expr load = nullptr;
  int loads = 0;
  for (Expr v : s.values) {
    VisitLoads(v, [&](Expr e) {
      if (e->buffer->name != buffer || e == load) return;
      load = e;
      ++loads;
    });
  }
  if (loads == 0) return InvalidArgument("stage ", stage, " reads no ", buffer);
  if (loads > 1) return InvalidArgument("stage ", stage, " reads ", buffer, " at more than one place");
  if (!load->has_mask) return InvalidArgument("stage ", stage, " reads ", buffer, " under no condition");
  const std::vector<StageIter> own = AllIters(s);
  absl::flat_hash_map<Expr, Expr> extents;
  for (const StageIter& i : own) extents[i.var] = i.extent;
  Analyzer a(c);
  BindFacts(a, p, own);

  // Of each dimension the iterator of the copy, and the index in the terms of both.
  const std::vector<Expr> index = IndicesOf(load);
  std::vector<std::string> names = {name};
  for (size_t d = 0; d < index.size(); ++d) names.push_back(Cat(name, "_", d));
  RETURN_IF_ERROR(CheckNew(p, names));
  std::vector<Expr> masks(index.size(), nullptr), vars, mins(index.size(), nullptr);
  for (size_t d = 0; d < index.size(); ++d) vars.push_back(c.Var(names[d + 1]));
  for (Expr condition : ConjunctsOf(MaskOf(load))) {
    const Linear bound = BoundOf(c, condition);
    bool found = false;
    for (size_t d = 0; d < index.size() && !found && bound.exact; ++d) {
      const Linear linear = ToLinear(c, index[d]);
      if (linear.IsConst() || !linear.exact) continue;
      const std::optional<Span> span = SpanOf(a, index[d], extents);
      if (!span) continue;
      const std::optional<Expr> on = BoundOn(c, bound, linear, c.Add(vars[d], span->min));
      if (!on) continue;
      masks[d] = masks[d] == nullptr ? *on : c.And(masks[d], *on);
      mins[d] = span->min;
      found = true;
    }
    if (!found)
      return InvalidArgument("the condition ", Print(condition), " is no bound of one of ", buffer, "'s indices");
  }

  Stage copy;
  copy.name = name;
  copy.origin = s.origin;
  std::vector<Expr> shape, from, to;
  Expr mask = nullptr;
  for (size_t d = 0; d < index.size(); ++d) {
    Expr extent = load->buffer->shape[d];
    if (mins[d] != nullptr) extent = a.Simplify(SpanOf(a, index[d], extents)->extent);
    copy.iters.push_back({vars[d], extent});
    shape.push_back(extent);
    from.push_back(mins[d] == nullptr ? vars[d] : a.Simplify(c.Add(vars[d], mins[d])));
    to.push_back(mins[d] == nullptr ? index[d] : a.Simplify(c.Sub(index[d], mins[d])));
  }
  Analyzer inside(c);
  BindFacts(inside, p, copy.iters);
  for (size_t d = 0; d < index.size(); ++d) {
    if (masks[d] == nullptr) continue;
    const Expr bounds = inside.Simplify(masks[d]);
    {
      const Analyzer::Assume asked(inside, bounds);
      if (!inside.CanProve(c.Le(c.Int(0), from[d])) || !inside.CanProve(c.Lt(from[d], load->buffer->shape[d])))
        return InvalidArgument("the condition of stage ", stage, " does not keep ", Print(index[d]), " inside of ",
                               buffer);
    }
    if (!IsTrue(bounds)) mask = mask == nullptr ? bounds : c.And(mask, bounds);
  }
  const Buffer made = c.MakeBuffer({.name = name, .dtype = load->type.dtype, .shape = std::move(shape)});
  copy.outputs = {made};
  copy.values = {c.Load(load->buffer, from, mask)};
  const Expr read = c.Load(made, to);
  for (Expr& v : s.values) v = Rewriter(c, [&](Expr e) { return e == load ? read : nullptr; })(v);
  p.stages.insert(p.stages.begin() + static_cast<ptrdiff_t>(at), std::move(copy));
  return p;
}

}  // namespace cinn_like::ir
