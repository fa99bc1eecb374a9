#include "frontend/graph_builder.h"

namespace cinn_like {

GraphBuilder::GraphBuilder(std::string name, const hlir::OpRegistry& registry)
    : OpBuilder(&owned_), owned_(std::move(name), registry) {}

Dim GraphBuilder::Symbol(std::string name, int64_t lo, int64_t hi, int64_t divisor, bool as_param, int64_t hint) {
  Record(owned_.AddSymbol({name, lo, hi, divisor, hint}));
  if (as_param && status().ok()) Record(owned_.AddSymbolParam(name));
  return Dim::Symbol(std::move(name));
}

ValueRef GraphBuilder::AddParam(std::string name, hlir::TensorType type, hlir::ParamRole role,
                                std::optional<Dims> strides) {
  if (!status().ok()) return {};
  const StatusOr<hlir::ValueId> v = owned_.AddParam(std::move(name), std::move(type), role, std::move(strides));
  Record(v.status());
  return v.ok() ? ValueRef{*v} : ValueRef{};
}

ValueRef GraphBuilder::Param(std::string name, DType dtype, Dims shape, std::optional<Dims> strides) {
  return AddParam(std::move(name), {dtype, std::move(shape)}, hlir::ParamRole::kInput, std::move(strides));
}

ValueRef GraphBuilder::StaticParam(std::string name, DType dtype, Dims shape, std::optional<Dims> strides) {
  return AddParam(std::move(name), {dtype, std::move(shape)}, hlir::ParamRole::kStatic, std::move(strides));
}

void GraphBuilder::Return(const std::vector<ValueRef>& results) {
  if (!status().ok()) return;
  std::vector<hlir::ValueId> ids;
  for (ValueRef v : results) {
    if (v.id < 0 || v.id >= owned_.num_values()) {
      return Record(InvalidArgument("result ", ids.size(), " is no value of this graph"));
    }
    ids.push_back(v.id);
  }
  Record(owned_.SetResults(std::move(ids)));
}

StatusOr<hlir::Graph> GraphBuilder::Build() && {
  RETURN_IF_ERROR(status());
  RETURN_IF_ERROR(hlir::Verify(owned_));
  return std::move(owned_);
}

}  // namespace cinn_like
