// The primitives about blocks and memory: inline, stage, cache_write, scope, split_init, implement (pad has a file of
// its own).
#include <algorithm>

#include "ir/join.h"
#include "ir/schedule/legality.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/tree.h"
#include "ir/te.h"

namespace cinn_like::ir {
namespace {

using VarSet = absl::flat_hash_set<Expr>;

Stmt RemoveAlloc(const Stmt& s, Buffer b) {
  return RewriteStmts(s, [&](const Stmt& x) -> Stmt {
    const Alloc* a = As<Alloc>(x);
    return a != nullptr && a->buffer == b ? MakeSeq({}) : nullptr;
  });
}

// Where accesses stand that are not the block's own.
std::string NameOf(const Access& x) {
  return x.block != nullptr ? Cat("block ", x.block->name) : std::string("a statement in no block");
}

// The first access, other than the block's own, that `is_bad`.
template <class F>
const Access* FindOther(const Dependences& d, Dependences::Range own, F is_bad) {
  for (size_t k = 0; k < d.accesses().size(); ++k) {
    if ((k < own.first || k >= own.second) && is_bad(d.accesses()[k], k)) return &d.accesses()[k];
  }
  return nullptr;
}

// The block NAME_copy, alone in its nest:  to[v0, ...] = from[v0, ...].
Stmt CopyNest(Context& c, NameSupply& names, Buffer from, Buffer to, const std::string& name) {
  Block copy;
  copy.name = names.Fresh(name + "_copy");
  std::vector<Expr> at;
  std::vector<std::pair<Expr, Expr>> loops;
  for (size_t d = 0; d < from->shape.size(); ++d) {
    Expr var = c.Var(names.Fresh(Cat("v", d, "_", name))), loop = c.Var(names.Fresh(Cat("l", d, "_", name)));
    copy.iters.push_back({var, from->shape[d], IterKind::kData, loop});
    loops.emplace_back(loop, from->shape[d]);
    at.push_back(var);
  }
  copy.body = MakeStmt(Store{to, at, c.Load(from, at)});
  Stmt nest = MakeStmt(std::move(copy));
  for (size_t d = loops.size(); d-- > 0;) nest = MakeStmt(For{loops[d].first, loops[d].second, ForKind::kSerial, nest});
  return nest;
}

// The statement of the function's outermost sequence that holds the end of the path.
const Stmt& TopOf(const StmtPath& path) { return path.size() > 1 && As<Seq>(path[0]) != nullptr ? path[1] : path[0]; }

// Whether a copy beside `top`, a statement of the function's outermost sequence, can speak of the buffer.
bool IsDeclaredBefore(const Func& f, Buffer b, const Stmt& top) {
  bool declared = IsParam(f, b);
  const Seq* seq = As<Seq>(f.body);
  for (const Stmt& x : seq == nullptr ? std::vector<Stmt>{} : seq->stmts) {
    if (x == top) break;
    declared |= As<Alloc>(x) != nullptr && As<Alloc>(x)->buffer == b;
  }
  return declared;
}

}  // namespace

StatusOr<Func> Inline(Func f, const std::string& block) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(StmtPath path, FindBlock(f, block));
  const Block b = *As<Block>(path.back());
  const Store* store = As<Store>(b.body);
  const bool reduces = b.init != nullptr || std::any_of(b.iters.begin(), b.iters.end(),
                                                        [](const BlockIter& i) { return i.kind == IterKind::kReduce; });
  if (reduces || store == nullptr)
    return InvalidArgument("inline ", block, ": only a block of one store without reduction can be inlined");
  if (store->mask != nullptr) return InvalidArgument("inline ", block, ": it writes under a mask");
  if (IsParam(f, store->buffer)) return InvalidArgument("inline ", block, ": ", store->buffer->name, " is a result");
  // Each dimension at an iterator of its own.
  bool at_iterators = store->indices.size() == b.iters.size();
  for (const BlockIter& i : b.iters)
    at_iterators = at_iterators && std::count(store->indices.begin(), store->indices.end(), i.var) == 1;
  if (!at_iterators) return InvalidArgument("inline ", block, ": it does not write at its iterators");
  // Readers find then what they would find now: nobody else writes it, nor what it is computed from, later.
  Dependences dependences(f);
  const Dependences::Range own = dependences.RangeOf(path.back());
  const std::vector<Buffer> inputs = BuffersRead(path.back());
  if (std::find(inputs.begin(), inputs.end(), store->buffer) != inputs.end())
    return InvalidArgument("inline ", block, ": it reads what it writes to ", store->buffer->name);
  const Access* other = FindOther(dependences, own, [&](const Access& x, size_t k) {
    if (x.buffer == store->buffer) return x.writes || x.is_whole || k < own.first;
    if (!x.writes || std::find(inputs.begin(), inputs.end(), x.buffer) == inputs.end()) return false;
    for (size_t j = own.first; j < own.second; ++j) {
      const Access& y = dependences.accesses()[j];
      if (y.buffer == x.buffer && (k > own.first || !dependences.MeetTogether(x, y))) return true;
    }
    return false;
  });
  if (other != nullptr) {
    return InvalidArgument("inline ", block, ": ", NameOf(*other),
                           other->buffer != store->buffer
                               ? Cat(" writes ", other->buffer->name, ", which the block reads")
                           : other->is_whole ? Cat(" takes the memory of ", other->buffer->name)
                           : other->writes   ? Cat(" writes ", other->buffer->name, ", too")
                                             : Cat(" reads ", other->buffer->name, " before"));
  }
  const Buffer buffer = store->buffer;
  Expr value = store->value;
  const Func before = f;
  f.body = RemoveAlloc(Replace(f.body, WholeNest(path), MakeSeq({})), buffer);
  const std::vector<Expr> iters = store->indices;
  std::function<Stmt(const Stmt&)> go = [&](const Stmt& s) {
    return MapChildren(s, [&](Expr e) { return InlineLoads(c, e, buffer, iters, value); }, go);
  };
  f.body = go(f.body);
  RETURN_IF_ERROR(Annotate(CheckPlaces(before, f), Cat("inline ", block)));
  return f;
}

StatusOr<Func> ReverseInline(Func f, const std::string& block) {
  Context& c = *f.context;
  auto refuse = [&](const auto&... why) { return InvalidArgument("reverse_inline ", block, ": ", why...); };
  ASSIGN_OR_RETURN(const StmtPath path, FindBlock(f, block));
  const Block& reader = *As<Block>(path.back());
  const auto reduces = [](const Block& b) {
    return b.init != nullptr ||
           std::any_of(b.iters.begin(), b.iters.end(), [](const BlockIter& i) { return i.kind == IterKind::kReduce; });
  };
  if (reduces(reader)) return refuse("it is a reduction");
  if (reader.predicate != nullptr) return refuse("it runs under a condition: ", Print(reader.predicate));
  Dependences dependences(f);
  const Dependences::Range own = dependences.RangeOf(path.back());

  // The buffer that is to go: an allocation that this block alone reads, filled by one other.
  Buffer buffer = nullptr;
  StmtPath producer_path;
  std::string why = "it reads no allocation";
  for (Buffer b : BuffersRead(path.back())) {
    if (IsParam(f, b)) continue;
    const Access* other = FindOther(dependences, own, [&](const Access& x, size_t k) {
      return x.buffer == b && (!x.writes || x.is_whole || x.block == nullptr || k > own.first);
    });
    if (other != nullptr) {
      why = Cat(NameOf(*other), " reads or writes ", b->name, ", too");
      continue;
    }
    std::vector<StmtPath> writers;
    for (StmtPath& p : FindBlocks(f)) {
      const std::vector<Buffer> written = BuffersWritten(p.back());
      if (std::find(written.begin(), written.end(), b) != written.end()) writers.push_back(std::move(p));
    }
    if (writers.size() != 1) {
      why = Cat(writers.size(), " blocks write ", b->name);
      continue;
    }
    if (buffer != nullptr)
      return refuse("it alone reads both ", buffer->name, " and ", b->name, ": inline one of them");
    buffer = b;
    producer_path = std::move(writers[0]);
  }
  if (buffer == nullptr) return refuse(why);
  const auto conditions = [](const StmtPath& p) {
    std::vector<std::pair<Stmt, Stmt>> r;
    for (size_t k = 0; k + 1 < p.size(); ++k) {
      if (As<If>(p[k]) != nullptr) r.emplace_back(p[k], p[k + 1]);
    }
    return r;
  };
  if (conditions(path) != conditions(producer_path))
    return refuse("it stands under other conditions than what it reads");

  Block fused = *As<Block>(producer_path.back());
  // Of a scan, the store of one of its results, behind what runs.
  Stmt stored = fused.body;
  bool is_free = !reduces(fused);
  absl::flat_hash_set<Expr> reduced;
  for (const BlockIter& i : fused.iters) {
    if (i.kind == IterKind::kReduce) reduced.insert(i.var);
  }
  const Seq* steps = As<Seq>(fused.body);
  if (steps != nullptr && As<Store>(reader.body) != nullptr && ScanStepOf(c, fused.body, reduced)) {
    for (const Stmt& x : steps->stmts) {
      if (As<Store>(x) != nullptr && As<Store>(x)->buffer == buffer) stored = x;
    }
    is_free = true;
  }
  const Store* store = As<Store>(stored);
  if (!is_free || store == nullptr || store->mask != nullptr)
    return refuse("block ", fused.name, " is not one store to ", buffer->name, " without mask or reduction");
  // An element of the buffer is an iteration of both blocks.
  VarMap values;  // the reader's iterators in terms of the producer's
  Analyzer a(c);
  BindFacts(a, f);
  const auto iter_of = [](const Block& b, Expr var) {
    const auto it = std::find_if(b.iters.begin(), b.iters.end(), [&](const BlockIter& i) { return i.var == var; });
    return it == b.iters.end() ? nullptr : &*it;
  };
  bool one_to_one = store->indices.size() == fused.iters.size();
  for (const BlockIter& i : fused.iters)
    one_to_one = one_to_one && std::count(store->indices.begin(), store->indices.end(), i.var) == 1;
  if (!one_to_one) return refuse("block ", fused.name, " does not write ", buffer->name, " at its iterators");
  const auto match = [&](Expr e) {
    Visit(e, [&](Expr x) {
      if (x->op != ExprOp::kLoad || x->buffer != buffer) return true;
      for (size_t d = 0; d < store->indices.size(); ++d) {
        const BlockIter *theirs = iter_of(fused, store->indices[d]), *ours = iter_of(reader, x->args[d]);
        const bool same = ours != nullptr && a.CanProve(c.Eq(ours->extent, theirs->extent)) &&
                          values.emplace(ours->var, theirs->var).first->second == theirs->var;
        const bool both_one = IsInt(theirs->extent, 1) && IsInt(x->args[d], 0);
        one_to_one = one_to_one && (same || both_one);
      }
      return true;
    });
  };
  ForEachExpr(reader.body, match);
  for (const BlockIter& i : reader.iters) {
    if (values.contains(i.var)) continue;
    one_to_one = one_to_one && IsInt(i.extent, 1);
    values[i.var] = c.Int(0);
  }
  if (!one_to_one)
    return refuse("it does not read one element of ", buffer->name, " for each that block ", fused.name, " writes");

  // It runs earlier and in another order: nobody between may meet what it touches, nor may it meet itself.
  const Dependences::Range nest = dependences.RangeOf(WholeNest(producer_path));
  for (size_t j = own.first; j < own.second; ++j) {
    const Access& x = dependences.accesses()[j];
    if (x.buffer == buffer) continue;
    if (x.writes) {
      for (const BlockIter& i : reader.iters) {
        if (!IsInt(i.extent, 1) && std::find(x.at.begin(), x.at.end(), i.var) == x.at.end())
          return refuse("it writes an element of ", x.buffer->name, " more than once");
      }
    }
    for (size_t k = std::min(nest.first, own.first); k < own.second; ++k) {
      const Access& y = dependences.accesses()[k];
      if (y.buffer != x.buffer || (!x.writes && !y.writes) || k == j) continue;
      if (k < own.first) return refuse(NameOf(y), " touches ", y.buffer->name, ", too, before it would run there");
      if (!dependences.MeetTogether(x, y))
        return refuse("it touches an element of ", y.buffer->name,
                      " in different iterations, whose order would change");
    }
  }
  const std::vector<Expr> at = store->indices;
  const Expr value = store->value;
  std::function<Stmt(const Stmt&)> go = [&](const Stmt& s) {
    return MapChildren(s, [&](Expr e) { return InlineLoads(c, e, buffer, at, value); }, go);
  };
  // The reader's iterators first: the value speaks of the producer's.
  fused.body = Replace(fused.body, stored, go(Substitute(c, reader.body, values)));
  for (const BlockIter& i : fused.iters) {  // it may have been padded
    const Expr inside = c.Lt(i.binding, i.extent);
    fused.predicate = fused.predicate == nullptr ? inside : c.And(fused.predicate, inside);
  }
  const Func before = f;
  const Stmt joined = MakeStmt(std::move(fused));
  f.body = Replace(f.body, WholeNest(path), MakeSeq({}));
  f.body = RemoveAlloc(Replace(f.body, producer_path.back(), joined), buffer);
  f = SimplifyBindings(std::move(f), joined);
  ASSIGN_OR_RETURN(const StmtPath now, FindBlock(f, As<Block>(joined)->name));
  RETURN_IF_ERROR(Annotate(CheckLoopKinds(f, now, {.within = now.back()}), Cat("reverse_inline ", block)));
  RETURN_IF_ERROR(Annotate(CheckPlaces(before, f), Cat("reverse_inline ", block)));
  return f;
}

StatusOr<Func> StageBuffer(Func f, const std::string& buffer, const std::string& block, const std::string& name) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(Buffer from, FindBuffer(f, buffer));
  ASSIGN_OR_RETURN(StmtPath path, FindBlock(f, block));
  NameSupply names(f);
  if (names.Fresh(name) != name) return InvalidArgument("stage ", buffer, ": the name '", name, "' is already used");
  Buffer to = c.MakeBuffer({.name = name, .dtype = from->dtype, .shape = from->shape});
  const Stmt nest = CopyNest(c, names, from, to, name);
  // Reads only: a reduction's own accumulator stays.
  const std::vector<Buffer> written = BuffersWritten(path.back());
  if (std::find(written.begin(), written.end(), from) != written.end()) {
    return InvalidArgument("stage ", buffer, ": block ", block, " writes it");
  }
  const std::vector<Buffer> read = BuffersRead(path.back());
  if (std::find(read.begin(), read.end(), from) == read.end())
    return InvalidArgument("stage ", buffer, ": block ", block, " does not read it");
  const Stmt reader = ReplaceBuffers(c, path.back(), {{from, to}});
  const Stmt top = TopOf(path);
  // The copy stands before all of `top`: it must find everything written, and nothing changed since.
  Dependences dependences(f);
  const Dependences::Range inside = dependences.RangeOf(top);
  const Access* writer = nullptr;
  for (const Access& x : dependences.accesses()) {
    const size_t k = static_cast<size_t>(&x - dependences.accesses().data());
    if (x.buffer == from && x.writes && k >= inside.first && k < inside.second) writer = &x;
  }
  if (writer != nullptr) {
    return InvalidArgument("stage ", buffer, ": ", NameOf(*writer), " writes it in the nest of block ", block,
                           ", before which the copy stands:\n", Print(top));
  }
  if (!IsParam(f, from)) {
    bool whole = false;
    if (!IsDeclaredBefore(f, from, top))
      return InvalidArgument("stage ", buffer, ": it is not allocated before the nest of block ", block);
    for (size_t k = 0; k < inside.first; ++k) {
      const Access& x = dependences.accesses()[k];
      whole |= x.buffer == from && x.writes && dependences.WritesWhole(x);
    }
    if (!whole)
      return InvalidArgument("stage ", buffer, ": it is not known to be written everywhere before block ", block);
  }
  const Stmt changed = Replace(top, path.back(), reader);
  f.body = MakeSeq({MakeStmt(Alloc{to}), Replace(f.body, top, MakeSeq({nest, changed}))});
  return f;
}

StatusOr<Func> CacheWrite(Func f, const std::string& buffer, const std::string& block, const std::string& name) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(Buffer to, FindBuffer(f, buffer));
  ASSIGN_OR_RETURN(StmtPath path, FindBlock(f, block));
  auto refuse = [&](const auto&... why) { return InvalidArgument("cache_write ", buffer, " ", block, ": ", why...); };
  NameSupply names(f);
  if (names.Fresh(name) != name) return refuse("the name '", name, "' is already used");
  const std::vector<Buffer> written = BuffersWritten(path.back());
  if (std::find(written.begin(), written.end(), to) == written.end()) return refuse("the block does not write it");
  const Stmt top = TopOf(path);
  if (!IsDeclaredBefore(f, to, top)) return refuse("it is not allocated before the block's nest");
  // The copy stands behind all of `top`: nobody there may look for what was written, and the copy finds all of it.
  Dependences dependences(f);
  const Dependences::Range inside = dependences.RangeOf(top), own = dependences.RangeOf(path.back());
  const Access* other = FindOther(dependences, own, [&](const Access& x, size_t k) {
    return x.buffer == to && k >= inside.first && k < inside.second;
  });
  if (other != nullptr) {
    return refuse(NameOf(*other), other->writes ? " writes" : " reads",
                  " it in the same nest, behind which the copy stands:\n", Print(top));
  }
  bool whole = false;
  for (size_t k = own.first; k < own.second; ++k) {
    const Access& x = dependences.accesses()[k];
    if (x.buffer != to) continue;
    whole |= x.writes && dependences.WritesWhole(x);
    const bool starts = x.sum != nullptr && x.sum->starts_at_zero && As<Block>(path.back())->init != nullptr;
    if (!x.writes && !starts) return refuse("the block goes on with what is in it");
  }
  if (!whole) return refuse("the block is not known to write all of it");
  const Buffer cache = c.MakeBuffer({.name = name, .dtype = to->dtype, .shape = to->shape});
  const Stmt changed = Replace(top, path.back(), ReplaceBuffers(c, path.back(), {{to, cache}}));
  const Stmt copy = CopyNest(c, names, cache, to, name);
  f.body = MakeSeq({MakeStmt(Alloc{cache}), Replace(f.body, top, MakeSeq({changed, copy}))});
  // A padded block writes beyond the end, where other memory than global has room.
  if (to->scope != Scope::kGlobal)
    RETURN_IF_ERROR(Annotate(CheckMemory(f, cache, Scope::kGlobal), Cat("cache_write ", buffer, " ", block)));
  return f;
}

StatusOr<Func> SetScope(Func f, const std::string& buffer, Scope scope, int alignment) {
  constexpr int kMostBytes = 4096;
  ASSIGN_OR_RETURN(Buffer b, FindBuffer(f, buffer));
  if (IsParam(f, b)) return InvalidArgument("scope ", buffer, ": it is a parameter");
  if (const Call* call = CallTaking(f.body, b); call != nullptr && scope != Scope::kGlobal)
    return InvalidArgument("scope ", buffer, ": \"", call->text, "\" takes it, for which it must be global");
  if (b->pitch_factor != 0 && scope == Scope::kGlobal)
    return InvalidArgument("scope ", buffer, ": storage_align has set its rows apart, which global memory's are not");
  if (alignment < 0 || alignment > kMostBytes || (alignment & (alignment - 1)) != 0)
    return InvalidArgument("scope ", buffer, ": expected a power of 2 up to ", kMostBytes, " as alignment, not ",
                           alignment);
  if (alignment == 0) alignment = b->alignment;
  if (b->scope == scope && b->alignment == alignment) return f;
  BufferNode n = *b;
  n.scope = scope;
  n.alignment = alignment;
  const Buffer placed = f.context->MakeBuffer(std::move(n));
  f.body = ReplaceBuffers(*f.context, f.body, {{b, placed}});
  RETURN_IF_ERROR(Annotate(CheckMemory(f, placed, b->scope), Cat("scope ", buffer, " ", Name(scope))));
  return f;
}

StatusOr<Func> StorageAlign(Func f, const std::string& buffer, int64_t factor, int64_t offset) {
  constexpr int64_t kMostFactor = 4096;
  ASSIGN_OR_RETURN(Buffer b, FindBuffer(f, buffer));
  if (IsParam(f, b) || b->scope == Scope::kGlobal)
    return InvalidArgument("storage_align ", buffer, ": expected shared or local memory");
  if (factor < 1 || factor > kMostFactor || offset < 0 || offset >= factor) {
    return InvalidArgument("storage_align ", buffer, ": expected a factor from 1 to ", kMostFactor,
                           " and an offset below it, got ", factor, " and ", offset);
  }
  BufferNode n = *b;
  n.pitch_factor = static_cast<int>(factor);
  n.pitch_offset = static_cast<int>(offset);
  f.body = ReplaceBuffers(*f.context, f.body, {{b, f.context->MakeBuffer(std::move(n))}});
  return f;
}

StatusOr<Func> Implement(Func f, const std::string& call) {
  ASSIGN_OR_RETURN(const Stmt s, ParseStmtOf(f, call));
  const Call* parsed = As<Call>(s);
  if (parsed == nullptr || !parsed->is_runtime || parsed->IsOfFunction() || parsed->meaning != nullptr)
    return InvalidArgument("implement: expected a call of a runtime function and got '", call, "'");
  Call implementation = *parsed;
  implementation.meaning = f.body;
  f.body = MakeStmt(std::move(implementation));
  return f;
}

StatusOr<Func> SplitInit(Func f, const std::string& block, const std::string& loop, const std::string& name) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(StmtPath path, FindBlock(f, block));
  Block b = *As<Block>(path.back());
  if (b.init == nullptr) return InvalidArgument("split_init ", block, ": the block has no init");
  size_t depth = 0;
  while (depth < path.size() && !(As<For>(path[depth]) != nullptr && As<For>(path[depth])->var->name == loop)) ++depth;
  if (depth == path.size()) return InvalidArgument("split_init ", block, ": it is not inside loop ", loop);
  NameSupply names(f);
  if (names.Fresh(name) != name)
    return InvalidArgument("split_init ", block, ": the name '", name, "' is already used");
  auto carries = [&](Expr var) {
    return std::any_of(b.iters.begin(), b.iters.end(),
                       [&](const BlockIter& i) { return i.kind == IterKind::kReduce && Uses(i.binding, var); });
  };
  for (size_t k = 0; k < depth; ++k) {
    const For* n = As<For>(path[k]);
    if (n != nullptr && carries(n->var)) {
      return InvalidArgument("split_init ", block, " ", loop, ": loop ", n->var->name,
                             " outside of it carries the reduction");
    }
  }
  // The start comes before all of the loop: nothing else there may touch the accumulators, and each of them is started
  // once.
  {
    const Dependences dependences(f);
    const Dependences::Range own = dependences.RangeOf(path.back()), inside = dependences.RangeOf(path[depth]);
    const std::vector<Buffer> started = BuffersWritten(b.init);
    const std::vector<Buffer> inputs = BuffersRead(b.init);
    const Access* other = FindOther(dependences, own, [&](const Access& x, size_t k) {
      if (k < inside.first || k >= inside.second) return false;
      if (std::find(started.begin(), started.end(), x.buffer) != started.end()) return true;
      return x.writes && std::find(inputs.begin(), inputs.end(), x.buffer) != inputs.end();
    });
    if (other != nullptr) {
      return InvalidArgument("split_init ", block, " ", loop, ": ", NameOf(*other), " in that loop ",
                             other->writes ? "writes " : "reads ", other->buffer->name);
    }
    const Access* sum = nullptr;
    for (size_t k = own.first; k < own.second; ++k) {
      if (dependences.accesses()[k].sum != nullptr) sum = &dependences.accesses()[k];
    }
    for (size_t k = depth; k + 1 < path.size(); ++k) {
      if (As<If>(path[k]) != nullptr)
        return InvalidArgument("split_init ", block, " ", loop, ": the block stands under a condition");
      const For* n = As<For>(path[k]);
      if (n == nullptr || IsInt(n->extent, 1)) continue;
      const bool used =
          std::any_of(b.iters.begin(), b.iters.end(), [&](const BlockIter& i) { return Uses(i.binding, n->var); });
      if (!used) {
        return InvalidArgument("split_init ", block, " ", loop, ": loop ", n->var->name,
                               " repeats the reduction, each time from its start");
      }
      if (carries(n->var) && IsThreadAxis(n->kind))
        return InvalidArgument("split_init ", block, " ", loop, ": threads share the reduction over ", n->var->name);
    }
    if (sum == nullptr || !sum->sum->starts_at_zero)
      return InvalidArgument("split_init ", block, " ", loop,
                             ": the reduction's loops do not start it where they are 0");
  }
  // The data loops from `loop` inwards, again, around a block that only starts the accumulators.
  const StatusOr<Stmt> nest = NestOfResults(c, names, path, depth, name, "init",
                                            [&](const VarMap& vars) { return Substitute(c, b.init, vars); });
  RETURN_IF_ERROR(Annotate(nest.status(), Cat("split_init ", block, " ", loop)));
  b.init = nullptr;
  const Stmt update = Replace(path[depth], path.back(), MakeStmt(std::move(b)));
  f.body = Replace(f.body, path[depth], MakeSeq({*nest, update}));
  return SimplifyBindings(std::move(f), *nest);
}

}  // namespace cinn_like::ir
