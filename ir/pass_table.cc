#include "ir/pass_table.h"

#include "ir/passes/cascade_sums.h"
#include "ir/passes/check_bounds.h"
#include "ir/passes/flatten.h"
#include "ir/passes/guard_stores.h"
#include "ir/passes/hoist_gathers.h"
#include "ir/passes/hoist_quotients.h"
#include "ir/passes/insert_barriers.h"
#include "ir/passes/join_digits.h"
#include "ir/passes/keep_fragments.h"
#include "ir/passes/keep_wide.h"
#include "ir/passes/legalize.h"
#include "ir/passes/lower_blocks.h"
#include "ir/passes/lower_checks.h"
#include "ir/passes/lower_pipeline.h"
#include "ir/passes/lower_tensor_copies.h"
#include "ir/passes/lower_thread_reductions.h"
#include "ir/passes/lower_thread_scans.h"
#include "ir/passes/narrow_index.h"
#include "ir/passes/place_buffers.h"
#include "ir/passes/plan_memory.h"
#include "ir/passes/read_chosen.h"
#include "ir/passes/simplify.h"
#include "ir/passes/unroll.h"
#include "ir/passes/unswitch.h"
#include "ir/passes/vectorize.h"

namespace cinn_like::ir {
namespace {

template <StatusOr<Func> (*kPass)(Func)>
StatusOr<Func> Run(Func f, const PassContext&) {
  return kPass(std::move(f));
}

template <StatusOr<Func> (*kPass)(Func, const LaunchLimits&)>
StatusOr<Func> RunFor(Func f, const PassContext& context) {
  return kPass(std::move(f), context.target.Limits());
}

StatusOr<Func> RunKeepWide(Func f, const PassContext& context) {
  return context.options.numerics == "exact" ? std::move(f) : KeepWide(std::move(f));
}

StatusOr<Func> RunCascadeSums(Func f, const PassContext&) { return CascadeSums(std::move(f)); }

}  // namespace

const std::vector<Pass<Func>>& PassTable() {
  static const auto* table = new std::vector<Pass<Func>>{
      {"lower_thread_scans", RunFor<LowerThreadScans>, true},
      {"lower_thread_reductions", RunFor<LowerThreadReductions>, true},
      {"lower_blocks", Run<LowerBlocks>, true},
      {"simplify", Run<Simplify>},
      {"guard_stores", Run<GuardStores>, true},
      {"place_buffers", Run<PlaceBuffers>, true},
      {"keep_fragments", RunFor<KeepFragments>, true},
      {"lower_pipeline", Run<LowerPipeline>, true},
      {"insert_barriers", RunFor<InsertBarriers>, true},
      {"lower_tensor_copies", RunFor<LowerTensorCopies>, true},
      {"unswitch", Run<Unswitch>},
      {"unroll", Run<Unroll>},
      {"flatten", Run<Flatten>, true},
      {"read_chosen", Run<ReadChosen>},
      {"vectorize", Run<Vectorize>, true},
      {"cascade_sums", RunCascadeSums},
      {"lower_checks", Run<LowerChecks>, true},
      {"check_bounds", Run<CheckBounds>},
      {"legalize", Run<Legalize>, true},
      {"keep_wide", RunKeepWide},
      {"hoist_gathers", Run<HoistGathers>},
      {"plan_memory", Run<PlanMemory>, true},
      {"narrow_index", Run<NarrowIndex>, true},
      {"narrow_lanes", Run<NarrowLanes>},
      {"join_digits", Run<JoinDigits>},
      {"hoist_quotients", Run<HoistQuotients>},
  };
  return *table;
}

const Pass<Func>* FindPass(std::string_view name) {
  for (const Pass<Func>& pass : PassTable()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

}  // namespace cinn_like::ir
