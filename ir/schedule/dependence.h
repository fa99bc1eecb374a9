// Which statements of a Func touch the same memory, and how far apart: what every schedule step asks before it changes
// the order in which they run.
//
//   for i in 0..n { for j in 0..8 { block b(u in 0..n = i, v in 0..8 = j) { t[u, v] = t[u, v - 1] + x[u] } } }
//     i carries nothing: what two iterations touch is never one element;  j carries a dependence of distance 1
//
// An answer is a proof: what cannot be shown to be apart counts as touching. Indices are compared as sums whose terms
// don't overlap (io * 8 + ii with ii < 8), and as digits of one index (e / 64 and e % 64). The accumulators of a
// reduction are told from other memory: its steps may run in any order (te.h). The Func must outlive this.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ir/analyzer.h"
#include "ir/schedule/tree.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

// What is known of a block that declares reduce iterators.
struct Reduction {
  absl::flat_hash_set<Expr> loops;  // variables of the loops that its reduce iterators are bound through
  // Its steps may run in any order: they join into accumulators that reduce iterators don't move, and loops that carry
  // it move nothing else and start it where they are 0.
  bool any_order = false;
  bool scans = false;           // they join, but each writes what it has come to: lanes may, that go up in order
  bool starts_at_zero = false;  // that alone: where its loops are 0, so are its iterators, and no other iterator moves
};

// One place of the text that touches a buffer.
struct Access {
  Buffer buffer = nullptr;
  std::vector<Expr> at;  // the indices as the text has them; empty: any element (calls)
  bool writes = false;
  bool is_whole = false;           // any element
  std::vector<const For*> loops;   // around, outermost first
  const Block* block = nullptr;    // null outside of blocks
  const Reduction* sum = nullptr;  // where it reads or writes what the block reduces into
  // Of the block and of what it stands under, in terms of the loops, as far as no memory has a part in it; null: none.
  Expr condition = nullptr;
  bool is_conditional = false;  // under another, in a loop of a block, or a masked store
  // Read by all threads along an axis that no loop around is bound to: for private memory, or for a condition. For
  // shared memory only all blocks do: it is one of their threads that writes.
  bool by_all_threads = false, by_all_blocks = false;
  int statement = 0;  // accesses of one block or bare statement agree in it; grows along the text

 private:
  friend class Dependences;
  mutable std::vector<Expr> indices_;  // once asked for
};

class Dependences {
 public:
  explicit Dependences(const Func& f);

  using Range = std::pair<size_t, size_t>;  // of accesses()
  const std::vector<Access>& accesses() const { return accesses_; }
  Range RangeOf(const Stmt& s) const;
  // The indices in terms of loop variables and symbols. Most are never asked for. The first time must be outside of
  // assumptions: they stay.
  const std::vector<Expr>& IndicesOf(const Access& x);
  Analyzer& analyzer() { return a_; }

  // A pair that stands against a step. `a` comes first in the text.
  struct Conflict {
    const Access *a, *b;
  };
  std::string Describe(const Conflict& x);

  // What a step has changed, where the rest is as it was proven to be: of each pair of touches one must be within the
  // statement, and both of the buffer. Null: any.
  struct Changed {
    Stmt within = nullptr;
    Buffer buffer = nullptr;
  };
  // An element touched by two iterations of the loop, one of them writing. Passed over are accumulators of reductions
  // that may run in any order if `reductions`, and with `kind` what memory of each iteration's own makes harmless.
  std::optional<Conflict> CarriedBy(const StmtPath& loop, ForKind kind, bool reductions, const Changed& changed);
  // A value that one iteration of the loop leaves for another in `b`, all of whose uses are in the loop.
  std::optional<Conflict> FlowsBetweenIterations(const StmtPath& loop, Buffer b);
  // Two touches of one element are at one iteration of the loops that both are in.
  bool MeetTogether(const Access& a, const Access& b);
  // Every element of its buffer is written, each run of the access.
  bool WritesWhole(const Access& write);
  // One statement before has written all that is read, at the same iteration of the loops around both: beyond the
  // buffer's shape, too, where the indices go there.
  bool FindsWritten(const Access& read);
  // Two touches of an element whose order would change if the nest's loops ran in another order.
  std::optional<Conflict> ChangedByOrder(const StmtPath& outermost, const std::vector<const For*>& chain,
                                         const std::vector<const For*>& order);
  // Two siblings of which an earlier iteration of the second would meet a later one of the first.
  std::optional<Conflict> ChangedByMerge(const StmtPath& first, const StmtPath& second);
  // Two threads of a kernel that touch one element, one of them writing, where nothing makes one wait for the other:
  // global memory, or one statement on shared memory. Loops on one axis are the same threads, in serial loops around
  // them, too. What is in no loop on an axis is the first thread's, or all threads' (Access), or, if `bound`, passed
  // over.
  std::optional<Conflict> BetweenThreads(const StmtPath& kernel, bool bound, const Changed& changed);
  // Two touches of one element, one writing, in statements that stand side by side within `outer`.
  std::optional<Conflict> Between(const Stmt& s, const Stmt& t, const std::vector<const For*>& outer);

 private:
  // The second's variables (primed) in terms of the first's, where both touch one element; nullopt: never.
  std::optional<VarMap> Meet(const Access& a, const Access& b, const VarMap& rename);
  // The variables of the second's loops apart from the first's, but for `fixed`; `twins` are loops of `b` that stand
  // for one of `a`.
  VarMap Rename(const Access& a, const Access& b, const std::vector<const For*>& fixed, const VarMap& twins = {});
  std::optional<int64_t> Distance(const VarMap& known, Expr var);
  bool Proves(const Access& a, const Access& b, const VarMap& rename, const std::function<bool()>& proves);
  bool IsFree(const Access& a, const Access& b, const VarMap& known, const std::vector<const For*>& fixed, Expr var,
              bool in_lanes = false);
  bool IsCovered(const Access& read, const Access& write, const std::vector<const For*>& fixed, bool inside = true);
  // The touches of one buffer in the range, two by two, one of them writing, one changed; each with itself, too.
  std::vector<std::pair<const Access*, const Access*>> PairsOf(Buffer b, const Range& range,
                                                               const Changed& changed) const;
  bool IsPrivate(Buffer b, const StmtPath& loop, ForKind kind) const;
  Expr Prime(Expr var);
  void Collect(const Func& f);

  Context& c_;
  Analyzer a_;
  std::vector<Access> accesses_;
  std::vector<std::unique_ptr<Reduction>> reductions_;
  VarMap values_;  // of block iterators and lets
  absl::flat_hash_set<Buffer> written_;
  int unknown_ = 0;  // values out of memory that changes
  absl::flat_hash_map<const StmtNode*, Range> ranges_;
  absl::flat_hash_map<Expr, Expr> primes_;
  std::vector<Buffer> buffers_;  // in order of first use
  absl::flat_hash_map<Buffer, std::vector<size_t>> by_buffer_;
};

}  // namespace cinn_like::ir
