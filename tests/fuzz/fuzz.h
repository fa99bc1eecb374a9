// What a target of libFuzzer (tests/fuzz/*_fuzzer.cc) and the test of its corpus (corpus_test.cc) share. A target is a
// function of a text that gives OK, or the error with which the text was refused; an internal error is a bug of ours.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"
#include "cinn_like/base/target.h"
#include "ir/stmt.h"

namespace cinn_like::fuzz {

// What a text may make a lowered function do before it is given up, in statements of the interpreter.
inline constexpr int64_t kMostSteps = 100000;

inline std::string_view Text(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

// libFuzzer keeps the text of a process that ends so.
inline void EndIfInternal(const Status& s) {
  if (s.code() != absl::StatusCode::kInternal) return;
  std::fprintf(stderr, "%s\n", std::string(Message(s)).c_str());
  std::abort();
}

// An error of ours, whatever its code was: what came before accepted the text.
inline Status Bug(const Status& s, std::string_view what) { return s.ok() ? s : Internal(what, ": ", s.ToString()); }

inline Target CpuTarget() { return *Target::Parse("x86_64 -mcpu=skylake-avx512 -cores=4"); }
inline Target GpuTarget() { return *Target::Parse("cuda -arch=sm_90a"); }

// What must hold of whatever a step or a pass gives: it is right, and what it prints is read as itself.
inline Status CheckFunc(const ir::Func& f, std::string_view what) {
  RETURN_IF_ERROR(Bug(ir::Verify(f), what));
  const std::string text = ir::Print(f);
  const StatusOr<ir::Func> again = ir::ParseFunc(text);
  if (!again.ok()) return Internal(what, ": ", again.status().ToString(), "\n", text);
  RETURN_IF_ERROR(Bug(ir::Verify(*again), Cat(what, ", printed and read")));
  if (ir::Print(*again) != text) return Internal(what, " prints otherwise when read again:\n", text, ir::Print(*again));
  return absl::OkStatus();
}

}  // namespace cinn_like::fuzz
