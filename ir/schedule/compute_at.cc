// compute_at: a producer's nest moves into a loop of its readers and shrinks to the region that they need there.
// reverse_compute_at: a reader's nest moves into a loop of its producer, to the region that is complete there.
#include <algorithm>

#include "ir/linear.h"
#include "ir/schedule/legality.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/region.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

using VarSet = absl::flat_hash_set<Expr>;
using Extents = absl::flat_hash_map<Expr, Expr>;  // of loops, by their variables

// A block on its way from one place to another. `around` are the loops that stay around both.
class Move {
 public:
  Move(Context& c, Analyzer& a, const Func& f, std::string step, const StmtPath& path)
      : c_(c), a_(a), names_(f), step_(std::move(step)), path_(path), nest_(WholeNest(path)) {
    bool is_around = true;
    for (const Stmt& s : path) {
      is_around = is_around && s != nest_;
      const For* n = As<For>(s);
      if (n != nullptr) (is_around ? around_ : left_).push_back(n);
    }
  }

  const Block& block() const { return *As<Block>(path_.back()); }
  const Stmt& nest() const { return nest_; }
  const std::vector<const For*>& around() const { return around_; }
  const std::vector<const For*>& left() const { return left_; }
  NameSupply& names() { return names_; }
  bool Stays(Expr e) const {
    return std::any_of(around_.begin(), around_.end(), [&](const For* n) { return Uses(e, n->var); });
  }
  template <class... Args>
  Status Refuse(const Args&... why) const {
    return InvalidArgument(step_, ": ", why...);
  }

  // Whether the span takes every element of 0..whole while the loops `outer` move it, none of them for two spans
  // (`taken`); `once`: each element in one iteration of them alone.
  bool Covers(const Span& r, Expr whole, const Extents& outer, VarSet& taken, bool once) {
    if (IsInt(r.min, 0) && a_.CanProve(c_.Le(whole, r.extent))) return true;
    const Expr in_tile = c_.Var("#in tile");
    Extents moving = outer;
    moving[in_tile] = r.extent;
    a_.BindRange(in_tile, c_.Int(0), r.extent);
    const std::optional<Span> span = DenseSpanOf(a_, c_.Add(r.min, in_tile), moving);
    if (!span || !a_.CanProve(c_.Le(span->min, c_.Int(0))) ||
        !a_.CanProve(c_.Le(whole, c_.Add(span->min, span->extent))))
      return false;
    Expr runs = r.extent;
    for (Expr v : VarsOf(r.min)) {
      const auto it = outer.find(v);
      if (it == outer.end()) continue;
      if (!taken.insert(v).second) return false;
      runs = c_.Mul(runs, it->second);
    }
    return !once || a_.CanProve(c_.Eq(runs, span->extent));
  }

  // The nest at the new place: a loop for every data iterator that covers more than a point (`spans`; none: it has one
  // value, or keeps its binding), then the reduction's own loops.
  StatusOr<Stmt> Nest(const std::vector<std::optional<Span>>& spans) {
    Block moved = block();
    std::vector<For> loops;
    VarMap reduce_vars;
    Expr predicate = nullptr;
    absl::flat_hash_map<Expr, const For*> left;
    for (const For* n : left_) left[n->var] = n;
    for (size_t k = 0; k < moved.iters.size(); ++k) {
      BlockIter& i = moved.iters[k];
      if (i.kind == IterKind::kData && !spans[k]) {
        if (!Stays(i.binding)) i.binding = c_.Int(0);  // its only value
      } else if (i.kind == IterKind::kData) {
        const Span& r = *spans[k];
        if (Stays(i.binding) && (r.min != i.binding || !IsInt(r.extent, 1))) {
          return Refuse("there it would run over ", Print(r.min), " .. + ", Print(r.extent), " of iterator ",
                        i.var->name, ", and the loops around both have it at ", Print(i.binding));
        }
        if (IsInt(r.extent, 1)) {
          i.binding = r.min;
        } else {
          Expr var = c_.Var(names_.Fresh("l_" + i.var->name));
          loops.push_back({var, r.extent, ForKind::kSerial, nullptr});
          a_.BindRange(var, c_.Int(0), r.extent);
          i.binding = a_.Simplify(c_.Add(r.min, var));
        }
        for (Expr inside : {a_.Simplify(c_.Le(c_.Int(0), i.binding)), a_.Simplify(c_.Lt(i.binding, i.extent))})
          if (!IsTrue(inside)) predicate = predicate == nullptr ? inside : c_.And(predicate, inside);
      } else {
        if (Stays(i.binding)) return Refuse("a loop around both carries the reduction over ", i.var->name);
        // Reduction loops are taken along whole; a block whose reduction was already tiled keeps its binding's loops.
        for (Expr v : VarsOf(i.binding)) {
          auto it = left.find(v);
          if (it == left.end() || reduce_vars.contains(v)) continue;
          const std::vector<Expr> of_extent = VarsOf(it->second->extent);
          if (it->second->extent->reads ||
              std::any_of(of_extent.begin(), of_extent.end(), [&](Expr x) { return left.contains(x); }))
            return Refuse("the extent ", Print(it->second->extent), " of loop ", v->name,
                          " is out of memory or varies with loops that it would leave");
          Expr var = c_.Var(names_.Fresh(v->name));
          reduce_vars[v] = var;
          loops.push_back({var, it->second->extent, it->second->kind, nullptr});
        }
        i.binding = Substitute(c_, i.binding, reduce_vars);
      }
    }
    if (block().predicate != nullptr) {
      // What a split of a reduction loop required still holds; what its data loops required is said anew above.
      bool reduction_only = true;
      for (Expr v : VarsOf(block().predicate))
        reduction_only &= reduce_vars.contains(v) || (!left.contains(v) && !Stays(v));
      if (!reduction_only) return Refuse("move the block before its data loops are split");
      Expr p = Substitute(c_, block().predicate, reduce_vars);
      predicate = predicate == nullptr ? p : c_.And(predicate, p);
    }
    moved.predicate = predicate;
    Stmt s = MakeStmt(std::move(moved));
    for (size_t k = loops.size(); k-- > 0;) s = MakeStmt(For{loops[k].var, loops[k].extent, loops[k].kind, s});
    return s;
  }

 private:
  Context& c_;
  Analyzer& a_;
  NameSupply names_;
  const std::string step_;
  const StmtPath& path_;
  const Stmt nest_;
  std::vector<const For*> around_, left_;  // its loops that stay, and those that it leaves
};

}  // namespace

StatusOr<Func> ComputeAt(Func f, const std::string& block, const std::string& loop) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(StmtPath block_path, FindBlock(f, block));
  ASSIGN_OR_RETURN(StmtPath loop_path, FindLoop(f, loop));
  const Stmt target = loop_path.back();
  const For& at = *As<For>(target);
  Analyzer a(c);
  BindFactsOf(a, f, loop_path);
  Move move(c, a, f, Cat("compute_at ", block, " ", loop), block_path);
  const Block& producer = move.block();
  const Stmt nest = move.nest();
  auto refuse = [&](const auto&... why) { return move.Refuse(why...); };
  if (std::find(block_path.begin(), block_path.end(), target) != block_path.end())
    return refuse("the block is inside that loop already");
  for (const For* n : move.around()) {
    const bool both = std::any_of(loop_path.begin(), loop_path.end(), [&](const Stmt& s) { return As<For>(s) == n; });
    if (!both) return refuse("the block shares loop ", n->var->name, ", which is not around that one");
  }
  for (size_t k = 0; k < block_path.size(); ++k) {
    const If* n = As<If>(block_path[k]);
    const bool stays =
        k + 1 < loop_path.size() && block_path[k] == loop_path[k] && block_path[k + 1] == loop_path[k + 1];
    if (n != nullptr && !stays) return refuse("the block would leave the condition ", Print(n->cond));
  }
  const std::vector<Buffer> outputs = BuffersWritten(producer.body);
  if (outputs.empty()) return refuse("the block writes nothing");
  auto is_output = [&](Buffer b) { return std::find(outputs.begin(), outputs.end(), b) != outputs.end(); };

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
  const std::vector<const For*>& around = move.around();
  Extents outer;
  for (const For* n : LoopsOf(loop_path)) {
    if (std::find(around.begin(), around.end(), n) == around.end()) outer[n->var] = n->extent;
  }
  for (Buffer b : outputs) {
    const bool is_param = std::any_of(f.params.begin(), f.params.end(), [&](const Param& p) { return p.buffer == b; });
    if (!is_param) continue;
    if (std::any_of(loop_path.begin(), loop_path.end(), [](const Stmt& s) { return As<If>(s) != nullptr; }))
      return refuse("the result ", b->name, " would be written under a condition");
    VarSet taken;
    for (size_t i = 0; i < producer.iters.size(); ++i) {
      if (!dim_of[i]) continue;
      const Span& r = region[*dim_of[i]];
      const Expr binding = producer.iters[i].binding;
      if (move.Stays(binding) && r.min == binding && IsInt(r.extent, 1)) continue;
      if (!move.Covers(r, producer.iters[i].extent, outer, taken, /*once=*/false)) {
        return refuse("the result ", b->name, " would not be written everywhere in dimension ", *dim_of[i],
                      ", of which its readers need ", Print(r.min), " .. + ", Print(r.extent));
      }
    }
  }

  std::vector<std::optional<Span>> spans;
  for (const std::optional<size_t>& d : dim_of) spans.push_back(d ? std::optional(region[*d]) : std::nullopt);
  ASSIGN_OR_RETURN(const Stmt s, move.Nest(spans));

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

StatusOr<Func> ReverseComputeAt(Func f, const std::string& block, const std::string& loop) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(const StmtPath block_path, FindBlock(f, block));
  ASSIGN_OR_RETURN(const StmtPath loop_path, FindLoop(f, loop));
  const Stmt target = loop_path.back();
  Analyzer a(c);
  BindFactsOf(a, f, loop_path);
  const std::string step = Cat("reverse_compute_at ", block, " ", loop);
  Move move(c, a, f, step, block_path);
  if (std::find(block_path.begin(), block_path.end(), target) != block_path.end())
    return move.Refuse("the block is inside that loop already");
  // The nest's neighbour that holds the loop, and the loops from there to it, which the block's new nest shares.
  const size_t depth =
      static_cast<size_t>(std::find(block_path.begin(), block_path.end(), move.nest()) - block_path.begin());
  if (depth == 0 || loop_path.size() <= depth || loop_path[depth - 1] != block_path[depth - 1])
    return move.Refuse("the block shares a loop that is not around that one, or stands in another branch");
  for (size_t k = depth; k < loop_path.size(); ++k) {
    if (const If* n = As<If>(loop_path[k])) return move.Refuse("the loop stands under the condition ", Print(n->cond));
  }
  const std::vector<const For*> chain = LoopsOf({loop_path.begin() + static_cast<ptrdiff_t>(depth), loop_path.end()});
  Dependences dependences(f);
  const Dependences::Range own = dependences.RangeOf(block_path.back()), there = dependences.RangeOf(target);
  if (own.second <= there.first) return move.Refuse("the loop stands behind the block");

  // Its iterations may run in another order, and a reduction starts as before.
  for (size_t k = depth; k < block_path.size(); ++k) {
    if (As<For>(block_path[k]) == nullptr) continue;
    const StmtPath to_loop(block_path.begin(), block_path.begin() + static_cast<ptrdiff_t>(k) + 1);
    if (const auto conflict = dependences.CarriedBy(to_loop, ForKind::kSerial, true, {})) {
      return move.Refuse("its own iterations keep their order: ", dependences.Describe(*conflict),
                         " in different iterations of ", As<For>(block_path[k])->var->name);
    }
  }
  for (size_t k = own.first; k < own.second; ++k) {
    const Reduction* sum = dependences.accesses()[k].sum;
    if (sum != nullptr && !sum->starts_at_zero)
      return move.Refuse("its reduction's loops also move what it writes, or do not start it where they are 0");
  }

  // What an iteration of the loop writes of what the block reads at one of its iterators, is where that one runs.
  Extents inner;
  VisitStmts(target, [&](const Stmt& s) {
    const For* n = As<For>(s);
    if (n == nullptr || s == target) return true;
    inner[n->var] = n->extent;
    a.BindRange(n->var, c.Int(0), n->extent);
    return true;
  });
  const Block& consumer = move.block();
  std::vector<std::optional<Span>> spans(consumer.iters.size());
  bool any = false;
  for (size_t k = own.first; k < own.second; ++k) {
    const Access& r = dependences.accesses()[k];
    for (size_t j = there.first; j < there.second; ++j) {
      const Access& w = dependences.accesses()[j];
      if (r.buffer != w.buffer || r.writes || !w.writes || r.is_whole || w.is_whole) continue;
      any = true;
      for (size_t i = 0; i < spans.size(); ++i) {
        if (consumer.iters[i].kind != IterKind::kData || spans[i]) continue;
        const auto d = std::find(r.at.begin(), r.at.end(), consumer.iters[i].var) - r.at.begin();
        if (static_cast<size_t>(d) < r.at.size()) spans[i] = SpanOf(a, dependences.IndicesOf(w)[d], inner);
      }
    }
  }
  if (!any) return move.Refuse("it reads nothing that is written in that loop");
  Extents outer, own_loops;
  for (const For* n : chain) outer[n->var] = n->extent;
  for (const For* n : move.left()) {
    own_loops[n->var] = n->extent;
    a.BindRange(n->var, c.Int(0), n->extent);
  }
  VarSet taken, own_taken;
  for (size_t i = 0; i < spans.size(); ++i) {
    const BlockIter& iter = consumer.iters[i];
    if (iter.kind != IterKind::kData || move.Stays(iter.binding)) continue;
    // Of two that peel has made of one, each runs a part.
    if (!move.Covers({iter.binding, c.Int(1)}, iter.extent, own_loops, own_taken, /*once=*/false))
      return move.Refuse("its loops are not known to run all of iterator ", iter.var->name, " in 0..",
                         Print(iter.extent));
    if (!spans[i]) spans[i] = Span{c.Int(0), iter.extent};
    if (!move.Covers(*spans[i], iter.extent, outer, taken, /*once=*/true)) {
      return move.Refuse("its iterations would not run once each: of iterator ", iter.var->name, " in 0..",
                         Print(iter.extent), " those at ", Print(spans[i]->min), " .. + ", Print(spans[i]->extent));
    }
  }
  for (const For* n : chain) {
    if (!IsInt(n->extent, 1) && !taken.contains(n->var))
      return move.Refuse("each iteration of loop ", n->var->name, " would run it again");
  }

  // First a nest of its own around the same loops, then one with the producer's, from outside.
  ASSIGN_OR_RETURN(Stmt nest, move.Nest(spans));
  VarMap twins;
  for (const For* n : chain) twins[n->var] = c.Var(move.names().Fresh(n->var->name));
  nest = Substitute(c, nest, twins);
  for (size_t k = chain.size(); k-- > 0;) {
    const For& n = *chain[k];
    nest = MakeStmt(For{twins.at(n.var), Substitute(c, n.extent, twins), n.kind, nest});
  }
  std::vector<std::vector<std::string>> pairs;
  for (const For* n : chain) pairs.push_back({n->var->name, twins.at(n->var)->name});
  f.body = Replace(f.body, move.nest(), nest);
  f = SimplifyBindings(std::move(f), nest);
  for (const std::vector<std::string>& pair : pairs) {
    StatusOr<Func> merged = Merge(std::move(f), pair);
    if (!merged.ok()) return Annotate(merged.status(), step);
    f = *std::move(merged);
  }
  return f;
}

}  // namespace cinn_like::ir
