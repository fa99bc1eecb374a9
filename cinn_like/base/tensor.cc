#include "cinn_like/base/tensor.h"

#include <algorithm>

#include "cinn_like/base/dtype.h"
#include "cinn_like/base/status.h"

namespace cinn_like {
namespace {
std::string Numbers(const int64_t* values, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += Cat(i == 0 ? "" : ",", values[i]);
  return text + "]";
}
}  // namespace

int64_t NumElements(const DLTensor& t) {
  const int64_t *begin = t.shape, *end = t.shape + t.ndim;
  if (std::any_of(begin, end, [](int64_t d) { return d < 0; })) return -1;
  if (std::find(begin, end, 0) != end) return 0;
  int64_t count = 1;
  for (const int64_t* d = begin; d != end; ++d) {
    if (__builtin_mul_overflow(count, *d, &count)) return -1;
  }
  return count;
}

int64_t NumBytes(const DLTensor& t) {
  int64_t count = NumElements(t);
  const int64_t bytes = (static_cast<int64_t>(t.dtype.bits) * t.dtype.lanes + 7) / 8;
  if (count < 0 || __builtin_mul_overflow(count, bytes, &count)) return -1;
  return count;
}

int64_t SpanBytes(const DLTensor& t) {
  const int64_t elements = NumElements(t), bytes = NumBytes(t);
  if (elements <= 0 || bytes < 0 || t.strides == nullptr) return bytes;
  int64_t count = 1;
  for (int32_t d = 0; d < t.ndim; ++d) {
    int64_t step = 0;
    if (t.strides[d] < 0 || __builtin_mul_overflow(t.shape[d] - 1, t.strides[d], &step) ||
        __builtin_add_overflow(count, step, &count)) {
      return -1;
    }
  }
  return __builtin_mul_overflow(count, bytes / elements, &count) ? -1 : count;
}

bool IsContiguous(const DLTensor& t) {
  if (t.strides == nullptr || NumElements(t) == 0) return true;
  uint64_t expected = 1;  // unsigned: a shape that overflows is not our question here
  for (int i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] != 1 && static_cast<uint64_t>(t.strides[i]) != expected) return false;
    expected *= static_cast<uint64_t>(t.shape[i]);
  }
  return true;
}

std::string Describe(DLDevice device) {
  std::string name;
  switch (device.device_type) {
    case kDLCPU:
      return "cpu";
    case kDLCUDA:
      name = "cuda";
      break;
    case kDLCUDAHost:
      return "cuda_host";
    case kDLCUDAManaged:
      name = "cuda_managed";
      break;
    case kDLOpenCL:
      name = "opencl";
      break;
    case kDLROCM:
      name = "hip";
      break;
    case kDLMetal:
      name = "metal";
      break;
    case kDLROCMHost:
      return "hip_host";
    default:
      name = Cat("dlpack_device_", static_cast<int>(device.device_type));
  }
  return Cat(name, ":", device.device_id);
}

std::string Describe(DLDataType dtype) {
  const std::optional<DType> known = FromDLPack(dtype.code, dtype.bits);
  if (known && dtype.lanes == 1) return std::string(Name(*known));
  return Cat("dlpack(code ", static_cast<int>(dtype.code), ", ", static_cast<int>(dtype.bits), " bits, ",
             static_cast<int>(dtype.lanes), " lanes)");
}

std::string Describe(const DLTensor& t) {
  // No framework has such ranks: there is nothing to read behind `shape`.
  if (t.ndim < 0 || t.ndim > 64) return Cat(Describe(t.dtype), "[rank ", t.ndim, "] on ", Describe(t.device));
  std::string text = Describe(t.dtype) + Numbers(t.shape, t.ndim);
  if (!IsContiguous(t)) text += " strides " + Numbers(t.strides, t.ndim);
  return Cat(text, " on ", Describe(t.device));
}

}  // namespace cinn_like
