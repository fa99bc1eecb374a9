#include "cinn_like/opt.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cinn_like/base/side_by_side.h"
#include "cinn_like/driver.h"
#include "cinn_like/module_driver.h"
#include "hlir/pipeline.h"
#include "ir/lower.h"
#include "ir/pass_table.h"
#include "ir/schedule/schedule.h"

namespace cinn_like {
namespace {

bool IsGraphText(std::string_view text) {
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    line = absl::StripLeadingAsciiWhitespace(line);
    if (line.empty() || absl::StartsWith(line, "//")) continue;
    return absl::StartsWith(line, "graph");
  }
  return false;
}

// Collects what Show asks for.
class Shown {
 public:
  Shown(Show show, std::string before) : show_(show), before_(std::move(before)) {
    if (show_ == Show::kSteps) text_ = Cat("// ---- ", step_, "\n", before_);
  }
  void See(std::string_view step, const std::string& after) {
    ++count_;
    if (after == before_) return;
    const std::string title = Cat(count_, ": ", step);
    if (show_ == Show::kSteps) text_ += Cat("\n// ---- ", title, "\n", after);
    if (show_ == Show::kDiffs) text_ += Cat(text_.empty() ? "" : "\n", SideBySide(before_, after, step_, title));
    before_ = after;
    step_ = title;
  }
  // Of what comes out in the end.
  std::string Take(std::string end) { return show_ == Show::kEnd ? std::move(end) : std::move(text_); }

 private:
  const Show show_;
  int count_ = 0;
  std::string step_ = "0: input", before_, text_;
};

std::vector<std::string> Pieces(std::string_view passes) {
  std::vector<std::string> r;
  for (absl::string_view piece :
       absl::StrSplit(absl::string_view(passes.data(), passes.size()), '|', absl::SkipWhitespace()))
    r.emplace_back(absl::StripAsciiWhitespace(piece));
  return r;
}

StatusOr<std::string> RunOnLoopText(std::string_view text, std::string_view schedule, std::string_view passes,
                                    const PassContext& context, Show show) {
  ASSIGN_OR_RETURN(ir::Module module, ir::ParseModule(text));
  RETURN_IF_ERROR(ir::Verify(module));
  Shown shown(show, show == Show::kEnd ? "" : ir::Print(module));
  const auto see = [&](std::string_view step, const ir::Module& made) {
    if (show != Show::kEnd) shown.See(step, ir::Print(made));
  };
  if (!schedule.empty()) {
    ASSIGN_OR_RETURN(module, ir::ApplySchedules(std::move(module), schedule, see));
    RETURN_IF_ERROR(Annotate(ir::Verify(module), "after the schedule"));
  }
  for (const std::string& step : Pieces(passes)) {
    if (step == "lower") {
      ASSIGN_OR_RETURN(module, ir::LowerModule(std::move(module), context));
      see(step, module);
      continue;
    }
    const Pass<ir::Func>* pass = ir::FindPass(step);
    for (ir::Func& f : module.funcs) {
      auto result = pass != nullptr ? pass->run(f, context) : ir::ApplySchedule(f, step);
      if (!result.ok() && pass == nullptr && step.find(' ') == step.npos) {
        return Annotate(result.status(), Cat("'", step, "' is none of the loop passes ", LoopPassList()));
      }
      if (!result.ok())
        return Annotate(result.status(), Cat("@", f.name, pass != nullptr ? Cat(", pass '", step, "'") : ""));
      f = *std::move(result);
    }
    RETURN_IF_ERROR(Annotate(ir::Verify(module), Cat("after '", step, "'")));
    see(step, module);
  }
  return shown.Take(ir::Print(module));
}

// Each pass prints what the next one reads.
StatusOr<std::string> ShowOnGraphText(std::string_view text, std::string_view passes, const PassContext& context,
                                      Show show) {
  ASSIGN_OR_RETURN(std::string now, hlir::RunOnGraphText("", text, context));
  Shown shown(show, now);
  for (const std::string& pass : Pieces(passes)) {
    ASSIGN_OR_RETURN(now, hlir::RunOnGraphText(pass, now, context));
    shown.See(pass, now);
  }
  return shown.Take(now);
}

}  // namespace

std::string LoopPassList() {
  std::string names = "lower";
  for (const Pass<ir::Func>& pass : ir::PassTable()) names += Cat(", ", pass.name);
  return names;
}

StatusOr<std::string> RunOnText(std::string_view text, std::string_view schedule, std::string_view passes,
                                const PassContext& context, Show show) {
  if (!IsGraphText(text)) return RunOnLoopText(text, schedule, passes, context, show);
  if (!schedule.empty()) return InvalidArgument("a schedule needs loop text: cinn_compile --emit=stages gives it");
  if (show != Show::kEnd) return ShowOnGraphText(text, passes, context, show);
  return hlir::RunOnGraphText(passes, text, context);
}

StatusOr<std::string> EmitText(std::string_view text, std::string_view schedule, std::string_view passes,
                               std::string_view kind, const PassContext& context) {
  if (IsGraphText(text)) {
    ASSIGN_OR_RETURN(const std::string made, RunOnText(text, schedule, passes, context));
    ASSIGN_OR_RETURN(const hlir::Graph graph, hlir::Parse(made));
    return EmitGraph(graph, context.target, context.options, kind);
  }
  std::string steps(schedule);
  for (const std::string& step : Pieces(passes)) steps += Cat("\n", step);
  ASSIGN_OR_RETURN(const auto function, LowerModuleText(text, steps, context.target, context.options));
  return function->Source(kind);
}

}  // namespace cinn_like
