#include "backends/dialects.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_replace.h"

namespace cinn_like::backends {
namespace {
using ir::ExprOp;

constexpr DTypeSet kBool = SetOf(DType::kBool);
constexpr DTypeSet kF32 = SetOf(DType::kF32);
constexpr DTypeSet kF64 = SetOf(DType::kF64);
constexpr DTypeSet kFloats = kF32 | kF64;
constexpr DTypeSet kHalves = SetOf(DType::kF16) | SetOf(DType::kBF16);
constexpr DTypeSet kSigned = SetOf(DType::kI8) | SetOf(DType::kI16) | SetOf(DType::kI32) | SetOf(DType::kI64);
constexpr DTypeSet kUnsigned = SetOf(DType::kU8) | SetOf(DType::kU16) | SetOf(DType::kU32) | SetOf(DType::kU64);
constexpr DTypeSet kInts = kSigned | kUnsigned;
constexpr DTypeSet kNumbers = kInts | kFloats;
constexpr DTypeSet kAll = kBool | kNumbers | kHalves;
// Those whose arithmetic overflows in C: narrow ones after promotion to int.
constexpr DTypeSet kOverflowing = kInts & ~(SetOf(DType::kU32) | SetOf(DType::kU64));

constexpr Spelling kCommon[] = {
    {ExprOp::kOr, kBool, "$0 || $1", kLogicalOr},
    {ExprOp::kAnd, kBool, "$0 && $1", kLogicalAnd},
    {ExprOp::kEq, kBool | kNumbers, "$0 == $1", kEquality},
    {ExprOp::kNe, kBool | kNumbers, "$0 != $1", kEquality},
    {ExprOp::kLt, kBool | kNumbers, "$0 < $1", kRelation},
    {ExprOp::kLe, kBool | kNumbers, "$0 <= $1", kRelation},
    {ExprOp::kBitOr, kBool | kInts, "$0 | $1", kBitOr},
    {ExprOp::kBitXor, kBool | kInts, "$0 ^ $1", kBitXor},
    {ExprOp::kBitAnd, kBool | kInts, "$0 & $1", kBitAnd},
    {ExprOp::kShl, kInts, "$0 << $1", kShift},
    {ExprOp::kShr, kInts, "$0 >> $1", kShift},
    {ExprOp::kAdd, kNumbers, "$0 + $1", kSum},
    {ExprOp::kSub, kNumbers, "$0 - $1", kSum},
    {ExprOp::kMul, kNumbers, "$0 * $1", kProduct},
    {ExprOp::kDiv, kFloats, "$0 / $1", kProduct},
    {ExprOp::kNot, kBool, "!$0", kUnary},
    {ExprOp::kNot, kInts, "($T)~$0", kUnary},
    {ExprOp::kNeg, kNumbers, "-$0", kUnary},
    {ExprOp::kMin, kBool | kNumbers, "cinn_min_$t($0, $1)", kAtom},
    {ExprOp::kMax, kBool | kNumbers, "cinn_max_$t($0, $1)", kAtom},
    {ExprOp::kSelect, kAll, "$0 ? $1 : $2", kTernary},
    {ExprOp::kTruncDiv, kInts, "$0 / $1", kProduct},
    {ExprOp::kTruncMod, kInts, "$0 % $1", kProduct},
    {ExprOp::kTruncDiv, kFloats, "trunc$f($0 / $1)", kAtom},
    {ExprOp::kTruncMod, kFloats, "fmod$f($0, $1)", kAtom},
    {ExprOp::kMod, kFloats, "cinn_mod_$t($0, $1)", kAtom},
    {ExprOp::kFma, kInts, "$0 * $1 + $2", kSum},
    {ExprOp::kFma, kFloats, "fma$f($0, $1, $2)", kAtom},
    {ExprOp::kAbs, kInts, "cinn_abs_$t($0)", kAtom},
    {ExprOp::kAbs, kFloats, "fabs$f($0)", kAtom},
    {ExprOp::kExp, kFloats, "exp$f($0)", kAtom},
    {ExprOp::kExp2, kFloats, "exp2$f($0)", kAtom},
    {ExprOp::kExpm1, kFloats, "expm1$f($0)", kAtom},
    {ExprOp::kLog, kFloats, "log$f($0)", kAtom},
    {ExprOp::kLog1p, kFloats, "log1p$f($0)", kAtom},
    {ExprOp::kSqrt, kFloats, "sqrt$f($0)", kAtom},
    {ExprOp::kRsqrt, kFloats, "($T)1 / sqrt$f($0)", kProduct},
    {ExprOp::kTanh, kFloats, "tanh$f($0)", kAtom},
    {ExprOp::kErf, kFloats, "erf$f($0)", kAtom},
    {ExprOp::kSin, kFloats, "sin$f($0)", kAtom},
    {ExprOp::kCos, kFloats, "cos$f($0)", kAtom},
    {ExprOp::kPow, kFloats, "pow$f($0, $1)", kAtom},
    {ExprOp::kFloor, kFloats, "floor$f($0)", kAtom},
    {ExprOp::kCeil, kFloats, "ceil$f($0)", kAtom},
    {ExprOp::kRound, kFloats, "rint$f($0)", kAtom},
    {ExprOp::kTrunc, kFloats, "trunc$f($0)", kAtom},
    {ExprOp::kIsNan, kFloats, "cinn_isnan_$t($0)", kAtom},
};

constexpr Spelling kWrapping[] = {
    {ExprOp::kAdd, kOverflowing, "($T)(($U)$0 + ($U)$1)", kUnary},
    {ExprOp::kSub, kOverflowing, "($T)(($U)$0 - ($U)$1)", kUnary},
    {ExprOp::kMul, kOverflowing, "($T)(($U)$0 * ($U)$1)", kUnary},
    {ExprOp::kNeg, kOverflowing, "($T)(0u - ($U)$0)", kUnary},
    {ExprOp::kShl, kOverflowing, "($T)(($U)$0 << $1)", kUnary},
    {ExprOp::kFma, kOverflowing, "($T)(($U)$0 * ($U)$1 + ($U)$2)", kUnary},
    {ExprOp::kTruncDiv, kInts, "cinn_tdiv_$t($0, $1)", kAtom},
    {ExprOp::kTruncMod, kInts, "cinn_tmod_$t($0, $1)", kAtom},
};

// Shared by every dialect; $F starts a helper. x / 0 is x and x % 0 is 0 where the operands come from tensors, as a
// trap would end the process; the one quotient that overflows wraps.
constexpr Helper kCommonHelpers[] = {
    {"cinn_min_$t", kInts | kBool, "$F $T cinn_min_$t($T a, $T b) { return b < a ? b : a; }\n"},
    {"cinn_max_$t", kInts | kBool, "$F $T cinn_max_$t($T a, $T b) { return a < b ? b : a; }\n"},
    {"cinn_abs_$t", kSigned, "$F $T cinn_abs_$t($T a) { return a < 0 ? ($T)(0u - ($U)a) : a; }\n"},
    {"cinn_abs_$t", kUnsigned, "$F $T cinn_abs_$t($T a) { return a; }\n"},
    {"cinn_tdiv_$t", kUnsigned, "$F $T cinn_tdiv_$t($T a, $T b) { return b == 0 ? a : a / b; }\n"},
    {"cinn_tmod_$t", kUnsigned, "$F $T cinn_tmod_$t($T a, $T b) { return b == 0 ? 0 : a % b; }\n"},
    {"cinn_tdiv_$t", kSigned,
     "$F $T cinn_tdiv_$t($T a, $T b) { return b == 0 ? a : b == -1 ? ($T)(0u - ($U)a) : a / b; }\n"},
    {"cinn_tmod_$t", kSigned, "$F $T cinn_tmod_$t($T a, $T b) { return b == 0 || b == -1 ? 0 : a % b; }\n"},
    {"cinn_isnan_$t", kFloats, "$F bool cinn_isnan_$t($T a) { return a != a; }\n"},
    {"cinn_mod_$t", kFloats,
     "$F $T cinn_mod_$t($T a, $T b) {\n"
     "  const $T r = fmod$f(a, b);\n"
     "  return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n"
     "}\n"},
    {"cinn_min_$t", kF64, "$F double cinn_min_$t(double a, double b) { return a < b || a != a ? a : b; }\n"},
    {"cinn_max_$t", kF64, "$F double cinn_max_$t(double a, double b) { return a > b || a != a ? a : b; }\n"},
};

template <class T, size_t N>
const T* FindIn(const T (&rows)[N], ExprOp op, DType on) {
  for (const T& row : rows) {
    if (row.op == op && (row.on & SetOf(on)) != 0) return &row;
  }
  return nullptr;
}

// "unsigned int" if t is narrower than int, else the unsigned type of t's width.
std::string_view WrappingType(const Dialect& d, DType t) {
  return d.value_types[static_cast<int>(InfoOf(t).bits == 64 ? DType::kU64 : DType::kU32)];
}

struct HelperText {
  std::string name, text;
};

std::vector<HelperText> Instantiate(const Dialect& d) {
  std::vector<HelperText> r;
  auto add = [&](const Helper& h) {
    for (int i = 0; i < kNumDTypes; ++i) {
      if (h.on == 0 ? i > 0 : (h.on & 1u << i) == 0) continue;
      const DType t = static_cast<DType>(i);
      auto fill = [&](std::string_view s) {
        std::string out(s);
        absl::StrReplaceAll({{"$F", std::string(d.helper)},
                             {"$T", std::string(d.value_types[i])},
                             {"$t", std::string(Name(t))},
                             {"$f", t == DType::kF32 ? std::string(d.f32_suffix) : ""},
                             {"$U", std::string(WrappingType(d, t))}},
                            &out);
        return out;
      };
      r.push_back({fill(h.name), fill(h.text)});
    }
  };
  for (const Helper& h : d.helpers) add(h);
  for (const Helper& h : kCommonHelpers) add(h);
  return r;
}

bool IsIdentifierChar(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

const Spelling* Dialect::Find(ExprOp op, DType on) const {
  for (const Spelling& s : spellings) {
    if (s.op == op && (s.on & SetOf(on)) != 0) return &s;
  }
  return FindIn(kCommon, op, on);
}

const Spelling* Dialect::FindWrapping(ExprOp op, DType on) const { return FindIn(kWrapping, op, on); }

std::string HelpersFor(const Dialect& d, std::string_view source) {
  static const auto* c = new std::vector<HelperText>(Instantiate(CDialect()));
  static const auto* cuda = new std::vector<HelperText>(Instantiate(CudaDialect()));
  const bool is_ours = &d == &CDialect() || d.name == CudaDialect().name;
  const std::vector<HelperText> own = is_ours ? std::vector<HelperText>() : Instantiate(d);
  const std::vector<HelperText>& all = !is_ours ? own : &d == &CDialect() ? *c : *cuda;
  absl::flat_hash_set<std::string> used;
  auto scan = [&](std::string_view text) {
    constexpr std::string_view kPrefix = "cinn_";
    for (size_t i = text.find(kPrefix); i != text.npos; i = text.find(kPrefix, i + 1)) {
      if (i > 0 && IsIdentifierChar(text[i - 1])) continue;
      size_t end = i;
      while (end < text.size() && IsIdentifierChar(text[end])) ++end;
      used.insert(std::string(text.substr(i, end - i)));
    }
  };
  scan(source);
  // A helper uses earlier ones only, so one walk backwards finds all.
  std::vector<const HelperText*> picked;
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (!used.contains(it->name)) continue;
    scan(it->text);
    picked.push_back(&*it);
  }
  std::string r;
  for (auto it = picked.rbegin(); it != picked.rend(); ++it) r += (*it)->text;
  return r;
}

}  // namespace cinn_like::backends
