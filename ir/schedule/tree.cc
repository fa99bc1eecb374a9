#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

// The path to the first statement for which `found`; empty if none.
StmtPath FindPath(const Stmt& root, const std::function<bool(const Stmt&)>& found) {
  StmtPath path;
  bool done = false;
  std::function<void(const Stmt&)> go = [&](const Stmt& s) {
    if (done) return;
    path.push_back(s);
    if (found(s)) {
      done = true;
      return;
    }
    ForEachChild(s, go);
    if (!done) path.pop_back();
  };
  go(root);
  return path;
}

// `path` leads to what is called `name`.
Status CheckNoWhile(const StmtPath& path, const std::string& name) {
  const While* found = nullptr;
  for (const Stmt& s : path) {
    if (found == nullptr) found = As<While>(s);
  }
  if (found != nullptr)
    return InvalidArgument(name, " stands in a loop while ", Print(found->cond), ", which steps leave as it is");
  VisitStmts(path.back(), [&](const Stmt& s) {
    if (found == nullptr) found = As<While>(s);
    return As<Block>(s) == nullptr;
  });
  if (found != nullptr)
    return InvalidArgument("in ", name, " stands a loop while ", Print(found->cond),
                           " that is in no block: a block is what steps know");
  return absl::OkStatus();
}

std::string NamesOf(const Func& f, const std::function<std::string(const Stmt&)>& name) {
  std::string r;
  VisitStmts(f.body, [&](const Stmt& s) {
    const std::string n = name(s);
    if (!n.empty()) r += (r.empty() ? "" : ", ") + n;
    return true;
  });
  return r;
}

}  // namespace

StatusOr<StmtPath> FindLoop(const Func& f, const std::string& name) {
  auto name_of = [](const Stmt& s) {
    const For* n = As<For>(s);
    return n == nullptr ? std::string() : n->var->name;
  };
  StmtPath path = FindPath(f.body, [&](const Stmt& s) { return name_of(s) == name; });
  if (path.empty())
    return InvalidArgument("no loop '", name, "' in @", f.name, "; its loops are ", NamesOf(f, name_of));
  for (const Stmt& s : path) {
    if (const Block* n = As<Block>(s))
      return InvalidArgument("loop ", name, " is a part of block ", n->name, ", which steps take as a whole");
  }
  RETURN_IF_ERROR(CheckNoWhile(path, Cat("loop ", name)));
  return path;
}

StatusOr<StmtPath> FindBlock(const Func& f, const std::string& name) {
  auto name_of = [](const Stmt& s) {
    const Block* n = As<Block>(s);
    return n == nullptr ? std::string() : n->name;
  };
  StmtPath path = FindPath(f.body, [&](const Stmt& s) { return name_of(s) == name; });
  if (path.empty())
    return InvalidArgument("no block '", name, "' in @", f.name, "; its blocks are ", NamesOf(f, name_of));
  RETURN_IF_ERROR(CheckNoWhile(path, Cat("block ", name)));
  if (const Call* call = FunctionCallOf(As<Block>(path.back())->body))
    return InvalidArgument("block ", name, " calls \"", call->text, "\", which computes its outputs as a whole");
  return path;
}

StatusOr<Buffer> FindBuffer(const Func& f, const std::string& name) {
  for (const Param& p : f.params) {
    if (p.buffer != nullptr && p.buffer->name == name) return p.buffer;
  }
  Buffer found = nullptr;
  VisitStmts(f.body, [&](const Stmt& s) {
    const Alloc* a = As<Alloc>(s);
    if (a != nullptr && a->buffer->name == name) found = a->buffer;
    return found == nullptr;
  });
  if (found == nullptr) return InvalidArgument("no buffer '", name, "' in @", f.name);
  return found;
}

std::vector<StmtPath> FindBlocks(const Func& f) {
  std::vector<StmtPath> r;
  StmtPath path;
  std::function<void(const Stmt&)> go = [&](const Stmt& s) {
    path.push_back(s);
    if (As<Block>(s) != nullptr) {
      r.push_back(path);
    } else {
      ForEachChild(s, go);
    }
    path.pop_back();
  };
  go(f.body);
  return r;
}

std::vector<const For*> LoopsOf(const StmtPath& path) {
  std::vector<const For*> r;
  for (const Stmt& s : path) {
    if (const For* n = As<For>(s)) r.push_back(n);
  }
  return r;
}

Stmt Replace(const Stmt& root, const Stmt& from, const Stmt& to) {
  if (root == from) return to;
  return MapChildren(root, [](Expr e) { return e; }, [&](const Stmt& s) { return Replace(s, from, to); });
}

Stmt WholeNest(const StmtPath& path) {
  Stmt r = path.back();
  for (auto it = path.rbegin() + 1; it != path.rend(); ++it) {
    const For* n = As<For>(*it);
    if (n == nullptr || n->body != r) break;
    r = *it;
  }
  return r;
}

void BindFacts(Analyzer& a, const Func& f, const std::vector<const For*>& loops) {
  for (const SymbolFact& s : f.symbols) a.BindSymbol(s);
  Expr zero = f.context->Int(0);
  for (const For* n : loops) a.BindRange(n->var, zero, n->extent);
}

void BindFactsOf(Analyzer& a, const Func& f, const StmtPath& path) {
  BindFacts(a, f, LoopsOf(path));
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    if (const If* n = As<If>(path[i])) a.Require(path[i + 1] == n->then ? n->cond : f.context->Not(n->cond));
  }
}

Func SimplifyBindings(Func f, const Stmt& changed) {
  Context& c = *f.context;
  Analyzer a(c);
  StmtPath around = FindPath(f.body, [&](const Stmt& s) { return s == changed; });
  BindFactsOf(a, f, around);
  std::function<Stmt(const Stmt&)> go = [&](const Stmt& s) -> Stmt {
    if (const For* n = As<For>(s)) a.BindRange(n->var, c.Int(0), n->extent);
    if (const If* n = As<If>(s)) {
      If r = *n;
      {
        const Analyzer::Assume holds(a, n->cond);
        r.then = go(n->then);
      }
      const Analyzer::Assume fails(a, c.Not(n->cond));
      if (n->otherwise != nullptr) r.otherwise = go(n->otherwise);
      return MakeStmt(std::move(r));
    }
    if (const Block* n = As<Block>(s)) {
      Block b = *n;
      for (BlockIter& i : b.iters) i.binding = a.Simplify(i.binding);
      if (b.predicate != nullptr) {
        b.predicate = a.Simplify(b.predicate);
        if (IsTrue(b.predicate)) b.predicate = nullptr;
      }
      return MakeStmt(std::move(b));
    }
    return MapChildren(s, [](Expr e) { return e; }, go);
  };
  f.body = Replace(f.body, changed, go(changed));
  return f;
}

bool IsParam(const Func& f, Buffer b) {
  return std::any_of(f.params.begin(), f.params.end(), [&](const Param& p) { return p.buffer == b; });
}

VarMap Bindings(const Block& b) {
  VarMap m;
  for (const BlockIter& i : b.iters) m[i.var] = i.binding;
  return m;
}

bool Carries(const Block& b, const For& n, IterKind kind) {
  return std::any_of(b.iters.begin(), b.iters.end(),
                     [&](const BlockIter& i) { return i.kind == kind && Uses(i.binding, n.var); });
}

std::optional<size_t> ReducingThreads(const StmtPath& path) {
  for (size_t k = 0; k < path.size(); ++k) {
    const For* n = As<For>(path[k]);
    if (n != nullptr && IsThreadAxis(n->kind) && Carries(*As<Block>(path.back()), *n)) return k;
  }
  return std::nullopt;
}

std::pair<Expr, Expr> ThreadsAround(Context& c, const StmtPath& path, size_t at) {
  Expr index = c.Int(0), count = c.Int(1);
  for (size_t i = 0; i < at; ++i) {
    const For* n = As<For>(path[i]);
    if (n == nullptr || !IsThreadAxis(n->kind)) continue;
    index = c.Add(c.Mul(index, n->extent), n->var);
    count = c.Mul(count, n->extent);
  }
  return {index, count};
}

StatusOr<Stmt> NestOfResults(Context& c, NameSupply& names, const StmtPath& path, size_t depth,
                             const std::string& block, const std::string& suffix,
                             const std::function<Stmt(const VarMap&)>& body) {
  const Block& b = *As<Block>(path.back());
  const auto carries = [&](Expr var) {
    return std::any_of(b.iters.begin(), b.iters.end(),
                       [&](const BlockIter& i) { return i.kind == IterKind::kReduce && Uses(i.binding, var); });
  };
  Block made;
  made.name = block;
  VarMap vars, loop_vars;
  std::vector<For> loops;
  for (size_t k = depth; k < path.size(); ++k) {
    const For* n = As<For>(path[k]);
    if (n == nullptr || carries(n->var)) continue;
    bool used = false;
    for (const BlockIter& i : b.iters) used |= i.kind == IterKind::kData && Uses(i.binding, n->var);
    if (!used) continue;
    const Expr extent = Substitute(c, n->extent, loop_vars);
    for (size_t k2 = depth; k2 < k; ++k2) {
      const For* outer = As<For>(path[k2]);
      if (outer != nullptr && Uses(extent, outer->var))
        return InvalidArgument("the extent ", Print(n->extent), " of loop ", n->var->name, " varies with loop ",
                               outer->var->name);
    }
    if (extent->reads)
      return InvalidArgument("the extent ", Print(n->extent), " of loop ", n->var->name, " reads memory");
    Expr var = c.Var(names.Fresh(Cat(n->var->name, "_", suffix)));
    loop_vars[n->var] = var;
    loops.push_back({var, extent, n->kind, nullptr});
  }
  for (const BlockIter& i : b.iters) {
    if (i.kind != IterKind::kData) continue;
    Expr var = c.Var(names.Fresh(Cat(i.var->name, "_", suffix)));
    vars[i.var] = var;
    made.iters.push_back({var, i.extent, IterKind::kData, Substitute(c, i.binding, loop_vars)});
  }
  made.body = body(vars);
  if (b.predicate != nullptr) {
    // Only the conditions on data loops are the new block's.
    bool mixes = false;
    std::function<void(Expr)> conditions = [&](Expr e) {
      if (e->op == ExprOp::kAnd) {
        for (Expr x : e->args) conditions(x);
        return;
      }
      bool reduces = false, moves = false;
      for (Expr v : VarsOf(e)) {
        reduces |= carries(v);
        moves |= !carries(v) && std::any_of(path.begin(), path.end(), [&](const Stmt& s) {
          const For* n = As<For>(s);
          return n != nullptr && n->var == v;
        });
      }
      mixes |= reduces && moves;
      if (reduces) return;
      Expr p = Substitute(c, e, loop_vars);
      made.predicate = made.predicate == nullptr ? p : c.And(made.predicate, p);
    };
    conditions(b.predicate);
    if (mixes)
      return InvalidArgument("the block's condition ", Print(b.predicate), " mixes the reduction's loops with others");
  }
  Stmt nest = MakeStmt(std::move(made));
  for (size_t k = loops.size(); k-- > 0;) nest = MakeStmt(For{loops[k].var, loops[k].extent, loops[k].kind, nest});
  return nest;
}

bool IsReductionLoop(const For& loop) {
  bool found = false;
  VisitStmts(loop.body, [&](const Stmt& s) {
    if (const Block* b = As<Block>(s)) {
      for (const BlockIter& i : b->iters) found |= i.kind == IterKind::kReduce && Uses(i.binding, loop.var);
    }
    return !found;
  });
  return found;
}

BufferMap CopiesOfPrivate(const Func& f, const Stmt& loop, NameSupply& names) {
  absl::flat_hash_set<Buffer> others;
  const Stmt without = Replace(f.body, loop, MakeSeq({}));
  for (const std::vector<Buffer>& used : {BuffersRead(without), BuffersWritten(without)})
    others.insert(used.begin(), used.end());
  BufferMap copies;
  VisitStmts(without, [&](const Stmt& s) {
    const Alloc* alloc = As<Alloc>(s);
    if (alloc == nullptr || alloc->buffer->scope == Scope::kGlobal || others.contains(alloc->buffer)) return true;
    BufferNode copy = *alloc->buffer;
    copy.name = names.Fresh(copy.name);
    copies[alloc->buffer] = f.context->MakeBuffer(std::move(copy));
    return true;
  });
  return copies;
}

Stmt DeclareCopies(const Stmt& s, const BufferMap& copies) {
  return RewriteStmts(s, [&](const Stmt& x) -> Stmt {
    const Alloc* alloc = As<Alloc>(x);
    const auto copy = alloc == nullptr ? copies.end() : copies.find(alloc->buffer);
    return copy == copies.end() ? nullptr : MakeSeq({x, MakeStmt(Alloc{copy->second})});
  });
}

std::string StartedBy(const Stmt& loop) {
  const For& n = *As<For>(loop);
  std::string block;
  VisitStmts(n.body, [&](const Stmt& s) {
    const Block* b = As<Block>(s);
    if (b == nullptr || b->init == nullptr) return true;
    for (const BlockIter& i : b->iters) {
      if (i.kind == IterKind::kReduce && Uses(i.binding, n.var)) block = b->name;
    }
    return true;
  });
  return block;
}

bool UsesVar(const Stmt& s, Expr var) {
  bool found = false;
  ForEachExpr(s, [&](Expr e) { found |= Uses(e, var); });
  return found;
}

}  // namespace cinn_like::ir
