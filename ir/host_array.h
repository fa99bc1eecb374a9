// Tensors of tests and of the interpreter.
#pragma once
#include <cstdint>
#include <vector>

#include "cinn_like/base/dtype.h"

namespace cinn_like::ir {

// Row-major memory of a tensor, and which of it was written.
struct HostArray {
  HostArray(DType t, std::vector<int64_t> dims);
  int64_t NumElements() const { return static_cast<int64_t>(bytes.size()) / BytesOf(dtype); }
  double Get(int64_t i) const;  // 64-bit integers: use GetInt
  int64_t GetInt(int64_t i) const;
  void Set(int64_t i, double v);  // rounds to the dtype; marks the element written
  void SetInt(int64_t i, int64_t v);

  DType dtype;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> written;  // per byte
};

}  // namespace cinn_like::ir
