// The one lexer of graph, loop and schedule text: identifiers, numbers, strings, punctuation, `//` comments.
// Errors carry line and column and quote what was found.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"

namespace cinn_like {

enum class TokenKind : uint8_t { kEnd, kIdent, kInt, kFloat, kString, kPunct };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // as written; strings without quotes, escapes resolved
  int line = 1, column = 1;
  size_t begin = 0;  // offset in the text
  bool space_before = false;
};

class Lexer {
 public:
  // `text` must outlive the lexer. Multi-character punctuation: -> => .. == != <= >= && || << >>
  explicit Lexer(std::string_view text);

  const Token& Peek() const { return token_; }
  Token Take();                                        // returns the current token and advances
  bool Is(std::string_view text) const;                // current token is this punctuation or identifier
  bool Eat(std::string_view text);                     // advances if Is(text)
  Status Expect(std::string_view text);                // InvalidArgument unless Eat(text)
  StatusOr<std::string> Ident(std::string_view what);  // an identifier, `what` names it in the error
  StatusOr<int64_t> Int(std::string_view what);        // [-]integer
  StatusOr<double> Number(std::string_view what);      // [-]integer or float, inf, nan
  bool AtEnd() const { return token_.kind == TokenKind::kEnd; }
  // "line 3, column 7: <message>, got 'x'"
  Status Error(std::string_view message) const;
  // "line 3, column 7: <message>", about what was read before
  static Status ErrorAt(const Token& at, std::string_view message);
  // The text up to the end of the current line from the current token on (for rule lines); does not advance.
  std::string_view Text() const { return text_; }

 private:
  void Advance();
  std::string_view text_;
  size_t pos_ = 0;
  int line_ = 1;
  size_t line_begin_ = 0;
  Token token_;
};

}  // namespace cinn_like
