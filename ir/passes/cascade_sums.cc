#include "ir/passes/cascade_sums.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "ir/analyzer.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;  // that are counted

int64_t Product(int64_t a, int64_t b) { return a > kMost / std::max<int64_t>(b, 1) ? kMost : a * b; }

// An element, or some at once, that values are added to.
struct Sum {
  Buffer buffer = nullptr;
  Expr index = nullptr, mask = nullptr;
  bool operator==(const Sum&) const = default;
};

// The sum that a store adds to; of no buffer if it does something else. Rounded to 16 bits it is none: parts would
// be as coarse.
Sum SumOf(const Store& n) {
  if (n.indices.size() != 1 || !IsFloat(n.buffer->dtype) || IsHalf(n.buffer->dtype) || n.value->op != ExprOp::kAdd)
    return {};
  if (n.indices[0]->reads || (n.mask != nullptr && n.mask->reads)) return {};  // memory may change
  int own = 0;
  bool others = false;
  for (Expr a : n.value->args) {
    const bool is_own = a->op == ExprOp::kLoad && a->buffer == n.buffer && a->args[0] == n.indices[0] &&
                        (a->has_mask ? a->args[1] : nullptr) == n.mask;
    own += is_own ? 1 : 0;
    if (!is_own) VisitLoads(a, [&](Expr e) { others |= e->buffer == n.buffer; });
  }
  return own == 1 && !others ? Sum{n.buffer, n.indices[0], n.mask} : Sum{};
}

// Sums that are reduced together are named first and stored then; what no store in between changes can be stored at
// once:  let v = a[i] + x; let w = b[i] + y; a[i] = v; b[i] = w  ->  a[i] = a[i] + x; b[i] = b[i] + y
Stmt StoreAtOnce(const Stmt& s) {
  const Seq* seq = As<Seq>(s);
  if (seq == nullptr) return nullptr;
  struct Named {
    size_t let;
    std::optional<size_t> store = std::nullopt;
  };
  absl::flat_hash_map<Expr, Named> named;
  for (size_t k = 0; k < seq->stmts.size(); ++k) {
    const Stmt& x = seq->stmts[k];
    const Store* store = As<Store>(x);
    if (store != nullptr) {
      const auto at = named.find(store->value);
      if (at != named.end() && !at->second.store) at->second.store = k;
      absl::erase_if(named, [&](const auto& n) {
        bool reads = false;
        VisitLoads(As<Let>(seq->stmts[n.second.let])->value, [&](Expr e) { reads |= e->buffer == store->buffer; });
        return reads && !n.second.store;
      });
    } else if (As<Let>(x) == nullptr) {
      absl::erase_if(named, [](const auto& n) { return !n.second.store; });
    }
    // Nobody else has the name.
    ForEachExpr(x, [&](Expr root) {
      if (store != nullptr && root == store->value && named.contains(root) && named.at(root).store == k) return;
      for (Expr v : VarsOf(root)) named.erase(v);
    });
    if (const Let* let = As<Let>(x)) named[let->var] = {k};
  }
  std::vector<Stmt> kept;
  for (size_t k = 0; k < seq->stmts.size(); ++k) {
    const Stmt& x = seq->stmts[k];
    if (const Let* let = As<Let>(x)) {
      const auto at = named.find(let->var);
      if (at != named.end() && at->second.store) continue;
    }
    const Store* store = As<Store>(x);
    const auto at = store == nullptr ? named.end() : named.find(store->value);
    if (at == named.end() || at->second.store != k) {
      kept.push_back(x);
      continue;
    }
    Store direct = *store;
    direct.value = As<Let>(seq->stmts[at->second.let])->value;
    kept.push_back(MakeStmt(std::move(direct)));
  }
  return kept.size() == seq->stmts.size() ? nullptr : MakeSeq(std::move(kept));
}

class Cascader {
 public:
  Cascader(const Func& f, const SumLengths& lengths) : c_(*f.context), a_(f), names_(f), lengths_(lengths) {}

  Stmt operator()(const Stmt& s) {
    if (const If* n = As<If>(s)) {
      Stmt then;
      {
        const Analyzer::Assume holds(a_, n->cond);
        then = (*this)(n->then);
      }
      return MakeStmt(If{n->cond, then, n->otherwise == nullptr ? nullptr : (*this)(n->otherwise)});
    }
    const For* n = As<For>(s);
    if (n == nullptr) return Inside(s);
    a_.BindRange(n->var, c_.Int(0), n->extent);
    const Stmt cut = n->kind == ForKind::kSerial ? Cut(*n) : nullptr;
    return cut != nullptr ? cut : Descend(s);
  }

 private:
  // How a loop's body adds to a sum: so many times, and where `cond` (null: always) holds, at least once. Not known:
  // `may` be never.
  struct Added {
    Sum sum;
    int64_t times;
    Expr cond;
    bool may;
  };
  // Of what runs in a loop: which buffers are only added to, what is declared, and whether all of it is one thread's.
  struct LoopFacts {
    absl::flat_hash_set<Buffer> others;  // that are read, written, declared
    absl::flat_hash_set<Expr> loops, lets;
    bool is_plain = true;
    std::vector<Added> sums;
  };
  struct Loop {
    Expr var;
    int64_t trips;
    LoopFacts facts;
  };

  Stmt Inside(const Stmt& s) {
    return MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return (*this)(x); });
  }

  // Into a loop as it is.
  Stmt Descend(const Stmt& s) {
    const For& n = *As<For>(s);
    around_.push_back({n.var, TripsOf(n), Facts(n.body)});
    Stmt r = Inside(s);
    around_.pop_back();
    return r;
  }

  int64_t TripsOf(const For& n) { return std::clamp<int64_t>(a_.ConstBounds(n.extent).hi, 0, kMost); }

  LoopFacts Facts(const Stmt& body) {
    LoopFacts r;
    Gather(body, {{}, 1, nullptr, false}, r);
    return r;
  }

  // `now`: what is so of every statement of `s`.
  void Gather(const Stmt& s, Added now, LoopFacts& r) {
    const auto read = [&](Expr root) {
      Visit(root, [&](Expr e) {
        if (e->op == ExprOp::kLoad || e->op == ExprOp::kAddress) r.others.insert(e->buffer);
        return true;
      });
    };
    if (const Store* n = As<Store>(s)) {
      const Sum sum = SumOf(*n);
      if (sum.buffer == nullptr) {
        r.others.insert(n->buffer);
        read(n->value);
      } else {
        for (Expr a : n->value->args) {
          if (a->op != ExprOp::kLoad || a->buffer != n->buffer) read(a);
        }
        const auto at = std::find_if(r.sums.begin(), r.sums.end(), [&](const Added& x) { return x.sum == sum; });
        if (at == r.sums.end()) {
          now.sum = sum;
          r.sums.push_back(now);
        } else {
          at->times = std::min(at->times + now.times, kMost);
          const bool is_always = (!at->may && at->cond == nullptr) || (!now.may && now.cond == nullptr);
          at->may = !is_always && (at->may || now.may || at->cond != now.cond);
          at->cond = is_always || at->may ? nullptr : at->cond;
        }
      }
      for (Expr e : n->indices) read(e);
      if (n->mask != nullptr) read(n->mask);
      return;
    }
    if (const Alloc* n = As<Alloc>(s)) r.others.insert(n->buffer);
    if (const Let* n = As<Let>(s)) r.lets.insert(n->var);
    if (As<Barrier>(s) != nullptr || As<Call>(s) != nullptr || As<Launch>(s) != nullptr || As<Block>(s) != nullptr ||
        As<While>(s) != nullptr)
      r.is_plain = false;
    if (const For* n = As<For>(s)) {
      r.loops.insert(n->var);
      r.is_plain = r.is_plain && n->kind == ForKind::kSerial;
      now.times = Product(now.times, TripsOf(*n));
      now.may = now.may || a_.ConstBounds(n->extent).lo < 1;
    }
    if (const If* n = As<If>(s)) {
      read(n->cond);
      Added then = now;
      then.cond = now.cond == nullptr ? n->cond : c_.And(now.cond, n->cond);
      Gather(n->then, then, r);
      now.may = true;
      if (n->otherwise != nullptr) Gather(n->otherwise, now, r);
      return;
    }
    ForEachChild(s, read, [&](const Stmt& x) { Gather(x, now, r); });
  }

  // How often a sum went on before the loop that is looked at, as far as nothing else happened to it.
  int64_t TimesAround(const Sum& sum) const {
    int64_t times = 1;
    const auto born = born_.find(sum.buffer);
    for (size_t i = around_.size(); i-- > (born == born_.end() ? 0 : born->second);) {
      const Loop& loop = around_[i];
      if (loop.facts.others.contains(sum.buffer)) break;
      if (!Uses(sum.index, loop.var) && !Uses(sum.index, loop.facts.lets)) times = Product(times, loop.trips);
    }
    return times;
  }

  bool IsInside(const Sum& sum) {
    Expr size = c_.Int(1), first = sum.index, last = sum.index;
    for (Expr e : sum.buffer->shape) size = c_.Mul(size, e);
    if (const ExprNode& e = *sum.index; e.type.lanes > 1) {
      if (e.op != ExprOp::kRamp || !IsInt(e.args[1]) || e.args[1]->int_value < 0) return false;
      first = e.args[0];
      last = c_.Add(first, c_.Int(e.args[1]->int_value * (e.type.lanes - 1)));
    }
    return a_.CanProve(c_.Le(c_.Int(0), first)) && a_.CanProve(c_.Lt(last, size));
  }

  // The loop with parts in it or around it; null if its sums are short.
  Stmt Cut(const For& n) {
    const LoopFacts facts = Facts(n.body);
    if (!facts.is_plain) return nullptr;
    const int64_t trips = TripsOf(n);
    absl::flat_hash_set<Expr> vars = facts.loops;
    vars.insert(facts.lets.begin(), facts.lets.end());
    vars.insert(n.var);
    std::vector<Added> in_body, in_chunks, around;
    int64_t each = 1;  // values of those in chunks in an iteration, at most
    const bool runs = a_.ConstBounds(n.extent).lo >= 1;
    for (Added added : facts.sums) {
      const Sum& sum = added.sum;
      if (facts.others.contains(sum.buffer) || Uses(sum.index, vars) || (sum.mask != nullptr && Uses(sum.mask, vars)))
        continue;
      const int64_t before = TimesAround(sum), own = Product(trips, added.times);
      if (Product(before, own) <= lengths_.longest) continue;
      const bool is_deep = 2 * added.times >= lengths_.chunk, is_long = own >= 2 * lengths_.chunk;
      // What goes on in later loops has a part here, unless that is hardly longer than what it takes.
      if (!is_deep && !is_long && (before == 1 || own < lengths_.chunk / 16)) continue;
      // A part is added where something was added to it, or where that is no place beyond the buffer.
      added.may =
          added.may || (!is_deep && !runs) || (added.cond != nullptr && (Uses(added.cond, vars) || added.cond->reads));
      if ((added.may || added.cond != nullptr) && IsInside(sum)) {
        added.may = false;
        added.cond = nullptr;
      }
      if (added.may) continue;
      (is_deep ? in_body : is_long ? in_chunks : around).push_back(added);
      if (!is_deep && is_long) each = std::max(each, added.times);
    }
    if (in_body.empty() && in_chunks.empty() && around.empty()) return nullptr;
    For loop = n;
    loop.body = WithParts(in_body, n.body, [](const Stmt& s) { return s; });
    const auto descend = [&](const Stmt& s) { return Descend(s); };
    if (in_chunks.empty()) return WithParts(around, MakeStmt(loop), descend);
    const int64_t chunk = ChunkOf(n.extent, std::max<int64_t>(lengths_.chunk / each, 1));
    const Expr outer = c_.Var(names_.Fresh(Cat(n.var->name, "_c"))), first = c_.Mul(outer, c_.Int(chunk));
    const Expr chunks = c_.Div(c_.Add(n.extent, c_.Int(chunk - 1)), c_.Int(chunk));
    const bool is_whole = IsInt(n.extent) && n.extent->int_value % chunk == 0;
    loop.extent = is_whole ? c_.Int(chunk) : c_.Min(c_.Int(chunk), c_.Sub(n.extent, first));
    loop.body = Substitute(c_, loop.body, {{n.var, c_.Add(first, n.var)}});
    in_chunks.insert(in_chunks.end(), around.begin(), around.end());
    around_.push_back({outer, trips / chunk + 1, facts});
    Stmt parts = WithParts(in_chunks, MakeStmt(loop), descend);
    around_.pop_back();
    return MakeStmt(For{outer, chunks, ForKind::kSerial, parts});
  }

  // Without a rest if possible.
  static int64_t ChunkOf(Expr extent, int64_t most) {
    for (int64_t n = most; IsInt(extent) && 2 * n > most; --n) {
      if (extent->int_value % n == 0) return n;
    }
    return most;
  }

  Expr InPart(int lanes) { return lanes > 1 ? c_.Ramp(c_.Int(0), c_.Int(1), lanes) : c_.Int(0); }

  // `s`, as `then` makes it, with these sums of its own.
  Stmt WithParts(const std::vector<Added>& sums, const Stmt& s, const std::function<Stmt(const Stmt&)>& then) {
    std::vector<Stmt> all, after;
    std::vector<Buffer> parts;
    for (const Added& added : sums) {
      const Sum& sum = added.sum;
      const int lanes = sum.index->type.lanes;
      const DType t = sum.buffer->dtype;
      parts.push_back(c_.MakeBuffer({.name = names_.Fresh("part"),
                                     .dtype = t,
                                     .shape = {c_.Int(lanes)},
                                     .scope = Scope::kLocal,
                                     .alignment = lanes > 1 ? 64 : 0}));
      born_[parts.back()] = around_.size();
      const Expr at = InPart(lanes), zero = c_.Float(0, t);
      all.push_back(MakeStmt(Alloc{parts.back()}));
      all.push_back(MakeStmt(Store{parts.back(), {at}, lanes > 1 ? c_.Broadcast(zero, lanes) : zero}));
      const Expr all_of =
          c_.Make(ExprOp::kAdd, {c_.Load(sum.buffer, {sum.index}, sum.mask), c_.Load(parts.back(), {at})});
      after.push_back(MakeStmt(Store{sum.buffer, {sum.index}, all_of, sum.mask}));
      if (added.cond != nullptr) after.back() = MakeStmt(If{added.cond, after.back(), nullptr});
    }
    all.push_back(then(RewriteStmts(s, [&](const Stmt& x) -> Stmt {
      const Store* n = As<Store>(x);
      const Sum own = n == nullptr ? Sum{} : SumOf(*n);
      const auto at = std::find_if(sums.begin(), sums.end(), [&](const Added& a) { return a.sum == own; });
      if (own.buffer == nullptr || at == sums.end()) return nullptr;
      const Buffer part = parts[static_cast<size_t>(at - sums.begin())];
      const Expr index = InPart(own.index->type.lanes);
      std::vector<Expr> terms = n->value->args;
      for (Expr& e : terms) {
        if (e->op == ExprOp::kLoad && e->buffer == own.buffer) e = c_.Load(part, {index}, own.mask);
      }
      return MakeStmt(Store{part, {index}, c_.Make(ExprOp::kAdd, terms), own.mask});
    })));
    all.insert(all.end(), after.begin(), after.end());
    return MakeSeq(std::move(all));
  }

  Context& c_;
  Analyzer a_;
  NameSupply names_;
  SumLengths lengths_;
  std::vector<Loop> around_;
  absl::flat_hash_map<Buffer, size_t> born_;  // parts: in so many of these loops
};

}  // namespace

StatusOr<Func> CascadeSums(Func f, const SumLengths& lengths) {
  f.body = Cascader(f, lengths)(RewriteStmts(f.body, StoreAtOnce));
  return f;
}

}  // namespace cinn_like::ir
