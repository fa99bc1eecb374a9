#include "hlir/choose_layouts.h"

#include <algorithm>
#include <numeric>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/tactic.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

constexpr double kMostOfGiven = 0.95;  // of the predicted time: less is left of a gain that small than it is worth
constexpr size_t kMostChoices = 3;     // of one kernel, which is priced for each combination
constexpr int kMostSweeps = 4, kMostPropagations = 6;

// For each dimension in memory the one of the value as given.
using Order = std::vector<size_t>;
using Orders = absl::flat_hash_map<Buffer, Order>;

std::vector<Expr> Permute(const std::vector<Expr>& v, const Order& order) {
  std::vector<Expr> r;
  for (size_t d : order) r.push_back(v[d]);
  return r;
}

// The stages with these values in these orders. A value that has one is the only output of its stage.
TeProgram LayOut(TeProgram p, const Orders& orders) {
  Context& c = *p.context;
  absl::flat_hash_map<Buffer, Buffer> laid_out;
  for (const auto& [b, order] : orders) {
    BufferNode n = *b;
    n.shape = Permute(n.shape, order);
    laid_out[b] = c.MakeBuffer(std::move(n));
  }
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr e) -> Expr {
    if (e->op != ExprOp::kLoad) return nullptr;
    const auto order = orders.find(e->buffer);
    if (order == orders.end()) return nullptr;
    std::vector<Expr> indices;
    for (Expr i : IndicesOf(e)) indices.push_back((*self)(i));
    const Expr mask = MaskOf(e);
    return c.Load(laid_out.at(e->buffer), Permute(indices, order->second), mask == nullptr ? nullptr : (*self)(mask));
  });
  self = &rewrite;
  for (Stage& s : p.stages) {
    for (Expr& e : s.values) e = rewrite(e);
    for (Buffer& b : s.outputs) {
      const auto order = orders.find(b);
      if (order == orders.end()) continue;
      if (s.at.empty()) {
        std::vector<StageIter> iters;
        for (size_t d : order->second) iters.push_back(s.iters[d]);
        s.iters = std::move(iters);
      } else {
        s.at = Permute(s.at, order->second);
      }
      b = laid_out.at(b);
    }
  }
  for (Param& q : p.params) {
    if (const auto to = laid_out.find(q.buffer); to != laid_out.end()) q.buffer = to->second;
  }
  return p;
}

const std::vector<Expr>& PlacesOf(const Stage& s, std::vector<Expr>& vars) {
  vars = VarsOf(s.iters);
  return s.at.empty() ? vars : s.at;
}

// Which dimensions of values windows move over, from contractions to all that has the same dimensions.
class Images {
 public:
  explicit Images(const TeProgram& p) {
    for (const Stage& s : p.stages) Seed(s);
    if (places_.empty()) return;
    for (const Stage& s : p.stages) {
      if (s.outputs.size() == 1) Link(s);
    }
    for (bool changed = true; changed && sweeps_ < kMostPropagations; ++sweeps_) {
      changed = false;
      for (const auto& [from, to] : links_) changed |= Spread(from, to);
      for (size_t k = links_.size(); k-- > 0;) changed |= Spread(links_[k].second, links_[k].first);
    }
  }

  bool empty() const { return places_.empty(); }

  // With the innermost of the other dimensions last; empty: it is.
  Order ChannelsLast(Buffer b) const {
    std::vector<bool> is_place(b->shape.size());
    bool any = false;
    for (size_t d = 0; d < is_place.size(); ++d) any |= is_place[d] = places_.contains({b, d});
    size_t channels = is_place.size();
    while (channels > 0 && (is_place[channels - 1] || IsInt(b->shape[channels - 1], 1))) --channels;
    if (!any || channels == 0 || channels == is_place.size()) return {};
    --channels;
    // What lies behind is 1 element.
    if (std::all_of(b->shape.begin() + static_cast<ptrdiff_t>(channels) + 1, b->shape.end(),
                    [](Expr e) { return IsInt(e, 1); })) {
      return {};
    }
    Order r;
    for (size_t d = 0; d < is_place.size(); ++d) {
      if (d != channels) r.push_back(d);
    }
    r.push_back(channels);
    return r;
  }

 private:
  using Dim = std::pair<Buffer, size_t>;

  static bool UsesAny(Expr e, const std::vector<StageIter>& iters) {
    return std::any_of(iters.begin(), iters.end(), [&](const StageIter& i) { return Uses(e, i.var); });
  }

  // Dimensions whose indices are sums of an element's place and one in its window.
  void Seed(const Stage& s) {
    const std::optional<Contraction> con = FindContraction(s);
    if (!con) return;
    for (Expr load : {con->lhs, con->rhs}) {
      const std::vector<Expr> at = IndicesOf(load);
      for (size_t d = 0; d < at.size(); ++d) {
        if (at[d]->op == ExprOp::kVar || !UsesAny(at[d], s.iters) || !UsesAny(at[d], s.reduce_iters)) continue;
        places_.insert({load->buffer, d});
        for (size_t k = 0; k < s.iters.size(); ++k) {
          if (Uses(at[d], s.iters[k].var)) places_.insert({s.outputs[0], k});
        }
      }
    }
  }

  // Dimensions of what a stage reads and of what it writes that one iterator goes through.
  void Link(const Stage& s) {
    std::vector<Expr> vars;
    const std::vector<Expr>& places = PlacesOf(s, vars);
    absl::flat_hash_map<Expr, size_t> written;
    for (size_t d = 0; d < places.size(); ++d) {
      if (places[d]->op == ExprOp::kVar) written[places[d]] = d;
    }
    VisitLoads(s.values[0], [&](Expr load) {
      if (load->buffer == s.outputs[0]) return;
      const std::vector<Expr> at = IndicesOf(load);
      absl::flat_hash_map<Expr, std::vector<size_t>> read;
      std::vector<int> iterators(at.size());
      for (size_t d = 0; d < at.size(); ++d) {
        for (Expr var : ir::VarsOf(at[d])) {
          if (!written.contains(var)) continue;
          read[var].push_back(d);
          ++iterators[d];
        }
      }
      for (const StageIter& i : s.iters) {
        const auto dims = read.find(i.var);
        if (dims == read.end() || dims->second.size() != 1 || iterators[dims->second[0]] != 1) continue;
        links_.push_back({{load->buffer, dims->second[0]}, {s.outputs[0], written.at(i.var)}});
      }
    });
  }

  bool Spread(const Dim& from, const Dim& to) { return places_.contains(from) && places_.insert(to).second; }

  absl::flat_hash_set<Dim> places_;
  std::vector<std::pair<Dim, Dim>> links_;
  int sweeps_ = 0;
};

class Chooser {
 public:
  using Price = std::function<double(const TeProgram&)>;

  Chooser(FusionPlan plan, const Price& seconds) : plan_(std::move(plan)), price_(seconds) {}

  StatusOr<FusionPlan> Run() {
    const Images images(plan_.program);
    if (images.empty()) return std::move(plan_);
    FindValues(images);
    if (values_.empty()) return std::move(plan_);
    JoinValues();
    RETURN_IF_ERROR(FindKernels());
    if (kernels_.empty() || !Choose()) return std::move(plan_);
    Orders orders;
    for (const Value& v : values_) {
      if (last_[v.choice]) orders[v.buffer] = v.order;
    }
    plan_.program = LayOut(std::move(plan_.program), orders);
    for (FusionPlan::Group& g : plan_.groups) {
      std::vector<Buffer> outputs;
      for (int i : g.stages) {
        for (Buffer b : plan_.program.stages[i].outputs) {
          const bool leaves =
              std::any_of(g.outputs.begin(), g.outputs.end(), [&](Buffer x) { return x->name == b->name; });
          if (leaves) outputs.push_back(b);
        }
      }
      g.outputs = std::move(outputs);
    }
    return std::move(plan_);
  }

 private:
  struct Value {
    Buffer buffer;
    Order order;  // with its channels last
    size_t choice;
  };
  // Kernels that are one text share their prices.
  struct Prices {
    TeProgram group;
    std::vector<std::vector<std::pair<Buffer, Order>>> moved;  // of each choice
    std::vector<double> seconds;                               // of each combination; below 0: not asked yet
  };
  struct Kernel {
    size_t prices;
    std::vector<size_t> choices;
  };

  // What leaves a kernel for others alone.
  void FindValues(const Images& images) {
    absl::flat_hash_set<Buffer> fixed;
    for (const Param& q : plan_.program.params) fixed.insert(q.buffer);
    for (const RangeCheck& check : plan_.program.checks) fixed.insert({check.low, check.high});
    for (const FusionPlan::Group& g : plan_.groups) {
      for (int i : g.stages) {
        const std::vector<Buffer>& outputs = plan_.program.stages[i].outputs;
        if (outputs.size() != 1 || fixed.contains(outputs[0]) || !Contains(g.outputs, outputs[0])) continue;
        Order order = images.ChannelsLast(outputs[0]);
        if (order.empty()) continue;
        value_of_[outputs[0]] = values_.size();
        values_.push_back({outputs[0], std::move(order), values_.size()});
      }
    }
  }

  // Values that one kernel goes through element by element lie alike; only contractions read as they have to.
  void JoinValues() {
    std::vector<size_t> parent(values_.size());
    std::iota(parent.begin(), parent.end(), 0);
    const auto find = [&](size_t x) {
      while (parent[x] != x) x = parent[x] = parent[parent[x]];
      return x;
    };
    const auto join = [&](const std::vector<size_t>& all) {
      for (size_t v : all) parent[std::max(find(v), find(all[0]))] = std::min(find(v), find(all[0]));
    };
    for (const FusionPlan::Group& g : plan_.groups) {
      std::vector<size_t> alike, all;
      for (int i : g.stages) {
        const Stage& s = plan_.program.stages[i];
        const bool is_contraction = FindContraction(s).has_value();
        const auto add = [&](Buffer b) {
          const auto v = value_of_.find(b);
          if (v == value_of_.end()) return;
          all.push_back(v->second);
          if (!is_contraction) alike.push_back(v->second);
        };
        for (Buffer b : InputsOf(s)) add(b);
        for (Buffer b : s.outputs) add(b);
      }
      if (!alike.empty()) join(alike);
      absl::flat_hash_set<size_t> choices;
      for (size_t v : all) choices.insert(find(v));
      if (choices.size() > kMostChoices) join(all);
    }
    std::vector<size_t> number(values_.size(), values_.size());
    for (size_t v = 0; v < values_.size(); ++v) {
      size_t& n = number[find(v)];
      if (n == values_.size()) n = num_choices_++;
      values_[v].choice = n;
    }
  }

  Status FindKernels() {
    absl::flat_hash_map<std::string, size_t> of_text;
    for (const FusionPlan::Group& g : plan_.groups) {
      bool any = false;
      for (int i : g.stages) {
        const Stage& s = plan_.program.stages[i];
        for (Buffer b : InputsOf(s)) any |= value_of_.contains(b);
        for (Buffer b : s.outputs) any |= value_of_.contains(b);
      }
      if (!any) continue;
      ASSIGN_OR_RETURN(ExtractedGroup e, ExtractGroup(plan_.program, g));
      ASSIGN_OR_RETURN(const Func loops, ToLoops(e.program));
      Kernel k;
      Prices prices;
      std::string text = Print(loops);
      for (size_t i = 0; i < e.args.size(); ++i) {
        const auto v = e.args[i] == nullptr ? value_of_.end() : value_of_.find(e.args[i]);
        if (v == value_of_.end()) continue;
        const Value& value = values_[v->second];
        size_t at = 0;
        while (at < k.choices.size() && k.choices[at] != value.choice) ++at;
        if (at == k.choices.size()) {
          k.choices.push_back(value.choice);
          prices.moved.emplace_back();
        }
        prices.moved[at].push_back({e.program.params[i].buffer, value.order});
        text += Cat("\n", i, " ", at, " ", value.order.back());
      }
      if (k.choices.empty()) continue;
      const auto [it, fresh] = of_text.emplace(std::move(text), prices_.size());
      k.prices = it->second;
      if (fresh) {
        prices.seconds.resize(size_t{1} << k.choices.size(), -1);
        prices.group = std::move(e.program);
        prices_.push_back(std::move(prices));
      }
      for (size_t choice : k.choices) {
        readers_.resize(num_choices_);
        readers_[choice].push_back(kernels_.size());
      }
      kernels_.push_back(std::move(k));
    }
    readers_.resize(num_choices_);
    return absl::OkStatus();
  }

  double PriceOf(const Kernel& k, size_t combination) {
    Prices& prices = prices_[k.prices];
    double& seconds = prices.seconds[combination];
    if (seconds >= 0) return seconds;
    Orders orders;
    for (size_t i = 0; i < k.choices.size(); ++i) {
      if ((combination >> i & 1) != 0) orders.insert(prices.moved[i].begin(), prices.moved[i].end());
    }
    return seconds = price_(LayOut(prices.group, orders));
  }

  static size_t AllLast(const Kernel& k) { return (size_t{1} << k.choices.size()) - 1; }

  // As chosen now. Prices are dear: an estimate takes a kernel whose values lie differently for the cheaper of those
  // whose values lie alike.
  double SecondsOf(const Kernel& k, bool estimate) {
    size_t at = 0;
    for (size_t i = 0; i < k.choices.size(); ++i) at |= size_t{last_[k.choices[i]]} << i;
    const size_t all = AllLast(k);
    return estimate && at != 0 && at != all ? std::min(PriceOf(k, 0), PriceOf(k, all)) : PriceOf(k, at);
  }

  double SecondsOfAll() {
    double r = 0;
    for (const Kernel& k : kernels_) r += SecondsOf(k, false);
    return r;
  }

  // What changing a choice adds. It is changed.
  double Flip(size_t choice, bool estimate) {
    double added = 0;
    for (size_t k : readers_[choice]) added -= SecondsOf(kernels_[k], estimate);
    last_[choice] = !last_[choice];
    for (size_t k : readers_[choice]) added += SecondsOf(kernels_[k], estimate);
    return added;
  }

  // Kernels that read or write the values would take less time if all theirs lay the other way.
  bool Promises(size_t choice) {
    double now = 0, then = 0;
    for (size_t k : readers_[choice]) {
      const size_t all = AllLast(kernels_[k]);
      now += PriceOf(kernels_[k], last_[choice] ? all : 0);
      then += PriceOf(kernels_[k], last_[choice] ? 0 : all);
    }
    return then < now;
  }

  // The cheapest found among: all values up to some point in the program one way, the rest the other, each then changed
  // alone where that helps. Whether it is worth it.
  bool Choose() {
    last_.assign(num_choices_, false);
    const double given = SecondsOfAll();
    double least = given, now = given;
    std::vector<bool> best = last_;
    for (int way = 0; way < 2; ++way) {
      for (size_t choice = 0; choice < num_choices_; ++choice) {
        now += Flip(choice, true);
        if (now < least) least = now, best = last_;
      }
    }
    last_ = best;
    least = SecondsOfAll();
    for (bool changed = true; changed && sweeps_ < kMostSweeps; ++sweeps_) {
      changed = false;
      for (size_t choice = 0; choice < num_choices_; ++choice) {
        if (!Promises(choice)) continue;
        if (const double more = Flip(choice, false); more < 0) {
          least += more, changed = true;
        } else {
          last_[choice] = !last_[choice];
        }
      }
    }
    return least < kMostOfGiven * given;
  }

  FusionPlan plan_;
  const Price& price_;
  std::vector<Value> values_;  // in the order of their stages
  absl::flat_hash_map<Buffer, size_t> value_of_;
  size_t num_choices_ = 0;
  std::vector<Kernel> kernels_;
  std::vector<Prices> prices_;
  std::vector<std::vector<size_t>> readers_;  // kernels, of each choice
  std::vector<bool> last_;                    // of each choice, whether channels are last
  int sweeps_ = 0;
};

StatusOr<FusionPlan> ByBids(FusionPlan plan, const PassContext& context) {
  if (context.target.HasKernels()) return plan;
  return ChooseLayouts(std::move(plan),
                       [&](const TeProgram& group) { return CollectBids(group, context.target).seconds(); });
}

constexpr Pass<FusionPlan> kPasses[] = {{"choose_layouts", ByBids}};

}  // namespace

StatusOr<FusionPlan> ChooseLayouts(FusionPlan plan, const std::function<double(const TeProgram&)>& seconds) {
  return Chooser(std::move(plan), seconds).Run();
}

std::span<const Pass<FusionPlan>> FusionPasses() { return kPasses; }

}  // namespace cinn_like::hlir
