#include <cmath>
#include <map>

#include "hlir/passes/passes.h"
#include "hlir/rebuild.h"

namespace cinn_like::hlir {
namespace {

using Refs = std::vector<ValueRef>;

// One op being rewritten; operands and their producers are of the new graph.
struct Match {
  OpBuilder* b;
  const Op& op;
  const Refs& x;
  const TensorType& type;  // of the first result
  bool fused;              // fused numerics

  const Op* Producer(ValueRef v, std::string_view name) const {
    const Op* p = b->graph().ProducerOf(v.id);
    return p && p->def->name == name ? p : nullptr;
  }
  // The value of a uniform operand.
  std::optional<double> Uniform(size_t k) const {
    const Op* p = Producer(x[k], "full");
    if (!p) return std::nullopt;
    const Attr& value = p->attrs.Number("value");
    if (const double* v = std::get_if<double>(&value)) return *v;
    const auto c = std::get<Dim>(value).AsConst();
    return c ? std::optional<double>(static_cast<double>(*c)) : std::nullopt;
  }
  // `v` in the shape of the result.
  std::optional<ValueRef> Same(ValueRef v) const {
    if (ProvablyEqual(b->DimsOf(v), type.dims, b->graph().symbols())) return v;
    return b->BroadcastTo(v, type.dims);
  }
};

using Rule = std::optional<ValueRef> (*)(const Match&);

// ---- arithmetic ----

// Constants go to the right.
std::optional<ValueRef> Commute(const Match& m) {
  const bool swap = m.Producer(m.x[0], "full") && !m.Producer(m.x[1], "full");
  if (!swap) return std::nullopt;
  return m.b->Call(m.op.def->name, {m.x[1], m.x[0]});
}

std::optional<ValueRef> SimplifyAdd(const Match& m) {
  const auto c = m.Uniform(1);
  // -0.0 + 0.0 is 0.0, while x + -0.0 is x.
  const bool exact = !IsFloat(m.type.dtype) || (c && std::signbit(*c));
  if (c && *c == 0 && (exact || m.fused)) return m.Same(m.x[0]);
  return Commute(m);
}

std::optional<ValueRef> SimplifySub(const Match& m) {
  const auto c = m.Uniform(1);
  if (c && *c == 0 && (!std::signbit(*c) || m.fused)) return m.Same(m.x[0]);
  return std::nullopt;
}

std::optional<ValueRef> SimplifyMul(const Match& m) {
  if (m.Uniform(1) == 1.0) return m.Same(m.x[0]);
  return Commute(m);
}

std::optional<ValueRef> SimplifyDiv(const Match& m) {
  const auto c = m.Uniform(1);
  if (c == 1.0) return m.Same(m.x[0]);
  int exponent = 0;
  // A power of two has an exact reciprocal.
  if (c && std::isnormal(*c) && std::abs(std::frexp(*c, &exponent)) == 0.5 && std::abs(exponent) < 14) {
    return m.b->Mul(m.x[0], m.b->Full(1.0 / *c, m.type.dtype));
  }
  return std::nullopt;
}

std::optional<ValueRef> SimplifyPow(const Match& m) {
  const auto c = m.Uniform(1);
  if (!c) return std::nullopt;
  const ValueRef x = m.x[0];
  std::optional<ValueRef> r;
  if (*c == 1) r = x;
  if (*c == 2) r = m.b->Mul(x, x);
  if (*c == -1) r = m.b->Div(m.b->Full(1.0, m.type.dtype), x);
  if (*c == 3 && m.fused) r = m.b->Mul(m.b->Mul(x, x), x);
  // These differ from pow at -0.0 and -inf.
  if (*c == 0.5 && m.fused) r = m.b->Sqrt(x);
  if (*c == -0.5 && m.fused) r = m.b->Rsqrt(x);
  return r ? m.Same(*r) : std::nullopt;
}

std::optional<ValueRef> SimplifyInvolution(const Match& m) {
  const Op* inner = m.Producer(m.x[0], m.op.def->name);
  return inner ? std::optional(ValueRef{inner->operands[0]}) : std::nullopt;
}

// ---- places ----

// Between which integers all elements lie, both inclusive.
struct Bounds {
  Dim lo, hi;
};

// Of what indices are made of: numbers of places, constants, their sums and products, in any shape. `budget`: ops to
// look at, since sums of sums branch.
std::optional<Bounds> BoundsOf(const OpBuilder& b, ValueRef v, int& budget) {
  const Op* p = b.graph().ProducerOf(v.id);
  if (p == nullptr || --budget < 0 || !IsInt(b.DTypeOf(v))) return std::nullopt;
  const std::string_view name = p->def->name;
  const auto of = [&](size_t k) { return BoundsOf(b, {p->operands[k]}, budget); };
  if (name == "full") {
    const Dim* value = std::get_if<Dim>(&p->attrs.Number("value"));
    return value == nullptr ? std::nullopt : std::optional(Bounds{*value, *value});
  }
  if (name == "iota") return Bounds{Dim(0), b.DimsOf(v)[static_cast<size_t>(p->attrs.Int("axis"))] - Dim(1)};
  for (std::string_view view : {"reshape", "transpose", "broadcast_to", "slice", "copy", "gather", "check_index"}) {
    if (name == view) return of(0);
  }
  if (b.DTypeOf(v) != DType::kI64) return std::nullopt;  // which no sum of places leaves
  const bool is_sum = name == "add", is_difference = name == "sub", is_product = name == "mul";
  if (!is_sum && !is_difference && !is_product) return std::nullopt;
  const std::optional<Bounds> x = of(0), y = of(1);
  if (!x || !y) return std::nullopt;
  if (is_sum) return Bounds{x->lo + y->lo, x->hi + y->hi};
  if (is_difference) return Bounds{x->lo - y->hi, x->hi - y->lo};
  const auto is_negative = [&](const Dim& d) { return RangeOf(d, b.graph().symbols()).lo < 0; };
  if (is_negative(x->lo) || is_negative(y->lo)) return std::nullopt;
  return Bounds{x->lo * y->lo, x->hi * y->hi};
}

std::optional<Bounds> BoundsOf(const Match& m, size_t operand) {
  int budget = 32;
  return BoundsOf(*m.b, m.x[operand], budget);
}

std::optional<ValueRef> SimplifyLt(const Match& m) {
  const std::optional<Bounds> x = BoundsOf(m, 0), y = BoundsOf(m, 1);
  if (!x || !y) return std::nullopt;
  const auto is_positive = [&](const Dim& d) { return RangeOf(d, m.b->graph().symbols()).lo > 0; };
  const bool always = is_positive(y->lo - x->hi), never = is_positive(x->lo - y->hi + Dim(1));
  return always || never ? std::optional(m.b->Full(Dim(always), DType::kBool, m.type.dims)) : std::nullopt;
}

// Places that are known to be inside need no check.
std::optional<ValueRef> SimplifyCheckIndex(const Match& m) {
  const std::optional<Bounds> x = BoundsOf(m, 0);
  if (!x) return std::nullopt;
  const Dim size = m.op.attrs.AsDim("size"), least = m.op.attrs.Bool("from_end") ? Dim(0) - size : Dim(0);
  const auto is_inside = [&](const Dim& d) { return RangeOf(d, m.b->graph().symbols()).lo >= 0; };
  return is_inside(x->lo - least) && is_inside(size - Dim(1) - x->hi) ? std::optional(m.x[0]) : std::nullopt;
}

std::optional<ValueRef> SimplifySelect(const Match& m) {
  const auto c = m.Uniform(0);
  if (c) return m.Same(*c != 0 ? m.x[1] : m.x[2]);
  if (m.x[1].id == m.x[2].id) return m.Same(m.x[1]);
  return std::nullopt;
}

// Whether every value of `a` is a value of `b`.
bool Embeds(DType a, DType b) {
  if (a == b || a == DType::kBool) return true;
  const int bits_a = InfoOf(a).bits, bits_b = InfoOf(b).bits;
  if (IsFloat(a)) return IsFloat(b) && bits_a < bits_b;
  if (IsInt(a) && IsInt(b)) return IsSigned(a) ? IsSigned(b) && bits_a < bits_b : bits_a < bits_b;
  const int precision = b == DType::kF64    ? 53
                        : b == DType::kF32  ? 24
                        : b == DType::kF16  ? 11
                        : b == DType::kBF16 ? 8
                                            : 0;
  return bits_a - IsSigned(a) <= precision;
}

std::optional<ValueRef> SimplifyCast(const Match& m) {
  const DType from = m.b->DTypeOf(m.x[0]), to = m.type.dtype;
  if (from == to) return m.x[0];
  const Op* inner = m.Producer(m.x[0], "cast");
  if (!inner) return std::nullopt;
  const ValueRef source{inner->operands[0]};
  const DType first = m.b->DTypeOf(source);
  // With fused numerics intermediates stay wide: a rounding to 16 bits and back is dropped.
  const bool only_rounds = m.fused && IsHalf(from) && first == to && to == DType::kF32;
  if (!Embeds(first, from) && !only_rounds) return std::nullopt;
  return m.b->Cast(source, to);
}

// ---- views ----

std::optional<ValueRef> SimplifyReshape(const Match& m) {
  if (m.b->DimsOf(m.x[0]) == m.type.dims) return m.x[0];
  const Op* inner = m.Producer(m.x[0], "reshape");
  return inner ? std::optional(m.b->Reshape({inner->operands[0]}, m.type.dims)) : std::nullopt;
}

std::optional<ValueRef> SimplifyBroadcast(const Match& m) {
  if (m.b->DimsOf(m.x[0]) == m.type.dims) return m.x[0];
  const Op* inner = m.Producer(m.x[0], "broadcast_to");
  return inner ? std::optional(m.b->BroadcastTo({inner->operands[0]}, m.type.dims)) : std::nullopt;
}

std::optional<ValueRef> SimplifyTranspose(const Match& m) {
  const std::vector<int64_t> perm = m.op.attrs.Ints("perm");
  if (const Op* inner = m.Producer(m.x[0], "transpose")) {
    std::vector<int64_t> both = inner->attrs.Ints("perm");
    std::vector<int64_t> merged;
    for (int64_t p : perm) merged.push_back(both[p]);
    return m.b->Transpose({inner->operands[0]}, merged);
  }
  // Without the axes of size 1 nothing moves: a reshape.
  int64_t last = -1;
  for (int64_t p : perm) {
    if (m.b->DimsOf(m.x[0])[p] == Dim(1)) continue;
    if (p < last) return std::nullopt;
    last = p;
  }
  return m.b->Reshape(m.x[0], m.type.dims);
}

std::optional<ValueRef> SimplifySlice(const Match& m) {
  const int64_t axis = m.op.attrs.Int("axis"), step = m.op.attrs.Int("step");
  const Dim begin = m.op.attrs.AsDim("begin"), end = m.op.attrs.AsDim("end");
  if (begin == Dim(0) && step == 1 && ProvablyEqual(end, m.b->DimsOf(m.x[0])[axis], m.b->graph().symbols()))
    return m.x[0];
  const Op* inner = m.Producer(m.x[0], "slice");
  if (!inner || inner->attrs.Int("axis") != axis || inner->attrs.Int("step") != 1) return std::nullopt;
  const Dim offset = inner->attrs.AsDim("begin");
  return m.b->Slice({inner->operands[0]}, axis, offset + begin, offset + end, step);
}

std::optional<ValueRef> SimplifyConcat(const Match& m) {
  return m.x.size() == 1 ? std::optional(m.x[0]) : std::nullopt;
}

std::optional<ValueRef> SimplifyPad(const Match& m) {
  for (const char* side : {"low", "high"}) {
    for (const Dim& d : m.op.attrs.AsDims(side)) {
      if (d != Dim(0)) return std::nullopt;
    }
  }
  return m.x[0];
}

std::optional<ValueRef> SimplifyCopy(const Match& m) { return m.x[0]; }

// ---- reductions ----

// Over axes of size 1 there is nothing to combine.
std::optional<ValueRef> SimplifyReduction(const Match& m) {
  for (int64_t a : m.op.attrs.Ints("axes")) {
    if (m.b->DimsOf(m.x[0])[a] != Dim(1)) return std::nullopt;
  }
  return m.b->Reshape(m.x[0], m.type.dims);
}

const std::map<std::string_view, Rule>& Rules() {
  static const std::map<std::string_view, Rule> rules = {
      {"add", SimplifyAdd},
      {"sub", SimplifySub},
      {"mul", SimplifyMul},
      {"div", SimplifyDiv},
      {"pow", SimplifyPow},
      {"maximum", Commute},
      {"minimum", Commute},
      {"neg", SimplifyInvolution},
      {"not", SimplifyInvolution},
      {"lt", SimplifyLt},
      {"check_index", SimplifyCheckIndex},
      {"select", SimplifySelect},
      {"cast", SimplifyCast},
      {"reshape", SimplifyReshape},
      {"broadcast_to", SimplifyBroadcast},
      {"transpose", SimplifyTranspose},
      {"slice", SimplifySlice},
      {"concat", SimplifyConcat},
      {"pad", SimplifyPad},
      {"copy", SimplifyCopy},
      {"reduce_sum", SimplifyReduction},
      {"reduce_max", SimplifyReduction},
      {"reduce_min", SimplifyReduction},
      {"reduce_prod", SimplifyReduction},
      {"reduce_any", SimplifyReduction},
      {"reduce_all", SimplifyReduction},
  };
  return rules;
}

}  // namespace

StatusOr<Graph> Simplify(Graph graph, const PassContext& context) {
  const bool fused = context.options.numerics == "fused";
  // What a rule makes may match another: until nothing changes. Every rule removes an op, moves a constant to the right
  // or replaces an op by a cheaper one, so this ends; the bound only guards that argument.
  constexpr int kMaxRounds = 20;
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = false;
    ASSIGN_OR_RETURN(graph,
                     Rebuild(graph, [&](OpBuilder* b, const Op& op, const Refs& operands) -> std::optional<Refs> {
                       const auto rule = Rules().find(op.def->name);
                       if (rule == Rules().end()) return std::nullopt;
                       const TensorType type = graph.TypeOf(op.results[0]);
                       const std::optional<ValueRef> r = rule->second({b, op, operands, type, fused});
                       if (!r) return std::nullopt;
                       changed = true;
                       return Refs{*r};
                     }));
    if (!changed) break;
    ASSIGN_OR_RETURN(graph, EliminateDeadCode(std::move(graph), context));
  }
  return graph;
}

}  // namespace cinn_like::hlir
