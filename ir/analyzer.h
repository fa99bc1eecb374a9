// What is known of integer variables, and what follows: simplification, proofs, bounds. Never guesses: an answer holds
// for every value that the bindings and assumptions allow.
//
//   with t in 0..256, v in 0..8:  (k * 2048 + t * 8 + v) / 8  ->  k * 256 + t
//                                 k * 2048 + t * 8 + v < 4096 ->  k < 2
//
// i64 arithmetic on variables is index arithmetic and is taken not to overflow; on loaded values, and in other types,
// it wraps unless bounds say that it cannot. Float expressions only get identities that are exact.
#pragma once
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "ir/expr.h"
#include "ir/linear.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

class Analyzer {
 public:
  explicit Analyzer(Context& c) : c_(c) {}
  // With the symbols of `f`.
  explicit Analyzer(const Func& f);

  void BindRange(Expr var, Expr min, Expr extent);  // min <= var < min + extent
  void BindSymbol(const SymbolFact& fact);
  void Require(Expr cond);  // it holds, for good; not while something is assumed

  Expr Simplify(Expr e);
  bool CanProve(Expr cond);

  static constexpr int64_t kUnknown = int64_t{1} << 62;
  struct Bounds {
    int64_t lo = -kUnknown, hi = kUnknown;  // at +-kUnknown: not known
    bool IsConst() const { return lo == hi; }
    bool IsKnown() const { return lo > -kUnknown && hi < kUnknown; }
  };
  Bounds ConstBounds(Expr e);
  // The largest known d >= 1 that divides `e`; 0 for the constant 0.
  int64_t KnownDivisor(Expr e);

  // `cond` holds while this lives. Scopes nest.
  class Assume {
   public:
    Assume(Analyzer& a, Expr cond);
    ~Assume();
    Assume(const Assume&) = delete;
    Assume& operator=(const Assume&) = delete;

   private:
    bool Learned() const;

    Analyzer& a_;
    size_t facts_, undo_, truths_;
  };

  Context& context() { return c_; }

 private:
  struct VarInfo {
    int64_t lo = -kUnknown, hi = kUnknown;
    int64_t divisor = 1;
    int order = 0;           // later bindings are inner: their bounds may name earlier variables
    bool has_range = false;  // min and max below hold
    Linear min, max;         // inclusive
  };
  // A sum that a proof is about, with the steps it may still take.
  struct Proof {
    int steps = 96;
  };

  // ---- rewriting (ir/simplify.cc) ----
  Expr Rewrite(Expr e);
  Expr RewriteInt(Expr e);
  Expr RewriteVector(Expr e);
  Expr RewriteFloat(Expr e);
  Expr RewriteCompare(ExprOp op, Expr a, Expr b);
  Expr RewriteEqual(bool negate, const Linear& d, DType t);
  Expr RewritePositive(const Linear& d, DType t);  // d > 0
  Expr RewriteAnd(Expr e);
  Expr Rules(Expr e);
  Linear Recombine(Linear l, DType t);  // x / c * c + x % c -> x
  bool IsMultipleOf(Linear l, int64_t c, DType t);
  // a / b or a % b; false: nothing better is known.
  bool DivideLinear(const Linear& a, Expr b, bool is_mod, DType t, Linear* out);
  Linear DivMod(const Linear& a, int64_t b, bool is_mod, DType t);
  Expr Opaque(ExprOp op, const Linear& a, Expr b, DType t);

  // ---- proving (ir/analyzer.cc) ----
  Linear LinearOf(Expr e);
  bool ProveNonNegative(const Linear& l, Proof& p, int depth);
  bool ProveAtLeast(Linear l, int64_t lower);  // l >= lower
  Bounds BoundsOf(const Linear& l);
  Bounds AtomBounds(Expr atom);
  Bounds ComputeBounds(Expr e);
  bool IsData(Expr e);                        // reads memory or floats: values of any size
  bool CannotWrap(const Linear& l, DType t);  // the sum has the value that mathematics gives it
  int64_t DivisorOf(const Linear& l);
  void Learn(Expr cond);
  void LearnNonNegative(Linear l);
  const VarInfo* Find(Expr var);  // null: nothing is known
  VarInfo& Mutable(Expr var);
  void Forget();

  Context& c_;
  absl::flat_hash_map<Expr, VarInfo> vars_;
  std::vector<Linear> facts_;                  // each >= 0
  std::vector<std::pair<Expr, bool>> truths_;  // conditions of known value
  std::vector<std::pair<Expr, VarInfo>> undo_;
  // Memory; the first four are cleared when what is known changes of a variable that they have asked for.
  absl::flat_hash_set<Expr> unknown_;  // variables of which nothing was known
  absl::flat_hash_map<Expr, Expr> simplified_;
  absl::flat_hash_map<Expr, Bounds> bounds_;
  absl::flat_hash_map<Expr, int64_t> divisors_;
  absl::node_hash_map<Expr, Linear> linear_;
  absl::flat_hash_map<Expr, bool> is_data_;
};

}  // namespace cinn_like::ir
