// Stages as loops, and back.
#include <algorithm>
#include <utility>

#include "ir/te.h"

namespace cinn_like::ir {

namespace {
// Of a scan's iterators those that its running values have.
std::vector<Expr> OthersOf(const Stage& s) {
  std::vector<Expr> r = VarsOf(s.iters);
  std::erase(r, s.along);
  return r;
}
}  // namespace

std::vector<Expr> RunningOf(Context& c, const Stage& s) {
  std::vector<Expr> r;
  for (Buffer b : s.IsScan() ? s.running : s.outputs)
    r.push_back(c.Load(b, s.IsScan() ? OthersOf(s) : VarsOf(s.iters)));
  return r;
}

namespace {
// One naive nest with a block for `s`.
Stmt NestOf(Context& c, const Stage& s, NameSupply& names) {
  Block b;
  b.name = names.Fresh("b_" + s.name);
  if (s.IsCall()) {
    b.body = s.call;
    return MakeStmt(std::move(b));
  }
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
  for (const StageIter& i : s.iters) add(i, i.var == s.along ? IterKind::kReduce : IterKind::kData);
  for (const StageIter& i : s.reduce_iters) add(i, IterKind::kReduce);
  const std::vector<Expr> at = s.at.empty() ? VarsOf(s.iters) : s.at;
  auto stores = [&](const std::vector<Expr>& values) {
    std::vector<Stmt> v;
    if (s.IsScan()) {
      const bool starts = &values == &s.inits;
      std::vector<Expr> vars;
      for (Expr e : values) {
        vars.push_back(starts ? e : c.Var(names.Fresh("v"), e->type));
        if (!starts) v.push_back(MakeStmt(Let{vars.back(), e}));
      }
      for (size_t k = 0; k < values.size(); ++k) v.push_back(MakeStmt(Store{s.running[k], OthersOf(s), vars[k]}));
      for (size_t k = 0; k < values.size() && !starts; ++k)
        v.push_back(MakeStmt(Store{s.outputs[k], at, c.Cast(s.outputs[k]->dtype, vars[k])}));
      return MakeSeq(std::move(v));
    }
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
  if (!s.IsPointwise()) b.init = stores(s.inits);
  b.body = stores(s.values);
  // Bindings are loops or 0.
  VarMap bindings;
  for (const BlockIter& i : b.iters) bindings[i.var] = i.binding;
  if (s.where != nullptr) b.predicate = Substitute(c, s.where, bindings);
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
    for (const auto* list : {&s.outputs, &s.running}) {
      for (Buffer b : *list) names.Reserve(b->name);
    }
    for (const StageIter& i : s.iters) names.Reserve(i.var->name);
    for (const StageIter& i : s.reduce_iters) names.Reserve(i.var->name);
  }
  std::vector<Stmt> body;
  for (const Stage& s : p.stages) {
    RET_CHECK(s.IsCall() || s.values.size() == s.outputs.size(), s.name);
    for (Buffer b : s.outputs) {
      RET_CHECK(s.IsCall() || b->shape.size() == (s.at.empty() ? s.iters.size() : s.at.size()), s.name);
      if (!outer.contains(b)) body.push_back(MakeStmt(Alloc{b}));
    }
    RET_CHECK(!s.IsScan() || (s.running.size() == s.outputs.size() && s.at.empty()), s.name);
    for (Buffer b : s.running) body.push_back(MakeStmt(Alloc{b}));
  }
  // Allocations come first: nests may then move among each other.
  for (const Stage& s : p.stages) body.push_back(NestOf(*p.context, s, names));
  f.body = MakeSeq(std::move(body));
  return f;
}

namespace {

// What a block that ToLoops wrote stores, with its lets substituted.
struct Stores {
  std::vector<Buffer> buffers;
  std::vector<Expr> at, values;
};

std::vector<Stmt> StatementsOf(const Stmt& s) {
  if (s == nullptr) return {};
  const Seq* seq = As<Seq>(s);
  return seq == nullptr ? std::vector<Stmt>{s} : seq->stmts;
}

class StageReader {
 public:
  StageReader(Context& c, Stmt nest) : c_(c), nest_(std::move(nest)) {}

  StatusOr<Stage> Read() {
    Stmt inner = nest_;
    std::vector<const For*> loops;
    while (const For* loop = As<For>(inner)) {
      if (loop->kind != ForKind::kSerial) return Error("loop ", loop->var->name, " is ", Name(loop->kind));
      loops.push_back(loop);
      inner = loop->body;
    }
    const Block* b = As<Block>(inner);
    if (b == nullptr) return Error("it is no nest of loops around one block");
    name_ = b->name;
    Stage s;
    s.name = name_.starts_with("b_") ? name_.substr(2) : name_;
    if (const Call* call = FunctionCallOf(b->body)) {
      RETURN_IF_ERROR(ReadCall(*b, *call, s));
      return s;
    }
    const bool scans = WritesAlongReduced(*b);
    size_t next = 0;
    for (const BlockIter& i : b->iters) {
      const bool is_one = IsInt(i.extent, 1) && IsInt(i.binding, 0);
      if (!is_one && (next == loops.size() || i.binding != loops[next]->var || i.extent != loops[next]->extent))
        return Error("iterator ", i.var->name, " is not the loop at its place");
      next += !is_one;
      const bool reduces = i.kind == IterKind::kReduce && !scans;
      if (scans && i.kind == IterKind::kReduce) {
        if (s.IsScan()) return Error("it goes on along ", s.along->name, " and ", i.var->name);
        s.along = i.var;
      }
      if (!reduces && !s.reduce_iters.empty()) return Error("iterator ", i.var->name, " comes after reduced ones");
      (reduces ? s.reduce_iters : s.iters).push_back({i.var, i.extent});
    }
    if (next < loops.size()) return Error("loop ", loops[next]->var->name, " is none of its iterators");
    if (s.IsScan()) {
      RETURN_IF_ERROR(ReadScan(*b, s));
      return s;
    }
    ASSIGN_OR_RETURN(Stores body, ReadStores(b->body));
    s.outputs = std::move(body.buffers);
    s.values = std::move(body.values);
    const std::vector<Expr> vars = VarsOf(s.iters);
    if (b->predicate != nullptr) {
      if (s.IsReduction()) return Error("it has a predicate");
      VarMap iters;
      for (const BlockIter& i : b->iters) iters[i.binding] = i.var;
      iters.erase(c_.Int(0));
      s.where = Substitute(c_, b->predicate, iters);
    }
    if (body.at != vars || s.where != nullptr) s.at = std::move(body.at);
    if (s.IsReduction()) {
      if (b->init == nullptr) return Error("its reduction starts elsewhere");
      ASSIGN_OR_RETURN(Stores init, ReadStores(b->init));
      if (!s.at.empty() || init.at != vars || init.buffers != s.outputs)
        return Error("its reduction is not over its iterators");
      s.inits = std::move(init.values);
    } else if (b->init != nullptr) {
      return Error("it reduces nothing and has a start");
    }
    RETURN_IF_ERROR(Check(s));
    return s;
  }

 private:
  template <class... Args>
  Status Error(const Args&... why) const {
    const std::string text = Print(nest_);
    return InvalidArgument("steps on stages come before steps on loops; ",
                           name_.empty() ? Cat("'", text.substr(0, text.find('\n')), "'") : Cat("block ", name_),
                           " is no stage: ", why...);
  }

  // Whether some place that the block writes moves with what it reduces.
  static bool WritesAlongReduced(const Block& b) {
    bool found = false;
    VisitStmts(b.body, [&](const Stmt& x) {
      const Store* store = As<Store>(x);
      for (const BlockIter& i : b.iters) {
        if (store == nullptr || i.kind != IterKind::kReduce) continue;
        for (Expr e : store->indices) found |= Uses(e, i.var);
      }
      return true;
    });
    return found;
  }

  Status ReadCall(const Block& b, const Call& call, Stage& s) const {
    if (!b.iters.empty() || b.init != nullptr || b.predicate != nullptr)
      return Error("it calls \"", call.text, "\" more than once, or under a condition");
    Status status;
    ForEachOperand(call, [&](const Call::Operand& o, absl::Span<const Expr> args) {
      if (!o.is_output || !status.ok()) return;
      const Buffer whole = WholeOf(o, args);
      if (whole == nullptr) status = Error("it writes a part of ", args[0]->buffer->name);
      s.outputs.push_back(args[0]->buffer);
    });
    if (status.ok() && s.outputs.empty()) return Error("it stores nothing");
    s.call = MakeStmt(call);
    return status;
  }

  // let v = <of what runs>; ...; running[others] = v; ...; outputs[iters] = v, or that converted; ...
  Status ReadScan(const Block& b, Stage& s) const {
    if (b.predicate != nullptr) return Error("it has a predicate");
    if (b.init == nullptr) return Error("it starts elsewhere");
    VarMap lets;
    std::vector<Expr> vars;
    std::vector<const Store*> stores;
    for (const Stmt& x : StatementsOf(b.body)) {
      const Let* let = As<Let>(x);
      const Store* store = As<Store>(x);
      if (let != nullptr && stores.empty()) {
        vars.push_back(let->var);
        s.values.push_back(Substitute(c_, let->value, lets));
        lets[let->var] = s.values.back();
      } else if (store != nullptr && store->mask == nullptr) {
        stores.push_back(store);
      } else {
        return Error("it does more than store elements");
      }
    }
    const size_t n = vars.size();
    if (n == 0 || stores.size() != 2 * n)
      return Error("expected the running values to be stored, then each where ", s.along->name, " says");
    const std::vector<Expr> others = OthersOf(s), all = VarsOf(s.iters);
    for (size_t k = 0; k < n; ++k) {
      const Store &run = *stores[k], &out = *stores[n + k];
      if (run.indices != others || run.value != vars[k])
        return Error("expected ", run.buffer->name, " to take ", vars[k]->name, " at the other iterators than ",
                     s.along->name);
      if (out.indices != all || out.value != c_.Cast(out.buffer->dtype, vars[k]))
        return Error("expected ", out.buffer->name, " to take ", vars[k]->name, " at its iterators");
      for (size_t d = 0; d < all.size(); ++d) {
        if (out.buffer->shape[d] != s.iters[d].extent) return Error("it writes a part of ", out.buffer->name);
      }
      s.running.push_back(run.buffer);
      s.outputs.push_back(out.buffer);
    }
    for (const Stmt& x : StatementsOf(b.init)) {
      const Store* store = As<Store>(x);
      const size_t k = s.inits.size();
      if (store == nullptr || store->mask != nullptr || k == n || store->buffer != s.running[k] ||
          store->indices != others)
        return Error("its start is not that of its running values");
      s.inits.push_back(store->value);
    }
    if (s.inits.size() != n) return Error("its start is not that of its running values");
    bool own = true;
    for (Expr v : s.values) {
      VisitLoads(v, [&](Expr e) {
        own = own && !Contains(s.outputs, e->buffer) && (!Contains(s.running, e->buffer) || e->args == others);
      });
    }
    return own ? absl::OkStatus() : Error("it reads what it writes");
  }

  StatusOr<Stores> ReadStores(const Stmt& s) const {
    Stores r;
    VarMap lets;
    for (const Stmt& x : StatementsOf(s)) {
      const Let* let = As<Let>(x);
      const Store* store = As<Store>(x);
      if (let != nullptr && r.buffers.empty()) {
        lets[let->var] = Substitute(c_, let->value, lets);
        continue;
      }
      if (store == nullptr || store->mask != nullptr) return Error("it does more than store elements");
      if (!r.buffers.empty() && store->indices != r.at) return Error("it stores at several places");
      const Expr value = Substitute(c_, store->value, lets);
      bool reads = false;  // what was just stored
      Visit(store->value, [&](Expr e) {
        reads |= e->op == ExprOp::kLoad && std::count(r.buffers.begin(), r.buffers.end(), e->buffer) > 0;
        return true;
      });
      if (reads) return Error("what it stores to ", store->buffer->name, " reads what it stored before");
      r.at = store->indices;
      r.buffers.push_back(store->buffer);
      r.values.push_back(value);
    }
    if (r.buffers.empty()) return Error("it stores nothing");
    return r;
  }

  Status Check(const Stage& s) const {
    const std::vector<Expr> vars = VarsOf(s.iters);
    bool running = true;
    for (Expr v : s.values) {
      Visit(v, [&](Expr e) {
        if (e->op == ExprOp::kLoad && std::count(s.outputs.begin(), s.outputs.end(), e->buffer) > 0)
          running &= s.IsReduction() && e->args == vars;
        return true;
      });
    }
    if (!running) return Error("it reads what it writes");
    for (Buffer b : s.outputs) {
      if (b->shape != s.outputs[0]->shape) return Error("its results have several shapes");
      for (size_t d = 0; d < s.iters.size() && s.at.empty(); ++d) {
        if (b->shape[d] != s.iters[d].extent) return Error("it writes a part of ", b->name);
      }
    }
    return absl::OkStatus();
  }

  Context& c_;
  Stmt nest_;
  std::string name_;
};

}  // namespace

StatusOr<TeProgram> ToStages(const Func& f) {
  if (f.kind != FuncKind::kInternal) return InvalidArgument("stages are in no ", Name(f.kind), " function");
  TeProgram p{f.name, f.context, f.params, f.symbols, {}};
  absl::flat_hash_set<Buffer> made, read, allocated, running;
  const std::vector<Stmt> statements = StatementsOf(f.body);
  for (const Stmt& s : statements) {
    if (const Alloc* alloc = As<Alloc>(s)) {
      allocated.insert(alloc->buffer);
      continue;
    }
    ASSIGN_OR_RETURN(Stage stage, StageReader(*f.context, s).Read());
    const auto error = [&](Buffer b, std::string_view why) {
      return InvalidArgument("stage ", stage.name, ": ", b->name, " is ", why);
    };
    for (Buffer b : InputsOf(stage)) {
      if (allocated.contains(b) && !made.contains(b)) return error(b, "read before it is written");
      if (running.contains(b)) return error(b, "a running value of another stage");
      if (!made.contains(b)) read.insert(b);
    }
    for (Buffer b : stage.outputs) {
      if (read.contains(b)) return error(b, "read before it is written");
      if (!made.insert(b).second) return error(b, "written by two stages");
    }
    for (Buffer b : stage.running) {
      if (!allocated.contains(b)) return error(b, "a running value, for which expected an allocation");
      if (read.contains(b) || !made.insert(b).second) return error(b, "written by two stages");
      running.insert(b);
    }
    p.stages.push_back(std::move(stage));
  }
  return p;
}

}  // namespace cinn_like::ir
