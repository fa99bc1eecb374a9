// The built-in tactics, one function a file.
#pragma once
#include <vector>

#include "hlir/tactics/tactic.h"

namespace cinn_like::hlir {

StatusOr<std::vector<Proposal>> ProposeMatmulLibrary(const ir::TeProgram& group,
                                                     const Target& target);                          // one library call
StatusOr<std::vector<Proposal>> ProposeMatmulCpu(const ir::TeProgram& group, const Target& target);  // register tiles
StatusOr<std::vector<Proposal>> ProposeMatmulGpu(const ir::TeProgram& group,
                                                 const Target& target);  // tiles in shared memory and registers
StatusOr<std::vector<Proposal>> ProposeRowsCpu(const ir::TeProgram& group,
                                               const Target& target);  // rows over threads and lanes
StatusOr<std::vector<Proposal>> ProposeRowsGpu(const ir::TeProgram& group,
                                               const Target& target);  // rows over blocks and threads

}  // namespace cinn_like::hlir
