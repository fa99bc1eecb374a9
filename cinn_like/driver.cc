#include "cinn_like/driver.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>

#include "backends/compiled_code.h"
#include "backends/library.h"
#include "backends/llvm_machine.h"
#include "backends/parallel_tasks.h"
#include "cinn_like/base/replace_file.h"
#include "cinn_like/compilation_cache.h"
#include "cinn_like/emit_code.h"
#include "cinn_like/interface.h"
#include "cinn_like/kernel_memo.h"
#include "cinn_like/weight_block.h"
#include "glog/logging.h"
#include "hlir/bids.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/place_checks.h"
#include "hlir/signature.h"
#include "hlir/tactics/tactic.h"
#include "ir/lower.h"
#include "ir/pass_table.h"
#include "ir/serial_loops.h"
#include "runtime/prepared_state.h"

namespace cinn_like {
namespace {

// What passes make of a graph.
struct LoweredProgram {
  ir::Module module;
  std::string graph_text, schedules;
  std::string main, prepare;  // names of the entries; `prepare` may be empty
  int slots = 0;              // that `prepare` fills
  int kernels = 0, unique_kernels = 0;
  std::vector<std::string> tactics, refused;
  std::vector<hlir::LostOp> lost;  // where there are any, nothing is lowered
};

// What a line of a list can hold: errors may show IR.
std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// One graph on its way to loops, in two halves: its kernels and what the framework would win of them, then all of them
// lowered.
class GraphLowering {
 public:
  // `source`: the graph before all passes, of which the target's framework may win ops; null where it may not.
  GraphLowering(const hlir::Graph* source, const PassContext& context)
      : source_(context.options.leave_to_framework ? source : nullptr),
        context_(context),
        remembers_(!context.target.HasKernels() && !context.options.dump_ir &&
                   context.target.device->tactics == nullptr && context.target.device->passes == nullptr),
        about_(Cat(context.target.CacheKey(), "\n", context.options.CacheKey(), "\n")) {}

  Status Bid(const hlir::Graph& graph) {
    {
      const ScopedStage timer(context_.times, "fuse");
      ASSIGN_OR_RETURN(lowered_, hlir::LowerGraph(graph, context_));
    }
    const size_t n = lowered_.kernels.size();
    known_.resize(n), bids_.resize(n), seconds_.resize(n);
    if (source_ == nullptr) return absl::OkStatus();
    // Most graphs lose something at first, and then no more is asked of the other kernels.
    const ScopedStage timer(context_.times, "lower");
    RETURN_IF_ERROR(ForEachKernel([&](size_t i) -> Status {
      if (!hlir::IsContested(*source_, lowered_.kernels[i])) return absl::OkStatus();
      Collect(i);
      seconds_[i] = known_[i] != nullptr ? known_[i]->seconds : bids_[i]->seconds();
      return absl::OkStatus();
    }));
    lost_ = hlir::FindLostOps(*source_, lowered_.kernels, seconds_, context_.target);
    return absl::OkStatus();
  }

  // After Bid and, while this is empty, after LowerInto: what was to be cheap may have been refused.
  const std::vector<hlir::LostOp>& lost() const { return lost_; }

  // Adds to the program, once.
  Status LowerInto(LoweredProgram& program) {
    const ScopedStage timer(context_.times, "lower");
    std::vector<ir::Module> modules(lowered_.kernels.size());
    std::vector<LoweredKernel> choices(lowered_.kernels.size());
    std::vector<Status> failures(lowered_.kernels.size());
    RETURN_IF_ERROR(ForEachKernel([&](size_t i) {
      failures[i] = Lower(i, modules[i], choices[i]);
      return absl::OkStatus();
    }));
    for (size_t i = 0; i < failures.size(); ++i) {
      const Status failure = Annotate(failures[i], Cat("kernel ", lowered_.kernels[i].name));
      if (failure.ok()) continue;
      // A framework may compute what this would.
      std::vector<hlir::LostOp> ops;
      if (source_ != nullptr && !context_.target.framework.empty())
        ops = hlir::OpsOf(lowered_.kernels[i], OneLine(std::string(failure.message())));
      if (ops.empty()) return failure;
      lost_.insert(lost_.end(), ops.begin(), ops.end());
    }
    if (!lost_.empty()) return absl::OkStatus();
    for (size_t i = 0; i < choices.size(); ++i) {
      const bool is_as_bid = choices[i].refused.empty() && choices[i].seconds < hlir::kNaiveSeconds;
      if (source_ == nullptr || (is_as_bid && !hlir::IsContested(*source_, lowered_.kernels[i]))) continue;
      seconds_[i] = choices[i].seconds;
    }
    if (source_ != nullptr) lost_ = hlir::FindLostOps(*source_, lowered_.kernels, seconds_, context_.target);
    if (!lost_.empty()) return absl::OkStatus();
    for (size_t i = 0; i < lowered_.kernels.size(); ++i) {
      const hlir::LoweredGraph::Kernel& kernel = lowered_.kernels[i];
      program.kernels += kernel.calls;
      program.unique_kernels += 1;
      program.tactics.push_back(Cat(kernel.name, ": ", choices[i].tactic));
      for (const std::string& why : choices[i].refused) {
        program.refused.push_back(Cat("kernel ", kernel.name, ": ", OneLine(why)));
        program.schedules += Cat("// refused: ", program.refused.back(), "\n");
      }
      program.schedules += Cat("// @", kernel.name, " by ", choices[i].tactic, ", ",
                               kernel.calls > 0 ? Cat("called ", kernel.calls, " times") : "for sizes far from hints",
                               ", ", choices[i].seconds, " s predicted\n@", kernel.name, "\n", choices[i].schedule);
      for (ir::Func& f : modules[i].funcs) program.module.funcs.push_back(std::move(f));
    }
    if (lowered_.check) {
      ASSIGN_OR_RETURN(ir::Module check, ir::LowerModule({lowered_.check->context, {*lowered_.check}}, context_));
      for (ir::Func& f : check.funcs) program.module.funcs.push_back(std::move(f));
    }
    ASSIGN_OR_RETURN(ir::Func entry, ir::LowerEntry(std::move(lowered_.entry), context_));
    program.module.context = entry.context;
    program.module.funcs.push_back(std::move(entry));
    return absl::OkStatus();
  }

 private:
  Status ForEachKernel(const std::function<Status(size_t)>& run) {
    std::vector<Status> statuses(lowered_.kernels.size());
    std::vector<std::function<void()>> tasks;
    for (size_t i = 0; i < statuses.size(); ++i) tasks.push_back([&, i] { statuses[i] = run(i); });
    RETURN_IF_ERROR(RunTasks(tasks, context_.options.compile_threads));
    for (size_t i = 0; i < statuses.size(); ++i)
      RETURN_IF_ERROR(Annotate(statuses[i], Cat("kernel ", lowered_.kernels[i].name)));
    return absl::OkStatus();
  }

  // What is known of a kernel, or else bid for it, once.
  void Collect(size_t i) {
    if (bids_[i].has_value() || known_[i] != nullptr) return;
    if (remembers_) known_[i] = FindLoweredKernel(about_ + lowered_.kernels[i].text);
    if (known_[i] == nullptr) bids_[i] = hlir::CollectBids(lowered_.kernels[i].group, context_.target);
  }

  Status Lower(size_t i, ir::Module& module, LoweredKernel& choice) {
    const hlir::LoweredGraph::Kernel& kernel = lowered_.kernels[i];
    Collect(i);
    if (known_[i] != nullptr) {
      choice = *known_[i];
      ir::Func f = ir::CloneInto(known_[i]->func, std::make_shared<ir::Context>());
      f.name = kernel.name;
      module = {f.context, {f}};
      return absl::OkStatus();
    }
    const auto lower = [&](const hlir::Proposal& p) -> Status {
      if (context_.options.dump_ir) {
        Dump(context_.options, kernel.name, "schedule", Cat(p.tactic, ", ", p.seconds, " s predicted\n", p.schedule));
      }
      ASSIGN_OR_RETURN(module, ir::LowerModule({p.func.context, {p.func}}, context_));
      return hlir::CheckIsLowered(kernel.group, module);
    };
    ASSIGN_OR_RETURN(hlir::Choice c, hlir::AcceptCheapest(*std::move(bids_[i]), kernel.group, context_.target, lower));
    for (std::string& loop : ir::FindSerialLoops({c.proposal.func.context, {c.proposal.func}}, module))
      c.refused.push_back(Cat("tactic ", c.proposal.tactic, ": ", std::move(loop)));
    choice = {
        {}, std::move(c.proposal.tactic), std::move(c.proposal.schedule), c.proposal.seconds, std::move(c.refused)};
    if (!remembers_ || module.funcs.size() != 1) return absl::OkStatus();
    LoweredKernel kept = choice;
    kept.func = module.funcs[0];
    KeepLoweredKernel(about_ + kernel.text, std::move(kept));
    return absl::OkStatus();
  }

  const hlir::Graph* const source_;
  const PassContext& context_;
  const bool remembers_;     // a kernel that is known runs no pass that could be dumped or disabled otherwise
  const std::string about_;  // what a kernel's text doesn't say
  hlir::LoweredGraph lowered_;
  std::vector<std::shared_ptr<const LoweredKernel>> known_;
  std::vector<std::optional<hlir::Bids>> bids_;
  std::vector<double> seconds_;
  std::vector<hlir::LostOp> lost_;
};

// The same for a program: a graph and the graph that prepares what is static.
class ProgramLowering {
 public:
  // Both outlive this.
  ProgramLowering(const hlir::Graph& graph, const PassContext& context)
      : context_(context), main_(&graph, context), prepare_(nullptr, context) {}

  Status Bid(const hlir::Graph& graph) {
    {
      const ScopedStage timer(context_.times, "optimize");
      ASSIGN_OR_RETURN(hlir::Graph optimized, hlir::OptimizeGraph(graph, context_));
      ASSIGN_OR_RETURN(split_, hlir::SplitStatic(optimized));
    }
    program_.graph_text = hlir::Print(split_.main);
    program_.main = split_.main.name();
    RETURN_IF_ERROR(main_.Bid(split_.main));
    program_.lost = main_.lost();
    return absl::OkStatus();
  }

  // After Bid its lost ops alone.
  const LoweredProgram& program() const { return program_; }
  LoweredProgram Take() { return std::move(program_); }

  // After Bid.
  Status Lower() {
    if (!program_.lost.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(main_.LowerInto(program_));
    program_.lost = main_.lost();
    if (!program_.lost.empty() || !split_.prepare) return absl::OkStatus();
    program_.graph_text += "\n" + hlir::Print(*split_.prepare);
    program_.prepare = split_.prepare->name();
    program_.slots = static_cast<int>(split_.prepare->results().size());
    RETURN_IF_ERROR(prepare_.Bid(*split_.prepare));
    return prepare_.LowerInto(program_);
  }

 private:
  const PassContext& context_;
  hlir::StaticSplit split_;
  GraphLowering main_, prepare_;
  LoweredProgram program_;
};

// The groups that become kernels, as loops: what the schedules of `LoweredProgram` begin with.
StatusOr<std::string> StagesText(const hlir::Graph& graph, const PassContext& context) {
  ASSIGN_OR_RETURN(hlir::Graph optimized, hlir::OptimizeGraph(graph, context));
  ASSIGN_OR_RETURN(const hlir::StaticSplit split, hlir::SplitStatic(optimized));
  std::string text;
  for (const hlir::Graph* g : {&split.main, split.prepare ? &*split.prepare : nullptr}) {
    if (g == nullptr) continue;
    ASSIGN_OR_RETURN(const hlir::LoweredGraph lowered, hlir::LowerGraph(*g, context));
    for (const hlir::LoweredGraph::Kernel& kernel : lowered.kernels) {
      ASSIGN_OR_RETURN(const ir::Func loops, ir::ToLoops(kernel.group));
      text += Cat(text.empty() ? "" : "\n", ir::Print(loops));
    }
  }
  return text;
}

struct Memory {
  int64_t now = 0, peak = 0;  // bytes that the process has resident
};

Memory MeasureMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Memory m{0, int64_t{usage.ru_maxrss} * 1024};
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;  // the second number
  m.now = pages * sysconf(_SC_PAGESIZE);
  return m;
}

class Compilation : public CompiledFunction {
 public:
  Compilation(const hlir::Graph& graph, const Target& target, const CompileOptions& options, Device device)
      : graph_(graph),
        signature_(SignatureOf(graph)),
        context_{options, target, graph.name(), &times_},
        device_(std::move(device)) {}

  // The first half: from the disk cache, or as far as prices tell whether the framework wins ops of it.
  Status Bid() {
    return Measured([&]() -> Status {
      ASSIGN_OR_RETURN(cache_, CompilationCache::Make(graph_, context_.target, context_.options, device_));
      report_.ops = static_cast<int>(graph_.ops().size());
      report_.cache_hit = LoadCached();
      if (report_.cache_hit) return absl::OkStatus();
      ASSIGN_OR_RETURN(const bool has_lost, BidOnOps());
      return has_lost ? Compile() : absl::OkStatus();
    });
  }

  Status Finish() override {
    if (IsDone()) return absl::OkStatus();
    return Annotate(Measured([&] { return Compile(); }), Cat("graph @", graph_.name()));
  }

  CinnFunctionPtr entry() const override { return entry_; }
  void* self() const override { return state_.get(); }
  const CallSignature& signature() const override { return signature_; }
  const Device& device() const override { return device_; }
  const CompileReport& report() const override { return report_; }

  void* AddSelf() override {
    const std::lock_guard<std::mutex> lock(added_mutex_);
    return added_.emplace_back(std::make_unique<PreparedState>(state_->num_slots(), *device_.runtime)).get();
  }

  Status Prepare(std::span<const CinnValue> args, const CinnCallEnv& env) override {
    return PrepareSelf(state_.get(), args, env);
  }

  Status PrepareSelf(void* self, std::span<const CinnValue> args, const CinnCallEnv& env) override {
    if (prepare_ == nullptr) return absl::OkStatus();
    return static_cast<PreparedState*>(self)->Prepare(prepare_, args.data(), static_cast<int32_t>(args.size()), env);
  }

  StatusOr<std::string> Source(std::string_view kind) const override {
    if (kind == "stages") return StagesText(graph_, context_);
    ASSIGN_OR_RETURN(const LoweredProgram* p, Lowered());
    if (kind == "graph") return p->graph_text;
    if (kind == "schedule") return p->schedules;
    if (kind == "loops") return ir::Print(p->module);
    return EmitCode({p->module, p->main, p->prepare}, context_, device_, kind, "graph, stages, schedule, loops");
  }

  Status ExportObject(const std::string& path) const override {
    ASSIGN_OR_RETURN(const LoweredProgram* p, Lowered());
    return ExportHostObject(p->module, context_.target, context_.options, path);
  }

  StatusOr<LibraryPart> MakePart(std::span<const CinnValue> weights) const override {
    RETURN_IF_ERROR(CheckRunsHere(device_));
    ASSIGN_OR_RETURN(const LoweredProgram* p, Lowered());
    if (!p->lost.empty()) {
      std::string ops;
      for (const hlir::LostOp& l : p->lost) {
        ops += Cat(ops.empty() ? "" : ", ", graph_.ops()[l.op].def->name);
        if (!l.failure.empty()) ops += Cat(" (", l.failure, ")");
      }
      return absl::FailedPreconditionError(Cat("graph @", graph_.name(), ": a library has no framework, to which ",
                                               context_.target.Print(), " leaves ", ops,
                                               "; leave out -framework to have them compiled"));
    }
    LibraryPart part;
    ASSIGN_OR_RETURN(const auto compiler,
                     MakeDeviceCompiler(device_, context_.target, context_.options, cache_.objects()));
    RETURN_IF_ERROR(
        CompileForLibrary(p->module, context_.target, context_.options, compiler.get(), cache_.objects(), &part));
    const bool has_weights = !weights.empty();
    part.name = p->main;
    part.signature = hlir::Signature(graph_, !has_weights);
    part.interface = InterfaceJson(signature_, !has_weights);
    part.prepare = p->prepare;
    part.slots = p->slots;
    part.params = static_cast<int>(graph_.params().size());
    part.results = static_cast<int>(graph_.results().size());
    for (int i = 0; i < part.params && !has_weights; ++i) {
      if (graph_.params()[static_cast<size_t>(i)].role == hlir::ParamRole::kStatic) part.statics.push_back(i);
    }
    if (!has_weights) return part;
    ASSIGN_OR_RETURN(WeightBlock made, MakeWeights(*p, weights));
    part.weights = std::move(made.bytes);
    part.description = std::move(made.description);
    part.params = part.description->NumGiven();
    if (device_.kind == &HostKind()) part.prepare.clear();
    return part;
  }

 private:
  // What goes into a library's file of the static parameters.
  StatusOr<WeightBlock> MakeWeights(const LoweredProgram& p, std::span<const CinnValue> weights) const {
    RETURN_IF_ERROR(CheckWeights(graph_, weights));
    const auto entry =
        std::find_if(p.module.funcs.begin(), p.module.funcs.end(), [&](const ir::Func& f) { return f.name == p.main; });
    RET_CHECK(entry != p.module.funcs.end(), p.main);
    // Other devices prepare them where they are loaded.
    if (device_.kind != &HostKind()) return MakeWeightBlock(graph_, *entry, nullptr, weights);
    ASSIGN_OR_RETURN(const HostCpu cpu, ResolveHostCpu(context_.target));
    RETURN_IF_ERROR(Annotate(CheckCpu(RequiredCpuFeatures(cpu)), "the code that prepares weights"));
    if (entry_ == nullptr) return absl::FailedPreconditionError("weights are prepared by code, which is not finished");
    PreparedState prepared(p.slots, *device_.runtime);
    if (prepare_ != nullptr) {
      CinnCallEnv env{};
      env.size = sizeof(env);
      env.device = {device_.runtime->type, 0};
      RETURN_IF_ERROR(prepared.Prepare(prepare_, weights.data(), static_cast<int32_t>(weights.size()), env));
    }
    return MakeWeightBlock(graph_, *entry, &prepared, weights);
  }

  bool IsDone() const { return entry_ != nullptr || !report_.lost.empty(); }

  // Runs a part of the compilation and reports what it took.
  Status Measured(const std::function<Status()>& part) {
    const auto begin = std::chrono::steady_clock::now();
    const Memory before = MeasureMemory();
    RETURN_IF_ERROR(part());
    report_.seconds = times_.Get();
    report_.total_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const Memory after = MeasureMemory();
    report_.peak_rss_bytes = after.peak;
    report_.added_rss_bytes =
        std::max((after.peak > before.peak ? after.peak : after.now) - before.now, report_.added_rss_bytes);
    if (context_.options.verbose_timing && IsDone()) {
      for (const auto& [stage, seconds] : report_.seconds) {
        LOG(INFO) << graph_.name() << " " << stage << " " << seconds * 1e3 << " ms";
      }
    }
    return absl::OkStatus();
  }

  // On a stack of its own: the caller's may be small.
  static Status OnTask(const std::function<Status()>& run) {
    Status status;
    RETURN_IF_ERROR(RunTasks({[&] { status = run(); }}, 1));
    return status;
  }

  // Whether the framework wins ops.
  StatusOr<bool> BidOnOps() const {
    auto lowering = std::make_unique<ProgramLowering>(graph_, context_);
    RETURN_IF_ERROR(OnTask([&] { return lowering->Bid(graph_); }));
    lowering_ = std::move(lowering);
    return !lowering_->program().lost.empty();
  }

  // What passes made; after a cache hit they run at the first call.
  StatusOr<const LoweredProgram*> Lowered() const {
    const std::lock_guard lock(lowered_mutex_);
    if (!lowered_.has_value()) {
      if (lowering_ == nullptr) RETURN_IF_ERROR(BidOnOps().status());
      RETURN_IF_ERROR(OnTask([&] { return lowering_->Lower(); }));
      lowered_ = lowering_->Take();
      lowering_ = nullptr;
    }
    return &*lowered_;
  }

  // Whatever is wrong with an entry, compiling tells better.
  bool LoadCached() {
    const ScopedStage timer(&times_, "cache");
    const std::optional<CompiledProgram> program = cache_.Find();
    return program.has_value() && Load(*program).ok();
  }

  Status Compile() {
    ASSIGN_OR_RETURN(const LoweredProgram* p, Lowered());
    CompiledProgram program{{},         p->main,    p->prepare, p->slots, p->kernels, p->unique_kernels,
                            p->tactics, p->refused, p->lost};
    if (!program.lost.empty()) {
      RETURN_IF_ERROR(Load(program));
    } else {
      const ScopedStage timer(&times_, "codegen");
      ASSIGN_OR_RETURN(const auto device,
                       MakeDeviceCompiler(device_, context_.target, context_.options, cache_.objects()));
      ASSIGN_OR_RETURN(program.code,
                       CompileModule(p->module, context_.target, context_.options, device.get(), cache_.objects()));
      RETURN_IF_ERROR(Load(program));
    }
    const ScopedStage timer(&times_, "cache");
    cache_.Insert(program);
    return absl::OkStatus();
  }

  Status Load(const CompiledProgram& program) {
    report_.lost = program.lost;
    if (!program.lost.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(
        code_, LoadedCode::Load(program.main, program.code, RuntimeSymbols(), device_, context_.options.jit_listener));
    entry_ = reinterpret_cast<CinnFunctionPtr>(code_->Lookup(program.main));
    RET_CHECK(entry_ != nullptr, program.main);
    if (!program.prepare.empty()) {
      prepare_ = reinterpret_cast<CinnFunctionPtr>(code_->Lookup(program.prepare));
      RET_CHECK(prepare_ != nullptr, program.prepare);
    }
    state_ = std::make_unique<PreparedState>(program.slots, *device_.runtime);
    report_.kernels = program.kernels;
    report_.unique_kernels = program.unique_kernels;
    report_.tactics = program.tactics;
    report_.refused = program.refused;
    return absl::OkStatus();
  }

  const hlir::Graph graph_;
  const CallSignature signature_;
  StageTimes times_;
  const PassContext context_;
  const Device device_;
  CompilationCache cache_;
  mutable std::mutex lowered_mutex_;
  mutable std::unique_ptr<ProgramLowering> lowering_;  // between its halves
  mutable std::optional<LoweredProgram> lowered_;
  std::unique_ptr<LoadedCode> code_;
  std::unique_ptr<PreparedState> state_;
  std::mutex added_mutex_;
  std::vector<std::unique_ptr<PreparedState>> added_;
  CinnFunctionPtr entry_ = nullptr, prepare_ = nullptr;
  CompileReport report_;
};

}  // namespace

Status CheckDisabledPasses(const CompileOptions& options, const Target& target) {
  std::vector<std::string_view> known;
  if (target.device->passes != nullptr) {
    for (const ir::HookedPass& hooked : *target.device->passes) known.push_back(hooked.pass.name);
  }
  for (const Pass<ir::Func>& pass : ir::PassTable()) known.push_back(pass.name);
  for (const Pass<hlir::Graph>& p : hlir::GraphPasses()) known.push_back(p.name);
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::istringstream names(options.disable_passes);
  for (std::string name; std::getline(names, name, ',');) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (std::string_view k : known) list += Cat(list.empty() ? "" : ", ", k);
    return InvalidArgument("flag 'cinn_disable_passes': no pass '", name, "'; known: ", list);
  }
  return absl::OkStatus();
}

std::vector<DType> LackedBy(const Target& target) {
  std::vector<DType> lacks = target.device->lacks;
  if (std::find(target.features.begin(), target.features.end(), "-fp64") != target.features.end())
    lacks.push_back(DType::kF64);
  return lacks;
}

Status CheckGraph(const hlir::Graph& graph, const Target& target) {
  RETURN_IF_ERROR(hlir::Verify(graph));
  const std::vector<DType> lacks = LackedBy(target);
  for (const hlir::Op& op : graph.ops()) {
    if (!op.device.empty() && !target.device->IsCalled(op.device)) {
      return InvalidArgument("op '", op.def->name, "': to be computed on ", op.device, ", and the target is ",
                             target.device->name);
    }
    for (const std::vector<hlir::ValueId>* values : {&op.operands, &op.results}) {
      for (const hlir::ValueId v : *values) {
        const DType dtype = graph.TypeOf(v).dtype;
        if (std::find(lacks.begin(), lacks.end(), dtype) == lacks.end()) continue;
        return InvalidArgument("op '", op.def->name, "': ", graph.TypeOf(v).ToString(), ": the ", target.device->name,
                               " device has no ", Name(dtype));
      }
    }
  }
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<CompiledFunction>> BidOnGraph(const hlir::Graph& graph, const Target& target,
                                                       const CompileOptions& options, const Devices& devices) {
  RETURN_IF_ERROR(CheckDisabledPasses(options, target));
  ASSIGN_OR_RETURN(const Device device, devices.Of(target));
  RETURN_IF_ERROR(CheckRunsHere(device));
  ASSIGN_OR_RETURN(const Target resolved, ResolveTarget(target, *device.runtime));
  RETURN_IF_ERROR(CheckGraph(graph, resolved));
  auto c = std::make_unique<Compilation>(graph, resolved, options, device);
  RETURN_IF_ERROR(Annotate(c->Bid(), Cat("graph @", graph.name())));
  return std::unique_ptr<CompiledFunction>(std::move(c));
}

StatusOr<std::unique_ptr<CompiledFunction>> CompileGraph(const hlir::Graph& graph, const Target& target,
                                                         const CompileOptions& options, const Devices& devices) {
  ASSIGN_OR_RETURN(auto compiled, BidOnGraph(graph, target, options, devices));
  RETURN_IF_ERROR(compiled->Finish());
  return compiled;
}

StatusOr<std::string> EmitGraph(const hlir::Graph& graph, const Target& target, const CompileOptions& options,
                                std::string_view kind, const Devices& devices) {
  RETURN_IF_ERROR(CheckGraph(graph, target));
  RETURN_IF_ERROR(CheckDisabledPasses(options, target));
  ASSIGN_OR_RETURN(const Device device, devices.Of(target));
  return Compilation(graph, target, options, device).Source(kind);
}

Status ExportLibrary(const hlir::Graph& graph, std::span<const Target> targets, const CompileOptions& options,
                     const std::string& path, const Devices& devices) {
  std::vector<LibraryPart> parts;
  for (const Target& target : targets) {
    RETURN_IF_ERROR(CheckGraph(graph, target));
    RETURN_IF_ERROR(CheckDisabledPasses(options, target));
    ASSIGN_OR_RETURN(const Device device, devices.Of(target));
    ASSIGN_OR_RETURN(const Target resolved, ResolveTarget(target, *device.runtime));
    ASSIGN_OR_RETURN(LibraryPart part, Compilation(graph, resolved, options, device).MakePart({}));
    parts.push_back(std::move(part));
  }
  return WriteLibrary(std::move(parts), path);
}

Status ExportLibrary(const hlir::Graph& graph, const Target& target, const CompileOptions& options,
                     const std::string& path, const Devices& devices) {
  return ExportLibrary(graph, {&target, 1}, options, path, devices);
}

Status WriteLibrary(std::vector<LibraryPart> parts, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string file, MakeLibrary(std::move(parts)));
  return ReplaceFile(path, file);
}

Status CompiledFunction::ExportLibrary(const std::string& path, std::span<const CinnValue> weights) const {
  std::vector<LibraryPart> parts(1);
  ASSIGN_OR_RETURN(parts[0], MakePart(weights));
  return WriteLibrary(std::move(parts), path);
}

}  // namespace cinn_like
