#include "cinn_like/base/tensor.h"

#include <gtest/gtest.h>

#include <vector>

namespace cinn_like {
namespace {

DLTensor Make(std::vector<int64_t>& shape, std::vector<int64_t>& strides) {
  DLTensor t{};
  t.device = {kDLCUDA, 1};
  t.dtype = {kDLFloat, 32, 1};
  t.ndim = static_cast<int>(shape.size());
  t.shape = shape.data();
  t.strides = strides.empty() ? nullptr : strides.data();
  return t;
}

struct Case {
  std::vector<int64_t> shape, strides;
  int64_t elements;
  bool contiguous;
  const char* text;
};

TEST(Tensor, Questions) {
  const int64_t big = int64_t{1} << 40;
  Case cases[] = {
      {{2, 3}, {}, 6, true, "f32[2,3] on cuda:1"},
      {{2, 3}, {3, 1}, 6, true, "f32[2,3] on cuda:1"},
      {{2, 3}, {1, 2}, 6, false, "f32[2,3] strides [1,2] on cuda:1"},
      {{2, 1, 3}, {3, 77, 1}, 6, true, "f32[2,1,3] on cuda:1"},
      {{0, 3}, {9, 9}, 0, true, "f32[0,3] on cuda:1"},
      {{}, {}, 1, true, "f32[] on cuda:1"},
      {{big, big}, {}, -1, true, "f32[1099511627776,1099511627776] on cuda:1"},
      {{big, big, 0}, {}, 0, true, "f32[1099511627776,1099511627776,0] on cuda:1"},
      {{3, -1}, {}, -1, true, "f32[3,-1] on cuda:1"},
  };
  for (Case& c : cases) {
    const DLTensor t = Make(c.shape, c.strides);
    EXPECT_EQ(NumElements(t), c.elements) << c.text;
    EXPECT_EQ(NumBytes(t), c.elements < 0 ? -1 : c.elements * 4) << c.text;
    EXPECT_EQ(IsContiguous(t), c.contiguous) << c.text;
    EXPECT_EQ(Describe(t), c.text);
  }
}

TEST(Tensor, Spans) {
  const auto span = [](std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return SpanBytes(Make(shape, strides));
  };
  EXPECT_EQ(span({2, 3}, {}), 24);
  EXPECT_EQ(span({2, 3}, {5, 1}), 32);
  EXPECT_EQ(span({2, 3}, {0, 1}), 12);
  EXPECT_EQ(span({0, 3}, {5, 1}), 0);
  EXPECT_EQ(span({2, 3}, {-3, 1}), -1);
  EXPECT_EQ(span({2, 3}, {INT64_MAX, 1}), -1);
}

TEST(Tensor, AbsurdRanksAreNotRead) {
  DLTensor t = {nullptr, {kDLCPU, 0}, -1, {kDLFloat, 32, 1}, nullptr, nullptr, 0};
  EXPECT_EQ(Describe(t), "f32[rank -1] on cpu");
  t.ndim = 1 << 30;
  EXPECT_EQ(Describe(t), "f32[rank 1073741824] on cpu");
}

TEST(Tensor, Names) {
  EXPECT_EQ(Describe(DLDevice{kDLCPU, 0}), "cpu");
  EXPECT_EQ(Describe(DLDevice{kDLCUDA, 3}), "cuda:3");
  EXPECT_EQ(Describe(DLDevice{static_cast<DLDeviceType>(12), 0}), "dlpack_device_12:0");
  EXPECT_EQ(Describe(DLDataType{kDLBfloat, 16, 1}), "bf16");
  EXPECT_EQ(Describe(DLDataType{kDLComplex, 64, 1}), "dlpack(code 5, 64 bits, 1 lanes)");
  EXPECT_EQ(Describe(DLDataType{kDLFloat, 32, 4}), "dlpack(code 2, 32 bits, 4 lanes)");
}

}  // namespace
}  // namespace cinn_like
