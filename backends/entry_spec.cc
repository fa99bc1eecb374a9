#include "backends/entry_spec.h"

#include <algorithm>

#include "ir/alignment.h"
#include "runtime/call.h"

namespace cinn_like {
namespace {

Status AppendDim(ir::Expr e, const ir::Func& func, Dim& dim) {
  switch (e->op) {
    case ir::ExprOp::kInt:
      dim.push_back({DimOp::kConst, e->int_value});
      return absl::OkStatus();
    case ir::ExprOp::kVar:
      for (size_t i = 0; i < func.symbols.size(); ++i) {
        if (func.symbols[i].var == e) {
          dim.push_back({DimOp::kSymbol, static_cast<int64_t>(i)});
          return absl::OkStatus();
        }
      }
      return Internal("entry function @", func.name, ": dimension '", e->name, "' is no symbol of it");
    default:
      break;
  }
  DimOp op;
  switch (e->op) {
    case ir::ExprOp::kAdd:
      op = DimOp::kAdd;
      break;
    case ir::ExprOp::kSub:
      op = DimOp::kSub;
      break;
    case ir::ExprOp::kMul:
      op = DimOp::kMul;
      break;
    case ir::ExprOp::kDiv:
      op = DimOp::kFloorDiv;
      break;
    case ir::ExprOp::kMod:
      op = DimOp::kFloorMod;
      break;
    default:
      return Internal("entry function @", func.name, ": dimension '", ir::Print(e), "' is not of + - * / %");
  }
  for (ir::Expr a : e->args) RETURN_IF_ERROR(AppendDim(a, func, dim));
  dim.push_back({op, 0});
  return absl::OkStatus();
}

ArgRole RoleOf(ir::ParamRole role) {
  switch (role) {
    case ir::ParamRole::kInput:
      return ArgRole::kInput;
    case ir::ParamRole::kStatic:
      return ArgRole::kPacked;
    case ir::ParamRole::kPrepared:
      return ArgRole::kPrepared;
    case ir::ParamRole::kResult:
      return ArgRole::kResult;
  }
  return ArgRole::kInput;
}

// For the widest access where those of the device fault on less; tensors of a few bytes have no wider ones.
int32_t AlignmentOf(const ir::BufferNode& b, const DeviceKind& device) {
  int32_t alignment = std::max(b.alignment, BytesOf(b.dtype));
  if (!device.faults_where_unaligned) return alignment;
  int64_t bytes = BytesOf(b.dtype);
  for (ir::Expr e : b.shape)
    bytes *= ir::IsInt(e) && e->int_value < ir::kTensorAlignment ? e->int_value : ir::kTensorAlignment;
  while (alignment < ir::kTensorAlignment && 2 * alignment <= bytes) alignment *= 2;
  return alignment;
}

}  // namespace

StatusOr<ArgSpec> MakeArgSpec(const ir::Func& func, const DeviceKind& device) {
  if (func.device != (&device == &HostKind() ? "" : device.name)) {
    return InvalidArgument("entry function @", func.name, " is for device '",
                           func.device.empty() ? HostKind().name : func.device, "', the target is for '", device.name,
                           "'");
  }
  ArgSpec spec;
  spec.function = func.name;
  spec.device_type = device.type;
  for (const ir::SymbolFact& s : func.symbols) spec.symbols.push_back({s.var->name, s.lo, s.hi, s.divisor});
  int slots = 0, results = 0;
  for (const ir::Param& p : func.params) {
    ArgInfo arg;
    if (p.var != nullptr) {
      Dim symbol;
      RETURN_IF_ERROR(AppendDim(p.var, func, symbol));
      arg.name = p.var->name;
      arg.role = ArgRole::kSymbol;
      arg.index = static_cast<int>(symbol[0].value);
      arg.dtype = p.var->type.dtype;
    } else {
      arg.name = p.buffer->name;
      arg.role = RoleOf(p.role);
      if (arg.role == ArgRole::kPrepared) arg.index = slots++;
      if (arg.role == ArgRole::kResult) arg.index = results++;
      arg.dtype = p.buffer->dtype;
      arg.alignment = AlignmentOf(*p.buffer, device);
      for (ir::Expr e : p.buffer->shape) RETURN_IF_ERROR(AppendDim(e, func, arg.shape.emplace_back()));
      for (ir::Expr e : p.buffer->strides) RETURN_IF_ERROR(AppendDim(e, func, arg.strides.emplace_back()));
    }
    spec.args.push_back(std::move(arg));
  }
  return spec;
}

}  // namespace cinn_like
