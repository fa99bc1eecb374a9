#include "cinn_like/base/dtype.h"

#include <string>

namespace cinn_like {
namespace {
constexpr DTypeInfo kTable[] = {
#define X(e, text, bits, kind, code, c) {text, bits, DTypeKind::kind, code, c},
#include "cinn_like/base/dtypes.def"
#undef X
};
constexpr int kCount = sizeof(kTable) / sizeof(kTable[0]);
}  // namespace

const DTypeInfo& InfoOf(DType t) { return kTable[static_cast<int>(t)]; }

std::optional<DType> ParseDType(std::string_view text) {
  for (int i = 0; i < kCount; ++i) {
    if (kTable[i].text == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> FromDLPack(uint8_t code, uint8_t bits) {
  for (int i = 0; i < kCount; ++i) {
    if (kTable[i].dlpack_code == code && kTable[i].bits == bits) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string_view AllDTypeNames() {
  static const std::string names = [] {
    std::string s;
    for (const DTypeInfo& row : kTable) s += (s.empty() ? "" : ", ") + std::string(row.text);
    return s;
  }();
  return names;
}

}  // namespace cinn_like
