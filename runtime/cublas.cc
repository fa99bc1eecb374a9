#include "runtime/cublas.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/cuda_driver.h"
#include "runtime/last_error.h"
#include "runtime/timeline.h"
#include "runtime/workspace.h"

namespace cinn_like {
namespace {

// The part of cublasLt.h that we use; the numbers are the same in CUDA 12 and 13.
using Handle = struct LtHandle*;
using Desc = struct LtDesc*;
using Layout = struct LtLayout*;
using Preference = struct LtPreference*;
struct Algo {
  uint64_t data[8];
};
struct Heuristic {
  Algo algo;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
enum { kR32F = 0, kR64F = 1, kR16F = 2, kR16BF = 14 };              // cudaDataType_t
enum { kCompute32F = 68, kCompute64F = 70, kCompute32FTf32 = 77 };  // cublasComputeType_t
enum { kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7, kDescBiasPointer = 8 };
enum { kLayoutBatchCount = 5, kLayoutBatchStride = 6 };
enum { kPrefWorkspace = 1, kPrefReductionScheme = 3 };
enum { kPrefAlignA = 5, kPrefAlignB = 6, kPrefAlignC = 7, kPrefAlignD = 8 };
enum { kReduceInComputeType = 2 };  // the other schemes round partial sums to the result's type
enum { kEpilogueDefault = 1, kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueGelu = 32 };

constexpr uint64_t kMaxWorkspace = uint64_t{32} << 20;
constexpr size_t kMaxPlans = 4096;

#define CINN_CUBLASLT_FUNCTIONS(X)                                                                                   \
  X(cublasLtCreate, (Handle*))                                                                                       \
  X(cublasLtMatmulDescCreate, (Desc*, int compute, int scale))                                                       \
  X(cublasLtMatmulDescDestroy, (Desc))                                                                               \
  X(cublasLtMatmulDescSetAttribute, (Desc, int, const void*, size_t))                                                \
  X(cublasLtMatrixLayoutCreate, (Layout*, int type, uint64_t rows, uint64_t columns, int64_t leading))               \
  X(cublasLtMatrixLayoutDestroy, (Layout))                                                                           \
  X(cublasLtMatrixLayoutSetAttribute, (Layout, int, const void*, size_t))                                            \
  X(cublasLtMatmulPreferenceCreate, (Preference*))                                                                   \
  X(cublasLtMatmulPreferenceDestroy, (Preference))                                                                   \
  X(cublasLtMatmulPreferenceSetAttribute, (Preference, int, const void*, size_t))                                    \
  X(cublasLtMatmulAlgoGetHeuristic,                                                                                  \
    (Handle, Desc, Layout, Layout, Layout, Layout, Preference, int wanted, Heuristic*, int* found))                  \
  X(cublasLtMatmul,                                                                                                  \
    (Handle, Desc, const void* alpha, const void* a, Layout, const void* b, Layout, const void* beta, const void* c, \
     Layout, void* d, Layout, const Algo*, void* workspace, size_t workspace_bytes, cuda::Stream))

struct Lt {
#define X(name, params) int(*name) params = nullptr;
  CINN_CUBLASLT_FUNCTIONS(X)
#undef X
  const char* (*cublasLtGetStatusName)(int) = nullptr;

  Status Check(int status, std::string_view what) const {
    if (status == 0) return absl::OkStatus();
    return absl::UnavailableError(Cat(what, " failed: ", cublasLtGetStatusName(status)));
  }
};

StatusOr<Lt> OpenLt() {
  constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  void* library = nullptr;
  std::string why;
  for (const int loaded_only : {RTLD_NOLOAD, 0}) {  // a framework's own copy before the system's
    for (const char* name : kNames) {
      if (library != nullptr) break;
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL | loaded_only);
      if (library == nullptr && loaded_only == 0) why += Cat(why.empty() ? "" : "; ", dlerror());
    }
  }
  if (library == nullptr) return absl::FailedPreconditionError(Cat("no cuBLASLt: ", why));
  Lt lt;
#define X(name, params) lt.name = reinterpret_cast<int(*) params>(dlsym(library, #name));
  CINN_CUBLASLT_FUNCTIONS(X)
#undef X
  lt.cublasLtGetStatusName = reinterpret_cast<const char* (*)(int)>(dlsym(library, "cublasLtGetStatusName"));
#define X(name, params) \
  if (lt.name == nullptr) return absl::FailedPreconditionError("no cuBLASLt: the library has no " #name);
  CINN_CUBLASLT_FUNCTIONS(X)
#undef X
  if (lt.cublasLtGetStatusName == nullptr) return absl::FailedPreconditionError("no cuBLASLt: no status names");
  return lt;
}

StatusOr<const Lt*> GetLt() {
  static const StatusOr<Lt> lt = OpenLt();
  if (!lt.ok()) return lt.status();
  return &*lt;
}

struct Sizes {
  int64_t m, n, k, batch, lda, ldb, ldd, stride_a, stride_b, stride_d;
  auto operator<=>(const Sizes&) const = default;
};

struct Key {
  int64_t spec;
  Sizes sizes;
  std::array<uint32_t, 3> alignment;  // of a, b, d
  int device;
  auto operator<=>(const Key&) const = default;
};

// Ready to launch; the bias pointer is part of the descriptor, so one thread launches a plan at a time.
struct Plan {
  explicit Plan(const Lt& l) : lt(l) {}
  ~Plan() {
    if (desc != nullptr) lt.cublasLtMatmulDescDestroy(desc);
    for (Layout layout : {a, b, d}) {
      if (layout != nullptr) lt.cublasLtMatrixLayoutDestroy(layout);
    }
    if (preference != nullptr) lt.cublasLtMatmulPreferenceDestroy(preference);
  }
  const Lt& lt;
  std::mutex mutex;
  Handle handle = nullptr;
  Desc desc = nullptr;
  Layout a = nullptr, b = nullptr, d = nullptr;
  Preference preference = nullptr;
  Heuristic chosen{};
};

int CudaType(DType t) {
  return t == DType::kF16 ? kR16F : t == DType::kBF16 ? kR16BF : t == DType::kF64 ? kR64F : kR32F;
}

uint32_t AlignmentOf(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

StatusOr<Handle> HandleOf(const Lt& lt, int device) {
  static std::mutex mutex;
  static std::map<int, Handle> handles;  // live as long as the process, as the primary contexts do
  const std::lock_guard lock(mutex);
  Handle& handle = handles[device];
  if (handle == nullptr) RETURN_IF_ERROR(lt.Check(lt.cublasLtCreate(&handle), "cublasLtCreate"));
  return handle;
}

// cuBLASLt is column-major, where our row-major matrices are their transposes: d^T = op(b)^T op(a)^T.
StatusOr<std::shared_ptr<Plan>> MakePlan(const Lt& lt, const Key& key, const MatmulSpec& spec, const void* bias) {
  auto plan = std::make_shared<Plan>(lt);
  ASSIGN_OR_RETURN(plan->handle, HandleOf(lt, key.device));
  const Sizes& s = key.sizes;
  const int type = CudaType(spec.dtype), result_type = CudaType(spec.result);
  const int compute = spec.dtype == DType::kF64                      ? kCompute64F
                      : spec.dtype == DType::kF32 && spec.allow_tf32 ? kCompute32FTf32
                                                                     : kCompute32F;
  RETURN_IF_ERROR(lt.Check(lt.cublasLtMatmulDescCreate(&plan->desc, compute, compute == kCompute64F ? kR64F : kR32F),
                           "cublasLtMatmulDescCreate"));
  const auto set = [&](int attribute, const auto& value) {
    return lt.Check(lt.cublasLtMatmulDescSetAttribute(plan->desc, attribute, &value, sizeof(value)),
                    "cublasLtMatmulDescSetAttribute");
  };
  const int32_t first_transposed = spec.transpose_b, second_transposed = spec.transpose_a;
  RETURN_IF_ERROR(set(kDescTransA, first_transposed));
  RETURN_IF_ERROR(set(kDescTransB, second_transposed));
  const uint32_t activation = spec.epilogue == MatmulEpilogue::kRelu   ? kEpilogueRelu
                              : spec.epilogue == MatmulEpilogue::kGelu ? kEpilogueGelu
                                                                       : 0;
  const uint32_t epilogue = activation | (spec.bias ? kEpilogueBias : 0);
  RETURN_IF_ERROR(set(kDescEpilogue, epilogue == 0 ? uint32_t{kEpilogueDefault} : epilogue));
  if (spec.bias) RETURN_IF_ERROR(set(kDescBiasPointer, bias));
  const auto layout = [&](Layout* out, int type, int64_t rows, int64_t columns, int64_t leading,
                          int64_t stride) -> Status {
    RETURN_IF_ERROR(
        lt.Check(lt.cublasLtMatrixLayoutCreate(out, type, rows, columns, leading), "cublasLtMatrixLayoutCreate"));
    const auto batch = static_cast<int32_t>(s.batch);
    RETURN_IF_ERROR(lt.Check(lt.cublasLtMatrixLayoutSetAttribute(*out, kLayoutBatchCount, &batch, sizeof(batch)),
                             "cublasLtMatrixLayoutSetAttribute"));
    return lt.Check(lt.cublasLtMatrixLayoutSetAttribute(*out, kLayoutBatchStride, &stride, sizeof(stride)),
                    "cublasLtMatrixLayoutSetAttribute");
  };
  RETURN_IF_ERROR(
      layout(&plan->a, type, spec.transpose_a ? s.m : s.k, spec.transpose_a ? s.k : s.m, s.lda, s.stride_a));
  RETURN_IF_ERROR(
      layout(&plan->b, type, spec.transpose_b ? s.k : s.n, spec.transpose_b ? s.n : s.k, s.ldb, s.stride_b));
  RETURN_IF_ERROR(layout(&plan->d, result_type, s.n, s.m, s.ldd, s.stride_d));
  RETURN_IF_ERROR(lt.Check(lt.cublasLtMatmulPreferenceCreate(&plan->preference), "cublasLtMatmulPreferenceCreate"));
  const auto prefer = [&](int attribute, const auto& value) {
    return lt.Check(lt.cublasLtMatmulPreferenceSetAttribute(plan->preference, attribute, &value, sizeof(value)),
                    "cublasLtMatmulPreferenceSetAttribute");
  };
  RETURN_IF_ERROR(prefer(kPrefWorkspace, kMaxWorkspace));
  RETURN_IF_ERROR(prefer(kPrefReductionScheme, uint32_t{kReduceInComputeType}));
  RETURN_IF_ERROR(prefer(kPrefAlignA, key.alignment[1]));
  RETURN_IF_ERROR(prefer(kPrefAlignB, key.alignment[0]));
  RETURN_IF_ERROR(prefer(kPrefAlignC, key.alignment[2]));
  RETURN_IF_ERROR(prefer(kPrefAlignD, key.alignment[2]));
  int found = 0;
  RETURN_IF_ERROR(lt.Check(lt.cublasLtMatmulAlgoGetHeuristic(plan->handle, plan->desc, plan->b, plan->a, plan->d,
                                                             plan->d, plan->preference, 1, &plan->chosen, &found),
                           "cublasLtMatmulAlgoGetHeuristic"));
  if (found == 0) return Unimplemented("cuBLASLt has no algorithm for it");
  RETURN_IF_ERROR(lt.Check(plan->chosen.status, "cublasLtMatmulAlgoGetHeuristic"));
  return plan;
}

StatusOr<std::shared_ptr<Plan>> GetPlan(const Lt& lt, const Key& key, const MatmulSpec& spec, const void* bias) {
  static std::mutex mutex;
  static auto* plans = new std::map<Key, std::shared_ptr<Plan>>;
  {
    const std::lock_guard lock(mutex);
    if (const auto at = plans->find(key); at != plans->end()) return at->second;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan, MakePlan(lt, key, spec, bias));
  const std::lock_guard lock(mutex);
  if (plans->size() >= kMaxPlans) plans->clear();  // shapes without end: start over rather than grow
  return plans->try_emplace(key, std::move(plan)).first->second;
}

Status Matmul(int64_t bits, const void* a, const void* b, const void* bias, void* d, const Sizes& s,
              const CinnCallEnv& env) {
  ASSIGN_OR_RETURN(const MatmulSpec spec, MatmulSpec::Decode(bits));
  if (s.m < 0 || s.n < 0 || s.batch < 0 || s.batch > INT32_MAX) return InvalidArgument("a size is out of range");
  if (s.m == 0 || s.n == 0 || s.batch == 0) return absl::OkStatus();
  if (s.k < 1) return InvalidArgument("k = ", s.k, " is not positive");
  if (spec.bias && bias == nullptr) return InvalidArgument("the bias is null");
  ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::GetDriver());
  ASSIGN_OR_RETURN(const cuda::Context context, cuda::PrimaryContext(*driver, env.device.device_id));
  const cuda::ContextScope scope(*driver, context);
  RETURN_IF_ERROR(scope.status());
  ASSIGN_OR_RETURN(const Lt* lt, GetLt());
  const Key key{bits, s, {AlignmentOf(a), AlignmentOf(b), AlignmentOf(d)}, env.device.device_id};
  ASSIGN_OR_RETURN(const std::shared_ptr<Plan> plan, GetPlan(*lt, key, spec, bias));
  const auto workspace_bytes = static_cast<int64_t>(plan->chosen.workspace_bytes);
  void* workspace = nullptr;
  if (workspace_bytes > 0) {
    workspace = cinn_alloc_workspace(&cinn_device_cuda, &env, workspace_bytes);
    if (workspace == nullptr) return absl::ResourceExhaustedError(LastError());
  }
  const float one = 1, zero = 0;
  const double one64 = 1, zero64 = 0;
  const bool is_f64 = spec.dtype == DType::kF64;
  const void* alpha = is_f64 ? static_cast<const void*>(&one64) : &one;
  const void* beta = is_f64 ? static_cast<const void*>(&zero64) : &zero;
  int status = 0;
  {
    const std::lock_guard lock(plan->mutex);
    if (spec.bias) status = lt->cublasLtMatmulDescSetAttribute(plan->desc, kDescBiasPointer, &bias, sizeof(bias));
    if (status == 0) {
      status = lt->cublasLtMatmul(plan->handle, plan->desc, alpha, b, plan->b, a, plan->a, beta, d, plan->d, d, plan->d,
                                  &plan->chosen.algo, workspace, plan->chosen.workspace_bytes,
                                  static_cast<cuda::Stream>(env.stream));
    }
  }
  cinn_free_workspace(&cinn_device_cuda, &env, workspace);
  return lt->Check(status, "cublasLtMatmul");
}

}  // namespace

}  // namespace cinn_like

extern "C" int32_t cinn_cublaslt_matmul(int64_t spec, const void* a, const void* b, const void* bias, void* d,
                                        int64_t m, int64_t n, int64_t k, int64_t batch, int64_t lda, int64_t ldb,
                                        int64_t ldd, int64_t stride_a, int64_t stride_b, int64_t stride_d,
                                        const CinnCallEnv* env) {
  using namespace cinn_like;
  const TimelineSpan span("cublaslt matmul");
  const Sizes sizes{m, n, k, batch, lda, ldb, ldd, stride_a, stride_b, stride_d};
  const Status status = Matmul(spec, a, b, bias, d, sizes, *env);
  if (status.ok()) [[likely]]
    return 0;
  return SetLastError(
      Annotate(status, Cat("cublaslt matmul [", batch, ",", m, ",", k, "]x[", batch, ",", k, ",", n, "]")));
}
