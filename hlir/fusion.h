// Which stages become one kernel. Decided by access maps alone:
//   - a view is substituted into its readers, everywhere;
//   - a contraction (matrix product, convolution) takes the pointwise stage that reads all of it as its epilogue; one
//     that the target's library computes takes only what the library does on its way out;
//   - the last of the views that alone read a contraction stays: it says in which type and layout to write the product;
//   - a reduction to few results becomes two where that pays (hlir/split_reductions.h), before anything joins;
//   - what is computed for checks alone (TeProgram::kept) stays apart from the rest;
//   - reductions of a contraction's results that another contraction reads join both, where some tactic's price for all
//     of them is below that of the kernels apart (hlir/tactics/chain_cpu.cc);
//   - so do several contractions and what reads all of their results, and contractions of equal extents that share an
//     operand, on GPUs;
//   - so does, on CPUs, what else is computed of a contraction's results, element by element;
//   - so does what computes an operand of a contraction, element by element (weights of integers, scaled; masks);
//   - a scan takes, on GPUs, what reads its results where they are (IsScanWithReaders), and nothing else;
//   - parts of column sums join what goes through the same rows (FindColumnSums);
//   - all other stages join where they can share the loops of one row space (hlir/row_space.h), across reductions.
// A kernel is never fused with something that would multiply its work, and groups never form a cycle.
#pragma once
#include <vector>

#include "cinn_like/base/target.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// Stages of the program, some substituted away, and their groups in an order in which they can run.
struct FusionPlan {
  struct Group {
    std::vector<int> stages;          // indices into program.stages, ascending
    std::vector<ir::Buffer> outputs;  // results of the program and what other groups read, in the order of the stages
  };
  ir::TeProgram program;
  std::vector<Group> groups;
};

// `fuse` false: one group per stage (views are still substituted).
StatusOr<FusionPlan> PlanFusion(ir::TeProgram program, bool fuse, const Target& target);

}  // namespace cinn_like::hlir
