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
#include "backends/parallel_tasks.h"
#include "cinn_like/compilation_cache.h"
#include "cinn_like/kernel_memo.h"
#include "glog/logging.h"
#include "hlir/bids.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactic.h"
#include "ir/lower.h"
#include "ir/pass_table.h"
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

// The graph's kernels and entry, lowered, into `program`; or `program.lost`, if `source`, the graph before all passes,
// is given and the target's framework would win some of its ops.
Status LowerInto(LoweredProgram& program, const hlir::Graph* source, const hlir::Graph& graph,
                 const PassContext& context) {
  hlir::LoweredGraph lowered;
  {
    const ScopedStage timer(context.times, "fuse");
    ASSIGN_OR_RETURN(lowered, hlir::LowerGraph(graph, context));
  }
  const ScopedStage timer(context.times, "lower");
  std::vector<ir::Module> modules(lowered.kernels.size());
  std::vector<Status> statuses(lowered.kernels.size());
  const auto for_each_kernel = [&](const std::function<Status(size_t)>& run) -> Status {
    std::vector<std::function<void()>> tasks;
    for (size_t i = 0; i < lowered.kernels.size(); ++i) tasks.push_back([&, i] { statuses[i] = run(i); });
    RETURN_IF_ERROR(RunTasks(tasks, context.options.compile_threads));
    for (size_t i = 0; i < statuses.size(); ++i)
      RETURN_IF_ERROR(Annotate(statuses[i], Cat("kernel ", lowered.kernels[i].name)));
    return absl::OkStatus();
  };
  // A kernel that is known runs no pass that could be dumped or disabled otherwise.
  const bool remembers = !context.target.HasKernels() && !context.options.dump_ir;
  const std::string about = Cat(context.target.CacheKey(), "\n", context.options.CacheKey(), "\n");
  std::vector<std::shared_ptr<const LoweredKernel>> known(lowered.kernels.size());
  std::vector<std::optional<hlir::Bids>> bids(lowered.kernels.size());
  const auto collect = [&](size_t i) -> Status {
    if (bids[i].has_value() || known[i] != nullptr) return absl::OkStatus();
    if (remembers) known[i] = FindLoweredKernel(about + lowered.kernels[i].text);
    if (known[i] != nullptr) return absl::OkStatus();
    bids[i] = hlir::CollectBids(lowered.kernels[i].group, context.target);
    return absl::OkStatus();
  };
  const bool is_contested = source != nullptr && context.options.leave_to_framework;
  std::vector<double> seconds(lowered.kernels.size());
  const auto find_lost = [&] {
    if (is_contested) program.lost = hlir::FindLostOps(*source, lowered.kernels, seconds, context.target);
    return !program.lost.empty();
  };
  if (is_contested) {
    // Most graphs lose something at first, and then no more is asked of the other kernels.
    RETURN_IF_ERROR(for_each_kernel([&](size_t i) -> Status {
      if (!hlir::IsContested(*source, lowered.kernels[i])) return absl::OkStatus();
      RETURN_IF_ERROR(collect(i));
      seconds[i] = known[i] != nullptr ? known[i]->seconds : bids[i]->seconds();
      return absl::OkStatus();
    }));
    if (find_lost()) return absl::OkStatus();
  }
  std::vector<LoweredKernel> choices(lowered.kernels.size());
  RETURN_IF_ERROR(for_each_kernel([&](size_t i) -> Status {
    const hlir::LoweredGraph::Kernel& kernel = lowered.kernels[i];
    RETURN_IF_ERROR(collect(i));
    if (known[i] != nullptr) {
      choices[i] = *known[i];
      ir::Func f = ir::CloneInto(known[i]->func, std::make_shared<ir::Context>());
      f.name = kernel.name;
      modules[i] = {f.context, {f}};
      return absl::OkStatus();
    }
    const auto lower = [&](const hlir::Proposal& p) -> Status {
      if (context.options.dump_ir) Dump(context.options, kernel.name, "schedule", p.tactic + "\n" + p.schedule);
      ASSIGN_OR_RETURN(modules[i], ir::LowerModule({p.func.context, {p.func}}, context));
      return absl::OkStatus();
    };
    ASSIGN_OR_RETURN(hlir::Choice c, hlir::AcceptCheapest(*std::move(bids[i]), kernel.group, context.target, lower));
    choices[i] = {
        {}, std::move(c.proposal.tactic), std::move(c.proposal.schedule), c.proposal.seconds, std::move(c.refused)};
    if (!remembers || modules[i].funcs.size() != 1) return absl::OkStatus();
    LoweredKernel kept = choices[i];
    kept.func = modules[i].funcs[0];
    KeepLoweredKernel(about + kernel.text, std::move(kept));
    return absl::OkStatus();
  }));
  // What was to be cheap may have been refused.
  for (size_t i = 0; i < choices.size(); ++i) seconds[i] = choices[i].seconds;
  if (find_lost()) return absl::OkStatus();
  for (size_t i = 0; i < lowered.kernels.size(); ++i) {
    const hlir::LoweredGraph::Kernel& kernel = lowered.kernels[i];
    program.kernels += kernel.calls;
    program.unique_kernels += 1;
    program.tactics.push_back(Cat(kernel.name, ": ", choices[i].tactic));
    for (const std::string& why : choices[i].refused) {
      program.refused.push_back(Cat("kernel ", kernel.name, ": ", OneLine(why)));
      program.schedules += Cat("// refused: ", program.refused.back(), "\n");
    }
    program.schedules += Cat("// @", kernel.name, " by ", choices[i].tactic, ", called ", kernel.calls, " times, ",
                             choices[i].seconds, " s predicted\n@", kernel.name, "\n", choices[i].schedule);
    for (ir::Func& f : modules[i].funcs) program.module.funcs.push_back(std::move(f));
  }
  if (lowered.check) {
    ASSIGN_OR_RETURN(ir::Module check, ir::LowerModule({lowered.check->context, {*lowered.check}}, context));
    for (ir::Func& f : check.funcs) program.module.funcs.push_back(std::move(f));
  }
  ASSIGN_OR_RETURN(ir::Func entry, ir::LowerEntry(std::move(lowered.entry), context));
  program.module.context = entry.context;
  program.module.funcs.push_back(std::move(entry));
  return absl::OkStatus();
}

StatusOr<LoweredProgram> LowerProgram(const hlir::Graph& graph, const PassContext& context) {
  hlir::StaticSplit split;
  {
    const ScopedStage timer(context.times, "optimize");
    ASSIGN_OR_RETURN(hlir::Graph optimized, hlir::OptimizeGraph(graph, context));
    ASSIGN_OR_RETURN(split, hlir::SplitStatic(optimized));
  }
  LoweredProgram r;
  r.graph_text = hlir::Print(split.main);
  r.main = split.main.name();
  RETURN_IF_ERROR(LowerInto(r, &graph, split.main, context));
  if (!r.lost.empty()) return r;
  if (split.prepare) {
    r.graph_text += "\n" + hlir::Print(*split.prepare);
    r.prepare = split.prepare->name();
    r.slots = static_cast<int>(split.prepare->results().size());
    RETURN_IF_ERROR(LowerInto(r, nullptr, *split.prepare, context));
  }
  return r;
}

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

// A misspelt name would silently leave its pass on.
Status CheckDisabledPasses(const CompileOptions& options) {
  std::vector<std::string_view> known;
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

class Compilation : public CompiledGraph {
 public:
  Compilation(const hlir::Graph& graph, const Target& target, const CompileOptions& options, Device device)
      : graph_(graph), context_{options, target, graph.name(), &times_}, device_(std::move(device)) {}

  Status Run() {
    const auto begin = std::chrono::steady_clock::now();
    const Memory before = MeasureMemory();
    ASSIGN_OR_RETURN(const CompilationCache cache, CompilationCache::Make(graph_, context_.target, context_.options));
    report_.cache_hit = LoadCached(cache);
    if (!report_.cache_hit) RETURN_IF_ERROR(Compile(cache));
    report_.ops = static_cast<int>(graph_.ops().size());
    report_.seconds = times_.Get();
    report_.total_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const Memory after = MeasureMemory();
    report_.peak_rss_bytes = after.peak;
    report_.added_rss_bytes = std::max<int64_t>((after.peak > before.peak ? after.peak : after.now) - before.now, 0);
    if (context_.options.verbose_timing) {
      for (const auto& [stage, seconds] : report_.seconds) {
        LOG(INFO) << graph_.name() << " " << stage << " " << seconds * 1e3 << " ms";
      }
    }
    return absl::OkStatus();
  }

  CinnFunctionPtr entry() const override { return entry_; }
  void* self() const override { return state_.get(); }
  const hlir::Graph& graph() const override { return graph_; }
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
    if (kind == "llvm") return EmitHostModule(p->module, context_.target, context_.options, HostText::kLlvm);
    if (kind == "asm") return EmitHostModule(p->module, context_.target, context_.options, HostText::kAssembly);
    if (kind == "object") return EmitHostModule(p->module, context_.target, context_.options, HostText::kObject);
    std::string kinds = "graph, stages, schedule, loops, llvm, asm, object";
    if (const auto compiler = MakeDeviceCompiler(nullptr)) {
      const std::vector<std::string> forms = compiler->Forms();
      for (const std::string& form : forms) kinds += ", " + form;
      if (kind == forms[0]) return compiler->EmitSource(p->module);
      if (std::find(forms.begin(), forms.end(), kind) != forms.end()) {
        StatusOr<std::string> emitted = compiler->Emit(p->module, kind);
        return emitted.ok() ? std::move(emitted) : Annotate(emitted.status(), Cat("@", graph_.name()));
      }
    }
    return absl::NotFoundError(Cat("no source of kind '", kind, "'; there are ", kinds));
  }

  Status ExportObject(const std::string& path) const override {
    ASSIGN_OR_RETURN(const LoweredProgram* p, Lowered());
    return ExportHostObject(p->module, context_.target, context_.options, path);
  }

 private:
  // Null for a device whose functions are host functions.
  std::unique_ptr<DeviceCompiler> MakeDeviceCompiler(ObjectCache* cache) const {
    return device_.make_compiler ? device_.make_compiler(context_.target, context_.options, cache) : nullptr;
  }

  // What passes made; after a cache hit they run at the first call.
  StatusOr<const LoweredProgram*> Lowered() const {
    const std::lock_guard lock(lowered_mutex_);
    if (!lowered_.has_value()) {
      // The caller's stack may be small.
      StatusOr<LoweredProgram> lowered;
      RETURN_IF_ERROR(RunTasks({[&] { lowered = LowerProgram(graph_, context_); }}, 1));
      ASSIGN_OR_RETURN(lowered_, std::move(lowered));
    }
    return &*lowered_;
  }

  // Whatever is wrong with an entry, compiling tells better.
  bool LoadCached(const CompilationCache& cache) {
    const ScopedStage timer(&times_, "cache");
    const std::optional<CompiledProgram> program = cache.Find();
    return program.has_value() && Load(*program).ok();
  }

  Status Compile(const CompilationCache& cache) {
    ASSIGN_OR_RETURN(const LoweredProgram* p, Lowered());
    CompiledProgram program{{},         p->main,    p->prepare, p->slots, p->kernels, p->unique_kernels,
                            p->tactics, p->refused, p->lost};
    if (!program.lost.empty()) {
      RETURN_IF_ERROR(Load(program));
    } else {
      const ScopedStage timer(&times_, "codegen");
      const auto device = MakeDeviceCompiler(cache.objects());
      ASSIGN_OR_RETURN(program.code,
                       CompileModule(p->module, context_.target, context_.options, device.get(), cache.objects()));
      RETURN_IF_ERROR(Load(program));
    }
    const ScopedStage timer(&times_, "cache");
    cache.Insert(program);
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
  StageTimes times_;
  const PassContext context_;
  const Device device_;
  mutable std::mutex lowered_mutex_;
  mutable std::optional<LoweredProgram> lowered_;
  std::unique_ptr<LoadedCode> code_;
  std::unique_ptr<PreparedState> state_;
  std::mutex added_mutex_;
  std::vector<std::unique_ptr<PreparedState>> added_;
  CinnFunctionPtr entry_ = nullptr, prepare_ = nullptr;
  CompileReport report_;
};

}  // namespace

StatusOr<std::unique_ptr<CompiledGraph>> CompileGraph(const hlir::Graph& graph, const Target& target,
                                                      const CompileOptions& options, const Devices& devices) {
  RETURN_IF_ERROR(hlir::Verify(graph));
  RETURN_IF_ERROR(CheckDisabledPasses(options));
  ASSIGN_OR_RETURN(const Device device, devices.Of(target));
  ASSIGN_OR_RETURN(const Target resolved, ResolveTarget(target, *device.runtime));
  auto c = std::make_unique<Compilation>(graph, resolved, options, device);
  RETURN_IF_ERROR(Annotate(c->Run(), Cat("graph @", graph.name())));
  return std::unique_ptr<CompiledGraph>(std::move(c));
}

StatusOr<std::string> EmitGraph(const hlir::Graph& graph, const Target& target, const CompileOptions& options,
                                std::string_view kind, const Devices& devices) {
  RETURN_IF_ERROR(hlir::Verify(graph));
  RETURN_IF_ERROR(CheckDisabledPasses(options));
  ASSIGN_OR_RETURN(const Device device, devices.Of(target));
  return Compilation(graph, target, options, device).Source(kind);
}

}  // namespace cinn_like
