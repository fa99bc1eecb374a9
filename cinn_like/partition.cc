#include "cinn_like/partition.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "cinn_like/host_tensors.h"
#include "cinn_like/weight_block.h"
#include "hlir/extract_ops.h"
#include "hlir/signature.h"
#include "runtime/call_parts.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

using hlir::Graph;
using hlir::Op;
using hlir::ValueId;

// The parts of a placement, in the order of their calls.
struct PlacedPart {
  hlir::ExtractedOps part;
  size_t target;
};
StatusOr<std::vector<PlacedPart>> PartsOf(const Graph& graph, std::span<const Target> targets,
                                          const std::vector<size_t>& target_of_op) {
  // An op is a step later than what it reads from another device: then ops of one step and device read nothing of each
  // other through others.
  std::map<std::pair<int, size_t>, std::vector<int>> parts;
  std::vector<std::pair<int, size_t>> part_of(graph.ops().size());
  const auto index = [&](const Op* op) { return static_cast<size_t>(op - graph.ops().data()); };
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    int step = 0;
    for (ValueId v : graph.ops()[i].operands) {
      const Op* producer = graph.ProducerOf(v);
      if (producer == nullptr) continue;
      const auto& [of_producer, target] = part_of[index(producer)];
      step = std::max(step, of_producer + (target != target_of_op[i] ? 1 : 0));
    }
    part_of[i] = {step, target_of_op[i]};
    parts[part_of[i]].push_back(static_cast<int>(i));
  }
  const std::set<ValueId> is_result(graph.results().begin(), graph.results().end());
  std::map<std::pair<int, size_t>, std::vector<ValueId>> results;
  for (ValueId v : graph.results()) {
    const Op* producer = graph.ProducerOf(v);
    const std::pair<int, size_t> part = producer == nullptr ? std::pair<int, size_t>{0, 0} : part_of[index(producer)];
    results[part].push_back(v);
    parts[part];
  }
  std::set<ValueId> seen;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    for (ValueId v : graph.ops()[i].operands) {
      const Op* producer = graph.ProducerOf(v);
      if (producer == nullptr || part_of[index(producer)] == part_of[i] || is_result.contains(v)) continue;
      if (seen.insert(v).second) results[part_of[index(producer)]].push_back(v);
    }
  }
  std::vector<PlacedPart> r;
  for (const auto& [key, ops] : parts) {
    const std::vector<ValueId>& own = results[key];
    if (own.empty()) continue;  // nobody reads what it computes
    const std::string name = Cat(graph.name(), "_", r.size(), "_", targets[key.second].device->name);
    ASSIGN_OR_RETURN(hlir::ExtractedOps part, hlir::ExtractOps(graph, ops, own, name));
    r.push_back({std::move(part), key.second});
  }
  return r;
}

class OnTargets : public CompiledFunction {
 public:
  struct Called {
    hlir::ExtractedOps part;
    std::unique_ptr<CompiledFunction> compiled;
  };

  OnTargets(const Graph& graph, Device host, const Target& target, std::vector<Called> parts,
            std::vector<std::string> refused)
      : graph_(graph), host_(std::move(host)), target_(target), parts_(std::move(parts)), plan_(MakePlan(true)) {
    own_ = std::make_unique<State>(*this);
    for (const Called& c : parts_) own_->parts.push_back({c.compiled->entry(), c.compiled->self()});
    report_.ops = static_cast<int>(graph_.ops().size());
    report_.refused = std::move(refused);
    for (const Called& c : parts_) Add(c.compiled->report());
  }

  Status Finish() override { return absl::OkStatus(); }
  CinnFunctionPtr entry() const override { return &Enter; }
  void* self() const override { return own_.get(); }
  void* AddSelf() override {
    const std::lock_guard lock(added_mutex_);
    State& state = added_.emplace_back(*this);
    for (const Called& c : parts_) state.parts.push_back({c.compiled->entry(), c.compiled->AddSelf()});
    return &state;
  }
  Status Prepare(std::span<const CinnValue> args, const CinnCallEnv& env) override {
    return PrepareSelf(own_.get(), args, env);
  }
  Status PrepareSelf(void* self, std::span<const CinnValue> args, const CinnCallEnv& env) override {
    const auto& state = *static_cast<const State*>(self);
    const auto expected = static_cast<size_t>(
        std::count_if(graph_.params().begin(), graph_.params().end(), [](const auto& p) { return IsStatic(p); }));
    if (expected != args.size())
      return InvalidArgument(Name(), ": expected ", expected, " static arguments, got ", args.size());
    for (size_t i = 0; i < parts_.size(); ++i) {
      RETURN_IF_ERROR(parts_[i].compiled->PrepareSelf(state.parts[i].self, StaticsOf(i, args), env));
    }
    return absl::OkStatus();
  }

  const CallSignature& signature() const override { return signature_; }
  const Device& device() const override { return host_; }
  const CompileReport& report() const override { return report_; }
  StatusOr<std::string> Source(std::string_view kind) const override {
    std::string text, other;
    for (const Called& c : parts_) {
      const StatusOr<std::string> source = c.compiled->Source(kind);
      if (source.ok())
        text += Cat(text.empty() ? "" : "\n", "// @", c.part.graph.name(), "\n", *source);
      else
        other += Cat(other.empty() ? "" : "; ", "@", c.part.graph.name(), ": ", Message(source.status()));
    }
    // A language of one device is that of its parts.
    if (!text.empty()) return text;
    return absl::NotFoundError(other);
  }
  Status ExportObject(const std::string&) const override {
    return Unimplemented(Name(), ": what several devices share is no single object; a library holds it");
  }
  StatusOr<LibraryPart> MakePart(std::span<const CinnValue> weights) const override {
    const bool has_weights = !weights.empty();
    if (has_weights) RETURN_IF_ERROR(CheckWeights(graph_, weights));
    LibraryPart part;
    part.name = graph_.name();
    part.signature = hlir::Signature(graph_, !has_weights);
    part.interface = InterfaceJson(signature_, !has_weights);
    part.plan = MakePlan(!has_weights);
    part.params = static_cast<int>(part.plan->params.size());
    part.results = part.plan->results;
    part.target = target_;
    for (int i = 0; i < part.params; ++i) {
      if (part.plan->params[static_cast<size_t>(i)].is_static) part.statics.push_back(i);
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      ASSIGN_OR_RETURN(part.parts.emplace_back(),
                       parts_[i].compiled->MakePart(has_weights ? StaticsOf(i, weights) : std::vector<CinnValue>()));
    }
    return part;
  }

 private:
  struct State {
    explicit State(const OnTargets& of) : of(of) {}
    const OnTargets& of;
    std::vector<CalledPart> parts;
  };

  static bool IsStatic(const hlir::Param& p) { return p.role == hlir::ParamRole::kStatic; }

  // Of calls that are given static parameters, too, or the others alone.
  PartsPlan MakePlan(bool has_statics) const {
    PartsPlan plan;
    plan.name = graph_.name();
    plan.results = static_cast<int>(graph_.results().size());
    std::map<ValueId, int> numbers, statics;
    const auto is_left_out = [&](ValueId v) { return !has_statics && statics.contains(v); };
    for (const hlir::Param& p : graph_.params()) {
      if (IsStatic(p)) statics.emplace(p.value, static_cast<int>(statics.size()));
      if (is_left_out(p.value)) continue;
      if (!p.is_symbol()) numbers.emplace(p.value, static_cast<int>(plan.params.size()));
      plan.params.push_back({p.name, p.is_symbol() ? "" : graph_.TypeOf(p.value).ToString(), IsStatic(p)});
    }
    for (const hlir::SymbolInfo& info : graph_.symbols()) {
      PartsPlan::Symbol& s = plan.symbols.emplace_back();
      s.name = info.name;
      int index = 0;
      for (const hlir::Param& p : graph_.params()) {
        if (!p.is_symbol() && is_left_out(p.value)) continue;
        if (p.is_symbol() && p.name == s.name) s.places.push_back({index, -1});
        for (size_t d = 0; !p.is_symbol() && d < graph_.TypeOf(p.value).dims.size(); ++d) {
          if (graph_.TypeOf(p.value).dims[d].AsSymbol() == s.name) s.places.push_back({index, static_cast<int>(d)});
        }
        ++index;
      }
    }
    auto next = static_cast<int>(plan.params.size());
    std::set<size_t> taken;
    for (const Called& c : parts_) {
      PartsPlan::Part& part = plan.parts.emplace_back();
      part.name = c.part.graph.name();
      for (ValueId v : c.part.reads) {
        if (const auto found = statics.find(v); found != statics.end()) part.statics.push_back(found->second);
        if (!is_left_out(v)) part.reads.push_back(numbers.at(v));
      }
      for (ValueId v : c.part.results) {
        numbers.emplace(v, next);
        part.makes.push_back(next++);
        const std::vector<ValueId>& all = graph_.results();
        size_t r = 0;
        while (r < all.size() && (all[r] != v || taken.contains(r))) ++r;
        if (r < all.size()) taken.insert(r);
        part.gives.push_back(r < all.size() ? static_cast<int>(r) : -1);
      }
    }
    return plan;
  }

  // The whole's static arguments that a part has.
  std::vector<CinnValue> StaticsOf(size_t part, std::span<const CinnValue> args) const {
    std::vector<CinnValue> own;
    for (const int at : plan_.parts[part].statics) own.push_back(args[static_cast<size_t>(at)]);
    return own;
  }

  std::string Name() const { return Cat("@", graph_.name()); }

  static int32_t Enter(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
    const auto& state = *static_cast<const State*>(self);
    return SetLastError(CallParts(state.of.plan_, state.parts, args, num_args, env));
  }

  void Add(const CompileReport& r) {
    report_.kernels += r.kernels;
    report_.unique_kernels += r.unique_kernels;
    report_.total_seconds += r.total_seconds;
    report_.peak_rss_bytes = std::max(report_.peak_rss_bytes, r.peak_rss_bytes);
    report_.added_rss_bytes += r.added_rss_bytes;
    report_.tactics.insert(report_.tactics.end(), r.tactics.begin(), r.tactics.end());
    report_.refused.insert(report_.refused.end(), r.refused.begin(), r.refused.end());
    for (const auto& [stage, seconds] : r.seconds) {
      const auto known =
          std::find_if(report_.seconds.begin(), report_.seconds.end(), [&](const auto& x) { return x.first == stage; });
      if (known == report_.seconds.end())
        report_.seconds.emplace_back(stage, seconds);
      else
        known->second += seconds;
    }
  }

  const Graph graph_;
  const CallSignature signature_ = SignatureOf(graph_);
  const Device host_;
  const Target target_;  // the host's
  std::vector<Called> parts_;
  const PartsPlan plan_;
  CompileReport report_;
  std::unique_ptr<State> own_;
  std::mutex added_mutex_;
  std::deque<State> added_;
};

}  // namespace

StatusOr<std::unique_ptr<CompiledFunction>> CompileOnTargets(const Graph& graph, std::span<const Target> targets,
                                                             const CompileOptions& options, const Devices& devices) {
  ASSIGN_OR_RETURN(Placement placement, PlaceOps(graph, targets, options, devices));
  ASSIGN_OR_RETURN(std::vector<PlacedPart> parts, PartsOf(graph, targets, placement.target_of_op));
  std::vector<OnTargets::Called> called;
  for (PlacedPart& p : parts) {
    ASSIGN_OR_RETURN(auto compiled, CompileGraph(p.part.graph, targets[p.target], options, devices));
    called.push_back({std::move(p.part), TakeHostTensors(std::move(compiled))});
  }
  ASSIGN_OR_RETURN(Device host, devices.Of(targets[0]));
  return std::make_unique<OnTargets>(graph, std::move(host), targets[0], std::move(called),
                                     std::move(placement.refused));
}

}  // namespace cinn_like
