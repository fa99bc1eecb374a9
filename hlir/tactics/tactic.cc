#include "hlir/tactics/tactic.h"

#include <algorithm>

#include "hlir/tactics/tactics.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::hlir {

namespace {

bool IsCheaper(const Proposal& a, const Proposal& b) { return a.seconds < b.seconds; }

std::string Refusal(const Tactic& t, const Status& why) { return Cat("tactic ", t.name, ": ", why.message()); }

}  // namespace

const std::vector<Tactic>& BuiltInTactics() {
  static const std::vector<Tactic>* tactics = new std::vector<Tactic>{
      {"matmul_library", ProposeMatmulLibrary},
      {"matmul_cpu", ProposeMatmulCpu},
      {"chain_cpu", ProposeChainCpu},
      {"chain_gpu", ProposeChainGpu},
      {"matmul_gpu", ProposeMatmulGpu},
      {"rows_cpu", ProposeRowsCpu},
      {"rows_gpu", ProposeRowsGpu},
      {"rows_online", ProposeRowsOnline},
      {"scans_gpu", ProposeScansGpu},
  };
  return *tactics;
}

namespace {

// Prices of symbolic sizes are those of the hints; what is called is often larger. The bid goes first whose price there
// and at larger sizes is the lowest in the geometric mean: three rows of a product that was traced with two are not
// three times one. Where another one is cheaper at the hints, a kernel near them takes it (near_hints.h).
void PreferLasting(const ir::TeProgram& group, const Target& target, std::vector<Bid>& bids) {
  if (bids.size() < 2) return;
  ir::TeProgram larger = group;
  bool any = false;
  for (ir::SymbolFact& f : larger.symbols) {
    if (f.hint < 1 || f.hint >= f.hi) continue;
    f.hint = f.hint > f.hi / kFartherBy ? f.hi : f.hint * kFartherBy;
    any = true;
  }
  if (!any) return;
  size_t best = 0;
  double least = 0;
  for (size_t i = 0; i < bids.size(); ++i) {
    Point point;
    const StatusOr<std::vector<Proposal>> there = bids[i].tactic->propose(larger, target, Until::kPrice, point);
    if (!there.ok() || there->empty()) continue;
    const double price = bids[i].seconds * std::min_element(there->begin(), there->end(), IsCheaper)->seconds;
    if (least == 0 || price < least) best = i, least = price;
  }
  std::rotate(bids.begin(), bids.begin() + static_cast<ptrdiff_t>(best),
              bids.begin() + static_cast<ptrdiff_t>(best) + 1);
}

Bids BidsOf(const ir::TeProgram& group, const Target& target, std::initializer_list<const std::vector<Tactic>*> lists) {
  Bids r;
  std::vector<const Tactic*> tactics;
  for (const std::vector<Tactic>* list : lists) {
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) tactics.push_back(&(*list)[i]);
  }
  for (const Tactic* tactic : tactics) {
    const Tactic& t = *tactic;
    Point point;
    const StatusOr<std::vector<Proposal>> proposed = t.propose(group, target, Until::kPrice, point);
    if (!proposed.ok()) {
      r.refused.push_back(Refusal(t, proposed.status()));
    } else if (!proposed->empty()) {
      r.bids.push_back({&t, std::min_element(proposed->begin(), proposed->end(), IsCheaper)->seconds});
    }
  }
  std::stable_sort(r.bids.begin(), r.bids.end(), [](const Bid& a, const Bid& b) { return a.seconds < b.seconds; });
  PreferLasting(group, target, r.bids);
  return r;
}
}  // namespace

Bids CollectBids(const ir::TeProgram& group, const Target& target, const std::vector<Tactic>& tactics) {
  return BidsOf(group, target, {&tactics});
}

Bids CollectBids(const ir::TeProgram& group, const Target& target) {
  return BidsOf(group, target, {&BuiltInTactics(), target.device->tactics});
}

double Bids::seconds() const { return bids.empty() ? kNaiveSeconds : bids[0].seconds; }

StatusOr<Choice> AcceptCheapest(Bids bids, const ir::TeProgram& group, const Target& target,
                                const std::function<Status(const Proposal&)>& accept) {
  Choice r{{}, std::move(bids.refused)};
  for (const Bid& bid : bids.bids) {
    Point point;
    StatusOr<std::vector<Proposal>> proposed = bid.tactic->propose(group, target, Until::kSchedule, point);
    if (!proposed.ok()) {
      r.refused.push_back(Refusal(*bid.tactic, proposed.status()));
      continue;
    }
    std::stable_sort(proposed->begin(), proposed->end(), IsCheaper);
    for (Proposal& p : *proposed) {
      const Status status = accept == nullptr ? absl::OkStatus() : accept(p);
      if (status.ok()) {
        r.proposal = std::move(p);
        return r;
      }
      r.refused.push_back(Refusal(*bid.tactic, status));
    }
  }
  ASSIGN_OR_RETURN(r.proposal, ProposeNaive(group, target));
  if (accept != nullptr) RETURN_IF_ERROR(Annotate(accept(r.proposal), "tactic naive"));
  return r;
}

StatusOr<Choice> ChooseSchedule(const ir::TeProgram& group, const Target& target,
                                const std::function<Status(const Proposal&)>& accept,
                                const std::vector<Tactic>& tactics) {
  return AcceptCheapest(CollectBids(group, target, tactics), group, target, accept);
}

StatusOr<Choice> ChooseSchedule(const ir::TeProgram& group, const Target& target,
                                const std::function<Status(const Proposal&)>& accept) {
  return AcceptCheapest(CollectBids(group, target), group, target, accept);
}

StatusOr<std::string> ThreadAnElement(const ir::Stage& stage, ir::Schedule& s, const Target& target,
                                      int64_t block_threads, std::string_view axis) {
  std::vector<std::string> loops = s.LoopsAround("b_" + stage.name);
  size_t data = 0;
  std::string scan;
  for (const ir::StageIter& i : stage.iters) {
    if (ir::IsInt(i.extent, 1)) continue;
    RET_CHECK(data < loops.size(), stage.name);
    if (i.var != stage.along) {
      ++data;
      continue;
    }
    scan = loops[data];
    loops.erase(loops.begin() + static_cast<ptrdiff_t>(data));
  }
  RET_CHECK(data <= loops.size(), stage.name);
  for (ir::Buffer b : stage.running) s.Step("scope ", b->name, " local");
  if (!scan.empty() && data > 0) {  // each thread goes along it
    std::string order = "reorder";
    for (size_t k = 0; k < data; ++k) order += " " + loops[k];
    s.Step(order, " ", scan);
  }
  if (data == 0) return scan;  // a kernel of one thread: guard_stores
  loops.resize(data);
  const std::string all = s.Fresh("e"), block = s.Fresh("eb"), thread = s.Fresh("et");
  std::string fuse = "fuse";
  for (const std::string& l : loops) fuse += " " + l;
  s.Step(fuse, " -> ", all)
      .Step("split ", all, " ", std::min<int64_t>(target.device->limits.threads, block_threads), " -> ", block, " ",
            thread);
  s.Step("bind ", block, " blockIdx.x").Step("bind ", thread, " ", axis);
  return scan;
}

StatusOr<Proposal> ProposeNaive(const ir::TeProgram& group, const Target& target) {
  ASSIGN_OR_RETURN(ir::Func loops, ir::ToLoops(group));
  ir::Schedule s(std::move(loops));
  if (target.HasKernels()) {
    // A kernel a stage; what one writes for another stays in memory.
    for (const ir::Stage& stage : group.stages)
      RETURN_IF_ERROR(Annotate(ThreadAnElement(stage, s, target).status(), group.name));
    RETURN_IF_ERROR(s.status());
  }
  return Proposal{"naive", s.func(), s.text(), kNaiveSeconds};
}

}  // namespace cinn_like::hlir
