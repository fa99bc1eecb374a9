#include "hlir/tactics/gpu_tiles.h"

#include "cinn_like/base/status.h"

namespace cinn_like::hlir {

void FillByThreads(ir::Schedule& s, const std::string& name, std::vector<std::string> loops, int64_t vector,
                   const std::vector<std::pair<char, int64_t>>& axes) {
  if (vector > 1) {
    s.Step("split ", loops.back(), " ", vector, " -> ", name, "_o ", name, "_e");
    loops.back() = name + "_o";
  }
  std::string fuse = "fuse";
  for (const std::string& loop : loops) fuse += " " + loop;
  s.Run(Cat(fuse, " -> ", name, "_f"));
  std::string factors, threads;
  for (const auto& [axis, extent] : axes) {
    factors += Cat(" ", extent);
    threads += Cat(" ", name, "_", std::string(1, axis));
  }
  s.Step("split ", name, "_f", factors, " -> ", name, "_s", threads);
  s.Step("reorder", threads, " ", name, "_s").Step("unroll ", name, "_s");
  for (const auto& [axis, extent] : axes)
    s.Step("bind ", name, "_", std::string(1, axis), " threadIdx.", std::string(1, axis));
  if (vector > 1) s.Step("vectorize ", name, "_e");
}

}  // namespace cinn_like::hlir
