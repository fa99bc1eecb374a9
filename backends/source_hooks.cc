#include "backends/source_hooks.h"

#include <cctype>

namespace cinn_like {

StatusOr<std::string> ReplaceSource(const SourceHooks& hooks, std::string_view language,
                                    const std::function<StatusOr<std::string>()>& generate) {
  StatusOr<std::string> text = hooks.source.empty() ? generate() : hooks.source;
  if (!text.ok() || !hooks.rewrite) return text;
  StatusOr<std::string> rewritten = hooks.rewrite(language, *text);
  if (rewritten.ok() && rewritten->empty()) rewritten = InvalidArgument("it gave no text");
  return rewritten.ok() ? std::move(rewritten)
                        : Annotate(rewritten.status(), Cat("rewriting the source (", language, ")"));
}

bool HasFunction(std::string_view source, std::string_view name) {
  const auto is_word = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (size_t at = source.find(name); at != source.npos; at = source.find(name, at + 1)) {
    if (at > 0 && is_word(source[at - 1])) continue;
    const size_t next = source.find_first_not_of(" \t\r\n", at + name.size());
    if (next != source.npos && source[next] == '(') return true;
  }
  return false;
}

Status NoFunction(std::string_view name) {
  return InvalidArgument("the source has no function '", name, "(...)'; what is generated shows its parameters");
}

}  // namespace cinn_like
