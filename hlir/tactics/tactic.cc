#include "hlir/tactics/tactic.h"

#include <algorithm>

#include "hlir/tactics/tactics.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::hlir {

const std::vector<Tactic>& BuiltInTactics() {
  static const std::vector<Tactic>* tactics = new std::vector<Tactic>{
      {"matmul_library", ProposeMatmulLibrary},
      {"matmul_cpu", ProposeMatmulCpu},
      {"matmul_gpu", ProposeMatmulGpu},
      {"rows_cpu", ProposeRowsCpu},
      {"rows_gpu", ProposeRowsGpu},
      {"naive", ProposeNaive},
  };
  return *tactics;
}

StatusOr<Proposal> ChooseSchedule(const ir::TeProgram& group, const Target& target,
                                  const std::vector<Tactic>& tactics) {
  std::optional<Proposal> best;
  for (const Tactic& t : tactics) {
    StatusOr<std::vector<Proposal>> proposals = t.propose(group, target);
    if (!proposals.ok()) return Annotate(proposals.status(), Cat("tactic ", t.name));
    for (Proposal& p : *proposals) {
      if (!best || p.seconds < best->seconds) best = std::move(p);
    }
  }
  RET_CHECK(best.has_value(), group.name);
  return *std::move(best);
}

StatusOr<std::vector<Proposal>> ProposeNaive(const ir::TeProgram& group, const Target& target) {
  ASSIGN_OR_RETURN(ir::Func loops, ir::ToLoops(group));
  ir::Schedule s(std::move(loops));
  if (target.IsGpu()) {
    // One thread an element of the last stage, which also computes what it reads of the others.
    for (const ir::Stage& stage : group.stages) {
      for (ir::Buffer b : stage.outputs) {
        const bool is_result =
            std::any_of(group.params.begin(), group.params.end(), [&](const ir::Param& p) { return p.buffer == b; });
        if (is_result && &stage != &group.stages.back()) return std::vector<Proposal>();
        if (!is_result) s.Step("scope ", b->name, " local");
      }
    }
    const ir::Stage& last = group.stages.back();
    const std::vector<std::string> names = s.LoopsAround("b_" + last.name);
    std::string fuse = "fuse";
    size_t data = 0;
    for (const ir::StageIter& i : last.iters) data += !ir::IsInt(i.extent, 1);
    for (size_t i = 0; i < data; ++i) fuse += " " + names[i];
    if (data > 0) {
      s.Step(fuse, " -> e").Run("split e 128 -> eb et").Run("bind eb blockIdx.x").Run("bind et threadIdx.x");
      for (size_t k = group.stages.size() - 1; k-- > 0;) s.Step("compute_at b_", group.stages[k].name, " et");
    }
    if (!s.status().ok()) return std::vector<Proposal>();
  }
  return std::vector<Proposal>{{"naive", s.func(), s.text(), 1e3}};
}

}  // namespace cinn_like::hlir
