// Kernels of a module -> one program in the Metal Shading Language, equal kernels (but for names) once. Apple's
// compiler takes it from there, on Apple's systems.
#pragma once
#include <memory>

#include "backends/device_compiler.h"

namespace cinn_like {

std::unique_ptr<DeviceCompiler> MakeMetalCompiler(const Target& target, const CompileOptions& options,
                                                  ObjectCache* cache);

}  // namespace cinn_like
