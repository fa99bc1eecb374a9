// The numbers of the elementary functions (backends/lane_math.h), a row for f32 and one for f64. Polynomials, lowest
// coefficient first, are minimax fits of what stands beside them.
#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace cinn_like {

using MathTable = std::array<double, 16>;

struct MathTables {
  static const MathTables& Of(bool is_double);

  int mantissa_bits, exponent_bias;
  double ln2_high, ln2_low;  // their sum is ln 2; a whole number that is an exponent times the first is exact
  uint64_t sqrt_half_bits;   // of sqrt(1/2), as an integer

  // Beyond these, results are infinite, 0 or -1.
  double most_exp, least_exp, least_expm1, most_exp2, least_exp2;
  std::span<const double> exp;    // exp(r), |r| <= ln(2) / 2
  std::span<const double> exp2;   // 2^r, |r| <= 1/2
  std::span<const double> expm1;  // (exp(r) - 1 - r) / r^2, |r| <= ln(2) / 2
  std::span<const double> log;    // (log(1 + f) - f + f^2 / 2) / f^3, sqrt(1/2) <= 1 + f <= sqrt(2)

  double tanh_edge, most_tanh;   // the polynomial's end; where tanh is 1
  std::span<const double> tanh;  // (tanh(x) - x) / x^3 in x^2

  double erf_step, most_erf;            // what lies between two places, about; where erf is 1
  MathTable erf_places, erf_at_places;  // 16 places, where erf is almost a number of the type
  std::span<const MathTable> erf;       // (erf(place + t) - erf(place)) / t; of the first place, 0, less 1

  double most_trig;             // the largest argument whose reduction is exact enough
  std::span<const double> sin;  // (sin(r) - r) / r^3 in r^2, |r| <= pi / 4
  std::span<const double> cos;  // (cos(r) - 1) / r^2 in r^2
};

}  // namespace cinn_like
