// transform_layout: where the elements of an allocation lie.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "ir/linear.h"
#include "ir/schedule/legality.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

// "[i / 4, j * (k + 1)]"
StatusOr<std::vector<Expr>> ParseIndices(Context& c, absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']')
    return InvalidArgument("expected [INDEX, ...] and got '", std::string(text), "'");
  text = text.substr(1, text.size() - 2);
  std::vector<Expr> r;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i < text.size() && (text[i] != ',' || depth != 0)) continue;
    ASSIGN_OR_RETURN(r.emplace_back(), ParseIndexExpr(c, std::string(text.substr(begin, i - begin))));
    begin = i + 1;
  }
  return r;
}

// The sum as an expression; null where arithmetic that wraps would give it another value.
Expr Exactly(Context& c, Analyzer& a, const Linear& sum) {
  return sum.exact ? a.Simplify(FromLinear(c, sum, kIndexType.dtype)) : nullptr;
}

// A product as what is made of the variables, and what is the same for the whole function, at least 1: constants and
// sizes. The first is null where there is no such thing, or where it is itself a product.
struct Scaled {
  Expr value = nullptr, by = nullptr;
};
Scaled SplitScale(Context& c, Analyzer& a, Expr e, int64_t coef, const VarMap& extents) {
  Expr value = nullptr;
  Linear by = Constant(coef);
  bool is_one = true;
  const auto collect = [&](auto& self, Expr x) -> void {
    if (x->op == ExprOp::kMul) {
      self(self, x->args[0]);
      self(self, x->args[1]);
    } else if (std::any_of(extents.begin(), extents.end(), [&](const auto& v) { return Uses(x, v.first); })) {
      is_one = is_one && value == nullptr;
      value = x;
    } else {
      by = Multiply(c, by, ToLinear(c, x), kIndexType.dtype);
    }
  };
  collect(collect, e);
  const Expr scale = Exactly(c, a, by);
  if (!is_one || scale == nullptr || scale->reads || !a.CanProve(c.Le(c.Int(1), scale))) return {nullptr, c.Int(1)};
  return {value, scale};
}

// What a sum of products, quotients and remainders of the variables stays below, if none is negative; null: it is none,
// or beyond what 64 bits count.
Expr BoundOf(Context& c, Analyzer& a, Expr e, const VarMap& extents) {
  const auto of = [&](size_t i) { return BoundOf(c, a, e->args[i], extents); };
  const auto exactly = [&](Linear sum, int64_t constant) {
    AddConstant(sum, constant);
    return Exactly(c, a, sum);
  };
  if (IsInt(e)) return e->int_value >= 0 ? exactly(Constant(e->int_value), 1) : nullptr;
  if (e->op == ExprOp::kVar) return extents.contains(e) ? extents.at(e) : nullptr;
  if (e->op == ExprOp::kAdd) {
    const Expr x = of(0), y = of(1);
    return x == nullptr || y == nullptr ? nullptr : exactly(AddScaled(ToLinear(c, x), ToLinear(c, y), 1), -1);
  }
  if (e->op == ExprOp::kMul) {
    const auto [value, by] = SplitScale(c, a, e, 1, extents);
    const Expr x = value == nullptr ? nullptr : BoundOf(c, a, value, extents);
    if (x == nullptr) return nullptr;
    return exactly(Multiply(c, AddScaled(ToLinear(c, x), Constant(1), -1), ToLinear(c, by), kIndexType.dtype), 1);
  }
  if (e->args.size() != 2 || !IsInt(e->args[1]) || e->args[1]->int_value < 1) return nullptr;
  const Expr x = of(0), k = e->args[1];
  if (x == nullptr) return nullptr;
  if (e->op == ExprOp::kDiv) {
    const Expr rounded = exactly(ToLinear(c, x), k->int_value - 1);
    return rounded == nullptr ? nullptr : a.Simplify(c.Div(rounded, k));
  }
  if (e->op == ExprOp::kMod) return a.CanProve(c.Le(x, k)) ? x : k;
  return nullptr;
}

// Whether the variables follow from the indices: x from x / k and x % k; each term of a sum, where all smaller ones
// together stay below its coefficient.
bool TellApart(Context& c, Analyzer& a, const std::vector<Expr>& vars, const VarMap& extents, std::vector<Expr> known) {
  const auto is_known = [&](Expr e) { return std::find(known.begin(), known.end(), e) != known.end(); };
  const auto learn = [&](Expr e) {
    if (!IsInt(e) && !is_known(e)) known.push_back(e);
  };
  for (size_t i = 0; i < known.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {  // what has been learned since may go with what was known before
      const Expr e = known[j];
      if (e->op == ExprOp::kMod && is_known(a.Simplify(c.Div(e->args[0], e->args[1])))) learn(e->args[0]);
    }
    const Linear sum = ToLinear(c, known[i]);
    std::vector<Scaled> terms;
    for (const LinearTerm& t : sum.terms) terms.push_back(SplitScale(c, a, t.atom, t.coef, extents));
    // The smallest first, as far as that is known.
    for (size_t n = 0; n < terms.size(); ++n) {
      for (size_t m = n; m > 0 && a.CanProve(c.Le(terms[m].by, terms[m - 1].by)); --m)
        std::swap(terms[m], terms[m - 1]);
    }
    Expr below = c.Int(1);  // what the terms so far stay below
    bool digits = sum.exact && !terms.empty();
    for (const auto& [value, by] : terms) {
      const Expr extent = value == nullptr ? nullptr : BoundOf(c, a, value, extents);
      digits = digits && extent != nullptr && a.CanProve(c.Le(below, by));
      if (!digits) break;
      const Linear most = AddScaled(ToLinear(c, extent), Constant(1), -1);
      below = Exactly(c, a, AddScaled(Multiply(c, most, ToLinear(c, by), kIndexType.dtype), ToLinear(c, below), 1));
      digits = below != nullptr;
    }
    for (const auto& [value, by] : terms) {
      if (digits) learn(value);
    }
  }
  return std::all_of(vars.begin(), vars.end(), [&](Expr v) { return is_known(v) || IsInt(extents.at(v), 1); });
}

}  // namespace

StatusOr<Func> TransformLayout(Func f, const std::string& buffer, const std::vector<std::string>& iters,
                               const std::string& indices) {
  Context& c = *f.context;
  auto refuse = [&](const auto&... why) { return InvalidArgument("transform_layout ", buffer, ": ", why...); };
  ASSIGN_OR_RETURN(const Buffer from, FindBuffer(f, buffer));
  const bool is_param = std::any_of(f.params.begin(), f.params.end(), [&](const Param& p) { return p.buffer == from; });
  if (is_param) return refuse("how a parameter lies is its caller's choice");
  if (from->pitch_factor != 0 || !from->strides.empty()) return refuse("its rows are already laid out");
  if (iters.size() != from->shape.size())
    return refuse("expected a name for each of its ", from->shape.size(), " dimensions and got ", iters.size());
  StatusOr<std::vector<Expr>> parsed = ParseIndices(c, indices);
  if (!parsed.ok()) return refuse(std::string(parsed.status().message()));
  std::vector<Expr> vars;
  VarMap extents;
  Analyzer a(c);
  BindFacts(a, f);
  for (size_t d = 0; d < iters.size(); ++d) {
    const Expr var = c.Var(Cat("#", iters[d]));
    if (!extents.emplace(var, from->shape[d]).second) return refuse("two dimensions are named ", iters[d]);
    a.BindRange(var, c.Int(0), from->shape[d]);
    vars.push_back(var);
  }
  VarMap named;
  for (size_t d = 0; d < iters.size(); ++d) named[c.Var(iters[d])] = vars[d];
  BufferNode to = *from;
  to.shape.clear();
  std::vector<Expr> map;
  for (const Expr index : *parsed) {
    map.push_back(a.Simplify(Substitute(c, index, named)));
    const Expr extent = BoundOf(c, a, map.back(), extents);
    if (extent == nullptr) {
      return refuse(
          "expected sums and products, by constants and sizes, and quotients and remainders, by constants, of ", buffer,
          "'s indices, below 2^62, and got ", Print(index));
    }
    to.shape.push_back(extent);
  }
  if (!TellApart(c, a, vars, extents, map)) return refuse("two of its elements would lie at one place of ", indices);

  Dependences dependences(f);
  for (const Access& x : dependences.accesses()) {
    if (x.buffer != from) continue;
    if (x.is_whole) return refuse("a call takes its address");
    if (std::any_of(x.loops.begin(), x.loops.end(), [](const For* n) { return IsTensorized(n->kind); }))
      return refuse("an instruction reads or writes it as it lies (tensorize)");
  }
  const Buffer now = c.MakeBuffer(std::move(to));
  const auto at = [&](const std::vector<Expr>& old) {
    VarMap values;
    for (size_t d = 0; d < vars.size(); ++d) values[vars[d]] = old[d];
    std::vector<Expr> r;
    for (const Expr e : map) r.push_back(Substitute(c, e, values));
    return r;
  };
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr e) -> Expr {
    if (e->op != ExprOp::kLoad || e->buffer != from) return e->reads ? nullptr : e;
    std::vector<Expr> old = IndicesOf(e);
    for (Expr& i : old) i = (*self)(i);
    const Expr mask = MaskOf(e);
    return c.Load(now, at(old), mask == nullptr ? nullptr : (*self)(mask));
  });
  self = &rewrite;
  std::function<Stmt(const Stmt&)> go = [&](const Stmt& s) -> Stmt {
    const Alloc* alloc = As<Alloc>(s);
    if (alloc != nullptr && alloc->buffer == from) return MakeStmt(Alloc{now});
    const Stmt r = MapChildren(s, [&](Expr e) { return rewrite(e); }, go);
    const Store* store = As<Store>(r);
    if (store == nullptr || store->buffer != from) return r;
    return MakeStmt(Store{now, at(store->indices), store->value, store->mask});
  };
  f.body = go(f.body);
  return f;
}

}  // namespace cinn_like::ir
