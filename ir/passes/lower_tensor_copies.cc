#include "ir/passes/lower_tensor_copies.h"

#include <algorithm>

#include "ir/tensor_copy.h"

namespace cinn_like::ir {
namespace {

bool IsTensorCopy(const Stmt& s) {
  const For* n = As<For>(s);
  return n != nullptr && n->kind == ForKind::kTensorCopy;
}

int64_t CountCopies(const Stmt& s) {
  int64_t r = 0;
  VisitStmts(s, [&](const Stmt& x) {
    r += IsTensorCopy(x) ? 1 : 0;
    return true;
  });
  return r;
}

bool Is(const Stmt& s, BarrierScope scope) {
  const Barrier* n = As<Barrier>(s);
  return n != nullptr && n->scope == scope;
}

class Lowerer {
 public:
  explicit Lowerer(const Func& f) : c_(*f.context), names_(f), a_(f) {
    VisitStmts(f.body, [&](const Stmt& s) {
      if (const For* n = As<For>(s)) a_.BindRange(n->var, c_.Int(0), n->extent);
      return true;
    });
  }

  Stmt Walk(const Stmt& s) {
    if (const Seq* seq = As<Seq>(s)) {
      std::vector<Stmt> out;
      for (const Stmt& x : seq->stmts) {
        const For* n = As<For>(x);
        if (n != nullptr && PipelineStages(n->kind) > 0 && CountCopies(x) > 0) {
          // The groups before the loop are already there.
          Status status = Lower(*n, out);
          if (status.ok()) continue;
          status_.Update(status);
        }
        out.push_back(Walk(x));
      }
      return MakeSeq(std::move(out));
    }
    const For* n = As<For>(s);
    if (n != nullptr && n->kind == ForKind::kTensorCopy) {
      // A group's, or nobody's: Lower takes the former from here.
      pending_.push_back(n->var->name);
      return s;
    }
    const bool again = (n != nullptr && !IsBlockAxis(n->kind) && !IsThreadAxis(n->kind)) || As<While>(s) != nullptr;
    const bool blocks = n != nullptr && IsBlockAxis(n->kind);
    if (blocks && blocks_ == 0) written_ = BuffersWritten(s);
    blocks_ += blocks ? 1 : 0;
    const bool threads = n != nullptr && IsThreadAxis(n->kind);
    again_ += again ? 1 : 0;
    if (threads) threads_.push_back(n);
    const Stmt r = MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return Walk(x); });
    if (threads) threads_.pop_back();
    blocks_ -= blocks ? 1 : 0;
    again_ -= again ? 1 : 0;
    return r;
  }

  Status status() const {
    RETURN_IF_ERROR(status_);
    if (pending_.empty()) return absl::OkStatus();
    return InvalidArgument(Name(ForKind::kTensorCopy), " ", pending_[0],
                           ": it stands in no pipelined loop, where what it copies is waited for");
  }

 private:
  // The loop, behind its groups, which `out` ends with.
  Status Lower(const For& n, std::vector<Stmt>& out) {
    const auto refuse = [&](const auto&... why) {
      return Unimplemented("loop ", n.var->name, " @", Name(n.kind), " with a ", Name(ForKind::kTensorCopy), ": ",
                           why...);
    };
    const Seq* body = As<Seq>(n.body);
    if (body == nullptr || !Is(body->stmts[0], BarrierScope::kAwaitCopies))
      return refuse("expected it to begin with `await copies`");
    if (again_ > 0) return refuse("it stands in a loop, and its barriers of memory serve once");
    const int64_t stages = PipelineStages(n.kind), ahead = As<Barrier>(body->stmts[0])->pending + 1;
    // Back to where the first group begins.
    size_t first = out.size();
    for (int64_t k = 0; k < ahead;) {
      if (first-- == 0) return refuse("expected ", ahead, " groups of copies before it");
      if (Is(out[first], BarrierScope::kBeginCopies)) ++k;
    }
    const std::vector<Stmt> groups(out.begin() + static_cast<ptrdiff_t>(first), out.end());
    out.resize(first);
    for (const Stmt& s : groups) {
      VisitStmts(s, [&](const Stmt& x) {
        if (IsTensorCopy(x)) std::erase(pending_, As<For>(x)->var->name);
        return true;
      });
    }
    const int64_t copies = CountCopies(n.body);

    BufferNode node;
    node.name = names_.Fresh("arrivals");
    node.dtype = DType::kU64;
    node.scope = Scope::kShared;
    node.shape = {c_.Int(stages)};
    const Buffer arrivals = c_.MakeBuffer(std::move(node));
    const auto arrival = [&](Expr slot) { return c_.Address(arrivals, {slot}); };
    const auto call = [&](std::string_view callee, std::vector<Expr> args) {
      return MakeStmt(Call{.callee = std::string(callee),
                           .is_runtime = true,
                           .text = {},
                           .args = std::move(args),
                           .meaning = MakeSeq({})});
    };
    std::vector<Stmt> asked;
    int64_t group = -1;
    for (const Stmt& s : groups) {
      if (Is(s, BarrierScope::kBeginCopies)) ++group;
      ASSIGN_OR_RETURN(asked.emplace_back(), Ask(s, arrival(c_.Int(group % stages)), threads_));
    }
    // One thread, which asks for the copies too, begins.
    Stmt init = call(kInitArrivals, {arrival(c_.Int(0)), c_.Int(stages), c_.Int(copies)});
    for (size_t i = axes_.size(); i-- > 0;)
      init = MakeStmt(For{c_.Var(names_.Fresh("one")), c_.Int(1), axes_[i], init});
    out.insert(out.end(), {MakeStmt(Alloc{arrivals}), init, MakeStmt(Barrier{})});
    out.insert(out.end(), asked.begin(), asked.end());

    std::vector<Stmt> loop;
    for (size_t i = 0; i < body->stmts.size(); ++i) {
      const Expr slot = c_.Mod(c_.Add(n.var, c_.Int(ahead)), c_.Int(stages));
      ASSIGN_OR_RETURN(loop.emplace_back(), Ask(body->stmts[i], arrival(slot), threads_));
      if (i > 0) continue;
      const Expr turn = c_.Mod(c_.Div(n.var, c_.Int(stages)), c_.Int(2));
      loop.push_back(call(kAwaitCopies, {arrival(c_.Mod(n.var, c_.Int(stages))), turn}));
    }
    out.push_back(MakeStmt(For{n.var, n.extent, n.kind, MakeSeq(std::move(loop))}));
    return absl::OkStatus();
  }

  // `s` with calls for its nests; `around`: the loops over threads.
  StatusOr<Stmt> Ask(const Stmt& s, Expr arrival, std::vector<const For*> around) {
    const For* n = As<For>(s);
    if (n == nullptr || n->kind != ForKind::kTensorCopy) {
      if (n != nullptr && IsThreadAxis(n->kind)) around.push_back(n);
      Status status;
      const Stmt r = MapChildren(
          s, [](Expr e) { return e; },
          [&](const Stmt& x) {
            StatusOr<Stmt> asked = Ask(x, arrival, around);
            status.Update(asked.status());
            return asked.ok() ? *asked : x;
          });
      RETURN_IF_ERROR(status);
      return r;
    }
    axes_.clear();
    for (size_t i = 0; i < around.size(); ++i) {
      const For* t = around[i];
      if (i >= threads_.size()) axes_.push_back(t->kind);
      if (!IsInt(t->extent, 1))
        return InvalidArgument(Name(n->kind), " ", n->var->name, ": one thread asks for a copy, and ", t->var->name,
                               " are ", Print(t->extent));
    }
    ASSIGN_OR_RETURN(TensorCopy copy, MatchTensorCopy(a_, *n));
    const std::vector<Expr>& shape = copy.to->buffer->shape;
    if (copy.map.box[0] != shape.back() || copy.map.box[1] != shape[shape.size() - 2])
      return InvalidArgument(Name(n->kind), " ", n->var->name, ": expected to fill ", copy.to->buffer->name,
                             ", all of ", Print(shape[shape.size() - 2]), " rows of ", Print(shape.back()));
    const Buffer from = copy.map.address->buffer;
    if (std::find(written_.begin(), written_.end(), from) != written_.end())
      return InvalidArgument(Name(n->kind), " ", n->var->name, ": the kernel writes ", from->name,
                             ", and a copy engine may not see it");
    copy.arrival = arrival;
    return MakeStmt(CallOf(copy, MakeStmt(For{n->var, n->extent, ForKind::kSerial, n->body})));
  }

  Context& c_;
  NameSupply names_;
  Analyzer a_;
  std::vector<const For*> threads_;   // loops around
  std::vector<Buffer> written_;       // by the kernel
  int blocks_ = 0;                    // loops over them around
  std::vector<ForKind> axes_;         // of the last nest's one thread, inside of these
  std::vector<std::string> pending_;  // nests that no pipelined loop has been found for
  int again_ = 0;                     // loops around
  Status status_;
};

}  // namespace

StatusOr<Func> LowerTensorCopies(Func f, const LaunchLimits& limits) {
  if (!limits.tensor_copies || CountCopies(f.body) == 0) return f;
  Lowerer lowerer(f);
  f.body = lowerer.Walk(f.body);
  RETURN_IF_ERROR(Annotate(lowerer.status(), Cat("@", f.name)));
  return f;
}

}  // namespace cinn_like::ir
