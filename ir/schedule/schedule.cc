#include "ir/schedule/schedule.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

// A step's words before and after `->`.
struct Words {
  std::vector<std::string> args;
  std::vector<std::string> names;
};

struct PrimitiveRow {
  std::string_view name;
  std::string_view usage;
  size_t min_args, max_args;    // words before ->
  size_t min_names, max_names;  // words after ->
  StatusOr<Func> (*apply)(Func, const Words&);
};

constexpr size_t kMany = 64;

const PrimitiveRow kPrimitives[] = {
    {"split", "LOOP FACTOR... -> NAME NAME...", 2, kMany, 2, kMany,
     [](Func f, const Words& w) -> StatusOr<Func> {
       std::vector<int64_t> factors;
       for (size_t i = 1; i < w.args.size(); ++i) {
         int64_t v = 0;
         if (!absl::SimpleAtoi(w.args[i], &v)) return InvalidArgument("expected a factor and got '", w.args[i], "'");
         factors.push_back(v);
       }
       return Split(std::move(f), w.args[0], factors, w.names);
     }},
    {"fuse", "LOOP LOOP... -> NAME", 1, kMany, 1, 1,
     [](Func f, const Words& w) { return Fuse(std::move(f), w.args, w.names[0]); }},
    {"reorder", "LOOP LOOP...", 1, kMany, 0, 0, [](Func f, const Words& w) { return Reorder(std::move(f), w.args); }},
    {"merge", "LOOP LOOP...", 1, kMany, 0, 0, [](Func f, const Words& w) { return Merge(std::move(f), w.args); }},
    {"parallel", "LOOP", 1, 1, 0, 0,
     [](Func f, const Words& w) { return SetKind(std::move(f), w.args[0], ForKind::kParallel); }},
    {"vectorize", "LOOP", 1, 1, 0, 0,
     [](Func f, const Words& w) { return SetKind(std::move(f), w.args[0], ForKind::kVectorized); }},
    {"unroll", "LOOP", 1, 1, 0, 0,
     [](Func f, const Words& w) { return SetKind(std::move(f), w.args[0], ForKind::kUnrolled); }},
    {"bind", "LOOP blockIdx.x|threadIdx.x|...", 2, 2, 0, 0,
     [](Func f, const Words& w) -> StatusOr<Func> {
       auto kind = ParseForKind(w.args[1]);
       if (!kind || (!IsBlockAxis(*kind) && !IsThreadAxis(*kind))) {
         return InvalidArgument("expected blockIdx.x|y|z or threadIdx.x|y|z and got '", w.args[1], "'");
       }
       return SetKind(std::move(f), w.args[0], *kind);
     }},
    {"inline", "BLOCK", 1, 1, 0, 0, [](Func f, const Words& w) { return Inline(std::move(f), w.args[0]); }},
    {"compute_at", "BLOCK LOOP", 2, 2, 0, 0,
     [](Func f, const Words& w) { return ComputeAt(std::move(f), w.args[0], w.args[1]); }},
    {"stage", "BUFFER BLOCK -> NAME", 2, 2, 1, 1,
     [](Func f, const Words& w) { return StageBuffer(std::move(f), w.args[0], w.args[1], w.names[0]); }},
    {"scope", "BUFFER global|shared|local", 2, 2, 0, 0,
     [](Func f, const Words& w) -> StatusOr<Func> {
       for (Scope s : {Scope::kGlobal, Scope::kShared, Scope::kLocal}) {
         if (Name(s) == w.args[1]) return SetScope(std::move(f), w.args[0], s);
       }
       return InvalidArgument("unknown scope '", w.args[1], "' (global, shared, local)");
     }},
    {"pad", "BLOCK", 1, 1, 0, 0, [](Func f, const Words& w) { return Pad(std::move(f), w.args[0]); }},
    {"implement", "call FUNCTION(ARGUMENT, ...)", 1, kMany, 0, 0,
     [](Func f, const Words& w) { return Implement(std::move(f), absl::StrJoin(w.args, " ")); }},
    {"split_init", "BLOCK LOOP -> NAME", 2, 2, 1, 1,
     [](Func f, const Words& w) { return SplitInit(std::move(f), w.args[0], w.args[1], w.names[0]); }},
};

StatusOr<Func> ApplyStep(Func f, std::string_view line) {
  std::vector<std::string> tokens = absl::StrSplit(absl::string_view(line.data(), line.size()), ' ', absl::SkipEmpty());
  if (tokens.empty()) return f;
  for (const PrimitiveRow& row : kPrimitives) {
    if (row.name != tokens[0]) continue;
    Words w;
    bool after = false;
    for (size_t i = 1; i < tokens.size(); ++i) {
      if (tokens[i] == "->")
        after = true;
      else
        (after ? w.names : w.args).push_back(tokens[i]);
    }
    if (w.args.size() < row.min_args || w.args.size() > row.max_args || w.names.size() < row.min_names ||
        w.names.size() > row.max_names) {
      return InvalidArgument("step '", line, "': expected ", row.name, " ", row.usage);
    }
    StatusOr<Func> r = row.apply(std::move(f), w);
    if (!r.ok()) return Annotate(r.status(), Cat("step '", line, "'"));
    return r;
  }
  return InvalidArgument("unknown schedule step '", tokens[0], "'; the steps are\n", ScheduleHelp());
}

}  // namespace

StatusOr<Func> ApplySchedule(Func f, std::string_view text) {
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    const size_t comment = line.find("//");
    if (comment != absl::string_view::npos) line = line.substr(0, comment);
    ASSIGN_OR_RETURN(f, ApplyStep(std::move(f), std::string(line)));
  }
  return f;
}

Schedule& Schedule::Run(const std::string& step) {
  if (!status_.ok()) return *this;
  StatusOr<Func> r = ApplyStep(func_, step);
  if (!r.ok()) {
    status_ = r.status();
    return *this;
  }
  func_ = *std::move(r);
  text_ += step + "\n";
  return *this;
}

std::vector<std::string> Schedule::LoopsAround(const std::string& block) const {
  std::vector<std::string> r;
  StatusOr<StmtPath> path = FindBlock(func_, block);
  if (path.ok()) {
    for (const For* n : LoopsOf(*path)) r.push_back(n->var->name);
  }
  return r;
}

std::string ScheduleHelp() {
  std::string s;
  for (const PrimitiveRow& row : kPrimitives) s += Cat("  ", row.name, " ", row.usage, "\n");
  return s;
}

}  // namespace cinn_like::ir
