// The example's device, which comes from outside (examples/dpu): its registration, kernels, instructions and passes.
#include "examples/dpu/dpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "backends/compiler.h"
#include "cinn_like/driver.h"
#include "cinn_like/host_tensors.h"
#include "cinn_like/partition.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "ir/schedule/schedule.h"
#include "runtime/last_error.h"
#include "tests/hlir/kernels.h"
#include "tests/rounds.h"

namespace cinn_like {
namespace {

CompileOptions Options() {
  CompileOptions options;
  options.disable_cache = true;
  return options;
}

Target Dpu() { return *dpu::Devices().ParseTarget("dpu -arch=dpu2"); }

// Contiguous, of f32 on the host.
struct Tensor {
  explicit Tensor(std::vector<int64_t> dims) : shape(std::move(dims)) {
    int64_t size = 1;
    for (int64_t d : shape) size *= d;
    values.resize(static_cast<size_t>(size));
    dl = {values.data(), {kDLCPU, 0}, static_cast<int32_t>(shape.size()), {kDLFloat, 32, 1}, shape.data(), nullptr, 0};
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  CinnValue Value() { return {kCinnTensor, 0, {.tensor = &dl}}; }
  std::vector<int64_t> shape;
  std::vector<float> values;
  DLTensor dl;
};

// Calls with random numbers, always the same; the result.
std::vector<float> Call(CompiledFunction& f, const std::vector<std::vector<int64_t>>& params,
                        const std::vector<int64_t>& result, Status* status = nullptr) {
  std::mt19937 random(7);
  std::vector<std::unique_ptr<Tensor>> tensors;
  std::vector<CinnValue> args, statics;
  for (size_t i = 0; i <= params.size(); ++i) {
    Tensor& t = *tensors.emplace_back(std::make_unique<Tensor>(i < params.size() ? params[i] : result));
    if (i < params.size()) {
      for (float& v : t.values) v = std::normal_distribution<float>()(random);
      if (f.signature().params[i].is_static) statics.push_back(t.Value());
    }
    args.push_back(t.Value());
  }
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  const Status prepared = f.Prepare(statics, env);
  EXPECT_TRUE(prepared.ok()) << prepared;
  const int32_t code = f.entry()(f.self(), args.data(), static_cast<int32_t>(args.size()), &env);
  if (status != nullptr)
    *status = code == 0 ? absl::OkStatus() : LastErrorStatus(code);
  else
    EXPECT_EQ(code, 0) << LastError();
  return tensors.back()->values;
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 1e-4 * (1 + std::fabs(expected[i]))) << what << " at " << i;
}

bool Holds(const std::vector<std::string>& list, std::string_view text) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& s) { return s.find(text) != s.npos; });
}

std::string ProductGraph(int64_t m, int64_t n, int64_t k, bool symbolic) {
  const std::string rows = symbolic ? "n" : Cat(m);
  return Cat("graph @g(%x: f32[", rows, ",", k, "], %w: f32[", k, ",", n, "] static, %b: f32[", n, "])",
             symbolic ? " where n in 1..400" : "", " {\n  %0 = matmul(%x, %w) : f32[", rows, ",", n,
             "]\n  %1 = add(%0, %b) : f32[", rows, ",", n, "]\n  %2 = relu(%1) : f32[", rows, ",", n,
             "]\n  return %2\n}\n");
}

// By the tactic of the device, whatever the sizes, and equal to the CPU's.
TEST(Dpu, Products) {
  std::mt19937 random(11);
  const int64_t used = dpu::CountsSoFar().used_bytes;
  for (int round = 0; round < 6; ++round) {
    const auto size = [&] { return std::uniform_int_distribution<int64_t>(2, 90)(random); };
    const int64_t m = round == 0 ? 64 : size(), n = round == 0 ? 32 : size(), k = round == 0 ? 96 : size();
    const std::string text = ProductGraph(m, n, k, round % 2 == 1);
    const StatusOr<hlir::Graph> graph = hlir::Parse(text);
    ASSERT_TRUE(graph.ok()) << graph.status();
    auto on_dpu = CompileGraph(*graph, Dpu(), Options(), dpu::Devices());
    ASSERT_TRUE(on_dpu.ok()) << on_dpu.status();
    EXPECT_TRUE((*on_dpu)->report().refused.empty()) << (*on_dpu)->report().refused[0];
    EXPECT_TRUE(Holds((*on_dpu)->report().tactics, ": dpu_product")) << text;
    const std::string source = *(*on_dpu)->Source("dpu");
    EXPECT_NE(source.find("  dpu_mm8(r0 + ("), source.npos) << source;
    auto on_cpu = CompileGraph(*graph, *Target::Parse("cpu"), Options());
    ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
    auto called = TakeHostTensors(*std::move(on_dpu));
    const int64_t launches = dpu::CountsSoFar().launches;
    const std::vector<std::vector<int64_t>> params = {{m, k}, {k, n}, {n}};
    ExpectNear(Call(*called, params, {m, n}), Call(**on_cpu, params, {m, n}), text);
    EXPECT_GT(dpu::CountsSoFar().launches, launches);
  }
  EXPECT_EQ(dpu::CountsSoFar().used_bytes, used);
}

StatusOr<std::unique_ptr<CompiledFunction>> OnDpu(const hlir::Graph& graph, const CompileOptions& options = Options()) {
  return CompileGraph(graph, Dpu(), options, dpu::Devices());
}
StatusOr<std::unique_ptr<CompiledFunction>> OnCpu(const hlir::Graph& graph) {
  return CompileGraph(graph, *Target::Parse("cpu"), Options());
}
StatusOr<std::unique_ptr<CompiledFunction>> OnBoth(const hlir::Graph& graph) {
  const Target targets[] = {*Target::Parse("cpu"), Dpu()};
  return CompileOnTargets(graph, targets, Options(), dpu::Devices());
}
std::string Error(const Status& s) { return Message(s); }

// Batches, transposed operands, convolutions, elements, and what it has no schedule for.
TEST(Dpu, WhateverTheGraph) {
  struct Case {
    std::string graph;
    std::vector<std::vector<int64_t>> params;
    std::vector<int64_t> result;
    std::string tactic;
  };
  const Case cases[] = {
      {R"(graph @g(%x: f32[3,17,40], %y: f32[3,40,9]) {
  %0 = matmul(%x, %y) : f32[3,17,9]
  return %0
}
)",
       {{3, 17, 40}, {3, 40, 9}},
       {3, 17, 9},
       "dpu_product"},
      {R"(graph @g(%x: f32[33,24], %y: f32[50,24]) {
  %0 = transpose(%y) {perm=[1,0]} : f32[24,50]
  %1 = matmul(%x, %0) : f32[33,50]
  %2 = tanh(%1) : f32[33,50]
  return %2
}
)",
       {{33, 24}, {50, 24}},
       {33, 50},
       "dpu_product"},
      {R"(graph @g(%x: f32[2,5,11,13], %w: f32[12,5,3,3]) {
  %0 = conv(%x, %w) {stride=[2,2], padding=[1,1]} : f32[2,12,6,7]
  return %0
}
)",
       {{2, 5, 11, 13}, {12, 5, 3, 3}},
       {2, 12, 6, 7},
       "dpu_product"},
      {R"(graph @g(%x: f32[7,100], %y: f32[100]) {
  %0 = add(%x, %y) : f32[7,100]
  %1 = sigmoid(%0) : f32[7,100]
  return %1
}
)",
       {{7, 100}, {100}},
       {7, 100},
       "dpu_elements"},
      {R"(graph @g(%x: f32[7,100]) {
  %0 = softmax(%x) {axis=1} : f32[7,100]
  return %0
}
)",
       {{7, 100}},
       {7, 100},
       "naive"},
  };
  for (const Case& c : cases) {
    const StatusOr<hlir::Graph> graph = hlir::Parse(c.graph);
    ASSERT_TRUE(graph.ok()) << graph.status();
    auto on_dpu = OnDpu(*graph);
    ASSERT_TRUE(on_dpu.ok()) << on_dpu.status();
    EXPECT_TRUE(Holds((*on_dpu)->report().tactics, c.tactic)) << (*on_dpu)->report().tactics[0] << c.graph;
    EXPECT_TRUE((*on_dpu)->report().refused.empty()) << (*on_dpu)->report().refused[0];
    const auto called = TakeHostTensors(*std::move(on_dpu));
    const auto on_cpu = OnCpu(*graph);
    ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
    ExpectNear(Call(*called, c.params, c.result), Call(**on_cpu, c.params, c.result), c.graph);
  }
}

// The pass finds copies where sizes divide, and is one that can be left out.
TEST(Dpu, ItsPass) {
  const hlir::Graph graph = *hlir::Parse(ProductGraph(64, 32, 96, false));
  CompileOptions options = Options();
  const auto on_dpu = OnDpu(graph, options);
  ASSERT_TRUE(on_dpu.ok()) << on_dpu.status();
  EXPECT_NE((*on_dpu)->Source("dpu")->find("    dpu_copy8(s0 + ("), std::string::npos) << *(*on_dpu)->Source("dpu");
  EXPECT_NE((*on_dpu)->Source("loops")->find(" @intrinsic.copy8 {"), std::string::npos);
  options.disable_passes = "dpu_find_copies";
  const auto without = OnDpu(graph, options);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ((*without)->Source("dpu")->find("    dpu_copy8("), std::string::npos);
  options.disable_passes = "dpu_find_it";
  EXPECT_NE(Error(OnDpu(graph, options).status()).find("no pass 'dpu_find_it'; known: "), std::string::npos);
  EXPECT_NE(Error(OnDpu(graph, options).status()).find(", dpu_find_copies, "), std::string::npos);
  // It is no other target's.
  options.disable_passes = "dpu_find_copies";
  EXPECT_FALSE(CompileGraph(graph, *Target::Parse("cpu"), options).ok());
}

// One thread fills the scratchpad ahead and waits for nobody.
TEST(Dpu, Pipelines) {
  const ir::Module module = *ir::ParseModule(R"(func @f entry (x: f32[8, 16], y: f32[16] out) {
  call @k(&x[0, 0], &y[0])
}
func @k(x: f32[8, 16], y: f32[16]) {
  for b in 0..2 @blockIdx.x {
    for i in 0..8 @pipelined2 {
      alloc s: f32[8] @shared
      for j in 0..8 {
        s[j] = x[i, b * 8 + j]
      }
      for k in 0..8 {
        y[b * 8 + k] = s[k] + f32(i)
      }
    }
  }
}
)");
  const auto compiler = Compiler::Create(Dpu(), Options(), nullptr, dpu::Devices());
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  EXPECT_TRUE((*compiler)->Build(module).ok()) << (*compiler)->Build(module);
}

TEST(Dpu, WhatItRefuses) {
  // More scratchpad than there is.
  const auto build = [](int64_t floats) {
    const ir::Module module = *ir::ParseModule(Cat(R"(func @f entry (x: f32[8], y: f32[8] out) {
  call @k(&x[0], &y[0])
}
func @k(x: f32[8], y: f32[8]) {
  for b in 0..8 @blockIdx.x {
    alloc s: f32[)",
                                                   floats, R"(] @shared
    for i in 0..)",
                                                   floats, R"( {
      s[i] = x[b] + f32(i)
    }
    for j in 0..)",
                                                   floats, R"( {
      y[b] = s[j]
    }
  }
}
)"));
    const auto compiler = Compiler::Create(Dpu(), Options(), nullptr, dpu::Devices());
    EXPECT_TRUE(compiler.ok()) << compiler.status();
    return (*compiler)->Build(module);
  };
  EXPECT_TRUE(build(16384).ok()) << build(16384);
  EXPECT_EQ(Error(build(16385)), "function k: a block has at most 65536 bytes of shared memory, got 65552");

  // Values that it has not.
  const hlir::Graph f64 = *hlir::Parse("graph @g(%x: f64[5]) {\n  %0 = exp(%x) : f64[5]\n  return %0\n}\n");
  EXPECT_EQ(Error(OnDpu(f64).status()), "op 'exp': f64[5]: the dpu device has no f64");

  // What a kernel finds wrong is an error of the call.
  const ir::Module module = *ir::ParseModule(R"(func @f entry (x: i32[n], y: f32[n] out) where n in 1..100 {
  call @k(&x[0], &y[0], n)
}
func @k(x: i32[n], y: f32[n], n: i64) where n in 1..100 {
  for b in 0..n @blockIdx.x {
    if x[b] < i32(0) {
      call cinn_range_error("f: x", i64(x[b]), 0, n)
    }
    y[b] = f32(x[b])
  }
}
)");
  const auto compiler = Compiler::Create(Dpu(), Options(), nullptr, dpu::Devices());
  ASSERT_TRUE((*compiler)->Build(module).ok()) << (*compiler)->Build(module);
  DeviceApi& api = **cinn_device_dpu.api();
  for (const int32_t last : {3, -3}) {
    const int32_t values[] = {1, 2, last};
    int64_t shape[] = {3};
    DLTensor x = {*api.Alloc(0, 12, nullptr), {kDLExtDev, 0}, 1, {kDLInt, 32, 1}, shape, nullptr, 0};
    DLTensor y = {*api.Alloc(0, 12, nullptr), {kDLExtDev, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
    EXPECT_TRUE(api.Copy(0, x.data, values, 12, nullptr).ok());
    const CinnValue args[] = {{kCinnTensor, 0, {.tensor = &x}}, {kCinnTensor, 0, {.tensor = &y}}};
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = {kDLExtDev, 0};
    const int32_t code = reinterpret_cast<CinnFunctionPtr>((*compiler)->Lookup("f"))(nullptr, args, 2, &env);
    EXPECT_EQ(code == 0, last > 0) << LastError();
    if (last < 0) {
      EXPECT_STREQ(LastError(), "f: x");
    }
    float first = 0;
    EXPECT_TRUE(api.Copy(0, &first, y.data, 4, nullptr).ok());
    EXPECT_EQ(first, 1);
    api.Free(0, x.data);
    api.Free(0, y.data);
  }
}

// Its memory is its own, and ends.
TEST(Dpu, Memory) {
  DeviceApi& api = **cinn_device_dpu.api();
  const int64_t used = dpu::CountsSoFar().used_bytes;
  const auto all = api.Alloc(0, int64_t{1} << 28, nullptr);
  EXPECT_EQ(Error(all.status()), "dpu: out of memory: no 268435456 bytes");
  void *a = *api.Alloc(0, 1000, nullptr), *b = *api.Alloc(0, 5, nullptr);
  EXPECT_GT(dpu::CountsSoFar().used_bytes, used);
  api.Free(0, a);
  EXPECT_EQ(*api.Alloc(0, 700, nullptr), a);
  api.Free(0, a);
  api.Free(0, b);
  EXPECT_EQ(dpu::CountsSoFar().used_bytes, used);
  char byte = 0;
  EXPECT_EQ(Error(api.Copy(0, &byte, static_cast<char*>(a) + (int64_t{1} << 28), 1, nullptr)),
            "dpu: a copy of 1 bytes outside of it");
  EXPECT_EQ(Error(api.Load("nothing").status()).substr(0, 14), "dpu: no image:");
}

// On every kernel of the suite: the text that a tactic writes gives its function again, which lowers for the dpu.
TEST(Dpu, TacticsOnEveryKernel) {
  const Target target = Dpu();
  std::map<std::string_view, int> lowered;
  int kernels = 0;
  hlir::ForEachKernel(target, [&](const std::string& name, const ir::TeProgram& group) {
    if (testing::Test::HasFailure() || !IsTried(kernels++)) return;
    for (const hlir::Tactic& tactic : dpu::Tactics()) {
      hlir::Point point;
      const auto proposals = tactic.propose(group, target, hlir::Until::kSchedule, point);
      ASSERT_TRUE(proposals.ok()) << proposals.status() << name << ir::Print(*ir::ToLoops(group));
      for (const hlir::Proposal& p : *proposals) {
        const StatusOr<ir::Func> again = ir::ApplySchedule(*ir::ParseFunc(ir::Print(*ir::ToLoops(group))), p.schedule);
        ASSERT_TRUE(again.ok()) << again.status() << name << p.schedule;
        EXPECT_EQ(ir::Print(*again), ir::Print(p.func)) << name << p.schedule;
        const auto module = ir::LowerModule({p.func.context, {p.func}}, {Options(), target, "kernel"});
        ASSERT_TRUE(module.ok()) << module.status() << name << p.schedule;
        const StatusOr<std::string> source = dpu::MakeCompiler()->EmitSource(*module);
        ASSERT_TRUE(source.ok()) << source.status() << name << p.schedule;
        // What lowering left of the nest is one still.
        EXPECT_EQ(source->find("  dpu_mm8(r") != source->npos, tactic.name == "dpu_product") << name << *source;
        ++lowered[tactic.name];
      }
    }
  });
  if (kRoundsDivisor > 1) return;
  EXPECT_GT(lowered["dpu_product"], 30);
  EXPECT_GT(lowered["dpu_elements"], 100);
}

// The loops of an instruction are what it computes: the interpreter gives the same of a schedule as of naive loops.
TEST(Dpu, TheInterpreterRunsItsSchedules) {
  const Target target = Dpu();
  const PassContext context{Options(), target, "kernel"};
  const hlir::Graph graph = *hlir::Parse(ProductGraph(0, 19, 21, true));
  const StatusOr<hlir::LoweredGraph> lowered = hlir::LowerGraph(*hlir::OptimizeGraph(graph, context), context);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  ASSERT_EQ(lowered->kernels.size(), 1);
  const ir::TeProgram& group = lowered->kernels[0].group;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    hlir::Point point = hlir::Point::Random(seed);  // any tile
    const auto proposals = dpu::Tactics()[0].propose(group, target, hlir::Until::kSchedule, point);
    ASSERT_TRUE(proposals.ok()) << proposals.status();
    const StatusOr<ir::Func> scheduled = ir::LowerKernel((*proposals)[0].func, context);
    ASSERT_TRUE(scheduled.ok()) << scheduled.status();
    EXPECT_NE(ir::Print(*scheduled).find("@intrinsic.mm8"), std::string::npos);
    for (const int64_t n : {1, 13}) {
      std::vector<ir::HostArray> results;
      results.reserve(2);
      for (const ir::Func& f : {*ir::ToLoops(group), *scheduled}) {
        ir::HostArray x(DType::kF32, {n, 21}), w(DType::kF32, {21, 19}), b(DType::kF32, {19});
        for (ir::HostArray* a : {&x, &w, &b}) {
          for (int64_t i = 0; i < a->NumElements(); ++i) a->Set(i, static_cast<double>((i * 37 + 11) % 17) - 7);
        }
        std::vector<ir::InterpretArg> args = {&x, &w, &b,
                                              &results.emplace_back(DType::kF32, std::vector{n, int64_t{19}})};
        if (f.params.size() > 4) args.emplace_back(n);
        const Status run = ir::Interpret(f, args, {{"n", n}});
        ASSERT_TRUE(run.ok()) << run;
      }
      EXPECT_EQ(results[0].bytes, results[1].bytes) << point.text();
    }
  }
}

// Registrations that can't be.
TEST(Dpu, WhatIsWrongWithARegistration) {
  const auto error = [](const std::function<void(DeviceKind&)>& change) {
    DeviceKind kind = dpu::Kind();
    change(kind);
    Devices devices = Devices::BuiltIn();
    return Error(devices.Add(
        {&kind, &cinn_device_dpu, [](const auto&...) -> std::unique_ptr<DeviceCompiler> { return nullptr; }}));
  };
  EXPECT_EQ(error([](DeviceKind&) {}), "");
  EXPECT_EQ(error([](DeviceKind& k) { k.intrinsics[0].name = "mm 8"; }),
            "device 'dpu': expected an identifier for an intrinsic's name, got 'mm 8'");
  EXPECT_EQ(error([](DeviceKind& k) { k.intrinsics[1].name = "mm8"; }), "device 'dpu': it has two intrinsics 'mm8'");
  EXPECT_EQ(error([](DeviceKind& k) { k.intrinsics[1].text = ""; }), "device 'dpu': intrinsic 'copy8': it has no text");
  EXPECT_EQ(error([](DeviceKind& k) {
              static const std::vector<ir::HookedPass> passes = {{"flatter", {"mine", nullptr}}};
              k.passes = &passes;
            }),
            "device 'dpu': pass 'mine' is to run after 'flatter', which is no loop pass");
  EXPECT_EQ(error([](DeviceKind& k) {
              static const std::vector<ir::HookedPass> passes = {{"flatten", {"mine", nullptr}}};
              k.passes = &passes;
            }),
            "device 'dpu': pass 'mine' has no function");
  EXPECT_EQ(error([](DeviceKind& k) {
              static const std::vector<ir::HookedPass> passes = {{"flatten", {"simplify", dpu::Passes()[0].pass.run}}};
              k.passes = &passes;
            }),
            "device 'dpu': there is a pass 'simplify'");
}

// ---- shared out between it and the CPU ----
constexpr char kMlp[] =
    R"(graph @mlp(%x: f32[n,700], %w: f32[700,600] static, %b: f32[600] static) where n in 1..2048 hint 1000 {
  %0 = matmul(%x, %w) : f32[n,600]
  %1 = add(%0, %b) : f32[n,600]
  %2 = relu(%1) : f32[n,600]
  %3 = softmax(%2) {axis=1} : f32[n,600]
  return %3
}
)";

TEST(Partition, ByPrice) {
  const hlir::Graph graph = *hlir::Parse(kMlp);
  const Target targets[] = {*Target::Parse("cpu"), Dpu()};
  const StatusOr<Placement> placed = PlaceOps(graph, targets, Options(), dpu::Devices());
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->target_of_op, (std::vector<size_t>{1, 1, 1, 0}));
  EXPECT_TRUE(placed->refused.empty());
  const auto shared_out = OnBoth(graph), on_cpu = OnCpu(graph);
  ASSERT_TRUE(shared_out.ok()) << shared_out.status();
  const CompileReport& report = (*shared_out)->report();
  EXPECT_EQ(report.ops, 4);
  EXPECT_TRUE(Holds(report.tactics, "mlp_0_dpu_k0: dpu_product")) << report.tactics[0];
  EXPECT_TRUE(Holds(report.tactics, "mlp_1_x86_64_k0: rows_cpu")) << report.tactics.back();
  for (const int64_t n : {1, 77, 130}) {
    const std::vector<std::vector<int64_t>> params = {{n, 700}, {700, 600}, {600}};
    ExpectNear(Call(**shared_out, params, {n, 600}), Call(**on_cpu, params, {n, 600}), Cat(n));
  }
  // Each `self` has what it was prepared with.
  void* other = (*shared_out)->AddSelf();
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  Tensor x({1, 700}), w({700, 600}), zero({600}), one({600}), y({1, 600});
  one.values[3] = 50;
  for (const auto& [self, b] : {std::pair{(*shared_out)->self(), &zero}, {other, &one}}) {
    const CinnValue statics[] = {w.Value(), b->Value()};
    const Status prepared = (*shared_out)->PrepareSelf(self, statics, env);
    ASSERT_TRUE(prepared.ok()) << prepared;
  }
  for (const bool is_other : {false, true}) {
    const CinnValue args[] = {x.Value(), w.Value(), is_other ? one.Value() : zero.Value(), y.Value()};
    void* self = is_other ? other : (*shared_out)->self();
    ASSERT_EQ((*shared_out)->entry()(self, args, 4, &env), 0) << LastError();
    EXPECT_NEAR(y.values[3], is_other ? 1 : 1.0 / 600, 1e-6);
  }
  EXPECT_EQ(Error((*shared_out)->PrepareSelf(other, {}, env)), "@mlp: expected 2 static arguments, got 0");

  const StatusOr<std::string> source = (*shared_out)->Source("dpu");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(source->starts_with("// @mlp_0_dpu\n")) << *source;
  EXPECT_NE((*shared_out)->Source("loops")->find("// @mlp_1_x86_64\n"), std::string::npos);
  EXPECT_EQ(Error((*shared_out)->ExportObject("x.o")),
            "@mlp: what several devices share is no single object; a library holds it");

  // Not worth the copies.
  const hlir::Graph small = *hlir::Parse(ProductGraph(8, 8, 8, false));
  const StatusOr<Placement> at_home = PlaceOps(small, targets, Options(), dpu::Devices());
  ASSERT_TRUE(at_home.ok()) << at_home.status();
  EXPECT_EQ(at_home->target_of_op, (std::vector<size_t>{0, 0, 0}));
}

TEST(Partition, WhatOneTargetRefusesAnotherTakes) {
  const hlir::Graph graph = *hlir::Parse(R"(graph @g(%x: f32[900,900], %y: f32[900,900]) {
  %0 = matmul(%x, %y) : f32[900,900]
  %1 = cast(%0) {dtype=f64} : f64[900,900]
  %2 = exp(%1) : f64[900,900]
  %3 = cast(%2) {dtype=f32} : f32[900,900]
  return %3
}
)");
  const auto shared_out = OnBoth(graph);
  ASSERT_TRUE(shared_out.ok()) << shared_out.status();
  EXPECT_TRUE(Holds((*shared_out)->report().tactics, "dpu_product"));
  EXPECT_TRUE(Holds((*shared_out)->report().refused, "dpu: op 'exp': f64[900,900]: the dpu device has no f64"));
  const auto on_cpu = OnCpu(graph);
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
  const std::vector<std::vector<int64_t>> params = {{900, 900}, {900, 900}};
  const std::vector<float> got = Call(**shared_out, params, {900, 900}), expected = Call(**on_cpu, params, {900, 900});
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(got[i] == expected[i] || std::fabs(got[i] / expected[i] - 1) < 1e-3) << i;

  // The first is to be the host's.
  DeviceKind poor = HostKind();
  poor.name = "poor";
  poor.alias = "";
  poor.type = kDLExtDev;
  const RuntimeDevice runtime = {kDLExtDev, kDLExtDev, GetHostDevice};
  Devices devices = Devices::BuiltIn();
  ASSERT_TRUE(devices.Add({&poor, &runtime}).ok());
  const Target targets[] = {*devices.ParseTarget("poor")};
  EXPECT_EQ(Error(PlaceOps(graph, targets, Options(), devices).status()),
            "expected the host's target first, got 'poor -mcpu=native'");
}

// Values that several parts read, several results, one that is given back as it came, and the same one twice.
TEST(Partition, ResultsAndValuesBetweenParts) {
  const hlir::Graph graph = *hlir::Parse(R"(graph @g(%x: f32[n,512], %w: f32[512,512]) where n in 1..2048 hint 1024 {
  %0 = matmul(%x, %w) : f32[n,512]
  %1 = reduce_max(%0) {axes=[1], keepdims=true} : f32[n,1]
  %2 = sub(%0, %1) : f32[n,512]
  %3 = matmul(%2, %w) : f32[n,512]
  %4 = softmax(%3) {axis=1} : f32[n,512]
  %5 = add(%4, %0) : f32[n,512]
  return %5, %0, %x, %0
}
)");
  const auto shared_out = OnBoth(graph), on_cpu = OnCpu(graph);
  ASSERT_TRUE(shared_out.ok()) << shared_out.status();
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
  int products = 0;
  for (const std::string& t : (*shared_out)->report().tactics) products += t.ends_with("dpu_product") ? 1 : 0;
  EXPECT_EQ(products, 2);

  // By the caller's allocator.
  struct Results {
    std::vector<float> of[4];
    int asked = 0;
  };
  const auto call = [&](CompiledFunction& f, int64_t n, Results* results, Tensor& x, Tensor& w) {
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = {kDLCPU, 0};
    env.context = results;
    env.alloc = [](void* context, int32_t index, DLTensor* spec) {
      auto& r = *static_cast<Results*>(context);
      if (index < 0) return -1;
      ++r.asked;
      r.of[index].resize(static_cast<size_t>(spec->shape[0] * spec->shape[1]));
      spec->data = r.of[index].data();
      return 0;
    };
    (void)n;
    const CinnValue args[] = {x.Value(), w.Value(), {}, {}, {}, {}};
    return f.entry()(f.self(), args, 6, &env);
  };
  for (const int64_t n : {3, 64}) {
    Tensor x({n, 512}), w({512, 512});
    std::mt19937 random(5);
    for (Tensor* t : {&x, &w})
      for (float& v : t->values) v = std::normal_distribution<float>(0, 0.1f)(random);
    Results got, expected;
    ASSERT_EQ(call(**shared_out, n, &got, x, w), 0) << LastError();
    ASSERT_EQ(call(**on_cpu, n, &expected, x, w), 0) << LastError();
    EXPECT_EQ(got.asked, 4);
    for (int r = 0; r < 4; ++r) ExpectNear(got.of[r], expected.of[r], Cat("result ", r));
  }

  // What is wrong with a call.
  Tensor x({3, 512}), w({512, 512}), bad({512, 511}), large({2049, 512}), a({3, 512}), b({3, 512}), c({3, 512}),
      d({3, 512});
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  const auto error = [&](std::vector<CinnValue> args, const CinnCallEnv* with) {
    EXPECT_LT((*shared_out)->entry()((*shared_out)->self(), args.data(), static_cast<int32_t>(args.size()), with), 0);
    return std::string(LastError());
  };
  EXPECT_EQ(error({x.Value()}, &env), "@g: expected 6 arguments, got 1");
  EXPECT_EQ(error({x.Value()}, nullptr), "@g: the call's environment is null or older than this library");
  EXPECT_EQ(error({CinnValue{}, w.Value(), {}, {}, {}, {}}, &env), "@g: argument 'x': expected a tensor f32[n,512]");
  EXPECT_NE(error({large.Value(), w.Value(), {}, {}, {}, {}}, &env).find("n = 2049 is outside 1..2048"),
            std::string::npos);
  EXPECT_NE(error({x.Value(), bad.Value(), a.Value(), b.Value(), c.Value(), d.Value()}, &env)
                .find("argument 'w': expected f32[512,512], got f32[512,511]"),
            std::string::npos)
      << LastError();
  EXPECT_NE(error({x.Value(), w.Value(), {}, {}, {}, {}}, &env).find("no allocator"), std::string::npos);
}

// Ops go where the text says, whatever that costs, and copies are made between.
TEST(Partition, AnOpIsComputedWhereItsTextSays) {
  const char* kGraph = R"(graph @g(%x: f32[n,24], %w: f32[24,24]) where n in 1..256 {
  %0 = add(%x, %x) on dpu : f32[n,24]
  %1 = matmul(%0, %w) on cpu : f32[n,24]
  %2 = mul(%1, %1) on dpu : f32[n,24]
  %3 = tanh(%2) : f32[n,24]
  return %3
}
)";
  const std::string text = kGraph;
  const hlir::Graph graph = *hlir::Parse(text);
  const auto f = OnBoth(graph);
  ASSERT_TRUE(f.ok()) << f.status();
  const std::vector<std::string>& kernels = (*f)->report().tactics;
  for (const char* part : {"g_0_dpu_k", "g_1_x86_64_k", "g_2_dpu_k"}) {
    EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), [&](const std::string& k) { return k.starts_with(part); }))
        << part;
  }
  EXPECT_TRUE((*f)->report().refused.empty()) << (*f)->report().refused[0];
  std::string plain = text;
  for (const char* on : {" on dpu", " on cpu", " on dpu"}) plain.erase(plain.find(on), 7);
  const auto on_cpu = OnCpu(*hlir::Parse(plain));
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
  const std::vector<std::vector<int64_t>> params = {{33, 24}, {24, 24}};
  ExpectNear(Call(**f, params, {33, 24}), Call(**on_cpu, params, {33, 24}), text);

  EXPECT_EQ(Error(OnCpu(graph).status()), "op 'add': to be computed on dpu, and the target is x86_64");
  std::string elsewhere = text;
  elsewhere.replace(elsewhere.find("on cpu"), 6, "on npu");
  EXPECT_EQ(Error(OnBoth(*hlir::Parse(elsewhere)).status()),
            "no target can compute op 'matmul': x86_64: op 'matmul': to be computed on npu, and the target is x86_64; "
            "dpu: op "
            "'matmul': to be computed on npu, and the target is dpu");
  std::string unable = text;
  unable.replace(unable.find("tanh(%2)"), 8, "softmax(%2) {axis=1} on dpu");
  const auto slow = OnBoth(*hlir::Parse(unable));
  ASSERT_TRUE(slow.ok()) << slow.status();  // as loops stand
  EXPECT_EQ(Error(dpu::Devices().ParseTargets("cpu; dpu -arch=dpu2; npu").status()),
            Error(dpu::Devices().ParseTarget("npu").status()));
}

// A graph of products, rows and elements at sizes that no tile divides, in any order.
struct RandomGraph {
  explicit RandomGraph(uint32_t seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); };
    struct Value {
      std::string name;
      int64_t columns;
    };
    rows = pick(60, 300);
    std::vector<Value> values = {{"%x", pick(30, 200)}};
    params = {{rows, values[0].columns}};
    std::string body, signature = Cat("%x: f32[n,", values[0].columns, "]");
    int count = 0;
    const auto add = [&](const std::string& call, int64_t columns) {
      body += Cat("  %", count, " = ", call, " : f32[n,", columns, "]\n");
      values.push_back({Cat("%", count++), columns});
    };
    for (int k = 0; k < 9; ++k) {
      const Value v = values[static_cast<size_t>(pick(std::max<int64_t>(0, static_cast<int64_t>(values.size()) - 3),
                                                      static_cast<int64_t>(values.size()) - 1))];
      switch (pick(0, 4)) {
        case 0:
        case 1: {
          const int64_t columns = pick(30, 300);
          signature += Cat(", %w", k, ": f32[", v.columns, ",", columns, "]", pick(0, 1) == 0 ? " static" : "");
          params.push_back({v.columns, columns});
          add(Cat("matmul(", v.name, ", %w", k, ")"), columns);
          add(Cat("tanh(%", count - 1, ")"), columns);
          break;
        }
        case 2:
          add(Cat("softmax(", v.name, ") {axis=1}"), v.columns);
          break;
        case 3:
          add(Cat("sigmoid(", v.name, ")"), v.columns);
          break;
        case 4:
          for (const Value& other : values) {
            if (other.columns != v.columns) continue;
            add(Cat("add(", v.name, ", ", other.name, ")"), v.columns);
            break;
          }
          break;
      }
    }
    columns = values.back().columns;
    text = Cat("graph @g(", signature, ") where n in 1..500 {\n", body, "  return ", values.back().name, "\n}\n");
  }
  std::string text;
  std::vector<std::vector<int64_t>> params;
  int64_t rows = 0, columns = 0;
};

TEST(Partition, RandomGraphs) {
  // Copies for nothing: whatever is faster there goes there.
  static DeviceKind kind = dpu::Kind();
  kind.copy_seconds = 0;
  kind.copy_bandwidth = 1e15;
  Devices devices = Devices::BuiltIn();
  const Status added = devices.Add({&kind, &cinn_device_dpu, [](const Target&, const CompileOptions&, ObjectCache*) {
                                      return dpu::MakeCompiler();
                                    }});
  ASSERT_TRUE(added.ok()) << added;
  const Target targets[] = {*Target::Parse("cpu"), *devices.ParseTarget("dpu -arch=dpu2")};
  const int64_t used = dpu::CountsSoFar().used_bytes;
  int on_dpu = 0, parts = 0;
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const RandomGraph random(seed);
    const StatusOr<hlir::Graph> graph = hlir::Parse(random.text);
    ASSERT_TRUE(graph.ok()) << graph.status() << random.text;
    const auto shared_out = CompileOnTargets(*graph, targets, Options(), devices);
    ASSERT_TRUE(shared_out.ok()) << shared_out.status() << random.text;
    const auto on_cpu = OnCpu(*graph);
    ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
    std::set<std::string> names;
    for (const std::string& t : (*shared_out)->report().tactics) {
      on_dpu += t.find("_dpu_k") != t.npos ? 1 : 0;
      names.insert(t.substr(0, t.rfind("_k")));
    }
    parts += static_cast<int>(names.size());
    const std::vector<int64_t> result = {random.rows, random.columns};
    ExpectNear(Call(**shared_out, random.params, result), Call(**on_cpu, random.params, result), random.text);
  }
  EXPECT_GT(on_dpu, 5);
  EXPECT_GT(parts, 10);
  EXPECT_EQ(dpu::CountsSoFar().used_bytes, used);
}

// What the page shows is what the example says.
// y[i] = x[i] * 2, of the host, of OpenCL and of the dpu, in one module.
constexpr char kSideBySide[] = R"(
func @rows(x: f32[n], y: f32[n], n: i64) where n in 1..4096 {
  for i in 0..n {
    block b(vi in 0..n = i) {
      y[vi] = x[vi] * 2.0
    }
  }
}
func @threads(x: f32[n], y: f32[n], n: i64) where n in 1..4096 {
  for i in 0..(n + 31) / 32 @blockIdx.x {
    for j in 0..32 @threadIdx.x {
      block b(vi in 0..n = i * 32 + j) if i * 32 + j < n {
        y[vi] = x[vi] * 2.0
      }
    }
  }
}
func @cores(x: f32[n], y: f32[n], n: i64) where n in 1..4096 {
  for i in 0..n @blockIdx.x {
    block b(vi in 0..n = i) {
      y[vi] = x[vi] * 2.0
    }
  }
}
func @here entry (x: f32[n], y: f32[n] out) where n in 1..4096 {
  call @rows(&x[0], &y[0], n)
}
func @gpu entry opencl (x: f32[n], y: f32[n] out) where n in 1..4096 {
  call @threads(&x[0], &y[0], n)
}
func @there entry dpu (x: f32[n], y: f32[n] out) where n in 1..4096 {
  call @cores(&x[0], &y[0], n)
}
)";

TEST(SeveralTargets, FunctionsSideBySide) {
  const Target targets[] = {*Target::Parse("cpu"), *Target::Parse("opencl"), Dpu()};
  const StatusOr<ir::Module> module = ir::ParseModule(kSideBySide);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(ir::Print(*ir::ParseModule(ir::Print(*module))), ir::Print(*module));
  auto compiler = Compiler::Create(targets, Options(), nullptr, dpu::Devices());
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  const StatusOr<std::string> source = (*compiler)->GetSourceCode(*module);
  ASSERT_TRUE(source.ok()) << source.status();
  for (const char* part : {"define i32 @here(", "__kernel ", "dpu_block[0]"})
    EXPECT_NE(source->find(part), source->npos) << part << "\n" << *source;
  EXPECT_EQ(Error((*compiler)->Build(*module, "source")), "source of kernels is of one target, this compiler has 3");
  if (!GetOpenClDevice().ok()) GTEST_SKIP() << GetOpenClDevice().status();
  const Status built = (*compiler)->Build(*module);
  ASSERT_TRUE(built.ok()) << built;
  EXPECT_EQ(Error((*compiler)->Build(*module)), "function @rows was built before by this compiler");
  EXPECT_EQ(Error((*compiler)->ExportObject("x.o")), "an object is of one target, this compiler has 3");

  for (const auto& [name, device] : {std::pair<const char*, const RuntimeDevice*>{"here", &cinn_device_x86_64},
                                     {"gpu", &cinn_device_opencl},
                                     {"there", &cinn_device_dpu}}) {
    const auto f = reinterpret_cast<CinnFunctionPtr>((*compiler)->Lookup(name));
    ASSERT_NE(f, nullptr) << name;
    DeviceApi* api = *device->api();
    void* stream = *api->CreateStream(0);
    Tensor x({1000}), y({1000});
    for (size_t i = 0; i < 1000; ++i) x.values[i] = static_cast<float>(i);
    for (Tensor* t : {&x, &y}) {
      t->dl.device = {device->type, 0};
      t->dl.data = *api->Alloc(0, 4000, stream);
    }
    ASSERT_TRUE(api->Copy(0, x.dl.data, x.values.data(), 4000, stream).ok());
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = {device->type, 0};
    env.stream = stream;
    CinnValue args[] = {x.Value(), y.Value()};
    EXPECT_EQ(f(nullptr, args, 2, &env), 0) << LastError();
    ASSERT_TRUE(api->Copy(0, y.values.data(), y.dl.data, 4000, stream).ok());
    ASSERT_TRUE(api->Synchronize(0, stream).ok());
    for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(y.values[i], 2 * x.values[i]) << name << " at " << i;
    for (Tensor* t : {&x, &y}) api->Free(0, t->dl.data);
    api->DestroyStream(0, stream);
  }
}

TEST(SeveralTargets, WhatIsRefused) {
  const Target cpu = *Target::Parse("cpu"), opencl = *Target::Parse("opencl");
  EXPECT_EQ(Error(Compiler::Create(std::span<const Target>()).status()), "a compiler needs a target");
  const Target twice[] = {cpu, *Target::Parse("x86_64 -num-threads=2")}, two[] = {cpu, opencl};
  EXPECT_TRUE(Error(Compiler::Create(twice).status()).ends_with("' are of one device"));
  auto compiler = Compiler::Create(two, Options());
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  EXPECT_EQ(Error((*compiler)->Build(*ir::ParseModule(kSideBySide))),
            "entry function @there is for device 'dpu', the targets are of x86_64, opencl");
}

TEST(Dpu, ThePageShowsTheExample) {
  const auto read = [](const std::string& path) {
    std::ifstream in(path);
    EXPECT_TRUE(in.good()) << path;
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  std::string example = read("examples/run_on_dpu.cc");
  for (const char* name : {"kind", "runtime", "compiler", "tactics", "passes"})
    example += read(Cat("examples/dpu/dpu_", name, ".cc"));
  const auto called = OnDpu(*hlir::Parse(ProductGraph(64, 32, 96, false)));
  example += Cat(*(*called)->Source("loops"), *(*called)->Source("dpu"));
  std::istringstream page(read("docs/new_device.md"));
  std::string block, lines;
  int blocks = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("    ") || (line.empty() && !block.empty())) {
      lines += Cat(line.substr(std::min<size_t>(line.size(), 4)), "\n");
      if (!line.empty()) block += std::exchange(lines, "");
      continue;
    }
    if (!block.empty()) {
      ++blocks;
      EXPECT_NE(example.find(block), std::string::npos) << block;
    }
    block = lines = "";
  }
  EXPECT_GT(blocks, 10);
}

}  // namespace
}  // namespace cinn_like
