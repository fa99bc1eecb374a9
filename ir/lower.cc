#include "ir/lower.h"

#include <algorithm>

#include "ir/intrinsic.h"
#include "ir/pass_table.h"
#include "ir/passes/split_host_device.h"
#include "ir/schedule/legality.h"

namespace cinn_like::ir {
namespace {

[[maybe_unused]] Status VerifyFunc(const Func& f) { return Verify(f); }
std::string PrintFunc(const Func& f) { return Print(f); }
[[maybe_unused]] Status CheckText(std::string_view text) {
  ASSIGN_OR_RETURN(Func again, ParseFunc(text));
  if (Print(again) != text)
    return Internal("the printed function does not print as itself again:\n", text, "\n", Print(again));
  return absl::OkStatus();
}

// Names of rows of pass_table.cc.
constexpr std::string_view kCheck = "check_bounds";  // where options.check_bounds asks for it
constexpr std::string_view kHostPasses[] = {"lower_blocks", "simplify",     "place_buffers", "unswitch",
                                            "unroll",       "flatten",      "simplify",      "vectorize",
                                            "simplify",     "cascade_sums", "lower_checks",  kCheck,
                                            "legalize",     "narrow_lanes", "keep_wide",     "hoist_gathers"};
constexpr std::string_view kDevicePasses[] = {"lower_thread_scans",
                                              "lower_thread_reductions",
                                              "lower_blocks",
                                              "simplify",
                                              "guard_stores",
                                              "place_buffers",
                                              "keep_fragments",
                                              "lower_pipeline",
                                              "insert_barriers",
                                              "lower_tensor_copies",
                                              "unswitch",
                                              "unroll",
                                              "flatten",
                                              "simplify",
                                              "read_chosen",
                                              "vectorize",
                                              "simplify",
                                              "cascade_sums",
                                              "lower_checks",
                                              kCheck,
                                              "legalize",
                                              "keep_wide"};
// Parameters keep their shapes, which the argument check is made from.
constexpr std::string_view kEntryPasses[] = {"plan_memory", "simplify", "legalize"};
// After kernels were taken out of their functions.
constexpr std::string_view kKernelPasses[] = {"join_digits", "narrow_index", "hoist_quotients"};

// Verifying costs as much as a pass: every pass in debug builds, the end result always.
PipelineHooks<Func> Hooks() {
#ifdef NDEBUG
  return {"loops", nullptr, PrintFunc, nullptr};
#else
  return {"loops", VerifyFunc, PrintFunc, CheckText};
#endif
}

StatusOr<Func> RunPasses(Func f, std::span<const std::string_view> names, const PassContext& context) {
  std::vector<Pass<Func>> passes;
  const std::vector<HookedPass>* own = context.target.device->passes;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != kCheck || context.options.check_bounds) passes.push_back(*FindPass(names[i]));
    if (own == nullptr ||
        std::find(names.begin() + static_cast<ptrdiff_t>(i) + 1, names.end(), names[i]) != names.end())
      continue;
    for (const HookedPass& hooked : *own) {
      if (hooked.after == names[i]) passes.push_back(hooked.pass);
    }
  }
  PassContext named = context;
  named.name = f.name;
  ASSIGN_OR_RETURN(f, RunPipeline<Func>(std::move(f), passes, Hooks(), named));
#ifdef NDEBUG
  if (Status s = Verify(f); !s.ok()) return Internal("lowered: ", Message(s), "\n", Print(f));
#endif
  return f;
}

}  // namespace

StatusOr<Func> LowerKernel(Func f, const PassContext& context) {
  RETURN_IF_ERROR(CheckIntrinsics(f, *context.target.device));
  if (context.target.HasKernels()) {
    RETURN_IF_ERROR(CheckThreads(f));
    return RunPasses(std::move(f), kDevicePasses, context);
  }
  return RunPasses(std::move(f), kHostPasses, context);
}

StatusOr<Func> LowerEntry(Func f, const PassContext& context) {
  const Target& target = context.target;
  if (!f.device.empty() && f.device != target.device->name) {
    return InvalidArgument("entry function @", f.name, " is for device '", f.device, "', the target is '",
                           target.Print(), "'");
  }
  if (target.device != &HostKind()) f.device = target.device->name;
  return RunPasses(std::move(f), kEntryPasses, context);
}

StatusOr<Module> LowerModule(Module m, const PassContext& context) {
  for (Func& f : m.funcs) {
    if (f.kind == FuncKind::kKernel) continue;
    ASSIGN_OR_RETURN(
        f, f.kind == FuncKind::kEntry ? LowerEntry(std::move(f), context) : LowerKernel(std::move(f), context));
  }
  if (context.target.HasKernels()) {
    LaunchLimits limits = context.target.Limits();
    // Its models can have more.
    if (limits.shared_bytes > 0) limits.shared_bytes = std::max(limits.shared_bytes, context.target.shared_bytes);
    ASSIGN_OR_RETURN(m, SplitHostDevice(std::move(m), limits));
  }
  for (Func& f : m.funcs) {
    if (f.kind != FuncKind::kKernel) continue;
    ASSIGN_OR_RETURN(f, RunPasses(std::move(f), kKernelPasses, context));
  }
  return m;
}

}  // namespace cinn_like::ir
