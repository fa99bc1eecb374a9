#include "ir/host_array.h"

#include <cstring>
#include <utility>

#include "ir/scalar.h"

namespace cinn_like::ir {

HostArray::HostArray(DType t, std::vector<int64_t> dims) : dtype(t), shape(std::move(dims)) {
  int64_t n = BytesOf(t);
  for (int64_t d : shape) n *= d;
  bytes.resize(static_cast<size_t>(n));
  written.resize(static_cast<size_t>(n));
}
int64_t HostArray::GetInt(int64_t i) const { return LoadLane(dtype, bytes.data() + i * BytesOf(dtype)).i; }
double HostArray::Get(int64_t i) const {
  return IsFloat(dtype) ? LoadLane(dtype, bytes.data() + i * BytesOf(dtype)).f : static_cast<double>(GetInt(i));
}
void HostArray::SetInt(int64_t i, int64_t v) {
  StoreLane(dtype, bytes.data() + i * BytesOf(dtype), {v, 0});
  std::memset(written.data() + i * BytesOf(dtype), 1, static_cast<size_t>(BytesOf(dtype)));
}
void HostArray::Set(int64_t i, double v) {
  if (!IsFloat(dtype)) return SetInt(i, static_cast<int64_t>(v));
  StoreLane(dtype, bytes.data() + i * BytesOf(dtype), {0, v});
  std::memset(written.data() + i * BytesOf(dtype), 1, static_cast<size_t>(BytesOf(dtype)));
}

}  // namespace cinn_like::ir
