// A compiled function for callers whose tensors lie on the host, whatever device it runs on:
//
//   ASSIGN_OR_RETURN(auto f, CompileGraph(graph, *Target::Parse("opencl"), options));
//   f = TakeHostTensors(std::move(f));
//   env.device = {kDLCPU, 0};
//   f->entry()(f->self(), args, num_args, &env);
//
// A call copies its arguments to the device and its results back, and returns when they are there. Its memory there is
// of the device's pool. What Prepare is given stays on the device, and calls read it there.
#pragma once
#include <memory>

#include "cinn_like/driver.h"

namespace cinn_like {

// `function` may be finished or not; one that runs on the host stays what it is. `device_id`: of the devices of its
// kind.
std::unique_ptr<CompiledFunction> TakeHostTensors(std::unique_ptr<CompiledFunction> function, int device_id = 0);

}  // namespace cinn_like
