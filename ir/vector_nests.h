// Nests that run as instructions of a CPU's vectors. Products of pairs of bf16, each lane summing its own (vdpbf16ps of
// AVX-512; where there is none, two fused multiplications a lane):
//
//   for l in 0..L @dot2_bf16 { for e in 0..2 {
//     acc[.. + l] = acc[.. + l] + f32(lhs[.. + l * 2 + e]) * f32(rhs[.. + e])
//
// Either operand's pairs lie next to each other, one for each lane, or are one for all. And copies of a matrix to where
// it lies transposed, in registers; elements are single ones, or runs of `e`:
//
//   for c in 0..C @transpose { for r in 0..R { [for e in 0..E]
//     dst[f(c) + r * E + e] = src[g(r) + c * E + e]
//
// `c` and `r` may change places. The loops are the meaning: what is no such nest any more when code is made of it, and
// what knows no such instructions, runs them. The instruction of bf16 adds a pair's second product first, rounds after
// each and takes denormals for 0 (docs/numerics.md).
#pragma once
#include "ir/analyzer.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

struct Dot2Nest {
  struct Operand {
    Buffer buffer = nullptr;
    Expr base = nullptr;      // of the first lane's pair
    bool is_for_all = false;  // one pair
  };
  int lanes = 0;
  Buffer acc = nullptr;
  Expr acc_base = nullptr;
  Operand lhs = {}, rhs = {};
};
struct TransposeNest {
  int columns = 0, rows = 0, unit = 1;  // C, R, E
  Buffer dst = nullptr, src = nullptr;
  Expr column = nullptr, row = nullptr;             // c, r
  Expr dst_offset = nullptr, src_offset = nullptr;  // of an element's first, in terms of these
};

// The nest of `loop`, in blocks (`a` then knows the loops around it) or lowered. InvalidArgument says what else was
// expected.
StatusOr<Dot2Nest> MatchDot2(Analyzer& a, const For& loop);
StatusOr<TransposeNest> MatchTranspose(Analyzer& a, const For& loop);

}  // namespace cinn_like::ir
