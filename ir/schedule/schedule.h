// Schedules as text: one step a line, `//` comments. The text is the serialised form of every schedule: tactics write
// it, the log shows it, replay runs it. Its first half are steps on stages (ir/schedule/stage_steps.h), which need the
// function as ToLoops wrote it; its second half steps on loops (ir/schedule/primitives.h).
//
//   keep o0 -> kept_o0
//   split i 128 -> io ii
//   bind io blockIdx.x
//   scope acc local
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/stmt.h"
#include "ir/te.h"

namespace cinn_like::ir {

// Applies every step of `text` to `f`. An error names the step and shows why it is illegal.
StatusOr<Func> ApplySchedule(Func f, std::string_view text);

// The same for functions of a module: a line `@f` begins the steps of @f. Without such a line there is one function.
// `after` is told of each step, and what the module is then.
using AfterStep = std::function<void(std::string_view step, const Module& made)>;
StatusOr<Module> ApplySchedules(Module m, std::string_view text, const AfterStep& after = nullptr);

// Writes and applies steps one by one; keeps the text. After an error further steps do nothing and status() tells.
class Schedule {
 public:
  explicit Schedule(Func f) : func_(f), history_{Made{"", std::move(f)}} {}
  // Of stages: their naive loops.
  static StatusOr<Schedule> Of(TeProgram stages);

  // One step, e.g. Step("split ", loop, " 4 -> a b").
  template <class... Args>
  Schedule& Step(const Args&... args) {
    return Run(Cat(args...));
  }
  Schedule& Run(const std::string& step);
  // Runs the step if it is legal; else nothing changes.
  bool Try(const std::string& step);
  // A name that nothing in the function has.
  std::string Fresh(std::string_view base) { return NameSupply(func_).Fresh(base); }
  // The loops around a block, outermost first.
  std::vector<std::string> LoopsAround(const std::string& block) const;

  // What steps on stages left; null after a step on loops.
  const TeProgram* stages() const { return stages_ ? &*stages_ : nullptr; }
  const Func& func() const { return func_; }
  const std::string& text() const { return text_; }
  // What it was at first, and each step with what it made.
  struct Made {
    std::string step;
    Func func;
  };
  const std::vector<Made>& history() const { return history_; }
  // Two of these, side by side (cinn_like/base/side_by_side.h): as it is, what the last step did. Negative numbers
  // count from the end; those that there are none of are the nearest.
  std::string Diff(int before = -2, int after = -1) const;
  const Status& status() const { return status_; }
  StatusOr<Func> Finish() && {
    if (!status_.ok()) return status_;
    return std::move(func_);
  }

 private:
  Status Apply(const std::string& step);

  Func func_;
  std::optional<TeProgram> stages_;  // whose loops func_ is
  std::string text_;
  std::vector<Made> history_;
  Status status_;
};

// A row of the table of steps: "split", "LOOP FACTOR... -> NAME NAME...".
struct StepInfo {
  std::string_view name, usage;
  bool on_stages = false;  // else on loops
};
std::vector<StepInfo> ScheduleSteps();
// One line each, for help texts.
std::string ScheduleHelp();

}  // namespace cinn_like::ir
