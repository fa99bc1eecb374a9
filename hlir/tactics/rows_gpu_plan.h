// How a GPU's threads share rows and columns, and how long that is predicted to take: what rows_gpu.cc writes as steps.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "cinn_like/base/target.h"
#include "hlir/tactics/row_nests.h"

namespace cinn_like::hlir {

class RowsGpuPlan {
 public:
  static constexpr int64_t kAccessBytes = 16;
  static constexpr int64_t kWarp = 32;
  static constexpr int64_t kMaxRegisterElements = 64;  // of one row, a thread
  static constexpr int64_t kMostThreads = 1024;        // of a block, where the device runs as many
  static constexpr int64_t kThreads = 128;             // where each has elements of its own
  static constexpr int64_t kUnroll = 8;                // loads in flight, a thread
  static constexpr int64_t kMostLoads = 32;            // and where a loop is long, in all
  static constexpr int64_t kReserved = 10 * 1024;      // of shared memory, for exchanges between threads

  // `r` outlives this, and may change.
  RowsGpuPlan(const RowNests& r, const Target& target);

  // Predicted, where most of what is read and written is contiguous along `vector` (-1: single elements), by what is
  // read once and again, the width of accesses, and rows that wait for memory and for threads.
  double Seconds(int vector) const;

  // The dimension along which threads lie side by side: what most of memory is contiguous along, but columns where some
  // is along rows and some across them, and a block's part of both passes through shared memory. -1: single elements.
  int VectorDim() const;

  // Of a block.
  int64_t most_threads() const { return most_threads_; }
  // Elements in 16 bytes of the widest of the largest tensors that are read or written along a dimension.
  int64_t AccessElements(int dim) const { return kAccessBytes / r_.WidestAlong(dim); }
  // Of one access where `dims` are one line of memory.
  int64_t VectorFor(const std::vector<int>& dims) const;
  int64_t VectorFor(const std::vector<int>& dims, int64_t access) const;  // of one of so many elements
  // Threads can share a reduction, each with a part of it; else one does it all. Of short windows each has its own:
  // then they read neighbours.
  bool CanShare() const;
  // What stage k writes has an element for each of a row's.
  bool IsRowSized(size_t k) const;

  // A value in memory says where rows end.
  bool EndsInMemory() const;

  // A row's length; 0 if symbolic.
  int64_t RowLength() const;
  // The most that it can be, and no more than what is more than any cluster's registers hold.
  int64_t LongestRow() const;

  // How a row that is contiguous along its last reduced dimension is shared.
  struct Row {
    int64_t longest = 0;              // elements; 0: not known
    int64_t v = 1;                    // of an access
    bool shifted = false;             // accesses begin where memory's do, before the row
    int64_t threads = 1, blocks = 1;  // that share it
    bool in_registers = false;
    double registers = 0;  // of all these threads
  };
  // With accesses of so many elements and so many threads, where these are said.
  Row PlanRow(int vector, std::optional<int64_t> width = std::nullopt,
              std::optional<int64_t> threads = std::nullopt) const;
  // Elements between where memory's accesses, of `v` each, begin and where a row does, in the largest of what is read
  // along it; null: always none, or a row has several dimensions.
  ir::Expr ShiftOfRow(int vector, int64_t v) const;
  // The same of lines that are not reduced, where accesses are shifted; null: nowhere.
  ir::Expr ShiftOfLine(int vector) const;
  // Rows of a block.
  int64_t RowsTogether(int64_t threads) const;

  // How a block takes columns.
  struct Strip {
    int64_t columns = 1, sharers = 1;  // neighbours, and threads of each column
    int64_t lanes = 1;                 // columns of a thread: of one access
    int64_t blocks = 1;                // that share a column
    bool in_registers = false;
    bool crosses = false;  // what lies along rows passes through shared memory
  };
  Strip PlanStrip(int vector) const;
  // Of a column of a strip, of so many, the loads of a thread that wait for memory at once, where so many share it.
  int64_t LoadsOfStrip(int vector, int64_t columns, int64_t sharers) const;
  // Neighbouring columns that a block takes, about `wanted`; of few, strips of one size.
  int64_t ColumnsOfStrip(const std::vector<int>& along, int64_t wanted) const;

 private:
  // Where some of what has an element for each of the space's lies in memory along columns and some along rows, which
  // a block's registers hold; nullopt: nothing does, or they don't.
  std::optional<Strip> PlanCrossed(int vector) const;
  int64_t BytesAcross() const;  // of what lies along rows, for one element of the space
  // Where memory says how long columns are, most may be short: where there are enough of them for a quarter of a
  // device, each is one thread's, which has as many as 16 bytes hold of the largest tensor.
  std::optional<Strip> PlanOwn(const std::vector<int>& along, double all_columns) const;
  // The most elements that a line of these dimensions can have, counted as LongestRow says.
  int64_t Longest(const std::vector<int>& line) const;
  // Bytes that move beside elements of what lies along one of `dims`, of which memory has neighbours across the
  // direction in which threads lie.
  double BytesBeside(const std::vector<int>& dims) const;
  // Whether a result is as large as the rows.
  bool WritesRows() const;
  // How often the group goes through a row: for each reduction, and once for what is as large as it.
  int64_t Passes() const;
  // Of elements, so many at once, to find where they lie along dimensions that a loop goes through as one: quotients by
  // sizes that are not constant.
  double SecondsOfPlaces(const std::vector<int>& dims, int64_t at_once) const;
  // Bytes of a row's elements that are read after the first time, of rows that lie in no registers.
  double BytesAgain(int64_t passes) const;
  int64_t LikelyRowLength() const;

  const RowNests& r_;
  const Target& target_;
  const int64_t most_threads_;
};

// What several stages read is read from memory once.
std::vector<RowNests::Input> SharedOf(std::vector<RowNests::Input> inputs);

}  // namespace cinn_like::hlir
