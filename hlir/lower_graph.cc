#include "hlir/lower_graph.h"

#include <set>

#include "absl/container/flat_hash_map.h"
#include "hlir/lower_te.h"

namespace cinn_like::hlir {

StatusOr<LoweredGraph> LowerGraph(const Graph& graph, const PassContext& context) {
  ASSIGN_OR_RETURN(ir::TeProgram te, LowerToTe(graph));
  te.exact = context.options.numerics == "exact";
  ASSIGN_OR_RETURN(FusionPlan plan, PlanFusion(std::move(te), !context.options.disable_fusion, context.target));
  const ir::TeProgram& p = plan.program;
  ir::Context& c = *p.context;

  LoweredGraph r;
  std::vector<ir::Stmt> allocs, calls;
  std::set<ir::Buffer> declared, read;
  for (const ir::Param& q : p.params) declared.insert(q.buffer);
  absl::flat_hash_map<std::string, size_t> kernel_of;  // text of the group
  for (const FusionPlan::Group& group : plan.groups) {
    ASSIGN_OR_RETURN(ExtractedGroup g, ExtractGroup(plan, group));
    ASSIGN_OR_RETURN(ir::Func loops, ir::ToLoops(g.program));
    std::vector<int> origins;
    for (const ir::Stage& s : g.program.stages) origins.push_back(s.origin);
    auto [it, fresh] = kernel_of.emplace(ir::Print(loops), r.kernels.size());
    if (fresh) {
      const std::string name = Cat(p.name, "_k", r.kernels.size());
      g.program.name = name;
      r.kernels.push_back({name, std::move(g.program), 0, {}, group.stages.size() > 1});
    }
    LoweredGraph::Kernel& kernel = r.kernels[it->second];
    ++kernel.calls;
    kernel.origins.push_back(std::move(origins));
    ir::Call call;
    call.callee = kernel.name;
    for (ir::Buffer b : g.args) {
      read.insert(b);
      if (declared.insert(b).second) allocs.push_back(ir::MakeStmt(ir::Alloc{b}));
      call.args.push_back(c.Address(b, std::vector<ir::Expr>(b->shape.size(), c.Int(0))));
    }
    for (ir::Expr s : g.symbols) call.args.push_back(s);
    calls.push_back(ir::MakeStmt(std::move(call)));
  }
  allocs.insert(allocs.end(), calls.begin(), calls.end());
  // A static parameter that is still read is an input like any other.
  std::vector<ir::Param> params = p.params;
  for (ir::Param& q : params) {
    if (q.role == ir::ParamRole::kStatic && read.contains(q.buffer)) q.role = ir::ParamRole::kInput;
  }
  r.entry = {p.name, ir::FuncKind::kEntry, std::move(params), p.symbols, ir::MakeSeq(std::move(allocs)), p.context};
  return r;
}

}  // namespace cinn_like::hlir
