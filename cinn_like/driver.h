// A graph in, a function out: the one place that names every stage.
//
//   ASSIGN_OR_RETURN(auto f, CompileGraph(graph, target, CompileOptions::FromFlags()));
//   RETURN_IF_ERROR(f->Prepare(static_args, env));       // if the graph has static parameters
//   f->entry()(f->self(), args, num_args, &env);
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/device.h"
#include "backends/library.h"
#include "cinn_like/base/flags.h"
#include "cinn_like/base/target.h"
#include "cinn_like/interface.h"
#include "hlir/bids.h"
#include "hlir/graph.h"
#include "runtime/call.h"

namespace cinn_like {

// What a compilation did.
struct CompileReport {
  int ops = 0;                                          // of the graph as given
  int kernels = 0;                                      // calls of kernels in the entry
  int unique_kernels = 0;                               // kernels compiled
  bool cache_hit = false;                               // taken from the disk cache as a whole
  std::vector<std::pair<std::string, double>> seconds;  // by stage; parallel stages add up their threads
  double total_seconds = 0;
  int64_t peak_rss_bytes = 0;        // memory of the process at its most, so far
  int64_t added_rss_bytes = 0;       // by compiling: at its most if that raised the peak, else what it left behind
  std::vector<std::string> tactics;  // "k0: rows_cpu", one a kernel
  // "kernel k0: tactic matmul_gpu: ...": tactics that failed where others then ran, and loops that are not what a
  // schedule made of them ("@f: loop v is not vectorized but serial").
  std::vector<std::string> refused;
  // What the target's framework (-framework=...) computes faster. Where there is anything, nothing was compiled: the
  // caller leaves these ops to the framework and compiles the rest.
  std::vector<hlir::LostOp> lost;
};

class CompiledFunction {
 public:
  virtual ~CompiledFunction() = default;
  // The second half of what BidOnGraph or LowerModuleText began; does nothing where all is done. By one thread.
  virtual Status Finish() = 0;
  virtual CinnFunctionPtr entry() const = 0;  // null before Finish, and where the report has lost ops
  virtual void* self() const = 0;
  virtual Status Prepare(std::span<const CinnValue> args, const CinnCallEnv& env) = 0;
  // One more `self` for the same entry, with prepared tensors of its own: for other static arguments beside the first.
  // Lives as long as the function.
  virtual void* AddSelf() = 0;
  virtual Status PrepareSelf(void* self, std::span<const CinnValue> args, const CinnCallEnv& env) = 0;
  virtual const CallSignature& signature() const = 0;
  virtual const Device& device() const = 0;  // that it runs on
  virtual const CompileReport& report() const = 0;
  // "graph" (of one, optimised), "stages" (of each kernel, as loops), "schedule", "loops" (lowered), "llvm", "asm",
  // "object"; for a device with kernels also what its compiler makes ("cuda", "ptx", "resources"), for others "c". Runs
  // the passes again where the code came from the disk cache. NotFound lists the kinds there are.
  virtual StatusOr<std::string> Source(std::string_view kind) const = 0;
  virtual Status ExportObject(const std::string& path) const = 0;
  // The function and its prepare as a shared library, which runtime/library.h loads without a compiler. Nothing may be
  // left to a framework (FailedPrecondition). An earlier file is replaced as a whole. `weights`: a value for each
  // static parameter, which then lie in the file, for a CPU prepared by the function's own code (FailedPrecondition
  // where it is not finished, or for another CPU); none: who loads it hands them over.
  Status ExportLibrary(const std::string& path, std::span<const CinnValue> weights) const;
  // The same, to be in one file with others (WriteLibrary).
  virtual StatusOr<LibraryPart> MakePart(std::span<const CinnValue> weights) const = 0;
};

// What the target's device has no values of (DeviceKind::lacks; "-features=-fp64": f64).
std::vector<DType> LackedBy(const Target& target);

// What is wrong with the graph itself, as hlir::Verify says, or InvalidArgument of an op with a dtype that is LackedBy
// the target.
Status CheckGraph(const hlir::Graph& graph, const Target& target);

// InvalidArgument where `devices` has not the target's.
StatusOr<std::unique_ptr<CompiledFunction>> CompileGraph(const hlir::Graph& graph, const Target& target,
                                                         const CompileOptions& options,
                                                         const Devices& devices = Devices::BuiltIn());

// The first half of CompileGraph, which takes the smaller part of its time: from here on the report tells what is lost
// to the target's framework, with few exceptions, which Finish finds: what was to be cheap may be refused when it is
// lowered, and then the framework is asked again. A graph from the disk cache is done.
StatusOr<std::unique_ptr<CompiledFunction>> BidOnGraph(const hlir::Graph& graph, const Target& target,
                                                       const CompileOptions& options,
                                                       const Devices& devices = Devices::BuiltIn());

// InvalidArgument for a misspelt name in options.disable_passes, which would silently leave its pass on.
Status CheckDisabledPasses(const CompileOptions& options, const Target& target);

// CompileGraph(...)->Source(kind) without loading any code: needs no device, nor a machine like the target.
StatusOr<std::string> EmitGraph(const hlir::Graph& graph, const Target& target, const CompileOptions& options,
                                std::string_view kind, const Devices& devices = Devices::BuiltIn());

// CompileGraph(...)->ExportLibrary(path, {}) without loading any code: the CPU need not be this machine's, nor the
// device be there. For several targets a variant for each; whoever loads the file gets the first that runs there.
Status ExportLibrary(const hlir::Graph& graph, const Target& target, const CompileOptions& options,
                     const std::string& path, const Devices& devices = Devices::BuiltIn());
Status ExportLibrary(const hlir::Graph& graph, std::span<const Target> targets, const CompileOptions& options,
                     const std::string& path, const Devices& devices = Devices::BuiltIn());

// Functions in one file. Those of one name are variants of one, for several targets, in this order.
Status WriteLibrary(std::vector<LibraryPart> parts, const std::string& path);

}  // namespace cinn_like
