// Whole subgraphs on disk: what was compiled is loaded again without running a pass.
//
//   graph text, target (all of its numbers: schedules depend on them), CPU, options, this build  ->  code, names of its
//   functions, its report
//
// The text of a graph holds types, the ranges of symbols and what is static.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/cache.h"
#include "backends/compiled_code.h"
#include "hlir/bids.h"
#include "hlir/graph.h"

namespace cinn_like {

// A compiled subgraph, ready to be loaded.
struct CompiledProgram {
  CompiledCode code;
  std::string main, prepare;  // names of the entries; `prepare` may be empty
  int slots = 0;              // that `prepare` fills
  int kernels = 0, unique_kernels = 0;
  std::vector<std::string> tactics, refused;
  std::vector<hlir::LostOp> lost;  // where there are any, there is no code
};

// The cache as one compilation sees it. It holds nothing for devices of the caller, if options turn it off, if they ask
// for dumps, which need every stage to run, or if this build has no id.
class CompilationCache {
 public:
  static StatusOr<CompilationCache> Make(const hlir::Graph& graph, const Target& target, const CompileOptions& options,
                                         const Device& device);

  // Of single kernels; may be null.
  ObjectCache* objects() const { return cache_; }
  std::optional<CompiledProgram> Find() const;
  void Insert(const CompiledProgram& program) const;

 private:
  DiskCache* cache_ = nullptr;
  // Empty: the graph has ops of the caller, whose meaning its text does not tell, or kernels of the caller's text.
  std::string name_, key_;
};

}  // namespace cinn_like
