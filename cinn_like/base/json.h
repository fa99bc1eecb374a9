// The one thing that writing JSON needs.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

namespace cinn_like {

// A quoted JSON string.
inline std::string JsonString(std::string_view s) {
  std::string r = "\"";
  for (char ch : s) {
    if (ch == '"' || ch == '\\') {
      r += '\\';
      r += ch;
    } else if (static_cast<unsigned char>(ch) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", ch);
      r += code;
    } else {
      r += ch;
    }
  }
  return r + "\"";
}

}  // namespace cinn_like
