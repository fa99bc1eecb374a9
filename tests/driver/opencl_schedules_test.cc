// Random programs x random schedule steps (tests/ir/random_programs.h), lowered for OpenCL and run there, where there
// is a device: what the interpreter makes of the program before all steps. Several programs are compiled at once.
// CINN_TEST_ROUNDS and CINN_TEST_FIRST_ROUND as in tests/ir/schedule_random_test.cc.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "backends/compiler.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "runtime/last_error.h"
#include "tests/ir/random_programs.h"
#include "tests/opencl.h"
#include "tests/rounds.h"

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

// @f with an entry that calls it: memory that @f has for itself is the entry's, which a call has on the device.
std::string WithEntry(Func f, int round, int64_t m) {
  std::string allocs, args;
  std::vector<Param> params = f.params;
  const std::function<Stmt(const Stmt&)> hoist = [&](const Stmt& s) -> Stmt {
    const auto* alloc = As<Alloc>(s);
    if (alloc == nullptr || alloc->buffer->scope != Scope::kGlobal)
      return MapChildren(s, [](Expr e) { return e; }, hoist);
    params.push_back({.buffer = alloc->buffer});
    allocs += Cat("alloc ", alloc->buffer->name, ": ", Name(alloc->buffer->dtype), "[", Print(alloc->buffer->shape[0]),
                  "] @global\n");
    args += Cat("&", alloc->buffer->name, "[0], ");
    return MakeSeq({});
  };
  f.body = hoist(f.body);
  params.push_back({.var = f.symbols[0].var});
  f.params = params;
  f.name = Cat("f", round);
  return Cat(Print(f), "func @e", round, " entry (x: f32[n, ", m, "], s: f32[n] out, y: f32[n, ", m,
             "] out) where n in 1..64 {\n", allocs, "call @f", round, "(&x[0, 0], &s[0], &y[0, 0], ", args, "n)\n}\n");
}

// False where the steps ask of threads what they can't do together.
bool Make(int round, Program* r) {
  Programs p(static_cast<unsigned>(round), true);
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
  static const Target target = *Target::Parse("opencl -arch=generic");
  StatusOr<Func> lowered = LowerKernel(f, {.options = {}, .target = target, .name = "test"});
  if (!lowered.ok()) return false;
  r->lowered = WithEntry(*std::move(lowered), round, r->m);
  // What kernels can't be is found where they are taken out of their function.
  const StatusOr<Module> module = ParseModule(r->lowered);
  EXPECT_TRUE(module.ok()) << module.status() << r->shown << r->lowered;
  return module.ok() && LowerModule(*module, {.options = {}, .target = target, .name = "test"}).ok();
}

void RunProgram(const Compiler& compiler, const Program& p) {
  DeviceApi& api = **GetOpenClDevice();
  HostArray arrays[] = {RandomInput(p.n, p.m), HostArray(DType::kF32, {p.n}), HostArray(DType::kF32, {p.n, p.m})};
  DLTensor tensors[3];
  CinnValue args[3];
  for (size_t i = 0; i < 3; ++i) {
    HostArray& a = arrays[i];
    const auto bytes = static_cast<int64_t>(a.bytes.size());
    tensors[i] = {*api.Alloc(0, bytes, nullptr),
                  {kDLOpenCL, 0},
                  static_cast<int>(a.shape.size()),
                  {kDLFloat, 32, 1},
                  a.shape.data(),
                  nullptr,
                  0};
    ASSERT_TRUE(api.Copy(0, tensors[i].data, a.bytes.data(), bytes, nullptr).ok());
    args[i] = {kCinnTensor, 0, {.tensor = &tensors[i]}};
  }
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLOpenCL, 0};
  const auto entry = reinterpret_cast<CinnFunctionPtr>(compiler.Lookup(Cat("e", p.round)));
  ASSERT_NE(entry, nullptr) << p.shown;
  ASSERT_EQ(entry(nullptr, args, 3, &env), 0) << LastError() << p.shown << p.lowered;
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        api.Copy(0, arrays[i].bytes.data(), tensors[i].data, static_cast<int64_t>(arrays[i].bytes.size()), nullptr)
            .ok());
    api.Free(0, tensors[i].data);
  }
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

TEST(OpenClSchedules, AcceptedStepsComputeTheSame) {
  SKIP_WITHOUT_OPENCL();
  const auto from_env = [](const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoi(value) : otherwise;
  };
  const int rounds = from_env("CINN_TEST_ROUNDS", Rounds(100)), first = from_env("CINN_TEST_FIRST_ROUND", 0);
  constexpr int kTogether = 20;
  int ran = 0;
  for (int begin = first; begin < first + rounds && !HasFatalFailure(); begin += kTogether) {
    std::vector<Program> programs;
    std::string text;
    for (int round = begin; round < std::min(begin + kTogether, first + rounds); ++round) {
      Program p;
      if (!Make(round, &p)) continue;
      text += p.lowered;
      programs.push_back(std::move(p));
    }
    const auto compiler = Compiler::Create(*Target::Parse("opencl -arch=generic"));
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    const Status built = (*compiler)->Build(*ParseModule(text));
    ASSERT_TRUE(built.ok()) << built << text;
    for (const Program& p : programs) {
      RunProgram(**compiler, p);
      if (HasFatalFailure()) return;
    }
    ran += static_cast<int>(programs.size());
  }
  RecordProperty("ran", ran);
  if (rounds > 50) {
    EXPECT_GT(ran, rounds / 4);
  }
}

}  // namespace
}  // namespace cinn_like
