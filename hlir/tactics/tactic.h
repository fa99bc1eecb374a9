// A tactic proposes, for a group of stages and a target, schedules with a predicted time. Tactics are the untuned
// compiler: analytic, no measuring. They read loops and access maps; none asks which ops a group came from.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/target.h"
#include "hlir/tactics/point.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"

namespace cinn_like::hlir {

struct Proposal {
  std::string tactic;
  ir::Func func;         // scheduled, blocks in place
  std::string schedule;  // the steps, as text
  double seconds = 0;    // predicted
};

// How far a tactic goes: a price is known long before the schedule is written, and most schedules would be for nothing.
enum class Until { kPrice, kSchedule };

struct Tactic {
  std::string_view name;
  // No proposal (an empty list) where the tactic does not apply; an error is a bug of the tactic, which others make up
  // for. Until kPrice, proposals have neither function nor schedule. Parameters are asked of `point`; where that is not
  // what the tactic predicts to be the fastest, it may lead to an error.
  StatusOr<std::vector<Proposal>> (*propose)(const ir::TeProgram& group, const Target& target, Until until,
                                             Point& point);
};

// The built-in tactics, most special first.
const std::vector<Tactic>& BuiltInTactics();

// Loops as they stand: every group on every target has this proposal, whatever becomes of the others, at a price that
// wins no bid.
constexpr double kNaiveSeconds = 1e3;
// One thread of `axis` an element of the stage's results, in a kernel of its own; of a scan, one for each that runs,
// and the loop along it is the result (empty: none).
StatusOr<std::string> ThreadAnElement(const ir::Stage& stage, ir::Schedule& s, const Target& target,
                                      int64_t block_threads = 128, std::string_view axis = "threadIdx.x");
StatusOr<Proposal> ProposeNaive(const ir::TeProgram& group, const Target& target);

struct Choice {
  Proposal proposal;
  // "tactic rows_gpu: step 'merge e e_1': ...": what bid with an error, or was cheaper and not accepted.
  std::vector<std::string> refused;
};

// The tactics that apply, each by its cheapest proposal: cheapest first, but ahead of all, where sizes are symbols, the
// one that stays cheap at sizes beyond their hints.
struct Bid {
  const Tactic* tactic;
  double seconds;
};
struct Bids {
  std::vector<Bid> bids;
  std::vector<std::string> refused;
  double seconds() const;  // of the first; naive's if there is none
};
Bids CollectBids(const ir::TeProgram& group, const Target& target, const std::vector<Tactic>& tactics);
// Of the built-in tactics and those of the target's device.
Bids CollectBids(const ir::TeProgram& group, const Target& target);

// Sizes that are symbols are expected to become so many times their hints, too.
constexpr int64_t kFartherBy = 8;

// The first tactic's proposal that `accept` (lowering; null: anything) says OK to. A tactic that fails, or whose
// proposals are not accepted, is out of the bidding and named in `refused`; `naive` runs where nothing else does. An
// error is one of `naive`.
StatusOr<Choice> AcceptCheapest(Bids bids, const ir::TeProgram& group, const Target& target,
                                const std::function<Status(const Proposal&)>& accept = nullptr);

// Both.
StatusOr<Choice> ChooseSchedule(const ir::TeProgram& group, const Target& target,
                                const std::function<Status(const Proposal&)>& accept = nullptr);
StatusOr<Choice> ChooseSchedule(const ir::TeProgram& group, const Target& target,
                                const std::function<Status(const Proposal&)>& accept,
                                const std::vector<Tactic>& tactics);

}  // namespace cinn_like::hlir
