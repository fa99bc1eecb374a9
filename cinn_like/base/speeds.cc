#include "cinn_like/base/speeds.h"

#include <algorithm>

#include "cinn_like/base/host_cpu.h"
#include "cinn_like/base/status.h"

namespace cinn_like {
namespace {

// name, {f32, bf16, f64, f16, integers, bytes} of product, convolution, depthwise, laid_out and laid_out_depthwise,
// own_mma, own_wgmma, pooling, pooling_of_channels, own_product, own_dot2, own_dot4, own_tile2, own_tile4, own_rows,
// then of own_convolution, own_pointwise_convolution and own_depthwise, call_seconds, region_seconds, misaligned.
// Measured kernel by kernel: amd-avx512 (Zen 5), products and convolutions but for f64; products of intel-amx and its
// own ones of tiles, what depthwise convolutions take there, and own windows of bf16, by tiles; products of bytes of
// amd-avx512 (Zen 4), which others estimate. Where a framework has no tuned kernel for a type, its plain loops are the
// row (f16 of CPUs without its instructions: 3 to 19 in products). Set by whole models: the rest of intel-amx, its
// own_product too (a single product reaches more, but whole models are best predicted with 100); sm_90 (H200; its
// `misaligned` by products alone). Products and convolutions of f32 of avx2: Zen 3, and what dense windows take there
// by whole models. Estimates: the rest, and f64 in all.
// clang-format off
constexpr SpeedRow kRows[] = {
    {"intel-amx",    {130,1500,60,110,45,3000}, {130,500,60,100},  {100,30,10}, {.3,.1,.6,0,0,.06},   {.8,.8,.27}, 0,    0,    2, 8,  100, 0,   400, 1900, 3400, 20, {1.25,1,2}, {1.25,1.25,2}, {1.25,2,2}, 4e-6, 9e-6,  1},
    {"intel-avx512", {110,110,55,19,45,200},   {120,90,60,3},      {100,30,10}, {.3,.3,.6,0,0,.15},   {.14,.14,.27}, 0,    0,    2, 8,  105, 0,   0,   0,    0,    20, {1.25,2,2}, {1.25,2,2}, {1.25,2,2}, 4e-6, 9e-6,  1},
    {"amd-avx512",   {92,400,46,19,45,420},    {190,320,80,3},     {200,165,12}, {.45,.1,.9,0,0,.15}, {.25,.42,.4}, 0,    0,    2, 8,  205, 400, 420, 0,    0,    25, {1,1,2},    {1,1,2},    {1,2,2},    4e-6, 9e-6,  1},
    {"avx2",         {58,40,28,10,25},         {64,30,30,2},       {20,15,5},   {.45,.45,.9},          {.2,.2,.4}, 0,    0,    1, 4,  60,  0,   0,   0,    0,    10, {1.1,2,2},  {1.25,2,2}, {1,2,2},    4e-6, 9e-6,  1},
    {"sm_70",        {110,900,60,0,0,400},     {500,700,50},       {35,35,20},  {}, {},           0,    0,    20, 20, 80,  0,   0,  0,    0,    40, {3,3,3},    {1,1,1},    {3,3,3},    6e-6, 15e-6, .25},
    {"sm_80",        {150,2000,80,0,0,3000},   {700,1500,60},      {40,40,20},  {}, {},           1700, 0,    20, 20, 80,  0,   0,  0,    0,    40, {3,3,3},    {1,1,1},    {3,3,3},    6e-6, 15e-6, .25},
    {"sm_90",        {390,5600,350,0,0,8000},  {1500,4000,200},   {60,60,40},  {}, {},           3500, 6900, 20, 20, 200, 0,   0,  0,    0,    80, {3,3,3},    {1,1,1},    {3,3,3},    6e-6, 15e-6, .14},
};
// clang-format on

std::string_view SpeedClassOf(const CpuAbilities& cpu) {
  if (!cpu.has_avx512) return "avx2";
  if (cpu.is_amd) return "amd-avx512";
  return cpu.has_amx ? "intel-amx" : "intel-avx512";
}

}  // namespace

const SpeedRow* FindSpeedRow(std::string_view name) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows), [&](const auto& r) { return r.name == name; });
  return found == std::end(kRows) ? nullptr : found;
}

std::string SpeedRowNames() {
  std::string names;
  for (const SpeedRow& row : kRows) names += Cat(names.empty() ? "" : ", ", row.name);
  return names;
}

std::string_view SpeedClassOfCpu(std::string_view mcpu) {
  if (mcpu == "native") return SpeedClassOf(ThisCpu());
  if (mcpu == "znver4" || mcpu == "znver5") return "amd-avx512";
  for (std::string_view name : {"sapphirerapids", "emeraldrapids", "graniterapids"}) {
    if (mcpu == name) return "intel-amx";
  }
  for (std::string_view name : {"x86-64-v4", "skylake-avx512", "cascadelake", "icelake-server", "rocketlake"}) {
    if (mcpu == name) return "intel-avx512";
  }
  return "avx2";
}

std::string_view SpeedClassOfArch(std::string_view arch) {
  if (arch.starts_with("sm_7")) return "sm_70";
  return arch.starts_with("sm_9") || arch.starts_with("sm_1") ? "sm_90" : "sm_80";
}

double RateFor(const SpeedRow::Rates& rates, DType dtype) {
  if (dtype == DType::kF64) return rates.f64;
  if (dtype == DType::kF16 && rates.f16 > 0) return rates.f16;
  if (IsByte(dtype) && rates.bytes > 0) return rates.bytes;
  if (!IsFloat(dtype) && rates.integers > 0) return rates.integers;
  return IsHalf(dtype) ? rates.bf16 : rates.f32;
}

}  // namespace cinn_like
