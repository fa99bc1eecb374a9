// What a matrix product by a library is, as far as it is known when compiling; travels to the runtime as one integer.
#pragma once
#include <cstdint>

#include "cinn_like/base/dtype.h"
#include "cinn_like/base/status.h"

namespace cinn_like {

enum class MatmulEpilogue : uint8_t { kNone, kRelu, kGelu };

struct MatmulSpec {
  DType dtype = DType::kF32;   // of a and b
  DType result = DType::kF32;  // of bias and d
  bool transpose_a = false;    // a is stored [k,m]
  bool transpose_b = false;    // b is stored [n,k]
  bool bias = false;
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;
  bool allow_tf32 = false;

  bool operator==(const MatmulSpec&) const = default;

  int64_t Encode() const;
  static StatusOr<MatmulSpec> Decode(int64_t bits);
};

}  // namespace cinn_like
