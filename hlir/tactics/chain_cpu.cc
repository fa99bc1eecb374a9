// Chains of reductions over one dimension between two contractions, on a CPU: the first one's results are reduced along
// what the second one sums over (a largest value, a sum of exponentials less that), and are the second one's operand.
//   s[i, j] = sum_d q[i, d] * k[j, d];  m[i] = max_j s[i, j];  e[i, j] = exp(s[i, j] - m[i]);  l[i] = sum_j e[i, j];
//   o[i, d] = sum_j e[i, j] * v[j, d] / l[i]
// Each thread takes tiles of rows i, which are the lanes of every loop: nothing is reduced across lanes, and of k and v
// one element at a time is broadcast from where it lies. Tiles of j follow one another in one loop (the step `chain`),
// so that what is computed for each i and j stays in the first-level cache.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "hlir/panels.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactics.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/tree.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

enum class Role : uint8_t { kBatch, kRow, kKey, kFeature, kDepth };

constexpr int64_t kMostSums = 14;                   // rows of a register tile
constexpr int64_t kMostKeys = 64, kLeastKeys = 16;  // of a tile
constexpr double kMostBytes = 512 * 1024;           // of a task, on its stack
constexpr int64_t kMostKeysAtOnce = 256;            // of which there is no such tile

bool IsOne(const StageIter& i) { return IsInt(i.extent, 1); }

// A divisor of `n` from `most` down to `least`; 0 if there is none.
int64_t DivisorFrom(int64_t n, int64_t most, int64_t least) {
  for (int64_t d = std::min(n, most); d >= least; --d) {
    if (n % d == 0) return d;
  }
  return 0;
}

class ChainTactic {
 public:
  ChainTactic(const TeProgram& group, const Target& target) : group_(group), target_(target) {}

  // False: the group is no such chain.
  StatusOr<bool> Plan() {
    if (group_.exact || target_.HasKernels()) return false;
    const auto is_reduction = [](const Stage& s) { return s.IsReduction(); };
    if (std::count_if(group_.stages.begin(), group_.stages.end(), is_reduction) < 3) return false;
    if (!std::any_of(group_.stages.begin(), group_.stages.end(), [](const Stage& s) { return FindContraction(s); }))
      return false;
    const auto results = std::count_if(group_.params.begin(), group_.params.end(),
                                       [](const Param& p) { return p.role == ParamRole::kResult; });
    if (results != 1) return false;
    ASSIGN_OR_RETURN(Schedule s, Schedule::Of(group_));
    s_.emplace(std::move(s));
    if (!FindSum() || !FindRoles()) return false;
    sum_type_ = StageOf(scores_).outputs[0]->dtype;
    if (sum_type_ != DType::kF32 || !HasRegisterTiles(sum_type_, target_)) return false;
    ChooseTiles();
    if (lanes_ == 1) return false;
    // What a task keeps: rows' operand and sums, three values for each of a tile's keys and rows, keys' operands.
    const double columns = depth_ + static_cast<double>(features_->int_value), keys = static_cast<double>(keys_tile_);
    const double floats = static_cast<double>(lanes_ * vectors_) * (columns + 3 * keys) + keys * columns;
    if (floats * BytesOf(sum_type_) > kMostBytes) return false;
    PredictSeconds();
    return true;
  }

  double seconds() const { return seconds_; }

  StatusOr<Proposal> Propose() {
    Fold();
    KeepMasked();
    Pack();
    RETURN_IF_ERROR(s_->status());
    stages_ = s_->stages()->stages;
    Tile();
    RETURN_IF_ERROR(s_->status());
    Chain();
    RETURN_IF_ERROR(s_->status());
    RETURN_IF_ERROR(Vectorize());
    return Proposal{"chain_cpu", s_->func(), s_->text(), seconds_};
  }

 private:
  const std::vector<Stage>& stages() const { return s_->stages() != nullptr ? s_->stages()->stages : stages_; }
  bool IsResult(const Stage& s) const {
    return std::any_of(group_.params.begin(), group_.params.end(),
                       [&](const Param& p) { return p.role == ParamRole::kResult && p.buffer == s.outputs[0]; });
  }

  size_t CountContractions() const {
    return static_cast<size_t>(
        std::count_if(stages().begin(), stages().end(), [](const Stage& s) { return FindContraction(s).has_value(); }));
  }

  // The second contraction, perhaps without what its elements have in common; its results are an allocation's, and what
  // follows runs over the same iterators.
  bool FindSum() {
    const std::string name = s_->Fresh("sum");
    for (size_t k = stages().size(); k-- > 0 && CountContractions() < 2;) {
      if (stages()[k].IsReduction() && !FindContraction(stages()[k]))
        s_->Try(Cat("hoist ", stages()[k].name, " -> ", name));
    }
    if (CountContractions() != 2) return false;
    size_t sum = 0;
    for (size_t k = 0; k < stages().size(); ++k) {
      if (FindContraction(stages()[k])) sum = k;
    }
    sum_ = stages()[sum].name;
    if (IsResult(stages()[sum]) && !s_->Try(Cat("keep ", stages()[sum].outputs[0]->name, " -> ", name))) return false;
    std::vector<std::string> aligned = {sum_};
    for (size_t k = sum + 1; k < stages().size(); ++k) {
      const Stage s = stages()[k];
      if (s.IsReduction()) continue;
      for (const std::string& to : aligned) {
        if (s_->Try(Cat("align ", s.name, " ", to))) {
          aligned.push_back(s.name);
          break;
        }
      }
    }
    return true;
  }

  // Iterators that are one dimension, or digits of one: those that a stage reads another one's dimension with. Of all
  // stages these are the keys, which the second contraction sums over, the rows, the last that only the first one's
  // other operand has, the features, which only the second one has, and the rest.
  bool FindRoles() {
    const std::vector<Stage>& all = stages();
    size_t sum = 0, scores = 0;
    while (all[sum].name != sum_) ++sum;
    while (!FindContraction(all[scores])) ++scores;
    scores_ = all[scores].name;
    const auto con = FindContraction(all[scores]);
    absl::flat_hash_map<Expr, Expr> parent;
    const auto find = [&](Expr v) {
      for (auto it = parent.find(v); it != parent.end() && it->second != v; it = parent.find(v)) v = it->second;
      return v;
    };
    absl::flat_hash_map<Buffer, const Stage*> writer;
    for (const Stage& s : all) {
      if (s.outputs.size() != 1 || (!s.at.empty() && &s != &all.back())) return false;
      for (Expr v : s.values) {
        VisitLoads(v, [&](Expr e) {
          auto it = writer.find(e->buffer);
          for (size_t d = 0; it != writer.end() && d < it->second->iters.size(); ++d) {
            for (Expr x : VarsOf(e->args[d])) {
              if (!IsSymbol(x)) parent[find(x)] = find(it->second->iters[d].var);
            }
          }
        });
      }
      writer[s.outputs[0]] = &s;
    }
    const auto only = [&](const std::vector<StageIter>& iters) {
      const StageIter* r = nullptr;
      for (const StageIter& i : iters) {
        if (IsOne(i)) continue;
        if (r != nullptr) return static_cast<const StageIter*>(nullptr);
        r = &i;
      }
      return r;
    };
    const StageIter* key = only(all[sum].reduce_iters);
    if (key == nullptr) return false;
    keys_ = key->extent;
    const auto has_key = [&](const std::vector<StageIter>& side) {
      return std::any_of(side.begin(), side.end(), [&](const StageIter& i) { return find(i.var) == find(key->var); });
    };
    const bool swapped = has_key(con->m);
    if (only(swapped ? con->m : con->n) == nullptr || !has_key(swapped ? con->m : con->n)) return false;
    absl::flat_hash_map<Expr, Role> of;
    Expr row = nullptr;
    for (const StageIter& i : swapped ? con->n : con->m) {
      if (!IsOne(i)) row = find(i.var), rows_ = i.extent;
    }
    if (row == nullptr) return false;
    for (const StageIter& i : all[scores].iters) of[find(i.var)] = Role::kBatch;
    of[find(key->var)] = Role::kKey, of[row] = Role::kRow;
    for (const StageIter& i : all[scores].reduce_iters) {
      if (!IsInt(i.extent)) return false;
      of[find(i.var)] = Role::kDepth;
      depth_ *= TypicalSize(i.extent, group_.symbols);
    }
    for (const StageIter& i : all[sum].iters) {
      if (IsOne(i) || of.contains(find(i.var))) continue;
      if (features_ != nullptr) return false;
      of[find(i.var)] = Role::kFeature, features_ = i.extent;
    }
    if (features_ == nullptr || !IsInt(features_)) return false;
    // Every stage runs over what it should.
    for (const Stage& s : all) {
      size_t counts[5] = {};
      for (const auto* list : {&s.iters, &s.reduce_iters}) {
        const bool reduced = list == &s.reduce_iters;
        for (const StageIter& i : *list) {
          if (IsOne(i)) continue;
          auto it = of.find(find(i.var));
          if (it == of.end()) return false;
          if (reduced ? it->second != (s.name == scores_ ? Role::kDepth : Role::kKey) : it->second == Role::kDepth)
            return false;
          roles_[i.var] = it->second;
          ++counts[static_cast<size_t>(it->second)];
        }
      }
      const auto count = [&](Role r) { return counts[static_cast<size_t>(r)]; };
      const bool is_last = !s.IsReduction() && count(Role::kFeature) > 0;
      if (count(Role::kRow) == 0 || count(Role::kKey) > 1 || count(Role::kFeature) > 1) return false;
      if (s.IsReduction() && s.name != scores_ && count(Role::kKey) != 1) return false;
      if (is_last && count(Role::kKey) > 0) return false;
      if (s.name != sum_ && s.IsReduction() && count(Role::kFeature) > 0) return false;
      (is_last ? last_ : inner_).push_back(s.name);
    }
    return !last_.empty() && last_.back() == all.back().name;
  }

  bool IsSymbol(Expr v) const {
    return std::any_of(group_.symbols.begin(), group_.symbols.end(), [&](const SymbolFact& f) { return f.var == v; });
  }

  void ChooseTiles() {
    const PanelShape panel = ChoosePanel(-1, sum_type_, target_);
    lanes_ = panel.lanes, vectors_ = panel.vectors;
    if (IsInt(rows_) && rows_->int_value <= lanes_) vectors_ = 1;
    const int64_t most = std::min<int64_t>(kMostSums, (target_.vector_bytes >= 64 ? 28 : 12) / vectors_);
    const auto tile_of = [&](Expr n) {
      const int64_t d = IsInt(n) ? DivisorFrom(n->int_value, most, std::min<int64_t>(4, n->int_value)) : 0;
      return d == 0 ? std::min<int64_t>(8, most) : d;
    };
    features_tile_ = tile_of(features_);
    // Tiles of keys without a rest, where there are such; else, of few keys, all.
    if (IsInt(keys_)) {
      const int64_t n = keys_->int_value;
      keys_tile_ = DivisorFrom(n, kMostKeys, std::min(kLeastKeys, n));
      if (keys_tile_ == 0 && n <= kMostKeysAtOnce) keys_tile_ = n;
      if (keys_tile_ == 0) keys_tile_ = DivisorFrom(n, 2 * kMostKeys, kMostKeys);
    }
    has_rest_ = keys_tile_ == 0;
    if (has_rest_) keys_tile_ = kMostKeys;
    keys_sums_ = DivisorFrom(keys_tile_, most, std::min<int64_t>(5, keys_tile_));
    if (keys_sums_ == 0) keys_sums_ = std::min<int64_t>(8, most);
  }

  void PredictSeconds() {
    constexpr double kLoopSeconds = 1.5e-6;  // of starting and ending a parallel loop
    // Of an element of the rows' operand and of the result, of one that is computed for rows and keys, and of one that
    // is read with rows far apart, by one core; and how much longer tiles take that ask whether they are whole.
    constexpr double kGatherSeconds = 0.6e-9, kElementSeconds = 0.05e-9, kScatterSeconds = 0.5e-9, kRest = 1.5;
    const TeProgram& p = *s_->stages();
    const auto size = [&](Expr e) { return TypicalSize(e, p.symbols); };
    const double tile = static_cast<double>(lanes_ * vectors_), cores = Cores(target_);
    double batch = 1;
    for (const StageIter& i : StageOf(scores_).iters) {
      auto it = roles_.find(i.var);
      if (it != roles_.end() && it->second == Role::kBatch) batch *= size(i.extent);
    }
    const double tiles = batch * std::ceil(size(rows_) / tile);
    const double keys = std::ceil(size(keys_) / static_cast<double>(keys_tile_)) * static_cast<double>(keys_tile_);
    const double rows = tiles * tile;
    double compute = 2 * rows * keys * (depth_ + size(features_)) / (SpeedsOf(target_).own_product * 1e9);
    double cost = 0, scattered = 0;
    for (const Stage& s : p.stages) {
      if (s.IsReduction() && s.values[0]->op == ExprOp::kMax) scattered += static_cast<double>(CountScattered(s));
      const bool wide = std::any_of(s.iters.begin(), s.iters.end(), [&](const StageIter& i) {
        auto it = roles_.find(i.var);
        return it != roles_.end() && it->second == Role::kKey;
      });
      if (!FindContraction(s) && (wide || s.IsReduction())) cost += CostOf(s.values[0]);
    }
    // Each value stays in the first-level cache from step to step.
    constexpr double kNear = 3;
    compute += rows * keys * (kElementSeconds + cost / (SpeedsOf(target_).own_rows * 1e9 * kNear));
    compute += rows * keys * scattered * kScatterSeconds;
    if (has_rest_) compute *= kRest;
    compute += rows * (depth_ + size(features_)) * kGatherSeconds;
    const double balance = tiles > 0 ? std::ceil(tiles / cores) * cores / tiles : 1;
    seconds_ = kLoopSeconds +
               std::max(compute * balance / cores, CostOfMatmuls(*s_->stages()).bytes / BytesPerSecond(target_));
  }

  std::optional<Role> RoleOf(Expr var) const {
    auto it = roles_.find(var);
    return it == roles_.end() ? std::nullopt : std::optional(it->second);
  }

  const Stage& StageOf(const std::string& name) const {
    return *std::find_if(stages().begin(), stages().end(), [&](const Stage& s) { return s.name == name; });
  }

  // Inner stages run over one iterator of each role, rows last, so that they lie next to each other.
  void Fold() {
    const std::pair<Role, const char*> kOrder[] = {
        {Role::kBatch, "b"}, {Role::kKey, "j"}, {Role::kFeature, "d"}, {Role::kRow, "i"}};
    for (const std::string& name : inner_) {
      const Stage s = StageOf(name);
      std::string step = Cat("fold ", name, " ->");
      std::map<std::string, Role> of;
      for (const auto& [role, letter] : kOrder) {
        std::string list;
        for (const StageIter& i : s.iters) {
          if (!IsOne(i) && RoleOf(i.var) == role) list += Cat(list.empty() ? "" : ", ", i.var->name);
        }
        if (list.empty()) continue;
        const std::string folded = s_->Fresh(Cat(letter, "_", name));
        step += Cat(" ", folded, "[", list, "]");
        of[folded] = role;
      }
      if (!s_->Run(step).status().ok()) return;
      for (const StageIter& i : StageOf(name).iters) {
        if (of.contains(i.var->name)) roles_[i.var] = of.at(i.var->name);
      }
    }
  }

  // Whether `load` takes a vector's lanes, which are rows, from here and there.
  bool IsScattered(Expr load, const Stage& s) const {
    const bool is_given = std::any_of(group_.params.begin(), group_.params.end(), [&](const Param& p) {
      return p.buffer != nullptr && p.buffer->name == load->buffer->name;
    });
    for (size_t d = 0; d < load->buffer->shape.size(); ++d) {
      for (const StageIter& i : s.iters) {
        if (is_given && RoleOf(i.var) == Role::kRow && Uses(load->args[d], i.var) && d + 1 < load->buffer->shape.size())
          return true;
      }
    }
    return false;
  }

  size_t CountScattered(const Stage& s) const {
    size_t n = 0;
    for (Expr v : s.values) {
      VisitLoads(v, [&](Expr e) { n += IsScattered(e, s); });
    }
    return n;
  }

  // What the maximum is of, where it takes such loads, is computed once and kept for who else needs it.
  void KeepMasked() {
    if (!s_->status().ok()) return;
    for (const std::string& name : std::vector<std::string>(inner_)) {
      const Stage s = StageOf(name);
      if (!s.IsReduction() || s.values[0]->op != ExprOp::kMax || CountScattered(s) == 0) continue;
      const Expr running = RunningOf(*group_.context, s)[0];
      const Expr element = s.values[0]->args[s.values[0]->args[0] == running ? 1 : 0];
      const std::string kept = s_->Fresh("kept");
      for (const std::string& reader : std::vector<std::string>(inner_)) {
        const Stage r = StageOf(reader);
        VarMap map;
        std::map<Role, std::string> names;
        for (const auto* list : {&s.iters, &s.reduce_iters}) {
          for (const StageIter& i : *list) {
            for (const auto* own : {&r.iters, &r.reduce_iters}) {
              for (const StageIter& j : *own) {
                if (IsOne(i) || IsOne(j) || RoleOf(i.var) != RoleOf(j.var)) continue;
                map[i.var] = j.var, names[*RoleOf(j.var)] = j.var->name;
              }
            }
          }
        }
        const Expr value = Substitute(*group_.context, element, map);
        bool found = false;
        for (Expr v : r.values) {
          Visit(v, [&](Expr e) { return !(found |= e == value); });
        }
        if (!found) continue;
        std::string iters;
        std::vector<Role> roles;
        for (Role role : {Role::kBatch, Role::kKey, Role::kRow}) {
          if (!names.contains(role)) continue;
          iters += Cat(iters.empty() ? "" : ", ", names[role]);
          roles.push_back(role);
        }
        if (!PrintsWithin(value, kMostNodesOfStep)) return;
        const bool fresh = std::count(inner_.begin(), inner_.end(), kept) == 0;
        if (!s_->Run(Cat("define ", kept, "[", iters, "] = ", Print(value))).status().ok()) return;
        if (!fresh) continue;
        const Stage& made = StageOf(kept);
        for (size_t d = 0; d < made.iters.size(); ++d) roles_[made.iters[d].var] = roles[d];
        inner_.insert(std::find(inner_.begin(), inner_.end(), reader), kept);
      }
      return;
    }
  }

  // What of the first contraction's operands moves along the rows lies so, too; 16-bit operands become f32 a tile at a
  // time.
  void Pack() {
    for (const std::string& name : {scores_, sum_}) {
      if (!s_->status().ok()) return;
      const Stage s = StageOf(name);
      const auto con = FindContraction(s);
      if (!con) return;
      for (Expr load : {con->lhs, con->rhs}) {
        const bool of_rows = std::any_of(s.iters.begin(), s.iters.end(), [&](const StageIter& i) {
          return RoleOf(i.var) == Role::kRow && Uses(load, i.var);
        });
        const bool is_given = std::any_of(group_.params.begin(), group_.params.end(), [&](const Param& p) {
          return p.buffer != nullptr && p.buffer->name == load->buffer->name;
        });
        if (!is_given || (!of_rows && BytesOf(load->type.dtype) == BytesOf(sum_type_))) continue;
        std::string iters, row;
        std::vector<Role> roles;
        for (const auto* list : {&s.iters, &s.reduce_iters}) {
          for (const StageIter& i : *list) {
            if (IsOne(i) || !Uses(load, i.var)) continue;
            const auto role = RoleOf(i.var);
            if (role == Role::kRow || (!of_rows && role == Role::kFeature)) {
              row = i.var->name;
              continue;
            }
            iters += (iters.empty() ? "" : ", ") + i.var->name;
            roles.push_back(role.value_or(Role::kBatch));
          }
        }
        if (!row.empty())
          iters += (iters.empty() ? "" : ", ") + row, roles.push_back(of_rows ? Role::kRow : Role::kFeature);
        const std::string panel = s_->Fresh("panel");
        if (!s_->Run(Cat("define ", panel, "[", iters, "] = ", Print(WithCasts(s.values[0], load)))).status().ok())
          return;
        const Stage& made = StageOf(panel);
        for (size_t d = 0; d < made.iters.size(); ++d) roles_[made.iters[d].var] = roles[d];
        inner_.insert(std::find(inner_.begin(), inner_.end(), name), panel);
      }
    }
  }

  // `load`, converted as `value` does it.
  static Expr WithCasts(Expr value, Expr load) {
    Expr r = load;
    Visit(value, [&](Expr e) {
      if (e->op == ExprOp::kCast && e->args[0] == r) r = e;
      return true;
    });
    return r;
  }

  // Tasks are tiles of rows; all that a task needs is computed in it, in memory of its own.
  void Tile() {
    const Stage out = StageOf(last_.back());
    const std::vector<std::string> names = s_->LoopsAround("b_" + out.name);
    std::string fuse = "fuse", order = "reorder", inner, rows;
    size_t next = 0;
    for (const StageIter& i : out.iters) {
      if (IsOne(i) || next == names.size()) continue;
      const std::string& loop = names[next++];
      const auto role = RoleOf(i.var);
      if (role == Role::kBatch) {
        order += " " + loop, fuse += " " + loop;
      } else if (role == Role::kRow) {
        rows += " " + loop;
      } else {
        inner = loop;
      }
    }
    s_->Run(order + rows + " " + inner).Run("fuse" + rows + " -> ir");
    s_->Step("split ir ", lanes_ * vectors_, " -> io ii").Run(fuse + " io -> p").Run("parallel p");
    for (size_t k = 0; k + 1 < last_.size(); ++k) s_->Step("inline b_", last_[k]);
    for (size_t k = inner_.size(); k-- > 0;) {
      s_->Step("scope ", StageOf(inner_[k]).outputs[0]->name, " local align 64");
      s_->Step("compute_at b_", inner_[k], " p");
    }
    for (const std::string& name : inner_) {
      if (name == sum_) {
        const std::vector<std::pair<Role, std::string>> loops = LoopsOf(StageOf(name));
        feature_tiles_ = s_->Fresh("do");
        s_->Step("split ", loops[0].second, " ", features_tile_, " -> ", feature_tiles_, " ", s_->Fresh("di"));
      }
      s_->Step("pad b_", name);
    }
    s_->Step("split ", inner, " ", lanes_, " -> ov ol").Run("vectorize ol");
  }

  // The loops in a task around a stage's block, by what they run over: those of its iterators, in order.
  std::vector<std::pair<Role, std::string>> LoopsOf(const Stage& s) {
    std::vector<std::pair<Role, std::string>> r;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& i : *list) {
        const auto role = RoleOf(i.var);
        if (!IsOne(i) && role && role != Role::kBatch) r.push_back({*role, ""});
      }
    }
    const std::vector<std::string> names = s_->LoopsAround("b_" + s.name);
    for (size_t k = 0; k < r.size() && k < names.size(); ++k) r[r.size() - 1 - k].second = names[names.size() - 1 - k];
    return r;
  }

  // Keys, a tile at a time, are the outermost loop of each stage; these become one.
  void Chain() {
    std::string loops;
    bool needs = false;
    // In the order in which they stand.
    std::vector<const Stage*> order_of_blocks;
    for (const StmtPath& path : FindBlocks(s_->func())) {
      for (const std::string& name : inner_) {
        if (As<Block>(path.back())->name == "b_" + name) order_of_blocks.push_back(&StageOf(name));
      }
    }
    for (const Stage* stage : order_of_blocks) {
      const Stage& s = *stage;
      const std::string block = "b_" + s.name;
      std::string order = s.name == sum_ ? " " + feature_tiles_ : "", outer;
      for (const auto& [role, loop] : LoopsOf(s)) {
        if (role == Role::kKey) {
          outer = s_->Fresh("jo");
          const std::string inner = s_->Fresh("ji");
          s_->Step("split ", loop, " ", keys_tile_, " -> ", outer, " ", inner);
          order += " " + inner;
        } else {
          order += " " + loop;
        }
      }
      if (outer.empty()) continue;
      s_->Run("reorder " + outer + order);
      loops += " " + outer;
      if (s.IsReduction() && s.name != scores_) {
        inits_.push_back(s_->Fresh(block + "_init"));
        s_->Step("split_init ", block, " ", outer, " -> ", inits_.back());
        needs = needs || s.values[0]->op == ExprOp::kMax;
        sums_.push_back(s.outputs[0]->name);
      } else {
        s_->Step("pad ", block);
      }
    }
    const bool once = IsInt(keys_) && keys_->int_value <= keys_tile_;
    if (!needs || once) {
      s_->Run("merge" + loops);
      return;
    }
    chain_ = s_->Fresh("by");
    s_->Run("chain" + loops + " -> " + chain_);
  }

  // Rows are the innermost loop around every block, and vectors.
  Status Vectorize() {
    for (const std::string& name : inner_) {
      RETURN_IF_ERROR(s_->status());
      const Stage& s = StageOf(name);
      const std::string block = "b_" + name;
      std::string row;
      const std::vector<std::string> all = s_->LoopsAround(block);
      const size_t least = s.name == sum_ || s.name == scores_ ? 4 : 2;
      RET_CHECK(all.size() >= least, block);
      if (s.name == scores_) {
        const std::vector<std::pair<Role, std::string>> loops = LoopsOf(s);
        std::string depth;
        for (const auto& [role, loop] : loops) {
          if (role == Role::kRow) row = loop;
          if (role == Role::kDepth) depth += " " + loop;
        }
        const std::string tile = s_->Fresh("jt"), sums = s_->Fresh("js");
        s_->Step("split ", loops[0].second, " ", keys_sums_, " -> ", tile, " ", sums);
        if (keys_tile_ % keys_sums_ != 0) s_->Step("pad ", block);
        const auto [vector, lane] = SplitRows(row);
        s_->Run("reorder " + tile + depth + " " + sums + " " + vector + " " + lane);
        s_->Step("unroll ", sums).Step("unroll ", vector);
        s_->Step("split_init ", block, depth.substr(0, depth.find(' ', 1)), " -> ", s_->Fresh(block + "_init"));
      } else if (s.name == sum_) {
        // tiles of features, keys, features, rows
        const std::string tile = all[all.size() - 4], sums = all[all.size() - 3];
        const auto [vector, lane] = SplitRows(all[all.size() - 2]);
        s_->Run("reorder " + tile + " " + all.back() + " " + sums + " " + vector + " " + lane);
        s_->Step("unroll ", sums).Step("unroll ", vector);
      } else if (s.IsReduction()) {
        const auto [vector, lane] = SplitRows(all[all.size() - 2]);
        s_->Run("reorder " + all.back() + " " + vector + " " + lane);
        s_->Step("unroll ", vector);
      } else {
        SplitRows(all.back());
      }
    }
    std::vector<std::string> made = inits_;
    if (!chain_.empty()) {
      made.push_back(Cat("b_", chain_));
      made.push_back(Cat("b_", chain_, "_old"));
      s_->Step("scope ", chain_, " local align 64").Step("scope ", chain_, "_old local align 64");
      for (const std::string& sum : sums_) {
        if (!s_->LoopsAround(Cat("b_", chain_, "_", sum)).empty()) made.push_back(Cat("b_", chain_, "_", sum));
      }
    }
    for (const std::string& block : made) {
      const std::vector<std::string> all = s_->LoopsAround(block);
      RET_CHECK(!all.empty(), block);
      SplitRows(all.back());
    }
    return s_->status();
  }

  std::pair<std::string, std::string> SplitRows(const std::string& loop) {
    const std::string vector = s_->Fresh("iv"), lane = s_->Fresh("il");
    s_->Step("split ", loop, " ", lanes_, " -> ", vector, " ", lane).Step("vectorize ", lane);
    return {vector, lane};
  }

  const TeProgram& group_;
  const Target& target_;
  std::optional<Schedule> s_;
  std::vector<Stage> stages_;              // once steps on them are done
  std::string scores_, sum_;               // the contractions
  std::vector<std::string> inner_, last_;  // stages: in a task's own memory, and what follows the second contraction
  DType sum_type_ = DType::kF32;
  absl::flat_hash_map<Expr, Role> roles_;  // of iterators that have more than one value
  std::vector<std::string> inits_, sums_;  // blocks that start reductions over keys, and these reductions' results
  std::string feature_tiles_;              // the loop over them
  std::string chain_;                      // the name that the step `chain` gives what it makes
  Expr rows_ = nullptr, keys_ = nullptr, features_ = nullptr;
  double depth_ = 1;
  int64_t lanes_ = 1, vectors_ = 1, features_tile_ = 1, keys_tile_ = 0, keys_sums_ = 1;
  bool has_rest_ = false;  // beyond whole tiles of keys
  double seconds_ = 0;
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeChainCpu(const TeProgram& group, const Target& target, Until until) {
  ChainTactic tactic(group, target);
  ASSIGN_OR_RETURN(const bool applies, tactic.Plan());
  if (!applies) return std::vector<Proposal>();
  // Whether the group is such a chain the steps know best; its parts have tactics of their own.
  StatusOr<Proposal> p = tactic.Propose();
  if (!p.ok()) return std::vector<Proposal>();
  return std::vector<Proposal>{until == Until::kPrice ? Proposal{"chain_cpu", {}, "", p->seconds} : *std::move(p)};
}

}  // namespace cinn_like::hlir
