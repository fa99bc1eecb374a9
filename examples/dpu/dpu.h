// "dpu": a made-up accelerator, added to cinn_like from outside. It has memory of its own, cores that each run a block
// of a grid at a time, a scratchpad in each core, and an instruction that multiplies 8x8 matrices which lie there. Its
// language is C with these instructions, and what executes it is this process: docs/new_device.md goes through all of
// it, file by file.
//
//   ASSIGN_OR_RETURN(const Target target, dpu::Devices().ParseTarget("dpu -arch=dpu2"));
//   ASSIGN_OR_RETURN(auto f, CompileGraph(graph, target, options, dpu::Devices()));
#pragma once
#include <cstdint>

#include "backends/device.h"
#include "hlir/tactics/tactic.h"
#include "ir/pass_table.h"

namespace dpu {

using namespace cinn_like;  // NOLINT: the example speaks of little else

// The built-in devices and this one.
const cinn_like::Devices& Devices();

// The parts of its registration.
const DeviceKind& Kind();                        // dpu_kind.cc
std::unique_ptr<DeviceCompiler> MakeCompiler();  // dpu_compiler.cc
const std::vector<hlir::Tactic>& Tactics();      // dpu_tactics.cc
const std::vector<ir::HookedPass>& Passes();     // dpu_passes.cc

// What the process's dpu has done so far.
struct Counts {
  int64_t launches = 0, copies = 0;
  int64_t used_bytes = 0;  // of its memory, now
};
Counts CountsSoFar();

// Of an operation that is done by the core itself, an element at a time.
constexpr double kOperationSeconds = 1e-9;

}  // namespace dpu

// The part of it that generated code is handed, in dpu_runtime.cc; that of exported libraries finds it by this name.
extern "C" __attribute__((visibility("default"))) const cinn_like::RuntimeDevice cinn_device_dpu;
