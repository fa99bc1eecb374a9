// Windows that slide over height and width: convolutions and poolings.
#pragma once
#include <array>

#include "hlir/ops/infer_util.h"
#include "hlir/te_call.h"

namespace cinn_like::hlir {

struct Window {
  std::array<int64_t, 2> kernel = {1, 1}, stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
};

// The window of an op's attributes, whichever of kernel, stride, padding and dilation it has.
StatusOr<Window> WindowOf(const Attrs& attrs);
// Same, of attributes that passed inference.
Window CheckedWindowOf(const Attrs& attrs);

// Number of window positions along spatial axis `i` (0: height) of size `size`.
StatusOr<Dim> CountPositions(const Window& window, int i, const Dim& size, bool ceil_mode, const SymbolTable& symbols);

// A place of one tensor seen from the other side of a window, along both spatial axes: valid where `mask` (null:
// always).
struct Place {
  std::array<ir::Expr, 2> at;
  ir::Expr mask;
};
// Where in the input (spatial sizes `input`) window position `position` reads with tap `tap`.
Place InputPlace(const TeCall& call, const Window& window, const Dim* input, const ir::Expr* position,
                 const ir::Expr* tap);
// Which window position (there are `positions`) reads input element `element` with tap `tap`.
Place PositionPlace(const TeCall& call, const Window& window, const Dim* positions, const ir::Expr* element,
                    const ir::Expr* tap);

Status CheckRank4(std::string_view operand, const TensorType& type);

}  // namespace cinn_like::hlir
