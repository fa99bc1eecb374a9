#include "cinn_like/opt.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
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

StatusOr<std::string> RunOnLoopText(std::string_view text, std::string_view schedule, std::string_view passes,
                                    const PassContext& context) {
  ASSIGN_OR_RETURN(ir::Module module, ir::ParseModule(text));
  RETURN_IF_ERROR(ir::Verify(module));
  if (!schedule.empty()) {
    ASSIGN_OR_RETURN(module, ir::ApplySchedules(std::move(module), schedule));
    RETURN_IF_ERROR(Annotate(ir::Verify(module), "after the schedule"));
  }
  for (absl::string_view piece :
       absl::StrSplit(absl::string_view(passes.data(), passes.size()), '|', absl::SkipWhitespace())) {
    const std::string step(absl::StripAsciiWhitespace(piece));
    if (step == "lower") {
      ASSIGN_OR_RETURN(module, ir::LowerModule(std::move(module), context));
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
  }
  return ir::Print(module);
}

}  // namespace

std::string LoopPassList() {
  std::string names = "lower";
  for (const Pass<ir::Func>& pass : ir::PassTable()) names += Cat(", ", pass.name);
  return names;
}

StatusOr<std::string> RunOnText(std::string_view text, std::string_view schedule, std::string_view passes,
                                const PassContext& context) {
  if (!IsGraphText(text)) return RunOnLoopText(text, schedule, passes, context);
  if (!schedule.empty()) return InvalidArgument("a schedule needs loop text: cinn_compile --emit=stages gives it");
  return hlir::RunOnGraphText(passes, text, context);
}

}  // namespace cinn_like
