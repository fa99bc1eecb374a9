#include "hlir/passes/passes.h"
#include "hlir/rebuild.h"

namespace cinn_like::hlir {
namespace {

bool IsMovable(const Op* op) { return op && (op->def->name == "reshape" || op->def->name == "transpose"); }

}  // namespace

StatusOr<Graph> GatherViews(Graph graph, const PassContext&) {
  const std::vector<int> uses = graph.CountUses();
  return Rebuild(
      graph, [&](OpBuilder* b, const Op& view, const std::vector<ValueRef>& x) -> std::optional<std::vector<ValueRef>> {
        if (!IsMovable(&view) || uses[view.operands[0]] != 1) return std::nullopt;
        const Op* pointwise = b->graph().ProducerOf(x[0].id);
        if (!pointwise || !pointwise->def->is_pointwise || pointwise->results.size() != 1) return std::nullopt;
        // Scalars stay as they are; one other operand is a view already; so is the rest, or it is the graph's and free
        // to be read in another shape.
        const Dims& dims = b->DimsOf(x[0]);
        const Op op = *pointwise;  // building below moves the ops
        bool meets_view = false;
        for (ValueId v : op.operands) {
          const TensorType& type = b->graph().TypeOf(v);
          if (type.rank() == 0) continue;
          if (type.dims != dims) return std::nullopt;
          const Op* source = b->graph().ProducerOf(v);
          const bool is_view = IsMovable(source);
          if (!is_view && (source != nullptr || view.def->name != "reshape")) return std::nullopt;
          meets_view |= is_view;
        }
        if (!meets_view) return std::nullopt;
        std::vector<ValueRef> operands;
        for (ValueId v : op.operands) {
          const bool scalar = b->graph().TypeOf(v).rank() == 0;
          operands.push_back(scalar ? ValueRef{v} : b->Call(view.def->name, {{v}}, view.attrs));
        }
        return std::vector<ValueRef>{b->Call(op.def->name, operands, op.attrs)};
      });
}

}  // namespace cinn_like::hlir
