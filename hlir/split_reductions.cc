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

// What one block reads a second: along rows with all of its threads, across rows with a few warps.
constexpr double kRowRate = 200e9, kColumnRate = 48e9;
constexpr double kTypicalBandwidth = 2e12, kTypicalCores = 128;  // of a device that does not say
constexpr double kGain = 1.25;                                   // below that the second kernel is not worth it
constexpr double kBlocksPerCore = 8;
constexpr double kSectorColumns = 32;                                // of 4 bytes: a block's share of the columns
constexpr double kMinRow = 4096, kMaxRow = 32768, kMinColumn = 128;  // elements of a part

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

// A part of the reduction: of `iter`, `chunk` values.
struct Part {
  size_t iter;
  int64_t chunk;
};

class Splitter {
 public:
  Splitter(const TeProgram& p, const Target& target, NameSupply& names)
      : p_(p), c_(*p.context), names_(names), analyzer_(c_) {
    for (const SymbolFact& f : p.symbols) analyzer_.BindSymbol(f);
    bandwidth_ = target.bandwidth > 0 ? BytesPerSecond(target) : kTypicalBandwidth;
    cores_ = target.cores > 0 ? static_cast<double>(target.cores) : kTypicalCores;
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
  double Size(Expr extent) const { return TypicalSize(extent, p_.symbols); }

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
    const double blocks = along ? results : results / columns * std::ceil(columns / kSectorColumns);
    const double now = bytes / std::min(bandwidth_, blocks * (along ? kRowRate : kColumnRate));
    if (now < kGain * (bytes / bandwidth_ + 2 * kKernelSeconds)) return std::nullopt;
    const double wanted = length * blocks / (kBlocksPerCore * cores_);
    const double elements = along ? std::clamp(wanted, kMinRow, kMaxRow) : std::max(wanted, kMinColumn);
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
    return Part{iter, chunk};
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
      elements.push_back(rest ? Within(c_.Lt(r, extent), e, first.inits[k]) : e);
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
  double bandwidth_, cores_;
};

}  // namespace

std::vector<Stage> SplitReductions(const TeProgram& program, const Target& target, NameSupply& names) {
  return Splitter(program, target, names).Run();
}

}  // namespace cinn_like::hlir
