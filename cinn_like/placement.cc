#include "cinn_like/placement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "cinn_like/driver.h"
#include "hlir/extract_ops.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactic.h"

namespace cinn_like {
namespace {

using hlir::Graph;
using hlir::Op;
using hlir::ValueId;

constexpr double kNever = std::numeric_limits<double>::infinity();

// Seconds of a call, as tactics predict them; what depends on static parameters alone is prepared.
StatusOr<double> PriceOf(const Graph& graph, const PassContext& context) {
  ASSIGN_OR_RETURN(const Graph optimized, hlir::OptimizeGraph(graph, context));
  ASSIGN_OR_RETURN(const hlir::StaticSplit split, hlir::SplitStatic(optimized));
  ASSIGN_OR_RETURN(const hlir::LoweredGraph lowered, hlir::LowerGraph(split.main, context));
  double seconds = 0;
  for (const hlir::LoweredGraph::Kernel& k : lowered.kernels)
    seconds += k.calls * hlir::CollectBids(k.group, context.target).seconds();
  return seconds;
}

class Placer {
 public:
  Placer(const Graph& graph, std::span<const Target> targets, const CompileOptions& options)
      : graph_(graph), targets_(targets), options_(options), users_(static_cast<size_t>(graph.num_values())) {
    for (size_t i = 0; i < graph.ops().size(); ++i) {
      for (ValueId v : graph.ops()[i].operands) users_[static_cast<size_t>(v)].push_back(i);
    }
    for (ValueId v : graph.results()) is_result_.insert(v);
  }

  StatusOr<Placement> Run() {
    RETURN_IF_ERROR(FindPrices());
    // From everything in one place on, as far as it can be there, op by op to where it costs less.
    Placement best;
    best.seconds = kNever;
    for (size_t start = 0; start < targets_.size(); ++start) {
      std::vector<size_t> at;
      for (const std::vector<double>& of_op : prices_) {
        at.push_back(of_op[start] < kNever
                         ? start
                         : static_cast<size_t>(std::min_element(of_op.begin(), of_op.end()) - of_op.begin()));
      }
      Improve(at);
      const double seconds = Total(at);
      if (seconds < best.seconds) best.target_of_op = std::move(at), best.seconds = seconds;
    }
    best.refused = std::move(refused_);
    return best;
  }

 private:
  Status FindPrices() {
    std::map<std::string, StatusOr<double>> known;  // by target and text
    for (size_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.ops()[i];
      ASSIGN_OR_RETURN(const hlir::ExtractedOps alone,
                       hlir::ExtractOps(graph_, {static_cast<int>(i)}, op.results, "op"));
      const std::string text = hlir::Print(alone.graph);
      std::vector<double>& prices = prices_.emplace_back();
      std::string why;
      for (const Target& target : targets_) {
        const auto price = [&]() -> StatusOr<double> {
          RETURN_IF_ERROR(CheckGraph(alone.graph, target));
          // What reads a view reads through it.
          if (op.def->is_view) return 0;
          return PriceOf(alone.graph, {options_, target, "op"});
        };
        const std::string key = Cat(target.Print(), "\n", text);
        auto found = known.find(key);
        if (found == known.end()) found = known.emplace(key, price()).first;
        const StatusOr<double>& seconds = found->second;
        prices.push_back(seconds.ok() ? *seconds : kNever);
        if (seconds.ok()) continue;
        const std::string refused = Cat(target.device->name, ": ", Message(seconds.status()));
        why += Cat(why.empty() ? "" : "; ", refused);
        if (op.device.empty() || target.device->IsCalled(op.device)) refused_.push_back(refused);
      }
      if (*std::min_element(prices.begin(), prices.end()) == kNever)
        return InvalidArgument("no target can compute op '", op.def->name, "': ", why);
    }
    return absl::OkStatus();
  }

  double CopySeconds(ValueId v, size_t target) const {
    const DeviceKind& d = *targets_[target].device;
    if (d.type == kDLCPU) return 0;
    double bytes = BytesOf(graph_.TypeOf(v).dtype);
    for (const hlir::Dim& dim : graph_.TypeOf(v).dims) {
      bytes *= static_cast<double>(dim.Evaluate([&](const std::string& name) {
        const hlir::SymbolInfo* s = hlir::Find(graph_.symbols(), name);
        const double middle = std::sqrt(std::max<double>(s->lo, 1) * std::max<double>(s->hi, 1));
        return s->hint != 0 ? s->hint : static_cast<int64_t>(middle);
      }));
    }
    return d.copy_seconds + std::max(bytes, 0.0) / d.copy_bandwidth;
  }

  // Of a value, to the host and from there to who else reads it. What is static crosses once.
  double CopiesOf(ValueId v, const std::vector<size_t>& at) const {
    const int param = graph_.ParamIndexOf(v);
    if (param >= 0 && graph_.params()[static_cast<size_t>(param)].role != hlir::ParamRole::kInput) return 0;
    const Op* producer = graph_.ProducerOf(v);
    const size_t from = producer == nullptr ? 0 : at[static_cast<size_t>(producer - graph_.ops().data())];
    std::set<size_t> to;
    for (size_t user : users_[static_cast<size_t>(v)]) to.insert(at[user]);
    if (is_result_.contains(v)) to.insert(0);
    to.erase(from);
    double seconds = to.empty() ? 0 : CopySeconds(v, from);
    for (size_t target : to) seconds += CopySeconds(v, target);
    return seconds;
  }

  double CostOf(size_t op, const std::vector<size_t>& at) const {
    double seconds = prices_[op][at[op]];
    std::set<ValueId> values(graph_.ops()[op].operands.begin(), graph_.ops()[op].operands.end());
    values.insert(graph_.ops()[op].results.begin(), graph_.ops()[op].results.end());
    for (ValueId v : values) seconds += CopiesOf(v, at);
    return seconds;
  }

  void Improve(std::vector<size_t>& at) const {
    constexpr int kMostSweeps = 20;
    bool moved = true;
    for (int sweep = 0; sweep < kMostSweeps && std::exchange(moved, false); ++sweep) {
      for (size_t op = 0; op < at.size(); ++op) {
        size_t best = at[op];
        double least = CostOf(op, at) * (1 - 1e-9);
        for (size_t target = 0; target < targets_.size(); ++target) {
          if (prices_[op][target] == kNever) continue;
          at[op] = target;
          const double cost = CostOf(op, at);
          if (cost < least) least = cost, best = target, moved = true;
          at[op] = best;
        }
      }
    }
  }

  double Total(const std::vector<size_t>& at) const {
    double seconds = 0;
    for (size_t op = 0; op < at.size(); ++op) seconds += prices_[op][at[op]];
    for (ValueId v = 0; v < graph_.num_values(); ++v) seconds += CopiesOf(v, at);
    return seconds;
  }

  const Graph& graph_;
  const std::span<const Target> targets_;
  const CompileOptions& options_;
  std::vector<std::vector<size_t>> users_;  // ops, by value
  std::set<ValueId> is_result_;
  std::vector<std::vector<double>> prices_;  // by op and target
  std::vector<std::string> refused_;
};

}  // namespace

StatusOr<Placement> PlaceOps(const Graph& graph, std::span<const Target> targets, const CompileOptions& options,
                             const Devices& devices) {
  RETURN_IF_ERROR(hlir::Verify(graph));
  if (targets.empty() || targets[0].device->type != kDLCPU)
    return InvalidArgument("expected the host's target first, got ",
                           targets.empty() ? "none" : Cat("'", targets[0].Print(), "'"));
  std::vector<Target> resolved;
  for (const Target& t : targets) {
    ASSIGN_OR_RETURN(const Device device, devices.Of(t));
    RETURN_IF_ERROR(CheckRunsHere(device));
    if (!t.framework.empty())
      return InvalidArgument("target '", t.Print(), "': of several targets none leaves ops to a framework");
    ASSIGN_OR_RETURN(resolved.emplace_back(), ResolveTarget(t, *device.runtime));
  }
  return Placer(graph, resolved, options).Run();
}

}  // namespace cinn_like
