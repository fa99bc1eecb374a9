// Golden files: with BLESS=1 in the environment a test writes what comes out instead of comparing (tools/bless.sh).
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace cinn_like {

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

inline void ExpectGolden(const std::string& path, const std::string& got) {
  if (std::getenv("BLESS") != nullptr) std::ofstream(path, std::ios::binary) << got;
  EXPECT_EQ(got, ReadFile(path)) << path << ": tools/bless.sh rewrites it";
}

}  // namespace cinn_like
