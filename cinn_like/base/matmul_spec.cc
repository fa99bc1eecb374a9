#include "cinn_like/base/matmul_spec.h"

namespace cinn_like {

int64_t MatmulSpec::Encode() const {
  return static_cast<int64_t>(dtype) | transpose_a << 8 | transpose_b << 9 | bias << 10 | allow_tf32 << 11 |
         static_cast<int64_t>(epilogue) << 12 | static_cast<int64_t>(result) << 16;
}

StatusOr<MatmulSpec> MatmulSpec::Decode(int64_t bits) {
  MatmulSpec s;
  s.dtype = static_cast<DType>(bits & 255);
  s.result = static_cast<DType>(bits >> 16 & 255);
  s.transpose_a = (bits >> 8 & 1) != 0;
  s.transpose_b = (bits >> 9 & 1) != 0;
  s.bias = (bits >> 10 & 1) != 0;
  s.allow_tf32 = (bits >> 11 & 1) != 0;
  s.epilogue = static_cast<MatmulEpilogue>(bits >> 12 & 3);
  const bool is_half = s.dtype == DType::kF16 || s.dtype == DType::kBF16;
  const bool dtypes_known = is_half ? s.result == s.dtype || s.result == DType::kF32
                                    : (s.dtype == DType::kF32 || s.dtype == DType::kF64) && s.result == s.dtype;
  if (!dtypes_known || s.epilogue > MatmulEpilogue::kGelu || s.Encode() != bits) {
    return InvalidArgument("no matmul spec: ", bits, "; dtypes are f32, f64, f16, bf16, and results may be f32");
  }
  return s;
}

}  // namespace cinn_like
