// compute_at: a producer's nest moves into a loop of its readers and shrinks to the region that they need there.
#include <algorithm>

#include "ir/linear.h"
#include "ir/schedule/legality.h"
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
  auto refuse = [&](const auto&... why) { return InvalidArgument("compute_at ", block, " ", loop, ": ", why...); };
  const std::vector<Buffer> outputs = BuffersWritten(producer.body);
  if (outputs.empty()) return refuse("the block writes nothing");
  auto is_output = [&](Buffer b) { return std::find(outputs.begin(), outputs.end(), b) != outputs.end(); };
  // Loops that stay where they are, around both.
  std::vector<const For*> around;
  for (const Stmt& s : block_path) {
    if (s == nest) break;
    if (const For* n = As<For>(s)) around.push_back(n);
  }
  auto stays = [&](Expr e) {
    return std::any_of(around.begin(), around.end(), [&](const For* n) { return Uses(e, n->var); });
  };

  // It writes elements at its data iterators, each dimension at one, and is all that writes them.
  const size_t rank = outputs[0]->shape.size();
  std::vector<std::optional<size_t>> dim_of(producer.iters.size());
  std::vector<bool> fixed(rank, false);
  Status form;
  const Stmt stores = producer.init == nullptr ? producer.body : MakeSeq({producer.body, producer.init});
  Stmt first_store;
  VisitStmts(stores, [&](const Stmt& s) {
    const Store* n = As<Store>(s);
    if (n == nullptr || !form.ok()) return true;
    if (first_store == nullptr) first_store = s;
    if (n->mask != nullptr) form = refuse("it writes ", n->buffer->name, " under a mask");
    std::vector<std::optional<size_t>> dims(producer.iters.size());
    std::vector<bool> constant(rank, false);
    for (size_t d = 0; d < n->indices.size() && d < rank; ++d) {
      constant[d] = IsInt(n->indices[d], 0) && IsInt(n->buffer->shape[d], 1);
      for (size_t i = 0; i < producer.iters.size(); ++i) {
        if (producer.iters[i].var == n->indices[d] && !dims[i]) dims[i] = d;
      }
    }
    size_t found = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      const bool is_data = producer.iters[i].kind == IterKind::kData;
      // An iterator of one value may be left out.
      if (is_data != dims[i].has_value() && !(is_data && IsInt(producer.iters[i].extent, 1)))
        form = refuse("iterator ", producer.iters[i].var->name, is_data ? " does not move" : " reduces and moves",
                      " what the block writes to ", n->buffer->name);
      found += dims[i].has_value();
    }
    found += static_cast<size_t>(std::count(constant.begin(), constant.end(), true));
    if (form.ok() && (n->indices.size() != rank || found != rank))
      form = refuse("it does not write ", n->buffer->name, " at its iterators, one for each dimension");
    const bool first = s == first_store;
    if (form.ok() && !first && (dims != dim_of || constant != fixed || n->buffer->shape != outputs[0]->shape))
      form = refuse("it writes ", n->buffer->name, " at other elements than ", outputs[0]->name);
    dim_of = std::move(dims);
    fixed = std::move(constant);
    return true;
  });
  RETURN_IF_ERROR(form);

  Analyzer a(c);
  BindFacts(a, f);
  for (const For* n : LoopsOf(loop_path)) a.BindRange(n->var, c.Int(0), n->extent);
  Dependences dependences(f);
  const Dependences::Range own = dependences.RangeOf(block_path.back()), readers = dependences.RangeOf(target);
  if (readers.first < own.second) return refuse("the loop stands before the block");
  for (size_t k = 0; k < dependences.accesses().size(); ++k) {
    const Access& x = dependences.accesses()[k];
    if (k >= own.first && k < own.second) {
      if (!x.writes && is_output(x.buffer) && x.sum == nullptr)
        return refuse("it reads what it writes to ", x.buffer->name);
      continue;
    }
    const std::string who = x.block != nullptr ? Cat("block ", x.block->name) : "a statement in no block";
    if (is_output(x.buffer)) {
      if (x.writes) return refuse(who, " writes ", x.buffer->name, ", too");
      if (k < readers.first || k >= readers.second) return refuse(who, " outside of that loop reads ", x.buffer->name);
      if (x.block == nullptr) return refuse(who, " reads ", x.buffer->name);
      if (x.is_whole) return refuse(who, " may read any element of ", x.buffer->name);
    } else if (x.writes && k >= own.second && k < readers.second) {
      // What it reads there must still be what it reads here.
      for (size_t j = own.first; j < own.second; ++j) {
        if (dependences.accesses()[j].buffer == x.buffer)
          return refuse(who, " writes ", x.buffer->name, ", which the block reads, before it would run there");
      }
    }
  }

  for (size_t k = own.first; k < own.second; ++k) {
    const Reduction* sum = dependences.accesses()[k].sum;
    if (sum != nullptr && !sum->starts_at_zero)
      return refuse("its reduction's loops also move what it writes, or do not start it where they are 0");
  }

  // The region of the outputs that readers inside the loop need at one iteration; no reader may be elsewhere.
  std::vector<Span> region(rank);
  bool any = false;
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
    auto add = [&](Expr e) {
      Visit(e, [&](Expr x) {
        if (x->op != ExprOp::kLoad || !is_output(x->buffer)) return true;
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
    };
    ForEachExpr(path.back(), add);
  }
  if (!any)
    return InvalidArgument("compute_at ", block, " ", loop, ": no block inside that loop reads ", outputs[0]->name);

  // An output that outlives the function must still be written everywhere: where each dimension is taken whole, or in
  // tiles that the loops around the readers move over it.
  absl::flat_hash_map<Expr, Expr> outer;
  for (const For* n : LoopsOf(loop_path)) {
    if (std::find(around.begin(), around.end(), n) == around.end()) outer[n->var] = n->extent;
  }
  for (Buffer b : outputs) {
    const bool is_param = std::any_of(f.params.begin(), f.params.end(), [&](const Param& p) { return p.buffer == b; });
    if (!is_param) continue;
    if (std::any_of(loop_path.begin(), loop_path.end(), [](const Stmt& s) { return As<If>(s) != nullptr; }))
      return refuse("the result ", b->name, " would be written under a condition");
    absl::flat_hash_set<Expr> taken;
    for (size_t i = 0; i < producer.iters.size(); ++i) {
      if (!dim_of[i]) continue;
      const Span& r = region[*dim_of[i]];
      const Expr whole = producer.iters[i].extent;
      bool all = IsInt(r.min, 0) && a.CanProve(c.Le(whole, r.extent));
      if (!all && stays(producer.iters[i].binding)) all = r.min == producer.iters[i].binding && IsInt(r.extent, 1);
      if (!all) {
        const Expr in_tile = c.Var("#in tile");
        absl::flat_hash_map<Expr, Expr> moving = outer;
        moving[in_tile] = r.extent;
        a.BindRange(in_tile, c.Int(0), r.extent);
        const Expr at = c.Add(r.min, in_tile);
        const std::optional<Span> span = DenseSpanOf(a, at, moving);
        all = span && a.CanProve(c.Le(span->min, c.Int(0))) && a.CanProve(c.Le(whole, c.Add(span->min, span->extent)));
        for (Expr v : VarsOf(r.min)) all = all && (!outer.contains(v) || taken.insert(v).second);
      }
      if (!all) {
        return refuse("the result ", b->name, " would not be written everywhere in dimension ", *dim_of[i],
                      ", of which its readers need ", Print(r.min), " .. + ", Print(r.extent));
      }
    }
  }

  // The new nest: a loop for every dimension whose region is more than a point, then the reduction's own loops.
  Block moved = producer;
  NameSupply names(f);
  std::vector<For> loops;
  VarMap reduce_vars;
  Expr predicate = nullptr;
  absl::flat_hash_map<Expr, const For*> old_loops;
  for (const For* n : LoopsOf(block_path)) {
    if (std::find(around.begin(), around.end(), n) == around.end()) old_loops[n->var] = n;
  }
  for (size_t k = 0; k < moved.iters.size(); ++k) {
    BlockIter& i = moved.iters[k];
    if (i.kind == IterKind::kData && !dim_of[k]) {
      i.binding = c.Int(0);  // its only value
    } else if (i.kind == IterKind::kData) {
      const Span& r = region[*dim_of[k]];
      if (stays(i.binding) && (r.min != i.binding || !IsInt(r.extent, 1))) {
        return refuse("its readers need ", outputs[0]->name, " at ", Print(r.min), " .. + ", Print(r.extent),
                      " in dimension ", *dim_of[k], ", and the loops around both compute it at ", Print(i.binding));
      }
      if (IsInt(r.extent, 1)) {
        i.binding = r.min;
      } else {
        Expr var = c.Var(names.Fresh("l_" + i.var->name));
        loops.push_back({var, r.extent, ForKind::kSerial, nullptr});
        a.BindRange(var, c.Int(0), r.extent);
        i.binding = a.Simplify(c.Add(r.min, var));
      }
      for (Expr inside : {a.Simplify(c.Le(c.Int(0), i.binding)), a.Simplify(c.Lt(i.binding, i.extent))})
        if (!IsTrue(inside)) predicate = predicate == nullptr ? inside : c.And(predicate, inside);
    } else {
      if (stays(i.binding)) return refuse("a loop around both carries the reduction over ", i.var->name);
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
    for (Expr v : VarsOf(producer.predicate)) {
      reduction_only &= reduce_vars.contains(v) || (!old_loops.contains(v) && !stays(v));
    }
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
  const Stmt moved_to = MakeStmt(For{at.var, at.extent, at.kind, MakeSeq(std::move(body))});
  const Func before = f;
  f.body = Replace(f.body, target, moved_to);
  f.body = Replace(f.body, nest, MakeSeq({}));
  f = SimplifyBindings(std::move(f), s);
  // Loops around that run at once may now meet in what is written here.
  ASSIGN_OR_RETURN(const StmtPath now, FindLoop(f, loop));
  ASSIGN_OR_RETURN(block_path, FindBlock(f, block));
  RETURN_IF_ERROR(
      Annotate(CheckLoopKinds(f, now, {.within = WholeNest(block_path)}), Cat("compute_at ", block, " ", loop)));
  RETURN_IF_ERROR(Annotate(CheckPlaces(before, f), Cat("compute_at ", block, " ", loop)));
  return f;
}

}  // namespace cinn_like::ir
