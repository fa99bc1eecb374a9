// OpenCL, where there is a device (PoCL runs kernels on the CPU): every op's samples against the independent evaluator,
// memory as frameworks hand it over, and what errors say. CINN_TEST_ALL_SAMPLES=1 takes all samples in all dtypes
// (tools/nightly.sh), else samples are of f32 and each op has one of another dtype.
#include "tests/opencl.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "cinn_like/driver.h"
#include "cinn_like/host_tensors.h"
#include "ir/host_array.h"
#include "runtime/last_error.h"
#include "runtime/opencl_driver.h"
#include "tests/hlir/evaluate.h"
#include "tests/hlir/samples.h"
#include "tests/rounds.h"

namespace cinn_like {
namespace {

using hlir::Evaluator;
using hlir::Graph;
using hlir::ValueId;

CompileOptions Options() {
  CompileOptions options;
  options.disable_cache = true;
  return options;
}

Target OpenClTarget() { return *Target::Parse("opencl"); }

CinnCallEnv Env(void* stream = nullptr) {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLOpenCL, 0};
  env.stream = stream;
  return env;
}

DLDataType ToDLPack(DType t) { return {InfoOf(t).dlpack_code, static_cast<uint8_t>(InfoOf(t).bits), 1}; }

// A tensor in memory of the device.
class OnDevice {
 public:
  explicit OnDevice(const ir::HostArray& a) : api_(**GetOpenClDevice()), shape_(a.shape), bytes_(a.bytes.size()) {
    t_ = {*api_.Alloc(0, static_cast<int64_t>(bytes_), nullptr),
          {kDLOpenCL, 0},
          static_cast<int>(shape_.size()),
          ToDLPack(a.dtype),
          shape_.data(),
          nullptr,
          0};
    EXPECT_TRUE(api_.Copy(0, t_.data, a.bytes.data(), static_cast<int64_t>(bytes_), nullptr).ok());
  }
  ~OnDevice() { api_.Free(0, t_.data); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  void Read(ir::HostArray* a) const {
    EXPECT_TRUE(api_.Copy(0, a->bytes.data(), t_.data, static_cast<int64_t>(bytes_), nullptr).ok());
  }
  CinnValue Value() { return {kCinnTensor, 0, {.tensor = &t_}}; }

 private:
  DeviceApi& api_;
  std::vector<int64_t> shape_;
  size_t bytes_;
  DLTensor t_;
};

double ToleranceOf(DType t) {
  return t == DType::kF16 ? 2e-3 : t == DType::kBF16 ? 1.6e-2 : t == DType::kF32 ? 4e-5 : t == DType::kF64 ? 1e-11 : 0;
}

// Graphs of one op each, side by side in one: what is compiled together costs a driver little more than one.
class Samples {
 public:
  Samples() : all_("samples") { EXPECT_TRUE(all_.AddSymbol({"n", 1, 64, 1}).ok()); }

  void Add(const Graph& g) {
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
    graphs_.push_back(g);
  }

  // Compiles all of them at once, and runs them for each n.
  void Check(const std::string& name, double low, double high, const Target& target = OpenClTarget(),
             const Devices& devices = Devices::BuiltIn()) {
    if (graphs_.empty()) return;
    ASSERT_TRUE(all_.AddSymbolParam("n").ok());
    ASSERT_TRUE(all_.SetResults(results_).ok());
    const auto compiled = CompileGraph(all_, target, Options(), devices);
    ASSERT_TRUE(compiled.ok()) << name << compiled.status() << hlir::Print(all_);
    for (const std::string& why : (*compiled)->report().refused) ADD_FAILURE() << name << ": " << why;
    std::mt19937 rng(23);
    for (const int64_t n : {1, 7}) Run(**compiled, n, rng, low, high);
  }

 private:
  void Run(const CompiledFunction& compiled, int64_t n, std::mt19937& rng, double low, double high) {
    const Evaluator evaluator({{"n", n}});
    std::vector<std::unique_ptr<OnDevice>> tensors;
    std::vector<CinnValue> args;
    std::vector<hlir::Tensor> expected;
    std::vector<const Graph*> of;
    for (const Graph& g : graphs_) {
      const std::vector<hlir::Tensor> inputs = hlir::RandomSampleInputs(g, evaluator, rng, low, high);
      for (const hlir::Tensor& t : inputs) {
        ir::HostArray a(t.dtype, t.shape);
        for (size_t i = 0; i < t.data.size(); ++i) a.Set(static_cast<int64_t>(i), t.data[i]);
        args.push_back(tensors.emplace_back(std::make_unique<OnDevice>(a))->Value());
      }
      for (hlir::Tensor& t : evaluator.Run(g, inputs)) {
        expected.push_back(std::move(t));
        of.push_back(&g);
      }
    }
    args.push_back({kCinnInt, 0, {.i = n}});
    const size_t first = tensors.size();
    for (const hlir::Tensor& t : expected)
      args.push_back(tensors.emplace_back(std::make_unique<OnDevice>(ir::HostArray(t.dtype, t.shape)))->Value());
    const CinnCallEnv env = Env();
    ASSERT_EQ(compiled.entry()(compiled.self(), args.data(), static_cast<int32_t>(args.size()), &env), 0)
        << LastError();
    for (size_t k = 0; k < expected.size(); ++k) {
      const hlir::Tensor& want = expected[k];
      ir::HostArray got(want.dtype, want.shape);
      tensors[first + k]->Read(&got);
      for (size_t i = 0; i < want.data.size(); ++i) {
        const double a = got.Get(static_cast<int64_t>(i)), b = want.data[i];
        const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                          std::abs(a - b) <= ToleranceOf(want.dtype) * (std::abs(b) + 0.5);
        ASSERT_TRUE(same) << hlir::Print(*of[k]) << "n = " << n << ", element " << i << ": " << a << ", expected " << b;
      }
    }
  }

  Graph all_;
  int params_ = 0;
  std::vector<Graph> graphs_;
  std::vector<ValueId> results_;
};

TEST(OpenCl, EveryOpSample) {
  SKIP_WITHOUT_OPENCL();
  const bool all = std::getenv("CINN_TEST_ALL_SAMPLES") != nullptr;
  int cases = 0, tried = 0;
  for (const hlir::OpDef* def : hlir::OpRegistry::BuiltIn().All()) {
    Samples samples;
    for (size_t k = 0; k < def->samples.size(); ++k) {
      int dtypes = 0;
      for (std::string_view dtype : {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool"}) {
        std::string text = def->samples[k];
        for (size_t at = 0; (at = text.find("f32", at)) != text.npos; at += dtype.size()) text.replace(at, 3, dtype);
        if (text == def->samples[k] && dtype != "f32") continue;
        const StatusOr<Graph> g = hlir::SampleGraph(*def, text);
        if (!g.ok()) continue;
        // Of other dtypes than f32 one an op, each time another.
        if (!all && dtype != "f32" && (k > 0 || dtypes++ != cases % 4)) continue;
        if (!IsTried(tried++)) continue;
        samples.Add(*g);
        ++cases;
      }
    }
    const bool positive = def->name == "log" || def->name.ends_with("sqrt") || def->name == "pow" ||
                          def->name == "log1p" || def->name == "batch_norm";
    samples.Check(def->name, positive ? 0.1 : -2, 2);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tried, 120);
}

// Rows of threads shuffle in sub-groups of any size: the device's where it offers them, else ours.
TEST(OpenCl, ReductionsShuffle) {
  SKIP_WITHOUT_OPENCL();
  for (const int64_t size : {16, 8, 32}) {
    const bool offered = OffersSubgroups(static_cast<size_t>(size));
    if (size != 16 && !offered) continue;
    int kernels = 0;
    Devices devices = Devices::BuiltIn();
    const auto rewrite = [&](std::string_view, std::string_view source) -> StatusOr<std::string> {
      const std::string text(source);
      const bool shuffles = absl::StrContains(text, Cat("intel_reqd_sub_group_size(", size, ")"));
      kernels += shuffles ? 1 : 0;
      return offered || !shuffles ? text : WithEmulatedSubgroups(text, size);
    };
    ASSERT_TRUE(devices.SetHooks("opencl", {"", rewrite, nullptr}).ok());
    Samples samples;
    for (const char* row : {"5", "40", "1000"}) {
      for (const char* text :
           {"%0 = softmax(%x) {axis=1} : f32[n,ROW]\n  return %0",
            "%0 = reduce_sum(%x) {axes=[1]} : f32[n]\n  return %0", "%0 = argmax(%x) {axis=1} : i64[n]\n  return %0"}) {
        const StatusOr<Graph> g = hlir::Parse(
            absl::StrReplaceAll(Cat("graph @g(%x: f32[n,ROW]) where n in 1..64 {\n  ", text, "\n}\n"), {{"ROW", row}}));
        ASSERT_TRUE(g.ok()) << g.status();
        samples.Add(*g);
      }
    }
    samples.Check(Cat("sub-groups of ", size), -2, 2, *Target::Parse(Cat("opencl -arch=generic -subgroup-size=", size)),
                  devices);
    if (HasFatalFailure()) return;
    EXPECT_GT(kernels, 0);
  }
}

// Whole graphs of random ops, weights prepared, on tensors of the host.
TEST(OpenCl, RandomGraphs) {
  SKIP_WITHOUT_OPENCL();
  const int rounds = std::getenv("CINN_TEST_ALL_SAMPLES") != nullptr ? 200 : Rounds(8);
  for (int round = 0; round < rounds; ++round) {
    std::mt19937 rng(static_cast<unsigned>(round));
    const Graph g = *hlir::RandomGraph(rng, 4 + round % 16);
    auto made = CompileGraph(g, OpenClTarget(), Options());
    ASSERT_TRUE(made.ok()) << made.status() << hlir::Print(g);
    const std::unique_ptr<CompiledFunction> compiled = TakeHostTensors(*std::move(made));
    CinnCallEnv env = Env();
    env.device = {kDLCPU, 0};
    for (const int64_t n : {1, 9}) {
      const Evaluator evaluator({{"n", n}});
      const std::vector<hlir::Tensor> inputs = hlir::RandomInputs(g, evaluator, rng, -1, 1);
      const std::vector<hlir::Tensor> expected = evaluator.Run(g, inputs);
      std::vector<ir::HostArray> arrays;
      std::vector<DLTensor> tensors;
      for (const auto* list : {&inputs, &expected}) {
        for (const hlir::Tensor& t : *list) arrays.emplace_back(t.dtype, t.shape);
      }
      for (ir::HostArray& a : arrays) {
        tensors.push_back({a.bytes.data(),
                           {kDLCPU, 0},
                           static_cast<int>(a.shape.size()),
                           ToDLPack(a.dtype),
                           a.shape.data(),
                           nullptr,
                           0});
      }
      std::vector<CinnValue> args;
      for (DLTensor& t : tensors) args.push_back({kCinnTensor, 0, {.tensor = &t}});
      std::vector<CinnValue> weights;
      for (size_t i = 0; i < inputs.size(); ++i) {
        for (size_t k = 0; k < inputs[i].data.size(); ++k) arrays[i].Set(static_cast<int64_t>(k), inputs[i].data[k]);
        if (g.params()[i].role == hlir::ParamRole::kStatic) weights.push_back(args[i]);
      }
      const Status prepared = compiled->Prepare(weights, env);
      ASSERT_TRUE(prepared.ok()) << prepared;
      ASSERT_EQ(compiled->entry()(compiled->self(), args.data(), static_cast<int32_t>(args.size()), &env), 0)
          << LastError() << hlir::Print(g);
      for (size_t k = 0; k < expected.size(); ++k) {
        for (size_t i = 0; i < expected[k].data.size(); ++i) {
          const double got = arrays[inputs.size() + k].Get(static_cast<int64_t>(i)), want = expected[k].data[i];
          ASSERT_NEAR(got, want, 1e-4 * (std::abs(want) + 1)) << hlir::Print(g) << "round " << round << ", n = " << n;
        }
      }
    }
  }
}

constexpr char kSoftmax[] = R"(graph @g(%x: f32[n,40], %w: f32[40] static) where n in 1..300 {
  %0 = exp(%w) : f32[40]
  %1 = mul(%x, %0) : f32[n,40]
  %2 = softmax(%1) {axis=1} : f32[n,40]
  %3 = relu(%1) : f32[n,40]
  %4 = reduce_sum(%3) {axes=[0]} : f32[40]
  return %2, %4
}
)";

// A framework's own context, queue and memory objects; data is not at their start.
TEST(OpenCl, RunsOnMemoryAndQueuesOfTheCaller) {
  SKIP_WITHOUT_OPENCL();
  using namespace opencl;
  const Driver& cl = **GetDriver();
  const DeviceId id = cl.devices[0].id;
  const Graph graph = *hlir::Parse(kSoftmax);
  const auto compiled = CompileGraph(graph, OpenClTarget(), Options());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  Result error = kSuccess;
  const opencl::Context context = cl.clCreateContext(nullptr, 1, &id, nullptr, nullptr, &error);
  ASSERT_EQ(error, kSuccess);
  constexpr int64_t kRows = 30;
  constexpr uint64_t kOffsets[] = {12, 4, 32, 16};  // inputs may be aligned badly
  for (const Bits properties : {Bits{0}, kOutOfOrder}) {
    const Queue queue = cl.clCreateCommandQueue(context, id, properties, &error);
    ASSERT_EQ(error, kSuccess);
    const auto make = [&](std::vector<float>& v, uint64_t offset) {
      const Mem m = cl.clCreateBuffer(context, kReadWrite, offset + v.size() * 4, nullptr, &error);
      EXPECT_EQ(error, kSuccess);
      EXPECT_EQ(cl.clEnqueueWriteBuffer(queue, m, 1, offset, v.size() * 4, v.data(), 0, nullptr, nullptr), kSuccess);
      return m;
    };
    std::vector<float> x(kRows * 40), w(40, 0.5f), softmax(x.size()), sums(40);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) / 4 - 1;
    std::vector<float>* vectors[] = {&x, &w, &softmax, &sums};
    int64_t shapes[4][2] = {{kRows, 40}, {40, 0}, {kRows, 40}, {40, 0}};
    DLTensor tensors[4];
    CinnValue values[4];
    for (size_t i = 0; i < 4; ++i) {
      tensors[i] = {make(*vectors[i], kOffsets[i]),
                    {kDLOpenCL, 0},
                    i % 2 == 0 ? 2 : 1,
                    {kDLFloat, 32, 1},
                    shapes[i],
                    nullptr,
                    kOffsets[i]};
      values[i] = {kCinnTensor, 0, {.tensor = &tensors[i]}};
    }
    const CinnCallEnv env = Env(queue);
    const Status prepared = (*compiled)->Prepare({&values[1], 1}, env);
    ASSERT_TRUE(prepared.ok()) << prepared;
    const CinnValue args[] = {values[0], CinnValue{}, values[2], values[3]};
    ASSERT_EQ((*compiled)->entry()((*compiled)->self(), args, 4, &env), 0) << LastError();
    for (size_t i = 2; i < 4; ++i) {
      ASSERT_EQ(cl.clEnqueueReadBuffer(queue, static_cast<Mem>(tensors[i].data), 1, kOffsets[i], vectors[i]->size() * 4,
                                       vectors[i]->data(), 0, nullptr, nullptr),
                kSuccess);
    }
    for (size_t c = 0; c < 40; ++c) {
      double sum = 0;
      for (size_t r = 0; r < kRows; ++r) sum += std::max(0.0, x[r * 40 + c] * std::exp(0.5));
      ASSERT_NEAR(sums[c], sum, 1e-4 * (1 + sum));
    }
    for (size_t r = 0; r < kRows; ++r) {
      double total = 0;
      for (size_t c = 0; c < 40; ++c) total += std::exp(x[r * 40 + c] * std::exp(0.5));
      for (size_t c = 0; c < 40; ++c)
        ASSERT_NEAR(softmax[r * 40 + c], std::exp(x[r * 40 + c] * std::exp(0.5)) / total, 1e-5);
    }
    // Memory of one context, a queue of another.
    const CinnCallEnv own = Env();
    EXPECT_LT((*compiled)->entry()((*compiled)->self(), args, 4, &own), 0);
    EXPECT_TRUE(absl::StrContains(LastError(), "of another OpenCL context than the call's stream")) << LastError();
    for (DLTensor& t : tensors) EXPECT_EQ(cl.clReleaseMemObject(static_cast<Mem>(t.data)), kSuccess);
    EXPECT_EQ(cl.clReleaseCommandQueue(queue), kSuccess);
  }
}

TEST(OpenCl, AnIndexOutOfRangeIsAnError) {
  SKIP_WITHOUT_OPENCL();
  const Graph graph = *hlir::Parse(
      "graph @g(%x: f32[5,4], %i: i64[3]) {\n  %0 = check_index(%i) {size=5} : i64[3]\n"
      "  %1 = gather(%x, %0) : f32[3,4]\n  return %1\n}\n");
  const auto compiled = CompileGraph(graph, OpenClTarget(), Options());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ir::HostArray x(DType::kF32, {5, 4}), i(DType::kI64, {3}), y(DType::kF32, {3, 4});
  for (int64_t k = 0; k < 20; ++k) x.Set(k, static_cast<double>(k));
  const CinnCallEnv env = Env();
  for (const int64_t last : {4, 5}) {
    for (int64_t k = 0; k < 3; ++k) i.SetInt(k, k == 2 ? last : k);
    OnDevice dx(x), di(i), dy(y);
    const CinnValue args[] = {dx.Value(), di.Value(), dy.Value()};
    const int32_t code = (*compiled)->entry()((*compiled)->self(), args, 3, &env);
    if (last == 4) {
      ASSERT_EQ(code, 0) << LastError();
      dy.Read(&y);
      EXPECT_EQ(y.Get(11), 19);
    } else {
      EXPECT_EQ(code, -static_cast<int32_t>(absl::StatusCode::kOutOfRange));
      EXPECT_STREQ(LastError(), "op 0, check_index: index out of range: expected 0 to 4, got 5");
    }
  }
}

// A call of a graph with indices that are right but for one, and what it says.
class Checked {
 public:
  Checked(const std::string& text, int kernels, std::vector<ir::HostArray> tensors) : tensors_(std::move(tensors)) {
    const auto graph = hlir::Parse(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    auto compiled = CompileGraph(*graph, OpenClTarget(), Options());
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    if (!compiled.ok()) return;
    compiled_ = *std::move(compiled);
    EXPECT_EQ(compiled_->report().kernels, kernels) << *compiled_->Source("loops");
    for (const std::string& why : compiled_->report().refused) ADD_FAILURE() << why;
    for (ir::HostArray& a : tensors_) {
      for (int64_t k = 0; k < Size(a); ++k) a.Set(k, IsFloat(a.dtype) ? static_cast<double>(k) : 0);
    }
  }
  // "" or the error; the index stays.
  std::string Run(size_t tensor, int64_t element, int64_t index) {
    if (compiled_ == nullptr) return "not compiled";
    tensors_[tensor].SetInt(element, index);
    std::vector<std::unique_ptr<OnDevice>> on;
    std::vector<CinnValue> args;
    for (const ir::HostArray& a : tensors_) args.push_back(on.emplace_back(std::make_unique<OnDevice>(a))->Value());
    const CinnCallEnv env = Env();
    const int32_t code = compiled_->entry()(compiled_->self(), args.data(), static_cast<int32_t>(args.size()), &env);
    EXPECT_TRUE(code == 0 || code == -static_cast<int32_t>(absl::StatusCode::kOutOfRange)) << code;
    for (size_t k = 0; k < on.size(); ++k) on[k]->Read(&tensors_[k]);
    return code == 0 ? "" : LastError();
  }
  double Result(int64_t element) const { return tensors_.back().Get(element); }

 private:
  static int64_t Size(const ir::HostArray& a) { return static_cast<int64_t>(a.bytes.size()) / BytesOf(a.dtype); }
  std::vector<ir::HostArray> tensors_;  // inputs, then results
  std::unique_ptr<CompiledFunction> compiled_;
};

TEST(OpenCl, KernelsCheckTheIndicesThatTheyRead) {
  SKIP_WITHOUT_OPENCL();
  constexpr DType kF32 = DType::kF32, kI64 = DType::kI64, kI32 = DType::kI32;
  {
    Checked rows(
        "graph @g(%x: f32[5,4], %i: i64[300]) {\n  %0 = check_index(%i) {size=5} : i64[300]\n"
        "  %1 = gather(%x, %0) : f32[300,4]\n  return %1\n}\n",
        1, {{kF32, {5, 4}}, {kI64, {300}}, {kF32, {300, 4}}});
    EXPECT_EQ(rows.Run(1, 299, 4), "");
    EXPECT_EQ(rows.Result(299 * 4 + 3), 19);
    EXPECT_EQ(rows.Run(1, 299, 5), "op 0, check_index: index out of range: expected 0 to 4, got 5");
    EXPECT_EQ(rows.Run(1, 299, -1), "op 0, check_index: index out of range: expected 0 to 4, got -1");
    EXPECT_EQ(rows.Run(1, 299, int64_t{1} << 40),
              "op 0, check_index: index out of range: expected 0 to 4, got 1099511627776");
    EXPECT_EQ(rows.Run(1, 299, 0), "");  // nothing is left of an error
  }
  {
    // Sizes of the call; from the end; an index of a row's sum; used twice, by one kernel.
    Checked sums(
        "graph @g(%x: f32[n,40], %y: f32[n,40], %i: i32[m]) where n in 1..100, m in 1..100 {\n"
        "  %0 = check_index(%i) {size=n, from_end=true} : i32[m]\n  %1 = gather(%x, %0) : f32[m,40]\n"
        "  %2 = gather(%y, %0) : f32[m,40]\n  %3 = mul(%1, %2) : f32[m,40]\n"
        "  %4 = reduce_sum(%3) {axes=[1]} : f32[m]\n  return %4\n}\n",
        1, {{kF32, {3, 40}}, {kF32, {3, 40}}, {kI32, {70}}, {kF32, {70}}});
    EXPECT_EQ(sums.Run(2, 69, 2), "");
    EXPECT_EQ(sums.Run(2, 69, -3), "");
    EXPECT_EQ(sums.Run(2, 69, -4), "op 0, check_index: index out of range: expected -3 to 2, got -4");
    EXPECT_EQ(sums.Run(2, 69, 3), "op 0, check_index: index out of range: expected -3 to 2, got 3");
  }
  {
    // Two checks of one kernel, in two dimensions.
    Checked two(
        "graph @g(%x: f32[6,7], %i: i64[9,1], %j: i64[1,11]) {\n"
        "  %0 = check_index(%i) {size=6} : i64[9,1]\n  %1 = check_index(%j) {size=7} : i64[1,11]\n"
        "  %2 = full() {value=7, dtype=i64, shape=[]} : i64[]\n  %3 = mul(%0, %2) : i64[9,1]\n"
        "  %4 = add(%3, %1) : i64[9,11]\n  %5 = reshape(%x) {shape=[42]} : f32[42]\n"
        "  %6 = gather(%5, %4) : f32[9,11]\n  return %6\n}\n",
        1, {{kF32, {6, 7}}, {kI64, {9, 1}}, {kI64, {1, 11}}, {kF32, {9, 11}}});
    EXPECT_EQ(two.Run(1, 8, 5), "");
    EXPECT_EQ(two.Run(2, 10, 6), "");
    EXPECT_EQ(two.Result(98), 41);
    EXPECT_EQ(two.Run(2, 10, 7), "op 1, check_index: index out of range: expected 0 to 6, got 7");
    EXPECT_EQ(two.Run(2, 10, 6), "");
    EXPECT_EQ(two.Run(1, 8, 6), "op 0, check_index: index out of range: expected 0 to 5, got 6");
  }
  {
    // An element that the result doesn't need, so a kernel of its own checks.
    Checked part(
        "graph @g(%x: f32[5,4], %i: i64[30]) {\n  %0 = check_index(%i) {size=5} : i64[30]\n"
        "  %1 = gather(%x, %0) : f32[30,4]\n  %2 = slice(%1) {axis=0, begin=0, end=3} : f32[3,4]\n"
        "  return %2\n}\n",
        2, {{kF32, {5, 4}}, {kI64, {30}}, {kF32, {3, 4}}});
    EXPECT_EQ(part.Run(1, 29, 4), "");
    EXPECT_EQ(part.Run(1, 29, 5), "op 0, check_index: index out of range: expected 0 to 4, got 5");
  }
  {
    // Under masks, at indices of another dimension: still one kernel.
    Checked masked(
        "graph @g(%x: f32[5,4], %i: i64[30], %j: i64[3], %v: f32[30,2]) {\n"
        "  %0 = check_index(%i) {size=5} : i64[30]\n  %1 = gather(%x, %0) : f32[30,4]\n"
        "  %2 = check_index(%j) {size=4} : i64[3]\n  %3 = gather(%1, %2) {axis=1} : f32[30,3]\n"
        "  %4 = concat(%v, %3) {axis=1} : f32[30,5]\n"
        "  %5 = pad(%4) {low=[1,0], high=[2,1]} : f32[33,6]\n  return %5\n}\n",
        1, {{kF32, {5, 4}}, {kI64, {30}}, {kI64, {3}}, {kF32, {30, 2}}, {kF32, {33, 6}}});
    EXPECT_EQ(masked.Run(1, 29, 4), "");
    EXPECT_EQ(masked.Run(2, 2, 3), "");
    EXPECT_EQ(masked.Result(30 * 6 + 4), 19);
    EXPECT_EQ(masked.Result(31 * 6 + 4), 0);
    EXPECT_EQ(masked.Run(2, 2, -1), "op 2, check_index: index out of range: expected 0 to 3, got -1");
    EXPECT_EQ(masked.Run(2, 2, 0), "");
    EXPECT_EQ(masked.Run(1, 29, 5), "op 0, check_index: index out of range: expected 0 to 4, got 5");
  }
  {
    // An axis of one element, of which the index says nothing; and a condition around what is read.
    Checked one(
        "graph @g(%x: f32[1,4], %i: i64[30], %c: bool[30,4], %z: f32[]) {\n"
        "  %0 = check_index(%i) {size=1} : i64[30]\n  %1 = gather(%x, %0) : f32[30,4]\n"
        "  %2 = select(%c, %1, %z) : f32[30,4]\n  return %2\n}\n",
        1, {{kF32, {1, 4}}, {kI64, {30}}, {DType::kBool, {30, 4}}, {kF32, {}}, {kF32, {30, 4}}});
    EXPECT_EQ(one.Run(1, 29, 0), "");
    EXPECT_EQ(one.Run(1, 29, 1), "op 0, check_index: index out of range: expected 0 to 0, got 1");
  }
}

TEST(OpenCl, ADeviceWithoutF64) {
  const Graph graph = *hlir::Parse(
      "graph @g(%x: f32[4], %y: f64[4]) {\n  %0 = exp(%x) : f32[4]\n  %1 = exp(%y) : f64[4]\n  return %0, %1\n}\n");
  const Target target = *Target::Parse("opencl -arch=generic -features=-fp64");
  EXPECT_EQ(Message(CompileGraph(graph, target, Options()).status()), "op 'exp': f64[4]: the opencl device has no f64");
  EXPECT_EQ(EmitGraph(graph, target, Options(), "opencl").status(), CheckGraph(graph, target));
  EXPECT_TRUE(EmitGraph(*hlir::Parse(kSoftmax), target, Options(), "llvm").ok());
  EXPECT_EQ(Message(Target::Parse("opencl -features=-fp16").status()),
            "target: option -features: unknown feature 'fp16'; known: fp64");
}

TEST(OpenCl, SourceNeedsNoDevice) {
  const Graph graph = *hlir::Parse(kSoftmax);
  const StatusOr<std::string> source = EmitGraph(graph, OpenClTarget(), Options(), "opencl");
  ASSERT_TRUE(source.ok()) << source.status();
  for (const char* part :
       {"__kernel __attribute__((reqd_work_group_size(", "__global const float* restrict p0, long o0",
        "get_group_id(0)", "get_local_id(0)", "__local", "barrier(CLK_LOCAL_MEM_FENCE);"})
    EXPECT_TRUE(absl::StrContains(*source, part)) << part << "\n" << *source;
  const StatusOr<std::string> schedule = EmitGraph(graph, OpenClTarget(), Options(), "schedule");
  EXPECT_TRUE(absl::StrContains(*schedule, "by rows_gpu")) << *schedule;
  CompileOptions exact = Options();
  exact.numerics = "exact";
  EXPECT_TRUE(absl::StrContains(*EmitGraph(graph, OpenClTarget(), exact, "opencl"), "#pragma OPENCL FP_CONTRACT OFF"));
}

}  // namespace
}  // namespace cinn_like
