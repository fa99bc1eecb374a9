// Loop text through verifier, printer, parser, each pass by itself, stages and back, and all of lowering. A function of
// serial loops that the interpreter can run computes the same when it is lowered for a CPU.
#pragma once
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ir/interpreter.h"
#include "ir/lower.h"
#include "ir/pass_table.h"
#include "ir/te.h"
#include "tests/fuzz/fuzz.h"

namespace cinn_like::fuzz {

// Small numbers for what a function takes; nothing where that is not all tensors of a few elements.
struct Arguments {
  std::vector<ir::HostArray> arrays;
  absl::flat_hash_map<std::string, int64_t> symbols;
  ir::VarMap values;  // the same
};
inline std::optional<Arguments> MakeArguments(const ir::Func& f) {
  constexpr int64_t kMostElements = 4096;
  Arguments r;
  for (const ir::SymbolFact& s : f.symbols) {
    int64_t value = std::clamp<int64_t>(6, s.lo, s.hi);
    value = std::min(value - value % s.divisor + (value % s.divisor == 0 ? 0 : s.divisor), s.hi);
    if (value < s.lo || value > kMostElements || value % s.divisor != 0) return std::nullopt;
    r.symbols[s.var->name] = value;
    r.values[s.var] = f.context->Int(value);
  }
  for (const ir::Param& p : f.params) {
    if (p.buffer == nullptr || !p.buffer->strides.empty()) return std::nullopt;
    std::vector<int64_t> shape;
    int64_t elements = 1;
    for (ir::Expr e : p.buffer->shape) {
      const ir::Expr size = ir::Substitute(*f.context, e, r.values);
      if (!ir::IsInt(size) || size->int_value < 0 || size->int_value > kMostElements) return std::nullopt;
      shape.push_back(size->int_value);
      elements = std::min(elements * size->int_value, kMostElements + 1);
    }
    if (elements > kMostElements) return std::nullopt;
    ir::HostArray& a = r.arrays.emplace_back(p.buffer->dtype, shape);
    for (int64_t i = 0; i < elements; ++i) a.Set(i, static_cast<double>((i * 7 + 3) % 11));
  }
  return r;
}

// What becomes of the arguments.
inline StatusOr<std::vector<ir::HostArray>> Computed(const ir::Func& f, Arguments arguments, int64_t most_steps) {
  std::vector<ir::InterpretArg> args;
  for (ir::HostArray& a : arguments.arrays) args.emplace_back(&a);
  RETURN_IF_ERROR(ir::Interpret(f, args, arguments.symbols, {.most_steps = most_steps}));
  return std::move(arguments.arrays);
}

// Up to rounding.
inline bool IsSame(const ir::HostArray& a, const ir::HostArray& b) {
  for (int64_t i = 0; i < a.NumElements(); ++i) {
    if (!IsFloat(a.dtype)) {
      if (a.GetInt(i) != b.GetInt(i)) return false;
      continue;
    }
    const double x = a.Get(i), y = b.Get(i);
    const double rounding = a.dtype == DType::kF32 || a.dtype == DType::kF64 ? 1e-4 : 0.1;
    if (x != y && !(std::isnan(x) && std::isnan(y)) && !(std::abs(x - y) <= rounding * (1 + std::abs(y)))) return false;
  }
  return true;
}

inline Status CheckSame(const ir::Func& lowered, const Arguments& arguments, const std::vector<ir::HostArray>& want,
                        std::string_view what) {
  const auto got = Computed(lowered, arguments, 20 * kMostSteps);
  if (absl::IsResourceExhausted(got.status())) return absl::OkStatus();
  if (!got.ok()) return Internal(what, ": ", got.status().ToString(), "\n", ir::Print(lowered));
  for (size_t i = 0; i < want.size(); ++i) {
    if (!IsSame((*got)[i], want[i])) return Internal(what, ": argument ", i, " differs\n", ir::Print(lowered));
  }
  return absl::OkStatus();
}

// What a kind of loop lets run at once, and that loops cover their blocks, is the writer's word (but for stages, which
// are looked at); a call is of what the interpreter has not.
inline bool IsSerial(const ir::Func& f, bool is_stages) {
  bool is_serial = true;
  ir::VisitStmts(f.body, [&](const ir::Stmt& s) {
    const auto* loop = ir::As<ir::For>(s);
    is_serial = is_serial && (loop == nullptr || loop->kind == ir::ForKind::kSerial) &&
                ir::As<ir::Call>(s) == nullptr && (is_stages || ir::As<ir::Block>(s) == nullptr);
    return is_serial;
  });
  ir::ForEachExpr(f.body, [&](ir::Expr e) { is_serial = is_serial && ir::PrintsWithin(e, 1000); });
  return is_serial;
}

// Lowered, a reduction over nothing is what it begins with; the interpreter runs no instance, and so writes nothing.
inline bool ReducesOverNothing(const ir::Func& f, const ir::VarMap& values) {
  bool found = false;
  ir::VisitStmts(f.body, [&](const ir::Stmt& s) {
    const auto* block = ir::As<ir::Block>(s);
    for (const ir::BlockIter& i : block == nullptr ? std::vector<ir::BlockIter>() : block->iters) {
      const ir::Expr extent = ir::Substitute(*f.context, i.extent, values);
      found = found || (i.kind == ir::IterKind::kReduce && (!ir::IsInt(extent) || extent->int_value <= 0));
    }
    return true;
  });
  return found;
}

inline Status TryFunc(const ir::Func& f, const PassContext& host) {
  RETURN_IF_ERROR(CheckFunc(f, "what was read"));
  for (const Pass<ir::Func>& pass : ir::PassTable()) {
    const StatusOr<ir::Func> r = pass.run(f, host);
    if (pass.required) continue;  // it counts on those before it: that it ends is enough
    if (!r.ok() && r.status().code() == absl::StatusCode::kInternal) return r.status();
    if (r.ok()) RETURN_IF_ERROR(CheckFunc(*r, Cat("what ", pass.name, " gives")));
  }
  const auto stages = ir::ToStages(f);
  if (stages.ok()) {
    const StatusOr<ir::Func> loops = ir::ToLoops(*stages);
    RETURN_IF_ERROR(Bug(loops.status(), "stages"));
    RETURN_IF_ERROR(CheckFunc(*loops, "loops of stages"));
  }
  const std::optional<Arguments> arguments = IsSerial(f, stages.ok()) ? MakeArguments(f) : std::nullopt;
  if (!arguments.has_value() || ReducesOverNothing(f, arguments->values)) return absl::OkStatus();
  const auto want = Computed(f, *arguments, kMostSteps);
  if (!want.ok()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ir::Func lowered, ir::LowerKernel(f, host));
  return CheckSame(lowered, *arguments, *want, "lowered");
}

inline Status TryLoops(std::string_view text) {
  static const Target kCpu = CpuTarget(), kGpu = GpuTarget();
  PassContext context{.options = {}, .target = kCpu, .name = "fuzz"};
  context.options.numerics = "exact";
  ASSIGN_OR_RETURN(const ir::Module module, ir::ParseModule(text));
  RETURN_IF_ERROR(ir::Verify(module));
  for (const ir::Func& f : module.funcs) RETURN_IF_ERROR(TryFunc(f, context));
  Status first;
  for (const Target& target : {kCpu, kGpu}) {
    context.target = target;
    const StatusOr<ir::Module> lowered = ir::LowerModule(module, context);
    if (!lowered.ok()) {
      if (lowered.status().code() == absl::StatusCode::kInternal) return lowered.status();
      first = first.ok() ? lowered.status() : first;
      continue;
    }
    RETURN_IF_ERROR(Bug(ir::Verify(*lowered), "lowered"));
    const std::string printed = ir::Print(*lowered);
    const StatusOr<ir::Module> again = ir::ParseModule(printed);
    if (!again.ok()) return Internal("lowered: ", again.status().ToString(), "\n", printed);
    if (ir::Print(*again) != printed) return Internal("lowered prints otherwise when read again:\n", printed);
  }
  return first;
}

}  // namespace cinn_like::fuzz
