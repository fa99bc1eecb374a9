#include "runtime/bind_args.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cinn_like/base/int_math.h"
#include "cinn_like/base/tensor.h"
#include "runtime/arg_spec.h"
#include "runtime/arg_spec_format.h"
#include "runtime/device_api.h"
#include "runtime/last_error.h"
#include "runtime/prepared_state.h"
#include "runtime/workspace.h"

namespace cinn_like {
namespace {

using namespace arg_spec_format;

enum class Wrong : uint8_t {
  kNone,
  kEnv,
  kDevice,
  kCount,
  kTag,
  kNullTensor,
  kDType,
  kRank,
  kDim,
  kRange,
  kDivisor,
  kStride,
  kAlignment,
  kTensorDevice,
  kNullData,
  kNoMemory,
  kNegative,
  kUnprepared,
  kPreparedDevice,
  kNoAllocator,
  kAllocFailed,
  kTooLarge,
  kOverlap,
};

// What the fast path found; the text is made elsewhere.
struct Failure {
  Wrong wrong = Wrong::kNone;
  int64_t entry = -1;     // of the spec; where only `position` is known: -1
  int64_t position = -1;  // among the call's arguments
  int64_t dim = -1;
  int64_t expected = 0, got = 0;
};

struct Call {
  Words header;
  const RuntimeDevice& device;
  const CinnValue* args;
  int32_t num_args;
  const CinnCallEnv* env;
  const PreparedState* self;
  void** pointers;
  int64_t* symbols;
  Failure failure;
  int64_t copied_bytes = 0;  // of inputs that are aligned worse than the code needs

  bool Fail(Wrong wrong, int64_t dim = -1, int64_t expected = 0, int64_t got = 0) {
    failure.wrong = wrong;
    failure.dim = dim;
    failure.expected = expected;
    failure.got = got;
    return false;
  }
};

// A quotient by 0 is 0, which no tensor relation that was checked at compile time contains.
int64_t EvalProgram(Words program, const int64_t* symbols) {
  uint64_t stack[kMaxRank];  // unsigned: overflow wraps
  int top = -1;
  for (int64_t i = 1; i <= program[0]; ++i) {
    const int64_t value = program[i] >> 3;
    const auto op = static_cast<DimOp>(program[i] & 7);
    if (op == DimOp::kConst || op == DimOp::kSymbol) {
      stack[++top] = op == DimOp::kConst ? value : symbols[value];
      continue;
    }
    const uint64_t b = stack[top--];
    uint64_t& a = stack[top];
    switch (op) {
      case DimOp::kAdd:
        a += b;
        break;
      case DimOp::kSub:
        a -= b;
        break;
      case DimOp::kMul:
        a *= b;
        break;
      case DimOp::kFloorDiv:
        a = FloorDiv(static_cast<int64_t>(a), static_cast<int64_t>(b));
        break;
      default:
        a = FloorMod(static_cast<int64_t>(a), static_cast<int64_t>(b));
        break;
    }
  }
  return static_cast<int64_t>(stack[0]);
}

inline int64_t EvalDim(const Call& call, int64_t word) {
  const int64_t value = word >> 2;
  if ((word & 3) == kConstDim) return value;
  if ((word & 3) == kSymbolDim) return call.symbols[value];
  return EvalProgram(call.header.At(value), call.symbols);
}

// Whether code for the call's device can use the memory of `tensor`'s. All host memory is one.
bool OnDevice(DLDevice tensor, const Call& call) {
  const RuntimeDevice& d = call.device;
  if (tensor.device_type != d.type && tensor.device_type != d.also) return false;
  return d.type == kDLCPU || tensor.device_id == call.env->device.device_id;
}

bool BindSymbols(Call& call) {
  Words at = call.header.Skip(kHeaderWords);
  const int64_t count = call.header[kNumSymbols];
  for (int64_t s = 0; s < count; ++s, at = at.Skip(kSymbolWords)) {
    call.failure.position = at[kSourceArg];
    const CinnValue& value = call.args[at[kSourceArg]];
    const int64_t dim = at[kSourceDim];
    int64_t n;
    if (dim < 0) {
      if (value.tag != kCinnInt) return call.Fail(Wrong::kTag);
      n = value.i;
    } else {
      if (value.tag != kCinnTensor) return call.Fail(Wrong::kTag);
      if (value.tensor == nullptr) return call.Fail(Wrong::kNullTensor);
      if (value.tensor->ndim <= dim || value.tensor->shape == nullptr) return call.Fail(Wrong::kRank);
      n = value.tensor->shape[dim];
    }
    call.symbols[s] = n;
    if (n < at[kMin] || n > at[kMax]) return call.Fail(Wrong::kRange, dim, s, n);
    if (at[kDivisor] != 1 && n % at[kDivisor] != 0) return call.Fail(Wrong::kDivisor, dim, s, n);
  }
  return true;
}

void* AddressOf(const Call& call, const DLTensor& t) {
  if (t.data == nullptr) return nullptr;
  return call.device.address == nullptr ? DataOf(t) : call.device.address(t);
}

bool IsAligned(const Words& entry, const void* data) {
  return (reinterpret_cast<uintptr_t>(data) & (entry[kAlignment] - 1)) == 0;
}

// Of memory, from a tensor's first element to its last, in multiples of what any entry is aligned to.
int64_t SpanBytes(const Words& entry, const DLTensor& t) {
  int64_t last = 0, compact = 1;
  for (int32_t d = t.ndim; d-- > 0;) {
    last += (t.shape[d] - 1) * (t.strides != nullptr ? t.strides[d] : compact);
    compact *= t.shape[d];
  }
  return (last + 1) * (((entry[kDType] >> 8) + 7) / 8);
}
int64_t CopyBytes(const Words& entry, const DLTensor& t) {
  constexpr int64_t kUnit = 256;
  return (SpanBytes(entry, t) + kUnit - 1) / kUnit * kUnit;
}

bool CheckPointer(Call& call, const Words& entry, void* data, bool empty, void** out) {
  *out = data;
  if (empty) return true;
  if (data == nullptr) return call.Fail(Wrong::kNullData);
  if (!IsAligned(entry, data)) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    const int64_t alignment = entry[kAlignment];
    return call.Fail(Wrong::kAlignment, -1, alignment, static_cast<int64_t>(address & (~address + 1)));
  }
  return true;
}

bool CheckTensor(Call& call, const Words& entry, const CinnValue& value, void** out) {
  if (value.tag != kCinnTensor) return call.Fail(Wrong::kTag);
  const DLTensor* t = value.tensor;
  if (t == nullptr) return call.Fail(Wrong::kNullTensor);
  const int64_t dtype = entry[kDType];
  if ((t->dtype.code | t->dtype.bits << 8) != dtype || t->dtype.lanes != 1) return call.Fail(Wrong::kDType);
  const int64_t rank = entry[kRank];
  if (t->ndim != rank || (rank != 0 && t->shape == nullptr)) return call.Fail(Wrong::kRank, -1, rank, t->ndim);
  bool empty = false;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t expected = EvalDim(call, entry[kDims + d]);
    if (t->shape[d] != expected) return call.Fail(Wrong::kDim, d, expected, t->shape[d]);
    empty |= expected == 0;
  }
  if (!OnDevice(t->device, call)) return call.Fail(Wrong::kTensorDevice);
  const bool strided = entry[kStrided] != 0;
  if (!empty && (strided || t->strides != nullptr)) {
    uint64_t compact = 1;
    for (int64_t d = rank - 1; d >= 0; --d) {
      const int64_t expected = strided ? EvalDim(call, entry[kDims + rank + d]) : static_cast<int64_t>(compact);
      const int64_t stride = t->strides != nullptr ? t->strides[d] : static_cast<int64_t>(compact);
      if (t->shape[d] != 1 && stride != expected) return call.Fail(Wrong::kStride, d, expected, stride);
      compact *= static_cast<uint64_t>(t->shape[d]);
    }
  }
  void* data = AddressOf(call, *t);
  if (data == nullptr && t->data != nullptr) return call.Fail(Wrong::kNoMemory);
  if (!empty && data != nullptr && static_cast<ArgRole>(entry[kRole]) == ArgRole::kInput && !IsAligned(entry, data)) {
    call.copied_bytes += CopyBytes(entry, *t);
    *out = data;
    return true;
  }
  return CheckPointer(call, entry, data, empty, out);
}

bool AllocResult(Call& call, const Words& entry, void** out) {
  if (call.env->alloc == nullptr) return call.Fail(Wrong::kNoAllocator);
  const int64_t rank = entry[kRank];
  const bool strided = entry[kStrided] != 0;
  int64_t shape[kMaxRank], strides[kMaxRank];
  for (int64_t d = 0; d < rank; ++d) {
    shape[d] = EvalDim(call, entry[kDims + d]);
    if (shape[d] < 0) return call.Fail(Wrong::kNegative, d, 0, shape[d]);
  }
  int64_t compact = 1;
  for (int64_t d = rank - 1; d >= 0; --d) {
    strides[d] = strided ? EvalDim(call, entry[kDims + rank + d]) : compact;
    if (__builtin_mul_overflow(compact, shape[d] == 0 ? 1 : shape[d], &compact)) return call.Fail(Wrong::kTooLarge);
  }
  const int64_t dtype = entry[kDType];
  DLTensor t{};
  t.device = call.env->device;
  t.dtype = {static_cast<uint8_t>(dtype & 255), static_cast<uint8_t>(dtype >> 8), 1};
  t.ndim = static_cast<int32_t>(rank);
  t.shape = shape;
  t.strides = strides;
  const int64_t bytes = NumBytes(t);
  if (bytes < 0) return call.Fail(Wrong::kTooLarge);
  const int32_t code = call.env->alloc(call.env->context, static_cast<int32_t>(entry[kIndex]), &t);
  if (code != 0) return call.Fail(Wrong::kAllocFailed, -1, 0, code);
  return CheckPointer(call, entry, AddressOf(call, t), bytes == 0, out);
}

bool BindPrepared(Call& call, const Words& entry, void** out) {
  const int64_t slot = entry[kIndex];
  if (call.self == nullptr || !call.self->prepared() || slot >= call.self->num_slots()) {
    return call.Fail(Wrong::kUnprepared);
  }
  if (!OnDevice(call.self->device(), call)) return call.Fail(Wrong::kPreparedDevice);
  *out = call.self->data(static_cast<int>(slot));
  return true;
}

// Code reads inputs after it has begun to write results, and takes them for memory apart. What matters is from a
// tensor's first element to its last.
bool CheckOverlaps(Call& call) {
  const int64_t entries = call.header[kNumEntries];
  const Words first = call.header.Skip(kHeaderWords + kSymbolWords * call.header[kNumSymbols]);
  // The tensor of an entry that stands at `position` of the arguments; null where it has no memory of the caller's.
  const auto tensor = [&](const Words& entry, int64_t position) -> const DLTensor* {
    const auto role = static_cast<ArgRole>(entry[kRole]);
    if (role != ArgRole::kInput && role != ArgRole::kResult) return nullptr;
    const CinnValue& value = call.args[position];
    if (value.tag != kCinnTensor) return nullptr;
    const DLTensor* t = value.tensor;
    return std::find(t->shape, t->shape + t->ndim, 0) == t->shape + t->ndim ? t : nullptr;
  };
  Words result = first;
  int64_t position = -1;
  for (int64_t i = 0; i < entries; ++i, result = result.Skip(result[kSize])) {
    position += static_cast<ArgRole>(result[kRole]) != ArgRole::kPrepared;
    if (static_cast<ArgRole>(result[kRole]) != ArgRole::kResult) continue;
    const DLTensor* t = tensor(result, position);
    if (t == nullptr) continue;
    const char* begin = static_cast<const char*>(call.pointers[i]);
    const char* end = begin + SpanBytes(result, *t);
    Words other = first;
    int64_t at = -1;
    for (int64_t k = 0; k < i; ++k, other = other.Skip(other[kSize])) {
      at += static_cast<ArgRole>(other[kRole]) != ArgRole::kPrepared;
      const char* from = static_cast<const char*>(call.pointers[k]);
      if (from == nullptr || from >= end) continue;
      const DLTensor* x = tensor(other, at);
      if (x == nullptr || (from < begin && from + SpanBytes(other, *x) <= begin)) continue;
      call.failure.entry = i;
      call.failure.position = position;
      return call.Fail(Wrong::kOverlap, -1, 0, k);
    }
  }
  return true;
}

bool Bind(Call& call) {
  const Words& header = call.header;
  if (call.env == nullptr || call.env->size < sizeof(CinnCallEnv)) return call.Fail(Wrong::kEnv);
  if (call.env->device.device_type != header[kDeviceType]) return call.Fail(Wrong::kDevice);
  if (call.num_args != header[kNumArgs] || (call.args == nullptr && call.num_args != 0)) {
    return call.Fail(Wrong::kCount, -1, header[kNumArgs], call.num_args);
  }
  if (!BindSymbols(call)) return false;
  Words entry = header.Skip(kHeaderWords + kSymbolWords * header[kNumSymbols]);
  const int64_t entries = header[kNumEntries];
  call.failure.position = -1;
  bool has_given_results = false;
  for (int64_t i = 0; i < entries; ++i, entry = entry.Skip(entry[kSize])) {
    call.failure.entry = i;
    void** out = &call.pointers[i];
    const auto role = static_cast<ArgRole>(entry[kRole]);
    if (role == ArgRole::kPrepared) {
      if (!BindPrepared(call, entry, out)) return false;
      continue;
    }
    const CinnValue& value = call.args[++call.failure.position];
    if (role == ArgRole::kInput || (role == ArgRole::kResult && value.tag != kCinnNone)) {
      if (!CheckTensor(call, entry, value, out)) return false;
      has_given_results |= role == ArgRole::kResult;
    } else if (role == ArgRole::kResult) {
      if (!AllocResult(call, entry, out)) return false;
    } else {
      *out = nullptr;  // packed; an integer was read with the symbols
    }
  }
  return !has_given_results || CheckOverlaps(call);
}

// Inputs that are aligned worse than the code needs move to a workspace, in the order of the call's stream.
[[gnu::cold]] Status CopyMisaligned(Call& call, void** workspace) {
  *workspace = cinn_alloc_workspace(&call.device, call.env, call.copied_bytes);
  if (*workspace == nullptr) return absl::ResourceExhaustedError(LastError());
  const auto copy = [&]() -> Status {
    ASSIGN_OR_RETURN(DeviceApi * api, call.device.api());
    Words entry = call.header.Skip(kHeaderWords + kSymbolWords * call.header[kNumSymbols]);
    char* to = static_cast<char*>(*workspace);
    int64_t position = -1;
    for (int64_t i = 0; i < call.header[kNumEntries]; ++i, entry = entry.Skip(entry[kSize])) {
      const auto role = static_cast<ArgRole>(entry[kRole]);
      if (role != ArgRole::kPrepared) ++position;
      if (role != ArgRole::kInput || IsAligned(entry, call.pointers[i])) continue;
      const DLTensor& t = *call.args[position].tensor;
      if (std::find(t.shape, t.shape + t.ndim, 0) != t.shape + t.ndim) continue;
      RETURN_IF_ERROR(
          api->Copy(call.env->device.device_id, to, call.pointers[i], SpanBytes(entry, t), call.env->stream));
      call.pointers[i] = to;
      to += CopyBytes(entry, t);
    }
    return absl::OkStatus();
  };
  const Status status = copy();
  if (!status.ok()) cinn_free_workspace(&call.device, call.env, std::exchange(*workspace, nullptr));
  return status;
}

std::string TagName(int32_t tag) {
  switch (tag) {
    case kCinnNone:
      return "None";
    case kCinnInt:
      return "an integer";
    case kCinnBool:
      return "a bool";
    case kCinnFloat:
      return "a float";
    case kCinnPointer:
      return "a pointer";
    case kCinnTensor:
      return "a tensor";
    default:
      return Cat("a value of tag ", tag);
  }
}

// "expected n = 5" where the dimension is more than a number.
std::string Expected(const Dim& dim, const std::vector<SymbolSpec>& symbols, int64_t value) {
  const std::string text = Describe(dim, symbols);
  return text == Cat(value) ? text : Cat(text, " = ", value);
}

// The slow half: says in words what Bind has found.
[[gnu::cold]] Status Explain(const Call& call, std::string_view bytes) {
  ASSIGN_OR_RETURN(const ArgSpec spec, DecodeArgSpec(bytes));
  const Failure& f = call.failure;
  const std::string& fn = spec.function;
  switch (f.wrong) {
    case Wrong::kEnv:
      return InvalidArgument(fn, ": the call's environment is null or older than this library");
    case Wrong::kDevice:
      return InvalidArgument(fn, ": compiled for ", Describe(DLDevice{static_cast<DLDeviceType>(spec.device_type), 0}),
                             " devices, called on ", Describe(call.env->device));
    case Wrong::kCount: {
      std::string names;
      for (const ArgInfo& arg : spec.args) {
        if (arg.role != ArgRole::kPrepared) names += Cat(names.empty() ? "" : ", ", arg.name);
      }
      return InvalidArgument(fn, ": expected ", f.expected, " arguments (", names, "), got ",
                             call.args == nullptr ? "none" : Cat(f.got));
    }
    default:
      break;
  }
  const ArgInfo* arg = nullptr;
  int64_t position = -1;
  for (size_t i = 0; i < spec.args.size() && arg == nullptr; ++i) {
    if (spec.args[i].role != ArgRole::kPrepared) ++position;
    const bool found = f.entry >= 0 ? f.entry == static_cast<int64_t>(i)
                                    : position == f.position && spec.args[i].role != ArgRole::kPrepared;
    if (found) arg = &spec.args[i];
  }
  RET_CHECK(arg != nullptr, fn, ": no argument ", f.position);
  const std::string what = Cat(fn, ": ", arg->role == ArgRole::kResult ? "result" : "argument", " '", arg->name, "': ");
  const std::string type = DescribeType(*arg, spec.symbols);
  if (arg->role == ArgRole::kPrepared) {
    if (f.wrong == Wrong::kUnprepared) {
      return absl::FailedPreconditionError(Cat(fn, ": '", arg->name, "' is not prepared; call prepare first"));
    }
    return InvalidArgument(fn, ": prepared on ", Describe(call.self->device()), ", called on ",
                           Describe(call.env->device));
  }
  switch (f.wrong) {
    case Wrong::kNoAllocator:
      return InvalidArgument(what, "is None, and the call has no allocator");
    case Wrong::kAllocFailed:
      return absl::ResourceExhaustedError(Cat(what, "the caller's allocator failed with ", f.got, " for ", type));
    case Wrong::kTooLarge:
      return InvalidArgument(what, "the size of ", type, " does not fit in 64 bits");
    case Wrong::kOverlap: {
      const ArgInfo& other = spec.args[f.got];
      return InvalidArgument(what, "its memory overlaps that of ",
                             other.role == ArgRole::kResult ? "result" : "argument", " '", other.name, "'");
    }
    case Wrong::kNegative:
      return InvalidArgument(what, "dimension ", f.dim, " of ", type, " is ", f.got);
    case Wrong::kRange:
    case Wrong::kDivisor: {
      const SymbolSpec& s = spec.symbols[f.expected];
      const std::string where = f.dim < 0 ? "" : Cat("dimension ", f.dim, ": ");
      if (f.wrong == Wrong::kDivisor) {
        return InvalidArgument(what, where, s.name, " = ", f.got, " is not a multiple of ", s.divisor);
      }
      return InvalidArgument(what, where, s.name, " = ", f.got, " is outside ", s.min, "..", s.max);
    }
    default:
      break;
  }
  const CinnValue& value = call.args[f.position];
  if (value.tag != kCinnTensor && f.wrong == Wrong::kTag) {
    return InvalidArgument(what, "expected ", arg->role == ArgRole::kSymbol ? "an integer" : Cat("a tensor ", type),
                           ", got ", TagName(value.tag));
  }
  if (f.wrong == Wrong::kTag) return InvalidArgument(what, "expected an integer, got a tensor");
  if (f.wrong == Wrong::kNullTensor) return InvalidArgument(what, "expected ", type, ", got a null tensor");
  if (value.tag != kCinnTensor) {  // the caller's allocator gave it
    if (f.wrong == Wrong::kNullData) return InvalidArgument(what, "the caller's allocator gave null data");
    return InvalidArgument(what, "the caller's allocator gave data aligned to ", f.got, " bytes, expected ",
                           f.expected);
  }
  const DLTensor& t = *value.tensor;
  if (t.ndim != 0 && t.shape == nullptr) return InvalidArgument(what, "expected ", type, ", got a null shape");
  std::string detail;
  switch (f.wrong) {
    case Wrong::kDType:
      detail = Cat("dtype ", Describe(t.dtype), " is not ", Name(arg->dtype));
      break;
    case Wrong::kRank:
      detail = Cat("rank ", t.ndim, " is not ", arg->shape.size());
      break;
    case Wrong::kDim:
      detail =
          Cat("dimension ", f.dim, " is ", f.got, ", expected ", Expected(arg->shape[f.dim], spec.symbols, f.expected));
      break;
    case Wrong::kStride:
      detail = Cat("stride ", f.dim, " is ", f.got, ", expected ",
                   arg->strides.empty() ? Cat(f.expected, " (contiguous)")
                                        : Expected(arg->strides[f.dim], spec.symbols, f.expected));
      break;
    case Wrong::kAlignment:
      detail = Cat("data is aligned to ", f.got, " bytes, expected ", f.expected);
      break;
    case Wrong::kTensorDevice:
      detail = Cat("the call is on ", Describe(call.env->device));
      break;
    case Wrong::kNullData:
      detail = "data is null";
      break;
    case Wrong::kNoMemory:
      detail = "data is no memory object";
      break;
    default:
      return Internal(what, "failure ", static_cast<int>(f.wrong));
  }
  return InvalidArgument(what, "expected ", type, ", got ", Describe(t), ": ", detail);
}

}  // namespace
}  // namespace cinn_like

extern "C" int32_t cinn_bind_args(const cinn_like::RuntimeDevice* device, const char* spec, int64_t spec_size,
                                  void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env,
                                  void** pointers, int64_t* symbols) {
  using namespace cinn_like;
  Call call{Words(spec), *device, args, num_args, env, static_cast<const PreparedState*>(self), pointers, symbols, {}};
  void** workspace = &pointers[call.header[kNumEntries]];
  *workspace = nullptr;
  if (Bind(call)) [[likely]] {
    if (call.header[kNumSlots] != 0) {
      const Status ready = call.self->Await(env->stream);
      if (!ready.ok()) return SetLastError(ready);
    }
    if (call.copied_bytes == 0) [[likely]]
      return 0;
    return SetLastError(CopyMisaligned(call, workspace));
  }
  return SetLastError(Explain(call, {spec, static_cast<size_t>(spec_size)}));
}

extern "C" void cinn_release_argument(const CinnCallEnv* env, int32_t index) {
  if (env->release != nullptr) env->release(env->context, index);
}
