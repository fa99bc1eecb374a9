// What the inference functions of several families check.
#pragma once
#include <limits>
#include <string_view>
#include <vector>

#include "hlir/op_registry.h"

namespace cinn_like::hlir {

// Sets of dtypes that an operand may have.
enum class DTypeClass : uint8_t { kAny, kFloat, kInt, kBool, kBoolOrInt, kNumber };

Status CheckDType(std::string_view operand, DType got, DTypeClass expected);
// All operands from `first` on have the dtype of the first of them.
Status CheckSameDType(const OpCall& call, size_t first = 0);

Status CheckAxis(std::string_view attr, int64_t axis, int rank);
// Each in [0, rank), none twice.
Status CheckAxes(std::string_view attr, const std::vector<int64_t>& axes, int rank);
// The list attribute has `size` entries, each in [at_least, at_most].
Status CheckInts(std::string_view attr, const std::vector<int64_t>& values, size_t size, int64_t at_least,
                 int64_t at_most = std::numeric_limits<int64_t>::max());

// NumPy broadcasting of two shapes; dimensions must be provably equal where neither is the integer 1.
StatusOr<Dims> BroadcastShapes(const Dims& a, const Dims& b, const SymbolTable& symbols);

// `dims` without `axes`, or with 1 there.
Dims DropAxes(const Dims& dims, const std::vector<int64_t>& axes, bool keepdims);

}  // namespace cinn_like::hlir
