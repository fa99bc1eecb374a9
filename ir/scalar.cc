#include "ir/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace cinn_like::ir {
namespace {

int64_t LoadInt(DType t, const uint8_t* p) {
  int64_t v = 0;
  std::memcpy(&v, p, static_cast<size_t>(BytesOf(t)));
  return WrapTo(t, v);
}
double LoadFloat(DType t, const uint8_t* p) {
  if (t == DType::kF64) {
    double v;
    std::memcpy(&v, p, 8);
    return v;
  }
  if (t == DType::kF32) {
    float v;
    std::memcpy(&v, p, 4);
    return v;
  }
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  if (t == DType::kF16) return static_cast<double>(std::bit_cast<_Float16>(bits));
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
void StoreInt(DType t, uint8_t* p, int64_t v) {
  v = WrapTo(t, v);
  std::memcpy(p, &v, static_cast<size_t>(BytesOf(t)));
}
void StoreFloat(DType t, uint8_t* p, double v) {
  v = RoundTo(t, v);
  if (t == DType::kF64) {
    std::memcpy(p, &v, 8);
  } else if (t == DType::kF32) {
    const float f = static_cast<float>(v);
    std::memcpy(p, &f, 4);
  } else if (t == DType::kF16) {
    const auto h = static_cast<_Float16>(v);
    std::memcpy(p, &h, 2);
  } else {
    const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(v)) >> 16);
    const uint16_t quiet = std::isnan(v) ? bits | 0x40 : bits;
    std::memcpy(p, &quiet, 2);
  }
}

int64_t TruncateTo64(double v) { return v >= -0x1p63 && v < 0x1p63 ? static_cast<int64_t>(v) : INT64_MIN; }

}  // namespace

Lane LoadLane(DType t, const uint8_t* p) { return IsFloat(t) ? Lane{0, LoadFloat(t, p)} : Lane{LoadInt(t, p), 0}; }
void StoreLane(DType t, uint8_t* p, Lane v) { IsFloat(t) ? StoreFloat(t, p, v.f) : StoreInt(t, p, v.i); }

Lane Convert(DType from, DType to, Lane v) {
  if (IsFloat(from) && IsFloat(to)) return {0, RoundTo(to, v.f)};
  if (IsFloat(to)) {
    const bool is_big = from == DType::kU64 && v.i < 0;
    if (to == DType::kF32)
      return {0, is_big ? static_cast<float>(static_cast<uint64_t>(v.i)) : static_cast<float>(v.i)};
    return {0, RoundTo(to, is_big ? static_cast<double>(static_cast<uint64_t>(v.i)) : static_cast<double>(v.i))};
  }
  if (!IsFloat(from)) return {to == DType::kBool ? v.i != 0 : WrapTo(to, v.i), 0};
  if (to == DType::kBool) return {v.f != 0, 0};
  if (to == DType::kU64 && v.f >= 0x1p63) return {TruncateTo64(v.f - 0x1p63) ^ INT64_MIN, 0};
  const bool via_i64 = InfoOf(to).bits == 64 || to == DType::kU32 || to == DType::kU8;
  if (!via_i64 && !(v.f >= -0x1p31 && v.f < 0x1p31)) return {WrapTo(to, INT32_MIN), 0};
  return {WrapTo(to, TruncateTo64(v.f)), 0};
}

std::optional<double> FoldFloat(ExprOp op, DType t, double x, double y, double z) {
  auto round = [&](double v) { return RoundTo(t, v); };
  switch (op) {
    case ExprOp::kAdd:
      return round(x + y);
    case ExprOp::kSub:
      return round(x - y);
    case ExprOp::kMul:
      return round(x * y);
    case ExprOp::kDiv:
      return round(x / y);
    case ExprOp::kMod:
      return round(x - std::floor(x / y) * y);
    case ExprOp::kNeg:
      return -x;
    case ExprOp::kMin:
      return std::isnan(x) ? x : std::isnan(y) ? y : std::min(x, y);
    case ExprOp::kMax:
      return std::isnan(x) ? x : std::isnan(y) ? y : std::max(x, y);
    case ExprOp::kTruncDiv:
      return round(std::trunc(x / y));
    case ExprOp::kTruncMod:
      return std::fmod(x, y);
    case ExprOp::kFma:
      return t == DType::kF32 ? std::fma(static_cast<float>(x), static_cast<float>(y), static_cast<float>(z))
                              : round(std::fma(x, y, z));
    case ExprOp::kAbs:
      return std::fabs(x);
    case ExprOp::kExp:
      return round(std::exp(x));
    case ExprOp::kExp2:
      return round(std::exp2(x));
    case ExprOp::kExpm1:
      return round(std::expm1(x));
    case ExprOp::kLog:
      return round(std::log(x));
    case ExprOp::kLog1p:
      return round(std::log1p(x));
    case ExprOp::kSqrt:
      return round(std::sqrt(x));
    case ExprOp::kRsqrt:
      return round(1 / std::sqrt(x));
    case ExprOp::kTanh:
      return round(std::tanh(x));
    case ExprOp::kErf:
      return round(std::erf(x));
    case ExprOp::kSin:
      return round(std::sin(x));
    case ExprOp::kCos:
      return round(std::cos(x));
    case ExprOp::kPow:
      return round(std::pow(x, y));
    case ExprOp::kFloor:
      return std::floor(x);
    case ExprOp::kCeil:
      return std::ceil(x);
    case ExprOp::kRound:
      return std::nearbyint(x);
    case ExprOp::kTrunc:
      return std::trunc(x);
    default:
      return std::nullopt;
  }
}

}  // namespace cinn_like::ir
