// What the rows of a CPU take, and what decides which of their dimensions lanes are along.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "cinn_like/base/costs.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/rows_cpu.h"
#include "hlir/tactics/rows_cpu_across.h"
#include "ir/analyzer.h"
#include "ir/join.h"

namespace cinn_like::hlir {
namespace {

constexpr int64_t kLeastBeside = 4;  // fewer rows share nothing

// After how many elements along `var` an offset is as much further as it will be each time: 3 of i / 3. 1: each is, or
// after too many.
int64_t PeriodOf(ir::Expr offset, ir::Expr var) {
  constexpr int64_t kLongest = 8;
  int64_t period = 1;
  ir::Visit(offset, [&](ir::Expr e) {
    if ((e->op == ir::ExprOp::kDiv || e->op == ir::ExprOp::kMod) && ir::IsInt(e->args[1]) &&
        e->args[1]->int_value > 1 && ir::Uses(e->args[0], var))
      period = std::lcm(period, std::min(e->args[1]->int_value, kLongest + 1));
    if (period > kLongest) period = kLongest + 1;
    return true;
  });
  return period > kLongest ? 1 : period;
}

// What a scan's steps take more than their values, of a vector's worth: wide running values, and for lanes along it
// those before them, 1, 2, 4, ... apart.
double CostOfScan(ir::Context& c, const ir::Stage& s, int64_t lanes, const CpuCosts& cpu) {
  const std::vector<ir::Expr> running = RunningOf(c, s);
  const std::optional<ir::Join> join = FindJoin(c, s.values, running);
  if (!join) return 0;
  int bytes = 4;
  for (ir::Buffer b : s.running) bytes = std::max(bytes, BytesOf(b->dtype));
  const double wide = bytes / 4.0, each = CostOf(join->Joined(c, running, running), nullptr);
  const double moves = 1 + static_cast<double>(running.size());
  // In registers, of what others take, which wait for memory; pairs are many conditions.
  const double part = running.size() > 1 ? cpu.scan_of_several_part : cpu.scan_part;
  return wide * each + (lanes > 1 ? part * wide * (each + moves) * std::log2(static_cast<double>(lanes)) : 0);
}

// Quotients by what is no constant that differ from lane to lane, in the places of what a stage reads and writes: no
// vector instruction has them. What `share` says of a load is how many of them an element has.
double QuotientsOf(ir::Analyzer& a, const ir::Stage& s, ir::Expr lane, const std::function<double(ir::Expr)>& share) {
  std::map<std::pair<ir::Expr, ir::Expr>, double> found;
  const auto look = [&](ir::Buffer b, const std::vector<ir::Expr>& indices, double each) {
    ir::Visit(a.Simplify(ElementOffset(a.context(), b, indices)), [&](ir::Expr e) {
      const bool divides = (e->op == ir::ExprOp::kDiv || e->op == ir::ExprOp::kMod) && !ir::IsInt(e->args[1]);
      if (divides && ir::Uses(e->args[0], lane)) {
        double& most = found[{e->args[0], e->args[1]}];
        most = std::max(most, each);
      }
      return true;
    });
  };
  for (ir::Expr v : s.values) {
    VisitLoads(v, [&](ir::Expr e) {
      if (ir::Uses(e, lane)) look(e->buffer, ir::IndicesOf(e), share(e));
    });
  }
  if (!s.at.empty()) look(s.outputs[0], s.at, 1);
  double r = 0;
  for (const auto& [_, each] : found) r += each;
  return r;
}

// Whether a load moves with none of `dims`.
bool StaysAlong(const RowNests& r, size_t stage, ir::Expr load, const std::vector<int>& dims) {
  return std::none_of(dims.begin(), dims.end(), [&](int d) {
    const ir::Expr iter = IterOf(r.group, r.space, stage, d);
    return iter != nullptr && ir::Uses(load, iter);
  });
}

}  // namespace

int64_t PeriodOf(const RowNests& r, int vector) {
  int64_t period = 1;
  for (size_t k = 0; k < r.group.stages.size(); ++k) {
    const ir::Stage& s = r.group.stages[k];
    size_t at = 0;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const ir::StageIter& i : *list) {
        if (r.space.dim_of[k][at++] != vector) continue;
        for (ir::Expr value : s.values) {
          VisitLoads(value, [&](ir::Expr e) {
            for (ir::Expr index : ir::IndicesOf(e)) period = std::lcm(period, PeriodOf(index, i.var));
          });
        }
      }
    }
  }
  return period;
}

std::vector<int> RowsBeside(const RowNests& r, int vector) {
  if (r.space.HasReduction()) return {};
  ir::Context& c = *r.group.context;
  ir::Analyzer a(c);
  for (const ir::SymbolFact& s : r.group.symbols) a.BindSymbol(s);
  const std::vector<int> along = r.LineAround(vector);
  std::vector<int> outer = r.Dims(false), best;
  std::erase_if(outer, [&](int d) { return std::count(along.begin(), along.end(), d) > 0; });
  for (size_t k = 0; k < r.group.stages.size(); ++k) {
    const ir::Expr lane = IterOf(r.group, r.space, k, vector);
    if (lane == nullptr) continue;
    for (ir::Expr value : r.group.stages[k].values) {
      VisitLoads(value, [&](ir::Expr e) {
        if (!ir::Uses(e, lane)) return;
        const ir::Expr offset = ElementOffset(c, e->buffer, ir::IndicesOf(e));
        if (ir::IsInt(StepAlong(a, offset, lane))) return;
        std::vector<int> beside;
        for (size_t i = outer.size(); i-- > 0 && StaysAlong(r, k, e, {outer[i]});)
          beside.insert(beside.begin(), outer[i]);
        if (r.LikelySize(beside) >= kLeastBeside && (best.empty() || beside.size() < best.size()))
          best = std::move(beside);
      });
    }
  }
  return best;
}

double PredictSeconds(const RowNests& r, int vector, int64_t lanes, const Target& target) {
  const CpuCosts& cpu = CpuCostsOf(target);
  const ir::TeProgram& group = r.group;
  ir::Context& c = *group.context;
  ir::Analyzer a(c);
  for (const ir::SymbolFact& s : group.symbols) a.BindSymbol(s);
  absl::flat_hash_set<ir::Buffer> in_memory;  // what a group keeps lies as its vectors want it
  for (const ir::Param& p : group.params) in_memory.insert(p.buffer);
  const auto length = static_cast<double>(LikelyLength(r, vector)), of = static_cast<double>(lanes);
  const double padded = std::ceil(length / of) * of / length;
  const std::vector<int> beside = RowsBeside(r, vector);
  const double rows_of_block = std::min(static_cast<double>(kRowsOfBlock), r.LikelySize(beside));
  // How far an offset moves while `lane` does by `by`.
  const auto step_of = [&](ir::Expr offset, ir::Expr lane, int64_t by) {
    return a.Simplify(c.Sub(ir::Substitute(c, offset, {{lane, c.Add(lane, c.Int(by))}}), offset));
  };
  double work = 0, bytes = CostOfMatmuls(group).bytes;
  for (size_t k = 0; k < group.stages.size(); ++k) {
    const ir::Stage& s = group.stages[k];
    double elements = 1, repeated = 1;
    ir::Expr lane = nullptr;
    size_t at = 0;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const ir::StageIter& i : *list) {
        const double size = TypicalSize(i.extent, group.symbols);
        const int dim = r.space.dim_of[k][at++];
        elements *= size;
        if (dim == vector) {
          lane = i.var;
          elements *= padded;
        }
      }
    }
    if (r.space.HasScan()) {  // gradients of scans read backwards, at clamped places
      for (const auto* list : {&s.iters, &s.reduce_iters}) {
        for (const ir::StageIter& i : *list)
          a.BindRange(i.var, c.Int(0), i.var == lane ? c.Sub(i.extent, c.Int(1)) : i.extent);
      }
    }
    const int64_t widest = WidestLanes(group, target);
    const double part = static_cast<double>(std::min(lanes, widest)) / static_cast<double>(widest);
    const double speed = lane == nullptr ? 1.0 / static_cast<double>(widest) : part;
    double cost = CostOf(s.values, lane) + (s.IsScan() ? CostOfScan(c, s, lane == s.along ? lanes : 1, cpu) : 0);
    // Of a block of rows once, where these don't move it.
    const auto share = [&](ir::Expr load) {
      return beside.empty() || !StaysAlong(r, k, load, beside) ? 1 : 1 / rows_of_block;
    };
    if (lane != nullptr) cost += cpu.quotient_ops * QuotientsOf(a, s, lane, share);
    for (ir::Expr value : s.values) {
      ir::Visit(value, [&](ir::Expr e) {
        if (e->op != ir::ExprOp::kLoad || lane == nullptr || !in_memory.contains(e->buffer) || !ir::Uses(e, lane))
          return true;
        const ir::Expr offset = ElementOffset(c, e->buffer, ir::IndicesOf(e));
        const int64_t period = PeriodOf(offset, lane);
        const ir::Expr step = step_of(offset, lane, period);
        if (ir::IsInt(step, 2 * period) || (period > 1 && ir::IsInt(step) && std::abs(step->int_value) <= 2 * period))
          cost += cpu.near_load_ops;
        else if (ir::IsInt(step, -1))
          ++cost;
        else if (!ir::IsInt(step, 1) && !ir::IsInt(step, 0))
          cost += (DimAcross(r, k, offset, vector) >= 0 ? cpu.turned_ops : cpu.apart_load_ops) * share(e);
        if (e->has_mask) {
          bool waits = false;
          VisitLoads(ir::MaskOf(e), [&](ir::Expr) { waits = true; });
          cost += waits ? cpu.waiting_load_ops : cpu.masked_load_ops;
        }
        return true;
      });
    }
    for (ir::Buffer b : s.outputs) {
      if (lane == nullptr || !in_memory.contains(b)) continue;
      const ir::Expr offset = ElementOffset(c, b, s.at.empty() ? VarsOf(s.iters) : s.at),
                     step = step_of(offset, lane, 1);
      if (ir::IsInt(step, 2))
        cost += cpu.near_store_ops;
      else if (!ir::IsInt(step, 1) && !ir::IsInt(step, -1) && !ir::IsInt(step, 0))
        cost += DimAcross(r, k, offset, vector) >= 0 ? cpu.turned_ops : cpu.apart_store_ops;
    }
    work += elements * std::max(cost, 1.0) / speed;
    // A product reads the larger operand again for each row of the other, from memory if no cache holds one of a batch.
    if (const auto con = FindContraction(s)) {
      repeated *= TypicalSize(con->m, group.symbols);
      const double rhs = TypicalBytes(con->rhs->buffer, group.symbols);
      const double one = rhs / std::max(1.0, TypicalSize(con->batch, group.symbols));
      if (one > static_cast<double>(target.l2_bytes)) bytes += rhs * (repeated - 1);
    }
  }
  return cpu.loop_seconds +
         std::max(work / (SpeedsOf(target).own_rows * 1e9 * Cores(target)), bytes / BytesPerSecond(target));
}

int ChooseVectorDim(const RowNests& r, const Target& target) {
  constexpr double kMuch = 0.8;
  int best = r.VectorDim();
  const auto seconds = [&](int d) { return PredictSeconds(r, d, LanesFor(r, target, d), target); };
  double least = kMuch * seconds(best);
  for (int d = 0; d < static_cast<int>(r.space.dims.size()); ++d) {
    if (const double t = d == best ? least : seconds(d); t < least) {
      best = d;
      least = t;
    }
  }
  return best;
}

}  // namespace cinn_like::hlir
