#include "backends/cuda_compiler.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <optional>

#include "backends/c_emitter.h"
#include "backends/kernel_resources.h"
#include "backends/nvcc.h"
#include "backends/nvrtc.h"
#include "backends/unique_kernels.h"
#include "cinn_like/base/build_id.h"
#include "cinn_like/base/hash.h"
#include "cinn_like/base/pass_pipeline.h"
#include "runtime/bounds_report.h"
#include "runtime/cuda_driver.h"
#include "runtime/device_api.h"
#include "runtime/waiting_kernels.h"

namespace cinn_like {
namespace {

using backends::CudaDialect;
using backends::CudaForm;
using backends::Nvcc;
using backends::Nvrtc;
using backends::NvrtcCode;
using backends::NvrtcOptions;

// What compiles CUDA C++: NVRTC, nvcc or the caller's function.
struct SourceCompiler {
  std::string name;
  std::string key;  // what it makes of a text is kept under; empty: nowhere
  std::function<StatusOr<std::vector<NvrtcCode>>(const std::vector<std::string>&, const NvrtcOptions&)> compile;
};

using CompileFunction = std::function<StatusOr<std::string>(const CompileRequest&)>;

// Null where it is none of them.
const char* FlagOfForm(std::string_view code) {
  if (code.starts_with("\177ELF")) return "-cubin";
  if (code.starts_with("\x50\xed\x55\xba")) return "-fatbin";
  const bool is_text = code.find('\0') >= code.size() - 1;  // which may stand at its end
  return !code.empty() && is_text && code.find(".version") != code.npos ? "-ptx" : nullptr;
}

// `must_be`: of the form that is asked for, and of no other.
StatusOr<NvrtcCode> CompileBy(const CompileFunction& compile, const std::string& source, const NvrtcOptions& options,
                              bool must_be) {
  const CompileRequest request{source, options.arch, backends::FlagsOf(options)};
  NvrtcCode r;
  ASSIGN_OR_RETURN(r.code, compile(request));
  const char* form = FlagOfForm(r.code);
  if (form == nullptr)
    return InvalidArgument("expected a cubin, a fatbin or PTX, got ", r.code.size(), " bytes that are none of them");
  if (must_be && form != request.options[0])
    return InvalidArgument("asked for ", request.options[0], ", got what ", form, " makes");
  const bool asks = source.find(kBoundsReportName) != source.npos;
  if (asks && r.code.find(kBoundsReportName) == r.code.npos)
    return InvalidArgument("code that is to report accesses out of bounds has no symbol ", kBoundsReportName,
                           " in sight; a fatbin must not be compressed");
  return r;
}

// A kernel of a caller's text that has a name which says that it waits for those before it does so.
Status CheckWaits(std::string_view source, const backends::KernelInSource& kernel) {
  if (!kernel.entry.starts_with(kWaitingKernel)) return absl::OkStatus();
  std::string_view body = source.substr(std::min(source.find(kernel.entry), source.size()));
  body = body.substr(0, body.find("__global__"));
  const std::string_view waits = CudaDialect("sm_90").start;
  if (body.find(waits) != body.npos) return absl::OkStatus();
  return InvalidArgument("kernel ", kernel.entry, " of the given source: expected its first line to be ", waits,
                         ", as it starts while the kernels before it run, or the name ", kernel.name);
}

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
      : target_(target),
        options_(options),
        cache_(cache),
        form_(options.emit_ptx ? CudaForm::kPtx : CudaForm::kCubin) {}

  StatusOr<std::string> EmitSource(const ir::Module& module) override {
    ASSIGN_OR_RETURN(const auto kernels, backends::FindUniqueKernels(module, CudaDialect(target_.arch)));
    return backends::JoinForPeople(CudaDialect(), kernels);
  }

  StatusOr<KernelImages> Compile(const ir::Module& module, std::string_view source) override {
    if (!source.empty()) return CompileSource(module, source);
    ASSIGN_OR_RETURN(std::vector<Unique> kernels, FindUnique(module, CudaDialect(target_.arch)));
    KernelImages r;
    if (kernels.empty()) return r;
    ASSIGN_OR_RETURN(const SourceCompiler compiler, OpenCompiler());
    std::vector<Unique*> to_compile;
    std::map<std::string, size_t> cached;
    for (Unique& k : kernels) {
      if (!FindCached(compiler, k, r, cached)) to_compile.push_back(&k);
    }
    const int64_t threads = replaced_ ? 1 : ThreadsOf(options_);
    const std::vector<std::vector<Unique*>> programs = Partition(to_compile, threads);
    std::vector<std::string> sources;
    for (const auto& program : programs) {
      std::vector<std::string> texts;
      for (const Unique* k : program) texts.push_back(k->text);
      sources.push_back(backends::JoinSource(CudaDialect(), texts));
    }
    ASSIGN_OR_RETURN(std::vector<NvrtcCode> codes, Run(compiler, sources));
    for (size_t i = 0; i < programs.size(); ++i) {
      const std::string program = KeyOf(compiler, "program", sources[i]);
      if (Caches(compiler)) cache_->Put(program, codes[i].code);
      for (Unique* k : programs[i]) {
        k->image = r.images.size();
        if (Caches(compiler)) cache_->Put(KernelKey(compiler, *k), program);
      }
      r.images.push_back(std::move(codes[i].code));
    }
    for (const Unique& k : kernels) {
      for (const std::string& n : k.names) r.kernels.push_back({n, k.image, k.entry});
    }
    return r;
  }

  // PTX, but of an arch whose instructions others lack ("sm_90a").
  StatusOr<std::vector<KernelImages>> CompileForOthers(const ir::Module& module) override {
    if (options_.emit_ptx || std::isdigit(static_cast<unsigned char>(target_.arch.back())) == 0)
      return std::vector<KernelImages>();
    CudaCompiler ptx(target_, options_, cache_);
    ptx.form_ = CudaForm::kPtx;
    ptx.must_be_form_ = true;
    ptx.replaced_ = replaced_;
    ASSIGN_OR_RETURN(KernelImages images, ptx.Compile(module, ""));
    return std::vector<KernelImages>{std::move(images)};
  }

  std::vector<std::string> Forms() const override { return {"cuda", "ptx", "cubin", "fatbin", "resources"}; }

  StatusOr<std::string> Emit(const ir::Module& module, std::string_view form, std::string_view source) override {
    CompileOptions options = options_;
    options.compile_threads = 1;  // all kernels in one image
    CudaCompiler one(target_, options, nullptr);
    one.form_ = form == "ptx" ? CudaForm::kPtx : form == "fatbin" ? CudaForm::kFatbin : CudaForm::kCubin;
    one.must_be_form_ = true;
    one.replaced_ = replaced_;
    if (form == "resources") return one.DescribeResources(module, source);
    ASSIGN_OR_RETURN(KernelImages r, one.Compile(module, source));
    if (r.images.empty()) return absl::NotFoundError("there are no kernels");
    RET_CHECK(r.images.size() == 1, r.images.size());
    return std::move(r.images[0]);
  }

  Status ReplaceCompiler(CompileFunction compile) override {
    replaced_ = std::move(compile);
    return absl::OkStatus();
  }

 private:
  StatusOr<SourceCompiler> OpenCompiler() const {
    if (target_.arch == "native") {
      RETURN_IF_ERROR(ResolveTarget(target_, cinn_device_cuda).status());
      return InvalidArgument("target '", target_.Print(), "' names no arch");
    }
    if (replaced_) {
      return SourceCompiler{"caller", "", [this](const auto& sources, const NvrtcOptions& options) {
                              return CompileByCaller(sources, options);
                            }};
    }
    if (options_.cuda_compiler != "nvrtc") {
      ASSIGN_OR_RETURN(const Nvcc* nvcc, Nvcc::Open(options_.cuda_compiler));
      return SourceCompiler{"nvcc", Cat("nvcc ", nvcc->version(), " ", nvcc->path()),
                            [nvcc](const auto& sources, const auto& o) { return nvcc->Compile(sources, o); }};
    }
    const auto driver = cuda::GetDriver();
    ASSIGN_OR_RETURN(const Nvrtc* nvrtc, Nvrtc::Open(options_.nvrtc, driver.ok() ? (*driver)->version : 0));
    return SourceCompiler{"nvrtc", Cat("nvrtc ", nvrtc->version(), " ", nvrtc->path()),
                          [nvrtc](const auto& sources, const auto& o) { return nvrtc->Compile(sources, o); }};
  }

  StatusOr<std::vector<NvrtcCode>> CompileByCaller(const std::vector<std::string>& sources,
                                                   const NvrtcOptions& options) const {
    std::vector<NvrtcCode> r;
    for (const std::string& source : sources) {
      StatusOr<NvrtcCode> code = CompileBy(replaced_, source, options, must_be_form_);
      if (!code.ok()) return Annotate(code.status(), "compiling CUDA C++ by the caller's function");
      r.push_back(*std::move(code));
    }
    return r;
  }

  NvrtcOptions ToOptions() const {
    return {.arch = target_.arch,
            .form = form_,
            .exact = options_.numerics == "exact",
            .keep_log = options_.keep_nvrtc_log,
            .keep_ptx = options_.dump_ptx,
            .tell_resources = tells_resources_,
            .threads = ThreadsOf(options_)};
  }

  StatusOr<std::vector<NvrtcCode>> Run(const SourceCompiler& compiler, const std::vector<std::string>& sources) const {
    if (options_.dump_source) {
      for (const std::string& s : sources) Dump(options_, "kernels", "cu", s);
    }
    ASSIGN_OR_RETURN(std::vector<NvrtcCode> codes, compiler.compile(sources, ToOptions()));
    for (const NvrtcCode& c : codes) {
      if (options_.keep_nvrtc_log) Dump(options_, compiler.name, "log", c.log.empty() ? "nothing to say\n" : c.log);
      if (options_.dump_ptx && !c.ptx.empty()) Dump(options_, "kernels", "ptx", c.ptx);
    }
    return codes;
  }

  StatusOr<std::string> DescribeResources(const ir::Module& module, std::string_view source) {
    tells_resources_ = true;
    std::vector<std::pair<std::string, std::string>> names;
    std::string text(source);
    if (source.empty()) {
      ASSIGN_OR_RETURN(const auto kernels, backends::FindUniqueKernels(module, CudaDialect(target_.arch)));
      std::vector<std::string> texts;
      for (const backends::UniqueKernel& k : kernels) {
        texts.push_back(k.text);
        for (const std::string& name : k.names) names.emplace_back(name, k.entry);
      }
      text = backends::JoinSource(CudaDialect(), texts);
    } else {
      ASSIGN_OR_RETURN(const auto kernels, backends::FindKernelsIn(source, module, CudaDialect(target_.arch)));
      for (const backends::KernelInSource& k : kernels) names.emplace_back(k.name, k.entry);
    }
    if (names.empty()) return absl::NotFoundError("there are no kernels");
    ASSIGN_OR_RETURN(const SourceCompiler compiler, OpenCompiler());
    ASSIGN_OR_RETURN(const std::vector<NvrtcCode> codes, Run(compiler, {text}));
    return backends::DescribeKernelResources(module, names, codes[0].log);
  }

  bool Caches(const SourceCompiler& compiler) const { return cache_ != nullptr && !compiler.key.empty(); }
  // Of a source text, as this target, options and compiler make code of it.
  std::string KeyOf(const SourceCompiler& compiler, std::string_view kind, std::string_view source) const {
    std::string r = Cat("cuda ", kind, " ", BuildId(), " ", compiler.key, " ", target_.arch);
    for (const std::string& flag : backends::FlagsOf(ToOptions())) r += Cat(" ", flag);
    return Cat(r, "\n", source);
  }
  std::string KernelKey(const SourceCompiler& compiler, const Unique& k) const {
    return KeyOf(compiler, "kernel", backends::JoinSource(CudaDialect(), {k.text}));
  }

  // A kernel's entry in the cache is the key of the program that holds it, whose entry is the image. `programs` are
  // those that `images` has, by key.
  bool FindCached(const SourceCompiler& compiler, Unique& k, KernelImages& images,
                  std::map<std::string, size_t>& programs) {
    if (!Caches(compiler)) return false;
    const std::optional<std::string> program = cache_->Get(KernelKey(compiler, k));
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
    KernelImages r;
    ASSIGN_OR_RETURN(const auto kernels, backends::FindKernelsIn(source, module, CudaDialect(target_.arch)));
    for (const backends::KernelInSource& k : kernels) {
      RETURN_IF_ERROR(CheckWaits(source, k));
      r.kernels.push_back({k.name, 0, k.entry});
    }
    ASSIGN_OR_RETURN(const SourceCompiler compiler, OpenCompiler());
    const std::string key = KeyOf(compiler, "program", source);
    std::optional<std::string> image = Caches(compiler) ? cache_->Get(key) : std::nullopt;
    if (!image.has_value()) {
      ASSIGN_OR_RETURN(std::vector<NvrtcCode> codes, Run(compiler, {std::string(source)}));
      image = std::move(codes[0].code);
      if (Caches(compiler)) cache_->Put(key, *image);
    }
    r.images.push_back(*std::move(image));
    return r;
  }

  const Target target_;
  const CompileOptions options_;
  ObjectCache* const cache_;
  CudaForm form_;
  bool tells_resources_ = false;
  bool must_be_form_ = false;  // of what a caller's function makes
  CompileFunction replaced_;
};

}  // namespace

std::unique_ptr<DeviceCompiler> MakeCudaCompiler(const Target& target, const CompileOptions& options,
                                                 ObjectCache* cache) {
  return std::make_unique<CudaCompiler>(target, options, cache);
}

}  // namespace cinn_like
