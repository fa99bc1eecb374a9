#include "cinn_like/driver.h"

#include <sys/resource.h>

#include <chrono>

#include "backends/compiler.h"
#include "backends/parallel_tasks.h"
#include "glog/logging.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactic.h"
#include "ir/lower.h"
#include "runtime/device_api.h"
#include "runtime/prepared_state.h"

namespace cinn_like {
namespace {

class Compilation : public CompiledGraph {
 public:
  Compilation(const hlir::Graph& graph, const Target& target, const CompileOptions& options)
      : graph_(graph), context_{options, target, graph.name(), &times_} {}

  // Everything up to code: what Source shows. No device is needed.
  Status Lower() {
    report_.ops = static_cast<int>(graph_.ops().size());
    hlir::StaticSplit split;
    {
      const ScopedStage timer(&times_, "optimize");
      ASSIGN_OR_RETURN(hlir::Graph optimized, hlir::OptimizeGraph(graph_, context_));
      ASSIGN_OR_RETURN(split, hlir::SplitStatic(optimized));
    }
    optimized_text_ = hlir::Print(split.main);
    main_name_ = split.main.name();
    RETURN_IF_ERROR(LowerPart(split.main));
    if (split.prepare) {
      optimized_text_ += "\n" + hlir::Print(*split.prepare);
      prepare_name_ = split.prepare->name();
      slots_ = static_cast<int>(split.prepare->results().size());
      RETURN_IF_ERROR(LowerPart(*split.prepare));
    }
    return absl::OkStatus();
  }

  Status Run() {
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(Lower());
    {
      const ScopedStage timer(&times_, "codegen");
      ASSIGN_OR_RETURN(compiler_, Compiler::Create(context_.target, context_.options));
      RETURN_IF_ERROR(compiler_->BuildLowered(module_));
    }
    entry_ = reinterpret_cast<CinnFunctionPtr>(compiler_->Lookup(main_name_));
    RET_CHECK(entry_ != nullptr, main_name_);
    state_ = std::make_unique<PreparedState>(slots_);
    if (!prepare_name_.empty()) {
      prepare_ = reinterpret_cast<CinnFunctionPtr>(compiler_->Lookup(prepare_name_));
      RET_CHECK(prepare_ != nullptr, prepare_name_);
    }
    report_.seconds = times_.Get();
    report_.total_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    report_.peak_rss_bytes = int64_t{usage.ru_maxrss} * 1024;
    if (context_.options.verbose_timing) {
      for (const auto& [stage, seconds] : report_.seconds) LOG(INFO) << graph_.name() << " " << stage << " " << seconds * 1e3 << " ms";
    }
    return absl::OkStatus();
  }

  CinnFunctionPtr entry() const override { return entry_; }
  void* self() const override { return state_.get(); }
  const hlir::Graph& graph() const override { return graph_; }
  const CompileReport& report() const override { return report_; }

  Status Prepare(std::span<const CinnValue> args, const CinnCallEnv& env) override {
    if (prepare_ == nullptr) return absl::OkStatus();
    return state_->Prepare(prepare_, args.data(), static_cast<int32_t>(args.size()), env);
  }

  StatusOr<std::string> Source(std::string_view kind) const override {
    if (kind == "graph") return optimized_text_;
    if (kind == "schedule") return schedules_;
    if (kind == "loops") return ir::Print(module_);
    if (kind == "llvm") return EmitHostModule(module_, context_.target, context_.options, HostText::kLlvm);
    if (kind == "asm") return EmitHostModule(module_, context_.target, context_.options, HostText::kAssembly);
    if (kind == "object") return EmitHostModule(module_, context_.target, context_.options, HostText::kObject);
    if (context_.target.IsGpu() && (kind == "cuda" || kind == "ptx" || kind == "cubin")) return DeviceSource(kind);
    return absl::NotFoundError(Cat("no source of kind '", kind, "'; there are graph, schedule, loops, llvm, asm, object",
                                   context_.target.IsGpu() ? ", cuda, ptx, cubin" : ""));
  }

  Status ExportObject(const std::string& path) const override { return compiler_->ExportObject(path); }

 private:
  StatusOr<std::string> DeviceSource(std::string_view kind) const {
    CompileOptions options = context_.options;
    options.emit_ptx = kind == "ptx";
    options.compile_threads = 1;  // all kernels in one image
    ASSIGN_OR_RETURN(const auto device, MakeDeviceCompiler(context_.target, options, nullptr));
    if (kind == "cuda") return device->EmitSource(module_);
    ASSIGN_OR_RETURN(KernelImages images, device->Compile(module_, ""));
    if (images.images.empty()) return absl::NotFoundError(Cat("@", graph_.name(), " has no kernels"));
    RET_CHECK(images.images.size() == 1, images.images.size());
    return std::move(images.images[0]);
  }

  // The graph's kernels and entry, lowered, into module_.
  Status LowerPart(const hlir::Graph& graph) {
    hlir::LoweredGraph lowered;
    {
      const ScopedStage timer(&times_, "fuse");
      ASSIGN_OR_RETURN(lowered, hlir::LowerGraph(graph, !context_.options.disable_fusion));
    }
    const ScopedStage timer(&times_, "lower");
    std::vector<ir::Module> modules(lowered.kernels.size());
    std::vector<Status> statuses(lowered.kernels.size());
    std::vector<hlir::Proposal> proposals(lowered.kernels.size());
    std::vector<std::function<void()>> tasks;
    for (size_t i = 0; i < lowered.kernels.size(); ++i) {
      tasks.push_back([&, i] {
        statuses[i] = [&]() -> Status {
          ASSIGN_OR_RETURN(proposals[i], hlir::ChooseSchedule(lowered.kernels[i].group, context_.target));
          if (context_.options.dump_ir) {
            Dump(context_.options, lowered.kernels[i].name, "schedule", proposals[i].tactic + "\n" + proposals[i].schedule);
          }
          ASSIGN_OR_RETURN(modules[i], ir::LowerModule({proposals[i].func.context, {proposals[i].func}}, context_));
          return absl::OkStatus();
        }();
      });
    }
    RunTasks(tasks, context_.options.compile_threads);
    for (size_t i = 0; i < statuses.size(); ++i) {
      RETURN_IF_ERROR(Annotate(statuses[i], Cat("kernel ", lowered.kernels[i].name)));
      const hlir::LoweredGraph::Kernel& kernel = lowered.kernels[i];
      report_.kernels += kernel.calls;
      report_.unique_kernels += 1;
      report_.tactics.push_back(Cat(kernel.name, ": ", proposals[i].tactic));
      schedules_ += Cat("// @", kernel.name, " by ", proposals[i].tactic, ", called ", kernel.calls, " times\n", proposals[i].schedule);
      for (ir::Func& f : modules[i].funcs) module_.funcs.push_back(std::move(f));
    }
    ASSIGN_OR_RETURN(ir::Func entry, ir::LowerEntry(std::move(lowered.entry), context_));
    module_.context = entry.context;
    module_.funcs.push_back(std::move(entry));
    return absl::OkStatus();
  }

  const hlir::Graph graph_;
  StageTimes times_;
  PassContext context_;
  ir::Module module_;
  std::string main_name_, prepare_name_, optimized_text_, schedules_;
  int slots_ = 0;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<PreparedState> state_;
  CinnFunctionPtr entry_ = nullptr, prepare_ = nullptr;
  CompileReport report_;
};

}  // namespace

StatusOr<std::unique_ptr<CompiledGraph>> CompileGraph(const hlir::Graph& graph, const Target& target, const CompileOptions& options) {
  RETURN_IF_ERROR(hlir::Verify(graph));
  auto c = std::make_unique<Compilation>(graph, target, options);
  RETURN_IF_ERROR(Annotate(c->Run(), Cat("graph @", graph.name())));
  return std::unique_ptr<CompiledGraph>(std::move(c));
}

StatusOr<std::string> EmitGraph(const hlir::Graph& graph, const Target& target, const CompileOptions& options, std::string_view kind) {
  RETURN_IF_ERROR(hlir::Verify(graph));
  Compilation c(graph, target, options);
  RETURN_IF_ERROR(Annotate(c.Lower(), Cat("graph @", graph.name())));
  return c.Source(kind);
}

}  // namespace cinn_like
