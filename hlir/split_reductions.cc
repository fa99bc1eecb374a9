#include "hlir/split_reductions.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "ir/analyzer.h"
#include "ir/join.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

struct Machine {
  double row_rate, column_rate;  // bytes that one task (a block, a thread) reads a second along rows, across rows
  double bandwidth, cores;       // of all of them; where the target does not say
  double kernel_seconds;         // of one that does nothing
  double tasks_per_core;         // that balance
  double columns, full_bytes;    // a task's share of the columns; more of elements that are narrower than that
  double min_row, max_row, min_column;  // elements of a part
};
// Along rows with all threads of a block, across rows with a few warps.
constexpr Machine kGpu = {200e9, 48e9, 2e12, 128, kKernelSeconds, 8, 32, 4, 4096, 32768, 128};
constexpr Machine kCpu = {10e9, 10e9, 25e9, 1, 5e-6, 4, 16, 0, 16384, 262144, 128};
constexpr double kGain = 1.25;           // below that the second kernel is not worth it
constexpr int64_t kLongest = 1LL << 24;  // a symbol of which only the range is known counts as its end, up to this

int64_t PowerOfTwoBelow(double n) {
  int64_t p = 1;
  while (static_cast<double>(p) * 2 <= n) p *= 2;
  return p;
}

// The load that moves with the most iterators: what the reduction reads.
Expr MainLoad(const Stage& s) {
  Expr best = nullptr;
  int most = 0;
  for (Expr v : s.values) {
    Visit(v, [&](Expr e) {
      if (e->op != ExprOp::kLoad || std::count(s.outputs.begin(), s.outputs.end(), e->buffer) > 0) return true;
      int n = 0;
      for (const auto* list : {&s.iters, &s.reduce_iters}) {
        for (const StageIter& i : *list) n += Uses(e, i.var);
      }
      if (n > most) {
        best = e;
        most = n;
      }
      return true;
    });
  }
  return best;
}

// A part of the reduction: of `iter`, `chunk` values. What is contiguous lies `across` it.
struct Part {
  size_t iter;
  int64_t chunk;
  bool across;
};

class Splitter {
 public:
  Splitter(const TeProgram& p, const Target& target, NameSupply& names)
      : p_(p), c_(*p.context), names_(names), analyzer_(c_) {
    for (const SymbolFact& f : p.symbols) {
      analyzer_.BindSymbol(f);
      symbols_.push_back(f);
      // To split what turns out short costs a kernel that does nothing; not to split what turns out long, a machine.
      if (f.hint == 0) symbols_.back().hint = std::clamp(kLongest, f.lo, std::max<int64_t>(f.hi, 1));
    }
    m_ = target.IsGpu() ? kGpu : kCpu;
    if (target.bandwidth > 0) m_.bandwidth = static_cast<double>(target.bandwidth) * 1e9;
    if (target.cores > 0) m_.cores = static_cast<double>(target.cores);
    if (target.num_threads > 0) m_.cores = static_cast<double>(target.num_threads);
    m_.bandwidth = std::min(m_.bandwidth, m_.cores * m_.row_rate);
  }

  std::vector<Stage> Run() {
    std::vector<Stage> r;
    for (const Stage& s : p_.stages) {
      const std::optional<Join> join =
          s.IsReduction() && !FindContraction(s) ? FindJoin(c_, s.values, RunningOf(c_, s)) : std::nullopt;
      const std::optional<Part> part = join ? Choose(s) : std::nullopt;
      if (part)
        Split(s, *join, *part, r);
      else
        r.push_back(s);
    }
    return r;
  }

 private:
  double Size(Expr extent) const { return TypicalSize(extent, symbols_); }

  std::optional<Part> Choose(const Stage& s) {
    const Expr load = MainLoad(s);
    if (load == nullptr) return std::nullopt;
    double results = 1, length = 1, columns = 0;
    const Expr offset = ElementOffset(c_, load->buffer, IndicesOf(load));
    for (const StageIter& i : s.iters) {
      results *= Size(i.extent);
      const Expr next = Substitute(c_, offset, {{i.var, c_.Add(i.var, c_.Int(1))}});
      if (!IsInt(i.extent, 1) && IsInt(analyzer_.Simplify(c_.Sub(next, offset)), 1)) columns = Size(i.extent);
    }
    for (const StageIter& i : s.reduce_iters) length *= Size(i.extent);
    const double bytes = results * length * BytesOf(load->buffer->dtype);
    const bool along = columns == 0;
    const double share = m_.columns * std::max(1.0, m_.full_bytes / BytesOf(load->buffer->dtype));
    const double blocks = along ? results : results / columns * std::ceil(columns / share);
    const double now = bytes / std::min(m_.bandwidth, blocks * (along ? m_.row_rate : m_.column_rate));
    if (now < kGain * (bytes / m_.bandwidth + 2 * m_.kernel_seconds)) return std::nullopt;
    const double wanted = length * blocks / (m_.tasks_per_core * m_.cores);
    const double elements = along ? std::clamp(wanted, m_.min_row, m_.max_row) : std::max(wanted, m_.min_column);
    // The outermost loop that is long enough is cut, or the longest: what is contiguous stays so.
    size_t iter = 0;
    for (size_t k = 0; k < s.reduce_iters.size(); ++k) {
      if (Size(s.reduce_iters[k].extent) > Size(s.reduce_iters[iter].extent)) iter = k;
    }
    for (size_t k = iter; k-- > 0;) {
      if (Size(s.reduce_iters[k].extent) >= length / elements) iter = k;
    }
    const Expr extent = s.reduce_iters[iter].extent;
    int64_t chunk = PowerOfTwoBelow(Size(extent) * elements / length);
    if (Size(extent) < 2 * static_cast<double>(chunk)) return std::nullopt;
    // Without a rest if possible.
    constexpr int64_t kAligned = 16;
    for (int64_t n = chunk; IsInt(extent) && 2 * n > chunk; --n) {
      if (extent->int_value % n != 0 || (n % kAligned != 0 && extent->int_value % kAligned == 0 && n > kAligned))
        continue;
      chunk = n;
      break;
    }
    return Part{iter, chunk, !along};
  }

  void Split(const Stage& s, const Join& join, const Part& part, std::vector<Stage>& out) {
    const Expr extent = s.reduce_iters[part.iter].extent;
    const Expr parts = analyzer_.Simplify(c_.CeilDiv(extent, c_.Int(part.chunk)));
    Stage first, second = s;
    VarMap to;
    auto copy = [&](const StageIter& i) {
      to[i.var] = c_.Var(names_.Fresh(i.var->name));
      return StageIter{to[i.var], i.extent};
    };
    const StageIter p{c_.Var(names_.Fresh("p")), parts}, q{c_.Var(names_.Fresh("q")), c_.Int(part.chunk)};
    first.iters = {p};
    for (const StageIter& i : s.iters) first.iters.push_back(copy(i));
    for (size_t k = 0; k < s.reduce_iters.size(); ++k)
      first.reduce_iters.push_back(k == part.iter ? q : copy(s.reduce_iters[k]));
    const Expr r = c_.Add(c_.Mul(p.var, c_.Int(part.chunk)), q.var);
    to[s.reduce_iters[part.iter].var] = r;
    const bool rest = analyzer_.KnownDivisor(extent) % part.chunk != 0;
    std::vector<Expr> elements, found;
    std::vector<Expr> at = {c_.Var(names_.Fresh("p"))};
    second.reduce_iters = {{at[0], parts}};
    for (const StageIter& i : s.iters) at.push_back(i.var);
    for (size_t k = 0; k < s.outputs.size(); ++k) {
      BufferNode node = *s.outputs[k];
      node.name = names_.Fresh(node.name + "_part");
      node.strides.clear();
      node.shape.insert(node.shape.begin(), parts);
      first.outputs.push_back(c_.MakeBuffer(std::move(node)));
      found.push_back(c_.Load(first.outputs[k], at));
      first.inits.push_back(Substitute(c_, s.inits[k], to));
      const Expr e = Substitute(c_, join.elements[k], to);
      const Expr inside = c_.Lt(r, extent);
      if (!rest)
        elements.push_back(e);
      else if (part.across)  // a row that is there, whose value is not taken: no load waits for a condition
        elements.push_back(c_.Select(
            inside,
            Substitute(c_, e,
                       {{q.var, c_.Select(inside, q.var,
                                          c_.Sub(c_.Sub(extent, c_.Int(1)), c_.Mul(p.var, c_.Int(part.chunk))))}}),
            first.inits[k]));
      else
        elements.push_back(Within(inside, e, first.inits[k]));
    }
    first.name = first.outputs[0]->name;
    first.origin = s.origin;
    first.values = join.Joined(c_, RunningOf(c_, first), elements);
    for (Expr& v : first.values) v = Substitute(c_, v, to);
    second.values = join.Joined(c_, RunningOf(c_, s), found);
    out.push_back(std::move(first));
    out.push_back(std::move(second));
  }

  // `e` where `inside`, which is when it may read memory; else `otherwise`.
  Expr Within(Expr inside, Expr e, Expr otherwise) {
    const Expr masked = Rewriter(c_, [&](Expr x) -> Expr {
      if (x->op != ExprOp::kLoad) return nullptr;
      const Expr own = MaskOf(x);
      return c_.Load(x->buffer, IndicesOf(x), own == nullptr ? inside : c_.And(inside, own));
    })(e);
    return c_.Select(inside, masked, otherwise);
  }

  const TeProgram& p_;
  Context& c_;
  NameSupply& names_;
  Analyzer analyzer_;
  std::vector<SymbolFact> symbols_;
  Machine m_;
};

}  // namespace

std::vector<Stage> SplitReductions(const TeProgram& program, const Target& target, NameSupply& names) {
  return Splitter(program, target, names).Run();
}

}  // namespace cinn_like::hlir
