#include "ir/schedule/schedule.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cinn_like/base/lexer.h"
#include "cinn_like/base/side_by_side.h"
#include "ir/buffer_sizes.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/stage_steps.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

// A step's words before and after `->`.
struct Words {
  std::vector<std::string> args;
  std::vector<std::string> names;
};

struct StepRow {
  std::string_view name;
  std::string_view usage;
  size_t min_args, max_args;    // words before ->
  size_t min_names, max_names;  // words after ->
  StatusOr<Func> (*on_loops)(Func, const Words&) = nullptr;
  StatusOr<TeProgram> (*on_stages)(TeProgram, const Words&) = nullptr;
};

constexpr size_t kMany = 64, kAnyNumber = SIZE_MAX;

// As text has names.
bool IsName(std::string_view word) {
  const Lexer lexer(word);
  return lexer.Peek().kind == TokenKind::kIdent && lexer.Peek().text == word;
}

// "t[i, j] = x[j, i] before s"
StatusOr<Definition> ParseDefinition(std::vector<std::string> words) {
  Definition d;
  if (words.size() > 2 && words[words.size() - 2] == "before") {
    d.before = words.back();
    words.resize(words.size() - 2);
  }
  const std::string text = absl::StrJoin(words, " ");
  const size_t open = text.find('['), close = text.find(']'), equal = text.find('=');
  if (open == text.npos || close == text.npos || equal == text.npos || open > close || close > equal)
    return InvalidArgument("expected NAME[ITERATOR, ...] = EXPRESSION and got '", text, "'");
  d.name = text.substr(0, open);
  d.iters = absl::StrSplit(text.substr(open + 1, close - open - 1), absl::ByAnyChar(", "), absl::SkipEmpty());
  d.value = std::string(absl::StripAsciiWhitespace(text.substr(equal + 1)));
  if (!IsName(d.name) || d.iters.empty() || !std::all_of(d.iters.begin(), d.iters.end(), IsName))
    return InvalidArgument("expected NAME[ITERATOR, ...] and got '", text, "'");
  return d;
}

// "a[i, k] b[j]"
StatusOr<std::vector<Folded>> ParseFolded(const std::vector<std::string>& words) {
  std::vector<Folded> r;
  const std::string text = absl::StrJoin(words, " ");
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('[', at), close = text.find(']', at);
    if (open == text.npos || close == text.npos || close < open || open == at)
      return InvalidArgument("expected NAME[ITERATOR, ...] and got '", text.substr(at), "'");
    r.push_back({text.substr(at, open - at),
                 absl::StrSplit(text.substr(open + 1, close - open - 1), absl::ByAnyChar(", "), absl::SkipEmpty())});
    if (!IsName(r.back().name)) return InvalidArgument("expected a name and got '", r.back().name, "'");
    at = close + 1;
    while (at < text.size() && text[at] == ' ') ++at;
  }
  return r;
}

// The words from the `from`th on.
StatusOr<std::vector<int64_t>> ParseFactors(const std::vector<std::string>& words, size_t from) {
  std::vector<int64_t> r;
  for (size_t i = from; i < words.size(); ++i) {
    if (!absl::SimpleAtoi(words[i], &r.emplace_back()))
      return InvalidArgument("expected a factor and got '", words[i], "'");
  }
  return r;
}

const StepRow kSteps[] = {
    {"align", "STAGE STAGE", 2, 2, 0, 0, nullptr,
     [](TeProgram p, const Words& w) { return Align(std::move(p), w.args[0], w.args[1]); }},
    {"keep", "RESULT -> NAME", 1, 1, 1, 1, nullptr,
     [](TeProgram p, const Words& w) { return Keep(std::move(p), w.args[0], w.names[0]); }},
    {"inline_stage", "STAGE", 1, 1, 0, 0, nullptr,
     [](TeProgram p, const Words& w) { return InlineStage(std::move(p), w.args[0]); }},
    {"fold", "STAGE -> NAME[ITERATOR, ...] ...", 1, 1, 1, kAnyNumber, nullptr,
     [](TeProgram p, const Words& w) -> StatusOr<TeProgram> {
       ASSIGN_OR_RETURN(const std::vector<Folded> to, ParseFolded(w.names));
       return Fold(std::move(p), w.args[0], to);
     }},
    {"unfold", "STAGE ITERATOR FACTOR... -> NAME NAME...", 3, kMany, 2, kMany, nullptr,
     [](TeProgram p, const Words& w) -> StatusOr<TeProgram> {
       ASSIGN_OR_RETURN(const std::vector<int64_t> factors, ParseFactors(w.args, 2));
       return Unfold(std::move(p), w.args[0], w.args[1], factors, w.names);
     }},
    {"round_up", "STAGE ITERATOR FACTOR", 3, 3, 0, 0, nullptr,
     [](TeProgram p, const Words& w) -> StatusOr<TeProgram> {
       ASSIGN_OR_RETURN(const std::vector<int64_t> factors, ParseFactors(w.args, 2));
       return RoundUp(std::move(p), w.args[0], w.args[1], factors[0]);
     }},
    {"shift", "STAGE ITERATOR EXPRESSION", 3, kAnyNumber, 0, 0, nullptr,
     [](TeProgram p, const Words& w) {
       return Shift(std::move(p), w.args[0], w.args[1], absl::StrJoin(w.args.begin() + 2, w.args.end(), " "));
     }},
    {"solve", "STAGE ITERATOR", 2, 2, 0, 0, nullptr,
     [](TeProgram p, const Words& w) { return Solve(std::move(p), w.args[0], w.args[1]); }},
    {"pad_input", "STAGE BUFFER -> NAME", 2, 2, 1, 1, nullptr,
     [](TeProgram p, const Words& w) { return PadInput(std::move(p), w.args[0], w.args[1], w.names[0]); }},
    {"rfactor", "STAGE ITERATOR -> NAME...", 2, 2, 1, kMany, nullptr,
     [](TeProgram p, const Words& w) { return Rfactor(std::move(p), w.args[0], w.args[1], w.names); }},
    {"rescale", "STAGE", 1, 1, 0, 0, nullptr,
     [](TeProgram p, const Words& w) { return Rescale(std::move(p), w.args[0]); }},
    {"recenter", "STAGE STAGE -> NAME", 2, 2, 1, 1, nullptr,
     [](TeProgram p, const Words& w) { return Recenter(std::move(p), w.args[0], w.args[1], w.names[0]); }},
    {"separate", "STAGE -> NAME", 1, 1, 1, 1, nullptr,
     [](TeProgram p, const Words& w) { return Separate(std::move(p), w.args[0], w.names[0]); }},
    {"together", "STAGE STAGE", 2, 2, 0, 0, nullptr,
     [](TeProgram p, const Words& w) { return Together(std::move(p), w.args[0], w.args[1]); }},
    {"hoist", "STAGE -> NAME", 1, 1, 1, 1, nullptr,
     [](TeProgram p, const Words& w) { return Hoist(std::move(p), w.args[0], w.names[0]); }},
    {"factor", "STAGE", 1, 1, 0, 0, nullptr,
     [](TeProgram p, const Words& w) { return Factor(std::move(p), w.args[0]); }},
    {"exp2", "STAGE", 1, 1, 0, 0, nullptr, [](TeProgram p, const Words& w) { return Exp2(std::move(p), w.args[0]); }},
    {"compensate", "STAGE lhs|rhs -> NAME", 2, 2, 1, 1, nullptr,
     [](TeProgram p, const Words& w) { return Compensate(std::move(p), w.args[0], w.args[1], w.names[0]); }},
    {"define", "NAME[ITERATOR, ...] = EXPRESSION [before STAGE]", 3, kAnyNumber, 0, 0, nullptr,
     [](TeProgram p, const Words& w) -> StatusOr<TeProgram> {
       ASSIGN_OR_RETURN(const Definition d, ParseDefinition(w.args));
       return Define(std::move(p), d);
     }},
    {"split", "LOOP FACTOR... -> NAME NAME...", 2, kMany, 2, kMany,
     [](Func f, const Words& w) -> StatusOr<Func> {
       ASSIGN_OR_RETURN(const std::vector<int64_t> factors, ParseFactors(w.args, 1));
       return Split(std::move(f), w.args[0], factors, w.names);
     }},
    {"fuse", "LOOP LOOP... -> NAME", 1, kMany, 1, 1,
     [](Func f, const Words& w) { return Fuse(std::move(f), w.args, w.names[0]); }},
    {"reorder", "LOOP LOOP...", 1, kMany, 0, 0, [](Func f, const Words& w) { return Reorder(std::move(f), w.args); }},
    {"merge", "LOOP LOOP...", 1, kMany, 0, 0, [](Func f, const Words& w) { return Merge(std::move(f), w.args); }},
    {"fission", "LOOP BLOCK|LOOP -> NAME", 2, 2, 1, 1,
     [](Func f, const Words& w) { return Fission(std::move(f), w.args[0], w.args[1], w.names[0]); }},
    {"unroll_jam", "LOOP", 1, 1, 0, 0, [](Func f, const Words& w) { return UnrollJam(std::move(f), w.args[0]); }},
    {"chain", "LOOP LOOP... -> NAME", 1, kMany, 1, 1,
     [](Func f, const Words& w) { return Chain(std::move(f), w.args, w.names[0]); }},
    {"parallel", "LOOP", 1, 1, 0, 0,
     [](Func f, const Words& w) { return SetKind(std::move(f), w.args[0], ForKind::kParallel); }},
    {"vectorize", "LOOP", 1, 1, 0, 0,
     [](Func f, const Words& w) { return SetKind(std::move(f), w.args[0], ForKind::kVectorized); }},
    {"unroll", "LOOP", 1, 1, 0, 0,
     [](Func f, const Words& w) { return SetKind(std::move(f), w.args[0], ForKind::kUnrolled); }},
    {"bind", "LOOP blockIdx.x|threadIdx.x|clusterIdx.x|...|vthread", 2, 2, 0, 0,
     [](Func f, const Words& w) -> StatusOr<Func> {
       if (w.args[1] == "vthread") return UnrollJam(std::move(f), w.args[0]);
       auto kind = ParseLoopKind(w.args[1]);
       if (!kind || (!IsBlockAxis(*kind) && !IsThreadAxis(*kind))) {
         return InvalidArgument("expected blockIdx.x|y|z, threadIdx.x|y|z, clusterIdx.x or vthread and got '", w.args[1], "'");
       }
       return SetKind(std::move(f), w.args[0], *kind);
     }},
    {"inline", "BLOCK", 1, 1, 0, 0, [](Func f, const Words& w) { return Inline(std::move(f), w.args[0]); }},
    {"reverse_inline", "BLOCK", 1, 1, 0, 0,
     [](Func f, const Words& w) { return ReverseInline(std::move(f), w.args[0]); }},
    {"compute_at", "BLOCK LOOP", 2, 2, 0, 0,
     [](Func f, const Words& w) { return ComputeAt(std::move(f), w.args[0], w.args[1]); }},
    {"reverse_compute_at", "BLOCK LOOP", 2, 2, 0, 0,
     [](Func f, const Words& w) { return ReverseComputeAt(std::move(f), w.args[0], w.args[1]); }},
    {"peel", "LOOP front|back COUNT -> NAME", 3, 3, 1, 1,
     [](Func f, const Words& w) -> StatusOr<Func> {
       if (w.args[1] != "front" && w.args[1] != "back")
         return InvalidArgument("expected front or back and got '", w.args[1], "'");
       ASSIGN_OR_RETURN(const std::vector<int64_t> count, ParseFactors(w.args, 2));
       return Peel(std::move(f), w.args[0], w.args[1] == "front", count[0], w.names[0]);
     }},
    {"specialize", "LOOP|BLOCK CONDITION -> NAME", 2, kMany, 1, 1,
     [](Func f, const Words& w) {
       return Specialize(std::move(f), w.args[0], absl::StrJoin(w.args.begin() + 1, w.args.end(), " "), w.names[0]);
     }},
    {"annotate", "LOOP unroll=N|vectorize=off ...", 2, kMany, 0, 0,
     [](Func f, const Words& w) {
       return AnnotateLoop(std::move(f), w.args[0], {w.args.begin() + 1, w.args.end()});
     }},
    {"prefetch", "BUFFER LOOP DISTANCE", 3, 3, 0, 0,
     [](Func f, const Words& w) -> StatusOr<Func> {
       ASSIGN_OR_RETURN(const std::vector<int64_t> distance, ParseFactors(w.args, 2));
       return PrefetchInto(std::move(f), w.args[0], w.args[1], distance[0]);
     }},
    {"stage", "BUFFER BLOCK -> NAME", 2, 2, 1, 1,
     [](Func f, const Words& w) { return StageBuffer(std::move(f), w.args[0], w.args[1], w.names[0]); }},
    {"cache_write", "BUFFER BLOCK -> NAME", 2, 2, 1, 1,
     [](Func f, const Words& w) { return CacheWrite(std::move(f), w.args[0], w.args[1], w.names[0]); }},
    {"scope", "BUFFER global|shared|local [align BYTES]", 2, 4, 0, 0,
     [](Func f, const Words& w) -> StatusOr<Func> {
       int bytes = 0;
       if (w.args.size() > 2 && (w.args.size() != 4 || w.args[2] != "align" || !absl::SimpleAtoi(w.args[3], &bytes)))
         return InvalidArgument("expected align BYTES after the scope");
       for (Scope s : {Scope::kGlobal, Scope::kShared, Scope::kLocal}) {
         if (Name(s) == w.args[1]) return SetScope(std::move(f), w.args[0], s, bytes);
       }
       return InvalidArgument("unknown scope '", w.args[1], "' (global, shared, local)");
     }},
    {"storage_align", "BUFFER FACTOR OFFSET", 3, 3, 0, 0,
     [](Func f, const Words& w) -> StatusOr<Func> {
       ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, ParseFactors(w.args, 1));
       return StorageAlign(std::move(f), w.args[0], numbers[0], numbers[1]);
     }},
    {"transform_layout", "BUFFER[NAME, ...] -> [INDEX, ...]", 1, kMany, 1, kAnyNumber,
     [](Func f, const Words& w) -> StatusOr<Func> {
       ASSIGN_OR_RETURN(const std::vector<Folded> of, ParseFolded(w.args));
       if (of.size() != 1) return InvalidArgument("expected one BUFFER[NAME, ...] and got ", of.size());
       return TransformLayout(std::move(f), of[0].name, of[0].iters, absl::StrJoin(w.names, " "));
     }},
    {"pipeline", "LOOP STAGES", 2, 2, 0, 0,
     [](Func f, const Words& w) -> StatusOr<Func> {
       ASSIGN_OR_RETURN(const std::vector<int64_t> stages, ParseFactors(w.args, 1));
       return PipelineLoop(std::move(f), w.args[0], stages[0]);
     }},
    {"tensorize", "LOOP INTRINSIC", 2, 2, 0, 0,
     [](Func f, const Words& w) { return Tensorize(std::move(f), w.args[0], w.args[1]); }},
    {"pad", "BLOCK ITERATOR|LOOP...", 1, kMany, 0, 0,
     [](Func f, const Words& w) {
       return Pad(std::move(f), w.args[0], {w.args.begin() + 1, w.args.end()});
     }},
    {"guard", "BLOCK LOOP", 2, 2, 0, 0,
     [](Func f, const Words& w) { return Guard(std::move(f), w.args[0], w.args[1]); }},
    {"implement", "call FUNCTION(ARGUMENT, ...)", 1, kAnyNumber, 0, 0,
     [](Func f, const Words& w) { return Implement(std::move(f), absl::StrJoin(w.args, " ")); }},
    {"split_init", "BLOCK LOOP -> NAME", 2, 2, 1, 1,
     [](Func f, const Words& w) { return SplitInit(std::move(f), w.args[0], w.args[1], w.names[0]); }},
};

// What calls take is still there as they take it.
Status CheckCalls(const TeProgram& p) {
  for (const Stage& s : p.stages) {
    for (Buffer b : s.IsCall() ? InputsOf(s) : std::vector<Buffer>{}) {
      const bool is_there =
          std::any_of(p.params.begin(), p.params.end(), [&](const Param& q) { return q.buffer == b; }) ||
          std::any_of(p.stages.begin(), p.stages.end(), [&](const Stage& t) { return Contains(t.outputs, b); });
      if (!is_there)
        return InvalidArgument("stage ", s.name, " calls \"", As<Call>(s.call)->text, "\", which takes ", b->name,
                               " as it is");
    }
  }
  return absl::OkStatus();
}

// Applies one line to a function that is the loops of `stages`, if there are any; a step on loops leaves none.
Status ApplyStep(std::optional<TeProgram>& stages, Func& f, std::string_view line) {
  std::vector<std::string> tokens = absl::StrSplit(absl::string_view(line.data(), line.size()), ' ', absl::SkipEmpty());
  if (tokens.empty()) return absl::OkStatus();
  for (const StepRow& row : kSteps) {
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
    for (const std::string& name : w.names) {
      if (row.max_names != kAnyNumber && !IsName(name))
        return InvalidArgument("step '", line, "': expected a name and got '", name, "'");
    }
    const auto apply = [&]() -> Status {
      if (row.on_loops != nullptr) {
        ASSIGN_OR_RETURN(Func changed, row.on_loops(f, w));
        RETURN_IF_ERROR(BufferSizes(changed).CheckAllocations());
        f = std::move(changed);
        stages.reset();
        return absl::OkStatus();
      }
      TeProgram before;
      if (stages) {
        before = *stages;
      } else {
        ASSIGN_OR_RETURN(before, ToStages(f));
      }
      ASSIGN_OR_RETURN(TeProgram changed, row.on_stages(std::move(before), w));
      RETURN_IF_ERROR(CheckCalls(changed));
      ASSIGN_OR_RETURN(Func loops, ToLoops(changed));
      RETURN_IF_ERROR(BufferSizes(loops).CheckAllocations());
      f = std::move(loops);
      stages = std::move(changed);
      return absl::OkStatus();
    };
    return Annotate(apply(), Cat("step '", line, "'"));
  }
  return InvalidArgument("unknown schedule step '", tokens[0], "'; the steps are\n", ScheduleHelp());
}

// The lines without comments.
std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> r;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n'))
    r.emplace_back(absl::StripAsciiWhitespace(line.substr(0, line.find("//"))));
  return r;
}

}  // namespace

StatusOr<Func> ApplySchedule(Func f, std::string_view text) {
  std::optional<TeProgram> stages;
  for (const std::string& line : LinesOf(text)) RETURN_IF_ERROR(ApplyStep(stages, f, line));
  return f;
}

StatusOr<Module> ApplySchedules(Module m, std::string_view text, const AfterStep& after) {
  Func* f = m.funcs.size() == 1 ? &m.funcs[0] : nullptr;
  std::optional<TeProgram> stages;
  for (const std::string& line : LinesOf(text)) {
    if (line.starts_with("@")) {
      f = nullptr;
      stages.reset();
      for (Func& g : m.funcs) {
        if (line == "@" + g.name) f = &g;
      }
      if (f == nullptr) return InvalidArgument("no function ", line, " for these steps");
      continue;
    }
    if (line.empty()) continue;
    if (f == nullptr) return InvalidArgument("step '", line, "' is of which function? Begin with a line @FUNCTION");
    RETURN_IF_ERROR(Annotate(ApplyStep(stages, *f, line), Cat("@", f->name)));
    if (after) after(line, m);
  }
  return m;
}

StatusOr<Schedule> Schedule::Of(TeProgram stages) {
  ASSIGN_OR_RETURN(Func f, ToLoops(stages));
  Schedule s(std::move(f));
  s.stages_ = std::move(stages);
  return s;
}

Status Schedule::Apply(const std::string& step) {
  RETURN_IF_ERROR(ApplyStep(stages_, func_, step));
  text_ += step + "\n";
  history_.push_back({step, func_});
  return absl::OkStatus();
}

std::string Schedule::Diff(int before, int after) const {
  const int last = static_cast<int>(history_.size()) - 1;
  const auto at = [&](int k) { return std::clamp(k < 0 ? k + last + 1 : k, 0, last); };
  const auto title = [&](int k) { return Cat(k, ": ", k == 0 ? "stages" : history_[k].step); };
  before = at(before), after = at(after);
  return SideBySide(Print(history_[before].func), Print(history_[after].func), title(before), title(after));
}

Schedule& Schedule::Run(const std::string& step) {
  if (status_.ok()) status_ = Apply(step);
  return *this;
}

bool Schedule::Try(const std::string& step) { return status_.ok() && Apply(step).ok(); }

std::vector<std::string> Schedule::LoopsAround(const std::string& block) const {
  std::vector<std::string> r;
  StatusOr<StmtPath> path = FindBlock(func_, block);
  if (path.ok()) {
    for (const For* n : LoopsOf(*path)) r.push_back(n->var->name);
  }
  return r;
}

std::vector<StepInfo> ScheduleSteps() {
  std::vector<StepInfo> r;
  for (const StepRow& row : kSteps) r.push_back({row.name, row.usage, row.on_stages != nullptr});
  return r;
}

std::string ScheduleHelp() {
  std::string s;
  for (const StepRow& row : kSteps) s += Cat("  ", row.name, " ", row.usage, "\n");
  return s;
}

}  // namespace cinn_like::ir
