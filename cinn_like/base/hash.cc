#include "cinn_like/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace cinn_like {

std::string Hash128::Hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 32; ++i) text[i] = kDigits[((i < 16 ? high : low) >> (60 - 4 * (i % 16))) & 15];
  return text;
}

Hash128 HashBytes(std::string_view bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.high64, h.low64};
}

Hash128 HashParts(std::initializer_list<std::string_view> parts) {
  std::string joined;
  for (std::string_view part : parts) {
    uint64_t size = part.size();
    for (int i = 0; i < 8; ++i, size >>= 8) joined += static_cast<char>(size & 255);
    joined += part;
  }
  return HashBytes(joined);
}

}  // namespace cinn_like
