// Errors are values: absl::Status everywhere. RET_CHECK is for our own bugs (Internal), never for bad input.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace cinn_like {

using absl::Status;
using absl::StatusOr;

namespace status_internal {
// Debian builds Abseil with its own string_view, which StrCat wants.
template <class T>
const T& Piece(const T& v) {
  return v;
}
inline absl::string_view Piece(const std::string_view& v) { return {v.data(), v.size()}; }
}  // namespace status_internal

// absl::StrCat that also takes std::string_view.
template <class... Args>
std::string Cat(const Args&... args) {
  return absl::StrCat(status_internal::Piece(args)...);
}
template <class... Args>
Status InvalidArgument(const Args&... args) {
  return absl::InvalidArgumentError(Cat(args...));
}
template <class... Args>
Status Internal(const Args&... args) {
  return absl::InternalError(Cat(args...));
}
template <class... Args>
Status Unimplemented(const Args&... args) {
  return absl::UnimplementedError(Cat(args...));
}
// The message of `s` as std::string.
inline std::string Message(const Status& s) { return std::string(s.message()); }
// `s` with "prefix: " before its message; OK stays OK.
inline Status Annotate(const Status& s, std::string_view prefix) {
  return s.ok() ? s : Status(s.code(), Cat(prefix, ": ", Message(s)));
}

}  // namespace cinn_like

#define CINN_CONCAT_INNER(a, b) a##b
#define CINN_CONCAT(a, b) CINN_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                                                       \
  do {                                                                              \
    if (::absl::Status cinn_status = (expr); !cinn_status.ok()) return cinn_status; \
  } while (0)

#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_IMPL(CINN_CONCAT(cinn_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)    \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = std::move(tmp).value()

// Our own bug: Internal with file, line, the condition and a message.
#define RET_CHECK(cond, ...)                                                      \
  do {                                                                            \
    if (!(cond))                                                                  \
      return ::cinn_like::Internal("RET_CHECK failed (", __FILE__, ":", __LINE__, \
                                   ") " #cond " " __VA_OPT__(, ) __VA_ARGS__);    \
  } while (0)
