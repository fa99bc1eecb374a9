// Runs passes on graph text or passes and schedule steps on loop text, and prints what comes out:
//
//   cinn_opt --passes="cse | dce" mlp.graph
//   cinn_opt --passes="optimize | loops" mlp.graph | cinn_opt --passes="split d0 4 -> o i | vectorize i | lower_blocks"
//
// All that tactics did to the kernels of a graph, run again:
//
//   cinn_compile --emit=stages mlp.graph > mlp.stages; cinn_compile --emit=schedule mlp.graph > mlp.schedule
//   cinn_opt --schedule=mlp.schedule --passes=lower mlp.stages
//
// Without --passes the input is parsed, verified and printed. Graph text starts with `graph`, all other is loop text.
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "hlir/pipeline.h"
#include "ir/lower.h"
#include "ir/pass_table.h"
#include "ir/schedule/schedule.h"
#include "tools/tool_io.h"

DEFINE_string(passes, "", "steps to run in order, separated by '|'; for loop text passes and schedule steps");
DEFINE_string(schedule, "", "a file of schedule steps, one a line, to run first; lines @f begin those of @f");
DEFINE_string(target, "cpu", "what the passes may assume of the machine");
DEFINE_string(o, "-", "the file to write");

namespace cinn_like {
namespace {

// `//` comments may come first.
bool IsGraphText(const std::string& text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripLeadingAsciiWhitespace(line);
    if (line.empty() || absl::StartsWith(line, "//")) continue;
    return absl::StartsWith(line, "graph");
  }
  return false;
}

// All of lowering first, then its passes.
std::string LoopPasses() {
  std::string names = "lower";
  for (const Pass<ir::Func>& pass : ir::PassTable()) names += Cat(", ", pass.name);
  return names;
}

StatusOr<std::string> RunOnLoopText(const std::string& steps, const std::string& text, const PassContext& context) {
  ASSIGN_OR_RETURN(ir::Module module, ir::ParseModule(text));
  RETURN_IF_ERROR(ir::Verify(module));
  if (!FLAGS_schedule.empty()) {
    ASSIGN_OR_RETURN(const std::string schedule, ReadInput(FLAGS_schedule));
    ASSIGN_OR_RETURN(module, ir::ApplySchedules(std::move(module), schedule));
    RETURN_IF_ERROR(Annotate(ir::Verify(module), Cat("after ", FLAGS_schedule)));
  }
  for (absl::string_view piece : absl::StrSplit(steps, '|', absl::SkipWhitespace())) {
    const std::string step(absl::StripAsciiWhitespace(piece));
    if (step == "lower") {
      ASSIGN_OR_RETURN(module, ir::LowerModule(std::move(module), context));
      continue;
    }
    const Pass<ir::Func>* pass = ir::FindPass(step);
    for (ir::Func& f : module.funcs) {
      auto result = pass != nullptr ? pass->run(f, context) : ir::ApplySchedule(f, step);
      if (!result.ok() && pass == nullptr && step.find(' ') == step.npos) {
        return Annotate(result.status(), Cat("'", step, "' is none of the loop passes ", LoopPasses()));
      }
      if (!result.ok())
        return Annotate(result.status(), Cat("@", f.name, pass != nullptr ? Cat(", pass '", step, "'") : ""));
      f = *std::move(result);
    }
    RETURN_IF_ERROR(Annotate(ir::Verify(module), Cat("after '", step, "'")));
  }
  return ir::Print(module);
}

Status Main(int argc, char** argv) {
  ASSIGN_OR_RETURN(const std::string path, InputPath(argc, argv));
  ASSIGN_OR_RETURN(const std::string text, ReadInput(path));
  PassContext context;
  ASSIGN_OR_RETURN(context.options, CompileOptions::FromFlags());
  ASSIGN_OR_RETURN(context.target, Target::Parse(FLAGS_target));
  const bool is_graph = IsGraphText(text);
  if (is_graph && !FLAGS_schedule.empty())
    return InvalidArgument(path, ": a schedule needs loop text: cinn_compile --emit=stages gives it");
  const auto result =
      is_graph ? hlir::RunOnGraphText(FLAGS_passes, text, context) : RunOnLoopText(FLAGS_passes, text, context);
  if (!result.ok()) return Annotate(result.status(), path);
  return WriteOutput(FLAGS_o, *result);
}

}  // namespace
}  // namespace cinn_like

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  gflags::SetUsageMessage("[--passes=\"STEP | STEP\"] [-o FILE] [FILE]\n\nPasses of graph text: " +
                          cinn_like::hlir::GraphPassList() + "\n\nPasses of loop text: " + cinn_like::LoopPasses() +
                          "\n\nSchedule steps of loop text:\n" + cinn_like::ir::ScheduleHelp());
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return cinn_like::Finish("cinn_opt", cinn_like::Main(argc, argv));
}
