#include "hlir/fusion.h"

#include <algorithm>
#include <set>

#include "hlir/library_matmul.h"
#include "hlir/pack_operands.h"
#include "hlir/split_reductions.h"
#include "hlir/stage_analysis.h"
#include "ir/alignment.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

constexpr size_t kMaxStages = 48;   // of one group
constexpr size_t kMaxBuffers = 24;  // that one kernel reads and writes

bool Contains(const std::vector<Buffer>& v, Buffer b) { return std::find(v.begin(), v.end(), b) != v.end(); }

class Planner {
 public:
  Planner(TeProgram program, const Target& target)
      : p_(std::move(program)), c_(*p_.context), target_(target), has_library_(target.HasLib("cublas")) {
    for (const Param& q : p_.params) {
      if (q.role == ParamRole::kResult && q.buffer != nullptr) results_.push_back(q.buffer);
    }
  }

  FusionPlan Run(bool fuse) {
    RewriteStages();
    const int n = static_cast<int>(p_.stages.size());
    group_of_.resize(n);
    members_.resize(n);
    for (int i = 0; i < n; ++i) {
      group_of_[i] = i;
      members_[i] = {i};
      for (Buffer b : p_.stages[i].outputs) writer_[b] = i;
    }
    producers_.resize(n);
    consumers_.resize(n);
    for (int i = 0; i < n; ++i) {
      for (Buffer b : InputsOf(p_.stages[i])) {
        auto it = writer_.find(b);
        if (it == writer_.end()) continue;
        producers_[i].push_back(it->second);
        consumers_[it->second].push_back(i);
      }
    }
    if (fuse) {
      for (int i = 0; i < n; ++i) Grow(i);
      JoinSiblings();
    }
    return {std::move(p_), Order()};
  }

 private:
  // Views are substituted, contractions that the library can compute get operands that it can read, reductions to few
  // results get parts that fill a GPU.
  void RewriteStages() {
    std::vector<Stage> kept;
    NameSupply names;
    for (const Param& q : p_.params) names.Reserve(q.buffer == nullptr ? q.var->name : q.buffer->name);
    for (const Stage& s : p_.stages) {
      for (Buffer b : s.outputs) names.Reserve(b->name);
    }
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      const Stage s = p_.stages[i];
      if (!IsView(s) || IsLayoutOfProduct(i, kept) || IsRounding(i)) {
        std::vector<Stage> packed = PackOperands({p_.name, p_.context, {}, p_.symbols, {s}}, target_, names);
        if (packed.empty()) packed.push_back(s);
        kept.insert(kept.end(), packed.begin(), packed.end());
        continue;
      }
      const std::vector<Expr> vars = VarsOf(s.iters);
      for (size_t j = i + 1; j < p_.stages.size(); ++j) Inline(s, vars, p_.stages[j]);
      if (Contains(results_, s.outputs[0])) kept.push_back(s);
    }
    p_.stages = std::move(kept);
    if (target_.IsGpu()) p_.stages = SplitReductions(p_, target_, names);
  }

  void Inline(const Stage& view, const std::vector<Expr>& vars, Stage& reader) {
    for (Expr& v : reader.values) v = InlineLoads(c_, v, view.outputs[0], vars, view.values[0]);
  }

  // View `i` alone reads a contraction among `before`, which can write as it says; and nobody can say more, a view
  // that alone reads this one.
  bool IsLayoutOfProduct(size_t i, const std::vector<Stage>& before) {
    const Stage& s = p_.stages[i];
    const std::vector<Buffer> inputs = InputsOf(s);
    if (inputs.size() != 1 || Contains(results_, inputs[0])) return false;
    const auto product = std::find_if(before.begin(), before.end(), [&](const Stage& x) {
      return Contains(x.outputs, inputs[0]) && FindContraction(x).has_value();
    });
    const bool alone = ReadersOf(p_.stages, inputs[0], i).size() == 1 && ReadersOf(before, inputs[0], 0).empty();
    if (product == before.end() || !alone || !CanWrite(*product, s)) return false;
    const std::vector<size_t> readers = ReadersOf(p_.stages, s.outputs[0], i + 1);
    if (readers.size() != 1 || Contains(results_, s.outputs[0])) return true;
    Stage next = p_.stages[readers[0]];
    if (!IsView(next)) return true;
    Inline(s, VarsOf(s.iters), next);
    return !CanWrite(*product, next);
  }

  // View `i` makes narrow floats of wide ones: it is a step of what computes them rather than of its readers, who read
  // less then. Of a chain of views the last one is.
  bool IsRounding(size_t i) const {
    const Stage& s = p_.stages[i];
    const std::vector<Buffer> inputs = InputsOf(s);
    const DType to = s.outputs[0]->dtype;
    if (inputs.size() != 1 || !IsFloat(to) || BytesOf(to) >= BytesOf(inputs[0]->dtype)) return false;
    const std::vector<size_t> readers = ReadersOf(p_.stages, s.outputs[0], i + 1);
    return readers.size() != 1 || !IsView(p_.stages[readers[0]]);
  }

  static std::vector<size_t> ReadersOf(const std::vector<Stage>& stages, Buffer b, size_t from) {
    std::vector<size_t> r;
    for (size_t j = from; j < stages.size(); ++j) {
      if (Contains(InputsOf(stages[j]), b)) r.push_back(j);
    }
    return r;
  }

  bool CanWrite(const Stage& product, const Stage& epilogue) {
    return IsEpilogue({product, epilogue}, epilogue.outputs);
  }

  bool IsLibraryCall(std::vector<Stage> stages) const {
    return FindLibraryMatmul({p_.name, p_.context, {}, p_.symbols, std::move(stages)}).has_value();
  }

  // Joins stage `i` with the groups of its producers where that works, largest producer first; then with the producers
  // of what it joined: what two stages read can only join once both have.
  void Grow(int i) {
    if (FindContraction(p_.stages[i])) return;
    std::set<int> refused;
    for (bool joined = true; joined;) {
      joined = false;
      for (int producer : ProducersOf(members_[group_of_[i]])) {
        if (refused.contains(group_of_[producer])) continue;
        joined = Join(group_of_[producer], group_of_[i]);
        if (joined) break;
        refused.insert(group_of_[producer]);
      }
      if (joined) refused.clear();
    }
  }

  bool IsContractionGroup(int g) const {
    return std::any_of(members_[g].begin(), members_[g].end(),
                       [&](int i) { return FindContraction(p_.stages[i]).has_value(); });
  }

  static bool IsSingle(const std::vector<Expr>& extents) {
    return std::all_of(extents.begin(), extents.end(), [](Expr e) { return IsInt(e, 1); });
  }

  static std::vector<Expr> ExtentsOf(const Stage& s) {
    std::vector<Expr> r;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& i : *list) r.push_back(i.extent);
    }
    return r;
  }

  // Groups that read a tensor in common do so once, where they can.
  void JoinSiblings() {
    absl::flat_hash_map<Buffer, std::vector<int>> readers;
    std::vector<Buffer> order;
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      const std::vector<Expr> extents = ExtentsOf(p_.stages[i]);
      for (Buffer b : InputsOf(p_.stages[i])) {
        if (IsSingle(b->shape) && !IsSingle(extents)) continue;  // such readers may have nothing in common
        std::vector<int>& stages = readers[b];
        if (stages.empty()) order.push_back(b);
        stages.push_back(static_cast<int>(i));
      }
    }
    for (Buffer b : order) {
      const std::vector<int>& stages = readers[b];
      for (size_t i = 0; i < stages.size(); ++i) {
        for (size_t j = i + 1; j < stages.size(); ++j) {
          const int g = group_of_[stages[i]], h = group_of_[stages[j]];
          if (g != h && !IsContractionGroup(g) && !IsContractionGroup(h)) Join(g, h);
        }
      }
    }
  }

  // Stages outside the group that it reads, largest first; but what a contraction reads would be computed again for
  // each of its results.
  std::vector<int> ProducersOf(const std::vector<int>& group) const {
    std::vector<int> r;
    for (int m : group) {
      if (FindContraction(p_.stages[m])) continue;
      for (int q : producers_[m]) {
        if (group_of_[q] != group_of_[m] && std::find(r.begin(), r.end(), q) == r.end()) r.push_back(q);
      }
    }
    std::sort(r.begin(), r.end(), [&](int a, int b) { return Rank(a) != Rank(b) ? Rank(a) > Rank(b) : a > b; });
    return r;
  }

  bool Join(int producer, int reader) {
    std::vector<int> merged = members_[producer];
    merged.insert(merged.end(), members_[reader].begin(), members_[reader].end());
    std::sort(merged.begin(), merged.end());
    if (merged.size() > kMaxStages || MakesCycle(merged) || !CanShareKernel(merged)) return false;
    for (int m : merged) group_of_[m] = producer;
    members_[producer] = std::move(merged);
    members_[reader].clear();
    return true;
  }

  size_t Rank(int i) const { return p_.stages[i].iters.size(); }

  // Some stage outside reads a member and is read, perhaps through others, by a member.
  bool MakesCycle(const std::vector<int>& merged) const {
    const std::set<int> inside(merged.begin(), merged.end());
    std::set<int> inside_groups;
    for (int m : merged) inside_groups.insert(group_of_[m]);
    std::set<int> seen;
    std::vector<int> work;
    for (int m : merged) {
      for (int c : consumers_[m]) {
        if (!inside.contains(c) && seen.insert(group_of_[c]).second) work.push_back(group_of_[c]);
      }
    }
    while (!work.empty()) {
      const int g = work.back();
      work.pop_back();
      for (int m : members_[g]) {
        for (int c : consumers_[m]) {
          if (inside.contains(c)) return true;
          if (seen.insert(group_of_[c]).second) work.push_back(group_of_[c]);
        }
      }
    }
    return false;
  }

  std::vector<Buffer> OutputsOf(const std::vector<int>& group) const {
    const std::set<int> inside(group.begin(), group.end());
    std::vector<Buffer> r;
    for (int i : group) {
      for (Buffer b : p_.stages[i].outputs) {
        bool leaves = Contains(results_, b);
        for (int c : consumers_[i]) leaves |= !inside.contains(c) && Contains(InputsOf(p_.stages[c]), b);
        if (leaves) r.push_back(b);
      }
    }
    return r;
  }

  bool CanShareKernel(const std::vector<int>& group) {
    std::vector<Stage> stages;
    std::set<Buffer> buffers;
    for (int i : group) {
      stages.push_back(p_.stages[i]);
      for (Buffer b : InputsOf(p_.stages[i])) buffers.insert(b);
    }
    if (buffers.size() > kMaxBuffers) return false;
    const std::vector<Buffer> outputs = OutputsOf(group);
    auto kept = InlineGroup(c_, stages, outputs);
    if (!kept) return false;
    const bool contraction =
        std::any_of(kept->begin(), kept->end(), [](const Stage& s) { return FindContraction(s).has_value(); });
    if (!contraction) return FindRowSpace(*kept).has_value();
    return IsEpilogue(*kept, outputs);
  }

  // A contraction and one pointwise stage that reads each of its elements once.
  bool IsEpilogue(const std::vector<Stage>& kept, const std::vector<Buffer>& outputs) {
    if (kept.size() != 2 || outputs.size() != 1 || kept[1].IsReduction() || !FindContraction(kept[0])) return false;
    if (kept[1].outputs[0] != outputs[0] || kept[1].values.size() != 1) return false;
    const std::vector<Expr>* at = nullptr;
    std::vector<std::vector<Expr>> reads;
    Visit(kept[1].values[0], [&](Expr e) {
      if (e->op == ExprOp::kLoad && e->buffer == kept[0].outputs[0]) {
        reads.push_back(e->args);
        if (e->has_mask) reads.push_back({});
      }
      return true;
    });
    for (const auto& r : reads) {
      if (r.empty() || r != reads[0]) return false;
    }
    at = reads.empty() ? nullptr : &reads[0];
    if (has_library_ && IsLibraryCall({kept[0]})) return IsLibraryCall(kept);
    return at != nullptr &&
           InvertIndexMap(c_, kept[1].iters, *at, kept[0].outputs[0]->shape, VarsOf(kept[0].iters)).has_value();
  }

  // The groups, each after those it reads.
  std::vector<std::vector<int>> Order() const {
    std::vector<std::vector<int>> r;
    std::set<int> done;
    std::function<void(int)> visit = [&](int g) {
      if (!done.insert(g).second) return;
      for (int m : members_[g]) {
        for (int q : producers_[m]) {
          if (group_of_[q] != g) visit(group_of_[q]);
        }
      }
      r.push_back(members_[g]);
    };
    for (size_t i = 0; i < group_of_.size(); ++i) visit(group_of_[i]);
    return r;
  }

  TeProgram p_;
  Context& c_;
  const Target& target_;
  const bool has_library_;  // of matrix products
  std::vector<Buffer> results_;
  absl::flat_hash_map<Buffer, int> writer_;
  std::vector<std::vector<int>> producers_, consumers_;  // by stage
  std::vector<int> group_of_;
  std::vector<std::vector<int>> members_;  // by group
};

}  // namespace

StatusOr<FusionPlan> PlanFusion(TeProgram program, bool fuse, const Target& target) {
  return Planner(std::move(program), target).Run(fuse);
}

StatusOr<ExtractedGroup> ExtractGroup(const FusionPlan& plan, const std::vector<int>& group) {
  const TeProgram& p = plan.program;
  Context& from = *p.context;
  const std::set<int> inside(group.begin(), group.end());
  // What leaves the group: results of the program and what other groups read.
  std::vector<Buffer> outputs;
  std::vector<Stage> stages;
  for (int i : group) stages.push_back(p.stages[i]);
  for (int i : group) {
    for (Buffer b : p.stages[i].outputs) {
      bool leaves = std::any_of(p.params.begin(), p.params.end(),
                                [&](const Param& q) { return q.buffer == b && q.role == ParamRole::kResult; });
      for (size_t j = 0; j < p.stages.size(); ++j)
        leaves |= !inside.contains(static_cast<int>(j)) && Contains(InputsOf(p.stages[j]), b);
      if (leaves) outputs.push_back(b);
    }
  }
  auto kept = InlineGroup(from, stages, outputs);
  RET_CHECK(kept.has_value());
  std::vector<Buffer> inner, inputs;
  for (const Stage& s : *kept) inner.insert(inner.end(), s.outputs.begin(), s.outputs.end());
  for (const Stage& s : *kept) {
    for (Buffer b : InputsOf(s)) {
      if (!Contains(inner, b) && !Contains(inputs, b)) inputs.push_back(b);
    }
  }

  ExtractedGroup r;
  r.program.name = "kernel";
  r.program.context = std::make_shared<Context>();
  Context& c = *r.program.context;
  absl::flat_hash_map<Expr, Expr> vars;  // program variable -> group variable
  absl::flat_hash_map<Buffer, Buffer> buffers;
  std::vector<Expr> symbols;
  absl::flat_hash_map<Expr, Expr> memo;
  std::function<Expr(Expr)> expr;
  auto buffer = [&](Buffer b, const std::string& name) {
    BufferNode n = *b;
    n.name = name;
    for (Expr& e : n.shape) e = expr(e);
    for (Expr& e : n.strides) e = expr(e);
    n.alignment = kTensorAlignment;
    return buffers[b] = c.MakeBuffer(std::move(n));
  };
  expr = [&](Expr e) -> Expr {
    if (auto it = memo.find(e); it != memo.end()) return it->second;
    std::vector<Expr> args;
    for (Expr a : e->args) args.push_back(expr(a));
    Expr x = nullptr;
    switch (e->op) {
      case ExprOp::kInt:
        x = c.Int(e->int_value, e->type.dtype);
        break;
      case ExprOp::kFloat:
        x = c.Float(e->float_value, e->type.dtype);
        break;
      case ExprOp::kVar: {
        auto it = vars.find(e);
        if (it == vars.end()) {
          it = vars.emplace(e, c.Var(Cat("n", symbols.size()), e->type)).first;
          symbols.push_back(e);
        }
        return it->second;  // not memoised before its declaration
      }
      case ExprOp::kLoad: {
        Expr mask = nullptr;
        if (e->has_mask) {
          mask = args.back();
          args.pop_back();
        }
        x = c.Load(buffers.at(e->buffer), std::move(args), mask);
        break;
      }
      default:
        x = c.WithArgs(e, std::move(args));
    }
    memo.emplace(e, x);
    return x;
  };
  int next_iter = 0, next_temp = 0;
  for (Buffer b : inputs) {
    const Buffer q = buffer(b, Cat("a", r.program.params.size()));
    r.program.params.push_back({q, nullptr, ParamRole::kInput});
    r.args.push_back(b);
  }
  int next_output = 0;
  for (const Stage& s : *kept) {
    Stage t;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& i : *list) {
        vars[i.var] = c.Var(Cat(list == &s.iters ? "i" : "r", next_iter++));
        (list == &s.iters ? t.iters : t.reduce_iters).push_back({vars[i.var], expr(i.extent)});
      }
    }
    for (Buffer b : s.outputs) {
      const bool leaves = Contains(outputs, b);
      const Buffer q = buffer(b, leaves ? Cat("o", next_output++) : Cat("t", next_temp++));
      t.outputs.push_back(q);
    }
    t.name = t.outputs[0]->name;
    for (Expr e : s.inits) t.inits.push_back(expr(e));
    for (Expr e : s.values) t.values.push_back(expr(e));
    for (Expr e : s.at) t.at.push_back(expr(e));
    r.program.stages.push_back(std::move(t));
  }
  for (Buffer b : inner) {
    if (!Contains(outputs, b)) continue;
    r.program.params.push_back({buffers.at(b), nullptr, ParamRole::kResult});
    r.args.push_back(b);
  }
  for (Expr s : symbols) {
    for (const SymbolFact& f : p.symbols) {
      if (f.var == s) r.program.symbols.push_back({vars[s], f.lo, f.hi, f.divisor});
    }
    r.program.params.push_back({nullptr, vars[s], ParamRole::kInput});
    r.symbols.push_back(s);
  }
  return r;
}

}  // namespace cinn_like::hlir
