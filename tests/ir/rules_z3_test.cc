// Every rule of the simplifier as z3 sees it, where there is a z3: for whole numbers where the rule holds for numbers
// that do not wrap, else for each type that it may meet; constants are those of a list, all else is any value.
#include <array>
#include <fstream>
#include <map>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "ir/rules.h"
#include "tests/golden_file.h"
#include "tests/system_c.h"

namespace cinn_like::ir {
namespace {

// What the solver is told, and what it was asked: nothing is to be found.
struct Questions {
  std::string text;
  std::vector<std::string> asked;
};

// / and % floor, where SMT-LIB's leave no negative rest.
constexpr char kPrelude[] = R"((define-fun floor_div ((a Int) (b Int)) Int (ite (> b 0) (div a b) (div (- a) (- b))))
(define-fun floor_mod ((a Int) (b Int)) Int (- a (* b (floor_div a b))))
(define-fun trunc_div ((a Int) (b Int)) Int (ite (>= a 0) (ite (> b 0) (div a b) (- (div a (- b))))
                                                          (ite (> b 0) (- (div (- a) b)) (div (- a) (- b)))))
(define-fun trunc_mod ((a Int) (b Int)) Int (- a (* b (trunc_div a b))))
)";

class Solver {
 public:
  Solver(Context& c, bool is_arithmetic, DType t) : c_(c), is_whole_(is_arithmetic), t_(t) {}

  void Ask(const Rule& rule, Questions& q) {
    std::vector<Expr> constants, others;
    for (Expr v : rule.vars) (v->name.size() == 2 && v->name[0] == 'c' ? constants : others).push_back(v);
    std::string declared;
    VarMap map;
    for (Expr v : others) {
      map[v] = c_.Var(v->name, {t_, 1});
      declared += Cat("(declare-const ", v->name, " ", Sort(), ")\n");
    }
    const std::vector<int64_t> values = Values();
    int64_t count = 1;
    for (size_t i = 0; i < constants.size(); ++i) count *= static_cast<int64_t>(values.size());
    for (int64_t number = 0; number < count; ++number) {
      int64_t rest = number;
      for (Expr v : constants) {
        map[v] = c_.Int(values[static_cast<size_t>(rest) % values.size()], t_);
        rest /= static_cast<int64_t>(values.size());
      }
      const Expr lhs = Instance(rule.lhs, map);
      std::string conditions;
      const Expr rhs = ApplyRule(c_, rule, lhs, [&](Expr condition) {
        conditions += Cat("(assert ", Text(condition), ")\n");
        return true;
      });
      if (rhs == nullptr) continue;
      q.text += Cat("(push)\n", declared, conditions, Defined(lhs), "(assert (not (= ", Text(lhs), " ", Text(rhs),
                    ")))\n(check-sat)\n(pop)\n");
      q.asked.push_back(Cat(rule.text, " for ", Name(t_), ": ", Print(lhs), " => ", Print(rhs)));
    }
  }

 private:
  std::vector<int64_t> Values() const {
    if (is_whole_) return {-12, -7, -1, 0, 1, 2, 3, 4, 6, 12, 64, 1000003};
    return {0, 1, 100, WrapTo(t_, -1), WrapTo(t_, int64_t{1} << (InfoOf(t_).bits - 1))};
  }
  Expr Instance(Expr e, const VarMap& map) {
    if (e->op == ExprOp::kVar) return map.at(e);
    if (e->op == ExprOp::kInt) return c_.Int(e->int_value, t_);
    std::vector<Expr> args;
    for (Expr a : e->args) args.push_back(Instance(a, map));
    return c_.Make(e->op, args);
  }

  std::string Sort() const {
    const int bits = InfoOf(t_).bits;
    if (is_whole_) return "Int";
    if (!IsFloat(t_)) return Cat("(_ BitVec ", bits, ")");
    const int exponent = t_ == DType::kF16 ? 5 : t_ == DType::kF64 ? 11 : 8;
    return Cat("(_ FloatingPoint ", exponent, " ", bits - exponent, ")");
  }
  std::string Number(int64_t v) const {
    if (!is_whole_)
      return Cat("(_ bv", static_cast<uint64_t>(v) & (~uint64_t{0} >> (64 - InfoOf(t_).bits)), " ", InfoOf(t_).bits,
                 ")");
    return v < 0 ? Cat("(- ", -v, ")") : Cat(v);
  }
  // What the left side divides by is not 0.
  std::string Defined(Expr e) const {
    std::string r;
    Visit(e, [&](Expr x) {
      const bool divides =
          x->op == ExprOp::kDiv || x->op == ExprOp::kMod || x->op == ExprOp::kTruncDiv || x->op == ExprOp::kTruncMod;
      if (divides) r += Cat("(assert (not (= ", Text(x->args[1]), " 0)))\n");
      return true;
    });
    return r;
  }
  std::string Text(Expr e) const {
    if (e->op == ExprOp::kVar) return e->name;
    if (e->op == ExprOp::kInt)
      return e->type.dtype == DType::kBool ? (e->int_value != 0 ? "true" : "false") : Number(e->int_value);
    std::string a[2];
    for (size_t i = 0; i < e->args.size(); ++i) a[i] = Text(e->args[i]);
    const Type operand = e->args[0]->type;
    const bool is_float = IsFloat(operand.dtype);
    const auto call = [&](std::string_view name) {
      return Cat("(", name, " ", a[0], e->args.size() > 1 ? " " : "", a[1], ")");
    };
    const std::string less = is_float ? "fp.lt" : is_whole_ ? "<" : IsSigned(operand.dtype) ? "bvslt" : "bvult";
    const std::string at_most = is_float ? "fp.leq" : is_whole_ ? "<=" : IsSigned(operand.dtype) ? "bvsle" : "bvule";
    switch (e->op) {
      case ExprOp::kLt:
        return call(less);
      case ExprOp::kLe:
        return call(at_most);
      case ExprOp::kEq:
        return call(is_float ? "fp.eq" : "=");
      case ExprOp::kNe:
        return Cat("(not ", call(is_float ? "fp.eq" : "="), ")");
      case ExprOp::kMin:
        return Cat("(ite ", call(less), " ", a[0], " ", a[1], ")");
      case ExprOp::kMax:
        return Cat("(ite ", call(less), " ", a[1], " ", a[0], ")");
      default:
        break;
    }
    static const std::map<ExprOp, const char*> kNames = {{ExprOp::kAnd, "and"},
                                                         {ExprOp::kNot, "not"},
                                                         {ExprOp::kAdd, "+"},
                                                         {ExprOp::kSub, "-"},
                                                         {ExprOp::kMul, "*"},
                                                         {ExprOp::kDiv, "floor_div"},
                                                         {ExprOp::kMod, "floor_mod"},
                                                         {ExprOp::kTruncDiv, "trunc_div"},
                                                         {ExprOp::kTruncMod, "trunc_mod"},
                                                         {ExprOp::kAbs, "abs"}};
    const auto name = kNames.find(e->op);
    EXPECT_NE(name, kNames.end()) << Print(e);
    return name == kNames.end() ? "false" : call(name->second);
  }

  Context& c_;
  const bool is_whole_;
  const DType t_;
};

constexpr std::array kTypes = {DType::kI8,  DType::kI16, DType::kI32, DType::kI64,  DType::kU8,  DType::kU16,
                               DType::kU32, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// Questions that z3 does not answer with "there is none".
std::vector<std::string> FindCounterexamples(const std::vector<Rule>& rules) {
  Context c;
  Questions q;
  for (const Rule& rule : rules) {
    for (const DType t : kTypes) {
      // Only comparisons are simplified by rules where they have floats.
      if (!rule.HoldsFor(t) || (IsFloat(t) && rule.lhs->op != ExprOp::kNot)) continue;
      const size_t before = q.asked.size();
      Solver(c, rule.is_arithmetic, t).Ask(rule, q);
      EXPECT_GT(q.asked.size(), before) << rule.text << " never applies for " << Name(t);
    }
  }
  const SystemC folder;
  const std::string file = folder.Write("rules.smt2", Cat(kPrelude, q.text));
  EXPECT_EQ(folder.Run(Cat("sh -c 'z3 -t:10000 ", file, " > ", folder.folder(), "/answers'")), "");
  const std::vector<std::string> answers =
      absl::StrSplit(ReadFile(folder.folder() + "/answers"), '\n', absl::SkipEmpty());
  EXPECT_EQ(answers.size(), q.asked.size());
  std::vector<std::string> r;
  for (size_t i = 0; i < std::min(answers.size(), q.asked.size()); ++i) {
    if (answers[i] != "unsat") r.push_back(Cat(q.asked[i], ": ", answers[i]));
  }
  return r;
}

class RulesZ3 : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v z3 > /dev/null 2>&1") != 0) GTEST_SKIP() << "no z3";
  }
};

TEST_F(RulesZ3, Hold) {
  for (const std::string& found : FindCounterexamples(BuiltinRules())) ADD_FAILURE() << found;
}
TEST_F(RulesZ3, WrongOnesAreFound) {
  Context c;
  Rule of_numbers = *ParseRule(c, "(x * c0) / c1 => x * (c0 / c1) if 0 < c1");
  Rule of_floats = *ParseRule(c, "not(x < y) => y <= x");
  of_floats.is_order = false;
  for (const Rule& rule : {of_numbers, of_floats}) {
    const std::vector<std::string> found = FindCounterexamples({rule});
    ASSERT_FALSE(found.empty());
    EXPECT_NE(found[0].find(": sat"), std::string::npos) << found[0];
  }
}

}  // namespace
}  // namespace cinn_like::ir
