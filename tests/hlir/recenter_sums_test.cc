// Means and variances in one go: where that is done, and that it computes what two passes do.
#include "hlir/recenter_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "hlir/lower_te.h"
#include "hlir/pipeline.h"
#include "hlir/rewrite_stages.h"
#include "ir/interpreter.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

constexpr const char* kGpu = "cuda -arch=sm_90a -sm-count=132 -bandwidth=4800";
constexpr const char* kCpu = "x86_64 -mcpu=x86-64-v4 -num-threads=4";

constexpr const char* kFloats = "%y = cast(%x) {dtype=f32} : f32[S]\n";

struct Case {
  const char* name;
  const char* shape;  // n: a symbol
  const char* axes;
  const char* kept;  // the shape of what is reduced
  const char* body;  // of x, with mean and variance of y, which is f32
  const char* y = kFloats;
  const char* dtype = "f32";
  const char* hint = "65536";
  bool on_gpu = true, on_cpu = true;
};

constexpr const char* kVariance = "return %v";
const Case kCases[] = {
    {"columns", "n,48", "0", "1,48", kVariance},
    {"columns of a constant length", "4000,48", "0", "1,48", kVariance, kFloats, "f32", "1"},
    {"columns, of another shape", "n,48", "0", "1,48", "%t = reduce_mean(%p) {axes=[A]} : f32[48]\n return %t, %m"},
    {"all", "n,48", "0,1", "1,1", "return %v, %m"},
    {"rows that stay nowhere", "3,n", "1", "3,1", "return %s, %q", kFloats, "bf16", "600000", true, false},
    {"channels, written too", "n,5,4,7", "0,2,3", "1,5,1,1", "%z = mul(%d, %v) : f32[S]\n return %z, %m", kFloats,
     "bf16", "65536", true, false},
    {"whole rows", "160,n", "1", "160,1", "%z = mul(%d, %v) : f32[S]\n return %z, %m", kFloats, "bf16", "200000", true,
     false},
    {"of what is computed", "n,48", "0", "1,48", "return %v, %m", "%y = relu(%x) : f32[S]\n"},
    {"of what a stage computes", "n,48", "0", "1,48", "%z = abs(%d) : f32[S]\n return %z, %v",
     "%0 = gelu(%x) : f32[S]\n %y = sqrt(%0) : f32[S]\n"},
    {"of what takes long to compute", "n,48", "0", "1,48", "return %v, %m",
     "%0 = gelu(%x) : f32[S]\n %1 = exp(%0) : f32[S]\n %2 = gelu(%1) : f32[S]\n %3 = add(%2, %0) : f32[S]\n "
     "%4 = gelu(%3) : f32[S]\n %5 = mul(%4, %1) : f32[S]\n %6 = gelu(%5) : f32[S]\n %7 = gelu(%6) : f32[S]\n %8 = "
     "gelu(%7) : f32[S]\n "
     "%9 = gelu(%8) : f32[S]\n %y = add(%9, %3) : f32[S]\n",
     "f32", "65536", false, false},
    {"short rows", "n,600", "1", "n,1", kVariance, kFloats, "f32", "65536", false, false},
    {"rows in registers", "n,3000", "1", "n,1", "%z = mul(%d, %v) : f32[S]\n return %z", kFloats, "bf16", "65536",
     false, false},
};

StatusOr<ir::TeProgram> ProgramOf(const std::string& text, const PassContext& context) {
  ASSIGN_OR_RETURN(const Graph graph, Parse(text));
  ASSIGN_OR_RETURN(const Graph optimized, OptimizeGraph(graph, context));
  ASSIGN_OR_RETURN(ir::TeProgram r, LowerToTe(optimized));
  r.exact = context.options.numerics == "exact";
  return r;
}

bool HasPivot(const ir::TeProgram& p) {
  return std::any_of(p.stages.begin(), p.stages.end(),
                     [](const ir::Stage& s) { return absl::StartsWith(s.name, "pivot"); });
}

// Around 100; a column, or row, of one value, with NaN, and with an infinity.
double Element(int64_t i, int64_t of, int64_t columns) {
  const double some = 100 + static_cast<double>((i * 37 + of * 11) % 101) / 32;
  if (of == 1 % columns && columns > 1) return 96;
  if (of == 2 && i == 11) return std::nan("");
  if (of == 3 && i == 0) return std::numeric_limits<double>::infinity();  // where pivots come from
  return some;
}

TEST(RecenterSums, ComputeTheSame) {
  int number = 0;
  for (const Case& c : kCases) {
    for (const char* device : {kGpu, kCpu}) {
      const bool symbolic = absl::StrContains(c.shape, "n");
      const std::string where = symbolic ? Cat(" where n in 1..1000000 hint ", c.hint) : "";
      const std::string text = absl::StrReplaceAll(
          Cat("graph @f(%x: ", c.dtype, "[S])", where, " {\n ", c.y,
              " %s = reduce_sum(%y) {axes=[A], keepdims=true} : f32[K]\n"
              " %m = reduce_mean(%y) {axes=[A], keepdims=true} : f32[K]\n %d = sub(%y, %m) : f32[S]\n"
              " %p = square(%d) : f32[S]\n %q = reduce_sum(%p) {axes=[A], keepdims=true} : f32[K]\n"
              " %v = reduce_mean(%p) {axes=[A], keepdims=true} : f32[K]\n ",
              c.body, "\n}\n"),
          {{"[S]", Cat("[", c.shape, "]")}, {"[A]", Cat("[", c.axes, "]")}, {"[K]", Cat("[", c.kept, "]")}});
      const Target target = *Target::Parse(device);
      PassContext context{.options = {}, .target = target, .name = "test"};
      const StatusOr<ir::TeProgram> program = ProgramOf(text, context);
      ASSERT_TRUE(program.ok()) << program.status() << text;
      const ir::TeProgram rewritten = RewriteStages(*program, target);
      EXPECT_EQ(HasPivot(rewritten), target.IsGpu() ? c.on_gpu : c.on_cpu) << c.name << device;
      context.options.numerics = "exact";
      EXPECT_FALSE(HasPivot(RewriteStages(*ProgramOf(text, context), target))) << c.name;
      if (!HasPivot(rewritten) || !IsTried(number++)) continue;
      for (const int64_t n : {200, 1}) {
        const auto run = [&](const ir::TeProgram& p) {
          const ir::Func f = *ir::ToLoops(p);
          std::vector<ir::HostArray> arrays;
          std::vector<ir::InterpretArg> args;
          for (const ir::Param& q : f.params) {
            std::vector<int64_t> dims;
            dims.reserve(q.buffer->shape.size());
            for (const ir::Expr e : q.buffer->shape) dims.push_back(ir::IsInt(e) ? e->int_value : n);
            ir::HostArray& a = arrays.emplace_back(q.buffer->dtype, dims);
            const bool rows = c.axes[0] == '1';
            int64_t columns = 1;  // what is next to each other of one sum
            for (size_t d = 1; d < dims.size(); ++d) columns *= dims[d];
            for (int64_t i = 0; i < a.NumElements(); ++i) {
              const int64_t row = i / columns, column = dims.size() > 2 ? i / 28 % 5 : i % columns;
              const bool is_result = q.role == ir::ParamRole::kResult;
              a.Set(i, is_result ? std::nan("") : rows ? Element(column, row, dims[0]) : Element(row, column, columns));
            }
          }
          args.reserve(arrays.size());
          for (ir::HostArray& a : arrays) args.emplace_back(&a);
          absl::flat_hash_map<std::string, int64_t> symbols;
          if (symbolic) symbols["n"] = n;
          const Status status = ir::Interpret(f, args, symbols);
          EXPECT_TRUE(status.ok()) << status << ir::Print(f);
          return arrays;
        };
        const std::vector<ir::HostArray> want = run(*program), got = run(rewritten);
        for (size_t k = 0; k < want.size(); ++k) {
          for (int64_t i = 0; i < want[k].NumElements(); ++i) {
            const double a = got[k].Get(i), b = want[k].Get(i);
            ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 3e-4 * std::abs(b) + 5e-5)
                << c.name << " " << device << " n=" << n << " " << k << "[" << i << "]: " << a << ", expected " << b
                << ir::Print(*ir::ToLoops(rewritten));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace cinn_like::hlir
