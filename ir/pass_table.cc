#include "ir/pass_table.h"

#include "ir/passes/flatten.h"
#include "ir/passes/insert_barriers.h"
#include "ir/passes/legalize.h"
#include "ir/passes/lower_blocks.h"
#include "ir/passes/lower_thread_reductions.h"
#include "ir/passes/place_buffers.h"
#include "ir/passes/simplify.h"
#include "ir/passes/unroll.h"

namespace cinn_like::ir {

const std::vector<PassRow>& PassTable() {
  static const auto* table = new std::vector<PassRow>{
      {"simplify", Simplify},
      {"lower_thread_reductions", LowerThreadReductions},
      {"lower_blocks", LowerBlocks},
      {"place_buffers", PlaceBuffers},
      {"insert_barriers", InsertBarriers},
      {"unroll", Unroll},
      {"flatten", Flatten},
      {"legalize", Legalize},
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
