#include "hlir/lower_graph.h"

#include <set>

#include "absl/container/flat_hash_map.h"
#include "hlir/extract_group.h"
#include "hlir/lower_te.h"
#include "hlir/near_hints.h"
#include "hlir/place_checks.h"
#include "hlir/te_call.h"

namespace cinn_like::hlir {
namespace {

ir::Stmt FailIf(ir::Expr wrong, const std::string& what, ir::Expr value, ir::Expr begin, ir::Expr end) {
  ir::Call fail{.callee = "cinn_range_error", .is_runtime = true, .text = what, .args = {value, begin, end}};
  return ir::MakeStmt(ir::If{wrong, ir::MakeStmt(std::move(fail)), nullptr});
}

// The function of all checks, in a context of its own:
//   func @f_check(low0: i64[], high0: i64[], begin0: i64, end0: i64, ...)
ir::Func MakeCheck(std::string name, const std::vector<ir::RangeCheck>& checks, bool as_kernel) {
  auto context = std::make_shared<ir::Context>();
  ir::Context& c = *context;
  ir::Func f{std::move(name), ir::FuncKind::kInternal, {}, {}, nullptr, context};
  std::vector<ir::Stmt> body;
  for (size_t i = 0; i < checks.size(); ++i) {
    const ir::Buffer low = c.MakeBuffer({.name = Cat("low", i), .dtype = DType::kI64});
    const ir::Buffer high = c.MakeBuffer({.name = Cat("high", i), .dtype = DType::kI64});
    const ir::Expr begin = c.Var(Cat("begin", i)), end = c.Var(Cat("end", i));
    for (ir::Buffer b : {low, high}) f.params.push_back({.buffer = b});
    for (ir::Expr v : {begin, end}) f.params.push_back({.var = v});
    const ir::Expr lowest = c.Load(low, {}), highest = c.Load(high, {});
    body.push_back(FailIf(c.Lt(lowest, begin), checks[i].what, lowest, begin, end));
    body.push_back(FailIf(c.Le(end, highest), checks[i].what, highest, begin, end));
  }
  f.body = ir::MakeSeq(std::move(body));
  for (ir::ForKind axis : {ir::ForKind::kThreadX, ir::ForKind::kBlockX}) {
    if (as_kernel) f.body = ir::MakeStmt(ir::For{c.Var(Cat("one", static_cast<int>(axis))), c.Int(1), axis, f.body});
  }
  return f;
}

// What ops require of the sizes of a call, and the ranges of their symbols do not promise, as host statements.
std::vector<ir::Stmt> CheckSizes(const Graph& graph, const ir::TeProgram& program) {
  ir::Context& c = *program.context;
  const SymbolVars symbol = [&](const std::string& name) {
    size_t k = 0;
    while (graph.symbols()[k].name != name) ++k;
    return program.symbols[k].var;
  };
  std::vector<ir::Stmt> checks;
  absl::flat_hash_set<std::string> seen;
  for (const Op& op : graph.ops()) {
    std::vector<TensorType> types;
    for (ValueId v : op.operands) types.push_back(graph.TypeOf(v));
    std::vector<OpDef::Requirement> required;
    if (op.def->requires_at_call) required = op.def->requires_at_call({types, op.attrs, graph.symbols()});
    for (ValueId v : op.results) {
      const Dims& dims = graph.TypeOf(v).dims;
      for (size_t i = 0; i < dims.size(); ++i) {
        if (!dims[i].IsConst()) required.push_back({Cat("dimension ", i), dims[i], 0, dims[i]});
      }
    }
    for (const auto& [what, value, lo, hi] : required) {
      const bool holds = RangeOf(value - lo, graph.symbols()).lo >= 0 && RangeOf(hi - value, graph.symbols()).lo >= 0;
      if (holds || !seen.insert(Cat(value.ToString(), " ", lo.ToString(), " ", hi.ToString())).second) continue;
      const ir::Expr v = ToExpr(c, symbol, value), begin = ToExpr(c, symbol, lo), end = ToExpr(c, symbol, hi + Dim(1));
      checks.push_back(FailIf(c.Or(c.Lt(v, begin), c.Le(end, v)), Cat("op ", op.origin, ", ", op.def->name, ": ", what),
                              v, begin, end));
    }
  }
  return checks;
}

// What fusion leaves out, operands of a product over nothing, is checked beside the rest.
StatusOr<FusionPlan> PlanWithChecks(const ir::TeProgram& te, const PassContext& context) {
  absl::flat_hash_set<std::string> apart;
  while (true) {
    ir::TeProgram placed = PlaceChecks(te, context.target, apart);
    const absl::flat_hash_set<std::string> texts = ChecksOf(placed);
    const size_t before = apart.size();
    ASSIGN_OR_RETURN(FusionPlan plan, PlanFusion(std::move(placed), !context.options.disable_fusion, context.target));
    const absl::flat_hash_set<std::string> left = ChecksOf(plan.program);
    for (const std::string& text : texts) {
      if (!left.contains(text)) apart.insert(text);
    }
    if (apart.size() == before) return plan;
  }
}

}  // namespace

StatusOr<LoweredGraph> LowerGraph(const Graph& graph, const PassContext& context) {
  ASSIGN_OR_RETURN(ir::TeProgram te, LowerToTe(graph));
  te.exact = context.options.numerics == "exact";
  ASSIGN_OR_RETURN(const FusionPlan plan, PlanWithChecks(te, context));
  const ir::TeProgram& p = plan.program;
  ir::Context& c = *p.context;

  LoweredGraph r;
  std::vector<ir::Stmt> allocs = CheckSizes(graph, p), calls;
  const auto address = [&](ir::Buffer b) { return c.Address(b, std::vector<ir::Expr>(b->shape.size(), c.Int(0))); };
  std::set<ir::Buffer> declared, read;
  for (const ir::Param& q : p.params) declared.insert(q.buffer);
  struct Kernels {
    size_t of_all;
    std::vector<size_t> near;
  };
  absl::flat_hash_map<std::string, Kernels> kernels_of;  // text of the group
  // Their loops, and what those don't tell of the stages.
  const auto text_of = [](const ir::TeProgram& group) -> StatusOr<std::string> {
    ASSIGN_OR_RETURN(const ir::Func loops, ir::ToLoops(group));
    std::string text = ir::Print(loops);
    for (const ir::Stage& s : group.stages) {
      if (s.is_convolution) text += Cat("// ", s.name, ": a convolution\n");
    }
    return text;
  };
  for (const FusionPlan::Group& group : plan.groups) {
    ASSIGN_OR_RETURN(ExtractedGroup g, ExtractGroup(p, group.stages, group.outputs));
    ASSIGN_OR_RETURN(const std::string text, text_of(g.program));
    std::vector<int> origins;
    for (const ir::Stage& s : g.program.stages) origins.push_back(s.origin);
    auto [it, fresh] = kernels_of.emplace(text, Kernels{r.kernels.size(), {}});
    Kernels& kernels = it->second;
    const bool is_fused = group.stages.size() > 1;
    if (fresh) {
      const std::string name = Cat(p.name, "_k", r.kernels.size());
      const auto add = [&](ir::TeProgram of, const std::vector<ir::SymbolFact>& facts,
                           std::string_view form) -> Status {
        for (size_t i = 0; i < facts.size(); ++i) {
          ir::SymbolFact& f = of.symbols[i];
          f = {f.var, facts[i].lo, facts[i].hi, facts[i].divisor, facts[i].hint};
        }
        ASSIGN_OR_RETURN(std::string naive, text_of(of));  // which does not tell the name
        of.name = Cat(name, form);
        r.kernels.push_back({of.name, std::move(of), std::move(naive), 0, {}, is_fused});
        return absl::OkStatus();
      };
      const KernelForms forms = FormsOf(g.program, context.target);
      RETURN_IF_ERROR(add(std::move(g.program), forms.all, ""));
      for (const std::vector<ir::SymbolFact>& near : forms.near) {
        ASSIGN_OR_RETURN(ExtractedGroup again, ExtractGroup(p, group.stages, group.outputs));
        kernels.near.push_back(r.kernels.size());
        RETURN_IF_ERROR(add(std::move(again.program), near, kernels.near.size() == 1 ? "_near" : "_near2"));
      }
    }
    // What is expected runs the nearest.
    ++r.kernels[kernels.near.empty() ? kernels.of_all : kernels.near[0]].calls;
    r.kernels[kernels.of_all].origins.push_back(origins);
    for (size_t k : kernels.near) r.kernels[k].origins.push_back(origins);
    const LoweredGraph::Kernel& general = r.kernels[kernels.of_all];
    ir::Call call;
    call.callee = general.name;
    for (ir::Buffer b : g.args) {
      read.insert(b);
      if (declared.insert(b).second) allocs.push_back(ir::MakeStmt(ir::Alloc{b}));
      call.args.push_back(address(b));
    }
    for (ir::Expr s : g.symbols) call.args.push_back(s);
    ir::Stmt run = ir::MakeStmt(call);
    for (size_t k = kernels.near.size(); k-- > 0;) {
      const LoweredGraph::Kernel& near = r.kernels[kernels.near[k]];
      call.callee = near.name;
      run = ir::MakeStmt(
          ir::If{IsNear(c, general.group, near.group.symbols, g.symbols), ir::MakeStmt(call), std::move(run)});
    }
    calls.push_back(std::move(run));
  }
  if (!p.checks.empty()) {
    r.check = MakeCheck(Cat(p.name, "_check"), p.checks, context.target.HasKernels());
    ir::Call call;
    call.callee = r.check->name;
    for (const ir::RangeCheck& check : p.checks) {
      for (ir::Buffer b : {check.low, check.high}) {
        read.insert(b);
        call.args.push_back(address(b));
      }
      call.args.push_back(check.begin);
      call.args.push_back(check.end);
    }
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
