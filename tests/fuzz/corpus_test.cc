// The corpus of the fuzzers (tests/fuzz/corpus), and damage to it, through what libFuzzer runs
// (tests/fuzz/*_fuzzer.cc): whatever a text is, it is accepted or refused. A text that once broke something stays in
// the corpus. CINN_TEST_ROUNDS says how many damaged texts are tried.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/fuzz/graph.h"
#include "tests/fuzz/library.h"
#include "tests/fuzz/loops.h"
#include "tests/fuzz/schedule.h"
#include "tests/golden_file.h"
#include "tests/mutate.h"

namespace cinn_like::fuzz {
namespace {

struct Target {
  const char* name;
  Status (*run)(std::string_view text);
  int rounds;  // of damage
};

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, IsAcceptedOrRefused) {
  const Target& target = GetParam();
  std::vector<std::string> texts;
  int accepted = 0;
  for (const auto& file : std::filesystem::directory_iterator(Cat("tests/fuzz/corpus/", target.name))) {
    const Status s = target.run(texts.emplace_back(ReadFile(file.path())));
    EXPECT_NE(s.code(), absl::StatusCode::kInternal) << file.path() << ": " << s;
    accepted += s.ok() ? 1 : 0;
  }
  // The damage depends on the seed alone.
  std::sort(texts.begin(), texts.end());
  EXPECT_GT(accepted, static_cast<int>(texts.size()) / 3);
  Mutator mutator;
  const char* asked = std::getenv("CINN_TEST_ROUNDS");
  const int rounds = asked != nullptr ? std::atoi(asked) : Rounds(target.rounds);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const std::string &first = texts[mutator.Pick(texts.size())], &other = texts[mutator.Pick(texts.size())];
    std::string text = first;
    for (size_t times = mutator.Pick(4); times > 0; --times) text = mutator.MutateSize(std::move(text));
    if (mutator.Pick(3) != 0) {
      text =
          mutator.Pick(3) == 0 ? mutator.Mutate(std::move(text), other) : mutator.MutateWords(std::move(text), other);
    }
    const Status s = target.run(text);
    EXPECT_NE(s.code(), absl::StatusCode::kInternal) << s << "\nseed " << mutator.seed() << "\n" << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Corpus,
                         testing::Values(Target{"graph", TryGraph, 200}, Target{"loops", TryLoops, 3000},
                                         Target{"schedule", TrySchedule, 300}, Target{"library", TryLibrary, 20000}),
                         [](const auto& info) { return info.param.name; });

// What libFuzzer puts into texts.
TEST(Dictionary, HasEveryOpAndStep) {
  const std::string graph = ReadFile("tests/fuzz/graph.dict"), schedule = ReadFile("tests/fuzz/schedule.dict");
  for (const hlir::OpDef* def : hlir::OpRegistry::BuiltIn().All())
    EXPECT_NE(graph.find(Cat("\"", def->name, "(\"\n")), graph.npos) << def->name;
  for (const ir::StepInfo& step : ir::ScheduleSteps())
    EXPECT_NE(schedule.find(Cat("\"", step.name, " \"\n")), schedule.npos) << step.name;
}

}  // namespace
}  // namespace cinn_like::fuzz
