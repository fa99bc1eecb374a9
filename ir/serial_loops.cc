#include "ir/serial_loops.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"

namespace cinn_like::ir {

std::vector<std::string> FindSerialLoops(const Module& scheduled, const Module& lowered) {
  const auto visit = [](const Func& f, const auto& see) {
    VisitStmts(f.body, [&](const Stmt& s) {
      if (const For* n = As<For>(s)) see(*n);
      return true;
    });
  };
  std::vector<std::string> r;
  for (const Func& f : scheduled.funcs) {
    absl::flat_hash_set<std::string> serial;
    for (const Func& l : lowered.funcs) {
      if (l.name != f.name && !absl::StartsWith(l.name, Cat(f.name, "_kernel"))) continue;  // of a device
      visit(l, [&](const For& n) {
        if (n.kind == ForKind::kSerial) serial.insert(n.var->name);
      });
    }
    visit(f, [&](const For& n) {
      if (n.kind == ForKind::kSerial || IsTensorized(n.kind) || !serial.contains(n.var->name)) return;
      r.push_back(Cat("@", f.name, ": loop ", n.var->name, " is not ", Name(n.kind), " but serial"));
    });
  }
  return r;
}

}  // namespace cinn_like::ir
