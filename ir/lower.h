// From a scheduled function to what backends emit: the lists of passes are the contract (ir/lower.cc).
#pragma once
#include "cinn_like/base/pass_pipeline.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

// An internal function with blocks -> flat buffers, vector expressions, no blocks. For a GPU its nests stay bound to
// device axes; SplitHostDevice takes them apart afterwards.
StatusOr<Func> LowerKernel(Func f, const PassContext& context);

// An entry function -> its intermediates in one planned arena.
StatusOr<Func> LowerEntry(Func f, const PassContext& context);

// Every function of a module by kind, then the host/device split for a GPU, then in kernels fewer
// quotients and narrow indices.
StatusOr<Module> LowerModule(Module m, const PassContext& context);

}  // namespace cinn_like::ir
