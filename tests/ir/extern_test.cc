// Functions called by name: text, stages, schedules and the interpreter.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"

namespace cinn_like::ir {
namespace {

// y = sorted rows of 2 x, plus what "split" says of x.
constexpr char kText[] = R"(func @f(x: f32[n, 4], y: f32[n, 4] out) where n in 1..4096 {
  alloc t: f32[n, 4] @global
  alloc u: f32[n, 4] @global
  alloc k: i64[n + 1] @global
  for l_i in 0..n {
    for l_j in 0..4 {
      block b_t(i in 0..n = l_i, j in 0..4 = l_j) {
        t[i, j] = x[i, j] * 2.0
      }
    }
  }
  block b_u() {
    call "test.sort"(t, n * 2, 2.5, true) -> (u, k)
  }
  for l_p in 0..n {
    for l_q in 0..4 {
      block b_y(p in 0..n = l_p, q in 0..4 = l_q) {
        y[p, q] = u[p, q] + f32(k[p])
      }
    }
  }
}
)";

StatusOr<Func> Parse(const std::string& text) {
  ASSIGN_OR_RETURN(Func f, ParseFunc(text));
  RETURN_IF_ERROR(Verify(f));
  return f;
}

std::string Changed(std::string text, std::string_view from, std::string_view to) {
  EXPECT_NE(text.find(from), text.npos) << from;
  return text.replace(text.find(from), from.size(), to);
}

std::string ErrorOf(const std::string& text) { return Message(Parse(text).status()); }

// Rows of the first sorted into the second but last; the last is 10 times the scalar.
Status Sort(std::string_view name, const std::vector<FunctionArg>& args) {
  if (name != "test.sort") return absl::NotFoundError(Cat("no function ", name));
  const DLTensor& t = *std::get<DLTensor*>(args.at(0));
  const DLTensor& u = *std::get<DLTensor*>(args.at(4));
  const DLTensor& k = *std::get<DLTensor*>(args.at(5));
  if (std::get<double>(args.at(2)) != 2.5 || std::get<int64_t>(args.at(3)) != 1) return InvalidArgument("scalars");
  if (k.shape[0] != t.shape[0] + 1 || k.dtype.code != kDLInt || k.dtype.bits != 64) return InvalidArgument("k");
  for (int64_t i = 0; i < t.shape[0]; ++i) {
    const auto* from = static_cast<const float*>(t.data) + i * t.strides[0];
    auto* to = static_cast<float*>(u.data) + i * u.strides[0];
    std::copy_n(from, 4, to);
    std::sort(to, to + 4);
  }
  std::fill_n(static_cast<int64_t*>(k.data), k.shape[0], std::get<int64_t>(args.at(1)));
  return absl::OkStatus();
}

Status RunOn(const Func& f, HostArray& x, HostArray& y, const FunctionCaller& functions = Sort) {
  return Interpret(f, {&x, &y}, {}, {.functions = functions});
}

TEST(Extern, TextIsAFixedPoint) {
  const StatusOr<Func> f = Parse(kText);
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_EQ(Print(*f), kText);
  for (const char* call : {"call \"f\"() -> (u)", "call \"a b.c\"(&t[1, 0] as f32[n - 1, 2] strides [4, 2]) -> (k, u)",
                           "call \"f\"(&t[0, 0] as i32[n * 4]) -> (&u[0, 0] as f32[n * 4])", "call \"f\"(k[0], t)"}) {
    const std::string text = Changed(kText, "call \"test.sort\"(t, n * 2, 2.5, true) -> (u, k)", call);
    const StatusOr<Func> g = Parse(text);
    ASSERT_TRUE(g.ok()) << g.status();
    EXPECT_EQ(Print(*g), text);
  }
  // What is written out and is the buffer as declared is the buffer.
  EXPECT_EQ(Print(*Parse(Changed(kText, "(t, n", "(&t[0, 0] as f32[n, 4], n"))), kText);
  // In another context, with other names.
  const Func copy = CloneInto(*f, std::make_shared<Context>(), [](const std::string& name) { return name + "_"; });
  EXPECT_TRUE(absl::StrContains(Print(copy), "call \"test.sort\"(t_, n_ * 2, 2.5, true) -> (u_, k_)")) << Print(copy);
}

TEST(Extern, Errors) {
  const auto error = [](std::string_view from, std::string_view to) { return ErrorOf(Changed(kText, from, to)); };
  EXPECT_EQ(error("(t, n", "(&t[0, 0], n"), "line 13, column 22: expected a buffer, or &buffer[...] as dtype[...]");
  EXPECT_EQ(error("(t, n", "(n as f32[1], n"), "line 13, column 22: expected &buffer[...] before 'as'");
  EXPECT_EQ(error("(t, n", "(&t[0, 0] as f32[1] strides [], n"),
            "line 13, column 51: expected 1 strides and got 0, got ','");
  EXPECT_EQ(error("-> (u", "-> (n"), "line 13, column 47: expected a buffer, or &buffer[...] as dtype[...]");
  EXPECT_EQ(error("(t, n", "(w, n"), "line 13, column 22: unknown variable 'w'");
  EXPECT_TRUE(absl::StrContains(error("\"test.sort\"", "\"\""), "expected call \"name\"(...)"));
  EXPECT_TRUE(
      absl::StrContains(error("t: f32[n, 4] @global", "t: f32[n, 4] @local"), "buffer t is local, expected global"));
  EXPECT_TRUE(absl::StrContains(error("(t, n * 2", "(&t[0, 0] as f32[2.0], n * 2"), "2.0 is f32, not an integer"));
  EXPECT_TRUE(absl::StrContains(error("n * 2, 2.5", "n * 2, broadcast(n, 4)"), "no scalar to hand over"));
}

TEST(Extern, Stages) {
  const StatusOr<TeProgram> p = ToStages(*Parse(kText));
  ASSERT_TRUE(p.ok()) << p.status();
  ASSERT_EQ(p->stages.size(), 3u);
  EXPECT_TRUE(p->stages[1].IsCall() && !p->stages[1].IsPointwise());
  EXPECT_EQ(p->stages[1].outputs.size(), 2u);
  EXPECT_EQ(InputsOf(p->stages[1]), std::vector<Buffer>{p->stages[0].outputs[0]});
  EXPECT_EQ(Print(*ToLoops(*p)), kText);
  const auto error = [](std::string_view from, std::string_view to) {
    return Message(ToStages(*Parse(Changed(kText, from, to))).status());
  };
  EXPECT_TRUE(absl::StrContains(error("-> (u, k)", "-> (&u[0, 1] as f32[n, 3], k)"),
                                "block b_u is no stage: it writes a part of u"));
  EXPECT_TRUE(absl::StrContains(error("b_u()", "b_u() if n < 9"),
                                "it calls \"test.sort\" more than once, or under a condition"));
  EXPECT_TRUE(absl::StrContains(error("-> (u, k)", ""), "block b_u is no stage: it stores nothing"));
  EXPECT_EQ(error("-> (u, k)", "-> (t, u, k)"), "stage u: t is written by two stages");
}

TEST(Extern, Te) {
  const auto context = std::make_shared<Context>();
  Context& c = *context;
  const Expr n = c.Var("n");
  const Buffer x = c.MakeBuffer({.name = "x", .shape = {n, c.Int(4)}});
  Te te(c);
  const Buffer t = te.Compute("t", DType::kF32, x->shape, [&](Indices i) { return c.Mul(te.At(x, i), c.Float(2)); });
  const std::vector<Buffer> sorted = te.Extern("u", {DType::kF32, DType::kI64}, {t->shape, {c.Add(n, c.Int(1))}},
                                               {t, c.Mul(n, c.Int(2)), c.Float(2.5), c.Bool(true)}, "test.sort");
  const Buffer y = te.Compute("y", DType::kF32, x->shape, [&](Indices i) {
    return c.Add(te.At(sorted[0], i), c.Cast(DType::kF32, te.At(sorted[1], {i[0]})));
  });
  TeProgram program;
  program.name = "f";
  program.context = context;
  program.params = {{.buffer = x}, {.buffer = y, .role = ParamRole::kResult}};
  program.symbols = {{.var = n, .hi = 4096}};
  program.stages = std::move(te.stages());
  const StatusOr<Func> f = ToLoops(program);
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_TRUE(
      absl::StrContains(Print(*f), "block b_u() {\n    call \"test.sort\"(t, n * 2, 2.5, true) -> (u, u_1)\n  }"))
      << Print(*f);
  EXPECT_EQ(Print(*Parse(Print(*f))), Print(*f));
}

TEST(Extern, TheInterpreterRunsIt) {
  HostArray x(DType::kF32, {3, 4}), y(DType::kF32, {3, 4});
  for (int64_t i = 0; i < 12; ++i) x.Set(i, static_cast<double>(i * 7 % 5));
  const Func f = *Parse(kText);
  for (const std::string schedule : {"", "split l_i 2 -> a b\nparallel a", "keep y -> kept\nvectorize l_q",
                                     "cache_write t b_t -> w\nfuse l_p l_q -> l"}) {
    std::fill(y.written.begin(), y.written.end(), 0);
    StatusOr<Func> g = ApplySchedule(f, schedule);
    ASSERT_TRUE(g.ok()) << g.status();
    EXPECT_EQ(Print(*Parse(Print(*g))), Print(*g));
    const Status ran = RunOn(*g, x, y);
    ASSERT_TRUE(ran.ok()) << schedule << ran;
    // Lowered, too, where buffers have lost their shapes.
    g = LowerKernel(*std::move(g), PassContext{});
    ASSERT_TRUE(g.ok()) << g.status();
    EXPECT_EQ(Print(*Parse(Print(*g))), Print(*g));
    HostArray lowered(DType::kF32, {3, 4});
    ASSERT_TRUE(Interpret(*g, {&x, &lowered}, {{"n", 3}}, {.functions = Sort}).ok());
    EXPECT_EQ(lowered.bytes, y.bytes);
    for (int64_t i = 0; i < 3; ++i) {
      std::vector<double> row;
      for (int64_t j = 0; j < 4; ++j) row.push_back(2 * x.Get(i * 4 + j));
      std::sort(row.begin(), row.end());
      for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(y.Get(i * 4 + j), row[static_cast<size_t>(j)] + 6);
    }
  }
}

TEST(Extern, TheInterpreterJudges) {
  HostArray x(DType::kF32, {3, 4}), y(DType::kF32, {3, 4});
  for (int64_t i = 0; i < 12; ++i) x.Set(i, 1);
  const auto error = [&](std::string_view from, std::string_view to, const FunctionCaller& functions = Sort) {
    return Message(RunOn(*Parse(Changed(kText, from, to)), x, y, functions));
  };
  EXPECT_EQ(error("func", "func", nullptr), "@f: function \"test.sort\": none were given to call");
  EXPECT_EQ(error("test.sort", "test.other"), "@f: no function test.other");
  EXPECT_EQ(error("(t, n", "(u, n"), "@f: function \"test.sort\" takes u before it is written");
  EXPECT_EQ(error("(t, n", "(&t[1, 0] as f32[n, 4], n"), "@f: function \"test.sort\" takes more than there is of t");
  EXPECT_EQ(error("2.5", "3.5"), "@f: scalars");
}

TEST(Extern, SchedulesRefuseWhatItStandsAgainst) {
  const Func f = *Parse(kText);
  const auto error = [&](const std::string& step) { return Message(ApplySchedule(f, step).status()); };
  const std::string whole = "calls \"test.sort\", which computes its outputs as a whole";
  for (const char* step : {"inline b_u", "compute_at b_u l_p", "reverse_compute_at b_u l_i", "cache_write u b_u -> w",
                           "stage t b_u -> w", "pad b_u", "split_init b_u l_i -> s"}) {
    EXPECT_EQ(error(step).find(Cat("step '", step, "': block b_u ", whole)), 0u) << error(step);
  }
  for (const char* step : {"align u t", "fold u -> a[i]", "unfold u i 2 -> a b", "round_up u i 4", "rfactor u i -> r",
                           "hoist u -> h", "separate u -> s", "together u y"}) {
    EXPECT_EQ(error(step).find(Cat("step '", step, "': stage u ", whole)), 0u) << error(step);
  }
  EXPECT_EQ(error("fold t -> ij[i, j]"),
            "step 'fold t -> ij[i, j]': stage u calls \"test.sort\", which takes t as it is");
  EXPECT_EQ(error("implement call \"f\"(x) -> (y)"),
            "step 'implement call \"f\"(x) -> (y)': expected implement call FUNCTION(ARGUMENT, ...)");
  EXPECT_EQ(error("inline b_t"), "step 'inline b_t': inline b_t: block b_u takes the memory of t");
  EXPECT_EQ(error("scope t local"),
            "step 'scope t local': scope t: \"test.sort\" takes it, for which it must be global");
  EXPECT_EQ(error("transform_layout t[i, j] -> [j, i]"),
            "step 'transform_layout t[i, j] -> [j, i]': transform_layout t: a call takes its address");
  EXPECT_EQ(error("compute_at b_t l_p"),
            "step 'compute_at b_t l_p': compute_at b_t l_p: block b_u outside of that loop reads t");
  EXPECT_TRUE(absl::StrContains(error("merge l_i l_p"), "as block b_u writes u[...] and block b_y reads u[l_p, l_q]"));
  // In a loop of somebody's text it is in order.
  const Func looped = *Parse(Changed(Changed(kText, "  block b_u() {", "  for l_r in 0..4 {\n block b_u() {"),
                                     "(u, k)\n  }", "(u, k)\n  }\n}"));
  for (const char* step : {"parallel l_r", "vectorize l_r", "bind l_r blockIdx.x"}) {
    EXPECT_TRUE(
        absl::StrContains(Message(ApplySchedule(looped, step).status()), "the loop carries a dependence: block b_u"))
        << Message(ApplySchedule(looped, step).status());
  }
}

TEST(Extern, HostPartsOfDevicesCallIt) {
  PassContext context;
  context.target = *Target::Parse("cuda -arch=sm_90a");
  const Func f = *ApplySchedule(*Parse(kText), "bind l_i blockIdx.x\nbind l_p blockIdx.x");
  const StatusOr<Module> lowered = LowerModule({f.context, {f}}, context);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(Print(lowered->funcs[0]), R"(func @f(x: f32[n * 4], y: f32[n * 4] out) where n in 1..4096 {
  alloc t: f32[n * 4] @global
  alloc u: f32[n * 4] @global
  alloc k: i64[n + 1] @global
  launch @f_kernel grid(n, 1, 1) block(1, 1, 1) shared 0 (&x[0], &t[0])
  call "test.sort"(&t[0] as f32[n, 4], n * 2, 2.5, true) -> (&u[0] as f32[n, 4], k)
  launch @f_kernel_1 grid(n, 1, 1) block(1, 1, 1) shared 0 (&u[0], &k[0], &y[0])
}
)");
  const auto error = [&](const std::string& body) {
    const Func g = *Parse(Cat("func @g(x: i64[n], y: f32[n]) where n in 1..4096 {\n", body, "}\n"));
    return Message(LowerModule({g.context, {g}}, context).status());
  };
  EXPECT_EQ(error("  for l in 0..1 @blockIdx.x {\n    block b() {\n      call \"test.sort\"(x) -> (y)\n    }\n  }\n"),
            "function g: function \"test.sort\" is called in a kernel");
  EXPECT_EQ(error("  block b() {\n    call \"test.sort\"(x[0]) -> (y)\n  }\n"),
            "function g: the load of x is in no loop bound to a device axis");
}

}  // namespace
}  // namespace cinn_like::ir
