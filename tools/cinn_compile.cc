// Graph text (docs/graph_text.md) to any form on its way to code. Needs no GPU, nor a CPU like the target's:
//
//   cinn_compile --emit=asm mlp.graph
//   cinn_compile --emit=object -o mlp.o mlp.graph
//   cinn_compile -o mlp.so mlp.graph                   # a shared library (runtime/library.h)
//   cinn_compile -o mlp.so --target="cuda -arch=sm_90a | cuda -arch=sm_80 | cpu" mlp.graph   # the first that is there
//   cinn_compile --target=c -o mlp.c mlp.graph
//   cinn_compile --emit=cubin --target="cuda -arch=sm_90a" -o mlp.cubin mlp.graph
//
// But --target="cpu; opencl" does, which shares a graph out (cinn_like/partition.h), and --emit=space --measure=100: it
// runs what else the tactics could have chosen (cinn_like/space.h).
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "backends/device.h"
#include "cinn_like/driver.h"
#include "cinn_like/partition.h"
#include "cinn_like/space.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/tool_io.h"

DEFINE_string(
    emit, "",
    "graph, stages, schedule, loops, llvm, asm, object, library or space; for GPUs also cuda, ptx, cubin or resources "
    "(registers, spills and shared memory of kernels), opencl, hip or hsaco, metal, kernels (for CinnKernelsLoad); for "
    "other targets also c. Not "
    "said: source for the targets c and metal, library "
    "for a file -o *.so, else llvm");
DEFINE_string(target, "cpu",
              "\"x86_64 -mcpu=skylake\", \"cuda -arch=sm_90a\", c, \"cpu; opencl\", \"opencl | cpu\", ...");
DEFINE_string(o, "-", "the file to write");
DEFINE_int32(measure, 0, "points of each kernel's space that --emit=space measures on this machine");

namespace cinn_like {
namespace {

// "cuda -arch=sm_90a | cuda -arch=sm_80 | cpu": one file, of which the first that there is is run.
Status ExportVariants(const hlir::Graph& graph, const CompileOptions& options) {
  if (!FLAGS_o.ends_with(".so") || (!FLAGS_emit.empty() && FLAGS_emit != "library"))
    return InvalidArgument("--target=", FLAGS_target, ": several variants are for a library, -o FILE.so");
  std::vector<Target> targets;
  const std::vector<std::string> texts = absl::StrSplit(FLAGS_target, '|');
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(targets.emplace_back(), Devices::BuiltIn().ParseTarget(text));
  }
  return ExportLibrary(graph, targets, options, FLAGS_o);
}

Status Main(int argc, char** argv) {
  ASSIGN_OR_RETURN(const std::string path, InputPath(argc, argv));
  ASSIGN_OR_RETURN(const std::string text, ReadInput(path));
  ASSIGN_OR_RETURN(const CompileOptions options, CompileOptions::FromFlags());
  const auto graph = hlir::Parse(text);
  if (!graph.ok()) return Annotate(graph.status(), path);
  if (absl::StrContains(FLAGS_target, '|')) return ExportVariants(*graph, options);
  ASSIGN_OR_RETURN(const std::vector<Target> targets, Devices::BuiltIn().ParseTargets(FLAGS_target));
  const Target& target = targets[0];
  const std::string emit = !FLAGS_emit.empty()        ? FLAGS_emit
                           : FLAGS_o.ends_with(".so") ? "library"
                           : target.device->is_source ? target.device->name
                                                      : "llvm";
  const bool space = emit == "space";
  if (targets.size() > 1) {
    if (space) return InvalidArgument("--emit=", emit, ": expected one target, got ", FLAGS_target);
    ASSIGN_OR_RETURN(const auto compiled, CompileOnTargets(*graph, targets, options));
    if (emit == "library") return compiled->ExportLibrary(FLAGS_o, {});
    ASSIGN_OR_RETURN(const std::string source, compiled->Source(emit));
    return WriteOutput(FLAGS_o, source);
  }
  if (FLAGS_measure < 0 || (FLAGS_measure > 0 && !space))
    return InvalidArgument("--measure=", FLAGS_measure, ": a number of points, for --emit=space");
  if (emit == "library") {
    if (FLAGS_o == "-") return InvalidArgument("--emit=library: expected a file, -o FILE");
    return ExportLibrary(*graph, target, options, FLAGS_o);
  }
  ASSIGN_OR_RETURN(const std::string emitted, space ? DescribeSpace(*graph, target, options, FLAGS_measure)
                                                    : EmitGraph(*graph, target, options, emit));
  return WriteOutput(FLAGS_o, emitted);
}

}  // namespace
}  // namespace cinn_like

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  gflags::SetUsageMessage("[--emit=KIND] [--target=TARGET] [-o FILE] [FILE]");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return cinn_like::Finish("cinn_compile", cinn_like::Main(argc, argv));
}
