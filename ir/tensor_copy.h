// Copies of rectangles to shared memory by a GPU's copy engine. A loop of kind tensor_copy is a nest of two that copies
// rows of a tensor as they lie in memory; one thread asks for it, and the engine says when it is there:
//
//   for r in 0..128 @tensor_copy { for c in 0..64 { a[r, c] = x[i, row + r, k + c; row + r < n] } }
//
// The engine knows the tensor by a map (TensorMap) that the host makes, and gets coordinates. It reads zeros beyond the
// tensor's extents, so a mask can say no more than that places are within them. Rows have whole lines of 64 elements of
// 16 bits, in the order in which matrix units read them (backends/wgmma_printer.h). The tensor begins at a multiple of
// 16 bytes, and so do its rows.
//
// The pass lower_tensor_copies makes calls of such nests, which keep them as their meaning; barriers of memory, one for
// each copy of what a pipelined loop fills, count what arrives:
//
//   call cinn_init_arrivals(&arrivals[0], 3, 2)                 one thread, once: 3 barriers of 2 copies each
//   call cinn_tensor_copy(&a[0, 0], &arrivals[0], &x[0, 0, 0], extents, strides, box, coordinates) computes { ... }
//   call cinn_await_copies(&arrivals[0], 0)                     all threads, for what is 0 at the 1st, 3rd, ... time
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "ir/analyzer.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

inline constexpr std::string_view kInitArrivals = "cinn_init_arrivals", kTensorCopy = "cinn_tensor_copy",
                                  kAwaitCopies = "cinn_await_copies";
// Of a call of one of these three.
bool IsTensorCall(const Call& call);

struct TensorCopy {
  Expr to = nullptr;       // the address of the first element that is written
  Expr arrival = nullptr;  // of the barrier that counts; not of a nest
  TensorMap map;           // columns, rows, then what the rectangle is one of
  std::vector<Expr> coordinates;
};

// The nest of `loop`, in blocks or lowered; `a` knows the loops around it. InvalidArgument says what else was expected.
StatusOr<TensorCopy> MatchTensorCopy(Analyzer& a, const For& loop);

// The call of a copy, and what it says; nullopt: it is another call.
Call CallOf(const TensorCopy& copy, Stmt meaning);
std::optional<TensorCopy> TensorCopyOf(const Call& call);
// The maps of all copies in a kernel, each once, in order.
std::vector<TensorMap> TensorMapsOf(const Stmt& kernel_body);

}  // namespace cinn_like::ir
