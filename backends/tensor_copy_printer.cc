#include "backends/tensor_copy_printer.h"

#include <algorithm>

#include "ir/mma.h"

namespace cinn_like::backends {

using ir::Expr;

std::string TensorCopyPrinter::Parameters() const {
  std::string r;
  for (size_t i = 0; i < maps_.size(); ++i) r += Cat(", const __grid_constant__ cinn_map m", i);
  return r;
}

std::string TensorCopyPrinter::Shared(Expr address) {
  return Cat("cinn_shared_address(", printer_.NameOf(address->buffer), " + (", printer_.Print(address->args[0]), "))");
}

// They are below 2^31.
std::string TensorCopyPrinter::Coordinate(Expr e) {
  const bool widens = e->op == ir::ExprOp::kCast && e->args[0]->type.dtype == DType::kI32;
  return widens ? printer_.Print(e->args[0]) : ir::IsInt(e) ? Cat(e->int_value) : Cat("(int)(", printer_.Print(e), ")");
}

Status TensorCopyPrinter::Print(const ir::Call& call) {
  const auto refuse = [&](const auto&... what) { return Unimplemented("no ", d_.name, " text for ", what...); };
  printer_.Begin(call.args);
  const std::optional<ir::TensorCopy> copy = ir::TensorCopyOf(call);
  if (!copy) {
    const bool waits = call.callee == ir::kAwaitCopies;
    if (call.args.size() != (waits ? 2 : 3) || call.args[0]->op != ir::ExprOp::kAddress)
      return refuse("a call of ", call.callee, " with these arguments");
    std::string args = Shared(call.args[0]);
    for (size_t i = 1; i < call.args.size(); ++i) args += Cat(", ", Coordinate(call.args[i]));
    out_.Line(call.callee, "(", args, ");");
    return absl::OkStatus();
  }
  const ir::Buffer to = copy->to->buffer;
  const ir::TensorMap& map = copy->map;
  if (!printer_.IsPanel(to))
    return refuse("a tensor copy to ", to->name, ", which no ", Name(ir::ForKind::kWgmma), " reads");
  if (!std::all_of(map.box.begin(), map.box.end(), [](Expr e) { return ir::IsInt(e); }))
    return refuse("a tensor copy of ", ir::Print(map.box[0]), " elements");
  std::vector<std::string> at;
  int64_t bytes = BytesOf(to->dtype);
  for (size_t d = 0; d < map.box.size(); ++d) {
    bytes *= map.box[d]->int_value;
    at.push_back(Coordinate(copy->coordinates[d]));
  }
  if (map.box[0]->int_value > ir::kPanelLine) {
    const auto over = [&](size_t d, int64_t by) {
      const Expr e = copy->coordinates[d];
      return ir::IsInt(e) ? Cat(e->int_value / by) : Cat("(", at[d], ") / ", by);
    };
    const std::string line = over(0, ir::kPanelLine), group = over(1, ir::kPanelRows);
    at[0] = at[1] = "0";
    at.insert(at.begin() + 2, {line, group});
  }
  std::string coordinates;
  for (const std::string& x : at) coordinates += Cat(", ", x);
  const auto index = std::find(maps_.begin(), maps_.end(), map) - maps_.begin();
  out_.Line(ir::kTensorCopy, "(", Shared(copy->to), ", ", Shared(copy->arrival), ", ", bytes, ", m", index, coordinates,
            ");");
  return absl::OkStatus();
}

}  // namespace cinn_like::backends
