// Finding and replacing parts of a Func by name: what every schedule primitive is built from.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/analyzer.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

// A statement and those around it, outermost first (the function body is path[0], the statement itself path.back()).
using StmtPath = std::vector<Stmt>;

// No step takes a part of a block, or of a `while`, nor a loop with one in it that stands in no block.
StatusOr<StmtPath> FindLoop(const Func& f, const std::string& name);
StatusOr<StmtPath> FindBlock(const Func& f, const std::string& name);
StatusOr<Buffer> FindBuffer(const Func& f, const std::string& name);  // parameters and allocations
std::vector<StmtPath> FindBlocks(const Func& f);                      // every block, in order
// The loops of a path, outermost first.
std::vector<const For*> LoopsOf(const StmtPath& path);

// `root` with the statement `from` (by identity) replaced by `to`; an empty Seq removes it.
Stmt Replace(const Stmt& root, const Stmt& from, const Stmt& to);
// The outermost statement of the path that holds nothing else but the path's end: what to move with it.
Stmt WholeNest(const StmtPath& path);

// The facts of a Func's symbols and of the loops of a path.
void BindFacts(Analyzer& a, const Func& f, const std::vector<const For*>& loops = {});
// Those of the conditions around the path's end as well.
void BindFactsOf(Analyzer& a, const Func& f, const StmtPath& path);
// Simplifies the bindings and predicate of every block in `changed`, a statement of `f`, with the ranges of the loops
// around it; drops predicates that hold.
Func SimplifyBindings(Func f, const Stmt& changed);

// Memory that the iterations of a loop have for themselves, what is in no global memory and used nowhere else but
// declared outside of it, and copies for others to have; DeclareCopies allocates these beside what they are copies of.
BufferMap CopiesOfPrivate(const Func& f, const Stmt& loop, NameSupply& names);
Stmt DeclareCopies(const Stmt& s, const BufferMap& copies);
// A block whose reduction starts in iterations of this loop, which carries it; empty: none. It starts where its
// iterators are 0: of two blocks that share an iteration, both would ask.
std::string StartedBy(const Stmt& loop);

bool IsParam(const Func& f, Buffer b);
// Block iterators to their bindings.
VarMap Bindings(const Block& b);
// Whether iterators of this kind are bound through the loop.
bool Carries(const Block& b, const For& n, IterKind kind = IterKind::kReduce);
// The place of the outermost loop over threads that carries the reduction of the path's end.
std::optional<size_t> ReducingThreads(const StmtPath& path);
// The index of this group of threads among those that the thread axes around path[at] make, and their number.
std::pair<Expr, Expr> ThreadsAround(Context& c, const StmtPath& path, size_t at);
// The loops from path[depth] inwards that move the results of a reduction, path's end, again (`i` as i_SUFFIX), around
// a block that runs once for each of these; `body` gets its iterators for the reduction's. InvalidArgument where the
// reduction's condition mixes these loops with others.
StatusOr<Stmt> NestOfResults(Context& c, NameSupply& names, const StmtPath& path, size_t depth,
                             const std::string& block, const std::string& suffix,
                             const std::function<Stmt(const VarMap&)>& body);
bool UsesVar(const Stmt& s, Expr var);
bool IsReductionLoop(const For& loop);  // some reduce iterator inside is bound through it

}  // namespace cinn_like::ir
