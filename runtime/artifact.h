// Compiled code on disk or in memory: named sections of bytes with a checksum. Cache entries and exported functions are
// artifacts; reading one needs no compiler.
//
//   "CINNLIKE" version sections size checksum | key_size key | name size bytes | name size bytes | ...
//
// Whatever is wrong with the bytes (cut short, altered, of another version, for another key) is an error, never a
// crash.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"

namespace cinn_like {

struct Artifact {
  std::map<std::string, std::string, std::less<>> sections;

  // Null if there is none.
  const std::string* Find(std::string_view section) const;
  // `key` says what the artifact is the answer to, and must be given again to read it: of another key is NotFound.
  std::string Encode(std::string_view key) const;
  static StatusOr<Artifact> Decode(std::string_view bytes, std::string_view key);
};

}  // namespace cinn_like
