// Schedule primitives: each takes a Func with blocks and gives one that computes the same, or says why it cannot.
// Loops, blocks and buffers are named; names after `->` are new. tables and text: ir/schedule/schedule.h.
#pragma once
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace cinn_like::ir {

// split i 4 8 -> a b c:  for i in 0..n {S}  =>  for a in 0..ceil(n/32) { for b in 0..4 { for c in 0..8 {S[i :=
// a*32+b*8+c]}}} Blocks inside get the predicate i < n where 32 is not known to divide n.
StatusOr<Func> Split(Func f, const std::string& loop, const std::vector<int64_t>& factors,
                     const std::vector<std::string>& names);

// fuse a b -> c:  for a in 0..m { for b in 0..n {S}}  =>  for c in 0..m*n {S[a := c/n, b := c%n]}. b is all of a's
// body.
StatusOr<Func> Fuse(Func f, const std::vector<std::string>& loops, const std::string& name);

// reorder c a b: these loops of one perfect nest, in this order from outside; the others stay where they are.
StatusOr<Func> Reorder(Func f, const std::vector<std::string>& loops);

// parallel i / vectorize i / unroll i / bind i threadIdx.x. A parallel or vectorized or block-bound loop may not carry
// a reduction; a thread-bound one may (it becomes a cross-thread reduction).
StatusOr<Func> SetKind(Func f, const std::string& loop, const LoopKind& kind);

// inline b: the block's one store (no reduction, buffer is an allocation) is substituted into its readers and removed.
StatusOr<Func> Inline(Func f, const std::string& block);

// reverse_inline b: block b, which alone reads a buffer that another block fills an element at a time, becomes that
// other block's: it runs in its loops, each element where that is computed, and the buffer is gone. inline, with the
// loops of the one before.
StatusOr<Func> ReverseInline(Func f, const std::string& block);

// compute_at b i: the nest of block b moves into loop i, before its first reader there, and computes at each iteration
// only what the readers inside i need. All readers must be inside i.
StatusOr<Func> ComputeAt(Func f, const std::string& block, const std::string& loop);

// reverse_compute_at b i: the nest of block b moves into loop i, which stands before it, to the end of its body, and
// computes at each iteration what that has made complete, each element once.
StatusOr<Func> ReverseComputeAt(Func f, const std::string& block, const std::string& loop);

// peel i back 2 -> j:  for i in 0..n {S}  =>  for i in 0..n-2 {S} for j in 0..2 {S'[i := n-2+j]}, where S' is S with
// names of its own; front: the first iterations. Where n may be less, so many as there are.
StatusOr<Func> Peel(Func f, const std::string& loop, bool front, int64_t count, const std::string& name);

// specialize i n == 64 -> s:  for i in 0..n {S}  =>  if n == 64 { for i_s in 0..64 {S'} } else { for i in 0..n {S} },
// where S' is S as it is under the condition, with names that end in _s. A loop or a block; the condition is of
// symbols, scalars and loops around.
StatusOr<Func> Specialize(Func f, const std::string& target, const std::string& condition, const std::string& name);

// annotate i unroll=4 vectorize=off: what compilers are told of a serial loop.
StatusOr<Func> AnnotateLoop(Func f, const std::string& loop, const std::vector<std::string>& hints);

// prefetch x i 8: at the start of each iteration of the serial loop i, what the one 8 iterations later reads of x,
// memory that caches hold, is asked for, if there is such an iteration.
StatusOr<Func> PrefetchInto(Func f, const std::string& buffer, const std::string& loop, int64_t distance);

// merge a b c:  for a {S} for b {T} for c {U}  =>  for a {S; T[b := a]; U[c := a]}: siblings of equal extent, where
// each reads of what an earlier one writes only what was written at the same iteration.
StatusOr<Func> Merge(Func f, const std::vector<std::string>& loops);

// fission i b -> j:  for i {S; T}  =>  for i {S} for j {T[i := j]}, where S ends with block or loop b: what one part
// touches at an iteration, the other touches at the same one or a later one. The opposite of merge.
StatusOr<Func> Fission(Func f, const std::string& loop, const std::string& after, const std::string& name);

// unroll_jam i:  for i in 0..2 {S; for k {T}}  =>  S[i := 0]; S[i := 1]; for k {T[i := 0]; T[i := 1]}: a copy of the
// body for each of up to 64 iterations, side by side within the loops that they have in common; memory that is theirs
// alone is copied, too. What others call a virtual thread: i stands around a loop of threads.
StatusOr<Func> UnrollJam(Func f, const std::string& loop);

// chain a b c -> h:  merge where later loops need what an earlier one reduces, a maximum, as it is when it is finished:
//   for a {m = max(m, x[a])}  for b {l += exp(x[b] - m)}
//   =>  for a {h_old = m; m = max(m, x[a]); h = exp(h_old - m); l = l * h; l += exp(x[a] - m)}
// Sums go on under the maximum so far, and what was summed under the one before is multiplied by the factor h between
// both, which is derived from the sums' elements. Rounds and overflows otherwise than the loops apart: not for exact
// numerics.
StatusOr<Func> Chain(Func f, const std::vector<std::string>& loops, const std::string& name);

// stage x b -> y: block b reads x through a new buffer y that a new block y_copy fills; compute_at and scope then place
// it.
StatusOr<Func> StageBuffer(Func f, const std::string& buffer, const std::string& block, const std::string& name);

// cache_write y b -> t: block b writes the new buffer t in place of y, all of which it writes, and a new block t_copy
// behind its nest writes y; reverse_compute_at and scope then place it.
StatusOr<Func> CacheWrite(Func f, const std::string& buffer, const std::string& block, const std::string& name);

// scope x local align 64: where the allocation x lives, and the bytes that its first element is aligned to (0: as
// before). Its size and place follow from its uses when blocks are lowered.
StatusOr<Func> SetScope(Func f, const std::string& buffer, Scope scope, int alignment = 0);

// storage_align x 16 8: rows of the last dimension of x, shared or local memory, will lie so many elements apart that
// this is 8 modulo 16: rows then begin in different banks.
StatusOr<Func> StorageAlign(Func f, const std::string& buffer, int64_t factor, int64_t offset);

// transform_layout t[i, j] -> [i / 4, j, i % 4]: element i, j of the allocation t lies at those indices of a t whose
// shape they make, wherever it is written and read. Indices are sums of products, quotients and remainders that tell i
// and j.
StatusOr<Func> TransformLayout(Func f, const std::string& buffer, const std::vector<std::string>& iters,
                               const std::string& indices);

// pipeline k 3: of the serial loop k, what fills shared memory runs 2 iterations ahead of the rest, in one of 3 copies
// of that memory (ir/passes/lower_pipeline.h). 2 to 4 copies.
StatusOr<Func> PipelineLoop(Func f, const std::string& loop, int64_t stages);

// tensorize i mma_m16n8k16: the nest at loop i runs on the matrix unit of a warp (ir/mma.h says which nests can), or by
// instructions of a CPU's vectors (dot2_bf16, transpose: ir/vector_nests.h).
StatusOr<Func> Tensorize(Func f, const std::string& loop, const std::string& intrinsic);

// split_init b k -> b_init: the reduction's start becomes a block of its own in a nest just before loop k, which must
// be outside or equal to every loop that carries the reduction inside it.
StatusOr<Func> SplitInit(Func f, const std::string& block, const std::string& loop, const std::string& name);

// pad b: block b, whose results are allocations, also computes beyond the bounds that its predicate keeps to, so that
// tiles need no branches. What it reads there is harmless: along its last dimension a read is masked to 0, else moved
// to the last element; local and shared memory is read under a mask, or as it is where it was written there, too. The
// extra results must never be read (their readers keep their own predicates). A reduction's end stays, and, where
// `names` has iterators, so do those of all others; of a loop in it, iterations that lie beyond are left out.
StatusOr<Func> Pad(Func f, const std::string& block, const std::vector<std::string>& names = {});

// guard b l:  b: s[i] = s[i] + x[k; k < n && i < m], l the loop of i  =>  b if k < n: s[i] = s[i] + x[k; i < m]. What a
// reduction joins changes nothing unless conditions hold; those that no loop from l inwards moves become the block's,
// which is asked them before the loops that they do not depend on. The reduction has started elsewhere (split_init).
StatusOr<Func> Guard(Func f, const std::string& block, const std::string& loop);

// implement call cinn_f(&x[0], n): the whole function becomes this runtime call; its body stays as the call's meaning.
// That the library computes the same is the caller's word.
StatusOr<Func> Implement(Func f, const std::string& call);

}  // namespace cinn_like::ir
