// How matmul_cpu computes a contraction: which iterators are rows and which are lanes of a register tile, whether the
// lanes' operand is packed into panels, how deep and for how many rows, and what that is predicted to take.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "hlir/panels.h"
#include "hlir/tactics/point.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// The group as acc[b, i, j] = sum over k, out written from acc at (b, i, j): rows i, of which one element at a time is
// broadcast, by lanes j.
struct FlatContraction {
  ir::TeProgram group;
  ir::Expr b, i, j;  // extents
  // The operands as they are multiplied, in terms of vb, vi, vj and the reduction's iterators, and of what each is
  // computed of the load by which it is judged how elements lie (MainLoad).
  ir::Expr rows_value, lanes_value;
  ir::Expr of_rows, of_lanes;
  ir::Expr vb, vi, vj;

  // From the contraction of `group`.
  void SetOperands(bool lhs_is_rows);
};

// The part of a reduction that a panel holds: all of the iterators from `outer` on and, where `factor` is not 0, so
// many steps of the one before. The others move from panel to panel.
struct PanelDepth {
  size_t outer = 0;
  int64_t factor = 0;
  int64_t steps = 1;
};

// The iterators of a reduction in pairs (contraction_pairs.h): of the pairs, and of a pair's two.
struct PairedProduct {
  std::string pairs, pair;
  size_t at = 0;  // of the pairs' among the reduction's iterators; that of a pair's two is the next
  // How the operand of the lanes lies: rows along the lanes, rows along the reduction, in pairs already, or otherwise.
  enum class Lanes : uint8_t { kAlongLanes, kAlongPairs, kPaired, kOther } lanes = Lanes::kOther;
};

// A product as it is to be computed: steps on stages are done, those on loops follow.
struct ContractionPlan {
  ir::Schedule schedule;
  FlatContraction flat;
  PanelShape tile = {};
  int64_t rows = 1;         // of a tile
  bool pack = false;        // the lanes' operand, a panel at a time
  PanelDepth depth = {};    // of a panel; with iterators outside, sums wait in memory from panel to panel
  int64_t row_block = 0;    // rows that share a panel; 0: all
  bool contiguous = false;  // its lanes, in memory
  // Else the reduction's iterator along which it is, where whole matrices can change places on their way to a panel.
  std::optional<size_t> across = std::nullopt;
  bool near = false;       // its rows
  bool aligned = false;    // they begin where vectors do, if the first does
  bool in_place = false;   // results lie along the lanes
  bool is_masked = false;  // elements that are broadcast are read under a condition
  // The operand of the rows is written to memory as it is multiplied, once, before the tiles; by vectors along its last
  // iterator.
  bool copy_rows = false, copies_runs = false;
  // A panel is made in steps: lines that are read under masks are copied as they lie ("lines"), elements change places
  // as they are ("raw"), what is computed of them is written along the lanes ("lanes"), pairs are made of that.
  bool has_lines = false, has_raw = false, has_lanes = false;
  ir::Expr lane_step = nullptr;
  std::optional<PairedProduct> paired = {};  // of bf16, by the instruction that sums pairs
  double seconds = 0;
};

// nullopt: the group is no contraction {acc} or {acc, epilogue}, or none for register tiles.
StatusOr<std::optional<ContractionPlan>> PlanContraction(const ir::TeProgram& group, const Target& target,
                                                         Point& point);

}  // namespace cinn_like::hlir
