// Graphs of sums over columns beside what goes through the rows.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "hlir/graph.h"

namespace cinn_like::hlir {

// A norm's gradients: of its input, scale and shift. D: a dtype, R: rows, C: columns, A, B: the axes of both.
inline constexpr char kNorm[] = R"(graph @norm(%dy: D[R,C], %x: D[R,C], %r: f32[R,1], %w: D[C])W {
  %0 = cast(%dy) {dtype=f32} : f32[R,C]
  %1 = cast(%x) {dtype=f32} : f32[R,C]
  %2 = cast(%w) {dtype=f32} : f32[C]
  %3 = mul(%1, %r) : f32[R,C]
  %4 = mul(%0, %2) : f32[R,C]
  %5 = mul(%4, %3) : f32[R,C]
  %6 = reduce_sum(%5) {axes=[A], keepdims=true} : f32[R,1]
  %7 = reduce_max(%4) {axes=[A], keepdims=true} : f32[R,1]
  %8 = mul(%3, %6) : f32[R,C]
  %9 = sub(%4, %8) : f32[R,C]
  %10 = add(%9, %7) : f32[R,C]
  %11 = mul(%0, %3) : f32[R,C]
  %12 = reduce_sum(%11) {axes=[B]} : f32[C]
  %13 = reduce_sum(%0) {axes=[B]} : f32[C]
  %14 = cast(%10) {dtype=D} : D[R,C]
  return %14, %12, %13, %6
}
)";
// A bias's gradient beside that of what it was added to.
inline constexpr char kBias[] = R"(graph @bias(%dy: D[R,C], %x: D[R,C])W {
  %0 = tanh(%x) : D[R,C]
  %1 = mul(%dy, %0) : D[R,C]
  %2 = cast(%1) {dtype=f32} : f32[R,C]
  %3 = reduce_sum(%2) {axes=[B]} : f32[C]
  return %1, %3
}
)";

// `rows`: one dimension or several, "n" for a symbol.
inline Graph ColumnSumsGraph(const char* text, const std::string& rows, const std::string& columns,
                             const std::string& dtype) {
  std::string axes = "0";
  int dims = 1;
  for (const char c : rows) {
    if (c == ',') axes += Cat(",", dims++);
  }
  const bool symbol = rows.find('n') != rows.npos;
  StatusOr<Graph> g = Parse(absl::StrReplaceAll(text, {{"[R,", Cat("[", rows, ",")},
                                                       {"C]", Cat(columns, "]")},
                                                       {"D", dtype},
                                                       {"[A]", Cat("[", dims, "]")},
                                                       {"[B]", Cat("[", axes, "]")},
                                                       {"W", symbol ? " where n in 1..4096 hint 1000" : ""}}));
  EXPECT_TRUE(g.ok()) << g.status();
  return *std::move(g);
}

}  // namespace cinn_like::hlir
