#include "hlir/extract_group.h"

#include <functional>
#include <memory>
#include <utility>

#include "hlir/inline_group.h"
#include "hlir/stage_analysis.h"
#include "ir/alignment.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

StatusOr<ExtractedGroup> ExtractGroup(const TeProgram& p, const std::vector<int>& members,
                                      const std::vector<Buffer>& outputs) {
  std::vector<Stage> stages;
  for (int i : members) stages.push_back(p.stages[i]);
  auto kept = InlineGroup(*p.context, std::move(stages), outputs, p.symbols);
  RET_CHECK(kept.has_value());
  std::vector<Buffer> inner, inputs;
  for (const Stage& s : *kept) inner.insert(inner.end(), s.outputs.begin(), s.outputs.end());
  for (const Stage& s : *kept) {
    for (Buffer b : InputsOf(s)) {
      if (!Contains(inner, b) && !Contains(inputs, b)) inputs.push_back(b);
    }
  }

  ExtractedGroup r;
  r.program.name = "kernel";
  r.program.context = std::make_shared<Context>();
  r.program.exact = p.exact;
  Context& c = *r.program.context;
  absl::flat_hash_map<Expr, Expr> vars;  // program variable -> group variable
  absl::flat_hash_map<Buffer, Buffer> buffers;
  std::vector<Expr> symbols;
  absl::flat_hash_map<Expr, Expr> memo;
  std::function<Expr(Expr)> expr;
  auto buffer = [&](Buffer b, const std::string& name) {
    BufferNode n = *b;
    n.name = name;
    for (Expr& e : n.shape) e = expr(e);
    for (Expr& e : n.strides) e = expr(e);
    n.alignment = kTensorAlignment;
    return buffers[b] = c.MakeBuffer(std::move(n));
  };
  expr = [&](Expr e) -> Expr {
    if (auto it = memo.find(e); it != memo.end()) return it->second;
    std::vector<Expr> args;
    for (Expr a : e->args) args.push_back(expr(a));
    Expr x = nullptr;
    switch (e->op) {
      case ExprOp::kInt:
        x = c.Int(e->int_value, e->type.dtype);
        break;
      case ExprOp::kFloat:
        x = c.Float(e->float_value, e->type.dtype);
        break;
      case ExprOp::kVar: {
        auto it = vars.find(e);
        if (it == vars.end()) {
          it = vars.emplace(e, c.Var(Cat("n", symbols.size()), e->type)).first;
          symbols.push_back(e);
        }
        return it->second;  // not memoised before its declaration
      }
      case ExprOp::kLoad: {
        Expr mask = nullptr;
        if (e->has_mask) {
          mask = args.back();
          args.pop_back();
        }
        x = c.Load(buffers.at(e->buffer), std::move(args), mask);
        break;
      }
      default:
        x = c.WithArgs(e, std::move(args));
    }
    memo.emplace(e, x);
    return x;
  };
  int next_iter = 0, next_temp = 0;
  for (Buffer b : inputs) {
    const Buffer q = buffer(b, Cat("a", r.program.params.size()));
    r.program.params.push_back({q, nullptr, ParamRole::kInput});
    r.args.push_back(b);
  }
  int next_output = 0;
  for (const Stage& s : *kept) {
    Stage t;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& i : *list) {
        vars[i.var] = c.Var(Cat(list == &s.iters ? "i" : "r", next_iter++));
        (list == &s.iters ? t.iters : t.reduce_iters).push_back({vars[i.var], expr(i.extent)});
      }
    }
    for (Buffer b : s.outputs) {
      const bool leaves = Contains(outputs, b);
      const Buffer q = buffer(b, leaves ? Cat("o", next_output++) : Cat("t", next_temp++));
      t.outputs.push_back(q);
    }
    for (Buffer b : s.running) t.running.push_back(buffer(b, Cat(t.outputs[0]->name, "_run", t.running.size())));
    if (s.IsScan()) t.along = vars.at(s.along);
    t.name = t.outputs[0]->name;
    t.origin = s.origin;
    t.origin_row_alignment = s.origin_row_alignment;
    t.is_convolution = s.is_convolution;
    for (Expr e : s.inits) t.inits.push_back(expr(e));
    for (Expr e : s.values) t.values.push_back(expr(e));
    for (Expr e : s.at) t.at.push_back(expr(e));
    if (s.where != nullptr) t.where = expr(s.where);
    r.program.stages.push_back(std::move(t));
  }
  for (Buffer b : inner) {
    if (!Contains(outputs, b)) continue;
    r.program.params.push_back({buffers.at(b), nullptr, ParamRole::kResult});
    r.args.push_back(b);
  }
  for (Expr s : symbols) {
    for (const SymbolFact& f : p.symbols) {
      if (f.var == s) r.program.symbols.push_back({vars[s], f.lo, f.hi, f.divisor, f.hint});
    }
    r.program.params.push_back({nullptr, vars[s], ParamRole::kInput});
    r.symbols.push_back(s);
  }
  return r;
}

}  // namespace cinn_like::hlir
