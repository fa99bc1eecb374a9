// tests/golden/ir/*.txt: cases separated by a line "====", each
//
//   // RUN: simplify | split i 4 -> io ii
//   <module>
//   ----
//   <expected module, or "error: <message>">
//
// A step is a pass of ir/pass_table.h or a schedule step.
#include <algorithm>
#include <filesystem>

#include "gtest/gtest.h"
#include "ir/pass_table.h"
#include "ir/schedule/schedule.h"
#include "tests/golden_file.h"

namespace cinn_like::ir {
namespace {

constexpr std::string_view kFolder = "tests/golden/ir";
constexpr std::string_view kRun = "// RUN:";

std::string Trim(std::string s) {
  s.erase(0, std::min(s.find_first_not_of(" \n"), s.size()));
  s.erase(s.find_last_not_of(" \n") + 1);
  return s;
}

std::vector<std::string> Split(const std::string& s, const std::string& by) {
  std::vector<std::string> r;
  size_t begin = 0;
  for (size_t at; (at = s.find(by, begin)) != s.npos; begin = at + by.size()) r.push_back(s.substr(begin, at - begin));
  r.push_back(s.substr(begin));
  return r;
}

StatusOr<std::string> RunSteps(const std::string& steps, const std::string& input) {
  ASSIGN_OR_RETURN(Module m, ParseModule(input));
  PassContext context;
  ASSIGN_OR_RETURN(context.target, Target::Parse("cuda -arch=sm_90a"));
  for (const std::string& piece : Split(steps, " | ")) {
    const std::string step = Trim(piece);
    const Pass<Func>* pass = FindPass(step);
    for (Func& f : m.funcs) {
      ASSIGN_OR_RETURN(f, pass != nullptr ? pass->run(f, context) : ApplySchedule(f, step));
    }
  }
  // What a pass prints must be a module again, and the same.
  const std::string text = Print(m);
  auto again = ParseModule(text);
  if (!again.ok()) return Annotate(again.status(), Cat("the result does not parse:\n", text));
  if (Print(*again) != text) return Internal("the result does not round-trip:\n", text, "\nbecomes\n", Print(*again));
  RETURN_IF_ERROR(Annotate(Verify(*again), Cat("the result is not valid:\n", text)));
  return text;
}

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> r;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".txt") r.push_back(entry.path());
  }
  std::sort(r.begin(), r.end());
  return r;
}

class GoldenTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(GoldenTest, Matches) {
  std::string blessed;
  for (const std::string& one : Split(ReadFile(GetParam()), "\n====\n")) {
    const auto parts = Split(one, "\n----\n");
    const std::string head = Trim(parts[0]);
    ASSERT_LE(parts.size(), 2u) << one;
    ASSERT_EQ(head.substr(0, kRun.size()), kRun) << "a case starts with '// RUN:'\n" << one;
    const size_t line = head.find('\n');
    auto got = RunSteps(head.substr(kRun.size(), line - kRun.size()), head.substr(line));
    const std::string text = got.ok() ? Trim(*got) : Cat("error: ", Message(got.status()));
    blessed += Cat(blessed.empty() ? "" : "\n====\n", head, "\n----\n", text);
  }
  ExpectGolden(GetParam(), blessed + "\n");
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenTest, testing::ValuesIn(Files()),
                         [](const auto& param) { return param.param.stem().string(); });

}  // namespace
}  // namespace cinn_like::ir
