#include "backends/kernel_facts.h"

#include <algorithm>

#include "cinn_like/base/int_math.h"
#include "ir/analyzer.h"
#include "ir/linear.h"
#include "ir/tensor_copy.h"

namespace cinn_like::backends {
namespace {

bool InRegisters(ir::Buffer b) { return b->scope == ir::Scope::kLocal || b->scope == ir::Scope::kWarp; }
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using VarSet = absl::flat_hash_set<Expr>;

class Finder {
 public:
  explicit Finder(KernelFacts& facts) : facts_(facts) {}

  void Walk(const Stmt& s) {
    if (const auto* n = ir::As<ir::Let>(s)) lets_[n->var] = VarsOf(n->value);
    if (const auto* n = ir::As<ir::Alloc>(s); n != nullptr && n->buffer->scope == ir::Scope::kShared)
      facts_.has_shared = true;
    if (const auto* n = ir::As<ir::Call>(s)) {
      // Not a thread reads and writes what a copy engine does.
      if (ir::IsTensorCall(*n)) return;
      facts_.can_fail = true;
    }
    if (const auto* n = ir::As<ir::If>(s)) chooses_ |= n->otherwise != nullptr;
    if (const auto* n = ir::As<ir::Store>(s)) {
      facts_.written.insert(n->buffer);
      if (InRegisters(n->buffer)) Unroll(n->indices[0]);
    }
    auto expr = [&](Expr e) {
      ir::Visit(e, [&](Expr x) {
        if (x->op == ir::ExprOp::kAddress) facts_.written.insert(x->buffer);
        if (x->op == ir::ExprOp::kLoad) Load(x);
        facts_.has_shuffles |= x->op == ir::ExprOp::kShuffleXor;
        chooses_ |= x->op == ir::ExprOp::kSelect;
        return true;
      });
    };
    const auto* loop = ir::As<ir::For>(s);
    if (loop != nullptr) {
      expr(loop->extent);
      if (ir::IsBlockAxis(loop->kind) || ir::IsThreadAxis(loop->kind))
        facts_.extents[ir::AxisOf(loop->kind)] = loop->extent;
      loops_.push_back(loop);
      Walk(loop->body);
      loops_.pop_back();
      return;
    }
    ir::ForEachChild(s, expr, [&](const Stmt& x) { Walk(x); });
  }

  // own: every index is the block's number in the cluster times as many elements as there are, and less than that.
  void FindOwn(const ir::Func& f) {
    if (facts_.Cluster() == 1) return;
    ir::Context& c = *f.context;
    ir::Analyzer a(c);
    VarSet ranks;
    ir::VarMap lets;
    absl::flat_hash_set<Buffer> shared;
    absl::flat_hash_map<Buffer, std::vector<Expr>> indices;
    ir::VisitStmts(f.body, [&](const Stmt& s) {
      if (const auto* n = ir::As<ir::For>(s)) {
        a.BindRange(n->var, c.Int(0, n->var->type.dtype), n->extent);
        if (n->kind == ir::ForKind::kClusterX) ranks.insert(n->var);
      }
      const auto add = [&](Buffer b, Expr index) {
        if (b->scope == ir::Scope::kShared) indices[b].push_back(ir::Substitute(c, index, lets));
      };
      ir::ForEachChild(
          s,
          [&](Expr e) {
            ir::Visit(e, [&](Expr x) {
              if (x->op == ir::ExprOp::kLoad) add(x->buffer, x->args[0]);
              return true;
            });
          },
          [](const Stmt&) {});
      if (const auto* n = ir::As<ir::Let>(s)) lets[n->var] = ir::Substitute(c, n->value, lets);
      if (const auto* n = ir::As<ir::Store>(s)) add(n->buffer, n->indices[0]);
      return true;
    });
    for (const auto& [b, list] : indices) {
      const int64_t part = ir::IsInt(b->shape[0]) ? b->shape[0]->int_value / facts_.Cluster() : 0;
      const bool own = std::all_of(list.begin(), list.end(), [&](Expr e) {
        ir::Linear l = ir::ToLinear(c, e);
        const auto rank = std::find_if(l.terms.begin(), l.terms.end(), [&](const ir::LinearTerm& t) {
          return ranks.contains(t.atom) && t.coef.value == part;
        });
        if (!l.exact || rank == l.terms.end()) return false;
        ir::RemoveTerm(l, rank->atom);
        const DType t = e->type.dtype;
        const Expr rest = ir::FromLinear(c, l, t);
        return !ir::Uses(rest, ranks) && a.CanProve(c.Le(c.Int(0, t), rest)) && a.CanProve(c.Lt(rest, c.Int(part, t)));
      });
      if (own) facts_.own.insert(b);
    }
  }

  void Finish() {
    for (const auto& [b, load] : loads_) {
      const bool is_written = facts_.written.contains(b);
      facts_.may_read_late |= is_written && chooses_;
      if (load.streams && !is_written) facts_.streamed.insert(b);
    }
  }

 private:
  struct LoadOf {
    Expr load;
    bool streams;
  };

  // The variables that `e` depends on, through lets.
  VarSet VarsOf(Expr e) const {
    VarSet r;
    for (Expr v : ir::VarsOf(e)) {
      r.insert(v);
      if (auto it = lets_.find(v); it != lets_.end()) r.insert(it->second.begin(), it->second.end());
    }
    return r;
  }

  void Unroll(Expr index) {
    const VarSet vars = VarsOf(index);
    for (const ir::For* loop : loops_) {
      if (vars.contains(loop->var) && ir::IsInt(loop->extent)) facts_.unrolled.insert(loop->var);
    }
  }

  void Load(Expr e) {
    if (InRegisters(e->buffer)) Unroll(e->args[0]);
    if (e->buffer->scope != ir::Scope::kGlobal) return;
    const VarSet vars = VarsOf(e->args[0]);
    bool streams = true;
    for (const ir::For* loop : loops_) streams &= vars.contains(loop->var) || ir::IsInt(loop->extent, 1);
    auto [it, inserted] = loads_.try_emplace(e->buffer, LoadOf{e, streams});
    if (!inserted) it->second.streams = false;
  }

  KernelFacts& facts_;
  std::vector<const ir::For*> loops_;
  absl::flat_hash_map<Expr, VarSet> lets_;
  absl::flat_hash_map<Buffer, LoadOf> loads_;
  bool chooses_ = false;
};

}  // namespace

StatusOr<int64_t> KernelFacts::Threads() const {
  WrapInt threads = 1;
  for (size_t i = ir::AxisOf(ir::ForKind::kThreadX); i < extents.size(); ++i) {
    if (extents[i] == nullptr) continue;
    if (!ir::IsInt(extents[i])) {
      return InvalidArgument("the extent of a thread axis must be constant, got ", ir::Print(extents[i]));
    }
    if (i != ir::AxisOf(ir::ForKind::kClusterX)) threads *= extents[i]->int_value;
  }
  return threads;
}

KernelFacts FindKernelFacts(const ir::Func& f) {
  KernelFacts facts;
  Finder finder(facts);
  if (f.body != nullptr) finder.Walk(f.body);
  finder.Finish();
  if (f.body != nullptr) finder.FindOwn(f);
  return facts;
}

}  // namespace cinn_like::backends
