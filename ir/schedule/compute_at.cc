// compute_at: a producer's nest moves into a loop of its readers and shrinks to the region that they need there.
#include <algorithm>

#include "ir/linear.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/region.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {

StatusOr<Func> ComputeAt(Func f, const std::string& block, const std::string& loop) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(StmtPath block_path, FindBlock(f, block));
  ASSIGN_OR_RETURN(StmtPath loop_path, FindLoop(f, loop));
  const Block producer = *As<Block>(block_path.back());
  const Stmt nest = WholeNest(block_path);
  const Stmt target = loop_path.back();
  const For& at = *As<For>(target);
  if (std::find(block_path.begin(), block_path.end(), target) != block_path.end()) {
    return InvalidArgument("compute_at ", block, " ", loop, ": the block is inside that loop already");
  }
  const std::vector<Buffer> outputs = BuffersWritten(producer.body);
  auto is_output = [&](Buffer b) { return std::find(outputs.begin(), outputs.end(), b) != outputs.end(); };

  Analyzer a(c);
  BindFacts(a, f);
  for (const For* n : LoopsOf(loop_path)) a.BindRange(n->var, c.Int(0), n->extent);

  // The region of the outputs that readers inside the loop need at one iteration; no reader may be elsewhere.
  const size_t rank = outputs[0]->shape.size();
  std::vector<Span> region(rank);
  bool any = false;
  Status status;
  for (const StmtPath& path : FindBlocks(f)) {
    const Block& b = *As<Block>(path.back());
    if (b.name == block) continue;
    const auto at_pos = std::find(path.begin(), path.end(), target);
    absl::flat_hash_map<Expr, Expr> inner;
    if (at_pos != path.end()) {
      for (auto it = at_pos + 1; it != path.end(); ++it) {
        if (const For* n = As<For>(*it)) {
          inner[n->var] = n->extent;
          a.BindRange(n->var, c.Int(0), n->extent);
        }
      }
    }
    const VarMap bindings = Bindings(b);
    ForEachExpr(b.body, [&](Expr e) {
      Visit(e, [&](Expr x) {
        if (x->op != ExprOp::kLoad || !is_output(x->buffer) || !status.ok()) return true;
        if (at_pos == path.end()) {
          status = InvalidArgument("compute_at ", block, " ", loop, ": block ", b.name, " outside of that loop reads ",
                                   x->buffer->name);
          return false;
        }
        for (size_t d = 0; d < rank; ++d) {
          Expr index = a.Simplify(Substitute(c, x->args[d], bindings));
          Span s = SpanOf(a, index, inner).value_or(Span{c.Int(0), outputs[0]->shape[d]});
          Span& r = region[d];
          if (!any) {
            r = s;
          } else if (r.min != s.min || r.extent != s.extent) {
            if (r.min == s.min && a.CanProve(c.Le(r.extent, s.extent)))
              r = s;
            else if (!(r.min == s.min && a.CanProve(c.Le(s.extent, r.extent))))
              r = {c.Int(0), outputs[0]->shape[d]};
          }
        }
        any = true;
        return true;
      });
    });
  }
  RETURN_IF_ERROR(status);
  if (!any)
    return InvalidArgument("compute_at ", block, " ", loop, ": no block inside that loop reads ", outputs[0]->name);

  // An output that outlives the function must be written everywhere: at each iteration of the loops around, a tile
  // whose origin moves with them, or all of it.
  for (Buffer b : outputs) {
    const bool is_param = std::any_of(f.params.begin(), f.params.end(), [&](const Param& p) { return p.buffer == b; });
    if (!is_param) continue;
    for (size_t d = 0; d < rank; ++d) {
      const Span& r = region[d];
      Expr whole = b->shape[d];
      if (IsInt(r.min, 0) && a.CanProve(c.Le(whole, r.extent))) continue;
      // Tiles of a mixed-radix origin cover the dimension if the readers' own index does; points and aligned tiles do.
      const Linear min = ToLinear(c, r.min);
      const bool tiles = min.constant == 0 && !min.terms.empty() &&
                         (IsInt(r.extent, 1) || a.CanProve(c.Eq(c.Mod(r.min, r.extent), c.Int(0))));
      if (!tiles) {
        return InvalidArgument("compute_at ", block, " ", loop, ": the result ", b->name,
                               " would not be written everywhere in dimension ", d);
      }
    }
  }

  // The new nest: a loop for every dimension whose region is more than a point, then the reduction's own loops.
  Block moved = producer;
  NameSupply names(f);
  std::vector<For> loops;
  VarMap reduce_vars;
  Expr predicate = nullptr;
  size_t d = 0;
  absl::flat_hash_map<Expr, const For*> old_loops;
  for (const For* n : LoopsOf(block_path)) old_loops[n->var] = n;
  for (BlockIter& i : moved.iters) {
    if (i.kind == IterKind::kData) {
      const Span& r = region[d++];
      if (IsInt(r.extent, 1)) {
        i.binding = r.min;
      } else {
        Expr var = c.Var(names.Fresh("l_" + i.var->name));
        loops.push_back({var, r.extent, ForKind::kSerial, nullptr});
        a.BindRange(var, c.Int(0), r.extent);
        i.binding = a.Simplify(c.Add(r.min, var));
      }
      Expr inside = a.Simplify(c.Lt(i.binding, i.extent));
      if (!IsTrue(inside)) predicate = predicate == nullptr ? inside : c.And(predicate, inside);
    } else {
      // Reduction loops are taken along whole; a block whose reduction was already tiled keeps its binding's loops.
      for (Expr v : VarsOf(i.binding)) {
        auto it = old_loops.find(v);
        if (it == old_loops.end() || reduce_vars.contains(v)) continue;
        Expr var = c.Var(names.Fresh(v->name));
        reduce_vars[v] = var;
        loops.push_back({var, it->second->extent, it->second->kind, nullptr});
      }
      i.binding = Substitute(c, i.binding, reduce_vars);
    }
  }
  if (producer.predicate != nullptr) {
    // What a split of a reduction loop required still holds; what its data loops required is said anew above.
    bool reduction_only = true;
    for (Expr v : VarsOf(producer.predicate)) reduction_only &= reduce_vars.contains(v) || !old_loops.contains(v);
    if (!reduction_only) {
      return InvalidArgument("compute_at ", block, " ", loop, ": move the block before its data loops are split");
    }
    Expr p = Substitute(c, producer.predicate, reduce_vars);
    predicate = predicate == nullptr ? p : c.And(predicate, p);
  }
  moved.predicate = predicate;
  Stmt s = MakeStmt(std::move(moved));
  for (size_t k = loops.size(); k-- > 0;) s = MakeStmt(For{loops[k].var, loops[k].extent, loops[k].kind, s});

  // Before the first reader in the loop's body.
  std::vector<Stmt> body;
  bool placed = false;
  const Seq* seq = As<Seq>(at.body);
  for (const Stmt& x : seq != nullptr ? seq->stmts : std::vector<Stmt>{at.body}) {
    const std::vector<Buffer> read = BuffersRead(x);
    if (!placed && std::any_of(read.begin(), read.end(), is_output)) {
      body.push_back(s);
      placed = true;
    }
    body.push_back(x);
  }
  f.body = Replace(f.body, target, MakeStmt(For{at.var, at.extent, at.kind, MakeSeq(std::move(body))}));
  f.body = Replace(f.body, nest, MakeSeq({}));
  return SimplifyBindings(std::move(f));
}

}  // namespace cinn_like::ir
