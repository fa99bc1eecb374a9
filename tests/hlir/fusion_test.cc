// What fusion costs: near-linear in the number of ops, whatever they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "tests/hlir/large_graph.h"

namespace cinn_like::hlir {
namespace {

// Processor seconds from a graph to kernels that are not scheduled yet, the fewest of a few runs.
double SecondsToLower(const StatusOr<Graph>& graph, const Target& target) {
  double best = 1e9;
  EXPECT_TRUE(graph.ok()) << graph.status();
  for (int run = 0; graph.ok() && run < 3; ++run) {
    const clock_t begin = clock();
    const StatusOr<Graph> optimized = OptimizeGraph(*graph, {});
    EXPECT_TRUE(optimized.ok()) << optimized.status();
    const StatusOr<LoweredGraph> lowered = LowerGraph(*optimized, true, target);
    EXPECT_TRUE(lowered.ok()) << lowered.status();
    best = std::min(best, static_cast<double>(clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

TEST(Fusion, TwiceTheOpsCostTwiceTheTime) {
  constexpr double kMost = 2.2, kNoise = 0.5;
  for (const char* text : {"x86_64 -mcpu=skylake", "cuda -arch=sm_90a"}) {
    const Target target = *Target::Parse(text);
    for (bool symbolic : {false, true}) {
      const double once = SecondsToLower(LargeGraph(1000, symbolic), target);
      const double twice = SecondsToLower(LargeGraph(2000, symbolic), target);
      EXPECT_LE(twice, (kMost + kNoise) * once) << text << " blocks: " << once << " s, then " << twice << " s";
    }
    const double once = SecondsToLower(LongChain(1000), target), twice = SecondsToLower(LongChain(2000), target);
    EXPECT_LE(twice, (kMost + kNoise) * once) << text << " chain: " << once << " s, then " << twice << " s";
  }
}

}  // namespace
}  // namespace cinn_like::hlir
