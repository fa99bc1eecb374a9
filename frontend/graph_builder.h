// Builds a graph from C++:
//
//   GraphBuilder b("mlp");
//   Dim n = b.Symbol("n", 1, 4096);
//   ValueRef x = b.Param("x", DType::kF32, {n, 256}), w = b.StaticParam("w", DType::kF32, {256, 512});
//   b.Return({b.Gelu(b.Matmul(x, w))});
//   StatusOr<hlir::Graph> graph = std::move(b).Build();
//
// One method per op, inherited from hlir::OpBuilder (Call reaches the caller's own ops). Errors are collected: every
// method may be called after one, and Build returns the first, naming op and attribute.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hlir/op_builder.h"

namespace cinn_like {

using hlir::Attrs;
using hlir::Dim;
using hlir::Dims;
using hlir::ValueRef;

class GraphBuilder : public hlir::OpBuilder {
 public:
  explicit GraphBuilder(std::string name, const hlir::OpRegistry& registry = hlir::OpRegistry::BuiltIn());
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // A symbol in lo..hi (inclusive), always a multiple of `divisor`, likely `hint` (0: not known). Its value comes from
  // the parameter dimension that is just this symbol, or from an argument of its own if `as_param`.
  Dim Symbol(std::string name, int64_t lo, int64_t hi, int64_t divisor = 1, bool as_param = false, int64_t hint = 0);
  // Contiguous unless strides (in elements) are given.
  ValueRef Param(std::string name, DType dtype, Dims shape, std::optional<Dims> strides = std::nullopt);
  // The same between calls: a weight.
  ValueRef StaticParam(std::string name, DType dtype, Dims shape, std::optional<Dims> strides = std::nullopt);
  void Return(const std::vector<ValueRef>& results);

  // The verified graph, or the first error. The builder is used up.
  StatusOr<hlir::Graph> Build() &&;

 private:
  ValueRef AddParam(std::string name, hlir::TensorType type, hlir::ParamRole role, std::optional<Dims> strides);

  hlir::Graph owned_;
};

}  // namespace cinn_like
