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

// The group as acc[b, i, j] = sum over k, and the last `results` stages computed from acc at (b, i, j): rows i, of
// which one element at a time is broadcast, by lanes j.
struct FlatContraction {
  ir::TeProgram group;
  size_t results = 1;
  ir::Expr b, i, j;  // extents
  // The operands as they are multiplied, in terms of vb, vi, vj and the reduction's iterators, and of what each is
  // computed of the load by which it is judged how elements lie (MainLoad).
  ir::Expr rows_value, lanes_value;
  ir::Expr of_rows, of_lanes;
  ir::Expr vb, vi, vj;

  // From the contraction of `group`.
  void SetOperands(bool lhs_is_rows);
  const ir::Stage& result(size_t k) const { return group.stages[group.stages.size() - results + k]; }
};

// The part of a reduction that a panel holds: all of the iterators from `outer` on, in the plan's order, and, where
// `factor` is not 0, so many steps of the one before. The others move from panel to panel.
struct PanelDepth {
  size_t outer = 0;
  int64_t factor = 0;
  int64_t steps = 1;
};

// The iterators of a reduction in groups that one instruction sums (contraction_dots.h): of the groups, and of a
// group's members.
struct DotProduct {
  ir::ForKind kind = ir::ForKind::kDot2;
  std::string groups, member;
  size_t at = 0;             // of the groups' among the reduction's iterators; that of their members is the next
  bool tiles = false;        // of a matrix unit: the iterator before the groups' is that of its steps
  bool compensated = false;  // the stage `totals` sums the lanes' operand
  // How that lies: rows along the lanes, rows along the reduction, in groups already, or otherwise.
  enum class Lanes : uint8_t { kAlongLanes, kAlongGroups, kGrouped, kOther } lanes = Lanes::kOther;
};

constexpr int64_t kTileGroups = 16, kTileRows = 32;  // of a step of the matrix unit, with two tiles of rows
constexpr int64_t kMostNear = 4;                     // elements apart: vectors are read or written whole

// A product as it is to be computed: steps on stages are done, those on loops follow.
struct ContractionPlan {
  ir::Schedule schedule;
  FlatContraction flat;
  PanelShape tile = {};
  int64_t rows = 1;                // of a tile
  bool pack = false;               // the lanes' operand, a panel at a time
  std::vector<size_t> order = {};  // of the reduction's iterators in panels: those last that a unit sums
  PanelDepth depth = {};           // of a panel; with iterators outside, sums wait in memory from panel to panel
  int64_t row_block = 0;           // rows that share a panel, or a padded image; 0: all
  bool contiguous = false;         // its lanes, in memory
  // Else the reduction's iterator along which it is, where whole matrices can change places on their way to a panel.
  std::optional<size_t> across = std::nullopt;
  bool near = false;                             // its rows
  bool aligned = false;                          // they begin where vectors do, if the first does
  int64_t placed = 0, scattered = 0;             // results that lie along the lanes, and others
  bool near_results = true;                      // none of these is more than a few elements apart
  bool is_masked = false;                        // elements that are broadcast are read under a condition
  bool masks_lanes = false, is_guarded = false;  // those of the lanes; whole steps of a tile are
  // The operand of the rows is written to memory as it is multiplied, once, before the tiles; by vectors along its last
  // iterator; or as a unit's tiles, one behind the other; or turned, so that what each step of the reduction reads a
  // line or more apart lies along it. `in_batch`: others for each step of the batch.
  bool copy_rows = false, copies_runs = false, in_tiles = false, turns_rows = false, in_batch = false;
  // How tiles' runs lie in what they are copied from: along it, behind each other for each place of a window, or apart.
  enum class Runs : uint8_t { kAlong, kTurned, kApart } runs = Runs::kApart;
  ir::Expr run_step = nullptr;
  // Windows that no two tiles share are read from a copy of their image with zeros around, a block of rows at a time.
  bool padded = false;
  std::vector<size_t> taps = {};  // iterators of its reduction that are unrolled in a tile, the innermost last
  bool in_phases = false;
  double part = 1;                              // of guarded steps, those that do something
  absl::flat_hash_set<ir::Expr> guarding = {};  // iterators of the reduction that say so
  // Of windows in phases they were, before iterators were folded; which of the copy's loops are over steps of the
  // reduction (0), digits (1) and the rows (2).
  double copied_elements = 0;
  std::vector<int> copied = {};
  // A panel is made in steps: lines that are read under masks are copied as they lie ("lines"), elements change places
  // as they are ("raw"), what is computed of them is written along the lanes ("lanes"), groups are made of that.
  bool has_lines = false, has_raw = false, has_lanes = false;
  std::string panel_lanes = {};  // the panel's iterator of lanes, where steps end at a symbol
  ir::Expr lane_step = nullptr;
  // How far elements of the rows' operand are apart: from the first row to the second (lines of an image end, others
  // need not be so far apart), and along the innermost loop of the reduction; null: not always as far.
  ir::Expr row_step = nullptr, depth_step = nullptr;

  // Whether a panel holds all steps of iterator `d` of the reduction, or some; else it moves from panel to panel.
  bool IsInPanel(size_t d) const { return PlaceOf(d) >= depth.outer || IsInPart(d); }
  // Some of them.
  bool IsInPart(size_t d) const { return PlaceOf(d) + 1 == depth.outer && depth.factor > 0; }
  size_t PlaceOf(size_t d) const;
  std::optional<DotProduct> dots = {};  // by an instruction that sums groups
  double seconds = 0;
};

// What a core waits for rows that each step of the reduction reads elsewhere, where nothing keeps them near until the
// next tile reads the same lines.
double SecondsOfFarRows(const ContractionPlan& plan, const Target& target);
// What an element of a copy of them takes, that lies along the reduction.
double SecondsOfTurnedRow(const ContractionPlan& plan, const Target& target);
// Rows and steps of the reduction that change places in registers on their way there; 1: one by one.
int64_t TurnedTogether(const ContractionPlan& plan);
// What the plan takes on the target's cores (contraction_price.cc).
double PredictSeconds(const ContractionPlan& plan, const Target& target);

// nullopt: the group is no contraction with what is computed of each of its elements, or none for register tiles.
// Windows are cut into phases, unless `cuts` says that they are not.
StatusOr<std::optional<ContractionPlan>> PlanContraction(const ir::TeProgram& group, const Target& target, Point& point,
                                                         bool cuts = true);

}  // namespace cinn_like::hlir
