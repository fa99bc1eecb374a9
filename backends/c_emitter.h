// Lowered functions (no blocks, flat buffers, vectors instead of vectorized loops) as source text of a C-family
// language.
//
//   for b in 0..n / 256 @blockIdx.x { for t in 0..256 @threadIdx.x { y[b * 256 + t] = x[b * 256 + t] * 2.0 } }
//   ->  extern "C" __global__ void __launch_bounds__(256) k(const float* __restrict__ p0, float* __restrict__ p1, long
//   long n0) {
//         const long long i0 = blockIdx.x;
//         ...
//
// Names are numbered in order of appearance, so functions that differ in names alone give the same text.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "backends/c_entry.h"
#include "backends/dialects.h"

namespace cinn_like::backends {

// The text of `f`, called `name`, without the helpers it uses.
StatusOr<std::string> EmitFunc(const ir::Func& f, const Dialect& d, std::string_view name);

// That of an entry function, of a dialect without kernels.
StatusOr<std::string> EmitEntry(const ir::Func& f, const Dialect& d, const CEntry& entry);

// A whole source text: header, helpers, then `functions` (texts of EmitFunc).
std::string JoinSource(const Dialect& d, const std::vector<std::string>& functions);

// Every function of `m` under its own name, none of them an entry. For a dialect with kernels only those are printed.
StatusOr<std::string> EmitModule(const ir::Module& m, const Dialect& d);

}  // namespace cinn_like::backends
