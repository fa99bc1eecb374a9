// Expressions: interned, immutable nodes owned by a Context, so that pointer equality is structural equality and every
// rewrite memoises by pointer. Expressions are DAGs: walk them with the functions below, which visit a node once.
//
// Text: 5 (i64), i32(5), 1.5 (f32), bf16(1.5), true, i * 8 + j, min(a, b), f32(x) (a cast), ramp(b, 1, 8),
// broadcast(x, 8), A[i, j], A[i, j; mask] (0 where mask is false), &A[i, j] (the address of an element),
// checked("what", e, 0, n) (e, an i64; the call fails, with an error that starts with the text, unless 0 <= e < n or a
// mask is false that is within e. An expression is evaluated with all its parts: so are both sides of a select).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "cinn_like/base/dtype.h"
#include "cinn_like/base/small_map.h"
#include "cinn_like/base/status.h"

namespace cinn_like::ir {

// An element type with a number of lanes (1: a scalar). Text: f32, f32x8.
struct Type {
  DType dtype = DType::kI64;
  int lanes = 1;
  bool operator==(const Type&) const = default;
  Type WithLanes(int n) const { return {dtype, n}; }
  Type Element() const { return {dtype, 1}; }
};
std::string Print(Type t);
inline constexpr Type kIndexType{DType::kI64, 1};
inline constexpr Type kBoolType{DType::kBool, 1};

enum class ExprOp : uint8_t {
  kInt,        // int_value: integers and booleans
  kFloat,      // float_value, rounded to the dtype
  kVar,        // name
  kLoad,       // buffer; args: indices, then the mask if has_mask
  kAddress,    // buffer; args: indices. Type u64
  kCast,       // args: value
  kRamp,       // args: base, stride (scalars): base + stride * (0..lanes)
  kBroadcast,  // args: value (a scalar)
  kChecked,    // name: the error's text; args: value, begin, end
#define X(e, text, arity, prec, result, cost) k##e,
#include "ir/expr_ops.def"
#undef X
};

struct OpRow {
  std::string_view text;
  int arity;
  int precedence;
  enum Result : uint8_t { kSame, kBool, kSecond, kElement } result;
  enum Cost : uint8_t { kPlain, kMath } cost;
};
// The row of an operator of expr_ops.def; null for the leaves and loads above.
const OpRow* RowOf(ExprOp op);
// The operator spelled `text` with that many operands.
const ExprOp* FindOp(std::string_view text, int arity);

struct ExprNode;
using Expr = const ExprNode*;

// kWarp: shared memory of which each thread of a warp has a part in its registers, as a left operand of matrix units
// (ir/mma.h); made by ir/passes/keep_fragments.h.
enum class Scope : uint8_t { kGlobal, kShared, kWarp, kLocal };
std::string_view Name(Scope s);

// Memory: a name, an element type, a shape, and where it lives. Strides are in elements; none means row-major.
// Immutable; owned by the Context; a changed buffer is a new one (see ReplaceBuffers in ir/stmt.h). Names are unique in
// a Func.
struct BufferNode {
  std::string name = {};
  DType dtype = DType::kF32;
  std::vector<Expr> shape = {};
  std::vector<Expr> strides = {};
  Scope scope = Scope::kGlobal;
  int alignment = 0;  // bytes that the first element is known to be aligned to; 0: the element's size
  // Of shared and local memory that is not placed yet: rows of the last dimension will lie so many elements apart that
  // this modulo `pitch_factor` is `pitch_offset`; factor 0: without a gap.
  int pitch_factor = 0, pitch_offset = 0;
};
using Buffer = const BufferNode*;

struct ExprNode {
  ExprOp op;
  Type type;
  bool has_mask = false;
  std::vector<Expr> args = {};
  int64_t int_value = 0;
  double float_value = 0;
  std::string name = {};
  Buffer buffer = nullptr;
  // What the Context knows of it:
  int depth = 1;        // levels of the tree
  int size = 1;         // nodes of the tree, each as often as it is used; at most kMostCounted
  bool reads = false;   // there is a load in the tree
  bool checks = false;  // there is a kChecked in the tree: it may not be left out
  size_t hash = 0;      // of what makes it
};

inline constexpr int kMostCounted = 1 << 29;  // nodes of a tree
// More lanes than any machine's vectors have, several at a time.
inline constexpr int kMaxLanes = 1024;
// Walks recurse: what comes from outside is not deeper, so that no walk overflows a stack.
inline constexpr int kMaxDepthOfExpr = 2000;

// Owns the expressions and buffers of a module. Single-threaded: parallel compilation gives each kernel its own.
// Make* check operand types with RET_CHECK-like CHECKs in debug builds only; text goes through the parser, which
// reports.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Expr Int(int64_t v, DType t = DType::kI64);
  Expr Bool(bool v) { return Int(v, DType::kBool); }
  Expr Float(double v, DType t = DType::kF32);
  Expr Const(double v, DType t) { return IsFloat(t) ? Float(v, t) : Int(static_cast<int64_t>(v), t); }
  Expr Var(std::string_view name, Type t = kIndexType);
  Expr Load(Buffer b, absl::Span<const Expr> indices, Expr mask = nullptr);
  Expr Address(Buffer b, absl::Span<const Expr> indices);
  Expr Cast(DType t, Expr e);
  Expr Ramp(Expr base, Expr stride, int lanes);
  Expr Broadcast(Expr e, int lanes);
  Expr Checked(Expr value, Expr begin, Expr end, std::string_view what);
  // Any operator of the table. Folds nothing.
  Expr Make(ExprOp op, absl::Span<const Expr> args);
  // `e` with other args (same op, payload and mask form); the type follows the args' lanes.
  Expr WithArgs(Expr e, absl::Span<const Expr> args);

  // Operators with the folds that keep indices readable: constants, x + 0, x * 1, x * 0, x / 1, x % 1, true && c.
  Expr Add(Expr a, Expr b);
  Expr Sub(Expr a, Expr b);
  Expr Mul(Expr a, Expr b);
  Expr Div(Expr a, Expr b);
  Expr Mod(Expr a, Expr b);
  Expr Min(Expr a, Expr b);
  Expr Max(Expr a, Expr b);
  Expr And(Expr a, Expr b);
  Expr Or(Expr a, Expr b);
  Expr Not(Expr a);
  Expr Lt(Expr a, Expr b);
  Expr Le(Expr a, Expr b);
  Expr Eq(Expr a, Expr b);
  Expr CeilDiv(Expr a, Expr b);
  Expr Select(Expr c, Expr a, Expr b);

  Buffer MakeBuffer(BufferNode b);

 private:
  struct Key;
  Expr Intern(const Key& key);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// ---- questions ----
inline bool IsInt(Expr e) { return e->op == ExprOp::kInt; }
inline bool IsConst(Expr e) { return e->op == ExprOp::kInt || e->op == ExprOp::kFloat; }
inline bool IsInt(Expr e, int64_t v) { return IsInt(e) && e->int_value == v; }
inline bool IsTrue(Expr e) { return IsInt(e, 1) && e->type.dtype == DType::kBool; }
// The indices of a load or address, without the mask.
std::vector<Expr> IndicesOf(Expr load);
Expr MaskOf(Expr load);  // null if none
// The value of `v` once stored as `t` (rounding, wrapping).
double RoundTo(DType t, double v);
int64_t WrapTo(DType t, int64_t v);
// Whether all that `from` checks is checked in `to`.
bool KeepsChecks(Expr from, Expr to);
// How far lane_shift moves lanes; nullopt: by no constant from 0 up.
std::optional<int> LanesMoved(Expr e);
// Constant folding of one operator on integer constants; nullopt where it is undefined (division by 0).
std::optional<int64_t> FoldInt(ExprOp op, DType t, absl::Span<const int64_t> args);
// Whether it wraps as i64.
bool Overflows(ExprOp op, absl::Span<const int64_t> args);

// ---- walks ----
// Each child through f; the same pointer if none changed.
Expr MapChildren(Context& c, Expr e, absl::FunctionRef<Expr(Expr)> f);
// Top-down with memory: where f gives non-null that replaces the node (not walked further), else its children are
// walked. What f says of a constant or a variable is not remembered.
class Rewriter {
 public:
  Rewriter(Context& c, std::function<Expr(Expr)> f) : c_(c), f_(std::move(f)) {}
  Expr operator()(Expr e);

 private:
  Context& c_;
  std::function<Expr(Expr)> f_;
  SmallMap<Expr, Expr> memo_;
};
// Visits every node of the DAG once, children after parents; `f` returns false to skip a node's children.
void Visit(Expr e, absl::FunctionRef<bool(Expr)> f);
// The loads among them.
void VisitLoads(Expr e, absl::FunctionRef<void(Expr)> f);
using VarMap = absl::flat_hash_map<Expr, Expr>;  // Var -> replacement
Expr Substitute(Context& c, Expr e, const VarMap& map);
// The offset of an element from the first, by the buffer's strides.
Expr ElementOffset(Context& c, Buffer b, absl::Span<const Expr> indices);
bool Uses(Expr e, const absl::flat_hash_set<Expr>& vars);
bool Uses(Expr e, Expr var);
// The variables in order of first appearance.
std::vector<Expr> VarsOf(Expr e);

std::string Print(Expr e);
// Whether what Print gives has at most so many nodes; a subexpression that is used twice is printed twice.
inline bool PrintsWithin(Expr e, int nodes) { return e->size <= nodes; }
inline constexpr int kMostNodesOfStep = 1000;  // of an expression in a line of a schedule

}  // namespace cinn_like::ir
