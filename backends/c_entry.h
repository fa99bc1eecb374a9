// What entry functions of a program of C text (c_program.h) do around their bodies: by the calling convention of
// runtime/call.h they check the arguments, take the caller's memory, and give results.
//
//   func @f(x: f32[n,4], y: f32[n,4] out) where n in 1..64 @entry {body}
//   ->  int32_t f(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
//         cinn_memory m[2];
//         int64_t n0;
//         ... cinn_check_call, cinn_symbol, cinn_take and cinn_give (c_dialect.cc), each of which may end the call
//         const float* const p0 = (const float*)m[0].data;
//         float* const p1 = (float*)m[1].data;
//         body
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/expr_printer.h"
#include "runtime/arg_spec.h"

namespace cinn_like::backends {

struct CEntry {
  ArgSpec spec;
  bool is_prepare = false;  // its results are what `self` holds
  std::string state;        // the type of what `self` points to; empty: there is nothing
  int slots = 0;            // tensors of it
};

// "int32_t f(void* self, ...)"
std::string SignatureOf(const CEntry& entry);

// Everything before the body. Argument i of the spec is then the pointer p<i>, where `pointer_type` ("const float*")
// gives it a type, and symbol i the number n<i>; failures after this go to `done`, with their code in `status`.
void OpenEntry(const CEntry& entry, const std::function<std::string(size_t)>& pointer_type, TextBuilder& out);
// Behind the body, where it succeeded; then, at `done`, in any case.
void PrintSuccess(const CEntry& entry, TextBuilder& out);
void PrintCleanup(const CEntry& entry, TextBuilder& out);

}  // namespace cinn_like::backends
