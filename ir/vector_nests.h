// Nests that run as instructions of a CPU's vectors. Sums of a few products, each lane its own: pairs of bf16 in f32
// (vdpbf16ps of AVX-512), fours of 8-bit integers in i32 (vpdpbusd, exact; of one factor u8 and one i8). Without these
// instructions each lane widens what it multiplies:
//
//   for l in 0..L @dot2_bf16 { for e in 0..2 {
//     acc[.. + l] = acc[.. + l] + f32(lhs[.. + l * 2 + e]) * f32(rhs[.. + e])
//   for l in 0..L @dot4_i8 { for e in 0..4 {
//     acc[.. + l] = acc[.. + l] + i32(lhs[.. + l * 4 + e]) [* i32(rhs[.. + e])]
//
// The same of a matrix unit's tiles (AMX), up to two of 16 rows by two of 16 columns, which stay in its registers over
// the steps `k`:
//
//   for k in 0..K @dot2_bf16 { for i in 0..R { for j in 0..C { for q in 0..16 { for e in 0..2 {
//     acc[.. + i * S + j] = acc[.. + i * S + j] + f32(lhs[.. + i * A + q * 2 + e]) * f32(rhs[.. + q * B + j * 2 + e])
//
// Either operand's elements of a lane lie next to each other, or are the same for all lanes; integers may have no
// second one. And copies of a matrix to where it lies transposed, in registers; elements are single ones, or runs of
// `e`:
//
//   for c in 0..C @transpose { for r in 0..R { [for e in 0..E]
//     dst[f(c) + r * E + e] = src[g(r) + c * E + e]
//
// `c` and `r` may change places. Extents are powers of 2; columns may be any number where rows of `src` follow each
// other without a gap (a kernel's taps, of each channel). The loops are the meaning: what is no such nest any more when
// code is made of it, and what knows no such instructions, runs them. The instruction of bf16 adds a pair's second
// product first, rounds after each and takes denormals for 0 (docs/numerics.md).
#pragma once
#include "ir/analyzer.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

struct DotNest {
  struct Operand {
    Buffer buffer = nullptr;  // null: it is 1
    Expr base = nullptr;      // of the first lane's elements
    bool is_for_all = false;  // the same in each lane
  };
  int lanes = 0, size = 0;  // of products that a lane sums
  Buffer acc = nullptr;
  Expr acc_base = nullptr;
  Operand lhs = {}, rhs = {};
};
struct TileNest {
  struct Matrix {
    Buffer buffer = nullptr;
    Expr base = nullptr;  // in terms of `step`
    int64_t stride = 0;   // elements from row to row
  };
  Expr step = nullptr, extent = nullptr;
  int rows = 0, columns = 0, groups = 0, size = 0;  // groups of so many products
  Matrix acc = {}, lhs = {}, rhs = {};
};
struct TransposeNest {
  int columns = 0, rows = 0, unit = 1;  // C, R, E
  Buffer dst = nullptr, src = nullptr;
  Expr column = nullptr, row = nullptr;             // c, r
  Expr dst_offset = nullptr, src_offset = nullptr;  // of an element's first, in terms of these
  bool is_dense = false;                            // runs of `dst` lie next to each other
  bool is_run = false;                              // `src` is one, of any number of columns
};

// The nest of `loop`, in blocks (`a` then knows the loops around it) or lowered. InvalidArgument says what else was
// expected of one of `kind`.
StatusOr<DotNest> MatchDot(Analyzer& a, const For& loop, ForKind kind);
StatusOr<TileNest> MatchTiles(Analyzer& a, const For& loop, ForKind kind);
// Whether a nest is deep enough to be one of tiles, and none of lanes.
bool IsOfTiles(const For& loop);
// Whether `init` sets all of the memory to zero in which `nest` has its sums, and nothing else is there.
bool StartsFromZero(Analyzer& a, const Stmt& init, const TileNest& nest);
StatusOr<TransposeNest> MatchTranspose(Analyzer& a, const For& loop);

}  // namespace cinn_like::ir
