// Sums over columns beside what goes through the rows, on CPUs: one kernel for both and one that adds up the parts, of
// any number of rows, dimensions, columns and threads, against the independent evaluator; the same bits each time.
#include "tests/column_sums.h"

#include <gtest/gtest.h>

#include "cinn_like/driver.h"
#include "ir/host_array.h"
#include "tests/hlir/evaluate.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

struct Case {
  const char *rows, *columns, *dtype;
  int64_t n = 1;
};

CompileOptions Options() {
  CompileOptions options;
  options.disable_cache = true;
  return options;
}

Target Threads(int threads) { return *Target::Parse(Cat("cpu -num-threads=", threads)); }

// Kernels that are different.
int KernelsOf(const Graph& g, const Target& target) {
  const StatusOr<std::string> schedule = EmitGraph(g, target, Options(), "schedule");
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->find("naive"), std::string::npos) << *schedule;
  int r = 0;
  for (size_t at = schedule->find(" by "); at != std::string::npos; at = schedule->find(" by ", at + 1)) ++r;
  return r;
}

std::vector<ir::HostArray> RunOn(CompiledFunction& f, const Graph& g, const std::vector<Tensor>& inputs, int64_t n) {
  const Evaluator evaluator({{"n", n}});
  std::vector<ir::HostArray> arrays;
  for (const Tensor& t : inputs) {
    arrays.emplace_back(t.dtype, t.shape);
    for (size_t i = 0; i < t.data.size(); ++i) arrays.back().Set(static_cast<int64_t>(i), t.data[i]);
  }
  for (ValueId v : g.results()) arrays.emplace_back(g.TypeOf(v).dtype, evaluator.ValueOf(g.TypeOf(v).dims));
  std::vector<DLTensor> tensors;
  for (ir::HostArray& a : arrays) {
    const DTypeInfo& info = InfoOf(a.dtype);
    const DLDataType type = {info.dlpack_code, static_cast<uint8_t>(info.bits), 1};
    tensors.push_back(
        {a.bytes.data(), {kDLCPU, 0}, static_cast<int32_t>(a.shape.size()), type, a.shape.data(), nullptr, 0});
  }
  std::vector<CinnValue> args;
  for (DLTensor& t : tensors) args.push_back({kCinnTensor, 0, {.tensor = &t}});
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  EXPECT_EQ(f.entry()(f.self(), args.data(), static_cast<int32_t>(args.size()), &env), 0);
  arrays.erase(arrays.begin(), arrays.begin() + static_cast<ptrdiff_t>(inputs.size()));
  return arrays;
}

void ExpectRuns(const Graph& g, const Target& target, int64_t n) {
  SCOPED_TRACE(Cat(Print(g), " n = ", n));
  const Evaluator evaluator({{"n", n}});
  std::mt19937 random(1);
  std::vector<Tensor> inputs;
  for (const Param& p : g.params()) {
    if (p.is_symbol()) continue;
    const TensorType& type = g.TypeOf(p.value);
    inputs.emplace_back(type.dtype, evaluator.ValueOf(type.dims));
    for (double& x : inputs.back().data) x = ir::RoundTo(type.dtype, static_cast<double>(random() % 2000) / 1000 - 1);
  }
  const std::vector<Tensor> expected = evaluator.Run(g, inputs);
  const auto f = CompileGraph(g, target, Options());
  ASSERT_TRUE(f.ok()) << f.status();
  const std::vector<ir::HostArray> got = RunOn(**f, g, inputs, n), again = RunOn(**f, g, inputs, n);
  for (size_t k = 0; k < got.size(); ++k) {
    const Tensor& want = expected[k];
    EXPECT_EQ(got[k].bytes, again[k].bytes) << k;
    // What a step of 16-bit values may move is half of one each, as often as there are terms.
    const double terms = static_cast<double>(inputs[0].data.size()) / static_cast<double>(want.data.size());
    const double step = got[k].dtype == DType::kF32 && inputs[0].dtype == DType::kF32 ? 2e-6 : 8e-3;
    for (size_t i = 0; i < want.data.size(); ++i) {
      const double a = got[k].Get(static_cast<int64_t>(i)), b = want.data[i];
      ASSERT_LE(std::abs(a - b), step * (std::abs(b) + std::sqrt(terms))) << "result " << k << ", element " << i;
    }
  }
}

TEST(ColumnSums, BesideRows) {
  const Case cases[] = {
      {"800", "256", "f32"},     {"787", "257", "f32"},     {"1600", "200", "bf16"},  {"1999", "96", "f16"},
      {"16,49", "260", "f32"},   {"5,7,31", "200", "bf16"}, {"n", "257", "f32", 787}, {"n", "256", "bf16", 1},
      {"n,7", "64", "f32", 123}, {"7,n", "64", "f32", 123}, {"n", "256", "f32", 256},
  };
  int tried = 0;
  for (const Case& c : cases) {
    for (const char* text : {kNorm, kBias}) {
      const Graph g = ColumnSumsGraph(text, c.rows, c.columns, c.dtype);
      for (int threads : {1, 3}) {
        const Target target = Threads(threads);
        // The sums of the parts of a norm's two sums are one kernel, called twice.
        EXPECT_EQ(KernelsOf(g, target), 2) << Print(g);
        if (IsTried(tried++)) ExpectRuns(g, target, c.n);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Where the sums are needed to go through the rows once more, columns stay in cache; few bytes are not worth a kernel.
TEST(ColumnSums, StayWhole) {
  const StatusOr<Graph> softmax = Parse(R"(graph @f(%x: f32[4000,128]) {
  %0 = softmax(%x) {axis=0} : f32[4000,128]
  return %0
}
)");
  ASSERT_TRUE(softmax.ok()) << softmax.status();
  EXPECT_EQ(KernelsOf(*softmax, Threads(1)), 1);
  EXPECT_EQ(KernelsOf(ColumnSumsGraph(kBias, "40", "64", "f32"), Threads(1)), 1);
}

}  // namespace
}  // namespace cinn_like::hlir
