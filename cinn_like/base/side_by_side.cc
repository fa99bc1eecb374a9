#include "cinn_like/base/side_by_side.h"

#include <algorithm>
#include <map>
#include <vector>

namespace cinn_like {
namespace {

using Lines = std::vector<std::string_view>;

constexpr size_t kWidth = 78;  // of one side

Lines LinesOf(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Equal lines: a[a_begin .. a_begin + size) and b[b_begin .. b_begin + size).
struct Run {
  size_t a_begin, b_begin, size;
};

struct Part {
  size_t a_begin, a_end, b_begin, b_end;
};

// Runs in order: of a part the longest, the first of them, and so on before and behind it.
std::vector<Run> FindRuns(const Lines& a, const Lines& b) {
  std::map<std::string_view, std::vector<size_t>> places;
  for (size_t j = 0; j < b.size(); ++j) places[b[j]].push_back(j);
  std::vector<Run> runs;
  std::vector<Part> parts = {{0, a.size(), 0, b.size()}};
  while (!parts.empty()) {
    const Part p = parts.back();
    parts.pop_back();
    Run best{p.a_begin, p.b_begin, 0};
    std::map<size_t, size_t> ending;  // at a place of b: how long is the run that ends there and at the line before i
    for (size_t i = p.a_begin; i < p.a_end; ++i) {
      std::map<size_t, size_t> next;
      if (const auto found = places.find(a[i]); found != places.end()) {
        const std::vector<size_t>& at = found->second;
        for (auto place = std::lower_bound(at.begin(), at.end(), p.b_begin); place != at.end() && *place < p.b_end;
             ++place) {
          const size_t j = *place;
          const auto before = j == 0 ? ending.end() : ending.find(j - 1);
          const size_t size = next[j] = (before == ending.end() ? 0 : before->second) + 1;
          if (size > best.size) best = {i + 1 - size, j + 1 - size, size};
        }
      }
      ending = std::move(next);
    }
    if (best.size == 0) continue;
    runs.push_back(best);
    parts.push_back({p.a_begin, best.a_begin, p.b_begin, best.b_begin});
    parts.push_back({best.a_begin + best.size, p.a_end, best.b_begin + best.size, p.b_end});
  }
  std::sort(runs.begin(), runs.end(), [](const Run& x, const Run& y) { return x.a_begin < y.a_begin; });
  runs.push_back({a.size(), b.size(), 0});
  return runs;
}

}  // namespace

std::string SideBySide(std::string_view before, std::string_view after, std::string_view before_title,
                       std::string_view after_title) {
  const Lines a = LinesOf(before), b = LinesOf(after);
  size_t width = before_title.size();
  for (const std::string_view line : a) width = std::max(width, line.size());
  width = std::min(width, kWidth);
  std::string out;
  const auto add = [&](std::string_view left, char mark, std::string_view right) {
    const auto cut = [&](std::string_view line) {
      return line.size() <= kWidth ? std::string(line) : std::string(line.substr(0, kWidth - 3)) + "...";
    };
    std::string row = cut(left);
    row.resize(std::max(row.size(), width), ' ');
    row += {' ', mark, ' '};
    row += cut(right);
    out += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
  };
  add(before_title, ' ', after_title);
  size_t i = 0, j = 0;
  for (const Run& run : FindRuns(a, b)) {
    for (const char mark = i == run.a_begin ? '>' : j == run.b_begin ? '<' : '|'; i < run.a_begin || j < run.b_begin;) {
      const std::string_view left = i < run.a_begin ? a[i++] : std::string_view();
      add(left, mark, j < run.b_begin ? b[j++] : std::string_view());
    }
    for (; i < run.a_begin + run.size; ++i, ++j) add(a[i], ' ', b[j]);
  }
  return out;
}

}  // namespace cinn_like
