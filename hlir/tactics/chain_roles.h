// Chains of reductions between two contractions: which stages are which, and what each iterator is.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// What an iterator runs over: rows of the first contraction's results, keys along which these are reduced and the
// second one sums, features of the second one's results, the depth that the first one sums over.
enum class ChainRole : uint8_t { kBatch, kRow, kKey, kFeature, kDepth };

struct Chain {
  std::string scores, sum;                                      // the contractions
  std::vector<std::string> inner, last;                         // stages up to the second contraction, and behind it
  absl::flat_hash_map<ir::Expr, ChainRole> roles;               // of iterators that have more than one value
  ir::Expr rows = nullptr, keys = nullptr, features = nullptr;  // how many
  double depth = 1;                                             // typically
  std::vector<ir::Stage> stages;                                // when steps on loops begin

  std::optional<ChainRole> RoleOf(ir::Expr var) const;
  // The stage's first iterator of the role, of those that have more than one value; null: there is none.
  const ir::StageIter* IterOf(const ir::Stage& s, ChainRole role) const;
  const ir::Stage& StageOf(const std::string& name) const;  // of `stages`
};

// A look at the group before it is taken apart.
bool MayBeChain(const ir::TeProgram& group);

// Of the group whose stages `s` has; steps on stages bring them into the form: factors common to a sum's elements
// follow it, and what follows runs over its iterators. nullopt: it is no such chain, and `s` is of no use.
std::optional<Chain> FindChain(const ir::TeProgram& group, ir::Schedule& s);

}  // namespace cinn_like::hlir
