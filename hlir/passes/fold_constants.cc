#include <cmath>

#include "hlir/lower_te.h"
#include "hlir/passes/passes.h"
#include "hlir/rebuild.h"

namespace cinn_like::hlir {
namespace {

using ir::Expr;
using ir::ExprOp;

// Evaluates 0-d stages: an expression's value as Dim (integers, bool) or double. Nullopt: not known here.
class ScalarEvaluator {
 public:
  explicit ScalarEvaluator(const ir::TeProgram& program) {
    for (const ir::Stage& s : program.stages) {
      if (s.IsReduction() || !s.iters.empty()) continue;
      for (size_t k = 0; k < s.outputs.size(); ++k) values_[s.outputs[k]] = s.values[k];
    }
  }

  std::optional<Attr> Run(ir::Buffer result) const {
    const auto it = values_.find(result);
    return it == values_.end() ? std::nullopt : Eval(it->second);
  }

 private:
  std::optional<Attr> Eval(Expr e) const {
    const DType t = e->type.dtype;
    if (e->op == ExprOp::kInt) return Attr(Dim(e->int_value));
    if (e->op == ExprOp::kFloat) return Attr(e->float_value);
    if (e->op == ExprOp::kLoad) return Run(e->buffer);
    std::vector<Attr> args;
    for (Expr a : e->args) {
      std::optional<Attr> value = Eval(a);
      if (!value) return std::nullopt;
      args.push_back(*std::move(value));
    }
    if (e->op == ExprOp::kSelect) return std::get<Dim>(args[0]) != Dim(0) ? args[1] : args[2];
    if (args.empty()) return std::nullopt;
    const bool floats = std::holds_alternative<double>(args[0]);
    if (e->op == ExprOp::kCast) {
      if (floats && !IsFloat(t)) return std::nullopt;
      const double v = floats ? std::get<double>(args[0]) : static_cast<double>(*std::get<Dim>(args[0]).AsConst());
      if (IsFloat(t)) return Attr(ir::RoundTo(t, v));
      return Attr(Dim(ir::WrapTo(t, *std::get<Dim>(args[0]).AsConst())));
    }
    if (!floats) {
      std::vector<int64_t> ints;
      for (const Attr& a : args) ints.push_back(*std::get<Dim>(a).AsConst());
      const std::optional<int64_t> v = ir::FoldInt(e->op, t, ints);
      return v ? std::optional<Attr>(Dim(*v)) : std::nullopt;
    }
    const double a = std::get<double>(args[0]), b = args.size() > 1 ? std::get<double>(args[1]) : 0;
    const bool nan = std::isnan(a) || std::isnan(b);
    double v = 0;
    switch (e->op) {
      case ExprOp::kNeg:
        v = -a;
        break;
      case ExprOp::kAbs:
        v = std::abs(a);
        break;
      case ExprOp::kSqrt:
        v = std::sqrt(a);
        break;
      case ExprOp::kExp:
        v = std::exp(a);
        break;
      case ExprOp::kLog:
        v = std::log(a);
        break;
      case ExprOp::kAdd:
        v = a + b;
        break;
      case ExprOp::kSub:
        v = a - b;
        break;
      case ExprOp::kMul:
        v = a * b;
        break;
      case ExprOp::kDiv:
        v = a / b;
        break;
      case ExprOp::kMin:
        v = nan ? std::nan("") : std::min(a, b);
        break;
      case ExprOp::kMax:
        v = nan ? std::nan("") : std::max(a, b);
        break;
      case ExprOp::kEq:
        return Attr(Dim(a == b));
      case ExprOp::kNe:
        return Attr(Dim(a != b));
      case ExprOp::kLt:
        return Attr(Dim(a < b));
      case ExprOp::kLe:
        return Attr(Dim(a <= b));
      default:
        return std::nullopt;
    }
    return Attr(ir::RoundTo(t, v));
  }

  std::map<ir::Buffer, Expr> values_;
};

const Attr* UniformValue(const Graph& g, ValueRef v) {
  const Op* op = v.id < 0 ? nullptr : g.ProducerOf(v.id);
  return op && op->def->name == "full" ? &op->attrs.Number("value") : nullptr;
}

// The element of a pointwise op on uniform operands, by its meaning on scalars.
StatusOr<std::optional<Attr>> EvaluateOnScalars(const Op& op, const Graph& graph,
                                                const std::vector<ValueRef>& operands) {
  Graph scalar("scalar", graph.registry());
  OpBuilder b(&scalar);
  std::vector<ValueRef> values;
  for (ValueRef v : operands) {
    const Attr& value = *UniformValue(graph, v);
    if (const Dim* d = std::get_if<Dim>(&value); d && !d->IsConst()) return std::optional<Attr>();
    values.push_back(b.Full(value, graph.TypeOf(v.id).dtype));
  }
  const ValueRef result = b.Call(op.def->name, values, op.attrs);
  RETURN_IF_ERROR(b.status());
  RETURN_IF_ERROR(scalar.SetResults({result.id}));
  ASSIGN_OR_RETURN(const ir::TeProgram program, LowerToTe(scalar));
  return ScalarEvaluator(program).Run(program.params.back().buffer);
}

}  // namespace

StatusOr<Graph> FoldConstants(Graph graph, const PassContext&) {
  Status status;
  StatusOr<Graph> result = Rebuild(
      graph,
      [&](OpBuilder* b, const Op& op, const std::vector<ValueRef>& operands) -> std::optional<std::vector<ValueRef>> {
        if (operands.empty() || op.results.size() != 1 || !status.ok()) return std::nullopt;
        for (ValueRef v : operands) {
          if (!UniformValue(b->graph(), v)) return std::nullopt;
        }
        const TensorType& type = graph.TypeOf(op.results[0]);
        if (op.def->is_view) {
          const Attr value = *UniformValue(b->graph(), operands[0]);
          return std::vector<ValueRef>{b->Full(value, type.dtype, type.dims)};
        }
        if (!op.def->is_pointwise || !op.def->lower) return std::nullopt;
        StatusOr<std::optional<Attr>> value = EvaluateOnScalars(op, b->graph(), operands);
        if (!value.ok()) status = value.status();
        if (!value.ok() || !*value) return std::nullopt;
        return std::vector<ValueRef>{b->Full(**value, type.dtype, type.dims)};
      });
  RETURN_IF_ERROR(status);
  return result;
}

}  // namespace cinn_like::hlir
