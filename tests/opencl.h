// Tests that run kernels need a device of OpenCL: Debian's pocl-opencl-icd gives one (tools/packages.txt).
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_replace.h"
#include "runtime/device_api.h"
#include "runtime/opencl_driver.h"

// What drivers keep until the process ends is theirs.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libOpenCL\nleak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libhwloc\n";
}

#define SKIP_WITHOUT_OPENCL() \
  if (const auto api = ::cinn_like::GetOpenClDevice(); !api.ok()) GTEST_SKIP() << api.status()

namespace cinn_like {

// Whether all devices here have sub-groups of that size.
inline bool OffersSubgroups(size_t size) {
  const auto driver = opencl::GetDriver();
  if (!driver.ok()) return false;
  for (const opencl::Device& d : (*driver)->devices) {
    const auto sizes = (*driver)->SubgroupSizes(d.id);
    if (!sizes.ok() || std::find(sizes->begin(), sizes->end(), size) == sizes->end()) return false;
  }
  return true;
}

// Generated source for devices without sub-groups (PoCL 3.1): a block's threads, dealt out to them in descending order
// of their local numbers, exchange values through local memory. All threads of a block come to every shuffle.
inline std::string WithEmulatedSubgroups(std::string source, int64_t size) {
  std::string prelude = absl::StrReplaceAll(R"(
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define EMULATED_THREAD ((uint)(get_local_size(0) * get_local_size(1) * get_local_size(2) - 1 - get_local_id(0) - \
  get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2))))
#define get_sub_group_id() (EMULATED_THREAD / SIZE)
#define get_sub_group_local_id() (EMULATED_THREAD % SIZE)
#define intel_sub_group_shuffle_xor(value, mask) emulated_shuffle(value, mask, emulated)
)",
                                            {{"SIZE", std::to_string(size)}});
  for (const char* type : {"int", "uint", "long", "ulong", "float", "double"}) {
    prelude += absl::StrReplaceAll(R"(
__attribute__((overloadable)) TYPE emulated_shuffle(TYPE value, uint mask, __local ulong* all) {
  __local TYPE* own = (__local TYPE*)all;
  own[EMULATED_THREAD] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  const TYPE other = own[EMULATED_THREAD ^ mask];
  barrier(CLK_LOCAL_MEM_FENCE);
  return other;
})",
                                   {{"TYPE", type}});
    if (std::string_view(type) == "float") prelude += "\n#ifdef cl_khr_fp64";
  }
  prelude += "\n#endif\n";
  for (size_t at = source.find("intel_reqd_sub_group_size("); at != source.npos;
       at = source.find("intel_reqd_sub_group_size(", at)) {
    source.insert(source.find("{\n", at) + 2, "  __local ulong emulated[256];\n");
    source.erase(at - 2, source.find(')', at) + 1 - (at - 2));  // with the comma before it
  }
  return prelude + source;
}

}  // namespace cinn_like
