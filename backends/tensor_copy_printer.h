// Tensor copies (ir/tensor_copy.h) as CUDA text: what one thread asks the copy engine for, and how all wait. A copy
// fills a panel (backends/wgmma_printer.h): a row of several lines has dimensions for lines and for groups of rows of
// its own, as the tensor map that the host makes says (runtime/cuda_tensor_map.cc).
#pragma once
#include <string>
#include <vector>

#include "backends/expr_printer.h"
#include "ir/tensor_copy.h"

namespace cinn_like::backends {

class TensorCopyPrinter {
 public:
  TensorCopyPrinter(const Dialect& dialect, const ir::Func& f, ExprPrinter& printer, TextBuilder& out)
      : d_(dialect),
        printer_(printer),
        out_(out),
        maps_(f.body == nullptr ? decltype(maps_)() : ir::TensorMapsOf(f.body)) {}

  bool HasMaps() const { return !maps_.empty(); }
  // The kernel's last parameters, each with ", " before it; the host passes tensor maps.
  std::string Parameters() const;
  // A call of the three.
  Status Print(const ir::Call& call);

 private:
  // The address of an element of shared memory.
  std::string Shared(ir::Expr address);
  std::string Coordinate(ir::Expr e);

  const Dialect& d_;
  ExprPrinter& printer_;
  TextBuilder& out_;
  const std::vector<ir::TensorMap> maps_;
};

}  // namespace cinn_like::backends
