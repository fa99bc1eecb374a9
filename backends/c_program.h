// A lowered module of host functions -> one file of C99 that needs the C library alone:
//
//   func @f_k0(...)   func @f entry (...)   func @f_prepare entry (...)
//   ->  /* how to call it */  types of the calling convention  int32_t f(void* self, ...);  int32_t f_prepare(...);
//       void f_release(void* self);  then what they are made of, static
//
// Entry functions have the calling convention of runtime/call.h, in whose place the file brings the few types it needs.
// Behind CINN_DECLARATIONS the file is its own header.
#pragma once
#include <string>
#include <string_view>

#include "backends/source_hooks.h"
#include "cinn_like/base/device_kind.h"
#include "cinn_like/base/status.h"
#include "ir/stmt.h"

namespace cinn_like::backends {

// `prepare` names the entry that computes what `main` takes from `self`; where it is empty, no entry takes anything.
// `device` is that of the entries; `hooks` give or rewrite the functions that entries call. What C text can't be, such
// as the call of a device's library, is an error that names it.
StatusOr<std::string> EmitCProgram(const ir::Module& module, const DeviceKind& device, std::string_view main = "",
                                   std::string_view prepare = "", const SourceHooks& hooks = {});

}  // namespace cinn_like::backends
