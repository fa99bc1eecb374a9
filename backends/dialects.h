// Languages of the C family as tables. The emitter (c_emitter.h) knows what lowered code means; a dialect says how one
// language spells it. A new language is a Dialect, here or of a caller's, who may start from a copy of one of ours:
// types, operators that are spelled differently, helpers.
//
// In the spelling of an operator, $0 $1 $2 are its operands, $T the C type and $t our name of the operands' dtype, $U
// the unsigned type that wraps (at least 32 bits), $f what ends the names of C's functions: "f" for f32 where the
// language does not overload them, else nothing. Helpers are functions named cinn_*; the source text gets those it
// uses.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/device_kind.h"
#include "ir/stmt.h"

namespace cinn_like::backends {

// A set of dtypes, one bit each.
using DTypeSet = uint32_t;
constexpr DTypeSet SetOf(DType t) { return 1u << static_cast<int>(t); }
inline constexpr int kNumDTypes = static_cast<int>(DType::kF64) + 1;

// C precedence of the text that a spelling gives; higher binds tighter.
enum Precedence : int {
  kTernary = 3,
  kLogicalOr,
  kLogicalAnd,
  kBitOr,
  kBitXor,
  kBitAnd,
  kEquality,
  kRelation,
  kShift,
  kSum,
  kProduct,
  kUnary,
  kAtom
};

struct Spelling {
  ir::ExprOp op;
  DTypeSet on;  // dtypes of the operands (of the second one for select)
  std::string_view text;
  Precedence precedence;
};

struct Helper {
  std::string_view name;  // "cinn_max_$t": one per dtype of `on`; without $t, `on` is empty
  DTypeSet on;
  std::string_view text;
};

struct Dialect {
  std::string_view name;                                 // "c", "cuda", "opencl"
  std::array<std::string_view, kNumDTypes> value_types;  // of variables; empty: the language lacks it
  std::array<std::string_view, kNumDTypes> memory_types;
  std::string_view header;               // starts every source text
  std::vector<Spelling> spellings;       // looked up before the common ones
  std::vector<Helper> helpers;           // in order: a helper may use earlier ones
  std::string_view helper;               // starts a helper
  std::string_view function;             // starts a host function
  std::string_view kernel;               // starts a kernel; $N is the number of threads of a block, $X $Y $Z its sides
  std::string_view restricted;           // after the * of a parameter
  std::string_view shared;               // starts a shared array; $A is its alignment in bytes
  std::string_view dynamic_shared;       // declares the bytes cinn_shared, sized by the launch
  std::array<std::string_view, 6> axes;  // blockIdx.x .. threadIdx.z; empty: there are no kernels
  std::string_view barrier;
  // Where a language does not say which threads shuffle with each other: what starts a kernel with shuffles, and a
  // thread's number in its block, of which each $W that follow each other shuffle; there the axes of threads are digits
  // of that number. Empty: `kernel`, and `axes`.
  std::string_view shuffling_kernel = "", thread = "";
  int64_t subgroup = 1;  // $W
  // Starts a kernel whose blocks come in clusters of $C along x; empty: none do. The helpers that such kernels call:
  // cinn_cluster_start() at their start, cinn_cluster_wait() before what they share, cinn_cluster_barrier(), and
  // cinn_cluster_store(pointer, value, $C) into all blocks' memory at once.
  std::string_view cluster_kernel;
  std::string_view entry = "k";  // starts the name of a generated kernel, of which a hash is the rest
  std::string_view start = "";   // the line that starts a kernel's body; empty: none
  std::string_view assertion;    // one that fails, with the text $0, of a value $1 that is not in $2 .. $3
  // Leaves a kernel that would touch what $0 says at index $1, outside of a buffer of $2 elements.
  std::string_view bounds_error;
  std::string_view parallel;   // the line before a parallel loop
  std::string_view unroll;     // the line before an unrolled loop
  std::string_view unroll_by;  // the line before a loop of which $0 iterations are to stand side by side
  // The line that asks for what lies at $0, a pointer to global memory, ahead of its use. Empty: nothing does.
  std::string_view prefetch;
  std::string_view keep;  // the line before a loop that the compiler is not to unroll
  // The word_* spellings: contiguous accesses of 4, 8 or 16 bytes go through 32-bit words. Empty: element by element.
  std::string_view word_types[3];   // of 1, 2 and 4 words, with fields x y z w
  std::string_view word_makers[3];  // "make_uint2($0, $1)"
  // Loads $0 (a pointer) of memory that the kernel only reads, each byte once.
  std::string_view stream_loads[3];
  // Stores words $1 to $0, a pointer to global memory. Empty: an assignment does.
  std::string_view word_stores[3];
  // Copies of 4, 8 and 16 bytes from global memory at $2 to byte $1 of the shared array $0, asynchronously: $3 bytes,
  // then zeros; the end of a group of copies; waiting for all but the last $0 groups. Empty: copies are made at once.
  std::string_view copies[3], commit_copies = "", await_copies = "";
  // A store of 16 bytes by each of four threads, neighbours in a warp: by thread i to $0 what all have as word i of $1,
  // which is the thread's number and four words. Empty: each thread stores its own.
  std::string_view store_quad = "";
  // Products of tiles by a warp's matrix unit, by the helpers cinn_ldmatrix and cinn_mma of it (ir/mma.h).
  bool has_mma = false;
  // Those of four warps from shared memory in panels (backends/wgmma_printer.h): CUDA's for sm_90a.
  bool has_wgmma = false;

  std::string_view f32_suffix = "f";    // of the names of C's functions
  std::string_view long_suffix = "LL";  // of literals of 64 bits
  // What a pointer's type starts with, by what it points to, each with a blank behind it; then arrays that a block
  // shares stand at the start of the kernel.
  std::string_view global_space = "", shared_space = "";
  // A kernel's pointer parameter is followed by an i64, the bytes to add to it: memory has handles, no addresses.
  bool offset_pointers = false;
  // Of kernels: the type of a parameter that is a number, $T where it is passed as it is; what stands behind each
  // parameter, $I is its number; how many there may be, 0: as many as there are; and those in which `axes` lie, the
  // last.
  std::string_view scalar = "$T", param_end = "";
  size_t max_params = 0;
  std::string_view thread_params = "";
  // The last parameter of kernels with an assertion.
  std::string_view report = "";
  // Stands before a loop over the lanes of a vector, which a store of one is where every lane can be written before the
  // next is read. Empty: lane by lane.
  std::string_view lane_loop = "";

  // Instructions of the device's kernels, which nests of loops say by their kind (ir/intrinsic.h).
  std::span<const Intrinsic> intrinsics = {};

  bool HasCopies() const { return !commit_copies.empty(); }
  bool HasKernels() const { return !axes[0].empty(); }
  bool HasLaneLoops() const { return !lane_loop.empty(); }
  bool HasWords() const { return !word_types[0].empty(); }
  const Spelling* Find(ir::ExprOp op, DType on) const;
  // The spelling that wraps around where C would overflow; null where the plain one does.
  const Spelling* FindWrapping(ir::ExprOp op, DType on) const;
};

const Dialect& CDialect();     // C99
const Dialect& CudaDialect();  // what all archs have
const Dialect& CudaDialect(std::string_view arch);
// OpenCL C 1.2; with sub-groups of more than one thread (a power of 2) also cl_intel_subgroups.
const Dialect& OpenClDialect(int64_t subgroup = 1);
const Dialect& HipDialect();    // HIP C++
const Dialect& MetalDialect();  // Metal Shading Language

// The text of the helpers that `source` calls, and of those that they call.
std::string HelpersFor(const Dialect& d, std::string_view source);

}  // namespace cinn_like::backends
