#include "hlir/bids.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "hlir/phases.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "ir/join.h"
#include "ir/linear.h"

namespace cinn_like::hlir {

namespace {

using Symbols = std::vector<ir::SymbolFact>;

// Whether what is next to an element that the stage reads is of the same window, not of another channel.
bool WindowsLieAlongMemory(const ir::Stage& s) {
  bool found = false;
  for (ir::Expr value : s.values) {
    VisitLoads(value, [&](ir::Expr e) {
      const std::vector<ir::Expr> at = ir::IndicesOf(e), &strides = e->buffer->strides;
      for (size_t d = 0; d < at.size(); ++d) {
        if (strides.empty() ? d + 1 < at.size() : !ir::IsInt(strides[d], 1)) continue;
        found |= std::any_of(s.reduce_iters.begin(), s.reduce_iters.end(),
                             [&](const ir::StageIter& r) { return !ir::IsInt(r.extent, 1) && ir::Uses(at[d], r.var); });
      }
    });
  }
  return found;
}

// The narrowest element type that the stage's op reads and writes in the framework, whose kernels for bytes write i32:
// others are its plain loops.
DType TypeOfKernel(const Graph& source, const ir::Stage& s) {
  const Op& op = source.ops()[s.origin];
  DType r = s.outputs[0]->dtype;
  for (ValueId v : op.operands) {
    const DType t = source.TypeOf(v).dtype;
    if (BytesOf(t) < BytesOf(r)) r = t;
  }
  return IsByte(r) && source.TypeOf(op.results[0]).dtype != DType::kI32 ? DType::kI32 : r;
}

// What a product computes of elements on its way in (weights of integers, scaled), or reads in a narrower type than
// `dtype`, its framework's kernel finds in memory, where a region of its own has put it.
double SecondsOfOperands(const ir::Stage& s, DType dtype, const Symbols& symbols, const SpeedRow& row,
                         const Target& target) {
  const auto product = FindProduct(s);
  if (!product) return 0;
  double seconds = 0;
  for (ir::Expr factor : {product->lhs, product->rhs}) {
    const ir::Expr load = MainLoad(s, {factor});
    if (!IsComputed(factor) && BytesOf(load->type.dtype) >= BytesOf(dtype)) continue;
    double elements = 1;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const ir::StageIter& i : *list) elements *= ir::Uses(factor, i.var) ? TypicalSize(i.extent, symbols) : 1;
    }
    const double bytes = elements * (2 * BytesOf(dtype) + BytesOf(load->type.dtype));
    const double work = elements * (CostOf(factor) + 1);  // and a conversion
    seconds += row.region_seconds +
               std::max(work / (SpeedsOf(target).own_rows * 1e9 * Cores(target)), bytes / BytesPerSecond(target));
  }
  return seconds;
}

// Of all places and taps of a window, the part whose taps lie inside of the image: kernels for convolutions leave out
// what a border cuts off.
double PartInside(ir::Context& c, const ir::Stage& s) {
  struct Pair {
    ir::StageIter place, tap;
    std::vector<ir::Linear> at_least_0;
  };
  std::vector<Pair> pairs;
  const auto find = [](const std::vector<ir::StageIter>& iters, const ir::Linear& l) -> const ir::StageIter* {
    for (const ir::StageIter& i : iters) {
      for (const ir::LinearTerm& t : l.terms) {
        if (t.atom == i.var && ir::IsInt(i.extent)) return &i;
      }
    }
    return nullptr;
  };
  const ir::Expr neutral = c.Const(0, s.outputs[0]->dtype);
  for (ir::Expr side : s.values[0]->args) {
    if (side->op == ir::ExprOp::kLoad && side->buffer == s.outputs[0]) continue;
    for (ir::Expr condition : ir::ConditionsOf(side, neutral)) {
      if (condition->op != ir::ExprOp::kLe && condition->op != ir::ExprOp::kLt) continue;
      ir::Linear room = ir::AddScaled(ir::ToLinear(c, condition->args[1]), ir::ToLinear(c, condition->args[0]), -1);
      if (condition->op == ir::ExprOp::kLt) ir::AddConstant(room, -1);
      const ir::StageIter *place = find(s.iters, room), *tap = find(s.reduce_iters, room);
      if (place == nullptr || tap == nullptr || room.terms.size() != 2 || !room.exact) continue;
      const auto same = [&](const Pair& p) { return p.place.var == place->var && p.tap.var == tap->var; };
      auto it = std::find_if(pairs.begin(), pairs.end(), same);
      if (it == pairs.end()) it = pairs.insert(it, {*place, *tap, {}});
      it->at_least_0.push_back(std::move(room));
    }
  }
  double part = 1;
  for (const Pair& pair : pairs) {
    constexpr int64_t kMost = 1 << 16;
    const int64_t places = pair.place.extent->int_value, taps = pair.tap.extent->int_value;
    if (places < 1 || taps < 1 || places > kMost || taps > kMost / places) continue;
    int64_t inside = 0;
    for (int64_t p = 0; p < places; ++p) {
      for (int64_t t = 0; t < taps; ++t) {
        inside += std::all_of(pair.at_least_0.begin(), pair.at_least_0.end(), [&](const ir::Linear& l) {
          WrapInt sum = l.constant;
          for (const ir::LinearTerm& term : l.terms) sum += term.coef * (term.atom == pair.place.var ? p : t);
          return sum >= 0;
        });
      }
    }
    part *= static_cast<double>(std::max<int64_t>(inside, 1)) / static_cast<double>(places * taps);
  }
  return part;
}

// A convolution of each channel by itself, not of groups of several.
bool IsDepthwise(const ir::Stage& s) {
  const auto con = FindProduct(s);
  return con && (con->m.empty() || con->n.empty()) &&
         std::all_of(con->batch.begin(), con->batch.end(), [&](const ir::StageIter& i) {
           return DivisorOf(con->lhs, i.var) < 2 && DivisorOf(con->rhs, i.var) < 2;
         });
}

// Of a framework's scan on a CPU: one element after the other, each as late as the value before it is there, and later
// where elements lie apart.
double SecondsOfStep(const ir::Stage& s) {
  constexpr double kFloat = 0.8e-9, kInt = 0.28e-9, kPair = 0.5e-9, kApart = 1.3e-9;
  if (!s.IsScan()) return 0;
  if (ScansColumns(s)) return kApart;
  return s.outputs.size() > 1 ? kPair : IsFloat(s.outputs[0]->dtype) ? kFloat : kInt;
}

// And on a GPU, beside what it moves: threads that go along columns, each as the value before is there; a row alone by
// all of the machine in two kernels, but for pairs; rows by 512 threads a block, so many of them a row as its length
// and the number of rows say (ATen's get_log_num_threads_x_inner_scan), in turns of two elements a thread, and a thread
// each where they are many and short. Measured on an H100 (docs/performance.md).
double SecondsOfDeviceScan(const ir::Stage& s, const Symbols& symbols, double bytes, const Target& target) {
  constexpr double kStep = 0.155e-6, kAlone = 2e-6, kTurn = 1.15e-6, kPairTurn = 2.1e-6, kPart = 0.55, kRow = 5.9e-9;
  constexpr double kManyRows = 1024;
  double rows = 1, steps = 1;
  for (const ir::StageIter& i : s.iters) (i.var == s.along ? steps : rows) *= TypicalSize(i.extent, symbols);
  if (ScansColumns(s)) return steps * kStep;
  rows = std::max(rows, 1.0), steps = std::max(steps, 1.0);
  if (rows < 2 && s.outputs.size() == 1) return kAlone + bytes / BytesPerSecond(target);
  if (rows >= kManyRows * steps) return rows * kRow;
  const double threads =
      std::exp2(std::clamp(std::trunc((9 + std::ceil(std::log2(steps)) - std::ceil(std::log2(rows))) / 2), 4.0, 9.0));
  const double turns = std::ceil(steps / (2 * threads)) * (s.outputs.size() > 1 ? kPairTurn : kTurn);
  return std::max(turns, bytes / (kPart * BytesPerSecond(target)));
}

// What one stage of a group stands for in the framework: a tuned kernel of `dtype`, or nothing (it is computed with its
// readers).
double SecondsOfKernel(ir::Context& c, const ir::Stage& s, FrameworkKernel kind, DType dtype, const Symbols& symbols,
                       const SpeedRow& row, const Target& target) {
  const auto con = FindProduct(s);
  double places = TypicalSize(s.iters, symbols), bytes = TypicalBytes(s.outputs[0], symbols);
  for (ir::Buffer b : InputsOf(s)) {
    const double size = TypicalBytes(b, symbols);
    // Gradients of pools go through what is pooled, whichever way they are written here.
    if (kind == FrameworkKernel::kPooling) places = std::min(places, size / BytesOf(b->dtype));
    bytes += BytesRead(s, b, symbols);
  }
  double flops = 2 * places * TypicalSize(s.reduce_iters, symbols);
  if (kind == FrameworkKernel::kConvolution) flops *= DensityOf(c, s) * PartInside(c, s);
  const bool depthwise = kind == FrameworkKernel::kConvolution && IsDepthwise(s);
  double rate = RateFor(depthwise ? row.depthwise : row.convolution, dtype);
  // Dense ones of f32 are a GPU's matrix units' where they may be.
  if (target.IsGpu() && !depthwise && dtype == DType::kF32 && !AllowsTf32(s, target))
    rate = std::min(rate, row.product.f32);
  if (kind == FrameworkKernel::kPooling) rate = WindowsLieAlongMemory(s) ? row.pooling : row.pooling_of_channels;
  rate *= 1e9 * Cores(target);
  if (kind == FrameworkKernel::kProduct) rate = ProductRate(s, s.outputs[0], symbols, row, target, dtype);
  double seconds = kind == FrameworkKernel::kScatter || kind == FrameworkKernel::kScan ? 0 : flops / rate;
  if (kind == FrameworkKernel::kScan)
    seconds = target.HasKernels() ? SecondsOfDeviceScan(s, symbols, bytes, target)
                                  : places * SecondsOfStep(s) / Cores(target);
  // Its convolutions read their windows in place, not as the rows of a product.
  if (kind == FrameworkKernel::kProduct && s.origin_row_alignment > 0)
    seconds /= PartAtAlignment(row, s.origin_row_alignment);
  if (kind == FrameworkKernel::kProduct && con && TypicalSize(con->m, symbols) > 1) {
    const double elements =
        TypicalSize(con->batch, symbols) * TypicalSize(con->n, symbols) * TypicalSize(con->k, symbols);
    seconds += elements * RateFor(row.laid_out, dtype) * 1e-9 / Cores(target);
  }
  if (kind == FrameworkKernel::kConvolution) {
    const double element = RateFor(depthwise ? row.laid_out_depthwise : row.laid_out, dtype);
    seconds += bytes / BytesOf(dtype) * element * 1e-9 / Cores(target);
  }
  return row.call_seconds + std::max(seconds, bytes / BytesPerSecond(target));
}

// What lies between tuned kernels that one kernel of ours replaces (softmax between two products), as kernels of its
// own: what was kept near is then written and read.
double SecondsBetween(const ir::TeProgram& group, const std::vector<size_t>& tuned, const Target& target) {
  double work = 0, bytes = 0;
  for (size_t i = 0; i < tuned.back(); ++i) {
    const ir::Stage& s = group.stages[i];
    const bool is_tuned = std::count(tuned.begin(), tuned.end(), i) > 0;
    bytes += (is_tuned ? 1 : 2) * TypicalBytes(s.outputs[0], group.symbols);
    const double places = TypicalSize(s.iters, group.symbols) * TypicalSize(s.reduce_iters, group.symbols);
    if (!is_tuned) work += CostOf(s.values[0]) * places;
  }
  return std::max(work / (SpeedsOf(target).own_rows * 1e9 * Cores(target)), bytes / BytesPerSecond(target));
}

// What a kernel moves that computes behind tuned ones what the group's does: the results, and, where there are no
// caches that have it still, what the tuned ones left and whatever else is read then.
double BytesAfter(const ir::TeProgram& group, const std::vector<size_t>& tuned, const Graph& source,
                  const Target& target) {
  double bytes = 0;
  for (const ir::Param& p : group.params) {
    if (p.role == ir::ParamRole::kResult && p.buffer != nullptr) bytes += TypicalBytes(p.buffer, group.symbols);
  }
  if (!target.HasKernels()) return bytes;
  absl::flat_hash_set<ir::Buffer> read;
  for (size_t i = tuned.back() + 1; i < group.stages.size(); ++i) {
    const std::vector<ir::Buffer> inputs = InputsOf(group.stages[i]);
    read.insert(inputs.begin(), inputs.end());
  }
  for (size_t i = 0; i < group.stages.size(); ++i) {
    const ir::Stage& s = group.stages[i];
    for (ir::Buffer b : s.outputs) {
      if (read.erase(b) == 0 || std::count(tuned.begin(), tuned.end(), i) == 0) continue;
      // Sums are wider than what the framework makes of them.
      const double elements = TypicalBytes(b, group.symbols) / BytesOf(b->dtype);
      bytes += elements * BytesOf(source.TypeOf(source.ops()[s.origin].results[0]).dtype);
    }
  }
  for (ir::Buffer b : read) bytes += TypicalBytes(b, group.symbols);
  return bytes;
}

// What a group with a scan computes beside that (its elements, what reads it), as vectors do.
double SecondsOfValues(const ir::TeProgram& group, const Target& target) {
  double work = 0;
  for (const ir::Stage& s : group.stages)
    work +=
        CostOf(s.values, nullptr) * TypicalSize(s.iters, group.symbols) * TypicalSize(s.reduce_iters, group.symbols);
  return work / (SpeedsOf(target).own_rows * 1e9 * Cores(target));
}

// What is no tuned kernel either, in the framework: each stage as loops of its own.
double SecondsOfLoops(const ir::TeProgram& group, const SpeedRow& row, const Target& target) {
  double seconds = 0;
  for (const ir::Stage& s : group.stages) {
    double bytes = 0;
    for (ir::Buffer b : InputsOf(s)) bytes += BytesRead(s, b, group.symbols);
    for (ir::Buffer b : s.outputs) bytes += TypicalBytes(b, group.symbols);
    const double places = TypicalSize(s.iters, group.symbols) * TypicalSize(s.reduce_iters, group.symbols);
    const double work = CostOf(s.values, nullptr) * places;
    seconds += row.call_seconds +
               std::max(work / (SpeedsOf(target).own_rows * 1e9 * Cores(target)), bytes / BytesPerSecond(target));
  }
  return seconds;
}

FrameworkKernel KernelOf(const Graph& source, const ir::Stage& s) {
  return s.origin < 0 ? FrameworkKernel::kNone : source.ops()[s.origin].def->framework_kernel;
}

}  // namespace

bool IsContested(const Graph& source, const LoweredGraph::Kernel& kernel) {
  const std::vector<ir::Stage>& stages = kernel.group.stages;
  return std::any_of(stages.begin(), stages.end(),
                     [&](const ir::Stage& s) { return KernelOf(source, s) != FrameworkKernel::kNone; });
}

std::vector<LostOp> OpsOf(const LoweredGraph::Kernel& kernel, const std::string& failure) {
  std::set<int> ops;
  for (const std::vector<int>& call : kernel.origins) {
    bool found = false;
    for (int op : call) {
      if (op >= 0) ops.insert(op), found = true;
    }
    if (!found) return {};
  }
  std::vector<LostOp> r;
  for (int op : ops) r.push_back({op, 0, 0, failure});
  return r;
}

std::vector<LostOp> FindLostOps(const Graph& source, const std::vector<LoweredGraph::Kernel>& kernels,
                                const std::vector<double>& seconds, const Target& target) {
  const SpeedRow* row = FindSpeedRow(target.framework);
  if (row == nullptr) return {};
  auto kernel_of = [&](const ir::Stage& s) { return KernelOf(source, s); };
  // Kernels that only lay out what an op's own kernel reads count as the op's, too.
  std::map<int, double> around;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const std::vector<ir::Stage>& stages = kernels[k].group.stages;
    if (kernels[k].calls == 0) continue;
    if (std::any_of(stages.begin(), stages.end(), [](const ir::Stage& s) { return !s.IsPointwise(); })) continue;
    const ir::Stage& last = stages.back();
    if (kernel_of(last) == FrameworkKernel::kNone) continue;
    for (const std::vector<int>& call : kernels[k].origins) around[call.back()] += seconds[k];
  }
  std::map<int, LostOp> lost;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const LoweredGraph::Kernel& kernel = kernels[k];
    if (kernel.calls == 0) continue;
    const Symbols& symbols = kernel.group.symbols;
    // The tuned kernels that the group replaces, and what it would leave: a value that goes through memory.
    double theirs = 0;
    std::vector<size_t> tuned;
    for (size_t i = 0; i < kernel.group.stages.size(); ++i) {
      const ir::Stage& s = kernel.group.stages[i];
      if (s.IsPointwise() || kernel_of(s) == FrameworkKernel::kNone) continue;
      const DType dtype = TypeOfKernel(source, s);
      theirs += SecondsOfKernel(*kernel.group.context, s, kernel_of(s), dtype, symbols, *row, target);
      theirs += SecondsOfOperands(s, dtype, symbols, *row, target);
      if (s.IsScan() && tuned.empty()) theirs += SecondsOfValues(kernel.group, target);
      tuned.push_back(i);
    }
    if (tuned.empty() && IsContested(source, kernel)) continue;  // of an op's own kernel, with which it counts
    if (tuned.empty()) {
      theirs = SecondsOfLoops(kernel.group, *row, target);
      for (const std::vector<int>& call : kernel.origins) {
        for (int op : call) {
          if (op >= 0 && theirs < seconds[k]) lost.insert({op, {op, seconds[k], theirs, ""}});
        }
      }
      continue;
    }
    if (kernel.is_fused) {
      theirs += row->region_seconds + BytesAfter(kernel.group, tuned, source, target) / BytesPerSecond(target);
    }
    if (tuned.size() > 1) theirs += SecondsBetween(kernel.group, tuned, target);
    for (const std::vector<int>& call : kernel.origins) {
      double own = seconds[k];
      double times = 1;
      for (size_t i : tuned) {
        own += around.contains(call[i]) ? around.at(call[i]) : 0;
        const ir::Stage& s = kernel.group.stages[i];
        if (kernel_of(s) != FrameworkKernel::kConvolution) continue;
        const bool windows = std::count_if(s.reduce_iters.begin(), s.reduce_iters.end(),
                                           [](const ir::StageIter& r) { return !ir::IsInt(r.extent, 1); }) > 1;
        times = RateFor(IsDepthwise(s) ? row->own_depthwise
                        : windows      ? row->own_convolution
                                       : row->own_pointwise_convolution,
                        NarrowestType(s, s.outputs[0]));
      }
      own *= times;
      for (size_t i : tuned) {
        if (theirs < own) lost.insert({call[i], {call[i], own, theirs, ""}});
      }
    }
  }
  std::vector<LostOp> r;
  for (const auto& [op, l] : lost) r.push_back(l);
  return r;
}

}  // namespace cinn_like::hlir
