// Element types. A dtype is a row of dtypes.def; this header gives the enum and the questions one may ask of a row.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace cinn_like {

enum class DType : uint8_t {
#define X(e, text, bits, kind, code, c) e,
#include "cinn_like/base/dtypes.def"
#undef X
};

enum class DTypeKind : uint8_t { kBool, kInt, kUInt, kFloat };

struct DTypeInfo {
  std::string_view text;  // the name in graph and loop text: "f32"
  int bits;               // storage width
  DTypeKind kind;
  uint8_t dlpack_code;      // DLDataTypeCode
  std::string_view c_type;  // host C spelling
};

// The row of `t`.
const DTypeInfo& InfoOf(DType t);

inline std::string_view Name(DType t) { return InfoOf(t).text; }
inline int BytesOf(DType t) { return InfoOf(t).bits / 8; }
// Of a tensor or a buffer, and of a loop's iterations: more than any machine has, and far from what int64 counts.
inline constexpr double kMaxBytes = 1e18;
inline bool IsFloat(DType t) { return InfoOf(t).kind == DTypeKind::kFloat; }
inline bool IsInt(DType t) { return InfoOf(t).kind == DTypeKind::kInt || InfoOf(t).kind == DTypeKind::kUInt; }
inline bool IsSigned(DType t) { return InfoOf(t).kind == DTypeKind::kInt; }
inline bool IsByte(DType t) { return t == DType::kI8 || t == DType::kU8; }
inline bool IsHalf(DType t) { return IsFloat(t) && InfoOf(t).bits == 16; }

// The dtype called `text`, if there is one.
std::optional<DType> ParseDType(std::string_view text);
// The dtype of a DLDataType with one lane, if we have it.
std::optional<DType> FromDLPack(uint8_t code, uint8_t bits);
// "bool, i8, ..." for messages.
std::string_view AllDTypeNames();

}  // namespace cinn_like
