// How threads of a block share tiles in its memory, and those of matrix units (ir/mma.h) in registers.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/schedule/schedule.h"

namespace cinn_like::hlir {

inline constexpr int64_t kWarpRows = 8, kWarpColumns = 4;  // of threads
inline constexpr int64_t kMmaDepth = 16;                   // of one product of tiles
inline constexpr int64_t kAccessBytes = 16;                // the most that a thread reads or writes at once
inline constexpr int64_t kRowFactor = 16, kRowOffset = 8;  // elements: rows of a panel begin in different banks

// All threads of a block fill a panel, `vector` elements an access, each several of them. `loops` around the panel's
// block, outermost first; what they become is named `name`_f and the like. `axes`: the block's threads, outermost
// first.
void FillByThreads(ir::Schedule& s, const std::string& name, std::vector<std::string> loops, int64_t vector,
                   const std::vector<std::pair<char, int64_t>>& axes);

}  // namespace cinn_like::hlir
