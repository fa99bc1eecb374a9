// Graphs for tests: an op's samples, and random ones.
#pragma once
#include <random>

#include "hlir/op_builder.h"

namespace cinn_like::hlir {

// graph @sample(%p0: ..., ...) where n in 1..64 { results = op(params) {attrs} }, of "(f32[3,n], ...) {axis=1}".
inline StatusOr<Graph> SampleGraph(const OpDef& def, std::string_view sample) {
  Graph g("sample");
  OpBuilder b(&g);
  RETURN_IF_ERROR(g.AddSymbol({"n", 1, 64, 1}));
  Lexer lexer(sample);
  RETURN_IF_ERROR(lexer.Expect("("));
  std::vector<ValueId> operands;
  bool binds_n = false;
  while (!lexer.Eat(")")) {
    if (!operands.empty()) RETURN_IF_ERROR(lexer.Expect(","));
    TensorType type;
    ASSIGN_OR_RETURN(const std::string dtype, lexer.Ident("a dtype"));
    type.dtype = *ParseDType(dtype);
    RETURN_IF_ERROR(lexer.Expect("["));
    while (!lexer.Eat("]")) {
      if (!type.dims.empty()) RETURN_IF_ERROR(lexer.Expect(","));
      ASSIGN_OR_RETURN(Dim d, ParseDim(&lexer));
      binds_n = binds_n || d.AsSymbol().has_value();
      type.dims.push_back(std::move(d));
    }
    ASSIGN_OR_RETURN(const ValueId v, g.AddParam(Cat("p", operands.size()), std::move(type)));
    operands.push_back(v);
  }
  if (!binds_n) RETURN_IF_ERROR(g.AddSymbolParam("n"));
  Attrs::Values attrs;
  if (lexer.Eat("{")) {
    do {
      ASSIGN_OR_RETURN(const std::string name, lexer.Ident("an attribute"));
      RETURN_IF_ERROR(lexer.Expect("="));
      const AttrSpec* spec = def.FindAttr(name);
      if (!spec) return InvalidArgument("sample of '", def.name, "' has unknown attribute ", name);
      ASSIGN_OR_RETURN(Attr value, ParseAttr(*spec, &lexer));
      attrs[name] = std::move(value);
    } while (lexer.Eat(","));
    RETURN_IF_ERROR(lexer.Expect("}"));
  }
  ASSIGN_OR_RETURN(std::vector<ValueId> results, g.AddOp(def.name, operands, Attrs(std::move(attrs))));
  RETURN_IF_ERROR(g.SetResults(results));
  RETURN_IF_ERROR(Verify(g));
  return g;
}

// A random f32 graph of about `size` ops over two parameters f32[n,12] and f32[12] and a static f32[12,12]; values stay
// moderate, so that evaluators can be compared.
inline StatusOr<Graph> RandomGraph(std::mt19937& rng, int size) {
  Graph g("random");
  OpBuilder b(&g);
  auto pick = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  const Dim n = Dim::Symbol("n");
  RETURN_IF_ERROR(g.AddSymbol({"n", 1, 64, 1}));
  std::vector<ValueRef> values;  // all of type f32[n,12]
  ASSIGN_OR_RETURN(const ValueId x, g.AddParam("x", {DType::kF32, {n, 12}}));
  ASSIGN_OR_RETURN(const ValueId row, g.AddParam("row", {DType::kF32, {12}}));
  ASSIGN_OR_RETURN(const ValueId w, g.AddParam("w", {DType::kF32, {12, 12}}, ParamRole::kStatic));
  values.push_back({x});
  const Dims shape = {n, 12};
  for (int i = 0; i < size; ++i) {
    const ValueRef a = values[pick(values.size())], c = values[pick(values.size())];
    auto scalar = [&](double v) { return b.Full(v, DType::kF32); };
    ValueRef r;
    switch (pick(16)) {
      case 0:
        r = b.Add(a, c);
        break;
      case 1:
        r = b.Mul(b.Tanh(a), c);
        break;
      case 2:
        r = b.Sub(a, {row});
        break;
      case 3:
        r = b.Gelu(a, pick(2) ? "tanh" : "none");
        break;
      case 4:
        r = b.Softmax(a, static_cast<int64_t>(pick(2)));
        break;
      case 5:
        r = b.LayerNorm(a, {row}, {row}, {1});
        break;
      case 6:
        r = b.Matmul(a, {w});
        break;
      case 7:
        r = b.Transpose(b.Transpose(b.Relu(a), {1, 0}), {1, 0});
        break;
      case 8:
        r = b.Reshape(b.Reshape(b.Sigmoid(a), {n * Dim(12)}), {n, 3, 4}), r = b.Reshape(r, shape);
        break;
      case 9:
        r = b.Mul(b.Add(a, scalar(pick(2) ? 0.0 : 0.5)), scalar(pick(2) ? 1.0 : 2.0));
        break;
      case 10:
        r = b.BroadcastTo(b.ReduceMean(a, {static_cast<int64_t>(pick(2))}, true), shape);
        break;
      case 11:
        r = b.Select(b.Lt(a, c), a, b.Neg(c));
        break;
      case 12:
        r = b.Concat({b.Slice(a, 1, 6, 12), b.Slice(c, 1, 0, 6)}, 1);
        break;
      case 13:
        r = b.Cast(b.Cast(a, DType::kF64), DType::kF32);
        break;
      case 14:
        r = b.Matmul(a, b.Transpose(b.Tanh({w}), {1, 0}));
        break;
      default:
        r = b.Pow(b.Tanh(a), scalar(2.0));
        break;
    }
    values.push_back(r);
  }
  RETURN_IF_ERROR(b.status());
  std::vector<ValueId> results;
  for (int i = 0; i < 2; ++i) results.push_back(values[i == 0 ? values.size() - 1 : pick(values.size())].id);
  RETURN_IF_ERROR(g.SetResults(results));
  return g;
}

}  // namespace cinn_like::hlir
