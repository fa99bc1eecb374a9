#include "cinn_like/partition.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "cinn_like/base/tensor.h"
#include "cinn_like/host_tensors.h"
#include "hlir/extract_ops.h"
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
    std::vector<int> arguments;  // by part.reads: the whole graph's parameter, or -1
    std::vector<int> results;    // by part.results: the whole graph's result, or -1
  };

  OnTargets(const Graph& graph, Device host, std::vector<Called> parts, std::vector<std::string> refused)
      : graph_(graph), host_(std::move(host)), parts_(std::move(parts)) {
    std::set<size_t> taken;
    for (Called& c : parts_) {
      for (ValueId v : c.part.reads) c.arguments.push_back(ArgumentOf(v));
      for (ValueId v : c.part.results) {
        const std::vector<ValueId>& all = graph_.results();
        size_t r = 0;
        while (r < all.size() && (all[r] != v || taken.contains(r))) ++r;
        if (r < all.size()) taken.insert(r);
        c.results.push_back(r < all.size() ? static_cast<int>(r) : -1);
      }
    }
    own_ = std::make_unique<State>(*this);
    for (const Called& c : parts_) own_->inner.push_back(c.compiled->self());
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
    for (const Called& c : parts_) state.inner.push_back(c.compiled->AddSelf());
    return &state;
  }
  Status Prepare(std::span<const CinnValue> args, const CinnCallEnv& env) override {
    return PrepareSelf(own_.get(), args, env);
  }
  Status PrepareSelf(void* self, std::span<const CinnValue> args, const CinnCallEnv& env) override {
    const auto& state = *static_cast<const State*>(self);
    std::vector<ValueId> expected;
    for (const hlir::Param& p : graph_.params()) {
      if (p.role == hlir::ParamRole::kStatic) expected.push_back(p.value);
    }
    if (expected.size() != args.size())
      return InvalidArgument(Name(), ": expected ", expected.size(), " static arguments, got ", args.size());
    std::map<ValueId, CinnValue> statics;
    for (size_t i = 0; i < args.size(); ++i) statics[expected[i]] = args[i];
    for (size_t i = 0; i < parts_.size(); ++i) {
      std::vector<CinnValue> own;
      for (ValueId v : parts_[i].part.reads) {
        if (const auto found = statics.find(v); found != statics.end()) own.push_back(found->second);
      }
      RETURN_IF_ERROR(parts_[i].compiled->PrepareSelf(state.inner[i], own, env));
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
  Status ExportObject(const std::string&) const override { return NoExport(); }
  StatusOr<LibraryPart> MakePart(std::span<const CinnValue>) const override { return NoExport(); }

 private:
  struct State {
    explicit State(const OnTargets& of) : of(of) {}
    const OnTargets& of;
    std::vector<void*> inner;  // of each part
  };

  // A call: what parts have computed so far.
  class Call {
   public:
    Call(const OnTargets& of, const CinnValue* args, const CinnCallEnv& env) : of_(of), args_(args), caller_(env) {}
    ~Call() {
      for (void* block : blocks_) host_->FreeWorkspace(0, block, nullptr);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    Status Run(const std::vector<void*>& inner) {
      ASSIGN_OR_RETURN(host_, GetHostDevice());
      std::vector<CinnValue> symbols;
      for (const hlir::SymbolInfo& s : of_.graph_.symbols()) {
        ASSIGN_OR_RETURN(const int64_t value, of_.ValueOf(s.name, args_));
        symbols.push_back({kCinnInt, 0, {.i = value}});
      }
      for (size_t i = 0; i < of_.parts_.size(); ++i) {
        part_ = &of_.parts_[i];
        std::vector<CinnValue> values = symbols;
        for (size_t k = 0; k < part_->part.reads.size(); ++k) {
          const int argument = part_->arguments[k];
          values.push_back(argument >= 0 ? args_[argument]
                                         : CinnValue{kCinnTensor, 0, {.tensor = made_.at(part_->part.reads[k])}});
        }
        for (size_t k = 0; k < part_->results.size(); ++k) {
          const int result = part_->results[k];
          values.push_back(result >= 0 ? args_[of_.graph_.params().size() + static_cast<size_t>(result)] : CinnValue{});
          if (values.back().tag == kCinnTensor) made_[part_->part.results[k]] = values.back().tensor;
        }
        CinnCallEnv env = caller_;
        env.context = this;
        env.alloc = &Allocate;
        env.free = nullptr;
        env.release = nullptr;
        const int32_t code =
            part_->compiled->entry()(inner[i], values.data(), static_cast<int32_t>(values.size()), &env);
        RETURN_IF_ERROR(failure_);
        if (code != 0) return LastErrorStatus(code);
      }
      return absl::OkStatus();
    }

   private:
    // Results by the caller, what other parts read in workspaces.
    static int32_t Allocate(void* context, int32_t index, DLTensor* spec) {
      Call& call = *static_cast<Call*>(context);
      const int result = index < 0 ? -1 : call.part_->results[static_cast<size_t>(index)];
      if (result >= 0) {
        if (call.caller_.alloc == nullptr) {
          return SetLastError(call.failure_ = InvalidArgument(call.of_.Name(), ": result ", result,
                                                              " is not given, and there is no allocator"));
        }
        if (const int32_t code = call.caller_.alloc(call.caller_.context, result, spec); code != 0) return code;
      } else {
        const StatusOr<void*> block = call.host_->AllocWorkspace(0, NumBytes(*spec), nullptr);
        if (!block.ok()) return SetLastError(call.failure_ = block.status());
        call.blocks_.push_back(*block);
        spec->data = *block;
      }
      if (index < 0) return 0;
      Made& made = call.tensors_.emplace_back();
      made.shape.assign(spec->shape, spec->shape + spec->ndim);
      made.tensor = *spec;
      made.tensor.shape = made.shape.data();
      if (spec->strides != nullptr) {
        made.strides.assign(spec->strides, spec->strides + spec->ndim);
        made.tensor.strides = made.strides.data();
      }
      call.made_[call.part_->part.results[static_cast<size_t>(index)]] = &made.tensor;
      return 0;
    }

    struct Made {
      DLTensor tensor{};
      std::vector<int64_t> shape, strides;
    };
    const OnTargets& of_;
    const CinnValue* const args_;
    const CinnCallEnv& caller_;
    DeviceApi* host_ = nullptr;
    const Called* part_ = nullptr;  // that runs
    std::map<ValueId, DLTensor*> made_;
    std::deque<Made> tensors_;
    std::vector<void*> blocks_;
    Status failure_;
  };

  std::string Name() const { return Cat("@", graph_.name()); }
  Status NoExport() const { return Unimplemented(Name(), ": what several devices share can't be exported yet"); }

  int ArgumentOf(ValueId v) const {
    for (size_t i = 0; i < graph_.params().size(); ++i) {
      if (graph_.params()[i].value == v) return static_cast<int>(i);
    }
    return -1;
  }

  // A symbol that a call's arguments say; each part checks its own against it.
  StatusOr<int64_t> ValueOf(const std::string& symbol, const CinnValue* args) const {
    for (size_t i = 0; i < graph_.params().size(); ++i) {
      const hlir::Param& p = graph_.params()[i];
      if (p.is_symbol()) {
        if (p.name != symbol) continue;
        if (args[i].tag != kCinnInt) return InvalidArgument(Name(), ": argument '", p.name, "': expected an integer");
        return args[i].i;
      }
      // What was prepared need not be given again.
      if (p.role == hlir::ParamRole::kStatic && args[i].tag == kCinnNone) continue;
      const hlir::Dims& dims = graph_.TypeOf(p.value).dims;
      for (size_t d = 0; d < dims.size(); ++d) {
        if (dims[d].AsSymbol() != symbol) continue;
        const DLTensor* t = args[i].tag == kCinnTensor ? args[i].tensor : nullptr;
        if (t == nullptr || t->ndim != static_cast<int32_t>(dims.size()) || t->shape == nullptr) {
          return InvalidArgument(Name(), ": argument '", p.name, "': expected a tensor ",
                                 graph_.TypeOf(p.value).ToString());
        }
        return t->shape[d];
      }
    }
    return InvalidArgument(Name(), ": nothing says what ", symbol, " is");
  }

  static int32_t Enter(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
    const auto& state = *static_cast<const State*>(self);
    const OnTargets& of = state.of;
    const size_t expected = of.graph_.params().size() + of.graph_.results().size();
    if (env == nullptr || env->size < sizeof(CinnCallEnv))
      return SetLastError(InvalidArgument(of.Name(), ": the call's environment is null or older than this library"));
    if (args == nullptr || num_args < 0 || static_cast<size_t>(num_args) != expected)
      return SetLastError(InvalidArgument(of.Name(), ": expected ", expected, " arguments, got ", num_args));
    return SetLastError(Call(of, args, *env).Run(state.inner));
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
  std::vector<Called> parts_;
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
    called.push_back({std::move(p.part), TakeHostTensors(std::move(compiled)), {}, {}});
  }
  ASSIGN_OR_RETURN(Device host, devices.Of(targets[0]));
  return std::make_unique<OnTargets>(graph, std::move(host), std::move(called), std::move(placement.refused));
}

}  // namespace cinn_like
