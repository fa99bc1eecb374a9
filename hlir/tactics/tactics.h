// The built-in tactics, one function a file.
#pragma once
#include <vector>

#include "hlir/tactics/tactic.h"

namespace cinn_like::hlir {

StatusOr<std::vector<Proposal>> ProposeMatmulLibrary(const ir::TeProgram& group, const Target& target, Until until,
                                                     Point& point);  // one library call
StatusOr<std::vector<Proposal>> ProposeMatmulCpu(const ir::TeProgram& group, const Target& target, Until until,
                                                 Point& point);  // register tiles
StatusOr<std::vector<Proposal>> ProposeChainCpu(const ir::TeProgram& group, const Target& target, Until until,
                                                Point& point);  // reductions between two contractions
StatusOr<std::vector<Proposal>> ProposeChainGpu(const ir::TeProgram& group, const Target& target, Until until,
                                                Point& point);  // reductions between two contractions
StatusOr<std::vector<Proposal>> ProposeMatmulGpu(const ir::TeProgram& group, const Target& target, Until until,
                                                 Point& point);  // tiles in shared memory and registers
StatusOr<std::vector<Proposal>> ProposeRowsCpu(const ir::TeProgram& group, const Target& target, Until until,
                                               Point& point);  // rows over threads and lanes
StatusOr<std::vector<Proposal>> ProposeRowsGpu(const ir::TeProgram& group, const Target& target, Until until,
                                               Point& point);  // rows over blocks and threads
StatusOr<std::vector<Proposal>> ProposeRowsOnline(const ir::TeProgram& group, const Target& target, Until until,
                                                  Point& point);  // maxima and sums of rows in one go
StatusOr<std::vector<Proposal>> ProposeScansGpu(const ir::TeProgram& group, const Target& target, Until until,
                                                Point& point);  // a thread for each that runs

}  // namespace cinn_like::hlir
