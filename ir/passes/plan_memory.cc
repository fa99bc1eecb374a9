#include "ir/passes/plan_memory.h"

#include <algorithm>

#include "ir/analyzer.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kAlignment = 256;

struct Lifetime {
  Buffer buffer;
  int first = -1, last = -1;  // statements that use it
};

struct Place {
  Expr bytes;
  int free_after;  // the last use so far
};

}  // namespace

StatusOr<Func> PlanMemory(Func f) {
  Context& c = *f.context;
  const Seq* seq = As<Seq>(f.body);
  const std::vector<Stmt> stmts = seq != nullptr ? seq->stmts : std::vector<Stmt>{f.body};
  std::vector<Lifetime> lifetimes;
  std::vector<Stmt> rest;
  for (const Stmt& s : stmts) {
    const Alloc* a = As<Alloc>(s);
    if (a == nullptr) {
      rest.push_back(s);
    } else if (a->buffer->scope != Scope::kGlobal) {
      return InvalidArgument("function @", f.name, ": allocation ", a->buffer->name,
                             " must be global in an entry function");
    } else {
      lifetimes.push_back({a->buffer, -1, -1});
    }
  }
  if (lifetimes.empty()) return f;
  for (size_t i = 0; i < rest.size(); ++i) {
    ForEachExpr(rest[i], [&](Expr e) {
      Visit(e, [&](Expr x) {
        if (x->buffer == nullptr) return true;
        for (Lifetime& l : lifetimes) {
          if (l.buffer != x->buffer) continue;
          if (l.first < 0) l.first = static_cast<int>(i);
          l.last = static_cast<int>(i);
        }
        return true;
      });
    });
  }
  std::stable_sort(lifetimes.begin(), lifetimes.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; });

  Analyzer analyzer(f);
  std::vector<Place> places;
  absl::flat_hash_map<Buffer, size_t> place_of;
  for (const Lifetime& l : lifetimes) {
    if (l.first < 0) continue;  // never used
    Expr bytes = c.Int(BytesOf(l.buffer->dtype));
    for (Expr e : l.buffer->shape) bytes = c.Mul(bytes, e);
    bytes = analyzer.Simplify(c.Mul(c.CeilDiv(bytes, c.Int(kAlignment)), c.Int(kAlignment)));
    // The free place that wastes least: the smallest that is large enough, else the one that grows, else a new one.
    int best = -1;
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].free_after >= l.first) continue;
      const bool fits = analyzer.CanProve(c.Le(bytes, places[i].bytes));
      if (!fits && !analyzer.CanProve(c.Le(places[i].bytes, bytes))) continue;
      if (best < 0) {
        best = static_cast<int>(i);
        continue;
      }
      const bool best_fits = analyzer.CanProve(c.Le(bytes, places[best].bytes));
      const bool smaller = analyzer.CanProve(c.Lt(places[i].bytes, places[best].bytes));
      if (fits ? !best_fits || smaller : !best_fits && !smaller) best = static_cast<int>(i);
    }
    if (best < 0) {
      best = static_cast<int>(places.size());
      places.push_back({bytes, l.last});
    } else if (!analyzer.CanProve(c.Le(bytes, places[best].bytes))) {
      places[best].bytes = bytes;
    }
    places[best].free_after = l.last;
    place_of[l.buffer] = static_cast<size_t>(best);
  }
  std::vector<Expr> offsets;
  Linear total;
  for (const Place& p : places) {
    offsets.push_back(analyzer.Simplify(FromLinear(c, total, DType::kI64)));
    total = AddScaled(std::move(total), ToLinear(c, p.bytes), 1);
  }
  if (!total.exact) return InvalidArgument("@", f.name, ": its buffers take more bytes than can be counted");
  NameSupply names(f);
  const Buffer arena = c.MakeBuffer({.name = names.Fresh("arena"),
                                     .dtype = DType::kU8,
                                     .shape = {analyzer.Simplify(FromLinear(c, total, DType::kI64))},
                                     .alignment = kAlignment});
  std::vector<Stmt> body = {MakeStmt(Alloc{arena})};
  for (const Stmt& s : rest) {
    body.push_back(RewriteExprs(c, s, [&](Expr e) -> Expr {
      if (e->op != ExprOp::kAddress) return nullptr;
      auto it = place_of.find(e->buffer);
      return it == place_of.end() ? e : c.Address(arena, {offsets[it->second]});
    }));
  }
  f.body = MakeSeq(std::move(body));
  return f;
}

}  // namespace cinn_like::ir
