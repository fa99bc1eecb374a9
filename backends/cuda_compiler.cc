#include "backends/cuda_compiler.h"

#include <sched.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "backends/c_emitter.h"
#include "backends/nvrtc.h"
#include "backends/unique_kernels.h"
#include "cinn_like/base/build_id.h"
#include "cinn_like/base/hash.h"
#include "cinn_like/base/pass_pipeline.h"
#include "runtime/cuda_driver.h"
#include "runtime/device_api.h"

namespace cinn_like {
namespace {

using backends::CudaDialect;
using backends::Nvrtc;

// With the program that it is in.
struct Unique : backends::UniqueKernel {
  size_t image = 0;
};

StatusOr<std::vector<Unique>> FindUnique(const ir::Module& module, const backends::Dialect& dialect) {
  ASSIGN_OR_RETURN(std::vector<backends::UniqueKernel> kernels, backends::FindUniqueKernels(module, dialect));
  std::vector<Unique> r;
  for (backends::UniqueKernel& k : kernels) r.push_back({std::move(k)});
  return r;
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
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return kernels[a]->text.size() > kernels[b]->text.size(); });
  for (size_t i : order) {
    const size_t p = static_cast<size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    load[p] += kernels[i]->text.size();
    programs[p].push_back(kernels[i]);
  }
  return programs;
}

class CudaCompiler : public DeviceCompiler {
 public:
  CudaCompiler(const Target& target, const CompileOptions& options, ObjectCache* cache)
      : target_(target), options_(options), cache_(cache) {}

  StatusOr<std::string> EmitSource(const ir::Module& module) override {
    ASSIGN_OR_RETURN(const auto kernels, backends::FindUniqueKernels(module, CudaDialect(target_.arch)));
    return backends::JoinForPeople(CudaDialect(), kernels);
  }

  StatusOr<KernelImages> Compile(const ir::Module& module, std::string_view source) override {
    if (!source.empty()) return CompileSource(module, source);
    ASSIGN_OR_RETURN(std::vector<Unique> kernels, FindUnique(module, CudaDialect(target_.arch)));
    KernelImages r;
    if (kernels.empty()) return r;
    ASSIGN_OR_RETURN(const Nvrtc* nvrtc, OpenNvrtc());
    std::vector<Unique*> to_compile;
    std::map<std::string, size_t> cached;
    for (Unique& k : kernels) {
      if (!FindCached(*nvrtc, k, r, cached)) to_compile.push_back(&k);
    }
    const std::vector<std::vector<Unique*>> programs = Partition(to_compile, ThreadsOf(options_));
    std::vector<std::string> sources;
    for (const auto& program : programs) {
      std::vector<std::string> texts;
      for (const Unique* k : program) texts.push_back(k->text);
      sources.push_back(backends::JoinSource(CudaDialect(), texts));
    }
    ASSIGN_OR_RETURN(std::vector<backends::NvrtcCode> codes, RunNvrtc(*nvrtc, sources));
    for (size_t i = 0; i < programs.size(); ++i) {
      const std::string program = KeyOf(*nvrtc, "program", sources[i]);
      if (cache_ != nullptr) cache_->Put(program, codes[i].code);
      for (Unique* k : programs[i]) {
        k->image = r.images.size();
        if (cache_ != nullptr) cache_->Put(KernelKey(*nvrtc, *k), program);
      }
      r.images.push_back(std::move(codes[i].code));
    }
    for (const Unique& k : kernels) {
      for (const std::string& n : k.names) r.kernels.push_back({n, k.image, k.entry});
    }
    return r;
  }

  std::vector<std::string> Forms() const override { return {"cuda", "ptx", "cubin"}; }

  StatusOr<std::string> Emit(const ir::Module& module, std::string_view form) override {
    CompileOptions options = options_;
    options.emit_ptx = form == "ptx";
    options.compile_threads = 1;  // all kernels in one image
    ASSIGN_OR_RETURN(KernelImages r, CudaCompiler(target_, options, nullptr).Compile(module, ""));
    if (r.images.empty()) return absl::NotFoundError("there are no kernels");
    RET_CHECK(r.images.size() == 1, r.images.size());
    return std::move(r.images[0]);
  }

 private:
  StatusOr<const Nvrtc*> OpenNvrtc() const {
    if (target_.arch == "native") {
      RETURN_IF_ERROR(ResolveTarget(target_, cinn_device_cuda).status());
      return InvalidArgument("target '", target_.Print(), "' names no arch");
    }
    int version = 0;
    if (auto driver = cuda::GetDriver(); driver.ok()) {
      RETURN_IF_ERROR((*driver)->Check((*driver)->cuDriverGetVersion(&version), "cuDriverGetVersion"));
    }
    return Nvrtc::Open(options_.nvrtc, version);
  }

  backends::NvrtcOptions ToNvrtc() const {
    return {.arch = target_.arch,
            .ptx = options_.emit_ptx,
            .exact = options_.numerics == "exact",
            .keep_log = options_.keep_nvrtc_log,
            .keep_ptx = options_.dump_ptx,
            .threads = ThreadsOf(options_)};
  }

  StatusOr<std::vector<backends::NvrtcCode>> RunNvrtc(const Nvrtc& nvrtc,
                                                      const std::vector<std::string>& sources) const {
    if (options_.dump_source) {
      for (const std::string& s : sources) Dump(options_, "kernels", "cu", s);
    }
    ASSIGN_OR_RETURN(std::vector<backends::NvrtcCode> codes, nvrtc.Compile(sources, ToNvrtc()));
    for (const backends::NvrtcCode& c : codes) {
      if (options_.keep_nvrtc_log) Dump(options_, "nvrtc", "log", c.log.empty() ? "nothing to say\n" : c.log);
      if (options_.dump_ptx) Dump(options_, "kernels", "ptx", c.ptx);
    }
    return codes;
  }

  // Of a source text, as this target, options and NVRTC compile it.
  std::string KeyOf(const Nvrtc& nvrtc, std::string_view kind, std::string_view source) const {
    return Cat("cuda ", kind, " ", BuildId(), " nvrtc ", nvrtc.version(), " ", nvrtc.path(), " ", target_.arch, " ",
               Nvrtc::FlagsOf(ToNvrtc()), "\n", source);
  }
  std::string KernelKey(const Nvrtc& nvrtc, const Unique& k) const {
    return KeyOf(nvrtc, "kernel", backends::JoinSource(CudaDialect(), {k.text}));
  }

  // A kernel's entry in the cache is the key of the program that holds it, whose entry is the image. `programs` are
  // those that `images` has, by key.
  bool FindCached(const Nvrtc& nvrtc, Unique& k, KernelImages& images, std::map<std::string, size_t>& programs) {
    if (cache_ == nullptr) return false;
    const std::optional<std::string> program = cache_->Get(KernelKey(nvrtc, k));
    if (!program.has_value()) return false;
    auto it = programs.find(*program);
    if (it == programs.end()) {
      std::optional<std::string> image = cache_->Get(*program);
      if (!image.has_value()) return false;
      it = programs.emplace(*program, images.images.size()).first;
      images.images.push_back(*std::move(image));
    }
    k.image = it->second;
    return true;
  }

  StatusOr<KernelImages> CompileSource(const ir::Module& module, std::string_view source) {
    ASSIGN_OR_RETURN(const Nvrtc* nvrtc, OpenNvrtc());
    ASSIGN_OR_RETURN(std::vector<backends::NvrtcCode> codes, RunNvrtc(*nvrtc, {std::string(source)}));
    KernelImages r;
    r.images.push_back(std::move(codes[0].code));
    for (const ir::Func& f : module.funcs) {
      if (f.kind == ir::FuncKind::kKernel) r.kernels.push_back({f.name, 0, f.name});
    }
    return r;
  }

  const Target target_;
  const CompileOptions options_;
  ObjectCache* const cache_;
};

}  // namespace

std::unique_ptr<DeviceCompiler> MakeCudaCompiler(const Target& target, const CompileOptions& options,
                                                 ObjectCache* cache) {
  return std::make_unique<CudaCompiler>(target, options, cache);
}

}  // namespace cinn_like
