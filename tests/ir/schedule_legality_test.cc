// Illegal steps are refused, with the reason; legal ones are taken, and compute the same.
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "ir/pass_table.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::ir {
namespace {

struct Illegal {
  const char* name;
  const char* program;  // parameters, and the body
  const char* steps;
  std::vector<const char*> says;
};

class IllegalSteps : public testing::TestWithParam<Illegal> {};

TEST_P(IllegalSteps, AreRefused) {
  const Illegal& c = GetParam();
  const auto f = ParseFunc(c.program);
  ASSERT_TRUE(f.ok()) << f.status();
  ASSERT_TRUE(Verify(*f).ok()) << Verify(*f);
  const auto r = ApplySchedule(*f, c.steps);
  ASSERT_FALSE(r.ok()) << "accepted:\n" << Print(*r);
  for (const char* part : c.says) EXPECT_TRUE(absl::StrContains(r.status().message(), part)) << r.status();
}

const Illegal kIllegal[] = {
    {"ReorderOfFirstCome",  // of equals the one that is come to first, not the lowest place
     R"(func @f(x: f32[8, 8], y: f32[1], z: i64[1]) {
       for i in 0..8 { for j in 0..8 { block a(u reduce 0..8 = i, v reduce 0..8 = j) init { y[0] = -inf
         z[0] = -1 } {
         let first = y[0] < x[u, v]
         let p = select(first, x[u, v], y[0])
         let q = select(first, u * 8 + v, z[0])
         y[0] = p
         z[0] = q } } } })",
     "reorder j i",
     {"the order of j, i can't change", "block a writes y[0] more than once"}},
    {"CacheWriteWithReader",
     R"(func @f(x: f32[8], s: f32[8], y: f32[8]) {
       for i in 0..8 {
         block a(u in 0..8 = i) { s[u] = x[u] + 1.0 }
         block b(v in 0..8 = i) { y[v] = s[v] } } })",
     "cache_write s a -> t",
     {"cache_write s a: block b reads it in the same nest, behind which the copy stands", "for i in 0..8"}},
    {"CacheWriteInPart",
     R"(func @f(x: f32[8], y: f32[8]) {
       for i in 0..7 { block a(u in 0..7 = i) { y[u] = x[u] } } })",
     "cache_write y a -> t",
     {"cache_write y a: the block is not known to write all of it"}},
    {"CacheWriteOfPadded",
     R"(func @f(x: f32[n, 4], y: f32[n]) where n in 1..64 {
       alloc t: f32[n] @local
       for i in 0..n { block a(u in 0..n = i) { t[u] = x[u, 0] } }
       for k in 0..n { block b(v in 0..n = k) { y[v] = t[v] } } })",
     "split i 4 -> io ii\npad a\ncache_write t a -> c",
     {"cache_write t a: block a may write beyond its end, at io * 4 + ii in dimension 0"}},
    {"CacheWriteAfterSplitInit",
     R"(func @f(x: f32[8, 4], y: f32[8]) {
       for i in 0..8 { for k in 0..4 { block s(u in 0..8 = i, r reduce 0..4 = k) init { y[u] = 0.0 } {
         y[u] = y[u] + x[u, r] } } } })",
     "split_init s i -> start\ncache_write y s -> t",
     {"cache_write y s: the block goes on with what is in it"}},
    {"ReverseComputeAtReadsLaterElements",
     R"(func @f(x: f32[9], y: f32[8]) {
       alloc a: f32[9] @global
       for i in 0..9 { block first(u in 0..9 = i) { a[u] = x[u] } }
       for k in 0..8 { block last(w in 0..8 = k) { y[w] = a[w] + a[w + 1] } } })",
     "reverse_compute_at last i",
     {"reverse_compute_at last i: merge: i and i_1 can't be one loop: block first writes a[i] and block last reads "
      "a[i_1 + 1], but not at the same iteration"}},
    {"ReverseComputeAtUnfinishedSum",
     R"(func @f(x: f32[8, 8], y: f32[8]) {
       alloc s: f32[8] @global
       for k in 0..8 { for i in 0..8 { block sum(u in 0..8 = i, r reduce 0..8 = k) init { s[u] = 0.0 } {
         s[u] = s[u] + x[u, r] } } }
       for p in 0..8 { block out(v in 0..8 = p) { y[v] = s[v] } } })",
     "reverse_compute_at out k",
     {"reverse_compute_at out k: each iteration of loop k would run it again"}},
    {"ReverseComputeAtOverlappingTiles",
     R"(func @f(x: f32[9], y: f32[9]) {
       alloc a: f32[9] @global
       for i in 0..4 { for j in 0..3 { block first(u in 0..9 = i * 2 + j) { a[u] = x[u] } } }
       for k in 0..9 { block last(w in 0..9 = k) { y[w] = a[w] } } })",
     "reverse_compute_at last i",
     {"reverse_compute_at last i: its iterations would not run once each: of iterator w in 0..9 those at i * 2 .. + "
      "3"}},
    {"ReverseComputeAtOfAPart",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc a: f32[8] @global
       for i in 0..8 { block first(u in 0..8 = i) { a[u] = x[u] } }
       for k in 0..8 { block last(w in 0..8 = k) { y[w] = a[w] } } })",
     "peel k back 2 -> rest\nreverse_compute_at last i",
     {"reverse_compute_at last i: its loops are not known to run all of iterator w in 0..8"}},
    {"PeelReduction",
     R"(func @f(x: f32[8, 4], y: f32[8]) {
       for i in 0..8 { for k in 0..4 { block s(u in 0..8 = i, r reduce 0..4 = k) init { y[u] = 0.0 } {
         y[u] = y[u] + x[u, r] } } } })",
     "peel k front 1 -> first",
     {"peel k: it carries the reduction of block s, whose start is to be split off first (split_init)"}},
    {"PeelParallel",
     "func @f(y: f32[8]) { for i in 0..8 { block b(u in 0..8 = i) { y[u] = 0.0 } } }",
     "parallel i\npeel i front 1 -> first",
     {"peel i: the loop is already parallel"}},
    {"PeelTooMuch",
     "func @f(y: f32[8]) { for i in 0..8 { block b(u in 0..8 = i) { y[u] = 0.0 } } }",
     "peel i front 8 -> first",
     {"peel i: of its 8 iterations none would be left"}},
    {"FuseDataThatMayNotRunWithReduction",
     R"(func @f(x: f32[n, 4], y: f32[n]) where n in 1..64 {
       for i in 0..n { for k in 0..4 { block s(u in 0..n = i, r reduce 0..4 = k) init { y[u] = 0.0 } {
         y[u] = y[u] + x[u, r] } } } })",
     "peel i front 3 -> first\nfuse i k -> f",
     {"fuse: loop i may not run, and others carry the reduction of block s"}},
    {"MergeReductionWithReader",
     R"(func @f(x: f32[8, 8], y: f32[8, 8]) {
       alloc s: f32[8] @global
       for k in 0..8 { for i in 0..8 { block sum(u in 0..8 = i, r reduce 0..8 = k) init { s[u] = 0.0 } {
         s[u] = s[u] + x[u, r] } } }
       for q in 0..8 { for p in 0..8 { block out(v in 0..8 = p, w in 0..8 = q) { y[v, w] = s[v] } } } })",
     "merge k q",
     {"merge: k and q can't be one loop: block sum writes s[i] and block out reads s[p], but not at the same iteration",
      "for k in 0..8"}},
    {"MergeOverStatement",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc a: f32[8] @global
       alloc t: f32[8] @global
       for i in 0..8 { block first(u in 0..8 = i) { a[u] = x[u] } }
       for j in 0..8 { block between(v in 0..8 = j) { t[v] = a[7 - v] } }
       for k in 0..8 { block last(w in 0..8 = k) { y[w] = t[7 - w] } } })",
     "merge i k",
     {"merge: k can't move past what stands before it, as block between writes t[j] and block last reads t[7 - k]",
      "for j in 0..8"}},
    {"MergeReadsLaterElements",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc a: f32[9] @global
       for i in 0..9 { block first(u in 0..9 = i) { a[u] = x[u % 8] } }
       for k in 0..9 { block last(w in 0..9 = k) if k < 8 { y[w] = a[w + 1] } } })",
     "merge i k",
     {"block first writes a[i] and block last reads a[k + 1], but not at the same iteration"}},
    {"VectorizeScan",
     R"(func @f(x: f32[8], y: f32[8]) {
       for i in 0..7 { block scan(u in 0..7 = i) { y[u + 1] = y[u] + x[u] } } })",
     "vectorize i",
     {"vectorized i: the loop carries a dependence: block scan reads y[i] and block scan writes y[i + 1] in different "
      "iterations",
      "for i in 0..7"}},
    {"ParallelScan",
     R"(func @f(x: f32[8], y: f32[8]) {
       for i in 0..7 { block scan(u in 0..7 = i) { y[u + 1] = y[u] + x[u] } } })",
     "parallel i",
     {"parallel i: the loop carries a dependence: block scan reads y[i] and block scan writes y[i + 1]"}},
    {"ParallelRunningSum",
     R"(func @f(x: f32[8, 16], y: f32[8, 16]) {
       alloc s: f64[8] @global
       for i in 0..8 { for k in 0..16 {
         block run(u in 0..8 = i, r reduce 0..16 = k) init { s[u] = f64(0.0) } {
           let v = s[u] + f64(x[u, r])
           s[u] = v
           y[u, r] = f32(v) } } } })",
     "parallel k",
     {"parallel k: the loop carries a reduction", "for k in 0..16"}},
    {"ThreadsOfARunningSum",
     R"(func @f(x: f32[8, 16], y: f32[8, 16]) {
       alloc s: f64[8] @global
       for i in 0..8 { for k in 0..16 {
         block run(u in 0..8 = i, r reduce 0..16 = k) init { s[u] = f64(0.0) } {
           let v = s[u] + f64(x[u, r])
           s[u] = v
           y[u, r] = f32(v) } } } })",
     "bind k threadIdx.x",
     {"threadIdx.x k: the loop carries a reduction"}},
    {"VectorizeWhatIsNoJoin",
     R"(func @f(x: f32[8, 16], y: f32[8, 16]) {
       alloc s: f32[8] @global
       for i in 0..8 { for k in 0..16 {
         block run(u in 0..8 = i, r reduce 0..16 = k) init { s[u] = 0.0 } {
           let v = s[u] * 0.5 + x[u, r]
           s[u] = v
           y[u, r] = v } } } })",
     "vectorize k",
     {"vectorized k: the loop carries a reduction"}},
    {"ParallelTemporary",
     R"(func @f(x: f32[8, 4], y: f32[8, 4]) {
       alloc t: f32[4] @global
       for i in 0..8 {
         for j in 0..4 { block first(u in 0..8 = i, v in 0..4 = j) { t[v] = x[u, v] } }
         for k in 0..4 { block last(w in 0..8 = i, z in 0..4 = k) { y[w, z] = t[3 - z] } } } })",
     "parallel i",
     {"parallel i: the loop carries a dependence: block first writes t[j] more than once in different iterations"}},
    {"BindScan",
     R"(func @f(x: f32[8], y: f32[8]) {
       for i in 0..7 { block scan(u in 0..7 = i) { y[u + 1] = y[u] + x[u] } } })",
     "bind i threadIdx.x",
     {"threadIdx.x i: the loop carries a dependence: block scan reads y[i] and block scan writes y[i + 1]"}},
    {"ParallelReduction",
     R"(func @f(x: f32[8], y: f32[1]) {
       for k in 0..8 { block sum(r reduce 0..8 = k) init { y[0] = 0.0 } { y[0] = y[0] + x[r] } } })",
     "parallel k",
     {"parallel k: the loop carries a reduction"}},
    {"BindReductionWithoutStart",
     R"(func @f(x: f32[8], y: f32[1]) {
       for k in 0..8 { block sum(r reduce 0..8 = k) init { y[0] = 0.0 } { y[0] = y[0] + x[r] } } })",
     "split_init sum k -> start\nbind k threadIdx.x",
     {"threadIdx.x k: the loop carries the reduction of block sum, whose start was split off"}},
    {"ReorderWavefront",
     R"(func @f(y: f32[9, 9]) {
       for i in 0..8 { for j in 0..8 { block step(u in 0..8 = i, v in 0..8 = j) {
         y[u + 1, v] = y[u, v + 1] * 0.5 } } } })",
     "reorder j i",
     {"reorder: the order of j, i can't change, as the nest carries a dependence: block step reads y[i, j + 1] and "
      "block step writes y[i + 1, j]",
      "for i in 0..8"}},
    {"ReorderNoJoin",
     R"(func @f(x: f32[8, 8], y: f32[1]) {
       for i in 0..8 { for j in 0..8 { block step(u reduce 0..8 = i, v reduce 0..8 = j) init { y[0] = 1.0 } {
         y[0] = y[0] * 0.5 + x[u, v] } } } })",
     "reorder j i",
     {"reorder: the order of j, i can't change"}},
    {"ReorderSameLoopTwice",
     R"(func @f(x: f32[8, 8], y: f32[8, 8]) {
       for a in 0..8 { for b in 0..8 { block c(u in 0..8 = a, v in 0..8 = b) { y[u, v] = x[u, v] } } } })",
     "reorder a a b",
     {"reorder: loop a is named more than once"}},
    {"ReorderParallelInwards",
     R"(func @f(y: f32[9, 8]) {
       for k in 0..8 { for i in 0..8 { block step(r in 0..8 = k, u in 0..8 = i) { y[r + 1, u] = y[r, 7 - u] } } } })",
     "parallel i\nreorder i k",
     {"reorder: the order of i, k can't change"}},
    {"FuseTriangle",
     R"(func @f(x: f32[8, 8], y: f32[8, 8]) {
       for i in 0..8 { for j in 0..i { block c(u in 0..8 = i, v in 0..8 = j) { y[u, v] = x[u, v] } } } })",
     "fuse i j -> k",
     {"fuse: the extent i of loop j depends on loop i"}},
    {"FuseBeyondCounting",
     R"(func @f(x: f32[8], y: f32[8]) {
       for i in 0..4294967296 { for j in 0..4294967296 { block c(u in 0..8 = 0) { y[u] = x[u] } } } })",
     "fuse i j -> k",
     {"fuse: the loops to j have more iterations than can be counted"}},
    {"ParallelStepsBeyondCounting",
     R"(func @f(y: f32[8]) {
       for i in 0..8 { y[i * -9223372036854775808] = 1.0 } })",
     "parallel i",
     {"parallel i: the loop carries a dependence"}},
    {"SplitBareStore",
     R"(func @f(x: f32[10], y: f32[10]) {
       for i in 0..10 { y[i] = x[i] } })",
     "split i 4 -> o n",
     {"split i: 4 is not known to divide the extent 10", "y[o * 4 + n] = x[o * 4 + n]"}},
    {"ComputeAtResultReadInPart",
     R"(func @f(x: f32[8], t: f32[8], y: f32[4]) {
       for i in 0..8 { block a(u in 0..8 = i) { t[u] = x[u] } }
       for p in 0..4 { block b(v in 0..4 = p) { y[v] = t[v] } } })",
     "compute_at a p",
     {"compute_at a p: the result t would not be written everywhere in dimension 0, of which its readers need p .. + "
      "1"}},
    {"ComputeAtTwoStoresPlace",
     R"(func @f(x: f32[8], y: f32[4]) {
       alloc t: f32[8] @global
       for i in 0..4 { block a(u in 0..4 = i) { t[u * 2] = x[u]  t[u * 2 + 1] = x[u + 4] } }
       for p in 0..4 { block b(v in 0..4 = p) { y[v] = t[v] } } })",
     "compute_at a p",
     {"compute_at a p: iterator u does not move what the block writes to t"}},
    {"ComputeAtPastWriterOfInput",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc t: f32[8] @global
       for i in 0..8 { block a(u in 0..8 = i) { t[u] = x[u] } }
       for j in 0..8 { block c(w in 0..8 = j) { x[w] = 0.0 } }
       for p in 0..8 { block b(v in 0..8 = p) { y[v] = t[v] } } })",
     "compute_at a p",
     {"compute_at a p: block c writes x, which the block reads, before it would run there"}},
    {"ComputeAtScan",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc t: f32[8] @global
       for i in 0..8 { block a(u in 0..8 = i) { t[u] = x[u] + t[u - 1; 0 < u] } }
       for p in 0..8 { block b(v in 0..8 = p) { y[v] = t[v] } } })",
     "compute_at a p",
     {"compute_at a p: it reads what it writes to t"}},
    {"ComputeAtOutOfSharedLoop",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc q: f32[8] @global  alloc t: f32[8] @global
       for i in 0..8 {
         block a(u in 0..8 = i) { q[u] = x[u] }
         block b(w in 0..8 = i) { t[w] = q[w] } }
       for p in 0..8 { block c(v in 0..8 = p) { y[v] = t[v] } } })",
     "compute_at b p",
     {"compute_at b p: the block shares loop i, which is not around that one"}},
    {"ScopeOfPaddedRows",
     R"(func @f(x: f32[8, 4], y: f32[8, 4]) {
       alloc t: f32[8, 4] @shared
       for i in 0..8 { for j in 0..4 { block a(u in 0..8 = i, v in 0..4 = j) { t[u, v] = x[u, v] } } }
       for p in 0..8 { for q in 0..4 { block b(w in 0..8 = p, z in 0..4 = q) { y[w, z] = t[w, z] } } } })",
     "storage_align t 4 1\nscope t global",
     {"scope t: storage_align has set its rows apart, which global memory's are not"}},
    {"ComputeAtTwoWriters",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc t: f32[8] @global
       for i in 0..8 { block a(u in 0..8 = i) { t[u] = x[u] } }
       for j in 0..8 { block c(w in 0..8 = j) { t[w] = 0.0 } }
       for p in 0..8 { block b(v in 0..8 = p) { y[v] = t[v] } } })",
     "compute_at a p",
     {"compute_at a p: block c writes t, too"}},
    {"StageAboveProducer",
     R"(func @f(x: f32[8, 4], y: f32[8, 4]) {
       alloc t: f32[8, 4] @global
       for p in 0..8 {
         for i in 0..4 { block a(u in 0..8 = p, v in 0..4 = i) { t[u, v] = x[u, v] } }
         for j in 0..4 { block b(w in 0..8 = p, z in 0..4 = j) { y[w, z] = t[w, z] } } } })",
     "stage t b -> ts",
     {"stage t: block a writes it in the nest of block b, before which the copy stands"}},
    {"InlineMaskedStore",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc t: f32[8] @global
       for i in 0..8 { block z(o in 0..8 = i) { t[o] = 0.0 } }
       for j in 0..8 { block a(u in 0..8 = j) { t[u; u < 4] = x[u] } }
       for p in 0..8 { block b(v in 0..8 = p) { y[v] = t[v] } } })",
     "inline a",
     {"inline a: it writes under a mask"}},
    {"InlineTwoWriters",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc t: f32[8] @global
       for i in 0..8 { block z(o in 0..8 = i) { t[o] = 0.0 } }
       for j in 0..8 { block a(u in 0..8 = j) if j < 4 { t[u] = x[u] } }
       for p in 0..8 { block b(v in 0..8 = p) { y[v] = t[v] } } })",
     "inline a",
     {"inline a: block z writes t, too"}},
    {"InlineAfterSplitInit",
     R"(func @f(x: f32[8, 4], y: f32[8]) {
       alloc t: f32[8] @global
       for i in 0..8 { for k in 0..4 { block a(u in 0..8 = i, r reduce 0..4 = k) init { t[u] = 0.0 } {
         t[u] = t[u] + x[u, r] } } }
       for p in 0..8 { block b(v in 0..8 = p) { y[v] = t[v] } } })",
     "split_init a k -> start\ninline a",
     {"inline a: only a block of one store without reduction can be inlined"}},
    {"PadInGlobalMemory",
     R"(func @f(x: f32[10], y: f32[10]) {
       alloc t: f32[10] @global
       for i in 0..10 { block a(u in 0..10 = i) { t[u] = x[u] } }
       for p in 0..10 { block b(v in 0..10 = p) { y[v] = t[v] } } })",
     "split i 4 -> io ii\npad a",
     {"pad a: its result t is in global memory"}},
    {"ScopeKeepsNoValues",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc t: f32[8] @global
       for i in 0..8 {
         block a(u in 0..8 = i) { t[u] = x[u] }
         block b(v in 0..8 = i) { y[v] = t[v - 1; 0 < v] } } })",
     "scope t local",
     {"scope t local: loop i holds all of its uses", "block a writes t[i] and block b reads t[i - 1]"}},
    {"SplitInitOfRepeatedReduction",
     R"(func @f(x: f32[4], y: f32[1]) {
       for q in 0..3 { for k in 0..4 { block s(r reduce 0..4 = k) init { y[0] = 0.0 } { y[0] = y[0] + x[r] } } } })",
     "split_init s q -> start",
     {"split_init s q: loop q repeats the reduction, each time from its start"}},
    {"InlineLeavesScan",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc t: f32[8] @local
       alloc z: f32[8] @global
       for i in 0..8 { block a(u in 0..8 = i) { t[u] = t[u - 1; 0 < u] + x[u] } }
       for j in 0..8 { block c(w in 0..8 = j) { z[w] = t[w] } }
       for p in 0..8 { block b(v in 0..8 = p) { y[v] = x[v] } } })",
     "inline c",
     {"inline c: memory t: loop i holds all of its uses", "block a writes t[i] and block a reads t[i - 1]"}},
    {"MergeKeepsNoValues",
     R"(func @f(x: f32[8], y: f32[8]) {
       alloc t: f32[8] @local
       for i in 0..8 { block a(u in 0..8 = i) { t[u] = x[u] } }
       for p in 0..8 { block b(v in 0..8 = p) { y[v] = t[v - 1; 0 < v] } } })",
     "merge i p",
     {"merge: memory t: loop i holds all of its uses"}},
    {"PadWritesElsewhere",
     R"(func @f(x: f32[10], y: f32[10]) {
       alloc t: f32[10] @local
       for io in 0..3 { for ii in 0..4 { block a(u in 0..10 = io * 4 + ii) if io * 4 + ii < 10 { t[9 - u] = x[u] } } }
       for p in 0..10 { block b(v in 0..10 = p) { y[v] = t[v] } } })",
     "pad a",
     {"pad a: beyond 10, u would write other elements of t"}},
    {"PadDivides",
     R"(func @f(x: i32[10], y: i32[10]) {
       alloc t: i32[10] @local
       for i in 0..10 { block a(u in 0..10 = i) { t[u] = i32(7) / x[u] } }
       for p in 0..10 { block b(v in 0..10 = p) { y[v] = t[v] } } })",
     "split i 4 -> io ii\npad a",
     {"pad a: it divides by what may be 0 beyond its bounds"}},
    {"PadNamesNothing",
     R"(func @f(x: f32[10], y: f32[10]) {
       alloc t: f32[10] @local
       for i in 0..10 { block a(u in 0..10 = i) { t[u] = x[u] } }
       for p in 0..10 { block b(v in 0..10 = p) { y[v] = t[v] } } })",
     "split i 4 -> io ii\npad a p",
     {"pad a: 'p' is none of its iterators, u, and no loop around it"}},
    {"PadAfterSplitInit",
     R"(func @f(x: f32[10, 4], y: f32[10]) {
       alloc t: f32[10] @local
       for i in 0..10 { for k in 0..4 { block s(u in 0..10 = i, r reduce 0..4 = k) init { t[u] = 0.0 } {
         t[u] = t[u] + x[u, r] } } }
       for p in 0..10 { block b(v in 0..10 = p) { y[v] = t[v] } } })",
     "split i 4 -> io ii\nsplit_init s k -> start\npad s",
     {"pad s: it continues t, which is not known to be started beyond its bounds"}},
    {"BindSiblingsThatMeet",
     R"(func @f(x: f32[4, 32], y: f32[4, 32]) {
       alloc t: f32[4, 32] @global
       for i in 0..4 {
         for j in 0..32 { block a(u in 0..4 = i, v in 0..32 = j) { t[u, v] = x[u, v] } }
         for q in 0..32 { block b(w in 0..4 = i, z in 0..32 = q) { y[w, z] = t[w, 31 - z] } } } })",
     "bind i blockIdx.x\nbind j threadIdx.x\nbind q threadIdx.x",
     {"threadIdx.x q: threads would meet in memory, with nothing to wait for: block a writes t[i, j] and block b reads "
      "t[i, 31 - q] in different threads"}},
    {"BindBlocksThatMeet",
     R"(func @f(x: f32[4, 32], y: f32[4, 32]) {
       alloc t: f32[4, 32] @global
       for j in 0..32 {
         for i in 0..4 { block a(u in 0..4 = i, v in 0..32 = j) { t[u, v] = x[u, v] } }
         for p in 0..4 { block b(w in 0..4 = p, z in 0..32 = j) { y[w, z] = t[3 - w, z] } } } })",
     "bind j blockIdx.x\nbind i blockIdx.y\nbind p blockIdx.y",
     {"blockIdx.y p: threads would meet in memory", "block a writes t[i, j] and block b reads t[3 - p, j]"}},
    {"BindMeetsInLaterIteration",
     R"(func @f(x: f32[8], y: f32[12]) {
       for k in 0..4 { for j in 0..8 { block a(u in 0..4 = k, v in 0..8 = j) { y[u + v] = y[u + v] + x[v] } } } })",
     "bind j threadIdx.x",
     {"threadIdx.x j: threads would meet in memory", "block a reads y[j + k] and block a writes y[j + k]"}},
    {"BindMeetsInSharedMemory",
     R"(func @f(x: f32[8], y: f32[12]) {
       alloc t: f32[12] @shared
       for i in 0..1 {
         for k in 0..4 { for j in 0..8 { block a(u in 0..4 = k, v in 0..8 = j) { t[u + v] = x[v] } } }
         for p in 0..8 { block b(w in 0..8 = p) { y[w] = t[w] } } } })",
     "bind i blockIdx.x\nbind p threadIdx.x\nbind j threadIdx.x",
     {"threadIdx.x j: threads would meet in memory", "block a writes t[j + k] more than once"}},
};

// What only the whole schedule shows is refused when it is lowered.
TEST(IllegalSchedules, FirstThreadReadsWhatOthersWrite) {
  const auto f = ParseFunc(R"(func @f(x: f32[4, 32], y: f32[4]) {
    alloc t: f32[4, 32] @global
    for i in 0..4 {
      for j in 0..32 { block a(u in 0..4 = i, v in 0..32 = j) { t[u, v] = x[u, v] } }
      block b(w in 0..4 = i) { y[w] = t[w, 7] } } })");
  ASSERT_TRUE(f.ok()) << f.status();
  const auto r = ApplySchedule(*f, "bind i blockIdx.x\nbind j threadIdx.x");
  ASSERT_TRUE(r.ok()) << r.status();
  const Target target = *Target::Parse("cuda -arch=sm_90a");
  const auto lowered = LowerKernel(*r, {.options = {}, .target = target, .name = "test"});
  EXPECT_TRUE(absl::StrContains(lowered.status().message(),
                                "@f: threads would meet in memory, with nothing to wait for: block a writes t[i, j] "
                                "and block b reads t[i, 7] in different threads"))
      << lowered.status();
}

constexpr char kTwo[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc t: f32[n, 12] @global
  for i in 0..n { for j in 0..12 { block a(u in 0..n = i, v in 0..12 = j) { t[u, v] = x[u, v] + 1.0 } } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) { y[w, z] = t[w, z] * 2.0 } } } })";
constexpr char kSum[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc t: f32[n] @global
  for i in 0..n { for k in 0..12 { block s(u in 0..n = i, r reduce 0..12 = k) init { t[u] = 0.0 } {
    t[u] = t[u] + x[u, r] } } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) { y[w, z] = x[w, z] - t[w] } } } })";
constexpr char kTurn[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc t: f32[12, n] @global
  for i in 0..n { for j in 0..12 { block a(u in 0..n = i, v in 0..12 = j) { t[v, u] = x[u, v] } } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) { y[w, z] = t[z, w] } } } })";
constexpr char kScan[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc t: f32[n, 12] @global
  for i in 0..n { for j in 0..12 { block a(u in 0..n = i, v in 0..12 = j) {
    t[u, v] = t[u, v - 1; 0 < v] + x[u, v] } } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) { y[w, z] = t[w, 11 - z] } } } })";

constexpr char kDown[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc t: f32[n, 12] @global
  for i in 0..n { for j in 0..12 { block a(u in 0..n = i, v in 0..12 = j) { t[u, v] = x[u, v] } } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) {
    y[w, z] = t[n - 1 - w, z] + t[n - 1 - w, 11] } } } })";
constexpr char kCount[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc t: f32[n] @global
  for i in 0..n { for k in 0..12 { block s(u in 0..n = i, r reduce 0..12 = k) init { t[u] = 0.0 } {
    t[u] = t[u] + x[u, 3] } } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) { y[w, z] = x[w, z] - t[w] } } } })";

constexpr char kBack[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc t: f32[n] @global
  for i in 0..n { for k in 0..12 { block s(u in 0..n = i, r reduce 0..12 = k) init { t[u] = 0.0 } {
    t[u] = t[u] + x[u, 11 - r] } } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) { y[w, z] = x[w, z] - t[w] } } } })";

constexpr char kRun[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc s: f64[n] @global
  alloc t: f32[n, 12] @global
  for i in 0..n { for k in 0..12 { block run(u in 0..n = i, r reduce 0..12 = k) init { s[u] = f64(0.0) } {
    let a = s[u] + f64(x[u, r])
    s[u] = a
    t[u, r] = f32(a) } } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) { y[w, z] = t[w, z] * 2.0 } } } })";

// Rows of t are apart as e / 12 is below n, which the condition that a split leaves says.
constexpr char kAcross[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc t: f32[n * 12] @global
  for e in 0..n * 12 { block a(u in 0..n * 12 = e) { t[n * (u % 12) + u / 12] = x[u / 12, u % 12] + 1.0 } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) { y[w, z] = t[n * z + w] } } } })";
// So do columns of y, which a condition keeps below 12.
constexpr char kBelow[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc t: f32[n * 12] @global
  for i in 0..n { for j in 0..8 { for v in 0..4 { block a(u in 0..n = i, s in 0..12 = j * 4 + v) if j < 3 {
    t[u * 12 + s] = x[u, s] + 1.0 } } } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) { y[w, z] = t[w * 12 + z] } } } })";

// Lines that begin in the middle of a word, which differs from row to row.
constexpr char kApart[] = R"(func @f(x: f32[n, 12], y: f32[n, 12]) where n in 1..64 {
  alloc t: f32[n, 3, 4] @global
  for i in 0..n { for j in 0..3 { for c in 0..8 { block a(u in 0..n = i, s in 0..3 = j, k in 0..8 = c)
    if (i * 3 + j) * 5 % 4 <= c && c < (i * 3 + j) * 5 % 4 + 4 {
    t[u, s, k - (u * 3 + s) * 5 % 4] = x[u, s * 4 + k - (u * 3 + s) * 5 % 4] + 1.0 } } } }
  for p in 0..n { for q in 0..12 { block b(w in 0..n = p, z in 0..12 = q) { y[w, z] = t[w, z / 4, z % 4] } } } })";

struct Legal {
  const char* program;
  const char* steps;
};
const Legal kLegal[] = {
    {kTwo, "split i 4 -> ao ai"},
    {kTwo, "split i 5 -> ao ai"},
    {kTwo, "split j 2 3 -> ao am ai"},
    {kTwo, "fuse i j -> ij"},
    {kTwo, "reorder j i"},
    {kTwo, "reorder q p"},
    {kTwo, "parallel i"},
    {kTwo, "parallel p"},
    {kTwo, "vectorize j"},
    {kTwo, "unroll j"},
    {kTwo, "unroll q"},
    {kTwo, "fuse i j -> ij\nparallel ij"},
    {kTwo, "split i 4 -> ao ai\nreorder ai ao j"},
    {kTwo, "split i 5 -> ao ai\nparallel ao"},
    {kTwo, "split j 4 -> ao ai\nvectorize ai"},
    {kTwo, "merge i p"},
    {kTwo, "merge i p\nmerge j q"},
    {kTwo, "merge i p\nparallel i"},
    {kTwo, "inline a"},
    {kTwo, "reverse_compute_at b i"},
    {kTwo, "reverse_compute_at b j"},
    {kTwo, "reverse_compute_at b i\nscope t local\nparallel i"},
    {kTwo, "split i 4 -> io ii\nreverse_compute_at b io\nparallel io"},
    {kTwo, "parallel i\nreverse_compute_at b i"},
    {kTwo, "split i 4 -> io ii\nsplit j 3 -> jo ji\nreorder io jo ii ji\nreverse_compute_at b jo\nscope t local"},
    {kTwo, "cache_write y b -> ys\nreverse_compute_at ys_copy p\nscope ys local"},
    {kTwo, "cache_write t a -> ts\nreverse_compute_at ts_copy j\nscope ts local\nreverse_compute_at b i"},
    {kTwo, "split i 4 -> io ii\npeel io back 1 -> tail\nvectorize ii"},
    {kTwo, "peel i front 3 -> first\nparallel i"},
    {kTwo, "peel i back 5 -> last\npeel last front 2 -> middle"},
    {kTwo, "reverse_compute_at b i\nscope t local\npeel i back 2 -> last\nparallel i"},
    {kSum, "reverse_compute_at b i"},
    {kSum, "cache_write t s -> sums\nreverse_compute_at sums_copy i\nscope sums local\nreverse_compute_at b i"},
    {kSum, "split_init s k -> start\npeel k back 2 -> last"},
    {kSum, "split k 5 -> ko ki\nsplit_init s ko -> start\npeel ko back 1 -> tail"},
    {kTurn, "reverse_compute_at b i"},
    {kScan, "reverse_compute_at b i"},
    {kTwo, "compute_at a p"},
    {kTwo, "compute_at a q"},
    {kTwo, "compute_at a p\nscope t local"},
    {kTwo, "compute_at a p\nscope t local\nparallel p"},
    {kTwo, "parallel p\nscope t local\ncompute_at a p"},
    {kTwo, "stage x a -> xs"},
    {kTwo, "stage x a -> xs\ncompute_at xs_copy i\nscope xs local"},
    {kTwo, "stage t b -> ts"},
    {kTwo, "stage t b -> ts\nscope ts local\ncompute_at ts_copy p"},
    {kTwo,
     "split i 2 -> io ii\nsplit p 4 -> po pi\nscope t local\nstage t b -> ts\nscope ts local\n"
     "compute_at ts_copy pi\npad ts_copy"},
    {kTwo, "scope t local"},
    {kTwo, "merge i p\nscope t local"},
    {kTwo, "split p 4 -> po pi\nscope t local\ncompute_at a po\npad a"},
    {kTwo, "fuse i j -> e\nsplit e 8 -> eb et\nparallel eb\nvectorize et"},
    {kTwo, "split p 4 -> po pi\ncompute_at a po\nparallel po"},
    {kSum, "reorder k i"},
    {kSum, "split k 4 -> ko ki"},
    {kSum, "split k 4 -> ko ki\nreorder ko i ki"},
    {kSum, "split k 5 -> ko ki\nvectorize ki"},
    {kSum, "parallel i"},
    {kSum, "parallel i\nvectorize k"},
    {kSum, "unroll k"},
    {kSum, "split_init s k -> start"},
    {kSum, "split_init s i -> start"},
    {kSum, "split i 4 -> io ii\nsplit_init s k -> start\nparallel io"},
    {kSum, "merge i p"},
    {kSum, "merge i p\nscope t local\nparallel i"},
    {kSum, "compute_at s p"},
    {kSum, "compute_at s p\nscope t local"},
    {kSum, "compute_at s p\nsplit_init s k_1 -> start"},
    {kSum, "compute_at s q"},
    {kSum, "stage x s -> xs\ncompute_at xs_copy i\nscope xs local"},
    {kSum, "reorder k i\nsplit i 4 -> io ii\nvectorize ii"},
    {kSum, "fuse i k -> ik"},
    {kCount, "vectorize k"},
    {kCount, "reorder k i\nvectorize k"},
    {kBack, "split k 1 -> ko ki\nsplit ki 3 -> kn kl\nsplit ko 5 -> kp kq\nvectorize kl"},
    {kTurn, "reorder j i"},
    {kTurn, "parallel i"},
    {kTurn, "parallel j"},
    {kTurn, "split i 4 -> io ii\nvectorize ii"},
    {kTurn, "compute_at a p"},
    {kTurn, "compute_at a p\nscope t local\nparallel p"},
    {kTurn, "inline a"},
    {kTurn, "stage t b -> ts"},
    {kTurn, "fuse i j -> ij\nparallel ij"},
    {kTurn, "split i 4 -> io ii\nsplit j 2 -> jo ji\nreorder io jo ii ji"},
    {kDown, "compute_at a p\nscope t local"},
    {kRun, "parallel i"},
    {kRun, "vectorize k"},
    {kRun, "split k 5 -> ko ki\nvectorize ki"},
    {kRun, "reorder k i"},
    {kRun, "unroll k"},
    {kRun, "split_init run k -> start"},
    {kRun, "split k 8 -> ko ki\nvectorize ki\nsplit_init run ko -> start"},
    {kRun, "split i 4 -> io ii\nreorder io k ii\nvectorize ii\nparallel io"},
    {kRun, "merge i p\nmerge k q\nscope t local\nscope s local"},
    {kRun, "merge i p\nsplit k 4 -> ko ki\nsplit q 4 -> qo qi\nvectorize ki\nmerge ko qo\nscope t local\nparallel i"},
    {kScan, "parallel i"},
    {kScan, "split i 4 -> io ii\nparallel io"},
    {kScan, "unroll j"},
    {kScan, "reorder j i"},
    {kScan, "split i 4 -> io ii\nvectorize ii"},
    {kScan, "split j 4 -> jo ji"},
    {kScan, "merge i p"},
    {kScan, "fuse i j -> e"},
    {kAcross, "parallel e"},
    {kAcross, "split e 8 -> eo ei\nparallel eo"},
    {kAcross, "split e 8 -> eo ei\nreorder ei eo\nparallel ei"},
    {kBelow, "reorder v j i"},
    {kBelow, "parallel i"},
    {kBelow, "reorder j i v\nparallel j"},
    {kApart, "split c 4 -> co cl\nfuse i j co -> e\nparallel e"},
    {kApart, "fuse i j c -> e\nsplit e 8 -> eb et\nparallel eb\nvectorize et"},
};

StatusOr<std::vector<uint8_t>> ResultsOf(const Func& f, int64_t n) {
  HostArray x(DType::kF32, {n, 12}), y(DType::kF32, {n, 12});
  for (int64_t i = 0; i < n * 12; ++i) x.Set(i, static_cast<double>(i * 7 % 11));
  RETURN_IF_ERROR(Interpret(f, {&x, &y}, {{"n", n}}));
  return std::vector<uint8_t>(y.bytes.begin(), y.bytes.end());
}

TEST(LegalSteps, AreTakenAndComputeTheSame) {
  for (const Legal& c : kLegal) {
    const auto f = ParseFunc(c.program);
    ASSERT_TRUE(f.ok()) << f.status();
    auto r = ApplySchedule(*f, c.steps);
    EXPECT_TRUE(r.ok()) << c.steps << "\n" << r.status();
    if (!r.ok()) continue;
    for (const char* pass :
         {"lower_blocks", "simplify", "place_buffers", "unroll", "flatten", "simplify", "vectorize"}) {
      r = FindPass(pass)->run(*r, {});
      ASSERT_TRUE(r.ok()) << c.steps << "\n" << pass << ": " << r.status();
    }
    for (int64_t n : {1, 4, 9}) {
      const auto want = ResultsOf(*f, n), got = ResultsOf(*r, n);
      ASSERT_TRUE(want.ok()) << want.status();
      ASSERT_TRUE(got.ok()) << c.steps << "\n" << got.status() << "\n" << Print(*r);
      EXPECT_EQ(*got, *want) << c.steps << "\n" << Print(*r);
    }
  }
}

// A loop that runs once, if at all, takes no part in the places of those it is fused with.
TEST(LegalSteps, FuseWithLoopsThatRunAtMostOnce) {
  for (const char* most : {"16", "17"}) {
    const auto f = ParseFunc(Cat("func @f(x: f32[n, m], y: f32[n, m]) where n in 1..64, m in 0..", most, R"( {
      for i in 0..n { for j in 0..m { block b(u in 0..n = i, v in 0..m = j) { y[u, v] = x[u, v] } } } })"));
    ASSERT_TRUE(f.ok()) << f.status();
    const auto r = ApplySchedule(*f, "split j 16 -> jo ji\nfuse i jo -> p\nparallel p");
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_EQ(absl::StrContains(Print(*r), "u in 0..n = p,"), *(most + 1) == '6') << Print(*r);
  }
}

// A predicate that is no bound stays.
TEST(LegalSteps, PadKeepsOtherConditions) {
  const auto f = ParseFunc(R"(func @f(x: f32[10], y: f32[10]) {
    alloc t: f32[10] @local
    for io in 0..3 {
      for ii in 0..4 { block a(u in 0..10 = io * 4 + ii) if io * 4 + ii < 10 && io < 2 { t[u] = x[u] } }
      for q in 0..4 { block b(v in 0..10 = io * 4 + q) if io * 4 + q < 10 && io < 2 { y[v] = t[v] } } } })");
  ASSERT_TRUE(f.ok()) << f.status();
  const auto r = ApplySchedule(*f, "pad a");
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_TRUE(absl::StrContains(Print(*r), "block a(u in 0..10 = io * 4 + ii) if io < 2 {")) << Print(*r);
}

// A size is the same everywhere: one that may be 0 is asked for. Other divisors that may be are refused (PadDivides).
TEST(LegalSteps, PadDividesBySizes) {
  const char* text = R"(func @f(x: f32[n, m], y: f32[n * m]) where n in 1..9, m in LEAST..9 {
    alloc t: f32[n * m] @local
    for io in 0..(n * m + 3) / 4 {
      for ii in 0..4 { block a(u in 0..n * m = io * 4 + ii) if io * 4 + ii < n * m { t[u] = x[u / m, u % m] } }
      for q in 0..4 { block b(v in 0..n * m = io * 4 + q) if io * 4 + q < n * m { y[v] = t[v] } } } })";
  for (const char* least : {"1", "0"}) {
    const auto f = ParseFunc(absl::StrReplaceAll(text, {{"LEAST", least}}));
    ASSERT_TRUE(f.ok()) << f.status();
    const auto r = ApplySchedule(*f, "pad a");
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_EQ(absl::StrContains(Print(*r), "block a(u in 0..n * m = io * 4 + ii) if 0 < m {"), *least == '0')
        << Print(*r);
  }
}

// What is kept inside of a dimension is so in its mask, too: the mask of an element beyond says nothing of the last.
TEST(LegalSteps, PadMovesMasksWithTheirIndices) {
  const auto f = ParseFunc(R"(func @f(x: f32[2, 4], y: f32[5, 4]) {
    alloc t: f32[5, 4] @local
    for io in 0..2 {
      for ii in 0..4 { for j in 0..4 { block a(u in 0..5 = io * 4 + ii, v in 0..4 = j) if io * 4 + ii < 5 {
        t[u, v] = x[u / 2, v; u % 4 < 3 && u < 4 || 5 <= u] } } }
      for p in 0..4 { for q in 0..4 { block b(w in 0..5 = io * 4 + p, z in 0..4 = q) if io * 4 + p < 5 {
        y[w, z] = t[w, z] } } } } })");
  ASSERT_TRUE(f.ok()) << f.status();
  auto r = ApplySchedule(*f, "pad a");
  ASSERT_TRUE(r.ok()) << r.status();
  for (const char* pass : {"lower_blocks", "simplify", "place_buffers", "flatten"}) {
    r = FindPass(pass)->run(*r, {});
    ASSERT_TRUE(r.ok()) << pass << ": " << r.status();
  }
  HostArray x(DType::kF32, {2, 4}), y(DType::kF32, {5, 4});
  for (int64_t i = 0; i < 8; ++i) x.Set(i, 1);
  const Status run = Interpret({r->context, {*r}}, "f", {&x, &y}, {});
  EXPECT_TRUE(run.ok()) << run << Print(*r);
}

// Each thread computes what it keeps for itself, and none but the first waits for what the first has written.
TEST(IllegalSchedules, AllThreadsReadWhatTheFirstWrites) {
  const Target target = *Target::Parse("cuda -arch=sm_90a");
  for (const char* reads : {"r[w] = t[w]", "let c = t[w]\nr[w] = c", "if 0.0 < t[w] { r[w] = 1.0 }"}) {
    for (const char* scope : {"local", "global"}) {
      const auto f = ParseFunc(Cat(R"(func @f(x: f32[4, 8], y: f32[4, 8]) {
        alloc t: f32[4] @global
        alloc r: f32[4] @)",
                                   scope, R"(
        for i in 0..4 @blockIdx.x {
          block a(u in 0..4 = i) { t[u] = x[u, 0] }
          block b(w in 0..4 = i) {)",
                                   reads, R"(}
          for q in 0..8 @threadIdx.x { block c(p in 0..4 = i, z in 0..8 = q) { y[p, z] = x[p, z] } } } })"));
      ASSERT_TRUE(f.ok()) << f.status();
      const auto lowered = LowerKernel(*f, {.options = {}, .target = target, .name = "test"});
      const bool meets = std::string_view(scope) == "local" || absl::StartsWith(reads, "if");
      EXPECT_EQ(absl::StrContains(lowered.status().message(), "block b reads t[i] in different threads"), meets)
          << lowered.status() << Print(*f);
    }
  }
}

// What the thread before has in its own memory no thread can read.
TEST(IllegalSchedules, ThreadReadsItsNeighboursMemory) {
  const auto f = ParseFunc(R"(func @f(x: f32[4, 8], y: f32[4, 8]) {
    alloc t: f32[4, 8] @local
    for i in 0..4 {
      for j in 0..8 { block a(u in 0..4 = i, v in 0..8 = j) { t[u, v] = x[u, v] } }
      for q in 0..8 { block b(w in 0..4 = i, z in 0..8 = q) { y[w, z] = t[w, z - 1; 0 < z] } } } })");
  ASSERT_TRUE(f.ok()) << f.status();
  const auto r = ApplySchedule(*f, "bind i blockIdx.x\nbind j threadIdx.x\nbind q threadIdx.x");
  ASSERT_TRUE(r.ok()) << r.status();
  const Target target = *Target::Parse("cuda -arch=sm_90a");
  const auto lowered = LowerKernel(*r, {.options = {}, .target = target, .name = "test"});
  EXPECT_TRUE(absl::StrContains(lowered.status().message(),
                                "local buffer t: in dimension 1 its uses do not belong to one thread each"))
      << lowered.status();
}

// Nor what another block has in its shared memory.
TEST(IllegalSchedules, BlockReadsAnothersSharedMemory) {
  const auto f = ParseFunc(R"(func @f(x: f32[4, 8], y: f32[4, 8]) {
    alloc t: f32[4, 8] @shared
    for i in 0..4 {
      for j in 0..8 { block a(u in 0..4 = i, v in 0..8 = j) { t[u, v] = x[u, v] } }
      for q in 0..8 { block b(w in 0..4 = i, z in 0..8 = q) { y[w, z] = t[w, 7 - z] } } } })");
  ASSERT_TRUE(f.ok()) << f.status();
  const Target target = *Target::Parse("cuda -arch=sm_90a");
  for (const char* steps :
       {"bind j blockIdx.x\nbind i blockIdx.y", "bind q threadIdx.x\nbind j blockIdx.x\nbind i blockIdx.y"}) {
    const auto r = ApplySchedule(*f, steps);
    ASSERT_TRUE(r.ok()) << r.status();
    const auto lowered = LowerKernel(*r, {.options = {}, .target = target, .name = "test"});
    EXPECT_TRUE(absl::StrContains(lowered.status().message(),
                                  "block a writes t[i, j] and block b reads t[i, 7 - q] in different threads"))
        << lowered.status();
  }
}

// A producer that writes transposed is computed at the iterators that its readers need.
TEST(LegalSteps, ComputeAtOfTransposedStore) {
  const auto f = ParseFunc(R"(func @f(x: f32[8, 4], y: f32[4, 8]) {
    alloc t: f32[4, 8] @global
    for i in 0..8 { for j in 0..4 { block a(u in 0..8 = i, v in 0..4 = j) { t[v, u] = x[u, v] } } }
    for p in 0..4 { for q in 0..8 { block b(w in 0..4 = p, z in 0..8 = q) { y[w, z] = t[w, z] } } } })");
  ASSERT_TRUE(f.ok()) << f.status();
  const auto r = ApplySchedule(*f, "compute_at a p");
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_TRUE(absl::StrContains(Print(*r), "block a(u in 0..8 = l_u, v in 0..4 = p) {")) << Print(*r);
}

// A schedule knows what each step made.
TEST(ScheduleHistory, StepsSideBySide) {
  const auto f = ParseFunc(R"(func @f(x: f32[8], y: f32[8]) {
    for i in 0..8 { block b(u in 0..8 = i) { y[u] = x[u] } } })");
  ASSERT_TRUE(f.ok()) << f.status();
  Schedule s(*f);
  EXPECT_EQ(s.Diff(), Schedule(*f).Diff(0, 0));
  s.Run("split i 4 -> io ii").Run("vectorize ii");
  EXPECT_FALSE(s.Try("vectorize io ii"));
  ASSERT_EQ(s.history().size(), 3u);
  EXPECT_EQ(s.history()[1].step, "split i 4 -> io ii");
  EXPECT_EQ(Print(s.history()[2].func), Print(s.func()));
  EXPECT_TRUE(absl::StrContains(s.Diff(), "|     for ii in 0..4 @vectorized {")) << s.Diff();
  EXPECT_TRUE(s.Diff(0, -1).starts_with("0: stages ")) << s.Diff(0, -1);
  EXPECT_TRUE(absl::StrContains(s.Diff(0, -1), "2: vectorize ii\n")) << s.Diff(0, -1);
}

INSTANTIATE_TEST_SUITE_P(All, IllegalSteps, testing::ValuesIn(kIllegal),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cinn_like::ir
