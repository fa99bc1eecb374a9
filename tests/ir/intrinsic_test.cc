// Instructions of devices: nests that are one, nests that are not, and rows that can't be.
#include "ir/intrinsic.h"

#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "ir/lower.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

// y = y + x * v, by four rows of four.
const Intrinsic& Mv4() {
  static const Intrinsic row{"mv4", R"(func @mv4() {
  alloc y: f32[4] @local
  alloc x: bf16[4, 4] @shared
  alloc v: f32[4] @global
  for i in 0..4 {
    for k in 0..4 {
      y[i] = y[i] + f32(x[i, k]) * v[k]
    }
  }
}
)",
                             "mv4($y, $x, $x.0, $v);", 1e-9};
  return row;
}

// The nest stands in a kernel's blocks; `text` is what it stores.
std::string Kernel(std::string_view store, std::string_view kind = "") {
  return Cat(R"(func @f(v: f32[64], y: f32[16]) {
  alloc acc: f32[8, 4] @local
  alloc p: bf16[4, 32] @shared
  alloc q: bf16[32, 4] @shared
  alloc h: f32[32] @shared
  for b in 0..4 @blockIdx.x {
    for j in 0..4)",
             kind, R"( {
      for l in 0..4 {
        )",
             store, R"(
      }
    }
  }
}
)");
}

// The operands, or what is wrong.
std::string Match(const Func& f, const Intrinsic& row = Mv4()) {
  const StmtPath path = *FindLoop(f, "j");
  Analyzer a(*f.context);
  std::vector<const For*> around = LoopsOf(path);
  around.pop_back();
  BindFacts(a, f, around);
  const StatusOr<std::vector<IntrinsicOperand>> r = MatchIntrinsic(a, *As<For>(path.back()), row);
  if (!r.ok()) return Message(r.status());
  std::string text;
  for (const IntrinsicOperand& x : *r) {
    text += Cat(text.empty() ? "" : ", ", x.name, " = ", x.buffer->name, " + ", Print(x.base), " by");
    for (int64_t pitch : x.pitches) text += Cat(" ", pitch);
  }
  return text;
}
std::string MatchStore(std::string_view store) {
  const StatusOr<Func> f = ParseFunc(Kernel(store));
  EXPECT_TRUE(f.ok()) << f.status();
  return f.ok() ? Match(*f) : "";
}

TEST(Intrinsic, WhereItsOperandsLie) {
  EXPECT_TRUE(CheckIntrinsic(Mv4()).ok()) << CheckIntrinsic(Mv4());
  EXPECT_EQ(MatchStore("acc[b, j] = acc[b, j] + f32(p[j, l + b * 4]) * v[b * 16 + l]"),
            "y = acc + b * 4 by 1, x = p + b * 4 by 32 1, v = v + b * 16 by 1");
  // Sums and products in the other order.
  EXPECT_EQ(MatchStore("acc[b, j] = v[4 + l] * f32(p[j, l + 4]) + acc[b, j]"),
            "y = acc + b * 4 by 1, x = p + 4 by 32 1, v = v + 4 by 1");
}

TEST(Intrinsic, WhatItIsNot) {
  EXPECT_EQ(
      MatchStore("acc[b, l] = acc[b, l] + f32(p[j, l]) * v[l]"),
      "intrinsic mv4: loop j: expected operand y to move along its own loops alone, from element to element along "
      "the last, got acc at l + b * 4");
  EXPECT_EQ(
      MatchStore("acc[b, j] = acc[b, j] + f32(q[l, j]) * v[l]"),
      "intrinsic mv4: loop j: expected operand x to move along its own loops alone, from element to element along "
      "the last, got q at j + l * 4");
  EXPECT_EQ(
      MatchStore("acc[b, j] = acc[j, b] + f32(p[j, l]) * v[l]"),
      "intrinsic mv4: loop j: expected operand y to move along its own loops alone, from element to element along "
      "the last, got acc at b + j * 4");
  EXPECT_EQ(MatchStore("acc[b, j] = acc[b + 1, j] + f32(p[j, l]) * v[l]"),
            "intrinsic mv4: loop j: expected operand y at one place, got acc and acc at j + (b + 1) * 4");
  EXPECT_EQ(MatchStore("acc[b, j] = acc[b, j] + f32(p[j, l]) * h[l]"),
            "intrinsic mv4: loop j: expected operand v of f32 in global memory, got h: f32 @shared");
  EXPECT_EQ(MatchStore("acc[b, j] = max(acc[b, j], v[l])"),
            "intrinsic mv4: loop j: expected y[i] + f32(x[i, k]) * v[k], got max(acc[b, j], v[l])");
  EXPECT_EQ(
      MatchStore("acc[b, j] = acc[b, j] + f32(p[j, l]) * v[l / 2]"),
      "intrinsic mv4: loop j: expected operand v to move along its own loops alone, from element to element along "
      "the last, got v at l / 2");
  std::string other = Kernel("acc[b, j] = acc[b, j] + f32(p[j, l]) * v[l]");
  absl::StrReplaceAll({{"l in 0..4", "l in 0..3"}}, &other);
  EXPECT_EQ(Match(*ParseFunc(other)), "intrinsic mv4: loop j: expected a nest of 4, 4 iterations, got 4, 3");
}

TEST(Intrinsic, WritesMemoryOfItsOwn) {
  const Intrinsic shift{"shift", R"(func @shift() {
  alloc to: f32[4] @local
  alloc from: f32[4] @local
  for i in 0..4 {
    to[i] = from[i]
  }
}
)",
                        "shift($to, $from);", 1e-9};
  ASSERT_TRUE(CheckIntrinsic(shift).ok()) << CheckIntrinsic(shift);
  const Func f = *ParseFunc("func @f() {\n  alloc a: f32[5] @local\n  for j in 0..4 {\n    a[j + 1] = a[j]\n  }\n}\n");
  EXPECT_EQ(Match(f, shift), "intrinsic shift: loop j: expected operand from in other memory than a, which is written");
}

TEST(Intrinsic, WhatItWritesLiesApart) {
  const Intrinsic fill{"fill", R"(func @fill() {
  alloc to: f32[4, 4] @local
  for i in 0..4 {
    for j in 0..4 {
      to[i, j] = 1.0
    }
  }
}
)",
                       "fill($to, $to.0);", 1e-9};
  ASSERT_TRUE(CheckIntrinsic(fill).ok()) << CheckIntrinsic(fill);
  for (const auto& [place, expected] :
       {std::pair("j * 4 + k", "to = a + 0 by 4 1"),
        {"j * 5 + k + 2", "to = a + 2 by 5 1"},
        {"j * 3 + k",
         "intrinsic fill: loop j: expected elements of operand to, which is written, in places of their own"},
        {"k", "intrinsic fill: loop j: expected elements of operand to, which is written, in places of their own"}}) {
    const StatusOr<Func> f =
        ParseFunc(Cat("func @f() {\n  alloc a: f32[64] @local\n  for j in 0..4 {\n    for k in 0..4 {\n", "      a[",
                      place, "] = 1.0\n    }\n  }\n}\n"));
    ASSERT_TRUE(f.ok()) << f.status();
    EXPECT_EQ(Match(*f, fill), expected);
  }
}

TEST(Intrinsic, RowsThatAreNone) {
  const auto error = [](std::vector<std::pair<absl::string_view, absl::string_view>> changes) {
    Intrinsic row = Mv4();
    absl::StrReplaceAll(changes, &row.meaning);
    return Message(CheckIntrinsic(row));
  };
  EXPECT_EQ(error({{"alloc v: f32[4]", "alloc v: f32[5]"}}),
            "intrinsic 'mv4': operand v has 5 elements along dimension 0, its loop goes over 4");
  EXPECT_EQ(error({{"* v[k]", "* v[3 - k]"}}),
            "intrinsic 'mv4': expected operand v at a loop of its own for each dimension, got 3 - k");
  EXPECT_EQ(error({{"* v[k]", "* 2.0"}}), "intrinsic 'mv4': operand v is used nowhere");
  EXPECT_EQ(error({{"  alloc y: f32[4] @local\n", ""}, {"@mv4()", "@mv4(y: f32[4])"}}),
            "intrinsic 'mv4': expected a function without parameters that is one nest of loops");
  EXPECT_EQ(error({{"for k in 0..4 {", "for k in 0..4 @parallel {"}}),
            "intrinsic 'mv4': loop i: expected loops of constant extents inside, got k");
  Intrinsic row = Mv4();
  row.text = "";
  EXPECT_EQ(Message(CheckIntrinsic(row)), "intrinsic 'mv4': it has no text");
}

// In schedules and loops it is a kind of loop, which only a device can confirm.
TEST(Intrinsic, IsAKindOfLoop) {
  const std::string plain = Kernel("acc[b, j] = acc[b, j] + f32(p[j, l]) * v[l]"),
                    marked = Kernel("acc[b, j] = acc[b, j] + f32(p[j, l]) * v[l]", " @intrinsic.mv4");
  const StatusOr<Func> f = ApplySchedule(*ParseFunc(plain), "tensorize j intrinsic.mv4");
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_EQ(Print(*f), marked);
  EXPECT_EQ(Print(*ParseFunc(marked)), marked);
  EXPECT_EQ(Message(ApplySchedule(*ParseFunc(plain), "tensorize j mv4").status()),
            "step 'tensorize j mv4': tensorize j: expected mma_m16n8k16, wgmma_m64k16, dot2_bf16, dot4_i8, transpose, "
            "tensor_copy or intrinsic.NAME and got 'mv4'");
  EXPECT_EQ(Message(ApplySchedule(*ParseFunc(plain), "tensorize b intrinsic.mv4").status()),
            "step 'tensorize b intrinsic.mv4': intrinsic.mv4 b: the loop is already blockIdx.x");

  DeviceKind kind;
  kind.name = "mine";
  EXPECT_EQ(Message(CheckIntrinsics(*f, kind)),
            "function f: loop j: device 'mine' has no intrinsic 'mv4'; it has none");
  kind.intrinsics = {Mv4()};
  EXPECT_TRUE(CheckIntrinsics(*f, kind).ok()) << CheckIntrinsics(*f, kind);
  kind.intrinsics[0].name = "mv5";
  EXPECT_EQ(Message(CheckIntrinsics(*f, kind)), "function f: loop j: device 'mine' has no intrinsic 'mv4'; it has mv5");
  // Nobody lowers it for a device that has it not.
  EXPECT_EQ(Message(LowerKernel(*f, {{}, *Target::Parse("cuda"), "f"}).status()),
            "function f: loop j: device 'cuda' has no intrinsic 'mv4'; it has none");
}

}  // namespace
}  // namespace cinn_like::ir
