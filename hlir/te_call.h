// What the meaning of a primitive op is written with: its operands as buffers, its types and attributes, and the
// builder of tensor expressions.
//
//   def.lower = [](TeCall& call) -> std::vector<ir::Buffer> {
//     return {call.Compute([&](ir::Indices i) { return call.c.Make(ir::ExprOp::kNeg, {call.At(0, i)}); })};
//   };
//
// Floats of 16 bits are computed in f32 and stored rounded: Widened and Stored say so in one place.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hlir/op_registry.h"
#include "ir/te.h"

namespace cinn_like::hlir {

using SymbolVars = std::function<ir::Expr(const std::string&)>;

ir::Expr ToExpr(ir::Context& c, const SymbolVars& symbol, const Dim& d);
std::vector<ir::Expr> ToExprs(ir::Context& c, const SymbolVars& symbol, const Dims& dims);

struct TeCall {
  ir::Te& te;
  ir::Context& c;
  const std::string& name;
  const std::vector<ir::Buffer>& operands;
  const std::vector<TensorType>& operand_types;
  const std::vector<TensorType>& result_types;
  const Attrs& attrs;
  const SymbolTable& symbols;
  const SymbolVars& symbol;
  std::vector<ir::RangeCheck>& checks;

  ir::Expr ToExpr(const Dim& d) const { return hlir::ToExpr(c, symbol, d); }
  std::vector<ir::Expr> ToExprs(const Dims& dims) const { return hlir::ToExprs(c, symbol, dims); }

  // Element of operand `k`, as stored.
  ir::Expr At(size_t k, std::vector<ir::Expr> indices, ir::Expr mask = nullptr) const;
  // Element of operand `k` broadcast to result 0's shape, at the result's indices.
  ir::Expr AtBroadcast(size_t k, ir::Indices indices) const;

  // Result 0 element by element; the value is converted to its dtype.
  ir::Buffer Compute(const std::function<ir::Expr(ir::Indices)>& value) const;
  // Result `k` out of a stage that holds the same elements in a wider dtype; `wide` itself if the dtypes agree.
  ir::Buffer Stored(size_t k, ir::Buffer wide) const;
  // Result 0 as a reduction in the accumulating dtype, by default f32 of 16-bit floats. Over an empty extent it is the
  // neutral element.
  ir::Buffer Reduce(ir::Combiner combiner, const Dims& extents,
                    const std::function<ir::Expr(ir::Indices, ir::Indices)>& element,
                    std::optional<DType> accumulator = {}) const;

  // 0 <= e < extent.
  ir::Expr InRange(ir::Expr e, const Dim& extent) const;
};

// A 16-bit float as f32; anything else as it is.
ir::Expr Widened(ir::Context& c, ir::Expr e);
// `e` converted to `t` as op `cast` does: to bool by != 0.
ir::Expr Converted(ir::Context& c, DType t, ir::Expr e);
// The number of a kNumber attribute in dtype `t`.
ir::Expr ToConst(const TeCall& call, const Attr& number, DType t);

}  // namespace cinn_like::hlir
