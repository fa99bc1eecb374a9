// Random damage to texts and bytes, for tests that no input breaks a parser. The seed differs from run to run and is
// shown by failures; CINN_TEST_SEED repeats one.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "tests/rounds.h"

namespace cinn_like {

class Mutator {
 public:
  Mutator() {
    const char* fixed = std::getenv("CINN_TEST_SEED");
    seed_ = fixed != nullptr ? static_cast<unsigned>(std::strtoul(fixed, nullptr, 10)) : std::random_device()();
    rng_.seed(seed_);
  }
  unsigned seed() const { return seed_; }
  size_t Pick(size_t n) { return rng_() % n; }

  // A few edits: characters replaced, pieces removed, repeated, or taken from `other`, numbers made extreme.
  std::string Mutate(std::string text, std::string_view other) {
    for (size_t edits = 1 + Pick(4); edits > 0; --edits) {
      if (text.empty()) return text;
      const size_t at = Pick(text.size()), length = 1 + Pick(std::min<size_t>(text.size() - at, 12));
      switch (Pick(7)) {
        case 0:
          text[at] = kCharacters[Pick(kCharacters.size())];
          break;
        case 1:
          text[at] = static_cast<char>(rng_());
          break;
        case 2:
          text.erase(at, length);
          break;
        case 3:
          text.insert(Pick(text.size()), text.substr(at, length));
          break;
        case 4: {
          const size_t from = Pick(other.size());
          text.replace(at, length, other.substr(from, Pick(12)));
          break;
        }
        case 5:
          text.resize(at);
          break;
        default: {
          const size_t digit = text.find_first_of("0123456789", at);
          if (digit != text.npos) text.replace(digit, 1, kNumbers[Pick(std::size(kNumbers))]);
        }
      }
    }
    return text;
  }

 private:
  static constexpr std::string_view kCharacters = "[](){}%@&,:=<>xn0123456789-+*/\" .\n";
  static constexpr std::string_view kNumbers[] = {"0",
                                                  "-1",
                                                  "2147483648",
                                                  "9223372036854775807",
                                                  "-9223372036854775808",
                                                  "4294967295",
                                                  "1000000000",
                                                  "9223372036854775808",
                                                  "1e999",
                                                  "0.0"};

  unsigned seed_ = 0;
  std::mt19937 rng_;
};

}  // namespace cinn_like
