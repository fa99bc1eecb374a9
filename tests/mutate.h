// Random damage to texts and bytes, for tests that no input breaks a parser. The seed differs from run to run and is
// shown by failures; CINN_TEST_SEED repeats one.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "tests/rounds.h"

namespace cinn_like {

class Mutator {
 public:
  Mutator() {
    const char* fixed = std::getenv("CINN_TEST_SEED");
    seed_ = fixed != nullptr ? static_cast<unsigned>(std::strtoul(fixed, nullptr, 10)) : std::random_device()();
    rng_.seed(seed_);
  }
  explicit Mutator(unsigned seed) : seed_(seed), rng_(seed) {}
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

  // One number becomes another wherever it stands, so that sizes which have to agree still do.
  std::string MutateSize(std::string text) {
    if (text.empty()) return text;
    const auto [begin, size] = Word(text, Pick(text.size()), "0123456789");
    const std::string from = text.substr(begin, size);
    const std::string_view to = Pick(10) == 0 ? kNumbers[Pick(std::size(kNumbers))] : kSmall[Pick(std::size(kSmall))];
    for (size_t at = 0; size != 0;) {
      const auto [next, length] = Word(text, at, kLetters);
      if (length == 0) break;
      const bool is_same = text.compare(next, length, from) == 0;
      if (is_same) text.replace(next, length, to);
      at = next + (is_same ? to.size() : length);
      if (at >= text.size()) break;
    }
    return text;
  }

  // A few edits that keep words whole, so that more of what comes out means something: numbers become other numbers,
  // words other words of either text, lines are removed, repeated, moved or taken from `other`.
  std::string MutateWords(std::string text, std::string_view other) {
    for (size_t edits = 1 + Pick(4); edits > 0; --edits) {
      if (text.empty()) return text;
      const size_t at = Pick(text.size());
      const std::string_view from = Pick(2) == 0 ? other : std::string_view(text);
      switch (Pick(6)) {
        case 0:
        case 1: {
          const auto [begin, size] = Word(text, at, "0123456789");
          if (size == 0) break;
          const bool extreme = Pick(8) == 0;
          text.replace(begin, size, extreme ? kNumbers[Pick(std::size(kNumbers))] : kSmall[Pick(std::size(kSmall))]);
          break;
        }
        case 2:
        case 3: {
          const auto [begin, size] = Word(text, at, kLetters);
          if (size == 0 || from.empty()) break;
          const auto [its_begin, its_size] = Word(from, Pick(from.size()), kLetters);
          text.replace(begin, size, std::string(from.substr(its_begin, its_size)));
          break;
        }
        case 4: {
          const auto [begin, size] = Line(text, at);
          if (Pick(2) == 0 || from.empty()) {
            text.erase(begin, size);
          } else {
            const auto [its_begin, its_size] = Line(from, Pick(from.size()));
            text.insert(begin, std::string(from.substr(its_begin, its_size)));
          }
          break;
        }
        default: {
          const auto [begin, size] = Line(text, at);
          const std::string line = text.substr(begin, size);
          if (Pick(2) == 0) text.erase(begin, size);
          text.insert(text.empty() ? 0 : Line(text, Pick(text.size())).first, line);
        }
      }
    }
    return text;
  }

 private:
  using Piece = std::pair<size_t, size_t>;  // begin, size
  static Piece Word(std::string_view text, size_t at, std::string_view letters) {
    const size_t begin = text.find_first_of(letters, at);
    if (begin == text.npos) return {0, 0};
    return {begin, std::min(text.find_first_not_of(letters, begin), text.size()) - begin};
  }
  static Piece Line(std::string_view text, size_t at) {
    const size_t before = at == 0 ? text.npos : text.rfind('\n', at - 1);
    const size_t begin = before == text.npos ? 0 : before + 1;
    return {begin, std::min(text.find('\n', begin), text.size() - 1) + 1 - begin};
  }

  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  static constexpr std::string_view kSmall[] = {"0", "1",  "2",  "3",  "4",   "5",   "7",
                                                "8", "16", "17", "64", "100", "1000"};
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
