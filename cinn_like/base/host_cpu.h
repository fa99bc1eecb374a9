// What this machine's processor can do. No other file asks which processor it is compiled for.
#pragma once
#include <span>
#include <string_view>

#include "cinn_like/base/status.h"

namespace cinn_like {

struct CpuAbilities {
  bool has_avx2 = false;
  bool has_avx512 = false;
  bool has_amx = false;  // products of tiles, bf16's among them, and the system lets this process use their registers
  bool is_amd = false;
};

// The first call asks the system for the registers of AMX, once for all threads. The environment variable
// CINN_LIKE_MAX_ISA makes this a smaller machine: "avx2", or "avx512" (no AMX); nothing that is compiled for this
// machine uses more.
const CpuAbilities& ThisCpu();
// What is wrong with that variable, if anything.
Status CheckMaxIsa();

// An extension of x86_64 that generated code may use, by LLVM's name, and whether this machine has it and its system
// keeps the registers. Of those that LLVM knows, the ones without which arithmetic is done otherwise.
struct CpuFeature {
  std::string_view name;
  bool is_present;
};
std::span<const CpuFeature> CpuFeatures();

// Tells the processor that a loop waits for another thread.
void PauseCpu();

}  // namespace cinn_like
