// fission and unroll_jam: one loop becomes several, or several copies of its body within the loops of one.
#include <algorithm>

#include "ir/clone.h"
#include "ir/schedule/legality.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/tree.h"
#include "ir/te.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMostCopies = 64;

bool UsesBuffer(const Stmt& s, Buffer b) { return Contains(BuffersRead(s), b) || Contains(BuffersWritten(s), b); }

// The same statement of every copy, side by side; loops of one extent are one loop.
Stmt Jam(Context& c, const std::vector<Stmt>& copies) {
  if (const For* first = As<For>(copies[0])) {
    std::vector<Stmt> bodies;
    for (const Stmt& s : copies) {
      const For* n = As<For>(s);
      if (n == nullptr || n->extent != first->extent || n->kind != first->kind) return MakeSeq(copies);
      bodies.push_back(Substitute(c, n->body, {{n->var, first->var}}));
    }
    return MakeStmt(For{first->var, first->extent, first->kind, Jam(c, bodies)});
  }
  const Seq* first = As<Seq>(copies[0]);
  if (first == nullptr) return MakeSeq(copies);
  std::vector<Stmt> r;
  for (size_t i = 0; i < first->stmts.size(); ++i) {
    std::vector<Stmt> side;
    for (const Stmt& s : copies) {
      const Seq* seq = As<Seq>(s);
      if (seq == nullptr || seq->stmts.size() != first->stmts.size()) return MakeSeq(copies);
      side.push_back(seq->stmts[i]);
    }
    r.push_back(Jam(c, side));
  }
  return MakeSeq(std::move(r));
}

}  // namespace

StatusOr<Func> Fission(Func f, const std::string& loop, const std::string& after, const std::string& name) {
  ASSIGN_OR_RETURN(StmtPath path, FindLoop(f, loop));
  const Stmt whole = path.back();
  const For& n = *As<For>(whole);
  auto refuse = [&](const auto&... why) { return InvalidArgument("fission ", loop, " ", after, ": ", why...); };
  if (NameSupply(f).Fresh(name) != name) return refuse("the name '", name, "' is already used in @", f.name);
  if (n.kind != ForKind::kSerial) return refuse("the loop is already ", Name(n.kind));
  StatusOr<StmtPath> end = FindLoop(f, after);
  if (!end.ok()) end = FindBlock(f, after);
  if (!end.ok()) return refuse("there is no loop or block ", after);
  const Seq* seq = As<Seq>(n.body);
  const size_t depth = path.size();
  size_t cut = 0;
  if (seq != nullptr && end->size() > depth + 1 && (*end)[depth - 1] == whole)
    cut = static_cast<size_t>(std::find(seq->stmts.begin(), seq->stmts.end(), (*end)[depth + 1]) - seq->stmts.begin()) +
          1;
  if (cut == 0 || cut >= seq->stmts.size())
    return refuse("expected the loop or block after which others stand in the body of ", loop, ":\n", Print(whole));

  // What both parts speak of is declared before both.
  std::vector<Stmt> parts[2], declared;
  for (size_t i = 0; i < seq->stmts.size(); ++i) {
    const Stmt& s = seq->stmts[i];
    if (As<Barrier>(s) != nullptr) return refuse("threads wait for each other in its body");
    const auto later = [&](auto uses) {
      return i < cut && std::any_of(seq->stmts.begin() + static_cast<ptrdiff_t>(cut), seq->stmts.end(), uses);
    };
    const Let* let = As<Let>(s);
    if (let != nullptr && later([&](const Stmt& x) { return UsesVar(x, let->var); }))
      return refuse("both parts would use ", let->var->name, ", a value of each iteration");
    const Alloc* alloc = As<Alloc>(s);
    const bool in_both = alloc != nullptr && later([&](const Stmt& x) { return UsesBuffer(x, alloc->buffer); });
    (in_both ? declared : parts[i < cut ? 0 : 1]).push_back(s);
  }
  Context& c = *f.context;
  const Expr var = c.Var(name);
  const Stmt first = MakeStmt(For{n.var, n.extent, n.kind, MakeSeq(std::move(parts[0]))});
  const Stmt second = MakeStmt(For{var, n.extent, n.kind, Substitute(c, MakeSeq(std::move(parts[1])), {{n.var, var}})});
  std::vector<Stmt> now = declared;
  now.push_back(first);
  now.push_back(second);
  f.body = Replace(f.body, whole, MakeSeq(std::move(now)));
  // They are apart where they could be one: `merge` read backwards.
  ASSIGN_OR_RETURN(const StmtPath of_first, FindLoop(f, loop));
  ASSIGN_OR_RETURN(const StmtPath of_second, FindLoop(f, name));
  Dependences dependences(f);
  if (const auto conflict = dependences.ChangedByMerge(of_first, of_second)) {
    return refuse(dependences.Describe(*conflict), ", in different iterations, whose order would change:\n",
                  Print(whole));
  }
  for (const Stmt& s : declared) {
    const Buffer b = As<Alloc>(s)->buffer;
    RETURN_IF_ERROR(Annotate(CheckMemory(f, b, b->scope), Cat("fission ", loop, " ", after)));
  }
  RETURN_IF_ERROR(Annotate(CheckLoopKinds(f, of_first), Cat("fission ", loop, " ", after)));
  RETURN_IF_ERROR(Annotate(CheckLoopKinds(f, of_second), Cat("fission ", loop, " ", after)));
  return f;
}

StatusOr<Func> UnrollJam(Func f, const std::string& loop) {
  ASSIGN_OR_RETURN(const StmtPath path, FindLoop(f, loop));
  const Stmt whole = path.back();
  const For& n = *As<For>(whole);
  auto refuse = [&](const auto&... why) { return InvalidArgument("unroll_jam ", loop, ": ", why...); };
  if (n.kind != ForKind::kSerial) return refuse("the loop is already ", Name(n.kind));
  if (!IsInt(n.extent) || n.extent->int_value < 1 || n.extent->int_value > kMostCopies)
    return refuse("expected a constant extent of 1 to ", kMostCopies, " and got ", Print(n.extent));
  if (const std::string block = StartedBy(whole); !block.empty())
    return refuse("it carries the reduction of block ", block, ", whose start is to be split off first (split_init)");
  Dependences dependences(f);
  if (const auto conflict = dependences.CarriedBy(path, ForKind::kParallel, /*reductions=*/true, {})) {
    return refuse("the loop carries a dependence: ", dependences.Describe(*conflict), " in different iterations:\n",
                  Print(whole));
  }
  Context& c = *f.context;
  NameSupply names(f);
  std::vector<Stmt> copies = {Substitute(c, n.body, {{n.var, c.Int(0)}})};
  std::vector<BufferMap> own;
  for (int64_t k = 1; k < n.extent->int_value; ++k) {
    own.push_back(CopiesOfPrivate(f, whole, names));
    const Stmt copy = CloneFresh(c, n.body, names, {{n.var, c.Int(k)}});
    copies.push_back(ReplaceBuffers(c, copy, own.back()));
  }
  const Stmt jammed = Jam(c, copies);
  f.body = Replace(f.body, whole, jammed);
  f = SimplifyBindings(std::move(f), jammed);
  for (const BufferMap& map : own) f.body = DeclareCopies(f.body, map);
  return f;
}

}  // namespace cinn_like::ir
