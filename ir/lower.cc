#include "ir/lower.h"

#include <algorithm>

#include "ir/passes/flatten.h"
#include "ir/passes/guard_stores.h"
#include "ir/passes/insert_barriers.h"
#include "ir/passes/keep_wide.h"
#include "ir/passes/legalize.h"
#include "ir/passes/lower_blocks.h"
#include "ir/passes/lower_thread_reductions.h"
#include "ir/passes/narrow_index.h"
#include "ir/passes/place_buffers.h"
#include "ir/passes/plan_memory.h"
#include "ir/passes/simplify.h"
#include "ir/passes/split_host_device.h"
#include "ir/passes/unroll.h"
#include "ir/passes/vectorize.h"

namespace cinn_like::ir {
namespace {

template <StatusOr<Func> (*kPass)(Func)>
StatusOr<Func> Run(Func f, const PassContext&) {
  return kPass(std::move(f));
}

StatusOr<Func> RunKeepWide(Func f, const PassContext& context) {
  return context.options.numerics == "exact" ? std::move(f) : KeepWide(std::move(f));
}

[[maybe_unused]] Status VerifyFunc(const Func& f) { return Verify(f); }
std::string PrintFunc(const Func& f) { return Print(f); }
[[maybe_unused]] Status CheckText(std::string_view text) {
  ASSIGN_OR_RETURN(Func again, ParseFunc(text));
  if (Print(again) != text)
    return Internal("the printed function does not print as itself again:\n", text, "\n", Print(again));
  return absl::OkStatus();
}

const Pass<Func> kHostPasses[] = {
    {"lower_blocks", Run<LowerBlocks>, true},
    {"simplify", Run<Simplify>},
    {"place_buffers", Run<PlaceBuffers>, true},
    {"unroll", Run<Unroll>},
    {"flatten", Run<Flatten>, true},
    {"simplify", Run<Simplify>},
    {"vectorize", Run<Vectorize>, true},
    {"simplify", Run<Simplify>},
    {"legalize", Run<Legalize>, true},
    {"keep_wide", RunKeepWide},
};

const Pass<Func> kDevicePasses[] = {
    {"lower_thread_reductions", Run<LowerThreadReductions>, true},
    {"lower_blocks", Run<LowerBlocks>, true},
    {"simplify", Run<Simplify>},
    {"guard_stores", Run<GuardStores>, true},
    {"place_buffers", Run<PlaceBuffers>, true},
    {"insert_barriers", Run<InsertBarriers>, true},
    {"unroll", Run<Unroll>},
    {"flatten", Run<Flatten>, true},
    {"simplify", Run<Simplify>},
    {"vectorize", Run<Vectorize>, true},
    {"simplify", Run<Simplify>},
    {"legalize", Run<Legalize>, true},
    {"keep_wide", RunKeepWide},
};

// Parameters keep their shapes, which the argument check is made from.
const Pass<Func> kEntryPasses[] = {
    {"plan_memory", Run<PlanMemory>, true},
    {"simplify", Run<Simplify>},
    {"legalize", Run<Legalize>, true},
};

// Verifying costs as much as a pass: every pass in debug builds, the end result always.
PipelineHooks<Func> Hooks() {
#ifdef NDEBUG
  return {"loops", nullptr, PrintFunc, nullptr};
#else
  return {"loops", VerifyFunc, PrintFunc, CheckText};
#endif
}

StatusOr<Func> RunPasses(Func f, std::span<const Pass<Func>> passes, const PassContext& context) {
  PassContext named = context;
  named.name = f.name;
  return RunPipeline<Func>(std::move(f), passes, Hooks(), named);
}

}  // namespace

std::vector<std::string_view> PassNames() {
  std::vector<std::string_view> names;
  for (std::span<const Pass<Func>> passes :
       {std::span<const Pass<Func>>(kHostPasses), {kDevicePasses}, {kEntryPasses}}) {
    for (const Pass<Func>& p : passes) {
      if (std::find(names.begin(), names.end(), p.name) == names.end()) names.push_back(p.name);
    }
  }
  return names;
}

StatusOr<Func> LowerKernel(Func f, const PassContext& context) {
  if (context.target.IsGpu()) return RunPasses(std::move(f), kDevicePasses, context);
  return RunPasses(std::move(f), kHostPasses, context);
}

StatusOr<Func> LowerEntry(Func f, const PassContext& context) {
  f.on_gpu = context.target.IsGpu();
  return RunPasses(std::move(f), kEntryPasses, context);
}

StatusOr<Module> LowerModule(Module m, const PassContext& context) {
  for (Func& f : m.funcs) {
    if (f.kind == FuncKind::kKernel) continue;
    ASSIGN_OR_RETURN(
        f, f.kind == FuncKind::kEntry ? LowerEntry(std::move(f), context) : LowerKernel(std::move(f), context));
  }
  if (context.target.IsGpu()) {
    ASSIGN_OR_RETURN(m, SplitHostDevice(std::move(m)));
  }
  for (Func& f : m.funcs) {
    if (f.kind != FuncKind::kKernel) continue;
    ASSIGN_OR_RETURN(f, NarrowIndex(std::move(f)));
  }
  return m;
}

}  // namespace cinn_like::ir
