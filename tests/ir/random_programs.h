// Random programs and random schedule steps for them, some of which are legal. Numbers are small integers, so that sums
// are exact in any order, but where a program says exp. Beside programs of our own there are those that graphs become.
#pragma once
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cinn_like/base/device_kind.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "ir/host_array.h"
#include "ir/interpreter.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/tree.h"
#include "tests/hlir/samples.h"

namespace cinn_like::ir {

class Programs {
 public:
  // Of loops that run on a device of these limits; null: on a CPU.
  Programs(unsigned seed, const LaunchLimits* device) : device_(device), g_(seed) {}
  int Pick(int n) { return static_cast<int>(g_() % static_cast<unsigned>(n)); }
  template <class T>
  const T& From(const std::vector<T>& v) {
    return v[static_cast<size_t>(Pick(static_cast<int>(v.size())))];
  }

  // Nests that each write one buffer, of rows x columns, of columns x rows or of rows alone, and read earlier ones.
  std::string Program() {
    m_ = 1 + Pick(9);
    text_ = Cat("func @f(x: f32[n, ", m_, "], s: f32[n], y: f32[n, ", m_, "]) where n in 1..64 {\n");
    values_ = {"x"};
    std::string allocs;
    const int count = 1 + Pick(3);
    std::string nests;
    const bool chains = Pick(10) == 0;
    for (int k = 0; k < count; ++k) {
      const std::string t = Cat("t", k);
      switch (Pick(7)) {
        case 6:  // as memory says
          allocs += Cat("alloc ", t, ": f32[n, ", m_, "] @global\n");
          nests += Nest(t, Repeats(t));
          values_.push_back(t);
          break;
        case 5:  // the largest element, and where it is first
          allocs += Cat("alloc ", t, ": f32[n] @global\nalloc at_", t, ": i64[n] @global\n");
          nests += Place(t);
          rows_.push_back(Cat(t, "[I]"));
          rows_.push_back(Cat("f32(at_", t, "[I])"));
          break;
        case 0:
          allocs += Cat("alloc ", t, ": f32[n] @global\n");
          nests += Reduction(t);
          rows_.push_back(Cat(t, "[I]"));
          break;
        case 1:  // transposed, and read so
          allocs += Cat("alloc ", t, ": f32[", m_, ", n] @global\n");
          nests += Nest(t, Cat(t, "[j", t, ", i", t, "] = ", Value(t)));
          transposed_.push_back(t);
          break;
        case 2:  // each column from the one before it
          allocs += Cat("alloc ", t, ": f32[n, ", m_, "] @global\n");
          nests += Nest(t, Cat(t, "[i", t, ", j", t, "] = ", t, "[i", t, ", j", t, " - 1; 0 < j", t, "] + ", Value(t)));
          values_.push_back(t);
          break;
        default:
          allocs += Cat("alloc ", t, ": f32[n, ", m_, "] @global\n");
          nests += Nest(t, Cat(t, "[i", t, ", j", t, "] = ", Value(t)));
          values_.push_back(t);
      }
    }
    if (chains) {
      allocs += "alloc largest: f32[n] @global\n";
      const std::string value = Value("largest");
      nests += Reduce("largest", "max", value);
      nests += Reduce("s", "+", Cat("exp(", absl::StrReplaceAll(value, {{"largest", "s"}}), " - largest[is])"));
      rows_.push_back("log(s[I])");
    } else {
      nests += Reduction("s");
    }
    nests += Nest("y", Cat("y[iy, jy] = ", Value("y")));
    return text_ + allocs + nests + "}\n";
  }

  // A kernel of a random graph; a program of our own where that has none.
  std::string KernelOfGraph() {
    const auto graph = hlir::RandomGraph(g_, 2 + Pick(8));
    const PassContext context{.options = {}, .target = *Target::Parse("cpu"), .name = "test"};
    const auto optimized = hlir::OptimizeGraph(*graph, context);
    const auto lowered = hlir::LowerGraph(*optimized, context);
    if (lowered->kernels.empty()) return Program();
    TeProgram group = From(lowered->kernels).group;
    group.name = "f";
    std::erase_if(group.params, [](const Param& q) { return q.buffer == nullptr; });  // symbols go without saying
    m_ = 12;
    return Print(*ToLoops(group));
  }

  // What the schedule of `f` begins with.
  void Begin(const Func& f) {
    if (FindBlock(f, "b_largest").ok()) {
      const std::string tile = Cat(" ", 1 + Pick(m_), " -> ");
      next_ = {"merge plargest ps",         "split rlargest" + tile + "ao ai",
               "split rs" + tile + "bo bi", "split_init b_largest ao -> a0",
               "split_init b_s bo -> b0",   "chain ao bo -> h"};
    } else {
      for (int k = Pick(5); k > 0; --k) next_.push_back("");
    }
  }

  // The last step was refused: others were to follow it.
  void Refused() {
    std::erase_if(next_, [](const std::string& s) { return !s.empty(); });
  }

  // A step on stages.
  std::string StageStep(const Func& f, int number) {
    std::vector<const Block*> blocks;
    VisitStmts(f.body, [&](const Stmt& s) {
      if (const Block* n = As<Block>(s)) blocks.push_back(n);
      return true;
    });
    const Block& b = *From(blocks);
    const auto name = [](const Block& x) { return x.name.substr(2); };
    const std::string iter = From(b.iters).var->name, fresh = Cat("u", number);
    switch (Pick(9)) {
      case 6:
        return Cat("shift ", name(b), " ", iter, " ", From(b.iters).var->name, " * ", 1 + Pick(5), " % ", 1 + Pick(4));
      case 0:
        return Cat("together ", name(b), " ", name(*From(blocks)));
      case 1:
        return Cat("separate ", name(b), " -> ", fresh);
      case 2:
        return Cat("hoist ", name(b), " -> ", fresh);
      case 3:
        return Cat("unfold ", name(b), " ", iter, " ", 1 + Pick(3), " -> ", fresh, "a ", fresh, "b");
      case 4:
        return Cat("round_up ", name(b), " ", iter, " ", 1 + Pick(4));
      case 5:
        return Cat("keep ", From(f.params).buffer->name, " -> ", fresh);
      default: {
        int factor = 1 + Pick(m_);
        while (m_ % factor != 0) --factor;
        const std::string more = BuffersWritten(b.body).size() == 2 ? Cat(" v", fresh) : "";
        next_.insert(next_.begin(),
                     Cat("rfactor ", name(b), " ", fresh, Pick(2) == 0 ? "a" : "b", " -> ", fresh, more));
        return Cat("unfold ", name(b), " ", b.iters.back().var->name, " ", factor, " -> ", fresh, "a ", fresh, "b");
      }
    }
  }

  // A step that may be legal or not.
  std::string Step(const Func& f, int number) {
    if (!next_.empty()) {
      const std::string step = next_.front();
      next_.erase(next_.begin());
      return step.empty() ? StageStep(f, number) : step;
    }
    std::vector<std::string> loops, blocks, buffers;
    for (const Param& q : f.params) buffers.push_back(q.buffer->name);
    std::vector<std::vector<std::string>> chains;  // loops in order, of one nest each
    VisitStmts(f.body, [&](const Stmt& s) {
      if (const For* n = As<For>(s)) loops.push_back(n->var->name);
      if (const Block* n = As<Block>(s)) blocks.push_back(n->name);
      if (const Alloc* n = As<Alloc>(s)) buffers.push_back(n->buffer->name);
      return true;
    });
    if (loops.empty()) return "inline " + From(blocks);
    const std::string a = From(loops), b = From(loops), block = From(blocks), buffer = From(buffers);
    const std::string name = Cat("q", number);
    std::vector<std::string> around;
    for (const For* n : LoopsOf(*FindBlock(f, block))) around.push_back(n->var->name);
    if (device_ != nullptr && Pick(4) == 0) {
      static const std::vector<std::string> axes = {"threadIdx.x", "threadIdx.x", "threadIdx.x", "threadIdx.y",
                                                    "threadIdx.z", "blockIdx.x",  "blockIdx.x",  "blockIdx.y"};
      return Cat("bind ", a, " ", axes[static_cast<size_t>(device_->threads == 1 ? 5 + Pick(3) : Pick(8))]);
    }
    switch (Pick(34)) {
      case 30:
      case 31: {
        std::vector<std::string> conditions = {"n == 3", "n % 2 == 0", "n < 4", "n % 4 == 0 && 4 < n"};
        if (!around.empty()) conditions.push_back(Cat(From(around), " < 2"));
        return Cat("specialize ", Pick(3) == 0 ? block : a, " ", From(conditions), " -> ", name);
      }
      case 32:
        return Cat("prefetch ", buffer, " ", a, " ", 1 + Pick(3));
      case 33:
        return Cat("annotate ", a, Pick(2) == 0 ? " vectorize=off" : Cat(" unroll=", 1 + Pick(4)));
      case 0:
      case 1:
        return Cat("split ", a, " ", 1 + Pick(5), " -> ", name, "o ", name, "i");
      case 2: {
        if (around.size() < 2) return Cat("split ", a, " 2 3 -> ", name, "o ", name, "m ", name, "i");
        const int k = Pick(static_cast<int>(around.size()) - 1);
        return Cat("fuse ", around[static_cast<size_t>(k)], " ", around[static_cast<size_t>(k) + 1], " -> ", name);
      }
      case 3:
      case 4: {
        std::shuffle(around.begin(), around.end(), g_);
        if (around.size() > 2 && Pick(2) == 0) around.resize(2);
        return "reorder " + absl::StrJoin(around, " ");
      }
      case 5:
      case 6:
        return Cat("merge ", a, " ", b);
      case 7:
        return (device_ != nullptr ? "unroll " : "parallel ") + a;
      case 8:
        return "vectorize " + a;
      case 9:
        return "unroll " + a;
      case 10:
        return "inline " + block;
      case 11:
      case 12:
        return Cat("compute_at ", block, " ", a);
      case 13:
        return Cat("stage ", buffer, " ", block, " -> ", name);
      case 14:
        return Cat("scope ", buffer,
                   Pick(3) == 0                         ? " global"
                   : device_ != nullptr && Pick(3) != 0 ? " shared"
                                                        : " local");
      case 15:
        return Cat("split_init ", block, " ", around.empty() ? a : From(around), " -> ", name);
      case 16:
        return Cat("cache_write ", buffer, " ", block, " -> ", name);
      case 17:
      case 18:
        return Cat("reverse_compute_at ", block, " ", a);
      case 19:
        return Cat("peel ", a, Pick(2) == 0 ? " front " : " back ", 1 + Pick(3), " -> ", name);
      case 20:
        return Cat("storage_align ", buffer, " ", 1 << Pick(4), " ", Pick(4));
      case 21: {
        if (device_ == nullptr) return Cat("pipeline ", a, " ", 2 + Pick(3));
        if (around.empty()) return Cat("stage ", buffer, " ", block, " -> ", name);
        const std::string loop = From(around);
        next_ = {Cat("compute_at ", name, "_copy ", loop), Cat("scope ", name, " shared"),
                 Cat("pipeline ", loop, " ", 2 + Pick(3))};
        return Cat("stage ", buffer, " ", block, " -> ", name);
      }
      case 22:
        return Cat("chain ", a, " ", b, " -> ", name);
      case 23:
        return "reverse_inline " + block;
      case 24:
      case 25:
        return Cat("fission ", a, " ", Pick(2) == 0 ? b : block, " -> ", name);
      case 26:
        return Pick(2) == 0 ? "unroll_jam " + a : Cat("bind ", a, " vthread");
      case 27:
      case 28: {
        static const std::vector<std::string> layouts = {"[i, j] -> [j, i]",
                                                         "[i, j] -> [i / 4, j, i % 4]",
                                                         "[i, j] -> [j / 2, i / 3, i % 3, j % 2]",
                                                         "[i, j] -> [i * 64 + j]",
                                                         "[i] -> [i / 2, i % 2]",
                                                         "[i, j] -> [i, j / 4, j / 2 % 2, j % 2]",
                                                         "[i, j] -> [(i + j) / 2]",
                                                         "[i] -> [i * 2]",
                                                         "[i, j, k] -> [k, i * 16 + j]"};
        return Cat("transform_layout ", buffer, From(layouts));
      }
      default:
        return Cat("pad ", block, around.empty() || Pick(2) == 0 ? "" : " " + From(around));
    }
  }

 private:
  std::string Loops(const std::string& t, const std::string& iters, const std::string& body,
                    const std::string& extent = "") {
    return Cat("for p", t, " in 0..n {\nfor r", t, " in 0..", extent.empty() ? Cat(m_) : extent, " {\nblock b_", t, "(",
               iters, ") ", body, "\n}\n}\n");
  }
  std::string Nest(const std::string& t, const std::string& body) {
    return Loops(t, Cat("i", t, " in 0..n = p", t, ", j", t, " in 0..", m_, " = r", t), "{\n" + body + "\n}");
  }
  // Doubled while it is small, then added to as often as an element of x says.
  std::string Repeats(const std::string& t) {
    const std::string at = Cat(t, "[i", t, ", j", t, "]");
    return Cat(at, " = ", Value(t), "\nwhile 0.0 < ", at, " && ", at, " < 4.0 {\n", at, " = ", at, " * 2.0\n}\n",
               "for times_", t, " in 0..min(max(i64(x[i", t, ", 0]), 0), 3) {\n", at, " = ", at, " + 1.0\n}");
  }
  std::string ReduceLoops(const std::string& t, const std::string& body) {
    // Of a part of some rows, as long as an element of x says.
    const std::string extent = Pick(8) == 0 ? Cat("min(max(i64(x[p", t, ", 0]), 1), ", m_, ")") : "";
    return Loops(t, Cat("i", t, " in 0..n = p", t, ", j", t, " reduce 0..", m_, " = r", t), body, extent);
  }
  std::string Reduce(const std::string& t, std::string_view op, const std::string& value) {
    const std::string at = Cat(t, "[i", t, "]");
    return ReduceLoops(t, Cat("init { ", at, op == "max" ? " = -inf" : " = 0.0", " } {\n", at, " = ",
                              op == "max" ? Cat("max(", at, ", ", value, ")") : Cat(at, " + ", value), "\n}"));
  }
  std::string Reduction(const std::string& t) {
    const std::string value = Value(t);
    if (Pick(3) == 0) return Reduce(t, "max", value);
    // A factor that all elements have, once: sums stay exact.
    const bool scales = !std::exchange(scaled_, scaled_ || Pick(3) == 0) && scaled_;
    return Reduce(t, "+", scales ? Cat("(", value, ") * x[i", t, ", 0]") : value);
  }
  std::string Place(const std::string& t) {
    return ReduceLoops(t, absl::StrReplaceAll(R"(init { T[iT] = -inf
          at_T[iT] = 9223372036854775807 } {
          let first_T = select(isnan(V), not(isnan(T[iT])) || jT < at_T[iT], T[iT] < V || V == T[iT] && jT < at_T[iT])
          let v_T = select(first_T, V, T[iT])
          let w_T = select(first_T, jT, at_T[iT])
          T[iT] = v_T
          at_T[iT] = w_T })",
                                              {{"T", t}, {"V", Cat("(", Value(t), ")")}}));
  }
  std::string Value(const std::string& t) {
    const std::string i = "i" + t, j = "j" + t;
    if (!rows_.empty() && Pick(3) == 0)
      return Cat(From(values_), "[", i, ", ", j, "] - ", absl::StrReplaceAll(From(rows_), {{"I", i}}));
    if (!transposed_.empty() && Pick(2) == 0) return Cat(From(transposed_), "[", j, ", ", i, "] + 1.0");
    const std::string from = From(values_);
    switch (Pick(8)) {
      case 0:
        return Cat(from, "[", i, ", ", j, " - 1; 0 < ", j, "]");
      case 1:
        return Cat(from, "[", i, ", ", m_ - 1, " - ", j, "]");
      case 2:
        return Cat(from, "[n - 1 - ", i, ", ", j, "]");
      case 3:
        return Cat(from, "[", i, ", ", j, " / 2] * 2.0");
      case 4:
        return Cat(from, "[", i, ", 0] + x[", i, ", ", j, "]");
      default:
        return Cat(from, "[", i, ", ", j, "] + 1.0");
    }
  }
  const LaunchLimits* device_;
  std::mt19937 g_;
  int m_ = 1;
  bool scaled_ = false;
  std::string text_;
  std::vector<std::string> values_, rows_, transposed_;
  std::vector<std::string> next_;  // steps to come; empty: any on stages
};

// A program, what it is given, and what becomes of that before all steps.
struct RandomProgram {
  std::string text;
  Func func;
  int64_t n = 0;
  std::vector<HostArray> args;  // results are not written yet
  std::vector<HostArray> want;
  bool exactly = true;  // numbers are small integers
};

// What becomes of its arguments.
inline StatusOr<std::vector<HostArray>> Computed(const RandomProgram& p, const Module& module) {
  std::vector<HostArray> arrays = p.args;
  std::vector<InterpretArg> args;
  for (HostArray& a : arrays) args.emplace_back(&a);
  // A lowered function may be given its symbols, too.
  for (size_t i = arrays.size(); i < module.funcs[0].params.size(); ++i) args.emplace_back(p.n);
  absl::flat_hash_map<std::string, int64_t> symbols;
  for (const SymbolFact& s : p.func.symbols) symbols[s.var->name] = p.n;
  RETURN_IF_ERROR(Interpret(module, module.funcs[0].name, args, symbols));
  return arrays;
}

// Every third is of a graph.
inline StatusOr<RandomProgram> MakeProgram(Programs& programs, int round) {
  const bool is_of_graph = round % 3 == 2;
  RandomProgram r;
  r.text = is_of_graph ? programs.KernelOfGraph() : programs.Program();
  ASSIGN_OR_RETURN(r.func, ParseFunc(r.text));
  RETURN_IF_ERROR(Verify(r.func));
  r.n = 1 + programs.Pick(9);
  r.exactly = !is_of_graph && !absl::StrContains(r.text, "exp(");
  const std::vector<Buffer> written = BuffersWritten(r.func.body);
  std::mt19937 g(7);
  for (const Param& q : r.func.params) {
    std::vector<int64_t> shape;
    for (Expr e : q.buffer->shape) {
      VarMap n;
      for (const SymbolFact& s : r.func.symbols) n[s.var] = r.func.context->Int(r.n);
      shape.push_back(Substitute(*r.func.context, e, n)->int_value);
    }
    HostArray& a = r.args.emplace_back(q.buffer->dtype, shape);
    if (Contains(written, q.buffer)) continue;
    for (int64_t i = 0; i < a.NumElements(); ++i)
      a.Set(i, (static_cast<double>(g() % 17) - 8) * (is_of_graph ? 0.125 : 1));
  }
  ASSIGN_OR_RETURN(r.want, Computed(r, {r.func.context, {r.func}}));
  return r;
}

inline bool IsSame(const HostArray& a, const HostArray& b, bool exactly) {
  bool same = true;
  for (int64_t i = 0; i < a.NumElements(); ++i) {
    const double x = a.Get(i), y = b.Get(i);
    same &= x == y || (!exactly && (std::abs(x - y) <= 1e-4 * (1 + std::abs(y)) || (std::isnan(x) && std::isnan(y))));
  }
  return same;
}

// What it prints is read as itself.
inline Status CheckText(const std::string& text) {
  ASSIGN_OR_RETURN(const Module module, ParseModule(text));
  RETURN_IF_ERROR(Verify(module));
  if (Print(module) != text) return Internal("prints as\n", Print(module));
  return absl::OkStatus();
}

}  // namespace cinn_like::ir
