// Loop text and a schedule to functions (cinn_like/module_driver.h), and what of it the C API gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "absl/strings/match.h"
#include "cinn_like/c_api.h"
#include "cinn_like/module_driver.h"
#include "ir/te.h"
#include "runtime/last_error.h"
#include "runtime/library.h"

namespace cinn_like {
namespace {

constexpr char kScale[] = R"(func @scale(x: f32[n], y: f32[n] out) where n in 1..4096 {
  for l_i in 0..n {
    block b_y(i in 0..n = l_i) {
      y[i] = x[i] * 2.0
    }
  }
}
)";
constexpr char kSplit[] = "split l_i 8 -> a b\nparallel a\nvectorize b";

StatusOr<std::unique_ptr<CompiledFunction>> Lower(const std::string& text, const std::string& schedule = "",
                                                  const std::string& target = "cpu") {
  ASSIGN_OR_RETURN(const Target t, Target::Parse(target));
  return LowerModuleText(text, schedule, t, CompileOptions{});
}

std::string ErrorOf(const std::string& text, const std::string& schedule = "", const std::string& target = "cpu") {
  const auto f = Lower(text, schedule, target);
  return f.ok() ? "" : Message(f.status());
}

// y of x = 1, 2, ..., n.
std::vector<float> Call(CinnFunctionPtr entry, void* self, int64_t n, int32_t* code = nullptr) {
  std::vector<float> x(n), y(n, -1);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(i + 1);
  DLTensor tensors[] = {{x.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &n, nullptr, 0},
                        {y.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &n, nullptr, 0}};
  CinnValue args[2] = {};
  for (int i = 0; i < 2; ++i) {
    args[i].tag = kCinnTensor;
    args[i].tensor = &tensors[i];
  }
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  const int32_t result = entry(self, args, 2, &env);
  EXPECT_EQ(code == nullptr ? result : 0, 0) << LastError();
  if (code != nullptr) *code = result;
  return y;
}

std::vector<float> Doubled(int64_t n) {
  std::vector<float> r;
  for (int64_t i = 0; i < n; ++i) r.push_back(2.0f * static_cast<float>(i + 1));
  return r;
}

TEST(Module, AFunctionGetsAnEntry) {
  for (const char* schedule : {"", kSplit}) {
    auto f = Lower(kScale, schedule);
    ASSERT_TRUE(f.ok()) << f.status();
    EXPECT_EQ((*f)->entry(), nullptr);
    ASSERT_TRUE((*f)->Finish().ok());
    ASSERT_TRUE((*f)->Finish().ok());
    for (int64_t n : {1, 8, 1003}) EXPECT_EQ(Call((*f)->entry(), (*f)->self(), n), Doubled(n));
    int32_t code = 0;
    Call((*f)->entry(), (*f)->self(), 5000, &code);
    EXPECT_TRUE(code != 0 &&
                absl::StrContains(LastError(), "scale: argument 'x': dimension 0: n = 5000 is outside 1..4096"))
        << LastError();
    EXPECT_EQ(*(*f)->Source("stages"), kScale);
    EXPECT_EQ(*(*f)->Source("schedule"), schedule);
    EXPECT_TRUE(absl::StrContains(*(*f)->Source("loops"), "call @scale_k0(&x[0], &y[0], n)"));
    for (const char* kind : {"llvm", "asm", "c", "object"}) EXPECT_TRUE((*f)->Source(kind).ok()) << kind;
  }
}

// What can't be vectors is computed all the same, and the report says so.
TEST(Module, LoopsThatStaySerialAreNamed) {
  auto f = Lower(kScale, "split l_i 512 -> a b\nvectorize b");
  ASSERT_TRUE(f.ok()) << f.status();
  ASSERT_TRUE((*f)->Finish().ok());
  EXPECT_EQ(Call((*f)->entry(), (*f)->self(), 13), Doubled(13));
  EXPECT_EQ((*f)->report().refused, std::vector<std::string>{"@scale_k0: loop b is not vectorized but serial"});
  EXPECT_TRUE((*Lower(kScale, kSplit))->report().refused.empty());
}

TEST(Module, AnEntryOfItsOwn) {
  std::string text = kScale;
  text.replace(text.find("out)"), 4, "out, n: i64)");
  const auto twice = [&](const std::string& entry) { return text + entry; };
  auto f = Lower(twice("func @twice entry (x: f32[n], z: f32[n] out) where n in 1..100 {\n  alloc y: f32[n] @global\n"
                       "  call @scale(&x[0], &y[0], n)\n  call @scale(&y[0], &z[0], n)\n}\n"),
                 "@scale\nparallel l_i");
  ASSERT_TRUE(f.ok()) << f.status();
  ASSERT_TRUE((*f)->Finish().ok());
  const std::vector<float> y = Call((*f)->entry(), (*f)->self(), 10);
  EXPECT_EQ(y[9], 40);
  const std::string one = "func @one entry (x: f32[8], z: f32[8] out) { call @scale(&x[0], &z[0], 8) }\n";
  EXPECT_EQ(ErrorOf(twice(one)), "");
  std::string other = one;
  other.replace(other.find("@one"), 4, "@two");
  EXPECT_EQ(ErrorOf(twice(one + other)), "expected one entry, got @one and @two");
}

TEST(Module, Errors) {
  const auto changed = [](std::string_view from, std::string_view to) {
    std::string text = kScale;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_EQ(ErrorOf(""), "none of 0 functions is an entry");
  EXPECT_EQ(ErrorOf(changed(" out)", ")")), "@scale: parameter y is written and not marked out");
  EXPECT_EQ(ErrorOf(changed("x: f32[n]", "x: f32[n] out")), "@scale: parameter x is marked out and nothing writes it");
  EXPECT_EQ(ErrorOf(changed("x: f32[n]", "x: f32[n] static")),
            "@scale: parameter x is static, and nothing prepares it");
  EXPECT_EQ(ErrorOf(changed("x: f32[n]", "x: f32[n], a: f32")),
            "@scale: parameter a: expected a tensor, or an i64 with a range (where a in 0..100), got f32");
  EXPECT_EQ(ErrorOf(changed("1..4096", "-1..4096")), "@scale: symbol n: expected a range from 0 up, got -1..4096");
  EXPECT_EQ(ErrorOf(changed("x[i] ", "z[i] ")), "line 4, column 14: unknown buffer 'z'");
  EXPECT_EQ(ErrorOf(kScale, "split l_j 8 -> a b"),
            "@scale: step 'split l_j 8 -> a b': no loop 'l_j' in @scale; its loops are l_i");
  EXPECT_EQ(ErrorOf(changed("f32[n]", "f64[n]"), "", "opencl -features=-fp64").substr(0, 8), "line 4, ");
  std::string wide = kScale;
  for (size_t at; (at = wide.find("f32")) != wide.npos;) wide.replace(at, 3, "f64");
  wide.replace(wide.find("2.0"), 3, "f64(2.0)");
  EXPECT_EQ(ErrorOf(wide, "", "opencl -features=-fp64"), "@scale: the opencl device has no f64");
}

TEST(Module, WhatIsNotKnownToBeInsideIsAsked) {
  std::string text = kScale;
  text.replace(text.find("x[i]"), 4, "x[i + 1]");
  auto f = Lower(text, "parallel l_i");
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_TRUE(absl::StrContains(*(*f)->Source("loops"), "cinn_bounds_error")) << *(*f)->Source("loops");
  ASSERT_TRUE((*f)->Finish().ok());
  int32_t code = 0;
  Call((*f)->entry(), (*f)->self(), 5, &code);
  EXPECT_TRUE(code != 0 && absl::StrContains(LastError(), "loads x[")) << LastError();
  const auto opencl = *Lower(text, "", "opencl");
  EXPECT_EQ(Message(opencl->Source("opencl").status()),
            "block b_y reads x[i + 1], not known to be within 0..n, which code would ask: function scale_k0_kernel: no "
            "opencl text for "
            "the call of cinn_bounds_error");
  text.replace(text.find("x[i + 1]"), 8, "x[i + 1; i + 1 < n]");
  EXPECT_FALSE(absl::StrContains(*(*Lower(text))->Source("loops"), "cinn_bounds_error"));
}

TEST(Module, SourceWithoutTheDevice) {
  const auto f = Lower(kScale, "split l_i 64 -> a b\nbind a blockIdx.x\nbind b threadIdx.x", "cuda -arch=sm_80");
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_TRUE(absl::StrContains(*(*f)->Source("cuda"), "threadIdx.x"));
  const auto none = (*f)->Source("opencl");
  EXPECT_EQ(Message(none.status()),
            "no source of kind 'opencl'; there are stages, schedule, loops, llvm, asm, object, cuda, ptx, cubin, "
            "fatbin, resources, kernels");
  const auto c = Lower(kScale, "", "c");
  EXPECT_TRUE(absl::StrContains(*(*c)->Source("c"), "int32_t scale("));
  EXPECT_FALSE((*c)->Finish().ok());
}

TEST(Module, Library) {
  const auto f = Lower(kScale, kSplit);
  const std::string path = (std::filesystem::temp_directory_path() / "cinn_like_module_test.so").string();
  const Status written = (*f)->ExportLibrary(path, {});
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_GT(std::filesystem::file_size(path), 1000u);
  CinnLibrary* library = nullptr;
  ASSERT_EQ(CinnLibraryOpen(path.c_str(), &library), 0) << CinnLibraryError();
  EXPECT_TRUE(absl::StrContains(CinnLibraryDescription(library),
                                "\n@scale(x: f32[n], y: f32[n] out) where n in 1..4096\n  target "))
      << CinnLibraryDescription(library);
  CinnLibraryClose(library);
  std::filesystem::remove(path);
}

// Tensor expressions in C++: the place of the least element of two dimensions, whether any is negative, and a reducer
// of one's own over two values.
TEST(Module, Reducers) {
  const auto context = std::make_shared<ir::Context>();
  ir::Context& c = *context;
  const ir::Expr n = c.Var("n");
  const ir::Buffer x = c.MakeBuffer({.name = "x", .shape = {n, c.Int(3), c.Int(4)}});
  ir::Te te(c);
  const auto element = [&](ir::Indices i, ir::Indices r) { return te.At(x, {i[0], r[0], r[1]}); };
  const std::vector<ir::Expr> rows = {n}, reduced = {c.Int(3), c.Int(4)};
  const std::vector<ir::Buffer> least = te.ReduceArg("least", false, DType::kF32, rows, reduced, element);
  const ir::Buffer any = te.Reduce("any", ir::Combiner::kAny, DType::kBool, rows, reduced,
                                   [&](ir::Indices i, ir::Indices r) { return c.Lt(element(i, r), c.Float(0)); });
  const std::vector<ir::Buffer> own =
      te.ReduceTuple("own", {DType::kF32, DType::kF32}, rows, reduced, {c.Float(0), c.Float(-INFINITY)},
                     [&](ir::Indices i, ir::Indices r, ir::Indices old) -> std::vector<ir::Expr> {
                       const ir::Expr e = element(i, r);
                       return {c.Add(old[0], e), c.Max(old[1], e)};
                     });
  ir::TeProgram program;
  program.name = "f";
  program.context = context;
  program.params = {{.buffer = x}};
  program.symbols = {{.var = n, .hi = 64}};
  for (const ir::Buffer y : {least[0], least[1], any, own[0], own[1]})
    program.params.push_back({.buffer = y, .role = ir::ParamRole::kResult});
  program.stages = std::move(te.stages());
  const auto loops = ir::ToLoops(program);
  ASSERT_TRUE(loops.ok()) << loops.status();
  const auto f = LowerModule({context, {*loops}}, "", *Target::Parse("cpu"), CompileOptions{});
  ASSERT_TRUE(f.ok()) << f.status();
  ASSERT_TRUE((*f)->Finish().ok());

  std::vector<float> in(24), value(2), sum(2), most(2);
  for (int i = 0; i < 24; ++i) in[i] = static_cast<float>((i * 7) % 12) - (i < 12 ? 0.0f : 3.0f);
  std::vector<int64_t> place(2);
  bool negative[2];
  int64_t shape[] = {2, 3, 4};
  const auto make = [&](void* data, DLDataType type, int32_t rank) {
    return DLTensor{data, {kDLCPU, 0}, rank, type, shape, nullptr, 0};
  };
  const DLDataType f32{kDLFloat, 32, 1};
  DLTensor tensors[] = {make(in.data(), f32, 3),
                        make(value.data(), f32, 1),
                        make(place.data(), {kDLInt, 64, 1}, 1),
                        make(negative, {InfoOf(DType::kBool).dlpack_code, 8, 1}, 1),
                        make(sum.data(), f32, 1),
                        make(most.data(), f32, 1)};
  CinnValue args[6] = {};
  for (int i = 0; i < 6; ++i) args[i] = {kCinnTensor, 0, {.tensor = &tensors[i]}};
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  ASSERT_EQ((*f)->entry()((*f)->self(), args, 6, &env), 0) << LastError();
  for (int i = 0; i < 2; ++i) {
    const auto begin = in.begin() + i * 12, end = begin + 12;
    EXPECT_EQ(place[i], std::min_element(begin, end) - begin);
    EXPECT_EQ(value[i], *std::min_element(begin, end));
    EXPECT_EQ(negative[i], i == 1);
    EXPECT_EQ(sum[i], std::accumulate(begin, end, 0.0f));
    EXPECT_EQ(most[i], *std::max_element(begin, end));
  }
}

TEST(Module, CApi) {
  CinnFunction* f = nullptr;
  ASSERT_EQ(CinnLowerModule(kScale, kSplit, "cpu", nullptr, &f), 0) << CinnLastError();
  EXPECT_EQ(CinnFunctionEntry(f), nullptr);
  EXPECT_TRUE(
      absl::StrContains(CinnFunctionInfo(f), R"("params":[{"name":"x","dtype":"f32","shape":["n"],"static":false}])"))
      << CinnFunctionInfo(f);
  ASSERT_EQ(CinnFinish(f), 0) << CinnLastError();
  EXPECT_EQ(Call(CinnFunctionEntry(f), CinnFunctionSelf(f), 100), Doubled(100));
  CinnReleaseFunction(f);
  EXPECT_NE(CinnLowerModule("func", "", "cpu", nullptr, &f), 0);
  EXPECT_EQ(f, nullptr);
  EXPECT_NE(CinnLowerModule(nullptr, "", "cpu", nullptr, &f), 0);
  EXPECT_STREQ(CinnLastError(), "loop_text, schedule, target and out must not be null");

  const char* out = CinnRunOnText(kScale, "split l_i 8 -> a b", "unroll b | simplify", "cpu");
  ASSERT_NE(out, nullptr) << CinnLastError();
  EXPECT_TRUE(absl::StrContains(out, "for b in 0..8 @unrolled")) << out;
  EXPECT_EQ(CinnRunOnText(kScale, "", "frobnicate", "cpu"), nullptr);
  EXPECT_TRUE(absl::StrContains(CinnLastError(), "'frobnicate' is none of the loop passes lower, ")) << CinnLastError();
  const char* graph = "graph @f(%x: f32[8]) {\n  %0 = exp(%x) : f32[8]\n  return %0\n}\n";
  EXPECT_STREQ(CinnRunOnText(graph, "", "cse", "cpu"), graph);
  EXPECT_EQ(CinnRunOnText(graph, "parallel i", "", "cpu"), nullptr);
  EXPECT_EQ(CinnRunOnText(kScale, "", "", nullptr), nullptr);
  EXPECT_TRUE(
      absl::StrContains(CinnListSteps(), R"({"name":"split","usage":"LOOP FACTOR... -> NAME NAME...","on":"loops"})"));
  EXPECT_TRUE(absl::StrContains(CinnListFunctions(), R"({"name":"isnan","operands":1,"result":"bool"})"));
  EXPECT_FALSE(absl::StrContains(CinnListFunctions(), "lane"));
}

}  // namespace
}  // namespace cinn_like
