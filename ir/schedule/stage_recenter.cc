// recenter: a sum and the sum of squared distances from a value in one go, around a third one.
#include <algorithm>
#include <cmath>

#include "ir/schedule/stage_parts.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMostSamples = 9;
constexpr int64_t kOfASample = 64;  // elements
constexpr int kMostNodes = 1000;    // of an element that is computed where it is a sample

// select(c, select(d, e, 0), 0) is e, under c and d.
struct Conditional {
  Expr value;
  std::vector<Expr> conditions = {};
};

Conditional WithoutConditions(Expr e) {
  Conditional r{e};
  const auto is_zero = [](Expr x) { return x->op == ExprOp::kFloat && x->float_value == 0; };
  for (; r.value->op == ExprOp::kSelect && is_zero(r.value->args[2]); r.value = r.value->args[1])
    r.conditions.push_back(r.value->args[0]);
  return r;
}

// What stages compute apart, squares or differences, as squares of differences; other values as they are.
Expr WithDifference(const TeProgram& p, Expr e) {
  const auto computed = [&](Expr load, const auto& is_it) -> Expr {
    for (const Stage& s : p.stages) {
      if (load->op != ExprOp::kLoad || !Writes(s, load->buffer)) continue;
      const bool is_known = s.IsPointwise() && s.at.empty() && s.outputs.size() == 1 && is_it(s.values[0]);
      return is_known ? InlineLoads(*p.context, load, load->buffer, VarsOf(s.iters), s.values[0]) : load;
    }
    return load;
  };
  const auto is_square = [](Expr x) { return x->op == ExprOp::kMul && x->args[0] == x->args[1]; };
  e = computed(e, is_square);
  if (!is_square(e)) return e;
  const Expr d = computed(e->args[0], [](Expr x) { return x->op == ExprOp::kSub; });
  return p.context->Mul(d, d);
}

// What an element of `squares` is the squared distance of, and from which value, the same for all that is reduced;
// nulls: of nothing.
Distances DistanceOf(const TeProgram& p, const Stage& squares, Expr element) {
  const Expr square = WithDifference(p, element);
  Distances r;
  if (square->op != ExprOp::kMul || square->args[0] != square->args[1] || square->args[0]->op != ExprOp::kSub) return r;
  for (size_t k = 0; k < 2; ++k) {
    const Expr from = square->args[0]->args[1 - k];
    const bool is_reduced = std::any_of(squares.reduce_iters.begin(), squares.reduce_iters.end(),
                                        [&](const StageIter& i) { return Uses(from, i.var); });
    if (!is_reduced) r.from = from, r.element = square->args[0]->args[k];
  }
  return r;
}

}  // namespace

bool SumsDistances(const TeProgram& p, const Stage& s) {
  return s.IsReduction() && s.values.size() == 1 && s.values[0]->op == ExprOp::kAdd &&
         std::any_of(s.values[0]->args.begin(), s.values[0]->args.end(),
                     [&](Expr e) { return DistanceOf(p, s, WithoutConditions(e).value).from != nullptr; });
}

StatusOr<Distances> FindDistances(const TeProgram& p, const Stage& squares, const Stage& sum) {
  Context& c = *p.context;
  for (const Stage* stage : {&squares, &sum}) {
    if (!stage->IsReduction() || stage->values.size() != 1 || stage->values[0]->op != ExprOp::kAdd ||
        !IsFloat(stage->outputs[0]->dtype) || !stage->at.empty())
      return InvalidArgument("stage ", stage->name, " is no sum of floats");
  }
  const auto differ = [&] {
    return InvalidArgument("stages ", sum.name, " and ", squares.name, " do not sum up the same elements");
  };
  // What has one value may be there or not.
  const auto longer = [](std::vector<StageIter> iters) {
    std::erase_if(iters, [](const StageIter& i) { return IsInt(i.extent, 1); });
    return iters;
  };
  const std::vector<StageIter> iters = longer(AllIters(squares)), iters_of_sum = longer(AllIters(sum));
  if (longer(squares.iters).size() != longer(sum.iters).size() || iters.size() != iters_of_sum.size() ||
      squares.outputs[0]->dtype != sum.outputs[0]->dtype)
    return differ();
  ASSIGN_OR_RETURN(const Join of_squares, JoinOf(c, squares));
  ASSIGN_OR_RETURN(const Join of_sum, JoinOf(c, sum));
  const Conditional squared = WithoutConditions(of_squares.elements[0]);
  Distances r = DistanceOf(p, squares, squared.value);
  if (r.from == nullptr) return InvalidArgument("stage ", squares.name, " sums up no squared differences from a value");
  Analyzer a(c);
  BindFacts(a, p, iters);
  VarMap to;
  for (const StageIter& i : AllIters(sum)) to[i.var] = c.Int(0);
  for (size_t d = 0; d < iters.size(); ++d) {
    if (!a.CanProve(c.Eq(iters[d].extent, iters_of_sum[d].extent))) return differ();
    to[iters_of_sum[d].var] = iters[d].var;
  }
  VarMap ones;
  for (const StageIter& i : AllIters(squares)) {
    if (IsInt(i.extent, 1)) ones[i.var] = c.Int(0);
  }
  const auto at_ones = [&](Expr e) { return ones.empty() ? e : Substitute(c, e, ones); };
  const Conditional summed = WithoutConditions(Substitute(c, of_sum.elements[0], to));
  r.from = at_ones(r.from), r.element = at_ones(r.element);
  std::vector<Expr> conditions = squared.conditions;
  for (Expr& e : conditions) e = at_ones(e);
  if (r.element != summed.value || conditions != summed.conditions) return differ();
  for (Expr e : conditions) r.condition = r.condition == nullptr ? e : c.And(r.condition, e);
  return r;
}

namespace {

class Recenterer {
 public:
  explicit Recenterer(TeProgram p) : p_(std::move(p)), c_(*p_.context) {}

  StatusOr<TeProgram> Run(const std::string& squares, const std::string& sum, const std::string& pivot) {
    ASSIGN_OR_RETURN(of_squares_, FindStage(p_, squares));
    ASSIGN_OR_RETURN(of_sum_, FindStage(p_, sum));
    ASSIGN_OR_RETURN(of_, FindDistances(p_, p_.stages[of_squares_], p_.stages[of_sum_]));
    if (of_sum_ > of_squares_) return InvalidArgument("stage ", squares, " is computed before stage ", sum);
    RETURN_IF_ERROR(CheckFirst());
    RETURN_IF_ERROR(CheckNew(p_, {pivot, pivot + "_sum", pivot + "_squares", pivot + "_count"}));
    const Stage at = Pivot(pivot);
    const Buffer p = at.outputs[0];
    Stage both = Both(pivot, p);
    Stage &q = p_.stages[of_squares_], &s = p_.stages[of_sum_];
    // Where an element of q, or of s, has its sums.
    const auto load = [&](Buffer b, const Stage& of) {
      std::vector<Expr> at;
      auto next = of.iters.begin();
      for (const StageIter& i : q.iters) {
        next = std::find_if(next, of.iters.end(), [](const StageIter& x) { return !IsInt(x.extent, 1); });
        at.push_back(IsInt(i.extent, 1) ? c_.Int(0) : (next++)->var);
      }
      return c_.Load(b, std::move(at));
    };
    const DType type = p->dtype;
    const auto count = [&](const Stage& of) {
      if (both.outputs.size() > 2) return load(both.outputs[2], of);
      Expr n = c_.Int(1);
      for (const StageIter& i : q.reduce_iters) n = c_.Mul(n, i.extent);
      return IsInt(n) ? c_.Const(static_cast<double>(n->int_value), type) : c_.Cast(type, n);
    };
    const auto computes = [&](Stage& of, Expr value) {
      of.reduce_iters.clear();
      of.inits.clear();
      of.values = {value};
    };
    const Expr n = count(q), n_of_sum = count(s);
    const Expr d = c_.Sub(of_.from, load(p, q)), twice = c_.Mul(c_.Const(2, type), load(both.outputs[0], q));
    const Expr moved = c_.Add(load(both.outputs[1], q), c_.Mul(d, c_.Sub(c_.Mul(n, d), twice)));
    computes(q, c_.Select(c_.Lt(moved, c_.Const(0, type)), c_.Const(0, type), moved));
    computes(s, c_.Add(load(both.outputs[0], s), c_.Mul(n_of_sum, load(p, s))));
    const auto before = p_.stages.begin() + static_cast<ptrdiff_t>(of_sum_);
    p_.stages.insert(before, {at, std::move(both)});
    return std::move(p_);
  }

 private:
  // Where any element counts, the first one does: a pivot is near what is summed up.
  Status CheckFirst() {
    const Stage& q = p_.stages[of_squares_];
    Analyzer a(c_);
    BindFacts(a, p_, AllIters(q));
    VarMap first;
    for (const StageIter& i : q.reduce_iters) {
      if (!a.CanProve(c_.Le(c_.Int(1), i.extent)))
        return InvalidArgument("stage ", q.name, " may have no elements: ", Print(i.extent),
                               " is not known to be 1 or more");
      first[i.var] = c_.Int(0);
    }
    if (of_.condition == nullptr) return absl::OkStatus();
    const Analyzer::Assume holds(a, of_.condition);
    if (!a.CanProve(a.Simplify(Substitute(c_, of_.condition, first))))
      return InvalidArgument("the first element of stage ", q.name, " may not count where others do");
    return absl::OkStatus();
  }

  Buffer Alloc(const std::string& name) {
    const Buffer old = p_.stages[of_squares_].outputs[0];
    BufferNode node = *old;
    node.name = name;
    node.strides.clear();
    return c_.MakeBuffer(std::move(node));
  }

  // The median of some elements (of each three, and of the medians), along the diagonal of all that is summed up: few
  // that lie far from all others, as single ones do, don't move it. 0 where it is no number.
  Stage Pivot(const std::string& name) {
    const Stage& q = p_.stages[of_squares_];
    const DType type = q.outputs[0]->dtype;
    int64_t elements = 1, samples = 1;
    for (const StageIter& i : q.reduce_iters) {
      const int64_t most = kMostSamples * kOfASample;
      elements = std::min(elements * (IsInt(i.extent) ? std::max<int64_t>(i.extent->int_value, 1) : most), most);
    }
    while (3 * samples * kOfASample <= elements) samples *= 3;
    Analyzer a(c_);
    BindFacts(a, p_, q.iters);
    std::vector<Expr> found;
    for (int64_t k = 0; k < samples; ++k) {
      VarMap at;
      for (const StageIter& i : q.reduce_iters)
        at[i.var] = a.Simplify(c_.Div(c_.Mul(c_.Int(k), i.extent), c_.Int(samples)));
      const auto here = [&](Expr e) { return Computed(a.Simplify(Substitute(c_, e, at)), of_squares_); };
      const Expr element = here(of_.element), other = k == 0 ? c_.Const(0, type) : found[0];
      found.push_back(of_.condition == nullptr ? element : c_.Select(here(of_.condition), element, other));
    }
    while (found.size() > 1) {
      std::vector<Expr> medians;
      for (size_t k = 0; k < found.size(); k += 3) {
        const Expr low = c_.Min(found[k], found[k + 1]), high = c_.Max(found[k], found[k + 1]);
        medians.push_back(c_.Max(low, c_.Min(high, found[k + 2])));
      }
      found = std::move(medians);
    }
    const Expr finite = c_.Lt(c_.Make(ExprOp::kAbs, {found[0]}), c_.Const(INFINITY, type));
    Stage r;
    r.name = name;
    r.outputs = {Alloc(name)};
    r.iters = q.iters;
    r.values = {c_.Select(finite, found[0], c_.Const(0, type))};
    r.origin = q.origin;
    return Renamed(std::move(r));
  }

  // What stages before `stage` compute element by element is computed here, too, as far as that is not long.
  Expr Computed(Expr e, size_t stage) {
    for (size_t k = stage; k-- > 0;) {
      const Stage& s = p_.stages[k];
      if (!s.IsPointwise() || !s.at.empty() || s.outputs.size() != 1) continue;
      const Expr computed = InlineLoads(c_, e, s.outputs[0], VarsOf(s.iters), s.values[0]);
      if (PrintsWithin(computed, kMostNodes)) e = computed;
    }
    return e;
  }

  // Both sums, of differences from the pivot; and how many there are, where conditions say that.
  Stage Both(const std::string& name, Buffer pivot) {
    const Stage& q = p_.stages[of_squares_];
    const DType type = pivot->dtype;
    const Expr zero = c_.Const(0, type), d = c_.Sub(of_.element, c_.Load(pivot, VarsOf(q.iters)));
    Stage r;
    r.name = name + "_sum";
    r.outputs = {Alloc(name + "_sum"), Alloc(name + "_squares")};
    if (of_.condition != nullptr) r.outputs.push_back(Alloc(name + "_count"));
    r.iters = q.iters;
    r.reduce_iters = q.reduce_iters;
    r.origin = q.origin;
    const std::vector<Expr> elements = {d, c_.Mul(d, d), c_.Const(1, type)};
    for (size_t k = 0; k < r.outputs.size(); ++k) {
      const Expr e = of_.condition == nullptr ? elements[k] : c_.Select(of_.condition, elements[k], zero);
      r.values.push_back(c_.Add(c_.Load(r.outputs[k], VarsOf(r.iters)), e));
      r.inits.push_back(zero);
    }
    return Renamed(std::move(r));
  }

  // With iterators of its own, named after what it writes.
  Stage Renamed(Stage s) {
    NameSupply names(NamesOf(p_));
    VarMap to;
    for (auto* list : {&s.iters, &s.reduce_iters}) {
      for (StageIter& i : *list) {
        const Expr var = c_.Var(names.Fresh(Cat(s.outputs[0]->name, "_", to.size())));
        to[i.var] = var;
        i.var = var;
      }
    }
    for (Expr& v : s.values) v = Substitute(c_, v, to);
    return s;
  }

  TeProgram p_;
  Context& c_;
  size_t of_squares_ = 0, of_sum_ = 0;
  Distances of_;
};

}  // namespace

StatusOr<TeProgram> Recenter(TeProgram p, const std::string& squares, const std::string& sum,
                             const std::string& pivot) {
  return Recenterer(std::move(p)).Run(squares, sum, pivot);
}

}  // namespace cinn_like::ir
