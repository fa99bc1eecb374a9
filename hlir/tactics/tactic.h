// A tactic proposes, for a group of stages and a target, schedules with a predicted time. Tactics are the untuned
// compiler: analytic, no measuring. They read loops and access maps; none asks which ops a group came from.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/target.h"
#include "ir/te.h"

namespace cinn_like::hlir {

struct Proposal {
  std::string tactic;
  ir::Func func;         // scheduled, blocks in place
  std::string schedule;  // the steps, as text
  double seconds = 0;    // predicted
};

struct Tactic {
  std::string_view name;
  // No proposal (an empty list) where the tactic does not apply; an error is a bug of the tactic.
  StatusOr<std::vector<Proposal>> (*propose)(const ir::TeProgram& group, const Target& target);
};

// The built-in tactics, most special first.
const std::vector<Tactic>& BuiltInTactics();

// The cheapest proposal of all tactics. Every group has one: loops as they stand, if nothing else.
StatusOr<Proposal> ChooseSchedule(const ir::TeProgram& group, const Target& target,
                                  const std::vector<Tactic>& tactics = BuiltInTactics());

}  // namespace cinn_like::hlir
