// Instructions of devices as nests of loops. A row of DeviceKind::intrinsics has a name, a meaning, and a text in the
// device's language; a loop of kind @intrinsic.NAME begins a nest that runs as one:
//
//   for i in 0..8 @intrinsic.mm8 { for j in 0..8 { for k in 0..8 {       a: f32[8, 8] @shared, b: f32[8, 8] @shared,
//     acc[i * 16 + j] = acc[i * 16 + j] + x[i * 32 + k] * y[k * 16 + j]  c: f32[8, 8] @local, c[i, j] = c[i, j] + ...
//
// A meaning is a function that allocates the operands and is one nest of loops of constant extents around one store;
// each dimension of an operand is indexed by a loop of its own. A nest is that instruction if its loops have the same
// extents in the same order, and the same is stored of operands of the same types in the same kinds of memory, whose
// elements lie next to each other along the last dimension, and along the others any distance apart. The one that is
// written shares its memory with no other. The loops stay what the nest computes: the interpreter runs them, and so
// does what finds no instruction in them when code is printed.
#pragma once
#include "cinn_like/base/device_kind.h"
#include "ir/analyzer.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

// Null if there is none.
const Intrinsic* FindIntrinsic(std::span<const Intrinsic> rows, std::string_view name);
inline const Intrinsic* FindIntrinsic(const DeviceKind& device, std::string_view name) {
  return FindIntrinsic(device.intrinsics, name);
}

// InvalidArgument says what of the row's meaning or text is not as above.
Status CheckIntrinsic(const Intrinsic& row);

// Loops of constant extents, the outermost first, around one store without a mask, in a block or lowered.
struct InstructionNest {
  std::vector<const For*> loops;
  Stmt store;
};
StatusOr<InstructionNest> InstructionNestOf(Context& c, const For& loop);

// Where the operands of the meaning lie, in its order.
struct IntrinsicOperand {
  std::string name;
  Buffer buffer = nullptr;
  Expr base = nullptr;           // of its first element
  std::vector<int64_t> pitches;  // by dimension: elements between neighbours
};
// InvalidArgument says what else was expected of `loop`. `a` knows what is around it.
StatusOr<std::vector<IntrinsicOperand>> MatchIntrinsic(Analyzer& a, const For& loop, const Intrinsic& row);

// Every nest of the function that says it is an instruction is one of the device, in blocks or lowered.
Status CheckIntrinsics(const Func& f, const DeviceKind& device);

}  // namespace cinn_like::ir
