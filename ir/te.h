// Tensor expressions: what an op means, before any loop is chosen. A Stage computes tensors from tensors, element by
// element, perhaps by reduction; a Program is a list of stages. Fusion, tactics and lowering read these and nothing
// else.
//
//   Te te(context);
//   Buffer y = te.Compute("scaled", DType::kF32, x->shape, [&](Indices i) { return c.Mul(te.At(x, i), c.Float(2)); });
//   Buffer s = te.Reduce("row_sum", Combiner::kSum, DType::kF32, {n}, {m},
//                        [&](Indices i, Indices r) { return te.At(y, {i[0], r[0]}); });
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/expr.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

struct StageIter {
  Expr var;
  Expr extent;
};

// For every value of `iters` (one per dimension of each output, in order): outputs[k][iters] = values[k]. With
// reduction: outputs start as inits[k], and for every value of `reduce_iters` in order become values[k], which reads
// the running value as Load(outputs[k], iters). A stage without reduction may write elsewhere: outputs[k][at] =
// values[k], where `at` is a bijection from the iterators, or those at which `where` holds, to the output's indices.
// A stage with a `call` has neither iterators nor values: a function that is registered by name writes all of its
// outputs, and may not write its inputs.
// A scan runs over its iterator `along` in order: running[k], which has a place for each value of the other iterators,
// starts as inits[k] and becomes values[k], which reads it as Load(running[k], other iterators), at every step; what it
// has become, converted, is outputs[k][iters].
struct Stage {
  std::string name;
  std::vector<Buffer> outputs;  // one, or several of one shape (of a call: of any)
  std::vector<StageIter> iters;
  std::vector<StageIter> reduce_iters;
  std::vector<Expr> inits;   // empty unless there are reduce_iters, or it is a scan
  std::vector<Expr> values;  // one per output
  std::vector<Expr> at;      // empty: at iters
  Expr where = nullptr;      // with `at`: what is written; null: everywhere
  Expr along = nullptr;      // of a scan: the iterator's variable
  std::vector<Buffer> running;
  Stmt call = nullptr;  // a Call of a function by name
  int origin = -1;      // the caller's number of what it means; -1: none
  // Bytes of which the rows of the caller's tensors are multiples, where this stage has padded copies of them; 0: none.
  int origin_row_alignment = 0;
  bool is_convolution = false;  // in the caller's terms, who may allow other roundings there than of products
  bool IsReduction() const { return !reduce_iters.empty(); }
  bool IsScan() const { return along != nullptr; }
  bool IsCall() const { return call != nullptr; }
  bool IsPointwise() const { return !IsReduction() && !IsScan() && !IsCall(); }
};

// What must hold of each call, or it fails with an error that starts with `what`: begin <= e < end for each element e
// of `values`, which is begin <= low, high < end for the numbers that stages compute of them. Over a tensor without
// elements `low` is the highest number and `high` the lowest.
struct RangeCheck {
  std::string what;
  Buffer values;     // the output of a stage that copies them
  Buffer low, high;  // i64[], outputs of stages
  Expr begin, end;
};

// Stages in topological order over parameters.
struct TeProgram {
  std::string name;
  std::shared_ptr<Context> context;
  std::vector<Param> params;  // inputs, then results (role kResult): each result is an output of a stage
  std::vector<SymbolFact> symbols;
  std::vector<Stage> stages;
  bool exact = false;  // numerics: each cast rounds; else values inside of a kernel may stay wide and be reassociated
  std::vector<RangeCheck> checks = {};  // on the numbers; a stage's values can have others within (Context::Checked)
  std::vector<Buffer> kept = {};        // outputs of stages that are computed although no result needs them
};
// As loop text: one naive nest with a block per stage, intermediates allocated; what golden tests and the interpreter
// read.
StatusOr<Func> ToLoops(const TeProgram& program);
// The other way: what ToLoops wrote is the text form of stages. Allocations, then for each stage a perfect nest of
// serial loops that are its block's iterators; that a stage which writes elsewhere (`at`) writes everywhere is the
// text's word. InvalidArgument naming the block that is no stage, as after a schedule step on loops. The rest of a
// TeProgram (exact, checks, origins) is in no text.
StatusOr<TeProgram> ToStages(const Func& loops);

bool Contains(const std::vector<Buffer>& buffers, Buffer b);
// Whether a stage writes it: what it reads of that are its own running values.
bool Writes(const Stage& s, Buffer b);
// Buffers that a stage reads from others (its own accumulators apart), in order of first appearance.
std::vector<Buffer> InputsOf(const Stage& s);

// `e` with loads of `buffer` replaced by `value`, which is what buffer[iters] holds. A masked load becomes a select
// whose operands are read under that mask too.
Expr InlineLoads(Context& c, Expr e, Buffer buffer, const std::vector<Expr>& iters, Expr value);
std::vector<Expr> VarsOf(const std::vector<StageIter>& iters);
// The running values of a reduction or a scan, as its values read them.
std::vector<Expr> RunningOf(Context& c, const Stage& s);

enum class Combiner : uint8_t { kSum, kProd, kMax, kMin, kAny, kAll };
// The neutral element: 0, 1, -inf or the lowest integer, ...
Expr Identity(Context& c, Combiner k, DType t);
// The same of an associative operator; null: it has none that is known.
Expr NeutralOf(Context& c, ExprOp op, DType t);
Expr Combine(Context& c, Combiner k, Expr a, Expr b);

using Indices = const std::vector<Expr>&;

// Builds stages. Buffers and iterators get fresh names from `name`.
class Te {
 public:
  explicit Te(Context& c) : c_(c) {}

  Buffer Compute(std::string_view name, DType dtype, std::vector<Expr> shape,
                 const std::function<Expr(Indices)>& value);
  // The elements are combined in the output's dtype; give an f32 output and cast afterwards for 16-bit floats.
  Buffer Reduce(std::string_view name, Combiner combiner, DType dtype, std::vector<Expr> shape,
                std::vector<Expr> reduce_extents, const std::function<Expr(Indices, Indices)>& element);
  // Several values reduced together (argmax): `next(indices, reduce_indices, running values)` gives the new ones. The
  // result must not depend on the order, and `inits` must change nothing: parts may be reduced apart and joined
  // (ir/join.h).
  std::vector<Buffer> ReduceTuple(std::string_view name, std::vector<DType> dtypes, std::vector<Expr> shape,
                                  std::vector<Expr> reduce_extents, std::vector<Expr> inits,
                                  const std::function<std::vector<Expr>(Indices, Indices, Indices)>& next);
  // argmax, or argmin: the largest (smallest) element, and the place of the first such one, an i64 that counts over the
  // reduced dimensions in order. NaN comes before numbers.
  std::vector<Buffer> ReduceArg(std::string_view name, bool largest, DType dtype, std::vector<Expr> shape,
                                std::vector<Expr> reduce_extents, const std::function<Expr(Indices, Indices)>& element);
  // A scan along dimension `dim` of `shape`: values run in dtype `wide[k]` from `inits[k]` on, and `next(indices,
  // running values)` gives the new ones, which results hold in `dtypes[k]`. Parts may be joined in any grouping, in
  // order, where `next` is such a join (ir/join.h).
  std::vector<Buffer> Scan(std::string_view name, std::vector<DType> dtypes, const std::vector<DType>& wide,
                           std::vector<Expr> shape, size_t dim, std::vector<Expr> inits,
                           const std::function<std::vector<Expr>(Indices, Indices)>& next);
  // Results of these dtypes and shapes that the function registered as `function` writes (runtime/function_registry.h),
  // which is called with the inputs, buffers and scalars, and then the results.
  using ExternInput = std::variant<Buffer, Expr>;
  std::vector<Buffer> Extern(std::string_view name, const std::vector<DType>& dtypes,
                             const std::vector<std::vector<Expr>>& shapes, const std::vector<ExternInput>& inputs,
                             std::string_view function);
  // b[indices; mask]: 0 where the mask is false, and memory is not touched there.
  Expr At(Buffer b, std::vector<Expr> indices, Expr mask = nullptr) { return c_.Load(b, std::move(indices), mask); }

  Context& context() { return c_; }
  std::vector<Stage>& stages() { return stages_; }
  std::string FreshName(std::string_view base) { return names_.Fresh(base); }

 private:
  Context& c_;
  NameSupply names_;
  std::vector<Stage> stages_;
};

}  // namespace cinn_like::ir
