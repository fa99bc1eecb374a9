#include "cinn_like/base/lexer.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <limits>

namespace cinn_like {
namespace {
bool IsIdentStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsIdentChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }
}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) { Advance(); }

void Lexer::Advance() {
  token_ = Token();
  size_t p = pos_;
  const std::string_view t = text_;
  while (p < t.size()) {
    if (t[p] == '\n') {
      ++p;
      ++line_;
      line_begin_ = p;
      token_.space_before = true;
    } else if (std::isspace(static_cast<unsigned char>(t[p]))) {
      ++p;
      token_.space_before = true;
    } else if (t[p] == '/' && p + 1 < t.size() && t[p + 1] == '/') {
      while (p < t.size() && t[p] != '\n') ++p;
    } else {
      break;
    }
  }
  token_.line = line_;
  token_.column = static_cast<int>(p - line_begin_) + 1;
  token_.begin = p;
  const size_t begin = p;
  if (p == t.size()) {
    pos_ = p;
    return;
  }
  if (IsIdentStart(t[p])) {
    while (p < t.size() && IsIdentChar(t[p])) ++p;
    token_.kind = TokenKind::kIdent;
  } else if (IsDigit(t[p])) {
    token_.kind = TokenKind::kInt;
    while (p < t.size() && IsDigit(t[p])) ++p;
    const bool fraction = p + 1 < t.size() && t[p] == '.' && t[p + 1] != '.';
    if (fraction) {
      token_.kind = TokenKind::kFloat;
      ++p;
      while (p < t.size() && IsDigit(t[p])) ++p;
    }
    if (p < t.size() && (t[p] == 'e' || t[p] == 'E')) {
      size_t q = p + 1;
      if (q < t.size() && (t[q] == '+' || t[q] == '-')) ++q;
      if (q < t.size() && IsDigit(t[q])) {
        while (q < t.size() && IsDigit(t[q])) ++q;
        p = q;
        token_.kind = TokenKind::kFloat;
      }
    }
  } else if (t[p] == '"') {
    token_.kind = TokenKind::kString;
    ++p;
    while (p < t.size() && t[p] != '"' && t[p] != '\n') {
      if (t[p] == '\\' && p + 1 < t.size()) {
        ++p;
        token_.text += t[p] == 'n' ? '\n' : t[p] == 't' ? '\t' : t[p];
      } else {
        token_.text += t[p];
      }
      ++p;
    }
    if (p < t.size() && t[p] == '"') ++p;
    pos_ = p;
    return;
  } else {
    token_.kind = TokenKind::kPunct;
    ++p;
    for (std::string_view two : {"->", "=>", "..", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>"}) {
      if (t.substr(begin, 2) == two) p = begin + 2;
    }
  }
  token_.text = std::string(t.substr(begin, p - begin));
  pos_ = p;
}

Token Lexer::Take() {
  Token result = std::move(token_);
  Advance();
  return result;
}

bool Lexer::Is(std::string_view text) const {
  return (token_.kind == TokenKind::kPunct || token_.kind == TokenKind::kIdent) && token_.text == text;
}

bool Lexer::Eat(std::string_view text) {
  if (!Is(text)) return false;
  Advance();
  return true;
}

Status Lexer::Error(std::string_view message) const {
  const std::string got = AtEnd() ? "end of text" : Cat("'", token_.text, "'");
  return InvalidArgument("line ", token_.line, ", column ", token_.column, ": ", message, ", got ", got);
}

Status Lexer::ErrorAt(const Token& at, std::string_view message) {
  return InvalidArgument("line ", at.line, ", column ", at.column, ": ", message);
}

Status Lexer::Expect(std::string_view text) {
  if (Eat(text)) return absl::OkStatus();
  return Error(Cat("expected '", text, "'"));
}

StatusOr<std::string> Lexer::Ident(std::string_view what) {
  if (token_.kind != TokenKind::kIdent) return Error(Cat("expected ", what));
  return Take().text;
}

StatusOr<int64_t> Lexer::Int(std::string_view what) {
  const bool negative = Eat("-");
  if (token_.kind != TokenKind::kInt) return Error(Cat("expected ", what));
  errno = 0;
  const std::string digits = (negative ? "-" : "") + token_.text;
  const int64_t value = std::strtoll(digits.c_str(), nullptr, 10);
  if (errno == ERANGE) return Error(Cat(what, " does not fit in 64 bits"));
  Advance();
  return value;
}

StatusOr<double> Lexer::Number(std::string_view what) {
  const double sign = Eat("-") ? -1.0 : 1.0;
  if (Eat("inf")) return sign * std::numeric_limits<double>::infinity();
  if (Eat("nan")) return std::numeric_limits<double>::quiet_NaN();
  if (token_.kind != TokenKind::kInt && token_.kind != TokenKind::kFloat) {
    return Error(Cat("expected ", what));
  }
  return sign * std::strtod(Take().text.c_str(), nullptr);
}

}  // namespace cinn_like
