// Products by a warp's matrix unit. A loop of kind mma_m16n8k16 is a nest that each of a warp's 32 threads runs for its
// own sums; together these are a product of tiles, which the unit computes at once, fed from shared memory:
//
//   for g in 0..8 @threadIdx.y { for t in 0..4 @threadIdx.x {
//     for i in 0..I @mma_m16n8k16 { for j in 0..J { for h in 0..2 { for l in 0..2 { for k in 0..16 {
//       acc[..] = acc[..] + f32(lhs[i * 16 + h * 8 + g, k]) * f32(rhs[j * 8 + t * 2 + l, k])
//
// With I = 1 the nest begins at j. Four warps have one such nest, of kind wgmma_m64k16, where the matrix units work for
// them together: rows of 64, of which each warp has 16, and up to 256 columns.
//
//   for y in 0..32 @threadIdx.y { for t in 0..4 @threadIdx.x {
//     for i in 0..I @wgmma_m64k16 { for j in 0..J { for h in 0..2 { for l in 0..2 { for k in 0..16 {
//       acc[..] = acc[..] + f32(lhs[i * 64 + y / 8 * 16 + h * 8 + y % 8, k]) * f32(rhs[j * 8 + t * 2 + l, k])
//
// lhs and rhs are shared memory of one 16-bit float type, contiguous along k or along rows; acc is a thread's own. Of
// results thread (g, t) also has, as a left operand, elements k = 8 * .. + t * 2 + l of its rows: such memory can be
// the warp's own (Scope::kWarp), in registers. The loops are the meaning: what no matrix unit serves runs as they say.
// Sums are in another order than the loops'.
#pragma once
#include <vector>

#include "ir/stmt.h"

namespace cinn_like::ir {

// Elements of a panel's rows that those four warps' units read together: rows are of a multiple of them.
inline constexpr int64_t kPanelLine = 64;
// Rows of one that lie together.
inline constexpr int64_t kPanelRows = 8;

struct MmaNest {
  // Element (row, k) of the tile lies `row_step` * row + `k_step` * k elements after `base`; one of the steps is 1.
  struct Operand {
    Buffer buffer = nullptr;
    Expr base = nullptr;
    int64_t row_step = 0, k_step = 0;
  };
  int64_t m_tiles = 0, n_tiles = 0;  // of 16 (64) rows of lhs, of 8 rows of rhs
  Operand lhs, rhs;
  // acc at tiles (i, j) and (h, l) of a thread: elements after `acc_base`.
  Buffer acc = nullptr;
  Expr acc_base = nullptr;
  int64_t acc_i = 0, acc_j = 0, acc_h = 0, acc_l = 0;
};

// The offset of an element from the first. Before memory is flat its shape is not what it will be, but the order of its
// dimensions is: then these are far apart.
Expr MmaOffset(Context& c, const std::vector<Expr>& indices);

// `offset` with the thread `y` of four warps' as `warp` * 8 + `row`.
Expr InWarps(Context& c, Expr offset, Expr y, Expr warp, Expr row);

// The nest of `loop` as one of kind `kind`, in blocks or lowered; `around`: the loops around it. InvalidArgument says
// what else was expected.
StatusOr<MmaNest> MatchMma(Context& c, const For& loop, const std::vector<const For*>& around, ForKind kind);

}  // namespace cinn_like::ir
