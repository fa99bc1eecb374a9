// The words of a line of our own text formats.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cinn_like {

// One after the other; between two separators there is an empty one.
class Words {
 public:
  explicit Words(std::string_view line, char separator = ' ') : rest_(line), separator_(separator) {}

  bool is_done() const { return rest_.empty(); }
  std::string_view Take() {
    const size_t end = std::min(rest_.find(separator_), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  // False where the next word is none of least..most.
  template <class Int>
  bool TakeNumber(Int* to, int64_t least, int64_t most) {
    const std::string_view word = Take();
    int64_t n = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    *to = static_cast<Int>(n);
    return error == std::errc() && end == word.data() + word.size() && n >= least && n <= most;
  }
  // All that are left.
  std::vector<std::string> TakeAll() {
    std::vector<std::string> words;
    while (!is_done()) words.emplace_back(Take());
    return words;
  }
  template <class Int>
  bool TakeNumbers(std::vector<Int>* to, int64_t least, int64_t most) {
    while (!is_done()) {
      if (!TakeNumber(&to->emplace_back(), least, most)) return false;
    }
    return true;
  }

 private:
  std::string_view rest_;
  const char separator_;
};

// "1 2 3", "a b"
template <class Items>
std::string JoinWords(const Items& items) {
  std::string text;
  bool is_first = true;
  for (const auto& item : items) {
    if (!std::exchange(is_first, false)) text += ' ';
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(item)>>)
      text += std::to_string(item);
    else
      text += item;
  }
  return text;
}

}  // namespace cinn_like
