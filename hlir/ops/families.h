// The built-in ops, a function per file of this folder. To add an op: one OpDef in its family's file.
#pragma once
#include <vector>

#include "hlir/op_registry.h"

namespace cinn_like::hlir {

std::vector<OpDef> PointwiseOps();
std::vector<OpDef> CreationOps();
std::vector<OpDef> ViewOps();
std::vector<OpDef> ReductionOps();
std::vector<OpDef> ScanOps();
std::vector<OpDef> MatmulOps();
std::vector<OpDef> NormalizationOps();
std::vector<OpDef> IndexingOps();
std::vector<OpDef> ConvolutionOps();
std::vector<OpDef> PoolingOps();

}  // namespace cinn_like::hlir
