// How fast a class of machines computes what cost models ask about: our loops, and the framework's tuned kernels, which
// are the other side's prices when ops are shared out between it and us. A row per class; speeds.cc says which were
// measured.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cinn_like/base/dtype.h"

namespace cinn_like {

// What kind of tuned kernel a framework has for an op. An op says it of itself (hlir::OpDef::framework_kernel).
// A scatter adds each element of an operand to one of the result: memory takes all of its time.
enum class FrameworkKernel : uint8_t { kNone, kProduct, kConvolution, kPooling, kScatter, kScan };

struct SpeedRow {
  // By type; where nothing else is said of one core or SM, in 1e9 floating-point operations a second.
  struct Rates {
    double f32, bf16, f64;
    double f16 = 0, integers = 0, bytes = 0;  // bytes: i8 and u8, summed in i32; 0: as bf16, as f32, as integers
  };
  std::string_view name;
  Rates product, convolution, depthwise;
  // Of an element of a product's right-hand side, by one core: what laying it out takes before it is multiplied, in
  // 1e-9 seconds. Products of one row do without. Of a convolution, all operands and the result are laid out; of a
  // depthwise one, whose channels stay next to each other, that takes less.
  Rates laid_out, laid_out_depthwise;
  // Of one SM's matrix units, by schedules of ours, in 1e9 operations a second; 0: it has none for 16-bit floats.
  double own_mma;
  double own_wgmma;  // of those of four warps at once, which sm_90a alone has; 0: none
  // Two operations for each element of each window: where windows lie along memory, and where channels do.
  double pooling, pooling_of_channels;
  double own_product;  // ours in f32, with operands as the register tiles want them
  // Of bf16 whose pairs a core's instruction sums, and of 8-bit integers whose fours one does, the same; 0: it has
  // none, or none that is faster than widening.
  double own_dot2, own_dot4;
  double own_tile2, own_tile4;  // of the same by the core's matrix unit, of what is near
  double own_rows;              // ours in f32, of vectorised loops whose operands lie next to each other
  // How many times its kernels' predicted time a convolution of ours takes, with the layouts that its neighbours then
  // get: one of windows, one whose results read one place each (1x1), and a depthwise one.
  Rates own_convolution, own_pointwise_convolution, own_depthwise;
  double call_seconds;    // of one framework op, its dispatch included
  double region_seconds;  // of calling one compiled region
  // The part of its rate that a product on matrix units has left where rows of its operands start at any element; where
  // they start at more than that, but not at 16 bytes, something in between (hlir/tactics/matmul_cost.h).
  double misaligned;
};

// The row named `name`; null if there is none.
const SpeedRow* FindSpeedRow(std::string_view name);
// "intel-amx, ...", for messages.
std::string SpeedRowNames();
// The class of a CPU by LLVM's name for it, or of this machine ("native"), or of a CUDA arch ("sm_90a").
std::string_view SpeedClassOfCpu(std::string_view mcpu);
std::string_view SpeedClassOfArch(std::string_view arch);

double RateFor(const SpeedRow::Rates& rates, DType dtype);

}  // namespace cinn_like
