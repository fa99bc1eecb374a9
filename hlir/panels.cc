#include "hlir/panels.h"

#include <algorithm>

namespace cinn_like::hlir {

bool HasRegisterTiles(DType acc, const Target& target) {
  return !target.HasKernels() && !IsHalf(acc) && acc != DType::kBool;
}

PanelShape ChoosePanel(int64_t columns, DType acc, const Target& target) {
  PanelShape r;
  r.lanes = std::max<int64_t>(target.vector_bytes, 16) / BytesOf(acc);
  const int64_t wide = columns < 0 ? 2 : (columns + r.lanes - 1) / r.lanes;
  r.vectors = wide % 2 == 0 || wide > 4 ? 2 : wide;
  return r;
}

}  // namespace cinn_like::hlir
