// Loop text from outside: every error names the place and what is wrong, and no text breaks the parser.
#include <gtest/gtest.h>

#include <filesystem>

#include "ir/schedule/schedule.h"
#include "ir/stmt.h"
#include "tests/golden_file.h"
#include "tests/mutate.h"

namespace cinn_like::ir {
namespace {

constexpr char kText[] = R"(func @f(x: f32[n,8], y: f32[n], n: i64) where n in 1..64 hint 32 {
  alloc t: f32[8] pitch 4 mod 16 @local
  for i in 0..n {
    let v = exp(x[i, 0])
    for k in 0..8 {
      block s(u in 0..n = i, r reduce 0..8 = k) init { y[u] = 0.0 } {
        y[u] = y[u] + select(u < 4, x[checked("op 3", u, 0, n), r], v)
      }
    }
  }
  if n < 4 {
    call @g(&y[0], n)
    call cinn_range_error("op 3, check_index: index out of range", n, 0, 10)
  }
}
func @g(z: f32[m], m: i64) {
  await copies 1
  z[0] = f32(m)
}
)";

Status Check(const std::string& text) {
  ASSIGN_OR_RETURN(const Module module, ParseModule(text));
  RETURN_IF_ERROR(Verify(module));
  const std::string printed = Print(module);
  const StatusOr<Module> again = ParseModule(printed);
  if (!again.ok()) return Internal("the printed form does not parse: ", Message(again.status()), "\n", printed);
  if (Print(*again) != printed) return Internal("the printed form is no fixed point:\n", printed, Print(*again));
  return absl::OkStatus();
}

TEST(LoopText, Errors) {
  ASSERT_TRUE(Check(kText).ok()) << Check(kText);
  struct Case {
    std::string from, to, message;
  };
  const Case cases[] = {
      {"func @f", "fun @f", "line 1, column 1: expected 'func', got 'fun'"},
      {"f32[n,8]", "f33[n,8]", "line 1, column 12: expected a dtype (bool, i8, "},
      {"exp(", "expo(", "line 4, column 13: unknown function 'expo' of 1 operands"},
      {"select(u < 4, ", "select(", "unknown function 'select' of 2 operands"},
      {"\"op 3\", u", "u", "line 7, column 39: unknown function 'checked' of 3 operands"},
      {"checked(", "select(", "line 7, column 39: expected checked(\"what\", value, begin, end) of three i64"},
      {"u, 0, n)", "u, 0)", "line 7, column 39: expected checked(\"what\", value, begin, end) of three i64"},
      {"u, 0, n)", "v, 0, n)", "line 7, column 39: expected checked(\"what\", value, begin, end) of three i64"},
      {"\"op 3\"", "\"\"", "has a text that is empty"},
      {"@local", "@texture", "'texture'"},
      {"for k in 0..8 {", "for k in 0..8 @warp {", "'warp'"},
      {"r reduce", "r scatter", "line 6, column 32: expected 'in', got 'scatter'"},
      {"y[u] = 0.0", "q[u] = 0.0", "line 6, column 56: unknown buffer or statement 'q'"},
      {"select(u < 4", "select(w < 4", "line 7, column 30: unknown variable 'w'"},
      {"v = exp(x[i, 0])", "v = exp(x[i])", "buffer x has 2 dimensions and is indexed by 1"},
      {"y[u] + select", "y[u] + u + select", "line 7, column 21: operands of + are f32 and i64"},
      {"for k in", "for i in", "'i' is declared twice"},
      {"1..64", "64..1", "64..1"},
      {"call @g(&y[0], n)", "call @g(&y[0])", "@g"},
      {"call @g(&y[0], n)", "call @h(&y[0], n)", "@h"},
      {"pitch 4 mod 16", "pitch 4", "line 2, column 27: expected 'mod', got '@'"},
      {"pitch 4 mod 16", "pitch mod 16", "line 2, column 25: expected the pitch's remainder"},
      {"pitch 4 mod 16", "pitch 16 mod 16", "buffer t: expected a pitch of R mod D, 0 <= R < D <= "},
      {"pitch 4 mod 16", "pitch 4 mod 1000000", "buffer t: expected a pitch of R mod D, 0 <= R < D <= "},
      {"pitch 4 mod 16 @local", "pitch 4 mod 16 @global", "buffer t: rows of global memory have no pitch"},
      {"await copies 1", "await copies", "line 18, column 3: expected"},
      {"await copies 1", "await copies -1", "expected 0 to 7 groups and got -1"},
      {"await copies 1", "await 1", "line 17, column 9: expected 'copies', got '1'"},
      {"await copies 1", "commit copies 1", "line 17, column 17"},
      {"f32(m)", "f32(m", "line 19, column 1: expected ')', got '}'"},
      {"z[0] = f32(m)", "z[0] = m", "line 18, column 3: store to z: expected f32 and got i64"},
      {"x: f32[n,8]", "x: f32[n,99999999999999999999]", "99999999999999999999"},
  };
  for (const Case& c : cases) {
    std::string text = kText;
    ASSERT_NE(text.find(c.from), text.npos) << c.from;
    text.replace(text.find(c.from), c.from.size(), c.to);
    const Status s = Check(text);
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << c.to << ": " << s;
    EXPECT_NE(Message(s).find(c.message), std::string::npos) << c.to << ": " << s << "\nexpected: " << c.message;
  }
}

TEST(LoopText, DeepNestingIsAnError) {
  for (const char* open : {"(", "-", "not(", "exp("}) {
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += open;
    EXPECT_FALSE(ParseModule(Cat("func @f(x: f32[1]) {\n  x[0] = ", deep, "\n}\n")).ok());
  }
  std::string sum = "1.0";
  for (int i = 0; i < 100000; ++i) sum += " + x[0]";
  EXPECT_FALSE(ParseModule(Cat("func @f(x: f32[1]) {\n  x[0] = ", sum, "\n}\n")).ok());
  std::string loops;
  for (int i = 0; i < 100000; ++i) loops += Cat("for i", i, " in 0..2 {\n");
  EXPECT_FALSE(ParseModule(Cat("func @f(x: f32[1]) {\n", loops)).ok());
}

TEST(LoopText, ExtremeNumbersRoundTrip) {
  const std::string text = R"(func @f(x: i64[2]) {
  x[0] = -9223372036854775808
  x[1] = 9223372036854775807
}
)";
  const StatusOr<Module> module = ParseModule(text);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(Print(*module), text);
}

TEST(Expr, TreesAreCountedAndLoadsFound) {
  Context c;
  const Buffer x = c.MakeBuffer({.name = "x", .shape = {c.Int(8)}});
  const Buffer at = c.MakeBuffer({.name = "at", .dtype = DType::kI64, .shape = {c.Int(8)}});
  const Expr i = c.Var("i"), inner = c.Load(at, {i}), outer = c.Load(x, {c.Add(inner, c.Int(1))});
  EXPECT_FALSE(i->reads);
  EXPECT_EQ(outer->size, 5);
  const Expr twice = c.Mul(outer, outer);
  EXPECT_EQ(twice->size, 11);
  EXPECT_TRUE(PrintsWithin(twice, 11));
  EXPECT_FALSE(PrintsWithin(twice, 10));
  std::vector<Expr> loads;
  VisitLoads(twice, [&](Expr e) { loads.push_back(e); });
  EXPECT_EQ(loads, (std::vector<Expr>{outer, inner}));
  // As often as it is used, a tree outgrows any number.
  Expr doubled = twice;
  for (int k = 0; k < 100; ++k) doubled = c.Mul(doubled, doubled);
  EXPECT_FALSE(PrintsWithin(doubled, kMostCounted - 1));
}

TEST(LoopText, NoTextBreaksTheParser) {
  Mutator mutator;
  std::vector<std::string> seeds = {kText};
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden/ir")) {
    const std::string text = ReadFile(entry.path());
    const size_t line = text.find('\n'), rule = text.find("\n----\n", line);
    ASSERT_NE(rule, text.npos) << entry.path();
    seeds.push_back(text.substr(line + 1, rule - line));
  }
  for (int round = 0; round < Rounds(20000); ++round) {
    const std::string text = mutator.Mutate(seeds[mutator.Pick(seeds.size())], seeds[0]);
    const Status s = Check(text);
    EXPECT_NE(s.code(), absl::StatusCode::kInternal) << s << "\nseed " << mutator.seed() << "\n" << text;
  }
}

TEST(ScheduleText, NoStepBreaksAFunction) {
  Mutator mutator;
  const std::string steps =
      "split i 4 8 -> a b c\nfuse i k -> ik\nreorder k i\nmerge i k\nparallel i\nvectorize k\nunroll k\nbind i "
      "blockIdx.x\nbind k threadIdx.x\ninline s\ncompute_at s i\nstage x s -> xs\nscope t shared\npad s\nsplit_init s "
      "k "
      "-> first\n";
  std::vector<std::string> lines;
  for (size_t begin = 0, end; (end = steps.find('\n', begin)) != steps.npos; begin = end + 1)
    lines.push_back(steps.substr(begin, end - begin));
  const Module module = *ParseModule(kText);
  for (int round = 0; round < Rounds(20000); ++round) {
    std::string text;
    for (size_t n = 1 + mutator.Pick(4); n > 0; --n) text += lines[mutator.Pick(lines.size())] + "\n";
    if (round % 2 == 0) text = mutator.Mutate(text, steps);
    const StatusOr<Func> f = ApplySchedule(module.funcs[0], text);
    if (!f.ok()) {
      EXPECT_NE(f.status().code(), absl::StatusCode::kInternal) << f.status() << "\n" << text;
      continue;
    }
    EXPECT_TRUE(Verify(*f).ok()) << Verify(*f) << "\nseed " << mutator.seed() << "\n" << text << Print(*f);
  }
}

}  // namespace
}  // namespace cinn_like::ir
