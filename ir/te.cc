#include "ir/te.h"

#include <limits>

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

std::vector<Expr> RunningOf(Context& c, const Stage& s) {
  std::vector<Expr> r;
  for (Buffer b : s.outputs) r.push_back(c.Load(b, VarsOf(s.iters)));
  return r;
}

Expr InlineLoads(Context& c, Expr e, Buffer buffer, const std::vector<Expr>& iters, Expr value) {
  auto masked = [&](Expr v, Expr mask) {
    return Rewriter(c, [&](Expr x) -> Expr {
      if (x->op != ExprOp::kLoad) return nullptr;
      Expr own = MaskOf(x);
      return c.Load(x->buffer, IndicesOf(x), own == nullptr ? mask : c.And(mask, own));
    })(v);
  };
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr x) -> Expr {
    if (x->op != ExprOp::kLoad || x->buffer != buffer) return nullptr;
    VarMap at;
    const std::vector<Expr> indices = IndicesOf(x);
    for (size_t d = 0; d < indices.size(); ++d) at[iters[d]] = (*self)(indices[d]);
    const Expr v = Substitute(c, value, at);
    Expr mask = MaskOf(x);
    if (mask == nullptr) return v;
    mask = (*self)(mask);
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

namespace {
// One naive nest with a block for `s`.
Stmt NestOf(Context& c, const Stage& s, NameSupply& names) {
  Block b;
  b.name = names.Fresh("b_" + s.name);
  std::vector<std::pair<Expr, Expr>> loops;
  auto add = [&](const StageIter& i, IterKind kind) {
    if (IsInt(i.extent, 1)) {
      b.iters.push_back({i.var, i.extent, kind, c.Int(0)});
      return;
    }
    Expr loop = c.Var(names.Fresh("l_" + i.var->name));
    b.iters.push_back({i.var, i.extent, kind, loop});
    loops.emplace_back(loop, i.extent);
  };
  for (const StageIter& i : s.iters) add(i, IterKind::kData);
  for (const StageIter& i : s.reduce_iters) add(i, IterKind::kReduce);
  const std::vector<Expr> at = s.at.empty() ? VarsOf(s.iters) : s.at;
  auto stores = [&](const std::vector<Expr>& values) {
    std::vector<Stmt> v;
    // Several outputs read each other's running values: compute all before storing any.
    std::vector<Expr> stored = values;
    if (values.size() > 1) {
      for (Expr& e : stored) {
        Expr var = c.Var(names.Fresh("v"), e->type);
        v.push_back(MakeStmt(Let{var, e}));
        e = var;
      }
    }
    for (size_t k = 0; k < values.size(); ++k) v.push_back(MakeStmt(Store{s.outputs[k], at, stored[k]}));
    return MakeSeq(std::move(v));
  };
  if (s.IsReduction()) b.init = stores(s.inits);
  b.body = stores(s.values);
  Stmt nest = MakeStmt(std::move(b));
  for (auto it = loops.rbegin(); it != loops.rend(); ++it)
    nest = MakeStmt(For{it->first, it->second, ForKind::kSerial, nest});
  return nest;
}
}  // namespace

StatusOr<Func> ToLoops(const TeProgram& p) {
  Func f{p.name, FuncKind::kInternal, p.params, p.symbols, MakeSeq({}), p.context};
  NameSupply names(f);
  absl::flat_hash_set<Buffer> outer;
  for (const Param& q : p.params) {
    if (q.buffer != nullptr) outer.insert(q.buffer);
  }
  for (const Stage& s : p.stages) {
    for (Buffer b : s.outputs) names.Reserve(b->name);
    for (const StageIter& i : s.iters) names.Reserve(i.var->name);
    for (const StageIter& i : s.reduce_iters) names.Reserve(i.var->name);
  }
  std::vector<Stmt> body;
  for (const Stage& s : p.stages) {
    RET_CHECK(s.values.size() == s.outputs.size(), s.name);
    for (Buffer b : s.outputs) {
      RET_CHECK(b->shape.size() == (s.at.empty() ? s.iters.size() : s.at.size()), s.name);
      if (!outer.contains(b)) body.push_back(MakeStmt(Alloc{b}));
    }
  }
  // Allocations come first: nests may then move among each other.
  for (const Stage& s : p.stages) body.push_back(NestOf(*p.context, s, names));
  f.body = MakeSeq(std::move(body));
  return f;
}

}  // namespace cinn_like::ir
