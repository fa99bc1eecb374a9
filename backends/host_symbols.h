// Addresses of what LLVM's code calls on its own: libm, memory functions, 16-bit float conversions.
#pragma once
#include "backends/orc_engine.h"
#include "runtime/symbols.h"

namespace cinn_like {

// These and `runtime`'s.
SymbolAddresses HostSymbols(const RuntimeSymbols& runtime);

}  // namespace cinn_like
