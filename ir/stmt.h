// Statements and functions: loops over buffers. A Stmt is an immutable variant read through Match; every pass is built
// from MapChildren and the walks below.
//
//   func @softmax_row(x: f32[n,256], y: f32[n,256]) where n in 1..4096 {
//     for i in 0..n @parallel {
//       alloc m: f32[1] @local
//       for j in 0..256 {
//         block max_(vi in 0..n = i, vj reduce 0..256 = j) if i < n init { m[0] = -inf } {
//           m[0] = max(m[0], x[vi, vj])
//         }
//       }
//       ...
//       let s = 1.0 / m[0]
//       y[i, 0] = s
//     }
//   }
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/expr.h"

namespace cinn_like::ir {

struct StmtNode;
using Stmt = std::shared_ptr<const StmtNode>;

struct Seq {
  std::vector<Stmt> stmts;
};

enum class ForKind : uint8_t {
  kSerial,
  kParallel,
  kVectorized,
  kUnrolled,
  kBlockX,
  kBlockY,
  kBlockZ,
  kThreadX,
  kThreadY,
  kThreadZ,
  kClusterX,
  // Software pipelining: what fills shared memory for an iteration runs 1, 2 or 3 iterations ahead, into one of 2, 3 or
  // 4 copies of that memory (ir/passes/lower_pipeline.h).
  kPipelined2,
  kPipelined3,
  kPipelined4,
  // The nest runs as instructions of a warp's matrix unit, or of four warps' (ir/mma.h); its loops are what these
  // compute. The latter read their operands after the loop has ended (ir/passes/lower_pipeline.h).
  kMma,
  kWgmma,
  // The nest runs as instructions of a CPU's vectors (ir/vector_nests.h), which compute what its loops do.
  kDot2,
  kDot4,
  kTranspose,
  // The nest copies a rectangle to shared memory; one thread asks a GPU's copy engine for it (ir/tensor_copy.h).
  kTensorCopy,
  // The nest runs as an instruction of the device, by a row of its table (ir/intrinsic.h), which LoopKind names.
  kIntrinsic,
};
std::string_view Name(ForKind k);  // "", "parallel", "blockIdx.x", ...

// What compilers of generated code are told of a serial loop; they may do otherwise. Text: @hint(unroll=4,
// vectorize=off) behind the extent.
struct LoopHints {
  int unroll = 0;  // iterations side by side; 1: none, 0: as the compiler likes
  bool scalar = false;
  bool operator==(const LoopHints&) const = default;
};
inline constexpr int64_t kMostUnrolled = 1024;

// How a loop runs. Text: that of its ForKind, or "intrinsic.NAME" of an instruction.
struct LoopKind {
  LoopKind(ForKind k = ForKind::kSerial) : kind(k) {}  // NOLINT(google-explicit-constructor): all kinds but one
  static LoopKind Intrinsic(std::string name);
  operator ForKind() const { return kind; }  // NOLINT(google-explicit-constructor)
  friend bool operator==(const LoopKind& a, const LoopKind& b) {
    return a.kind == b.kind && a.hints == b.hints && (a.kind != ForKind::kIntrinsic || *a.intrinsic == *b.intrinsic);
  }
  friend bool operator==(const LoopKind& a, ForKind b) { return a.kind == b; }

  ForKind kind;
  std::shared_ptr<const std::string> intrinsic;  // of kIntrinsic; else null
  LoopHints hints;                               // of kSerial
};
std::string Name(const LoopKind& k);
std::optional<LoopKind> ParseLoopKind(std::string_view text);
inline bool IsBlockAxis(ForKind k) { return k >= ForKind::kBlockX && k <= ForKind::kBlockZ; }
inline bool IsThreadAxis(ForKind k) { return k >= ForKind::kThreadX && k <= ForKind::kClusterX; }

// Copies of the memory that a pipelined loop's iterations pass to each other; 0 for other kinds.
inline int PipelineStages(ForKind k) {
  const int stages = static_cast<int>(k) - static_cast<int>(ForKind::kPipelined2) + 2;
  return k >= ForKind::kPipelined2 && k <= ForKind::kPipelined4 ? stages : 0;
}

inline bool IsMatrixUnit(ForKind k) { return k == ForKind::kMma || k == ForKind::kWgmma; }
// Of the step `tensorize`: what such a nest must be is what makes it right to run it so.
inline bool IsTensorized(ForKind k) { return k >= ForKind::kMma; }
// Of a lane's sum of so many products (ir/vector_nests.h); 0 for other kinds.
inline int DotSize(ForKind k) { return k == ForKind::kDot2 ? 2 : k == ForKind::kDot4 ? 4 : 0; }

// The blocks of a cluster (clusterIdx.x) run at once and count as threads of one large block: they have their shared
// memory and their barriers in common.
constexpr size_t kNumAxes = 7;  // blockIdx.x .. clusterIdx.x
inline size_t AxisOf(ForKind k) { return static_cast<size_t>(k) - static_cast<size_t>(ForKind::kBlockX); }

// for var in 0..extent @kind. Loops bound to one thread axis in a kernel are the same threads; the smaller extent is
// guarded.
struct For {
  Expr var = nullptr;
  Expr extent = nullptr;
  LoopKind kind = ForKind::kSerial;
  Stmt body;
};
struct If {
  Expr cond = nullptr;
  Stmt then;
  Stmt otherwise;  // may be null
};
// while cond { body }: again and again, as long as the condition holds, which is asked before each time. Steps take it
// and what stands in it as a whole; most useful is one within a block.
struct While {
  Expr cond = nullptr;
  Stmt body;
};
// prefetch x[i + 8; i + 8 < n]: the elements that the outermost loads of the expression read are soon needed. A hint,
// without effect on what is computed. Where a load has a mask that is false, nothing is done.
struct Prefetch {
  Expr value = nullptr;
};
// Those loads.
std::vector<Expr> LoadsOf(const Prefetch& n);
// let var = value, visible to the end of the enclosing sequence.
struct Let {
  Expr var = nullptr;
  Expr value = nullptr;
};
// alloc buffer, visible to the end of the enclosing sequence. `local` memory is private to a thread and `shared` to a
// block; `global` in a host function comes from the workspace.
struct Alloc {
  Buffer buffer = nullptr;
};
// buffer[indices; mask] = value: where mask is false nothing is written.
struct Store {
  Buffer buffer = nullptr;
  std::vector<Expr> indices;
  Expr value = nullptr;
  Expr mask = nullptr;  // may be null
};

enum class IterKind : uint8_t { kData, kReduce };
// A block iterator: `var` runs over 0..extent and is bound to an expression of the loops around.
struct BlockIter {
  Expr var = nullptr;
  Expr extent = nullptr;
  IterKind kind = IterKind::kData;
  Expr binding = nullptr;
};
// The scheduling unit. The body speaks of iterators only (and of symbols), so loops change around it by changing the
// bindings. `init` runs where all reduce iterators are 0 (null: no reduction, or it was split off). Every instance with
// a true predicate runs once. Reads and writes are computed from the body.
struct Block {
  std::string name;
  std::vector<BlockIter> iters;
  Expr predicate = nullptr;  // may be null: always
  Stmt init;                 // may be null
  Stmt body;
};
// barrier: the threads of a block wait for each other. What a thread copies to shared memory between `begin copies` and
// `commit copies` may arrive later, as a group: `await copies n` waits for all but the last n groups of the thread.
enum class BarrierScope : uint8_t { kBlock, kBeginCopies, kCommitCopies, kAwaitCopies };
struct Barrier {
  BarrierScope scope = BarrierScope::kBlock;
  int pending = 0;  // groups that kAwaitCopies leaves
};
// How a GPU's copy engine finds boxes of a tensor, for a kernel's tensor copies (ir/tensor_copy.h): the tensor's
// address, its extents and strides and what one copy takes of each dimension, in elements, the contiguous dimension
// first. Text: map(&x[0], [4096, n], [1, 4096], [64, 128]).
struct TensorMap {
  Expr address = nullptr;
  std::vector<Expr> extents, strides, box;  // of one size; a box is of constants
  bool operator==(const TensorMap&) const = default;
};
// Host statement: starts a device kernel. Text: launch @k grid(g, 1, 1) block(256, 1, 1) shared 0 (&x[0], n). Where
// each block of the grid is a cluster of them, `cluster 4` stands before `shared`; tensor maps stand at the end, in the
// order in which the kernel first uses them.
struct Launch {
  std::string kernel;
  std::vector<Expr> grid;   // 3
  std::vector<Expr> block;  // 3
  Expr shared_bytes = nullptr;
  std::vector<Expr> args;  // addresses and scalars
  Expr cluster = nullptr;  // null: 1
  std::vector<TensorMap> maps = {};
};
// Calls a function of the module (call @f(...)) or of runtime_calls.def (call cinn_cublaslt_matmul(...)). A runtime
// call gets `args` and the call's environment. It may carry its meaning, statements that compute the same
// (call cinn_cublaslt_matmul(...) computes { ... }): what the interpreter runs, and nobody else. One whose first
// parameter is a text gives that first (call cinn_range_error("gather: idx", i, 0, n)). In a kernel only
// cinn_range_error can be called, there an assertion, and cinn_bounds_error, which leaves a report.
//
// A function that is registered by name (call "sort"(x, n) -> (y)) is called through cinn_call_function, with the
// name as its text, by host code: it reads its inputs, whole, and writes its outputs. What is not a buffer as it was
// declared is written out: &t[0] as f32[n, 4] strides [8, 1].
struct Call {
  // Of a function by name: how many of `args` an argument is and what they say, a scalar, or a tensor's address, its
  // shape and perhaps strides.
  struct Operand {
    bool is_tensor = false, is_output = false, has_strides = false;
    DType dtype = DType::kI64;
    size_t rank = 0;
    size_t size() const { return is_tensor ? 1 + (has_strides ? 2 * rank : rank) : 1; }
  };

  std::string callee;  // without @
  bool is_runtime = false;
  std::string text;                    // of a runtime call that takes one; without quotes and backslashes
  std::vector<Expr> args;              // addresses (u64(0): null) and scalars
  Stmt meaning = nullptr;              // of a runtime call; may be null
  std::vector<Operand> operands = {};  // inputs, then outputs

  bool IsOfFunction() const { return callee == "cinn_call_function"; }
};

// An argument as `call` writes it: a buffer as declared, or a scalar.
void AddInput(Context& c, Call& call, Buffer b);
void AddInput(Call& call, Expr scalar);
void AddOutput(Context& c, Call& call, Buffer b);
Call CallOfFunction(std::string name);
// Each operand with its part of `args`.
void ForEachOperand(const Call& call, const std::function<void(const Call::Operand&, absl::Span<const Expr>)>& f);
// The buffer that is handed over as it was declared; null: a part of it, otherwise laid out, or no tensor.
Buffer WholeOf(const Call::Operand& operand, absl::Span<const Expr> args);
// The call of a function by name that is all a block does; null: none is.
const Call* FunctionCallOf(const Stmt& s);
// A call of a function by name within `s` that takes the buffer.
const Call* CallTaking(const Stmt& s, Buffer b);

struct StmtNode {
  std::variant<Seq, For, If, While, Let, Alloc, Store, Block, Barrier, Prefetch, Launch, Call> v;
};
template <class T>
Stmt MakeStmt(T n) {
  return std::make_shared<const StmtNode>(StmtNode{std::move(n)});
}
// A sequence with nested sequences flattened; a single statement stays itself.
Stmt MakeSeq(std::vector<Stmt> stmts);

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;
template <class... Fs>
decltype(auto) Match(const Stmt& s, Fs&&... fs) {
  return std::visit(Overloaded{std::forward<Fs>(fs)...}, s->v);
}
template <class T>
const T* As(const Stmt& s) {
  return s == nullptr ? nullptr : std::get_if<T>(&s->v);
}

// ---- functions ----
// What is known of a symbol: lo <= var <= hi, and divisor divides var; it is likely to be `hint` (0: not known). Text:
// n in 8..4096 multiple 8 hint 512.
struct SymbolFact {
  Expr var = nullptr;
  int64_t lo = 1;
  int64_t hi = int64_t{1} << 40;
  int64_t divisor = 1;
  int64_t hint = 0;
};
// What an entry function's parameter is to the framework. Text: nothing, static, prepared, out after the type.
enum class ParamRole : uint8_t {
  kInput,     // read at every call
  kStatic,    // given at every call, read by <fn>_prepare only
  kPrepared,  // computed by <fn>_prepare and taken from `self`
  kResult,    // written
};
std::string_view Name(ParamRole r);
struct Param {
  Buffer buffer = nullptr;  // a tensor, or
  Expr var = nullptr;       // a scalar
  ParamRole role = ParamRole::kInput;
};
enum class FuncKind : uint8_t {
  kInternal,  // called by functions of the module: pointers and i64s
  kEntry,     // called by the framework (runtime/call.h)
  kKernel,    // a device kernel
};
std::string_view Name(FuncKind k);

// A function owns nothing: `context` owns its expressions and must outlive it, so it is shared.
// Loop, block, buffer and variable names are unique in a Func.
struct Func {
  std::string name;
  FuncKind kind = FuncKind::kInternal;
  std::vector<Param> params;
  std::vector<SymbolFact> symbols;
  Stmt body;
  std::shared_ptr<Context> context;
  // The kind of device that an entry's tensors are on, by name (base/device_kind.h); empty: the host. Text:
  // func @f entry cuda (...)
  std::string device = {};
};
struct Module {
  std::shared_ptr<Context> context;
  std::vector<Func> funcs;
  const Func* Find(std::string_view name) const;
};

// ---- walks ----
// The only traversal primitives. Expressions of `s` itself through fe, child statements through fs. A buffer or
// variable that `s` declares is not an expression of it.
Stmt MapChildren(const Stmt& s, const std::function<Expr(Expr)>& fe, const std::function<Stmt(const Stmt&)>& fs);
void ForEachChild(const Stmt& s, const std::function<void(Expr)>& fe, const std::function<void(const Stmt&)>& fs);
void ForEachChild(const Stmt& s, const std::function<void(const Stmt&)>& f);  // child statements alone
// Every expression (not its subexpressions) of every statement below.
void ForEachExpr(const Stmt& s, const std::function<void(Expr)>& f);
// Every statement, parents first; f returns false to skip the children.
void VisitStmts(const Stmt& s, const std::function<bool(const Stmt&)>& f);
// Bottom-up: children first, then f; f returns null to keep the statement. A statement replaced by an empty Seq is
// dropped.
Stmt RewriteStmts(const Stmt& s, const std::function<Stmt(const Stmt&)>& f);
// Every expression below through f (memoised per call).
Stmt RewriteExprs(Context& c, const Stmt& s, const std::function<Expr(Expr)>& f);
Stmt Substitute(Context& c, const Stmt& s, const VarMap& map);
using BufferMap = absl::flat_hash_map<Buffer, Buffer>;
// Loads, addresses, stores and allocs of a key now name its value, at the same indices.
Stmt ReplaceBuffers(Context& c, const Stmt& s, const BufferMap& map);
// A copy in another context (for parallel compilation), its variables, buffers and blocks renamed by `rename` if given.
Func CloneInto(const Func& f, std::shared_ptr<Context> context,
               const std::function<std::string(const std::string&)>& rename = nullptr);

// The buffers that `s` loads from / stores to, in order of first appearance.
std::vector<Buffer> BuffersRead(const Stmt& s);
std::vector<Buffer> BuffersWritten(const Stmt& s);
// Names used in `f` (buffers, variables, blocks), and a fresh one starting with `base`.
class NameSupply {
 public:
  explicit NameSupply(const Func& f);
  NameSupply() = default;
  std::string Fresh(std::string_view base);
  void Reserve(std::string_view name) { used_.insert(std::string(name)); }

 private:
  absl::flat_hash_set<std::string> used_;
  absl::flat_hash_map<std::string, int> next_;  // per base
};

// ---- text (ir/print.cc, ir/parse.cc): Parse(Print(m)) == m and the printed form is a fixed point ----
std::string Print(const Stmt& s, int indent = 0);
std::string Print(const Func& f);
std::string Print(const Module& m);
StatusOr<Module> ParseModule(std::string_view text);
StatusOr<Func> ParseFunc(std::string_view text);  // exactly one function
// A statement or an expression that speaks of the parameters and symbols of `f`.
StatusOr<Stmt> ParseStmtOf(const Func& f, std::string_view text);
StatusOr<Expr> ParseExprOf(const Func& f, std::string_view text);
// An expression over i64 variables that need no declaration (rules, tests).
StatusOr<Expr> ParseIndexExpr(Context& c, std::string_view text);

// Every rule of this header: names unique and declared before use, types agree, indices match the rank, bindings use
// enclosing loops, constant extents are not negative, no buffer is beyond kMaxBytes. InvalidArgument naming the
// function and the statement.
Status Verify(const Func& f);
Status Verify(const Module& m);

}  // namespace cinn_like::ir
