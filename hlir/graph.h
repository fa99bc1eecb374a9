// The graph-level IR: a flat, topologically ordered list of ops over tensor values.
//
//   graph @f(%x: f32[n,256], %b: f32[256] static) where n in 1..4096 {
//     %0 = add(%x, %b) : f32[n,256]
//     return %0
//   }
//
// A graph only grows: AddOp checks attributes and infers the result types, so every graph is well typed and in order.
// A pass makes a new graph out of an old one (hlir/rebuild.h). Value names are the printer's, except parameters'.
// Copyable; the registry must outlive it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "hlir/op_registry.h"

namespace cinn_like::hlir {

using ValueId = int32_t;

struct Op {
  const OpDef* def = nullptr;
  std::vector<ValueId> operands;
  Attrs attrs;  // complete
  std::vector<ValueId> results;
  // The op that it comes from, as its index in the graph that the caller gave: passes hand it on (hlir/rebuild.h).
  int origin = 0;
  // The kind of device that is to compute it, by name or alias; empty: any (cinn_like/placement.h).
  std::string device = {};
};

// Text: nothing, `static`, `prepared` after the type.
enum class ParamRole : uint8_t {
  kInput,
  kStatic,    // the same between calls: a weight
  kPrepared,  // computed by <fn>_prepare out of static parameters (pass split_static)
};

// A tensor parameter, or a symbol given as a scalar (`n: i64`).
struct Param {
  std::string name;    // of the tensor without '%', or the symbol
  ValueId value = -1;  // -1: a symbol
  ParamRole role = ParamRole::kInput;
  std::optional<Dims> strides;  // in elements; contiguous where there are none

  bool is_symbol() const { return value < 0; }
};

class Graph {
 public:
  explicit Graph(std::string name = "main", const OpRegistry& registry = OpRegistry::BuiltIn())
      : name_(std::move(name)), registry_(&registry) {}

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  const OpRegistry& registry() const { return *registry_; }
  const SymbolTable& symbols() const { return symbols_; }
  const std::vector<Param>& params() const { return params_; }
  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<ValueId>& results() const { return results_; }

  int num_values() const { return static_cast<int>(values_.size()); }
  const TensorType& TypeOf(ValueId v) const { return values_[v].type; }
  // The op that makes `v`; null for a parameter.
  const Op* ProducerOf(ValueId v) const { return values_[v].op < 0 ? nullptr : &ops_[values_[v].op]; }
  // The tensor parameter's index, or -1.
  int ParamIndexOf(ValueId v) const;
  // Number of uses by ops and as results, per value.
  std::vector<int> CountUses() const;

  // Symbols come before what uses them.
  Status AddSymbol(SymbolInfo symbol);
  StatusOr<ValueId> AddParam(std::string name, TensorType type, ParamRole role = ParamRole::kInput,
                             std::optional<Dims> strides = std::nullopt);
  Status AddSymbolParam(std::string name);
  // Appends `op_name(operands) {attrs}`; the error names op, attribute, expected and got.
  StatusOr<std::vector<ValueId>> AddOp(std::string_view op_name, std::vector<ValueId> operands, const Attrs& attrs);
  // Appends an op of `from`, a graph with the same ops and symbols, on operands of the same types: what is known of it
  // is not inferred again.
  const std::vector<ValueId>& CopyOp(const Graph& from, const Op& op, std::vector<ValueId> operands);
  Status SetResults(std::vector<ValueId> results);
  // Of the ops that are added from here on; an origin of -1: each is its own.
  void SetOrigin(int origin, std::string device = "") { origin_ = origin, device_ = std::move(device); }

  // Same structure: names of op results do not exist and do not count.
  friend bool operator==(const Graph& a, const Graph& b);

 private:
  struct Value {
    TensorType type;
    int op = -1;
  };
  Status CheckSymbols(const Dims& dims) const;
  Status TakeName(const std::string& name);
  ValueId AddValue(TensorType type, int op);

  std::string name_;
  const OpRegistry* registry_;
  SymbolTable symbols_;
  std::vector<Param> params_;
  absl::flat_hash_set<std::string> names_;  // of the parameters
  std::vector<Op> ops_;
  std::vector<Value> values_;
  std::vector<ValueId> results_;
  int origin_ = -1;
  std::string device_;
};

// The text form (docs/graph_text.md). Parse(Print(g)) == g, and printing is a fixed point.
std::string Print(const Graph& graph);
// Errors carry line and column. `registry` must outlive the graph.
StatusOr<Graph> Parse(std::string_view text, const OpRegistry& registry = OpRegistry::BuiltIn());

// Everything that must hold of a whole graph: types as inferred, symbols bound by parameters, results set.
Status Verify(const Graph& graph);

}  // namespace cinn_like::hlir
