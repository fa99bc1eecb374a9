// A graph shared out between devices by price (cinn_like/placement.h), as one function of tensors of the host.
//
//   ASSIGN_OR_RETURN(const Target dpu, devices.ParseTarget("dpu"));
//   const Target targets[] = {*Target::Parse("cpu"), dpu};
//   ASSIGN_OR_RETURN(auto f, CompileOnTargets(graph, targets, options, devices));
//   f->entry()(f->self(), args, num_args, &env);
#pragma once
#include <memory>
#include <span>

#include "cinn_like/driver.h"
#include "cinn_like/placement.h"

namespace cinn_like {

// A call runs a compiled graph for each part. The report names kernels after their parts, `<graph>_<i>_<device>`, as
// its sources do, and what targets refused; `device` is the host. What crosses between devices lies in
// memory of the host meanwhile. Errors are those of PlaceOps and of compiling parts.
StatusOr<std::unique_ptr<CompiledFunction>> CompileOnTargets(const hlir::Graph& graph, std::span<const Target> targets,
                                                             const CompileOptions& options,
                                                             const Devices& devices = Devices::BuiltIn());

}  // namespace cinn_like
