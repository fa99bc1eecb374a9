#include "hlir/pad_products.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cinn_like/base/costs.h"
#include "hlir/library_matmul.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

class Padder {
 public:
  Padder(const TeProgram& p, const Target& target, NameSupply& names)
      : p_(p), c_(*p.context), a_(c_), target_(target), names_(names) {
    for (const SymbolFact& s : p.symbols) a_.BindSymbol(s);
    for (const Param& q : p.params) {
      if (q.role == ParamRole::kResult) results_.push_back(q.buffer);
    }
    for (size_t i = 0; i < p.stages.size(); ++i) {
      for (Buffer b : InputsOf(p.stages[i])) readers_[b].push_back(i);
    }
  }

  std::vector<Stage> Run() {
    stages_ = p_.stages;
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (done_.contains(i)) continue;
      if (!Pad(i)) kept_.push_back(stages_[i]);
    }
    return std::move(kept_);
  }

 private:
  using Extents = std::map<Expr, Expr>;  // of the iterators that are padded

  bool Pad(size_t i) {
    const Stage s = stages_[i];
    const auto con = FindContraction(s);
    if (!con || s.outputs.size() != 1) return false;
    const Extents padded = PaddedExtents(s, *con);
    if (padded.empty()) return false;
    const size_t r = RoundingOf(i);
    const std::vector<Stage> stages_before = stages_;
    const auto copies_before = copy_of_;
    std::vector<Stage> group = {s};
    if (r != i)
      group.push_back(stages_[r]);
    else if (std::optional<Stage> rounding = RoundApart(i))
      group.push_back(*std::move(rounding));
    if (FindLibraryMatmul(Program(group)) && Replace(i, r, group, *con, padded)) return true;
    copy_of_ = copies_before;
    stages_ = stages_before;
    return false;
  }

  // Stage `i` of `group`, with its rounding `r` if that is another stage, reads and writes padded tensors; unless that
  // would take longer.
  bool Replace(size_t i, size_t r, const std::vector<Stage>& group, const Contraction& con, const Extents& padded) {
    const Stage& s = group[0];
    if (con.lhs->has_mask || con.rhs->has_mask) return false;
    std::vector<Stage> copies, changed = group;
    double seconds = 0;
    for (const Expr load : {con.lhs, con.rhs}) {
      const Expr read = ReadOfCopy(load, padded, s, copies, seconds);
      if (read == nullptr) return false;
      Expr& value = changed[0].values[0];
      value = Rewriter(c_, [&](Expr e) -> Expr { return e == load ? read : nullptr; })(value);
    }
    const bool moves = std::any_of(s.iters.begin(), s.iters.end(), [&](auto& it) { return padded.contains(it.var); });
    const Buffer result = group.back().outputs[0];
    if (moves) {
      PadResult(changed, padded);
      if (Contains(results_, result)) seconds += SecondsOfCopy(result, result);
      // Sums that nothing rounds may otherwise go through an epilogue, and not through memory.
      if (group.size() == 1) seconds += SecondsOfCopy(result, result);
    }
    for (StageIter& k : changed[0].reduce_iters) k.extent = ExtentOf(k, padded);
    if (!FindLibraryMatmul(Program(changed))) return false;
    if (seconds + SecondsOf(changed) > SecondsOf(group)) return false;

    changed[0].origin_row_alignment = RowAlignment(s, result, p_.symbols);
    for (Stage& copy : copies) Keep(std::move(copy));
    for (const Stage& x : changed) Keep(x);
    if (r != i) done_.insert(r);
    if (moves) {
      const Buffer own = changed.back().outputs[0];
      Stage view = group.back();  // the result's own elements
      view.values = {c_.Load(own, VarsOf(view.iters))};
      view.reduce_iters.clear();
      view.inits.clear();
      for (size_t j = i + 1; j < stages_.size(); ++j) {
        for (Expr& v : stages_[j].values) v = InlineLoads(c_, v, result, VarsOf(view.iters), view.values[0]);
      }
      if (Contains(results_, result)) Keep(std::move(view));
    }
    return true;
  }

  void Keep(Stage s) { kept_.push_back(std::move(s)); }

  TeProgram Program(std::vector<Stage> stages) const {
    return {p_.name, p_.context, {}, p_.symbols, std::move(stages), p_.exact};
  }

  // The stage that alone reads the sums, each at its own place, and rounds them; else `i`.
  size_t RoundingOf(size_t i) const {
    const Buffer sums = stages_[i].outputs[0];
    const auto it = readers_.find(sums);
    if (it == readers_.end() || it->second.size() != 1 || Contains(results_, sums)) return i;
    const Stage& s = stages_[it->second[0]];
    if (!s.IsPointwise() || s.values.size() != 1 || !s.at.empty() || s.iters.size() != stages_[i].iters.size())
      return i;
    const Expr v = s.values[0];
    const bool rounds =
        v->op == ExprOp::kCast && IsFloat(v->type.dtype) && v->args[0] == c_.Load(sums, VarsOf(s.iters));
    return rounds && IsFloat(sums->dtype) ? it->second[0] : i;
  }

  // Where all that read the sums round them alike, wherever they write them, a stage that does it for them: what lies
  // in memory between a padded product and its readers is narrow then.
  std::optional<Stage> RoundApart(size_t i) {
    const Stage& s = stages_[i];
    const Buffer sums = s.outputs[0];
    if (!IsFloat(sums->dtype) || Contains(results_, sums)) return std::nullopt;
    const std::vector<Stage> before = stages_;
    Stage rounding;
    rounding.name = names_.Fresh(Cat(sums->name, "_round"));
    rounding.origin = s.origin;
    for (const StageIter& it : s.iters) {
      rounding.iters.push_back({c_.Var(Cat(rounding.name, "_", rounding.iters.size())), it.extent});
    }
    const auto narrows = [&](Expr e) {  // a load of the sums
      return e->op == ExprOp::kCast && e->args[0]->op == ExprOp::kLoad && e->args[0]->buffer == sums &&
             !e->args[0]->has_mask && IsFloat(e->type.dtype) && BytesOf(e->type.dtype) < BytesOf(sums->dtype);
    };
    for (const size_t j : readers_[sums]) {
      for (Expr& value : stages_[j].values) {
        value = Rewriter(c_, [&](Expr e) -> Expr {
          if (e->op == ExprOp::kCast && narrows(e->args[0])) return e;  // what is wide again stays so
          if (!narrows(e)) return nullptr;
          if (rounding.outputs.empty()) {
            rounding.outputs = {c_.MakeBuffer({.name = rounding.name, .dtype = e->type.dtype, .shape = sums->shape})};
            rounding.values = {c_.Cast(e->type.dtype, c_.Load(sums, VarsOf(rounding.iters)))};
          }
          if (e->type.dtype != rounding.outputs[0]->dtype) return nullptr;
          return c_.Load(rounding.outputs[0], e->args[0]->args);
        })(value);
      }
      if (rounding.outputs.empty() || Contains(InputsOf(stages_[j]), sums)) {
        stages_ = before;
        return std::nullopt;
      }
    }
    return rounding.outputs.empty() ? std::nullopt : std::optional(std::move(rounding));
  }

  // Of the iterators along which a row of an operand or of the result lies and whose extent is no multiple of 16 bytes.
  Extents PaddedExtents(const Stage& s, const Contraction& con) {
    const auto multiple = int64_t{kRowBytes / BytesOf(con.lhs->buffer->dtype)};
    Extents r;
    for (const std::vector<Expr>& at : {con.lhs->args, con.rhs->args, VarsOf(s.iters)}) {
      if (at.empty()) continue;
      for (const auto* list : {&s.iters, &s.reduce_iters}) {
        for (const StageIter& it : *list) {
          const double size = TypicalSize(it.extent, p_.symbols);
          if (it.var != at.back() || size <= 1 || std::fmod(size, static_cast<double>(multiple)) == 0) continue;
          const Expr up = c_.Div(c_.Add(it.extent, c_.Int(multiple - 1)), c_.Int(multiple));
          r[it.var] = a_.Simplify(c_.Mul(up, c_.Int(multiple)));
        }
      }
    }
    return r;
  }

  static Expr ExtentOf(const StageIter& it, const Extents& padded) {
    const auto found = padded.find(it.var);
    return found == padded.end() ? it.extent : found->second;
  }

  // What reads the padded copy of `load`'s tensor at the same place; the copy itself, unless there is one already, goes
  // to `copies`, its time to `seconds`. Null where a padded iterator is no index of its own.
  Expr ReadOfCopy(Expr load, const Extents& padded, const Stage& s, std::vector<Stage>& copies, double& seconds) {
    const Buffer from = load->buffer;
    std::vector<Expr> shape = from->shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Expr index = load->args[d];
      const bool moves = std::any_of(padded.begin(), padded.end(), [&](auto& x) { return Uses(index, x.first); });
      if (moves && !padded.contains(index)) return nullptr;
      if (moves) shape[d] = padded.at(index);
    }
    if (shape == from->shape) return load;
    Buffer& to = copy_of_[{from, shape}];
    if (to == nullptr) {
      Stage copy;
      copy.name = names_.Fresh(Cat(from->name, "_pad"));
      copy.origin = s.origin;
      Expr mask = nullptr;
      for (size_t d = 0; d < shape.size(); ++d) {
        const Expr var = c_.Var(Cat(copy.name, "_", d));
        copy.iters.push_back({var, shape[d]});
        if (shape[d] == from->shape[d]) continue;
        const Expr inside = c_.Lt(var, from->shape[d]);
        mask = mask == nullptr ? inside : c_.And(mask, inside);
      }
      to = c_.MakeBuffer({.name = copy.name, .dtype = from->dtype, .shape = shape});
      copy.outputs = {to};
      copy.values = {c_.Load(from, VarsOf(copy.iters), mask)};
      seconds += SecondsOfCopy(from, to);
      copies.push_back(std::move(copy));
    }
    return c_.Load(to, load->args);
  }

  // The sums, and what rounds them, in tensors of their own with padded extents.
  void PadResult(std::vector<Stage>& group, const Extents& padded) {
    Buffer before = nullptr;
    std::vector<StageIter> iters;
    for (Stage& s : group) {
      const Buffer old = s.outputs[0];
      std::vector<Expr> shape;
      for (size_t d = 0; d < s.iters.size(); ++d) {
        s.iters[d].extent = before == nullptr ? ExtentOf(s.iters[d], padded) : iters[d].extent;
        shape.push_back(s.iters[d].extent);
      }
      const Buffer own =
          c_.MakeBuffer({.name = names_.Fresh(Cat(old->name, "_pad")), .dtype = old->dtype, .shape = shape});
      const Buffer reads = before == nullptr ? old : before, now = before == nullptr ? own : group[0].outputs[0];
      s.values[0] = InlineLoads(c_, s.values[0], reads, VarsOf(s.iters), c_.Load(now, VarsOf(s.iters)));
      s.outputs = {own};
      before = old;
      iters = s.iters;
    }
  }

  double SecondsOfCopy(Buffer from, Buffer to) const {
    return GpuCostsOf(target_).kernel_seconds +
           (TypicalBytes(from, p_.symbols) + TypicalBytes(to, p_.symbols)) / BytesPerSecond(target_);
  }

  double SecondsOf(const std::vector<Stage>& group) const {
    return CostOfMatmuls(Program(group)).flops /
           ProductRate(group[0], group.back().outputs[0], p_.symbols, SpeedsOf(target_), target_);
  }

  const TeProgram& p_;
  Context& c_;
  Analyzer a_;
  const Target& target_;
  NameSupply& names_;
  std::vector<Buffer> results_;
  std::map<Buffer, std::vector<size_t>> readers_;
  std::map<std::pair<Buffer, std::vector<Expr>>, Buffer> copy_of_;
  std::set<size_t> done_;
  std::vector<Stage> stages_, kept_;
};

}  // namespace

std::vector<Stage> PadProducts(const TeProgram& program, const Target& target, NameSupply& names) {
  if (!target.HasLib("cublas")) return program.stages;
  return Padder(program, target, names).Run();
}

}  // namespace cinn_like::hlir
