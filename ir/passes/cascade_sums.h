// Long sums of floats are sums of shorter ones: an element that is added to more than `longest` times, one after the
// other, loses digits with each. A part of at most about `chunk` values has an accumulator of its own, from zero, and
// is added as one. (Higham, Accuracy and Stability of Numerical Algorithms, 4.1: n - 1 roundings become c + n / c.)
//
//   for k in 0..n { s[0] = s[0] + x[k] }
//     =>
//   for kc in 0..(n + 1023) / 1024 {
//     alloc part: f32[1] @local
//     part[0] = 0.0
//     for k in 0..min(1024, n - kc * 1024) { part[0] = part[0] + x[kc * 1024 + k] }
//     s[0] = s[0] + part[0]
//   }
//
// What is added at least chunk / 2 times in a loop's body has its part there. Sums that go on in later loops (panels of
// a product) have a part for each. Steps of matrix units and of whole blocks of threads are left as they are.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
struct SumLengths {
  int64_t longest = 2048;
  int64_t chunk = 1024;
};
// After `vectorize`: elements are what is stored at once.
StatusOr<Func> CascadeSums(Func f, const SumLengths& lengths = {});
}  // namespace cinn_like::ir
