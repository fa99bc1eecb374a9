#include "cinn_like/compilation_cache.h"

#include <map>
#include <mutex>
#include <sstream>

#include "backends/llvm_machine.h"
#include "cinn_like/base/build_id.h"
#include "cinn_like/base/hash.h"

namespace cinn_like {
namespace {

// One per folder and process, for good: compilations of any thread share it.
DiskCache* CacheOf(const CompileOptions& options) {
  static std::mutex mutex;
  static auto* caches = new std::map<std::pair<std::string, int64_t>, std::unique_ptr<DiskCache>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<DiskCache>& cache = (*caches)[{options.cache_dir, options.cache_size_mb}];
  if (cache == nullptr) cache = std::make_unique<DiskCache>(options);
  return cache.get();
}

bool IsUsable(const CompileOptions& o) {
  const bool dumps = o.dump_ir || o.dump_source || o.dump_llvm || o.dump_asm || o.dump_ptx || o.keep_nvrtc_log;
  return !o.disable_cache && !dumps && !BuildId().empty();
}

Artifact ToArtifact(const CompiledProgram& program) {
  Artifact r;
  r.sections["main"] = program.main;
  r.sections["prepare"] = program.prepare;
  r.sections["counts"] = Cat(program.slots, " ", program.kernels, " ", program.unique_kernels);
  for (auto [section, lines] : {std::pair{"tactics", &program.tactics}, {"refused", &program.refused}}) {
    for (const std::string& line : *lines) r.sections[section] += line + "\n";
  }
  std::string& lost = r.sections["lost"];
  for (const hlir::LostOp& l : program.lost)
    lost += Cat(l.op, " ", l.own_seconds, " ", l.framework_seconds, " ", l.failure, "\n");
  program.code.AddTo(r);
  return r;
}

StatusOr<CompiledProgram> FromArtifact(const Artifact& artifact) {
  CompiledProgram r;
  std::string counts;
  for (auto [section, text] : {std::pair{"main", &r.main}, {"prepare", &r.prepare}, {"counts", &counts}}) {
    const std::string* found = artifact.Find(section);
    if (found == nullptr) return absl::DataLossError(Cat("artifact: no section '", section, "'"));
    *text = *found;
  }
  if (!(std::istringstream(counts) >> r.slots >> r.kernels >> r.unique_kernels)) {
    return absl::DataLossError(Cat("artifact: bad section 'counts': ", counts));
  }
  for (auto [section, lines] : {std::pair{"tactics", &r.tactics}, {"refused", &r.refused}}) {
    const std::string* found = artifact.Find(section);
    std::istringstream text(found == nullptr ? "" : *found);
    for (std::string line; std::getline(text, line);) lines->push_back(line);
  }
  const std::string* lost = artifact.Find("lost");
  std::istringstream numbers(lost == nullptr ? "" : *lost);
  for (hlir::LostOp l; numbers >> l.op >> l.own_seconds >> l.framework_seconds && numbers.get() == ' ' &&
                       std::getline(numbers, l.failure);)
    r.lost.push_back(l);
  ASSIGN_OR_RETURN(r.code, CompiledCode::From(artifact));
  return r;
}

}  // namespace

StatusOr<CompilationCache> CompilationCache::Make(const hlir::Graph& graph, const Target& target,
                                                  const CompileOptions& options, const Device& device) {
  CompilationCache r;
  // Of a device of the caller's, no text tells what its compiler and limits are.
  if (!IsUsable(options) || !Devices::BuiltIn().Of(target).ok()) return r;
  ASSIGN_OR_RETURN(const HostCpu cpu, ResolveHostCpu(target));
  r.cache_ = CacheOf(options);
  if (&graph.registry() != &hlir::OpRegistry::BuiltIn() || device.hooks) return r;
  // One line each, then the graph: nothing of one can be taken for another.
  r.key_ = Cat(BuildId(), "\n", target.CacheKey(), "\n", cpu.name, " ", cpu.features, "\n", options.CacheKey(), "\n",
               hlir::Print(graph));
  r.name_ = Cat("graph-", HashBytes(r.key_).Hex());
  return r;
}

std::optional<CompiledProgram> CompilationCache::Find() const {
  if (cache_ == nullptr || key_.empty()) return std::nullopt;
  const std::optional<Artifact> artifact = cache_->Find(name_, key_);
  if (!artifact.has_value()) return std::nullopt;
  StatusOr<CompiledProgram> program = FromArtifact(*artifact);
  if (!program.ok()) return std::nullopt;
  return *std::move(program);
}

void CompilationCache::Insert(const CompiledProgram& program) const {
  if (cache_ != nullptr && !key_.empty()) cache_->Insert(name_, key_, ToArtifact(program));
}

}  // namespace cinn_like
