// What this machine's processor can do. No other file asks which processor it is compiled for.
#pragma once

namespace cinn_like {

struct HostCpu {
  bool has_avx2 = false;
  bool has_avx512 = false;
  bool has_amx = false;  // products of tiles, bf16's among them
  bool is_amd = false;
};

const HostCpu& ThisCpu();

// Tells the processor that a loop waits for another thread.
void PauseCpu();

}  // namespace cinn_like
