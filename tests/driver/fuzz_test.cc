// No text ends the process: graphs, targets, flags, loops and schedules, damaged at random, run through every stage
// that makes code of them, in a process that is watched. What ends it, or takes a minute, is a failure that shows the
// text.
//
// CINN_FUZZ_SECONDS says how long (5), CINN_TEST_SEED repeats a run, CINN_FUZZ_CORPUS names a folder of further seeds,
// CINN_FUZZ_FAILURES one to write what fails to, CINN_FUZZ_REPLAY a file of it to run alone, in this process.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"
#include "backends/device.h"
#include "backends/host_compile.h"
#include "cinn_like/c_api.h"
#include "cinn_like/driver.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactic.h"
#include "ir/lower.h"
#include "ir/pass_table.h"
#include "ir/schedule/schedule.h"
#include "tests/hlir/samples.h"
#include "tests/mutate.h"

namespace cinn_like {
namespace {

constexpr size_t kMaxText = size_t{1} << 20;
constexpr int kHangSeconds = 60;
constexpr rlim_t kMemory = rlim_t{12} << 30;

enum Kind { kGraph, kTarget, kFlag, kLoops, kNumKinds };
constexpr const char* kKindNames[] = {"graph", "target", "flag", "loops"};
constexpr const char* kTargets[] = {"x86_64 -mcpu=skylake-avx512 -cores=4", "x86_64 -mcpu=x86-64 -cores=4",
                                    "x86_64 -mcpu=sapphirerapids -cores=4", "cuda -arch=sm_90a -libs=cublas",
                                    "cuda -arch=sm_80"};
constexpr char kSmallGraph[] = R"(graph @f(%x: f32[8,n], %w: f32[n,16] static) where n in 1..64 {
  %0 = matmul(%x, %w) : f32[8,16]
  %1 = softmax(%0) {axis=1} : f32[8,16]
  return %1
}
)";

// What the child is at, for the parent to see.
struct Shared {
  std::atomic<int64_t> tried, accepted;
  int kind;
  size_t size;
  char text[kMaxText];
};

// A text and what else its kind takes, divided by bytes that occur in neither.
constexpr char kDivider = '\1';

// The kernels of a graph's groups, as loops, and a schedule for each.
Status AddLoops(const hlir::Graph& graph, const Target& target, std::vector<std::string>& seeds) {
  ASSIGN_OR_RETURN(const hlir::Graph optimized, hlir::OptimizeGraph(graph, {}));
  const PassContext context{.options = {}, .target = target, .name = "fuzz"};
  ASSIGN_OR_RETURN(const hlir::LoweredGraph lowered, hlir::LowerGraph(optimized, context));
  for (const auto& kernel : lowered.kernels) {
    ASSIGN_OR_RETURN(const ir::Func loops, ir::ToLoops(kernel.group));
    ASSIGN_OR_RETURN(const hlir::Choice choice, hlir::ChooseSchedule(kernel.group, target));
    const hlir::Proposal& proposal = choice.proposal;
    seeds.push_back(Cat(ir::Print(loops), std::string(1, kDivider), proposal.schedule));
  }
  return absl::OkStatus();
}

std::vector<std::string> Seeds(Kind kind) {
  std::vector<std::string> seeds;
  switch (kind) {
    case kTarget:
      return {kTargets[0], kTargets[3], "x86_64 -mcpu=native -num-threads=2 -features=+avx2,-amx-bf16", "cpu",
              "x86_64 -l1-bytes=32768 -l2-bytes=1048576 -bandwidth=100 -registers=32 -vector-bytes=64"};
    case kFlag:
      return {"cinn_numerics=exact",    "cinn_disable_fusion=true", "cinn_disable_passes=cse,decompose,simplify",
              "cinn_compile_threads=2", "cinn_num_threads=2",       "cinn_emit_ptx=false"};
    default:
      break;
  }
  for (const hlir::OpDef* def : hlir::OpRegistry::BuiltIn().All()) {
    for (const std::string& sample : def->samples) {
      const auto g = hlir::SampleGraph(*def, sample);
      if (!g.ok()) continue;
      if (kind == kGraph) {
        seeds.push_back(hlir::Print(*g));
      } else {
        const Status s = AddLoops(*g, *Target::Parse(kTargets[seeds.size() % std::size(kTargets)]), seeds);
        EXPECT_TRUE(s.ok()) << s << hlir::Print(*g);
      }
    }
  }
  std::mt19937 rng(7);
  for (int i = 0; i < 20 && kind == kGraph; ++i) seeds.push_back(hlir::Print(*hlir::RandomGraph(rng, 4 + i)));
  const char* corpus = std::getenv("CINN_FUZZ_CORPUS");
  const std::string folder = Cat(corpus == nullptr ? "tests/fuzz/corpus" : corpus, "/", kKindNames[kind]);
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    std::ifstream in(file.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

bool CompileText(const std::string& text, const std::string& target) {
  CinnFunction* f = nullptr;
  if (CinnCompile(text.c_str(), target.c_str(), &f) < 0) return false;
  CinnReleaseFunction(f);
  return true;
}

// A device that may not be here: up to the source.
Status EmitText(const std::string& text, const std::string& target_text) {
  ASSIGN_OR_RETURN(const Target target, Target::Parse(target_text));
  ASSIGN_OR_RETURN(const CompileOptions options, CompileOptions::FromFlags());
  ASSIGN_OR_RETURN(const hlir::Graph graph, hlir::Parse(text));
  return EmitGraph(graph, target, options, "cuda").status();
}

Status RunLoops(const std::string& text, const Target& target) {
  const size_t divider = text.find(kDivider);
  const std::string loops = text.substr(0, divider);
  const std::string steps = divider == text.npos ? "" : text.substr(divider + 1);
  PassContext context;
  context.target = target;
  ASSIGN_OR_RETURN(ir::Module module, ir::ParseModule(loops));
  RETURN_IF_ERROR(ir::Verify(module));
  for (absl::string_view line : absl::StrSplit(steps, '\n', absl::SkipWhitespace())) {
    const std::string step(line);
    const Pass<ir::Func>* pass = ir::FindPass(step);
    for (ir::Func& f : module.funcs) {
      ASSIGN_OR_RETURN(f, pass != nullptr ? pass->run(f, context) : ir::ApplySchedule(f, step));
    }
    RETURN_IF_ERROR(ir::Verify(module));
  }
  ASSIGN_OR_RETURN(module, ir::LowerModule(std::move(module), context));
  RETURN_IF_ERROR(ir::ParseModule(ir::Print(module)).status());
  RETURN_IF_ERROR(EmitHostModule(module, target, {}, HostText::kObject).status());
  if (target.IsGpu()) {
    ASSIGN_OR_RETURN(const auto device, Devices::BuiltIn().Of(target));
    RETURN_IF_ERROR(device.make_compiler(target, {}, nullptr)->EmitSource(module).status());
  }
  return absl::OkStatus();
}

// Whether the text was accepted.
bool RunOne(Kind kind, const std::string& text, size_t choice) {
  const std::string target = kTargets[choice % std::size(kTargets)];
  const bool is_gpu = target.starts_with("cuda");
  switch (kind) {
    case kGraph:
      return is_gpu ? EmitText(text, target).ok() : CompileText(text, target);
    case kTarget:
      return text.starts_with("cuda") ? EmitText(kSmallGraph, text).ok() : CompileText(kSmallGraph, text);
    case kFlag: {
      const size_t equals = std::min(text.find('='), text.size());
      const std::string name = text.substr(0, equals), value = text.substr(std::min(equals + 1, text.size()));
      // These name files.
      if (name.ends_with("_dir") || name.ends_with("nvrtc")) return false;
      if (CinnSetFlag(name.c_str(), value.c_str()) < 0) return false;
      const bool ok = CompileText(kSmallGraph, target);
      for (const auto& [flag, normal] : {std::pair("cinn_numerics", "fused"),
                                         {"cinn_disable_fusion", "false"},
                                         {"cinn_disable_passes", ""},
                                         {"cinn_compile_threads", "0"},
                                         {"cinn_num_threads", "0"},
                                         {"cinn_emit_ptx", "false"}}) {
        CinnSetFlag(flag, normal);
      }
      return ok;
    }
    default:
      return RunLoops(text, *Target::Parse(target)).ok();
  }
}

[[noreturn]] void RunChild(Shared& shared, const std::vector<std::vector<std::string>>& seeds, unsigned seed,
                           double seconds) {
#if !defined(__SANITIZE_ADDRESS__)
  const rlimit memory = {kMemory, kMemory};
  setrlimit(RLIMIT_AS, &memory);
#endif
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  CinnSetFlag("cinn_disable_cache", "true");
  CinnSetFlag("cinn_compile_threads", "1");
  Mutator mutator(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    const size_t pick = mutator.Pick(10);
    const Kind kind = pick < 5 ? kGraph : pick < 8 ? kLoops : pick < 9 ? kTarget : kFlag;
    const std::vector<std::string>& from = seeds[kind];
    const std::string &first = from[mutator.Pick(from.size())], &other = from[mutator.Pick(from.size())];
    std::string text = first;
    for (size_t times = mutator.Pick(4); times > 0; --times) text = mutator.MutateSize(std::move(text));
    if (mutator.Pick(2) == 0) {
      text =
          mutator.Pick(4) == 0 ? mutator.Mutate(std::move(text), other) : mutator.MutateWords(std::move(text), other);
    }
    text.resize(std::min(text.size(), kMaxText - 1));
    const size_t choice = mutator.Pick(std::size(kTargets));
    text += static_cast<char>('0' + choice);
    shared.kind = kind;
    shared.size = text.size();
    std::memcpy(shared.text, text.data(), text.size());
    ++shared.tried;
    text.pop_back();
    shared.accepted += RunOne(kind, text, choice);
  }
  _exit(0);
}

Mutator MakeMutator() { return Mutator(); }

TEST(Fuzz, NoTextEndsTheProcess) {
  if (const char* replay = std::getenv("CINN_FUZZ_REPLAY")) {
    const std::string path = replay;
    std::ifstream in(path, std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(in), {});
    const size_t choice = static_cast<size_t>(text.back() - '0');
    text.pop_back();
    CinnSetFlag("cinn_disable_cache", "true");
    for (int k = 0; k < kNumKinds; ++k) {
      if (path.find(kKindNames[k]) == path.npos) continue;
      std::cerr << "accepted: " << RunOne(static_cast<Kind>(k), text, choice) << "\n" << CinnLastError() << "\n";
    }
    return;
  }
  const char* asked = std::getenv("CINN_FUZZ_SECONDS");
  double seconds = asked == nullptr ? 5 : std::strtod(asked, nullptr);
  auto* shared =
      static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  std::vector<std::vector<std::string>> seeds;
  for (int k = 0; k < kNumKinds; ++k) seeds.push_back(Seeds(static_cast<Kind>(k)));
  unsigned seed = MakeMutator().seed();
  const char* folder = std::getenv("CINN_FUZZ_FAILURES");
  const auto begin = std::chrono::steady_clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  for (int failures = 0; elapsed() < seconds && failures < 1000; ++seed) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) RunChild(*shared, seeds, seed, seconds - elapsed());
    int status = 0;
    bool hangs = false;
    int64_t last = -1;
    auto since = std::chrono::steady_clock::now();
    while (waitpid(child, &status, WNOHANG) == 0) {
      usleep(20000);
      if (shared->tried != last) {
        last = shared->tried;
        since = std::chrono::steady_clock::now();
      }
      if (!hangs && std::chrono::steady_clock::now() - since > std::chrono::seconds(kHangSeconds)) {
        hangs = true;
        kill(child, SIGKILL);
      }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    ++failures;
    const std::string text(shared->text, shared->size);
    const std::string how = hangs                 ? "takes more than a minute"
                            : WIFSIGNALED(status) ? Cat("ends the process by signal ", WTERMSIG(status))
                                                  : Cat("ends the process with ", WEXITSTATUS(status));
    ADD_FAILURE() << kKindNames[shared->kind] << " text " << how << ", seed " << seed << ":\n" << text;
    if (folder != nullptr) {
      std::ofstream(Cat(folder, "/", kKindNames[shared->kind], "-", seed, "-", failures), std::ios::binary) << text;
    }
  }
  std::cerr << shared->tried << " texts, " << shared->accepted << " accepted\n";
  EXPECT_GT(shared->accepted, 0);
  munmap(shared, sizeof(Shared));
}

}  // namespace
}  // namespace cinn_like
