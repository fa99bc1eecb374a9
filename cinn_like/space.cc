#include "cinn_like/space.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "backends/compiler.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/tactic.h"
#include "ir/host_array.h"
#include "runtime/last_error.h"

namespace cinn_like {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 41;             // of 15, medians were seen to be off by 1.4
constexpr double kRoundSeconds = 4e-3;  // of one point, at least
constexpr int kMostCalls = 1000;        // in a round
constexpr size_t kShown = 10;           // points beside the choice
constexpr char kEntry[] = "measured";

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string Microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", seconds * 1e6);
  return text;
}

// Tensors for a kernel's parameters, at typical sizes. Floats are small numbers, all others 0, which is in the bounds
// of whatever they index.
class Arguments {
 public:
  explicit Arguments(DeviceApi& api) : api_(api) {}
  ~Arguments() {
    for (const std::unique_ptr<Tensor>& t : tensors_) api_.Free(0, t->dl.data);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  Status Add(ir::Buffer b, ir::ParamRole role, DLDeviceType type, const std::vector<ir::SymbolFact>& symbols) {
    auto t = std::make_unique<Tensor>();
    const auto sizes = [&](const std::vector<ir::Expr>& list) {
      std::vector<int64_t> r;
      for (ir::Expr e : list) r.push_back(static_cast<int64_t>(hlir::TypicalSize(e, symbols)));
      return r;
    };
    t->shape = sizes(b->shape);
    t->strides = sizes(b->strides);
    int64_t elements = 1;
    for (size_t d = 0; d < t->shape.size(); ++d) {
      if (t->strides.empty())
        elements *= t->shape[d];
      else
        elements += (std::max<int64_t>(t->shape[d], 1) - 1) * t->strides[d];
    }
    const int64_t bytes = std::max<int64_t>(elements * BytesOf(b->dtype), 1);
    t->dl = {nullptr,
             {type, 0},
             static_cast<int32_t>(t->shape.size()),
             {InfoOf(b->dtype).dlpack_code, static_cast<uint8_t>(InfoOf(b->dtype).bits), 1},
             t->shape.data(),
             t->strides.empty() ? nullptr : t->strides.data(),
             0};
    ASSIGN_OR_RETURN(t->dl.data, api_.Alloc(0, bytes, nullptr));
    t->dtype = b->dtype;
    t->elements = elements;
    t->is_result = role == ir::ParamRole::kResult;
    const Status filled = Fill(*t);
    CinnValue v{};
    v.tag = kCinnTensor;
    v.tensor = &t->dl;
    values_.push_back(v);
    tensors_.push_back(std::move(t));
    return filled;
  }
  const std::vector<CinnValue>& values() const { return values_; }

  // What a call wrote, of the first elements; results are NaN for the next one.
  StatusOr<std::vector<ir::HostArray>> TakeResults() {
    constexpr int64_t kMost = 1 << 20;
    std::vector<ir::HostArray> r;
    for (const std::unique_ptr<Tensor>& t : tensors_) {
      if (!t->is_result) continue;
      ir::HostArray& a = r.emplace_back(t->dtype, std::vector<int64_t>{std::min(t->elements, kMost)});
      RETURN_IF_ERROR(api_.Copy(0, a.bytes.data(), t->dl.data, static_cast<int64_t>(a.bytes.size()), nullptr));
      RETURN_IF_ERROR(api_.Synchronize(0, nullptr));
      RETURN_IF_ERROR(Fill(*t));
    }
    return r;
  }

 private:
  struct Tensor {
    std::vector<int64_t> shape, strides;
    DLTensor dl{};
    DType dtype = DType::kF32;
    int64_t elements = 0;
    bool is_result = false;
  };

  Status Fill(const Tensor& t) {
    constexpr int64_t kMostAtOnce = 1 << 20;
    ir::HostArray a(t.dtype, {std::min(t.elements, kMostAtOnce)});
    for (int64_t i = 0; IsFloat(t.dtype) && i < a.NumElements(); ++i)
      a.Set(i, t.is_result ? std::nan("") : static_cast<double>(i * 7919 % 2003) / 2003 - 0.5);
    for (int64_t i = 0; i < t.elements; i += kMostAtOnce) {
      const int64_t width = BytesOf(t.dtype), bytes = std::min(t.elements - i, kMostAtOnce) * width;
      RETURN_IF_ERROR(api_.Copy(0, static_cast<char*>(t.dl.data) + i * width, a.bytes.data(), bytes, nullptr));
    }
    return api_.Synchronize(0, nullptr);
  }

  DeviceApi& api_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<CinnValue> values_;
};

// One point, ready to be called.
struct Candidate {
  std::string point;
  double predicted = 0;
  std::unique_ptr<Compiler> compiler;
  CinnFunctionPtr entry = nullptr;
  int calls = 1;  // a round
  std::vector<double> seconds;

  double Median() const {
    std::vector<double> s = seconds;
    std::sort(s.begin(), s.end());
    return s[s.size() / 2];
  }
};

class Space {
 public:
  Space(const hlir::LoweredGraph::Kernel& kernel, const Target& target, const CompileOptions& options,
        const Devices& devices, const Device& device)
      : kernel_(kernel), target_(target), options_(options), devices_(devices), device_(device) {}

  StatusOr<std::string> Describe(int points) {
    const hlir::Bids bids = hlir::CollectBids(kernel_.group, target_);
    text_ = Cat("@", kernel_.name, ":");
    for (const hlir::Bid& b : bids.bids) text_ += Cat(" ", b.tactic->name, " bids ", Microseconds(b.seconds), " us");
    if (bids.bids.empty()) return text_ + " nobody bids\n";
    text_ += "\n";
    tactic_ = bids.bids[0].tactic;
    hlir::Point choice;
    ASSIGN_OR_RETURN(const hlir::Proposal proposal, Propose(choice));
    for (const hlir::Point::Parameter& p : choice.parameters()) {
      text_ += Cat("  ", p.name, " of");
      for (const int64_t v : p.options) text_ += Cat(" ", v);
      text_ += Cat(": ", p.value, "\n");
    }
    if (points > 0) RETURN_IF_ERROR(Measure(proposal, choice.text(), points));
    return text_;
  }

 private:
  StatusOr<hlir::Proposal> Propose(hlir::Point& point) const {
    ASSIGN_OR_RETURN(std::vector<hlir::Proposal> proposals,
                     tactic_->propose(kernel_.group, target_, hlir::Until::kSchedule, point));
    RET_CHECK(!proposals.empty(), tactic_->name, " proposes nothing at ", point.text());
    return *std::min_element(proposals.begin(), proposals.end(),
                             [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  }

  Status Measure(const hlir::Proposal& choice, const std::string& point, int points) {
    ASSIGN_OR_RETURN(DeviceApi * api, device_.runtime->api());
    Arguments arguments(*api);
    for (const ir::Param& p : kernel_.group.params) {
      if (p.buffer != nullptr)
        RETURN_IF_ERROR(arguments.Add(p.buffer, p.role, device_.runtime->type, kernel_.group.symbols));
    }
    std::vector<Candidate> candidates;
    ASSIGN_OR_RETURN(candidates.emplace_back(), Build(choice, point));
    ASSIGN_OR_RETURN(const std::vector<ir::HostArray> expected, ResultsOf(candidates[0], arguments, *api));
    std::set<std::string> seen = {choice.schedule};
    std::vector<std::string> refused;
    for (int seed = 0; seed < points; ++seed) {
      hlir::Point p = hlir::Point::Random(static_cast<uint64_t>(seed));
      StatusOr<hlir::Proposal> proposal = Propose(p);
      if (proposal.ok() && !seen.insert(proposal->schedule).second) continue;
      StatusOr<Candidate> c = proposal.ok() ? Build(*proposal, p.text()) : proposal.status();
      const Status runs = c.ok() ? Compare(ResultsOf(*c, arguments, *api), expected) : c.status();
      if (runs.ok())
        candidates.push_back(*std::move(c));
      else
        refused.push_back(Cat(p.text(), ": ", runs.message()));
    }
    for (Candidate& c : candidates) {
      // Of two: where a first call takes long, medians would be of fewer calls than other points'.
      ASSIGN_OR_RETURN(double seconds, Call(c, arguments, *api));
      ASSIGN_OR_RETURN(const double again, Call(c, arguments, *api));
      seconds = std::min(seconds, again);
      c.calls = static_cast<int>(std::clamp(kRoundSeconds / std::max(seconds, 1e-9), 1.0, double{kMostCalls}));
    }
    // Each has others before it in turns, never itself: what it left in the caches would take part.
    std::vector<size_t> order(candidates.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::mt19937 rng(0);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same turns each time
    for (int round = 0; round < kRounds; ++round) {
      const size_t last = order.back();
      std::shuffle(order.begin(), order.end(), rng);
      if (order.front() == last) std::swap(order.front(), order.back());
      for (const size_t k : order) {
        ASSIGN_OR_RETURN(const double seconds, Call(candidates[k], arguments, *api));
        candidates[k].seconds.push_back(seconds);
      }
    }
    Report(candidates, refused);
    return absl::OkStatus();
  }

  // The scheduled kernel and an entry that calls it.
  StatusOr<Candidate> Build(const hlir::Proposal& proposal, const std::string& point) const {
    ir::Context& c = *proposal.func.context;
    ir::Func entry;
    entry.name = kEntry;
    entry.kind = ir::FuncKind::kEntry;
    entry.context = proposal.func.context;
    entry.symbols = proposal.func.symbols;
    if (device_.kind->has_kernels) entry.device = device_.kind->name;
    ir::Call call;
    call.callee = proposal.func.name;
    for (const ir::Param& p : proposal.func.params) {
      if (p.buffer == nullptr) {
        call.args.push_back(p.var);
        continue;
      }
      entry.params.push_back(p);
      call.args.push_back(c.Address(p.buffer, std::vector<ir::Expr>(p.buffer->shape.size(), c.Int(0))));
    }
    entry.body = ir::MakeStmt(std::move(call));
    Candidate r;
    r.point = point;
    r.predicted = proposal.seconds;
    ASSIGN_OR_RETURN(r.compiler, Compiler::Create(target_, options_, nullptr, devices_));
    RETURN_IF_ERROR(r.compiler->Build({proposal.func.context, {proposal.func, entry}}));
    r.entry = reinterpret_cast<CinnFunctionPtr>(r.compiler->Lookup(kEntry));
    RET_CHECK(r.entry != nullptr, kEntry);
    return r;
  }

  StatusOr<std::vector<ir::HostArray>> ResultsOf(const Candidate& c, Arguments& arguments, DeviceApi& api) const {
    RETURN_IF_ERROR(Call(c, arguments, api).status());
    return arguments.TakeResults();
  }

  // Sums in another order are all that may differ.
  static Status Compare(const StatusOr<std::vector<ir::HostArray>>& got, const std::vector<ir::HostArray>& expected) {
    RETURN_IF_ERROR(got.status());
    for (size_t k = 0; k < expected.size(); ++k) {
      const ir::HostArray &a = (*got)[k], &b = expected[k];
      double largest = 1;
      for (int64_t i = 0; i < b.NumElements(); ++i) largest = std::max(largest, std::abs(b.Get(i)));
      const double most = largest * (!IsFloat(b.dtype) ? 0 : BytesOf(b.dtype) == 2 ? 0.02 : 1e-4);
      for (int64_t i = 0; i < b.NumElements(); ++i) {
        const double x = a.Get(i), y = b.Get(i);
        if (!(std::abs(x - y) <= most) && x != y && !(std::isnan(x) && std::isnan(y)))
          return Internal("element ", i, " of result ", k, " is ", x, ", not ", y);
      }
    }
    return absl::OkStatus();
  }

  // Seconds of one of a round's calls, behind one that leaves caches as calls of its own do.
  StatusOr<double> Call(const Candidate& c, const Arguments& arguments, DeviceApi& api) const {
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = {device_.runtime->type, 0};
    const auto count = static_cast<int32_t>(arguments.values().size());
    auto begin = Clock::now();
    for (int k = 0; k <= c.calls; ++k) {
      if (k == 1) {
        RETURN_IF_ERROR(api.Synchronize(0, nullptr));
        begin = Clock::now();
      }
      if (const int32_t code = c.entry(nullptr, arguments.values().data(), count, &env); code != 0)
        return LastErrorStatus(code);
    }
    RETURN_IF_ERROR(api.Synchronize(0, nullptr));
    return SecondsSince(begin) / c.calls;
  }

  void Report(std::vector<Candidate>& candidates, const std::vector<std::string>& refused) {
    const std::string choice = candidates[0].point;
    const double seconds = candidates[0].Median();
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.Median() < b.Median(); });
    text_ += "  measured us, predicted us\n";
    for (size_t k = 0; k < candidates.size(); ++k) {
      const Candidate& c = candidates[k];
      const bool chosen = c.point == choice;

      if (k >= kShown && !chosen) continue;
      text_ += Cat("  ", Microseconds(c.Median()), "  ", Microseconds(c.predicted), "  ", c.point,
                   chosen ? "  (the choice)" : "", "\n");
    }
    char ratio[32];
    std::snprintf(ratio, sizeof(ratio), "%.3f", seconds / candidates[0].Median());
    text_ += Cat("  the choice takes ", ratio, " of the fastest of ", candidates.size(), " points; ", refused.size(),
                 " were refused\n");
    for (size_t k = 0; k < std::min(refused.size(), kShown); ++k) text_ += Cat("  refused: ", refused[k], "\n");
  }

  const hlir::LoweredGraph::Kernel& kernel_;
  const Target& target_;
  const CompileOptions& options_;
  const Devices& devices_;
  const Device& device_;
  const hlir::Tactic* tactic_ = nullptr;
  std::string text_;
};

}  // namespace

StatusOr<std::string> DescribeSpace(const hlir::Graph& graph, const Target& target, const CompileOptions& options,
                                    int points, const Devices& devices) {
  RETURN_IF_ERROR(hlir::Verify(graph));
  ASSIGN_OR_RETURN(const Device device, devices.Of(target));
  Target resolved = target;
  if (points > 0) {
    ASSIGN_OR_RETURN(resolved, ResolveTarget(target, *device.runtime));
  }
  const PassContext context{options, resolved, graph.name(), nullptr};
  ASSIGN_OR_RETURN(const hlir::Graph optimized, hlir::OptimizeGraph(graph, context));
  ASSIGN_OR_RETURN(const hlir::LoweredGraph lowered, hlir::LowerGraph(optimized, context));
  std::string text;
  for (const hlir::LoweredGraph::Kernel& kernel : lowered.kernels) {
    StatusOr<std::string> space = Space(kernel, resolved, options, devices, device).Describe(points);
    if (!space.ok()) return Annotate(space.status(), Cat("kernel ", kernel.name));
    text += *space;
  }
  return text;
}

}  // namespace cinn_like
