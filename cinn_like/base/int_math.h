// Arithmetic of int64 that is defined for every operand: what overflows wraps, a quotient by 0 is 0.
#pragma once
#include <concepts>
#include <cstdint>
#include <limits>
#include <numeric>

namespace cinn_like {

// An int64 whose operators wrap. Either operand may be a plain integer: what is computed with one stays one.
struct WrapInt {
  // Converts freely: it is an int64 but for its operators.
  constexpr WrapInt(int64_t v = 0) : value(v) {}        // NOLINT(google-explicit-constructor)
  constexpr operator int64_t() const { return value; }  // NOLINT(google-explicit-constructor)

  int64_t value;
};

template <class A, class B>
concept HasWrapInt = (std::same_as<A, WrapInt> && (std::same_as<B, WrapInt> || std::integral<B>)) ||
                     (std::integral<A> && std::same_as<B, WrapInt>);

constexpr uint64_t BitsOf(WrapInt v) { return static_cast<uint64_t>(v.value); }

template <class A, class B>
  requires HasWrapInt<A, B>
constexpr WrapInt operator+(A a, B b) {
  return static_cast<int64_t>(BitsOf(a) + BitsOf(b));
}
template <class A, class B>
  requires HasWrapInt<A, B>
constexpr WrapInt operator-(A a, B b) {
  return static_cast<int64_t>(BitsOf(a) - BitsOf(b));
}
template <class A, class B>
  requires HasWrapInt<A, B>
constexpr WrapInt operator*(A a, B b) {
  return static_cast<int64_t>(BitsOf(a) * BitsOf(b));
}
constexpr WrapInt operator-(WrapInt v) { return 0 - v; }
// Rounds towards 0.
template <class A, class B>
  requires HasWrapInt<A, B>
constexpr WrapInt operator/(A a, B b) {
  const int64_t x = a, y = b;
  return y == 0 ? WrapInt(0) : y == -1 ? -WrapInt(x) : WrapInt(x / y);
}
template <class A, class B>
  requires HasWrapInt<A, B>
constexpr WrapInt operator%(A a, B b) {
  return a - a / b * b;
}
template <class B>
  requires HasWrapInt<WrapInt, B>
constexpr WrapInt& operator+=(WrapInt& a, B b) {
  return a = a + b;
}
template <class B>
  requires HasWrapInt<WrapInt, B>
constexpr WrapInt& operator-=(WrapInt& a, B b) {
  return a = a - b;
}
template <class B>
  requires HasWrapInt<WrapInt, B>
constexpr WrapInt& operator*=(WrapInt& a, B b) {
  return a = a * b;
}
template <class B>
  requires HasWrapInt<WrapInt, B>
constexpr WrapInt& operator/=(WrapInt& a, B b) {
  return a = a / b;
}

// Rounds down: the remainder has the sign of b.
inline int64_t FloorDiv(int64_t a, int64_t b) {
  const WrapInt quotient = WrapInt(a) / b, rest = WrapInt(a) % b;
  return quotient - (b != 0 && rest != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
inline int64_t FloorMod(int64_t a, int64_t b) { return a - WrapInt(FloorDiv(a, b)) * b; }
inline int64_t CeilDiv(int64_t a, int64_t b) { return -WrapInt(FloorDiv(-WrapInt(a), b)); }

// At least 0, which only two zeros have: that of the least number, 2^63, is given as 2^62, which divides both, too.
inline int64_t Gcd(int64_t a, int64_t b) {
  const auto magnitude = [](WrapInt v) { return BitsOf(v < 0 ? -v : v); };  // std::gcd negates as the type does
  const uint64_t g = std::gcd(magnitude(a), magnitude(b));
  return g > uint64_t{std::numeric_limits<int64_t>::max()} ? int64_t{1} << 62 : static_cast<int64_t>(g);
}

}  // namespace cinn_like
