#include "backends/kernel_resources.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace cinn_like::backends {
namespace {

// The number right before `unit` in a line such as "0 bytes stack frame, 8 bytes spill stores"; 0 where there is none.
int64_t NumberBefore(std::string_view line, std::string_view unit) {
  const size_t at = line.find(unit);
  if (at == line.npos) return 0;
  size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int64_t r = 0;
  std::from_chars(line.data() + begin, line.data() + at, r);
  return r;
}

// Each different value once.
std::string JoinOnce(const std::vector<std::string>& values) {
  std::vector<std::string> once;
  for (const std::string& v : values) {
    if (std::find(once.begin(), once.end(), v) == once.end()) once.push_back(v);
  }
  std::string r;
  for (const std::string& v : once) r += Cat(r.empty() ? "" : ", ", v);
  return r;
}

struct Launches {
  std::vector<std::string> threads, shared_bytes;
};

std::map<std::string, Launches> FindLaunches(const ir::Module& module) {
  std::map<std::string, Launches> r;
  for (const ir::Func& f : module.funcs) {
    ir::VisitStmts(f.body, [&](const ir::Stmt& s) {
      const ir::Launch* n = ir::As<ir::Launch>(s);
      if (n == nullptr) return true;
      Launches& of = r[n->kernel];
      std::string threads;
      for (ir::Expr e : n->block) threads += Cat(threads.empty() ? "" : " x ", ir::Print(e));
      of.threads.push_back(threads);
      of.shared_bytes.push_back(n->shared_bytes == nullptr ? "0" : ir::Print(n->shared_bytes));
      return true;
    });
  }
  return r;
}

}  // namespace

StatusOr<std::vector<KernelResources>> ParseKernelResources(std::string_view log) {
  constexpr std::string_view kEntry = "Compiling entry function '";
  std::vector<KernelResources> r;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (const size_t at = line.find(kEntry); at != line.npos) {
      const std::string_view rest = line.substr(at + kEntry.size());
      r.push_back({.entry = std::string(rest.substr(0, rest.find('\'')))});
    } else if (r.empty()) {
      continue;
    } else if (line.find(" bytes stack frame") != line.npos) {
      r.back().stack_bytes = NumberBefore(line, " bytes stack frame");
      r.back().spilled_bytes = NumberBefore(line, " bytes spill stores") + NumberBefore(line, " bytes spill loads");
    } else if (line.find(" registers") != line.npos) {
      r.back().registers = NumberBefore(line, " registers");
      r.back().static_shared_bytes = NumberBefore(line, " bytes smem");
    }
  }
  for (const KernelResources& k : r) {
    if (k.registers == 0) return Internal("the compiler's log has no registers of '", k.entry, "'");
  }
  return r;
}

StatusOr<std::string> DescribeKernelResources(const ir::Module& module,
                                              const std::vector<std::pair<std::string, std::string>>& kernels,
                                              std::string_view log) {
  ASSIGN_OR_RETURN(const std::vector<KernelResources> found, ParseKernelResources(log));
  std::map<std::string, Launches> launches = FindLaunches(module);
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "threads", "registers", "spilled", "stack", "static shared", "dynamic shared"}};
  for (const auto& [name, entry] : kernels) {
    const auto k = std::find_if(found.begin(), found.end(), [&](const KernelResources& x) { return x.entry == entry; });
    if (k == found.end())
      return absl::NotFoundError(Cat("kernel ", name, ": its compiler says nothing of '", entry, "'"));
    const Launches& of = launches[name];
    rows.push_back({name, JoinOnce(of.threads), Cat(k->registers), Cat(k->spilled_bytes), Cat(k->stack_bytes),
                    Cat(k->static_shared_bytes), JoinOnce(of.shared_bytes)});
  }
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string r;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      const bool is_text = i < 2;
      r += i == 0 ? "" : "  ";
      r += is_text ? row[i] + pad : pad + row[i];
    }
    r += '\n';
  }
  return r;
}

}  // namespace cinn_like::backends
