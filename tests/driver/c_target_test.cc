// The target c: every op's samples as C99, compiled by this machine's compilers and run, against the independent
// evaluator; the calling convention, from callers who do all wrong; what is refused.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "backends/c_program.h"
#include "backends/compiler.h"
#include "cinn_like/c_api.h"
#include "cinn_like/driver.h"
#include "ir/host_array.h"
#include "tests/golden_file.h"
#include "tests/hlir/evaluate.h"
#include "tests/hlir/samples.h"
#include "tests/rounds.h"
#include "tests/system_c.h"

namespace cinn_like {
namespace {

using hlir::Evaluator;
using hlir::Graph;
using hlir::ValueId;
using EntryFunction = int32_t(void*, const CinnValue*, int32_t, const CinnCallEnv*);

CompileOptions Options() {
  CompileOptions options;
  options.disable_cache = true;
  return options;
}

Target CTarget() { return *Target::Parse("c"); }

std::string TextOf(const std::string& graph) {
  const StatusOr<Graph> g = hlir::Parse(graph);
  EXPECT_TRUE(g.ok()) << g.status();
  const StatusOr<std::string> text = EmitGraph(*g, CTarget(), Options(), "c");
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

CinnCallEnv Env() {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  return env;
}

DLTensor TensorOf(ir::HostArray& a) {
  const DLDataType type = {InfoOf(a.dtype).dlpack_code, static_cast<uint8_t>(InfoOf(a.dtype).bits), 1};
  return {a.bytes.data(), {kDLCPU, 0}, static_cast<int32_t>(a.shape.size()), type, a.shape.data(), nullptr, 0};
}

CinnValue Value(DLTensor* t) {
  CinnValue v{};
  v.tag = kCinnTensor;
  v.tensor = t;
  return v;
}

double ToleranceOf(DType t) {
  return t == DType::kF16 ? 2e-3 : t == DType::kBF16 ? 1.6e-2 : t == DType::kF32 ? 4e-5 : t == DType::kF64 ? 1e-11 : 0;
}

// Graphs of one op each, side by side in one function.
class Samples {
 public:
  explicit Samples(const std::string& name) : all_(name) { EXPECT_TRUE(all_.AddSymbol({"n", 1, 64, 1}).ok()); }

  void Add(const Graph& g, bool positive) {
    std::map<ValueId, ValueId> to;
    for (const hlir::Param& p : g.params()) {
      if (p.is_symbol()) continue;
      to[p.value] = *all_.AddParam(Cat("p", params_++), g.TypeOf(p.value), p.role, p.strides);
    }
    const hlir::Op& op = g.ops()[0];
    std::vector<ValueId> operands;
    for (ValueId v : op.operands) operands.push_back(to.at(v));
    const std::vector<ValueId> made = all_.CopyOp(g, op, operands);
    for (size_t k = 0; k < made.size(); ++k) to[op.results[k]] = made[k];
    for (ValueId v : g.results()) results_.push_back(to.at(v));
    graphs_.push_back({g, positive});
  }

  size_t size() const { return graphs_.size(); }
  const std::string& name() const { return all_.name(); }

  std::string Emit() {
    EXPECT_TRUE(all_.AddSymbolParam("n").ok());
    EXPECT_TRUE(all_.SetResults(results_).ok());
    const StatusOr<std::string> text = EmitGraph(all_, CTarget(), Options(), "c");
    EXPECT_TRUE(text.ok()) << text.status() << hlir::Print(all_);
    return text.value_or("");
  }

  void Run(EntryFunction* entry, int64_t n) const {
    const Evaluator evaluator({{"n", n}});
    std::mt19937 rng(23);
    std::vector<ir::HostArray> arrays;
    std::vector<hlir::Tensor> expected;
    std::vector<const Graph*> of;
    for (const auto& [g, positive] : graphs_) {
      const std::vector<hlir::Tensor> inputs = hlir::RandomSampleInputs(g, evaluator, rng, positive ? 0.1 : -2, 2);
      for (const hlir::Tensor& t : inputs) {
        ir::HostArray& a = arrays.emplace_back(t.dtype, t.shape);
        for (size_t i = 0; i < t.data.size(); ++i) a.Set(static_cast<int64_t>(i), t.data[i]);
      }
      for (hlir::Tensor& t : evaluator.Run(g, inputs)) {
        expected.push_back(std::move(t));
        of.push_back(&g);
      }
    }
    const size_t inputs = arrays.size();
    for (const hlir::Tensor& t : expected) arrays.emplace_back(t.dtype, t.shape);
    std::vector<DLTensor> tensors;
    for (ir::HostArray& a : arrays) tensors.push_back(TensorOf(a));
    std::vector<CinnValue> args;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (i == inputs) args.push_back({kCinnInt, 0, {.i = n}});
      args.push_back(Value(&tensors[i]));
    }
    const CinnCallEnv env = Env();
    ASSERT_EQ(entry(nullptr, args.data(), static_cast<int32_t>(args.size()), &env), 0) << hlir::Print(all_);
    for (size_t k = 0; k < expected.size(); ++k) {
      const hlir::Tensor& want = expected[k];
      for (size_t i = 0; i < want.data.size(); ++i) {
        const double a = arrays[inputs + k].Get(static_cast<int64_t>(i)), b = want.data[i];
        const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                          std::abs(a - b) <= ToleranceOf(want.dtype) * (std::abs(b) + 0.5);
        ASSERT_TRUE(same) << hlir::Print(*of[k]) << "n = " << n << ", element " << i << ": " << a << ", expected " << b;
      }
    }
  }

 private:
  Graph all_;
  int params_ = 0;
  std::vector<std::pair<Graph, bool>> graphs_;
  std::vector<ValueId> results_;
};

// CINN_TEST_ALL_SAMPLES=1 takes all samples in all dtypes, else samples are of f32 and each op has one of another
// dtype.
std::vector<Samples> AllSamples() {
  constexpr size_t kTogether = 24;
  const bool all = std::getenv("CINN_TEST_ALL_SAMPLES") != nullptr;
  std::vector<Samples> r;
  int cases = 0, tried = 0;
  for (const hlir::OpDef* def : hlir::OpRegistry::BuiltIn().All()) {
    const bool positive = def->name == "log" || def->name.ends_with("sqrt") || def->name == "pow" ||
                          def->name == "log1p" || def->name == "batch_norm";
    for (size_t k = 0; k < def->samples.size(); ++k) {
      int dtypes = 0;
      for (std::string_view dtype : {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8", "bool"}) {
        std::string text = def->samples[k];
        for (size_t at = 0; (at = text.find("f32", at)) != text.npos; at += dtype.size()) text.replace(at, 3, dtype);
        if (text == def->samples[k] && dtype != "f32") continue;
        const StatusOr<Graph> g = hlir::SampleGraph(*def, text);
        if (!g.ok()) continue;
        if (!all && dtype != "f32" && (k > 0 || dtypes++ != cases % 4)) continue;
        if (!IsTried(tried++)) continue;
        if (r.empty() || r.back().size() == kTogether) r.emplace_back(Cat("samples", r.size()));
        r.back().Add(*g, positive);
        ++cases;
      }
    }
  }
  EXPECT_GT(tried, 120);
  return r;
}

// Undefined behaviour ends the process with a message that names it.
TEST(CTarget, EveryOpSample) {
  SKIP_WITHOUT_C_COMPILER();
  std::vector<Samples> samples = AllSamples();
  std::vector<std::string> texts;
  for (Samples& s : samples) texts.push_back(s.Emit());
  for (const std::string& compiler : CCompilers()) {
    SCOPED_TRACE(compiler);
    SystemC c;
    const bool checks = compiler == "gcc";
    c.Load(compiler, texts, checks ? "-O0 -fsanitize=undefined -fno-sanitize-recover=all" : "-O1");
    if (HasFatalFailure()) return;
    for (const Samples& s : samples) {
      for (const int64_t n : {1, 7}) s.Run(c.Find<EntryFunction>(s.name()), n);
      if (HasFatalFailure()) return;
    }
  }
}

constexpr char kLayer[] =
    R"(graph @layer(%x: f32[n,24], %w: f32[24,16] static, %b: f32[16] static) where n in 0..64 multiple 2 {
  %0 = exp(%w) : f32[24,16]
  %1 = matmul(%x, %0) : f32[n,16]
  %2 = add(%1, %b) : f32[n,16]
  %3 = softmax(%2) {axis=1} : f32[n,16]
  %4 = reduce_sum(%2) {axes=[0]} : f32[16]
  return %3, %4
}
)";

struct Layer {
  explicit Layer(int64_t n)
      : x(DType::kF32, {n, 24}),
        w(DType::kF32, {24, 16}),
        b(DType::kF32, {16}),
        y(DType::kF32, {n, 16}),
        s(DType::kF32, {16}) {
    for (int64_t i = 0; i < x.NumElements(); ++i) x.Set(i, static_cast<double>(i % 7) / 4 - 0.5);
    for (int64_t i = 0; i < w.NumElements(); ++i) w.Set(i, static_cast<double>(i % 11) / 8 - 1);
    for (int64_t i = 0; i < b.NumElements(); ++i) b.Set(i, static_cast<double>(i) / 16);
    ir::HostArray* const arrays[] = {&x, &w, &b, &y, &s};
    for (size_t i = 0; i < 5; ++i) {
      tensors[i] = TensorOf(*arrays[i]);
      args[i] = Value(&tensors[i]);
    }
  }
  void ExpectRight() {
    const int64_t n = x.shape[0];
    std::vector<double> sums(16);
    for (int64_t i = 0; i < n; ++i) {
      std::vector<double> row(16);
      double total = 0;
      for (int64_t j = 0; j < 16; ++j) {
        row[j] = b.Get(j);
        for (int64_t k = 0; k < 24; ++k) row[j] += x.Get(i * 24 + k) * std::exp(w.Get(k * 16 + j));
        sums[j] += row[j];
        total += std::exp(row[j]);
      }
      for (int64_t j = 0; j < 16; ++j) ASSERT_NEAR(y.Get(i * 16 + j), std::exp(row[j]) / total, 1e-5);
    }
    for (int64_t j = 0; j < 16; ++j) ASSERT_NEAR(s.Get(j), sums[j], 1e-3);
  }
  ir::HostArray x, w, b, y, s;
  DLTensor tensors[5];
  CinnValue args[5];
};

// The caller's memory: what it was asked for, and how much of it is left; fails at the call `fails_at`.
struct Allocator {
  std::vector<std::vector<char>> results = std::vector<std::vector<char>>(2);
  int calls = 0, live = 0, fails_at = -1;
  CinnCallEnv AsEnv() {
    CinnCallEnv env = Env();
    env.context = this;
    env.alloc = [](void* context, int32_t index, DLTensor* t) -> int32_t {
      auto& self = *static_cast<Allocator*>(context);
      if (self.calls++ == self.fails_at) return -1;
      size_t bytes = t->dtype.bits / 8;
      for (int d = 0; d < t->ndim; ++d) bytes *= static_cast<size_t>(t->shape[d]);
      if (index < 0) {
        ++self.live;
        t->data = malloc(bytes);
      } else {
        self.results[static_cast<size_t>(index)].resize(bytes);
        t->data = self.results[static_cast<size_t>(index)].data();
      }
      return 0;
    };
    env.free = [](void* context, void* data) {
      --static_cast<Allocator*>(context)->live;
      free(data);
    };
    return env;
  }
};

// The text with a function layer_error that gives what was last said to be wrong.
std::string WithErrors(const std::string& text) {
  return Cat(
      "#include <stdio.h>\nstatic char error[500];\n"
      "#define CINN_ERROR(what, why) snprintf(error, sizeof(error), \"%s: %s\", what, why)\n",
      text, "const char* layer_error(void);\nconst char* layer_error(void) { return error; }\n");
}

TEST(CTarget, CallersAndTheirMistakes) {
  SKIP_WITHOUT_C_COMPILER();
  SystemC c;
  c.Load(CCompilers()[0], {WithErrors(TextOf(kLayer))}, "-O1 -fsanitize=undefined -fno-sanitize-recover=all");
  if (HasFatalFailure()) return;
  EntryFunction *const run = c.Find<EntryFunction>("layer"), *const prepare = c.Find<EntryFunction>("layer_prepare");
  const auto error = c.Find<const char*()>("layer_error");
  const auto release = c.Find<void(void*)>("layer_release");
  void* state[8] = {};
  Layer l(6);
  EXPECT_EQ(run(state, l.args, 5, nullptr), -9);
  EXPECT_STREQ(error(), "layer: not prepared");
  EXPECT_EQ(prepare(nullptr, &l.args[1], 2, nullptr), -9);
  EXPECT_EQ(prepare(state, l.args, 2, nullptr), -3);
  ASSERT_EQ(prepare(state, &l.args[1], 2, nullptr), 0) << error();
  ASSERT_EQ(run(state, l.args, 5, nullptr), 0) << error();
  l.ExpectRight();
  // Again, with other values; then with none of the rows.
  for (int64_t i = 0; i < l.w.NumElements(); ++i) l.w.Set(i, 0.25);
  ASSERT_EQ(prepare(state, &l.args[1], 2, nullptr), 0) << error();
  ASSERT_EQ(run(state, l.args, 5, nullptr), 0) << error();
  l.ExpectRight();
  Layer none(0);
  none.tensors[0].data = none.tensors[3].data = nullptr;
  ASSERT_EQ(run(state, none.args, 5, nullptr), 0) << error();
  for (int64_t j = 0; j < 16; ++j) EXPECT_EQ(none.s.Get(j), 0);

  const auto expect = [&](const char* what, const std::function<void(Layer&)>& spoil, int32_t num_args = 5) {
    Layer bad(6);
    spoil(bad);
    EXPECT_EQ(run(state, bad.args, num_args, nullptr), -3) << what;
    EXPECT_STREQ(error(), what);
    for (int64_t i = 0; i < bad.y.NumElements(); ++i) ASSERT_EQ(bad.y.Get(i), 0);
  };
  const std::string x = "layer: argument 'x': expected f32[n,24]", s = "layer: result 'reduce_sum_1': expected f32[16]";
  expect("layer: number of arguments", [](Layer&) {}, 4);
  expect("layer: expected n in 0..64, a multiple of 2: size outside of its range", [](Layer& b) { b.x.shape[0] = 5; });
  expect("layer: expected n in 0..64, a multiple of 2: not a tensor", [](Layer& b) { b.args[0].tag = kCinnInt; });
  expect("layer: expected n in 0..64, a multiple of 2: rank", [](Layer& b) { b.tensors[0].ndim = 0; });
  expect(Cat(x, ": dtype").c_str(), [](Layer& b) { b.tensors[0].dtype.bits = 64; });
  expect(Cat(x, ": rank").c_str(), [](Layer& b) { b.tensors[0].ndim = 1; });
  expect(Cat(x, ": shape").c_str(), [](Layer& b) { b.x.shape[1] = 25; });
  expect(Cat(x, ": device").c_str(), [](Layer& b) { b.tensors[0].device.device_type = kDLCUDA; });
  expect(Cat(x, ": null data").c_str(), [](Layer& b) { b.tensors[0].data = nullptr; });
  expect(Cat(x, ": alignment").c_str(), [](Layer& b) { b.tensors[0].byte_offset = 2; });
  int64_t strides[] = {1, 6};
  expect(Cat(x, ": strides").c_str(), [&](Layer& b) { b.tensors[0].strides = strides; });
  expect(Cat(s, ": not a tensor").c_str(), [](Layer& b) { b.args[4].tag = kCinnInt; });
  expect(Cat(s, ": None, and the call has no allocator").c_str(), [](Layer& b) { b.args[4].tag = kCinnNone; });
  expect("layer: a result overlaps another tensor", [](Layer& b) { b.tensors[4].data = b.tensors[0].data; });

  // All memory is the caller's; whatever fails, none of it stays taken.
  for (int fails_at = -1;; ++fails_at) {
    Allocator memory;
    memory.fails_at = fails_at;
    const CinnCallEnv env = memory.AsEnv();
    Layer given(6);
    given.args[3] = given.args[4] = CinnValue{};
    ASSERT_EQ(prepare(state, &given.args[1], 2, nullptr), 0);
    const int32_t code = run(state, given.args, 5, &env);
    EXPECT_EQ(memory.live, 0);
    if (fails_at >= 0 && memory.calls > fails_at) {
      EXPECT_EQ(code, -8) << error();
      continue;
    }
    ASSERT_EQ(code, 0) << error();
    EXPECT_GE(memory.calls, 3);  // two results, and a workspace
    memcpy(given.y.bytes.data(), memory.results[0].data(), given.y.bytes.size());
    memcpy(given.s.bytes.data(), memory.results[1].data(), given.s.bytes.size());
    given.ExpectRight();
    if (fails_at >= 0) break;
  }
  CinnCallEnv old = Env();
  old.size = 8;
  EXPECT_EQ(run(state, l.args, 5, &old), -3);
  release(state);
  EXPECT_EQ(run(state, l.args, 5, nullptr), -9);
  release(state);
}

TEST(CTarget, AnIndexOutOfRangeIsAnError) {
  SKIP_WITHOUT_C_COMPILER();
  SystemC c;
  c.Load(CCompilers()[0],
         {TextOf("graph @g(%x: f32[5,4], %i: i64[3]) {\n  %0 = check_index(%i) {size=5} : i64[3]\n"
                 "  %1 = gather(%x, %0) : f32[3,4]\n  return %1\n}\n")},
         "-O1");
  if (HasFatalFailure()) return;
  ir::HostArray x(DType::kF32, {5, 4}), i(DType::kI64, {3}), y(DType::kF32, {3, 4});
  for (int64_t k = 0; k < 20; ++k) x.Set(k, static_cast<double>(k));
  DLTensor tensors[] = {TensorOf(x), TensorOf(i), TensorOf(y)};
  const CinnValue args[] = {Value(&tensors[0]), Value(&tensors[1]), Value(&tensors[2])};
  for (const int64_t last : {4, 5}) {
    for (int64_t k = 0; k < 3; ++k) i.SetInt(k, k == 2 ? last : k);
    EXPECT_EQ(c.Find<EntryFunction>("g")(nullptr, args, 3, nullptr), last == 4 ? 0 : -11);
    if (last == 4) {
      EXPECT_EQ(y.Get(11), 19);
    }
  }
}

// Warnings that many projects ask for; OpenMP; several files in one program, which are their own headers in C and C++,
// alone and behind the headers that they stand for.
TEST(CTarget, CompilesInOtherPeoplesProjects) {
  SKIP_WITHOUT_C_COMPILER();
  SystemC c;
  const std::string layer = c.Write("layer.c", TextOf(kLayer));
  const std::string other = c.Write(
      "other.c", TextOf("graph @other(%x: bf16[n]) where n in 1..9 {\n  %0 = tanh(%x) : bf16[n]\n  return %0\n}\n"));
  constexpr char kInclude[] = "#define CINN_DECLARATIONS\n#include \"layer.c\"\n#include \"other.c\"\n";
  constexpr char kMain[] = "int main(void) { return layer(0, 0, 0, 0) == -3 && other(0, 0, 0, 0) == -3 ? 0 : 1; }\n";
  const std::string main = c.Write("main.c", Cat(kInclude, kMain));
  const std::string behind = c.Write("behind.c", Cat("#include \"runtime/call.h\"\n", kInclude, kMain));
  const std::string cpp = c.Write("main.cc", Cat("#include \"runtime/call.h\"\n", kInclude, kMain));
  for (const std::string& compiler : CCompilers()) {
    const std::string program = c.folder() + "/program";
    for (const char* flags : {"-O2", "-O2 -std=c11 -fopenmp", "-O3 -ffast-math"}) {
      if (compiler.starts_with("clang") && absl::StrContains(flags, "openmp")) continue;  // its runtime may be missing
      EXPECT_EQ(c.Run(Cat(compiler, " ", kStrictC, " ", flags, " ", main, " ", layer, " ", other, " -o ", program,
                          " -lm && ", program)),
                "");
    }
    EXPECT_EQ(c.Run(Cat(compiler, " -std=c11 -Wall -Wextra -Werror -I . -fsyntax-only ", behind)), "");
  }
  EXPECT_EQ(c.Run(Cat("c++ -std=c++20 -Wall -Wextra -Werror -I . -fsyntax-only ", cpp)), "");
}

TEST(CTarget, GoldenText) {
  const StatusOr<Graph> graph = hlir::Parse(ReadFile("tests/driver/golden/rms_norm.graph"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const StatusOr<std::string> text = EmitGraph(*graph, CTarget(), Options(), "c");
  ASSERT_TRUE(text.ok()) << text.status();
  ExpectGolden("tests/driver/golden/rms_norm.c99", *text);
}

TEST(CTarget, WhatIsRefused) {
  const Graph graph = *hlir::Parse(kLayer);
  EXPECT_EQ(Message(CompileGraph(graph, CTarget(), Options()).status()),
            "target 'c': its functions leave as source text (EmitGraph, cinn_compile) and don't run here");
  EXPECT_EQ(Message(EmitGraph(graph, CTarget(), Options(), "llvm").status()),
            "no source of kind 'llvm'; there are graph, stages, schedule, loops, c");
  EXPECT_EQ(
      Message(EmitGraph(graph, *Target::Parse("cuda -arch=sm_80"), Options(), "c").status()),
      "no source of kind 'c'; there are graph, stages, schedule, loops, llvm, asm, object, cuda, ptx, cubin, fatbin, "
      "resources, kernels");
  EXPECT_TRUE(EmitGraph(graph, *Target::Parse("x86_64 -mcpu=x86-64-v3"), Options(), "c").ok());
  EXPECT_EQ(
      Message(Target::Parse("c -mcpu=native").status()),
      "target: c has no option -mcpu; known: -cores, -vector-bytes, -l1-bytes, -l2-bytes, -bandwidth, -registers");
  EXPECT_EQ(Message(EmitGraph(*hlir::Parse("graph @double(%x: f32[4]) {\n  %0 = neg(%x) : f32[4]\n  return %0\n}\n"),
                              CTarget(), Options(), "c")
                        .status()),
            "graph @double: C has another meaning for its name");
  const auto emit = [](std::string_view loops) {
    const auto compiler = Compiler::Create(CTarget());
    EXPECT_TRUE(compiler.ok()) << compiler.status();
    return Message((*compiler)->GetSourceCode(*ir::ParseModule(loops)).status());
  };
  EXPECT_EQ(emit("func @f entry (x: f32[4], y: f32[4] out) {\n"
                 "call cinn_cublaslt_matmul(1, &x[0], &x[0], &y[0], u64(0), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)\n}\n"),
            "function f: no c text for the call of cinn_cublaslt_matmul");
  EXPECT_EQ(emit("func @f entry (x: f32[4] prepared, y: f32[4] out) {\ny[0] = x[0]\n}\n"),
            "function @f: no function computes its prepared parameters");
}

}  // namespace
}  // namespace cinn_like
