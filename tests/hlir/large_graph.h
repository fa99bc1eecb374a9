// Graphs of any size for tests of what compiling costs: transformer blocks, chains of pointwise ops, views and inputs
// that many ops share.
#pragma once
#include "hlir/op_builder.h"

namespace cinn_like::hlir {

// At least `ops` ops (composites count one) over f32[2,16,64], or f32[n,16,64] with `n` in 1..64.
inline StatusOr<Graph> LargeGraph(int ops, bool symbolic = false) {
  Graph g("large");
  OpBuilder b(&g);
  Dim batch = 2;
  if (symbolic) {
    RETURN_IF_ERROR(g.AddSymbol({"n", 1, 64, 1}));
    batch = Dim::Symbol("n");
  }
  int params = 0;
  Status status;
  auto param = [&](Dims dims) {
    const auto v = g.AddParam(Cat("p", params++), {DType::kF32, std::move(dims)});
    if (!v.ok()) status = v.status();
    return ValueRef{v.ok() ? *v : -1};
  };
  auto count = [&] { return static_cast<int>(g.ops().size()); };
  ValueRef x = param({batch, 16, 64});
  const ValueRef mask = param({batch, 16}), scale = param({64}), square = param({64, 64});
  std::vector<ValueRef> results;
  for (int block = 0; count() < ops && b.status().ok(); ++block) {
    // Attention.
    const ValueRef in = x;
    auto heads = [&](ValueRef v) { return b.Transpose(b.Reshape(v, {batch, 16, 4, 16}), {0, 2, 1, 3}); };
    auto project = [&](ValueRef v) { return b.Add(b.Matmul(v, square), scale); };
    x = b.LayerNorm(x, scale, param({64}), {2});
    const ValueRef q = heads(project(x)), k = heads(project(x)), v = heads(project(x));
    ValueRef scores = b.Matmul(q, b.Transpose(k, {0, 1, 3, 2}));
    scores = b.Add(b.Mul(scores, b.Full(0.25, DType::kF32)), b.Reshape(mask, {batch, 1, 1, 16}));
    x = b.Reshape(b.Transpose(b.Matmul(b.Softmax(scores, 3), v), {0, 2, 1, 3}), {batch, 16, 64});
    x = b.Add(project(x), in);
    // A network of gated pointwise ops, and a window that is cut and shifted.
    const ValueRef left = b.Slice(x, 2, 0, 32), right = b.Slice(x, 2, 32, 64);
    x = b.Add(b.Concat({b.Mul(b.Gelu(left), b.Sigmoid(right)), right}, 2), x);
    const ValueRef shifted = b.Concat({b.Slice(x, 1, 4, 16), b.Slice(x, 1, 0, 4)}, 1);
    const int length = 4 + block % 13;
    ValueRef y = shifted;
    for (int i = 0; i < length; ++i) {
      switch ((block + i) % 5) {
        case 0:
          y = b.Mul(y, scale);
          break;
        case 1:
          y = b.Tanh(y);
          break;
        case 2:
          y = b.Add(y, in);
          break;
        case 3:
          y = b.Sub(y, b.ReduceMax(y, {2}, true));
          break;
        default:
          y = b.Relu(b.Add(y, b.Full(0.5 + i, DType::kF32)));
      }
    }
    x = b.Add(x, y);
    if (block % 4 == 0) results.push_back(b.ReduceMean(x, {1}));
  }
  results.push_back(x);
  RETURN_IF_ERROR(b.status());
  RETURN_IF_ERROR(status);
  std::vector<ValueId> ids;
  for (ValueRef r : results) ids.push_back(r.id);
  RETURN_IF_ERROR(g.SetResults(std::move(ids)));
  RETURN_IF_ERROR(Verify(g));
  return g;
}

// `ops` pointwise ops in a row, each of which also reads one of a few shared inputs.
inline StatusOr<Graph> LongChain(int ops) {
  Graph g("chain");
  OpBuilder b(&g);
  std::vector<ValueRef> inputs;
  for (int i = 0; i < 5; ++i) {
    ASSIGN_OR_RETURN(const ValueId v, g.AddParam(Cat("p", i), {DType::kF32, {64, 64}}));
    inputs.push_back({v});
  }
  ValueRef x = inputs[0];
  for (int i = 0; i < ops; ++i) {
    const ValueRef y = inputs[static_cast<size_t>(i) % inputs.size()];
    x = i % 7 == 6 ? b.Tanh(x) : i % 3 == 1 ? b.Mul(x, y) : b.Add(x, y);
    if (i % 11 == 10) x = b.Transpose(x, {1, 0});
  }
  RETURN_IF_ERROR(b.status());
  RETURN_IF_ERROR(g.SetResults({x.id}));
  RETURN_IF_ERROR(Verify(g));
  return g;
}

}  // namespace cinn_like::hlir
