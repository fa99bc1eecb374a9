#include "hlir/ops/window.h"

#include <algorithm>

namespace cinn_like::hlir {

bool Window::is_padded() const {
  return std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p > 0; });
}

StatusOr<Window> WindowOf(const Attrs& attrs, size_t rank) {
  for (const auto& [name, at_least] : {std::pair{"kernel", 1}, {"stride", 1}, {"padding", 0}, {"dilation", 1}}) {
    constexpr int64_t kMost = int64_t{1} << 31;  // products of two are numbers still
    if (!attrs.Find(name) || (attrs.Ints(name).empty() && std::string_view(name) != "kernel")) continue;
    RETURN_IF_ERROR(CheckInts(name, attrs.Ints(name), rank - 2, at_least, kMost));
  }
  return CheckedWindowOf(attrs, rank);
}

Window CheckedWindowOf(const Attrs& attrs, size_t rank) {
  const auto read = [&](const char* name, int64_t otherwise) {
    std::vector<int64_t> values = attrs.Find(name) ? attrs.Ints(name) : std::vector<int64_t>();
    if (values.empty()) values.assign(rank - 2, otherwise);
    return values;
  };
  return {read("kernel", 1), read("stride", 1), read("padding", 0), read("dilation", 1)};
}

StatusOr<Dim> CountPositions(const Window& window, int i, const Dim& size, bool ceil_mode, const SymbolTable& symbols) {
  const int64_t stride = window.stride[i], padding = window.padding[i];
  // A convolution's kernel has the sizes of a tensor, which no limit of attributes bounds.
  int64_t reach = 0;
  const bool overflows = __builtin_mul_overflow(window.dilation[i], window.kernel[i] - 1, &reach);
  const Dim room = size + Dim(2 * padding - 1) - Dim(reach);
  if (overflows || RangeOf(room, symbols).hi < 0) {
    return InvalidArgument("window of ", window.kernel[i], " (dilation ", window.dilation[i],
                           ") does not fit: expected at most ", (size + Dim(2 * padding)).ToString(), " along axis ",
                           i + 2);
  }
  if (!ceil_mode) return room / Dim(stride) + Dim(1);
  Dim count = (room + Dim(stride - 1)) / Dim(stride) + Dim(1);
  // The last window must begin inside the input or its low padding.
  const DimRange last = RangeOf((count - Dim(1)) * Dim(stride) - size - Dim(padding), symbols);
  if (last.lo >= 0) return count - Dim(1);
  if (last.hi < 0) return count;
  return InvalidArgument("attribute 'ceil_mode': expected false where axis ", i + 2, " is symbolic, got size ",
                         size.ToString());
}

Place InputPlace(const TeCall& call, const Window& window, const Dim* input, const ir::Expr* position,
                 const ir::Expr* tap) {
  ir::Context& c = call.c;
  Place place{{}, nullptr};
  for (int i = 0; i < window.rank(); ++i) {
    const ir::Expr first = c.Mul(position[i], c.Int(window.stride[i]));
    place.at.push_back(c.Sub(c.Add(first, c.Mul(tap[i], c.Int(window.dilation[i]))), c.Int(window.padding[i])));
    const ir::Expr inside = call.InRange(place.at[i], input[i]);
    place.mask = place.mask ? c.And(place.mask, inside) : inside;
  }
  return place;
}

Place PositionPlace(const TeCall& call, const Window& window, const Dim* positions, const ir::Expr* element,
                    const ir::Expr* tap) {
  ir::Context& c = call.c;
  Place place{{}, c.Bool(true)};
  for (int i = 0; i < window.rank(); ++i) {
    const ir::Expr stride = c.Int(window.stride[i]);
    const ir::Expr first = c.Sub(c.Add(element[i], c.Int(window.padding[i])), c.Mul(tap[i], c.Int(window.dilation[i])));
    if (window.stride[i] != 1) place.mask = c.And(place.mask, c.Eq(c.Mod(first, stride), c.Int(0)));
    place.at.push_back(c.Div(first, stride));
    place.mask = c.And(place.mask, call.InRange(place.at[i], positions[i]));
  }
  return place;
}

std::vector<ir::Expr> Place::Behind(ir::Expr first, ir::Expr second) const {
  std::vector<ir::Expr> r = {first, second};
  r.insert(r.end(), at.begin(), at.end());
  return r;
}

Status CheckImageRank(std::string_view operand, const TensorType& type) {
  if (type.rank() >= 3 && type.rank() <= 5) return absl::OkStatus();
  return InvalidArgument("operand '", operand, "': expected rank 3 to 5, got ", type.ToString());
}

}  // namespace cinn_like::hlir
