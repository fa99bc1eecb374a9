// The type of a graph value: element type and dimensions. A 0-d tensor is `f32[]`.
#pragma once
#include <string>

#include "cinn_like/base/dtype.h"
#include "hlir/dim.h"

namespace cinn_like::hlir {

struct TensorType {
  DType dtype = DType::kF32;
  Dims dims;

  int rank() const { return static_cast<int>(dims.size()); }
  std::string ToString() const { return Cat(Name(dtype), hlir::ToString(dims)); }
  friend bool operator==(const TensorType& a, const TensorType& b) { return a.dtype == b.dtype && a.dims == b.dims; }
};

}  // namespace cinn_like::hlir
