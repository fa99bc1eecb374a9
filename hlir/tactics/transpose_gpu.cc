#include "hlir/tactics/transpose_gpu.h"

#include <algorithm>

#include "hlir/stage_analysis.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

constexpr int64_t kWarp = RowsGpuPlan::kWarp;
// Threads of a block along what a transposition reads and what it writes; a thread's elements where they are not 16
// bytes in a row.
constexpr int64_t kTransposeIn = 8, kTransposeOut = 32, kTile = 4;
constexpr int64_t kTileBytes = 512;       // in registers
constexpr int64_t kTransposeShared = 16;  // threads of a block both ways, where elements pass through shared memory
constexpr int64_t kSharedSide = kTransposeShared * kTile;  // of a tile there
constexpr int64_t kSharedBytes = 8;                        // of its elements, so that a core has several blocks

class Transposed {
 public:
  Transposed(RowNests& r, const RowsGpuPlan& plan, const Target& target)
      : r_(r), s_(r.schedule), plan_(plan), target_(target), most_threads_(plan.most_threads()) {}

  // A thread rearranges a tile in its registers, 16 bytes by 16 bytes: it reads rows of the tile and writes columns.
  // Threads lie side by side both ways, so that neither way memory moves more than what is used.
  // Results that lie as what is read does are written as it is read, and what they read across has a tile, too.
  Status Run(RowNests::Transposition t) {
    // What several threads would meet in is no result but a tile.
    RETURN_IF_ERROR(r_.KeepResults(true));
    ASSIGN_OR_RETURN(const size_t copies_in, r_.StageInputs(r_.FindInputsAlong(t.in)));
    const std::vector<Buffer> straight = r_.FindResultsAlong(t.in);
    const auto is_straight = [&](size_t k) { return Contains(straight, r_.group.stages[k].outputs[0]); };
    std::vector<RowNests::Input> across = r_.FindInputsAlong(t.out);
    for (RowNests::Input& input : across)
      std::erase_if(input.read, [&](const auto& read) { return !is_straight(read.first); });
    std::erase_if(across, [](const RowNests::Input& input) { return input.read.empty(); });
    ASSIGN_OR_RETURN(const size_t copies_out, r_.StageInputs(across));
    for (size_t i = 0; i < r_.nests.size(); ++i)
      goes_along_in_.push_back(i >= copies_out && (i < copies_out + copies_in || is_straight(i)));
    const std::vector<int> in = r_.LineAround(t.in), out = r_.LineAround(t.out);
    std::vector<int> outer;
    for (int d : r_.Dims(false)) {
      if (std::count(in.begin(), in.end(), d) + std::count(out.begin(), out.end(), d) == 0) outer.push_back(d);
    }
    r_.ReorderAll({outer, in, out});
    int64_t v_in = plan_.VectorFor(in), v_out = plan_.VectorFor(out), bytes = 0;
    bool words = true;
    for (Buffer b : r_.Temporaries()) {
      bytes += BytesOf(b->dtype);
      words = words && BytesOf(b->dtype) == 4;
    }
    const auto has_whole_tiles = [&](const std::vector<int>& line) {
      return r_.LikelySize(line) >= static_cast<double>(kSharedSide);
    };
    const bool in_accesses = words && v_in == kTile && v_out == kTile;
    // Few elements at once, in one direction or both: registers wait for as many accesses.
    const int64_t most_in = plan_.AccessElements(in.back()), most_out = plan_.AccessElements(out.back());
    const bool is_narrow =
        std::min(v_in, v_out) < std::min({kTile, most_in, most_out}) || (v_in < most_in && v_out < most_out);
    const bool shares = (in_accesses || is_narrow) && bytes <= kSharedBytes && has_whole_tiles(in) &&
                        has_whole_tiles(out) && most_threads_ >= kTransposeShared * kTransposeShared &&
                        kSharedSide * (kSharedSide + 1) * bytes <= target_.shared_bytes;
    for (Buffer b : r_.Temporaries()) s_.Step("scope ", b->name, shares ? " shared" : " local");
    if (shares) return Shared(outer, in, out, in_accesses);
    while (v_in * v_out * bytes > kTileBytes) (v_in >= v_out ? v_in : v_out) /= 2;
    struct Side {
      std::string block, thread, element;
    };
    const int64_t transpose_out = std::min(kTransposeOut, most_threads_ / kTransposeIn);
    std::vector<std::string> blocks, threads_in, threads_out;
    std::vector<std::pair<Side, Side>> sides;
    for (RowNest& nest : r_.nests) {
      auto cut = [&](const std::vector<int>& dims, int64_t threads, int64_t v) {
        const Side s{s_.Fresh("b"), s_.Fresh("t"), s_.Fresh("x")};
        const std::string line = r_.FuseDims(nest, dims, "v");
        if (v > 1)
          s_.Step("split ", line, " ", threads, " ", v, " -> ", s.block, " ", s.thread, " ", s.element);
        else
          s_.Step("split ", line, " ", kTile, " ", threads, " -> ", s.block, " ", s.element, " ", s.thread);
        return s;
      };
      const Side x = cut(in, kTransposeIn, v_in), y = cut(out, transpose_out, v_out);
      s_.Step("reorder ", x.block, " ", y.block, " ", x.thread, " ", y.thread, " ", x.element, " ", y.element);
      const std::string row = r_.FuseDims(nest, outer, "p");
      blocks.push_back(s_.Fresh("e"));
      s_.Step("fuse ", row, row.empty() ? "" : " ", x.block, " ", y.block, " -> ", blocks.back());
      threads_in.push_back(x.thread);
      threads_out.push_back(y.thread);
      sides.emplace_back(x, y);
    }
    MergeLoops(s_, blocks);  // while all nests have one order
    for (size_t i = 0; i < sides.size(); ++i) {
      const auto& [x, y] = sides[i];
      const bool along_in = goes_along_in_[i];
      const std::string &first = along_in ? y.element : x.element, &last = along_in ? x.element : y.element;
      s_.Step("reorder ", first, " ", last).Step("unroll ", first);
      s_.Step((along_in ? v_in : v_out) > 1 ? "vectorize " : "unroll ", last);
    }
    s_.Step("bind ", blocks[0], " blockIdx.x");
    for (const std::string& l : threads_in) s_.Step("bind ", l, " threadIdx.x");
    for (const std::string& l : threads_out) s_.Step("bind ", l, " threadIdx.y");
    return absl::OkStatus();
  }

 private:
  // The same through shared memory: of elements of 4 bytes half a warp reads and writes 256 bytes of a row; of others,
  // or where rows begin anywhere, a warp as many elements as it has threads.
  Status Shared(const std::vector<int>& outer, const std::vector<int>& in, const std::vector<int>& out,
                bool in_accesses) {
    const int64_t along = in_accesses ? kTransposeShared : kWarp, across = kTransposeShared * kTransposeShared / along;
    for (size_t k = 0; k < r_.group.stages.size() && in.size() + out.size() > 2; ++k) {
      for (Buffer b : r_.group.stages[k].outputs) {
        if (!IsParam(r_.group, b)) s_.Step("transform_layout ", r_.LayoutOf(b->name, r_.space.dim_of[k], {in, out}));
      }
    }
    for (Buffer b : r_.Temporaries()) s_.Step("storage_align ", b->name, " ", kWarp, " 1");
    std::vector<std::string> blocks, threads, rows;
    for (size_t i = 0; i < r_.nests.size(); ++i) {
      RowNest& nest = r_.nests[i];
      const bool along_in = goes_along_in_[i];
      const std::string b_in = s_.Fresh("bi"), b_out = s_.Fresh("bo"), t = s_.Fresh("t"), y = s_.Fresh("y"),
                        u = s_.Fresh("u"), x = s_.Fresh("x");
      const std::string &b_along = along_in ? b_in : b_out, &b_across = along_in ? b_out : b_in;
      const std::string line = r_.FuseDims(nest, along_in ? in : out, "v");
      if (in_accesses)
        s_.Step("split ", line, " ", along, " ", kTile, " -> ", b_along, " ", t, " ", x);
      else
        s_.Step("split ", line, " ", kSharedSide / along, " ", along, " -> ", b_along, " ", x, " ", t);
      s_.Step("split ", r_.FuseDims(nest, along_in ? out : in, "v"), " ", kSharedSide / across, " ", across, " -> ",
              b_across, " ", u, " ", y);
      s_.Step("reorder ", b_in, " ", b_out, " ", t, " ", y, " ", u, " ", x).Step("unroll ", u);
      s_.Step(in_accesses ? "vectorize " : "unroll ", x);
      const std::string row = r_.FuseDims(nest, outer, "p");
      blocks.push_back(s_.Fresh("e"));
      s_.Step("fuse ", row, row.empty() ? "" : " ", b_in, " ", b_out, " -> ", blocks.back());
      threads.push_back(t);
      rows.push_back(y);
    }
    MergeLoops(s_, blocks);
    s_.Step("bind ", blocks[0], " blockIdx.x");
    for (const std::string& l : threads) s_.Step("bind ", l, " threadIdx.x");
    for (const std::string& l : rows) s_.Step("bind ", l, " threadIdx.y");
    return absl::OkStatus();
  }

  RowNests& r_;
  Schedule& s_;  // r_'s
  const RowsGpuPlan& plan_;
  const Target& target_;
  const int64_t most_threads_;
  std::vector<bool> goes_along_in_;  // by nest: elements lie as what is read does
};

}  // namespace

Status TransposeOnGpu(RowNests& r, const RowsGpuPlan& plan, const Target& target, RowNests::Transposition t) {
  return Transposed(r, plan, target).Run(t);
}

}  // namespace cinn_like::hlir
