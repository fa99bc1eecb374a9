// A 128-bit content hash, stable across processes, machines and versions (XXH3-128): names constants, kernels and cache
// entries. Not for untrusted input that must not collide.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace cinn_like {

struct Hash128 {
  uint64_t high = 0, low = 0;
  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
  std::string Hex() const;  // 32 lower-case digits, high word first
};

Hash128 HashBytes(std::string_view bytes);
// The hash of a list of parts: {"a", "bc"} and {"ab", "c"} differ.
Hash128 HashParts(std::initializer_list<std::string_view> parts);

}  // namespace cinn_like

template <>
struct std::hash<cinn_like::Hash128> {
  size_t operator()(const cinn_like::Hash128& h) const { return h.low; }
};
