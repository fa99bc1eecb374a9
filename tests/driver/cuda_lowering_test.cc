// Graphs through the whole compiler for a GPU, without one: the lowered kernels run in the loop interpreter (one fiber
// per thread) against the independent evaluator, and NVRTC compiles what is emitted for them.
#include <gtest/gtest.h>

#include "backends/cuda_compiler.h"
#include "backends/host_compile.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactic.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "tests/backends/nvrtc_for_tests.h"
#include "tests/hlir/evaluate.h"
#include "tests/hlir/samples.h"

namespace cinn_like::hlir {
namespace {

const Target& Hopper() {
  static const Target target = *Target::Parse("cuda -arch=sm_90a");
  return target;
}

struct Compiled {
  ir::Module module;
  std::string text;  // tactics and schedules
};

// `split` false: kernels stay in their functions, so that the interpreter can run them.
StatusOr<Compiled> Lower(const Graph& graph, bool split) {
  const PassContext context{.options = {}, .target = Hopper(), .name = "test"};
  ASSIGN_OR_RETURN(const Graph optimized, OptimizeGraph(graph, context));
  ASSIGN_OR_RETURN(LoweredGraph lowered, LowerGraph(optimized, true, context.target));
  Compiled r;
  for (LoweredGraph::Kernel& k : lowered.kernels) {
    StatusOr<Proposal> p = ChooseSchedule(k.group, Hopper());
    if (!p.ok()) return Annotate(p.status(), ir::Print(*ir::ToLoops(k.group)));
    r.text += Cat("// ", k.name, " by ", p->tactic, "\n", p->schedule);
    StatusOr<ir::Module> m = ir::Module{p->func.context, {}};
    if (split) {
      m = ir::LowerModule({p->func.context, {p->func}}, context);
    } else if (StatusOr<ir::Func> f = ir::LowerKernel(p->func, context); f.ok()) {
      m->funcs.push_back(*std::move(f));
    } else {
      m = f.status();
    }
    if (!m.ok()) return Annotate(m.status(), Cat(ir::Print(*ir::ToLoops(k.group)), r.text));
    for (ir::Func& f : m->funcs) r.module.funcs.push_back(std::move(f));
  }
  ASSIGN_OR_RETURN(ir::Func entry, ir::LowerEntry(std::move(lowered.entry), context));
  r.module.context = entry.context;
  r.module.funcs.push_back(std::move(entry));
  return r;
}

// Relative; sums of rounded products are as good as their operands.
double ToleranceOf(DType t) {
  return t == DType::kF16 ? 4e-3 : t == DType::kBF16 ? 3.2e-2 : t == DType::kF32 ? 5e-5 : t == DType::kF64 ? 1e-10 : 0;
}

void ExpectRuns(const Graph& g, int64_t n, std::mt19937& rng, bool positive = false) {
  const Evaluator evaluator({{"n", n}});
  const bool one_op = g.ops().size() == 1;
  const std::vector<Tensor> inputs =
      one_op ? RandomSampleInputs(g, evaluator, rng, positive ? 0.1 : -2, 2) : RandomInputs(g, evaluator, rng);
  const std::vector<Tensor> expected = evaluator.Run(g, inputs);
  const StatusOr<Compiled> compiled = Lower(g, false);
  ASSERT_TRUE(compiled.ok()) << Print(g) << compiled.status();
  std::vector<ir::HostArray> arrays;
  for (const Tensor& t : inputs) {
    arrays.emplace_back(t.dtype, t.shape);
    for (size_t i = 0; i < t.data.size(); ++i) arrays.back().Set(static_cast<int64_t>(i), t.data[i]);
  }
  for (const Tensor& t : expected) arrays.emplace_back(t.dtype, t.shape);
  std::vector<ir::InterpretArg> args;
  size_t next = 0;
  for (const ir::Param& p : compiled->module.funcs.back().params) {
    if (p.buffer)
      args.emplace_back(&arrays[next++]);
    else
      args.emplace_back(n);
  }
  const Status ran = ir::Interpret(compiled->module, g.name(), args, {{"n", n}});
  ASSERT_TRUE(ran.ok()) << Print(g) << compiled->text << ir::Print(compiled->module) << ran;
  for (size_t k = 0; k < expected.size(); ++k) {
    const double tolerance = ToleranceOf(expected[k].dtype);
    for (size_t i = 0; i < expected[k].data.size(); ++i) {
      const double a = arrays[inputs.size() + k].Get(static_cast<int64_t>(i)), b = expected[k].data[i];
      const bool same =
          a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * (std::abs(b) + 0.5);
      ASSERT_TRUE(same) << Print(g) << compiled->text << ir::Print(compiled->module) << "n = " << n << ", result " << k
                        << ", element " << i << ": " << a << ", expected " << b;
    }
  }
}

// The CUDA source, which NVRTC has compiled if it is here.
std::string Emit(const Graph& g) {
  StatusOr<Compiled> compiled = Lower(g, true);
  EXPECT_TRUE(compiled.ok()) << Print(g) << compiled.status();
  if (!compiled.ok()) return "";
  const ir::Module& module = compiled->module;
  CompileOptions options;
  if (auto flags = CompileOptions::FromFlags(); flags.ok()) options.nvrtc = flags->nvrtc;
  const std::unique_ptr<DeviceCompiler> compiler = MakeCudaCompiler(Hopper(), options, nullptr);
  const StatusOr<std::string> source = compiler->EmitSource(module);
  EXPECT_TRUE(source.ok()) << Print(g) << source.status();
  if (!source.ok()) return "";
  const StatusOr<std::string> host = EmitHostModule(module, Hopper(), options, HostText::kLlvm);
  EXPECT_TRUE(host.ok()) << Print(g) << ir::Print(module) << host.status();
  if (backends::NvrtcForTests() != nullptr) {
    const StatusOr<KernelImages> images = compiler->Compile(module, "");
    EXPECT_TRUE(images.ok()) << Print(g) << compiled->text << *source << images.status();
  }
  if (getenv("CINN_SHOW_SOURCE") != nullptr)
    printf("%s%s%s\n", Print(g).c_str(), compiled->text.c_str(), source->c_str());
  return *source;
}

Graph ParseGraph(const std::string& text) {
  StatusOr<Graph> g = Parse(text);
  EXPECT_TRUE(g.ok()) << g.status();
  return *g;
}

std::string GeluGraph(const std::string& rows, const std::string& columns, std::string_view kind) {
  const std::string t = Cat("bf16[", rows, ",", columns, "]");
  return Cat("graph @gelu(%x: ", t, ", %b: bf16[", columns, "], %r: ", t, ") {\n  %0 = add(%x, %b) : ", t,
             "\n  %1 = gelu(%0) {approximate=\"", kind, "\"} : ", t,
             "\n  %2 = full() {value=0.5, dtype=bf16, shape=[]} : bf16[]\n  %3 = mul(%1, %2) : ", t,
             "\n  %4 = add(%3, %r) : ", t, "\n  return %4\n}\n");
}
std::string SoftmaxGraph(const std::string& shape, int axis, std::string_view dtype = "bf16") {
  return Cat("graph @softmax(%x: ", dtype, "[", shape, "]) {\n  %0 = softmax(%x) {axis=", axis, "} : ", dtype, "[",
             shape, "]\n  return %0\n}\n");
}
std::string RmsNormGraph(const std::string& rows, const std::string& columns) {
  const std::string t = Cat("bf16[", rows, ",", columns, "]");
  return Cat("graph @rms(%x: ", t, ", %r: ", t, ", %w: bf16[", columns, "]) {\n  %0 = add(%x, %r) : ", t,
             "\n  %1 = rms_norm(%0, %w) {axes=[1], epsilon=1e-6} : ", t, "\n  return %0, %1\n}\n");
}

TEST(CudaLowering, SpeedCases) {
  std::mt19937 rng(1);
  for (const char* kind : {"tanh", "none"}) {
    ExpectRuns(ParseGraph(GeluGraph("3", "24", kind)), 1, rng);
    Emit(ParseGraph(GeluGraph("32768", "4096", kind)));
  }
  ExpectRuns(ParseGraph(SoftmaxGraph("5,96", 1)), 1, rng);
  ExpectRuns(ParseGraph(SoftmaxGraph("2,1024", 1)), 1, rng);
  Emit(ParseGraph(SoftmaxGraph("16384,4096", 1)));
  ExpectRuns(ParseGraph(RmsNormGraph("3", "1024")), 1, rng);
  Emit(ParseGraph(RmsNormGraph("16384", "8192")));
}

TEST(CudaLowering, Softmax) {
  std::mt19937 rng(2);
  for (const char* shape :
       {"3,1,2", "2,127,3", "127,4,2", "5,6,127", "2,3,33", "1,1,4097", "4097,1,1", "2,4097,2", "1,20011"}) {
    for (int axis = 0; axis < 3; ++axis) {
      if (axis == 2 && std::count(shape, shape + strlen(shape), ',') < 2) continue;
      for (const char* dtype : {"f32", "bf16"}) {
        if (strlen(shape) > 6 && dtype[0] == 'b') continue;
        const Graph g = ParseGraph(SoftmaxGraph(shape, axis, dtype));
        ExpectRuns(g, 1, rng);
        Emit(g);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CudaLowering, SingleElementsWithSeveralResults) {
  std::mt19937 rng(5);
  const Graph g = ParseGraph(R"(graph @one(%x: f32[1,1], %y: f32[1]) {
  %0 = tanh(%x) : f32[1,1]
  %1 = reduce_mean(%0) {axes=[1], keepdims=true} : f32[1,1]
  %2 = tanh(%1) : f32[1,1]
  %3 = mul(%y, %y) : f32[1]
  %4 = add(%2, %3) : f32[1,1]
  return %2, %3, %4
}
)");
  ExpectRuns(g, 1, rng);
  Emit(g);
}

TEST(CudaLowering, EveryOpAndSample) {
  std::mt19937 rng(3);
  for (const OpDef* def : OpRegistry::BuiltIn().All()) {
    for (const std::string& sample : def->samples) {
      for (std::string_view dtype : {"f32", "bf16"}) {
        std::string text = sample;
        for (size_t at = 0; (at = text.find("f32", at)) != text.npos; at += dtype.size()) text.replace(at, 3, dtype);
        if (text == sample && dtype != "f32") continue;
        const StatusOr<Graph> g = SampleGraph(*def, text);
        if (!g.ok()) continue;
        const bool positive = def->name == "log" || def->name.ends_with("sqrt") || def->name == "pow" ||
                              def->name == "log1p" || def->name == "batch_norm";
        for (int64_t n : {1, 7}) ExpectRuns(*g, n, rng, positive);
        Emit(*g);
      }
    }
  }
}

TEST(CudaLowering, RandomGraphs) {
  std::mt19937 rng(4);
  for (int i = 0; i < 40; ++i) {
    const StatusOr<Graph> g = RandomGraph(rng, 1 + i % 8);
    ASSERT_TRUE(g.ok());
    ExpectRuns(*g, 1 + i % 5, rng);
    Emit(*g);
  }
}

}  // namespace
}  // namespace cinn_like::hlir
