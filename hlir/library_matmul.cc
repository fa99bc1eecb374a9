#include "hlir/library_matmul.h"

#include <array>
#include <cmath>
#include <map>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/row_nests.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

// ---- epilogues ----
// A polynomial in the contraction's value x, the bias and t = tanh(u): however a function is written out, it is one.
using Powers = std::array<int, 3>;
using Poly = std::map<Powers, double>;

Poly Times(const Poly& a, const Poly& b) {
  Poly r;
  for (const auto& [p, x] : a) {
    for (const auto& [q, y] : b) r[{p[0] + q[0], p[1] + q[1], p[2] + q[2]}] += x * y;
  }
  return r;
}
Poly Plus(Poly a, const Poly& b, double scale) {
  for (const auto& [p, x] : b) a[p] += scale * x;
  return a;
}
// Constants may have been rounded to f32, and a few of them multiplied: 4 ULP of f32, as docs/numerics.md says.
constexpr double kNear = 4 * 0x1p-23;
bool Near(const Poly& a, const Poly& b) {
  for (const auto& [p, x] : Plus(a, b, -1)) {
    auto largest = [&](const Poly& q) { return q.contains(p) ? std::abs(q.at(p)) : 0.0; };
    if (std::abs(x) > kNear * std::max(largest(a), largest(b)) + 1e-15) return false;
  }
  return true;
}

const Poly kValue = {{{1, 0, 0}, 1}}, kBias = {{{0, 1, 0}, 1}}, kTanh = {{{0, 0, 1}, 1}};

struct Epilogue {
  Expr bias = nullptr;  // the load
  MatmulEpilogue activation = MatmulEpilogue::kNone;
};

bool IsFloatCast(Expr e) { return e->op == ExprOp::kCast && IsFloat(e->type.dtype) && IsFloat(e->args[0]->type.dtype); }
// One that does not round, or whose rounding fused numerics leave out.
bool IsHarmlessCast(Expr e, bool exact) {
  return IsFloatCast(e) && (!exact || BytesOf(e->type.dtype) > BytesOf(e->args[0]->type.dtype));
}

class EpilogueReader {
 public:
  // `value` in terms of loads of `acc`. Exact: what is written is what is computed, a sum at most and one rounding.
  EpilogueReader(Expr value, Buffer acc, bool exact) : acc_(acc), exact_(exact) {
    if (exact && IsFloatCast(value)) value = value->args[0];
    while (IsHarmlessCast(value, exact)) value = value->args[0];
    if (value->op == ExprOp::kMax) {
      const int zero = IsZero(value->args[0]) ? 0 : 1;
      is_relu_ = IsZero(value->args[zero]);
      if (is_relu_) value = value->args[1 - zero];
    }
    poly_ = Read(value);
  }

  std::optional<Epilogue> Get() const {
    if (!poly_) return std::nullopt;
    Epilogue r{bias_, is_relu_ ? MatmulEpilogue::kRelu : inner_ ? MatmulEpilogue::kGelu : MatmulEpilogue::kNone};
    const Poly x = bias_ == nullptr ? kValue : Plus(kValue, kBias, 1);
    if (is_relu_ && inner_) return std::nullopt;
    if (!inner_) return Near(*poly_, x) ? std::optional(r) : std::nullopt;
    // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
    const Poly u = Times({{{0, 0, 0}, std::sqrt(2 / M_PI)}}, Plus(x, Times(x, Times(x, x)), 0.044715));
    const Poly gelu = Times(Times({{{0, 0, 0}, 0.5}}, x), Plus({{{0, 0, 0}, 1}}, kTanh, 1));
    return Near(*poly_, gelu) && Near(*inner_, u) ? std::optional(r) : std::nullopt;
  }

 private:
  static bool IsZero(Expr e) {
    while (IsFloatCast(e)) e = e->args[0];
    return e->op == ExprOp::kFloat && e->float_value == 0;
  }

  std::optional<Poly> Read(Expr e) {
    auto it = read_.find(e);
    if (it == read_.end()) it = read_.emplace(e, ReadNew(e)).first;
    return it->second;
  }
  std::optional<Poly> ReadNew(Expr e) {
    if (exact_ && e->op != ExprOp::kCast && e->op != ExprOp::kLoad && e->op != ExprOp::kAdd) return std::nullopt;
    switch (e->op) {
      case ExprOp::kCast:
        return IsHarmlessCast(e, exact_) ? Read(e->args[0]) : std::nullopt;
      case ExprOp::kFloat:
        return Poly{{{0, 0, 0}, e->float_value}};
      case ExprOp::kLoad:
        if (e->has_mask) return std::nullopt;
        if (e->buffer == acc_) return kValue;
        if (bias_ != nullptr && bias_ != e) return std::nullopt;
        bias_ = e;
        return kBias;
      case ExprOp::kNeg: {
        const auto x = Read(e->args[0]);
        return x ? std::optional(Times(*x, {{{0, 0, 0}, -1}})) : std::nullopt;
      }
      case ExprOp::kTanh: {
        const auto u = Read(e->args[0]);
        if (!u || (inner_ && !Near(*u, *inner_))) return std::nullopt;
        inner_ = u;
        return kTanh;
      }
      case ExprOp::kAdd:
      case ExprOp::kSub:
      case ExprOp::kMul:
      case ExprOp::kDiv: {
        const auto x = Read(e->args[0]), y = Read(e->args[1]);
        if (!x || !y || x->size() * y->size() > 256) return std::nullopt;
        if (e->op == ExprOp::kMul) return Times(*x, *y);
        if (e->op != ExprOp::kDiv) return Plus(*x, *y, e->op == ExprOp::kAdd ? 1 : -1);
        if (y->size() != 1 || y->begin()->first != Powers{0, 0, 0} || y->begin()->second == 0) return std::nullopt;
        return Times(*x, {{{0, 0, 0}, 1 / y->begin()->second}});
      }
      default:
        return std::nullopt;
    }
  }

  const Buffer acc_;
  const bool exact_;
  std::map<Expr, std::optional<Poly>> read_;
  Expr bias_ = nullptr;
  bool is_relu_ = false;
  std::optional<Poly> inner_, poly_;
};

// ---- index maps ----
enum Operand { kA, kB, kD };

struct Dim {
  Expr extent;
  std::array<Expr, 3> stride;  // per operand, in elements
};

class Matcher {
 public:
  explicit Matcher(const TeProgram& group) : group_(group), c_(*group.context), a_(c_) {}

  std::optional<LibraryMatmul> Run() {
    if (group_.stages.empty() || group_.stages.size() > 2) return std::nullopt;
    const Stage& acc = group_.stages[0];
    const auto con = FindContraction(acc);
    if (!con || acc.outputs.size() != 1 || con->lhs->has_mask || con->rhs->has_mask) return std::nullopt;
    if (con->lhs->buffer->dtype != con->rhs->buffer->dtype || !ReadsAsStored(acc.values[0])) return std::nullopt;
    if (!IsConst(acc.inits[0]) || acc.inits[0]->float_value != 0) return std::nullopt;
    for (const SymbolFact& s : group_.symbols) a_.BindSymbol(s);
    for (const auto* list : {&acc.iters, &acc.reduce_iters}) {
      for (const StageIter& i : *list) Bind(i);
    }
    LibraryMatmul r;
    r.spec.dtype = con->lhs->buffer->dtype;
    if (!Result(acc, r)) return std::nullopt;
    if (acc.outputs[0]->dtype != (r.spec.dtype == DType::kF64 ? DType::kF64 : DType::kF32)) return std::nullopt;
    if (!MatmulSpec::Decode(r.spec.Encode()).ok()) return std::nullopt;

    offset_[kA] = a_.Simplify(OffsetOf(con->lhs));
    offset_[kB] = a_.Simplify(OffsetOf(con->rhs));
    std::vector<Dim> batch, m, n, k;
    for (const auto& [from, to] :
         {std::pair(&con->batch, &batch), std::pair(&con->m, &m), std::pair(&con->n, &n), std::pair(&con->k, &k)}) {
      for (const StageIter& i : *from) {
        if (IsInt(i.extent, 1)) continue;
        std::optional<Dim> d = DimOf(i);
        if (!d) return std::nullopt;
        to->push_back(*d);
      }
    }
    Merge(m);
    Merge(n);
    Merge(k);
    // What does not move as one through its tensors repeats the product.
    auto keep_one = [&](std::vector<Dim>& dims) {
      size_t best = dims.size() - 1;
      for (size_t i = 0; i < dims.size(); ++i) {
        if (IsInt(dims[i].stride[kD], 1)) best = i;
      }
      for (size_t i = 0; i < dims.size(); ++i) {
        if (i != best) batch.push_back(dims[i]);
      }
      if (dims.size() > 1) dims = {dims[best]};
    };
    keep_one(m);
    keep_one(n);
    Merge(batch);
    if (batch.size() > 1 || k.size() > 1) return std::nullopt;
    if (!k.empty() && !a_.CanProve(c_.Lt(c_.Int(0), k[0].extent))) return std::nullopt;

    // The result is written along n: else its transpose is computed.
    const bool swap = !n.empty() && !IsInt(n[0].stride[kD], 1);
    const int a = swap ? kB : kA, b = swap ? kA : kB;
    if (swap) m.swap(n);
    const auto extent = [&](const std::vector<Dim>& d) { return d.empty() ? c_.Int(1) : d[0].extent; };
    const auto stride = [&](const std::vector<Dim>& d, int x) { return d.empty() ? c_.Int(0) : d[0].stride[x]; };
    r.m = extent(m);
    r.n = extent(n);
    r.k = extent(k);
    r.batch = extent(batch);
    bool transpose_d = false;
    if (!Layout(m, n, kD, r.ldd, transpose_d) || transpose_d) return std::nullopt;
    if (!Layout(m, k, a, r.lda, r.spec.transpose_a) || !Layout(k, n, b, r.ldb, r.spec.transpose_b)) return std::nullopt;
    r.stride_a = stride(batch, a);
    r.stride_b = stride(batch, b);
    r.stride_d = stride(batch, kD);
    for (Expr e : {r.stride_a, r.stride_b, r.stride_d}) {
      if (!a_.CanProve(c_.Le(c_.Int(0), e))) return std::nullopt;
    }
    if (bias_ != nullptr && !BiasAlong(n, acc)) return std::nullopt;
    r.a = First(a == kA ? con->lhs : con->rhs);
    r.b = First(b == kB ? con->rhs : con->lhs);
    if (bias_ != nullptr) r.bias = First(bias_);
    return r;
  }

 private:
  void Bind(const StageIter& i) {
    a_.BindRange(i.var, c_.Int(0), i.extent);
    zero_[i.var] = c_.Int(0);
  }

  // The library reads operands as they are in memory: what converts them on the way is lost.
  bool ReadsAsStored(Expr sum) const {
    bool r = true;
    Visit(sum, [&](Expr e) {
      r &= e->op != ExprOp::kCast || IsHarmlessCast(e, group_.exact);
      return e->op != ExprOp::kLoad;
    });
    return r;
  }

  // Where the group writes, in terms of the contraction's iterators, and what it does to the sums.
  bool Result(const Stage& acc, LibraryMatmul& r) {
    std::vector<Expr> at = VarsOf(acc.iters);
    Buffer d = acc.outputs[0];
    if (group_.stages.size() == 2) {
      std::vector<Expr> reads;
      for (Expr v : group_.stages[1].values) {
        Visit(v, [&](Expr e) {
          if (e->op == ExprOp::kLoad && e->buffer == d) reads.push_back(e);
          return true;
        });
      }
      if (reads.size() != 1) return false;  // loads are interned: one read, however often it is used
      const TeProgram aligned = AlignEpilogue(group_);
      const Stage& out = aligned.stages[1];
      if (!out.IsPointwise() || out.values.size() != 1 || out.iters.size() != acc.iters.size()) return false;
      VarMap to;
      for (size_t i = 0; i < out.iters.size(); ++i) {
        // What takes a part of the product has no room for all of it.
        if (!a_.CanProve(c_.Eq(out.iters[i].extent, acc.iters[i].extent))) return false;
        to[out.iters[i].var] = acc.iters[i].var;
      }
      const Expr value = Substitute(c_, out.values[0], to);
      bool in_place = true;
      Visit(value, [&](Expr e) {
        if (e->op == ExprOp::kLoad && e->buffer == d) in_place &= e->args == at;
        return true;
      });
      const auto epilogue = EpilogueReader(value, d, group_.exact).Get();
      if (!in_place || !epilogue) return false;
      bias_ = epilogue->bias;
      r.spec.bias = bias_ != nullptr;
      r.spec.epilogue = epilogue->activation;
      d = out.outputs[0];
      if (!out.at.empty()) {
        at = out.at;
        for (Expr& e : at) e = Substitute(c_, e, to);
      }
    }
    // The library adds to sums of f64 nothing on their way out.
    if (r.spec.dtype == DType::kF64 && (r.spec.bias || r.spec.epilogue != MatmulEpilogue::kNone)) return false;
    r.spec.result = d->dtype;
    if (bias_ != nullptr && bias_->buffer->dtype != d->dtype) return false;
    const Expr load = c_.Load(d, at);
    offset_[kD] = a_.Simplify(OffsetOf(load));
    r.d = First(load);
    return true;
  }

  Expr OffsetOf(Expr load) { return ElementOffset(c_, load->buffer, load->args); }

  // The address at the iterators' first values.
  Expr First(Expr load) {
    std::vector<Expr> at;
    for (Expr e : load->args) at.push_back(a_.Simplify(Substitute(c_, e, zero_)));
    return c_.Address(load->buffer, std::move(at));
  }

  // How `offset` grows with `var`; null if not by the same everywhere.
  Expr StrideOf(Expr offset, Expr var) {
    const Expr step = StepAlong(a_, offset, var);
    for (Expr v : VarsOf(step)) {
      if (zero_.contains(v)) return nullptr;
    }
    bool has_load = false;
    Visit(step, [&](Expr e) { return !(has_load |= e->op == ExprOp::kLoad); });
    return has_load ? nullptr : step;
  }

  std::optional<Dim> DimOf(const StageIter& i) {
    Dim d{i.extent, {}};
    for (int x : {kA, kB, kD}) {
      d.stride[x] = StrideOf(offset_[x], i.var);
      if (d.stride[x] == nullptr) return std::nullopt;
    }
    return d;
  }

  // Two dimensions are one where every operand moves from the inner one's end to the outer one's next step.
  void Merge(std::vector<Dim>& dims) {
    for (size_t i = 0; i < dims.size(); ++i) {
      for (size_t j = 0; j < dims.size(); ++j) {
        if (i == j) continue;
        bool one = true;
        for (int x : {kA, kB, kD}) {
          one &= a_.CanProve(c_.Eq(dims[i].stride[x], c_.Mul(dims[j].stride[x], dims[j].extent)));
        }
        if (!one) continue;
        dims[j].extent = a_.Simplify(c_.Mul(dims[i].extent, dims[j].extent));
        dims.erase(dims.begin() + static_cast<int64_t>(i));
        return Merge(dims);
      }
    }
  }

  // An operand of rows and columns, stored along one of them: the distance of the other's steps.
  bool Layout(const std::vector<Dim>& rows, const std::vector<Dim>& columns, int operand, Expr& leading,
              bool& transposed) {
    for (const bool along_rows : {false, true}) {
      const auto& inner = along_rows ? rows : columns;
      const auto& outer = along_rows ? columns : rows;
      if (!inner.empty() && !IsInt(inner[0].stride[operand], 1)) continue;
      const Expr extent = inner.empty() ? c_.Int(1) : inner[0].extent;
      const Expr step = outer.empty() ? extent : outer[0].stride[operand];
      if (!a_.CanProve(c_.Le(extent, step))) continue;
      leading = step;
      transposed = along_rows;
      return true;
    }
    return false;
  }

  // One element of the bias for each of n, side by side, the same for every other iterator.
  bool BiasAlong(const std::vector<Dim>& n, const Stage& acc) {
    const Expr offset = a_.Simplify(OffsetOf(bias_));
    if (n.empty()) return false;
    for (const StageIter& i : acc.iters) {
      if (IsInt(i.extent, 1)) continue;
      const Expr own = StrideOf(offset, i.var);
      if (own == nullptr) return false;
      // It grows where the result moves along n, and with it.
      const Expr along = StrideOf(offset_[kD], i.var);
      const bool moves = IsN(n[0], i, along);
      if (moves ? own != along : !IsInt(own, 0)) return false;
    }
    return true;
  }

  // Iterator `i`, whose step in the result is `step`, is part of dimension n: a step inside of its extent.
  bool IsN(const Dim& n, const StageIter& i, Expr step) { return a_.CanProve(c_.Le(c_.Mul(step, i.extent), n.extent)); }

  const TeProgram& group_;
  Context& c_;
  Analyzer a_;
  VarMap zero_;
  std::array<Expr, 3> offset_ = {};
  Expr bias_ = nullptr;
};

}  // namespace

std::optional<LibraryMatmul> FindLibraryMatmul(const TeProgram& group) { return Matcher(group).Run(); }

}  // namespace cinn_like::hlir
