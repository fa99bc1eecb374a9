// Nests of kinds dot2_bf16, dot4_i8 and transpose (ir/vector_nests.h), compiled: they compute what the interpreter says
// that their loops do, whatever instructions there are.
#include "ir/vector_nests.h"

#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/match.h"
#include "cinn_like/base/host_cpu.h"
#include "ir/analyzer.h"
#include "ir/interpreter.h"
#include "tests/backends/jit_test_util.h"

namespace cinn_like {
namespace {

// With the instructions, where the machine has them, and without.
constexpr const char* kTargets[] = {"cpu", "cpu -features=-avx512bf16,-avx512vnni", "cpu -features=-avx512f"};

CompileOptions Numerics(const std::string& numerics) {
  CompileOptions options;
  options.numerics = numerics;
  return options;
}

// Integers of few bits: sums of their products are exact in any order.
ir::HostArray Integers(DType t, std::vector<int64_t> shape, std::mt19937& rng) {
  ir::HostArray r(t, std::move(shape));
  for (int64_t i = 0; i < r.NumElements(); ++i) {
    const int v = std::uniform_int_distribution(-8, 8)(rng);
    IsFloat(t) ? r.Set(i, v) : r.SetInt(i, v);
  }
  return r;
}

// Runs @f of three arrays both ways, on a copy of `y` each.
void ExpectSame(const std::string& text, const std::string& target, ir::HostArray x, ir::HostArray w, ir::HostArray y,
                const CompileOptions& options = {}) {
  const auto module = ir::ParseModule(text);
  ASSERT_TRUE(module.ok()) << module.status() << text;
  ir::HostArray expected = y;
  ASSERT_TRUE(ir::Interpret(*module, "f", {&x, &w, &expected}).ok()) << text;
  const auto compiler = CompileForTest(*module, target, options);
  ASSERT_EQ(CallInternal(*compiler, "f", x.bytes.data(), w.bytes.data(), y.bytes.data()), 0);
  EXPECT_EQ(y.bytes, expected.bytes) << target << "\n" << text;
}

// y[i, j] += x[i, k] * w[k, j] for all k, in pairs; `depth` is a number of pairs.
std::string Product(int rows, int lanes, int depth, bool pair_first) {
  const std::string x = Cat("f32(x[i * ", 2 * depth, " + k * 2 + e])"),
                    w = Cat("f32(w[k * ", 2 * lanes, " + l * 2 + e])");
  return Cat("func @f(x: bf16[", rows * 2 * depth, "], w: bf16[", depth * lanes * 2, "], y: f32[", rows * lanes,
             "]) {\n  for i in 0..", rows, " {\n    for k in 0..", depth, " {\n      for l in 0..", lanes,
             " @dot2_bf16 {\n        for e in 0..2 {\n          y[i * ", lanes, " + l] = y[i * ", lanes, " + l] + ",
             pair_first ? x : w, " * ", pair_first ? w : x, "\n        }\n      }\n    }\n  }\n}\n");
}

TEST(VectorNests, ProductsOfPairs) {
  std::mt19937 rng(1);
  for (const int lanes : {2, 3, 4, 7, 8, 16, 17, 32, 64}) {
    const int rows = std::uniform_int_distribution(1, 5)(rng), depth = std::uniform_int_distribution(1, 9)(rng);
    const ir::HostArray x = Integers(DType::kBF16, {rows * 2 * depth}, rng),
                        w = Integers(DType::kBF16, {depth * lanes * 2}, rng),
                        y = Integers(DType::kF32, {rows * lanes}, rng);
    for (const char* target : kTargets) ExpectSame(Product(rows, lanes, depth, depth % 2 == 0), target, x, w, y);
  }
}

// y[i, j] += x[i, k] * w[k, j] for all k, in fours, of types `a` and `b`, or of w alone; `depth` is a number of fours.
std::string ProductOfBytes(int rows, int lanes, int depth, std::string_view a, std::string_view b, bool x_first) {
  const std::string x = Cat("i32(x[i * ", 4 * depth, " + k * 4 + e])"),
                    w = Cat("i32(w[k * ", 4 * lanes, " + l * 4 + e])");
  const std::string product = a.empty() ? w : x_first ? Cat(x, " * ", w) : Cat(w, " * ", x);
  return Cat("func @f(x: ", a.empty() ? "i8" : a, "[", rows * 4 * depth, "], w: ", b, "[", depth * lanes * 4,
             "], y: i32[", rows * lanes, "]) {\n  for i in 0..", rows, " {\n    for k in 0..", depth,
             " {\n      for l in 0..", lanes, " @dot4_i8 {\n        for e in 0..4 {\n          y[i * ", lanes,
             " + l] = y[i * ", lanes, " + l] + ", product, "\n        }\n      }\n    }\n  }\n}\n");
}

// Exact for all values, whatever the sums are.
TEST(VectorNests, ProductsOfFours) {
  std::mt19937 rng(5);
  const auto bytes = [&](DType t, int n, bool extreme) {
    ir::HostArray r(t, {n});
    const int low = t == DType::kI8 ? -128 : 0;
    for (int i = 0; i < n; ++i)
      r.SetInt(i, extreme ? low + 255 * std::uniform_int_distribution(0, 1)(rng)
                          : std::uniform_int_distribution(low, low + 255)(rng));
    return r;
  };
  for (const int lanes : {2, 4, 5, 8, 16, 24, 32, 64}) {
    for (const auto& [a, b] :
         {std::pair("u8", "i8"), {"i8", "u8"}, {"i8", "i8"}, {"u8", "u8"}, {"", "i8"}, {"", "u8"}}) {
      const int rows = std::uniform_int_distribution(1, 5)(rng), depth = std::uniform_int_distribution(1, 9)(rng);
      const bool extreme = depth % 3 == 0;
      const ir::HostArray x = bytes(*a == 'u' ? DType::kU8 : DType::kI8, rows * 4 * depth, extreme),
                          w = bytes(*b == 'u' ? DType::kU8 : DType::kI8, depth * lanes * 4, extreme);
      ir::HostArray y(DType::kI32, {rows * lanes});
      for (int64_t i = 0; i < y.NumElements(); ++i)
        y.SetInt(i, std::uniform_int_distribution<int64_t>(INT32_MIN, INT32_MAX)(rng));
      for (const char* target : kTargets)
        ExpectSame(ProductOfBytes(rows, lanes, depth, a, b, depth % 2 == 0), target, x, w, y);
    }
  }
}

// y[i, j] += x[i, k] * w[k, j] over `steps` of 16 groups each, as a matrix unit has them.
std::string ProductOfTiles(int rows, int columns, int steps, std::string_view a, std::string_view b, bool x_first,
                           const std::string& before = "") {
  const int size = a == "bf16" ? 2 : 4, depth = steps * 16 * size;
  const std::string wide = a == "bf16" ? "f32" : "i32",
                    x = Cat(wide, "(x[i * ", depth, " + s * ", 16 * size, " + q * ", size, " + e])"),
                    w = Cat(wide, "(w[s * ", 16 * size * columns, " + q * ", size * columns, " + j * ", size, " + e])");
  return Cat("func @f(x: ", a, "[", rows * depth, "], w: ", b, "[", depth * columns, "], y: ", wide, "[",
             rows * columns, "]) {\n", before, "  for s in 0..", steps, " @dot", size, a == "bf16" ? "_bf16" : "_i8",
             " {\n    for i in 0..", rows, " {\n      for j in 0..", columns,
             " {\n        for q in 0..16 {\n          for e in 0..", size, " {\n            y[i * ", columns,
             " + j] = y[i * ", columns, " + j] + ", x_first ? x : w, " * ", x_first ? w : x,
             "\n          }\n        }\n      }\n    }\n  }\n}\n");
}

// Before sums: `value` in `count` rows, from element `first` on.
std::string Fill(std::string_view value, int columns, int count, int first = 0) {
  const std::string r = Cat("r", first, value[0] == '-' ? "n" : value.substr(0, 1));
  return Cat("  for ", r, " in 0..", count, " {\n    y[ramp(", r, " * ", columns, " + ", first, ", 1, ", columns,
             ")] = broadcast(", value, ", ", columns, ")\n  }\n");
}

// Sums that start from zero are no zeros in memory first; all others are what is there.
TEST(VectorNests, TilesStartFromZero) {
  std::mt19937 rng(8);
  const int rows = 32, columns = 32, depth = 64;
  const ir::HostArray x = Integers(DType::kBF16, {rows * depth}, rng),
                      w = Integers(DType::kBF16, {depth * columns}, rng),
                      y = Integers(DType::kF32, {rows * columns}, rng);
  for (const auto& [before, from_zero] : {std::pair(std::string(), false),
                                          {Fill("0.0", columns, rows), true},
                                          {Fill("-0.0", columns, rows), false},
                                          {Fill("1.0", columns, rows), false},
                                          {Fill("0.0", columns, rows - 1), false},
                                          {Fill("0.0", columns, rows - 1, columns), false},
                                          {Cat(Fill("0.0", columns, rows), Fill("2.0", columns, 1)), false}}) {
    const std::string text = ProductOfTiles(rows, columns, 2, "bf16", "bf16", true, before);
    ExpectSame(text, "cpu", x, w, y);
    const auto module = ir::ParseModule(text);
    ASSERT_TRUE(module.ok()) << module.status() << text;
    const auto compiler = Compiler::Create(*Target::Parse("x86_64 -mcpu=sapphirerapids"), {});
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    const auto source = (*compiler)->GetSourceCode(*module);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(absl::StrContains(*source, "tilezero"), from_zero) << text;
  }
}

// By tiles where the machine has them, else as their loops.
TEST(VectorNests, ProductsOfTiles) {
  std::mt19937 rng(6);
  printf("this machine %s tiles\n", ThisCpu().has_amx ? "has" : "has no");
  for (const auto& [rows, columns, steps] : {std::tuple(32, 32, 2), {2, 17, 1}, {23, 24, 1}}) {
    for (const auto& [a, b] : {std::pair("bf16", "bf16"), {"i8", "i8"}, {"u8", "i8"}, {"i8", "u8"}, {"u8", "u8"}}) {
      const auto array = [&](std::string_view type, int64_t n) {
        if (type == "bf16") return Integers(DType::kBF16, {n}, rng);
        ir::HostArray r(*ParseDType(type), {n});
        const int low = type == "i8" ? -128 : 0;
        for (int64_t i = 0; i < n; ++i) r.SetInt(i, std::uniform_int_distribution(low, low + 255)(rng));
        return r;
      };
      const int depth = steps * 16 * (std::string_view(a) == "bf16" ? 2 : 4);
      const ir::HostArray x = array(a, rows * depth), w = array(b, depth * columns),
                          y = Integers(std::string_view(a) == "bf16" ? DType::kF32 : DType::kI32, {rows * columns},
                                       rng);
      ExpectSame(ProductOfTiles(rows, columns, steps, a, b, rows % 2 == 0), "cpu", x, w, y);
    }
  }
}

// Products of a lane's own pairs, and what no instruction serves: its loops run.
TEST(VectorNests, OthersRunAsTheirLoops) {
  std::mt19937 rng(2);
  for (const char* body :
       {"y[l] = y[l] + f32(x[l * 2 + e]) * f32(w[l * 2 + e])", "y[l] = y[l] + f32(x[l * 2 + e]) * f32(w[e * 16 + l])",
        "y[l] = y[l] + f32(x[l + e * 3; l + e < 9]) * f32(w[l * 2 + e])",
        "y[l] = y[l] + f32(x[l * 2 + e]) * f32(w[l * 2 + e]) * 2.0", "y[e] = y[e] + f32(x[l + e])"}) {
    const std::string text = Cat("func @f(x: bf16[32], w: bf16[32], y: f32[16]) {\n  for l in 0..16 @dot2_bf16 {\n",
                                 "    for e in 0..2 {\n      ", body, "\n    }\n  }\n}\n");
    const ir::HostArray x = Integers(DType::kBF16, {32}, rng), w = Integers(DType::kBF16, {32}, rng),
                        y = Integers(DType::kF32, {16}, rng);
    for (const char* target : kTargets) ExpectSame(text, target, x, w, y);
  }
}

// Exact numerics round as the loops do, in their order, and keep denormals; the instruction takes these for 0.
TEST(VectorNests, ExactNumericsDoWithoutTheInstruction) {
  std::mt19937 rng(3);
  const int rows = 4, lanes = 16, depth = 50;
  ir::HostArray x(DType::kBF16, {rows * 2 * depth}), w(DType::kBF16, {depth * lanes * 2}),
      y(DType::kF32, {rows * lanes});
  std::normal_distribution<double> values;
  for (int64_t i = 0; i < x.NumElements(); ++i) x.Set(i, i < 2 * depth ? std::ldexp(values(rng), -70) : values(rng));
  for (int64_t i = 0; i < w.NumElements(); ++i) w.Set(i, i % 32 < 16 ? std::ldexp(values(rng), -68) : values(rng));
  for (int64_t i = 0; i < y.NumElements(); ++i) y.Set(i, 0);
  ExpectSame(Product(rows, lanes, depth, true), "cpu", x, w, y, Numerics("exact"));
}

TEST(VectorNests, TakesTheInstructionsOfTheTarget) {
  const auto module = ir::ParseModule(Product(2, 16, 8, true));
  ASSERT_TRUE(module.ok()) << module.status();
  for (const auto& [target, numerics, has] : {std::tuple("x86_64 -mcpu=znver5", "fused", true),
                                              {"x86_64 -mcpu=sapphirerapids", "fused", true},
                                              {"x86_64 -mcpu=skylake-avx512", "fused", false},
                                              {"x86_64 -mcpu=x86-64", "fused", false},
                                              {"x86_64 -mcpu=znver5", "exact", false}}) {
    const auto compiler = Compiler::Create(*Target::Parse(target), Numerics(numerics));
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    const auto source = (*compiler)->GetSourceCode(*module);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(absl::StrContains(*source, "dpbf16ps.512"), has) << target << " " << numerics;
  }
  for (const auto& [target, a, lanes, has] : {std::tuple("x86_64 -mcpu=znver5", "u8", 16, true),
                                              {"x86_64 -mcpu=icelake-server", "u8", 16, true},
                                              {"x86_64 -mcpu=znver5", "i8", 16, false},
                                              {"x86_64 -mcpu=alderlake", "u8", 8, true},
                                              {"x86_64 -mcpu=alderlake", "u8", 16, false},
                                              {"x86_64 -mcpu=skylake-avx512", "u8", 16, false},
                                              {"x86_64 -mcpu=x86-64", "u8", 4, false}}) {
    const auto fours = ir::ParseModule(ProductOfBytes(2, lanes, 8, a, "i8", true));
    ASSERT_TRUE(fours.ok()) << fours.status();
    const auto compiler = Compiler::Create(*Target::Parse(target), {});
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    const auto source = (*compiler)->GetSourceCode(*fours);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(absl::StrContains(*source, "avx512.vpdpbusd"), has) << target << " " << a << " " << lanes;
  }
  for (const auto& [target, a, b, name] :
       {std::tuple("x86_64 -mcpu=sapphirerapids", "bf16", "bf16", "tdpbf16ps.internal"),
        {"x86_64 -mcpu=sapphirerapids", "i8", "i8", "tdpbssd.internal"},
        {"x86_64 -mcpu=sapphirerapids", "u8", "i8", "tdpbusd.internal"},
        {"x86_64 -mcpu=sapphirerapids", "i8", "u8", "tdpbsud.internal"},
        {"x86_64 -mcpu=sapphirerapids", "u8", "u8", "tdpbuud.internal"},
        {"x86_64 -mcpu=sapphirerapids -features=-amx-int8", "i8", "i8", ""},
        {"x86_64 -mcpu=znver5", "bf16", "bf16", ""}}) {
    const auto tiles = ir::ParseModule(ProductOfTiles(32, 32, 2, a, b, true));
    ASSERT_TRUE(tiles.ok()) << tiles.status();
    const auto compiler = Compiler::Create(*Target::Parse(target), {});
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    const auto source = (*compiler)->GetSourceCode(*tiles);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(absl::StrContains(*source, "tdpb"), *name != 0) << target << " " << a << " " << b;
    EXPECT_TRUE(absl::StrContains(*source, name)) << target << " " << a << " " << b;
  }
}

TEST(VectorNests, Transpositions) {
  std::mt19937 rng(4);
  for (const DType t : {DType::kBF16, DType::kF32, DType::kF64, DType::kI8, DType::kI32}) {
    for (int round = 0; round < 12; ++round) {
      const auto power = [&](int from, int to) { return 1 << std::uniform_int_distribution(from, to)(rng); };
      const int columns = power(1, 6), rows = power(1, 4),
                unit = BytesOf(t) > 4 ? 1 : power(0, BytesOf(t) == 4 ? 1 : 2);
      const int src = columns * unit + power(0, 3), dst = rows * unit + (round % 2 == 0 ? 0 : power(0, 3));
      const std::string outer = round % 3 == 0 ? "r" : "c", inner = outer == "r" ? "c" : "r";
      const auto extent = [&](const std::string& loop) { return loop == "r" ? rows : columns; };
      const std::string text =
          Cat("func @f(x: ", Name(t), "[", rows * src, "], w: i8[1], y: ", Name(t), "[", columns * dst, "]) {\n  for ",
              outer, " in 0..", extent(outer), " @transpose {\n    for ", inner, " in 0..", extent(inner),
              " {\n      for e in 0..", unit, " {\n        y[c * ", dst, " + r * ", unit, " + e] = x[r * ", src,
              " + c * ", unit, " + e]\n      }\n    }\n  }\n}\n");
      ExpectSame(text, kTargets[round % 3], Integers(t, {rows * src}, rng), Integers(DType::kI8, {1}, rng),
                 Integers(t, {columns * dst}, rng));
    }
  }
}

// Runs at a distance that is known later, and may be shorter than they are: the last one wins, as it does in the loops.
TEST(VectorNests, TranspositionsAtAnyDistance) {
  std::mt19937 rng(6);
  for (const auto& [columns, rows] : {std::pair(16, 16), {8, 16}, {4, 2}, {16, 4}}) {
    for (const char* outer : {"c", "r"}) {
      const bool is_in_order = *outer == 'c';
      const auto loop = [&](bool of_columns) {
        return Cat("for ", of_columns ? "c" : "r", " in 0..", of_columns ? columns : rows);
      };
      const std::string text =
          Cat("func @f(x: f32[", 8 * rows * columns, "], w: i8[1], y: f32[4096]) {\n  for s in 0..8 {\n    ",
              loop(is_in_order), " @transpose {\n      ", loop(!is_in_order),
              " {\n        y[s * 400 + c * (s * 3) + r] = x[(s * ", rows, " + r) * ", columns,
              " + c]\n      }\n    }\n  }\n}\n");
      const auto module = ir::ParseModule(text);
      ASSERT_TRUE(module.ok()) << module.status();
      ir::Analyzer a(*module->context);
      const auto nest = ir::MatchTranspose(a, *ir::As<ir::For>(ir::As<ir::For>(module->funcs[0].body)->body));
      EXPECT_EQ(nest.ok(), is_in_order) << text << nest.status();
      for (const char* target : kTargets)
        ExpectSame(text, target, Integers(DType::kF32, {8 * rows * columns}, rng), Integers(DType::kI8, {1}, rng),
                   Integers(DType::kF32, {4096}, rng));
    }
  }
}

// Rows without a gap between them have any number of columns, and change places with as many vectors.
TEST(VectorNests, TranspositionsOfRuns) {
  std::mt19937 rng(5);
  int round = 0;
  for (const DType t : {DType::kBF16, DType::kF32, DType::kI8}) {
    for (const int columns : {2, 3, 5, 9, 12, 27, 49, 64}) {
      const int rows = 64 / static_cast<int>(BytesOf(t)) >> round % 3, dst = rows + 8 * (round % 2);
      const std::string outer = round % 2 == 0 ? "r" : "c", inner = outer == "r" ? "c" : "r";
      const auto extent = [&](const std::string& loop) { return loop == "r" ? rows : columns; };
      const std::string text =
          Cat("func @f(x: ", Name(t), "[", rows * columns + 3, "], w: i8[1], y: ", Name(t), "[", columns * dst,
              "]) {\n  for ", outer, " in 0..", extent(outer), " @transpose {\n    for ", inner, " in 0..",
              extent(inner), " {\n      y[c * ", dst, " + r] = x[r * ", columns, " + c + 3]\n    }\n  }\n}\n");
      const auto module = ir::ParseModule(text);
      ASSERT_TRUE(module.ok()) << module.status();
      ir::Analyzer a(*module->context);
      EXPECT_TRUE(ir::MatchTranspose(a, *ir::As<ir::For>(module->funcs[0].body)).ok()) << text;
      ExpectSame(text, kTargets[round++ % 3], Integers(t, {rows * columns + 3}, rng), Integers(DType::kI8, {1}, rng),
                 Integers(t, {columns * dst}, rng));
    }
  }
}

}  // namespace
}  // namespace cinn_like
