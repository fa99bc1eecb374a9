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

Func SimplifyBindings(Func f, const Stmt& changed) {
  Context& c = *f.context;
  Analyzer a(c);
  StmtPath around = FindPath(f.body, [&](const Stmt& s) { return s == changed; });
  if (!around.empty()) around.pop_back();
  BindFacts(a, f, LoopsOf(around));
  std::function<Stmt(const Stmt&)> go = [&](const Stmt& s) -> Stmt {
    if (const For* n = As<For>(s)) a.BindRange(n->var, c.Int(0), n->extent);
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

VarMap Bindings(const Block& b) {
  VarMap m;
  for (const BlockIter& i : b.iters) m[i.var] = i.binding;
  return m;
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

}  // namespace cinn_like::ir
