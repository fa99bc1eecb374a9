#include "hlir/ops/infer_util.h"

#include <algorithm>

namespace cinn_like::hlir {

Status CheckDType(std::string_view operand, DType got, DTypeClass expected) {
  const bool is_bool = got == DType::kBool;
  bool fits = true;
  std::string_view name = "any dtype";
  switch (expected) {
    case DTypeClass::kAny:
      break;
    case DTypeClass::kFloat:
      fits = IsFloat(got), name = "a float dtype";
      break;
    case DTypeClass::kInt:
      fits = IsInt(got), name = "an integer dtype";
      break;
    case DTypeClass::kBool:
      fits = is_bool, name = "bool";
      break;
    case DTypeClass::kBoolOrInt:
      fits = is_bool || IsInt(got), name = "bool or an integer dtype";
      break;
    case DTypeClass::kNumber:
      fits = !is_bool, name = "a number dtype";
      break;
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("operand '", operand, "': expected ", name, ", got ", Name(got));
}

Status CheckSameDType(const OpCall& call, size_t first) {
  for (size_t i = first + 1; i < call.operands.size(); ++i) {
    if (call.operands[i].dtype != call.operands[first].dtype) {
      return InvalidArgument("operands have one dtype: expected ", Name(call.operands[first].dtype), " for operand ", i,
                             ", got ", Name(call.operands[i].dtype));
    }
  }
  return absl::OkStatus();
}

Status CheckAxis(std::string_view attr, int64_t axis, int rank) {
  if (axis >= 0 && axis < rank) return absl::OkStatus();
  return InvalidArgument("attribute '", attr, "': expected an axis in [0, ", rank, "), got ", axis);
}

Status CheckAxes(std::string_view attr, const std::vector<int64_t>& axes, int rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    RETURN_IF_ERROR(CheckAxis(attr, axes[i], rank));
    if (std::find(axes.begin(), axes.begin() + i, axes[i]) != axes.begin() + i) {
      return InvalidArgument("attribute '", attr, "': expected distinct axes, got ", axes[i], " twice");
    }
  }
  return absl::OkStatus();
}

Status CheckInts(std::string_view attr, const std::vector<int64_t>& values, size_t size, int64_t at_least,
                 int64_t at_most) {
  if (values.size() != size) {
    return InvalidArgument("attribute '", attr, "': expected ", size, " values, got ", values.size());
  }
  for (int64_t v : values) {
    if (v < at_least)
      return InvalidArgument("attribute '", attr, "': expected values of at least ", at_least, ", got ", v);
    if (v > at_most)
      return InvalidArgument("attribute '", attr, "': expected values of at most ", at_most, ", got ", v);
  }
  return absl::OkStatus();
}

StatusOr<Dims> BroadcastShapes(const Dims& a, const Dims& b, const SymbolTable& symbols) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims result = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    const Dim& s = shorter[i];
    Dim& l = result[offset + i];
    if (l == Dim(1)) {
      l = s;
    } else if (s != Dim(1) && !ProvablyEqual(s, l, symbols)) {
      return InvalidArgument("shapes ", ToString(a), " and ", ToString(b), " do not broadcast: expected ", l.ToString(),
                             " or 1, got ", s.ToString());
    }
  }
  return result;
}

Dims DropAxes(const Dims& dims, const std::vector<int64_t>& axes, bool keepdims) {
  Dims result;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool dropped = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (!dropped) {
      result.push_back(dims[i]);
    } else if (keepdims) {
      result.push_back(1);
    }
  }
  return result;
}

}  // namespace cinn_like::hlir
