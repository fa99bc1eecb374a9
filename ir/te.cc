#include "ir/te.h"

#include <algorithm>
#include <limits>

#include "ir/join.h"

namespace cinn_like::ir {

Expr Identity(Context& c, Combiner k, DType t) {
  const double inf = std::numeric_limits<double>::infinity();
  const int bits = InfoOf(t).bits;
  switch (k) {
    case Combiner::kSum:
      return c.Const(0, t);
    case Combiner::kProd:
      return c.Const(1, t);
    case Combiner::kAny:
      return c.Bool(false);
    case Combiner::kAll:
      return c.Bool(true);
    case Combiner::kMax:
      if (IsFloat(t)) return c.Float(-inf, t);
      return c.Int(IsSigned(t) ? std::numeric_limits<int64_t>::min() >> (64 - bits) : 0, t);
    case Combiner::kMin:
      if (IsFloat(t)) return c.Float(inf, t);
      if (t == DType::kBool) return c.Bool(true);
      return c.Int(IsSigned(t) ? std::numeric_limits<int64_t>::max() >> (64 - bits) : -1, t);
  }
  return nullptr;
}

Expr NeutralOf(Context& c, ExprOp op, DType t) {
  switch (op) {
    case ExprOp::kAdd:
      return Identity(c, Combiner::kSum, t);
    case ExprOp::kMul:
      return Identity(c, Combiner::kProd, t);
    case ExprOp::kMax:
      return Identity(c, Combiner::kMax, t);
    case ExprOp::kMin:
      return Identity(c, Combiner::kMin, t);
    case ExprOp::kOr:
      return Identity(c, Combiner::kAny, t);
    case ExprOp::kAnd:
      return Identity(c, Combiner::kAll, t);
    default:
      return nullptr;
  }
}

Expr Combine(Context& c, Combiner k, Expr a, Expr b) {
  switch (k) {
    case Combiner::kSum:
      return c.Make(ExprOp::kAdd, {a, b});
    case Combiner::kProd:
      return c.Make(ExprOp::kMul, {a, b});
    case Combiner::kMax:
      return c.Make(ExprOp::kMax, {a, b});
    case Combiner::kMin:
      return c.Make(ExprOp::kMin, {a, b});
    case Combiner::kAny:
      return c.Make(ExprOp::kOr, {a, b});
    case Combiner::kAll:
      return c.Make(ExprOp::kAnd, {a, b});
  }
  return nullptr;
}

namespace {
std::vector<StageIter> MakeIters(Te& te, std::string_view base, const std::vector<Expr>& extents) {
  std::vector<StageIter> r;
  for (Expr e : extents) r.push_back({te.context().Var(te.FreshName(base)), e});
  return r;
}
}  // namespace

std::vector<Expr> VarsOf(const std::vector<StageIter>& iters) {
  std::vector<Expr> r;
  for (const StageIter& i : iters) r.push_back(i.var);
  return r;
}

bool Writes(const Stage& s, Buffer b) { return Contains(s.outputs, b) || Contains(s.running, b); }

bool Contains(const std::vector<Buffer>& buffers, Buffer b) {
  return std::find(buffers.begin(), buffers.end(), b) != buffers.end();
}

std::vector<Buffer> InputsOf(const Stage& s) {
  std::vector<Buffer> r;
  for (Expr v : s.values) {
    VisitLoads(v, [&](Expr e) {
      if (!Writes(s, e->buffer) && !Contains(r, e->buffer)) r.push_back(e->buffer);
    });
  }
  if (s.IsCall()) return BuffersRead(s.call);
  return r;
}

Expr InlineLoads(Context& c, Expr e, Buffer buffer, const std::vector<Expr>& iters, Expr value) {
  // Loads of an index, too: where the element is not asked for, nor is the index.
  auto masked = [&](Expr v, Expr mask) {
    Rewriter* all = nullptr;
    Rewriter under(c, [&](Expr x) -> Expr {
      if (x->op != ExprOp::kLoad) return x->reads ? nullptr : x;
      std::vector<Expr> indices = IndicesOf(x);
      for (Expr& i : indices) i = (*all)(i);
      Expr own = MaskOf(x);
      return c.Load(x->buffer, std::move(indices), own == nullptr ? mask : c.And(mask, (*all)(own)));
    });
    all = &under;
    return under(v);
  };
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr x) -> Expr {
    if (x->op != ExprOp::kLoad || x->buffer != buffer) return x->reads ? nullptr : x;
    VarMap at;
    for (size_t d = 0; d < iters.size(); ++d) at[iters[d]] = (*self)(x->args[d]);
    const Expr v = Substitute(c, value, at);
    Expr mask = MaskOf(x);
    if (mask == nullptr) return v;
    mask = (*self)(mask);
    // A load, converted or not, gives 0 under a mask of its own: it stays a load.
    Expr bare = v;
    while (bare->op == ExprOp::kCast) bare = bare->args[0];
    if (bare->op == ExprOp::kLoad) return masked(v, mask);
    return c.Select(mask, masked(v, mask), c.Const(0, v->type.dtype));
  });
  self = &rewrite;
  return rewrite(e);
}

Buffer Te::Compute(std::string_view name, DType dtype, std::vector<Expr> shape,
                   const std::function<Expr(Indices)>& value) {
  Stage s;
  s.name = FreshName(name);
  s.iters = MakeIters(*this, "i", shape);
  s.outputs = {c_.MakeBuffer({.name = s.name, .dtype = dtype, .shape = std::move(shape)})};
  s.values = {value(VarsOf(s.iters))};
  stages_.push_back(std::move(s));
  return stages_.back().outputs[0];
}

Buffer Te::Reduce(std::string_view name, Combiner combiner, DType dtype, std::vector<Expr> shape,
                  std::vector<Expr> reduce_extents, const std::function<Expr(Indices, Indices)>& element) {
  return ReduceTuple(name, {dtype}, std::move(shape), std::move(reduce_extents), {Identity(c_, combiner, dtype)},
                     [&](Indices i, Indices r, Indices running) {
                       return std::vector<Expr>{Combine(c_, combiner, running[0], element(i, r))};
                     })[0];
}

std::vector<Buffer> Te::ReduceArg(std::string_view name, bool largest, DType dtype, std::vector<Expr> shape,
                                  std::vector<Expr> reduce_extents,
                                  const std::function<Expr(Indices, Indices)>& element) {
  const Expr worst = Identity(c_, largest ? Combiner::kMax : Combiner::kMin, dtype);
  const Expr nowhere = c_.Int(std::numeric_limits<int64_t>::max());
  return ReduceTuple(name, {dtype, DType::kI64}, std::move(shape), reduce_extents, {worst, nowhere},
                     [&](Indices i, Indices r, Indices best) -> std::vector<Expr> {
                       Expr place = r.empty() ? c_.Int(0) : r[0];
                       for (size_t k = 1; k < r.size(); ++k) place = c_.Add(c_.Mul(place, reduce_extents[k]), r[k]);
                       const Expr x = element(i, r), first = ComesFirst(c_, largest, x, place, best[0], best[1]);
                       return {c_.Make(ExprOp::kSelect, {first, x, best[0]}),
                               c_.Make(ExprOp::kSelect, {first, place, best[1]})};
                     });
}

std::vector<Buffer> Te::ReduceTuple(std::string_view name, std::vector<DType> dtypes, std::vector<Expr> shape,
                                    std::vector<Expr> reduce_extents, std::vector<Expr> inits,
                                    const std::function<std::vector<Expr>(Indices, Indices, Indices)>& next) {
  Stage s;
  s.name = FreshName(name);
  s.iters = MakeIters(*this, "i", shape);
  s.reduce_iters = MakeIters(*this, "r", reduce_extents);
  s.inits = std::move(inits);
  std::vector<Expr> running;
  for (size_t k = 0; k < dtypes.size(); ++k) {
    const std::string buffer = k == 0 ? s.name : FreshName(name);
    s.outputs.push_back(c_.MakeBuffer({.name = buffer, .dtype = dtypes[k], .shape = shape}));
    running.push_back(c_.Load(s.outputs[k], VarsOf(s.iters)));
  }
  s.values = next(VarsOf(s.iters), VarsOf(s.reduce_iters), running);
  if (s.reduce_iters.empty()) {
    // A reduction over no axes combines exactly one element.
    for (size_t k = 0; k < s.values.size(); ++k) {
      s.values[k] = Rewriter(c_, [&](Expr e) -> Expr {
        for (size_t j = 0; j < running.size(); ++j) {
          if (e == running[j]) return s.inits[j];
        }
        return nullptr;
      })(s.values[k]);
    }
    s.inits.clear();
  }
  stages_.push_back(std::move(s));
  return stages_.back().outputs;
}

std::vector<Buffer> Te::Scan(std::string_view name, std::vector<DType> dtypes, const std::vector<DType>& wide,
                             std::vector<Expr> shape, size_t dim, std::vector<Expr> inits,
                             const std::function<std::vector<Expr>(Indices, Indices)>& next) {
  if (IsInt(shape[dim], 1)) {  // one step
    std::vector<Buffer> r;
    for (size_t k = 0; k < dtypes.size(); ++k)
      r.push_back(Compute(name, dtypes[k], shape, [&](Indices i) { return c_.Cast(dtypes[k], next(i, inits)[k]); }));
    return r;
  }
  Stage s;
  s.name = FreshName(name);
  s.iters = MakeIters(*this, "i", shape);
  s.along = s.iters[dim].var;
  s.inits = std::move(inits);
  std::vector<Expr> others = shape;
  others.erase(others.begin() + static_cast<ptrdiff_t>(dim));
  for (size_t k = 0; k < dtypes.size(); ++k) {
    const std::string buffer = k == 0 ? s.name : FreshName(name);
    s.outputs.push_back(c_.MakeBuffer({.name = buffer, .dtype = dtypes[k], .shape = shape}));
    s.running.push_back(c_.MakeBuffer({.name = FreshName(Cat(name, "_run")), .dtype = wide[k], .shape = others}));
  }
  s.values = next(VarsOf(s.iters), RunningOf(c_, s));
  stages_.push_back(std::move(s));
  return stages_.back().outputs;
}

std::vector<Buffer> Te::Extern(std::string_view name, const std::vector<DType>& dtypes,
                               const std::vector<std::vector<Expr>>& shapes, const std::vector<ExternInput>& inputs,
                               std::string_view function) {
  Stage s;
  s.name = FreshName(name);
  Call call = CallOfFunction(std::string(function));
  for (const ExternInput& x : inputs) {
    const Buffer* b = std::get_if<Buffer>(&x);
    b != nullptr ? AddInput(c_, call, *b) : AddInput(call, std::get<Expr>(x));
  }
  for (size_t k = 0; k < dtypes.size(); ++k) {
    const std::string buffer = k == 0 ? s.name : FreshName(name);
    s.outputs.push_back(c_.MakeBuffer({.name = buffer, .dtype = dtypes[k], .shape = shapes.at(k)}));
    AddOutput(c_, call, s.outputs.back());
  }
  s.call = MakeStmt(std::move(call));
  stages_.push_back(std::move(s));
  return stages_.back().outputs;
}

}  // namespace cinn_like::ir
