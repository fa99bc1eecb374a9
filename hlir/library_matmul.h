// Which groups of stages one call of a matrix library computes, whatever ops they came from: read from access maps.
//
//   d[b, m, n] = epilogue(sum over k of lhs[b, m, k] * rhs[b, k, n] + bias[n])
//
// where each of b, m, n, k is any number of iterators that move through every tensor as one does, each operand is
// contiguous along one of its two dimensions (so transposed views and heads inside of rows are read in place), and the
// result is written along n. An epilogue is a bias along n, the tanh approximation of gelu or relu, both, or nothing;
// in exact numerics only what rounds where the library does: a sum and a relu in the precision of the sums, one
// rounding.
#pragma once
#include <optional>

#include "cinn_like/base/matmul_spec.h"
#include "ir/te.h"

namespace cinn_like::hlir {

struct LibraryMatmul {
  MatmulSpec spec;
  ir::Expr a = nullptr, b = nullptr, d = nullptr;  // addresses
  ir::Expr bias = nullptr;                         // address, or null
  ir::Expr m = nullptr, n = nullptr, k = nullptr, batch = nullptr;
  ir::Expr lda = nullptr, ldb = nullptr, ldd = nullptr;                 // between rows as stored, in elements
  ir::Expr stride_a = nullptr, stride_b = nullptr, stride_d = nullptr;  // of the batch
};

// `group`: a contraction, or a contraction and a pointwise stage that reads it.
std::optional<LibraryMatmul> FindLibraryMatmul(const ir::TeProgram& group);

}  // namespace cinn_like::hlir
