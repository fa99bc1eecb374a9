// chain: reductions over one dimension of which later ones need an earlier one's result run in one loop.
#include <algorithm>
#include <functional>

#include "ir/join.h"
#include "ir/linear.h"
#include "ir/schedule/chain_elements.h"
#include "ir/schedule/legality.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/region.h"
#include "ir/schedule/tree.h"
#include "ir/te.h"

namespace cinn_like::ir {
namespace {

bool IsReduction(const Block& b) {
  return std::any_of(b.iters.begin(), b.iters.end(), [](const BlockIter& i) { return i.kind == IterKind::kReduce; });
}

bool Reads(const Stmt& s, Buffer b) {
  const std::vector<Buffer> read = BuffersRead(s);
  return std::find(read.begin(), read.end(), b) != read.end();
}

bool Writes(const Stmt& s, Buffer b) {
  const std::vector<Buffer> written = BuffersWritten(s);
  return std::find(written.begin(), written.end(), b) != written.end();
}

bool IsAt(const std::vector<Expr>& indices, const Block& b, IterKind kind) {
  size_t iters = 0;
  bool all = true;
  for (const BlockIter& i : b.iters) {
    if (i.kind != kind) continue;
    ++iters;
    all = all && std::count(indices.begin(), indices.end(), i.var) == 1;
  }
  return all && iters == indices.size();
}

class Chainer {
 public:
  Chainer(Func f, const std::vector<std::string>& loops, const std::string& name)
      : f_(std::move(f)), c_(*f_.context), loops_(loops), name_(name) {}

  StatusOr<Func> Run() {
    RETURN_IF_ERROR(FindMembers());
    RETURN_IF_ERROR(FindMaximum());
    for (size_t k = 0; k < members_.size(); ++k) {
      if (&members_[k] != max_) RETURN_IF_ERROR(FindDependent(members_[k]));
    }
    const Range range = FindRange();
    RETURN_IF_ERROR(MergeLoops());
    RETURN_IF_ERROR(AddRepairs());
    RETURN_IF_ERROR(Narrow(range));
    return std::move(f_);
  }

 private:
  struct Member {
    size_t loop;    // of loops_
    StmtPath path;  // of a block in it
    const Block& block() const { return *As<Block>(path.back()); }
    size_t DepthOf(const std::string& name) const {
      size_t d = 0;
      while (As<For>(path[d]) == nullptr || As<For>(path[d])->var->name != name) ++d;
      return d;
    }
  };
  // A sum whose elements need the maximum.
  struct Sum {
    std::string block;
    Expr running;              // as its block loads it
    std::vector<Expr> max_at;  // the maximum that it needs, in terms of its iterators
    size_t factor;             // of factors_
  };

  Status FindMembers() {
    if (loops_.size() < 2) return InvalidArgument("it takes two loops or more");
    std::vector<StmtPath> paths;
    for (const std::string& name : loops_) {
      ASSIGN_OR_RETURN(StmtPath p, FindLoop(f_, name));
      if (As<For>(p.back())->kind != ForKind::kSerial) return InvalidArgument("loop ", name, " is not serial");
      paths.push_back(std::move(p));
    }
    for (const StmtPath& p : FindBlocks(f_)) {
      for (size_t k = 0; k < paths.size(); ++k) {
        if (std::find(p.begin(), p.end(), paths[k].back()) != p.end()) members_.push_back({k, p});
      }
    }
    // Nothing but blocks in loops.
    for (const StmtPath& p : paths) {
      Status plain;
      VisitStmts(p.back(), [&](const Stmt& s) {
        if (As<Block>(s) != nullptr) return false;
        if (As<For>(s) == nullptr && As<Seq>(s) == nullptr && plain.ok())
          plain = InvalidArgument("only loops and blocks can be chained:\n", Print(s));
        return true;
      });
      RETURN_IF_ERROR(plain);
    }
    return absl::OkStatus();
  }

  // Whether it reduces from one iteration of its loop to the next.
  bool IsCarried(const Member& m) const {
    const Expr var = As<For>(m.path[m.DepthOf(loops_[m.loop])])->var;
    return std::any_of(m.block().iters.begin(), m.block().iters.end(),
                       [&](const BlockIter& i) { return i.kind == IterKind::kReduce && Uses(i.binding, var); });
  }

  // What an earlier loop reduces into and a later one reads.
  Status FindMaximum() {
    for (const Member& m : members_) {
      if (!IsCarried(m)) continue;
      for (Buffer b : BuffersWritten(m.block().body)) {
        const auto reads = [&](const Member& x) { return x.loop > m.loop && Reads(x.path.back(), b); };
        if (std::none_of(members_.begin(), members_.end(), reads)) continue;
        if (max_ != nullptr)
          return InvalidArgument("later loops need ", maximum_->name, " and ", b->name, ", which are finished at once");
        max_ = &m, maximum_ = b;
      }
    }
    if (max_ == nullptr) return InvalidArgument("no loop needs what an earlier one reduces: they can be merged");
    const Block& b = max_->block();
    if (b.init != nullptr) {
      return InvalidArgument("block ", b.name, " starts ", maximum_->name, " in loop ", loops_[max_->loop],
                             ": split_init that first");
    }
    const std::optional<Stores> stores = StoresOf(c_, b.body);
    std::optional<Join> join;
    if (stores && stores->buffers.size() == 1) join = FindJoin(c_, stores->values, stores->Running(c_));
    if (!join || stores->values[0]->op != ExprOp::kMax || !IsFloat(maximum_->dtype))
      return InvalidArgument("block ", b.name, ", whose ", maximum_->name,
                             " later loops need, is no maximum of floats");
    if (!IsAt(stores->indices[0], b, IterKind::kData))
      return InvalidArgument("block ", b.name, " does not write at its iterators");
    was_ = c_.Var("#was", Type{maximum_->dtype}), is_ = c_.Var("#is", Type{maximum_->dtype});
    max_at_ = stores->indices[0], element_ = join->elements[0];
    if (Reads(element_, maximum_)) return InvalidArgument("block ", b.name, " reads ", maximum_->name, " elsewhere");
    // From the first of the loops to the last nobody else writes it.
    bool between = false;
    ASSIGN_OR_RETURN(const StmtPath first, FindLoop(f_, loops_.front()));
    ASSIGN_OR_RETURN(const StmtPath last, FindLoop(f_, loops_.back()));
    const Stmt whole = first.size() > 1 ? first[first.size() - 2] : first.back();
    const Seq* seq = As<Seq>(whole);
    for (const Stmt& s : seq == nullptr ? std::vector<Stmt>{whole} : seq->stmts) {
      const auto is_loop = [&](size_t k) {
        StatusOr<StmtPath> p = FindLoop(f_, loops_[k]);
        return p.ok() && p->back() == s;
      };
      between = between || s == first.back();
      bool chained = false;
      for (size_t k = 0; k < loops_.size(); ++k) chained = chained || is_loop(k);
      if (between && !chained && Writes(s, maximum_) && After(whole, s, max_->path))
        return InvalidArgument("what stands between the loops writes ", maximum_->name, ":\n", Print(s));
      if (s == last.back()) break;
    }
    for (const Member& m : members_) {
      if (&m != max_ && Writes(m.path.back(), maximum_))
        return InvalidArgument("block ", m.block().name, " writes ", maximum_->name, ", too");
    }
    return absl::OkStatus();
  }

  // Whether `s` stands behind the path's statement in `seq`.
  static bool After(const Stmt& seq, const Stmt& s, const StmtPath& path) {
    bool seen = false;
    for (const Stmt& x : As<Seq>(seq) == nullptr ? std::vector<Stmt>{} : As<Seq>(seq)->stmts) {
      if (x == s) return seen;
      seen = seen || std::find(path.begin(), path.end(), x) != path.end();
    }
    return false;
  }

  // A block of a later loop that needs the maximum, itself or by what another one wrote for the same iteration: that or
  // a sum. Others have no say.
  Status FindDependent(const Member& m) {
    const Block& b = m.block();
    const bool needs = Reads(b.body, maximum_) || std::any_of(temps_.begin(), temps_.end(),
                                                              [&](const Temp& t) { return Reads(b.body, t.buffer); });
    if (!needs) return absl::OkStatus();
    if (m.loop <= max_->loop) {
      return m.loop == max_->loop
                 ? InvalidArgument("block ", b.name, " needs ", maximum_->name, " as far as it is in the same loop")
                 : absl::OkStatus();
    }
    const std::optional<Stores> stores = StoresOf(c_, b.body);
    if (b.init != nullptr)
      return InvalidArgument("block ", b.name, " starts its sum in loop ", loops_[m.loop], ": split_init that first");
    if (!stores || stores->buffers.size() != 1)
      return InvalidArgument("block ", b.name, ", which needs ", maximum_->name, ", does not write one value");
    const Buffer to = stores->buffers[0];
    if (!IsAt(stores->indices[0], b, IterKind::kData))
      return InvalidArgument("block ", b.name, " does not write at its iterators");
    for (const StmtPath& p : FindBlocks(f_)) {
      const bool inside =
          std::any_of(members_.begin(), members_.end(), [&](const Member& x) { return x.path.back() == p.back(); });
      const bool own = p.back() == m.path.back();
      if (!own && inside && Writes(p.back(), to))
        return InvalidArgument("block ", As<Block>(p.back())->name, " writes ", to->name, ", too");
      if (!IsReduction(b) && !inside && Reads(p.back(), to))
        return InvalidArgument("block ", As<Block>(p.back())->name, " reads ", to->name,
                               " outside of the loops, which needs the finished ", maximum_->name);
      if (IsReduction(b) && !own && inside && Reads(p.back(), to))
        return InvalidArgument("block ", As<Block>(p.back())->name, " reads ", to->name, " before it is whole");
    }
    if (!IsReduction(b)) {
      for (const Param& q : f_.params) {
        if (q.buffer == to) return InvalidArgument("the result ", to->name, " needs the finished ", maximum_->name);
      }
      temps_.push_back({to, stores->indices[0], Inlined(stores->values[0]), b.name});
      return absl::OkStatus();
    }
    const std::optional<Join> join = FindJoin(c_, stores->values, stores->Running(c_));
    if (!join || stores->values[0]->op != ExprOp::kAdd)
      return InvalidArgument("block ", b.name, ", which needs ", maximum_->name, ", is no sum");
    return AddSum(m, stores->Running(c_)[0], Unmasked(Inlined(join->elements[0])));
  }

  Expr Inlined(Expr e) const {
    for (size_t k = temps_.size(); k-- > 0;) e = InlineLoads(c_, e, temps_[k].buffer, temps_[k].at, temps_[k].value);
    return e;
  }

  // What is chosen where a condition holds needs no mask that asks it again.
  Expr Unmasked(Expr e) {
    Rewriter* self = nullptr;
    Rewriter rewrite(c_, [&](Expr x) -> Expr {
      if (x->op != ExprOp::kSelect) return nullptr;
      Rewriter unmask(c_, [&](Expr y) -> Expr {
        return y->op == ExprOp::kLoad && MaskOf(y) == x->args[0] ? c_.Load(y->buffer, IndicesOf(y)) : nullptr;
      });
      return c_.Select(x->args[0], (*self)(unmask(x->args[1])), (*self)(x->args[2]));
    });
    self = &rewrite;
    return rewrite(e);
  }

  Status AddSum(const Member& m, Expr running, Expr element) {
    const Block& b = m.block();
    if (Reads(element, running->buffer))
      return InvalidArgument("block ", b.name, " reads ", running->buffer->name, " elsewhere");
    Expr load = nullptr;
    Status one;
    VisitLoads(element, [&](Expr e) {
      if (e->buffer != maximum_) return;
      if (e->has_mask || (load != nullptr && load != e))
        one = InvalidArgument("block ", b.name, " needs ", maximum_->name, " at more than one place");
      load = e;
    });
    RETURN_IF_ERROR(one);
    VarMap at;
    for (size_t d = 0; d < max_at_.size(); ++d) at[max_at_[d]] = load->args[d];
    std::vector<const BlockIter*> steps;
    for (const BlockIter& i : b.iters) {
      if (i.kind != IterKind::kReduce) continue;
      steps.push_back(&i);
      for (Expr e : load->args) {
        if (Uses(e, i.var))
          return InvalidArgument("block ", b.name, " needs another ", maximum_->name, " for each ", i.var->name);
      }
    }
    // Both reduce the same elements in the same iterations of the loop; zeros beyond these are none.
    Analyzer of_max(c_);
    BindFacts(of_max, f_);
    size_t next = 0;
    for (const BlockIter& i : max_->block().iters) {
      if (i.kind != IterKind::kReduce) continue;
      if (next == steps.size() || !InStep(*max_, i, m, *steps[next], element))
        return InvalidArgument("blocks ", max_->block().name, " and ", b.name,
                               " do not reduce the same elements in each iteration");
      of_max.BindRange(steps[next]->var, c_.Int(0), i.extent);
      at[i.var] = steps[next++]->var;
    }
    if (next != steps.size())
      return InvalidArgument("block ", b.name, " reduces more dimensions than block ", max_->block().name);
    Expr summed = Widened(c_, element), compared = Widened(c_, Substitute(c_, element_, at));
    const bool drops = DropConditions(c_, summed, compared);
    Repair repair(of_max, load, compared, was_, is_, [&](Expr e) { return AtMaximum(e, load); });
    StatusOr<Expr> factor = repair.Of(summed);
    RETURN_IF_ERROR(Annotate(factor.status(), Cat("block ", b.name)));
    selects_ = selects_ || drops || repair.selects();
    size_t k = 0;
    while (k < factors_.size() && factors_[k] != *factor) ++k;
    if (k == factors_.size()) factors_.push_back(*factor);
    sums_.push_back({b.name, running, std::vector<Expr>(load->args), k});
    return absl::OkStatus();
  }

  // What nothing here writes, in terms of the maximum's iterators, which `load` has the places of; null: there are
  // other iterators in it.
  Expr AtMaximum(Expr e, Expr load) {
    VarMap map;
    for (size_t d = 0; d < max_at_.size(); ++d) {
      if (load->args[d]->op == ExprOp::kVar) map[load->args[d]] = max_at_[d];
    }
    bool is_given = true;
    VisitLoads(e, [&](Expr x) { is_given = is_given && !Writes(f_.body, x->buffer); });
    for (Expr v : VarsOf(e)) {
      const auto is_symbol = [&](const SymbolFact& s) { return s.var == v; };
      is_given = is_given && (map.contains(v) || std::any_of(f_.symbols.begin(), f_.symbols.end(), is_symbol));
    }
    return is_given ? Substitute(c_, e, map) : nullptr;
  }

  // At each iteration of the chained loop the step of the sum takes no value that the maximum's does not.
  bool InStep(const Member& max, const BlockIter& i, const Member& sum, const BlockIter& j, Expr element) {
    Analyzer a(c_);
    BindFacts(a, f_);
    const For* loop[2] = {nullptr, nullptr};
    absl::flat_hash_map<Expr, Expr> inner[2];
    for (size_t k = 0; k < 2; ++k) {
      const Member& m = k == 0 ? max : sum;
      for (const For* n : LoopsOf(m.path)) {
        a.BindRange(n->var, c_.Int(0), n->extent);
        if (loop[k] != nullptr) inner[k][n->var] = n->extent;
        if (n->var->name == loops_[m.loop]) loop[k] = n;
      }
    }
    if (!a.CanProve(c_.Eq(i.extent, j.extent))) {
      a.BindRange(j.var, c_.Int(0), j.extent);
      const Analyzer::Assume beyond(a, c_.Le(i.extent, j.var));
      if (!Vanishes(a, element)) return false;
    }
    const auto of_max = DenseSpanOf(a, i.binding, inner[0]);
    const auto of_sum = SpanOf(a, a.Simplify(Substitute(c_, j.binding, {{loop[1]->var, loop[0]->var}})), inner[1]);
    if (!of_max || !of_sum || !a.CanProve(c_.Eq(of_max->min, of_sum->min)) ||
        !a.CanProve(c_.Le(of_sum->extent, of_max->extent)))
      return false;
    // Nor does a condition pass over any, but those beyond the end.
    std::function<bool(Expr)> is_bound = [&](Expr e) {
      if (e->op == ExprOp::kAnd) return is_bound(e->args[0]) && is_bound(e->args[1]);
      bool steps = false;
      for (Expr v : VarsOf(i.binding)) steps = steps || Uses(e, v);
      return !steps || a.Simplify(e) == a.Simplify(c_.Lt(i.binding, i.extent));
    };
    return max.block().predicate == nullptr || is_bound(max.block().predicate);
  }

  // `e` in terms of what those blocks of the loops read that compute it element by element.
  Expr Computed(Expr e) const {
    for (size_t k = members_.size(); k-- > 0;) {
      const Block& b = members_[k].block();
      if (IsReduction(b)) continue;
      const std::optional<Stores> stores = StoresOf(c_, b.body);
      if (!stores || stores->buffers.size() != 1 || !IsAt(stores->indices[0], b, IterKind::kData)) continue;
      const std::vector<StmtPath> blocks = FindBlocks(f_);
      const auto writes = [&](const StmtPath& p) { return Writes(p.back(), stores->buffers[0]); };
      if (std::count_if(blocks.begin(), blocks.end(), writes) > 1) continue;
      e = InlineLoads(c_, e, stores->buffers[0], stores->indices[0], stores->values[0]);
    }
    return e;
  }

  // Iterations begin..end - 1 of a loop; null: from the first, to the last.
  struct Range {
    Expr begin = nullptr, end = nullptr;
  };

  // Iterations of the first loop beyond which the maximum is of -inf alone, as far as that is known and iterations do
  // no more than to go on with it and with sums of powers. These are then 0, or NaN as what any iteration finds where
  // all is -inf.
  Range FindRange() {
    if (selects_) return {};
    const std::vector<StmtPath> blocks = FindBlocks(f_);
    for (const Member& m : members_) {
      const Block& b = m.block();
      if (&m == max_ || std::any_of(sums_.begin(), sums_.end(), [&](const Sum& s) { return s.block == b.name; }))
        continue;
      for (Buffer w : BuffersWritten(b.body)) {
        const auto outside = [&](const StmtPath& p) {
          return Reads(p.back(), w) && std::none_of(members_.begin(), members_.end(),
                                                    [&](const Member& x) { return x.path.back() == p.back(); });
        };
        const bool is_param =
            std::any_of(f_.params.begin(), f_.params.end(), [&](const Param& q) { return q.buffer == w; });
        if (is_param || IsCarried(m) || std::any_of(blocks.begin(), blocks.end(), outside)) return {};
      }
    }
    std::vector<Linear> needs;
    AddNeedsOf(c_, Computed(element_), needs);
    const std::vector<const For*> around = LoopsOf(max_->path);
    absl::flat_hash_map<Expr, Expr> inner;
    const For* loop = nullptr;
    for (const For* n : around) {
      // Threads and lanes stop together.
      if (loop != nullptr || IsThreadAxis(n->kind) || n->kind == ForKind::kVectorized) inner[n->var] = n->extent;
      if (n->var->name == loops_[max_->loop]) loop = n;
    }
    Analyzer a(c_);
    BindFacts(a, f_, around);
    const VarMap bindings = Bindings(max_->block());
    Range r;
    for (const Linear& need : needs) {
      const Expr sum = a.Simplify(Substitute(c_, FromLinear(c_, need, DType::kI64), bindings));
      const Range one = WhereItMayHold(ToLinear(c_, sum), loop->var, inner);
      if (one.begin != nullptr) r.begin = r.begin == nullptr ? one.begin : c_.Max(r.begin, one.begin);
      if (one.end != nullptr) r.end = r.end == nullptr ? one.end : c_.Min(r.end, one.end);
    }
    return r;
  }

  // Of `var` the values beyond which `need` is below 0, whatever the variables of `inner` are.
  Range WhereItMayHold(const Linear& need, Expr var, const absl::flat_hash_map<Expr, Expr>& inner) {
    Linear rest = need;  // the most that it may be without `var`
    int64_t step = 0;
    for (const LinearTerm& t : need.terms) {
      const auto at = inner.find(t.atom);
      if (t.atom == var) {
        step = t.coef;
        RemoveTerm(rest, var);
      } else if (at != inner.end()) {
        RemoveTerm(rest, t.atom);
        if (t.coef > 0) rest = AddScaled(rest, ToLinear(c_, c_.Sub(at->second, c_.Int(1))), t.coef);
      } else {
        for (Expr v : VarsOf(t.atom)) {
          if (v == var || inner.contains(v)) return {};
        }
      }
    }
    if (step == 0 || !rest.exact) return {};
    const Expr most = FromLinear(c_, rest, DType::kI64);
    if (step < 0) return {nullptr, c_.Add(c_.Div(most, c_.Int(-step)), c_.Int(1))};
    return {c_.Sub(c_.Int(0), c_.Div(most, c_.Int(step))), nullptr};
  }

  // The merged loop runs over these, and once at least.
  Status Narrow(const Range& r) {
    if (r.begin == nullptr && r.end == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const StmtPath path, FindLoop(f_, loops_[0]));
    For n = *As<For>(path.back());
    Analyzer a(c_);
    BindFacts(a, f_, LoopsOf(path));
    const Expr one = c_.Int(1), end = r.end == nullptr ? n.extent : c_.Min(n.extent, c_.Max(r.end, one));
    if (r.begin == nullptr) {
      n.extent = a.Simplify(end);
      f_.body = Replace(f_.body, path.back(), MakeStmt(std::move(n)));
      return absl::OkStatus();
    }
    const Expr begin = a.Simplify(c_.Max(c_.Int(0), c_.Min(r.begin, c_.Sub(end, one))));
    n.extent = a.Simplify(c_.Sub(end, begin));
    n.body = Substitute(c_, n.body, {{n.var, c_.Add(n.var, begin)}});
    const Stmt narrowed = MakeStmt(std::move(n));
    f_.body = Replace(f_.body, path.back(), narrowed);
    f_ = SimplifyBindings(std::move(f_), narrowed);
    return absl::OkStatus();
  }

  // As if the maximum were finished by then.
  Status MergeLoops() {
    NameSupply names(f_);
    const Buffer now = c_.MakeBuffer({.name = names.Fresh("#now"),
                                      .dtype = maximum_->dtype,
                                      .shape = maximum_->shape,
                                      .strides = maximum_->strides,
                                      .scope = maximum_->scope});
    for (size_t k = 0; k < loops_.size(); ++k) {
      if (k <= max_->loop) continue;
      ASSIGN_OR_RETURN(const StmtPath p, FindLoop(f_, loops_[k]));
      f_.body = Replace(f_.body, p.back(), ReplaceBuffers(c_, p.back(), {{maximum_, now}}));
    }
    const std::string max_block = max_->block().name;
    const std::vector<Sum> sums = sums_;
    ASSIGN_OR_RETURN(f_, Merge(std::move(f_), loops_));
    // What is written for an iteration is read at that.
    Dependences dependences(f_);
    for (const Temp& t : temps_) {
      for (const Access& w : dependences.accesses()) {
        if (w.buffer != t.buffer || !w.writes) continue;
        for (const Access& r : dependences.accesses()) {
          if (r.buffer == t.buffer && !r.writes && !dependences.MeetTogether(w, r))
            return InvalidArgument("block ", t.block, " writes ", t.buffer->name, " for other iterations, too");
        }
      }
    }
    f_.body = ReplaceBuffers(c_, f_.body, {{now, maximum_}});
    max_block_ = max_block;
    return absl::OkStatus();
  }

  // Of the merged loop: the maximum as it was is kept; when it has moved on, sums follow.
  Status AddRepairs() {
    NameSupply names(f_);
    const auto taken = [&](const std::string& s) -> Status {
      return names.Fresh(s) == s ? absl::OkStatus() : InvalidArgument("the name '", s, "' is already used");
    };
    const auto buffer = [&](const std::string& name) {
      const Buffer b = c_.MakeBuffer({.name = name, .dtype = maximum_->dtype, .shape = maximum_->shape});
      allocs_.push_back(MakeStmt(Alloc{b}));
      return b;
    };
    RETURN_IF_ERROR(taken(name_));
    RETURN_IF_ERROR(taken(name_ + "_old"));
    const Buffer old = buffer(name_ + "_old");
    std::vector<Buffer> factors;
    for (size_t k = 0; k < factors_.size(); ++k) {
      factors.push_back(buffer(k == 0 ? name_ : names.Fresh(name_)));
    }
    ASSIGN_OR_RETURN(StmtPath path, FindBlock(f_, max_block_));
    const size_t depth = Member{0, path}.DepthOf(loops_[0]) + 1;
    const auto nest = [&](const StmtPath& of, const std::string& block, const std::string& suffix,
                          const std::function<Stmt(const VarMap&)>& body) -> StatusOr<Stmt> {
      RETURN_IF_ERROR(taken(block));
      return NestOfResults(c_, names, of, depth, block, suffix, body);
    };
    const auto at = [&](const std::vector<Expr>& indices, const VarMap& vars) {
      std::vector<Expr> r;
      for (Expr e : indices) r.push_back(Substitute(c_, e, vars));
      return r;
    };
    ASSIGN_OR_RETURN(const Stmt save, nest(path, Cat("b_", name_, "_old"), "old", [&](const VarMap& vars) {
                       const std::vector<Expr> i = at(max_at_, vars);
                       return MakeStmt(Store{old, i, c_.Load(maximum_, i)});
                     }));
    std::vector<Stmt> after;
    const Expr none = Identity(c_, Combiner::kMax, maximum_->dtype);
    for (size_t k = 0; k < factors.size(); ++k) {
      ASSIGN_OR_RETURN(
          const Stmt find, nest(path, Cat("b_", factors[k]->name), "new", [&](const VarMap& vars) {
            const std::vector<Expr> i = at(max_at_, vars);
            const Expr was = c_.Load(old, i), is = c_.Load(maximum_, i);
            const Expr one = c_.Const(1, maximum_->dtype);
            // A name of its own: selects are no branches around powers.
            const Expr power = c_.Var(names.Fresh("power"), Type{maximum_->dtype});
            const Expr factor = Substitute(c_, Substitute(c_, factors_[k], vars), {{was_, was}, {is_, is}});
            const Expr value = c_.Cast(maximum_->dtype, factor);
            // What was summed while there was nothing above -inf counts for nothing beside what is: below 0.
            const Expr from_nothing = c_.Select(c_.Eq(is, none), one, c_.Const(-1, maximum_->dtype));
            return MakeSeq({MakeStmt(Let{power, value}),
                            MakeStmt(Store{factors[k], i, c_.Select(c_.Eq(was, none), from_nothing, power)})});
          }));
      after.push_back(find);
    }
    for (const Sum& s : sums_) {
      ASSIGN_OR_RETURN(StmtPath of, FindBlock(f_, s.block));
      const std::string block = Cat("b_", name_, "_", s.running->buffer->name);
      ASSIGN_OR_RETURN(const Stmt repair, nest(of, block, "new", [&](const VarMap& vars) {
                         const std::vector<Expr> i = at(s.max_at, vars), to = at(IndicesOf(s.running), vars);
                         const Buffer sum = s.running->buffer;
                         const Expr factor = c_.Load(factors[s.factor], i);
                         const Expr repaired = c_.Mul(c_.Load(sum, to), c_.Cast(sum->dtype, factor));
                         const Expr drops = c_.Lt(factor, c_.Const(0, maximum_->dtype));
                         return MakeStmt(Store{sum, to, c_.Select(drops, c_.Const(0, sum->dtype), repaired)});
                       }));
      after.push_back(repair);
    }
    // Around what holds the maximum's block in the loop.
    const Stmt holder = As<Seq>(path[depth]) != nullptr ? path[depth + 1] : path[depth];
    std::vector<Stmt> made = {save, holder};
    made.insert(made.end(), after.begin(), after.end());
    f_.body = Replace(f_.body, holder, MakeSeq(made));
    made = {save};
    made.insert(made.end(), after.begin(), after.end());
    for (const Stmt& s : made) f_ = SimplifyBindings(std::move(f_), s);
    allocs_.push_back(f_.body);
    f_.body = MakeSeq(std::move(allocs_));
    return absl::OkStatus();
  }

  // What one iteration writes of each element of its own, for the later loops alone.
  struct Temp {
    Buffer buffer;
    std::vector<Expr> at;
    Expr value;
    std::string block;
  };

  Func f_;
  Context& c_;
  const std::vector<std::string>& loops_;
  const std::string& name_;
  std::vector<Member> members_;
  const Member* max_ = nullptr;
  std::string max_block_;
  Buffer maximum_ = nullptr;
  std::vector<Expr> max_at_;  // the iterators that it is at
  Expr element_ = nullptr;    // of which it is the maximum
  std::vector<Temp> temps_;
  std::vector<Sum> sums_;
  bool selects_ = false;               // elements of sums
  std::vector<Expr> factors_;          // different ones, of these two and the maximum's iterators
  Expr was_ = nullptr, is_ = nullptr;  // the maximum before and after an iteration
  std::vector<Stmt> allocs_;
};

}  // namespace

StatusOr<Func> Chain(Func f, const std::vector<std::string>& loops, const std::string& name) {
  StatusOr<Func> r = Chainer(std::move(f), loops, name).Run();
  if (!r.ok()) return Annotate(r.status(), "chain");
  return r;
}

}  // namespace cinn_like::ir
