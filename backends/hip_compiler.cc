#include "backends/hip_compiler.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "backends/c_emitter.h"
#include "backends/child_process.h"
#include "backends/unique_kernels.h"
#include "cinn_like/base/build_id.h"
#include "cinn_like/base/pass_pipeline.h"

namespace cinn_like {
namespace {

using backends::HipDialect;

// Stands for ROCm's, of which it has what the dialect writes. Constants are those that ocml.bc asks for; $I is the arch
// as a number.
constexpr std::string_view kRuntimeHeader = R"(#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
#define CINN_DEVICE static __device__ __forceinline__

struct CinnIndex { unsigned int x, y, z; };
CINN_DEVICE CinnIndex cinn_block_index() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()};
}
CINN_DEVICE CinnIndex cinn_thread_index() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()};
}
#define blockIdx cinn_block_index()
#define threadIdx cinn_thread_index()

CINN_DEVICE void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
template <class T> CINN_DEVICE T __shfl_xor(T v, int mask, int) {
  static_assert(sizeof(T) % 4 == 0, "words");
  const int lane = (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
  int words[sizeof(T) / 4];
  __builtin_memcpy(words, &v, sizeof(T));
  for (int& w : words) w = __builtin_amdgcn_ds_bpermute((lane ^ mask) << 2, w);
  __builtin_memcpy(&v, words, sizeof(T));
  return v;
}

struct __attribute__((aligned(8))) uint2 { unsigned int x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned int x, y, z, w; };
CINN_DEVICE uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }
CINN_DEVICE uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }

#define CINN_1(T, name, of) CINN_DEVICE T name(T a) { return of(a); }
#define CINN_2(T, name, of) CINN_DEVICE T name(T a, T b) { return of(a, b); }
#define CINN_BOTH(how, name) how(float, name##f, __builtin_##name##f) how(double, name, __builtin_##name)
CINN_BOTH(CINN_1, fabs) CINN_BOTH(CINN_1, floor) CINN_BOTH(CINN_1, ceil) CINN_BOTH(CINN_1, rint)
CINN_BOTH(CINN_1, trunc) CINN_BOTH(CINN_1, sqrt) CINN_BOTH(CINN_2, copysign) CINN_BOTH(CINN_2, fmin)
CINN_1(float, expf, __builtin_expf) CINN_1(float, exp2f, __builtin_exp2f) CINN_1(float, logf, __builtin_logf)
CINN_DEVICE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
CINN_DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

#define CINN_CONSTANT(T, name, value) \
  __device__ __constant__ __attribute__((weak, visibility("hidden"))) extern const T name = value;
#define CINN_OCML_1(T, name, of) extern "C" __device__ T of(T); CINN_1(T, name, of)
#define CINN_OCML_2(T, name, of) extern "C" __device__ T of(T, T); CINN_2(T, name, of)
#define CINN_OCML_BOTH(how, name) how(float, name##f, __ocml_##name##_f32) how(double, name, __ocml_##name##_f64)
CINN_OCML_BOTH(CINN_OCML_1, expm1) CINN_OCML_BOTH(CINN_OCML_1, log1p) CINN_OCML_BOTH(CINN_OCML_1, sin)
CINN_OCML_BOTH(CINN_OCML_1, cos) CINN_OCML_BOTH(CINN_OCML_2, pow) CINN_OCML_BOTH(CINN_OCML_2, fmod)
CINN_OCML_1(double, exp, __ocml_exp_f64) CINN_OCML_1(double, exp2, __ocml_exp2_f64)
CINN_OCML_1(double, log, __ocml_log_f64) CINN_OCML_1(double, tanh, __ocml_tanh_f64)
CINN_OCML_1(double, erf, __ocml_erf_f64)
extern "C" {
CINN_CONSTANT(unsigned char, __oclc_finite_only_opt, 0)
CINN_CONSTANT(unsigned char, __oclc_unsafe_math_opt, 0)
CINN_CONSTANT(unsigned char, __oclc_daz_opt, 0)
CINN_CONSTANT(unsigned char, __oclc_correctly_rounded_sqrt32, 1)
CINN_CONSTANT(unsigned char, __oclc_wavefrontsize64, 1)
CINN_CONSTANT(int, __oclc_ISA_version, $I)
CINN_CONSTANT(int, __oclc_ABI_version, 500)
}
)";

// 9010 of gfx90a: the last two digits are hexadecimal, a minor number and a stepping.
std::string NumberOf(std::string_view arch) {
  const std::string digits(arch.substr(std::string_view("gfx").size()));
  const long n = std::strtol(digits.substr(digits.size() - 2).c_str(), nullptr, 16);
  return Cat(digits.substr(0, digits.size() - 2), n / 16, n % 16 < 10 ? "0" : "", n % 16);
}

struct Clang {
  std::string path, version;
  std::string ocml;  // empty: there is none
};

StatusOr<Clang> FindClang() {
  const char* rocm = std::getenv("ROCM_PATH");
  std::vector<std::string> programs, libraries;
  if (rocm != nullptr) programs.push_back(Cat(rocm, "/llvm/bin/clang++")), libraries.push_back(rocm);
  programs.insert(programs.end(), {"clang++-19", "clang++"});
  libraries.insert(libraries.end(), {"/usr/lib/x86_64-linux-gnu", "/opt/rocm"});
  std::string tried;
  for (const std::string& program : programs) {
    tried += Cat(tried.empty() ? "" : ", ", program);
    const StatusOr<Ended> ended = RunProgram({program, "--version"});
    if (!ended.ok() || ended->status != 0) continue;
    Clang r{program, ended->text.substr(0, ended->text.find('\n')), ""};
    for (const std::string& folder : libraries) {
      const std::string file = Cat(folder, "/amdgcn/bitcode/ocml.bc");
      std::error_code ignored;
      if (r.ocml.empty() && std::filesystem::exists(file, ignored)) r.ocml = file;
    }
    return r;
  }
  return absl::NotFoundError(
      Cat("HIP needs clang (Debian: clang-19 and lld-19; ROCm's by $ROCM_PATH), which was not found. Tried: ", tried));
}

class HipCompiler : public DeviceCompiler {
 public:
  HipCompiler(const Target& target, const CompileOptions& options, ObjectCache* cache)
      : target_(target), options_(options), cache_(cache) {}

  StatusOr<std::string> EmitSource(const ir::Module& module) override {
    ASSIGN_OR_RETURN(const auto kernels, backends::FindUniqueKernels(module, HipDialect()));
    return backends::JoinForPeople(HipDialect(), kernels);
  }

  StatusOr<KernelImages> Compile(const ir::Module& module, std::string_view source) override {
    return CompileTo(module, source, "-c");
  }

  std::vector<std::string> Forms() const override { return {"hip", "hsaco", "gcn"}; }

  StatusOr<std::string> Emit(const ir::Module& module, std::string_view form, std::string_view source) override {
    ASSIGN_OR_RETURN(KernelImages r, CompileTo(module, source, form == "gcn" ? "-S" : "-c"));
    if (r.images.empty()) return absl::NotFoundError("there are no kernels");
    return std::move(r.images[0]);
  }

 private:
  StatusOr<KernelImages> CompileTo(const ir::Module& module, std::string_view given, std::string_view form) {
    KernelImages r;
    std::string source(given);
    if (given.empty()) {
      ASSIGN_OR_RETURN(const auto kernels, backends::FindUniqueKernels(module, HipDialect()));
      if (kernels.empty()) return r;
      std::vector<std::string> texts;
      for (const backends::UniqueKernel& k : kernels) {
        texts.push_back(k.text);
        for (const std::string& n : k.names) r.kernels.push_back({n, 0, k.entry});
      }
      source = backends::JoinSource(HipDialect(), texts);
    } else {
      ASSIGN_OR_RETURN(const auto kernels, backends::FindKernelsIn(source, module, HipDialect()));
      for (const backends::KernelInSource& k : kernels) r.kernels.push_back({k.name, 0, k.entry});
    }
    if (options_.dump_source) Dump(options_, "kernels", "hip", source);
    ASSIGN_OR_RETURN(const Clang clang, FindClang());
    std::string key = Cat("hip program ", BuildId(), " ", clang.path, " ", clang.version, " ", clang.ocml);
    for (const std::string& flag : Flags(clang, form)) key += Cat(" ", flag);
    key += Cat("\n", source);
    std::optional<std::string> image = cache_ == nullptr ? std::nullopt : cache_->Get(key);
    if (!image.has_value()) {
      ASSIGN_OR_RETURN(image, Run(clang, source, form));
      if (cache_ != nullptr) cache_->Put(key, *image);
    }
    r.images.push_back(*std::move(image));
    return r;
  }

  std::vector<std::string> Flags(const Clang& clang, std::string_view form) const {
    const bool exact = options_.numerics == "exact";
    std::vector<std::string> r = {
        "-x",
        "hip",
        Cat("--offload-arch=", target_.arch),
        "--cuda-device-only",
        "--no-gpu-bundle-output",
        "-nogpuinc",
        "-nogpulib",
        "-std=c++17",
        "-O3",
        "-fno-strict-aliasing",
        exact ? "-ffp-contract=off" : "-ffp-contract=fast",
        exact ? "-fhip-fp32-correctly-rounded-divide-sqrt" : "-fno-hip-fp32-correctly-rounded-divide-sqrt"};
    if (form == "-S") r.emplace_back(form);
    if (!clang.ocml.empty()) r.insert(r.end(), {"-Xclang", "-mlink-builtin-bitcode", "-Xclang", clang.ocml});
    return r;
  }

  StatusOr<std::string> Run(const Clang& clang, const std::string& source, std::string_view form) const {
    TemporaryFolder folder;
    RETURN_IF_ERROR(folder.Make());
    std::error_code error;
    std::filesystem::create_directory(folder.File("hip"), error);
    RETURN_IF_ERROR(folder.Write("hip/hip_runtime.h",
                                 absl::StrReplaceAll(std::string(kRuntimeHeader), {{"$I", NumberOf(target_.arch)}})));
    RETURN_IF_ERROR(folder.Write("kernels.hip", source));
    std::vector<std::string> command = {clang.path};
    for (std::string& flag : Flags(clang, form)) command.push_back(std::move(flag));
    command.insert(command.end(),
                   {"-I", folder.File(""), "-o", folder.File("kernels.out"), folder.File("kernels.hip")});
    ASSIGN_OR_RETURN(const Ended ended, RunProgram(command));
    if (ended.status == 0) return folder.Read("kernels.out");
    if (clang.ocml.empty() && absl::StrContains(ended.text, "__ocml_")) {
      return absl::FailedPreconditionError(Cat(
          "kernels call functions of ROCm's device library ocml.bc (Debian: rocm-device-libs; else $ROCM_PATH), which "
          "was not found:\n",
          ended.text));
    }
    if (absl::StrContains(ended.text, "\"lld\" doesn't exist"))
      return absl::FailedPreconditionError(Cat(clang.path, " needs its linker (Debian: lld-19):\n", ended.text));
    return Internal(clang.path, " failed:\n", ended.text, "\nin this source:\n", source);
  }

  const Target target_;
  const CompileOptions options_;
  ObjectCache* const cache_;
};

}  // namespace

std::unique_ptr<DeviceCompiler> MakeHipCompiler(const Target& target, const CompileOptions& options,
                                                ObjectCache* cache) {
  return std::make_unique<HipCompiler>(target, options, cache);
}

}  // namespace cinn_like
