// Loop text in, a function out: one level below graphs (cinn_like/driver.h), for whoever writes stages and schedules.
//
//   func @scale(x: f32[n], y: f32[n] out) where n in 1..4096 {        split l_i 64 -> a b
//     for l_i in 0..n { block b_y(i in 0..n = l_i) { y[i] = x[i] * 2.0 } }       bind a blockIdx.x
//   }                                                                 bind b threadIdx.x
//
//   ASSIGN_OR_RETURN(auto f, LowerModuleText(text, schedule, target, options));
//   RETURN_IF_ERROR(f->Finish());
//   f->entry()(f->self(), args, num_args, &env);       // x, then y or None
#pragma once
#include <memory>
#include <string_view>

#include "cinn_like/driver.h"
#include "ir/stmt.h"

namespace cinn_like {

// Internal functions and one entry that calls them; or one internal function alone, for which an entry of its name is
// made: its results are the parameters marked `out`, its other parameters come first, in their order. That an entry in
// the text passes what its functions take, its tensors' memory and sizes, is the text's word. `schedule` has the steps
// of the functions (ir/schedule/schedule.h), or is empty. Where an access of a function that is to be scheduled is not
// known to stay in its buffer (ir/known_bounds.h), code asks at run time, as if options.check_bounds said so, and fails
// there.
//
// A call has the entry's inputs in their order, then its results, or None for those that env->alloc is to make.
//
// Everything up to lowered loops is done, so that Source gives what there is to see, also for a device that this
// machine lacks; Finish loads code, and needs the device.
StatusOr<std::unique_ptr<CompiledFunction>> LowerModuleText(std::string_view text, std::string_view schedule,
                                                            const Target& target, const CompileOptions& options,
                                                            const Devices& devices = Devices::BuiltIn());

// The same of functions that are not in text, such as what ToLoops makes of stages (ir/te.h).
StatusOr<std::unique_ptr<CompiledFunction>> LowerModule(const ir::Module& module, std::string_view schedule,
                                                        const Target& target, const CompileOptions& options,
                                                        const Devices& devices = Devices::BuiltIn());

}  // namespace cinn_like
