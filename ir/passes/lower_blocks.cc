#include "ir/passes/lower_blocks.h"

#include <algorithm>
#include <map>

#include "ir/analyzer.h"
#include "ir/clone.h"
#include "ir/join.h"

namespace cinn_like::ir {
namespace {

using VarSet = absl::flat_hash_set<Expr>;

VarMap BindingsOf(const Block& b) {
  VarMap r;
  for (const BlockIter& i : b.iters) r[i.var] = i.binding;
  return r;
}

bool Touches(const Stmt& s, const std::vector<Buffer>& buffers) {
  auto any = [&](const std::vector<Buffer>& used) {
    return std::any_of(used.begin(), used.end(),
                       [&](Buffer b) { return std::find(buffers.begin(), buffers.end(), b) != buffers.end(); });
  };
  return any(BuffersRead(s)) || any(BuffersWritten(s));
}

bool ReadsMemory(Expr e) {
  bool found = false;
  Visit(e, [&](Expr x) {
    found = found || x->op == ExprOp::kLoad;
    return !found;
  });
  return found;
}

// Every load of what `init` writes reads the element that the body writes: running the init early changes no other.
bool ReadsOwnElement(const Block& b) {
  absl::flat_hash_map<Buffer, std::vector<Expr>> own;
  VisitStmts(b.init, [&](const Stmt& s) {
    if (const Store* n = As<Store>(s)) own[n->buffer] = n->indices;
    return true;
  });
  bool ok = true;
  ForEachExpr(b.body, [&](Expr e) {
    Visit(e, [&](Expr x) {
      auto it = x->op == ExprOp::kLoad ? own.find(x->buffer) : own.end();
      ok = ok && (it == own.end() || it->second == IndicesOf(x));
      return true;
    });
  });
  return ok;
}

class Lowering {
 public:
  explicit Lowering(const Func& f) : c_(*f.context), a_(f), names_(f) {
    for (Buffer b : BuffersWritten(f.body)) written_.insert(b);
  }

  Stmt Walk(const Stmt& s) {
    path_.push_back(s);
    Stmt r;
    if (const For* n = As<For>(s)) {
      a_.BindRange(n->var, c_.Int(0, n->var->type.dtype), n->extent);
      // Which blocks hoist their init to here is known once their paths are: on the way back.
      Stmt body = Walk(n->body);
      std::vector<Stmt> out;
      if (auto it = hoisted_.find(s); it != hoisted_.end()) out = std::move(it->second);
      out.push_back(body == n->body ? s : MakeStmt(For{n->var, n->extent, n->kind, body}));
      r = MakeSeq(std::move(out));
    } else if (const Block* n = As<Block>(s)) {
      r = LowerBlock(*n);
    } else {
      r = MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return Walk(x); });
    }
    path_.pop_back();
    return r;
  }

 private:
  Stmt Guarded(Expr cond, Stmt body) {
    return cond == nullptr || IsTrue(cond) ? body : MakeStmt(If{cond, std::move(body), nullptr});
  }
  Expr And(Expr a, Expr b) { return a == nullptr ? b : c_.And(a, b); }

  Stmt LowerBlock(const Block& b) {
    const VarMap bindings = BindingsOf(b);
    Stmt body = Substitute(c_, b.body, bindings);
    std::vector<Stmt> out;
    if (b.init != nullptr) PlaceInit(b, out);
    out.push_back(body);
    return Guarded(b.predicate, MakeSeq(std::move(out)));
  }

  // Puts the init before the outermost loop that it may leave, each result's apart where others stay; what stays in
  // place goes to `out`.
  void PlaceInit(const Block& b, std::vector<Stmt>& out) {
    std::map<size_t, std::vector<Stmt>> parts;
    if (const std::optional<Stores> stores = StoresOf(c_, b.init)) {
      for (size_t k = 0; k < stores->values.size(); ++k) {
        const Stmt part = MakeStmt(Store{stores->buffers[k], stores->indices[k], stores->values[k], nullptr});
        parts[TargetOf(b, {stores->buffers[k]})].push_back(part);
      }
    }
    if (parts.size() > 1) {
      for (auto& [target, part] : parts) PlaceInitAt(b, MakeSeq(std::move(part)), target, out);
    } else {
      PlaceInitAt(b, b.init, TargetOf(b, BuffersWritten(b.init)), out);
    }
  }

  static VarSet VarsOfIters(const Block& b, IterKind kind) {
    VarSet r;
    for (const BlockIter& i : b.iters) {
      if (i.kind != kind) continue;
      for (Expr v : VarsOf(i.binding)) r.insert(v);
    }
    return r;
  }

  // The place in path_ of the loop before which these start; path_.size(): where they are.
  size_t TargetOf(const Block& b, const std::vector<Buffer>& outputs) {
    const VarSet data_vars = VarsOfIters(b, IterKind::kData), reduce_vars = VarsOfIters(b, IterKind::kReduce);
    size_t target = path_.size();
    for (size_t i = path_.size() - 1; i-- > 0 && ReadsOwnElement(b);) {
      const Stmt& s = path_[i];
      const Stmt& child = path_[i + 1];
      if (const For* n = As<For>(s)) {
        // It would be asked how far it goes before something changes that.
        bool changes = false;
        VisitLoads(n->extent, [&](Expr load) { changes |= written_.contains(load->buffer); });
        if (changes) break;
        if (!reduce_vars.contains(n->var) || data_vars.contains(n->var)) continue;
        if (n->kind != ForKind::kSerial && n->kind != ForKind::kUnrolled && n->kind != ForKind::kVectorized &&
            PipelineStages(n->kind) == 0)
          break;
        target = i;
      } else if (const Seq* q = As<Seq>(s)) {
        bool others_touch = false;
        for (const Stmt& x : q->stmts) {
          const Alloc* alloc = As<Alloc>(x);
          others_touch =
              others_touch || As<Let>(x) != nullptr || (x != child && Touches(x, outputs)) ||
              (alloc != nullptr && std::find(outputs.begin(), outputs.end(), alloc->buffer) != outputs.end());
        }
        if (others_touch) break;
      } else if (const If* n = As<If>(s); n == nullptr || ReadsMemory(n->cond)) {
        break;
      }
    }
    return target;
  }

  void PlaceInitAt(const Block& b, const Stmt& part, size_t target, std::vector<Stmt>& out) {
    const VarSet data_vars = VarsOfIters(b, IterKind::kData), reduce_vars = VarsOfIters(b, IterKind::kReduce);
    VarMap start;
    for (size_t i = target; i < path_.size(); ++i) {
      const For* n = As<For>(path_[i]);
      if (n != nullptr && reduce_vars.contains(n->var) && !data_vars.contains(n->var))
        start[n->var] = c_.Int(0, n->var->type.dtype);
    }
    Expr at_start = nullptr;
    for (const BlockIter& i : b.iters) {
      if (i.kind == IterKind::kReduce) at_start = And(at_start, c_.Eq(i.binding, c_.Int(0)));
    }
    Expr cond = a_.Simplify(Substitute(c_, at_start, start));
    Stmt init = Guarded(cond, Substitute(c_, part, BindingsOf(b)));
    if (target == path_.size()) {
      out.push_back(init);
      return;
    }
    // The nest from the target down, without the reduction loops.
    init = Guarded(b.predicate, init);
    for (size_t i = path_.size() - 1; i-- > target;) {
      if (const For* n = As<For>(path_[i]); n != nullptr && !start.contains(n->var)) {
        init = MakeStmt(For{n->var, n->extent, n->kind, init});
      } else if (const If* n = As<If>(path_[i])) {
        init = Guarded(path_[i + 1] == n->then ? n->cond : c_.Not(n->cond), init);
      }
    }
    init = RewriteConditions(CloneFresh(c_, init, names_, start));
    hoisted_[path_[target]].push_back(init);
  }

  // The start of the reduction makes most conditions constant.
  Stmt RewriteConditions(const Stmt& s) {
    return RewriteStmts(s, [&](const Stmt& x) -> Stmt {
      const If* n = As<If>(x);
      if (n == nullptr) return nullptr;
      Expr cond = a_.Simplify(n->cond);
      return IsTrue(cond) ? n->then : MakeStmt(If{cond, n->then, n->otherwise});
    });
  }

  Context& c_;
  Analyzer a_;
  NameSupply names_;
  absl::flat_hash_set<Buffer> written_;
  std::vector<Stmt> path_;
  absl::flat_hash_map<Stmt, std::vector<Stmt>> hoisted_;
};

}  // namespace

StatusOr<Func> LowerBlocks(Func f) {
  f.body = Lowering(f).Walk(f.body);
  return f;
}

}  // namespace cinn_like::ir
