// The argument check of one call: what every generated host function does first.
#pragma once
#include <cstdint>

#include "runtime/call.h"
#include "runtime/device_api.h"

// Checks `args` against the encoded ArgSpec (runtime/arg_spec.h): number, tags, dtypes, ranks, shape relations, ranges,
// strides, alignment, device, and that given results overlap no other tensor. `device` is the kind that the function
// was compiled for, `self` its PreparedState or null. `pointers` gets one pointer per entry of the spec (byte_offset
// applied; null for packed parameters, integers and tensors without elements that have none) and `symbols` one value
// per symbol. Results given as None are asked of env->alloc. Inputs that are aligned worse than the spec says are
// copied, on env->stream, to one workspace, which follows the other pointers (null: there was no such input) and is the
// caller's to free. Returns 0, or a negative code and an error that names the function and the argument, what was
// expected and what came. Allocates nothing else.
extern "C" int32_t cinn_bind_args(const cinn_like::RuntimeDevice* device, const char* spec, int64_t spec_size,
                                  void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env,
                                  void** pointers, int64_t* symbols);

// Tells the caller that argument `index` is used no more (env->release, where there is one).
extern "C" void cinn_release_argument(const CinnCallEnv* env, int32_t index);
