// The bidding: who fails is out and named, another runs.
#include "hlir/tactics/tactics.h"

#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cinn_like/base/matmul_spec.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactic.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "ir/schedule/schedule.h"
#include "ir/vector_nests.h"
#include "tests/hlir/group.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

using Names = std::vector<std::string>;

StatusOr<std::vector<Proposal>> Offer(const ir::TeProgram& group, const Target& target, const char* name,
                                      double price) {
  ASSIGN_OR_RETURN(Proposal p, ProposeNaive(group, target));
  p.tactic = name;
  p.seconds = price;
  return std::vector<Proposal>{std::move(p)};
}

const std::vector<Tactic>& Bidders() {
  static const auto* bidders = new std::vector<Tactic>{
      {"broken",
       [](const ir::TeProgram&, const Target&, Until, Point&) -> StatusOr<std::vector<Proposal>> {
         return Internal("step 'merge e f': no");
       }},
      {"dear", [](const ir::TeProgram& g, const Target& t, Until, Point&) { return Offer(g, t, "dear", 3); }},
      {"cheap", [](const ir::TeProgram& g, const Target& t, Until, Point&) { return Offer(g, t, "cheap", 1); }},
  };
  return *bidders;
}

class Bidding : public testing::TestWithParam<const char*> {
 protected:
  const Target target_ = *Target::Parse(GetParam());
  const ir::TeProgram group_ =
      *GroupOf("graph @g(%x: f32[4,8]) {\n  %0 = exp(%x) : f32[4,8]\n  return %0\n}\n", target_);
};

TEST_P(Bidding, TheCheapestRunsAndTheBrokenIsNamed) {
  const StatusOr<Choice> choice = ChooseSchedule(group_, target_, nullptr, Bidders());
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->proposal.tactic, "cheap");
  EXPECT_EQ(choice->refused, Names{"tactic broken: step 'merge e f': no"});
}

TEST_P(Bidding, WhatDoesNotLowerIsFollowedByTheNext) {
  Names tried;
  const auto accept = [&](const Proposal& p) -> Status {
    tried.push_back(p.tactic);
    return p.tactic == "cheap" ? Internal("pass 'place_buffers': no") : absl::OkStatus();
  };
  const StatusOr<Choice> choice = ChooseSchedule(group_, target_, accept, Bidders());
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->proposal.tactic, "dear");
  EXPECT_EQ(tried, (Names{"cheap", "dear"}));
  EXPECT_EQ(choice->refused, (Names{"tactic broken: step 'merge e f': no", "tactic cheap: pass 'place_buffers': no"}));
}

TEST_P(Bidding, NaiveIsLeft) {
  const auto accept = [](const Proposal& p) -> Status {
    return p.tactic == "naive" ? absl::OkStatus() : Internal("no");
  };
  const StatusOr<Choice> choice = ChooseSchedule(group_, target_, accept, Bidders());
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->proposal.tactic, "naive");
  EXPECT_EQ(choice->refused.size(), 3u);
}

TEST_P(Bidding, NothingIsRefusedOfTheBuiltIns) {
  const StatusOr<Choice> choice = ChooseSchedule(group_, target_);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_NE(choice->proposal.tactic, "naive");
  EXPECT_TRUE(choice->refused.empty());
}

// Also of sizes whose symbols have hints that don't fit each other, or none.
TEST(ChooseSchedule, PricesAreOfSizes) {
  for (const char* device : {"x86_64 -mcpu=skylake-avx512 -num-threads=1", "cuda -arch=sm_90a"}) {
    const Target target = *Target::Parse(device);
    const auto group = GroupOf(
        "graph @g(%x: f32[n,m + k*(p - 1) - 2*q], m: i64, k: i64, p: i64, q: i64) where n in 2..2147483647 hint 40, m "
        "in "
        "2..2147483647 hint 4, k in 0..2147483647 hint 3, p in 2..3 hint 2, q in 0..2147483647 {\n"
        "  %0 = relu(%x) : f32[n,m + k*(p - 1) - 2*q]\n  return %0\n}\n",
        target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_GT(choice->proposal.seconds, 0) << device;
    EXPECT_LT(choice->proposal.seconds, kNaiveSeconds) << device;
  }
}

// A product that was traced with few rows is called with more, too: its kernel for all sizes reads weights once for a
// tile of rows, and near the hint, where that pays, runs another, whose tiles are as many rows as there may be.
TEST(ChooseSchedule, KernelsOfFewRowsAndOfAll) {
  const Target target = *Target::Parse("x86_64 -mcpu=skylake-avx512 -num-threads=1");
  struct Case {
    const char* rows;
    std::vector<std::string> kernels;  // tactics, and the rows of their tiles
  };
  for (const Case& c : {Case{"n in 1..100000 hint 1", {"matmul_cpu 8", "rows_cpu"}},
                        Case{"n in 2..100000 hint 2", {"matmul_cpu 8", "matmul_cpu 2"}},
                        Case{"n in 2..100000 hint 3", {"matmul_cpu 8", "matmul_cpu 4"}},
                        Case{"n in 2..100000 hint 64", {"matmul_cpu 8"}}, Case{"n in 2..5 hint 2", {"matmul_cpu 5"}}}) {
    const auto lowered = Lower(Cat("graph @g(%x: f32[n,2048], %w: f32[5632,2048]) where ", c.rows,
                                   " {\n  %0 = transpose(%w) {perm=[1,0]} : f32[2048,5632]\n"
                                   "  %1 = matmul(%x, %0) : f32[n,5632]\n  return %1\n}\n"),
                               target);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    std::vector<std::string> kernels;
    for (const LoweredGraph::Kernel& k : lowered->kernels) {
      const StatusOr<Choice> choice = ChooseSchedule(k.group, target);
      ASSERT_TRUE(choice.ok()) << choice.status();
      kernels.push_back(choice->proposal.tactic);
      for (const absl::string_view step : absl::StrSplit(choice->proposal.schedule, '\n')) {
        const std::vector<std::string> words = absl::StrSplit(step, ' ');
        if (absl::StartsWith(step, "split l_oi ")) kernels.back() += Cat(" ", words[2]);
      }
    }
    EXPECT_EQ(kernels, c.kernels) << c.rows;
  }
}

// Along rows, values and their places are two reductions whose lanes are single values; what takes long to compute is
// computed once. Columns that are no whole vectors are summed up on the stack.
TEST(RowsCpu, Reductions) {
  const Target target = *Target::Parse("x86_64 -mcpu=skylake-avx512 -num-threads=2");
  struct {
    const char *in, *value, *result, *op;
    Names steps;
  } cases[] = {
      {"f32[64,1000]", "abs(%x)", "i64[64]", "argmax(%0) {axis=1}", {"separate", "vectorize"}},
      {"bf16[64,n]", "abs(%x)", "i64[64]", "argmin(%0) {axis=1}", {"separate", "vectorize"}},
      {"f32[64,1000]", "erf(%x)", "i64[64]", "argmax(%0) {axis=1}", {"define", "separate", "vectorize"}},
      {"f32[4000001]", "abs(%x)", "i64[]", "argmax(%0) {axis=0}", {"keep", "separate", "vectorize"}},
      {"f32[16,64,56,56]", "abs(%x)", "f32[64]", "reduce_sum(%0) {axes=[0,2,3]}", {"fuse l_r2 l_r3", "split v 64"}},
      {"f32[8,127,3,5,7]", "abs(%x)", "f32[8,3,5,7]", "reduce_sum(%0) {axes=[1]}", {"keep", "fuse l_i1 l_i2 l_i3"}},
      {"f32[64,1000,7]", "abs(%x)", "i64[64,7]", "argmax(%0) {axis=1}", {"separate", "scope place"}},
      {"f32[64,1000,7]", "abs(%x)", "f32[64,7]", "reduce_sum(%0) {axes=[1]}", {"keep", "scope kept"}},
  };
  for (const auto& c : cases) {
    const std::string in = c.in;
    const auto group =
        GroupOf(Cat("graph @g(%x: ", in, ")", absl::StrContains(in, "n]") ? " where n in 1..4096" : "",
                    " {\n  %0 = ", c.value, " : ", in, "\n  %1 = ", c.op, " : ", c.result, "\n  return %1\n}\n"),
                target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->proposal.tactic, "rows_cpu") << c.op << in;
    for (const std::string& step : c.steps)
      EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, step)) << step << "\n" << choice->proposal.schedule;
    EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
  }
}

// Whether nests of a matrix unit's tiles are left in what was lowered, and are such still.
bool HasTileNests(const ir::Func& lowered) {
  int nests = 0;
  ir::VisitStmts(lowered.body, [&](const ir::Stmt& s) {
    const ir::For* n = ir::As<ir::For>(s);
    if (n == nullptr || ir::DotSize(n->kind) == 0 || !ir::IsOfTiles(*n)) return true;
    ir::Analyzer a(*lowered.context);
    const Status status = ir::MatchTiles(a, *n, n->kind).status();
    EXPECT_TRUE(status.ok()) << status << ir::Print(lowered);
    ++nests;
    return true;
  });
  return nests > 0;
}

// Windows, groups and deep reductions are tiles whatever the vectors' length, for one core and for many.
TEST(MatmulCpu, TilesConvolutions) {
  for (const char* cpu : {"x86-64", "x86-64-v3", "skylake-avx512"}) {
    for (const char* threads : {"1", "16"}) {
      const Target target = *Target::Parse(Cat("x86_64 -mcpu=", cpu, " -num-threads=", threads));
      for (const auto& [x, w, y, attributes] :
           {std::tuple("1,64,56,56", "64,64,3,3", "1,64,56,56", "padding=[1,1]"),
            {"2,128,28,28", "128,32,3,3", "2,128,28,28", "padding=[1,1], groups=4"},
            {"1,256,28,28", "256,8,3,3", "1,256,28,28", "padding=[1,1], groups=32"},
            {"1,520,7,7", "2100,520,3,3", "1,2100,7,7", "padding=[1,1]"},
            {"1,72,56,56", "72,1,3,3", "1,72,28,28", "padding=[1,1], stride=[2,2], groups=72"}}) {
        const auto group = GroupOf(Cat("graph @g(%x: f32[", x, "], %w: f32[", w, "]) {\n  %0 = conv(%x, %w) {",
                                       attributes, "} : f32[", y, "]\n  return %0\n}\n"),
                                   target);
        ASSERT_TRUE(group.ok()) << group.status();
        const StatusOr<Choice> choice = ChooseSchedule(*group, target);
        ASSERT_TRUE(choice.ok()) << choice.status();
        EXPECT_EQ(choice->proposal.tactic, "matmul_cpu") << cpu << " " << threads << " " << w;
        EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
      }
    }
  }
}

// Rows of which each step of the reduction reads a line far from the last one's are copied so that they lie along it,
// whole matrices at a time where they leave no rest; those that stay in a core's caches are not.
TEST(MatmulCpu, CopiesRowsThatLieApart) {
  for (const auto& [steps, rows, copies, turns] : {std::tuple("1568", "384", true, true),
                                                   {"1568", "390", true, false},
                                                   {"n", "384", true, true},
                                                   {"196", "384", false, false}}) {
    const std::string graph =
        Cat("graph @g(%x: f32[", steps, ",", rows, "], %w: f32[", steps, ",1536])",
            steps[0] == 'n' ? " where n in 1..9999 hint 1568" : "", " {\n  %t = transpose(%x) {perm=[1,0]} : f32[",
            rows, ",", steps, "]\n  %0 = matmul(%t, %w) : f32[", rows, ",1536]\n  return %0\n}\n");
    for (const char* cpu : {"sapphirerapids", "x86-64-v3"}) {
      const Target target = *Target::Parse(Cat("x86_64 -num-threads=2 -mcpu=", cpu));
      const auto group = GroupOf(graph, target);
      ASSERT_TRUE(group.ok()) << group.status() << graph;
      const StatusOr<Choice> choice = ChooseSchedule(*group, target);
      ASSERT_TRUE(choice.ok()) << choice.status() << graph;
      EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
      EXPECT_EQ(absl::StrContains(choice->proposal.schedule, "define rows"), copies) << cpu << graph;
      EXPECT_EQ(absl::StrContains(choice->proposal.schedule, "tensorize rm transpose"), turns) << cpu << graph;
    }
  }
  // Those of one of a batch are near while its tiles are computed.
  const Target target = *Target::Parse("x86_64 -num-threads=1 -mcpu=sapphirerapids");
  const auto group = GroupOf(
      "graph @g(%x: f32[96,128,128], %w: f32[96,128,64]) {\n  %t = transpose(%x) {perm=[0,2,1]} : f32[96,128,128]\n"
      "  %0 = matmul(%t, %w) : f32[96,128,64]\n  return %0\n}\n",
      target);
  ASSERT_TRUE(group.ok()) << group.status();
  const StatusOr<Choice> choice = ChooseSchedule(*group, target);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_FALSE(absl::StrContains(choice->proposal.schedule, "define rows")) << choice->proposal.schedule;
}

// A reduction whose depth is a symbol is summed in parts, of which each has its panel, whatever else is a symbol.
TEST(MatmulCpu, PartsOfASymbolicDepth) {
  const Target target = *Target::Parse("x86_64 -mcpu=sapphirerapids -num-threads=1");
  for (const auto& [rows, columns] : {std::pair("512", "512"), {"m", "512"}, {"512", "k"}, {"m", "k"}}) {
    const std::string graph =
        Cat("graph @g(%x: f32[", rows, ",n], %w: f32[n,", columns, "]) where n in 2..99999 hint 3000",
            *rows == 'm' ? ", m in 2..9999 hint 500" : "", *columns == 'k' ? ", k in 2..9999 hint 500" : "",
            " {\n  %0 = matmul(%x, %w) : f32[", rows, ",", columns, "]\n  return %0\n}\n");
    const auto group = GroupOf(graph, target);
    ASSERT_TRUE(group.ok()) << group.status() << graph;
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status() << graph;
    EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
    EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, " -> ro ri")) << graph << choice->proposal.schedule;
    EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, "define panel")) << graph << choice->proposal.schedule;
    // Steps beyond the end are not copied, and what was copied is read without a mask.
    EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, "pad b_panel ")) << choice->proposal.schedule;
    const std::string loops = ir::Print(choice->proposal.func), read = "* panel[";
    const size_t at = loops.find(read);
    ASSERT_NE(at, loops.npos) << loops;
    EXPECT_EQ(loops.substr(at, loops.find(']', at) - at).find(';'), loops.npos) << loops.substr(at, 200);
  }
}

// Where masks are registers, windows of few taps are read under them, and those of many from a padded copy.
TEST(MatmulCpu, PadsWindowsByPrice) {
  const Target target = *Target::Parse("x86_64 -mcpu=sapphirerapids -num-threads=1");
  for (const auto& [channels, size, taps, pads] :
       {std::tuple(200, 14, 3, false), {120, 28, 5, true}, {384, 14, 7, true}, {768, 7, 7, true}}) {
    const std::string shape = Cat("f32[1,", channels, ",", size, ",", size, "]");
    const std::string graph = Cat("graph @g(%x: ", shape, ", %w: f32[", channels, ",1,", taps, ",", taps,
                                  "]) {\n  %0 = conv(%x, %w) {padding=[", taps / 2, ",", taps / 2,
                                  "], groups=", channels, "} : ", shape, "\n  return %0\n}\n");
    const auto group = GroupOf(graph, target);
    ASSERT_TRUE(group.ok()) << group.status() << graph;
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status() << graph;
    EXPECT_EQ(absl::StrContains(choice->proposal.schedule, "pad_input"), pads) << graph;
  }
}

// A transposed window's rows are copied by phases already.
TEST(MatmulCpu, RowsOfPhasesAreCopiedOnce) {
  const std::string graph = R"(graph @g(%x: f32[16,512,4,4], %w: f32[512,256,4,4]) {
  %0 = conv_input_grad(%x, %w) {input_shape=[16,256,8,8], stride=[2,2], padding=[1,1]} : f32[16,256,8,8]
  return %0
}
)";
  for (const char* cpu : {"sapphirerapids", "znver5", "x86-64-v3"}) {
    const Target target = *Target::Parse(Cat("x86_64 -num-threads=1 -mcpu=", cpu));
    const auto group = GroupOf(graph, target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->proposal.tactic, "matmul_cpu") << cpu;
    EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
  }
}

// Without registers for masks, what is multiplied is read under none: windows from a padded copy, the last rows at a
// clamped place.
TEST(MatmulCpu, ReadsUnderNoMaskWithVectorsOf32Bytes) {
  constexpr char kDepthwise[] = R"(graph @g(%x: f32[1,72,56,56], %w: f32[72,1,5,5]) {
  %0 = conv(%x, %w) {padding=[2,2], groups=72} : f32[1,72,56,56]
  return %0
}
)";
  constexpr char kTransposed[] = R"(graph @g(%x: f32[16,256,8,8], %w: f32[256,128,4,4]) {
  %0 = conv_input_grad(%x, %w) {input_shape=[16,128,16,16], stride=[2,2], padding=[1,1]} : f32[16,128,16,16]
  return %0
}
)";
  const Target target = *Target::Parse("x86_64 -mcpu=x86-64-v3 -num-threads=1");
  for (const std::string graph : {kDepthwise, kTransposed}) {
    const auto group = GroupOf(graph, target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(absl::StrContains(choice->proposal.schedule, "pad_input"), graph == kDepthwise);
    int products = 0;
    ir::VisitStmts(choice->proposal.func.body, [&](const ir::Stmt& s) {
      const ir::Block* block = ir::As<ir::Block>(s);
      const bool reduces = block != nullptr && std::any_of(block->iters.begin(), block->iters.end(), [](const auto& i) {
                             return i.kind == ir::IterKind::kReduce;
                           });
      if (!reduces) return true;
      ++products;
      EXPECT_FALSE(absl::StrContains(ir::Print(block->body), ";")) << ir::Print(s);
      return true;
    });
    EXPECT_EQ(products, 1);
  }
}

// Products of bf16 are summed in pairs where the machine gains by it and rounding is free; nothing else is.
TEST(MatmulCpu, SumsPairs) {
  for (const auto& [cpu, x, w, y, op, pairs] :
       {std::tuple("znver5", "bf16[70,64]", "bf16[64,100]", "bf16[70,100]", "matmul(%x, %w)", true),
        {"znver5", "bf16[700,63]", "bf16[63,800]", "bf16[700,800]", "matmul(%x, %w)", true},
        {"znver5", "bf16[n,64]", "bf16[64,100]", "bf16[n,100]", "matmul(%x, %w)", true},
        {"znver5", "bf16[1,64,20,19]", "bf16[40,64,3,3]", "bf16[1,40,20,19]", "conv(%x, %w) {padding=[1,1]}", true},
        {"znver5", "f16[70,64]", "f16[64,100]", "f16[70,100]", "matmul(%x, %w)", false},
        {"znver5", "f32[70,64]", "f32[64,100]", "f32[70,100]", "matmul(%x, %w)", false},
        {"sapphirerapids -features=-amx-bf16", "bf16[70,64]", "bf16[64,100]", "bf16[70,100]", "matmul(%x, %w)", false},
        {"skylake-avx512", "bf16[70,64]", "bf16[64,100]", "bf16[70,100]", "matmul(%x, %w)", false}}) {
    const Target target = *Target::Parse(Cat("x86_64 -num-threads=2 -mcpu=", cpu));
    const auto group =
        GroupOf(Cat("graph @g(%x: ", x, ", %w: ", w, ")", absl::StrContains(x, "n,") ? " where n in 1..4096" : "",
                    " {\n  %0 = ", op, " : ", y, "\n  return %0\n}\n"),
                target);
    ASSERT_TRUE(group.ok()) << group.status();
    for (const bool exact : {false, true}) {
      ir::TeProgram program = *group;
      program.exact = exact;
      const StatusOr<Choice> choice = ChooseSchedule(program, target);
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_EQ(absl::StrContains(choice->proposal.schedule, "dot2_bf16"), pairs && !exact) << cpu << " " << x;
      // What a tile reads of a window's weights lies together.
      EXPECT_EQ(absl::StrContains(choice->proposal.schedule, "\ntransform_layout rows["),
                pairs && !exact && absl::StrContains(op, "conv"))
          << choice->proposal.schedule;
      EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
      const auto again = ir::ApplySchedule(*ir::ToLoops(program), choice->proposal.schedule);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(ir::Print(*again), ir::Print(choice->proposal.func));
    }
  }
}

// Copied weights that no cache holds come again for each panel.
TEST(MatmulCpu, FarWeightsOfWindowsHaveAPrice) {
  const Target target = *Target::Parse("x86_64 -num-threads=1 -mcpu=znver4");
  double seconds[2] = {};
  for (const int64_t channels : {64, 2048}) {
    const auto group =
        GroupOf(Cat("graph @g(%x: bf16[1,", channels, ",28,28], %w: bf16[512,", channels,
                    ",3,3]) {\n  %0 = conv(%x, %w) {padding=[1,1]} : bf16[1,512,28,28]\n  return %0\n}\n"),
                target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    seconds[channels == 2048] = choice->proposal.seconds;
  }
  EXPECT_GT(seconds[1], 1.03 * 32 * seconds[0]);
}

// Products of bytes are summed in fours, of one kind as of two, where the machine has an instruction.
TEST(MatmulCpu, SumsFours) {
  for (const auto& [cpu, x, w, ops, fours, compensated] :
       {std::tuple("znver5", "i8[70,64]", "i8[64,100]", "  %0 = matmul(%x, %w) {wide=true} : i32[70,100]\n", true,
                   true),
        {"znver4", "u8[70,64]", "u8[64,100]", "  %0 = matmul(%x, %w) {wide=true} : i32[70,100]\n", true, true},
        {"sapphirerapids", "i8[70,64]", "i8[64,100]", "  %0 = matmul(%x, %w) {wide=true} : i32[70,100]\n", true, true},
        {"znver5", "i8[70,64]", "i8[100,64]",
         "  %t = transpose(%w) {perm=[1,0]} : i8[64,100]\n  %0 = matmul(%x, %t) {wide=true} : i32[70,100]\n", true,
         true},
        {"znver5", "i8[70,61]", "i8[100,61]",
         "  %t = transpose(%w) {perm=[1,0]} : i8[61,100]\n  %0 = matmul(%x, %t) {wide=true} : i32[70,100]\n", true,
         true},
        {"znver5", "i8[700,20000]", "i8[20000,100]", "  %0 = matmul(%x, %w) {wide=true} : i32[700,100]\n", true, true},
        {"znver5", "u8[70,64]", "i8[64,100]",
         "  %a = cast(%x) {dtype=i32} : i32[70,64]\n  %b = cast(%w) {dtype=i32} : i32[64,100]\n"
         "  %0 = matmul(%a, %b) : i32[70,100]\n",
         true, false},
        {"znver5", "i8[70,64]", "i8[64,100]", "  %0 = matmul(%x, %w) : i8[70,100]\n", true, true},
        {"znver5", "i16[70,64]", "i16[64,100]", "  %0 = matmul(%x, %w) {wide=true} : i32[70,100]\n", false, false},
        {"skylake-avx512", "i8[70,64]", "i8[64,100]", "  %0 = matmul(%x, %w) {wide=true} : i32[70,100]\n", false,
         false}}) {
    const Target target = *Target::Parse(Cat("x86_64 -num-threads=2 -mcpu=", cpu));
    const auto group = GroupOf(Cat("graph @g(%x: ", x, ", %w: ", w, ") {\n", ops, "  return %0\n}\n"), target);
    ASSERT_TRUE(group.ok()) << group.status();
    for (const bool exact : {false, true}) {
      ir::TeProgram program = *group;
      program.exact = exact;
      const StatusOr<Choice> choice = ChooseSchedule(program, target);
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_EQ(absl::StrContains(choice->proposal.schedule, "dot4_i8"), fours) << cpu << " " << x << "\n"
                                                                                << choice->proposal.schedule;
      EXPECT_EQ(absl::StrContains(choice->proposal.schedule, "compensate"), compensated) << cpu << " " << x;
      EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
      const auto again = ir::ApplySchedule(*ir::ToLoops(program), choice->proposal.schedule);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(ir::Print(*again), ir::Print(choice->proposal.func));
    }
  }
}

// By tiles of a matrix unit where the target names it, whatever rows and columns there are; they compute what the
// stages do.
TEST(MatmulCpu, MultipliesTiles) {
  int cases = 0;
  for (const auto& [x, w, y, tiles] : {std::tuple("bf16[35,64]", "bf16[64,40]", "bf16[35,40]", true),
                                       {"bf16[32,96]", "bf16[96,32]", "bf16[32,32]", true},
                                       {"bf16[2,96]", "bf16[96,40]", "bf16[2,40]", true},
                                       {"bf16[130,64]", "bf16[64,40]", "bf16[130,40]", true},
                                       {"bf16[n,64]", "bf16[64,50]", "bf16[n,50]", true},
                                       {"bf16[65,768]", "bf16[768,20]", "bf16[65,20]", true},
                                       {"bf16[n,544]", "bf16[544,20]", "bf16[n,20]", true},
                                       {"bf16[64,544]", "bf16[544,20]", "bf16[64,20]", true},
                                       {"bf16[40,32]", "bf16[32,50]", "bf16[40,50]", false},
                                       {"bf16[1,64]", "bf16[64,50]", "bf16[1,50]", false},
                                       {"i8[33,129]", "i8[129,20]", "i32[33,20]", true},
                                       {"u8[32,128]", "u8[128,32]", "i32[32,32]", true}}) {
    for (const bool transposed : {false, true}) {
      if (!IsTried(cases++)) continue;
      const std::string type(w, std::find(w, w + 8, '[')), of = w, inner = of.substr(type.size() + 1);
      const size_t comma = inner.find(',');
      const std::string turned =
          Cat(type, "[", inner.substr(comma + 1, inner.size() - comma - 2), ",", inner.substr(0, comma), "]");
      const bool wide = std::string_view(y).starts_with("i32");
      const std::string graph =
          Cat("graph @g(%x: ", x, ", %w: ", transposed ? turned : of, ")",
              absl::StrContains(x, "n,") ? " where n in 1..4096" : "", " {\n",
              transposed ? Cat("  %t = transpose(%w) {perm=[1,0]} : ", of, "\n") : "", "  %0 = matmul(%x, %",
              transposed ? "t" : "w", ")", wide ? " {wide=true}" : "", " : ", y, "\n  return %0\n}\n");
      for (const bool has_unit : {false, true}) {
        const Target target = *Target::Parse(
            Cat("x86_64 -num-threads=2 -mcpu=sapphirerapids", has_unit ? "" : " -features=-amx-bf16,-amx-int8"));
        const auto group = GroupOf(graph, target);
        ASSERT_TRUE(group.ok()) << group.status() << graph;
        const StatusOr<Choice> choice = ChooseSchedule(*group, target);
        ASSERT_TRUE(choice.ok()) << choice.status() << graph;
        EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
        EXPECT_EQ(absl::StrContains(choice->proposal.schedule, Cat(" 16 ", wide ? 4 : 2, " -> r2_s r2_q r2_e")),
                  has_unit && tiles)
            << graph << choice->proposal.schedule;
        const int64_t rows = x[x[0] == 'b' ? 5 : 3] == 'n' ? 37 : std::atoi(std::strchr(x, '[') + 1);
        const int64_t depth = std::atoi(inner.c_str()), columns = std::atoi(inner.c_str() + comma + 1);
        const StatusOr<ir::Func> lowered =
            ir::LowerKernel(choice->proposal.func, {.options = {}, .target = target, .name = "test"});
        ASSERT_TRUE(lowered.ok()) << lowered.status();
        EXPECT_EQ(HasTileNests(*lowered), has_unit && tiles) << ir::Print(*lowered);
        std::vector<ir::HostArray> results;
        results.reserve(2);
        for (const ir::Func& f : {*ir::ToLoops(*group), *lowered}) {
          const DType narrow = *ParseDType(type);
          ir::HostArray a(narrow, {rows, depth}),
              b(narrow, transposed ? std::vector{columns, depth} : std::vector{depth, columns});
          for (ir::HostArray* array : {&a, &b}) {
            for (int64_t i = 0; i < array->NumElements(); ++i) {
              const int64_t v = (i * 37 + 11) % 9;
              IsFloat(narrow) ? array->Set(i, static_cast<double>(v - 4))
                              : array->SetInt(i, narrow == DType::kI8 ? 30 * v - 120 : 31 * v);
            }
          }
          std::vector<ir::InterpretArg> args = {
              &a, &b, &results.emplace_back(wide ? DType::kI32 : DType::kBF16, std::vector{rows, columns})};
          if (f.params.size() > 3) args.emplace_back(rows);  // n
          const Status run = ir::Interpret(f, args, {{"n", rows}});
          ASSERT_TRUE(run.ok()) << run << graph;
        }
        EXPECT_EQ(results[0].bytes, results[1].bytes) << graph << choice->proposal.schedule;
      }
    }
  }
}

// So are windows, for each of whose places a kernel's channels lie apart: odd numbers of channels and of places,
// strides, dilation, groups, phases of transposed ones, one and three dimensions.
TEST(MatmulCpu, MultipliesTilesOfWindows) {
  int cases = 0;
  for (const auto& [op, x, w, y, attributes] :
       {std::tuple("conv", "1,64,5,6", "30,64,2,3", "1,30,5,6", "padding=[1,2], dilation=[2,2]"),
        {"conv", "1,64,5,6", "31,64,3,3", "1,31,5,6", "padding=[1,1]"},
        {"conv", "1,61,9,15", "29,61,3,3", "1,29,5,8", "padding=[1,1], stride=[2,2]"},
        {"conv", "1,128,4,5", "64,64,3,3", "1,64,4,5", "padding=[1,1], groups=2"},
        {"conv", "1,95,61", "50,95,3", "1,50,31", "padding=[1], stride=[2]"},
        {"conv", "1,64,2,3,5", "30,64,3,2,3", "1,30,2,4,5", "padding=[1,1,1]"},
        {"conv_input_grad", "1,64,4,16", "64,16,2,2", "1,16,8,32", "input_shape=[1,16,8,32], stride=[2,2]"}}) {
    if (!IsTried(cases++)) continue;
    const std::string graph = Cat("graph @g(%x: bf16[", x, "], %w: bf16[", w, "]) {\n  %0 = ", op, "(%x, %w) {",
                                  attributes, "} : bf16[", y, "]\n  return %0\n}\n");
    const auto shape = [](std::string_view text) {
      std::vector<int64_t> r;
      for (const absl::string_view n : absl::StrSplit(absl::string_view(text.data(), text.size()), ','))
        r.push_back(std::atoi(std::string(n).c_str()));
      return r;
    };
    for (const bool has_unit : {false, true}) {
      const Target target = *Target::Parse(
          Cat("x86_64 -num-threads=2 -mcpu=sapphirerapids", has_unit ? "" : " -features=-amx-bf16,-amx-int8"));
      const auto group = GroupOf(graph, target);
      ASSERT_TRUE(group.ok()) << group.status() << graph;
      const StatusOr<Choice> choice = ChooseSchedule(*group, target);
      ASSERT_TRUE(choice.ok()) << choice.status() << graph;
      EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
      const StatusOr<ir::Func> lowered =
          ir::LowerKernel(choice->proposal.func, {.options = {}, .target = target, .name = "test"});
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      EXPECT_EQ(HasTileNests(*lowered), has_unit) << graph << choice->proposal.schedule;
      if (!has_unit) continue;
      std::vector<ir::HostArray> results;
      results.reserve(2);
      for (const ir::Func& f : {*ir::ToLoops(*group), *lowered}) {
        ir::HostArray a(DType::kBF16, shape(x)), b(DType::kBF16, shape(w));
        for (ir::HostArray* array : {&a, &b}) {
          for (int64_t i = 0; i < array->NumElements(); ++i)
            array->Set(i, static_cast<double>((i * 37 + i / 7 + 11) % 9 - 4));
        }
        const Status run = ir::Interpret(f, {&a, &b, &results.emplace_back(DType::kBF16, shape(y))});
        ASSERT_TRUE(run.ok()) << run << graph;
      }
      EXPECT_EQ(results[0].bytes, results[1].bytes) << graph << choice->proposal.schedule;
    }
  }
}

// A task of one row, whose panel is a part of the reduction, has no loop over rows.
TEST(MatmulCpu, TasksOfOneRow) {
  const Target target = *Target::Parse("x86_64 -mcpu=skylake-avx512 -num-threads=2");
  const auto group = GroupOf(
      "graph @g(%x: f32[4,8192], %w: f32[8192,64]) {\n  %0 = matmul(%x, %w) : f32[4,64]\n  return %0\n}\n", target);
  ASSERT_TRUE(group.ok()) << group.status();
  int found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Point point = Point::Random(seed);
    const StatusOr<std::vector<Proposal>> proposals = ProposeMatmulCpu(*group, target, Until::kSchedule, point);
    ASSERT_TRUE(proposals.ok()) << point.text() << "\n" << proposals.status();
    found += absl::StrContains(point.text(), "rows=1 ") && absl::StrContains(point.text(), " row_tiles=1 ") ? 1 : 0;
  }
  EXPECT_GT(found, 0);
}

// Operands that are computed of places alone, or of one element.
TEST(MatmulCpu, OperandsThatReadNothing) {
  for (const auto& [given, left, right, product] :
       {std::tuple("", "", "  %w = transpose(%p) {perm=[1,0]} : f32[64,32]\n", "matmul(%p, %w) : f32[32,32]"),
        {"%w: f32[64,48]", "", "", "matmul(%p, %w) : f32[32,48]"},
        {"%w: f32[64,48], %s: f32[]", "  %q = mul(%p, %s) : f32[32,64]\n", "", "matmul(%q, %w) : f32[32,48]"}}) {
    const std::string graph =
        Cat("graph @g(", given, ") {\n  %k = iota() {dtype=f32, shape=[32,64], axis=1} : f32[32,64]\n",
            "  %i = iota() {dtype=f32, shape=[32,64], axis=0} : f32[32,64]\n", "  %p = add(%k, %i) : f32[32,64]\n",
            left, right, "  %y = ", product, "\n  return %y\n}\n");
    for (const char* device : {"x86_64 -mcpu=znver5 -num-threads=2", "cuda -arch=sm_80"}) {
      const Target target = *Target::Parse(device);
      const PassContext context{.options = {}, .target = target, .name = "test"};
      const StatusOr<Graph> parsed = Parse(graph);
      ASSERT_TRUE(parsed.ok()) << parsed.status() << graph;
      const StatusOr<LoweredGraph> lowered = LowerGraph(*parsed, context);
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      for (const LoweredGraph::Kernel& kernel : lowered->kernels) {
        const StatusOr<Choice> choice = ChooseSchedule(kernel.group, target);
        ASSERT_TRUE(choice.ok()) << choice.status();
        EXPECT_NE(choice->proposal.tactic, "naive");
        EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
      }
    }
  }
}

// A pool's window is short, and its places, which nobody reads, are not looked for.
TEST(RowsCpu, VectorsOfPoolsRunAlongWhatIsLong) {
  const Target target = *Target::Parse("x86_64 -mcpu=znver4 -num-threads=2");
  constexpr char kPool[] =
      "  %0, %1 = max_pool(%a) {kernel=[3,3], stride=[2,2], padding=[1,1]} : f32[8,64,56,56], i64[8,64,56,56]\n";
  for (const auto& [x, y, vector] :
       {std::tuple("%a: f32[8,64,112,112]) {\n", "  return %0\n}\n", "fuse l_i3 -> v\n"),
        {"%x: f32[8,112,112,64]) {\n  %a = transpose(%x) {perm=[0,3,1,2]} : f32[8,64,112,112]\n",
         "  %y = transpose(%0) {perm=[0,2,3,1]} : f32[8,56,56,64]\n  return %y\n}\n", "fuse l_i1 -> v\n"}}) {
    const auto group = GroupOf(Cat("graph @g(", x, kPool, y), target);
    ASSERT_TRUE(group.ok()) << group.status();
    for (const ir::Stage& s : group->stages) EXPECT_EQ(s.outputs.size(), 1u);
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->proposal.tactic, "rows_cpu");
    EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, vector)) << choice->proposal.schedule;
    EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
  }
}

// What lies across rows passes through tiles of constant size, which registers turn, however many rows and elements
// there are: inputs, results, also those that are read again.
TEST(RowsCpu, WhatLiesAcrossIsTurned) {
  const Target target = *Target::Parse("x86_64 -mcpu=znver4 -num-threads=2");
  constexpr char kIn[] = "f32[B,C,H,W]", kOut[] = "f32[B,H,W,C]";
  for (const auto& [b, c, h, w] : {std::tuple("2", "64", "32", "7"),
                                   {"2", "768", "14", "14"},
                                   {"1", "50", "28", "28"},
                                   {"n", "64", "32", "7"},
                                   {"n", "c", "h", "w"}}) {
    std::string where = *b == 'n' ? " where n in 1..64" : "";
    if (*c == 'c') where += ", c in 1..999, h in 1..99, w in 1..99";
    // At least so many turns.
    for (const auto& [body, turned] :
         {std::pair(Cat("  %1 = softmax(%0) {axis=3} : ", kOut, "\n  return %1"), 1),
          {Cat("  %1 = add(%0, %y) : ", kOut, "\n  %2 = reduce_sum(%1) {axes=[3]} : f32[B,H,W]\n  return %2"), 1},
          {Cat("  %1 = add(%0, %y) : ", kOut, "\n  %2 = softmax(%1) {axis=3} : ", kOut,
               "\n  %3 = transpose(%2) {perm=[0,3,1,2]} : ", kIn, "\n  return %1, %3"),
           3}}) {
      const std::string text =
          absl::StrReplaceAll(Cat("graph @g(%x: ", kIn, ", %y: ", kOut, ")", where,
                                  " {\n  %0 = transpose(%x) {perm=[0,2,3,1]} : ", kOut, "\n", body, "\n}\n"),
                              {{"[B,C,H,W]", Cat("[", b, ",", c, ",", h, ",", w, "]")},
                               {"[B,H,W,C]", Cat("[", b, ",", h, ",", w, ",", c, "]")},
                               {"[B,H,W]", Cat("[", b, ",", h, ",", w, "]")}});
      const auto group = GroupOf(text, target);
      ASSERT_TRUE(group.ok()) << group.status() << text;
      const StatusOr<Choice> choice = ChooseSchedule(*group, target);
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_EQ(choice->proposal.tactic, "rows_cpu");
      EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
      const std::string& schedule = choice->proposal.schedule;
      const std::vector<std::string> parts = absl::StrSplit(schedule, " transpose\n");
      EXPECT_GE(static_cast<int>(parts.size()) - 1, turned) << text << schedule;
      // So does what rows keep, exp(x - maximum), lie as their lanes do.
      if (absl::StrContains(body, "softmax(%0)")) {
        EXPECT_TRUE(absl::StrContains(schedule, "transform_layout t1[")) << schedule;
      }
    }
  }
}

// Tiles are as wide as leaves no rest of what is written, where that is whole vectors.
TEST(RowsCpu, TilesOfTranspositionsLeaveNoRest) {
  const Target target = *Target::Parse("x86_64 -mcpu=znver4 -num-threads=2");
  for (const auto& [channels, tile] : {std::pair(64, 64), {96, 32}, {80, 16}, {48, 16}, {50, 64}}) {
    const std::string last = Cat("f32[8,56,56,", channels, "]"), first = Cat("f32[8,", channels, ",56,56]");
    const auto group =
        GroupOf(Cat("graph @g(%x: ", last, ", %y: ", first, ") {\n  %0 = transpose(%y) {perm=[0,2,3,1]} : ", last,
                    "\n  %1 = add(%0, %x) : ", last, "\n  return %1\n}\n"),
                target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->proposal.tactic, "rows_cpu");
    EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, Cat("fuse l_i3 -> v_1\nsplit v_1 ", tile, " -> ")))
        << channels << "\n"
        << choice->proposal.schedule;
  }
}

// Lines that are whole numbers of parts of vectors are turned by those.
TEST(RowsCpu, PartsOfVectorsAreTurned) {
  const Target target = *Target::Parse("x86_64 -mcpu=znver4 -num-threads=2");
  for (const auto& [line, lanes] : {std::pair(1024, 16), {1000, 8}, {996, 4}, {997, 0}}) {
    const auto group = GroupOf(Cat("graph @g(%x: f32[300,", line, "]) {\n  %0 = transpose(%x) {perm=[1,0]} : f32[",
                                   line, ",300]\n  return %0\n}\n"),
                               target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    const std::string& schedule = choice->proposal.schedule;
    EXPECT_EQ(absl::StrContains(schedule, "tensorize l transpose"), lanes > 0) << line << "\n" << schedule;
    if (lanes > 0) {
      EXPECT_TRUE(absl::StrContains(schedule, Cat("split x ", lanes, " -> v l"))) << line << "\n" << schedule;
    }
  }
}

// Copies are written as many vectors at a time as was fastest on the machine's class.
TEST(RowsCpu, CopiesAreAsWideAsTheirMachineLikes) {
  for (const auto& [cpu, width] : {std::pair("znver4", 16), {"skylake-avx512", 16}, {"sapphirerapids", 64}}) {
    const Target target = *Target::Parse(Cat("x86_64 -num-threads=2 -mcpu=", cpu));
    const auto group = GroupOf(
        "graph @g(%x: f32[512,512]) {\n  %0 = transpose(%x) {perm=[1,0]} : f32[512,512]\n"
        "  %1 = relu(%0) : f32[512,512]\n  return %1\n}\n",
        target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, Cat("split v_1 ", width, " -> ")))
        << cpu << "\n"
        << choice->proposal.schedule;
  }
}

// Long columns that are read once are summed of as few vectors of a row at a time as was fastest on the machine's
// class; short ones, and what goes through them again, of as many as have sums in registers.
TEST(RowsCpu, ChunksOfLongColumnsAreAsWideAsTheirMachineLikes) {
  const auto sum = [](const std::string& type, const std::string& result) {
    return Cat("graph @g(%x: ", type, ") {\n  %0 = mul(%x, %x) : ", type,
               "\n  %1 = reduce_sum(%0) {axes=[0], keepdims=false} : ", result, "\n  return %1\n}\n");
  };
  const std::string again =
      "graph @g(%x: f32[4096,1024]) {\n  %0 = softmax(%x) {axis=0} : f32[4096,1024]\n  return %0\n}\n";
  const struct {
    const char* cpu;
    std::string text;
    int vectors;
  } cases[] = {{"znver5", sum("f32[4096,1024]", "f32[1024]"), 16},
               {"sapphirerapids", sum("f32[4096,1024]", "f32[1024]"), 4},
               {"sapphirerapids", sum("bf16[4096,1024]", "bf16[1024]"), 8},
               {"sapphirerapids", sum("f32[49,2048]", "f32[2048]"), 16},
               {"sapphirerapids", again, 16}};
  for (const auto& [cpu, text, vectors] : cases) {
    const Target target = *Target::Parse(Cat("x86_64 -num-threads=1 -mcpu=", cpu));
    const auto group = GroupOf(text, target);
    ASSERT_TRUE(group.ok()) << group.status();
    Point point;
    const auto proposals = ProposeRowsCpu(*group, target, Until::kSchedule, point);
    ASSERT_TRUE(proposals.ok()) << proposals.status();
    EXPECT_TRUE(absl::StrContains(point.text(), Cat("vectors=", vectors, " "))) << cpu << "\n" << text << point.text();
  }
}

// Rows whose every step is a line of its own, from beyond the caches, are waited for where these are far away: the
// other operand's are taken, or they are copied.
TEST(MatmulCpu, RowsThatNobodyFetchesAheadHaveAPrice) {
  const std::string strided =
      "graph @g(%x: f32[1,256,56,56], %w: f32[512,256,1,1]) {\n  %0 = conv(%x, %w) {stride=[2, 2], padding=[0, 0], "
      "dilation=[1, 1], groups=1} : f32[1,512,28,28]\n  return %0\n}\n";
  const std::string turned =
      "graph @g(%x: f32[512,2048], %y: f32[512,512]) {\n  %0 = transpose(%x) {perm=[1,0]} : f32[2048,512]\n"
      "  %1 = matmul(%0, %y) : f32[2048,512]\n  return %1\n}\n";
  const auto propose = [](const std::string& text, const std::string& cpu) {
    const Target target = *Target::Parse(Cat("x86_64 -num-threads=1 -mcpu=", cpu));
    const auto group = GroupOf(text, target);
    EXPECT_TRUE(group.ok()) << group.status();
    Point point;
    const auto proposals = ProposeMatmulCpu(*group, target, Until::kPrice, point);
    EXPECT_TRUE(proposals.ok() && proposals->size() == 1) << proposals.status();
    return point.text();
  };
  EXPECT_TRUE(absl::StrContains(propose(strided, "znver5"), "swap=1"));
  EXPECT_TRUE(absl::StrContains(propose(strided, "sapphirerapids"), "swap=0"));
  EXPECT_FALSE(absl::StrContains(propose(turned, "znver5"), "copy_rows=1"));
  EXPECT_TRUE(absl::StrContains(propose(turned, "sapphirerapids"), "copy_rows=1"));
}

// Ends of lines that are reflected, repeated or joined are loops of their own; an element that lies in several results
// is read as few times as vectors have it.
TEST(RowsCpu, WhatEndsAskIsNotAskedOfTheMiddle) {
  const Target target = *Target::Parse("x86_64 -mcpu=znver4 -num-threads=2");
  const std::string bent =
      "graph @g(%x: f32[300,56]) {\n  %i = iota() {dtype=i64, shape=[60], axis=0} : i64[60]\n"
      "  %two = full() {value=2, dtype=i64, shape=[]} : i64[]\n  %j = sub(%i, %two) : i64[60]\n"
      "  %zero = full() {value=0, dtype=i64, shape=[]} : i64[]\n  %k = maximum(%j, %zero) : i64[60]\n"
      "  %most = full() {value=55, dtype=i64, shape=[]} : i64[]\n  %at = minimum(%k, %most) : i64[60]\n"
      "  %t = transpose(%x) {perm=[1,0]} : f32[56,300]\n  %g = gather(%t, %at) {axis=0} : f32[60,300]\n"
      "  %y = transpose(%g) {perm=[1,0]} : f32[300,60]\n  return %y\n}\n";
  const std::string wrapped =
      "graph @g(%x: f32[n,56]) where n in 1..4096 {\n  %a = slice(%x) {axis=1, begin=54, end=56} : f32[n,2]\n"
      "  %b = slice(%x) {axis=1, begin=0, end=2} : f32[n,2]\n  %y = concat(%a, %x, %b) {axis=1} : f32[n,60]\n"
      "  return %y\n}\n";
  const std::string rolled =
      "graph @g(%x: f32[n,m]) where n in 1..4096 hint 64, m in 2..4096 hint 250 {\n  %i = iota() {shape=[m]} : i64[m]\n"
      "  %one = full() {value=1, dtype=i64} : i64[]\n  %j = sub(%i, %one) : i64[m]\n"
      "  %e = iota() {shape=[m+1]} : i64[m+1]\n  %l = slice(%e) {axis=0, begin=m, end=m+1} : i64[1]\n"
      "  %k = mod(%j, %l) : i64[m]\n  %a = gather(%x, %k) {axis=1} : f32[n,m]\n"
      "  %y = add(%x, %a) : f32[n,m]\n  return %y\n}\n";
  const std::string repeated =
      "graph @g(%x: f32[512,512,1]) {\n  %a = broadcast_to(%x) {shape=[512,512,3]} : f32[512,512,3]\n"
      "  %y = reshape(%a) {shape=[512,1536]} : f32[512,1536]\n  return %y\n}\n";
  for (const auto& [graph, steps] :
       {std::pair<std::string, std::vector<std::string>>{bent, {"peel v front 2 -> end\n", "peel v back 3 -> end_1\n"}},
        {wrapped, {"peel v front 2 -> end\n", "peel v back 2 -> end_1\n"}},
        {rolled, {"peel v front 1 -> end\n"}},
        {repeated, {"split v 3 16 -> vo vc vi\n", "unroll vc\n"}}}) {
    const auto group = GroupOf(graph, target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    for (const std::string& step : steps)
      EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, step)) << step << choice->proposal.schedule;
    EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
  }
}

// Few rows read a matrix of columns in long runs, and leave tiles for all cores.
TEST(MatmulCpu, FewRowsHaveWideTiles) {
  for (const auto& [threads, rows, tile] : {std::tuple(2, 1, 352), {2, 4, 112}, {2, 14, 32}, {64, 1, 32}}) {
    const Target target = *Target::Parse(Cat("x86_64 -mcpu=znver4 -num-threads=", threads));
    const auto group =
        GroupOf(Cat("graph @g(%x: f32[", rows, ",2048], %w: f32[2048,2048]) {\n  %0 = matmul(%x, %w) : f32[", rows,
                    ",2048]\n  return %0\n}\n"),
                target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, Cat("split l_oj ", tile, " -> jo ji\n")))
        << threads << " threads, " << rows << " rows: " << choice->proposal.schedule;
  }
}

// Channels of an image that are read under a mask are copied as they lie, then change places.
TEST(MatmulCpu, LinesUnderMasksAreCopied) {
  const Target target = *Target::Parse("x86_64 -mcpu=znver5 -num-threads=1");
  const auto group = GroupOf(
      "graph @g(%x: f32[1,56,56,64], %w: f32[64,64,3,3]) {\n  %a = transpose(%x) {perm=[0,3,1,2]} : f32[1,64,56,56]\n"
      "  %y = conv(%a, %w) {padding=[1,1]} : f32[1,64,56,56]\n  return %y\n}\n",
      target);
  ASSERT_TRUE(group.ok()) << group.status();
  const StatusOr<Choice> choice = ChooseSchedule(*group, target);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, "define lines[")) << choice->proposal.schedule;
  EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, "tensorize pc transpose")) << choice->proposal.schedule;
  EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
}

// What operands are computed of is read where panels are made: of any rows, no weight is written as it is multiplied.
TEST(MatmulCpu, ComputesOperandsOnTheWayIn) {
  const PassContext context{.options = {}, .target = *Target::Parse("x86_64 -num-threads=2 -mcpu=znver5"), .name = "t"};
  for (const char* type : {"f32", "bf16", "f16"}) {
    for (const char* rows : {"8", "16", "128", "n"}) {
      const std::string w = Cat(type, "[640,512]"), y = Cat(type, "[", rows, ",640]");
      const StatusOr<Graph> graph =
          Parse(Cat("graph @g(%x: ", type, "[", rows, ",512], %w: i8[640,512], %s: ", type, "[640,1])",
                    rows[0] == 'n' ? " where n in 1..4096" : "", " {\n  %0 = cast(%w) {dtype=", type, "} : ", w,
                    "\n  %1 = mul(%0, %s) : ", w, "\n  %2 = transpose(%1) {perm=[1,0]} : ", type, "[512,640]\n",
                    "  %3 = matmul(%x, %2) : ", y, "\n  return %3\n}\n"));
      ASSERT_TRUE(graph.ok()) << graph.status();
      const StatusOr<LoweredGraph> lowered = LowerGraph(*graph, context);
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      ASSERT_EQ(lowered->kernels.size(), 1) << type << " " << rows;
      const StatusOr<Choice> choice = ChooseSchedule(lowered->kernels[0].group, context.target);
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_EQ(choice->proposal.tactic, "matmul_cpu") << type << " " << rows;
      EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, "\ntensorize l_raw_1_1 transpose\n"))
          << choice->proposal.schedule;
      EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
    }
  }
}

// Threads next to each other have windows next to each other; rows that follow one another they share.
// Blocks of a line that is digits of many dimensions write elements of their own, whatever these are multiples of.
TEST(RowsGpu, ElementsOfManyDimensionsAreOneLine) {
  const Target target = *Target::Parse("cuda -arch=sm_90a");
  constexpr const char* kShapes[][2] = {{"16,64,16,112,112", "64,1,1,1"},    {"20,10,12,32,10,48", "10,1,1,1,1"},
                                        {"14,2,16,128,20,112", "2,1,1,1,1"}, {"4,6,24,8,48", "6,1,1,1"},
                                        {"2,1,224,3,224", "224,1,1"},        {"10,112,4,2,15,24", "112,1,1,1,1"},
                                        {"6,100,28,64,96", "100,1,1,1"},     {"12,28,5,96,16,56", "28,1,1,1,1"}};
  for (const auto& [shape, row] : kShapes) {
    for (const char* dtype : {"f32", "bf16"}) {
      const auto group = GroupOf(
          Cat("graph @g(%x: ", dtype, "[", shape, "], %w: ", dtype, "[", row, "]) {\n  %0 = mul(%x, %w) : ", dtype, "[",
              shape, "]\n  %1 = relu(%0) : ", dtype, "[", shape, "]\n  return %1\n}\n"),
          target);
      ASSERT_TRUE(group.ok()) << group.status();
      const StatusOr<Choice> choice = ChooseSchedule(*group, target);
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_EQ(choice->proposal.tactic, "rows_gpu") << shape << " " << dtype;
    }
  }
}

TEST(RowsGpu, ThreadsHaveWindowsOfTheirOwn) {
  const Target target = *Target::Parse("cuda -arch=sm_90a");
  constexpr char kWindow[] = "{kernel=[3,3], stride=[2,2], padding=[1,1]} : f32[8,64,28,28]";
  for (const auto& [reduced, own] : {std::pair(Cat("%0 = avg_pool(%x) ", kWindow), true),
                                     {Cat("%0, %1 = max_pool(%x) ", kWindow, ", i64[8,64,28,28]"), true},
                                     {std::string("%0 = reduce_sum(%x) {axes=[3]} : f32[8,64,56]"), false}}) {
    const auto group = GroupOf(Cat("graph @g(%x: f32[8,64,56,56]) {\n  ", reduced, "\n  return %0\n}\n"), target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->proposal.tactic, "rows_gpu");
    EXPECT_EQ(absl::StrContains(choice->proposal.schedule, "threadIdx.y"), !own) << choice->proposal.schedule;
  }
}

// Columns whose lengths memory says: where they fill a quarter of a device each is a thread's, which has 16 bytes of a
// row.
TEST(RowsGpu, ColumnsEndInMemory) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132");
  constexpr char kGraph[] = R"(graph @g(%x: bf16[ROWS,64,256], %length: i64[ROWS,1]) {
    %i = iota() {dtype=i64, shape=[ROWS,64], axis=1} : i64[ROWS,64]
    %inside = CONDITION(%i, %length) : bool[ROWS,64]
    %mask = reshape(%inside) {shape=[ROWS,64,1]} : bool[ROWS,64,1]
    %zero = full() {value=0.0, dtype=bf16, shape=[]} : bf16[]
    %y = select(%mask, %x, %zero) : bf16[ROWS,64,256]
    %z = reduce_sum(%y) {axes=[1]} : bf16[ROWS,256]
    return %z
  })";
  for (const auto& [rows, condition, own] :
       {std::tuple("8192", "lt", true), {"64", "lt", false}, {"8192", "gt", false}}) {
    const auto group = GroupOf(absl::StrReplaceAll(kGraph, {{"ROWS", rows}, {"CONDITION", condition}}), target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(absl::StrContains(choice->proposal.schedule, "vectorize"), own) << choice->proposal.schedule;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Bidding, testing::Values("cpu", "cuda -arch=sm_90a"),
                         [](const auto& info) { return std::string(info.index == 0 ? "Cpu" : "Gpu"); });

// Rows of several dimensions lie in registers as one line, whatever is computed of them again, and of symbolic sizes.
TEST(RowsGpu, RowsOfSeveralDimensionsStayInRegisters) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=4800");
  const char* symbols = " where n in 2..64 hint 64, h in 2..8 hint 7, w in 2..8 hint 7, c in 2..100000 hint 2048";
  for (const auto& [shape, axes, kept, value] : {std::tuple("32,65,50,57", "0,2,3", "1,65,1,1", "tanh"),
                                                 {"n,h,w,c", "0,1,2", "1,1,1,c", "neg"},
                                                 {"c,n,h,w", "1,2,3", "c,1,1,1", "neg"}}) {
    const auto group = GroupOf(
        absl::StrReplaceAll("graph @f(%x: f16[S])W {\n  %0 = cast(%x) {dtype=f32} : f32[S]\n  %1 = V(%0) : f32[S]\n"
                            "  %2 = add(%1, %0) : f32[S]\n  %3 = reduce_mean(%2) {axes=[A], keepdims=true} : f32[K]\n"
                            "  %4 = sub(%2, %3) : f32[S]\n  %5 = square(%4) : f32[S]\n"
                            "  %6 = reduce_mean(%5) {axes=[A], keepdims=true} : f32[K]\n"
                            "  %7 = mul(%4, %6) : f32[S]\n  return %7\n}\n",
                            {{"[S]", Cat("[", shape, "]")},
                             {"[K]", Cat("[", kept, "]")},
                             {"[A]", Cat("[", axes, "]")},
                             {"W", absl::StrContains(shape, "n") ? symbols : ""},
                             {"V(", Cat(value, "(")}}),
        target);
    ASSERT_TRUE(group.ok()) << group.status();
    const StatusOr<Choice> choice = ChooseSchedule(*group, target, [&](const Proposal& p) {
      return ir::LowerKernel(p.func, {.options = {}, .target = target, .name = "test"}).status();
    });
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
    EXPECT_TRUE(absl::StrContains(choice->proposal.schedule, "transform_layout row0[")) << choice->proposal.schedule;
  }
}

// Parts of a mean and a variance over the first axis are one kernel, whose two sums threads share.
TEST(RowsGpu, MomentsOfColumnsInOneGo) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=4800");
  const StatusOr<LoweredGraph> lowered = Lower(
      "graph @f(%x: f32[4096,1024]) {\n  %0 = reduce_mean(%x) {axes=[0], keepdims=true} : f32[1,1024]\n"
      "  %1 = sub(%x, %0) : f32[4096,1024]\n  %2 = square(%1) : f32[4096,1024]\n"
      "  %3 = reduce_mean(%2) {axes=[0]} : f32[1024]\n  return %3\n}\n",
      target);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  int read = 0;
  for (const LoweredGraph::Kernel& k : lowered->kernels) {
    read += std::any_of(k.group.params.begin(), k.group.params.end(), [](const ir::Param& p) {
      return p.buffer != nullptr && p.buffer->shape.size() == 2 && ir::IsInt(p.buffer->shape[0], 4096);
    });
    const StatusOr<Choice> choice = ChooseSchedule(k.group, target, [&](const Proposal& p) {
      return ir::LowerKernel(p.func, {.options = {}, .target = target, .name = "test"}).status();
    });
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
  }
  EXPECT_EQ(read, 1);
}

// However long the sizes are that its arguments speak of: a convolution of one place, of an image of symbolic sizes
// after others of stride 2.
TEST(Tactics, LibraryCallsOfLongSizes) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -libs=cublas -sm-count=132 -bandwidth=3350");
  const std::string size = "(n+31)/32,(m+31)/32";
  const StatusOr<LoweredGraph> lowered =
      Lower(Cat("graph @f(n: i64, m: i64, %x: f32[b,672,", size,
                "], %w: f32[160,672,1,1]) where b in 2..4096 hint 8, n in 2..8192 hint "
                "224, m in 2..8192 hint 160 {\n  %0 = conv(%x, %w) : f32[b,160,",
                size, "]\n  return %0\n}\n"),
            target);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  for (const LoweredGraph::Kernel& k : lowered->kernels) {
    const StatusOr<Choice> choice = ChooseSchedule(k.group, target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->proposal.tactic, "matmul_library");
    EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
  }
}

// Products and convolutions round their operands as the caller allows each.
TEST(Tactics, RoundingOfProductsAndOfConvolutions) {
  const std::string product =
      "graph @f(%x: f32[512,256], %w: f32[256,1024]) {\n  %0 = matmul(%x, %w) : f32[512,1024]\n  return %0\n}\n";
  const std::string convolution =
      "graph @f(%x: f32[8,256,28,28], %w: f32[128,256,1,1]) {\n  %0 = conv(%x, %w) : f32[8,128,28,28]\n  return "
      "%0\n}\n";
  for (const bool products : {false, true}) {
    for (const bool convolutions : {false, true}) {
      const Target target =
          *Target::Parse(Cat("cuda -arch=sm_90a -libs=cublas -sm-count=132 -bandwidth=3350 -allow-tf32=", products,
                             " -allow-tf32-convolutions=", convolutions));
      for (const std::string& text : {product, convolution}) {
        const StatusOr<ir::TeProgram> group = GroupOf(text, target);
        ASSERT_TRUE(group.ok()) << group.status();
        const StatusOr<Choice> choice = ChooseSchedule(*group, target);
        ASSERT_TRUE(choice.ok()) << choice.status();
        const std::string& schedule = choice->proposal.schedule;
        const size_t begin = schedule.find("cinn_cublaslt_matmul(");
        ASSERT_NE(begin, std::string::npos) << schedule;
        EXPECT_EQ(MatmulSpec::Decode(std::stoll(schedule.substr(begin + 21)))->allow_tf32,
                  text == product ? products : convolutions);
      }
    }
  }
}

}  // namespace
}  // namespace cinn_like::hlir
