// Windows that slide over the spatial dimensions of NC..., one to three of them: convolutions and poolings.
#pragma once
#include <vector>

#include "hlir/ops/infer_util.h"
#include "hlir/te_call.h"

namespace cinn_like::hlir {

// A number for each spatial dimension.
struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
  int rank() const { return static_cast<int>(kernel.size()); }
  bool is_padded() const;
};

// The window of an op's attributes over an operand of `rank` dimensions, whichever of kernel, stride, padding and
// dilation it has; one without values is 1 everywhere, padding 0.
StatusOr<Window> WindowOf(const Attrs& attrs, size_t rank);
// Same, of attributes that passed inference.
Window CheckedWindowOf(const Attrs& attrs, size_t rank);

// Number of window positions along spatial axis `i` of size `size`.
StatusOr<Dim> CountPositions(const Window& window, int i, const Dim& size, bool ceil_mode, const SymbolTable& symbols);

// A place of one tensor seen from the other side of a window, along all spatial axes: valid where `mask`.
struct Place {
  std::vector<ir::Expr> at;
  ir::Expr mask;
  // Its indices in a tensor whose first two are these.
  std::vector<ir::Expr> Behind(ir::Expr first, ir::Expr second) const;
};
// Where in the input (spatial sizes `input`) window position `position` reads with tap `tap`.
Place InputPlace(const TeCall& call, const Window& window, const Dim* input, const ir::Expr* position,
                 const ir::Expr* tap);
// Which window position (there are `positions`) reads input element `element` with tap `tap`.
Place PositionPlace(const TeCall& call, const Window& window, const Dim* positions, const ir::Expr* element,
                    const ir::Expr* tap);

// NC and one to three spatial dimensions.
Status CheckImageRank(std::string_view operand, const TensorType& type);

}  // namespace cinn_like::hlir
