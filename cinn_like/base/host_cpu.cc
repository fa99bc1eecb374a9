#include "cinn_like/base/host_cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace cinn_like {
namespace {

std::string_view MaxIsa() {
  const char* value = std::getenv("CINN_LIKE_MAX_ISA");
  return value == nullptr ? "" : value;
}

// Linux keeps the 8 KB of registers only for processes that ask.
bool MayUseTiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of asm/prctl.h; a component of the extended state
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuAbilities Detect() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool may_use_512 = MaxIsa() != "avx2", may_use_tiles = may_use_512 && MaxIsa() != "avx512";
  const bool has_amx = may_use_tiles && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 24 & 1) != 0 &&
                       (d >> 22 & 1) != 0 && MayUseTiles();
  return {__builtin_cpu_supports("avx2") != 0, may_use_512 && __builtin_cpu_supports("avx512f") != 0, has_amx,
          __builtin_cpu_is("amd") != 0};
}

// What the system must keep of registers, as bits of the extended control register.
constexpr unsigned kNone = 0, kAvx = 0x6, kAvx512 = 0xe6, kTiles = 0x60000;
enum Register { kEax, kEbx, kEcx, kEdx };

struct FeatureRow {
  std::string_view name;
  unsigned leaf, subleaf;
  Register where;
  int bit;
  unsigned state;
};
constexpr FeatureRow kFeatures[] = {
    {"sse3", 1, 0, kEcx, 0, kNone},
    {"ssse3", 1, 0, kEcx, 9, kNone},
    {"fma", 1, 0, kEcx, 12, kAvx},
    {"sse4.1", 1, 0, kEcx, 19, kNone},
    {"sse4.2", 1, 0, kEcx, 20, kNone},
    {"movbe", 1, 0, kEcx, 22, kNone},
    {"popcnt", 1, 0, kEcx, 23, kNone},
    {"avx", 1, 0, kEcx, 28, kAvx},
    {"f16c", 1, 0, kEcx, 29, kAvx},
    {"lzcnt", 0x80000001, 0, kEcx, 5, kNone},
    {"sse4a", 0x80000001, 0, kEcx, 6, kNone},
    {"xop", 0x80000001, 0, kEcx, 11, kAvx},
    {"fma4", 0x80000001, 0, kEcx, 16, kAvx},
    {"tbm", 0x80000001, 0, kEcx, 21, kNone},
    {"bmi", 7, 0, kEbx, 3, kNone},
    {"avx2", 7, 0, kEbx, 5, kAvx},
    {"bmi2", 7, 0, kEbx, 8, kNone},
    {"avx512f", 7, 0, kEbx, 16, kAvx512},
    {"avx512dq", 7, 0, kEbx, 17, kAvx512},
    {"avx512ifma", 7, 0, kEbx, 21, kAvx512},
    {"avx512cd", 7, 0, kEbx, 28, kAvx512},
    {"avx512bw", 7, 0, kEbx, 30, kAvx512},
    {"avx512vl", 7, 0, kEbx, 31, kAvx512},
    {"avx512vbmi", 7, 0, kEcx, 1, kAvx512},
    {"avx512vbmi2", 7, 0, kEcx, 6, kAvx512},
    {"gfni", 7, 0, kEcx, 8, kNone},
    {"avx512vnni", 7, 0, kEcx, 11, kAvx512},
    {"avx512bitalg", 7, 0, kEcx, 12, kAvx512},
    {"avx512vpopcntdq", 7, 0, kEcx, 14, kAvx512},
    {"avx512vp2intersect", 7, 0, kEdx, 8, kAvx512},
    {"amx-bf16", 7, 0, kEdx, 22, kTiles},
    {"avx512fp16", 7, 0, kEdx, 23, kAvx512},
    {"amx-tile", 7, 0, kEdx, 24, kTiles},
    {"amx-int8", 7, 0, kEdx, 25, kTiles},
    {"avxvnni", 7, 1, kEax, 4, kAvx},
    {"avx512bf16", 7, 1, kEax, 5, kAvx512},
    {"amx-fp16", 7, 1, kEax, 21, kTiles},
    {"avxifma", 7, 1, kEax, 23, kAvx},
    {"avxvnniint8", 7, 1, kEdx, 4, kAvx},
    {"avxneconvert", 7, 1, kEdx, 5, kAvx},
    {"amx-complex", 7, 1, kEdx, 8, kTiles},
    {"avxvnniint16", 7, 1, kEdx, 10, kAvx},
};

// The bits of the extended control register; 0 where the system keeps SSE's registers alone.
unsigned KeptState() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c >> 27 & 1) == 0) return 0;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (!ThisCpu().has_amx) low &= ~kTiles;
  return ThisCpu().has_avx512 ? low : low & ~(kAvx512 & ~kAvx);
}

std::vector<CpuFeature> DetectFeatures() {
  const unsigned kept = KeptState();
  std::vector<CpuFeature> found;
  for (const FeatureRow& row : kFeatures) {
    unsigned r[4] = {};
    const bool known = __get_cpuid_count(row.leaf, row.subleaf, &r[kEax], &r[kEbx], &r[kEcx], &r[kEdx]) != 0;
    found.push_back({row.name, known && (r[row.where] >> row.bit & 1) != 0 && (kept & row.state) == row.state});
  }
  return found;
}

}  // namespace

const CpuAbilities& ThisCpu() {
  static const CpuAbilities cpu = Detect();  // cpuid takes long in virtual machines
  return cpu;
}

std::span<const CpuFeature> CpuFeatures() {
  static const auto* features = new std::vector<CpuFeature>(DetectFeatures());
  return *features;
}

Status CheckMaxIsa() {
  if (MaxIsa().empty() || MaxIsa() == "avx2" || MaxIsa() == "avx512") return absl::OkStatus();
  return InvalidArgument("environment: CINN_LIKE_MAX_ISA: expected avx2 or avx512, got '", MaxIsa(), "'");
}

void PauseCpu() { __builtin_ia32_pause(); }

}  // namespace cinn_like

#else

namespace cinn_like {

const CpuAbilities& ThisCpu() {
  static const CpuAbilities cpu;
  return cpu;
}

std::span<const CpuFeature> CpuFeatures() { return {}; }

Status CheckMaxIsa() { return absl::OkStatus(); }

void PauseCpu() {}

}  // namespace cinn_like

#endif
