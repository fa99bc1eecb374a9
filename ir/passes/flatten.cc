#include "ir/passes/flatten.h"

#include "ir/analyzer.h"

namespace cinn_like::ir {
namespace {

class Flattener {
 public:
  explicit Flattener(const Func& f) : c_(*f.context), a_(f), rewrite_(c_, [this](Expr e) { return Access(e); }) {}

  Buffer Flat(Buffer b) {
    auto it = flat_.find(b);
    if (it != flat_.end()) return it->second;
    BufferNode n = *b;
    n.strides.clear();
    if (b->strides.empty()) {
      Expr size = c_.Int(1);
      for (Expr e : b->shape) size = c_.Mul(size, e);
      n.shape = {a_.Simplify(size)};
    } else {
      // The furthest element.
      Expr last = c_.Int(0);
      for (size_t d = 0; d < b->shape.size(); ++d) {
        last = c_.Add(last, c_.Mul(c_.Sub(b->shape[d], c_.Int(1)), b->strides[d]));
      }
      n.shape = {a_.Simplify(c_.Add(last, c_.Int(1)))};
    }
    return flat_[b] = c_.MakeBuffer(std::move(n));
  }

  Expr Index(Buffer b, const std::vector<Expr>& indices) {
    Expr r = c_.Int(0), stride = c_.Int(1);
    std::vector<Expr> terms(indices.size());
    for (size_t d = indices.size(); d-- > 0;) {
      terms[d] = c_.Mul(c_.Cast(DType::kI64, indices[d]), b->strides.empty() ? stride : b->strides[d]);
      if (b->strides.empty()) stride = c_.Mul(stride, b->shape[d]);
    }
    for (Expr t : terms) r = c_.Add(r, t);
    return a_.Simplify(r);
  }

  Stmt Walk(const Stmt& s) {
    if (const For* n = As<For>(s)) a_.BindRange(n->var, c_.Int(0, n->var->type.dtype), n->extent);
    if (const Alloc* n = As<Alloc>(s)) return MakeStmt(Alloc{Flat(n->buffer)});
    Stmt r = MapChildren(s, [&](Expr e) { return rewrite_(e); }, [&](const Stmt& x) { return Walk(x); });
    const Store* n = As<Store>(r);
    return n == nullptr ? r : MakeStmt(Store{Flat(n->buffer), {Index(n->buffer, n->indices)}, n->value, n->mask});
  }

 private:
  Expr Access(Expr e) {
    if (e->op != ExprOp::kLoad && e->op != ExprOp::kAddress) return nullptr;
    std::vector<Expr> indices = IndicesOf(e);
    for (Expr& i : indices) i = rewrite_(i);
    Expr index = Index(e->buffer, indices);
    if (e->op == ExprOp::kAddress) return c_.Address(Flat(e->buffer), {index});
    Expr mask = MaskOf(e);
    return c_.Load(Flat(e->buffer), {index}, mask == nullptr ? nullptr : rewrite_(mask));
  }

  Context& c_;
  Analyzer a_;
  absl::flat_hash_map<Buffer, Buffer> flat_;
  Rewriter rewrite_;
};

}  // namespace

StatusOr<Func> Flatten(Func f) {
  Flattener flattener(f);
  for (Param& p : f.params) {
    if (p.buffer != nullptr) p.buffer = flattener.Flat(p.buffer);
  }
  f.body = flattener.Walk(f.body);
  return f;
}

}  // namespace cinn_like::ir
