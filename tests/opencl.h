// Tests that run kernels need a device of OpenCL: Debian's pocl-opencl-icd gives one (tools/packages.txt).
#pragma once
#include <gtest/gtest.h>

#include "runtime/device_api.h"

// What drivers keep until the process ends is theirs.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libOpenCL\nleak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libhwloc\n";
}

#define SKIP_WITHOUT_OPENCL() \
  if (const auto api = ::cinn_like::GetOpenClDevice(); !api.ok()) GTEST_SKIP() << api.status()
