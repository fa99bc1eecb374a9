// Steps on stages, the first half of a schedule: each takes a program and gives one that computes the same, or says why
// it can't, naming the stage. Stages, buffers and iterators are named; names after `->` and left of `=` are new. Table
// and text: ir/schedule/schedule.h; the text form of a program is its naive loops (ToLoops).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/analyzer.h"
#include "ir/te.h"

namespace cinn_like::ir {

// align y x:  y[i, j] = f(x[j, i])  =>  y[j_o, i_o] = f(x[i_o, j_o]) for i_o, j_o of x. A pointwise stage that reads
// all of another one, rearranged, runs over that one's iterators instead and writes where it did. Or of one that reads
// each element of what it reads, too.
StatusOr<TeProgram> Align(TeProgram p, const std::string& stage, const std::string& to);
// The stage alone; `names`: of its new iterators. `a` has the facts of symbols.
StatusOr<Stage> AlignStage(Analyzer& a, Stage s, const Stage& to, const std::vector<std::string>& names);

// keep o -> t:  o[i] = f(i); y[i] = g(o[i])  =>  t[i] = f(i); o[i] = t[i]; y[i] = g(t[i]). A result becomes an
// allocation, which later stages read, and the stage copy_o.
StatusOr<TeProgram> Keep(TeProgram p, const std::string& result, const std::string& name);

// inline_stage t:  t[i] = f(i); y[j] = g(t[j])  =>  y[j] = g(f(j)). A pointwise stage is computed where it is read, for
// steps on stages that ask what their own stage reads; `inline` does it to loops.
StatusOr<TeProgram> InlineStage(TeProgram p, const std::string& stage);

// fold t -> a[i, k] b[j]:  t[i, j, k] = x[i, j, k]; y[j] = t[0, j, 2]  =>  t[a, b] = x[a / K, b, a % K]; y[j] = t[2,
// j]. A stage runs over new iterators, in this order, each of which stands for those in its brackets, as digits: all
// of them are data iterators, or all are reduced, in the order in which they are. An allocation that it writes at its
// iterators takes their shape. Iterators of extent 1 may be left out and are then 0; a reduction keeps one, and where
// no bracket names one of its iterators, those that it has.
struct Folded {
  std::string name;
  std::vector<std::string> iters;
};
StatusOr<TeProgram> Fold(TeProgram p, const std::string& stage, const std::vector<Folded>& to);

// unfold t i 4 -> g e:  t[i] = x[i]; y[j] = t[j]  =>  t[g, e] = x[g * 4 + e]; y[j] = t[j / 4, j % 4]. One iterator,
// data or reduced, becomes its digits: the last factor is the last digit's extent, and the first digit has what is
// left, without a rest.
StatusOr<TeProgram> Unfold(TeProgram p, const std::string& stage, const std::string& iterator,
                           const std::vector<int64_t>& factors, const std::vector<std::string>& names);

// round_up t k 16:  t[i] += x[i, k] for k in 0..K  =>  t[i] += x[i, k; k < K] for k in 0..(K + 15) / 16 * 16. An
// iterator's extent becomes a multiple. What a stage reads with it is masked where it may lie beyond a tensor's end.
// A data iterator's further elements lie in an allocation that it writes at its iterators, where nobody reads
// them, or are not written; a reduction's further steps change nothing: they add 0, say, or what they add is chosen to
// be 0.
StatusOr<TeProgram> RoundUp(TeProgram p, const std::string& stage, const std::string& iterator, int64_t multiple);

// shift t k (i * 5) % 4:  t[i] += x[i, k] for k in 0..K  =>  t[i] += x[i, k - i * 5 % 4; i * 5 % 4 <= k && k < K + i *
// 5 % 4] for k in 0..K + 3. An iterator begins before its first value, by a number of symbols and other data iterators
// that is at least 0 and has a bound: where memory's words begin that hold the start of a row, say. As of round_up,
// what lies before and beyond changes nothing.
StatusOr<TeProgram> Shift(TeProgram p, const std::string& stage, const std::string& iterator, const std::string& by);

// solve t e:  t[i, p] += x[i, k; (p - e) % 2 == 0] * w[k * 2 + e] over k, e  =>  t[i, p] += x[i, k] * w[k * 2 + p % 2]
// over k. Of a digit that a reduction runs through, a condition has a step change nothing at all values but one: the
// digit becomes that value, and the condition goes, or what it asks of others stays.
StatusOr<TeProgram> Solve(TeProgram p, const std::string& stage, const std::string& iterator);

// pad_input t x -> u:  t[i] += x[i + k - 1; 0 <= i + k - 1 && i + k - 1 < N] * w[k] over k  =>  u[h] = x[h - 1; 0 < h
// && h < N + 1] for h in 0..N + 2;  t[i] += u[i + k] * w[k] over k. A tensor that a stage reads at one place, where
// conditions that bound its indices are 0 elsewhere, is copied with these zeros around it, and read without conditions.
StatusOr<TeProgram> PadInput(TeProgram p, const std::string& stage, const std::string& buffer, const std::string& name);

// rfactor t k -> u:  t[i] += x[i, k, j] over k, j  =>  u[k, i] += x[i, k, j] over j;  t[i] += u[k, i] over k. What a
// stage reduces becomes parts, one for each value of an iterator, that are reduced apart and joined: u has the
// iterators u_0 for k and u_1, ... for those of t, and the others that t reduced. One name for each result.
StatusOr<TeProgram> Rfactor(TeProgram p, const std::string& stage, const std::string& iterator,
                            const std::vector<std::string>& names);

// rescale t:  u[k, i] = max of x[i, k, j] over j;  m[i] = max of u[k, i] over k;  t[k, i] += exp(x[i, k, j] - m[i])
// over j;  o[i] += t[k, i] over k  =>  t[k, i] += exp(x[i, k, j] - u[k, i]) over j;  o[i] += t[k, i] * exp(u[k, i] -
// m[i]) over k. Parts of a sum whose elements need a maximum, as those of the step chain do, are under the maximum of
// their own part, and who reads them scales: what a thread, or a kernel, finds of both in one go through its elements
// (Milakov and Gimelshein, "Online normalizer calculation for softmax"). It rounds otherwise: not for exact numerics.
StatusOr<TeProgram> Rescale(TeProgram p, const std::string& stage);

// recenter q s -> p:  s[i] += x[i, k] over k in 0..K;  q[i] += (x[i, k] - m[i]) * (x[i, k] - m[i]) over k  =>  p[i] =
// the median of some x[i, k];  p_sum[i], p_squares[i] += x[i, k] - p[i], its square over k;  s[i] = p_sum[i] + K *
// p[i]; q[i] = p_squares[i] + (m[i] - p[i]) * (K * (m[i] - p[i]) - 2 * p_sum[i]). A sum and the sum of squared
// distances of the same elements from a value, their mean say, run in one go around a pivot that is known before: the
// median of up to 9 elements, one of each 64 (Chan, Golub and LeVeque, "Algorithms for computing the sample variance",
// shifted data). Where a condition says which elements count (the first one does where any do), p_count is their
// number. It rounds otherwise: not for exact numerics.
StatusOr<TeProgram> Recenter(TeProgram p, const std::string& squares, const std::string& sum, const std::string& pivot);
// What it asks of the two: in terms of the iterators of `squares`, what `sum` sums up, from what it differs, and when
// it counts (null: always).
struct Distances {
  Expr element = nullptr, from = nullptr, condition = nullptr;
};
// Whether a stage is such a sum of squares, of whatever elements.
bool SumsDistances(const TeProgram& p, const Stage& s);
StatusOr<Distances> FindDistances(const TeProgram& p, const Stage& squares, const Stage& sum);

// separate t -> at:  t[i], o[i] = over k the pair (x[i, k], k) that comes first  =>  t[i] = max x[i, k] over k;  at[i]
// = min (x[i, k] == t[i] || isnan(x[i, k]) ? k : none) over k;  o[i] = at[i]. A reduction of pairs by ComesFirst
// (ir/join.h) finds the best value, then its lowest place, each by an operator that lanes and threads join fast; what
// it reads is read twice. `at` has 32 bits where all places fit. The values are an allocation: of -0 and 0 either may
// be t.
StatusOr<TeProgram> Separate(TeProgram p, const std::string& stage, const std::string& name);

// together t u:  t[i] += x[i, k] over k;  u[j] += x[j, m] * y[m] over m  =>  t[i], u[i] += x[i, k], x[i, k] * y[k] over
// k. Two reductions over the same extents, of which the second reads nothing that stages from the first on compute, run
// through what they read once.
StatusOr<TeProgram> Together(TeProgram p, const std::string& first, const std::string& second);

// hoist o -> t:  o[i] += x[i, k] / l[i] * y[k] over k  =>  t[i] += x[i, k] * y[k] over k;  o[i] = t[i] / l[i]. Factors
// and divisors that all elements of a sum have in common are applied to the sum, which a new stage computes. It rounds
// otherwise, and overflows where sums of the elements without these factors do: not for exact numerics.
StatusOr<TeProgram> Hoist(TeProgram p, const std::string& stage, const std::string& name);

// factor m:  m[i] = max of x[i, k] * 3 over k;  y[i, k] = x[i, k] * 3 - m[i]  =>  m[i] = max of x[i, k] over k;
// y[i, k] = (x[i, k] - m[i]) * 3. A positive constant that all elements of a maximum or minimum of floats have in
// common is applied by its readers, to differences as a whole. It rounds otherwise: not for exact numerics.
StatusOr<TeProgram> Factor(TeProgram p, const std::string& stage);

// exp2 y:  y[i] = exp(x[i])  =>  y[i] = exp2(x[i] * log2(e)), of f32. Powers of 2 are an instruction where there is
// one; that their exponents are rounded once more is an error of |x| * 2^-24 of the result at most. Not for exact
// numerics.
StatusOr<TeProgram> Exp2(TeProgram p, const std::string& stage);

// compensate t lhs -> u:  t[i, j] += i32(x[i, k]) * i32(w[k, j]) over k, x of i8; y[i, j] = t[i, j]  =>  t[i, j] +=
// i32(u8(x[i, k] + i8(-128))) * i32(w[k, j]);  u[j] += i32(w[k, j]) over k;  y[i, j] = t[i, j] + u[j] * -128. A factor
// of i8, or of u8, becomes one of the other kind: instructions multiply bytes of one kind by such of the other. Exact,
// since sums of i32 wrap.
StatusOr<TeProgram> Compensate(TeProgram p, const std::string& stage, const std::string& factor,
                               const std::string& name);

// define t[i, j] = x[j, i] before s:  y[i, j] = f(x[j, i])  =>  t[i, j] = x[j, i] in front of stage s;  y[i, j] =
// f(t[i, j]). A value that a stage computes becomes a stage of its own, over those of its iterators that stand in
// brackets. Where t is there already and computes this value, the stage reads it; else it is new and stands before
// stage `before` (by default: before its reader). Iterators of extent 1 that are not in brackets count as 0.
struct Definition {
  std::string name;
  std::vector<std::string> iters;  // of one stage
  std::string value;               // an expression over its iterators
  std::optional<std::string> before;
};
StatusOr<TeProgram> Define(TeProgram p, const Definition& d);

}  // namespace cinn_like::ir
