// Groups of stages for tests of tactics: what becomes of every op's samples, of random and large graphs, and of graphs
// whose sizes reach each shape that a tactic has.
#pragma once
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "tests/hlir/large_graph.h"
#include "tests/hlir/samples.h"

namespace cinn_like::hlir {

inline std::vector<std::string> GraphTextsForTactics() {
  std::vector<std::string> r;
  // `where` goes with the symbol.
  const auto add = [&](const std::string& text, const std::vector<std::pair<std::string, std::string>>& with) {
    std::string graph = absl::StrReplaceAll(text, with);
    if (graph.find("[n,") == graph.npos && graph.find(",n]") == graph.npos) {
      const size_t where = graph.find(" where"), brace = graph.find(" {\n");
      if (where != graph.npos) graph.erase(where, brace - where);
    }
    r.push_back(std::move(graph));
  };
  // Rows along each axis, short and long, that fit into registers, into shared memory and into neither.
  for (const char* shape : {"3,96", "16384,4096", "1030,24", "4097,16384", "2,40970", "5,6,127", "n,40", "40,n"}) {
    for (const char* axis : {"0", "1"}) {
      std::string kept;  // the shape with 1 in place of that axis
      int at = 0;
      for (absl::string_view d : absl::StrSplit(shape, ','))
        kept += Cat(at == 0 ? "" : ",", Cat(at) == axis ? "1" : std::string(d)), ++at;
      for (const char* dtype : {"f32", "bf16"}) {
        add("graph @softmax(%x: D[S]) where n in 1..4096 hint 300 {\n  %0 = softmax(%x) {axis=A} : D[S]\n"
            "  return %0\n}\n",
            {{"D[S]", Cat(dtype, "[", shape, "]")}, {"axis=A", Cat("axis=", axis)}});
        add("graph @running(%x: D[S], %y: D[S]) where n in 1..4096 {\n  %0 = mul(%x, %y) : D[S]\n"
            "  %1 = cumsum(%0) {axis=A} : D[S]\n  %2 = exp(%1) : D[S]\n  return %2\n}\n",
            {{"D[S]", Cat(dtype, "[", shape, "]")}, {"axis=A", Cat("axis=", axis)}});
        add("graph @sums(%x: D[S], %y: D[S]) where n in 1..4096 {\n  %0 = mul(%x, %y) : D[S]\n"
            "  %1 = reduce_max(%0) {axes=[A], keepdims=true} : D[K]\n  %2 = sub(%0, %1) : D[S]\n"
            "  %3 = exp(%2) : D[S]\n  %4 = reduce_sum(%3) {axes=[A], keepdims=true} : D[K]\n"
            "  %5 = div(%3, %4) : D[S]\n  return %5, %2, %1\n}\n",
            {{"D[S]", Cat(dtype, "[", shape, "]")},
             {"D[K]", Cat(dtype, "[", kept, "]")},
             {"[A]", Cat("[", axis, "]")}});
        add("graph @best(%x: D[S], %y: D[S]) where n in 1..4096 {\n  %0 = mul(%x, %y) : D[S]\n"
            "  %1 = argmax(%0) {axis=A, keepdims=true} : i64[K]\n  %2 = argmin(%0) {axis=A, keepdims=true} : i64[K]\n"
            "  return %1, %2\n}\n",
            {{"D[S]", Cat(dtype, "[", shape, "]")}, {"[K]", Cat("[", kept, "]")}, {"axis=A", Cat("axis=", axis)}});
      }
    }
  }
  // Rows of several dimensions, of elements that are computed again, and of symbolic sizes.
  for (const auto& [shape, kept] : {std::pair("32,65,50,57", "1,65,1,1"), {"n,65,m,k", "1,65,1,1"}}) {
    add("graph @standardised(%x: f16[S]) where n in 2..100000 hint 32, m in 2..1000 hint 50, k in 2..1000 hint 57 {\n"
        "  %0 = cast(%x) {dtype=f32} : f32[S]\n  %1 = tanh(%0) : f32[S]\n  %2 = add(%1, %0) : f32[S]\n"
        "  %3 = reduce_mean(%2) {axes=[0,2,3], keepdims=true} : f32[K]\n  %4 = sub(%2, %3) : f32[S]\n"
        "  %5 = square(%4) : f32[S]\n  %6 = reduce_mean(%5) {axes=[0,2,3], keepdims=true} : f32[K]\n"
        "  %7 = rsqrt(%6) : f32[K]\n  %8 = mul(%4, %7) : f32[S]\n  return %8\n}\n",
        {{"[S]", Cat("[", shape, "]")}, {"[K]", Cat("[", kept, "]")}});
  }
  for (const char* size : {"3,40", "16384,8192", "n,1000"}) {
    add("graph @rms(%x: bf16[S], %r: bf16[S], %w: bf16[W]) where n in 1..4096 {\n  %0 = add(%x, %r) : bf16[S]\n"
        "  %1 = rms_norm(%0, %w) {axes=[1], epsilon=1e-6} : bf16[S]\n  return %0, %1\n}\n",
        {{"[S]", Cat("[", size, "]")}, {"[W]", Cat("[", strchr(size, ',') + 1, "]")}});
    add("graph @gelu(%x: T, %b: bf16[W], %r: T) where n in 1..4096 {\n  %0 = add(%x, %b) : T\n"
        "  %1 = gelu(%0) {approximate=\"tanh\"} : T\n  %2 = add(%1, %r) : T\n  return %2, %0\n}\n",
        {{"T", Cat("bf16[", size, "]")}, {"[W]", Cat("[", strchr(size, ',') + 1, "]")}});
  }
  for (const char* t : {"f32", "bf16"}) {
    for (const auto& [n, c, h, w] : {std::tuple("2", "64", "8", "56"), {"8", "64", "56", "56"}, {"3", "5", "7", "3"}}) {
      // Transposed, with what is read once and twice; statistics of images; sums over two dimensions.
      add("graph @last(%x: D[N,C,H,W], %s: D[1,C,1,1], %y: D[N,H,W,C]) {\n  %0 = mul(%x, %s) : D[N,C,H,W]\n"
          "  %1 = transpose(%0) {perm=[0,2,3,1]} : D[N,H,W,C]\n  %2 = add(%1, %y) : D[N,H,W,C]\n  return %2\n}\n",
          {{"D", t}, {"N", n}, {"C", c}, {"H", h}, {"W", w}});
      add("graph @norm(%x: D[N,C,H,W], %s: D[H,1]) {\n  %0 = mul(%x, %s) : D[N,C,H,W]\n"
          "  %1 = reduce_sum(%0) {axes=[2,3], keepdims=true} : D[N,C,1,1]\n  %2 = sub(%0, %1) : D[N,C,H,W]\n"
          "  return %2, %1\n}\n",
          {{"D", t}, {"N", n}, {"C", c}, {"H", h}, {"W", w}});
      add("graph @batch(%x: D[N,C,H,W]) {\n  %0 = reduce_mean(%x) {axes=[0,2,3], keepdims=true} : D[1,C,1,1]\n"
          "  %1 = sub(%x, %0) : D[N,C,H,W]\n  %2 = mul(%1, %1) : D[N,C,H,W]\n"
          "  %3 = reduce_mean(%2) {axes=[0,2,3]} : D[C]\n  return %1, %3\n}\n",
          {{"D", t}, {"N", n}, {"C", c}, {"H", h}, {"W", w}});
    }
    // Products with what may follow them.
    for (const auto& [m, k, n] : {std::tuple("19", "77", "70"),
                                  {"512", "512", "512"},
                                  {"n", "24", "40"},
                                  {"1", "64", "64"},
                                  {"4", "4096", "64"},
                                  {"20", "n", "24"}}) {
      add("graph @linear(%x: D[M,K], %w: D[N,K], %b: D[N]) where n in 1..500 {\n"
          "  %0 = transpose(%w) {perm=[1,0]} : D[K,N]\n  %1 = matmul(%x, %0) : D[M,N]\n  %2 = add(%1, %b) : D[M,N]\n"
          "  %3 = relu(%2) : D[M,N]\n  %4 = transpose(%3) {perm=[1,0]} : D[N,M]\n  return %4\n}\n",
          {{"D", t}, {"M", m}, {"K", k}, {"[N", Cat("[", n)}, {"N]", Cat(n, "]")}});
      add("graph @product(%x: D[M,K], %w: D[K,N]) where n in 1..500 {\n  %0 = matmul(%x, %w) : D[M,N]\n"
          "  return %0\n}\n",
          {{"D", t}, {"M", m}, {"K", k}, {"[N", Cat("[", n)}, {"N]", Cat(n, "]")}});
    }
    // Weights of integers, scaled by rows and by groups of the reduction.
    for (const auto& [m, k, n] : {std::tuple("1", "512", "640"), {"7", "512", "640"}, {"n", "80", "72"}}) {
      add("graph @scaled(%x: D[M,K], %w: i8[N,K], %s: D[N,1]) where n in 1..500 {\n"
          "  %0 = cast(%w) {dtype=D} : D[N,K]\n  %1 = mul(%0, %s) : D[N,K]\n"
          "  %2 = transpose(%1) {perm=[1,0]} : D[K,N]\n  %3 = matmul(%x, %2) : D[M,N]\n  return %3\n}\n",
          {{"D", t}, {"dtype=D", Cat("dtype=", t)}, {"M", m}, {"K", k}, {"[N", Cat("[", n)}, {"N]", Cat(n, "]")}});
      add("graph @groups(%x: D[M,K], %w: u8[N,8,G], %s: D[N,8,1], %z: D[N,8,1]) where n in 1..500 {\n"
          "  %0 = cast(%w) {dtype=D} : D[N,8,G]\n  %1 = sub(%0, %z) : D[N,8,G]\n  %2 = mul(%1, %s) : D[N,8,G]\n"
          "  %3 = reshape(%2) {shape=[N,K]} : D[N,K]\n  %4 = transpose(%3) {perm=[1,0]} : D[K,N]\n"
          "  %5 = matmul(%x, %4) : D[M,N]\n  return %5\n}\n",
          {{"D", t},
           {"dtype=D", Cat("dtype=", t)},
           {"M", m},
           {"K", k},
           {"G", Cat(std::stoi(k) / 8)},
           {"[N", Cat("[", n)},
           {"N]", Cat(n, "]")}});
    }
    // Weighted sums whose weights are reduced on the way.
    for (const auto& [rows, keys] : {std::pair("96", "80"), {"33", "77"}, {"n", "n"}, {"512", "601"}}) {
      add("graph @weights(%q: D[2,4,N,32], %k: D[2,4,M,32], %v: D[2,4,M,24], %b: D[4,N,M]) where n in 8..4096 {\n"
          "  %0 = transpose(%k) {perm=[0,1,3,2]} : D[2,4,32,M]\n  %1 = matmul(%q, %0) : D[2,4,N,M]\n"
          "  %2 = add(%1, %b) : D[2,4,N,M]\n  %3 = softmax(%2) {axis=3} : D[2,4,N,M]\n"
          "  %4 = matmul(%3, %v) : D[2,4,N,24]\n  %5 = transpose(%4) {perm=[0,2,1,3]} : D[2,N,4,24]\n"
          "  %6 = reshape(%5) {shape=[2,N,96]} : D[2,N,96]\n  return %6\n}\n",
          {{"D", t}, {"N", rows}, {"M", keys}});
    }
    add("graph @heads(%q: D[2,16,4,32], %k: D[2,16,4,32]) {\n  %0 = transpose(%q) {perm=[0,2,1,3]} : D[2,4,16,32]\n"
        "  %1 = transpose(%k) {perm=[0,2,3,1]} : D[2,4,32,16]\n  %2 = matmul(%0, %1) : D[2,4,16,16]\n"
        "  %3 = transpose(%2) {perm=[0,2,1,3]} : D[2,16,4,16]\n  return %3\n}\n",
        {{"D", t}});
    for (const auto& [w, attributes, y] :
         {std::tuple("12,8,3,3", "stride=[1,1], padding=[1,1], dilation=[1,1], groups=1", "3,12,9,7"),
          {"12,8,3,2", "stride=[2,3], padding=[0,1], dilation=[1,2], groups=1", "3,12,4,3"},
          {"12,4,3,3", "stride=[1,1], padding=[0,2], dilation=[1,1], groups=2", "3,12,7,9"},
          {"8,1,3,3", "stride=[1,1], padding=[1,1], dilation=[1,1], groups=8", "3,8,9,7"},
          {"12,8,1,1", "stride=[1,1], padding=[0,0], dilation=[1,1], groups=1", "3,12,9,7"}}) {
      add("graph @windows(%x: D[3,8,9,7], %w: D[V], %b: D[1,1,1]) {\n  %0 = conv(%x, %w) {A} : D[Y]\n"
          "  %1 = add(%0, %b) : D[Y]\n  %2 = relu(%1) : D[Y]\n  return %2\n}\n",
          {{"D", t}, {"[V]", Cat("[", w, "]")}, {"{A}", Cat("{", attributes, "}")}, {"[Y]", Cat("[", y, "]")}});
    }
  }
  return r;
}

// Calls `visit` for each kernel that is not like one before. `per_target` graphs of each kind at most.
inline void ForEachKernel(const Target& target,
                          const std::function<void(const std::string& name, const ir::TeProgram& group)>& visit) {
  const PassContext context{.options = {}, .target = target, .name = "test"};
  std::set<std::string> seen;
  const auto add = [&](const std::string& name, const StatusOr<Graph>& graph) {
    if (!graph.ok()) return;
    const StatusOr<Graph> optimized = OptimizeGraph(*graph, context);
    if (!optimized.ok()) return;
    const StatusOr<LoweredGraph> lowered = LowerGraph(*optimized, context);
    if (!lowered.ok()) return;
    for (size_t i = 0; i < lowered->kernels.size(); ++i) {
      ir::TeProgram group = lowered->kernels[i].group;
      group.name = "kernel";
      const StatusOr<ir::Func> loops = ir::ToLoops(group);
      if (loops.ok() && seen.insert(ir::Print(*loops)).second) visit(Cat(name, " ", i), group);
    }
  };
  for (const OpDef* def : OpRegistry::BuiltIn().All()) {
    for (const std::string& sample : def->samples) add(Cat(def->name, sample), SampleGraph(*def, sample));
  }
  std::mt19937 rng(7);
  for (int i = 0; i < 30; ++i) add(Cat("random ", i), RandomGraph(rng, 4 + i));
  for (bool symbolic : {false, true}) add(Cat("large ", symbolic), LargeGraph(150, symbolic));
  add("chain", LongChain(60));
  for (const std::string& text : GraphTextsForTactics()) {
    const StatusOr<Graph> graph = Parse(text);
    EXPECT_TRUE(graph.ok()) << graph.status() << "\n" << text;
    add(text, graph);
  }
}

}  // namespace cinn_like::hlir
