#include "hlir/rewrite_stages.h"

#include <algorithm>
#include <set>

#include "hlir/library_matmul.h"
#include "hlir/pack_operands.h"
#include "hlir/pad_products.h"
#include "hlir/recenter_sums.h"
#include "hlir/split_reductions.h"
#include "hlir/stage_analysis.h"
#include "ir/analyzer.h"
#include "ir/index_map.h"
#include "ir/join.h"
#include "ir/schedule/stage_parts.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

class StageRewriter {
 public:
  StageRewriter(TeProgram program, const Target& target) : p_(std::move(program)), c_(*p_.context), target_(target) {
    for (const Param& q : p_.params) {
      if (q.buffer != nullptr) (q.role == ParamRole::kResult ? results_ : given_).insert(q.buffer);
    }
    results_.insert(p_.kept.begin(), p_.kept.end());
  }

  // Views are substituted, contractions that the library can compute get operands that it can read, reductions to few
  // results get parts that fill a GPU.
  TeProgram Run() {
    std::vector<Stage> kept;
    NameSupply names(NamesOf(p_));
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      for (Buffer b : InputsOf(p_.stages[i])) readers_[b].insert(i);
    }
    absl::flat_hash_map<Buffer, size_t> writer;  // among those kept
    absl::flat_hash_set<Buffer> read;            // by those kept
    auto keep = [&](Stage s) {
      for (Buffer b : InputsOf(s)) read.insert(b);
      for (Buffer b : s.outputs) writer.emplace(b, kept.size());
      kept.push_back(std::move(s));
    };
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      if (IsView(p_.stages[i]) && IsRounding(i)) RoundInPlace(i, names);
      AddUpOneHot(p_.stages[i]);
      const Stage s = p_.stages[i];
      const std::vector<Buffer> inputs = InputsOf(s);
      // What alone reads the only input, if that comes from a stage before.
      const auto from = inputs.size() == 1 && !read.contains(inputs[0]) ? writer.find(inputs[0]) : writer.end();
      const Stage* const source = from == writer.end() ? nullptr : &kept[from->second];
      const bool is_layout = source != nullptr && IsView(s) && IsLayoutOfProduct(i, *source);
      if (IsView(s) ? is_layout || IsRounding(i) : !IsCheaperToRepeat(i)) {
        std::vector<Stage> packed = PackOperands({p_.name, p_.context, {}, p_.symbols, {s}, p_.exact}, target_, names);
        if (packed.empty()) packed.push_back(s);
        for (Stage& x : packed) keep(std::move(x));
        continue;
      }
      const std::vector<Expr> vars = VarsOf(s.iters);
      for (size_t j : ReadersOf(s.outputs[0], i + 1)) {
        Inline(s, vars, p_.stages[j]);
        for (Buffer b : InputsOf(p_.stages[j])) readers_[b].insert(j);
      }
      if (results_.contains(s.outputs[0])) keep(s);
    }
    p_.stages = std::move(kept);
    DropUnread();
    p_.stages = PadProducts(p_, target_, names);
    p_.stages = SplitReductions(p_, target_, names);
    return RecenterSums(std::move(p_), target_, names);
  }

 private:
  // A sum of elements of which all but one are 0, that whose place is a value, is that one, if there is such a place:
  //   sum over r in 0..n of select(r == t, x, 0)  ->  select(0 <= t < n, x, 0)
  void AddUpOneHot(Stage& s) {
    if (!s.IsReduction() || s.outputs.size() != 1 || s.values[0]->op != ExprOp::kAdd) return;
    const Expr sum = RunningOf(c_, s)[0], zero = NeutralOf(c_, ExprOp::kAdd, sum->type.dtype);
    const bool first = s.values[0]->args[0] == sum;
    if (s.inits[0] != zero || (!first && s.values[0]->args[1] != sum)) return;
    Expr element = s.values[0]->args[first ? 1 : 0];
    for (size_t k = s.reduce_iters.size(); k-- > 0;) {
      const StageIter r = s.reduce_iters[k];
      Expr place = nullptr;
      bool one = true;
      Visit(element, [&](Expr e) {
        one &= e != r.var;
        if (e->op != ExprOp::kEq || (e->args[0] != r.var && e->args[1] != r.var)) return true;
        const Expr other = e->args[e->args[0] == r.var ? 1 : 0];
        one &= !Uses(other, r.var) && (place == nullptr || place == other);
        place = other;
        return false;
      });
      if (!one || place == nullptr) continue;
      const auto where = [&](bool there) {
        return Analyzer(c_).Simplify(Rewriter(c_, [&](Expr e) -> Expr {
          const bool asks = e->op == ExprOp::kEq && (e->args[0] == r.var || e->args[1] == r.var);
          return asks ? c_.Bool(there) : nullptr;
        })(element));
      };
      if (where(false) != zero) continue;
      const Expr exists = c_.And(c_.Le(c_.Int(0), place), c_.Lt(place, r.extent));
      element = c_.Select(exists, where(true), zero);
      s.reduce_iters.erase(s.reduce_iters.begin() + static_cast<ptrdiff_t>(k));
      s.values = {s.reduce_iters.empty() ? element : c_.Add(sum, element)};
      if (s.reduce_iters.empty()) s.inits.clear();
    }
  }

  // What a view read it may not read any more where it stands: a product over nothing is a constant, and what computed
  // its operands has no reader. A group needs a result, so such stages go.
  void DropUnread() {
    absl::flat_hash_set<Buffer> read = results_;
    std::vector<Stage> kept;
    for (size_t i = p_.stages.size(); i-- > 0;) {
      Stage& s = p_.stages[i];
      if (std::none_of(s.outputs.begin(), s.outputs.end(), [&](Buffer b) { return read.contains(b); })) continue;
      if (s.outputs.size() == 2 && !read.contains(s.outputs[1])) DropPlaces(s);
      for (Buffer b : InputsOf(s)) read.insert(b);
      kept.push_back(std::move(s));
    }
    std::reverse(kept.begin(), kept.end());
    p_.stages = std::move(kept);
  }

  // Of pairs of a value and its place that `s` chooses the values alone: the largest ones, or the smallest.
  void DropPlaces(Stage& s) {
    const std::vector<Expr> running = RunningOf(c_, s);
    const std::optional<Join> join = !s.IsPointwise() ? FindJoin(c_, s.values, running) : std::nullopt;
    const std::optional<bool> largest = join ? ChoosesFirst(c_, *join, 0) : std::nullopt;
    if (!largest) return;
    s.outputs.pop_back();
    s.inits.pop_back();
    if (s.IsScan()) s.running.pop_back();
    s.values = {Combine(c_, *largest ? Combiner::kMax : Combiner::kMin, running[0], join->elements[0])};
  }

  void Inline(const Stage& view, const std::vector<Expr>& vars, Stage& reader) {
    for (Expr& v : reader.values) v = InlineLoads(c_, v, view.outputs[0], vars, view.values[0]);
  }

  // View `i` alone reads `product`, a contraction, which can write as it says; and nobody can say more, a view that
  // alone reads this one. `product`: the one of the stages kept that computes what the view reads, and no other kept
  // one does.
  bool IsLayoutOfProduct(size_t i, const Stage& product) {
    const Stage& s = p_.stages[i];
    const Buffer input = InputsOf(s)[0];
    if (results_.contains(input) || !FindContraction(product) || ReadersOf(input, i).size() != 1) return false;
    if (!CanWrite(product, s)) return false;
    const std::vector<size_t> readers = ReadersOf(s.outputs[0], i + 1);
    if (readers.size() != 1 || results_.contains(s.outputs[0])) return true;
    Stage next = p_.stages[readers[0]];
    if (!IsView(next)) return true;
    Inline(s, VarsOf(s.iters), next);
    return !CanWrite(product, next);
  }

  // View `i` makes narrow floats of wide ones: it is a step of what computes them rather than of its readers, who read
  // less then. Of a chain of views the last one is; but what is wide again for the caller alone was never narrow in
  // memory.
  bool IsRounding(size_t i) const {
    const Stage& s = p_.stages[i];
    const std::vector<Buffer> inputs = InputsOf(s);
    const DType to = s.outputs[0]->dtype;
    if (inputs.size() != 1 || !IsFloat(to) || BytesOf(to) >= BytesOf(inputs[0]->dtype)) return false;
    std::vector<size_t> readers = ReadersOf(s.outputs[0], i + 1);
    if (readers.size() != 1 || !IsView(p_.stages[readers[0]])) return true;
    if (BytesOf(p_.stages[readers[0]].outputs[0]->dtype) <= BytesOf(to)) return false;
    while (readers.size() == 1 && IsView(p_.stages[readers[0]])) {
      const Buffer wide = p_.stages[readers[0]].outputs[0];
      if (results_.contains(wide)) return false;
      readers = ReadersOf(wide, readers[0] + 1);
    }
    return true;
  }

  // View `i`, a rounding (above) that also says where elements lie, rounds them where they lie before, as a step of
  // what computes them; its readers look for them there.
  //   o[i, j] = bf16(x[i / 8, i % 8, j])  ->  r[a, b, j] = bf16(x[a, b, j]);  y[i, j] = f(r[i / 8, i % 8, j])
  void RoundInPlace(size_t i, NameSupply& names) {
    Stage& s = p_.stages[i];
    if (results_.contains(s.outputs[0]) || given_.contains(InputsOf(s)[0])) return;
    Expr load = nullptr;
    VisitLoads(s.values[0], [&](Expr e) { load = e; });
    if (load->has_mask || load->args == VarsOf(s.iters)) return;
    Stage rounded;
    std::vector<Expr> vars;
    for (Expr extent : load->buffer->shape) {
      rounded.iters.push_back({c_.Var(names.Fresh("i")), extent});
      vars.push_back(rounded.iters.back().var);
    }
    Analyzer a(c_);
    BindFacts(a, p_, {});
    if (!InvertIndexMap(a, s.iters, load->args, load->buffer->shape, vars)) return;
    const Expr here = c_.Load(load->buffer, vars);
    const Expr value = Rewriter(c_, [&](Expr e) { return e == load ? here : nullptr; })(s.values[0]);
    if (std::any_of(s.iters.begin(), s.iters.end(), [&](const StageIter& x) { return Uses(value, x.var); })) return;
    rounded.name = names.Fresh(s.name);
    rounded.origin = s.origin;
    rounded.values = {value};
    rounded.outputs = {c_.MakeBuffer(
        {.name = names.Fresh(s.outputs[0]->name), .dtype = s.outputs[0]->dtype, .shape = load->buffer->shape})};
    Stage view = s;
    view.values = {c_.Load(rounded.outputs[0], load->args)};
    for (size_t j : ReadersOf(s.outputs[0], i + 1)) {
      Inline(view, VarsOf(s.iters), p_.stages[j]);
      for (Buffer b : InputsOf(p_.stages[j])) readers_[b].insert(j);
    }
    s = std::move(rounded);
  }

  // Stage `i` makes more bytes than it reads, at little cost: a mask, a one-hot row, what is done in f32 with 16-bit
  // values; or as many as it reads of what lies in memory anyway: normalised rows. Each reader computes its elements
  // again, which takes less than to write and to read them.
  bool IsCheaperToRepeat(size_t i) const {
    constexpr double kMostRead = 0.75, kMostGiven = 1.05;  // of the bytes made
    constexpr int kMostDepth = 64;                         // chains of such stages end up in one expression
    const Stage& s = p_.stages[i];
    if (!s.IsPointwise() || s.values.size() != 1 || results_.contains(s.outputs[0])) return false;
    if (s.values[0]->depth > kMostDepth || CostOf(s.values[0]) >= kCostly) return false;
    const double made = TypicalBytes(s.outputs[0], p_.symbols);
    double read = 0, computed = 0;
    for (Buffer b : InputsOf(s)) {
      read += TypicalBytes(b, p_.symbols);
      if (!given_.contains(b)) computed += TypicalBytes(b, p_.symbols);
    }
    if (read > (computed > made * (kMostGiven - 1) ? kMostRead : kMostGiven) * made) return false;
    const std::vector<size_t> readers = ReadersOf(s.outputs[0], i + 1);
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](size_t j) {
      const Stage& reader = p_.stages[j];
      const double places = TypicalSize(reader.iters, p_.symbols) * TypicalSize(reader.reduce_iters, p_.symbols);
      return places < 2 * TypicalSize(s.iters, p_.symbols);
    });
  }

  // The stages from `from` on that read `b`, while stages are rewritten.
  std::vector<size_t> ReadersOf(Buffer b, size_t from) const {
    auto it = readers_.find(b);
    if (it == readers_.end()) return {};
    return {it->second.lower_bound(from), it->second.end()};
  }

  bool CanWrite(const Stage& product, const Stage& epilogue) {
    return IsEpilogue(p_, target_, {product, epilogue}, epilogue.outputs);
  }

  TeProgram p_;
  Context& c_;
  const Target& target_;
  absl::flat_hash_set<Buffer> results_, given_;            // to and by the caller
  absl::flat_hash_map<Buffer, std::set<size_t>> readers_;  // of a tensor
};

}  // namespace

bool IsEpilogue(const TeProgram& p, const Target& target, const std::vector<Stage>& kept,
                const std::vector<Buffer>& outputs) {
  if (kept.size() != 2 || outputs.size() != 1 || !kept[1].IsPointwise() || !FindContraction(kept[0])) return false;
  if (kept[1].outputs[0] != outputs[0] || kept[1].values.size() != 1) return false;
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
  const auto is_call = [&](std::vector<Stage> stages) {
    return FindLibraryMatmul({p.name, p.context, {}, p.symbols, std::move(stages), p.exact}).has_value();
  };
  if (target.HasLib("cublas") && is_call({kept[0]})) return is_call(kept);
  Analyzer a(*p.context);
  BindFacts(a, p, {});
  return !reads.empty() &&
         InvertIndexMap(a, kept[1].iters, reads[0], kept[0].outputs[0]->shape, VarsOf(kept[0].iters)).has_value();
}

TeProgram RewriteStages(TeProgram program, const Target& target) {
  return StageRewriter(std::move(program), target).Run();
}

}  // namespace cinn_like::hlir
