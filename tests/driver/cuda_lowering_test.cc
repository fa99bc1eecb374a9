// Graphs through the whole compiler for a GPU, without one: the lowered kernels run in the loop interpreter against the
// independent evaluator, and NVRTC compiles what is emitted for them.
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "backends/cuda_compiler.h"
#include "backends/host_compile.h"
#include "cinn_like/base/matmul_spec.h"
#include "cinn_like/driver.h"
#include "hlir/library_matmul.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactic.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "ir/passes/split_host_device.h"
#include "tests/backends/nvrtc_for_tests.h"
#include "tests/column_sums.h"
#include "tests/hlir/evaluate.h"
#include "tests/hlir/samples.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

const Target& Hopper() {
  static const Target target = *Target::Parse("cuda -arch=sm_90a -shared-bytes=232448");
  return target;
}

// Small products leave most of it idle, so that their reductions are sliced.
const Target& ManyCores() {
  static const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=4200");
  return target;
}

const Target& WithLibrary() {
  static const Target target = *Target::Parse("cuda -arch=sm_90a -libs=cublas");
  return target;
}

// Has no matrix units of four warps.
const Target& AnyHopper() {
  static const Target target = *Target::Parse("cuda -arch=sm_90 -shared-bytes=232448");
  return target;
}

// Has fewer cores than there are tiles.
const Target& FewCores() {
  static const Target target = *Target::Parse("cuda -arch=sm_90 -shared-bytes=232448 -sm-count=2");
  return target;
}

// What a call of the library computes, written from its arguments alone: it takes the place of the call's own meaning.
StatusOr<ir::Stmt> ProductOf(const ir::Func& f, const ir::Call& call) {
  ASSIGN_OR_RETURN(const MatmulSpec spec, MatmulSpec::Decode(call.args[0]->int_value));
  const auto text = [&](size_t k) { return Cat("(", ir::Print(call.args[k]), ")"); };
  const auto element = [&](size_t k, const std::string& offset) {
    const ir::Expr e = call.args[k];
    return Cat(e->buffer->name, "[", ir::Print(e->args[0]), " + ", offset, "]");
  };
  const std::string a = element(1, Cat("lib_b * ", text(12), " + ", spec.transpose_a ? "lib_k" : "lib_i", " * ",
                                       text(9), " + ", spec.transpose_a ? "lib_i" : "lib_k"));
  const std::string b = element(2, Cat("lib_b * ", text(13), " + ", spec.transpose_b ? "lib_j" : "lib_k", " * ",
                                       text(10), " + ", spec.transpose_b ? "lib_k" : "lib_j"));
  const std::string d = element(4, Cat("lib_b * ", text(14), " + lib_i * ", text(11), " + lib_j"));
  const std::string wide = spec.dtype == DType::kF64 ? "f64" : "f32";
  const auto cast = [&](const std::string& to, const std::string& e) { return Cat(to, "(", e, ")"); };
  std::string r = Cat("for lib_b in 0..", text(8), " {\nfor lib_i in 0..", text(5), " {\nfor lib_j in 0..", text(6),
                      " {\nalloc lib_x: ", wide, "[1] @local\nlib_x[0] = ", wide, "(0.0)\nfor lib_k in 0..", text(7),
                      " {\nlib_x[0] = lib_x[0] + ", cast(wide, a), " * ", cast(wide, b), "\n}\n");
  if (spec.bias) r += Cat("lib_x[0] = lib_x[0] + ", cast(wide, element(3, "lib_j")), "\n");
  if (spec.epilogue == MatmulEpilogue::kRelu) r += "lib_x[0] = max(lib_x[0], " + wide + "(0.0))\n";
  if (spec.epilogue == MatmulEpilogue::kGelu)
    r += Cat("lib_x[0] = lib_x[0] * ", wide, "(0.5) * (", wide, "(1.0) + tanh(", wide, "(0.7978845608) * (lib_x[0] + ",
             wide, "(0.044715) * lib_x[0] * lib_x[0] * lib_x[0])))\n");
  return ir::ParseStmtOf(f, Cat(r, d, " = ", cast(std::string(Name(spec.result)), "lib_x[0]"), "\n}\n}\n}"));
}

StatusOr<ir::Func> WithProducts(ir::Func f) {
  Status status;
  std::function<ir::Stmt(const ir::Stmt&)> go = [&](const ir::Stmt& s) -> ir::Stmt {
    const ir::Call* call = ir::As<ir::Call>(s);
    if (call == nullptr || call->callee != "cinn_cublaslt_matmul" || call->meaning == nullptr)
      return ir::MapChildren(s, [](ir::Expr e) { return e; }, [&](const ir::Stmt& x) { return go(x); });
    const StatusOr<ir::Stmt> meaning = ProductOf(f, *call);
    status.Update(meaning.status());
    if (!meaning.ok()) return s;
    ir::Call r = *call;
    r.meaning = *meaning;
    return ir::MakeStmt(std::move(r));
  };
  f.body = go(f.body);
  if (!status.ok()) return status;
  return f;
}

struct Compiled {
  ir::Module module;
  std::string text;  // tactics and schedules
};

// Tactics that are taken even where they don't pay.
constexpr std::string_view kPreferred[] = {"matmul_library", "matmul_gpu"};

// Set by a test: loops as they stand, whatever tactics there are.
bool naive_only = false;

StatusOr<Proposal> Choose(const ir::TeProgram& group, const Target& target) {
  if (naive_only) return ProposeNaive(group, target);
  for (const Tactic& t : BuiltInTactics()) {
    if (std::count(std::begin(kPreferred), std::end(kPreferred), t.name) == 0) continue;
    Point point;
    ASSIGN_OR_RETURN(std::vector<Proposal> proposals, t.propose(group, target, Until::kSchedule, point));
    if (!proposals.empty()) return std::move(proposals[0]);
  }
  ASSIGN_OR_RETURN(Choice choice, ChooseSchedule(group, target));
  if (!choice.refused.empty()) return Internal(choice.refused[0]);
  return std::move(choice.proposal);
}

// `split` false: kernels stay in their functions, so that the interpreter can run them.
StatusOr<Compiled> Lower(const Graph& graph, bool split, const Target& target) {
  const PassContext context{.options = {}, .target = target, .name = "test"};
  ASSIGN_OR_RETURN(const Graph optimized, OptimizeGraph(graph, context));
  ASSIGN_OR_RETURN(LoweredGraph lowered, LowerGraph(optimized, context));
  Compiled r;
  for (LoweredGraph::Kernel& k : lowered.kernels) {
    StatusOr<Proposal> p = Choose(k.group, target);
    if (!p.ok()) return Annotate(p.status(), ir::Print(*ir::ToLoops(k.group)));
    r.text += Cat("// ", k.name, " by ", p->tactic, "\n", p->schedule);
    StatusOr<ir::Module> m = ir::Module{p->func.context, {}};
    if (split) {
      m = ir::LowerModule({p->func.context, {p->func}}, context);
    } else if (StatusOr<ir::Func> f = ir::LowerKernel(p->func, context); f.ok()) {
      ASSIGN_OR_RETURN(ir::Func whole, WithProducts(*std::move(f)));
      m->funcs.push_back(std::move(whole));
    } else {
      m = f.status();
    }
    if (!m.ok()) return Annotate(m.status(), Cat(ir::Print(*ir::ToLoops(k.group)), r.text));
    for (ir::Func& f : m->funcs) r.module.funcs.push_back(std::move(f));
  }
  if (lowered.check) {
    ASSIGN_OR_RETURN(ir::Func check, ir::LowerKernel(*std::move(lowered.check), context));
    ir::Module m{check.context, {std::move(check)}};
    if (split) {
      ASSIGN_OR_RETURN(m, ir::SplitHostDevice(std::move(m)));
    }
    for (ir::Func& f : m.funcs) r.module.funcs.push_back(std::move(f));
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

// With n of that size, and m, where there is one, of 3.
void ExpectRuns(const Graph& g, int64_t n, std::mt19937& rng, bool positive = false, const Target& target = Hopper()) {
  const Evaluator evaluator({{"n", n}, {"m", 3}});
  const bool one_op = g.ops().size() == 1;
  const std::vector<Tensor> inputs =
      one_op ? RandomSampleInputs(g, evaluator, rng, positive ? 0.1 : -2, 2) : RandomInputs(g, evaluator, rng);
  const std::vector<Tensor> expected = evaluator.Run(g, inputs);
  const StatusOr<Compiled> compiled = Lower(g, false, target);
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
  const Status ran =
      ir::Interpret(compiled->module, g.name(), args, {{"n", n}, {"m", 3}}, {.limits = Hopper().device->limits});
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

int Count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++n;
  return n;
}

// The CUDA source, which NVRTC has compiled if it is here.
std::string Emit(const Graph& g, const Target& target = Hopper()) {
  StatusOr<Compiled> compiled = Lower(g, true, target);
  EXPECT_TRUE(compiled.ok()) << Print(g) << compiled.status();
  if (!compiled.ok()) return "";
  const ir::Module& module = compiled->module;
  CompileOptions options;
  if (auto flags = CompileOptions::FromFlags(); flags.ok()) options.nvrtc = flags->nvrtc;
  const std::unique_ptr<DeviceCompiler> compiler = MakeCudaCompiler(target, options, nullptr);
  const StatusOr<std::string> source = compiler->EmitSource(module);
  EXPECT_TRUE(source.ok()) << Print(g) << source.status();
  if (!source.ok()) return "";
  const StatusOr<std::string> host = EmitHostModule(module, target, options, HostText::kLlvm);
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
  int cases = 0;
  for (const char* shape :
       {"3,1,2", "2,127,3", "127,4,2", "5,6,127", "2,3,33", "1,1,4097", "4097,1,1", "2,4097,2", "1,20011"}) {
    for (int axis = 0; axis < 3; ++axis) {
      if (axis == 2 && std::count(shape, shape + strlen(shape), ',') < 2) continue;
      for (const char* dtype : {"f32", "bf16"}) {
        if ((strlen(shape) > 6 && dtype[0] == 'b') || !IsTried(cases++)) continue;
        const Graph g = ParseGraph(SoftmaxGraph(shape, axis, dtype));
        ExpectRuns(g, 1, rng);
        Emit(g);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Of symbolic sizes there is a kernel for those near their hints, which knows as much as it needs to be as fast as of
// constant ones, and one for all others.
TEST(CudaLowering, NearHints) {
  struct Case {
    const char* in;
    int64_t hint;
    const char *ops, *near;
    std::vector<int64_t> sizes;
  };
  const Case cases[] = {
      {"f32[m,n]", 128, "%r = softmax(%0) {axis=1} : f32[m,n]", "1..128 hint", {128, 100, 1, 99, 132, 700, 1100}},
      {"bf16[m,n]", 65, "%r = softmax(%0) {axis=1} : bf16[m,n]", "1..128 hint", {65, 127, 1, 129}},
      {"bf16[m,n]", 128, "%r = softmax(%0) {axis=1} : bf16[m,n]", "8..128 multiple 8", {128, 8, 100, 136}},
      {"f32[m,n]", 33000, "%r = softmax(%0) {axis=1} : f32[m,n]", "4..65536 multiple 4", {40000, 4, 3}},
      {"f32[m,n]", 512, "%r = argmax(%0) {axis=1} : i64[m]", "1..512 hint", {512, 8, 77, 600}},
      {"f32[n,m]", 1000, "%r = softmax(%0) {axis=0} : f32[n,m]", "1..1024 hint", {1000, 1024, 5, 1030}},
      {"f32[m,n,n]",
       24,
       "%1 = reduce_max(%0) {axes=[1,2], keepdims=true} : f32[m,1,1]\n  %2 = sub(%0, %1) : f32[m,n,n]\n"
       "  %r = exp(%2) : f32[m,n,n]",
       "1..32 hint",
       {24, 4, 5, 40}},
      {"f32[m,n]", 1024, "%r = transpose(%0) {perm=[1,0]} : f32[n,m]", "multiple 4", {8, 5}},
  };
  std::mt19937 rng(23);
  for (const Case& c : cases) {
    const Graph g =
        ParseGraph(Cat("graph @near(%x: ", c.in, ") where m in 1..2147483647 hint 65536, n in 1..2147483647 hint ",
                       c.hint, " {\n  %0 = mul(%x, %x) : ", c.in, "\n  ", c.ops, "\n  return %r\n}\n"));
    const StatusOr<Compiled> compiled = Lower(g, false, Hopper());
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const std::string text = ir::Print(compiled->module);
    EXPECT_NE(compiled->text.find("_near by rows_gpu"), std::string::npos) << compiled->text;
    EXPECT_NE(text.find(c.near), std::string::npos) << Print(g) << text;
    for (const int64_t n : c.sizes) ExpectRuns(g, n, rng);
    Emit(g);
    if (HasFatalFailure()) return;
  }
}

// Elements whose places are quotients by sizes are as fast as with constant ones only where several are found at once,
// in 32 bits.
TEST(CudaLowering, PlacesNearHints) {
  std::mt19937 rng(41);
  for (const char* ops :
       {"%r = concat(%1, %1) {axis=2} : f32[m,3,2*n,n]", "%r = transpose(%1) {perm=[0,2,1,3]} : f32[m,n,3,n]"}) {
    const Graph g =
        ParseGraph(Cat("graph @places(%x: f32[m,n], %y: f32[m,3,n,n]) where m in 1..2147483647 hint 128, n in "
                       "1..2147483647 hint 56 {\n  %0 = exp(%x) : f32[m,n]\n  %1 = exp(%y) : f32[m,3,n,n]\n  ",
                       ops, "\n  return %r\n}\n"));
    const StatusOr<Compiled> compiled = Lower(g, false, Hopper());
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_NE(compiled->text.find("_near by rows_gpu"), std::string::npos) << compiled->text;
    for (const int64_t n : {1, 4, 5, 12}) ExpectRuns(g, n, rng);
    Emit(g);
    if (HasFatalFailure()) return;
  }
}

// What is read alone costs what 16 bytes do: products have a form near their hints that knows divisors.
TEST(CudaLowering, ProductsNearHints) {
  const Graph g = ParseGraph(
      "graph @products(%x: f32[m,96,n], %y: f32[m,n,128]) where m in 1..2147483647 hint 96, n in 1..2147483647 hint 64 "
      "{\n"
      "  %0 = matmul(%x, %y) : f32[m,96,128]\n  return %0\n}\n");
  const StatusOr<Compiled> compiled = Lower(g, true, *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=3350"));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_NE(compiled->text.find("_near by matmul_gpu"), std::string::npos) << compiled->text;
  EXPECT_NE(ir::Print(compiled->module).find("multiple 4"), std::string::npos);
}

// Few columns of bytes are not waited for one strip of many after the other: near the hint their number is bounded, and
// a thread of the only strip asks for as many elements at once as of a constant number.
TEST(CudaLowering, FewSymbolicColumns) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=3350");
  const Graph g = ParseGraph(
      "graph @bytes(%x: u8[8,m,m,n]) where m in 1..2147483647 hint 224, n in 1..2147483647 hint 3 {\n"
      "  %0 = cast(%x) {dtype=f32} : f32[8,m,m,n]\n  %1 = reduce_sum(%0) {axes=[1,2]} : f32[8,n]\n  return %1\n}\n");
  const StatusOr<Compiled> compiled = Lower(g, true, target);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_NE(compiled->text.find("split v 4 -> c x"), std::string::npos) << compiled->text;
  EXPECT_NE(compiled->text.find("split r 32 128 -> k u y"), std::string::npos) << compiled->text;
}

// All elements of a tensor are one line: whatever their number, they are read by 16 bytes, but for the last ones.
TEST(CudaLowering, LinesOfAnyLength) {
  std::mt19937 rng(43);
  for (const char* type : {"f32", "bf16", "i8"}) {
    for (const char* rest : {"", ",7", ",m"}) {
      const Graph g = ParseGraph(absl::StrReplaceAll(
          "graph @line(%x: T[n,3R], %y: T[n,3R]) where n in 1..2147483647 hint 1000M {\n"
          "  %0 = add(%x, %y) : T[n,3R]\n  return %0\n}\n",
          {{"T", type}, {"R", rest}, {"M", rest == std::string(",m") ? ", m in 1..2147483647 hint 100" : ""}}));
      for (const int64_t n : {1, 3, 5, 33}) ExpectRuns(g, n, rng);
      const std::string source = Emit(g);
      EXPECT_EQ(Count(source, "__global__"), 1) << source;
      EXPECT_GT(Count(source, "(const uint4*)"), 0) << source;
    }
  }
  const Graph sum = ParseGraph(
      "graph @sum(%x: bf16[n]) where n in 1..2147483647 hint 1000 {\n"
      "  %0 = reduce_sum(%x) {axes=[0]} : bf16[]\n  return %0\n}\n");
  for (const int64_t n : {1, 7, 8, 9, 1000, 1025}) ExpectRuns(sum, n, rng);
  EXPECT_GT(Count(Emit(sum), "(const uint4*)"), 0);
}

// Sizes a few times the hint have a form, too: a warp has a row of a length that is not known, of whose parts it leaves
// those behind that are beyond its end. The form for all others is for longer rows.
TEST(CudaLowering, FartherFromHints) {
  const Graph g = ParseGraph(
      "graph @g(%x: f32[m,n]) where m in 1..2147483647 hint 65536, n in 1..2147483647 hint 128 {\n"
      "  %0 = softmax(%x) {axis=1} : f32[m,n]\n  return %0\n}\n");
  const StatusOr<Compiled> compiled = Lower(g, true, Hopper());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const char* form : {"k0_near by rows_gpu", "k0_near2 by rows_gpu", "k0 by rows_gpu"})
    EXPECT_EQ(Count(compiled->text, form), 1) << compiled->text;
  EXPECT_EQ(Count(compiled->text, "split r 32 32 -> one k t"), 1) << compiled->text;
  EXPECT_EQ(Count(compiled->text, "split r 512 -> k t"), 1) << compiled->text;
  const std::string source = Emit(g);
  // All parts, whole, at once; else rungs of four.
  EXPECT_EQ(Count(source, "if (1023 < (int)n1) {"), 5) << source;
  for (int part = 128; part < 1024; part += 128)
    EXPECT_EQ(Count(source, Cat("if (", part, " < (int)n1) {")), 5) << source;
}

// Results of matrix units are written 16 bytes at a time where there are as many, also in columns of a symbolic number,
// and of tensors that are indexed in 64 bits.
TEST(CudaLowering, ColumnsNearHints) {
  const char* graph =
      "graph @product(%x: bf16[m,64], %w: bf16[64,n]) where m in 1..2147483647 hint 2048, n in 1..2147483647 hint 4096 "
      "{\n  %0 = matmul(%x, %w) : bf16[m,n]\n  %1 = exp(%0) : bf16[m,n]\n  return %1\n}\n";
  const Graph g = ParseGraph(graph);
  std::mt19937 rng(29);
  for (const int64_t n : {8, 7}) ExpectRuns(g, n, rng);
  const std::string source = Emit(g);
  // Both kernels are there, and one writes so.
  EXPECT_EQ(Count(source, "__global__"), 2) << source;
  EXPECT_GT(Count(source, "cinn_store_quad(p"), 0) << source;
}

// Columns of a symbolic length that fill the device are one thread's each where the hint says that they are short.
TEST(CudaLowering, ShortSymbolicColumns) {
  const Graph g = ParseGraph(
      "graph @sums(%x: f32[m,300001]) where m in 1..2147483647 hint 8 {\n"
      "  %0 = reduce_sum(%x) {axes=[0]} : f32[300001]\n  return %0\n}\n");
  std::mt19937 rng(31);
  for (const int64_t m : {3, 17}) ExpectRuns(g, m, rng);
  const std::string source = Emit(g);
  EXPECT_EQ(Count(source, "__launch_bounds__(128)"), Count(source, "__global__")) << source;
}

// Strips of columns that are fewer than cores are half as wide, 64 bytes, where they ask memory for too little at once
// (16 bits); not where they fill the cores.
TEST(CudaLowering, FewStripsOfColumnsAreHalfAsWide) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=3350");
  std::mt19937 rng(37);
  for (const auto& [type, columns, strip, sharers] :
       {std::tuple("bf16", 4096, 32, 32), {"f32", 4096, 32, 16}, {"bf16", 65536, 64, 16}}) {
    const Graph g =
        ParseGraph(Cat("graph @sums(%x: ", type, "[m,", columns, "]) where m in 1..2147483647 hint 16384 {\n",
                       "  %0 = reduce_sum(%x) {axes=[0]} : ", type, "[", columns, "]\n  return %0\n}\n"));
    const StatusOr<Compiled> compiled = Lower(g, true, target);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(Count(compiled->text, Cat("split v ", strip, " -> c x\n")), 1) << type << " " << compiled->text;
    EXPECT_EQ(Count(compiled->text, Cat("split r 32 ", sharers, " -> k u y\n")), 1) << type << " " << compiled->text;
    if (columns == 4096) ExpectRuns(g, 5, rng, false, target);
    if (HasFatalFailure()) return;
  }
}

// Rows that would fill a core's registers are shared by the blocks of a cluster, where the device has such.
// Rows that lie across what is written, or read, pass through shared memory: registers hold a block's part of them.
TEST(CudaLowering, RowsAcrossColumns) {
  std::mt19937 rng(16);
  // A mean's distances, scaled: of rows in memory's order, and transposed after or before.
  const auto graph = [](const std::string& dtype, const std::string& rows, const std::string& columns, bool before,
                        const std::string& symbols = "") {
    const std::string in = Cat(dtype, "[2,", before ? columns : rows, ",", before ? rows : columns, "]"),
                      lines = Cat(dtype, "[2,", rows, ",", columns, "]"),
                      across = Cat(dtype, "[2,", columns, ",", rows, "]"), mean = Cat(dtype, "[2,", rows, ",1]");
    std::string r = Cat("graph @f(%x: ", in, ", %w: ", dtype, "[", columns, "])", symbols, " {\n");
    r += before ? Cat("  %t = transpose(%x) {perm=[0,2,1]} : ", lines, "\n") : "";
    r += Cat("  %0 = reduce_mean(", before ? "%t" : "%x", ") {axes=[2], keepdims=true} : ", mean, "\n  %1 = sub(",
             before ? "%t" : "%x", ", %0) : ", lines, "\n  %2 = square(%1) : ", lines,
             "\n  %3 = reduce_mean(%2) {axes=[2], keepdims=true} : ", mean, "\n  %4 = mul(%1, %3) : ", lines,
             "\n  %5 = mul(%4, %w) : ", lines, "\n");
    r += before ? "" : Cat("  %6 = transpose(%5) {perm=[0,2,1]} : ", across, "\n");
    return r + Cat("  return ", before ? "%5" : "%6", "\n}\n");
  };
  const std::string symbols = " where n in 1..512 hint 40";
  for (const bool before : {false, true}) {
    for (const auto& [dtype, rows, columns] : {std::tuple("f32", "40", "96"),
                                               {"bf16", "49", "50"},
                                               {"bf16", "33", "65"},
                                               {"f64", "32", "24"},
                                               {"f16", "20", "700"},
                                               {"f32", "17", "1000"},
                                               {"f32", "16", "16"},
                                               {"f32", "n", "40"},
                                               {"bf16", "40", "n"}}) {
      const Graph g =
          ParseGraph(graph(dtype, rows, columns, before, rows[0] == 'n' || columns[0] == 'n' ? symbols : ""));
      const StatusOr<Compiled> compiled = Lower(g, false, Hopper());
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      EXPECT_EQ(Count(compiled->text, "storage_align"), 1) << compiled->text;
      for (const int64_t n : {1, 37}) ExpectRuns(g, n, rng);
      Emit(g);
      if (HasFailure()) return;
    }
    // There is nothing to gain; and rows that neither registers nor shared memory hold are transposed by a kernel.
    for (const auto& [rows, columns, by_itself] : {std::tuple("64", "8", 0), {"8", "64", 0}, {"4096", "9000", 1}}) {
      const StatusOr<Compiled> compiled = Lower(ParseGraph(graph("f32", rows, columns, before)), false, Hopper());
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      EXPECT_EQ(Count(compiled->text, "storage_align"), by_itself) << compiled->text;
      EXPECT_EQ(Count(compiled->text, "storage_align row0 32 1"), by_itself) << compiled->text;
    }
  }
  // Rows and columns of several dimensions, a result each way, and an input each way.
  const Graph both = ParseGraph(
      "graph @f(%x: f32[2,5,7,6,8], %y: f32[2,6,8,5,7]) {\n  %0 = transpose(%y) {perm=[0,3,4,1,2]} : f32[2,5,7,6,8]\n"
      "  %1 = add(%x, %0) : f32[2,5,7,6,8]\n  %2 = reduce_max(%1) {axes=[1,2], keepdims=true} : f32[2,1,1,6,8]\n"
      "  %3 = sub(%1, %2) : f32[2,5,7,6,8]\n  %4 = exp(%3) : f32[2,5,7,6,8]\n"
      "  %5 = transpose(%4) {perm=[0,3,4,1,2]} : f32[2,6,8,5,7]\n  return %3, %5\n}\n");
  ExpectRuns(both, 1, rng);
  Emit(both);
}

TEST(CudaLowering, RowsOfClusters) {
  std::mt19937 rng(11);
  for (const auto& [shape, dtype] :
       {std::pair("2,33001", "bf16"), {"1,33024", "bf16"}, {"1,70001", "f32"}, {"1,40960", "f32"}}) {
    const Graph g = ParseGraph(SoftmaxGraph(shape, 1, dtype));
    ExpectRuns(g, 1, rng);
    Emit(g);
    if (HasFatalFailure()) return;
  }
  const Graph best = ParseGraph(
      "graph @best(%x: f32[2,50001], %y: f32[2,50001]) {\n  %0 = add(%x, %y) : f32[2,50001]\n"
      "  %1 = argmax(%0) {axis=1} : i64[2]\n  %2 = reduce_max(%0) {axes=[1]} : f32[2]\n"
      "  return %1, %2\n}\n");
  ExpectRuns(best, 1, rng);
  Emit(best);
  const std::string source = Emit(ParseGraph(SoftmaxGraph("4096,50257", 1, "bf16")));
  EXPECT_NE(source.find("__cluster_dims__(2, 1, 1) __launch_bounds__(256)"), source.npos) << source;
  EXPECT_EQ(Count(source, "cinn_cluster_barrier();"), 2) << source;
  EXPECT_EQ(Count(source, "__syncthreads"), 0) << source;
  // Its accesses are of 16 bytes, though a row begins anywhere: of 13 that a thread has the first and the last one ask
  // whether they are inside.
  EXPECT_EQ(Count(source, "*(const uint4*)(p0"), 13) << source;
  EXPECT_EQ(Count(source, "cinn_store16(p1 + "), 15) << source;
  // 16-bit results hide what powers of 2 are off by.
  EXPECT_EQ(Count(source, "expf("), 0) << source;
  // There are two for each of 104 elements: what no registers hold is computed again.
  EXPECT_GT(Count(source, "cinn_exp2_f32("), 2 * 104) << source;
  EXPECT_GT(Count(Emit(ParseGraph(SoftmaxGraph("4096,50257", 1, "f32"))), "expf("), 0);
  // 98 elements a thread, but not of a symbolic length, where each access asks whether it is there.
  for (const char* n : {"64", "n"}) {
    const std::string t = Cat("bf16[", n, ",256,3136]");
    const StatusOr<Compiled> columns = Lower(
        ParseGraph(Cat("graph @f(%x: ", t, ")", n[0] == 'n' ? " where n in 2..65536 hint 64" : "",
                       " {\n  %0 = reduce_max(%x) {axes=[0,2], keepdims=true} : bf16[1,256,1]\n  %1 = sub(%x, %0) : ",
                       t, "\n  return %1\n}\n")),
        false, Hopper());
    ASSERT_TRUE(columns.ok()) << columns.status();
    EXPECT_EQ(columns->text.find("clusterIdx") != std::string::npos, n[0] == '6') << columns->text;
  }
  // Two blocks of such a row fit on a core.
  EXPECT_EQ(Emit(ParseGraph(SoftmaxGraph("4096,20000", 1, "bf16"))).find("cluster"), source.npos);
  // Older devices have none.
  const Compiled old =
      *Lower(ParseGraph(SoftmaxGraph("4096,50257", 1, "bf16")), true, *Target::Parse("cuda -arch=sm_80"));
  EXPECT_EQ(ir::Print(old.module).find("cluster"), std::string::npos);
}

// Columns of a length that is not known, of which registers hold the longest, are read once, under conditions.
TEST(CudaLowering, ShortColumnsOfAnyLength) {
  std::mt19937 rng(7);
  for (const bool is_known : {false, true}) {
    const std::string x = is_known ? "f32[40,24]" : "f32[n,24]";
    const Graph g = ParseGraph(Cat("graph @f(%x: ", x, ")", is_known ? "" : " where n in 1..512 hint 40",
                                   " {\n  %0 = softmax(%x) {axis=0} : ", x, "\n  return %0\n}\n"));
    const StatusOr<Compiled> compiled = Lower(g, false, Hopper());
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(Count(compiled->text, "scope row0 local"), is_known ? 0 : 1) << compiled->text;
    for (const int64_t n : {1, 37}) ExpectRuns(g, n, rng);
    Emit(g);
  }
}

// Columns too long for registers are shared by a cluster's blocks, or wait in shared memory, if that holds them.
TEST(CudaLowering, LongColumns) {
  std::mt19937 rng(6);
  for (const auto& [shape, dtype] : {std::pair("1030,24", "bf16"), {"1025,7", "f32"}, {"2,1500,8", "f32"}}) {
    const Graph g = ParseGraph(SoftmaxGraph(shape, shape[0] == '2' ? 1 : 0, dtype));
    ExpectRuns(g, 1, rng);
    Emit(g);
  }
  const std::string clusters = Emit(ParseGraph(SoftmaxGraph("4096,16384", 0, "bf16")));
  EXPECT_NE(clusters.find("__cluster_dims__(8, 1, 1) __launch_bounds__(256)"), clusters.npos) << clusters;
  EXPECT_EQ(Count(clusters, "p0["), 64) << clusters;  // each element is read once
  // The first exchange is among a block's own threads, the second among those of all blocks.
  const std::string more = Emit(ParseGraph(SoftmaxGraph("4097,16384", 0, "bf16")));
  EXPECT_EQ(Count(more, "cinn_cluster_store(s1 "), 1) << more;
  EXPECT_EQ(Count(more, "cinn_cluster_store(s0 "), 0) << more;
  const Graph best = ParseGraph(
      "graph @best(%x: f32[1100,40]) {\n  %0 = argmax(%x) {axis=0} : i64[40]\n"
      "  %1 = reduce_sum(%x) {axes=[0]} : f32[40]\n  return %0, %1\n}\n");
  ExpectRuns(best, 1, rng);
  Emit(best);
  // What is read once needs no place, and no cluster.
  EXPECT_EQ(Emit(ParseGraph("graph @sum(%x: f32[4096,16384]) {\n  %0 = reduce_sum(%x) {axes=[0]} : f32[16384]\n"
                            "  return %0\n}\n"))
                .find("cluster"),
            std::string::npos);
  const std::string source = Emit(ParseGraph(SoftmaxGraph("6000,16384", 0, "bf16")));
  EXPECT_EQ(Count(source, "p0["), 0) << source;  // each 16 bytes of it are read once
  EXPECT_EQ(Count(source, "cluster"), 0) << source;
  const Graph long_columns = ParseGraph(SoftmaxGraph("5500,9", 0, "f32"));
  ExpectRuns(long_columns, 1, rng);
  Emit(long_columns);
  Emit(ParseGraph(SoftmaxGraph("40970,1638", 0, "bf16")));
}

// Registers hold a part of a row whose dimensions do not become one.
TEST(CudaLowering, RowsOfSeveralDimensions) {
  std::mt19937 rng(7);
  for (const auto& [rows, height, width] : {std::tuple("2,4", "8", "8"), {"3,5", "7", "3"}}) {
    const Graph g = ParseGraph(absl::StrReplaceAll(R"(graph @norm(%x: f32[R,H,W], %s: f32[H,1]) {
  %0 = mul(%x, %s) : f32[R,H,W]
  %1 = reduce_sum(%0) {axes=[2,3], keepdims=true} : f32[R,1,1]
  %2 = sub(%0, %1) : f32[R,H,W]
  return %2, %1
}
)",
                                                   {{"R", rows}, {"H", height}, {"W", width}}));
    ExpectRuns(g, 1, rng);
    Emit(g);
  }
}

// A row over any of the dimensions, in whatever order they lie (batch norm in training): in registers, over blocks,
// shared.
TEST(CudaLowering, RowsOverAnyDimensions) {
  std::mt19937 rng(11);
  const auto graph_of = [](const std::vector<int64_t>& shape, const std::vector<int>& axes) {
    std::string of, one, reduced;
    int64_t count = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool is_reduced = std::count(axes.begin(), axes.end(), static_cast<int>(d)) > 0;
      of += Cat(d == 0 ? "" : ",", shape[d]);
      one += Cat(d == 0 ? "" : ",", is_reduced ? 1 : shape[d]);
      if (is_reduced) {
        reduced += Cat(reduced.empty() ? "" : ",", d);
        count *= shape[d];
      }
    }
    return ParseGraph(absl::StrReplaceAll(
        R"(graph @norm(%x: f32[S], %w: f32[O]) {
  %0 = reduce_mean(%x) {axes=[A], keepdims=true} : f32[O]
  %1 = sub(%x, %0) : f32[S]
  %2 = square(%1) : f32[S]
  %3 = reduce_mean(%2) {axes=[A], keepdims=true} : f32[O]
  %4 = full() {value=1e-05, dtype=f32, shape=[]} : f32[]
  %5 = add(%3, %4) : f32[O]
  %6 = rsqrt(%5) : f32[O]
  %7 = mul(%1, %6) : f32[S]
  %8 = mul(%7, %w) : f32[S]
  return %8, %3
}
)",
        {{"[S]", Cat("[", of, "]")}, {"[O]", Cat("[", one, "]")}, {"[A]", Cat("[", reduced, "]")}}));
  };
  for (int round = 0; round < Rounds(60); ++round) {
    std::vector<int64_t> shape;
    std::vector<int> axes;
    int64_t elements = 1;
    const int rank = 2 + static_cast<int>(rng() % 4);
    for (int d = 0; d < rank; ++d) {
      const int64_t most = round % 3 == 0 ? 64 : 9;
      shape.push_back(1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(most)));
      elements *= shape.back();
      if (rng() % 2 == 0) axes.push_back(d);
    }
    if (axes.empty()) axes.push_back(0);
    const Graph g = graph_of(shape, axes);
    for (const Target* target : {&Hopper(), &ManyCores()}) {
      const StatusOr<Compiled> compiled = Lower(g, true, *target);  // refuses nothing
      EXPECT_TRUE(compiled.ok()) << Print(g) << compiled.status();
    }
    if (elements < 5000) ExpectRuns(g, 1, rng);
  }
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{8, 64, 56, 56}, {8, 64, 28, 28}, {32, 256, 14, 14}, {32, 512, 7, 7}, {5, 3, 31, 33}}) {
    const StatusOr<Compiled> compiled = Lower(graph_of(shape, {0, 2, 3}), true, ManyCores());
    EXPECT_TRUE(compiled.ok()) << compiled.status();
  }
}

// A pair (largest, where) that threads, warps and blocks reduce apart and join.
TEST(CudaLowering, ReductionsOfPairs) {
  std::mt19937 rng(7);
  for (const char* shape : {"3,127", "2,4097", "127,40", "1500,3", "1,1"}) {
    for (int axis : {0, 1}) {
      const std::string rows(shape, strchr(shape, ',')), columns(strchr(shape, ',') + 1);
      const Graph g =
          ParseGraph(Cat("graph @best(%x: bf16[", shape, "], %y: bf16[", shape, "]) {\n  %0 = mul(%x, %y) : bf16[",
                         shape, "]\n  %1 = argmax(%0) {axis=", axis, "} : i64[", axis == 0 ? columns : rows,
                         "]\n  %2 = argmin(%0) {axis=", axis, ", keepdims=true} : i64[",
                         axis == 0 ? "1," + columns : rows + ",1", "]\n  return %1, %2\n}\n"));
      ExpectRuns(g, 1, rng);
      Emit(g);
      if (HasFatalFailure()) return;
    }
  }
  const std::string source =
      Emit(ParseGraph("graph @best(%x: f32[16384,4096]) {\n  %0 = argmax(%x) {axis=1} : i64[16384]\n  return %0\n}\n"));
  EXPECT_NE(source.find("__launch_bounds__(256)"), source.npos) << source;  // a row is one block's
  EXPECT_EQ(Count(source, "(p0 + "), 4) << source;                          // 16 bytes at a time, once
  // Threads exchange single values, the value and then its place, which fits into 32 bits.
  EXPECT_EQ(Count(source, "__shared__ __align__(16) long long"), 0) << source;
  EXPECT_NE(source.find("cinn_min_i32(int"), source.npos) << source;
}

// Along many columns a thread goes along a scan, the others are side by side; along few, and along rows, a block's
// threads do together, in turns. What computes the elements is in their loop.
TEST(CudaLowering, Scans) {
  std::mt19937 rng(8);
  for (const char* shape : {"3,127", "300,40", "1,1", "5,1", "2,5000", "9,1024"}) {
    for (const char* op : {"cumsum", "cummax"}) {
      for (int axis : {0, 1}) {
        const std::string t = Cat("f32[", shape, "]"), two = op[3] == 's' ? "" : Cat(", i64[", shape, "]");
        ExpectRuns(ParseGraph(Cat("graph @scan(%x: ", t, ", %y: ", t, ") {\n  %0 = mul(%x, %y) : ", t, "\n  %1",
                                  two.empty() ? "" : ", %2", " = ", op, "(%0) {axis=", axis, "} : ", t, two,
                                  "\n  %3 = neg(%1) : ", t, "\n  return %3", two.empty() ? "" : ", %2", "\n}\n")),
                   1, rng);
        if (HasFatalFailure()) return;
      }
    }
  }
  const std::string source = Emit(
      ParseGraph("graph @scan(%x: f32[64,300,4096]) {\n  %0 = exp(%x) : f32[64,300,4096]\n  %1 = cumsum(%0) {axis=1} : "
                 "f32[64,300,4096]\n  return %1\n}\n"));
  EXPECT_EQ(Count(source, "__global__"), 1) << source;
  EXPECT_NE(source.find("< 18"), source.npos) << source;  // a thread's loop, 16 elements at once, and a rest
  for (const char* op : {"cumsum", "cumprod"}) {
    for (const char* t : {"f32", "f64", "bf16", "i64"}) {
      for (const int64_t n : {1, 7, 700}) {
        const std::string type = Cat(t, "[3,n]");
        ExpectRuns(ParseGraph(Cat("graph @scan(%x: ", type, ") where n in 1..65536 hint ", 1 + n / 2, " {\n  %0 = ", op,
                                  "(%x) {axis=1} : ", type, "\n  return %0\n}\n")),
                   n, rng);
        if (HasFatalFailure()) return;
      }
    }
  }
  // What reads a result there is the same kernel, unless others have the result, too.
  for (const char* results : {"%3", "%1, %3"}) {
    const std::string t = "i64[32,500]";
    const hlir::Graph g =
        ParseGraph(Cat("graph @scan(%x: bool[32,500], %y: ", t, ") {\n  %0 = cast(%x) {dtype=i64} : ", t,
                       "\n  %1 = cumsum(%0) {axis=1} : ", t, "\n  %2 = mul(%1, %y) : ", t, "\n  %3 = add(%2, %y) : ", t,
                       "\n  return ", results, "\n}\n"));
    ExpectRuns(g, 1, rng);
    EXPECT_EQ(Count(Emit(g), "__global__"), results[1] == '3' ? 1 : 2) << results;
    if (HasFatalFailure()) return;
  }
  const std::string rows = Emit(
      ParseGraph("graph @scan(%x: f32[512,4096]) {\n  %0 = cumsum(%x) {axis=1} : f32[512,4096]\n  return %0\n}\n"));
  EXPECT_EQ(Count(rows, "__shfl_xor_sync"), 5) << rows;   // of 32 threads
  EXPECT_EQ(Count(rows, "= cinn_load16(p0"), 1) << rows;  // a thread's elements
  EXPECT_EQ(Count(rows, "cinn_store16(p1 + "), 1) << rows;
}

// Two sums of rows that no registers hold are one pass over them, by 16 bytes at a time.
TEST(CudaLowering, LongRowsComeOnceForTwoSums) {
  const auto graph = [](const std::string& rows, const std::string& columns) {
    const std::string t = Cat("bf16[", rows, ",", columns, "]"), wide = Cat("f32[", rows, ",", columns, "]"),
                      one = Cat("f32[", rows, ",1]");
    return ParseGraph(Cat("graph @sums(%x: ", t, ", %y: ", t, ") {\n  %0 = cast(%x) {dtype=f32} : ", wide,
                          "\n  %1 = cast(%y) {dtype=f32} : ", wide,
                          "\n  %2 = reduce_sum(%0) {axes=[1], keepdims=true} : ", one, "\n  %3 = mul(%0, %1) : ", wide,
                          "\n  %4 = reduce_sum(%3) {axes=[1], keepdims=true} : ", one, "\n  %5 = add(%2, %4) : ", one,
                          "\n  %6 = mul(%0, %5) : ", wide, "\n  %7 = cast(%6) {dtype=bf16} : ", t,
                          "\n  return %7\n}\n"));
  };
  const std::string source = Emit(graph("512", "200704"));
  EXPECT_EQ(Count(source, "for (int"), 2) << source;  // the sums, and the results
  EXPECT_EQ(Count(source, "cinn_store16(p2 + "), 1) << source;
  std::mt19937 rng(8);
  ExpectRuns(graph("2", "70000"), 1, rng);
}

// Few results of many elements: parts, each by blocks of its own, then one kernel for the parts.
TEST(CudaLowering, ReductionsToFewResults) {
  std::mt19937 rng(8);
  struct {
    const char *symbols, *shape, *result, *reduction;
    int kernels;
    std::vector<int64_t> sizes;
  } cases[] = {
      {"", "300,1013", "", "reduce_sum(%0) {axes=[0,1]}", 2, {1}},  // rows; the last part is not full
      {"", "291007", "", "reduce_max(%0) {axes=[0]}", 2, {1}},      // inside of a line
      {"", "291007", "", "argmax(%0) {axis=0}", 2, {1}},
      {"", "1,300000", "1", "reduce_min(%0) {axes=[1]}", 2, {1}},  // aligned
      {"", "20003,5", "5", "reduce_sum(%0) {axes=[0]}", 2, {1}},   // columns
      {"", "20003,5", "5", "argmax(%0) {axis=0}", 2, {1}},         // of pairs
      {"", "2,32768,3", "2,1,3", "reduce_max(%0) {axes=[1], keepdims=true}", 2, {1}},
      {" where n in 1..4096", "n,200,30", "30", "reduce_sum(%0) {axes=[0,1]}", 2, {1, 3}},
      {" where n in 1..4096", "n,3,20011", "3", "reduce_max(%0) {axes=[0,2]}", 2, {1, 3}},
      {"", "64,100", "", "reduce_sum(%0) {axes=[0,1]}", 1, {1}},  // too little to share
      // As many parts as it turns out to need, likely or not.
      {" where n in 1..2147483647 hint 291007", "n", "", "reduce_sum(%0) {axes=[0]}", 2, {1, 40001}},
      {" where n in 1..2147483647 hint 291007", "n", "", "argmax(%0) {axis=0}", 2, {5000}},
      {" where n in 1..2147483647 hint 65536", "n,5", "5", "reduce_sum(%0) {axes=[0]}", 2, {129, 3001}},
      {" where n in 1..2147483647", "n", "", "reduce_max(%0) {axes=[0]}", 2, {1000}},
      {" where n in 1..2147483647 hint 64", "n,5", "5", "reduce_sum(%0) {axes=[0]}", 1, {1, 300}},
  };
  int tried = 0;
  for (const auto& c : cases) {
    const std::string in = Cat("[", c.shape, "]"), type = strstr(c.reduction, "arg") != nullptr ? "i64[" : "f32[";
    const Graph g = ParseGraph(Cat("graph @few(%x: f32", in, ")", c.symbols, " {\n  %y = exp(%x) : f32", in,
                                   "\n  %0 = sub(%y, %x) : f32", in, "\n  %1 = ", c.reduction, " : ", type, c.result,
                                   "]\n  %2 = abs(%1) : ", type, c.result, "]\n  return %2\n}\n"));
    const StatusOr<Compiled> compiled = Lower(g, false, Hopper());
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(Count(compiled->text, "// ") - Count(compiled->text, "_near"), c.kernels)
        << Print(g) << compiled->text << ir::Print(compiled->module);
    if (!IsTried(tried++)) continue;
    for (int64_t n : c.sizes) ExpectRuns(g, n, rng);
    Emit(g);
    if (HasFatalFailure()) return;
  }
}

// What is read lies across what is written: both move in rows, through a tile in registers.
// What groups of channels are reduced to, and all elements by what their group has: one kernel, whatever the shape in
// which they are written.
TEST(CudaLowering, GroupsOfChannels) {
  std::mt19937 rng(21);
  const auto graph_of = [](std::string_view symbols, std::string_view n, std::string_view c, std::string_view group,
                           std::string_view side) {
    const std::string x = Cat("f32[", n, ",", c, ",", side, ",", side, "]"),
                      parts = Cat("f32[", n, ",3,", group, ",", side, "*", side, "]"), one = Cat("f32[", n, ",3,1,1]");
    const std::string of_x = Cat("[", n, ",", c, ",", side, ",", side, "]"),
                      of_parts = Cat("[", n, ",3,", group, ",", side, "*", side, "]");
    return Cat("graph @groups(%x: ", x, ", %w: f32[", c, "])", symbols, " {\n  %0 = reshape(%x) {shape=", of_parts,
               "} : ", parts, "\n  %1 = reduce_mean(%0) {axes=[2,3], keepdims=true} : ", one,
               "\n  %2 = sub(%0, %1) : ", parts, "\n  %3 = square(%2) : ", parts,
               "\n  %4 = reduce_mean(%3) {axes=[2,3], keepdims=true} : ", one, "\n  %5 = rsqrt(%4) : ", one,
               "\n  %6 = mul(%2, %5) : ", parts, "\n  %7 = reshape(%6) {shape=", of_x, "} : ", x,
               "\n  %8 = reshape(%w) {shape=[1,", c, ",1,1]} : f32[1,", c, ",1,1]\n  %9 = mul(%7, %8) : ", x,
               "\n  %10 = silu(%9) : ", x, "\n  return %10\n}\n");
  };
  for (const std::string& text :
       {graph_of("", "2", "12", "4", "5"), graph_of("", "2", "12", "4", "8"),
        graph_of(" where n in 1..64 hint 2, m in 1..64 hint 3", "n", "12", "4", "m"),
        graph_of(" where n in 1..64 hint 2, m in 3..300 multiple 3 hint 3", "n", "m", "m/3", "8")}) {
    const Graph g = ParseGraph(text);
    for (int64_t n : {1, 17}) ExpectRuns(g, n, rng);
    const StatusOr<Compiled> compiled = Lower(g, true, Hopper());
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(Count(compiled->text, "// groups_k1"), 0) << compiled->text;
    EXPECT_EQ(Count(compiled->text, "naive"), 0) << compiled->text;
    if (HasFatalFailure()) return;
  }
}

TEST(CudaLowering, Transpositions) {
  std::mt19937 rng(9);
  struct {
    const char *symbols, *in, *perm, *out;
  } cases[] = {
      {"", "64,160", "1,0", "160,64"},
      {"", "33,127", "1,0", "127,33"},
      {"", "3,40,72", "0,2,1", "3,72,40"},
      {"", "2,24,5,7", "0,2,3,1", "2,5,7,24"},  // two dimensions are a line
      {"", "2,20,24,3", "3,2,0,1", "3,24,2,20"},
      {"", "2,64,20,20", "0,2,3,1", "2,20,20,64"},  // through shared memory
      {"", "2,12,12,64", "0,3,1,2", "2,64,12,12"},
      {" where n in 1..64", "n,48", "1,0", "48,n"},
      {" where n in 1..64", "36,n,2", "1,2,0", "n,2,36"},
  };
  for (const auto& c : cases) {
    for (std::string t : {"f32", "bf16"}) {
      const std::string in = Cat(t, "[", c.in, "]"), out = Cat(t, "[", c.out, "]");
      const Graph g =
          ParseGraph(Cat("graph @across(%x: ", in, ", %y: ", in, ", %r: ", out, ")", c.symbols,
                         " {\n  %0 = mul(%x, %y) : ", in, "\n  %1 = transpose(%0) {perm=[", c.perm, "]} : ", out,
                         "\n  %2 = tanh(%1) : ", out, "\n  %3 = add(%2, %r) : ", out, "\n  return %3, %2\n}\n"));
      for (int64_t n : {1, 17}) {
        if (n == 1 || c.symbols[0] != 0) ExpectRuns(g, n, rng);
      }
      Emit(g);
      if (HasFatalFailure()) return;
    }
  }
  const std::string source = Emit(ParseGraph(
      "graph @across(%x: f32[8192,4096], %b: f32[8192]) {\n  %0 = transpose(%x) {perm=[1,0]} : f32[4096,8192]\n  %1 = "
      "add(%0, %b) : f32[4096,8192]\n  return %1\n}\n"));
  EXPECT_EQ(Count(source, "*(const uint4*)(p0 + "), 4) << source;
  EXPECT_EQ(Count(source, "cinn_store16(p2 + "), 4) << source;
  // A tile of 64 x 64, whose rows are 65 apart for the sake of shared memory's banks; of few columns a thread's own.
  EXPECT_NE(source.find("__shared__ __align__(16) float s0[4160];"), source.npos) << source;
  // So is it where two dimensions are a line, either way.
  for (const auto& [from, perm, to] : {std::tuple("8,64,56,56", "0,2,3,1", "8,56,56,64"),
                                       {"8,56,56,64", "0,3,1,2", "8,64,56,56"},
                                       {"8,64,28,28", "0,2,3,1", "8,28,28,64"}}) {
    const std::string images = Emit(ParseGraph(Cat("graph @images(%x: f32[", from, "]) {\n  %0 = transpose(%x) {perm=[",
                                                   perm, "]} : f32[", to, "]\n  return %0\n}\n")));
    EXPECT_NE(images.find("__shared__ __align__(16) float s0[4160];"), images.npos) << images;
  }
  for (const char* shape : {"[8192,32]", "[32,8192]"}) {
    const bool tall = shape[1] == '8';
    const std::string few =
        Emit(ParseGraph(Cat("graph @few(%x: f32", shape, ") {\n  %0 = transpose(%x) {perm=[1,0]} : f32",
                            tall ? "[32,8192]" : "[8192,32]", "\n  return %0\n}\n")));
    EXPECT_EQ(few.find("__shared__"), few.npos) << few;
    EXPECT_EQ(Count(few, "*(const uint4*)(p0 + "), 4) << few;
  }
}

// A sum of elements of which one alone may differ from 0 is that one: rows of a cross entropy's gradient before the
// softmax. What is not 0 elsewhere, or asks for more, is added up.
TEST(CudaLowering, SumsOfOneHot) {
  std::mt19937 rng(45);
  struct {
    const char *what, *element;
    bool reduced;
  } cases[] = {
      {"one", "select(%is, %a, %zero)", false},
      {"of a row and a column", "select(%is, %y, %zero)", true},
      {"all but one", "select(%is, %zero, %a)", true},
      {"of places that differ by more", "select(%both, %a, %zero)", true},
  };
  for (const auto& c : cases) {
    const Graph g =
        ParseGraph(Cat(R"(graph @one(%t: i64[7,1], %u: i64[1,n], %a: f32[7,1], %y: f32[7,n]) where n in 1..64 {
  %zero = full() {value=0, dtype=f32} : f32[]
  %i = iota() {shape=[n]} : i64[n]
  %is = eq(%i, %t) : bool[7,n]
  %other = eq(%u, %t) : bool[7,n]
  %both = or(%is, %other) : bool[7,n]
  %e = )",
                       c.element, R"( : f32[7,n]
  %s = reduce_sum(%e) {axes=[1], keepdims=true} : f32[7,1]
  %r = mul(%y, %s) : f32[7,n]
  return %r, %s
}
)"));
    const StatusOr<Compiled> compiled = Lower(g, false, Hopper());
    ASSERT_TRUE(compiled.ok()) << c.what << compiled.status();
    EXPECT_EQ(Count(compiled->text, "threadIdx.y") + Count(compiled->text, "l_r") > 0, c.reduced)
        << c.what << compiled->text;
    for (const int64_t n : {1, 3, 40}) ExpectRuns(g, n, rng);
    Emit(g);
    if (HasFatalFailure()) return;
  }
}

// What is read under conditions is one access a thread, or as many narrow ones as 16 bytes hold.
TEST(CudaLowering, ReadUnderConditions) {
  const auto shifted = [](int64_t columns) {
    const std::string t = Cat("bf16[65536,", columns, "]"), one = "bf16[65536,1]",
                      rest = Cat("bf16[65536,", columns - 1, "]");
    return Emit(
        ParseGraph(Cat("graph @f(%x: ", t, ", %y: ", t, ") {\n  %0 = slice(%x) {axis=1, begin=0, end=1} : ", one,
                       "\n  %1 = slice(%x) {axis=1, begin=1, end=", columns, "} : ", rest,
                       "\n  %2 = concat(%1, %0) {axis=1} : ", t, "\n  %3 = add(%2, %y) : ", t, "\n  return %3\n}\n")));
  };
  const std::string wide = shifted(128), narrow = shifted(127);
  EXPECT_EQ(Count(wide, "cinn_store16(p2 + "), 1) << wide;
  EXPECT_EQ(Count(narrow, "  p2["), 8) << narrow;
}

// Accesses of lines whose length is odd begin where memory's words do: of narrow elements, long lines, and where all
// that moves along them begins alike.
TEST(CudaLowering, LinesOfOddLengths) {
  std::mt19937 rng(44);
  const auto scaled = [](const std::string& type, const std::string& rows, int64_t columns, int64_t from,
                         const std::string& symbols = "") {
    const std::string in = Cat(type, "[", rows, ",", columns + from, "]"),
                      out = Cat(type, "[", rows, ",", columns, "]"), row = Cat("f32[", rows, ",1]"),
                      wide = Cat("f32[", rows, ",", columns, "]");
    return ParseGraph(Cat("graph @scaled(%x: ", in, ", %m: ", row, ")", symbols, " {\n  %0 = slice(%x) {axis=",
                          std::count(rows.begin(), rows.end(), ',') + 1, ", begin=", from, ", end=", columns + from,
                          "} : ", out, "\n  %1 = cast(%0) {dtype=f32} : ", wide, "\n  %2 = mul(%1, %m) : ", wide,
                          "\n  %3 = cast(%2) {dtype=", type, "} : ", out, "\n  return %3\n}\n"));
  };
  struct {
    const char* what;
    Graph graph;
    int64_t n;
    bool shifted;
  } cases[] = {
      {"odd", scaled("bf16", "6", 1001, 0), 1, true},
      {"two dimensions of rows", scaled("f16", "2,3", 1003, 0), 1, true},
      {"a number of rows that is not known", scaled("bf16", "n", 1005, 0, " where n in 1..100"), 3, true},
      {"even", scaled("bf16", "6", 1002, 0), 1, false},
      {"short", scaled("bf16", "6", 577, 0), 1, false},
      {"wide elements", scaled("f32", "6", 1001, 0), 1, false},
      {"read from the second on", scaled("bf16", "6", 1001, 1), 1, false},
  };
  for (const auto& c : cases) {
    const std::string source = Emit(c.graph);
    EXPECT_EQ(source.find("*(const uint4*)(p0 + ") != source.npos, c.shifted) << c.what << source;
    EXPECT_EQ(source.find("cinn_store16(p2 + ") != source.npos, c.shifted) << c.what << source;
    if (c.shifted) ExpectRuns(c.graph, c.n, rng);
    if (HasFatalFailure()) return;
  }
}

// Strips of columns that leave half of the cores idle are cut by rows.
TEST(CudaLowering, ColumnSumsFillTheCores) {
  const Graph g = ParseGraph(
      "graph @sums(%x: f32[65536,2048]) {\n  %0 = reduce_sum(%x) {axes=[0], keepdims=false} : f32[2048]\n  return "
      "%0\n}\n");
  const StatusOr<Compiled> compiled = Lower(g, true, *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=3350"));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(Count(compiled->text, " by rows_gpu"), 2) << compiled->text;
}

TEST(CudaLowering, ReductionsToFewResultsReadOnce) {
  std::mt19937 rng(10);
  const Graph g = ParseGraph(R"(graph @few(%x: f32[20011,5], %y: f32[20011,5]) {
  %0 = mul(%x, %y) : f32[20011,5]
  %1 = reduce_sum(%0) {axes=[0]} : f32[5]
  %2 = reduce_sum(%y) {axes=[0]} : f32[5]
  return %1, %2
}
)");
  const StatusOr<Compiled> compiled = Lower(g, false, Hopper());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(Count(compiled->text, "// "), 2)
      << compiled->text;  // the parts of both, and the sum of parts, called twice
  EXPECT_EQ(Count(compiled->text, "\ntogether "), 1) << compiled->text;
  ExpectRuns(g, 1, rng);
  Emit(g);
}

// Two sums of columns are joined behind the elements between them, which come in another order of dimensions.
TEST(CudaLowering, JoinedColumnSumsAroundElements) {
  const Graph g =
      ParseGraph(R"(graph @g(%x: f32[2,64,96], %y: f32[2,64,96], %w: f32[96], %z: f32[2,64,96], %m: f32[96,32]) {
    %a = add(%x, %y) : f32[2,64,96]
    %0 = reduce_sum(%a) {axes=[0,1], keepdims=true} : f32[1,1,96]
    %1 = reshape(%0) {shape=[96]} : f32[96]
    %2 = mul(%a, %z) : f32[2,64,96]
    %5 = mul(%a, %w) : f32[2,64,96]
    %3 = reduce_sum(%2) {axes=[0,1], keepdims=true} : f32[1,1,96]
    %4 = reshape(%3) {shape=[96]} : f32[96]
    %6 = reshape(%5) {shape=[128,96]} : f32[128,96]
    %7 = matmul(%6, %m) : f32[128,32]
    return %1, %4, %7
  }
  )");
  const StatusOr<Compiled> compiled = Lower(g, false, Hopper());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(Count(compiled->text, "naive"), 0) << compiled->text;
  std::mt19937 rng(5);
  ExpectRuns(g, 1, rng);
}

// Sums over columns are parts of the kernel that goes through the rows, and a second one adds up the parts.
TEST(CudaLowering, ColumnSumsBesideRows) {
  std::mt19937 rng(12);
  const Target few = *Target::Parse("cuda -arch=sm_90a -shared-bytes=232448 -sm-count=4");
  struct {
    const char *rows, *columns, *dtype;
    int64_t n;
    bool together;
  } cases[] = {
      {"96", "256", "f32", 1, true},    {"64", "1000", "bf16", 1, true},
      {"4,24", "264", "bf16", 1, true},  // parts of the inner rows
      {"24,n", "256", "f32", 3, true},   // or of the outer
      {"n,24", "257", "f32", 2, true},   // no wide accesses
      {"97", "256", "f32", 1, false},    // no number of parts without a rest
      {"n", "256", "f32", 97, false},    // nor known
      {"96", "24", "f32", 1, false},     // too few columns for a block
  };
  int tried = 0;
  for (const auto& c : cases) {
    for (const char* text : {kNorm, kBias}) {
      const Graph g = ColumnSumsGraph(text, c.rows, c.columns, c.dtype);
      const StatusOr<Compiled> compiled = Lower(g, false, few);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      EXPECT_EQ(Count(compiled->text, "\nsplit_init "), c.together) << Print(g) << compiled->text;
      EXPECT_EQ(Count(compiled->text, "naive"), 0) << Print(g) << compiled->text;
      if (!IsTried(tried++)) continue;
      ExpectRuns(g, c.n, rng, false, few);
      Emit(g, few);
      if (HasFatalFailure()) return;
    }
  }
  // A block has about eight rows; where no number of parts gives that, rather fewer.
  for (const auto& [rows, parts] :
       {std::pair("8192", 1024), std::pair("8,1024", 2048), std::pair("64,197", 1576), std::pair("4096", 512)}) {
    const auto compiled = Lower(ColumnSumsGraph(kNorm, rows, "768", "f32"), true,
                                *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=4800"));
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_GT(Count(ir::Print(compiled->module), Cat("[", parts * 768, "]")), 0) << rows << compiled->text;
  }
}

TEST(CudaLowering, IndexChecks) {
  const Graph g = ParseGraph(R"(
graph @checks(%x: f32[n,5], %i: i64[7], %j: i32[3,700]) where n in 1..100 {
  %0 = check_index(%i) {size=n, from_end=true} : i64[7]
  %1 = gather(%x, %0) {axis=0} : f32[7,5]
  %2 = check_index(%j) {size=5} : i32[3,700]
  %3 = gather(%1, %2) {axis=1} : f32[7,3,700]
  %4 = iota() {dtype=i64, shape=[n], axis=0} : i64[n]
  %5 = check_index(%4) {size=n} : i64[n]
  %6 = gather(%x, %5) {axis=0} : f32[n,5]
  return %3, %6
})");
  const std::string source = Emit(g);
  EXPECT_EQ(Count(source, "__global__"), 2) << source;
  EXPECT_EQ(Count(source, "__assertfail(\"op 0, check_index: index out of range\""), 1) << source;
  EXPECT_EQ(Count(source, "__assertfail(\"op 2, check_index: index out of range\""), 1) << source;
  EXPECT_EQ(Count(source, "__assertfail("), 2) << source;  // what loops count needs none
  const StatusOr<Compiled> compiled = Lower(g, false, Hopper());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto run = [&](double i, double j) {
    std::vector<ir::HostArray> arrays = {{DType::kF32, {4, 5}},
                                         {DType::kI64, {7}},
                                         {DType::kI32, {3, 700}},
                                         {DType::kF32, {7, 3, 700}},
                                         {DType::kF32, {4, 5}}};
    const int64_t sizes[] = {20, 7, 2100};
    for (size_t k = 0; k < 3; ++k) {
      for (int64_t at = 0; at < sizes[k]; ++at) arrays[k].Set(at, 0);
    }
    arrays[1].Set(6, i);
    arrays[2].Set(1234, j);
    std::vector<ir::InterpretArg> args;
    for (ir::HostArray& a : arrays) args.emplace_back(&a);
    return Message(ir::Interpret(compiled->module, g.name(), args, {{"n", 4}}));
  };
  EXPECT_EQ(run(3, 4), "");
  EXPECT_EQ(run(-4, 0), "");
  EXPECT_EQ(run(4, 4), "@checks_k0: op 0, check_index: index out of range");
  EXPECT_EQ(run(-5, 4), "@checks_k0: op 0, check_index: index out of range");
  EXPECT_EQ(run(3, 5), "@checks_k0: op 2, check_index: index out of range");
  EXPECT_EQ(run(3, -1), "@checks_k0: op 2, check_index: index out of range");
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
  int cases = 0;
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
        if (!IsTried(cases++)) continue;
        for (int64_t n : {1, 7}) ExpectRuns(*g, n, rng, positive);
        ExpectRuns(*g, 6, rng, positive, WithLibrary());
        Emit(*g);
      }
    }
  }
}

TEST(CudaLowering, RandomGraphs) {
  std::mt19937 rng(4);
  for (int i = 0; i < Rounds(40); ++i) {
    const StatusOr<Graph> g = RandomGraph(rng, 1 + i % 8);
    ASSERT_TRUE(g.ok());
    ExpectRuns(*g, 1 + i % 5, rng);
    ExpectRuns(*g, 1 + i % 5, rng, false, WithLibrary());
    Emit(*g);
  }
}

// One product by the library and everything that it may take along; `calls` is how often it is called, `kernels` how
// many kernels of our own there are besides. Where it can't take all along, or needs copies, a kernel of our own is
// cheaper at these sizes.
struct LibraryCase {
  const char* what;
  int calls, kernels;
  std::string graph;
};

std::vector<LibraryCase> LibraryCases() {
  std::vector<LibraryCase> r;
  for (std::string t : {"f16", "bf16", "f32", "f64"}) {
    const int rest = t == "f64" ? 1 : 0;  // the library adds nothing to sums of f64
    r.push_back({"linear", 1 - rest, rest,
                 Cat("(%x: ", t, "[n,4,6], %w: ", t, "[10,6], %b: ", t, "[10]) where n in 1..64 {\n",
                     "  %0 = transpose(%w) {perm=[1,0]} : ", t, "[6,10]\n  %1 = matmul(%x, %0) : ", t,
                     "[n,4,10]\n  %2 = add(%1, %b) : ", t, "[n,4,10]\n  return %2\n}\n")});
    for (const char* f : {"gelu(%1) {approximate=\"tanh\"}", "relu(%1)", "gelu(%1) {approximate=\"none\"}"}) {
      const int own = strstr(f, "none") != nullptr ? 1 : rest;
      r.push_back({"activation", 1 - own, own,
                   Cat("(%x: ", t, "[n,6], %w: ", t, "[6,10], %b: ", t, "[10]) where n in 1..64 {\n",
                       "  %0 = matmul(%x, %w) : ", t, "[n,10]\n  %1 = add(%0, %b) : ", t, "[n,10]\n  %2 = ", f, " : ",
                       t, "[n,10]\n  return %2\n}\n")});
    }
  }
  r.push_back({"a column of bias is an addition like any other", 0, 1,
               "(%x: f32[8,6], %w: f32[6,8], %b: f32[8,1]) {\n  %0 = matmul(%x, %w) : f32[8,8]\n  %1 = add(%0, %b) : "
               "f32[8,8]\n  return %1\n}\n"});
  r.push_back({"transposed operands and result", 1, 0,
               "(%x: f32[6,n], %w: f32[5,6]) where n in 1..64 {\n  %0 = transpose(%x) {perm=[1,0]} : f32[n,6]\n  %1 = "
               "transpose(%w) {perm=[1,0]} : f32[6,5]\n  %2 = matmul(%0, %1) : f32[n,5]\n  %3 = transpose(%2) "
               "{perm=[1,0]} : f32[5,n]\n  return %3\n}\n"});
  r.push_back({"a batch of transposed products", 1, 0,
               "(%x: bf16[n,3,5,6], %y: bf16[n,3,7,6]) where n in 1..64 {\n  %0 = transpose(%y) {perm=[0,1,3,2]} : "
               "bf16[n,3,6,7]\n  %1 = matmul(%x, %0) : bf16[n,3,5,7]\n  return %1\n}\n"});
  // Scores, softmax and the values, heads inside of rows: two products that read them in place.
  const std::string attention =
      R"((%q: f32[64*n,128], %k: f32[64*n,128], %v: f32[64*n,128], n: i64, %w: f32[128,128]) where n in 1..64 {
  %0 = reshape(%q) {shape=[n,64,2,64]} : f32[n,64,2,64]
  %1 = transpose(%0) {perm=[0,2,1,3]} : f32[n,2,64,64]
  %2 = reshape(%k) {shape=[n,64,2,64]} : f32[n,64,2,64]
  %3 = transpose(%2) {perm=[0,2,3,1]} : f32[n,2,64,64]
  %4 = reshape(%v) {shape=[n,64,2,64]} : f32[n,64,2,64]
  %5 = transpose(%4) {perm=[0,2,1,3]} : f32[n,2,64,64]
  %6 = matmul(%1, %3) : f32[n,2,64,64]
  %7 = softmax(%6) {axis=3} : f32[n,2,64,64]
  %8 = matmul(%7, %5) : f32[n,2,64,64]
  %9 = transpose(%8) {perm=[0,2,1,3]} : f32[n,64,2,64]
  %10 = reshape(%9) {shape=[64*n,128]} : f32[64*n,128]
  %11 = matmul(%10, %w) : f32[64*n,128]
  return %11
}
)";
  r.push_back({"attention", 1, 3, attention});
  r.push_back({"attention of f16, one kernel of its own, and a product", 1, 1,
               absl::StrReplaceAll(attention, {{"f32", "f16"}})});
  for (const char* part : {"f32[5,8]", "f32[7,6]"}) {
    const int axis = part[4] == '5' ? 0 : 1;
    r.push_back({"a part of the product", 1, 1,
                 Cat("(%x: f32[7,6], %w: f32[6,8]) {\n  %0 = matmul(%x, %w) : f32[7,8]\n  %1 = slice(%0) {axis=", axis,
                     ", begin=0, end=", axis == 0 ? 5 : 6, ", step=1} : ", part, "\n  %2 = relu(%1) : ", part,
                     "\n  return %2\n}\n")});
  }
  return r;
}

TEST(CudaLowering, LibraryProducts) {
  std::mt19937 rng(5);
  int tried = 0;
  for (const LibraryCase& c : LibraryCases()) {
    const Graph g = ParseGraph(Cat("graph @product", c.graph));
    const StatusOr<Compiled> compiled = Lower(g, true, WithLibrary());
    ASSERT_TRUE(compiled.ok()) << c.what << compiled.status();
    EXPECT_EQ(Count(compiled->text, "cinn_cublaslt_matmul"), c.calls) << c.what << Print(g) << compiled->text;
    EXPECT_EQ(Count(compiled->text, "// ") - c.calls, c.kernels) << c.what << Print(g) << compiled->text;
    if (!IsTried(tried++)) continue;
    for (int64_t n : {1, 3}) {
      if (strstr(c.what, "attention") != nullptr && n > 1) continue;  // it takes the interpreter long
      if (strstr(c.what, "f16") != nullptr) continue;                 // scores rounded to f16
      ExpectRuns(g, n, rng, false, WithLibrary());
    }
    Emit(g, WithLibrary());
    if (HasFatalFailure()) return;
  }
}

// Sizes from which matrix units are not fed are padded where the machine is slow enough for that to pay.
TEST(CudaLowering, PaddedProducts) {
  const Target slow = *Target::Parse("cuda -arch=sm_80 -sm-count=1 -bandwidth=1000000 -libs=cublas");
  struct Case {
    const char* what;
    bool is_padded;
    int kernels;  // beside the calls
    std::string graph;
  };
  const std::string head = R"((%x: T[64,160], %w: T[161,160]) {
  %0 = transpose(%w) {perm=[1,0]} : T[160,161]
  %1 = matmul(%x, %0) : T[64,161]
  %2 = reduce_max(%1) {axes=[1]} : T[64]
  return RESULTS
}
)";
  const std::string gradients = R"((%x: bf16[64,160], %w: bf16[161,160], %d: f32[64,161]) {
  %0 = cast(%d) {dtype=bf16} : bf16[64,161]
  %1 = matmul(%0, %w) : bf16[64,160]
  %2 = transpose(%0) {perm=[1,0]} : bf16[161,64]
  %3 = matmul(%2, %x) : bf16[161,160]
  %4 = cast(%3) {dtype=f32} : f32[161,160]
  return %1, %4
}
)";
  const std::string views = R"((%x: bf16[8,8,160], %w: bf16[160,161], %b: bf16[161]) {
  %0 = reshape(%x) {shape=[64,160]} : bf16[64,160]
  %1 = matmul(%0, %w) : bf16[64,161]
  %2 = reshape(%1) {shape=[8,8,161]} : bf16[8,8,161]
  %3 = add(%2, %b) : bf16[8,8,161]
  return %3
}
)";
  const std::string moved = R"((%x: bf16[64,160], %w: bf16[160,161]) {
  %0 = matmul(%x, %w) : bf16[64,161]
  %1 = reshape(%0) {shape=[8,8,161]} : bf16[8,8,161]
  return %1
}
)";
  const std::string symbolic = R"((%x: bf16[64,n], %w: bf16[n,160]) where n in 1..200 hint 161 {
  %0 = matmul(%x, %w) : bf16[64,160]
  return %0
}
)";
  const auto with = [](std::string text, const char* t, const char* results) {
    return absl::StrReplaceAll(text, {{"T[", Cat(t, "[")}, {"RESULTS", results}});
  };
  std::mt19937 rng(7);
  int tried = 0;
  for (const Case& c :
       {Case{"columns of the result", true, 2, with(head, "bf16", "%2")},
        Case{"a result that the caller gets, too", true, 2, with(head, "f16", "%1, %2")},
        Case{"f32, which no matrix unit takes", false, 1, with(head, "f32", "%1, %2")},
        Case{"one copy for two products", true, 3, gradients}, Case{"a symbolic depth", true, 2, symbolic},
        Case{"a rounding that is written elsewhere", true, 2, moved}}) {
    if (!IsSeen(tried % 3)) {
      ++tried;
      continue;
    }
    const Graph g = ParseGraph(Cat("graph @product", c.graph));
    const StatusOr<Compiled> compiled = Lower(g, true, slow);
    ASSERT_TRUE(compiled.ok()) << c.what << compiled.status();
    const int calls = Count(compiled->text, "cinn_cublaslt_matmul");
    EXPECT_EQ(Count(compiled->text, "// ") - calls, c.kernels) << c.what << Print(g) << compiled->text;
    const int padded = Count(compiled->text, " 168") + Count(compiled->text, "+ 7) / 8 * 8, 1");
    EXPECT_EQ(padded > 0, c.is_padded) << c.what << compiled->text;
    // The product rounds, so that what lies between it and its reader is narrow.
    if (c.graph == moved) {
      EXPECT_EQ(Count(ir::Print(compiled->module), "o0: bf16[10752]"), 1) << compiled->text;
      EXPECT_EQ(Count(compiled->text, "-> eb eu et"), 1) << "a thread has several of the odd rows' elements";
    }
    if (!IsTried(tried++)) continue;
    for (int64_t n : {161, 16}) {
      if (n == 161 || strstr(c.what, "symbolic") != nullptr) ExpectRuns(g, n, rng, false, slow);
    }
    Emit(g, slow);
    if (HasFatalFailure()) return;
  }
}

// Kernels beside the library's calls.
int KernelsBeside(const std::string& graph, const std::string& numerics) {
  CompileOptions options;
  options.numerics = numerics;
  const auto text = EmitGraph(ParseGraph(graph), WithLibrary(), options, "schedule");
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? Count(*text, "// @") - Count(*text, " by matmul_library") : -1;
}

// Exact numerics round after every op, which the library does not between its sums and what it adds to them.
TEST(CudaLowering, ExactNumericsKeepRoundings) {
  CompileOptions exact;
  exact.numerics = "exact";
  for (const std::string t : {"bf16", "f16", "f32"}) {
    const std::string linear =
        Cat("graph @f(%x: ", t, "[512,512], %w: ", t, "[512,512], %b: ", t, "[512]) {\n  %0 = matmul(%x, %w) : ", t,
            "[512,512]\n  %1 = add(%0, %b) : ", t, "[512,512]\n  %2 = relu(%1) : ", t, "[512,512]\n  return %2\n}\n");
    EXPECT_EQ(KernelsBeside(linear, "fused"), 0) << linear;
    EXPECT_EQ(KernelsBeside(linear, "exact"), t == "f32" ? 0 : 1) << linear;
    const auto loops = EmitGraph(ParseGraph(linear), WithLibrary(), exact, "loops");
    ASSERT_TRUE(loops.ok()) << loops.status();
    if (t == "f32") continue;
    // The product's rounding is the library's; the sum is rounded before the relu.
    EXPECT_EQ(Count(*loops, Cat("f32(", t, "(")), 1) << *loops;
  }
  const std::string gelu = R"(graph @f(%x: f32[512,512], %w: f32[512,512]) {
  %0 = matmul(%x, %w) : f32[512,512]
  %1 = gelu(%0) {approximate="tanh"} : f32[512,512]
  return %1
}
)";
  EXPECT_EQ(KernelsBeside(gelu, "fused"), 0);
  EXPECT_EQ(KernelsBeside(gelu, "exact"), 1);
}

// An operand that is converted on its way is not what lies in memory, though its type is the same.
TEST(CudaLowering, TheLibraryReadsWhatTheProductReads) {
  for (const auto& [through, numerics, calls] :
       {std::tuple("i32", "fused", 0), {"i32", "exact", 0}, {"bf16", "exact", 0}, {"f64", "exact", 1}}) {
    const Graph g = ParseGraph(Cat("graph @f(%x: f32[64,64], %w: f32[64,64]) {\n  %0 = cast(%x) {dtype=", through,
                                   "} : ", through, "[64,64]\n  %1 = cast(%0) {dtype=f32} : f32[64,64]\n",
                                   "  %2 = matmul(%1, %w) : f32[64,64]\n  return %2\n}\n"));
    PassContext context{.options = {}, .target = WithLibrary(), .name = "test"};
    context.options.numerics = numerics;
    const auto optimized = OptimizeGraph(g, context);
    ASSERT_TRUE(optimized.ok()) << optimized.status();
    const auto lowered = LowerGraph(*optimized, context);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    int found = 0;
    for (const auto& k : lowered->kernels) found += FindLibraryMatmul(k.group).has_value();
    EXPECT_EQ(found, calls) << through << " " << numerics;
  }
}

// However gelu(tanh) is written out it is gelu; a function that is nearly gelu is not.
TEST(CudaLowering, OnlyGeluIsGelu) {
  // x * 0.5 * (1 + tanh(c2 * (x + c1 * x * x * x)))
  const std::string written = R"(  %5 = mul(%4, %4) : T
  %6 = mul(%5, %4) : T
  %7 = mul(%6, %2) : T
  %8 = add(%4, %7) : T
  %9 = mul(%8, %3) : T
  %10 = tanh(%9) : T
  %11 = add(%10, %0) : T
  %12 = mul(%4, %1) : T
  %13 = mul(%12, %11) : T
)";
  // x * (1 + tanh(x * c2 * (1 + c1 * x * x))) * 0.5
  const std::string factored = R"(  %5 = mul(%4, %2) : T
  %6 = mul(%5, %4) : T
  %7 = add(%6, %0) : T
  %8 = mul(%4, %3) : T
  %9 = mul(%8, %7) : T
  %10 = tanh(%9) : T
  %11 = add(%10, %0) : T
  %12 = mul(%4, %11) : T
  %13 = mul(%12, %1) : T
)";
  const auto kernels = [](const std::string& body, const char* c1, const char* c2) {
    std::string text = "graph @f(%x: T, %w: T) {\n";
    int next = 0;
    for (const char* value : {"1.0", "0.5", c1, c2})
      text += Cat("  %", next++, " = full() {value=", value, ", dtype=f32, shape=[]} : f32[]\n");
    text += Cat("  %4 = matmul(%x, %w) : T\n", body, "  return %13\n}\n");
    return KernelsBeside(absl::StrReplaceAll(text, {{"T", "f32[512,512]"}}), "fused");
  };
  for (const std::string& body : {written, factored}) {
    for (const char* c2 : {"0.7978845608028654", "0.7978845608", "0.79788456"}) {
      EXPECT_EQ(kernels(body, "0.044715", c2), 0) << body << c2;
    }
    EXPECT_EQ(kernels(body, "0.04473735", "0.7978845608"), 1) << body;  // 5e-4 off
    EXPECT_EQ(kernels(body, "0.044715", "0.7982835"), 1) << body;
    EXPECT_EQ(kernels(body, "0.04471505", "0.7978845608"), 1) << body;  // 1e-6
  }
}

// Products by tiles of our own, whatever their sides: odd, symbolic, batched, transposed, windows of images.
TEST(CudaLowering, OwnProducts) {
  std::mt19937 rng(7);
  std::vector<std::string> graphs;
  const auto product = [&](const std::string& t, const std::string& x, const std::string& w, const std::string& y) {
    const bool symbolic = x.find('n') != x.npos;
    graphs.push_back(Cat("(%x: ", t, "[", x, "], %w: ", t, "[", w, "])", symbolic ? " where n in 1..500" : "",
                         " {\n  %0 = matmul(%x, %w) : ", t, "[", y, "]\n  return %0\n}\n"));
  };
  for (const std::string t : {"f32", "f64", "f16", "bf16"}) {
    product(t, "19,77", "77,70", "19,70");
    product(t, "40,64", "64,72", "40,72");
  }
  product("i32", "19,24", "24,35", "19,35");
  product("f32", "100,77", "77,130", "100,130");
  product("f32", "2,64", "64,64", "2,64");
  product("f32", "27,409", "409,33", "27,33");
  product("bf16", "n,24", "24,40", "n,40");
  product("f32", "20,n", "n,24", "20,24");
  product("bf16", "3,2,20,24", "3,2,24,36", "3,2,20,36");
  product("f32", "3,n,24", "24,36", "3,n,36");
  std::uniform_int_distribution<int> size(2, 70), few(2, 9);
  for (int i = 0; i < Rounds(10); ++i) {
    const auto side = [&] { return Cat(rng() % 2 == 0 ? size(rng) : few(rng)); };
    const std::string m = side(), k = Cat(2 + size(rng)), n = side();
    product(i % 2 == 0 ? "f32" : "f16", Cat(m, ",", k), Cat(k, ",", n), Cat(m, ",", n));
  }
  for (const std::string t : {"f32", "bf16"}) {
    graphs.push_back(Cat("(%x: ", t, "[24,20], %w: ", t, "[36,24], %b: ", t,
                         "[36]) {\n  %0 = transpose(%x) {perm=[1,0]} : ", t,
                         "[20,24]\n  %1 = transpose(%w) {perm=[1,0]} : ", t, "[24,36]\n  %2 = matmul(%0, %1) : ", t,
                         "[20,36]\n  %3 = add(%2, %b) : ", t, "[20,36]\n  %4 = relu(%3) : ", t,
                         "[20,36]\n  %5 = transpose(%4) {perm=[1,0]} : ", t, "[36,20]\n  return %5\n}\n"));
    for (const auto& [w, attributes, y] :
         {std::tuple("12,8,3,3", "stride=[1,1], padding=[1,1], dilation=[1,1], groups=1", "3,12,9,7"),
          {"12,8,3,2", "stride=[2,3], padding=[0,1], dilation=[1,2], groups=1", "3,12,4,3"},
          {"12,4,3,3", "stride=[1,1], padding=[0,2], dilation=[1,1], groups=2", "3,12,7,9"},
          {"12,8,1,1", "stride=[1,1], padding=[0,0], dilation=[1,1], groups=1", "3,12,9,7"}}) {
      graphs.push_back(Cat("(%x: ", t, "[3,8,9,7], %w: ", t, "[", w, "], %b: ", t, "[12,1,1]) {\n  %0 = conv(%x, %w) {",
                           attributes, "} : ", t, "[", y, "]\n  %1 = add(%0, %b) : ", t, "[", y,
                           "]\n  %2 = relu(%1) : ", t, "[", y, "]\n  return %2\n}\n"));
    }
  }
  int cases = 0;
  for (const std::string& text : graphs) {
    const Target& target = cases++ % 2 == 0 ? Hopper() : ManyCores();
    if (!IsSeen(cases % 4)) continue;
    const Graph g = ParseGraph(Cat("graph @product", text));
    const StatusOr<Compiled> compiled = Lower(g, true, target);
    ASSERT_TRUE(compiled.ok()) << Print(g) << compiled.status();
    EXPECT_EQ(Count(compiled->text, " by matmul_gpu"), 1) << Print(g) << compiled->text;
    if (!IsTried(cases)) continue;
    for (int64_t n : {37, 1, 130}) {
      ExpectRuns(g, n, rng, false, target);
      if (HasFatalFailure() || text.find("where n") == text.npos || kRoundsDivisor > 1) break;
    }
    Emit(g, target);
    if (HasFatalFailure()) break;
  }
}

// Products of 16-bit floats run on matrix units, their operands fetched ahead, whichever way these lie: sides that are
// no multiple of a tile, more panels than are kept, windows of channels-last images.
TEST(CudaLowering, MatrixUnits) {
  std::mt19937 rng(11);
  std::vector<std::string> graphs;
  const auto product = [&](const std::string& t, int64_t m, int64_t k, int64_t n, int transposed) {
    const bool x = transposed % 2 != 0, w = transposed / 2 != 0;
    graphs.push_back(Cat("(%x: ", t, "[", x ? k : m, ",", x ? m : k, "], %w: ", t, "[", w ? n : k, ",", w ? k : n,
                         "]) {\n  %0 = transpose(%x) {perm=", x ? "[1,0]" : "[0,1]", "} : ", t, "[", m, ",", k,
                         "]\n  %1 = transpose(%w) {perm=", w ? "[1,0]" : "[0,1]", "} : ", t, "[", k, ",", n,
                         "]\n  %2 = matmul(%0, %1) : ", t, "[", m, ",", n, "]\n  return %2\n}\n"));
  };
  for (const int transposed : {0, 1, 2, 3}) {
    product("bf16", 40, 264, 72, transposed);
    product("f16", 24, 264, 72, transposed);
  }
  graphs.push_back(R"((%x: bf16[n,136], %w: bf16[136,72], %b: bf16[72]) where n in 1..300 hint 200 {
  %0 = matmul(%x, %w) : bf16[n,72]
  %1 = add(%0, %b) : bf16[n,72]
  %2 = relu(%1) : bf16[n,72]
  return %2
}
)");
  graphs.emplace_back(R"((%x: bf16[72,n], %w: bf16[n,72]) where n in 8..512 multiple 8 hint 264 {
  %0 = matmul(%x, %w) : bf16[72,72]
  return %0
}
)");
  graphs.emplace_back(
      "(%x: bf16[3,40,264], %w: bf16[3,264,72]) {\n  %0 = matmul(%x, %w) : bf16[3,40,72]\n  return %0\n}\n");
  const auto source_of = [](const Graph& g) {
    const StatusOr<Compiled> compiled = Lower(g, true, FewCores());
    EXPECT_TRUE(compiled.ok()) << Print(g) << compiled.status();
    if (!compiled.ok()) return std::string();
    EXPECT_EQ(Count(compiled->text, "tensorize"), 1) << Print(g) << compiled->text;
    EXPECT_EQ(Count(compiled->text, "pipeline"), 1) << Print(g) << compiled->text;
    std::string source = Emit(g, FewCores());
    EXPECT_GT(Count(source, " cinn_mma_"), 0) << source;
    EXPECT_GT(Count(source, "cp.async.wait_group"), 0) << source;
    return source;
  };
  for (size_t i = 0; i < graphs.size(); ++i) {
    if (!IsSeen(static_cast<int>(i % 9))) continue;
    const Graph g = ParseGraph(Cat("graph @product", graphs[i]));
    EXPECT_GT(Count(source_of(g), "  cinn_copy16("), 0) << Print(g);
    if (IsTried(static_cast<int>(i)) && (i % 3 == 0 || i >= 8)) ExpectRuns(g, 56, rng, false, FewCores());
    if (HasFatalFailure()) return;
  }
  // Windows of images, and rows that begin anywhere, are copied 2 bytes at a time, which waits.
  source_of(ParseGraph(R"(graph @images(%x: bf16[8,64,28,28], %w: bf16[64,64,3,3]) {
  %0 = conv(%x, %w) {stride=[1,1], padding=[1,1], dilation=[1,1], groups=1} : bf16[8,64,28,28]
  return %0
}
)"));
  graphs.clear();
  product("bf16", 999, 777, 601, 0);
  const std::string odd = source_of(ParseGraph(Cat("graph @product", graphs[0])));
  EXPECT_EQ(Count(odd, "  cinn_copy"), 0) << odd;
  // As many panels as there are copies of one: behind the last there is none to load from.
  graphs.clear();
  product("bf16", 72, 128, 72, 0);
  const std::string two = source_of(ParseGraph(Cat("graph @product", graphs[0])));
  EXPECT_EQ(Count(two, " < 2 ? "), 2) << two;
  // Older GPUs have other tiles.
  product("bf16", 72, 264, 72, 0);
  const StatusOr<Compiled> older =
      Lower(ParseGraph(Cat("graph @product", graphs[1])), true, *Target::Parse("cuda -arch=sm_75"));
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ(Count(older->text, "tensorize"), 0) << older->text;
}

// Weights of integers are converted and moved to their zero points where panels are made, one kernel for all of it; of
// few results the warps of a block have slices of the reduction each, whose sums meet in shared memory.
TEST(CudaLowering, ComputedOperands) {
  std::mt19937 rng(13);
  struct Case {
    std::string type, rows;
    int64_t depth, columns;
    bool of_groups, bias;
    std::string where;
  };
  int cases = 0, sliced = 0;
  for (const Case& x : {Case{"bf16", "16", 1024, 72, false, false, ""}, Case{"f16", "5", 520, 64, false, true, ""},
                        Case{"bf16", "40", 512, 40, true, true, ""}, Case{"bf16", "33", 77, 30, false, false, ""},
                        Case{"bf16", "64", 1024, 64, false, false, ""},

                        Case{"f32", "9", 96, 40, true, false, ""},
                        Case{"bf16", "n", 256, 48, true, false, " where n in 1..64 hint 40"}}) {
    const int64_t groups = x.of_groups ? x.depth / 32 : 1, group = x.depth / groups;
    const auto of = [&](const std::string& type, const auto&... dims) {
      std::string r = type;
      for (const std::string& d : {Cat(dims)...}) r += Cat(r == type ? "[" : ",", d);
      return r + "]";
    };
    const std::string weights = of(x.type, x.columns, groups, group);
    const std::string result = of(x.type, x.rows, x.columns);
    const Graph g = ParseGraph(Cat(
        "graph @computed(%x: ", of(x.type, x.rows, x.depth), ", %w: ", of("i8", x.columns, groups, group),
        ", %z: ", of("i8", x.columns, groups, 1), ", %b: ", of(x.type, x.columns), ")", x.where,
        " {\n  %0 = cast(%w) {dtype=", x.type, "} : ", weights, "\n  %6 = cast(%z) {dtype=", x.type,
        "} : ", of(x.type, x.columns, groups, 1), "\n  %1 = sub(%0, %6) : ", weights, "\n  %2 = reshape(%1) {shape=[",
        x.columns, ",", x.depth, "]} : ", of(x.type, x.columns, x.depth),
        "\n  %3 = transpose(%2) {perm=[1,0]} : ", of(x.type, x.depth, x.columns), "\n  %4 = matmul(%x, %3) : ", result,
        "\n", x.bias ? Cat("  %5 = add(%4, %b) : ", result, "\n  return %5\n}\n") : "  return %4\n}\n"));
    if (!IsSeen(cases++)) continue;
    const StatusOr<Compiled> compiled = Lower(g, true, ManyCores());
    ASSERT_TRUE(compiled.ok()) << Print(g) << compiled.status();
    EXPECT_EQ(Count(compiled->text, " by "), 1) << Print(g) << compiled->text;
    EXPECT_EQ(Count(compiled->text, " by matmul_gpu"), 1) << Print(g) << compiled->text;
    EXPECT_EQ(Count(compiled->text, "mma_m16n8k16"), x.type == "f32" ? 0 : 1) << compiled->text;
    sliced += Count(compiled->text, "rfactor");
    Emit(g, ManyCores());
    if (IsTried(cases)) ExpectRuns(g, 11, rng, false, ManyCores());
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(sliced, 0);
}

// Products of equal extents in one kernel: a gate and what it opens, which share a panel; of four operands; queries,
// keys and values with epilogues of their own, one of them a result as it is.
TEST(CudaLowering, ProductsInOnePass) {
  std::mt19937 rng(14);
  constexpr std::string_view kGraphs[] = {
      R"(graph @gate(%x: T[M,K], %g: T[N,K], %u: T[N,K]) WHERE{
  %0 = transpose(%g) {perm=[1,0]} : T[K,N]
  %1 = transpose(%u) {perm=[1,0]} : T[K,N]
  %2 = matmul(%x, %0) : T[M,N]
  %3 = matmul(%x, %1) : T[M,N]
  %4 = sigmoid(%2) : T[M,N]
  %5 = add(%4, %3) : T[M,N]
  return %5
}
)",
      R"(graph @cell(%x: T[M,K], %g: T[K,N], %h: T[M,K], %u: T[K,N]) WHERE{
  %0 = matmul(%x, %g) : T[M,N]
  %1 = matmul(%h, %u) : T[M,N]
  %2 = maximum(%0, %1) : T[M,N]
  return %2
}
)",
      R"(graph @qkv(%x: T[M,K], %q: T[K,N], %k: T[K,N], %v: T[K,N], %b: T[N]) WHERE{
  %0 = matmul(%x, %q) : T[M,N]
  %1 = matmul(%x, %k) : T[M,N]
  %2 = matmul(%x, %v) : T[M,N]
  %3 = add(%0, %b) : T[M,N]
  %4 = relu(%2) : T[M,N]
  return %3, %1, %4
}
)"};
  const std::tuple<std::string_view, std::string_view, std::string_view> kSizes[] = {
      {"72", "136", "72"}, {"77", "96", "40"}, {"n", "64", "72"}};
  const Target hopper = *Target::Parse("cuda -arch=sm_90a -shared-bytes=232448 -sm-count=2");
  int i = 0;
  for (const std::string_view text : kGraphs) {
    for (const auto& [m, n, k] : kSizes) {
      for (const std::string_view type : {"bf16", "f32"}) {
        for (const Target& target : {hopper, FewCores()}) {
          if (!IsSeen(i++)) continue;
          const std::vector<std::pair<std::string, std::string>> names = {
              {"T[", Cat(type, "[")},
              {"M", std::string(m)},
              {"N", std::string(n)},
              {"K", std::string(k)},
              {"WHERE", m == "n" ? "where n in 1..4096 hint 300 " : ""}};
          const Graph g = ParseGraph(absl::StrReplaceAll(std::string(text), names));
          const StatusOr<Compiled> compiled = Lower(g, true, target);
          ASSERT_TRUE(compiled.ok()) << Print(g) << compiled.status();
          // On two SMs prices leave some of the others apart.
          if (g.name() == "gate") {
            EXPECT_EQ(Count(compiled->text, "// gate_k"), 1) << compiled->text;
            EXPECT_EQ(Count(compiled->text, "define rhs2["), 1) << compiled->text;
            EXPECT_EQ(Count(compiled->text, "define lhs2["), 0) << "they share it: " << compiled->text;
          }
          ExpectRuns(g, 77, rng, false, target);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  // Both wait for their sums behind the loop, and share what the units read of the rows.
  const Graph gate = ParseGraph(absl::StrReplaceAll(
      std::string(kGraphs[0]), {{"T[", "bf16["}, {"M", "4096"}, {"N", "4096"}, {"K", "1024"}, {"WHERE", ""}}));
  const std::string source = Emit(gate, hopper);
  EXPECT_EQ(Count(source, "wgmma.wait_group.sync.aligned 0"), 2) << source;
  EXPECT_EQ(Count(source, "wgmma.wait_group.sync.aligned 1"), 1) << source;
  // However many share a tile, its columns are those of whole panels.
  const Target own = *Target::Parse("cuda -arch=sm_90a -shared-bytes=232448 -sm-count=132 -bandwidth=3350");
  for (const int count : {2, 3, 4, 6}) {
    if (!IsSeen(count)) continue;
    std::string params, body, results;
    for (int k = 0; k < count; ++k) {
      params += Cat(", %w", k, ": bf16[384,384]");
      body += Cat("  %", k, " = matmul(%x, %w", k, ") : bf16[8192,384]\n");
      results += Cat(k == 0 ? "" : ", ", "%", k);
    }
    const Graph g =
        ParseGraph(Cat("graph @many(%x: bf16[8192,384]", params, ") {\n", body, "  return ", results, "\n}\n"));
    EXPECT_GT(Count(Emit(g, own), " cinn_"), 0) << Print(g);
  }
  // Beside a library that has each product for less: all three together take less time, any two more.
  const Target library =
      *Target::Parse("cuda -arch=sm_90a -libs=cublas -shared-bytes=232448 -sm-count=132 -bandwidth=3350");
  const Graph wide = ParseGraph(absl::StrReplaceAll(
      std::string(kGraphs[0]), {{"T[", "bf16["}, {"M", "128"}, {"N", "14336"}, {"K", "4096"}, {"WHERE", ""}}));
  const PassContext context{.options = {}, .target = library, .name = "test"};
  const StatusOr<LoweredGraph> lowered = LowerGraph(*OptimizeGraph(wide, context), context);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(lowered->kernels.size(), 1);
}

// One row by weights that lie along the reduction is read by loops over rows, which overlap what a library waits for;
// by others a library is faster.
TEST(CudaLowering, OneRowByALinear) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -libs=cublas -sm-count=132 -bandwidth=3350");
  const Graph linear = ParseGraph(R"(graph @linear(%x: bf16[1,4096], %w: bf16[4096,4096]) {
  %0 = transpose(%w) {perm=[1,0]} : bf16[4096,4096]
  %1 = matmul(%x, %0) : bf16[1,4096]
  return %1
}
)"),
              plain = ParseGraph(R"(graph @plain(%x: bf16[1,4096], %w: bf16[4096,4096]) {
  %0 = matmul(%x, %w) : bf16[1,4096]
  return %0
}
)");
  for (const Graph* g : {&linear, &plain}) {
    const PassContext context{.options = {}, .target = target, .name = "test"};
    const StatusOr<LoweredGraph> lowered = LowerGraph(*OptimizeGraph(*g, context), context);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    ASSERT_EQ(lowered->kernels.size(), 1);
    const StatusOr<Choice> choice = ChooseSchedule(lowered->kernels[0].group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->proposal.tactic, g == &linear ? "rows_gpu" : "matmul_library");
  }
}

// Of those, the products that pay run on four warps' units at once on Hopper, from panels in memory that these permute.
TEST(CudaLowering, MatrixUnitsOfFourWarps) {
  std::mt19937 rng(12);
  const Target few =
      *Target::Parse("cuda -arch=sm_90a -shared-bytes=232448 -sm-count=2");  // fewer than there are tiles
  const auto product = [](const std::string& t, int64_t m, int64_t k, int64_t n, int transposed) {
    const bool x = transposed % 2 != 0, w = transposed / 2 != 0;
    return ParseGraph(Cat("graph @product(%x: ", t, "[", x ? k : m, ",", x ? m : k, "], %w: ", t, "[", w ? n : k, ",",
                          w ? k : n, "], %b: ", t, "[", n, "]) {\n  %0 = transpose(%x) {perm=", x ? "[1,0]" : "[0,1]",
                          "} : ", t, "[", m, ",", k, "]\n  %1 = transpose(%w) {perm=", w ? "[1,0]" : "[0,1]", "} : ", t,
                          "[", k, ",", n, "]\n  %2 = matmul(%0, %1) : ", t, "[", m, ",", n,
                          "]\n  %3 = add(%2, %b) : ", t, "[", m, ",", n, "]\n  return %3\n}\n"));
  };
  const auto source_of = [&](const Graph& g) {
    const StatusOr<Compiled> compiled = Lower(g, true, few);
    EXPECT_TRUE(compiled.ok()) << Print(g) << compiled.status();
    if (!compiled.ok()) return std::string();
    EXPECT_EQ(Count(compiled->text, "wgmma_m64k16"), 1) << Print(g) << compiled->text;
    return Emit(g, few);
  };
  for (const int transposed : {0, 1, 2, 3}) {
    if (!IsSeen(transposed)) continue;
    const std::string large = source_of(product("bf16", 4096, 4096, 4096, transposed));
    EXPECT_EQ(Count(large, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "), 4) << large;
    EXPECT_EQ(Count(large, "fence.proxy.async"), 0) << large;
    // Of 4 panels one is multiplied and one perhaps still read: two are on their way. No thread copies.
    EXPECT_EQ(Count(large, "  cinn_tensor_copy("), 6) << large;
    EXPECT_EQ(Count(large, "  cinn_await_copies("), 1) << large;
    EXPECT_EQ(Count(large, "const __grid_constant__ cinn_map m"), 2) << large;
    EXPECT_EQ(Count(large, "cp.async.commit_group") + Count(large, "cp.async.wait_group"), 0) << large;
    EXPECT_EQ(Count(large, "  cinn_store_quad("), 16) << large;
    EXPECT_EQ(Count(large, "  *(unsigned int*)("), 0) << large;
    if (HasFailure()) return;
  }
  for (const int transposed : {0, 1, 2, 3}) {
    // The copy engine reads zeros for what is missing of a last panel. A row of two lines takes whole ones.
    const Graph g = product("bf16", 72, 136, 136, transposed);
    const std::string source = source_of(g);
    EXPECT_GT(Count(source, "  cinn_tensor_copy("), 0) << source;
    EXPECT_EQ(Count(source, "fence.proxy.async"), 0) << source;
    if (IsSeen(transposed)) ExpectRuns(g, 1, rng, false, few);
  }
  // Rows that begin at no multiple of 16 bytes are copied by threads. What is left of a panel, these store, which the
  // units must be told.
  const Graph odd = product("bf16", 68, 136, 136, 1);
  const std::string of_threads = source_of(odd);
  EXPECT_GT(Count(of_threads, "fence.proxy.async"), 0) << of_threads;
  if (IsSeen(1)) ExpectRuns(odd, 1, rng, false, few);
  if (IsSeen(1)) source_of(product("f16", 1000, 520, 776, 3));
  const Graph rows = ParseGraph(
                  R"(graph @rows(%x: bf16[n,136], %w: bf16[136,136], %b: bf16[136]) where n in 1..9000 hint 4000 {
  %0 = matmul(%x, %w) : bf16[n,136]
  %1 = add(%0, %b) : bf16[n,136]
  %2 = relu(%1) : bf16[n,136]
  return %2
}
)"),
              steps =
                  ParseGraph(R"(graph @steps(%x: f16[136,n], %w: f16[n,136]) where n in 8..9000 multiple 8 hint 4000 {
  %0 = matmul(%x, %w) : f16[136,136]
  return %0
}
)");
  for (const Graph* g : {&rows, &steps}) {
    source_of(*g);
    if (IsTried(1)) ExpectRuns(*g, 72, rng);
  }
  // The last columns are of some tiles only, and of all four threads or of none.
  const std::string some = source_of(product("bf16", 4096, 256, 4000, 0));
  EXPECT_EQ(Count(some, "  cinn_store_quad("), 16) << some;
  // Columns that end within the eight of four threads are stored by each thread alone.
  EXPECT_EQ(Count(source_of(product("bf16", 256, 256, 1028, 0)), "  cinn_store_quad("), 0);
  // Other archs have no such units.
  const StatusOr<Compiled> other = Lower(product("bf16", 4096, 4096, 4096, 0), true, AnyHopper());
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(Count(other->text, "wgmma"), 0) << other->text;
}

// Softmax between two products is one kernel on matrix units, and keeps its scores in registers: rows and keys that
// fill no tile, sides that are no multiples of a product's, masks, symbolic lengths, operands that lie transposed.
TEST(CudaLowering, ChainsOnMatrixUnits) {
  std::mt19937 rng(13);
  struct Case {
    std::string t, rows, keys;
    int depth, features;
    bool masked = false, transposed = false;
  };
  const std::vector<Case> cases = {{"bf16", "40", "128", 32, 32},
                                   {"f16", "33", "140", 40, 24, true},
                                   {"bf16", "40", "77", 48, 16, false, true},
                                   {"bf16", "n", "n", 16, 32, true},
                                   {"f16", "70", "n", 32, 112},
                                   {"bf16", "150", "200", 64, 64, true},
                                   {"f16", "65", "n", 50, 128, false, true}};
  for (size_t i = 0; i < 2 * cases.size(); ++i) {
    if (!IsSeen(static_cast<int>(i))) continue;
    const Case& c = cases[i / 2];
    // Units of a warp, or those of four where these are and rows fill them.
    const Target target = i % 2 == 0 ? AnyHopper() : Hopper();
    const bool four = i % 2 == 1 && c.features >= 64;
    const auto tensor = [&](auto... sides) { return Cat(c.t, "[1,1", Cat(",", sides)..., "]"); };
    const std::string q = tensor(c.rows, c.depth), k = tensor(c.keys, c.depth), turned = tensor(c.depth, c.keys),
                      v = tensor(c.keys, c.features), s = tensor(c.rows, c.keys), o = tensor(c.rows, c.features);
    const std::string symbols = c.keys == "n" ? " where n in 1..300 hint 200" : "";
    const Graph g = ParseGraph(
        Cat("graph @chain(%q: ", q, ", %k: ", c.transposed ? turned : k, ", %v: ", v, ", %mask: ", c.t, "[", c.rows,
            ",", c.keys, "])", symbols, " {\n  %0 = transpose(%k) {perm=", c.transposed ? "[0,1,2,3]" : "[0,1,3,2]",
            "} : ", turned, "\n  %1 = matmul(%q, %0) : ", s, c.masked ? Cat("\n  %2 = add(%1, %mask) : ", s) : "",
            "\n  %3 = softmax(%", c.masked ? 2 : 1, ") {axis=3} : ", s, "\n  %4 = matmul(%3, %v) : ", o,
            "\n  return %4\n}\n"));
    const StatusOr<Compiled> compiled = Lower(g, true, target);
    ASSERT_TRUE(compiled.ok()) << Print(g) << compiled.status();
    EXPECT_EQ(Count(compiled->text, " by chain_gpu"), 1) << Print(g) << compiled->text;
    EXPECT_EQ(Count(compiled->text, "mma_m16n8k16") + Count(compiled->text, "wgmma_m64k16"), 2) << compiled->text;
    const std::string source = Emit(g, target);
    const int by_four = Count(source, "wgmma.mma_async");
    EXPECT_GT(by_four + Count(source, " cinn_mma_"), 0) << source;
    if (four || i % 2 == 0) {
      EXPECT_EQ(by_four > 0, four) << source;
    }
    // Sums of scores begin with the first product, and weights stay in registers.
    if (four) {
      EXPECT_EQ(Count(source, ", 0, 1, 1, 0, "), 1) << source;
    }
    EXPECT_EQ(Count(source, "alignas(16) unsigned short r"), 1) << source;
    EXPECT_LE(Count(source, "__syncthreads"), 2) << source;  // what is computed from scores waits for nobody
    if (!IsTried(static_cast<int>(i))) continue;
    for (int64_t n : {40, 1}) {
      ExpectRuns(g, n, rng, false, target);
      if (HasFatalFailure()) return;
      if (symbols.empty()) break;
    }
  }
  // Keys that fill their tiles, and values, are the copy engine's: the first tile and the next ones. The units are told
  // once of the queries, which threads store.
  for (const int depth : {64, 128}) {
    const auto tensor = [&](int rows, int columns) { return Cat("bf16[2,1,", rows, ",", columns, "]"); };
    const std::string k = tensor(256, depth), s = tensor(150, 256), o = tensor(150, depth);
    const Graph g =
        ParseGraph(Cat("graph @whole(%q: ", o, ", %k: ", k, ", %v: ", k, ") {\n  %0 = transpose(%k) ",
                       "{perm=[0,1,3,2]} : ", tensor(depth, 256), "\n  %1 = matmul(%q, %0) : ", s,
                       "\n  %2 = softmax(%1) {axis=3} : ", s, "\n  %3 = matmul(%2, %v) : ", o, "\n  return %3\n}\n"));
    const std::string source = Emit(g, Hopper());
    EXPECT_EQ(Count(source, "  cinn_tensor_copy("), 4) << source;
    EXPECT_EQ(Count(source, "  cinn_await_copies("), 1) << source;
    EXPECT_EQ(Count(source, "fence.proxy.async"), 1) << source;
    EXPECT_EQ(Count(source, "cp.async.wait_group"), 0) << source;
    if (IsTried(depth / 64)) ExpectRuns(g, 1, rng, false, Hopper());
  }
}

// Threads have elements where columns are few or rows are short, and loads of a condition don't wait for each other.
TEST(CudaLowering, NarrowColumnsAndShortRowsFillTheirThreads) {
  const auto schedule = [](const std::string& x, int axis, const std::string& y) {
    const auto text = EmitGraph(ParseGraph(Cat("graph @g(%x: f32[", x, "]) {\n  %0 = reduce_max(%x) {axes=[", axis,
                                               "], keepdims=false} : f32[", y, "]\n  return %0\n}\n")),
                                Hopper(), CompileOptions(), "schedule");
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? *text : "";
  };
  const std::string columns = schedule("64,1000,3", 1, "64,3");
  EXPECT_EQ(Count(columns, "split v 3 ->"), 1) << columns;
  const std::string line = schedule("64,1000,5,7", 1, "64,5,7");
  EXPECT_EQ(Count(line, "split v 35 ->"), 1) << line;
  const std::string rows = schedule("100000,7", 1, "100000");
  EXPECT_EQ(Count(rows, "split r 2 ->") + Count(rows, "split p 64 ->"), 2) << rows;
  const std::string any = Emit(ParseGraph(R"(graph @any(%x: bool[1000,64]) {
  %0 = reduce_any(%x) {axes=[0], keepdims=false} : bool[64]
  return %0
}
)"));
  EXPECT_GT(Count(any, " | "), 0) << any;
}

// Blocks go along the keys that their mask leaves something of: not beyond them, and in a window from where it begins.
TEST(CudaLowering, ChainsLeaveOutWhatAMaskHides) {
  std::mt19937 rng(14);
  for (const bool window : {false, true}) {
    if (!IsSeen(window)) continue;
    const Graph g = ParseGraph(Cat(R"(graph @chain(%q: bf16[1,1,300,16], %k: bf16[1,1,300,16], %v: bf16[1,1,300,16]) {
  %0 = transpose(%k) {perm=[0,1,3,2]} : bf16[1,1,16,300]
  %1 = matmul(%q, %0) : bf16[1,1,300,300]
  %2 = iota() {dtype=i64, shape=[300,300], axis=0} : i64[300,300]
  %3 = iota() {dtype=i64, shape=[300,300], axis=1} : i64[300,300]
  %4 = le(%3, %2) : bool[300,300]
  %5 = full() {value=-inf, dtype=bf16, shape=[]} : bf16[]
  %6 = sub(%2, %3) : i64[300,300]
  %7 = full() {value=)",
                                   window ? 20 : 300, R"(, dtype=i64, shape=[]} : i64[]
  %8 = lt(%6, %7) : bool[300,300]
  %9 = and(%4, %8) : bool[300,300]
  %10 = select(%9, %1, %5) : bf16[1,1,300,300]
  %11 = softmax(%10) {axis=3} : bf16[1,1,300,300]
  %12 = matmul(%11, %v) : bf16[1,1,300,16]
  return %12
}
)"));
    const StatusOr<Compiled> compiled = Lower(g, true, AnyHopper());
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(Count(compiled->text, " by chain_gpu"), 1) << compiled->text;
    const std::string source = Emit(g, AnyHopper());
    // Tiles of 128 keys, as many as rows; in a window those from where the first row's begins.
    EXPECT_EQ(Count(source, window ? "< i0 - cinn_max_i32(i0 - 1, 0) + 1; ++" : "< i0 + 1; ++"), 1) << source;
    if (IsSeen(1)) ExpectRuns(g, 1, rng, false, Hopper());
  }
}

// Where another tactic fails, loops as they stand serve every group: several results, scalars beside tensors,
// reductions of reductions, products.
TEST(CudaLowering, NaiveServesEveryGroup) {
  std::mt19937 rng(9);
  naive_only = true;
  std::vector<std::string> graphs = {
      SoftmaxGraph("3,20", 1),
      SoftmaxGraph("n,5,4", 1, "f32 where n in 1..9"),
      RmsNormGraph("3", "40"),
      GeluGraph("3", "24", "tanh"),
      "graph @scalars(%x: f32[], %y: f32[]) {\n  %0 = exp(%x) : f32[]\n  %1 = mul(%0, %y) : f32[]\n  return %1, "
      "%0\n}\n",
      "graph @best(%x: f32[7,9]) {\n  %0 = argmax(%x) {axis=1} : i64[7]\n  return %0\n}\n",
      R"(graph @whole(%x: f32[n,13], %y: f32[n,13]) where n in 1..40 {
  %0 = mul(%x, %y) : f32[n,13]
  %1 = reduce_sum(%0) {axes=[0,1]} : f32[]
  %2 = sqrt(%1) : f32[]
  %3 = div(%0, %2) : f32[n,13]
  return %2, %3
}
)",
      R"(graph @product(%x: f32[19,70], %w: f32[70,33], %b: f32[33]) {
  %0 = matmul(%x, %w) : f32[19,33]
  %1 = add(%0, %b) : f32[19,33]
  %2 = relu(%1) : f32[19,33]
  %3 = transpose(%2) {perm=[1,0]} : f32[33,19]
  return %3, %2
}
)"};
  graphs[1] = absl::StrReplaceAll(graphs[1], {{" where n in 1..9[", "["}, {"]) {\n", "]) where n in 1..9 {\n"}});
  for (const std::string& text : graphs) {
    const Graph g = ParseGraph(text);
    ExpectRuns(g, 3, rng);
    Emit(g);
    if (HasFatalFailure()) break;
  }
  naive_only = false;
}

// relu(conv(x, w) * s + b) of channels-last images through the library: its epilogue transposes, with fewer channels
// than a block of threads covers.
TEST(CudaLowering, ChannelsLastConvolution) {
  std::mt19937 rng(10);
  for (const auto& [side, strides, dtype] :
       {std::tuple("56", " strides [200704,1,3584,64]", "bf16"), {"8", "", "f32"}}) {
    const Graph g = ParseGraph(absl::StrReplaceAll(
        R"(graph @g(%x: D[1,64,N,N]S, %w: D[64,64,1,1], %s: D[1,64,1,1], %b: D[1,64,1,1]) {
  %0 = conv(%x, %w) {stride=[1,1], padding=[0,0]} : D[1,64,N,N]
  %1 = mul(%0, %s) : D[1,64,N,N]
  %2 = add(%1, %b) : D[1,64,N,N]
  %3 = relu(%2) : D[1,64,N,N]
  %4 = transpose(%3) {perm=[0,2,3,1]} : D[1,N,N,64]
  return %4
}
)",
        {{"D", dtype}, {"N", side}, {"]S", Cat("]", strides)}}));
    if (dtype[0] == 'f') ExpectRuns(g, 1, rng, false, WithLibrary());
    Emit(g, WithLibrary());
  }
}

// A transposition whose digits come together in the offset alone, with guarded threads.
TEST(CudaLowering, ChannelsLastEpilogue) {
  std::mt19937 rng(11);
  for (const char* dtype : {"f32", "bf16"}) {
    const Graph g = ParseGraph(absl::StrReplaceAll(
        R"(graph @g(%x: D[1,64,8,56], %s: D[1,64,1,1]) {
  %0 = mul(%x, %s) : D[1,64,8,56]
  %1 = transpose(%0) {perm=[0,2,3,1]} : D[1,8,56,64]
  return %1
}
)",
        {{"D", dtype}}));
    ExpectRuns(g, 1, rng);
    Emit(g);
  }
}

}  // namespace
}  // namespace cinn_like::hlir
