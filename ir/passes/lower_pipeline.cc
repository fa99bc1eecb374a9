#include "ir/passes/lower_pipeline.h"

#include <algorithm>

#include "ir/clone.h"

namespace cinn_like::ir {
namespace {

bool Touches(const Stmt& s, Buffer b) {
  const std::vector<Buffer> r = BuffersRead(s), w = BuffersWritten(s);
  return std::find(r.begin(), r.end(), b) != r.end() || std::find(w.begin(), w.end(), b) != w.end();
}

class Pipeliner {
 public:
  explicit Pipeliner(const Func& f) : c_(*f.context), names_(f) {}

  Stmt Walk(const Stmt& s) {
    const For* n = As<For>(s);
    if (n != nullptr && PipelineStages(n->kind) > 0 && !IsFilledAhead(*n)) return Run(*n);
    return MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return Walk(x); });
  }
  const Status& status() const { return status_; }

 private:
  // By this pass, before.
  static bool IsFilledAhead(const For& n) {
    const Seq* body = As<Seq>(n.body);
    const Barrier* first = body == nullptr || body->stmts.empty() ? nullptr : As<Barrier>(body->stmts[0]);
    return first != nullptr && first->scope == BarrierScope::kAwaitCopies;
  }

  Stmt Run(const For& n) {
    const int stages = PipelineStages(n.kind);
    BufferMap copies;
    std::vector<Stmt> before, body, fills, uses;
    for (const Stmt& s : As<Seq>(n.body) != nullptr ? As<Seq>(n.body)->stmts : std::vector<Stmt>{n.body}) {
      const Alloc* a = As<Alloc>(s);
      if (a == nullptr || a->buffer->scope != Scope::kShared) {
        body.push_back(s);
        continue;
      }
      BufferNode b = *a->buffer;
      b.shape.insert(b.shape.begin(), c_.Int(stages));
      before.push_back(MakeStmt(Alloc{copies[a->buffer] = c_.MakeBuffer(std::move(b))}));
    }
    const auto is_copied = [&](Buffer b) { return copies.contains(b); };
    for (const Stmt& s : body) {
      const std::vector<Buffer> read = BuffersRead(s), written = BuffersWritten(s);
      const bool fills_copies = !written.empty() && std::all_of(written.begin(), written.end(), is_copied);
      const auto is_shared = [](Buffer b) { return b->scope != Scope::kGlobal; };
      const bool first = std::none_of(uses.begin(), uses.end(), [&](const Stmt& x) {
        return std::any_of(written.begin(), written.end(), [&](Buffer b) { return Touches(x, b); });
      });
      if (fills_copies && first && std::none_of(read.begin(), read.end(), is_shared)) {
        fills.push_back(s);
      } else if (std::any_of(written.begin(), written.end(), [](Buffer b) { return b->scope == Scope::kShared; })) {
        status_.Update(
            Unimplemented("loop ", n.var->name, " @", Name(n.kind),
                          ": only what nothing before it in the loop touches, and what reads no memory of the "
                          "block, can fill shared memory:\n",
                          Print(s)));
      } else {
        uses.push_back(s);
      }
    }
    if (fills.empty() || uses.empty()) {
      status_.Update(Unimplemented("loop ", n.var->name, " @", Name(n.kind),
                                   ": expected statements that fill shared memory allocated in it, then others"));
      return MakeStmt(For{n.var, n.extent, ForKind::kSerial, n.body});
    }
    // The iteration before may still be reading its copy.
    const int ahead = stages - (std::all_of(uses.begin(), uses.end(), ReadsLate) ? 2 : 1);
    if (ahead < 1) {
      status_.Update(Unimplemented("loop ", n.var->name, " @", Name(n.kind), ": what is read by ",
                                   Name(ForKind::kWgmma), " alone needs 3 stages at least"));
      return MakeStmt(For{n.var, n.extent, ForKind::kSerial, n.body});
    }
    for (const Stmt& s : fills) {
      for (Buffer b : BuffersRead(s)) {
        const std::vector<Buffer> written = BuffersWritten(n.body);
        if (std::find(written.begin(), written.end(), b) == written.end()) continue;
        status_.Update(Unimplemented("loop ", n.var->name, " @", Name(n.kind), ": it writes ", b->name,
                                     ", which it would read ahead"));
      }
    }
    // The copy of an iteration.
    const auto in_slot = [&](const Stmt& s, Expr slot) { return InSlot(s, copies, slot); };
    const auto fill = [&](Expr at, bool guards) {
      std::vector<Stmt> v;
      const Expr slot = c_.Mod(at, c_.Int(stages));
      for (const Stmt& s : fills) v.push_back(in_slot(CloneFresh(c_, s, names_, {{n.var, at}}), slot));
      Stmt all = MakeSeq(std::move(v));
      if (guards) all = MakeStmt(If{c_.Lt(at, n.extent), all, nullptr});
      return MakeSeq(
          {MakeStmt(Barrier{BarrierScope::kBeginCopies}), all, MakeStmt(Barrier{BarrierScope::kCommitCopies})});
    };
    std::vector<Stmt> out = std::move(before), loop;
    for (int i = 0; i < ahead; ++i) out.push_back(fill(c_.Int(i), !IsInt(n.extent) || n.extent->int_value <= i));
    loop.push_back(MakeStmt(Barrier{BarrierScope::kAwaitCopies, ahead - 1}));
    loop.push_back(MakeStmt(Barrier{}));
    loop.push_back(fill(c_.Add(n.var, c_.Int(ahead)), true));
    for (const Stmt& s : uses) loop.push_back(in_slot(s, c_.Mod(n.var, c_.Int(stages))));
    out.push_back(MakeStmt(For{n.var, n.extent, n.kind, MakeSeq(std::move(loop))}));
    return MakeSeq(std::move(out));
  }

  // Nothing but nests by the units of four warps, in loops: what they add to nobody waits for.
  static bool ReadsLate(const Stmt& s) {
    const For* n = As<For>(s);
    if (n != nullptr) return n->kind == ForKind::kWgmma || ReadsLate(n->body);
    const Seq* seq = As<Seq>(s);
    return seq != nullptr && std::all_of(seq->stmts.begin(), seq->stmts.end(), ReadsLate);
  }

  Stmt InSlot(const Stmt& s, const BufferMap& copies, Expr slot) {
    const auto at = [&](const std::vector<Expr>& indices) {
      std::vector<Expr> r = {slot};
      r.insert(r.end(), indices.begin(), indices.end());
      return r;
    };
    Rewriter* self = nullptr;
    Rewriter rewrite(c_, [&](Expr e) -> Expr {
      if (e->op != ExprOp::kLoad || !copies.contains(e->buffer)) return nullptr;
      std::vector<Expr> indices = IndicesOf(e);
      for (Expr& i : indices) i = (*self)(i);
      const Expr mask = MaskOf(e);
      return c_.Load(copies.at(e->buffer), at(indices), mask == nullptr ? nullptr : (*self)(mask));
    });
    self = &rewrite;
    std::function<Stmt(const Stmt&)> go = [&](const Stmt& x) {
      const Stmt r = MapChildren(x, [&](Expr e) { return rewrite(e); }, go);
      const Store* n = As<Store>(r);
      if (n == nullptr || !copies.contains(n->buffer)) return r;
      return MakeStmt(Store{copies.at(n->buffer), at(n->indices), n->value, n->mask});
    };
    return go(s);
  }

  Context& c_;
  NameSupply names_;
  Status status_;
};

}  // namespace

StatusOr<Func> LowerPipeline(Func f) {
  Pipeliner p(f);
  f.body = p.Walk(f.body);
  RETURN_IF_ERROR(Annotate(p.status(), Cat("@", f.name)));
  return f;
}

}  // namespace cinn_like::ir
