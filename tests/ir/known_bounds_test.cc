#include "ir/known_bounds.h"

#include <gtest/gtest.h>

namespace cinn_like::ir {
namespace {

// Of a function that stores `value` to y[vi] for vi in 0..n.
std::string Unknown(const std::string& value) {
  const StatusOr<Func> f =
      ParseFunc(Cat("func @f(x: f32[n, 8], w: f32[8], at: i32[n], far: i64[n], y: f32[n] out) where n in 1..4096 {\n"
                    "  for i in 0..n { block b(vi in 0..n = i) { y[vi] = ",
                    value, " } }\n}\n"));
  EXPECT_TRUE(f.ok()) << f.status();
  return f.ok() ? FindUnknownAccess(*f) : "no function";
}

TEST(KnownBounds, WhatIsInside) {
  for (const char* value : {
           "x[vi, 7]",
           "w[vi % 8] + x[n - 1 - vi, vi / 512]",
           "x[vi + 1, 0; vi < n - 1]",
           "w[i64(at[vi]); 0 <= i64(at[vi]) && i64(at[vi]) < 8]",
           "x[max(min(i64(at[vi]), n - 1), 0), 3]",
           "w[i64(max(min(at[vi], i32(7)), i32(0)))]",
           "w[i64(at[vi]) * 2 + 1; 0 <= i64(at[vi]) && i64(at[vi]) * 2 < 7]",
           "w[far[vi]; 0 <= far[vi] && far[vi] < 8]",
           "w[select(i64(at[vi]) < 8 && 0 <= i64(at[vi]), i64(at[vi]), 3)]",
       }) {
    EXPECT_EQ(Unknown(value), "") << value;
  }
}

TEST(KnownBounds, WhatIsNotKnownToBe) {
  EXPECT_EQ(Unknown("x[vi + 1, 0]"), "block b reads x[vi + 1, 0], not known to be within 0..n in dimension 0");
  EXPECT_EQ(Unknown("x[vi, 8]"), "block b reads x[vi, 8], not known to be within 0..8 in dimension 1");
  EXPECT_EQ(Unknown("w[i64(at[vi])]"), "block b reads w[i64(at[vi])], not known to be within 0..8");
  EXPECT_EQ(Unknown("w[min(i64(at[vi]), 7)]"), "block b reads w[min(i64(at[vi]), 7)], not known to be within 0..8");
  // The sum may wrap where the condition's does.
  EXPECT_EQ(Unknown("w[far[vi] + 1; 0 <= far[vi] && far[vi] + 1 < 8]"),
            "block b reads w[far[vi] + 1; 0 <= far[vi] && far[vi] + 1 < 8], not known to be within 0..8");
  EXPECT_EQ(Unknown("w[vi; vi < 9]"), "block b reads w[vi; vi < 9], not known to be within 0..8");
  EXPECT_EQ(Unknown("select(vi < 8, w[vi], 0.0)"), "block b reads w[vi], not known to be within 0..8");
}

TEST(KnownBounds, StoresLoopsAndConditions) {
  const auto of = [](const std::string& body) {
    const StatusOr<Func> f = ParseFunc("func @f(y: f32[n] out) where n in 1..4096 {\n" + body + "\n}\n");
    EXPECT_TRUE(f.ok()) << f.status();
    return f.ok() ? FindUnknownAccess(*f) : "no function";
  };
  EXPECT_EQ(of("for i in 0..n { y[i] = 0.0 }"), "");
  EXPECT_EQ(of("for i in 0..n { if i < n - 1 { y[i + 1] = 0.0 } else { y[0] = 1.0 } }"), "");
  EXPECT_EQ(of("for i in 0..n + 1 { y[i] = 0.0 }"), "it writes y[i], not known to be within 0..n");
}

}  // namespace
}  // namespace cinn_like::ir
