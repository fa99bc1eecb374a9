// Tiles of what lies across rows on a CPU.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hlir/tactics/row_nests.h"

namespace cinn_like::hlir {

// The reduced dimension along which an access of a stage, an element at `offset`, is contiguous where neighbouring
// rows, along `vector`, lie apart, and both sides are long enough to be turned; -1: none.
int DimAcross(const RowNests& r, size_t stage, ir::Expr offset, int vector);

// Stages of tiles beside those that compute, and their loops.
class TilesAcross {
 public:
  // Steps on stages, in front of any on loops: tiles for all that lies across rows whose lanes are along `vector`; and
  // where they lie.
  static StatusOr<TilesAcross> Create(RowNests& r, int vector);
  bool IsEmpty() const { return roles_.empty(); }
  bool Holds(const std::string& stage) const { return roles_.contains(stage); }
  const std::vector<std::string>& buffers() const { return buffers_; }
  // Steps on the nest of a stage that it holds: `size` elements of a line at a time, by `vectors` of `lanes` rows.
  // `line` is its loop over rows, `reduced` are the other dimensions that rows reduce. Gives the loop over chunks of
  // rows.
  std::string Split(RowNests& r, size_t stage, const std::string& line, const std::vector<int>& reduced,
                    int64_t vectors, int64_t lanes, int64_t size);
  // Each stage and its tiles in the same loops, where those over chunks are.
  void Merge(ir::Schedule& s) const;

 private:
  // What a stage is beside the one that computes: of what that one reads, lines as they lie in memory and the same
  // turned; of its result, turned back and written.
  enum class Part { kMain, kLines, kTurned, kTurnedBack, kWritten };
  struct Role {
    Part part;
    std::string main;  // the stage that computes
    int dim;           // along which lines lie
  };
  std::map<std::string, Role> roles_;
  std::vector<std::string> buffers_;
  struct Nest {
    std::string block;
    std::vector<std::string> shared;  // loops inside of chunks, outer ones first
    bool is_tile;
    std::pair<std::string, std::string> matrix;  // loops of what is turned; else empty
  };
  std::map<std::string, std::vector<Nest>> nests_;  // by main
};

}  // namespace cinn_like::hlir
