// Random programs x random schedule steps (tests/ir/random_programs.h), lowered for a target, compiled and run, where
// its device is there: what the interpreter makes of the program before all steps. Several programs are compiled at
// once. CINN_TEST_ROUNDS says how many for each target (tools/nightly.sh tries more than the suite does),
// CINN_TEST_FIRST_ROUND with which to begin.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "backends/c_program.h"
#include "backends/compiler.h"
#include "examples/dpu/dpu.h"
#include "ir/lower.h"
#include "runtime/last_error.h"
#include "tests/ir/random_programs.h"
#include "tests/opencl.h"  // what its drivers keep is no leak
#include "tests/rounds.h"
#include "tests/system_c.h"

namespace cinn_like {
namespace {

using namespace ir;  // NOLINT: programs and schedules are all there is here

struct Scheduled {
  int round = 0;
  RandomProgram program;
  std::string shown;    // as it stands, and all that was done to it
  std::string lowered;  // with an entry @e<round>
};

// @f with an entry that calls it. Memory that a kernel's function has for itself is the entry's, which a call has on
// the device.
Module WithEntry(Func f, const RandomProgram& program, int round, const Target& target) {
  Func entry = program.func;
  const std::vector<Buffer> written = BuffersWritten(entry.body);
  std::vector<Stmt> body;
  Call call;
  call.callee = Cat("f", round);
  Context& c = *f.context;
  for (Param& p : entry.params) {
    p.role = Contains(written, p.buffer) ? ParamRole::kResult : ParamRole::kInput;
    call.args.push_back(c.Address(p.buffer, std::vector<Expr>(p.buffer->shape.size(), c.Int(0))));
  }
  const std::function<Stmt(const Stmt&)> hoist = [&](const Stmt& s) -> Stmt {
    const auto* alloc = As<Alloc>(s);
    if (alloc == nullptr || alloc->buffer->scope != Scope::kGlobal)
      return MapChildren(s, [](Expr e) { return e; }, hoist);
    f.params.push_back({.buffer = alloc->buffer});
    body.push_back(s);
    call.args.push_back(c.Address(alloc->buffer, std::vector<Expr>(alloc->buffer->shape.size(), c.Int(0))));
    return MakeSeq({});
  };
  if (target.HasKernels()) f.body = hoist(f.body);
  std::vector<Param> symbols;
  for (const SymbolFact& s : f.symbols) {
    symbols.push_back({.var = s.var});
    call.args.push_back(s.var);
  }
  f.params.insert(f.params.end(), symbols.begin(), symbols.end());
  entry.params.insert(entry.params.begin(), symbols.begin(), symbols.end());
  std::stable_partition(entry.params.begin(), entry.params.end(),
                        [](const Param& p) { return p.role != ParamRole::kResult; });
  body.push_back(MakeStmt(call));
  entry.body = MakeSeq(std::move(body));
  entry.kind = FuncKind::kEntry;
  entry.name = Cat("e", round);
  entry.device = target.device == &HostKind() ? "" : target.device->name;
  f.name = call.callee;
  return {f.context, {f, entry}};
}

// Nests that are on no axis of a device yet are over blocks, where that is legal.
Func BindRest(Func f) {
  std::vector<std::string> blocks;
  VisitStmts(f.body, [&](const Stmt& s) {
    if (const Block* b = As<Block>(s)) blocks.push_back(b->name);
    return true;
  });
  for (const std::string& block : blocks) {
    const auto loops = LoopsOf(*FindBlock(f, block));
    const bool is_bound = std::any_of(loops.begin(), loops.end(),
                                      [](const For* n) { return IsBlockAxis(n->kind) || IsThreadAxis(n->kind); });
    if (is_bound || loops.empty()) continue;
    if (auto next = ApplySchedule(f, Cat("bind ", loops[0]->var->name, " blockIdx.x")); next.ok()) f = *std::move(next);
  }
  return f;
}

bool UsesLacked(const std::string& text, const Target& target) {
  for (const DType t : target.device->lacks) {
    if (text.find(Cat(": ", Name(t), "[")) != text.npos || text.find(Cat(" ", Name(t), "(")) != text.npos) return true;
  }
  return false;
}

// PoCL's compiler ends the process at some kernels of loops `while` beside barriers ("Multiple outgoing edges from exit
// block", ParallelRegion.cc).
bool EndsPocl(const Module& lowered, const Target& target) {
  return target.device == &OpenClKind() && std::any_of(lowered.funcs.begin(), lowered.funcs.end(), [](const Func& f) {
           bool waits = false, meets = false;
           VisitStmts(f.body, [&](const Stmt& s) {
             waits |= As<While>(s) != nullptr;
             meets |= As<Barrier>(s) != nullptr;
             return true;
           });
           return waits && meets;
         });
}

// False where the steps ask for what the target has not, or of threads what they can't do together.
bool Make(int round, const Target& target, Scheduled* r) {
  Programs p(static_cast<unsigned>(round), target.HasKernels() ? &target.device->limits : nullptr);
  auto program = MakeProgram(p, round);
  EXPECT_TRUE(program.ok()) << "round " << round << ": " << program.status();
  if (!program.ok()) return false;
  r->round = round;
  r->program = *std::move(program);
  Func f = r->program.func;
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
  if (target.HasKernels()) f = BindRest(std::move(f));
  r->shown = Cat("round ", round, " n=", r->program.n, ":\n", r->program.text, "after\n", steps, "becomes\n", Print(f));
  const Module module = WithEntry(std::move(f), r->program, round, target);
  if (UsesLacked(Print(module), target)) return false;
  EXPECT_TRUE(CheckText(Print(module)).ok()) << CheckText(Print(module)) << r->shown;
  const auto lowered = LowerModule(module, {.options = {}, .target = target, .name = "test"});
  if (!lowered.ok()) {
    EXPECT_NE(lowered.status().code(), absl::StatusCode::kInternal) << lowered.status() << r->shown;
    return false;
  }
  if (EndsPocl(*lowered, target)) return false;
  r->lowered = Print(*lowered);
  EXPECT_TRUE(CheckText(r->lowered).ok()) << CheckText(r->lowered) << r->shown << r->lowered;
  return true;
}

using FindEntry = std::function<CinnFunctionPtr(const std::string& name)>;

// Programs as one module, and where its functions are, as long as what it returns lives.
FindEntry CompileForC(const std::string& text) {
  const StatusOr<std::string> source = backends::EmitCProgram(*ParseModule(text), CKind());
  EXPECT_TRUE(source.ok()) << source.status() << text;
  if (!source.ok()) return nullptr;
  auto c = std::make_shared<SystemC>();
  // What is written and read under one condition, some conditions apart, looks as if it were not written.
  c->Load(CCompilers()[0], {*source}, "-O1 -fsanitize=undefined -fno-sanitize-recover=all -Wno-maybe-uninitialized");
  return [c](const std::string& name) { return c->Find<std::remove_pointer_t<CinnFunctionPtr>>(name); };
}
FindEntry Compile(const std::string& text, const Target& target) {
  auto compiler = Compiler::Create(target, {}, nullptr, dpu::Devices());
  EXPECT_TRUE(compiler.ok()) << compiler.status();
  const Status built = (*compiler)->BuildLowered(*ParseModule(text));
  EXPECT_TRUE(built.ok()) << built << text;
  if (!built.ok()) return nullptr;
  const std::shared_ptr<Compiler> shared = *std::move(compiler);
  return [shared](const std::string& name) { return reinterpret_cast<CinnFunctionPtr>(shared->Lookup(name)); };
}

// Where tensors are: the host, or a device's memory.
struct Memory {
  DLDevice device;
  DeviceApi* api = nullptr;  // null: the host
};

void RunProgram(CinnFunctionPtr entry, const Memory& memory, const Scheduled& s) {
  ASSERT_NE(entry, nullptr) << s.shown;
  const RandomProgram& p = s.program;
  std::vector<HostArray> arrays = p.args;
  const std::vector<Buffer> written = BuffersWritten(p.func.body);
  std::vector<DLTensor> tensors(arrays.size());
  std::vector<CinnValue> symbols(p.func.symbols.size(), CinnValue{kCinnInt, 0, {.i = p.n}}), inputs, results;
  for (size_t i = 0; i < arrays.size(); ++i) {
    HostArray& a = arrays[i];
    const DTypeInfo& info = InfoOf(a.dtype);
    const auto bytes = static_cast<int64_t>(a.bytes.size());
    tensors[i] = {a.bytes.data(),
                  memory.device,
                  static_cast<int>(a.shape.size()),
                  {info.dlpack_code, static_cast<uint8_t>(info.bits), 1},
                  a.shape.data(),
                  nullptr,
                  0};
    if (memory.api != nullptr) {
      tensors[i].data = *memory.api->Alloc(0, bytes, nullptr);
      ASSERT_TRUE(memory.api->Copy(0, tensors[i].data, a.bytes.data(), bytes, nullptr).ok());
    }
    (Contains(written, p.func.params[i].buffer) ? results : inputs)
        .push_back({kCinnTensor, 0, {.tensor = &tensors[i]}});
  }
  std::vector<CinnValue> args = symbols;
  args.insert(args.end(), inputs.begin(), inputs.end());
  args.insert(args.end(), results.begin(), results.end());
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = memory.device;
  ASSERT_EQ(entry(nullptr, args.data(), static_cast<int32_t>(args.size()), &env), 0)
      << LastError() << s.shown << s.lowered;
  const auto shown = [](const HostArray& a) {
    std::string r;
    for (int64_t i = 0; i < a.NumElements(); ++i) r += Cat(" ", a.Get(i));
    return r;
  };
  for (size_t i = 0; i < arrays.size(); ++i) {
    HostArray& a = arrays[i];
    if (memory.api != nullptr) {
      ASSERT_TRUE(
          memory.api->Copy(0, a.bytes.data(), tensors[i].data, static_cast<int64_t>(a.bytes.size()), nullptr).ok());
      ASSERT_TRUE(memory.api->Synchronize(0, nullptr).ok());
      memory.api->Free(0, tensors[i].data);
    }
    ASSERT_TRUE(IsSame(a, p.want[i], p.exactly))
        << s.shown << s.lowered << "gives" << shown(a) << "\nnot" << shown(p.want[i]);
  }
}

class Schedules : public testing::TestWithParam<const char*> {};

TEST_P(Schedules, AcceptedStepsComputeTheSame) {
  Target target = *dpu::Devices().ParseTarget(GetParam());
  const bool is_c = target.device == &CKind();
  if (is_c || target.device == &dpu::Kind()) SKIP_WITHOUT_C_COMPILER();
  Memory memory{{kDLCPU, 0}};
  if (target.HasKernels()) {
    const RuntimeDevice& device = *dpu::Devices().Of(target)->runtime;
    const StatusOr<Target> resolved = ResolveTarget(target, device);
    if (!resolved.ok()) GTEST_SKIP() << resolved.status();
    target = *resolved;
    memory = {{device.type, 0}, *device.api()};
  }
  const auto from_env = [](const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoi(value) : otherwise;
  };
  const int rounds = from_env("CINN_TEST_ROUNDS", Rounds(75)), first = from_env("CINN_TEST_FIRST_ROUND", 0);
  constexpr int kTogether = 25;
  int ran = 0;
  for (int begin = first; begin < first + rounds && !HasFailure(); begin += kTogether) {
    std::vector<Scheduled> programs;
    std::string text;
    for (int round = begin; round < std::min(begin + kTogether, first + rounds); ++round) {
      Scheduled s;
      if (!Make(round, target, &s)) continue;
      text += s.lowered + "\n";
      programs.push_back(std::move(s));
    }
    if (programs.empty()) continue;
    const FindEntry find = is_c ? CompileForC(text) : Compile(text, target);
    if (find == nullptr) return;
    for (const Scheduled& s : programs) {
      RunProgram(find(Cat("e", s.round)), memory, s);
      if (HasFatalFailure()) return;
    }
    ran += static_cast<int>(programs.size());
  }
  RecordProperty("ran", ran);
  if (rounds > 50) {
    EXPECT_GT(ran, rounds / (target.HasKernels() ? 4 : 2));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Schedules, testing::Values("cpu", "c", "opencl", "cuda", "dpu -arch=dpu2"),
                         [](const auto& info) { return std::string(info.param, strcspn(info.param, " ")); });

}  // namespace
}  // namespace cinn_like
