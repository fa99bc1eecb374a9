// A reduction to few results is one of few tasks (blocks of a GPU, threads of a CPU), which leave most of the machine
// idle. Where that costs more than a second kernel does, it becomes one over parts of its length, then one over the
// parts:
//
//   s[] = sum(x[r]), r in 0..2^28
//     =>  s_part[p] = sum(x[p * 32768 + q]), q in 0..32768;  s[] = sum(s_part[p]), p in 0..8192
//
// A symbolic length has as many parts as it turns out to need; its hint decides whether, and how long they are.
//
// So do sums over columns of what another stage goes through row by row (the gradients of a norm's scale and shift
// beside that of its input), on GPUs, where the number of parts leaves no rest: then the parts are that stage's kernel,
// a block of which takes every so many-th row (FindColumnSums).
//
//   s[c] = sum(x[r, c]), r in 0..16384;  y[i, c] = f(x[i, c], sum(x[i, k]))
//     =>  s_part[p, c] = sum(x[q * 256 + p, c]), q in 0..64, beside y;  s[c] = sum(s_part[p, c]), p in 0..256
//
// What needs a reduction may go through the same columns again (a softmax along them): then they stay whole and are one
// kernel, if they fill the machine; the blocks of a cluster share those that fit into its registers.
//
// On CPUs parts are chunks of rows, of one dimension or several, and the last one may be shorter: a thread adds up what
// a chunk has of the columns while it goes through its rows. Sums that are needed to go through the rows again stay
// whole.
//
//   s[c] = sum(x[r, k, c]), r in 0..n, k in 0..49
//     =>  s_part[p, c] = sum(i < n * 49 ? x[i / 49, i % 49, c] : 0), i = min(p * 256 + q, n * 49 - 1), q in 0..256;
//         s[c] = sum(s_part[p, c]), p in 0..(n * 49 + 255) / 256
//
// And on a CPU so do reductions to fewer neighbouring columns than a vector has lanes (the three colours of images):
// the parts are the columns' neighbours, which fill vectors.
//
//   s[c] = sum(x[r, w, c]), r in 0..224, w in 0..224, c in 0..3
//     =>  s_part[p, c] = sum(x[r, q * 16 + p, c]), p in 0..16;  s[c] = sum(s_part[p, c])
//
// Lines that are too short to be read on their own, for a CPU's vectors or the sectors of a GPU's memory, and go on in
// the next result are columns (the channels of a group, of images whose channels come last):
//
//   s[g] = sum(x[h, g * 10 + c]), h in 0..4096, c in 0..10
//     =>  s_part[g, c] = sum(x[h, g * 10 + c]), h in 0..4096;  s[g] = sum(s_part[g, c]), c in 0..10
//
// No atomics: the order of the sums is fixed. A last part that is not full reduces the start value instead of what
// would lie behind the end. The two stages never share a kernel: a part is what the other stage reduces (FindRowSpace).
#pragma once
#include "cinn_like/base/target.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// The program's stages, with the reductions for which it pays on `target` split. Contractions stay whole.
std::vector<ir::Stage> SplitReductions(const ir::TeProgram& program, const Target& target, ir::NameSupply& names);

}  // namespace cinn_like::hlir
