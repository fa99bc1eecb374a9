// NVRTC if this machine has it: the flag cinn_nvrtc (FLAGS_cinn_nvrtc in the environment) or where Nvrtc::Open looks.
#pragma once
#include <cstdio>

#include "backends/nvrtc.h"
#include "cinn_like/base/flags.h"

namespace cinn_like::backends {

// Null, with the reason printed, if there is none.
inline const Nvrtc* NvrtcForTests() {
  auto path = GetFlag("cinn_nvrtc");
  auto r = Nvrtc::Open(path.ok() ? *path : "");
  if (r.ok()) return *r;
  static const bool said = [&] { return fprintf(stderr, "%s\n", Message(r.status()).c_str()) > 0; }();
  (void)said;
  return nullptr;
}

}  // namespace cinn_like::backends

#define SKIP_WITHOUT_NVRTC() \
  if (::cinn_like::backends::NvrtcForTests() == nullptr) GTEST_SKIP() << "NVRTC is not on this machine"
