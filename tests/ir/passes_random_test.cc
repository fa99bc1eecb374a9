// Random scheduled functions through the lists of lowering passes: after every pass the interpreter computes the same.
#include <random>

#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/pass_table.h"
#include "ir/passes/cascade_sums.h"
#include "tests/rounds.h"

namespace cinn_like::ir {
namespace {

struct Dim {
  std::string name;    // the iterator is v<name>
  std::string extent;  // text: a number or n
  bool is_reduce = false;
};
struct Loop {
  std::string var, extent, kind;
};

class Generator {
 public:
  explicit Generator(unsigned seed) : g_(seed) {}
  int Pick(int n) { return static_cast<int>(g_() % static_cast<unsigned>(n)); }

  // A nest over `dims`, split and reordered at random, around one block.
  std::string Nest(const std::vector<Dim>& dims, const std::string& block, const std::string& init,
                   const std::string& body, bool device) {
    std::vector<Loop> loops;
    std::string iters, predicate;
    for (const Dim& d : dims) {
      const bool constant = d.extent != "n";
      const std::string v = d.name + "_" + block;
      std::string binding = v;
      if (Pick(2) == 0) {
        const int factor = 2 + Pick(7);
        loops.push_back({v + "o", Cat("(", d.extent, " + ", factor - 1, ") / ", factor), ""});
        loops.push_back({v + "i", Cat(factor), Kind()});
        binding = Cat(v, "o * ", factor, " + ", v, "i");
        if (!constant || std::stoi(d.extent) % factor != 0) {
          predicate += Cat(predicate.empty() ? "" : " && ", binding, " < ", d.extent);
        }
      } else {
        loops.push_back({v, d.extent, constant ? Kind() : ""});
      }
      iters +=
          Cat(iters.empty() ? "" : ", ", "v", v, d.is_reduce ? " reduce 0.." : " in 0..", d.extent, " = ", binding);
    }
    std::shuffle(loops.begin(), loops.end(), g_);
    if (device) {
      // One data loop of each nest is the block axis, first.
      for (size_t i = 0; i < loops.size(); ++i) {
        if (loops[i].var.find("i_" + block) != 0 || loops[i].var == Cat("i_", block, "i")) continue;
        std::rotate(loops.begin(), loops.begin() + static_cast<int64_t>(i),
                    loops.begin() + static_cast<int64_t>(i) + 1);
        loops[0].kind = " @blockIdx.x";
        break;
      }
    }
    std::string text;
    for (const Loop& l : loops) text += Cat("for ", l.var, " in 0..", l.extent, l.kind, " {\n");
    text += Cat("block ", block, "_b(", iters, ")", predicate.empty() ? "" : " if " + predicate,
                init.empty() ? "" : " init { " + init + " }", " {\n", body, "\n}\n");
    for (size_t i = 0; i < loops.size(); ++i) text += "}\n";
    return text;
  }

  std::string Value(const std::string& i, const std::string& j) {
    const std::string at = Cat("x[", i, ", ", j, "]");
    switch (Pick(9)) {
      case 0:
        return Cat(at, " * 2.0 + 1.0");
      case 1:
        return Cat("select(", i, " < ", j, ", ", at, ", 3.0)");
      case 2:
        return Cat("x[", i, ", ", j, " - 1; 0 < ", j, "]");
      case 3:
        return Cat("max(", at, ", x[", i, ", 0])");
      case 4:
        return Cat("f32(bf16(", at, ") + bf16(1.0))");
      case 5:
        return Cat(at, " + f32((", i, " * 5 + 1) / n * 2 + (", i, " * 5 + 1) % n + (", j, " + 2) % n)");
      case 6: {
        const std::string x = Cat("(", i, " * 31 + ", j, " * 7)"), high = Cat(x, " / n"), up = "(n + 1)";
        return Cat(at, " + f32(", high, " / ", up, " * 3 * n + ", high, " % ", up, " * n + ", x, " % n)");
      }
      case 7: {
        const std::string x = Cat("(", i, " * 700000000 + ", j, " * 1000000007)");
        return Cat(at, " + f32(", x, " / (n + 1) % 8 + ", x, " % (n + 1) * 2)");
      }
      default:
        return Cat(at, " + f32(", j, " * 3 % 4)");
    }
  }

  // Rows in the threads of a block: element-wise, reduced, element-wise, through private or shared memory.
  std::string Rows() {
    const int threads = 32 << Pick(2), vector = 1 << Pick(3), m = 1 + Pick(300);
    const std::string scope = Pick(2) == 0 ? "local" : "shared", sum_scope = Pick(2) == 0 ? "local" : "shared";
    auto nest = [&](const std::string& b, bool reduce, const std::string& init, const std::string& body) {
      const int tile = threads * vector;
      const std::string at = Cat("o", b, " * ", tile, " + t", b, " * ", vector, " + v", b);
      const std::string tiles = Cat("for o", b, " in 0..", (m + tile - 1) / tile, " {\n");
      const std::string lanes = Cat("for t", b, " in 0..", threads, " @threadIdx.x {\n");
      return Cat(reduce || Pick(2) == 0 ? lanes + tiles : tiles + lanes, "for v", b, " in 0..", vector,
                 Pick(2) == 0 ? " @vectorized" : "", " {\nblock ", b, "(i", b, " in 0..n = p, j", b,
                 reduce ? " reduce 0.." : " in 0..", m, " = ", at, ")", m % tile == 0 ? "" : Cat(" if ", at, " < ", m),
                 init, " {\n", body, "\n}\n}\n}\n}\n");
    };
    const bool max = Pick(3) == 0;
    std::string text =
        Cat("func @f(x: f32[n, ", m, "], s: f32[n], y: f32[n, ", m, "]) where n in 1..64 {\nalloc e: f32[n, ", m, "] @",
            scope, "\nalloc a: f32[n] @", sum_scope, "\nfor p in 0..n @blockIdx.x {\n");
    text += nest("E", false, "", Cat("e[iE, jE] = ", Value("iE", "jE")));
    text += nest("R", true, max ? " init { a[iR] = -inf }" : " init { a[iR] = 0.0 }",
                 max ? "a[iR] = max(a[iR], e[iR, jR])" : "a[iR] = a[iR] + e[iR, jR]");
    text += nest("O", false, "", "y[iO, jO] = e[iO, jO] - a[iO]");
    return text + "block last(q in 0..n = p) {\ns[q] = a[q]\n}\n}\n}\n";
  }

  std::string Function(bool device) {
    const std::string m = Cat(1 + Pick(17));
    const Dim i{"i", "n"}, j{"j", m}, k{"k", m, true};
    std::string body = "alloc t: f32[n, " + m + "] @global\n";
    body += Nest({i, j}, "e", "", Cat("t[vi_e, vj_e] = ", Value("vi_e", "vj_e")), device);
    const bool max = Pick(3) == 0;
    body += Nest({i, k}, "r", max ? "s[vi_r] = -inf" : "s[vi_r] = 0.0",
                 max ? "s[vi_r] = max(s[vi_r], t[vi_r, vk_r])" : "s[vi_r] = s[vi_r] + t[vi_r, vk_r]", device);
    body += Nest({i, j}, "o", "", "y[vi_o, vj_o] = t[vi_o, vj_o] - s[vi_o]", device);
    return Cat("func @f(x: f32[n, ", m, "], s: f32[n], y: f32[n, ", m, "]) where n in 1..64 {\n", body, "}\n");
  }

 private:
  std::string Kind() {
    const char* kinds[] = {"", "", " @unrolled", " @vectorized"};
    return kinds[Pick(4)];
  }
  std::mt19937 g_;
};

struct Results {
  HostArray s, y;
};

StatusOr<Results> Run(const Func& f, int64_t n, int64_t m, unsigned seed) {
  std::mt19937 g(seed);
  HostArray x(DType::kF32, {n, m});
  // Small integers: sums are exact in any order.
  for (int64_t i = 0; i < n * m; ++i) x.Set(i, static_cast<double>(g() % 17) - 8);
  Results r{HostArray(DType::kF32, {n}), HostArray(DType::kF32, {n, m})};
  RETURN_IF_ERROR(Interpret(f, {&x, &r.s, &r.y}, {{"n", n}}));
  return r;
}

std::string Erase(std::string text, const std::string& what) {
  for (size_t at; (at = text.find(what)) != text.npos;) text.erase(at, what.size());
  return text;
}

// The results are compared after each pass from `first` on.
void Check(const std::vector<std::string>& passes, const std::function<std::string(Generator&)>& generate, int rounds,
           const std::string& first = "") {
  for (int round = 0; round < Rounds(rounds); ++round) {
    Generator generator(static_cast<unsigned>(round));
    const std::string text = generate(generator);
    auto f = ParseFunc(text);
    ASSERT_TRUE(f.ok()) << f.status() << "\n" << text;
    ASSERT_TRUE(Verify(*f).ok()) << Verify(*f) << "\n" << text;
    const int64_t n = 1 + generator.Pick(12), m = f->params[0].buffer->shape[1]->int_value;
    // Threads that add to one result are the same loops in sequence.
    auto serial = ParseFunc(Erase(Erase(text, " @threadIdx.x"), " @blockIdx.x"));
    auto want = Run(*serial, n, m, 1);
    bool compares = first.empty();
    ASSERT_TRUE(want.ok()) << want.status() << "\n" << text;
    Func now = *f;
    for (const std::string& name : passes) {
      // As if these sums were long.
      const SumLengths lengths{.longest = 1 + generator.Pick(4), .chunk = 2 << generator.Pick(3)};
      auto next = name == "cascade_sums" ? CascadeSums(now, lengths) : FindPass(name)->run(now, {});
      ASSERT_TRUE(next.ok()) << "round " << round << " " << name << ": " << next.status() << "\n" << Print(now);
      ASSERT_TRUE(Verify(*next).ok()) << "round " << round << " " << name << ": " << Verify(*next) << "\n"
                                      << Print(*next);
      compares = compares || name == first;
      if (!compares) {
        now = *std::move(next);
        continue;
      }
      auto got = Run(*next, n, m, 1);
      const std::string shown =
          Cat("round ", round, " n=", n, " ", name, ":\n", Print(now), "\nbecomes\n", Print(*next));
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << shown;
      ASSERT_EQ(got->y.bytes, want->y.bytes) << shown;
      ASSERT_EQ(got->s.bytes, want->s.bytes) << shown;
      now = *std::move(next);
    }
  }
}

TEST(PassesRandom, Host) {
  Check(
      {"simplify", "lower_blocks", "simplify", "place_buffers", "unswitch", "unroll", "vectorize", "flatten",
       "simplify", "cascade_sums", "legalize", "hoist_gathers"},
      [](Generator& g) { return g.Function(false); }, 300);
}
TEST(PassesRandom, HostWithoutSimplify) {
  Check(
      {"lower_blocks", "vectorize", "unroll", "flatten", "cascade_sums", "legalize", "hoist_gathers"},
      [](Generator& g) { return g.Function(false); }, 200);
}
TEST(PassesRandom, Device) {
  Check(
      {"lower_blocks", "simplify", "guard_stores", "place_buffers", "insert_barriers", "unswitch", "unroll",
       "read_chosen", "vectorize", "flatten", "simplify", "cascade_sums", "legalize", "join_digits", "narrow_index",
       "hoist_quotients"},
      [](Generator& g) { return g.Function(true); }, 200);
}
TEST(PassesRandom, Threads) {
  Check(
      {"lower_thread_reductions", "lower_blocks", "simplify", "guard_stores", "place_buffers", "insert_barriers",
       "unswitch", "unroll", "vectorize", "flatten", "simplify", "cascade_sums", "legalize", "join_digits",
       "narrow_index", "hoist_quotients"},
      [](Generator& g) { return g.Rows(); }, 100, "insert_barriers");
}

}  // namespace
}  // namespace cinn_like::ir
