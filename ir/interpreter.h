// The reference: runs any stage of the IR, slowly and obviously. Tests check passes, schedules and emitters against it.
//
// Arithmetic is done in double or int64 and rounded to the node's dtype. All threads of a block execute a statement
// before the next one is looked at. An access outside a buffer, a read of what was never written, a division by 0, a
// barrier that not all threads reach, and two threads using one element without a barrier between (one of them writing,
// and not what was there) are errors that name the buffer; so are two blocks of a launch doing so.
#pragma once
#include <dlpack/dlpack.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cinn_like/base/device_kind.h"
#include "ir/host_array.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

using InterpretArg = std::variant<HostArray*, int64_t, double>;

// Calls a function by name with tensors on the host and scalars (integers, bools among them, and floats); bytes of
// outputs are written.
using FunctionArg = std::variant<DLTensor*, int64_t, double>;
using FunctionCaller = std::function<Status(std::string_view name, const std::vector<FunctionArg>& args)>;

struct InterpretOptions {
  LaunchLimits limits = {};  // of the device that runs kernels
  FunctionCaller functions = nullptr;
  int64_t most_steps = INT64_MAX;  // statements, and 64 bytes of memory each
};

// Runs `name` on its parameters in order. Symbols take their values from the arrays' shapes, or from `symbols` where no
// dimension is just the symbol. An array may have another rank than the parameter but not fewer elements.
// ResourceExhausted after options.most_steps.
Status Interpret(const Module& m, std::string_view name, const std::vector<InterpretArg>& args,
                 const absl::flat_hash_map<std::string, int64_t>& symbols = {}, const InterpretOptions& options = {});
Status Interpret(const Func& f, const std::vector<InterpretArg>& args,
                 const absl::flat_hash_map<std::string, int64_t>& symbols = {}, const InterpretOptions& options = {});

}  // namespace cinn_like::ir
