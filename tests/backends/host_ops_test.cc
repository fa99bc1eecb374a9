// Every operator of expr_ops.def on every element type it has, scalar and vector, against plain evaluation.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/backends/jit_test_util.h"
#include "tests/rounds.h"

namespace cinn_like {
namespace {

using ir::ExprOp;

constexpr int kCount = 240;
constexpr DType kInts[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32, DType::kI64,
                           DType::kU8,   DType::kU16, DType::kU32, DType::kU64};
constexpr DType kFloats[] = {DType::kF32, DType::kF64};
constexpr DType kAll[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32,  DType::kI64, DType::kU8, DType::kU16,
                          DType::kU32,  DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// A value of any element type: integers exactly, floats as double.
struct Value {
  int64_t i = 0;
  double f = 0;
};

// Elements in memory as the dtype has them.
class Memory {
 public:
  explicit Memory(DType t, int count = kCount) : t_(t), bytes_(static_cast<size_t>(count * BytesOf(t)), '\xcd') {}
  char* data() { return bytes_.data(); }

  Value Get(int i) const {
    const char* p = bytes_.data() + i * BytesOf(t_);
    if (t_ == DType::kF64) return {0, Read<double>(p)};
    if (t_ == DType::kF32) return {0, Read<float>(p)};
    if (t_ == DType::kF16) return {0, static_cast<double>(Read<_Float16>(p))};
    if (t_ == DType::kBF16) return {0, std::bit_cast<float>(static_cast<uint32_t>(Read<uint16_t>(p)) << 16)};
    int64_t v = 0;
    std::memcpy(&v, p, BytesOf(t_));
    return {ir::WrapTo(t_, v), 0};
  }
  void Set(int i, Value v) {
    char* p = bytes_.data() + i * BytesOf(t_);
    if (t_ == DType::kF64) return Write(p, v.f);
    if (t_ == DType::kF32) return Write(p, static_cast<float>(v.f));
    if (t_ == DType::kF16) return Write(p, static_cast<_Float16>(v.f));
    if (t_ == DType::kBF16)
      return Write(p, static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(v.f)) >> 16));
    std::memcpy(p, &v.i, BytesOf(t_));
  }

 private:
  template <class T>
  static T Read(const char* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  template <class T>
  static void Write(char* p, T v) {
    std::memcpy(p, &v, sizeof v);
  }
  DType t_;
  std::vector<char> bytes_;
};

Value RandomValue(DType t, std::mt19937_64& rng) {
  if (IsFloat(t)) {
    static const double specials[] = {0.0, -0.0,  INFINITY, -INFINITY, NAN,  1.0,   -1.0,
                                      0.5, 1e-40, -1e-40,   3.0,       1e30, -1e30, 0x1p-24};
    const uint64_t kind = rng() % 8;
    if (kind == 0) return {0, ir::RoundTo(t, specials[rng() % std::size(specials)])};
    const double scale = kind < 5 ? 4.0 : 100.0;
    return {0, ir::RoundTo(t, std::uniform_real_distribution<double>(-scale, scale)(rng))};
  }
  const uint64_t kind = rng() % 4;
  if (kind == 0) return {ir::WrapTo(t, static_cast<int64_t>(rng())), 0};
  if (kind == 1 && t == DType::kI64) return {std::numeric_limits<int64_t>::min(), 0};
  return {ir::WrapTo(t, static_cast<int64_t>(rng() % 21) - 10), 0};
}

// What the operator means; integers wrap. nullopt: anything may come.
std::optional<Value> Evaluate(ExprOp op, DType t, const std::vector<Value>& v) {
  const double x = v[0].f, y = v.size() > 1 ? v[1].f : 0, z = v.size() > 2 ? v[2].f : 0;
  if (op == ExprOp::kSelect) return v[0].i != 0 ? v[1] : v[2];
  if (!IsFloat(t)) {
    if (op == ExprOp::kFma) {
      return Value{ir::WrapTo(t, static_cast<int64_t>(static_cast<uint64_t>(v[0].i) * v[1].i + v[2].i)), 0};
    }
    std::vector<int64_t> args;
    for (Value a : v) args.push_back(a.i);
    const auto r = ir::FoldInt(op, t, args);
    if (!r) return std::nullopt;
    return Value{*r, 0};
  }
  auto boolean = [](bool b) { return Value{b, 0}; };
  auto real = [](double d) { return Value{0, d}; };
  switch (op) {
    case ExprOp::kEq:
      return boolean(x == y);
    case ExprOp::kNe:
      return boolean(x != y);
    case ExprOp::kLt:
      return boolean(x < y);
    case ExprOp::kLe:
      return boolean(x <= y);
    case ExprOp::kIsNan:
      return boolean(std::isnan(x));
    case ExprOp::kAdd:
      return real(x + y);
    case ExprOp::kSub:
      return real(x - y);
    case ExprOp::kMul:
      return real(x * y);
    case ExprOp::kDiv:
      return real(x / y);
    case ExprOp::kTruncDiv:
      return real(std::trunc(t == DType::kF32 ? static_cast<float>(x) / static_cast<float>(y) : x / y));
    case ExprOp::kTruncMod:
      return real(std::fmod(x, y));
    case ExprOp::kMod: {
      double r = std::fmod(x, y);
      if (r != 0 && (r < 0) != (y < 0)) r = t == DType::kF32 ? static_cast<float>(r) + static_cast<float>(y) : r + y;
      return real(r);
    }
    case ExprOp::kNeg:
      return real(-x);
    case ExprOp::kMin:
      return real(std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y));
    case ExprOp::kMax:
      return real(std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y));
    case ExprOp::kFma:
      return real(t == DType::kF32 ? std::fmaf(x, y, z) : std::fma(x, y, z));
    case ExprOp::kAbs:
      return real(std::fabs(x));
    case ExprOp::kSqrt:
      return real(std::sqrt(x));
    case ExprOp::kRsqrt:
      return real(1 / std::sqrt(x));
    case ExprOp::kFloor:
      return real(std::floor(x));
    case ExprOp::kCeil:
      return real(std::ceil(x));
    case ExprOp::kRound:
      return real(std::nearbyint(x));
    case ExprOp::kTrunc:
      return real(std::trunc(x));
    case ExprOp::kExp:
      return real(std::exp(x));
    case ExprOp::kExp2:
      return real(std::exp2(x));
    case ExprOp::kExpm1:
      return real(std::expm1(x));
    case ExprOp::kLog:
      return real(std::log(x));
    case ExprOp::kLog1p:
      return real(std::log1p(x));
    case ExprOp::kTanh:
      return real(std::tanh(x));
    case ExprOp::kErf:
      return real(std::erf(x));
    case ExprOp::kSin:
      return real(std::sin(x));
    case ExprOp::kCos:
      return real(std::cos(x));
    case ExprOp::kPow:
      return real(std::pow(x, y));
    default:
      return std::nullopt;
  }
}

bool Defined(ExprOp op, DType t) {
  if (IsHalf(t)) return op == ExprOp::kSelect;
  if (IsFloat(t)) {
    return !(op == ExprOp::kAnd || op == ExprOp::kOr || op == ExprOp::kNot ||
             (op >= ExprOp::kBitOr && op <= ExprOp::kShr));
  }
  if (op >= ExprOp::kExp) return false;
  if (t != DType::kBool) return op != ExprOp::kAnd && op != ExprOp::kOr;
  switch (op) {
    case ExprOp::kAnd:
    case ExprOp::kOr:
    case ExprOp::kNot:
    case ExprOp::kEq:
    case ExprOp::kNe:
    case ExprOp::kSelect:
    case ExprOp::kMin:
    case ExprOp::kMax:
    case ExprOp::kBitAnd:
    case ExprOp::kBitOr:
    case ExprOp::kBitXor:
      return true;
    default:
      return false;
  }
}

// A case: y[i] = op(a[i], b[i], c[i]) over kCount elements, `lanes` at a time.
struct Case {
  std::string name;
  ExprOp op;
  DType t;
  int lanes;
};

// The parameter is the target: this machine, and ones without its widest instructions.
class HostOps : public ::testing::TestWithParam<const char*> {
 protected:
  static ir::Func MakeFunc(const Case& k) {
    auto context = std::make_shared<ir::Context>();
    ir::Context& c = *context;
    const ir::OpRow& row = *ir::RowOf(k.op);
    auto at = [&](ir::Expr i) { return k.lanes == 1 ? i : c.Ramp(c.Mul(i, c.Int(k.lanes)), c.Int(1), k.lanes); };
    const ir::Expr i = c.Var("i");
    ir::Func f{k.name, ir::FuncKind::kInternal, {}, {}, nullptr, context};
    std::vector<ir::Expr> args;
    for (int a = 0; a < row.arity; ++a) {
      const DType t = k.op == ExprOp::kSelect && a == 0 ? DType::kBool : k.t;
      const ir::Buffer b = c.MakeBuffer({.name = Cat("a", a), .dtype = t, .shape = {c.Int(kCount)}});
      f.params.push_back({.buffer = b});
      args.push_back(c.Load(b, {at(i)}));
    }
    const ir::Expr value = c.Make(k.op, args);
    const ir::Buffer y = c.MakeBuffer({.name = "y", .dtype = value->type.dtype, .shape = {c.Int(kCount)}});
    f.params.push_back({.buffer = y});
    f.body = ir::MakeStmt(
        ir::For{i, c.Int(kCount / k.lanes), ir::ForKind::kSerial, ir::MakeStmt(ir::Store{y, {at(i)}, value})});
    return f;
  }

  static void Run(const Compiler& compiler, const Case& k) {
    const ir::OpRow& row = *ir::RowOf(k.op);
    std::mt19937_64 rng(static_cast<uint64_t>(k.op) * 1000 + static_cast<uint64_t>(k.t) * 50 + k.lanes);
    std::vector<Memory> in;
    std::vector<DType> types;
    for (int a = 0; a < row.arity; ++a) {
      types.push_back(k.op == ExprOp::kSelect && a == 0 ? DType::kBool : k.t);
      in.emplace_back(types[a]);
      for (int i = 0; i < kCount; ++i) {
        Value v = RandomValue(types[a], rng);
        // Shift counts below the width are all that has a meaning.
        if ((k.op == ExprOp::kShl || k.op == ExprOp::kShr) && a == 1)
          v.i = static_cast<int64_t>(rng() % InfoOf(k.t).bits);
        in[a].Set(i, v);
      }
    }
    const DType out_type = row.result == ir::OpRow::kBool ? DType::kBool : k.t;
    Memory out(out_type);
    int32_t code = -1;
    if (row.arity == 1) code = CallInternal(compiler, k.name, in[0].data(), out.data());
    if (row.arity == 2) code = CallInternal(compiler, k.name, in[0].data(), in[1].data(), out.data());
    if (row.arity == 3) code = CallInternal(compiler, k.name, in[0].data(), in[1].data(), in[2].data(), out.data());
    ASSERT_EQ(code, 0);
    const bool is_function = k.op >= ExprOp::kExp && k.op <= ExprOp::kPow && k.op != ExprOp::kSqrt;
    for (int i = 0; i < kCount; ++i) {
      std::vector<Value> args;
      std::string text;
      for (int a = 0; a < row.arity; ++a) {
        args.push_back(in[a].Get(i));
        text += Cat(" ", IsFloat(types[a]) ? Cat(args[a].f) : Cat(args[a].i));
      }
      const auto want = Evaluate(k.op, k.t, args);
      if (!want) continue;
      const Value got = out.Get(i);
      if (!IsFloat(out_type)) {
        ASSERT_EQ(got.i, want->i) << k.name << text;
      } else if (std::isnan(want->f)) {
        ASSERT_TRUE(std::isnan(got.f)) << k.name << text << " gives " << got.f;
      } else {
        const double rounded = ir::RoundTo(out_type, want->f);
        const double slack = is_function && std::isfinite(rounded)
                                 ? std::fabs(rounded) * (out_type == DType::kF32 ? 4e-7 : 4e-16) + 3e-45
                                 : 0;
        ASSERT_TRUE(got.f == rounded || std::fabs(got.f - rounded) <= slack)
            << k.name << text << " gives " << got.f << ", not " << rounded;
      }
    }
  }
};

TEST_P(HostOps, EveryOperatorOnEveryType) {
  for (const int lanes : {1, 4, 16}) {
    std::vector<Case> cases;
    int defined = 0;
    ir::Module module{std::make_shared<ir::Context>(), {}};
    for (int op = static_cast<int>(ExprOp::kOr); op <= static_cast<int>(ExprOp::kIsNan); ++op) {
      for (const DType t : kAll) {
        if (!Defined(static_cast<ExprOp>(op), t) || !IsTried(defined++)) continue;
        cases.push_back({Cat("op", op, "_", Name(t), "_", lanes), static_cast<ExprOp>(op), t, lanes});
        module.funcs.push_back(MakeFunc(cases.back()));
      }
    }
    ASSERT_GT(defined, 200);
    const auto compiler = CompileForTest(module, GetParam());
    for (const Case& k : cases) {
      SCOPED_TRACE(Cat(ir::RowOf(k.op)->text, " on ", Name(k.t), ", ", k.lanes, " lanes"));
      Run(*compiler, k);
    }
  }
}

// The documented meaning of a cast, from exact arithmetic.
Value EvaluateCast(DType from, DType to, Value v) {
  if (IsFloat(to)) {
    if (IsFloat(from)) return {0, ir::RoundTo(to, v.f)};
    const bool is_big = from == DType::kU64;
    if (to == DType::kF32)
      return {0, is_big ? static_cast<float>(static_cast<uint64_t>(v.i)) : static_cast<float>(v.i)};
    return {0, ir::RoundTo(to, is_big ? static_cast<double>(static_cast<uint64_t>(v.i)) : static_cast<double>(v.i))};
  }
  if (!IsFloat(from)) return {ir::WrapTo(to, v.i), 0};
  if (to == DType::kBool) return {v.f != 0, 0};
  const auto i32 = [](double f) { return f >= -0x1p31 && f < 0x1p31 ? static_cast<int64_t>(f) : INT32_MIN; };
  const auto i64 = [](double f) { return f >= -0x1p63 && f < 0x1p63 ? static_cast<int64_t>(f) : INT64_MIN; };
  if (to == DType::kI64) return {i64(v.f), 0};
  if (to == DType::kU64) return {v.f < 0x1p63 || std::isnan(v.f) ? i64(v.f) : i64(v.f - 0x1p63) ^ INT64_MIN, 0};
  if (to == DType::kU32 || to == DType::kU8) return {ir::WrapTo(to, i64(v.f)), 0};
  return {ir::WrapTo(to, i32(v.f)), 0};
}

TEST_P(HostOps, EveryCast) {
  for (const int lanes : {1, 16}) {
    auto context = std::make_shared<ir::Context>();
    ir::Context& c = *context;
    ir::Module module{context, {}};
    for (const DType from : kAll) {
      for (const DType to : kAll) {
        const ir::Expr i = c.Var("i");
        const ir::Expr at = lanes == 1 ? i : c.Ramp(c.Mul(i, c.Int(lanes)), c.Int(1), lanes);
        const ir::Buffer x = c.MakeBuffer({.name = "x", .dtype = from, .shape = {c.Int(kCount)}});
        const ir::Buffer y = c.MakeBuffer({.name = "y", .dtype = to, .shape = {c.Int(kCount)}});
        const auto body = ir::MakeStmt(ir::Store{y, {at}, c.Cast(to, c.Load(x, {at}))});
        module.funcs.push_back({Cat("cast_", Name(from), "_", Name(to)),
                                ir::FuncKind::kInternal,
                                {{.buffer = x}, {.buffer = y}},
                                {},
                                ir::MakeStmt(ir::For{i, c.Int(kCount / lanes), ir::ForKind::kSerial, body}),
                                context});
      }
    }
    const auto compiler = CompileForTest(module, GetParam());
    std::mt19937_64 rng(lanes);
    for (const DType from : kAll) {
      for (const DType to : kAll) {
        Memory x(from), y(to);
        for (int i = 0; i < kCount; ++i) {
          Value v = RandomValue(from, rng);
          // Ties and near-ties of both 16-bit types.
          if (IsFloat(from) && i % 3 == 0)
            v.f = ir::RoundTo(
                from, (1 + static_cast<double>(rng() % 4096) / 4096) * (1 + 0x1p-40 * static_cast<double>(rng() % 3)));
          x.Set(i, v);
        }
        ASSERT_EQ(CallInternal(*compiler, Cat("cast_", Name(from), "_", Name(to)), x.data(), y.data()), 0);
        for (int i = 0; i < kCount; ++i) {
          const Value want = EvaluateCast(from, to, x.Get(i)), got = y.Get(i);
          const bool equal =
              IsFloat(to) ? got.f == want.f || (std::isnan(got.f) && std::isnan(want.f)) : got.i == want.i;
          ASSERT_TRUE(equal) << Name(from) << " to " << Name(to) << ", " << lanes << " lanes: " << x.Get(i).f << " / "
                             << x.Get(i).i << " gives " << got.f << " / " << got.i << ", not " << want.f << " / "
                             << want.i;
        }
      }
    }
  }
}

TEST_P(HostOps, LaneReductions) {
  auto context = std::make_shared<ir::Context>();
  ir::Context& c = *context;
  ir::Module module{context, {}};
  constexpr ExprOp kOps[] = {ExprOp::kLaneAdd, ExprOp::kLaneMul, ExprOp::kLaneMin, ExprOp::kLaneMax};
  for (const int lanes : {2, 6, 16}) {
    for (const DType t : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
      for (const ExprOp op : kOps) {
        const ir::Buffer x = c.MakeBuffer({.name = "x", .dtype = t, .shape = {c.Int(lanes)}});
        const ir::Buffer y = c.MakeBuffer({.name = "y", .dtype = t, .shape = {c.Int(1)}});
        const ir::Expr value = c.Make(op, {c.Load(x, {c.Ramp(c.Int(0), c.Int(1), lanes)})});
        module.funcs.push_back({Cat("r", static_cast<int>(op), "_", Name(t), lanes),
                                ir::FuncKind::kInternal,
                                {{.buffer = x}, {.buffer = y}},
                                {},
                                ir::MakeStmt(ir::Store{y, {c.Int(0)}, value}),
                                context});
      }
    }
  }
  const auto compiler = CompileForTest(module, GetParam());
  std::mt19937_64 rng(5);
  for (const int lanes : {2, 6, 16}) {
    for (const DType t : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
      for (const ExprOp op : kOps) {
        for (int round = 0; round < 20; ++round) {
          Memory x(t), y(t);
          for (int i = 0; i < lanes; ++i) {
            x.Set(i, {static_cast<int64_t>(rng() % 200), std::uniform_real_distribution<double>(-2, 2)(rng)});
          }
          if (round == 0 && IsFloat(t) && op >= ExprOp::kLaneMin) x.Set(lanes / 2, {0, NAN});
          ASSERT_EQ(CallInternal(*compiler, Cat("r", static_cast<int>(op), "_", Name(t), lanes), x.data(), y.data()),
                    0);
          Value want = x.Get(0);
          constexpr ExprOp kBinary[] = {ExprOp::kAdd, ExprOp::kMul, ExprOp::kMin, ExprOp::kMax};
          for (int i = 1; i < lanes; ++i)
            want = *Evaluate(kBinary[op == kOps[1]   ? 1
                                     : op == kOps[2] ? 2
                                     : op == kOps[3] ? 3
                                                     : 0],
                             t, {want, x.Get(i)});
          if (!IsFloat(t)) {
            ASSERT_EQ(y.Get(0).i, want.i);
          } else if (std::isnan(want.f)) {
            ASSERT_TRUE(std::isnan(y.Get(0).f));
          } else {
            ASSERT_NEAR(y.Get(0).f, want.f, 1e-5 * std::max(1.0, std::fabs(want.f)));
          }
        }
      }
    }
  }
}

// y: lanes moved up by `by`, the last one, then x backwards, read and written so, and the even lanes of x backwards
// under a mask.
TEST_P(HostOps, LanesThatMove) {
  constexpr int kLanes = 8;
  auto context = std::make_shared<ir::Context>();
  ir::Context& c = *context;
  ir::Module module{context, {}};
  const ir::Expr up = c.Ramp(c.Int(0), c.Int(1), kLanes), down = c.Ramp(c.Int(kLanes - 1), c.Int(-1), kLanes);
  const ir::Expr even = c.Make(ExprOp::kEq, {c.Make(ExprOp::kBitAnd, {up, c.Int(1)}), c.Broadcast(c.Int(0), kLanes)});
  const auto at = [&](ir::Expr first, int by) { return c.Ramp(c.Int(by), first, kLanes); };
  for (const DType t : {DType::kF32, DType::kF64, DType::kI64, DType::kU8}) {
    for (const int by : {0, 1, 3, 7, 8}) {
      const ir::Buffer x = c.MakeBuffer({.name = "x", .dtype = t, .shape = {c.Int(kLanes)}});
      const ir::Buffer y = c.MakeBuffer({.name = "y", .dtype = t, .shape = {c.Int(5 * kLanes)}});
      const ir::Expr v = c.Load(x, {up});
      const std::vector<ir::Store> stores = {
          {y, {at(c.Int(1), 0)}, c.Make(ExprOp::kLaneShift, {v, c.Int(by, DType::kI32)})},
          {y, {c.Int(kLanes)}, c.Make(ExprOp::kLaneLast, {v})},
          {y, {at(c.Int(1), 2 * kLanes)}, c.Load(x, {down})},
          {y, {at(c.Int(-1), 4 * kLanes - 1)}, v},
          {y, {at(c.Int(-1), 5 * kLanes - 1)}, c.Load(x, {down}, even), even}};
      std::vector<ir::Stmt> body;
      for (const ir::Store& s : stores) body.push_back(ir::MakeStmt(s));
      module.funcs.push_back({Cat("m", Name(t), by),
                              ir::FuncKind::kInternal,
                              {{.buffer = x}, {.buffer = y}},
                              {},
                              ir::MakeSeq(std::move(body)),
                              context});
    }
  }
  const auto compiler = CompileForTest(module, GetParam());
  for (const DType t : {DType::kF32, DType::kF64, DType::kI64, DType::kU8}) {
    for (const int by : {0, 1, 3, 7, 8}) {
      Memory x(t, kLanes), y(t, 5 * kLanes);
      for (int i = 0; i < kLanes; ++i) x.Set(i, {i + 1, i + 1.0});
      const Value before = y.Get(5 * kLanes - 2);
      ASSERT_EQ(CallInternal(*compiler, Cat("m", Name(t), by), x.data(), y.data()), 0);
      const auto is = [&](const Value& a, const Value& b) { return IsFloat(t) ? a.f == b.f : a.i == b.i; };
      EXPECT_TRUE(is(y.Get(kLanes), x.Get(kLanes - 1)));
      for (int i = 0; i < kLanes; ++i) {
        EXPECT_TRUE(is(y.Get(i), x.Get(i < by ? i : i - by))) << Name(t) << by << " " << i;
        EXPECT_TRUE(is(y.Get(2 * kLanes + i), x.Get(kLanes - 1 - i))) << Name(t) << i;
        EXPECT_TRUE(is(y.Get(3 * kLanes + i), x.Get(kLanes - 1 - i))) << Name(t) << i;
        // Lane k, if it is even, holds x[7 - k] and goes to the 7 - k-th place.
        const bool on = (kLanes - 1 - i) % 2 == 0;
        EXPECT_TRUE(is(y.Get(4 * kLanes + i), on ? x.Get(i) : before)) << Name(t) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, HostOps, ::testing::Values("cpu", "x86_64 -mcpu=x86-64-v3", "x86_64 -mcpu=x86-64"));

}  // namespace
}  // namespace cinn_like
