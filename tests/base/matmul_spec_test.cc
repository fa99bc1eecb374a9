#include "cinn_like/base/matmul_spec.h"

#include <gtest/gtest.h>

namespace cinn_like {
namespace {

TEST(MatmulSpec, RoundTripsAndRejects) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (int bits = 0; bits < 32; ++bits) {
      for (const auto e : {MatmulEpilogue::kNone, MatmulEpilogue::kRelu, MatmulEpilogue::kGelu}) {
        MatmulSpec s;
        s.dtype = dtype;
        s.result = (bits & 16) != 0 && dtype != DType::kF64 ? DType::kF32 : dtype;
        s.transpose_a = (bits & 1) != 0;
        s.transpose_b = (bits & 2) != 0;
        s.bias = (bits & 4) != 0;
        s.epilogue = e;
        s.allow_tf32 = (bits & 8) != 0;
        const StatusOr<MatmulSpec> again = MatmulSpec::Decode(s.Encode());
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_EQ(*again, s);
      }
    }
  }
  for (const auto& [dtype, result] : {std::pair{DType::kI8, DType::kI8}, std::pair{DType::kF32, DType::kF16},
                                      std::pair{DType::kF16, DType::kBF16}, std::pair{DType::kF64, DType::kF32}}) {
    MatmulSpec s;
    s.dtype = dtype;
    s.result = result;
    EXPECT_EQ(Message(MatmulSpec::Decode(s.Encode()).status()),
              Cat("no matmul spec: ", s.Encode(), "; dtypes are f32, f64, f16, bf16, and results may be f32"));
  }
  EXPECT_FALSE(MatmulSpec::Decode(-1).ok());
}

}  // namespace
}  // namespace cinn_like
