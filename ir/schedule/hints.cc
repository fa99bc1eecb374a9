// annotate and prefetch: what changes nothing but how fast a loop runs.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/region.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kLineBytes = 64, kMostAhead = 1 << 20;

// Where the loads of a buffer within a loop are, in terms of loops, and which of these are inside.
struct Place {
  std::vector<Expr> at;
  absl::flat_hash_map<Expr, Expr> inner;  // extents
};

std::vector<Place> PlacesOf(Context& c, const Stmt& body, Buffer b) {
  std::vector<Place> r;
  absl::flat_hash_map<Expr, Expr> inner;
  std::function<void(const Stmt&, const VarMap&)> go = [&](const Stmt& s, const VarMap& iters) {
    if (As<Prefetch>(s) != nullptr) return;
    VarMap map = iters;
    if (const Block* n = As<Block>(s)) map = Bindings(*n);
    const auto before = inner;
    if (const For* n = As<For>(s)) inner[n->var] = Substitute(c, n->extent, iters);
    ForEachChild(
        s,
        [&](Expr e) {
          VisitLoads(e, [&](Expr load) {
            if (load->buffer != b) return;
            Place p{IndicesOf(load), inner};
            for (Expr& i : p.at) i = Substitute(c, i, map);
            r.push_back(std::move(p));
          });
        },
        [&](const Stmt& x) { go(x, map); });
    inner = before;
  };
  go(body, {});
  return r;
}

}  // namespace

StatusOr<Func> AnnotateLoop(Func f, const std::string& loop, const std::vector<std::string>& hints) {
  ASSIGN_OR_RETURN(const StmtPath path, FindLoop(f, loop));
  auto refuse = [&](const auto&... why) { return InvalidArgument("annotate ", loop, ": ", why...); };
  For n = *As<For>(path.back());
  if (n.kind != ForKind::kSerial) return refuse("the loop is already ", Name(n.kind));
  for (const std::string& hint : hints) {
    const size_t equal = hint.find('=');
    const std::string key = hint.substr(0, equal), value = equal == hint.npos ? "" : hint.substr(equal + 1);
    int count = 0;
    if (key == "unroll" && absl::SimpleAtoi(value, &count) && count >= 1 && count <= kMostUnrolled)
      n.kind.hints.unroll = count;
    else if (hint == "vectorize=off")
      n.kind.hints.scalar = true;
    else
      return refuse("expected unroll=N, N from 1 to ", kMostUnrolled, ", or vectorize=off and got '", hint, "'");
  }
  f.body = Replace(f.body, path.back(), MakeStmt(std::move(n)));
  return f;
}

StatusOr<Func> PrefetchInto(Func f, const std::string& buffer, const std::string& loop, int64_t distance) {
  auto refuse = [&](const auto&... why) { return InvalidArgument("prefetch ", buffer, " ", loop, ": ", why...); };
  ASSIGN_OR_RETURN(const Buffer b, FindBuffer(f, buffer));
  ASSIGN_OR_RETURN(const StmtPath path, FindLoop(f, loop));
  const For& n = *As<For>(path.back());
  if (n.kind != ForKind::kSerial) return refuse("the loop is already ", Name(n.kind));
  if (b->scope != Scope::kGlobal) return refuse("it is ", Name(b->scope), " memory, which no cache holds");
  if (distance < 1 || distance > kMostAhead)
    return refuse("expected a distance of 1 to ", kMostAhead, " iterations and got ", distance);
  Context& c = *f.context;
  NameSupply names(f);
  // What the iteration so far ahead reads, where there is one.
  const Expr ahead = c.Add(n.var, c.Int(distance)), exists = c.Lt(ahead, n.extent);
  const bool is_dense = b->strides.empty() || IsInt(b->strides.back(), 1);
  std::vector<std::vector<std::pair<Expr, Expr>>> asked;
  std::vector<Stmt> out;
  for (const Place& place : PlacesOf(c, n.body, b)) {
    Analyzer a(c);
    BindFactsOf(a, f, path);
    a.Require(exists);
    std::vector<std::pair<Expr, Expr>> spans;
    for (Expr e : place.at) {
      for (const auto& [var, extent] : place.inner) a.BindRange(var, c.Int(0), extent);
      const auto span = SpanOf(a, a.Simplify(Substitute(c, e, {{n.var, ahead}})), place.inner);
      const bool known = span && std::none_of(place.inner.begin(), place.inner.end(), [&](const auto& x) {
                           return Uses(span->min, x.first) || Uses(span->extent, x.first);
                         });
      if (!known) return refuse("it is read at ", Print(e), ", of which no range is known");
      spans.emplace_back(span->min, span->extent);
    }
    if (std::find(asked.begin(), asked.end(), spans) != asked.end()) continue;
    asked.push_back(spans);
    // An element of each line.
    std::vector<For> loops;
    std::vector<Expr> at;
    for (size_t d = 0; d < spans.size(); ++d) {
      const auto [min, extent] = spans[d];
      at.push_back(min);
      if (IsInt(extent, 1)) continue;
      const int64_t step = d + 1 == spans.size() && is_dense ? std::max<int64_t>(kLineBytes / BytesOf(b->dtype), 1) : 1;
      Expr lines = a.Simplify(c.CeilDiv(extent, c.Int(step)));
      // Of loops that do not run, a span is not above 0.
      if (!a.CanProve(c.Le(c.Int(0), lines))) lines = c.Max(lines, c.Int(0));
      if (IsInt(lines, 1)) continue;
      const Expr var = c.Var(names.Fresh(Cat("ahead_", b->name)));
      a.BindRange(var, c.Int(0), lines);
      at.back() = a.Simplify(c.Add(min, c.Mul(var, c.Int(step))));
      loops.push_back({var, lines, ForKind::kSerial, nullptr});
    }
    Expr mask = exists;
    for (size_t d = 0; d < at.size(); ++d) {
      for (Expr inside : {c.Le(c.Int(0), at[d]), c.Lt(at[d], b->shape[d])}) {
        if (!a.CanProve(inside)) mask = c.And(mask, inside);
      }
    }
    if (IsInt(a.Simplify(mask), 0)) continue;
    Stmt s = MakeStmt(Prefetch{c.Load(b, at, mask)});
    for (size_t k = loops.size(); k-- > 0;) s = MakeStmt(For{loops[k].var, loops[k].extent, loops[k].kind, s});
    out.push_back(std::move(s));
  }
  if (out.empty()) return refuse("the loop does not read it");
  out.push_back(n.body);
  f.body = Replace(f.body, path.back(), MakeStmt(For{n.var, n.extent, n.kind, MakeSeq(std::move(out))}));
  return f;
}

}  // namespace cinn_like::ir
