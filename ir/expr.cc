#include "ir/expr.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"
#include "glog/logging.h"

namespace cinn_like::ir {
namespace {

constexpr OpRow kRows[] = {
#define X(e, text, arity, prec, result, cost) {text, arity, prec, OpRow::k##result, OpRow::k##cost},
#include "ir/expr_ops.def"
#undef X
};
constexpr int kFirstRow = static_cast<int>(ExprOp::kChecked) + 1;
constexpr int kNumRows = sizeof(kRows) / sizeof(kRows[0]);

}  // namespace

// What makes a node, before there is one: most are there already.
struct Context::Key {
  ExprOp op;
  Type type;
  bool has_mask = false;
  absl::Span<const Expr> args = {};
  int64_t int_value = 0;
  double float_value = 0;
  std::string_view name = {};
  Buffer buffer = nullptr;

  size_t Hash() const {
    uint64_t h = static_cast<uint64_t>(op) | static_cast<uint64_t>(type.dtype) << 8 | uint64_t{has_mask} << 16 |
                 static_cast<uint64_t>(type.lanes) << 32;
    auto mix = [&](uint64_t v) {
      h = (h ^ v) * 0x9e3779b97f4a7c15;
      h ^= h >> 32;
    };
    for (Expr a : args) mix(a->hash);
    mix(static_cast<uint64_t>(int_value));
    mix(std::bit_cast<uint64_t>(float_value));
    if (!name.empty()) mix(absl::HashOf(name));
    mix(reinterpret_cast<uintptr_t>(buffer));
    return h;
  }
  bool Is(const ExprNode& n) const {
    return n.op == op && n.type == type && n.has_mask == has_mask && n.int_value == int_value && n.buffer == buffer &&
           std::bit_cast<uint64_t>(n.float_value) == std::bit_cast<uint64_t>(float_value) && n.name == name &&
           absl::MakeConstSpan(n.args) == args;
  }
};

std::string Print(Type t) { return t.lanes == 1 ? std::string(Name(t.dtype)) : Cat(Name(t.dtype), "x", t.lanes); }

const OpRow* RowOf(ExprOp op) {
  const int i = static_cast<int>(op) - kFirstRow;
  return i < 0 ? nullptr : &kRows[i];
}

const ExprOp* FindOp(std::string_view text, int arity) {
  static const auto* map = [] {
    auto* m = new absl::flat_hash_map<std::string, ExprOp>();
    for (int i = 0; i < kNumRows; ++i) {
      m->emplace(Cat(kRows[i].text, "/", kRows[i].arity), static_cast<ExprOp>(kFirstRow + i));
    }
    return m;
  }();
  auto it = map->find(Cat(text, "/", arity));
  return it == map->end() ? nullptr : &it->second;
}

std::string_view Name(Scope s) {
  switch (s) {
    case Scope::kGlobal:
      return "global";
    case Scope::kShared:
      return "shared";
    case Scope::kWarp:
      return "warp";
    case Scope::kLocal:
      return "local";
  }
  return "?";
}

struct Context::Impl {
  struct Query {
    const Key& key;
    size_t hash;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(Expr n) const { return n->hash; }
    size_t operator()(const Query& q) const { return q.hash; }
  };
  struct Eq {
    using is_transparent = void;
    bool operator()(Expr a, Expr b) const { return a == b; }
    bool operator()(Expr n, const Query& q) const { return n->hash == q.hash && q.key.Is(*n); }
    bool operator()(const Query& q, Expr n) const { return (*this)(n, q); }
  };
  std::deque<ExprNode> nodes;
  std::deque<BufferNode> buffers;
  absl::flat_hash_set<Expr, Hash, Eq> pool;
};

Context::Context() : impl_(std::make_unique<Impl>()) {}
Context::~Context() = default;

Expr Context::Intern(const Key& key) {
  const Impl::Query query{key, key.Hash()};
  return *impl_->pool.lazy_emplace(query, [&](const auto& make) {
    ExprNode& n = impl_->nodes.emplace_back(ExprNode{.op = key.op,
                                                     .type = key.type,
                                                     .has_mask = key.has_mask,
                                                     .args = {key.args.begin(), key.args.end()},
                                                     .int_value = key.int_value,
                                                     .float_value = key.float_value,
                                                     .name = std::string(key.name),
                                                     .buffer = key.buffer,
                                                     .hash = query.hash});
    n.reads = key.op == ExprOp::kLoad;
    n.checks = key.op == ExprOp::kChecked;
    for (Expr a : n.args) {
      n.depth = std::max(n.depth, a->depth + 1);
      n.size = std::min(n.size + a->size, kMostCounted);
      n.reads |= a->reads;
      n.checks |= a->checks;
    }
    make(&n);
  });
}

Buffer Context::MakeBuffer(BufferNode b) {
  impl_->buffers.push_back(std::move(b));
  return &impl_->buffers.back();
}

double RoundTo(DType t, double v) {
  if (t == DType::kF32) return static_cast<float>(v);
  if (t == DType::kF16) return static_cast<double>(static_cast<_Float16>(v));
  if (t == DType::kBF16) {
    // Round the double to odd in f32 first so that the second rounding is not a double rounding.
    if (std::isnan(v)) return v;
    float f = static_cast<float>(v);
    if (std::isfinite(f) && static_cast<double>(f) != v) {
      uint32_t bits = std::bit_cast<uint32_t>(f);
      if (std::fabs(static_cast<double>(f)) > std::fabs(v)) --bits;
      f = std::bit_cast<float>(bits | 1u);
    } else if (std::isinf(f) && std::isfinite(v)) {
      return f;
    }
    const uint32_t bits = std::bit_cast<uint32_t>(f);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    return std::isinf(f) ? f : std::bit_cast<float>(rounded);
  }
  return v;
}

int64_t WrapTo(DType t, int64_t v) {
  switch (t) {
    case DType::kBool:
      return v != 0;
    case DType::kI8:
      return static_cast<int8_t>(v);
    case DType::kI16:
      return static_cast<int16_t>(v);
    case DType::kI32:
      return static_cast<int32_t>(v);
    case DType::kU8:
      return static_cast<uint8_t>(v);
    case DType::kU16:
      return static_cast<uint16_t>(v);
    case DType::kU32:
      return static_cast<uint32_t>(v);
    default:
      return v;
  }
}

Expr Context::Int(int64_t v, DType t) {
  DCHECK(!IsFloat(t));
  return Intern({.op = ExprOp::kInt, .type = {t, 1}, .int_value = WrapTo(t, v)});
}
Expr Context::Float(double v, DType t) {
  DCHECK(IsFloat(t));
  v = RoundTo(t, v);
  if (std::isnan(v)) v = std::numeric_limits<double>::quiet_NaN();
  return Intern({.op = ExprOp::kFloat, .type = {t, 1}, .float_value = v});
}
Expr Context::Var(std::string_view name, Type t) { return Intern({.op = ExprOp::kVar, .type = t, .name = name}); }

Expr Context::Load(Buffer b, absl::Span<const Expr> indices, Expr mask) {
  int lanes = 1;
  for (Expr i : indices) lanes = std::max(lanes, i->type.lanes);
  if (mask == nullptr || IsTrue(mask))
    return Intern({.op = ExprOp::kLoad, .type = {b->dtype, lanes}, .args = indices, .buffer = b});
  lanes = std::max(lanes, mask->type.lanes);
  std::vector<Expr> args(indices.begin(), indices.end());
  args.push_back(mask);
  return Intern({.op = ExprOp::kLoad, .type = {b->dtype, lanes}, .has_mask = true, .args = args, .buffer = b});
}
Expr Context::Address(Buffer b, absl::Span<const Expr> indices) {
  return Intern({.op = ExprOp::kAddress, .type = {DType::kU64, 1}, .args = indices, .buffer = b});
}

Expr Context::Cast(DType t, Expr e) {
  if (e->type.dtype == t) return e;
  if (e->op == ExprOp::kInt) {
    if (!IsFloat(t)) return t == DType::kBool ? Int(e->int_value != 0, t) : Int(e->int_value, t);
    if (e->type.dtype == DType::kU64 && e->int_value < 0)
      return Float(static_cast<double>(static_cast<uint64_t>(e->int_value)), t);
    return Float(static_cast<double>(e->int_value), t);
  }
  if (e->op == ExprOp::kFloat) {
    if (IsFloat(t)) return Float(e->float_value, t);
    if (t == DType::kBool) return Int(e->float_value != 0, t);
    if (std::fabs(e->float_value) < 9.2e18) return Int(static_cast<int64_t>(e->float_value), t);
  }
  return Intern({.op = ExprOp::kCast, .type = {t, e->type.lanes}, .args = {&e, 1}});
}
Expr Context::Ramp(Expr base, Expr stride, int lanes) {
  const Expr args[] = {base, stride};
  return Intern({.op = ExprOp::kRamp, .type = {base->type.dtype, lanes}, .args = args});
}
Expr Context::Broadcast(Expr e, int lanes) {
  if (lanes == 1 || e->type.lanes == lanes) return e;
  return Intern({.op = ExprOp::kBroadcast, .type = {e->type.dtype, lanes}, .args = {&e, 1}});
}

Expr Context::Checked(Expr value, Expr begin, Expr end, std::string_view what) {
  const int lanes = std::max({value->type.lanes, begin->type.lanes, end->type.lanes});
  const Expr args[] = {Broadcast(value, lanes), Broadcast(begin, lanes), Broadcast(end, lanes)};
  return Intern({.op = ExprOp::kChecked, .type = {DType::kI64, lanes}, .args = args, .name = what});
}

Expr Context::Make(ExprOp op, absl::Span<const Expr> args) {
  const OpRow* row = RowOf(op);
  DCHECK(row != nullptr && static_cast<int>(args.size()) == row->arity);
  int lanes = 1;
  for (Expr a : args) lanes = std::max(lanes, a->type.lanes);
  std::vector<Expr> wide;
  if (lanes > 1) {
    for (Expr a : args) wide.push_back(Broadcast(a, lanes));
    args = wide;
  }
  Type type = args[0]->type;
  if (row->result == OpRow::kBool) type = {DType::kBool, lanes};
  if (row->result == OpRow::kSecond) type = args[1]->type;
  if (row->result == OpRow::kElement) type = type.Element();
  return Intern({.op = op, .type = type, .args = args});
}

Expr Context::WithArgs(Expr e, absl::Span<const Expr> args) {
  switch (e->op) {
    case ExprOp::kLoad: {
      Expr mask = nullptr;
      if (e->has_mask) {
        mask = args.back();
        args.remove_suffix(1);
      }
      return Load(e->buffer, args, mask);
    }
    case ExprOp::kAddress:
      return Address(e->buffer, args);
    case ExprOp::kCast:
      return Cast(e->type.dtype, args[0]);
    case ExprOp::kRamp:
      return Ramp(args[0], args[1], e->type.lanes);
    case ExprOp::kBroadcast:
      return Broadcast(args[0], e->type.lanes);
    case ExprOp::kChecked:
      return Checked(args[0], args[1], args[2], e->name);
    case ExprOp::kInt:
    case ExprOp::kFloat:
    case ExprOp::kVar:
      return e;
    default:
      return Make(e->op, args);
  }
}

std::optional<int> LanesMoved(Expr e) {
  const Expr n = e->args[1]->op == ExprOp::kBroadcast ? e->args[1]->args[0] : e->args[1];
  if (!IsInt(n) || n->int_value < 0 || n->int_value > e->type.lanes) return std::nullopt;
  return static_cast<int>(n->int_value);
}

std::optional<int64_t> FoldInt(ExprOp op, DType t, absl::Span<const int64_t> a) {
  // Wraps as two's complement: computed unsigned.
  auto u = [](int64_t v) { return static_cast<uint64_t>(v); };
  const bool is_unsigned = InfoOf(t).kind == DTypeKind::kUInt;
  auto wrap = [&](uint64_t v) { return WrapTo(t, static_cast<int64_t>(v)); };
  switch (op) {
    case ExprOp::kAdd:
      return wrap(u(a[0]) + u(a[1]));
    case ExprOp::kSub:
      return wrap(u(a[0]) - u(a[1]));
    case ExprOp::kMul:
      return wrap(u(a[0]) * u(a[1]));
    case ExprOp::kNeg:
      return wrap(0 - u(a[0]));
    case ExprOp::kDiv:
    case ExprOp::kMod:
    case ExprOp::kTruncDiv:
    case ExprOp::kTruncMod: {
      if (a[1] == 0) return std::nullopt;
      const bool is_mod = op == ExprOp::kMod || op == ExprOp::kTruncMod;
      if (is_unsigned) return wrap(is_mod ? u(a[0]) % u(a[1]) : u(a[0]) / u(a[1]));
      if (a[1] == -1) return is_mod ? 0 : wrap(0 - u(a[0]));
      int64_t q = a[0] / a[1], r = a[0] % a[1];
      if ((op == ExprOp::kDiv || op == ExprOp::kMod) && r != 0 && (r < 0) != (a[1] < 0)) {
        q -= 1;
        r += a[1];
      }
      return is_mod ? r : q;
    }
    case ExprOp::kMin:
      return is_unsigned ? static_cast<int64_t>(std::min(u(a[0]), u(a[1]))) : std::min(a[0], a[1]);
    case ExprOp::kMax:
      return is_unsigned ? static_cast<int64_t>(std::max(u(a[0]), u(a[1]))) : std::max(a[0], a[1]);
    case ExprOp::kLt:
      return is_unsigned ? u(a[0]) < u(a[1]) : a[0] < a[1];
    case ExprOp::kLe:
      return is_unsigned ? u(a[0]) <= u(a[1]) : a[0] <= a[1];
    case ExprOp::kEq:
      return a[0] == a[1];
    case ExprOp::kNe:
      return a[0] != a[1];
    case ExprOp::kAnd:
      return a[0] != 0 && a[1] != 0;
    case ExprOp::kOr:
      return a[0] != 0 || a[1] != 0;
    case ExprOp::kNot:
      return t == DType::kBool ? a[0] == 0 : wrap(~u(a[0]));
    case ExprOp::kBitAnd:
      return wrap(u(a[0]) & u(a[1]));
    case ExprOp::kBitOr:
      return wrap(u(a[0]) | u(a[1]));
    case ExprOp::kBitXor:
      return wrap(u(a[0]) ^ u(a[1]));
    case ExprOp::kShl:
      if (a[1] < 0 || a[1] >= InfoOf(t).bits) return std::nullopt;
      return wrap(u(a[0]) << a[1]);
    case ExprOp::kShr:
      if (a[1] < 0 || a[1] >= InfoOf(t).bits) return std::nullopt;
      return is_unsigned ? static_cast<int64_t>(u(a[0]) >> a[1]) : a[0] >> a[1];
    case ExprOp::kAbs:
      return a[0] < 0 && !is_unsigned ? wrap(0 - u(a[0])) : a[0];
    case ExprOp::kSelect:
      return a[0] != 0 ? a[1] : a[2];
    default:
      return std::nullopt;
  }
}

bool Overflows(ExprOp op, absl::Span<const int64_t> a) {
  int64_t r;
  switch (op) {
    case ExprOp::kAdd:
      return __builtin_add_overflow(a[0], a[1], &r);
    case ExprOp::kSub:
      return __builtin_sub_overflow(a[0], a[1], &r);
    case ExprOp::kMul:
      return __builtin_mul_overflow(a[0], a[1], &r);
    case ExprOp::kNeg:
    case ExprOp::kAbs:
      return a[0] == std::numeric_limits<int64_t>::min();
    case ExprOp::kDiv:
    case ExprOp::kTruncDiv:
      return a[0] == std::numeric_limits<int64_t>::min() && a[1] == -1;
    default:
      return false;
  }
}

namespace {
// The constant an operator folds to, or null.
Expr Fold(Context& c, ExprOp op, Expr a, Expr b) {
  if (!IsInt(a) || !IsInt(b)) return nullptr;
  auto v = FoldInt(op, a->type.dtype, {a->int_value, b->int_value});
  if (!v) return nullptr;
  return c.Int(*v, RowOf(op)->result == OpRow::kBool ? DType::kBool : a->type.dtype);
}
}  // namespace

Expr Context::Add(Expr a, Expr b) {
  if (Expr f = Fold(*this, ExprOp::kAdd, a, b)) return f;
  if (IsInt(a, 0)) return b;
  if (IsInt(b, 0)) return a;
  return Make(ExprOp::kAdd, {a, b});
}
Expr Context::Sub(Expr a, Expr b) {
  if (Expr f = Fold(*this, ExprOp::kSub, a, b)) return f;
  if (IsInt(b, 0)) return a;
  if (a == b && !IsFloat(a->type.dtype) && a->type.lanes == 1 && !a->checks) return Int(0, a->type.dtype);
  return Make(ExprOp::kSub, {a, b});
}
Expr Context::Mul(Expr a, Expr b) {
  if (Expr f = Fold(*this, ExprOp::kMul, a, b)) return f;
  if (IsInt(a, 1) || (IsInt(b, 0) && !a->checks)) return Broadcast(b, std::max(a->type.lanes, b->type.lanes));
  if (IsInt(b, 1) || (IsInt(a, 0) && !b->checks)) return Broadcast(a, std::max(a->type.lanes, b->type.lanes));
  return Make(ExprOp::kMul, {a, b});
}
Expr Context::Div(Expr a, Expr b) {
  if (Expr f = Fold(*this, ExprOp::kDiv, a, b)) return f;
  if (IsInt(b, 1)) return a;
  return Make(ExprOp::kDiv, {a, b});
}
Expr Context::Mod(Expr a, Expr b) {
  if (Expr f = Fold(*this, ExprOp::kMod, a, b)) return f;
  if (IsInt(b, 1) && a->type.lanes == 1 && !a->checks) return Int(0, a->type.dtype);
  return Make(ExprOp::kMod, {a, b});
}
Expr Context::Min(Expr a, Expr b) {
  if (Expr f = Fold(*this, ExprOp::kMin, a, b)) return f;
  return a == b ? a : Make(ExprOp::kMin, {a, b});
}
Expr Context::Max(Expr a, Expr b) {
  if (Expr f = Fold(*this, ExprOp::kMax, a, b)) return f;
  return a == b ? a : Make(ExprOp::kMax, {a, b});
}
Expr Context::And(Expr a, Expr b) {
  if (IsTrue(a)) return b;
  if (IsTrue(b) || a == b) return a;
  if ((IsInt(a, 0) || IsInt(b, 0)) && !a->checks && !b->checks) return Bool(false);
  return Make(ExprOp::kAnd, {a, b});
}
Expr Context::Or(Expr a, Expr b) {
  if (IsInt(a, 0)) return b;
  if (IsInt(b, 0) || a == b) return a;
  if ((IsTrue(a) || IsTrue(b)) && !a->checks && !b->checks) return Bool(true);
  return Make(ExprOp::kOr, {a, b});
}
Expr Context::Not(Expr a) {
  if (IsInt(a) && a->type.dtype == DType::kBool) return Bool(a->int_value == 0);
  return Make(ExprOp::kNot, {a});
}
Expr Context::Lt(Expr a, Expr b) {
  if (Expr f = Fold(*this, ExprOp::kLt, a, b)) return f;
  return Make(ExprOp::kLt, {a, b});
}
Expr Context::Le(Expr a, Expr b) {
  if (Expr f = Fold(*this, ExprOp::kLe, a, b)) return f;
  return Make(ExprOp::kLe, {a, b});
}
Expr Context::Eq(Expr a, Expr b) {
  if (Expr f = Fold(*this, ExprOp::kEq, a, b)) return f;
  return Make(ExprOp::kEq, {a, b});
}
Expr Context::CeilDiv(Expr a, Expr b) { return Div(Add(a, Sub(b, Int(1, b->type.dtype))), b); }
Expr Context::Select(Expr cond, Expr a, Expr b) {
  if (IsInt(cond) && !(cond->int_value != 0 ? b : a)->checks) return cond->int_value != 0 ? a : b;
  if (a == b && !cond->checks) return a;
  return Make(ExprOp::kSelect, {cond, a, b});
}

bool KeepsChecks(Expr from, Expr to) {
  if (!from->checks) return true;
  const auto checked = [](Expr e) {
    absl::flat_hash_set<std::string_view> r;
    Visit(e, [&](Expr x) {
      if (x->op == ExprOp::kChecked) r.insert(x->name);
      return x->checks;
    });
    return r;
  };
  const auto kept = checked(to), all = checked(from);
  return std::all_of(all.begin(), all.end(), [&](std::string_view what) { return kept.contains(what); });
}

std::vector<Expr> IndicesOf(Expr load) {
  std::vector<Expr> r = load->args;
  if (load->has_mask) r.pop_back();
  return r;
}
Expr MaskOf(Expr load) { return load->has_mask ? load->args.back() : nullptr; }

Expr MapChildren(Context& c, Expr e, absl::FunctionRef<Expr(Expr)> f) {
  absl::InlinedVector<Expr, 6> args;
  bool changed = false;
  for (Expr a : e->args) {
    args.push_back(f(a));
    changed |= args.back() != a;
  }
  return changed ? c.WithArgs(e, args) : e;
}

Expr Rewriter::operator()(Expr e) {
  const bool is_leaf = e->op == ExprOp::kVar || IsConst(e);
  if (!is_leaf) {
    if (const Expr* known = memo_.Find(e)) return *known;
  }
  Expr r = f_(e);
  if (is_leaf) return r == nullptr ? e : r;
  if (r == nullptr) r = MapChildren(c_, e, [this](Expr x) { return (*this)(x); });
  memo_.Insert(e, r);
  return r;
}

namespace {
struct Visitor {
  absl::FunctionRef<bool(Expr)> f;
  bool for_loads = false;  // leaves out what has none
  SmallMap<Expr, bool> seen = {};

  void Go(Expr x) {
    if ((for_loads && !x->reads) || seen.Find(x) != nullptr) return;
    seen.Insert(x, true);
    if (!f(x)) return;
    for (Expr a : x->args) Go(a);
  }
};
}  // namespace

void Visit(Expr e, absl::FunctionRef<bool(Expr)> f) { Visitor{f}.Go(e); }

void VisitLoads(Expr e, absl::FunctionRef<void(Expr)> f) {
  const auto visit = [&](Expr x) {
    if (x->op == ExprOp::kLoad) f(x);
    return true;
  };
  Visitor{visit, true}.Go(e);
}

Expr Substitute(Context& c, Expr e, const VarMap& map) {
  if (map.empty()) return e;
  return Rewriter(c, [&](Expr x) -> Expr {
    if (x->op != ExprOp::kVar) return nullptr;
    auto it = map.find(x);
    return it == map.end() ? x : it->second;
  })(e);
}

Expr ElementOffset(Context& c, Buffer b, absl::Span<const Expr> indices) {
  Expr offset = c.Int(0), weight = c.Int(1);
  for (size_t d = indices.size(); d-- > 0;) {
    offset = c.Add(offset, c.Mul(indices[d], b->strides.empty() ? weight : b->strides[d]));
    weight = c.Mul(weight, b->shape[d]);
  }
  return offset;
}

bool Uses(Expr e, const absl::flat_hash_set<Expr>& vars) {
  bool found = false;
  Visit(e, [&](Expr x) {
    found |= x->op == ExprOp::kVar && vars.contains(x);
    return !found;
  });
  return found;
}
bool Uses(Expr e, Expr var) {
  bool found = false;
  Visit(e, [&](Expr x) {
    found |= x == var;
    return !found;
  });
  return found;
}

std::vector<Expr> VarsOf(Expr e) {
  std::vector<Expr> r;
  Visit(e, [&](Expr x) {
    if (x->op == ExprOp::kVar) r.push_back(x);
    return true;
  });
  return r;
}

}  // namespace cinn_like::ir
