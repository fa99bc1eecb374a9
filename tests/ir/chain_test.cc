// The step `chain`: reductions that need an earlier one's result compute in one loop what they compute one after the
// other, whatever is masked, and are refused where the factor between partial results is not known.
#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/schedule/schedule.h"
#include "tests/rounds.h"

namespace cinn_like::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Sums over weighted exponentials of what X says, in tiles of T steps; S, W: what is summed.
constexpr const char* kProgram = R"(
  func @f(x: f32[R, K], u: f32[R, K], v: f32[K, 3], y: f32[R, 3], z: f32[R]) {
    alloc m: f32[R] @global
    alloc e: f32[R, K] @global
    alloc s: f32[R] @global
    alloc o: f32[R, 3] @global
    for i in 0..R { for j in 0..K { block b_m(a in 0..R = i, q reduce 0..K = j) init { m[a] = -inf } {
      m[a] = max(m[a], X(a, q)) } } }
    for i1 in 0..R { for j1 in 0..K { block b_e(b in 0..R = i1, p in 0..K = j1) {
      e[b, p] = E(b, p) } } }
    for i2 in 0..R { for j2 in 0..K { block b_s(c in 0..R = i2, r reduce 0..K = j2) init { s[c] = 0.0 } {
      s[c] = s[c] + S(c, r) } } }
    for i3 in 0..R { for d in 0..3 { for j3 in 0..K {
      block b_o(g in 0..R = i3, h in 0..3 = d, t reduce 0..K = j3) init { o[g, h] = 0.0 } {
        o[g, h] = o[g, h] + W(g, t) } } } }
    for i4 in 0..R { for d4 in 0..3 { block b_y(k in 0..R = i4, l in 0..3 = d4) { y[k, l] = o[k, l] / s[k] } } }
    for i5 in 0..R { block b_z(w in 0..R = i5) { z[w] = m[w] + log(s[w]) } }
  })";

constexpr const char* kSteps =
    "split j T -> jo ji\nsplit j1 T -> jo1 ji1\nsplit j2 T -> jo2 ji2\nsplit j3 T -> jo3 ji3\n"
    "reorder jo i ji\nreorder jo1 i1 ji1\nreorder jo2 i2 ji2\nreorder jo3 i3 d ji3\n"
    "split_init b_m jo -> m0\nsplit_init b_s jo2 -> s0\nsplit_init b_o jo3 -> o0\nchain jo jo1 jo2 jo3 -> by\n";

struct Case {
  std::string x, e, s, w;  // with I and J for the iterators; W has H too
  int rows, keys, tile;
};

std::string Fill(const Case& c, const char* text) {
  const auto at = [](const std::string& e, const char* i, const char* j) {
    return absl::StrReplaceAll(e, {{"I", i}, {"J", j}});
  };
  std::string r = absl::StrReplaceAll(
      text, {{"E(b, p)", at(c.e, "b", "p")}, {"S(c, r)", at(c.s, "c", "r")}, {"W(g, t)", at(c.w, "g", "t")}});
  r = absl::StrReplaceAll(r, {{"X(a, q)", at(c.x, "a", "q")}, {"X(b, p)", at(c.x, "b", "p")}});
  r = absl::StrReplaceAll(r, {{"X(c, r)", at(c.x, "c", "r")}, {"X(g, t)", at(c.x, "g", "t")}});
  return absl::StrReplaceAll(r, {{"0..R", Cat("0..", c.rows)},
                                 {"0..K", Cat("0..", c.keys)},
                                 {"[R", Cat("[", c.rows)},
                                 {" K]", Cat(" ", c.keys, "]")},
                                 {"[K", Cat("[", c.keys)},
                                 {" T ", Cat(" ", c.tile, " ")}});
}

std::vector<double> Compute(const Func& f, const Case& c, unsigned seed, double special) {
  std::mt19937 g(seed);
  const auto fill = [&](HostArray& a, bool with_special) {
    for (int64_t i = 0; i < a.NumElements(); ++i) {
      a.Set(i, static_cast<double>(g() % 2000) / 100 - 10);
      if (with_special && g() % 3 == 0) a.Set(i, special);
    }
  };
  HostArray x(DType::kF32, {c.rows, c.keys}), u(DType::kF32, {c.rows, c.keys}), v(DType::kF32, {c.keys, 3});
  HostArray y(DType::kF32, {c.rows, 3}), z(DType::kF32, {c.rows});
  fill(x, true), fill(u, false), fill(v, false);
  // A row without anything, and one that begins late.
  for (int64_t j = 0; j < c.keys; ++j) {
    if (seed % 2 == 0) x.Set(j, -kInf);
    if (c.rows > 1 && j + 1 < c.keys) x.Set(c.keys + j, -kInf);
  }
  const Status status = Interpret(f, {&x, &u, &v, &y, &z});
  EXPECT_TRUE(status.ok()) << status << Print(f);
  std::vector<double> r;
  for (int64_t i = 0; i < y.NumElements(); ++i) r.push_back(y.Get(i));
  for (int64_t i = 0; i < z.NumElements(); ++i) r.push_back(z.Get(i));
  return r;
}

const std::vector<std::string> kLargest = {
    "x[I, J]",
    "x[I, J] * 0.25 + u[I, J]",
    "select(J <= I, x[I, J], -inf)",
    "select(I + 1 < J || 7 < J, -inf, x[I, J])",
    "select(J < I + 3 && I < J - 4, x[I, J], -inf)",
    "select(J <= I * 4 && I * 4 - 3 < J, x[I, J], -inf)",
    "x[I, J] + select(J <= 2 * I, u[I, J], -inf)",
    "select(x[I, J] < 0.0, -inf, x[I, J] + u[0, J])",
    "select(J < I + 2 && I < J + 2, x[I, J], -100000.0)",
    "tanh(x[I, J] * 0.1) * 30.0",
};
const std::vector<std::string> kElement = {
    "exp(X(I, J) - m[I])",           "exp2((X(I, J) - m[I]) * 1.4427)",
    "exp((X(I, J) - m[I]) / 3.0)",   "select(u[I, J] < 0.0, 0.0, exp(0.5 * (X(I, J) - m[I])))",
    "exp(X(I, J) - m[I]) * u[I, J]", "select(X(I, J) < -50000.0, 0.0, exp(X(I, J) - m[I]))",
    "exp(X(I, J) - max(m[I], 2.5))", "exp((X(I, J) - max(u[I, 0], m[I])) * 0.5) * u[I, J]",
};

Case RandomCase(std::mt19937& g) {
  const auto from = [&](const std::vector<std::string>& v) { return v[g() % v.size()]; };
  Case c{from(kLargest),
         from(kElement),
         "e[I, J]",
         "e[I, J] * v[J, h]",
         1 + static_cast<int>(g() % 4),
         1 + static_cast<int>(g() % 17),
         1 + static_cast<int>(g() % 6)};
  for (std::string* s : {&c.e, &c.s, &c.w}) *s = absl::StrReplaceAll(*s, {{"X(I, J)", c.x}});
  if (g() % 3 == 0) c.s = absl::StrReplaceAll(from(kElement), {{"X(I, J)", c.x}});
  if (g() % 4 == 0)
    c.w = Cat("(e[I, J] + ", absl::StrReplaceAll("exp(X(I, J) - m[I])", {{"X(I, J)", c.x}}), ") * v[J, h]");
  return c;
}

TEST(Chain, ComputesTheSame) {
  const int rounds = Rounds(200);
  int taken = 0, stopped = 0;
  for (int round = 0; round < rounds; ++round) {
    std::mt19937 g(static_cast<unsigned>(round));
    const Case c = RandomCase(g);
    const auto f = ParseFunc(Fill(c, kProgram));
    ASSERT_TRUE(f.ok()) << f.status() << Fill(c, kProgram);
    auto chained = ApplySchedule(*f, Fill(c, kSteps));
    if (c.tile >= c.keys) {  // one iteration: nothing is to be repaired
      ASSERT_TRUE(absl::StrContains(chained.status().message(), "they can be merged")) << chained.status();
      chained = ApplySchedule(*f, absl::StrReplaceAll(Fill(c, kSteps), {{"chain", "merge"}, {" -> by", ""}}));
    }
    // A sum of two different powers.
    if (!chained.ok() && absl::StrContains(chained.status().message(), "there is no factor for ")) continue;
    ASSERT_TRUE(chained.ok()) << chained.status() << Fill(c, kProgram);
    ASSERT_TRUE(Verify(*chained).ok()) << Verify(*chained);
    ++taken;
    stopped += !absl::StrContains(Print(*chained), Cat("for jo in 0..", (c.keys + c.tile - 1) / c.tile, " {")) &&
               c.tile < c.keys;
    for (const double special : {0.5, -kInf, kInf, std::nan("")}) {
      // What is added to -inf is taken to be finite.
      if (absl::StrContains(c.x, "+ select") && !(special < kInf)) continue;
      const auto seed = static_cast<unsigned>(round);
      const std::vector<double> want = Compute(*f, c, seed, special), got = Compute(*chained, c, seed, special);
      for (size_t i = 0; i < want.size(); ++i) {
        if (std::isnan(want[i]) || std::isinf(want[i]))
          EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i])
              << "round " << round << ", " << i << ": " << got[i] << " for " << want[i] << Fill(c, kProgram);
        else
          EXPECT_NEAR(got[i], want[i], 2e-4 * (1 + std::abs(want[i]))) << "round " << round << Fill(c, kProgram);
      }
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(taken, rounds / 2);
  EXPECT_GT(stopped, rounds / 20);  // of which nothing is left but what is masked
}

struct Refused {
  const char* name;
  Case c;
  const char* steps;  // in place of the last ones
  const char* says;
};

class ChainRefuses : public testing::TestWithParam<Refused> {};

TEST_P(ChainRefuses, WithReason) {
  const Refused& r = GetParam();
  Case c = r.c;
  if (c.x.empty()) c.x = kLargest[0];
  if (c.e.empty()) c.e = "exp(x[I, J] - m[I])";
  if (c.s.empty()) c.s = "e[I, J]";
  if (c.w.empty()) c.w = "e[I, J] * v[J, h]";
  c.rows = 2, c.keys = 8, c.tile = 4;
  const auto f = ParseFunc(Fill(c, kProgram));
  ASSERT_TRUE(f.ok()) << f.status() << Fill(c, kProgram);
  const auto chained = ApplySchedule(*f, r.steps == nullptr ? Fill(c, kSteps) : std::string(r.steps));
  ASSERT_FALSE(chained.ok()) << Print(*chained);
  EXPECT_TRUE(absl::StrContains(chained.status().message(), r.says)) << chained.status();
}

const Refused kRefused[] = {
    {"OtherExponent",
     {"", "exp(u[I, J] - m[I])", "", "", 0, 0, 0},
     nullptr,
     "the exponent u[c, r] - m[c] is not x[c, r]"},
    {"Grows", {"", "exp((x[I, J] - m[I]) * -1.0)", "", "", 0, 0, 0}, nullptr, "times a positive number"},
    {"OtherBound", {"", "exp(x[I, J] - max(m[I], u[I, J]))", "", "", 0, 0, 0}, nullptr, "is not x[c, r]"},
    {"OtherElement", {"", "exp(x[I, (J + 1) % 8] - m[I])", "", "", 0, 0, 0}, nullptr, "is not x[c, r]"},
    {"OtherRow", {"", "exp(x[I, J] - m[1 - I])", "", "", 0, 0, 0}, nullptr, "is not x[1 - c, r]"},
    {"Unknown", {"", "tanh(x[I, J] - m[I])", "", "", 0, 0, 0}, nullptr, "there is no factor for tanh"},
    {"Divided", {"", "1.0 / exp(x[I, J] - m[I])", "", "", 0, 0, 0}, nullptr, "there is no factor for"},
    {"Sum",
     {"", "exp(x[I, J])", "e[I, J]", "e[I, J] / s[I] * v[J, h]", 0, 0, 0},
     nullptr,
     "block b_s, whose s later loops need, is no maximum"},
    {"TwoAtOnce",
     {"", "", "e[I, J]", "e[I, J] / s[I] * v[J, h]", 0, 0, 0},
     nullptr,
     "later loops need m and s, which are finished at once"},
    {"Nothing", {"", "exp(x[I, J])", "", "", 0, 0, 0}, nullptr, "no loop needs what an earlier one reduces"},
    {"NotSplit",
     {"", "", "", "", 0, 0, 0},
     "reorder j i\nreorder j1 i1\nreorder j2 i2\nreorder j3 i3 d\nchain j j1 j2 j3 -> by",
     "split_init that first"},
    {"ReadElsewhere",
     {"", "", "", "", 0, 0, 0},
     "reorder j i\nreorder j1 i1\nreorder j2 i2\nsplit_init b_m j -> m0\nsplit_init b_s j2 -> s0\nchain j j1 j2 -> by",
     "block b_o reads e outside of the loops"},
};
INSTANTIATE_TEST_SUITE_P(All, ChainRefuses, testing::ValuesIn(kRefused),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace cinn_like::ir
