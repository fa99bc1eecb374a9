#include "hlir/lower_te.h"

#include <map>
#include <set>

#include "hlir/te_call.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {
namespace {

// Whether the check can't fail, by what its numbers are computed from: indices counted by loops are in range.
bool AlwaysHolds(const ir::TeProgram& p, const ir::RangeCheck& check) {
  ir::Context& c = *p.context;
  ir::Analyzer analyzer(c);
  for (const ir::SymbolFact& f : p.symbols) analyzer.BindSymbol(f);
  for (const bool low : {true, false}) {
    const ir::Buffer b = low ? check.low : check.high;
    size_t k = 0;
    while (k < p.stages.size() && p.stages[k].outputs[0] != b) ++k;
    if (k == p.stages.size() || p.stages[k].outputs.size() != 1) return false;
    for (const auto* list : {&p.stages[k].iters, &p.stages[k].reduce_iters}) {
      for (const ir::StageIter& i : *list) analyzer.BindRange(i.var, c.Int(0), i.extent);
    }
    // One that is right stands for those that were combined before.
    const ir::Expr right = low ? check.begin : c.Sub(check.end, c.Int(1));
    ir::Expr e = ir::InlineLoads(c, p.stages[k].values[0], b, {}, right);
    absl::flat_hash_set<ir::Buffer> read;
    const auto add = [&](ir::Expr load) { read.insert(load->buffer); };
    ir::VisitLoads(e, add);
    int steps = 16;
    while (k-- > 0 && steps > 0) {
      const ir::Stage& s = p.stages[k];
      if (!read.contains(s.outputs[0]) || !s.IsPointwise() || s.outputs.size() != 1 || !s.at.empty()) continue;
      e = ir::InlineLoads(c, e, s.outputs[0], ir::VarsOf(s.iters), s.values[0]);
      ir::VisitLoads(e, add);
      --steps;
    }
    if (!analyzer.CanProve(low ? c.Le(check.begin, e) : c.Lt(e, check.end))) return false;
  }
  return true;
}

}  // namespace

StatusOr<ir::TeProgram> LowerToTe(const Graph& graph) {
  ir::TeProgram program;
  program.name = graph.name();
  program.context = std::make_shared<ir::Context>();
  ir::Context& c = *program.context;
  ir::Te te(c);

  std::map<std::string, ir::Expr> symbols;
  for (const SymbolInfo& s : graph.symbols()) {
    symbols[s.name] = c.Var(te.FreshName(s.name));
    program.symbols.push_back({symbols[s.name], s.lo, s.hi, s.divisor, s.hint});
  }
  const SymbolVars symbol = [&](const std::string& name) { return symbols.at(name); };

  std::vector<ir::Buffer> buffers(graph.num_values(), nullptr);
  for (const Param& p : graph.params()) {
    ir::Param param;
    if (p.is_symbol()) {
      param.var = symbol(p.name);
    } else {
      const TensorType& type = graph.TypeOf(p.value);
      ir::BufferNode node{.name = te.FreshName(p.name), .dtype = type.dtype, .shape = ToExprs(c, symbol, type.dims)};
      if (p.strides) node.strides = ToExprs(c, symbol, *p.strides);
      param.buffer = buffers[p.value] = c.MakeBuffer(std::move(node));
      param.role = p.role == ParamRole::kStatic     ? ir::ParamRole::kStatic
                   : p.role == ParamRole::kPrepared ? ir::ParamRole::kPrepared
                                                    : ir::ParamRole::kInput;
    }
    program.params.push_back(param);
  }

  for (const Op& op : graph.ops()) {
    if (!op.def->lower)
      return InvalidArgument("op '", op.def->name, "' has no meaning as loops: run 'decompose' first");
    std::vector<ir::Buffer> operands;
    std::vector<TensorType> operand_types, result_types;
    for (ValueId v : op.operands) {
      operands.push_back(buffers[v]);
      operand_types.push_back(graph.TypeOf(v));
    }
    for (ValueId v : op.results) result_types.push_back(graph.TypeOf(v));
    TeCall call{te,           c,        op.def->name,    operands, operand_types,
                result_types, op.attrs, graph.symbols(), symbol,   program.checks};
    const size_t checks_before = program.checks.size();
    const size_t before = te.stages().size();
    const std::vector<ir::Buffer> results = op.def->lower(call);
    for (size_t i = before; i < te.stages().size(); ++i) {
      te.stages()[i].origin = op.origin;
      te.stages()[i].is_convolution = op.def->framework_kernel == FrameworkKernel::kConvolution;
      if (te.stages()[i].IsCall())
        return Unimplemented("op '", op.def->name, "' calls a function by name, expected stages that are computed");
      for (ir::Expr e : te.stages()[i].values) {
        if (e->depth <= ir::kMaxDepthOfExpr) continue;
        return Unimplemented("op '", op.def->name, "' with ", op.operands.size(),
                             " operands: expected an expression of ", "at most ", ir::kMaxDepthOfExpr, " levels, got ",
                             e->depth);
      }
    }
    for (size_t i = checks_before; i < program.checks.size(); ++i) {
      program.checks[i].what = Cat("op ", op.origin, ", ", program.checks[i].what);
    }
    RET_CHECK(results.size() == op.results.size(), op.def->name);
    for (size_t i = 0; i < results.size(); ++i) {
      RET_CHECK(results[i]->dtype == result_types[i].dtype, op.def->name);
      buffers[op.results[i]] = results[i];
    }
  }

  std::set<ir::Buffer> taken;
  for (const ir::Param& p : program.params) taken.insert(p.buffer);
  for (ValueId v : graph.results()) {
    ir::Buffer buffer = buffers[v];
    if (!taken.insert(buffer).second) {
      buffer = te.Compute("result", buffer->dtype, buffer->shape, [&](ir::Indices i) { return te.At(buffers[v], i); });
      taken.insert(buffer);
    }
    program.params.push_back({.buffer = buffer, .role = ir::ParamRole::kResult});
  }
  program.stages = std::move(te.stages());
  std::erase_if(program.checks, [&](const ir::RangeCheck& check) { return AlwaysHolds(program, check); });
  return program;
}

}  // namespace cinn_like::hlir
