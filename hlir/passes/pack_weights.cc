#include <algorithm>
#include <map>

#include "hlir/lower_te.h"
#include "hlir/panels.h"
#include "hlir/passes/passes.h"
#include "hlir/rebuild.h"
#include "hlir/stage_analysis.h"
#include "hlir/static_values.h"

namespace cinn_like::hlir {
namespace {

// Columns along one axis, rows along others, whatever else in front.
struct Panels {
  size_t operand = 0;
  int64_t columns_axis = 0, columns = 0, width = 0;
  std::vector<int64_t> row_axes = {};
};

// How `op` alone reads the right-hand side of a contraction, if that is what it is.
StatusOr<std::optional<Panels>> FindPanels(const Graph& graph, const Op& op, const Target& target) {
  Graph alone("op", graph.registry());
  for (const SymbolInfo& s : graph.symbols()) RETURN_IF_ERROR(alone.AddSymbol(s));
  std::vector<ValueId> operands;
  for (ValueId v : op.operands) {
    ASSIGN_OR_RETURN(operands.emplace_back(), alone.AddParam(Cat("p", operands.size()), graph.TypeOf(v)));
  }
  RETURN_IF_ERROR(alone.AddOp(op.def->name, operands, op.attrs).status());
  ASSIGN_OR_RETURN(const ir::TeProgram program, LowerToTe(alone));
  for (const ir::Stage& stage : program.stages) {
    const std::optional<Contraction> found = FindContraction(stage);
    const DType acc = stage.outputs[0]->dtype;
    if (!found || found->n.size() != 1 || found->rhs->has_mask || !HasRegisterTiles(acc, target)) continue;
    const ir::StageIter& column = found->n[0];
    if (!ir::IsInt(column.extent)) continue;
    Panels r{.columns = column.extent->int_value, .width = ChoosePanel(column.extent->int_value, acc, target).width()};
    for (; r.operand < operands.size(); ++r.operand) {
      if (program.params[r.operand].buffer == found->rhs->buffer) break;
    }
    int column_axes = 0;
    for (size_t d = 0; d < found->rhs->args.size(); ++d) {
      const ir::Expr index = found->rhs->args[d];
      if (ir::Uses(index, column.var)) {
        ++column_axes;
        r.columns_axis = index == column.var ? static_cast<int64_t>(d) : -1;
      }
      const bool is_row =
          std::any_of(found->k.begin(), found->k.end(), [&](const ir::StageIter& k) { return ir::Uses(index, k.var); });
      if (is_row) r.row_axes.push_back(static_cast<int64_t>(d));
    }
    const bool whole = r.operand < operands.size() && column_axes == 1 && r.columns_axis >= 0 &&
                       graph.TypeOf(op.operands[r.operand]).dims[r.columns_axis] == Dim(r.columns);
    if (whole) return std::optional(std::move(r));
  }
  return std::optional<Panels>();
}

// `x` in panels, and its elements where they were.
ValueRef PackAndView(OpBuilder* b, ValueRef x, const Panels& p) {
  Dims dims = b->DimsOf(x);
  const Dims original = dims;
  const int64_t rank = static_cast<int64_t>(dims.size()), count = (p.columns + p.width - 1) / p.width;
  const bool padded = count * p.width != p.columns;
  if (padded) {
    Dims high(rank, Dim(0));
    high[p.columns_axis] = count * p.width - p.columns;
    x = b->Pad(x, Dims(rank, Dim(0)), high, Dim(0));
    dims[p.columns_axis] = count * p.width;
  }
  const Dims whole = dims;
  dims[p.columns_axis] = count;
  dims.insert(dims.begin() + p.columns_axis + 1, Dim(p.width));
  std::vector<int64_t> perm, rows, inverse(rank + 1);
  for (int64_t d = 0; d < rank; ++d) {
    const bool is_row = std::find(p.row_axes.begin(), p.row_axes.end(), d) != p.row_axes.end();
    (is_row ? rows : perm).push_back(d > p.columns_axis ? d + 1 : d);
  }
  perm.insert(perm.end(), rows.begin(), rows.end());
  perm.push_back(p.columns_axis + 1);
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  x = b->Copy(b->Transpose(b->Reshape(x, dims), perm));
  x = b->Reshape(b->Transpose(x, inverse), whole);
  return padded ? b->Slice(x, p.columns_axis, 0, original[p.columns_axis]) : x;
}

}  // namespace

StatusOr<Graph> PackWeights(Graph graph, const PassContext& context) {
  if (context.target.HasKernels()) return graph;
  const std::vector<StaticFact> facts = FindStaticValues(graph);
  std::map<std::tuple<ValueId, int64_t, int64_t, std::vector<int64_t>>, ValueRef> packed;
  Status status;
  auto rewrite = [&](OpBuilder* b, const Op& op,
                     const std::vector<ValueRef>& x) -> std::optional<std::vector<ValueRef>> {
    const bool has_weight = std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
      return facts[v].is_static && facts[v].has_param && graph.TypeOf(v).rank() >= 2;
    });
    if (!has_weight || facts[op.results[0]].is_static || op.def->is_view || op.def->is_pointwise || !op.def->lower)
      return std::nullopt;
    const StatusOr<std::optional<Panels>> panels = FindPanels(graph, op, context.target);
    status.Update(panels.status());
    if (!panels.ok() || !panels->has_value()) return std::nullopt;
    const Panels& p = **panels;
    const ValueId weight = op.operands[p.operand];
    // Padding may double a weight, not more.
    if (!facts[weight].is_static || !facts[weight].has_param || p.width >= 2 * p.columns) return std::nullopt;
    ValueRef& view = packed[{weight, p.columns_axis, p.width, p.row_axes}];
    if (view.id < 0) view = PackAndView(b, x[p.operand], p);
    std::vector<ValueRef> operands = x;
    operands[p.operand] = view;
    return b->Call(op.def->name, operands, op.attrs, op.results.size());
  };
  ASSIGN_OR_RETURN(graph, Rebuild(graph, rewrite));
  RETURN_IF_ERROR(status);
  return graph;
}

}  // namespace cinn_like::hlir
