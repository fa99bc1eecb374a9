// Chains of reductions between two contractions (hlir/tactics/chain_roles.h) on a GPU with matrix units: a block takes
// a tile of rows, each of its warps 32 of them, and goes along the keys a tile at a time. Scores, what is computed from
// them and the sums so far stay in registers, in the order that the matrix units give (ir/mma.h); the second product
// takes its left operand from there. Keys' operands are fetched a tile ahead.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/chain_roles.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactics.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/tree.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

using Role = ChainRole;

constexpr int64_t kWarpRows = 8, kWarpColumns = 4;  // of threads
constexpr int64_t kRows = 32;                       // of a warp
constexpr int64_t kDepth = 16;                      // of one product of tiles
constexpr int64_t kMostWarps = 4;
constexpr int64_t kAccessBytes = 16;
constexpr int64_t kRowFactor = 16, kRowOffset = 8;  // elements: rows of a tile begin in different banks
constexpr int64_t kMostSums = 192;                  // registers of a thread for scores and sums
constexpr int64_t kTileKeys = 32;                   // that take as long as what is done once for a tile
constexpr int64_t kStages = 2;                      // of the pipeline
constexpr double kAlone = 0.6;                      // of the rate of blocks that take turns: one alone on an SM
constexpr double kScoreSeconds = 60e-12;            // of what an SM computes of one beside the products

bool IsOne(const StageIter& i) { return IsInt(i.extent, 1); }
int64_t RoundUpTo(int64_t n, int64_t factor) { return (n + factor - 1) / factor * factor; }

// An operand of a contraction in memory of the block.
struct Panel {
  std::string name;
  int64_t vector = 1;  // elements of one read
};

class ChainGpu {
 public:
  ChainGpu(const TeProgram& group, const Target& target) : group_(group), target_(target) {}

  StatusOr<std::vector<Proposal>> Run(Until until) {
    if (group_.exact || !target_.IsGpu() || SpeedsOf(target_).own_mma == 0 || !MayBeChain(group_))
      return std::vector<Proposal>();
    ASSIGN_OR_RETURN(Schedule s, Schedule::Of(group_));
    s_.emplace(std::move(s));
    std::optional<Chain> chain = FindChain(group_, *s_);
    if (!chain) return std::vector<Proposal>();
    chain_ = *std::move(chain);
    if (!ChooseTiles() || !KeepMasked() || !Fold() || !RoundUp() || !StagePanels()) return std::vector<Proposal>();
    const double seconds = PredictSeconds();
    // Whether the group is such a chain the steps know best; its parts have tactics of their own.
    if (!Write().ok()) return std::vector<Proposal>();
    if (until == Until::kPrice) return std::vector<Proposal>{{"chain_gpu", {}, "", seconds}};
    return std::vector<Proposal>{{"chain_gpu", s_->func(), s_->text(), seconds}};
  }

 private:
  const Stage& StageOf(const std::string& name) const {
    const std::vector<Stage>& all = s_->stages() != nullptr ? s_->stages()->stages : stages_;
    return *std::find_if(all.begin(), all.end(), [&](const Stage& s) { return s.name == name; });
  }
  std::optional<Role> RoleOf(Expr var) const {
    auto it = chain_.roles.find(var);
    return it == chain_.roles.end() ? std::nullopt : std::optional(it->second);
  }

  bool ChooseTiles() {
    if (!IsInt(chain_.features)) return false;
    features_ = RoundUpTo(chain_.features->int_value, kDepth);
    depth_ = RoundUpTo(static_cast<int64_t>(chain_.depth), kDepth);
    double least = 1e30;
    for (const int64_t tile : {32, 64, 128}) {
      if (features_ + tile > kMostSums) continue;
      const double tiles = std::ceil(TypicalSize(chain_.keys, group_.symbols) / static_cast<double>(tile));
      const double cost = tiles * static_cast<double>(tile + kTileKeys);
      if (cost > least) continue;
      least = cost;
      keys_tile_ = tile;
    }
    if (keys_tile_ == 0) return false;
    const double rows = TypicalSize(chain_.rows, group_.symbols);
    warps_ = kMostWarps;
    while (warps_ > 1 && rows <= static_cast<double>((warps_ - 1) * kRows)) --warps_;
    const int64_t row_bytes = 2 * (depth_ + kRowOffset), value_bytes = 2 * (features_ + kRowOffset);
    return warps_ * kRows * row_bytes + kStages * keys_tile_ * (row_bytes + value_bytes) <= target_.shared_bytes;
  }

  // What the largest value is of, where it is more than the scores, is computed once and kept for who else needs it.
  bool KeepMasked() {
    for (const std::string& name : std::vector<std::string>(chain_.inner)) {
      const Stage s = StageOf(name);
      if (!s.IsReduction() || s.values[0]->op != ExprOp::kMax) continue;
      const Expr running = RunningOf(*group_.context, s)[0];
      const Expr element = s.values[0]->args[s.values[0]->args[0] == running ? 1 : 0];
      if (element->op == ExprOp::kLoad && element->buffer == StageOf(chain_.scores).outputs[0]) continue;
      if (!KeepValue(s, element, s_->Fresh("kept"))) return false;
    }
    return true;
  }

  // The value of stage `s`, and of all that compute the same, by a stage of its own.
  bool KeepValue(const Stage& s, Expr element, const std::string& kept) {
    for (const std::string& reader : std::vector<std::string>(chain_.inner)) {
      const Stage r = StageOf(reader);
      VarMap map;
      std::vector<std::pair<std::string, Role>> names;
      for (const Role role : {Role::kBatch, Role::kRow, Role::kKey}) {
        for (const auto* list : {&s.iters, &s.reduce_iters}) {
          for (const StageIter& i : *list) {
            // Batch iterators correspond in order.
            if (IsOne(i) || RoleOf(i.var) != role) continue;
            const StageIter* twin = TwinOf(s, i, r);
            if (twin == nullptr) continue;
            map[i.var] = twin->var;
            names.emplace_back(twin->var->name, role);
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
      for (const auto& [var, role] : names) iters += Cat(iters.empty() ? "" : ", ", var);
      if (!PrintsWithin(value, kMostNodesOfStep)) return false;
      const bool fresh = std::count(chain_.inner.begin(), chain_.inner.end(), kept) == 0;
      if (!s_->Run(Cat("define ", kept, "[", iters, "] = ", Print(value))).status().ok()) return false;
      if (!fresh) continue;
      const Stage& made = StageOf(kept);
      for (size_t d = 0; d < made.iters.size(); ++d) chain_.roles[made.iters[d].var] = names[d].second;
      chain_.inner.insert(std::find(chain_.inner.begin(), chain_.inner.end(), reader), kept);
    }
    return true;
  }

  // The iterator of `r` in the place of `i` among those of its role in `s`.
  const StageIter* TwinOf(const Stage& s, const StageIter& i, const Stage& r) const {
    size_t place = 0;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& x : *list) {
        if (x.var == i.var) {
          for (const auto* own : {&r.iters, &r.reduce_iters}) {
            for (const StageIter& y : *own) {
              if (!IsOne(y) && RoleOf(y.var) == RoleOf(i.var) && place-- == 0) return &y;
            }
          }
          return nullptr;
        }
        place += !IsOne(x) && RoleOf(x.var) == RoleOf(i.var);
      }
    }
    return nullptr;
  }

  // Inner stages run over one iterator of each role.
  bool Fold() {
    const std::pair<Role, const char*> kOrder[] = {
        {Role::kBatch, "b"}, {Role::kRow, "i"}, {Role::kKey, "j"}, {Role::kDepth, "k"}, {Role::kFeature, "d"}};
    for (const std::string& name : chain_.inner) {
      const Stage s = StageOf(name);
      std::string step = Cat("fold ", name, " ->");
      std::vector<std::pair<std::string, Role>> made;
      for (const auto* list : {&s.iters, &s.reduce_iters}) {
        for (const auto& [role, letter] : kOrder) {
          std::string digits;
          for (const StageIter& i : *list) {
            if (!IsOne(i) && RoleOf(i.var) == role) digits += Cat(digits.empty() ? "" : ", ", i.var->name);
          }
          if (digits.empty()) continue;
          made.emplace_back(s_->Fresh(Cat(letter, "_", name)), role);
          step += Cat(" ", made.back().first, "[", digits, "]");
        }
      }
      if (!s_->Run(step).status().ok()) return false;
      const Stage& folded = StageOf(name);
      for (const auto* list : {&folded.iters, &folded.reduce_iters}) {
        for (const StageIter& i : *list) {
          for (const auto& [var, role] : made) {
            if (i.var->name == var) chain_.roles[i.var] = role;
          }
        }
      }
    }
    return true;
  }

  const StageIter* IterOf(const Stage& s, Role role) const {
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& i : *list) {
        if (!IsOne(i) && RoleOf(i.var) == role) return &i;
      }
    }
    return nullptr;
  }

  // What matrix units go along has no rest: zeros beyond.
  bool RoundUp() {
    Analyzer a(*group_.context);
    for (const SymbolFact& f : group_.symbols) a.BindSymbol(f);
    const std::tuple<std::string, Role, int64_t> kSteps[] = {{chain_.scores, Role::kDepth, kDepth},
                                                             {chain_.sum, Role::kKey, keys_tile_}};
    for (const auto& [name, role, factor] : kSteps) {
      const Stage s = StageOf(name);
      const StageIter* i = IterOf(s, role);
      if (i == nullptr) return false;
      if (a.KnownDivisor(i->extent) % factor == 0) continue;
      if (!s_->Run(Cat("round_up ", name, " ", i->var->name, " ", factor)).status().ok()) return false;
    }
    return true;
  }

  // Operands of the contractions as stages of their own, 16-bit floats of one type: those are what a panel holds.
  bool StagePanels() {
    for (const std::string& name : {chain_.scores, chain_.sum}) {
      const Stage s = StageOf(name);
      if (!FindContraction(s) || s.outputs[0]->dtype != DType::kF32) return false;
      const Expr sum = s.values[0];
      const Expr product = sum->args[sum->args[0]->op == ExprOp::kLoad && sum->args[0]->buffer == s.outputs[0] ? 1 : 0];
      if (product->op != ExprOp::kMul) return false;
      std::vector<DType> types;
      for (Expr operand : product->args) {
        if (operand->op != ExprOp::kCast || !IsHalf(operand->args[0]->type.dtype)) return false;
        types.push_back(operand->args[0]->type.dtype);
      }
      if (types[0] != types[1]) return false;
      for (Expr operand : product->args) {
        const StageIter* row = IterOf(s, Role::kRow);
        const bool of_rows = row != nullptr && Uses(operand, row->var);
        if (!StagePanel(s, operand->args[0],
                        name == chain_.scores ? (of_rows ? lhs_ : rhs_) : (of_rows ? weights_ : values_)))
          return false;
      }
    }
    for (const std::string& name : chain_.inner) {
      const Stage& s = StageOf(name);
      if (!s.IsReduction() && IterOf(s, Role::kKey) != nullptr) s_->Try(Cat("exp2 ", name));
    }
    stages_ = s_->stages()->stages;
    return !lhs_.name.empty() && !rhs_.name.empty() && !weights_.name.empty() && !values_.name.empty();
  }

  bool StagePanel(const Stage& s, Expr value, Panel& panel) {
    std::vector<const StageIter*> iters;
    for (const Role role : {Role::kBatch, Role::kRow, Role::kKey, Role::kDepth, Role::kFeature}) {
      const StageIter* i = IterOf(s, role);
      if (i != nullptr && Uses(value, i->var)) iters.push_back(i);
    }
    const size_t batch = !iters.empty() && RoleOf(iters[0]->var) == Role::kBatch;
    if (iters.size() != batch + 2 || !PrintsWithin(value, kMostNodesOfStep)) return false;
    // In the order in which memory is read.
    panel.vector = VectorAlong(s, value, *iters[batch + 1]);
    if (const int64_t other = VectorAlong(s, value, *iters[batch]); other > panel.vector) {
      std::swap(iters[batch], iters[batch + 1]);
      panel.vector = other;
    }
    panel.name = s_->Fresh(&panel == &lhs_      ? "lhs"
                           : &panel == &rhs_    ? "rhs"
                           : &panel == &values_ ? "values"
                                                : "weights");
    std::string list;
    for (const StageIter* i : iters) list += Cat(list.empty() ? "" : ", ", i->var->name);
    std::vector<Role> roles;
    for (const StageIter* i : iters) roles.push_back(*RoleOf(i->var));
    if (!s_->Run(Cat("define ", panel.name, "[", list, "] = ", Print(value))).status().ok()) return false;
    const Stage& made = StageOf(panel.name);
    for (size_t d = 0; d < made.iters.size(); ++d) chain_.roles[made.iters[d].var] = roles[d];
    chain_.inner.insert(std::find(chain_.inner.begin(), chain_.inner.end(), s.name), panel.name);
    return true;
  }

  // Neighbours along the iterator that are read at once; 0: they are no neighbours in memory.
  int64_t VectorAlong(const Stage& s, Expr value, const StageIter& i) const {
    Context& c = *group_.context;
    Analyzer a(c);
    for (const SymbolFact& f : group_.symbols) a.BindSymbol(f);
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& x : *list) a.BindRange(x.var, c.Int(0), x.extent);
    }
    int64_t vector = kAccessBytes / 2;
    bool contiguous = false;
    VisitLoads(value, [&](Expr load) {
      const Expr offset = ElementOffset(c, load->buffer, IndicesOf(load));
      if (!Uses(offset, i.var)) return;
      contiguous = IsInt(a.Simplify(c.Sub(Substitute(c, offset, {{i.var, c.Add(i.var, c.Int(1))}}), offset)), 1);
      // A mask that ends within a vector.
      Expr end = i.extent;
      if (const Expr mask = MaskOf(load); mask != nullptr && Uses(mask, i.var))
        end = mask->op == ExprOp::kLt && mask->args[0] == i.var ? mask->args[1] : c.Int(1);
      const int64_t divisor = IsInt(end) ? end->int_value : a.KnownDivisor(end);
      while (vector > 1 && (!contiguous || divisor % vector != 0)) vector /= 2;
    });
    return contiguous ? vector : 0;
  }

  double PredictSeconds() {
    const auto size = [&](Expr e) { return TypicalSize(e, group_.symbols); };
    double batch = 1;
    for (const StageIter& i : StageOf(chain_.scores).iters) {
      if (!IsOne(i) && RoleOf(i.var) == Role::kBatch) batch *= size(i.extent);
    }
    const auto tile = static_cast<double>(warps_ * kRows),
               cores = std::max<double>(1, static_cast<double>(target_.cores));
    const double in_turn = std::ceil(batch * std::ceil(size(chain_.rows) / tile) / cores);  // of an SM
    const double scores = in_turn * tile * size(chain_.keys);
    const double products = 2 * scores * static_cast<double>(depth_ + features_) / (SpeedsOf(target_).own_mma * 1e9);
    const double busy = in_turn < 2 ? kAlone : 1;
    return kKernelSeconds +
           std::max((products + scores * kScoreSeconds) / busy, CostOfMatmuls(group_).bytes / BytesPerSecond(target_));
  }

  // The loops in a block around a stage's block, by what they run over: those of its iterators, in order.
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

  Status Write() {
    Tile();
    RETURN_IF_ERROR(s_->status());
    ChainKeys();
    RETURN_IF_ERROR(s_->status());
    return BindAll();
  }

  // Blocks take tiles of rows; all that a block needs is computed in it, in memory of its own.
  void Tile() {
    const Stage out = StageOf(chain_.last.back());
    const std::vector<std::string> names = s_->LoopsAround("b_" + out.name);
    std::string fuse = "fuse", order = "reorder", rows;
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
        columns_ = loop;
      }
    }
    s_->Run(order + rows + " " + columns_).Run("fuse" + rows + " -> ir");
    s_->Step("split ir ", warps_ * kRows, " -> io ii").Run(fuse + " io -> p");
    for (size_t k = 0; k + 1 < chain_.last.size(); ++k) s_->Step("inline b_", chain_.last[k]);
    // Each goes in front of its first reader; the second contraction comes behind the other sums, so that its operand's
    // registers are free by then.
    std::vector<std::string> order_of_moves;
    for (const bool read : {false, true}) {
      for (size_t k = chain_.inner.size(); k-- > 0;) {
        const std::string& name = chain_.inner[k];
        if ((name == chain_.sum || IsRead(name)) == read) order_of_moves.push_back(name);
      }
    }
    for (const std::string& name : order_of_moves) {
      const bool panel = IsPanel(name);
      s_->Step("scope ", StageOf(name).outputs[0]->name, panel ? " shared align " : " local align ", kAccessBytes);
      if (panel && name != weights_.name)
        s_->Step("storage_align ", StageOf(name).outputs[0]->name, " ", kRowFactor, " ", kRowOffset);
      s_->Step("compute_at b_", name, " p");
    }
    for (const std::string& name : chain_.inner) {
      for (const auto& [role, loop] : LoopsOf(StageOf(name))) {
        if (role != Role::kFeature || IsInt(chain_.features, features_)) continue;
        // A whole number of the matrix units' tiles.
        const std::string once = s_->Fresh("once"), all = s_->Fresh("d");
        s_->Step("split ", loop, " ", features_, " -> ", once, " ", all);
        s_->Step("fuse ", once, " ", all, " -> ", s_->Fresh("dd"));
      }
      s_->Step("pad b_", name);
    }
  }
  // By an inner stage.
  bool IsRead(const std::string& name) const {
    const Buffer result = StageOf(name).outputs[0];
    return std::any_of(chain_.inner.begin(), chain_.inner.end(),
                       [&](const std::string& s) { return s != name && Contains(InputsOf(StageOf(s)), result); });
  }
  bool IsPanel(const std::string& name) const {
    return name == lhs_.name || name == rhs_.name || name == values_.name || name == weights_.name;
  }

  // Keys, a tile at a time, are the outermost loop of each stage; these become one.
  void ChainKeys() {
    std::string loops;
    // In the order in which they stand.
    std::vector<const Stage*> order_of_blocks;
    for (const StmtPath& path : FindBlocks(s_->func())) {
      for (const std::string& name : chain_.inner) {
        if (As<Block>(path.back())->name == "b_" + name) order_of_blocks.push_back(&StageOf(name));
      }
    }
    for (const Stage* stage : order_of_blocks) {
      const Stage& s = *stage;
      const std::string block = "b_" + s.name;
      std::string order, outer;
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
      if (first_.empty()) first_ = outer;
      if (s.IsReduction() && s.name != chain_.scores) {
        inits_.push_back(s_->Fresh(block + "_init"));
        s_->Step("split_init ", block, " ", outer, " -> ", inits_.back());
        sums_.push_back(s.outputs[0]->name);
      } else {
        s_->Step("pad ", block);
      }
    }
    if (IsOneTile()) {
      s_->Run("merge" + loops);
    } else {
      name_ = s_->Fresh("by");
      s_->Run("chain" + loops + " -> " + name_);
    }
    s_->Run("bind p blockIdx.x");
  }

  // Rows, the innermost loops but the columns' where there are such: warps, tiles of 16, halves of these, threads.
  struct RowLoops {
    std::string v, i, h, y;
  };
  RowLoops SplitRows(const std::string& loop) {
    const RowLoops r{s_->Fresh("v"), s_->Fresh("i"), s_->Fresh("h"), s_->Fresh("y")};
    s_->Step("split ", loop, " ", kRows / 16, " 2 ", kWarpRows, " -> ", r.v, " ", r.i, " ", r.h, " ", r.y);
    return r;
  }
  struct ColumnLoops {
    std::string j, x, l;
  };
  ColumnLoops SplitColumns(const std::string& loop) {
    const ColumnLoops r{s_->Fresh("j"), s_->Fresh("x"), s_->Fresh("l")};
    s_->Step("split ", loop, " ", kWarpColumns, " 2 -> ", r.j, " ", r.x, " ", r.l);
    return r;
  }
  void BindRows(const RowLoops& r) { s_->Step("bind ", r.v, " threadIdx.z").Step("bind ", r.y, " threadIdx.y"); }

  // One value for each row and column.
  void BindWide(const std::string& rows, const std::string& columns, bool vectorize) {
    const RowLoops r = SplitRows(rows);
    const ColumnLoops c = SplitColumns(columns);
    s_->Step("reorder ", r.v, " ", r.y, " ", c.x, " ", r.i, " ", r.h, " ", c.j, " ", c.l);
    BindRows(r);
    s_->Step("bind ", c.x, " threadIdx.x").Step("unroll ", r.i).Step("unroll ", r.h).Step("unroll ", c.j);
    s_->Step(vectorize ? "vectorize " : "unroll ", c.l);
  }
  // One value for each row; of a reduction over columns all of a row's threads have it.
  void BindRow(const std::string& rows, const std::string& columns = "") {
    const RowLoops r = SplitRows(rows);
    if (columns.empty()) {
      s_->Step("reorder ", r.v, " ", r.y, " ", r.i, " ", r.h);
    } else {
      const ColumnLoops c = SplitColumns(columns);
      s_->Step("reorder ", r.v, " ", r.y, " ", r.i, " ", r.h, " ", c.x, " ", c.j, " ", c.l);
      s_->Step("bind ", c.x, " threadIdx.x").Step("unroll ", c.j).Step("unroll ", c.l);
    }
    BindRows(r);
    s_->Step("unroll ", r.i).Step("unroll ", r.h);
  }

  Status BindAll() {
    for (const std::string& name : chain_.inner) {
      RETURN_IF_ERROR(s_->status());
      const Stage& s = StageOf(name);
      const std::string block = "b_" + name;
      const std::vector<std::string> all = s_->LoopsAround(block);
      if (IsPanel(name) && name != weights_.name) {
        for (const Panel* panel : {&lhs_, &rhs_, &values_}) {
          if (name == panel->name) Fill(*panel, all[all.size() - 2], all.back());
        }
      } else if (name == chain_.scores || name == chain_.sum) {
        Multiply(block, all[all.size() - 3], all[all.size() - 2], all.back());
      } else if (s.IsReduction()) {
        BindRow(all[all.size() - 2], all.back());
      } else {
        size_t wide = 0;
        for (const StageIter& i : s.iters) wide += !IsOne(i) && RoleOf(i.var) == Role::kKey;
        if (wide > 0) {
          BindWide(all[all.size() - 2], all.back(), true);
        } else {
          BindRow(all.back());
        }
      }
    }
    std::vector<std::string> made = inits_;
    if (!IsOneTile()) {
      for (const char* suffix : {"", "_old"}) {
        made.push_back(Cat("b_", name_, suffix));
        s_->Step("scope ", name_, suffix, " local align ", kAccessBytes);
      }
      for (const std::string& sum : sums_) {
        if (!s_->LoopsAround(Cat("b_", name_, "_", sum)).empty()) made.push_back(Cat("b_", name_, "_", sum));
      }
    }
    const std::string sum = StageOf(chain_.sum).outputs[0]->name;
    for (const std::string& block : made) {
      RETURN_IF_ERROR(s_->status());
      const std::vector<std::string> all = s_->LoopsAround(block);
      RET_CHECK(!all.empty(), block);
      const bool wide = block == Cat("b_", name_, "_", sum) || block == Cat("b_", chain_.sum, "_init");
      if (wide) {
        BindWide(all[all.size() - 2], all.back(), false);
      } else {
        BindRow(all.back());
      }
    }
    BindWide("ii", columns_, true);
    if (!IsOneTile()) s_->Step("pipeline ", first_, " ", kStages);
    return s_->status();
  }
  bool IsOneTile() const { return IsInt(chain_.keys) && chain_.keys->int_value <= keys_tile_; }

  void Multiply(const std::string& block, const std::string& rows, const std::string& columns,
                const std::string& steps) {
    const RowLoops r = SplitRows(rows);
    const ColumnLoops c = SplitColumns(columns);
    const std::string kk = s_->Fresh("kk"), ke = s_->Fresh("ke");
    s_->Step("split ", steps, " ", kDepth, " -> ", kk, " ", ke);
    s_->Step("reorder ", r.v, " ", r.y, " ", c.x, " ", kk, " ", r.i, " ", c.j, " ", r.h, " ", c.l, " ", ke);
    BindRows(r);
    s_->Step("bind ", c.x, " threadIdx.x");
    if (block == "b_" + chain_.scores)
      s_->Step("split_init ", block, " ", kk, " -> ", inits_.emplace_back(s_->Fresh(block + "_init")));
    s_->Step("tensorize ", r.i, " mma_m16n8k16").Step("unroll ", kk);
    if (block == "b_" + chain_.scores) {
      // Its start stands in the same threads.
      const std::vector<std::string> all = s_->LoopsAround(inits_.back());
      for (size_t k = all.size() - 4; k < all.size(); ++k) s_->Step("unroll ", all[k]);
      inits_.pop_back();
    }
  }

  // All threads of the block fetch a panel, each several accesses.
  void Fill(const Panel& panel, const std::string& rows, const std::string& columns) {
    const std::string& n = panel.name;
    std::string last = columns;
    if (panel.vector > 1) {
      s_->Step("split ", columns, " ", panel.vector, " -> ", n, "_o ", n, "_e");
      last = n + "_o";
    }
    s_->Step("fuse ", rows, " ", last, " -> ", n, "_f");
    s_->Step("split ", n, "_f ", warps_, " ", kWarpRows, " ", kWarpColumns, " -> ", n, "_s ", n, "_z ", n, "_y ", n,
             "_x");
    s_->Step("reorder ", n, "_z ", n, "_y ", n, "_x ", n, "_s").Step("unroll ", n, "_s");
    for (const char* axis : {"z", "y", "x"}) s_->Step("bind ", n, "_", axis, " threadIdx.", axis);
    if (panel.vector > 1) s_->Step("vectorize ", n, "_e");
  }

  const TeProgram& group_;
  const Target& target_;
  std::optional<Schedule> s_;
  Chain chain_;
  std::vector<Stage> stages_;  // when steps on loops begin
  Panel lhs_, rhs_, weights_, values_;
  std::string columns_, first_, name_;
  std::vector<std::string> inits_, sums_;
  int64_t warps_ = 1, keys_tile_ = 0, depth_ = 0, features_ = 0;
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeChainGpu(const TeProgram& group, const Target& target, Until until) {
  return ChainGpu(group, target).Run(until);
}

}  // namespace cinn_like::hlir
