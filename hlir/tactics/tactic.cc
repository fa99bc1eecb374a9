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
  };
  return *tactics;
}

StatusOr<Bids> CollectBids(const ir::TeProgram& group, const Target& target, const std::vector<Tactic>& tactics) {
  Bids r;
  for (const Tactic& t : tactics) {
    StatusOr<std::vector<Proposal>> proposed = t.propose(group, target);
    if (!proposed.ok()) {
      r.refused.push_back(Cat("tactic ", t.name, ": ", proposed.status().message()));
      continue;
    }
    for (Proposal& p : *proposed) r.proposals.push_back(std::move(p));
  }
  std::stable_sort(r.proposals.begin(), r.proposals.end(),
                   [](const Proposal& a, const Proposal& b) { return a.seconds < b.seconds; });
  if (r.proposals.empty()) {
    ASSIGN_OR_RETURN(r.proposals.emplace_back(), ProposeNaive(group, target));
  }
  return r;
}

StatusOr<Choice> AcceptCheapest(Bids bids, const ir::TeProgram& group, const Target& target,
                                const std::function<Status(const Proposal&)>& accept) {
  Choice r{{}, std::move(bids.refused)};
  for (Proposal& p : bids.proposals) {
    const Status status = accept == nullptr ? absl::OkStatus() : accept(p);
    if (status.ok()) {
      r.proposal = std::move(p);
      return r;
    }
    r.refused.push_back(Cat("tactic ", p.tactic, ": ", status.message()));
  }
  ASSIGN_OR_RETURN(r.proposal, ProposeNaive(group, target));
  if (accept != nullptr) RETURN_IF_ERROR(Annotate(accept(r.proposal), "tactic naive"));
  return r;
}

StatusOr<Choice> ChooseSchedule(const ir::TeProgram& group, const Target& target,
                                const std::function<Status(const Proposal&)>& accept,
                                const std::vector<Tactic>& tactics) {
  ASSIGN_OR_RETURN(Bids bids, CollectBids(group, target, tactics));
  return AcceptCheapest(std::move(bids), group, target, accept);
}

StatusOr<Proposal> ProposeNaive(const ir::TeProgram& group, const Target& target) {
  ASSIGN_OR_RETURN(ir::Func loops, ir::ToLoops(group));
  ir::Schedule s(std::move(loops));
  if (target.HasKernels()) {
    // A kernel a stage, one thread an element; what one writes for another stays in memory.
    for (const ir::Stage& stage : group.stages) {
      std::vector<std::string> loops = s.LoopsAround("b_" + stage.name);
      size_t data = 0;
      for (const ir::StageIter& i : stage.iters) data += !ir::IsInt(i.extent, 1);
      RET_CHECK(data <= loops.size(), group.name, ": ", stage.name);
      if (data == 0) continue;  // a kernel of one thread: guard_stores
      loops.resize(data);
      const std::string all = s.Fresh("e"), block = s.Fresh("eb"), thread = s.Fresh("et");
      std::string fuse = "fuse";
      for (const std::string& l : loops) fuse += " " + l;
      s.Step(fuse, " -> ", all)
          .Step("split ", all, " ", std::min<int64_t>(target.device->limits.threads, 128), " -> ", block, " ", thread);
      s.Step("bind ", block, " blockIdx.x").Step("bind ", thread, " threadIdx.x");
    }
    RETURN_IF_ERROR(s.status());
  }
  return Proposal{"naive", s.func(), s.text(), 1e3};
}

}  // namespace cinn_like::hlir
