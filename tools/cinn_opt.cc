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
// What each step did, side by side:
//
//   cinn_opt --show=diffs --passes="split i 8 -> io ii | vectorize ii" scale.loops
//
// What loops and steps become on their way to code, and what that takes (of graphs, cinn_compile has more):
//
//   cinn_opt --emit=resources --target="cuda -arch=sm_90a" --schedule=scale.schedule scale.loops
//
// Without --passes the input is parsed, verified and printed. Graph text starts with `graph`, all other is loop text.
#include <map>

#include "cinn_like/opt.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "hlir/pipeline.h"
#include "ir/schedule/schedule.h"
#include "tools/tool_io.h"

DEFINE_string(passes, "", "steps to run in order, separated by '|'; for loop text passes and schedule steps");
DEFINE_string(schedule, "", "a file of schedule steps, one a line, to run first; lines @f begin those of @f");
DEFINE_string(emit, "", "give the code that comes of it: c, cuda, opencl, hip, metal, llvm, asm, ptx, resources, ...");
DEFINE_string(target, "cpu", "what the passes may assume of the machine");
DEFINE_string(show, "end", "end: what comes out; steps: the text after each step, too; diffs: what each step changed");
DEFINE_string(o, "-", "the file to write");

namespace cinn_like {
namespace {

Status Main(int argc, char** argv) {
  ASSIGN_OR_RETURN(const std::string path, InputPath(argc, argv));
  ASSIGN_OR_RETURN(const std::string text, ReadInput(path));
  PassContext context;
  ASSIGN_OR_RETURN(context.options, CompileOptions::FromFlags());
  ASSIGN_OR_RETURN(context.target, Target::Parse(FLAGS_target));
  std::string schedule;
  if (!FLAGS_schedule.empty()) {
    ASSIGN_OR_RETURN(schedule, ReadInput(FLAGS_schedule));
  }
  const std::map<std::string, Show> shows = {{"end", Show::kEnd}, {"steps", Show::kSteps}, {"diffs", Show::kDiffs}};
  const auto show = shows.find(FLAGS_show);
  if (show == shows.end()) return InvalidArgument("--show=", FLAGS_show, ": expected end, steps or diffs");
  if (!FLAGS_emit.empty() && show->second != Show::kEnd) return InvalidArgument("--show is of steps, --emit of code");
  const auto result = FLAGS_emit.empty() ? RunOnText(text, schedule, FLAGS_passes, context, show->second)
                                         : EmitText(text, schedule, FLAGS_passes, FLAGS_emit, context);
  if (!result.ok()) return Annotate(result.status(), path);
  return WriteOutput(FLAGS_o, *result);
}

}  // namespace
}  // namespace cinn_like

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  gflags::SetUsageMessage("[--passes=\"STEP | STEP\"] [-o FILE] [FILE]\n\nPasses of graph text: " +
                          cinn_like::hlir::GraphPassList() + "\n\nPasses of loop text: " + cinn_like::LoopPassList() +
                          "\n\nSchedule steps of loop text:\n" + cinn_like::ir::ScheduleHelp());
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return cinn_like::Finish("cinn_opt", cinn_like::Main(argc, argv));
}
