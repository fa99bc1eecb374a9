// Contractions on a GPU: a block computes a tile of results, each thread a few rows and columns of it in registers.
// Both operands pass through shared memory, a few steps of the reduction at a time, read through their own access maps:
// transposed, batched, grouped and windowed (convolutions) alike, and computed on the way (weights of integers,
// scaled). The epilogue runs over the finished registers. Of 16-bit operands, warps take the products by their matrix
// units (ir/mma.h), and panels are fetched some steps ahead. Where there are few results, the reduction is cut into
// slices. Several contractions of equal extents (a gate and what it opens; queries, keys and values) are computed in
// one pass, tile beside tile: operands that they share are fetched once, and an epilogue sees all of their results.
//   out[b, i, j] = f(sum over k of lhs[b, i, k] * rhs[b, j, k], ...):   j is the side along which results are
//   contiguous
#include <algorithm>
#include <utility>

#include "hlir/tactics/gpu_tiles.h"
#include "hlir/tactics/matmul_gpu_plan.h"
#include "hlir/tactics/tactics.h"

namespace cinn_like::hlir {

namespace {

constexpr int64_t kUnroll = 8;      // steps of the reduction
constexpr int64_t kGroupRows = 16;  // tiles below each other that run at once, and share what they read of rhs

// The steps on loops.
class Loops {
 public:
  explicit Loops(MatmulGpuPlan& plan) : t_(plan), s_(plan.schedule) {}

  Status Run() {
    const bool sliced = t_.tile.slices > 1;
    TileResults();
    RETURN_IF_ERROR(s_.status());
    // A block has tiles of its own.
    const auto scope = [&](const std::string& buffer, const char* where) {
      s_.Step("scope ", buffer, " ", where, " align ", kAccessBytes);
    };
    const std::vector<MatmulPanel> panels = t_.Panels();
    const auto buffer_of = [](const MatmulProduct& p) { return p.flat.outputs[0]->name; };
    for (const MatmulProduct& p : t_.products) scope(sliced ? "slices" : buffer_of(p), "local");
    for (const MatmulPanel& p : panels) scope(p.name, "shared");
    if (t_.tile.mma && !t_.tile.wgmma) {
      for (const MatmulPanel& p : panels) s_.Step("storage_align ", p.name, " ", kRowFactor, " ", kRowOffset);
    }
    const std::string sum = "b_" + t_.products[0].flat.name;
    if (sliced) {
      scope("parts", "shared"), scope(buffer_of(t_.products[0]), "local");
      s_.Step("compute_at ", sum, " p").Run("compute_at b_parts p");
    }
    for (size_t k = 0; k < t_.products.size(); ++k) {
      Nest& nest = nests_.emplace_back();
      const std::string sfx = SuffixOf(k);
      nest.block = sliced ? "b_slices" : "b_" + t_.products[k].flat.name;
      s_.Step("compute_at ", nest.block, " p");
      RETURN_IF_ERROR(s_.status());
      const std::vector<std::string> acc = s_.LoopsAround(nest.block);  // p, slices, rows, columns, reduction
      const size_t first = sliced ? 2 : 1;
      const bool cut = acc.size() == first + 4;
      RET_CHECK(acc.size() == first + 3 || (sliced && cut), s_.text());
      if (sliced) nest.slice = acc[1];
      nest.rows = acc[first], nest.columns = acc[first + 1];
      nest.panels = acc[first + 2], nest.steps = acc.back();
      if (!cut) {
        nest.panels = "ko" + sfx, nest.steps = "ki" + sfx;
        s_.Step("split ", acc.back(), " ", t_.tile.depth, " -> ", nest.panels, " ", nest.steps);
      }
      s_.Step("reorder ", nest.panels, " ", nest.steps, " ", sliced ? acc[1] + " " : "", nest.rows, " ", nest.columns);
    }
    panels_ = nests_[t_.order[0]].panels;
    std::string loops;
    for (const size_t k : t_.order) loops += " " + nests_[k].panels;
    if (t_.products.size() > 1) s_.Step("merge", loops);
    for (const MatmulPanel& p : panels) s_.Step("compute_at ", p.block(), " ", panels_);
    s_.Run("bind p blockIdx.x");  // not before: what is moved into a loop of blocks takes longer to prove
    RETURN_IF_ERROR(s_.status());
    for (const MatmulPanel& p : panels) RETURN_IF_ERROR(Fill(p));
    if (t_.tile.mma) return WriteMma();
    for (size_t k = 0; k < nests_.size(); ++k) {
      const Nest& n = nests_[k];
      std::string steps = n.steps, inner = n.steps;
      if (t_.tile.depth > kUnroll && t_.tile.depth % kUnroll == 0) {
        inner = "kl" + SuffixOf(k);
        steps = Cat("kj", SuffixOf(k), " ", inner);
        s_.Step("split ", n.steps, " ", kUnroll, " -> ", steps);
      }
      BindTile("a" + SuffixOf(k), n.slice, n.rows, n.columns, steps);
      s_.Step("unroll ", inner);
      s_.Step("split_init ", n.block, " ", panels_, " -> b_init", SuffixOf(k));
    }
    if (sliced) {
      const std::vector<std::string> parts = s_.LoopsAround("b_parts"), total = s_.LoopsAround(sum);
      RET_CHECK(parts.size() == 4 && total.size() == 4, s_.text());
      BindTile("s", parts[1], parts[2], parts[3], "");
      // One slice's threads finish.
      s_.Step("split ", total[1], " 1 -> tp tq");
      BindTile("t", "tq", "tp", total[2], total[3]);
      s_.Step("unroll ", total[3]).Step("split_init ", sum, " ", total[3], " -> b_start");
    }
    for (size_t k = 0; k < t_.results.size(); ++k) {
      const std::string sfx = SuffixOf(k);
      if (sliced) s_.Step("split ii", sfx, " 1 -> op", sfx, " oq", sfx);
      BindTile("o" + sfx, sliced ? "oq" + sfx : "", (sliced ? "op" : "ii") + sfx, "ji" + sfx, "");
    }
    return s_.status();
  }

 private:
  // A loop over tiles of what is written, of all results.
  void TileResults() {
    std::string merged;
    for (size_t k = 0; k < t_.results.size(); ++k) {
      const std::string sfx = SuffixOf(k);
      const auto name = [&](const char* loop) { return loop + sfx; };
      std::vector<std::string> names = s_.LoopsAround("b_" + t_.results[k]);
      if (!s_.status().ok()) return;
      size_t next = 0;
      const std::string lb = ir::IsInt(t_.batch, 1) ? "" : names[next++];
      const std::string li = names[next++], lj = names[next++], batch = lb.empty() ? "" : lb + " ";
      s_.Step("split ", li, " ", t_.tile.M(), " -> ", name("io"), " ", name("ii"))
          .Step("split ", lj, " ", t_.tile.N(), " -> ", name("jo"), " ", name("ji"));
      s_.Step("reorder ", batch, name("io"), " ", name("jo"), " ", name("ii"), " ", name("ji"));
      std::string order = Cat(name("io"), " ", name("jo"));
      if (const int64_t group = GroupRows(); group > 1) {
        order = Cat(name("ig"), " ", name("jo"), " ", name("ir"));
        s_.Step("split ", name("io"), " ", group, " -> ", name("ig"), " ", name("ir"));
        s_.Step("reorder ", batch, order, " ", name("ii"), " ", name("ji"));
      }
      s_.Step("fuse ", batch, order, " -> ", name("p"));
      merged += " " + name("p");
    }
    if (t_.results.size() > 1) s_.Step("merge", merged);
  }

  // Tiles below each other that run at once; 1: it makes no difference, or there is no such number.
  int64_t GroupRows() {
    if (!t_.tile.wgmma || !ir::IsInt(t_.rows)) return 1;
    const int64_t tiles = (t_.rows->int_value + t_.tile.M() - 1) / t_.tile.M();
    int64_t group = kGroupRows;
    while (tiles % group != 0) --group;
    return group;
  }

  // Threads of a tile along y: a warp's, or those of four.
  int64_t ThreadRows() const { return t_.tile.wgmma ? 4 * kWarpRows : kWarpRows; }

  // Of a warp's 32 rows a thread has every eighth, and of 8 columns two neighbours: what its matrix unit gives it. Each
  // of four warps has 16 of 64 rows.
  void BindWarps(const std::string& base, const std::string& rows, const std::string& columns) {
    if (t_.tile.wgmma) {
      s_.Step("split ", rows, " ", t_.tile.m / 2, " 4 2 ", kWarpRows, " -> ", base, "_v ", base, "_i ", base, "_q ",
              base, "_h ", base, "_g");
    } else {
      s_.Step("split ", rows, " ", t_.tile.m / 2, " 2 ", kWarpRows, " -> ", base, "_v ", base, "_i ", base, "_h ", base,
              "_y");
    }
    s_.Step("split ", columns, " ", t_.tile.n / 2, " ", kWarpColumns, " 2 -> ", base, "_w ", base, "_j ", base, "_x ",
            base, "_l");
  }

  // Of results that slices leave in shared memory all warps of the block take a part: of `rows` and `columns`, and of
  // what runs for each of them.
  void BindParts(const std::string& base, const std::string& rows, const std::string& columns,
                 const std::string& inner) {
    const int64_t warps = t_.tile.Threads() / (kWarpRows * kWarpColumns);
    const int64_t by_columns = std::min(warps, t_.tile.N() / (2 * kWarpColumns));
    const int64_t by_rows = std::min(warps / by_columns, t_.tile.M() / kWarpRows);
    const auto name = [&](const char* loop) { return Cat(" ", base, loop); };
    s_.Step("split ", rows, " ", t_.tile.M() / kWarpRows / by_rows, " ", kWarpRows, " ->", name("_v"), name("_h"),
            name("_y"));
    s_.Step("split ", columns, " ", t_.tile.N() / (2 * kWarpColumns) / by_columns, " ", kWarpColumns, " 2 ->",
            name("_w"), name("_j"), name("_x"), name("_l"));
    s_.Step("reorder", name("_v"), name("_w"), name("_y"), name("_x"), name("_h"), name("_j"), name("_l"),
            inner.empty() ? "" : " ", inner);
    s_.Step("fuse", name("_v"), name("_w"), " ->", name("_z"));
    for (const char* axis : {"z", "y", "x"}) s_.Step("bind ", base, "_", axis, " threadIdx.", axis);
    s_.Step("unroll", name("_h")).Step("unroll", name("_j")).Step("vectorize", name("_l"));
  }

  Status WriteMma() {
    const auto bind = [&](const std::string& base, const std::string& slice) {
      s_.Step("fuse ", slice, slice.empty() ? "" : " ", base, "_v ", base, "_w -> ", base, "_z");
      if (t_.tile.wgmma) s_.Step("fuse ", base, "_q ", base, "_g -> ", base, "_y");
      s_.Step("bind ", base, "_z threadIdx.z")
          .Step("bind ", base, "_y threadIdx.y")
          .Step("bind ", base, "_x threadIdx.x");
    };
    const bool splits = t_.tile.depth > kMmaDepth;
    const auto loops = [](const std::string& base, std::initializer_list<const char*> names) {
      std::string r;
      for (const char* name : names) r += Cat(r.empty() ? "" : " ", base, "_", name);
      return r;
    };
    const auto threads = [&](const std::string& base) {
      return t_.tile.wgmma ? loops(base, {"v", "w", "q", "g", "x"}) : loops(base, {"v", "w", "y", "x"});
    };
    for (size_t k = 0; k < nests_.size(); ++k) {
      const Nest& n = nests_[k];
      const std::string sfx = SuffixOf(k), a = "a" + sfx;
      BindWarps(a, n.rows, n.columns);
      if (splits) s_.Step("split ", n.steps, " ", kMmaDepth, " -> kk", sfx, " ke", sfx);
      s_.Step("reorder ", n.slice, n.slice.empty() ? "" : " ", threads(a), " ", splits ? Cat("kk", sfx, " ") : "",
              loops(a, {"i", "j", "h", "l"}), " ", splits ? "ke" + sfx : n.steps);
      bind(a, n.slice);
      s_.Step("split_init ", n.block, " ", panels_, " -> b_init", SuffixOf(k));
      s_.Step("tensorize ", a, t_.tile.m == 2 ? "_j " : "_i ", t_.tile.wgmma ? "wgmma_m64k16" : "mma_m16n8k16");
      if (splits) s_.Step("unroll kk", sfx);
    }
    // In the same threads, so that they go through a panel's copies together.
    for (const char* axis : {"z", "y", "x"}) {
      std::string same;
      for (const size_t k : t_.order) same += Cat(" a", SuffixOf(k), "_", axis);
      if (nests_.size() > 1) s_.Step("merge", same);
    }
    if (t_.stages > 1) s_.Step("pipeline ", panels_, " ", t_.stages);
    if (!nests_[0].slice.empty()) {
      const std::string sum = "b_" + t_.products[0].flat.name;
      const std::vector<std::string> parts = s_.LoopsAround("b_parts"), total = s_.LoopsAround(sum);
      RET_CHECK(parts.size() == 4 && total.size() == 4, s_.text());
      BindWarps("s", parts[2], parts[3]);
      s_.Step("reorder ", parts[1], " s_v s_w s_y s_x s_i s_h s_j s_l");
      bind("s", parts[1]);
      s_.Run("unroll s_i").Run("unroll s_h").Run("unroll s_j").Run("vectorize s_l");
      BindParts("t", total[1], total[2], total[3]);
      s_.Step("unroll ", total[3]).Step("split_init ", sum, " ", total[3], " -> b_start");
      for (size_t k = 0; k < t_.results.size(); ++k)
        BindParts("o" + SuffixOf(k), "ii" + SuffixOf(k), "ji" + SuffixOf(k), "");
      return s_.status();
    }
    for (size_t k = 0; k < t_.results.size(); ++k) {
      const std::string o = "o" + SuffixOf(k);
      BindWarps(o, "ii" + SuffixOf(k), "ji" + SuffixOf(k));
      s_.Step("reorder ", threads(o), " ", loops(o, {"i", "h", "j", "l"}));
      bind(o, "");
      s_.Step("unroll ", o, "_i").Step("unroll ", o, "_h").Step("unroll ", o, "_j").Step("vectorize ", o, "_l");
    }
    return s_.status();
  }

  // Rows and columns of a tile by threads: a thread's columns lie in fours, the fours a row of threads apart. `steps`
  // run around what a thread does.
  void BindTile(const std::string& base, const std::string& slice, const std::string& rows, const std::string& columns,
                const std::string& steps) {
    const std::string v = base + "_v", e = base + "_e", y = base + "_y", x = base + "_x", r = base + "_r";
    s_.Step("split ", rows, " ", t_.tile.m, " -> ", y, " ", r);
    s_.Step("split ", columns, " ", t_.tile.columns, " ", kTileLanes, " -> ", v, " ", x, " ", e);
    s_.Step("reorder ", slice, slice.empty() ? "" : " ", y, " ", x, " ", steps, steps.empty() ? "" : " ", r, " ", v,
            " ", e);
    if (!slice.empty()) s_.Step("bind ", slice, " threadIdx.z");
    s_.Step("bind ", y, " threadIdx.y").Step("bind ", x, " threadIdx.x");
    s_.Step("unroll ", r).Step("unroll ", v).Step("vectorize ", e);
  }

  // All threads of the block fetch a panel, each several accesses, or one has it copied.
  Status Fill(const MatmulPanel& panel) {
    std::vector<std::string> around = s_.LoopsAround(panel.block());  // p, panels, steps, side
    around.erase(around.begin(), std::find(around.begin(), around.end(), panels_) + 1);
    RET_CHECK(!around.empty() && around.size() <= 2, s_.text());
    if (t_.tensor_copies && around.size() == 2 &&
        s_.Try(Cat("tensorize ", around[0], " ", Name(ir::ForKind::kTensorCopy))))
      return s_.status();
    if (around.size() == 2 && !panel.along_side && !t_.tile.mma) {
      s_.Step("reorder ", around[1], " ", around[0]);
      std::swap(around[0], around[1]);
    }
    std::vector<std::pair<char, int64_t>> axes = {{'y', t_.tile.rows}, {'x', t_.tile.columns}};
    if (t_.tile.mma)
      axes = {{'z', t_.tile.Threads() / (ThreadRows() * kWarpColumns)}, {'y', ThreadRows()}, {'x', kWarpColumns}};
    if (t_.tile.slices > 1 && !t_.tile.mma) axes.insert(axes.begin(), {'z', t_.tile.slices});
    FillByThreads(s_, panel.name, std::move(around), panel.vector, axes);
    return s_.status();
  }

  MatmulGpuPlan& t_;
  ir::Schedule& s_;
  // Of a contraction: the loops of a tile and of the reduction, from panel to panel and through one.
  struct Nest {
    std::string block, slice, rows, columns, panels, steps;
  };
  std::vector<Nest> nests_;
  std::string panels_;
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeMatmulGpu(const ir::TeProgram& group, const Target& target, Until until,
                                                 Point& point) {
  if (!target.IsGpu()) return std::vector<Proposal>();
  ASSIGN_OR_RETURN(std::optional<MatmulGpuPlan> plan, PlanMatmulGpu(group, target, point));
  if (!plan) return std::vector<Proposal>();
  if (until == Until::kPrice) return std::vector<Proposal>{{"matmul_gpu", {}, "", plan->seconds}};
  RETURN_IF_ERROR(Loops(*plan).Run());
  return std::vector<Proposal>{{"matmul_gpu", plan->schedule.func(), plan->schedule.text(), plan->seconds}};
}

}  // namespace cinn_like::hlir
