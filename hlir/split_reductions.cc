#include "hlir/split_reductions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "cinn_like/base/costs.h"
#include "cinn_like/base/powers_of_two.h"
#include "hlir/recenter_sums.h"
#include "hlir/row_space.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "ir/analyzer.h"
#include "ir/join.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

struct Machine {
  double row_rate, column_rate;  // bytes that one task (a block, a thread) reads a second along rows, across rows
  double bandwidth, cores;       // of all of them; where the target does not say
  double kernel_seconds;         // of one that does nothing
  double tasks_per_core;         // that balance
  double columns, full_bytes;    // a task's share of the columns; more of elements that are narrower than that
  double min_row, max_row, min_column;  // elements of a part
};
// Along rows with all threads of a block, across rows with a few warps.
constexpr Machine kGpu = {200e9, 40e9, 2e12, 128, 0, 8, 32, 4, 4096, 32768, 128};
constexpr Machine kCpu = {10e9, 10e9, 25e9, 1, 5e-6, 4, 256, 0, 16384, 262144, 128};
constexpr double kNear = 3;              // times the rates: of what lies in a core's cache
constexpr double kGain = 1.25;           // below that the second kernel is not worth it
constexpr int64_t kLongest = 1LL << 24;  // a symbol of which only the range is known counts as its end, up to this

// A part of the reduction: of `iter`, `chunk` values. What is contiguous lies `across` it.
struct Part {
  size_t iter;
  int64_t chunk;
  bool across;
  // Of column sums beside rows `chunk` is the number of parts, and part p of n has the values p, p + n, ... There may
  // be a second iterator, all of whose values are in parts of their own: (p / its extent, p % its extent).
  bool beside = false;
  std::optional<size_t> inner = std::nullopt;
  size_t place = 0;  // of the parts among the iterators
  // Of rows: `chunk` values of all that is reduced, as one line.
  bool rows = false;
};

// Of columns that fill no vector.
constexpr double kStepSeconds = 0.7e-9;  // a vector more, however full
constexpr int64_t kMostVectors = 16;     // of a row of parts
constexpr int64_t kSumsAtOnce = 4;       // so many do not wait for each other
constexpr int64_t kSectorBytes = 32;     // that a GPU's memory moves at once
constexpr double kBeside = 2;            // bytes beside those of short lines take as long as so many others

// Of column sums beside rows.
constexpr double kThreadsPerCore = 1024, kBlocksPerCore = 16;  // of blocks that go through rows, at most
constexpr double kLeastBlocks = 0.75, kLeastThreads = 96;      // for each core
constexpr double kLeastRows = 4, kLikedRows = 8;               // of a block
constexpr double kLeastColumns = 256, kMostColumns = 8192;     // fewer fill no block, more no registers

// The same on a CPU, where parts are chunks of rows.
constexpr double kLeastChunk = 16, kMostChunk = 256;  // rows
constexpr double kRowsOfCache = 4;                    // that a core's holds, of each tensor

class Splitter {
 public:
  Splitter(const TeProgram& p, const Target& target, NameSupply& names)
      : p_(p), c_(*p.context), names_(names), analyzer_(c_) {
    for (const SymbolFact& f : p.symbols) {
      analyzer_.BindSymbol(f);
      symbols_.push_back(f);
      // To split what turns out short costs a kernel that does nothing; not to split what turns out long, a machine.
      if (f.hint == 0) symbols_.back().hint = std::clamp(kLongest, f.lo, std::max<int64_t>(f.hi, 1));
    }
    m_ = target.IsGpu() ? kGpu : kCpu;
    if (target.IsGpu()) m_.kernel_seconds = GpuCostsOf(target).kernel_seconds;
    has_blocks_ = target.IsGpu();
    most_threads_ = target.device->limits.threads;
    cluster_ = has_blocks_ ? static_cast<double>(target.cluster) : 0;
    registers_ = static_cast<double>(target.registers);
    near_bytes_ = has_blocks_ ? 0 : static_cast<double>(target.l2_bytes);
    vector_bytes_ = std::max<int64_t>(target.vector_bytes, 16);
    for (const Stage& s : p.stages) {
      for (Buffer b : InputsOf(s)) users_[b].push_back(&s);
      for (Buffer b : s.outputs) users_[b].push_back(&s);
    }
    if (target.bandwidth > 0) m_.bandwidth = static_cast<double>(target.bandwidth) * 1e9;
    if (target.cores > 0) m_.cores = static_cast<double>(target.cores);
    if (target.num_threads > 0) m_.cores = static_cast<double>(target.num_threads);
    m_.bandwidth = std::min(m_.bandwidth, m_.cores * m_.row_rate);
  }

  std::vector<Stage> Run() {
    std::vector<Stage> r;
    std::vector<Stage> stages;
    for (const Stage& s : p_.stages) {
      const std::optional<Join> join = JoinOf(s);
      std::optional<Part> part = join ? ChooseNeighbours(s) : std::nullopt;
      if (join && !part) part = ChooseLines(s);
      if (part)
        Split(s, *join, *part, stages);
      else
        stages.push_back(s);
    }
    const absl::flat_hash_map<size_t, size_t> squares = SquaresBeside(stages);
    for (size_t k = 0; k < stages.size(); ++k) {
      const Stage& s = stages[k];
      const std::optional<Join> join = JoinOf(s);
      const auto with = squares.find(k);
      const Stage& like = with == squares.end() ? s : stages[with->second];
      const std::optional<Part> part = join ? Choose(like) : std::nullopt;
      if (const std::optional<Part> beside =
              join ? has_blocks_ ? ChooseBeside(like, part.has_value()) : ChooseRows(like) : std::nullopt)
        Split(s, *join, *beside, r);
      else if (part)
        Split(s, *join, *part, r);
      else
        r.push_back(s);
    }
    return r;
  }

 private:
  double Size(Expr extent) const { return TypicalSize(extent, symbols_); }

  std::optional<Join> JoinOf(const Stage& s) const {
    return s.IsReduction() && !FindContraction(s) ? FindJoin(c_, s.values, RunningOf(c_, s)) : std::nullopt;
  }

  // Sums of squared distances by the sums that run in one go with them (hlir/recenter_sums.h), whose parts are theirs.
  absl::flat_hash_map<size_t, size_t> SquaresBeside(const std::vector<Stage>& stages) const {
    absl::flat_hash_map<size_t, size_t> r;
    TeProgram p = p_;
    p.stages = stages;
    for (size_t k = 0; k < stages.size(); ++k) {
      if (const std::optional<size_t> sum = FindSumBeside(p, k)) r[*sum] = k;
    }
    return r;
  }

  // Columns that are neighbours of the next ones, and fewer than lanes. There is no rest.
  std::optional<Part> ChooseNeighbours(const Stage& s) {
    const Expr load = MainLoad(s, s.values);
    if (has_blocks_ || load == nullptr || load->has_mask) return std::nullopt;
    const Expr offset = ElementOffset(c_, load->buffer, IndicesOf(load));
    const auto stride_of = [&](Expr var) { return StepAlong(analyzer_, offset, var); };
    Part part{0, 0, true, true};
    while (part.place < s.iters.size() && !IsInt(stride_of(s.iters[part.place].var), 1)) ++part.place;
    if (part.place == s.iters.size() || !IsInt(s.iters[part.place].extent)) return std::nullopt;
    const int64_t columns = s.iters[part.place].extent->int_value;
    while (part.iter < s.reduce_iters.size() && !IsInt(stride_of(s.reduce_iters[part.iter].var), columns)) ++part.iter;
    if (part.iter == s.reduce_iters.size() || columns < 2) return std::nullopt;
    const int64_t divisor = analyzer_.KnownDivisor(s.reduce_iters[part.iter].extent);
    int64_t widest = BytesOf(s.outputs[0]->dtype);
    for (Buffer b : s.outputs) widest = std::max<int64_t>(widest, BytesOf(b->dtype));
    const int64_t lanes = vector_bytes_ / widest;
    // Of so many parts.
    const auto vectors = [&](int64_t parts) {
      return std::ceil(static_cast<double>(parts * columns) / static_cast<double>(lanes)) / static_cast<double>(parts);
    };
    part.chunk = 1;
    for (int64_t n = 2; n * columns <= kMostVectors * lanes && n <= divisor; ++n) {
      if (divisor % n != 0) continue;
      const double more = vectors(n) - vectors(part.chunk);
      if (more < 0 || (more == 0 && n * columns <= kSumsAtOnce * lanes)) part.chunk = n;
    }
    double rows = 1;
    for (const StageIter& i : s.iters) rows *= &i == &s.iters[part.place] ? 1 : Size(i.extent);
    const double results = rows;
    for (const StageIter& i : s.reduce_iters) rows *= Size(i.extent);
    const double saved = rows * (vectors(1) - vectors(part.chunk)) - 2 * results * static_cast<double>(part.chunk);
    return saved * kStepSeconds / m_.cores > 2 * m_.kernel_seconds ? std::optional<Part>(part) : std::nullopt;
  }

  // Lines that go on in the next result, as those of a group's channels where channels come last, and are too short to
  // be read on their own: their elements are columns, which are added up next.
  std::optional<Part> ChooseLines(const Stage& s) {
    const Expr load = MainLoad(s, s.values);
    if (load == nullptr || load->has_mask) return std::nullopt;
    const Expr offset = ElementOffset(c_, load->buffer, IndicesOf(load));
    const auto find = [&](const std::vector<StageIter>& iters, Expr step) {
      return static_cast<size_t>(std::find_if(iters.begin(), iters.end(),
                                              [&](const StageIter& i) {
                                                return !IsInt(i.extent, 1) &&
                                                       StepAlong(analyzer_, offset, i.var) == step;
                                              }) -
                                 iters.begin());
    };
    Part part{find(s.reduce_iters, c_.Int(1)), 1, true};
    if (part.iter == s.reduce_iters.size()) return std::nullopt;
    const Expr extent = s.reduce_iters[part.iter].extent;
    part.place = find(s.iters, analyzer_.Simplify(extent)) + 1;
    if (part.place > s.iters.size()) return std::nullopt;
    const double length = Size(extent);
    double lines = 1, columns = length;
    for (const StageIter& i : s.iters) columns *= Size(i.extent);
    for (const StageIter& i : s.reduce_iters) lines *= Size(i.extent);
    lines *= columns / length / length;
    // A GPU's threads would find a symbol's digits by quotients.
    if (lines < 2 * columns / length || (has_blocks_ && !IsInt(extent))) return std::nullopt;
    const double kernels = 2 * m_.kernel_seconds;
    if (!has_blocks_) {
      const double vectors = length * BytesOf(s.outputs[0]->dtype) / static_cast<double>(vector_bytes_);
      const double more = std::max(std::ceil(vectors), static_cast<double>(kSumsAtOnce)) - vectors;
      const double saved = lines * more - 2 * columns;
      return saved * kStepSeconds / m_.cores > kernels ? std::optional<Part>(part) : std::nullopt;
    }
    // Memory moves sectors, of which each line has parts. What needs the sums could have read the elements with them.
    const double bytes = length * BytesOf(load->buffer->dtype);
    const double apart = std::gcd(static_cast<int64_t>(bytes), kSectorBytes);
    const double beside = std::ceil((bytes + kSectorBytes - apart) / apart) * apart - bytes;
    const bool again = NeedsAgain(s);
    const double saved = kBeside * lines * beside * (again ? 2 : 1), more = again && !Choose(s) ? lines * bytes : 0;
    return saved / m_.bandwidth > kGain * (more / m_.bandwidth + kernels) ? std::optional<Part>(part) : std::nullopt;
  }

  std::optional<Part> Choose(const Stage& s) {
    const Expr load = MainLoad(s, s.values);
    if (load == nullptr) return std::nullopt;
    double results = 1, length = 1;
    const Expr offset = ElementOffset(c_, load->buffer, IndicesOf(load));
    Expr line = c_.Int(1);  // neighbouring columns, of any number of dimensions
    for (size_t k = s.iters.size(); k-- > 0;) {
      results *= Size(s.iters[k].extent);
      if (!IsInt(s.iters[k].extent, 1) && StepAlong(analyzer_, offset, s.iters[k].var) == line)
        line = analyzer_.Simplify(c_.Mul(line, s.iters[k].extent));
    }
    const double columns = IsInt(line, 1) ? 0 : Size(line);
    for (const StageIter& i : s.reduce_iters) length *= Size(i.extent);
    const double bytes = results * length * BytesOf(load->buffer->dtype);
    const bool along = columns == 0;
    const double share = m_.columns * std::max(1.0, m_.full_bytes / BytesOf(load->buffer->dtype));
    double blocks = along ? results : results / columns * std::ceil(columns / share);
    // The blocks of a cluster share columns that stay in their registers for what needs the result.
    if (!along && 2 * length * share <= cluster_ * registers_ && NeedsAgain(s)) blocks *= cluster_;
    const double near = bytes <= near_bytes_ ? kNear : 1;
    const double now = bytes / near / std::min(m_.bandwidth, blocks * (along ? m_.row_rate : m_.column_rate));
    if (now < kGain * (bytes / near / m_.bandwidth + 2 * m_.kernel_seconds)) return std::nullopt;
    const double wanted = length * blocks / (m_.tasks_per_core * m_.cores);
    const double elements = along ? std::clamp(wanted, m_.min_row, m_.max_row) : std::max(wanted, m_.min_column);
    // The outermost loop that is long enough is cut, or the longest: what is contiguous stays so.
    size_t iter = 0;
    for (size_t k = 0; k < s.reduce_iters.size(); ++k) {
      if (Size(s.reduce_iters[k].extent) > Size(s.reduce_iters[iter].extent)) iter = k;
    }
    for (size_t k = iter; k-- > 0;) {
      if (Size(s.reduce_iters[k].extent) >= length / elements) iter = k;
    }
    const Expr extent = s.reduce_iters[iter].extent;
    int64_t chunk = PowerOfTwoBelow(static_cast<int64_t>(std::max(1.0, Size(extent) * elements / length)));
    if (Size(extent) < 2 * static_cast<double>(chunk)) return std::nullopt;
    // Without a rest if possible.
    constexpr int64_t kAligned = 16;
    for (int64_t n = chunk; IsInt(extent) && 2 * n > chunk; --n) {
      if (extent->int_value % n != 0 || (n % kAligned != 0 && extent->int_value % kAligned == 0 && n > kAligned))
        continue;
      chunk = n;
      break;
    }
    return Part{iter, chunk, !along};
  }

  // Sums over columns of what another stage goes through row by row: one pass for both, by blocks that take rows in
  // turns. There is no rest. Columns that what needs the sums goes through again (a softmax along them) stay whole, so
  // that all of it can be one kernel, unless they are `split` in any case.
  std::optional<Part> ChooseBeside(const Stage& s, bool split) {
    const Expr load = MainLoad(s, s.values);
    if (load == nullptr || load->has_mask || s.iters.empty()) return std::nullopt;
    const std::vector<Expr> at = IndicesOf(load);
    const auto is_iter_of = [](const std::vector<StageIter>& iters, Expr e) {
      return std::any_of(iters.begin(), iters.end(), [&](const StageIter& i) { return i.var == e; });
    };
    // The sum's own dimension is the last one of what it reads.
    double columns = 1, rows = 1;
    for (size_t d = 0; d < at.size(); ++d) {
      const Expr extent = load->buffer->shape[d];
      if (IsInt(extent, 1)) continue;
      if (is_iter_of(s.iters, at[d]) && IsInt(extent) && columns == 1) {
        columns = Size(extent);
      } else if (is_iter_of(s.reduce_iters, at[d]) && columns == 1) {
        rows *= Size(extent);
      } else {
        return std::nullopt;
      }
    }
    if (columns < kLeastColumns || columns > kMostColumns || !HasRows(s, load) || (!split && NeedsAgain(s)))
      return std::nullopt;
    const int bytes = BytesOf(load->buffer->dtype);
    const int64_t threads = ThreadsOfSummedRow(static_cast<int64_t>(columns) * bytes / 16, most_threads_);
    const double each_core = std::min(kThreadsPerCore / static_cast<double>(threads), kBlocksPerCore);
    const double wanted = std::min(m_.cores * each_core, rows / kLikedRows),
                 most = std::min(m_.cores * each_core, rows / kLeastRows);
    std::optional<Part> best;
    // How near to what is wanted; of two that are as near, more.
    const auto nearness = [&](int64_t parts) {
      const double n = static_cast<double>(parts) / wanted;
      return std::pair(std::min(n, 1 / n), n);
    };
    const auto offer = [&](size_t k, int64_t each, std::optional<size_t> inner) {
      const int64_t divisor = analyzer_.KnownDivisor(s.reduce_iters[k].extent);
      for (int64_t n = std::min(divisor, static_cast<int64_t>(most) / each); n > 1; --n) {
        if (divisor % n != 0 || IsInt(s.reduce_iters[k].extent, n)) continue;
        if (!best || nearness(n * each) > nearness(best->chunk)) best = Part{k, n * each, true, true, inner};
      }
    };
    for (size_t k = 0; k < s.reduce_iters.size(); ++k) {
      offer(k, 1, std::nullopt);
      if (k > 0 && IsInt(s.reduce_iters[k].extent) && !IsInt(s.reduce_iters[k].extent, 1))
        offer(k - 1, s.reduce_iters[k].extent->int_value, k);
    }
    const bool fills = best && static_cast<double>(best->chunk) >= m_.cores * kLeastBlocks &&
                       static_cast<double>(best->chunk * threads) >= m_.cores * kLeastThreads;
    return fills ? best : std::nullopt;
  }

  // The same by threads that take chunks of rows: while a row is in cache, its elements are added to sums that stay
  // there, too. Where the sums are needed to go through the same rows again, columns would have to stay instead.
  std::optional<Part> ChooseRows(const Stage& s) {
    const Expr load = MainLoad(s, s.values);
    if (load == nullptr || load->has_mask || s.iters.empty()) return std::nullopt;
    const std::vector<Expr> at = IndicesOf(load);
    std::vector<Expr> of;
    for (const StageIter& i : s.reduce_iters) {
      if (!IsInt(i.extent, 1)) of.push_back(i.var);
    }
    const size_t reduced = of.size();
    double columns = 1, rows = 1;
    for (const StageIter& i : s.iters) {
      if (IsInt(i.extent, 1)) continue;
      of.push_back(i.var);
      columns *= Size(i.extent);
    }
    for (const StageIter& i : s.reduce_iters) rows *= Size(i.extent);
    size_t next = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      if (IsInt(load->buffer->shape[d], 1)) continue;
      if (next == of.size() || at[d] != of[next]) return std::nullopt;
      ++next;
    }
    const int bytes = BytesOf(load->buffer->dtype);
    int sum_bytes = 0;
    for (Buffer b : s.outputs) sum_bytes = std::max(sum_bytes, BytesOf(b->dtype));
    if (reduced == 0 || next < of.size() || columns * sum_bytes < static_cast<double>(vector_bytes_) ||
        columns * sum_bytes * kRowsOfCache > near_bytes_ || !HasRows(s, load))
      return std::nullopt;
    const double read = rows * columns * bytes, near = read <= near_bytes_ ? kNear : 1;
    if (read / near / m_.bandwidth < m_.kernel_seconds) return std::nullopt;
    double chunk = std::clamp(rows / (m_.tasks_per_core * m_.cores), kLeastChunk, kMostChunk);
    chunk = std::floor(std::min(chunk, std::ceil(rows / m_.cores)));
    if (rows < 2 * chunk) return std::nullopt;
    if (NeedsAgain(s)) return std::nullopt;
    // Without a rest if possible.
    const int64_t divisor = analyzer_.KnownDivisor(RowsOf(s));
    auto best = static_cast<int64_t>(chunk);
    for (int64_t n = best; 2 * n > best; --n) {
      if (divisor % n != 0) continue;
      best = n;
      break;
    }
    return Part{.iter = 0, .chunk = best, .across = true, .rows = true};
  }

  // Values that are reduced to one.
  Expr RowsOf(const Stage& s) {
    Expr n = c_.Int(1);
    for (const StageIter& i : s.reduce_iters) n = c_.Mul(n, i.extent);
    return analyzer_.Simplify(n);
  }

  // What needs the sums reads what they are sums of.
  bool NeedsAgain(const Stage& s) const {
    std::vector<Buffer> read;
    for (Expr e : LoadsOf(s)) {
      const bool whole = std::all_of(s.iters.begin(), s.iters.end(),
                                     [&](const StageIter& i) { return IsInt(i.extent, 1) || Uses(e, i.var); });
      if (whole && !Contains(s.outputs, e->buffer)) read.push_back(e->buffer);
    }
    for (const Stage* t : After(s)) {
      if (t->outputs == s.outputs) continue;
      for (Buffer b : InputsOf(*t)) {
        if (Contains(read, b)) return true;
      }
    }
    return false;
  }

  // Another stage reads or computes what `s` sums up, keeps the dimensions that it reduces, and doesn't need the sum.
  bool HasRows(const Stage& s, Expr load) const {
    const std::vector<Expr> summed = IndicesOf(load);
    const auto is_one_of = [](const std::vector<StageIter>& iters, Expr e) {
      return std::any_of(iters.begin(), iters.end(), [&](const StageIter& i) { return i.var == e; });
    };
    const auto keeps = [&](const Stage& t, const std::vector<Expr>& at) {
      for (size_t d = 0; d < at.size(); ++d) {
        if (IsInt(load->buffer->shape[d], 1)) continue;
        const bool kept = is_one_of(t.iters, at[d]);
        if (!kept && (is_one_of(s.reduce_iters, summed[d]) || !is_one_of(t.reduce_iters, at[d]))) return false;
      }
      return true;
    };
    std::optional<absl::flat_hash_set<const Stage*>> after;
    const auto serves = [&](const Stage& t) {
      const std::optional<Contraction> product = FindContraction(t);
      if (&t == &s || (product && !product->m.empty() && !product->n.empty())) return false;
      bool rows = Contains(t.outputs, load->buffer) && t.IsPointwise() && t.at.empty() && keeps(t, VarsOf(t.iters));
      for (Expr v : t.values) {
        VisitLoads(
            v, [&](Expr e) { rows = rows || (e->buffer == load->buffer && !e->has_mask && keeps(t, IndicesOf(e))); });
      }
      if (!rows) return false;
      if (!after) after = After(s);
      return !after->contains(&t);
    };
    const auto of = users_.find(load->buffer);
    return of != users_.end() &&
           std::any_of(of->second.begin(), of->second.end(), [&](const Stage* t) { return serves(*t); });
  }

  // The stages that need what `s` computes; of very many only the first.
  absl::flat_hash_set<const Stage*> After(const Stage& s) const {
    constexpr size_t kMost = 4096;
    absl::flat_hash_set<const Stage*> r;
    std::vector<const Stage*> work = {&s};
    while (!work.empty() && r.size() < kMost) {
      const Stage* from = work.back();
      work.pop_back();
      for (Buffer b : from->outputs) {
        const auto of = users_.find(b);
        if (of == users_.end()) continue;
        for (const Stage* t : of->second) {
          if (t != from && r.insert(t).second) work.push_back(t);
        }
      }
    }
    return r;
  }

  void Split(const Stage& s, const Join& join, const Part& part, std::vector<Stage>& out) {
    const Expr extent = part.rows ? RowsOf(s) : s.reduce_iters[part.iter].extent;
    const Expr parts = part.beside ? c_.Int(part.chunk) : analyzer_.Simplify(c_.CeilDiv(extent, c_.Int(part.chunk)));
    const int64_t inner = part.inner ? s.reduce_iters[*part.inner].extent->int_value : 1;
    const Expr outer = c_.Int(part.chunk / inner);
    Stage first, second = s;
    VarMap to;
    auto copy = [&](const StageIter& i) {
      to[i.var] = c_.Var(names_.Fresh(i.var->name));
      return StageIter{to[i.var], i.extent};
    };
    const Expr elements_of = part.beside ? analyzer_.Simplify(c_.Div(extent, outer)) : c_.Int(part.chunk);
    const StageIter p{c_.Var(names_.Fresh("p")), parts}, q{c_.Var(names_.Fresh("q")), elements_of};
    for (const StageIter& i : s.iters) first.iters.push_back(copy(i));
    const auto place = static_cast<ptrdiff_t>(part.place);
    first.iters.insert(first.iters.begin() + place, p);
    for (size_t k = 0; k < s.reduce_iters.size(); ++k) {
      if (part.rows && k > 0) break;
      if (k != part.inner) first.reduce_iters.push_back(k == part.iter ? q : copy(s.reduce_iters[k]));
    }
    const Expr r = part.beside ? c_.Add(c_.Mul(q.var, outer), c_.Div(p.var, c_.Int(inner)))
                               : c_.Add(c_.Mul(p.var, c_.Int(part.chunk)), q.var);
    const bool rest = !part.beside && analyzer_.KnownDivisor(extent) % part.chunk != 0;
    to[s.reduce_iters[part.iter].var] = r;
    if (part.rows) {
      std::vector<Expr> vars, extents;
      for (const StageIter& i : s.reduce_iters) {
        if (IsInt(i.extent, 1)) to[i.var] = c_.Int(0);
        if (IsInt(i.extent, 1)) continue;
        vars.push_back(i.var);
        extents.push_back(i.extent);
      }
      // Behind the end a row that is there, whose value is not taken.
      const std::vector<Expr> digits = DigitsOf(c_, rest ? c_.Min(r, c_.Sub(extent, c_.Int(1))) : r, extents);
      for (size_t k = 0; k < vars.size(); ++k) to[vars[k]] = digits[k];
    }
    if (part.inner) to[s.reduce_iters[*part.inner].var] = c_.Mod(p.var, c_.Int(inner));
    std::vector<Expr> elements, found;
    std::vector<Expr> at;
    for (const StageIter& i : s.iters) at.push_back(i.var);
    second.reduce_iters = {{c_.Var(names_.Fresh("p")), parts}};
    at.insert(at.begin() + place, second.reduce_iters[0].var);
    for (size_t k = 0; k < s.outputs.size(); ++k) {
      BufferNode node = *s.outputs[k];
      node.name = names_.Fresh(node.name + "_part");
      node.strides.clear();
      node.shape.insert(node.shape.begin() + place, parts);
      first.outputs.push_back(c_.MakeBuffer(std::move(node)));
      found.push_back(c_.Load(first.outputs[k], at));
      first.inits.push_back(Substitute(c_, s.inits[k], to));
      const Expr e = Substitute(c_, join.elements[k], to);
      const Expr inside = c_.Lt(r, extent);
      if (!rest)
        elements.push_back(e);
      else if (part.rows)
        elements.push_back(c_.Select(inside, e, first.inits[k]));
      else if (part.across)  // a row that is there, whose value is not taken: no load waits for a condition
        elements.push_back(c_.Select(
            inside,
            Substitute(c_, e,
                       {{q.var, c_.Select(inside, q.var,
                                          c_.Sub(c_.Sub(extent, c_.Int(1)), c_.Mul(p.var, c_.Int(part.chunk))))}}),
            first.inits[k]));
      else
        elements.push_back(Within(inside, q.var, e, first.inits[k]));
    }
    first.name = first.outputs[0]->name;
    first.origin = s.origin;
    first.values = join.Joined(c_, RunningOf(c_, first), elements);
    for (Expr& v : first.values) v = Substitute(c_, v, to);
    second.values = join.Joined(c_, RunningOf(c_, s), found);
    out.push_back(std::move(first));
    out.push_back(std::move(second));
  }

  // `e` where `inside`, which is when it may read memory at `var`; else `otherwise`.
  Expr Within(Expr inside, Expr var, Expr e, Expr otherwise) {
    const Expr masked = Rewriter(c_, [&](Expr x) -> Expr {
      if (x->op != ExprOp::kLoad || !Uses(x, var)) return nullptr;
      const Expr own = MaskOf(x);
      return c_.Load(x->buffer, IndicesOf(x), own == nullptr ? inside : c_.And(inside, own));
    })(e);
    return c_.Select(inside, masked, otherwise);
  }

  const TeProgram& p_;
  Context& c_;
  NameSupply& names_;
  Analyzer analyzer_;
  std::vector<SymbolFact> symbols_;
  Machine m_;
  bool has_blocks_ = false;
  int64_t most_threads_ = 0;  // of a block
  double near_bytes_ = 0;     // of a core's cache
  double cluster_ = 0;        // blocks that share a reduction
  double registers_ = 0;      // of a core
  int64_t vector_bytes_ = 16;
  absl::flat_hash_map<Buffer, std::vector<const Stage*>> users_;  // who reads or writes it
};

}  // namespace

std::vector<Stage> SplitReductions(const TeProgram& program, const Target& target, NameSupply& names) {
  return Splitter(program, target, names).Run();
}

}  // namespace cinn_like::hlir
