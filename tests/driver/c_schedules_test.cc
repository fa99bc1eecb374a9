// Random programs x random schedule steps (tests/ir/random_programs.h), lowered for the target c, compiled by this
// machine's compiler and run: what the interpreter makes of the program before all steps. CINN_TEST_ROUNDS and
// CINN_TEST_FIRST_ROUND as in tests/ir/schedule_random_test.cc.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "backends/c_program.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "runtime/call.h"
#include "tests/ir/random_programs.h"
#include "tests/rounds.h"
#include "tests/system_c.h"

namespace cinn_like {
namespace {

using namespace ir;  // NOLINT: programs and schedules are all there is here

struct Program {
  int round = 0;
  std::string text, shown;  // as it stands, and all that was done to it
  int64_t n = 0, m = 0;
  HostArray s{DType::kF32, {1}}, y{DType::kF32, {1}};  // what is to come out
  std::string lowered;                                 // with an entry @e<round>
};

// False where the steps ask for what host functions haven't.
bool Make(int round, Program* r) {
  Programs p(static_cast<unsigned>(round), false);
  r->round = round;
  r->text = p.Program();
  Func f = *ParseFunc(r->text);
  r->n = 1 + p.Pick(9);
  r->m = f.params[0].buffer->shape[1]->int_value;
  HostArray x = RandomInput(r->n, r->m);
  r->s = HostArray(DType::kF32, {r->n});
  r->y = HostArray(DType::kF32, {r->n, r->m});
  const Status ran = Interpret(Module{f.context, {f}}, "f", {&x, &r->s, &r->y}, {{"n", r->n}});
  EXPECT_TRUE(ran.ok()) << ran << r->text;
  std::string steps;
  p.Begin(f);
  for (int k = 0; k < 28; ++k) {
    const std::string step = p.Step(f, k);
    auto next = ApplySchedule(f, step);
    if (!next.ok()) {
      p.Refused();
      continue;
    }
    f = *std::move(next);
    steps += step + "\n";
  }
  r->shown = Cat("round ", round, " n=", r->n, ":\n", r->text, "after\n", steps);
  static const Target target = *Target::Parse("c");
  StatusOr<Func> lowered = LowerKernel(f, {.options = {}, .target = target, .name = "test"});
  if (!lowered.ok()) return false;
  lowered->name = Cat("f", round);
  lowered->params.push_back({.var = lowered->symbols[0].var});
  r->lowered = Cat(Print(*lowered), "func @e", round, " entry c (x: f32[n, ", r->m, "], s: f32[n] out, y: f32[n, ",
                   r->m, "] out) where n in 1..64 {\ncall @f", round, "(&x[0, 0], &s[0], &y[0, 0], n)\n}\n");
  return true;
}

void RunProgram(const SystemC& c, const Program& p) {
  HostArray arrays[] = {RandomInput(p.n, p.m), HostArray(DType::kF32, {p.n}), HostArray(DType::kF32, {p.n, p.m})};
  DLTensor tensors[3];
  CinnValue args[3];
  for (size_t i = 0; i < 3; ++i) {
    HostArray& a = arrays[i];
    tensors[i] = {
        a.bytes.data(), {kDLCPU, 0}, static_cast<int>(a.shape.size()), {kDLFloat, 32, 1}, a.shape.data(), nullptr, 0};
    args[i] = {kCinnTensor, 0, {.tensor = &tensors[i]}};
  }
  const auto entry = c.Find<std::remove_pointer_t<CinnFunctionPtr>>(Cat("e", p.round));
  ASSERT_NE(entry, nullptr);
  ASSERT_EQ(entry(nullptr, args, 3, nullptr), 0) << p.shown << p.lowered;
  const bool exactly = !absl::StrContains(p.text, "exp(");
  const auto shown = [](const HostArray& a) {
    std::string r;
    for (int64_t i = 0; i < a.NumElements(); ++i) r += Cat(" ", a.Get(i));
    return r;
  };
  for (const auto& [got, want] : {std::pair(&arrays[1], &p.s), std::pair(&arrays[2], &p.y)}) {
    ASSERT_TRUE(IsSame(*got, *want, exactly))
        << p.shown << p.lowered << "gives" << shown(*got) << "\nnot" << shown(*want);
  }
}

TEST(CSchedules, AcceptedStepsComputeTheSame) {
  SKIP_WITHOUT_C_COMPILER();
  const auto from_env = [](const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoi(value) : otherwise;
  };
  const int rounds = from_env("CINN_TEST_ROUNDS", Rounds(100)), first = from_env("CINN_TEST_FIRST_ROUND", 0);
  constexpr int kTogether = 25;
  std::vector<Program> programs;
  std::vector<std::string> texts;
  std::string together;
  for (int round = first; round < first + rounds; ++round) {
    Program p;
    if (Make(round, &p)) {
      together += p.lowered;
      programs.push_back(std::move(p));
    }
    if (together.empty() || (round + 1 < first + rounds && (round + 1 - first) % kTogether != 0)) continue;
    const StatusOr<Module> module = ParseModule(together);
    ASSERT_TRUE(module.ok()) << module.status() << together;
    const StatusOr<std::string> text = backends::EmitCProgram(*module, CKind());
    ASSERT_TRUE(text.ok()) << text.status() << together;
    texts.push_back(*text);
    together.clear();
  }
  SystemC c;
  c.Load(CCompilers()[0], texts, "-O1 -fsanitize=undefined -fno-sanitize-recover=all");
  for (const Program& p : programs) {
    if (HasFatalFailure()) return;
    RunProgram(c, p);
  }
  RecordProperty("ran", static_cast<int>(programs.size()));
  if (rounds > 50) {
    EXPECT_GT(static_cast<int>(programs.size()), rounds / 2);
  }
}

}  // namespace
}  // namespace cinn_like
