// What the two shapes of row spaces on a CPU share: rows_cpu.cc and, for sums over columns beside rows,
// rows_cpu_sums.cc.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hlir/tactics/row_nests.h"
#include "hlir/tactics/tactic.h"

namespace cinn_like::hlir {

constexpr int64_t kInFlight = 4;        // vectors of a row
constexpr int64_t kMostRows = 1 << 30;  // that are counted
constexpr int64_t kRowsOfBlock = 32;    // that share what their lines alone decide

// Lanes of the widest elements; elements that a line along `dim` has.
int64_t WidestLanes(const ir::TeProgram& group, const Target& target);
int64_t LikelyLength(const RowNests& r, int dim);

// A vector's lanes along `dim`, and as many vectors at once as hide what an operation's result takes to be there, if
// the row is long enough to fill them.
int64_t LanesFor(const RowNests& r, const Target& target, int dim);
int64_t LanesInFlight(const RowNests& r, int64_t lanes, int dim);
// The dimension along which most memory is contiguous, unless lanes along another take much less time: that one may be
// short, as the window of a pool is.
int ChooseVectorDim(const RowNests& r, const Target& target);
// Elements that are vectorised together, so that each vector's lanes lie as they do in the next.
int64_t PeriodOf(const RowNests& r, int vector);
// Of what no stage reduces the last dimensions beside the lines along `vector` with which something doesn't move whose
// lanes lie apart, such as a mean of each ten channels where these come last: a block of such rows reads it once. None:
// there is nothing like it.
std::vector<int> RowsBeside(const RowNests& r, int vector);
// What all threads together need for the values of a group: vector operations, more of them where a load is masked or
// its lanes lie apart, and the bytes that come from memory.
double PredictSeconds(const RowNests& r, int vector, int64_t lanes, const Target& target);
// Bytes that one row needs of an intermediate.
int64_t RowBytes(const RowNests& r, const Target& target, ir::Buffer b);
// Temporaries on a thread's stack while there is room, each of at most `most` of the bytes that it needs; others are
// computed where they are read, if they can be. `placed`: names of those that have a place.
void PlaceOnStack(RowNests& r, const Target& target, int64_t most, const std::function<int64_t(ir::Buffer)>& bytes_of,
                  const std::vector<std::string>& placed = {});

// The stage of the sums over columns beside rows; as many as there are: none is.
size_t SumOf(const RowNests& r);
// Whether sums are kept of each element along `dim`.
bool IsColumn(const RowNests& r, int dim);

// Rows beside the sums of their columns: a task is a chunk of rows. What is in cache of a row is added to the chunk's
// sums, which stay there, too, by the loop of the last stage that goes through the row if that can be.
StatusOr<std::vector<Proposal>> ProposeRowsWithSums(RowNests& r, const Target& target, Until until, Point& point);

}  // namespace cinn_like::hlir
