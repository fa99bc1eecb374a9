// How chain_cpu computes a chain of reductions between two contractions: what each iterator is, the tiles, and what
// that is predicted to take.
#pragma once
#include <cstdint>
#include <optional>

#include "cinn_like/base/target.h"
#include "hlir/tactics/chain_roles.h"
#include "hlir/tactics/point.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// Steps on stages are done, those on loops follow.
struct ChainPlan {
  ir::Schedule schedule;
  Chain chain;
  int64_t lanes = 1, vectors = 1,
          features_tile = 1;             // rows of a vector, vectors of rows and features of a register tile
  int64_t keys_tile = 0, keys_sums = 1;  // keys of a tile, and of a register tile
  double seconds = 0, keys_seconds = 0;  // in all, and of that of what is computed for keys
};

// nullopt: the group is no such chain.
StatusOr<std::optional<ChainPlan>> PlanChain(const ir::TeProgram& group, const Target& target, Point& point);

}  // namespace cinn_like::hlir
