#include "hlir/op_registry.h"

#include "hlir/ops/families.h"

namespace cinn_like::hlir {

const AttrSpec* OpDef::FindAttr(std::string_view attr) const {
  for (const AttrSpec& spec : attrs) {
    if (spec.name == attr) return &spec;
  }
  return nullptr;
}

Status OpRegistry::Add(OpDef def) {
  if (def.name.empty() || !def.infer)
    return InvalidArgument("op '", def.name, "': needs a name and an inference function");
  if (!def.lower == !def.decompose) return InvalidArgument("op '", def.name, "': needs either 'lower' or 'decompose'");
  if (Find(def.name)) return InvalidArgument("op '", def.name, "' is registered already");
  const std::string name = def.name;
  ops_.emplace(name, std::make_shared<const OpDef>(std::move(def)));
  return absl::OkStatus();
}

const OpDef* OpRegistry::Find(std::string_view name) const {
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : it->second.get();
}

std::vector<const OpDef*> OpRegistry::All() const {
  std::vector<const OpDef*> all;
  for (const auto& [name, def] : ops_) all.push_back(def.get());
  return all;
}

const OpRegistry& OpRegistry::BuiltIn() {
  static const OpRegistry* const registry = [] {
    auto* r = new OpRegistry;
    for (auto family : {PointwiseOps, CreationOps, ViewOps, ReductionOps, ScanOps, MatmulOps, NormalizationOps,
                        IndexingOps, ConvolutionOps, PoolingOps}) {
      for (OpDef& def : family()) r->Add(std::move(def)).IgnoreError();  // a test holds that names are unique
    }
    return r;
  }();
  return *registry;
}

StatusOr<Attrs> CompleteAttrs(const OpDef& def, const Attrs& given) {
  Attrs::Values complete;
  for (const auto& [name, value] : given.values()) {
    const AttrSpec* spec = def.FindAttr(name);
    if (!spec) {
      std::string known;
      for (const AttrSpec& s : def.attrs) known += Cat(known.empty() ? "" : ", ", s.name);
      return InvalidArgument("unknown attribute '", name, "', expected ", known.empty() ? "none" : known);
    }
    ASSIGN_OR_RETURN(Attr coerced, CoerceAttr(*spec, value));
    complete.emplace(name, std::move(coerced));
  }
  for (const AttrSpec& spec : def.attrs) {
    if (complete.contains(spec.name)) continue;
    if (!spec.default_value) {
      return InvalidArgument("attribute '", spec.name, "' is missing, expected ", DescribeAttrType(spec.type));
    }
    ASSIGN_OR_RETURN(Attr coerced, CoerceAttr(spec, *spec.default_value));
    complete.emplace(spec.name, std::move(coerced));
  }
  return Attrs(std::move(complete));
}

}  // namespace cinn_like::hlir
