// Steps that schedules of chains (chain_roles.h) have in common, whatever the device: what a tile of rows needs is
// computed where the tile is, and the stages' loops over keys, a tile at a time, become one. A step that fails is found
// in the schedule's status.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "hlir/tactics/chain_roles.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// Roles in the order of a stage's iterators.
using RoleOrder = absl::Span<const ChainRole>;
// Iterators, by name.
using RoledNames = std::vector<std::pair<std::string, ChainRole>>;

// Steps on stages.

// Inner stages run over one iterator of each role; with `reductions` what they reduce does, too.
void FoldRoles(ir::Schedule& s, Chain& chain, RoleOrder order, bool reductions);

// A stage `name` of `value`, over iterators of the stage `reader`, in front of it.
void DefineInner(ir::Schedule& s, Chain& chain, const std::string& name, const RoledNames& at, ir::Expr value,
                 const std::string& reader);

// What the folded stage `reduction` takes the largest of becomes a stage of its own, for all that compute it. False: it
// is too long for a step.
bool KeepElement(ir::Schedule& s, Chain& chain, const std::string& reduction, RoleOrder order);

// Steps on loops.

// The innermost loops around a stage's block, by what they run over, in the order of its iterators.
RoledNames LoopsByRole(const ir::Schedule& s, const Chain& chain, const ir::Stage& stage);

// The last stage's loops become `p` over batches and tiles of `rows` rows, `ii` within such a tile, and the loop that
// is returned, over features. Stages behind the second contraction are computed where the last one reads them.
std::string TileRows(ir::Schedule& s, const Chain& chain, int64_t rows);

struct KeyLoop {
  std::string loop;                 // over tiles of keys
  std::string by;                   // the name that the step `chain` gives what it makes; empty: nothing was to be made
  std::vector<std::string> starts;  // blocks that start reductions over keys
  std::vector<std::string> sums;    // these reductions' results

  // Blocks that no stage has, in memory of their own: `scope` is what the step of that name is given.
  std::vector<std::string> MadeBlocks(ir::Schedule& s, std::string_view scope) const;
};

// Tiles of `tile` keys are the outermost loop of each stage in `p`, and one loop for all of them. `around_sum`: a loop
// of the second contraction that goes around the rest.
KeyLoop ChainKeys(ir::Schedule& s, const Chain& chain, int64_t tile, const std::string& around_sum);

}  // namespace cinn_like::hlir
