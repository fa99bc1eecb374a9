// How fast a class of machines computes what cost models ask about: our loops, and the framework's tuned kernels, which
// are the other side's prices when ops are shared out between it and us. A row per class; speeds.cc says which were
// measured. What the cost models of single tactics ask of caches, memory and instructions is CpuCosts and GpuCosts; a
// row whose machines differ from those of the defaults says so.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cinn_like/base/dtype.h"

namespace cinn_like {

// What kind of tuned kernel a framework has for an op. An op says it of itself (hlir::OpDef::framework_kernel).
// A scatter adds each element of an operand to one of the result: memory takes all of its time.
enum class FrameworkKernel : uint8_t { kNone, kProduct, kConvolution, kPooling, kScatter, kScan };

// Of one core of a CPU. Fitted to kernels of ours on one and two cores of an AMD EPYC (Zen 5) and of an Intel Xeon with
// AMX (docs/performance.md), those of a matrix unit on the latter alone; not taken apart by class yet.
struct CpuCosts {
  // What a thread keeps on its stack while it is used again: temporaries in all, of a chunk of rows, of one row; an
  // operand's panel, or what a task of a chain has, which is half of the second-level cache; a matrix unit's panel,
  // which is most of the first.
  int64_t stack_bytes = 768 * 1024, chunk_bytes = 256 * 1024, row_bytes = 64 * 1024;
  int64_t panel_bytes = 512 * 1024, tile_panel_bytes = 32 * 1024;
  // Rows so far apart share a set of the first-level cache, which has room for so many.
  int64_t set_bytes = 4096, set_rows = 8;
  double near_bytes = 1 << 20;          // that a core's caches hold; what is larger comes from beyond them
  double far_bytes_per_second = 100e9;  // of what comes again, in order, from there
  double page_bytes = 4096;
  double loop_seconds = 1.5e-6;  // of starting and ending a parallel loop

  // Of an element of a panel: read along the lanes; along the reduction; every other one; gathered, from near, from
  // beyond the caches, and where each lane is in a page of its own; one by one.
  double pack_seconds = 0.06e-9, transpose_seconds = 0.12e-9, strided_seconds = 0.2e-9;
  double gather_seconds = 0.4e-9, gather_far_seconds = 0.9e-9, gather_pages_seconds = 1e-9;
  double move_seconds = 0.6e-9;
  // Of a result, from the registers to memory: in vectors, one by one; of a matrix unit's there and back.
  double result_seconds = 0.1e-9, scatter_seconds = 0.5e-9, tile_result_seconds = 0.2e-9;
  // How many times as long register tiles take that gather lanes, read every other one, have rows far apart or
  // anywhere, or those of one tap of a window; or that decide for each element, or for all lanes, whether to read.
  double gather_factor = 12, strided_factor = 2, far_rows_factor = 1.5, anywhere_factor = 1.2, far_taps_factor = 1.6;
  double masked_factor = 4, masked_lanes_factor = 2.1;
  double busy_sums = 8;  // that don't wait for each other keep the multipliers busy

  // Of chains of contractions. Of an element of the rows' operand and of the result, of one that is computed for rows
  // and keys, and of one that is read with rows far apart; how many times as long tiles take that ask whether they are
  // whole; and of SpeedRow::own_rows, where each value stays in the first-level cache from step to step.
  double chain_gather_seconds = 0.6e-9, chain_element_seconds = 0.05e-9, chain_apart_seconds = 0.5e-9;
  double chain_rest_factor = 1.05, chain_near_factor = 3;

  // Of loops over rows, in vector operations: a load under a mask, under one of loaded values, of every other element,
  // of lanes that lie apart; a store of every other element, of lanes that lie apart. A scan's steps between lanes: the
  // part of what others take that wait for memory, of one running value and of several.
  double masked_load_ops = 2, waiting_load_ops = 12, near_load_ops = 2, apart_load_ops = 16;
  double near_store_ops = 1, apart_store_ops = 64;
  double scan_part = 0.15, scan_of_several_part = 0.5;
};

// Of one SM of a GPU, where nothing else is said. Fitted to kernels of ours on an H200 and on an H100
// (docs/performance.md); not taken apart by arch yet.
struct GpuCosts {
  double kernel_seconds = 2e-6;       // of one that does nothing
  double part_of_bandwidth = 0.87;    // that copies reach, of what the memory's clock says
  double flops = 128 * 2 * 1.7e9;     // a second: 128 lanes multiply and add at 1.7 GHz
  double part_without_reuse = 0.015;  // of them, of products whose every operand comes from a cache
  int64_t threads = 2048;             // that it holds at once

  // Of loops over rows with products: the part of its flops (elements are converted and indexed, too); and what it
  // reads again, an element at a time, and in vectors from its own memory, which holds so much, where the other operand
  // comes by once.
  double row_part = 0.15, row_far_bytes_per_second = 26e9, row_near_bytes_per_second = 100e9, row_near_bytes = 64 << 10;

  // Of products in tiles: what comes from L2 to shared memory, by threads and where Hopper's matrix units read from
  // there; a panel from memory to there, with two barriers, and one that was asked for in time, with one barrier;
  // threads that keep the lanes busy, and the matrix units; a result of these, two neighbours at a time; the part of
  // the rate of copies at which panels come from memory; and of what takes less time than the longest part, what is
  // left beside it.
  double tile_bytes_per_second = 40e9, wgmma_bytes_per_second = 75e9;
  double panel_seconds = 0.6e-6, step_seconds = 0.05e-6;
  double busy_threads = 256, mma_busy_threads = 128;
  double mma_result_seconds = 0.12e-9, mma_part_of_copies = 0.9, mma_exposed = 0.06;

  // Of chains of contractions. By a warp's matrix units: what is computed of a score beside the products; the part of
  // its rate that one block alone has, which takes turns with none; what a tile takes once, in keys. By those of four
  // warps at once: of a score, where many fours are beside each other; how much longer it takes one such four alone;
  // what a tile takes, in scores, for each row and for each of its sums; and what keys and values come at from L2.
  double score_seconds = 60e-12, alone_part = 0.6;
  int64_t tile_keys = 32;
  double wgmma_score_seconds = 14e-12, wgmma_alone_factor = 5.4, tile_scores = 20, tile_sum_scores = 0.4;
  double key_bytes_per_second = 45e9;

  double library_seconds = 3e-6;  // of a call of the matrix library
  double library_part_of_copies =
      0.85;  // of the rate of copies, what products reach that memory takes the most time of
};

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
  CpuCosts cpu = {};  // of a row of CPUs
  GpuCosts gpu = {};  // of a row of GPUs
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
