// What the cost models of single tactics ask of a machine's caches, memory and instructions, beside the rates in
// cinn_like/base/speeds.h.
#pragma once
#include <cstdint>

#include "cinn_like/base/target.h"

namespace cinn_like {

// Of one core of a CPU. Fitted to kernels of ours on one and two cores of an AMD EPYC (Zen 5) and of an Intel Xeon with
// AMX (docs/performance.md), those of a matrix unit on the latter alone; taken apart by class in CpuCostsOf alone.
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
  double page_bytes = 4096, line_bytes = 64;
  // Of a line from there that was not asked for in time: steps so far apart no processor fetches ahead, and where what
  // is beyond a core's caches is 200 cycles away, instructions that wait for it fill the queue. 0: they don't.
  double far_line_seconds = 0, ahead_bytes = 256;
  double loop_seconds = 1.5e-6;  // of starting and ending a parallel loop

  // Of an element of a panel: read along the lanes; along the reduction; every other one; gathered, from near, from
  // beyond the caches, and where each lane is in a page of its own; one by one.
  double pack_seconds = 0.06e-9, transpose_seconds = 0.12e-9, strided_seconds = 0.2e-9;
  double gather_seconds = 0.4e-9, gather_far_seconds = 0.9e-9, gather_pages_seconds = 1e-9;
  double move_seconds = 0.6e-9;
  // The same of a matrix unit's operands: every other one, of vectors that are read whole; what changes places with a
  // window's places, near and far.
  double tile_strided_seconds = 0.12e-9, turn_seconds = 0.17e-9, turn_far_seconds = 0.3e-9;
  // Of a result, from the registers to memory: in vectors, one by one; of a matrix unit's there and back.
  double result_seconds = 0.1e-9, scatter_seconds = 0.5e-9, tile_result_seconds = 0.2e-9;
  // Of a result of 16 bits that a matrix unit's tiles have, one by one; of a sum of such a tile between two panels; and
  // of each further result with what it is computed of: lines far apart, where loops over rows go along memory (the
  // price of which is as far above what they take: docs/performance.md).
  double tile_scatter_seconds = 1.5e-9, tile_part_seconds = 0.04e-9, further_result_seconds = 1.2e-9;
  // How many times as long register tiles take that gather lanes, read every other one, have rows far apart or
  // anywhere, or those of one tap of a window; or that decide for each element, or for all lanes, whether to read.
  double gather_factor = 12, strided_factor = 2, far_rows_factor = 1.5, anywhere_factor = 1.2, far_taps_factor = 1.6;
  double masked_factor = 4, masked_lanes_factor = 2.1;
  double padded_image_seconds = 40e-9;  // the first that is read of a copy waits for stores that it has parts of
  double busy_sums = 8;                 // that don't wait for each other keep the multipliers busy

  // Of chains of contractions. Of an element of the rows' operand and of the result, of one that is computed for rows
  // and keys, and of one that is read with rows far apart; how many times as long tiles take that ask whether they are
  // whole; and of SpeedRow::own_rows, where each value stays in the first-level cache from step to step.
  double chain_gather_seconds = 0.6e-9, chain_element_seconds = 0.05e-9, chain_apart_seconds = 0.5e-9;
  double chain_rest_factor = 1.05, chain_near_factor = 3;

  // Vectors of a line that a tile of a transposition has, of what is read and of what is written; and of one that is
  // copied alone.
  int64_t tile_in = 4, tile_out = 4, copy_in = 8, copy_out = 1;

  // Of each row that long columns are summed of, what one chunk of them reads at most: all that registers have sums
  // for, unless what a processor fetches ahead in a page, of the next chunk, costs more (docs/performance.md). Of
  // columns of fewer rows, beginning the next chunk takes longer than is saved.
  int64_t column_bytes = 4096, column_rows = 256;

  // Of loops over rows, in vector operations: a load under a mask, under one of loaded values, of every other element,
  // of lanes that lie apart; a store of every other element, of lanes that lie apart. A scan's steps between lanes: the
  // part of what others take that wait for memory, of one running value and of several.
  double masked_load_ops = 2, waiting_load_ops = 12, near_load_ops = 2, apart_load_ops = 16;
  double near_store_ops = 1, apart_store_ops = 64;
  double turned_ops = 4;     // of what lies across, through the first-level cache
  double quotient_ops = 48;  // of a place in each lane by a size that is no constant
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
  int64_t blocks = 32;                // the same

  // Of loops over rows: what comes from a cache, and not from memory, beside memory's bytes a second; a row that waits
  // for memory and for the other threads to reduce it, each time that it is gone through, and times that where pairs
  // are reduced; a warp's accesses side by side, of a core, each time, beside all that; and what each halving of
  // accesses of 16 bytes adds, of elements, of tiles that are turned, of a cluster's rows, and of rows that are gone
  // through once for a maximum and sums under it; of a core, what an element there costs that may not be the row's.
  double again_per_byte = 1.5, pass_seconds = 0.8e-6, pair_passes = 3, part_seconds = 0.25e-9;
  double narrow_access = 0.07, narrow_tile = 0.35, narrow_cluster = 0.5, narrow_online = 0.1,
         ask_online_seconds = 6e-12;
  double bytes_in_flight = 48 << 10;    // of a core, asked of memory at once, that keep it busy
  double core_bytes_per_second = 90e9;  // of memory, that a core has for itself where others have nothing to do
  double division_seconds = 0.1e-9, wide_division_seconds = 0.3e-9;  // of a core, by no constant, of 32 and 64 bits

  // Of a thread that goes along a scan: elements that it asked for at once, also where those of its neighbours are not
  // beside them; one of these, of a core; and a step, also of a running value in f64.
  double scan_turn_seconds = 0.21e-6, scan_apart_seconds = 0.86e-6, scan_apart_access = 1.3e-9;
  double scan_step_seconds = 2e-9, scan_wide_step_seconds = 11e-9;
  // How much longer it waits for elements of columns that come from memory, not from L2.
  double scan_far_seconds = 0.39e-6;
  // Of the threads of a row or of a column, in turns: until what all of them have come to is known, in one warp and
  // more for each of several; what a warp does for 8 bytes that run, of a core, alone and more for each of several; how
  // many times all that for pairs, and again where warps exchange them.
  double scan_wait_seconds = 0.18e-6, scan_warp_wait_seconds = 0.045e-6;
  double scan_warp_seconds = 11.5e-9, scan_exchange_seconds = 1.08e-9, scan_pairs = 3.7, scan_pair_exchanges = 4;
  // Of columns: what each halving of so many bytes side by side adds to accesses; and what is left of waiting beside
  // them, or of them beside waiting, where a core has one block, which does one or the other.
  double scan_narrow = 0.05, scan_wide_bytes = 256, scan_exposed = 0.5;

  // Of loops over rows with products: the part of its flops (elements are converted and indexed, too); and what it
  // reads again, an element at a time, and in vectors from its own memory, which holds so much, where the other operand
  // comes by once.
  double row_part = 0.15, row_far_bytes_per_second = 26e9, row_near_bytes_per_second = 100e9, row_near_bytes = 64 << 10;

  // Of products in tiles: what comes from L2 to shared memory, by threads and where Hopper's matrix units read from
  // there; a panel from memory to there, with two barriers, and one that was asked for in time, with one barrier;
  // threads that keep the lanes busy, and the matrix units; a result of these, two neighbours at a time, and how much
  // longer one alone takes; the part of the rate of copies at which panels come from memory; and of what takes less
  // time than the longest part, what is left beside it.
  double tile_bytes_per_second = 40e9, wgmma_bytes_per_second = 75e9;
  double panel_seconds = 0.6e-6, step_seconds = 0.05e-6;
  double busy_threads = 256, mma_busy_threads = 128;
  double mma_result_seconds = 0.12e-9, mma_single_results = 5, mma_part_of_copies = 0.9, mma_exposed = 0.06;

  // Of chains of contractions. By a warp's matrix units: what is computed of a score beside the products; the part of
  // its rate that one block alone has, which takes turns with none; what a tile takes once, in keys. By those of four
  // warps at once: of a score, where many fours are beside each other; how much longer it takes one such four alone;
  // what a tile takes, in scores, for each row and for each of its sums; and what keys and values come at from L2.
  double score_seconds = 60e-12, alone_part = 0.6;
  int64_t tile_keys = 32;
  double wgmma_score_seconds = 14e-12, wgmma_alone_factor = 5.4, tile_scores = 20, tile_sum_scores = 0.4;
  double key_bytes_per_second = 45e9;

  double library_seconds = 3e-6;  // of a call of the matrix library
  // Of the rate of copies, what products reach that memory takes the most time of.
  double library_part_of_copies = 0.85;
};

// Those of a target's class, where it has figures of its own (docs/performance.md), else of any machine.
inline const CpuCosts& CpuCostsOf(const Target& target) {
  static constexpr CpuCosts kAny, kIntelAmx = {.far_line_seconds = 2.5e-9, .copy_out = 4, .column_bytes = 256};
  static constexpr CpuCosts kAvx2 = {.far_line_seconds = 2.5e-9};
  const std::string_view name = target.device->speed_class(target.RowName());
  return name == "intel-amx" ? kIntelAmx : name == "avx2" ? kAvx2 : kAny;
}
inline const GpuCosts& GpuCostsOf(const Target&) {
  static constexpr GpuCosts kCosts;
  return kCosts;
}

}  // namespace cinn_like
