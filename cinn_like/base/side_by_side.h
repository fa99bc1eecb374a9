// Two texts side by side, line by line, with a mark between lines that differ: | changed, < gone, > new.
//
//   for i in 0..8 {          for i in 0..8 @parallel {
//     y[i] = x[i]      |       y[i] = x[i] * 2.0
//
// What dumps, ir::Schedule and cinn_like.te show of two steps.
#pragma once
#include <string>
#include <string_view>

namespace cinn_like {

// Under a line of titles. Lines are cut where they are longer than 78.
std::string SideBySide(std::string_view before, std::string_view after, std::string_view before_title,
                       std::string_view after_title);

}  // namespace cinn_like
