#include "cinn_like/base/host_cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cinn_like {
namespace {

// Linux keeps the 8 KB of registers only for processes that ask.
bool MayUseTiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of asm/prctl.h; a component of the extended state
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuAbilities Detect() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool has_amx =
      __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 24 & 1) != 0 && (d >> 22 & 1) != 0 && MayUseTiles();
  return {__builtin_cpu_supports("avx2") != 0, __builtin_cpu_supports("avx512f") != 0, has_amx,
          __builtin_cpu_is("amd") != 0};
}

}  // namespace

const CpuAbilities& ThisCpu() {
  static const CpuAbilities cpu = Detect();  // cpuid takes long in virtual machines
  return cpu;
}

void PauseCpu() { __builtin_ia32_pause(); }

}  // namespace cinn_like

#else

namespace cinn_like {

const CpuAbilities& ThisCpu() {
  static const CpuAbilities cpu;
  return cpu;
}

void PauseCpu() {}

}  // namespace cinn_like

#endif
