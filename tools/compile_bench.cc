// What compiling costs: graph texts (as cinn_like.report().subgraphs[i].text has them), each compiled once, side by
// side as the framework's regions are, with an empty cache.
//
//   compile_bench [--target=TARGET] [--threads=N] FILE...
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "cinn_like/driver.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/tool_io.h"

DEFINE_string(target, "cpu", "of all");
DEFINE_int32(threads, 0, "that compile graphs side by side; 0: one a processor");

namespace cinn_like {
namespace {

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * t.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Status Main(const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(CompileOptions options, CompileOptions::FromFlags());
  ASSIGN_OR_RETURN(const Target target, Target::Parse(FLAGS_target));
  std::string folder = (std::filesystem::temp_directory_path() / "compile_bench.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return absl::UnavailableError(Cat("can't make a folder ", folder));
  options.cache_dir = folder;
  std::vector<std::string> texts;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(texts.emplace_back(), ReadInput(path));
  }
  std::vector<StatusOr<std::unique_ptr<CompiledFunction>>> graphs(paths.size());
  std::atomic<size_t> next = 0;
  const auto begin = std::chrono::steady_clock::now();
  const double cpu_begin = ProcessorSeconds();
  const auto work = [&] {
    for (size_t i = next++; i < paths.size(); i = next++) {
      graphs[i] = [&]() -> StatusOr<std::unique_ptr<CompiledFunction>> {
        ASSIGN_OR_RETURN(const hlir::Graph graph, hlir::Parse(texts[i]));
        return CompileGraph(graph, target, options);
      }();
    }
  };
  std::vector<std::thread> threads;
  const size_t wanted = FLAGS_threads > 0 ? static_cast<size_t>(FLAGS_threads) : std::thread::hardware_concurrency();
  while (threads.size() < std::min(wanted, paths.size())) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  const double cpu = ProcessorSeconds() - cpu_begin;
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::filesystem::remove_all(folder);

  StageTimes stages;
  int kernels = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    RETURN_IF_ERROR(Annotate(graphs[i].status(), paths[i]));
    for (const auto& [stage, seconds] : (*graphs[i])->report().seconds) stages.Add(stage, seconds);
    kernels += (*graphs[i])->report().unique_kernels;
  }
  std::printf("%zu graphs, %d kernels: %.3f s, processor %.3f s\n", paths.size(), kernels, wall, cpu);
  for (const auto& [stage, seconds] : stages.Get()) std::printf("  %-22s %.3f\n", stage.c_str(), seconds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cinn_like

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  gflags::SetUsageMessage("[--target=TARGET] [--threads=N] FILE...");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return cinn_like::Finish("compile_bench", cinn_like::Main({argv + 1, argv + argc}));
}
