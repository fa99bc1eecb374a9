// Every op's samples, and with each of their sizes made 0 and 1: compiled for this CPU and run, against the independent
// evaluator; lowered for a GPU.
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_join.h"
#include "cinn_like/c_api.h"
#include "cinn_like/driver.h"
#include "ir/host_array.h"
#include "tests/hlir/evaluate.h"
#include "tests/hlir/samples.h"
#include "tests/mutate.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

constexpr std::string_view kDigits = "0123456789";

// The numbers between brackets, which are sizes, and the symbol.
std::set<std::string> SizesOf(const std::string& shapes) {
  std::set<std::string> r = {"n"};
  int depth = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    depth += shapes[i] == '[' ? 1 : shapes[i] == ']' ? -1 : 0;
    if (depth == 0 || kDigits.find(shapes[i]) == kDigits.npos) continue;
    const size_t end = std::min(shapes.find_first_not_of(kDigits, i), shapes.size());
    r.insert(shapes.substr(i, end - i));
    i = end - 1;
  }
  return r;
}

// `from` between brackets becomes `to`: sizes and lists of sizes, not dtypes or single numbers.
std::string WithSize(const std::string& text, const std::string& from, const std::string& to) {
  std::string r;
  int depth = 0;
  for (size_t i = 0; i < text.size();) {
    depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    const size_t end = std::max(i + 1, std::min(text.find_first_not_of(kDigits, i), text.size()));
    const std::string piece = text.substr(i, end - i);
    r += depth > 0 && piece == from ? to : piece;
    i = end;
  }
  return r;
}

// Without and with the lists of the attributes, what of it is a graph.
std::vector<Graph> Variants(const OpDef& def, const std::string& sample) {
  const size_t end = sample.find(')');
  const std::string shapes = sample.substr(0, end), attributes = sample.substr(end);
  std::set<std::string> texts;
  for (const std::string& size : SizesOf(shapes)) {
    for (const char* to : {"0", "1"}) {
      texts.insert(WithSize(shapes, size, to) + attributes);
      texts.insert(WithSize(shapes, size, to) + WithSize(attributes, size, to));
    }
  }
  std::vector<Graph> r;
  for (const std::string& text : texts) {
    StatusOr<Graph> g = SampleGraph(def, text);
    if (g.ok()) r.push_back(*std::move(g));
  }
  return r;
}

// An index into nothing has no answer: such graphs run, and what they give is not looked at.
bool HasAnswer(const std::vector<Tensor>& inputs, const std::vector<ir::HostArray>& results) {
  bool is_empty = false, has_index = false;
  for (const Tensor& t : inputs) {
    is_empty |= t.data.empty();
    has_index |= IsInt(t.dtype) && !t.data.empty();
  }
  return !(is_empty && has_index) ||
         std::all_of(results.begin(), results.end(), [](const ir::HostArray& a) { return a.bytes.empty(); });
}

void ExpectRuns(const Graph& g, std::mt19937& rng, bool positive, int64_t symbol = 1, bool check_bounds = false) {
  SCOPED_TRACE(Print(g));
  const Evaluator evaluator({{"n", symbol}});
  const std::vector<Tensor> inputs = RandomSampleInputs(g, evaluator, rng, positive ? 0.1 : -2, 2);
  std::vector<ir::HostArray> results;
  for (ValueId v : g.results()) results.emplace_back(g.TypeOf(v).dtype, evaluator.ValueOf(g.TypeOf(v).dims));
  const bool has_answer = HasAnswer(inputs, results);
  const std::vector<Tensor> expected = has_answer ? evaluator.Run(g, inputs) : std::vector<Tensor>();
  CompileOptions options;
  options.disable_cache = true;
  options.check_bounds = check_bounds;
  const auto f = CompileGraph(g, *Target::Parse("cpu"), options);
  ASSERT_TRUE(f.ok()) << f.status();
  std::vector<ir::HostArray> arrays;
  for (const Tensor& t : inputs) {
    arrays.emplace_back(t.dtype, t.shape);
    for (size_t i = 0; i < t.data.size(); ++i) arrays.back().Set(static_cast<int64_t>(i), t.data[i]);
  }
  arrays.insert(arrays.end(), results.begin(), results.end());
  std::vector<DLTensor> tensors(arrays.size());
  std::vector<CinnValue> args;
  size_t next = 0;
  auto add = [&](ir::HostArray& a) {
    DLTensor& t = tensors[next++];
    const DTypeInfo& info = InfoOf(a.dtype);
    const DLDataType type = {info.dlpack_code, static_cast<uint8_t>(info.bits), 1};
    t = {a.bytes.data(), {kDLCPU, 0}, static_cast<int32_t>(a.shape.size()), type, a.shape.data(), nullptr, 0};
    CinnValue v{};
    v.tag = kCinnTensor;
    v.tensor = &t;
    args.push_back(v);
  };
  for (const Param& p : g.params()) {
    if (p.is_symbol()) {
      CinnValue v{};
      v.tag = kCinnInt;
      v.i = symbol;
      args.push_back(v);
    } else {
      add(arrays[next]);
    }
  }
  while (next < arrays.size()) add(arrays[next]);
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  const int32_t code = (*f)->entry()((*f)->self(), args.data(), static_cast<int32_t>(args.size()), &env);
  if (!has_answer) return;
  ASSERT_EQ(code, 0) << CinnLastError();
  for (size_t k = 0; k < expected.size(); ++k) {
    const Tensor& want = expected[k];
    // A sum rounds as often as it has terms, of which an input's elements are the most, up and down, the more the
    // larger it was on the way.
    size_t terms = 0;
    for (const Tensor& t : inputs) terms = std::max(terms, t.data.size());
    const double rounding = 2e-6 * std::sqrt(static_cast<double>(terms));
    for (size_t i = 0; i < want.data.size(); ++i) {
      if (k > 0 && std::isinf(expected[0].data[i])) continue;  // the place of the largest of nothing
      const double a = arrays[inputs.size() + k].Get(static_cast<int64_t>(i)), b = want.data[i];
      const bool same =
          a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 2e-5 * (std::abs(b) + 0.5) + rounding;
      ASSERT_TRUE(same) << "result " << k << ", element " << i << ": " << a << ", expected " << b;
    }
  }
}

bool TakesPositive(const OpDef& def) {
  return def.name == "log" || def.name.ends_with("sqrt") || def.name == "pow" || def.name == "log1p" ||
         def.name == "batch_norm";
}

TEST(Sizes, EverySampleAtZeroAndOne) {
  Mutator mutator;
  std::mt19937 rng(mutator.seed());
  int tried = 0;
  for (const OpDef* def : OpRegistry::BuiltIn().All()) {
    for (const std::string& sample : def->samples) {
      for (const Graph& g : Variants(*def, sample)) {
        if (mutator.Pick(kRoundsDivisor) != 0) continue;
        ++tried;
        ExpectRuns(g, rng, TakesPositive(*def));
        const auto cuda = EmitGraph(g, *Target::Parse("cuda -arch=sm_90a -libs=cublas"), {}, "cuda");
        EXPECT_TRUE(cuda.ok()) << Print(g) << cuda.status();
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(tried, 400 / kRoundsDivisor / 2);
}

// What a kernel would touch outside of a buffer fails the call (--cinn_check_bounds); and no GPU's kernel is refused.
TEST(Sizes, EverySampleStaysInBounds) {
  Mutator mutator;
  std::mt19937 rng(mutator.seed());
  CompileOptions checked;
  checked.check_bounds = true;
  for (const OpDef* def : OpRegistry::BuiltIn().All()) {
    for (const std::string& sample : def->samples) {
      if (mutator.Pick(kRoundsDivisor) != 0) continue;
      const auto g = SampleGraph(*def, sample);
      ASSERT_TRUE(g.ok()) << g.status();
      ExpectRuns(*g, rng, TakesPositive(*def), 7, true);
      const auto cuda = EmitGraph(*g, *Target::Parse("cuda -arch=sm_90a"), checked, "cuda");
      EXPECT_TRUE(cuda.ok()) << Print(*g) << cuda.status();
      if (HasFatalFailure()) return;
    }
  }
}

// Products have a kernel near few rows that they were traced with, and one for all others.
TEST(Sizes, ProductsNearFewRowsAndOfAny) {
  std::mt19937 rng(5);
  for (const char* hint : {"2", "3", "4"}) {
    const StatusOr<Graph> g = Parse(
        Cat("graph @g(%x: f32[n,1024], %w: f32[517,1024], %b: f32[517]) where n in ", "1..100000 hint ", hint, R"( {
  %0 = transpose(%w) {perm=[1,0]} : f32[1024,517]
  %1 = matmul(%x, %0) : f32[n,517]
  %2 = add(%1, %b) : f32[n,517]
  return %2
})"));
    ASSERT_TRUE(g.ok()) << g.status();
    const auto schedules = EmitGraph(*g, *Target::Parse("x86_64 -mcpu=skylake-avx512 -num-threads=1"), {}, "schedule");
    ASSERT_TRUE(schedules.ok()) << schedules.status();
    EXPECT_NE(schedules->find("_near by"), std::string::npos) << *schedules;
    for (const int64_t n : {1, 2, 3, 8, 13}) ExpectRuns(*g, rng, false, n);
    if (HasFatalFailure()) return;
  }
}

// A reduction over the first axis keeps a chunk of columns at a time, whatever the size of all of them.
TEST(Sizes, ChunksOfColumnsOfAnySize) {
  std::mt19937 rng(1);
  const StatusOr<Graph> g = Parse(R"(graph @g(%x: f32[516,3,n,9]) where n in 1..64 {
  %0 = sqrt(%x) : f32[516,3,n,9]
  %1 = argmax(%0) {axis=0, keepdims=true} : i64[1,3,n,9]
  %2 = reduce_max(%0) {axes=[0], keepdims=true} : f32[1,3,n,9]
  return %1, %2
})");
  ASSERT_TRUE(g.ok()) << g.status();
  ExpectRuns(*g, rng, true, 21);
}

// Reductions over any axes of any shapes, behind what makes ties, NaN or infinities of its operand, or takes long.
TEST(Sizes, RandomReductions) {
  Mutator mutator;
  std::mt19937 rng(mutator.seed());
  const auto pick = [&](const auto&... of) {
    const std::string all[] = {of...};
    return all[rng() % sizeof...(of)];
  };
  for (int round = 0; round < Rounds(250); ++round) {
    const std::string op =
        pick("reduce_sum", "reduce_max", "reduce_min", "reduce_any", "reduce_all", "argmax", "argmin");
    const bool is_place = op.starts_with("arg"), is_bool = op == "reduce_any" || op == "reduce_all";
    const std::string t =
        op == "reduce_sum" ? pick("f32", "f64", "i64") : pick("f32", "bf16", "f16", "f64", "i32", "u8");
    const bool is_float = t.find('f') != t.npos;
    // One long dimension, the others short.
    const size_t rank = 1 + rng() % 4, longest = rng() % rank;
    const int64_t symbol = 1 + static_cast<int64_t>(rng() % 64);
    const bool keepdims = rng() % 2 == 0;
    std::vector<std::string> shape, reduced, axes;
    bool has_symbol = false;
    for (size_t d = 0; d < rank; ++d) {
      has_symbol |= rng() % 5 == 0;
      const bool is_symbol = has_symbol && (shape.empty() || std::count(shape.begin(), shape.end(), "n") == 0);
      const auto size = d == longest ? 1 + rng() % 700 : 1 + rng() % (rank > 2 ? 9 : 40);
      shape.push_back(is_symbol ? "n" : std::to_string(size));
      const bool is_axis = is_place ? d == rng() % rank && axes.empty() : rng() % 2 == 0;
      const bool must = axes.empty() && d + 1 == rank;
      if (is_axis || must) axes.push_back(std::to_string(d));
      if (!is_axis && !must) reduced.push_back(shape.back());
      if ((is_axis || must) && keepdims) reduced.push_back("1");
    }
    const std::string in = Cat(t, "[", absl::StrJoin(shape, ","), "]");
    std::string body, x = "%x";
    const auto add = [&](const std::string& value, const std::string& type) {
      x = Cat("%", body.size());
      body += Cat("  ", x, " = ", value, " : ", type, "\n");
    };
    // The evaluator does not round to 16 bits in between.
    const bool is_half = t.ends_with("16") && is_float;
    switch (is_half ? 4 * (rng() % 2) : is_float ? rng() % 5 : 4) {
      case 0:  // ties
        add("round(%x)", in);
        break;
      case 1:  // infinities, of both signs, and NaN
        add("round(%x)", in);
        if (op != "reduce_sum") add(Cat("div(%x, ", x, ")"), in);
        break;
      case 2:  // NaN, here and there
        add(Cat("full() {shape=[], value=1.9, dtype=", t, "}"), Cat(t, "[]"));
        add(Cat("add(%x, ", x, ")"), in);
        add(Cat("sqrt(", x, ")"), in);
        // Roundings in between, which the evaluator has not, would decide which of two is larger.
        add(Cat("sub(", x, ", ", x, ")"), in);
        add(Cat("add(%x, ", x, ")"), in);
        break;
      case 3:
        if (op == "argmax") add("round(%x)", in);
        if (op == "argmax" || op == "reduce_max") add(Cat("gelu(", x, ") {approximate=\"none\"}"), in);
        break;
      default:
        break;
    }
    if (is_bool) {
      const std::string operand = x;
      add(Cat("full() {shape=[], value=1, dtype=", t, "}"), Cat(t, "[]"));
      add(Cat("gt(", operand, ", ", x, ")"), Cat("bool", in.substr(in.find('['))));
    }
    const std::string out = Cat("[", absl::StrJoin(reduced, ","), "]"), from = x;
    add(Cat(op, "(", from, ") {", is_place ? Cat("axis=", axes[0]) : Cat("axes=[", absl::StrJoin(axes, ","), "]"),
            ", keepdims=", keepdims ? "true" : "false", "}"),
        Cat(is_place  ? "i64"
            : is_bool ? "bool"
                      : t,
            out));
    std::string results = x;
    if (is_place && rng() % 2 == 0) {  // both results of max(dim)
      add(Cat(op == "argmax" ? "reduce_max(" : "reduce_min(", from, ") {axes=[", axes[0],
              "], keepdims=", keepdims ? "true" : "false", "}"),
          Cat(t, out));
      results += ", " + x;
    }
    const auto g = Parse(Cat("graph @reduce(%x: ", in, ")", has_symbol ? " where n in 1..64" : "", " {\n", body,
                             "  return ", results, "\n}\n"));
    ASSERT_TRUE(g.ok()) << g.status() << body;
    ExpectRuns(*g, rng, false, symbol);
    if (HasFatalFailure()) return;
  }
}

// Scans along any dimension, with what computes their elements and what reads their results, perhaps a reduction.
TEST(Sizes, RandomScans) {
  Mutator mutator;
  std::mt19937 rng(mutator.seed());
  const auto pick = [&](const auto&... of) {
    const std::string all[] = {of...};
    return all[rng() % sizeof...(of)];
  };
  for (int round = 0; round < Rounds(120); ++round) {
    const std::string op = pick("cumsum", "cumsum", "cumprod", "cummax", "cummin");
    const bool is_pair = op == "cummax" || op == "cummin";
    // The evaluator does not round to 16 bits in between, nor count in 64 bits.
    const std::string t = op == "cumsum" ? pick("f32", "f64", "i64", "i32") : pick("f32", "f64", "f32");
    const bool is_float = t[0] == 'f';
    const size_t rank = 1 + rng() % 3, longest = rng() % rank;
    const size_t axis = rng() % 3 == 0 ? longest : rng() % rank;
    const int64_t symbol = 1 + static_cast<int64_t>(rng() % 64);
    std::vector<std::string> shape;
    bool has_symbol = false;
    for (size_t d = 0; d < rank; ++d) {
      const bool is_symbol = !has_symbol && rng() % 5 == 0;
      has_symbol |= is_symbol;
      shape.push_back(is_symbol ? "n" : std::to_string(1 + rng() % (d == longest ? 300 : rank > 2 ? 9 : 40)));
    }
    const std::string dims = Cat("[", absl::StrJoin(shape, ","), "]"), in = Cat(t, dims);
    std::string body, x = "%x";
    const auto add = [&](const std::string& value, const std::string& type) {
      x = Cat("%", body.size());
      body += Cat("  ", x, " = ", value, " : ", type, "\n");
      return x;
    };
    if (op == "cumprod") {  // near 1
      add("sigmoid(%x)", in);
      add(Cat("add(", x, ", ", x, ")"), in);
    } else if (is_float && rng() % 2 == 0) {
      add(is_pair ? "round(%x)" : "neg(%x)", in);
      if (is_pair && rng() % 3 == 0) add(Cat("div(%x, ", x, ")"), in);  // infinities and NaN
    }
    const std::string from = x;
    std::string results;
    if (is_pair) {
      const std::string values = Cat("%v", round), places = Cat("%p", round);
      body += Cat("  ", values, ", ", places, " = ", op, "(", from, ") {axis=", axis, "} : ", in, ", i64", dims, "\n");
      results = rng() % 4 == 0 ? values : rng() % 3 == 0 ? places : Cat(values, ", ", places);
      x = values;
    } else {
      results = add(Cat(op, "(", from, ") {axis=", axis, "}"), in);
    }
    const std::string scanned = x;
    switch (rng() % 5) {
      case 0:
        results += ", " + add(Cat("add(", scanned, ", ", scanned, ")"), in);
        break;
      case 1:
        results = add(Cat("mul(", scanned, ", ", from, ")"), in);
        break;
      case 2:
        if (rank > 1 || rng() % 2 == 0) {
          std::vector<std::string> left = shape;
          left.erase(left.begin() + static_cast<ptrdiff_t>(axis));
          results += ", " + add(Cat("reduce_max(", scanned, ") {axes=[", axis, "], keepdims=false}"),
                                Cat(t, "[", absl::StrJoin(left, ","), "]"));
        }
        break;
      case 3:
        if (!is_pair && op == "cumsum")
          results += ", " + add(Cat("cumsum(", scanned, ") {axis=", rng() % rank, "}"), in);
        break;
      default:
        break;
    }
    const auto g = Parse(Cat("graph @scan(%x: ", in, ")", has_symbol ? " where n in 1..64" : "", " {\n", body,
                             "  return ", results, "\n}\n"));
    ASSERT_TRUE(g.ok()) << g.status() << body;
    ExpectRuns(*g, rng, false, symbol);
    if (HasFatalFailure()) return;
  }
}

// What fusion and panels make of masks: where an element is not asked for, nor is the index that it stands at, and
// what is kept inside of a panel's last tile is so in its mask.
TEST(Sizes, MaskedAccessesStayInBounds) {
  std::mt19937 rng(1);
  for (const char* text : {
           R"(graph @padded(%x: f32[5,7], %i: i64[4]) {
  %0 = gather(%x, %i) {axis=0} : f32[4,7]
  %1 = pad(%0) {low=[3,1], high=[4,2]} : f32[11,10]
  return %1
})",
           R"(graph @window(%x: f32[3,1,4,12], %w: f32[5,1,2,2]) {
  %0 = conv(%x, %w) {stride=[3,2], padding=[2,1], dilation=[3,1]} : f32[3,5,2,7]
  return %0
})"}) {
    const auto g = Parse(text);
    ASSERT_TRUE(g.ok()) << g.status();
    ExpectRuns(*g, rng, false, 1, true);
  }
}

}  // namespace
}  // namespace cinn_like::hlir
