#include "backends/cuda_compiler.h"

#include <sched.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/str_replace.h"
#include "backends/c_emitter.h"
#include "backends/nvrtc.h"
#include "cinn_like/base/hash.h"
#include "runtime/cuda_driver.h"

namespace cinn_like {
namespace {

using backends::CudaDialect;
using backends::Nvrtc;

constexpr std::string_view kPlaceholder = "KERNEL_NAME";

// A kernel by its text: the entry is named by the hash of the text, so any program may hold it.
struct Unique {
  std::string text;
  std::string entry;
  std::vector<std::string> names;
  size_t image = 0;
};

StatusOr<std::vector<Unique>> FindUnique(const ir::Module& module) {
  std::vector<Unique> r;
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kKernel) continue;
    ASSIGN_OR_RETURN(std::string text, backends::EmitFunc(f, CudaDialect(), kPlaceholder));
    const std::string entry = Cat("k", HashBytes(text).Hex().substr(0, 16));
    auto it = std::find_if(r.begin(), r.end(), [&](const Unique& u) { return u.entry == entry; });
    if (it == r.end()) {
      absl::StrReplaceAll({{std::string(kPlaceholder), entry}}, &text);
      r.push_back({std::move(text), entry, {}});
      it = r.end() - 1;
    }
    it->names.push_back(f.name);
  }
  return r;
}

StatusOr<const Nvrtc*> OpenFor(const Target& target, const CompileOptions& options) {
  if (target.kind != TargetKind::kCuda || target.arch.empty() || target.arch == "native") {
    return InvalidArgument("target '", target.Print(), "' names no arch to compile CUDA kernels for");
  }
  int version = 0;
  if (auto driver = cuda::GetDriver(); driver.ok()) {
    RETURN_IF_ERROR((*driver)->Check((*driver)->cuDriverGetVersion(&version), "cuDriverGetVersion"));
  }
  return Nvrtc::Open(options.nvrtc, version);
}

backends::NvrtcOptions NvrtcOptionsOf(const Target& target, const CompileOptions& options) {
  return {.arch = target.arch,
          .ptx = options.emit_ptx,
          .contract = options.numerics != "exact",
          .keep_log = options.keep_nvrtc_log,
          .threads = options.compile_threads};
}

int64_t ThreadsOf(const CompileOptions& options) {
  if (options.compile_threads > 0) return options.compile_threads;
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// Which kernels each program holds: one program per thread, as a program costs as much as several small kernels, and
// even loads, by the length of the text.
std::vector<std::vector<Unique*>> Partition(const std::vector<Unique*>& kernels, int64_t threads) {
  std::vector<std::vector<Unique*>> programs(std::min<size_t>(kernels.size(), static_cast<size_t>(threads)));
  std::vector<size_t> load(programs.size()), order(kernels.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return kernels[a]->text.size() > kernels[b]->text.size(); });
  for (size_t i : order) {
    const size_t p = static_cast<size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    load[p] += kernels[i]->text.size();
    programs[p].push_back(kernels[i]);
  }
  return programs;
}

}  // namespace

StatusOr<std::string> EmitCudaSource(const ir::Module& module) {
  ASSIGN_OR_RETURN(std::vector<Unique> kernels, FindUnique(module));
  std::vector<std::string> texts;
  for (const Unique& k : kernels) {
    std::string names;
    for (const std::string& n : k.names) names += Cat(names.empty() ? "" : ", ", n);
    texts.push_back(Cat("// ", names, "\n", k.text));
  }
  return backends::JoinSource(CudaDialect(), texts);
}

StatusOr<CudaBuild> CompileCudaKernels(const ir::Module& module, const Target& target, const CompileOptions& options,
                                       DiskCache* cache) {
  ASSIGN_OR_RETURN(std::vector<Unique> kernels, FindUnique(module));
  CudaBuild r;
  r.unique = static_cast<int>(kernels.size());
  if (kernels.empty()) return r;
  ASSIGN_OR_RETURN(const Nvrtc* nvrtc, OpenFor(target, options));
  const backends::NvrtcOptions nvrtc_options = NvrtcOptionsOf(target, options);
  const std::string how = Cat(nvrtc->version(), " ", nvrtc_options.arch, " ", nvrtc_options.ptx, " ", nvrtc_options.contract);
  auto key = [&](std::string_view kind, std::string_view source) { return Cat(kind, "-", HashParts({source, how}).Hex()); };
  auto kernel_key = [&](const Unique& k) { return key("kernel", backends::JoinSource(CudaDialect(), {k.text})); };

  // A kernel's entry names the program that holds it, and the program's entry is the image.
  std::vector<std::string> programs_in_use;
  auto image_of = [&](const std::string& program) -> std::optional<size_t> {
    auto it = std::find(programs_in_use.begin(), programs_in_use.end(), program);
    if (it != programs_in_use.end()) return static_cast<size_t>(it - programs_in_use.begin());
    const std::optional<Artifact> a = cache->Get(program);
    const std::string* image = a.has_value() ? a->Find("image") : nullptr;
    if (image == nullptr) return std::nullopt;
    r.images.images.push_back(*image);
    programs_in_use.push_back(program);
    return r.images.images.size() - 1;
  };
  std::vector<Unique*> to_compile;
  for (Unique& k : kernels) {
    std::optional<size_t> image;
    if (cache != nullptr) {
      const std::optional<Artifact> a = cache->Get(kernel_key(k));
      if (const std::string* program = a.has_value() ? a->Find("program") : nullptr) image = image_of(*program);
    }
    if (image.has_value()) {
      k.image = *image;
      ++r.cached;
    } else {
      to_compile.push_back(&k);
    }
  }

  const std::vector<std::vector<Unique*>> programs = Partition(to_compile, ThreadsOf(options));
  std::vector<std::string> sources;
  for (const auto& program : programs) {
    std::vector<std::string> texts;
    for (const Unique* k : program) texts.push_back(k->text);
    sources.push_back(backends::JoinSource(CudaDialect(), texts));
  }
  ASSIGN_OR_RETURN(std::vector<backends::NvrtcCode> codes, nvrtc->Compile(sources, nvrtc_options));
  for (size_t i = 0; i < programs.size(); ++i) {
    const std::string name = key("program", sources[i]);
    if (cache != nullptr) cache->Put(name, {{{"image", codes[i].code}}});
    for (Unique* k : programs[i]) {
      k->image = r.images.images.size();
      if (cache != nullptr) cache->Put(kernel_key(*k), {{{"program", name}}});
    }
    r.images.images.push_back(std::move(codes[i].code));
    r.log += codes[i].log;
  }
  for (const Unique& k : kernels) {
    for (const std::string& n : k.names) r.images.kernels.push_back({n, k.image, k.entry});
  }
  return r;
}

StatusOr<CudaBuild> CompileCudaSource(const ir::Module& module, std::string_view source, const Target& target,
                                      const CompileOptions& options) {
  ASSIGN_OR_RETURN(const Nvrtc* nvrtc, OpenFor(target, options));
  ASSIGN_OR_RETURN(std::vector<backends::NvrtcCode> codes, nvrtc->Compile({std::string(source)}, NvrtcOptionsOf(target, options)));
  CudaBuild r;
  r.log = codes[0].log;
  r.images.images.push_back(std::move(codes[0].code));
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kKernel) continue;
    r.images.kernels.push_back({f.name, 0, f.name});
    ++r.unique;
  }
  return r;
}

}  // namespace cinn_like
