// A pass of the dpu's own: elements that are copied to the scratchpad one by one, next to each other on both sides, are
// copied by the instruction copy8.
//
//   for k in 0..32 {                  for k_1 in 0..4 {
//     lhs[i * 32 + k] = x[j + k]        for k_2 in 0..8 @intrinsic.copy8 {
//   }                             ->      lhs[i * 32 + (k_1 * 8 + k_2)] = x[j + (k_1 * 8 + k_2)]
#include <functional>

#include "examples/dpu/dpu.h"
#include "ir/intrinsic.h"
#include "ir/schedule/tree.h"

namespace dpu {
namespace {

using namespace ir;  // NOLINT: loops are all there is here

constexpr int64_t kRun = 8;  // elements that copy8 copies

StatusOr<Func> FindCopies(Func f, const PassContext& context) {
  const Intrinsic* copy8 = FindIntrinsic(*context.target.device, "copy8");
  RET_CHECK(copy8 != nullptr);
  Context& c = *f.context;
  NameSupply names(f);
  std::vector<const For*> around;
  std::function<Stmt(const Stmt&)> walk = [&](const Stmt& s) -> Stmt {
    const For* n = As<For>(s);
    if (n == nullptr) return MapChildren(s, [](Expr e) { return e; }, walk);
    around.push_back(n);
    const Stmt body = walk(n->body);
    around.pop_back();
    const Stmt kept = body == n->body ? s : MakeStmt(For{n->var, n->extent, n->kind, body});
    const bool fits = n->kind == ForKind::kSerial && As<Store>(body) != nullptr && IsInt(n->extent) &&
                      n->extent->int_value % kRun == 0;
    if (!fits) return kept;
    const Expr run = c.Var(names.Fresh(n->var->name), n->var->type);
    const Expr element = c.Var(names.Fresh(n->var->name), n->var->type);
    const auto number = [&](int64_t x) { return c.Int(x, n->var->type.dtype); };
    const Stmt copied = Substitute(c, body, {{n->var, c.Add(c.Mul(run, number(kRun)), element)}});
    const For nest{element, number(kRun), LoopKind::Intrinsic("copy8"), copied};
    Analyzer a(c);
    BindFacts(a, f, around);
    if (!MatchIntrinsic(a, nest, *copy8).ok()) return kept;
    return MakeStmt(For{run, number(n->extent->int_value / kRun), ForKind::kSerial, MakeStmt(nest)});
  };
  f.body = walk(f.body);
  return f;
}

}  // namespace

const std::vector<HookedPass>& Passes() {
  static const auto* passes = new std::vector<HookedPass>{{"flatten", {"dpu_find_copies", FindCopies}}};
  return *passes;
}

}  // namespace dpu
