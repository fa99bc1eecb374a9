#include "cinn_like/base/side_by_side.h"

#include <gtest/gtest.h>

namespace cinn_like {
namespace {

TEST(SideBySide, MarksWhatDiffers) {
  EXPECT_EQ(SideBySide("for i {\n  a\n  b\n}\n", "for i @parallel {\n  a\n  c\n  d\n}\n", "before", "after"),
            "before    after\n"
            "for i { | for i @parallel {\n"
            "  a         a\n"
            "  b     |   c\n"
            "        |   d\n"
            "}         }\n");
}

TEST(SideBySide, OneOfThemIsEmpty) {
  EXPECT_EQ(SideBySide("", "", "x", "y"), "x   y\n");
  EXPECT_EQ(SideBySide("a\nb", "", "", ""), "\na <\nb <\n");
  EXPECT_EQ(SideBySide("", "a\n\nb\n", "old", "new"), "old   new\n    > a\n    >\n    > b\n");
}

TEST(SideBySide, LongLinesAreCut) {
  const std::string text = SideBySide(std::string(100, 'x'), std::string(100, 'y'), "a", "b");
  EXPECT_EQ(text.substr(text.find('\n') + 1), std::string(75, 'x') + "... | " + std::string(75, 'y') + "...\n");
}

}  // namespace
}  // namespace cinn_like
