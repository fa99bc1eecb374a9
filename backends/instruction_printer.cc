#include "backends/instruction_printer.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include "ir/intrinsic.h"
#include "ir/schedule/tree.h"

namespace cinn_like::backends {
namespace {

// `text` with what `value` gives for each $name and $name.number; empty: the text stays.
std::string Filled(std::string_view text, const std::function<std::string(std::string_view, int)>& value) {
  std::string r;
  const auto run = [&](size_t i, auto is_part) {
    const size_t begin = i;
    while (i < text.size() && is_part(static_cast<unsigned char>(text[i]))) ++i;
    return text.substr(begin, i - begin);
  };
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '$') {
      r += text[i++];
      continue;
    }
    const std::string_view name = run(i + 1, [](unsigned char c) { return c == '_' || std::isalnum(c) != 0; });
    size_t end = i + 1 + name.size();
    int number = -1;
    const bool dot = end < text.size() && text[end] == '.';
    if (const std::string_view digit = dot ? run(end + 1, [](unsigned char c) { return std::isdigit(c) != 0; }) : "";
        digit.size() == 1) {
      number = digit[0] - '0';
      end += 2;
    }
    const std::string filled = value(name, number);
    r += filled.empty() ? text.substr(i, end - i) : filled;
    i = end;
  }
  return r;
}

}  // namespace

bool PrintInstruction(const Dialect& d, const ir::Func& f, const std::vector<const ir::For*>& around,
                      ExprPrinter& printer, TextBuilder& out) {
  const ir::For& nest = *around.back();
  const Intrinsic* row = ir::FindIntrinsic(d.intrinsics, *nest.kind.intrinsic);
  if (row == nullptr) return false;
  ir::Analyzer a(*f.context);
  ir::BindFacts(a, f, around);
  const StatusOr<std::vector<ir::IntrinsicOperand>> operands = ir::MatchIntrinsic(a, nest, *row);
  if (!operands.ok()) return false;
  std::vector<ir::Expr> bases;
  for (const ir::IntrinsicOperand& x : *operands) bases.push_back(x.base);
  printer.Begin(bases);
  out.Line(Filled(row->text, [&](std::string_view name, int dimension) -> std::string {
    for (const ir::IntrinsicOperand& x : *operands) {
      if (x.name != name || dimension >= static_cast<int>(x.pitches.size())) continue;
      return dimension >= 0 ? Cat(x.pitches[static_cast<size_t>(dimension)])
                            : Cat(printer.NameOf(x.buffer), " + (", printer.Print(x.base), ")");
    }
    return "";
  }));
  return true;
}

}  // namespace cinn_like::backends
