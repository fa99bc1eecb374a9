// Ops are registry entries. An OpDef says everything about one op; it is written in one file of hlir/ops and listed
// once.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/speeds.h"
#include "hlir/attributes.h"
#include "hlir/tensor_type.h"
#include "ir/expr.h"

namespace cinn_like::hlir {

class OpBuilder;
struct TeCall;
struct ValueRef;

// What shape inference sees of one use of an op. Attributes are complete and of their declared types.
struct OpCall {
  const std::vector<TensorType>& operands;
  const Attrs& attrs;
  const SymbolTable& symbols;
};

struct OpDef {
  std::string name;
  std::string doc;                    // one sentence: what the result holds
  std::vector<std::string> operands;  // names; a last "xs..." takes any number, at least one
  std::vector<AttrSpec> attrs;

  // The result types, or what is wrong with the operands or attributes (the caller puts the op's name in front).
  std::function<StatusOr<std::vector<TensorType>>(const OpCall&)> infer;

  // What must hold of the sizes of each call where their symbols leave it open, or the call fails. Null: nothing but
  // that the results have no negative sizes.
  struct Requirement {
    std::string what;   // "end", "size 2 of operand 'idx'"
    Dim value, lo, hi;  // lo <= value <= hi
  };
  std::function<std::vector<Requirement>(const OpCall&)> requires_at_call;

  // Exactly one of the next two gives the meaning.
  // Of a primitive: stages of tensor expressions (hlir/te_call.h); one buffer per result.
  std::function<std::vector<ir::Buffer>(TeCall&)> lower;
  // Of a composite: rewrites it into simpler ops, on operands whose types passed `infer`. The results must
  // have the inferred types.
  std::function<std::vector<ValueRef>(OpBuilder*, const std::vector<ValueRef>& operands, const Attrs&)> decompose;

  // Every element of the result is an element of the one operand: reshape, transpose, slice, ...
  bool is_view = false;
  // Each element of the results depends on the same element of the (broadcast) operands alone.
  bool is_pointwise = false;
  // What a framework would run it as, if it has a tuned kernel.
  FrameworkKernel framework_kernel = FrameworkKernel::kNone;

  // Uses for tests: "(f32[3,n], f32[n]) {axis=1}". Symbols are taken in 1..64.
  std::vector<std::string> samples;

  bool variadic() const { return !operands.empty() && operands.back().ends_with("..."); }
  const AttrSpec* FindAttr(std::string_view name) const;
};

// A set of ops. A value: copies share the definitions. Graphs hold a pointer to the registry that they were made with,
// so it must outlive them and no longer change.
class OpRegistry {
 public:
  // The ops of docs/graph_text.md.
  static const OpRegistry& BuiltIn();

  // An error if there is an op of that name already, or if the definition lacks inference or meaning.
  Status Add(OpDef def);
  const OpDef* Find(std::string_view name) const;
  std::vector<const OpDef*> All() const;  // by name

 private:
  std::map<std::string, std::shared_ptr<const OpDef>, std::less<>> ops_;
};

// `given` completed with defaults and coerced to the declared types, or an error naming the attribute.
StatusOr<Attrs> CompleteAttrs(const OpDef& def, const Attrs& given);

}  // namespace cinn_like::hlir
