#include "ir/pass_table.h"

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
#include "ir/passes/unroll.h"
#include "ir/passes/vectorize.h"

namespace cinn_like::ir {

const std::vector<PassRow>& PassTable() {
  static const auto* table = new std::vector<PassRow>{
      {"simplify", Simplify},
      {"lower_thread_reductions", LowerThreadReductions},
      {"lower_blocks", LowerBlocks},
      {"guard_stores", GuardStores},
      {"place_buffers", PlaceBuffers},
      {"insert_barriers", InsertBarriers},
      {"unroll", Unroll},
      {"vectorize", Vectorize},
      {"flatten", Flatten},
      {"legalize", Legalize},
      {"keep_wide", KeepWide},
      {"plan_memory", PlanMemory},
      {"narrow_index", NarrowIndex},
  };
  return *table;
}

const PassRow* FindPass(std::string_view name) {
  for (const PassRow& row : PassTable()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace cinn_like::ir
