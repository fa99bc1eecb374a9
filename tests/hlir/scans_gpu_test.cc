// Scans on a GPU: which threads go along them, and that any that could gives what loops as they stand do.
#include <gtest/gtest.h>

#include <random>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactics.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "tests/hlir/group.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

// `x` has "n" where it is symbolic. Each result is an element of what runs.
std::string GraphOf(const std::string& op, const std::string& t, const std::string& shape, int axis, bool is_read,
                    int64_t hint) {
  const std::string type = Cat(t, "[", shape, "]"), places = op == "cummax" ? Cat(", i64[", shape, "]") : "";
  return Cat("graph @scan(%x: ", type, ")",
             absl::StrContains(shape, "n") ? Cat(" where n in 1..65536 hint ", hint) : "", " {\n  %0",
             places.empty() ? "" : ", %1", " = ", op, "(%x) {axis=", axis, "} : ", type, places,
             is_read ? Cat("\n  %2 = neg(%0) : ", type) : "", "\n  return ", is_read ? "%2" : "%0",
             places.empty() ? "" : ", %1", "\n}\n");
}

// Threads alone and together, any columns of a block, any elements of a thread, on devices with warps and without.
TEST(ScansGpu, AnyPointScans) {
  std::mt19937 rng(5);
  struct {
    const char *op, *type, *shape;
    int axis;
    int64_t n;
  } cases[] = {{"cumsum", "f32", "300,70", 0, 0}, {"cumsum", "i64", "5,200,3", 1, 0},
               {"cummax", "f32", "130,9", 0, 0},  {"cumsum", "bf16", "n,20", 0, 150},
               {"cumsum", "f32", "90,n", 0, 33},  {"cumprod", "f64", "3,n,4", 1, 65},
               {"cummax", "i32", "2,70,n", 1, 5}, {"cumsum", "i32", "1000,2", 0, 0},
               {"cumsum", "f32", "4,129", 1, 0},  {"cummax", "f32", "2,3,64,17", 2, 0}};
  for (const char* text : {"cuda -arch=sm_90a", "opencl"}) {
    const Target target = *Target::Parse(text);
    int alone = 0, together = 0;
    for (const auto& c : cases) {
      const bool is_read = rng() % 2 == 0;
      const auto group = GroupOf(GraphOf(c.op, c.type, c.shape, c.axis, is_read, 1 + c.n / 2), target);
      ASSERT_TRUE(group.ok()) << group.status();
      std::vector<ir::HostArray> arrays;
      const auto fill = [&] {
        arrays.clear();
        for (const ir::Param& p : group->params) {
          if (p.buffer == nullptr) continue;
          std::vector<int64_t> dims;
          for (const ir::Expr e : p.buffer->shape) dims.push_back(ir::IsInt(e) ? e->int_value : c.n);
          ir::HostArray& a = arrays.emplace_back(p.buffer->dtype, dims);
          // Sums of these are exact, products of them, too.
          for (int64_t i = 0; i < a.NumElements() && p.role != ir::ParamRole::kResult; ++i)
            a.Set(i, static_cast<double>((i * 37 + 11) % (c.op[3] == 'p' ? 2 : 4)) * 2 - 1);
        }
      };
      const auto run = [&](const ir::Func& f) {
        fill();
        std::vector<ir::InterpretArg> args;
        for (ir::HostArray& a : arrays) args.emplace_back(&a);
        while (args.size() < f.params.size()) args.emplace_back(c.n);
        absl::flat_hash_map<std::string, int64_t> symbols;
        if (c.n > 0) symbols["n"] = c.n;
        return ir::Interpret(f, args, symbols, {.limits = target.Limits()});
      };
      const Status plain = run(*ir::ToLoops(*group));
      ASSERT_TRUE(plain.ok()) << plain;
      const std::vector<ir::HostArray> expected = arrays;
      for (int seed = 0; seed < Rounds(8); ++seed) {
        Point point = Point::Random(rng());
        const auto proposals = ProposeScansGpu(*group, target, Until::kSchedule, point);
        ASSERT_TRUE(proposals.ok()) << proposals.status();
        const Proposal& p = proposals->at(0);
        const auto lowered = ir::LowerKernel(p.func, {.options = {}, .target = target, .name = "test"});
        ASSERT_TRUE(lowered.ok()) << lowered.status() << p.schedule;
        const Status ran = run(*lowered);
        ASSERT_TRUE(ran.ok()) << ran << p.schedule;
        for (size_t k = 0; k < arrays.size(); ++k)
          ASSERT_EQ(arrays[k].bytes, expected[k].bytes) << c.op << " " << c.shape << p.schedule;
        ++(absl::StrContains(p.schedule, "threadIdx.y") ? together : alone);
      }
    }
    EXPECT_GT(alone, 0);
    EXPECT_GT(together, 0);
  }
}

// Threads of a column wait for each other: few of them do who have many columns, or few rows.
TEST(ScansGpu, ColumnsAreSharedWhereThatPays) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=3350");
  struct {
    const char* shape;
    int axis;
    int64_t hint;
    bool shared;
  } cases[] = {{"4096,16384", 0, 0, true}, {"1024,1024", 0, 0, true},  {"8,512,128", 1, 0, true},
               {"4096,64", 0, 0, true},    {"1000000,4", 0, 0, true},  {"n,1024", 0, 4096, true},
               {"4096,n", 0, 64, true},    {"8,1000000", 0, 0, false}, {"512,1000000", 0, 0, false},
               {"5,3", 0, 0, false},       {"n,65536", 0, 8, false}};
  for (const auto& c : cases) {
    const auto group = GroupOf(GraphOf("cumsum", "f32", c.shape, c.axis, false, c.hint), target);
    ASSERT_TRUE(group.ok()) << group.status();
    Point point;
    const auto proposals = ProposeScansGpu(*group, target, Until::kSchedule, point);
    ASSERT_TRUE(proposals.ok()) << proposals.status();
    EXPECT_EQ(absl::StrContains(proposals->at(0).schedule, "threadIdx.y"), c.shared) << c.shape << "\n"
                                                                                     << proposals->at(0).schedule;
    Point priced;
    EXPECT_EQ(ProposeScansGpu(*group, target, Until::kPrice, priced)->at(0).seconds, proposals->at(0).seconds);
  }
}

}  // namespace
}  // namespace cinn_like::hlir
