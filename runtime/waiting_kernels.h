// Kernels that wait themselves until the memory of those before them in the stream is written (griddepcontrol.wait, of
// GPUs from sm_90 on), before they read or write any. Such a kernel starts while the one before it ends (CUDA's
// programmatic dependent launch), which saves what a start takes: about a microsecond. Its name says that it waits: one
// of a caller's own has another name and starts when all is done.
#pragma once

namespace cinn_like {

inline constexpr char kWaitingKernel[] = "cinn_waits_";  // starts the name; backends/dialects.cc gives it

}  // namespace cinn_like
