// Schedule text on one of a few programs, which the text's first character names: each line is a step that may be
// refused. What is accepted is right, does the same when all of it is replayed, and computes the same, lowered for a
// CPU, or for a GPU where steps bind threads.
#pragma once
#include "absl/strings/str_split.h"
#include "ir/passes/split_host_device.h"
#include "ir/schedule/schedule.h"
#include "tests/fuzz/loops.h"

namespace cinn_like::fuzz {

// Stages as ToLoops writes them: a sum and what is made of it; softmax; a product, and what follows; where the largest
// is; a running sum; a window.
inline constexpr std::string_view kPrograms[] = {
    R"(func @rows(x: f32[n, 6], y: f32[n, 6] out) where n in 1..64 {
  alloc s: f32[n] @global
  for l_i in 0..n { for l_k in 0..6 { block b_s(i in 0..n = l_i, k reduce 0..6 = l_k) init { s[i] = 0.0 } {
    s[i] = s[i] + x[i, k]
  } } }
  for l_a in 0..n { for l_b in 0..6 { block b_y(a in 0..n = l_a, b in 0..6 = l_b) {
    y[a, b] = x[a, b] * 2.0 - s[a]
  } } }
})",
    R"(func @softmax(x: f32[n, 6], y: f32[n, 6] out) where n in 1..64 {
  alloc m: f32[n] @global
  alloc s: f32[n] @global
  for l_i in 0..n { for l_k in 0..6 { block b_m(i in 0..n = l_i, k reduce 0..6 = l_k) init { m[i] = -inf } {
    m[i] = max(m[i], x[i, k])
  } } }
  for l_j in 0..n { for l_h in 0..6 { block b_s(j in 0..n = l_j, h reduce 0..6 = l_h) init { s[j] = 0.0 } {
    s[j] = s[j] + exp(x[j, h] - m[j])
  } } }
  for l_a in 0..n { for l_b in 0..6 { block b_y(a in 0..n = l_a, b in 0..6 = l_b) {
    y[a, b] = exp(x[a, b] - m[a]) / s[a]
  } } }
})",
    R"(func @product(x: f32[n, 8], w: f32[8, 12], y: f32[n, 12] out) where n in 1..64 {
  alloc s: f32[n, 12] @global
  for l_i in 0..n { for l_j in 0..12 { for l_k in 0..8 {
    block b_s(i in 0..n = l_i, j in 0..12 = l_j, k reduce 0..8 = l_k) init { s[i, j] = 0.0 } {
      s[i, j] = s[i, j] + x[i, k] * w[k, j]
  } } } }
  for l_a in 0..n { for l_b in 0..12 { block b_y(a in 0..n = l_a, b in 0..12 = l_b) {
    y[a, b] = max(s[a, b], 0.0)
  } } }
})",
    R"(func @largest(x: f32[7, n], s: f32[7] out, y: i64[7] out) where n in 1..64 {
  for l_i in 0..7 { for l_k in 0..n { block b_s(i in 0..7 = l_i, k reduce 0..n = l_k) init {
    s[i] = -inf
    y[i] = 9223372036854775807
  } {
    let v = select(s[i] < x[i, k] || x[i, k] == s[i] && k < y[i], x[i, k], s[i])
    let w = select(s[i] < x[i, k] || x[i, k] == s[i] && k < y[i], k, y[i])
    s[i] = v
    y[i] = w
  } } }
})",
    R"(func @running(x: f32[n, 6], y: f32[n, 6] out) where n in 1..64 {
  alloc t: f32[n, 6] @global
  alloc s: f32[n] @global
  for l_i in 0..n { for l_k in 0..6 { block b_t(i in 0..n = l_i, k reduce 0..6 = l_k) init { s[i] = 0.0 } {
    let v = s[i] + x[i, k]
    s[i] = v
    t[i, k] = v
  } } }
  for l_a in 0..n { for l_b in 0..6 { block b_y(a in 0..n = l_a, b in 0..6 = l_b) {
    y[a, b] = t[a, b] + x[a, 5 - b]
  } } }
})",
    R"(func @window(x: f32[n], w: f32[3], y: f32[n] out) where n in 1..64 multiple 2 {
  alloc s: f32[n] @global
  for l_i in 0..n { block b_s(i in 0..n = l_i) { s[i] = x[i] + 1.0 } }
  for l_a in 0..n { for l_k in 0..3 { block b_y(a in 0..n = l_a, k reduce 0..3 = l_k) init { y[a] = 0.0 } {
    y[a] = y[a] + s[a + k - 1; 0 <= a + k - 1 && a + k - 1 < n] * w[k]
  } } }
})",
};

inline Status CheckSchedule(const ir::Func& f, const Arguments& arguments, const std::vector<ir::HostArray>& want) {
  static const Target kCpu = CpuTarget(), kGpu = GpuTarget();
  bool has_threads = false;
  ir::VisitStmts(f.body, [&](const ir::Stmt& s) {
    const auto* loop = ir::As<ir::For>(s);
    has_threads = has_threads || (loop != nullptr && (ir::IsBlockAxis(loop->kind) || ir::IsThreadAxis(loop->kind)));
    return true;
  });
  Status first;
  for (const Target& target : {kCpu, kGpu}) {
    if (has_threads && !target.IsGpu()) continue;
    const PassContext context{.options = {}, .target = target, .name = "fuzz"};
    const StatusOr<ir::Func> lowered = ir::LowerKernel(f, context);
    Status status = lowered.status();
    if (lowered.ok()) {
      RETURN_IF_ERROR(CheckFunc(*lowered, "lowered"));
      // It says whether a device can run it; the interpreter takes kernels as they stand in their function.
      if (target.IsGpu()) status = ir::SplitHostDevice({lowered->context, {*lowered}}, {}).status();
      if (status.ok()) RETURN_IF_ERROR(CheckSame(*lowered, arguments, want, target.Print()));
    }
    if (status.code() == absl::StatusCode::kInternal) return status;
    first = first.ok() ? status : first;
  }
  return first;
}

inline Status TrySchedule(std::string_view text) {
  constexpr int kMostSteps = 24;
  constexpr size_t kMostText = 20000;  // of the function
  const auto program = static_cast<size_t>(text.empty() ? -1 : text[0] - '0');
  if (program >= std::size(kPrograms)) return InvalidArgument("expected the number of a program");
  const StatusOr<ir::Func> parsed = ir::ParseFunc(kPrograms[program]);
  RETURN_IF_ERROR(Bug(parsed.status(), "the program"));
  ir::Func f = *parsed;
  const std::optional<Arguments> arguments = MakeArguments(f);
  RET_CHECK(arguments.has_value());
  const auto want = Computed(f, *arguments, fuzz::kMostSteps);
  RETURN_IF_ERROR(Bug(want.status(), "the program"));
  // As a whole it is a text like any other.
  const Status whole = ir::ApplySchedule(f, text.substr(1)).status();
  if (whole.code() == absl::StatusCode::kInternal) return whole;
  std::string accepted;
  int steps = 0;
  Status first;
  const std::vector<std::string> lines = absl::StrSplit(std::string(text.substr(1)), '\n', absl::SkipWhitespace());
  for (const std::string& line : lines) {
    if (++steps > kMostSteps || ir::Print(f).size() > kMostText) break;
    StatusOr<ir::Func> next = ir::ApplySchedule(f, line);
    if (!next.ok()) {
      if (!absl::IsInvalidArgument(next.status())) return Bug(next.status(), line);
      first = first.ok() ? next.status() : first;
      continue;
    }
    f = *std::move(next);
    accepted += Cat(line, "\n");
    RETURN_IF_ERROR(CheckFunc(f, Cat("after\n", accepted)));
  }
  if (accepted.empty()) return first;
  const StatusOr<ir::Func> replayed = ir::ApplySchedule(*ir::ParseFunc(kPrograms[program]), accepted);
  RETURN_IF_ERROR(Bug(replayed.status(), Cat("replayed\n", accepted)));
  if (ir::Print(*replayed) != ir::Print(f))
    return Internal("replayed it gives something else:\n", accepted, ir::Print(f));
  if (Status s = CheckSchedule(f, *arguments, *want); s.code() == absl::StatusCode::kInternal)
    return Internal(Message(s), "\nafter\n", accepted, ir::Print(f));
  return first;
}

}  // namespace cinn_like::fuzz
