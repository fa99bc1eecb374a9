// A maximum of rows and the sums under it in one go: any point gives what loops as they stand do.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "hlir/tactics/tactics.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "tests/hlir/group.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

struct Case {
  const char* name;
  const char* body;  // of x: T[R, N], w: T[N], i: i64[R]
  bool is_taken = true;
};

const Case kCases[] = {
    {"softmax", "%0 = softmax(%x) {axis=1} : T[R,N]\n return %0"},
    {"log_softmax", "%0 = log_softmax(%x) {axis=1} : T[R,N]\n return %0"},
    {"cross entropy",
     "%0 = log_softmax(%x) {axis=1} : T[R,N]\n %1 = reshape(%i) {shape=[R,1]} : i64[R,1]\n"
     "%2 = take_along(%0, %1) {axis=1} : T[R,1]\n return %2"},
    {"logsumexp",
     "%0 = cast(%x) {dtype=f32} : f32[R,N]\n %1 = reduce_max(%0) {axes=[1], keepdims=true} : f32[R,1]\n"
     "%2 = abs(%1) : f32[R,1]\n %3 = full() {value=inf, dtype=f32} : f32[]\n %4 = eq(%2, %3) : bool[R,1]\n"
     "%5 = full() {value=0, dtype=f32} : f32[]\n %6 = select(%4, %5, %1) : f32[R,1]\n %7 = sub(%0, %6) : f32[R,N]\n"
     "%8 = exp(%7) : f32[R,N]\n %9 = reduce_sum(%8) {axes=[1], keepdims=true} : f32[R,1]\n %10 = log(%9) : f32[R,1]\n"
     "%11 = add(%10, %6) : f32[R,1]\n return %11"},
    {"a weighted sum beside",
     "%0 = reduce_max(%x) {axes=[1], keepdims=true} : T[R,1]\n %1 = sub(%x, %0) : T[R,N]\n %2 = exp(%1) : T[R,N]\n"
     "%3 = reduce_sum(%2) {axes=[1], keepdims=true} : T[R,1]\n %4 = mul(%2, %w) : T[R,N]\n"
     "%5 = reduce_sum(%4) {axes=[1], keepdims=true} : T[R,1]\n %6 = div(%5, %3) : T[R,1]\n return %6, %0"},
    {"of what is computed, and scaled",
     "%0 = tanh(%x) : T[R,N]\n %1 = full() {value=0.25, dtype=T} : T[]\n"
     "%2 = reduce_max(%0) {axes=[1], keepdims=true} : T[R,1]\n %3 = sub(%0, %2) : T[R,N]\n %4 = mul(%3, %1) : T[R,N]\n"
     "%5 = exp(%4) : T[R,N]\n %6 = reduce_sum(%5) {axes=[1], keepdims=true} : T[R,1]\n return %6"},
    {"a norm behind it",
     "%0 = softmax(%x) {axis=1} : T[R,N]\n %1 = mul(%0, %x) : T[R,N]\n"
     "%2 = reduce_sum(%1) {axes=[1], keepdims=true} : T[R,1]\n return %2"},
    {"of a result",
     "%0 = tanh(%x) : T[R,N]\n %1 = reduce_max(%0) {axes=[1], keepdims=true} : T[R,1]\n %2 = sub(%0, %1) : T[R,N]\n"
     "%3 = exp(%2) : T[R,N]\n %4 = reduce_sum(%3) {axes=[1], keepdims=true} : T[R,1]\n return %4, %0",
     false},
    {"whose powers are a result",
     "%1 = reduce_max(%x) {axes=[1], keepdims=true} : T[R,1]\n %2 = sub(%x, %1) : T[R,N]\n"
     "%3 = exp(%2) : T[R,N]\n %4 = reduce_sum(%3) {axes=[1], keepdims=true} : T[R,1]\n return %4, %3",
     false},
    {"of what is computed, and written", "%0 = tanh(%x) : T[R,N]\n %1 = softmax(%0) {axis=1} : T[R,N]\n return %1",
     false},
    {"those near the maximum",
     "%0 = reduce_max(%x) {axes=[1], keepdims=true} : T[R,1]\n %1 = sub(%x, %0) : T[R,N]\n %2 = exp(%1) : T[R,N]\n"
     "%3 = full() {value=-1, dtype=T} : T[]\n %4 = gt(%1, %3) : bool[R,N]\n %5 = full() {value=0, dtype=T} : T[]\n"
     "%6 = select(%4, %2, %5) : T[R,N]\n %7 = reduce_sum(%6) {axes=[1], keepdims=true} : T[R,1]\n return %7",
     false},
    {"no such sum",
     "%0 = reduce_max(%x) {axes=[1], keepdims=true} : T[R,1]\n %1 = sub(%x, %0) : T[R,N]\n %2 = tanh(%1) : T[R,N]\n"
     "%3 = reduce_sum(%2) {axes=[1], keepdims=true} : T[R,1]\n return %3",
     false},
};

// NaN and infinities, too.
double Element(int64_t row, int64_t k) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (row) {
    case 1:
      return -kInf;
    case 2:
      return k == 3 ? std::nan("") : 0.5;
    case 3:
      return k == 5 ? kInf : 1;
    case 4:
      return k < 200 ? -kInf : -1e4 - static_cast<double>(k % 7);
    case 5:
      return static_cast<double>(k) / 4;
    default:
      return static_cast<double>((k * 37 + row * 11) % 101) / 8 - 6;
  }
}

bool IsNear(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

TEST(RowsOnline, AnyPointSums) {
  std::mt19937 rng(3);
  int shifted = 0, taken = 0;
  for (const Case& c : kCases) {
    for (const auto& [device, type] :
         {std::pair("cuda -arch=sm_90a", "f32"), {"cuda -arch=sm_90a", "bf16"}, {"opencl", "f32"}}) {
      const Target target = *Target::Parse(device);
      for (const auto& [rows, length, is_symbol] :
           {std::tuple(7, 1600, false), {9, 2051, false}, {7, 1100, true}, {1, 3000, false}}) {
        const std::string n = is_symbol ? "n" : Cat(length);
        const std::string where = is_symbol ? " where n in 1..65536 hint 1024" : "";
        const std::string text =
            absl::StrReplaceAll(Cat("graph @rows(%x: T[R,N], %w: T[N], %i: i64[R])", where, " {\n ", c.body, "\n}\n"),
                                {{"T[", Cat(type, "[")},
                                 {"dtype=T}", Cat("dtype=", type, "}")},
                                 {"R,", Cat(rows, ",")},
                                 {"[R]", Cat("[", rows, "]")},
                                 {"N]", n + "]"}});
        const auto group = GroupOf(text, target);
        ASSERT_TRUE(group.ok()) << group.status() << text;
        std::vector<ir::HostArray> arrays;
        const auto run = [&](const ir::Func& f) {
          arrays.clear();
          std::vector<ir::InterpretArg> args;
          for (const ir::Param& p : group->params) {
            if (p.buffer == nullptr) continue;
            std::vector<int64_t> dims;
            for (const ir::Expr e : p.buffer->shape) dims.push_back(ir::IsInt(e) ? e->int_value : length);
            ir::HostArray& a = arrays.emplace_back(p.buffer->dtype, dims);
            for (int64_t i = 0; i < a.NumElements(); ++i) {
              const bool is_row = dims.size() == 2 && dims[1] == length;
              const double x = is_row ? Element(i / length, i % length) : static_cast<double>(i % 5) - 1;
              a.Set(i, p.role == ir::ParamRole::kResult ? std::nan("") : IsFloat(a.dtype) ? x : 3.0 * (i + 1));
            }
          }
          for (ir::HostArray& a : arrays) args.emplace_back(&a);
          while (args.size() < f.params.size()) args.emplace_back(int64_t{length});
          absl::flat_hash_map<std::string, int64_t> symbols;
          if (is_symbol) symbols["n"] = length;
          return ir::Interpret(f, args, symbols, {.limits = target.Limits()});
        };
        const Status plain = run(*ir::ToLoops(*group));
        ASSERT_TRUE(plain.ok()) << plain;
        const std::vector<ir::HostArray> expected = arrays;
        for (int seed = 0; seed < Rounds(3); ++seed) {
          Point point = seed == 0 ? Point() : Point::Random(rng());
          const auto proposals = ProposeRowsOnline(*group, target, Until::kSchedule, point);
          ASSERT_TRUE(proposals.ok()) << c.name << proposals.status();
          if (proposals->empty()) continue;
          EXPECT_TRUE(c.is_taken) << c.name;
          const Proposal& p = proposals->at(0);
          Point priced;
          if (seed == 0) {
            EXPECT_EQ(ProposeRowsOnline(*group, target, Until::kPrice, priced)->at(0).seconds, p.seconds);
          }
          const auto lowered = ir::LowerKernel(p.func, {.options = {}, .target = target, .name = "test"});
          ASSERT_TRUE(lowered.ok()) << c.name << lowered.status() << p.schedule;
          const Status ran = run(*lowered);
          ASSERT_TRUE(ran.ok()) << c.name << ran << p.schedule;
          const double tolerance = type[0] == 'f' ? 2e-5 : 1e-2;
          for (size_t k = 0; k < arrays.size(); ++k) {
            for (int64_t i = 0; i < arrays[k].NumElements(); ++i) {
              ASSERT_TRUE(IsNear(arrays[k].Get(i), expected[k].Get(i), tolerance))
                  << c.name << " " << type << " " << n << " [" << k << "][" << i << "]: " << arrays[k].Get(i) << " for "
                  << expected[k].Get(i) << "\n"
                  << p.schedule;
            }
          }
          ++taken;
          shifted += absl::StrContains(p.schedule, "shift ");
        }
      }
    }
  }
  EXPECT_GT(taken, 50);
  EXPECT_GT(shifted, 5);
}

// Rows that are written, too, or are few turns, are best kept in registers, as long as these hold them.
TEST(RowsOnline, IsChosenWhereRowsAreReadForSumsAlone) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=4800");
  struct {
    size_t of;  // kCases
    const char *type, *rows, *length, *tactic;
  } cases[] = {{2, "bf16", "8192", "50257", "rows_online"}, {3, "bf16", "8192", "50257", "rows_online"},
               {3, "f32", "32768", "4096", "rows_online"},  {3, "bf16", "8192", "n", "rows_online"},
               {0, "bf16", "512", "262144", "rows_online"}, {0, "bf16", "4096", "50257", "rows_gpu"},
               {0, "f32", "32768", "4096", "rows_gpu"},     {3, "bf16", "134083", "1001", "rows_gpu"},
               {3, "bf16", "447392", "300", "rows_gpu"},    {3, "bf16", "32760", "4097", "rows_online"},
               {1, "bf16", "8192", "50257", "rows_gpu"}};
  for (const auto& c : cases) {
    const std::string where = c.length[0] == 'n' ? " where n in 1..1000000 hint 50257" : "";
    const std::string text = absl::StrReplaceAll(
        Cat("graph @rows(%x: T[R,N], %w: T[N], %i: i64[R])", where, " {\n ", kCases[c.of].body, "\n}\n"),
        {{"T[", Cat(c.type, "[")},
         {"R,", Cat(c.rows, ",")},
         {"[R]", Cat("[", c.rows, "]")},
         {"N]", Cat(c.length, "]")}});
    const auto group = GroupOf(text, target);
    ASSERT_TRUE(group.ok()) << group.status() << text;
    const Bids bids = CollectBids(*group, target);
    ASSERT_FALSE(bids.bids.empty());
    EXPECT_EQ(bids.bids[0].tactic->name, c.tactic)
        << kCases[c.of].name << " " << c.type << " " << c.rows << "x" << c.length << ": " << bids.seconds();
  }
}

}  // namespace
}  // namespace cinn_like::hlir
