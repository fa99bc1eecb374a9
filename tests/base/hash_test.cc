#include "cinn_like/base/hash.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace cinn_like {
namespace {

TEST(Hash, KnownValues) {  // XXH3-128 of the specification: names on disk must never change
  EXPECT_EQ(HashBytes("").Hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(HashBytes("a").Hex(), "a96faf705af16834e6c632b61e964e1f");
}

TEST(Hash, PartsHaveBorders) {
  EXPECT_NE(HashParts({"a", "bc"}), HashParts({"ab", "c"}));
  EXPECT_NE(HashParts({"a"}), HashParts({"a", ""}));
  EXPECT_EQ(HashParts({"a", "b"}), HashParts({"a", "b"}));
}

TEST(Hash, OneBitChangesIt) {
  std::mt19937 random(1);
  std::set<Hash128> seen;
  std::string bytes(300, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    bytes[i / 8] ^= 1 << (i % 8);
    EXPECT_TRUE(seen.insert(HashBytes(bytes)).second);
    bytes[i / 8] ^= 1 << (i % 8);
  }
}

}  // namespace
}  // namespace cinn_like
