// Scratch memory of one call, for generated code.
#pragma once
#include <cstdint>

#include "runtime/call.h"
#include "runtime/device_api.h"

// `bytes` of memory on env->device, which is a `device`, in the order of env->stream: from the caller, or from
// the device's pool where the caller takes none back. Null on failure, with the error set.
extern "C" void* cinn_alloc_workspace(const cinn_like::RuntimeDevice* device, const CinnCallEnv* env, int64_t bytes);
// Gives it back once the work that uses it has been enqueued. Null is fine.
extern "C" void cinn_free_workspace(const cinn_like::RuntimeDevice* device, const CinnCallEnv* env, void* data);
