#include "ir/stmt.h"

#include "absl/strings/match.h"

namespace cinn_like::ir {
namespace {
constexpr std::string_view kForKinds[] = {
    "",           "parallel",    "vectorized",   "unrolled",     "blockIdx.x",   "blockIdx.y",
    "blockIdx.z", "threadIdx.x", "threadIdx.y",  "threadIdx.z",  "clusterIdx.x", "pipelined2",
    "pipelined3", "pipelined4",  "mma_m16n8k16", "wgmma_m64k16", "dot2_bf16",    "dot4_i8",
    "transpose",  "tensor_copy", "intrinsic"};
constexpr std::string_view kIntrinsicPrefix = "intrinsic.";
constexpr std::string_view kFuncKinds[] = {"", "entry", "kernel"};
constexpr std::string_view kParamRoles[] = {"", "static", "prepared", "out"};
bool IsEmpty(const Stmt& s) {
  const Seq* q = As<Seq>(s);
  return q != nullptr && q->stmts.empty();
}
}  // namespace

std::string_view Name(ForKind k) { return kForKinds[static_cast<int>(k)]; }
std::string_view Name(ParamRole r) { return kParamRoles[static_cast<int>(r)]; }
std::string_view Name(FuncKind k) { return kFuncKinds[static_cast<int>(k)]; }

LoopKind LoopKind::Intrinsic(std::string name) {
  LoopKind r = ForKind::kIntrinsic;
  r.intrinsic = std::make_shared<const std::string>(std::move(name));
  return r;
}

std::string Name(const LoopKind& k) {
  return k.kind == ForKind::kIntrinsic ? Cat(kIntrinsicPrefix, *k.intrinsic) : std::string(Name(k.kind));
}

std::vector<Expr> LoadsOf(const Prefetch& n) {
  std::vector<Expr> r;
  Visit(n.value, [&](Expr e) {
    if (e->op == ExprOp::kLoad) r.push_back(e);
    return e->op != ExprOp::kLoad;
  });
  return r;
}

std::optional<LoopKind> ParseLoopKind(std::string_view text) {
  if (text.starts_with(kIntrinsicPrefix) && text.size() > kIntrinsicPrefix.size())
    return LoopKind::Intrinsic(std::string(text.substr(kIntrinsicPrefix.size())));
  for (size_t i = 0; i < static_cast<size_t>(ForKind::kIntrinsic); ++i) {
    if (kForKinds[i] == text) return static_cast<ForKind>(i);
  }
  return std::nullopt;
}

Stmt MakeSeq(std::vector<Stmt> stmts) {
  Seq q;
  for (Stmt& s : stmts) {
    if (const Seq* inner = As<Seq>(s)) {
      q.stmts.insert(q.stmts.end(), inner->stmts.begin(), inner->stmts.end());
    } else {
      q.stmts.push_back(std::move(s));
    }
  }
  if (q.stmts.size() == 1) return q.stmts[0];
  return MakeStmt(std::move(q));
}

const Func* Module::Find(std::string_view name) const {
  for (const Func& f : funcs) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

namespace {
std::vector<Expr> MapAll(const std::vector<Expr>& v, const std::function<Expr(Expr)>& f) {
  std::vector<Expr> r;
  r.reserve(v.size());
  for (Expr e : v) r.push_back(f(e));
  return r;
}
}  // namespace

Stmt MapChildren(const Stmt& s, const std::function<Expr(Expr)>& fe, const std::function<Stmt(const Stmt&)>& fs) {
  auto opt = [&](Expr e) { return e == nullptr ? nullptr : fe(e); };
  auto opt_stmt = [&](const Stmt& x) { return x == nullptr ? nullptr : fs(x); };
  return Match(
      s,
      [&](const Seq& n) {
        std::vector<Stmt> v;
        v.reserve(n.stmts.size());
        bool changed = false;
        for (const Stmt& x : n.stmts) {
          Stmt y = fs(x);
          changed |= y != x;
          if (!IsEmpty(y)) v.push_back(std::move(y));
        }
        return changed ? MakeSeq(std::move(v)) : s;
      },
      [&](const For& n) {
        For r{n.var, fe(n.extent), n.kind, fs(n.body)};
        return r.extent == n.extent && r.body == n.body ? s : MakeStmt(std::move(r));
      },
      [&](const If& n) {
        If r{fe(n.cond), fs(n.then), opt_stmt(n.otherwise)};
        return r.cond == n.cond && r.then == n.then && r.otherwise == n.otherwise ? s : MakeStmt(std::move(r));
      },
      [&](const While& n) {
        While r{fe(n.cond), fs(n.body)};
        return r.cond == n.cond && r.body == n.body ? s : MakeStmt(std::move(r));
      },
      [&](const Prefetch& n) {
        Prefetch r{fe(n.value)};
        return r.value == n.value ? s : MakeStmt(r);
      },
      [&](const Let& n) {
        Let r{n.var, fe(n.value)};
        return r.value == n.value ? s : MakeStmt(r);
      },
      [&](const Alloc&) { return s; },
      [&](const Store& n) {
        Store r{n.buffer, MapAll(n.indices, fe), fe(n.value), opt(n.mask)};
        return r.indices == n.indices && r.value == n.value && r.mask == n.mask ? s : MakeStmt(std::move(r));
      },
      [&](const Block& n) {
        std::vector<BlockIter> iters = n.iters;
        bool changed = false;
        for (BlockIter& i : iters) {
          Expr extent = fe(i.extent), binding = fe(i.binding);
          changed |= extent != i.extent || binding != i.binding;
          i.extent = extent;
          i.binding = binding;
        }
        Expr predicate = opt(n.predicate);
        Stmt init = opt_stmt(n.init), body = fs(n.body);
        changed |= predicate != n.predicate || init != n.init || body != n.body;
        return changed ? MakeStmt(Block{n.name, std::move(iters), predicate, std::move(init), std::move(body)}) : s;
      },
      [&](const Barrier&) { return s; },
      [&](const Launch& n) {
        std::vector<TensorMap> maps;
        for (const TensorMap& m : n.maps)
          maps.push_back({fe(m.address), MapAll(m.extents, fe), MapAll(m.strides, fe), MapAll(m.box, fe)});
        return MakeStmt(Launch{n.kernel, MapAll(n.grid, fe), MapAll(n.block, fe), fe(n.shared_bytes),
                               MapAll(n.args, fe), n.cluster == nullptr ? nullptr : fe(n.cluster), std::move(maps)});
      },
      [&](const Call& n) {
        Call r = n;
        r.args = MapAll(n.args, fe);
        r.meaning = opt_stmt(n.meaning);
        return r.args == n.args && r.meaning == n.meaning ? s : MakeStmt(std::move(r));
      });
}

void ForEachChild(const Stmt& s, const std::function<void(Expr)>& fe, const std::function<void(const Stmt&)>& fs) {
  auto opt = [&](Expr e) {
    if (e != nullptr) fe(e);
  };
  auto all = [&](const std::vector<Expr>& v) {
    for (Expr e : v) fe(e);
  };
  Match(
      s, [&](const For& n) { fe(n.extent); }, [&](const If& n) { fe(n.cond); }, [&](const While& n) { fe(n.cond); },
      [&](const Prefetch& n) { fe(n.value); }, [&](const Let& n) { fe(n.value); },
      [&](const Store& n) {
        all(n.indices);
        fe(n.value);
        opt(n.mask);
      },
      [&](const Block& n) {
        for (const BlockIter& i : n.iters) {
          fe(i.extent);
          fe(i.binding);
        }
        opt(n.predicate);
      },
      [&](const Launch& n) {
        all(n.grid);
        all(n.block);
        fe(n.shared_bytes);
        all(n.args);
        opt(n.cluster);
        for (const TensorMap& m : n.maps) {
          fe(m.address);
          for (const auto* numbers : {&m.extents, &m.strides, &m.box}) all(*numbers);
        }
      },
      [&](const Call& n) { all(n.args); }, [](const Seq&) {}, [](const Alloc&) {}, [](const Barrier&) {});
  ForEachChild(s, fs);
}

void ForEachChild(const Stmt& s, const std::function<void(const Stmt&)>& f) {
  auto opt = [&](const Stmt& x) {
    if (x != nullptr) f(x);
  };
  Match(
      s,
      [&](const Seq& n) {
        for (const Stmt& x : n.stmts) f(x);
      },
      [&](const For& n) { f(n.body); },
      [&](const If& n) {
        f(n.then);
        opt(n.otherwise);
      },
      [&](const While& n) { f(n.body); }, [](const Prefetch&) {},
      [&](const Block& n) {
        opt(n.init);
        f(n.body);
      },
      [&](const Call& n) { opt(n.meaning); }, [](const Let&) {}, [](const Alloc&) {}, [](const Store&) {},
      [](const Barrier&) {}, [](const Launch&) {});
}

void ForEachExpr(const Stmt& s, const std::function<void(Expr)>& f) {
  ForEachChild(s, f, [&](const Stmt& x) { ForEachExpr(x, f); });
}

void VisitStmts(const Stmt& s, const std::function<bool(const Stmt&)>& f) {
  if (!f(s)) return;
  ForEachChild(s, [&](const Stmt& x) { VisitStmts(x, f); });
}

Stmt RewriteStmts(const Stmt& s, const std::function<Stmt(const Stmt&)>& f) {
  Stmt t = MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return RewriteStmts(x, f); });
  Stmt r = f(t);
  return r == nullptr ? t : r;
}

namespace {
Stmt RewriteExprsWith(const Stmt& s, const std::function<Expr(Expr)>& f) {
  return MapChildren(s, f, [&](const Stmt& x) { return RewriteExprsWith(x, f); });
}
}  // namespace

Stmt RewriteExprs(Context& c, const Stmt& s, const std::function<Expr(Expr)>& f) {
  Rewriter rewrite(c, f);
  return RewriteExprsWith(s, [&](Expr e) { return rewrite(e); });
}

Stmt Substitute(Context& c, const Stmt& s, const VarMap& map) {
  if (map.empty()) return s;
  return RewriteExprs(c, s, [&](Expr x) -> Expr {
    if (x->op != ExprOp::kVar) return nullptr;
    auto it = map.find(x);
    return it == map.end() ? x : it->second;
  });
}

Stmt ReplaceBuffers(Context& c, const Stmt& s, const BufferMap& map) {
  auto find = [&](Buffer b) {
    auto it = map.find(b);
    return it == map.end() ? b : it->second;
  };
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr e) -> Expr {
    if ((e->op != ExprOp::kLoad && e->op != ExprOp::kAddress) || find(e->buffer) == e->buffer) return nullptr;
    std::vector<Expr> indices = IndicesOf(e);
    for (Expr& i : indices) i = (*self)(i);
    if (e->op == ExprOp::kAddress) return c.Address(find(e->buffer), std::move(indices));
    Expr mask = MaskOf(e);
    return c.Load(find(e->buffer), std::move(indices), mask == nullptr ? nullptr : (*self)(mask));
  });
  self = &rewrite;
  std::function<Stmt(const Stmt&)> go = [&](const Stmt& x) {
    Stmt t = MapChildren(x, [&](Expr e) { return rewrite(e); }, go);
    if (const Store* n = As<Store>(t); n != nullptr && find(n->buffer) != n->buffer) {
      Store r = *n;
      r.buffer = find(n->buffer);
      return MakeStmt(std::move(r));
    }
    if (const Alloc* n = As<Alloc>(t); n != nullptr && find(n->buffer) != n->buffer)
      return MakeStmt(Alloc{find(n->buffer)});
    return t;
  };
  return go(s);
}

namespace {
std::vector<Buffer> Ordered(const std::function<void(const std::function<void(Buffer)>&)>& each) {
  std::vector<Buffer> r;
  absl::flat_hash_set<Buffer> seen;
  each([&](Buffer b) {
    if (seen.insert(b).second) r.push_back(b);
  });
  return r;
}
}  // namespace

std::vector<Buffer> BuffersRead(const Stmt& s) {
  return Ordered([&](const std::function<void(Buffer)>& add) {
    std::function<void(const Stmt&)> go = [&](const Stmt& x) {
      ForEachChild(x, [&](Expr e) { VisitLoads(e, [&](Expr load) { add(load->buffer); }); }, go);
      const Call* call = As<Call>(x);
      if (call == nullptr) return;
      ForEachOperand(*call, [&](const Call::Operand& o, absl::Span<const Expr> args) {
        if (o.is_tensor && !o.is_output) add(args[0]->buffer);
      });
    };
    go(s);
  });
}

std::vector<Buffer> BuffersWritten(const Stmt& s) {
  return Ordered([&](const std::function<void(Buffer)>& add) {
    VisitStmts(s, [&](const Stmt& x) {
      if (const Store* n = As<Store>(x)) add(n->buffer);
      if (const Call* n = As<Call>(x)) {
        ForEachOperand(*n, [&](const Call::Operand& o, absl::Span<const Expr> args) {
          if (o.is_output) add(args[0]->buffer);
        });
      }
      return true;
    });
  });
}

namespace {
void AddTensor(Context& c, Call& call, Buffer b, bool is_output) {
  call.operands.push_back({.is_tensor = true,
                           .is_output = is_output,
                           .has_strides = !b->strides.empty(),
                           .dtype = b->dtype,
                           .rank = b->shape.size()});
  call.args.push_back(c.Address(b, std::vector<Expr>(b->shape.size(), c.Int(0))));
  for (const auto* numbers : {&b->shape, &b->strides})
    call.args.insert(call.args.end(), numbers->begin(), numbers->end());
}
}  // namespace

Call CallOfFunction(std::string name) {
  return {.callee = "cinn_call_function", .is_runtime = true, .text = std::move(name), .args = {}};
}
void AddInput(Context& c, Call& call, Buffer b) { AddTensor(c, call, b, false); }
void AddOutput(Context& c, Call& call, Buffer b) { AddTensor(c, call, b, true); }
void AddInput(Call& call, Expr scalar) {
  call.operands.push_back({.dtype = scalar->type.dtype});
  call.args.push_back(scalar);
}

void ForEachOperand(const Call& call, const std::function<void(const Call::Operand&, absl::Span<const Expr>)>& f) {
  absl::Span<const Expr> rest = call.args;
  for (const Call::Operand& o : call.operands) {
    f(o, rest.first(o.size()));
    rest.remove_prefix(o.size());
  }
}

Buffer WholeOf(const Call::Operand& operand, absl::Span<const Expr> args) {
  if (!operand.is_tensor || args[0]->op != ExprOp::kAddress) return nullptr;
  const Buffer b = args[0]->buffer;
  const absl::Span<const Expr> shape = args.subspan(1, operand.rank), strides = args.subspan(1 + operand.rank);
  const bool from_start = std::all_of(args[0]->args.begin(), args[0]->args.end(), [](Expr e) { return IsInt(e, 0); });
  return from_start && operand.dtype == b->dtype && shape == b->shape && strides == b->strides ? b : nullptr;
}

const Call* FunctionCallOf(const Stmt& s) {
  const Seq* seq = As<Seq>(s);
  const Call* call = As<Call>(seq != nullptr && seq->stmts.size() == 1 ? seq->stmts[0] : s);
  return call != nullptr && call->IsOfFunction() ? call : nullptr;
}

const Call* CallTaking(const Stmt& s, Buffer b) {
  const Call* found = nullptr;
  VisitStmts(s, [&](const Stmt& x) {
    const Call* call = As<Call>(x);
    if (call == nullptr || !call->IsOfFunction()) return found == nullptr;
    for (Expr e : call->args) {
      if (e->op == ExprOp::kAddress && e->buffer == b) found = call;
    }
    return found == nullptr;
  });
  return found;
}

NameSupply::NameSupply(const Func& f) {
  for (const Param& p : f.params) Reserve(p.buffer != nullptr ? p.buffer->name : p.var->name);
  for (const SymbolFact& s : f.symbols) Reserve(s.var->name);
  if (f.body == nullptr) return;
  VisitStmts(f.body, [&](const Stmt& s) {
    if (const For* n = As<For>(s)) Reserve(n->var->name);
    if (const Let* n = As<Let>(s)) Reserve(n->var->name);
    if (const Alloc* n = As<Alloc>(s)) Reserve(n->buffer->name);
    if (const Block* n = As<Block>(s)) {
      Reserve(n->name);
      for (const BlockIter& i : n->iters) Reserve(i.var->name);
    }
    return true;
  });
}

std::string NameSupply::Fresh(std::string_view base) {
  std::string name(base);
  // Names are never given back, so the search goes on where it ended the last time.
  for (int& i = next_.try_emplace(name, 1).first->second; !used_.insert(name).second; ++i) name = Cat(base, "_", i);
  return name;
}

Func CloneInto(const Func& f, std::shared_ptr<Context> context,
               const std::function<std::string(const std::string&)>& rename) {
  Context& c = *context;
  auto name = [&](const std::string& n) { return rename == nullptr ? n : rename(n); };
  absl::flat_hash_map<Expr, Expr> memo;
  absl::flat_hash_map<Buffer, Buffer> buffers;
  std::function<Expr(Expr)> expr;
  auto buffer = [&](Buffer b) {
    auto it = buffers.find(b);
    if (it != buffers.end()) return it->second;
    BufferNode n = *b;
    n.name = name(b->name);
    for (Expr& e : n.shape) e = expr(e);
    for (Expr& e : n.strides) e = expr(e);
    return buffers[b] = c.MakeBuffer(std::move(n));
  };
  expr = [&](Expr e) -> Expr {
    auto it = memo.find(e);
    if (it != memo.end()) return it->second;
    std::vector<Expr> args;
    for (Expr a : e->args) args.push_back(expr(a));
    Expr r = nullptr;
    switch (e->op) {
      case ExprOp::kInt:
        r = c.Int(e->int_value, e->type.dtype);
        break;
      case ExprOp::kFloat:
        r = c.Float(e->float_value, e->type.dtype);
        break;
      case ExprOp::kVar:
        r = c.Var(name(e->name), e->type);
        break;
      case ExprOp::kLoad: {
        Expr mask = nullptr;
        if (e->has_mask) {
          mask = args.back();
          args.pop_back();
        }
        r = c.Load(buffer(e->buffer), std::move(args), mask);
        break;
      }
      case ExprOp::kAddress:
        r = c.Address(buffer(e->buffer), std::move(args));
        break;
      default:
        r = c.WithArgs(e, std::move(args));
    }
    memo.emplace(e, r);
    return r;
  };
  std::function<Stmt(const Stmt&)> stmt = [&](const Stmt& s) {
    Stmt t = MapChildren(s, expr, stmt);
    return Match(
        t, [&](const For& n) { return MakeStmt(For{expr(n.var), n.extent, n.kind, n.body}); },
        [&](const Let& n) { return MakeStmt(Let{expr(n.var), n.value}); },
        [&](const Alloc& n) { return MakeStmt(Alloc{buffer(n.buffer)}); },
        [&](const Store& n) {
          Store r = n;
          r.buffer = buffer(n.buffer);
          return MakeStmt(std::move(r));
        },
        [&](const Block& n) {
          Block r = n;
          r.name = name(n.name);
          for (BlockIter& i : r.iters) i.var = expr(i.var);
          return MakeStmt(std::move(r));
        },
        [&](const auto&) { return t; });
  };
  Func r{f.name, f.kind, {}, {}, nullptr, context, f.device};
  for (const Param& p : f.params) {
    r.params.push_back(p.buffer != nullptr ? Param{buffer(p.buffer), nullptr, p.role}
                                           : Param{nullptr, expr(p.var), p.role});
  }
  for (const SymbolFact& s : f.symbols) r.symbols.push_back({expr(s.var), s.lo, s.hi, s.divisor, s.hint});
  r.body = stmt(f.body);
  return r;
}

}  // namespace cinn_like::ir
