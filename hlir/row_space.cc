#include "hlir/row_space.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "hlir/stage_analysis.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: this file speaks of nothing else

bool RowSpace::HasReduction() const {
  return std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d.reduced; });
}

bool RowSpace::HasScan() const {
  return std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d.scanned; });
}

std::optional<RowSpace> FindRowSpace(const std::vector<Stage>& stages, bool sums) {
  // Classes of iterators that stand for one dimension.
  std::vector<const StageIter*> iters;
  std::vector<std::vector<int>> ids(stages.size());
  absl::flat_hash_map<Expr, int> id_of;
  for (size_t k = 0; k < stages.size(); ++k) {
    for (const auto* list : {&stages[k].iters, &stages[k].reduce_iters}) {
      for (const StageIter& i : *list) {
        id_of[i.var] = static_cast<int>(iters.size());
        ids[k].push_back(static_cast<int>(iters.size()));
        iters.push_back(&i);
      }
    }
  }
  std::vector<int> parent(iters.size());
  std::iota(parent.begin(), parent.end(), 0);
  std::function<int(int)> find = [&](int x) { return parent[x] == x ? x : parent[x] = find(parent[x]); };
  auto is_unit = [&](int i) { return IsInt(iters[i]->extent, 1); };

  absl::flat_hash_map<Buffer, size_t> writer;
  std::vector<std::vector<Expr>> loads(stages.size());
  for (size_t k = 0; k < stages.size(); ++k) {
    loads[k] = LoadsOf(stages[k]);
    for (Expr load : loads[k]) {
      auto it = writer.find(load->buffer);
      if (it == writer.end()) continue;
      if (load->has_mask) return std::nullopt;
      const Stage& from = stages[it->second];
      const std::vector<Expr> at = from.at.empty() ? VarsOf(from.iters) : from.at;
      for (size_t d = 0; d < at.size(); ++d) {
        const auto p = id_of.find(at[d]);
        if (p == id_of.end()) return std::nullopt;
        if (is_unit(p->second)) continue;
        const auto q = id_of.find(load->args[d]);
        if (q == id_of.end() || iters[q->second]->extent != iters[p->second]->extent) return std::nullopt;
        parent[find(q->second)] = find(p->second);
      }
    }
    for (Buffer b : stages[k].outputs) writer[b] = k;
  }

  // Stages that are not linked so may run side by side over a tensor that both read, element by element.
  std::vector<size_t> linked(stages.size());
  std::iota(linked.begin(), linked.end(), 0);
  auto link = [&](size_t a, size_t b) { std::replace(linked.begin(), linked.end(), size_t{linked[a]}, linked[b]); };
  for (size_t k = 0; k < stages.size(); ++k) {
    for (Buffer b : InputsOf(stages[k])) {
      if (auto it = writer.find(b); it != writer.end()) link(k, it->second);
    }
  }
  // Whether two index expressions are the same but for their iterators, which then stand for each other.
  std::vector<std::pair<int, int>> pairs;
  std::function<bool(Expr, Expr)> same_form = [&](Expr x, Expr y) {
    const auto p = id_of.find(x), q = id_of.find(y);
    if (p != id_of.end() && q != id_of.end()) {
      pairs.push_back({p->second, q->second});
      return iters[p->second]->extent == iters[q->second]->extent;
    }
    if (p != id_of.end() || q != id_of.end()) return false;
    if (x->args.empty() || y->args.empty()) return x == y;
    if (x->op != y->op || x->type != y->type || x->buffer != y->buffer || x->args.size() != y->args.size())
      return false;
    for (size_t i = 0; i < x->args.size(); ++i) {
      if (!same_form(x->args[i], y->args[i])) return false;
    }
    return true;
  };
  // Sums of columns are linked with each stage apart: what they keep, others reduce.
  const auto is_sum = [&](size_t k) { return sums && stages[k].IsReduction(); };
  for (size_t k = 1; k < stages.size(); ++k) {
    for (size_t j = 0; j < k; ++j) {
      for (Expr mine : loads[k]) {
        if (linked[k] == linked[j] && !is_sum(k) && !is_sum(j)) break;
        if (writer.contains(mine->buffer)) continue;
        for (Expr other : loads[j]) {
          if (other->buffer != mine->buffer || other->has_mask != mine->has_mask) continue;
          pairs.clear();
          bool same = true;
          for (size_t d = 0; d < mine->args.size() && same; ++d) {
            const bool is_unit_dim = d < mine->buffer->shape.size() && IsInt(mine->buffer->shape[d], 1);
            same = is_unit_dim || same_form(mine->args[d], other->args[d]);
          }
          if (!same) continue;
          for (auto [p, q] : pairs) parent[find(p)] = find(q);
          link(k, j);
          break;
        }
      }
      // What is made of places alone runs beside the same of as many.
      if (linked[k] == linked[j] || !stages[k].IsPointwise() || !stages[j].IsPointwise()) continue;
      if (!loads[k].empty() || !loads[j].empty()) continue;
      std::vector<int> mine = ids[k], others = ids[j];
      std::erase_if(mine, is_unit);
      std::erase_if(others, is_unit);
      if (!std::equal(mine.begin(), mine.end(), others.begin(), others.end(),
                      [&](int p, int q) { return iters[p]->extent == iters[q]->extent; }))
        continue;
      for (size_t d = 0; d < mine.size(); ++d) parent[find(mine[d])] = find(others[d]);
      link(k, j);
    }
  }

  // A reduction over a tensor from outside runs along what another stage of the same row reads of that tensor: max(x[i,
  // r]) and exp(x[i, j] - ...) share r and j. Only the length of the row depends on it, so one link is enough.
  std::vector<int> class_size(iters.size(), 0);
  for (size_t i = 0; i < iters.size(); ++i) ++class_size[find(static_cast<int>(i))];
  for (size_t k = 0; k < stages.size(); ++k) {
    for (const StageIter& r : stages[k].reduce_iters) {
      const int own = id_of[r.var];
      if (class_size[find(own)] > 1 || is_unit(own)) continue;
      for (Expr load : loads[k]) {
        if (writer.contains(load->buffer)) continue;
        for (size_t j = 0; j < stages.size(); ++j) {
          if (j == k) continue;
          for (Expr other : loads[j]) {
            if (other->buffer != load->buffer || find(own) != own) continue;
            for (size_t d = 0; d < load->buffer->shape.size(); ++d) {
              pairs.clear();
              if (!Uses(load->args[d], r.var) || !same_form(load->args[d], other->args[d])) continue;
              std::optional<int> its;  // the index's other iterators stand for one another already
              bool same = true;
              for (auto [p, q] : pairs) {
                if (p == own)
                  its = q;
                else
                  same = same && (is_unit(p) || find(p) == find(q));
              }
              if (!its || !same) continue;
              const bool diagonal =
                  std::any_of(ids[k].begin(), ids[k].end(), [&](int i) { return find(i) == find(*its); });
              if (!diagonal) parent[own] = find(*its);
            }
          }
        }
      }
    }
  }

  // Numbers that some other stage needs together, each of as many elements, are reduced side by side.
  const auto reduced_alone = [&](size_t k) -> int {
    int alone = -1;
    for (size_t i = 0; i < ids[k].size(); ++i) {
      if (is_unit(ids[k][i])) continue;
      if (i < stages[k].iters.size() || alone >= 0) return -1;
      alone = ids[k][i];
    }
    return alone;
  };
  for (size_t k = 1; k < stages.size(); ++k) {
    const int mine = reduced_alone(k);
    for (size_t j = 0; j < k && mine >= 0; ++j) {
      const int other = linked[j] == linked[k] ? reduced_alone(j) : -1;
      if (other >= 0 && iters[other]->extent == iters[mine]->extent) parent[find(mine)] = find(other);
    }
  }

  // The classes become dimensions in the order of the stage with the most of them.
  auto classes_of = [&](size_t k) {
    std::vector<int> r;
    for (int i : ids[k]) {
      if (!is_unit(i)) r.push_back(find(i));
    }
    return r;
  };
  absl::flat_hash_set<int> reduced, scanned;
  size_t widest = 0;
  for (size_t k = 0; k < stages.size(); ++k) {
    const std::vector<int> mine = classes_of(k);
    if (absl::flat_hash_set<int>(mine.begin(), mine.end()).size() != mine.size()) return std::nullopt;  // a diagonal
    // The last widest stage: results are laid out as they are written.
    if (mine.size() >= classes_of(widest).size()) widest = k;
    for (size_t i = stages[k].iters.size(); i < ids[k].size(); ++i) {
      if (!is_unit(ids[k][i])) reduced.insert(find(ids[k][i]));
    }
    if (stages[k].IsScan() && !is_unit(id_of[stages[k].along])) scanned.insert(find(id_of[stages[k].along]));
  }
  RowSpace space;
  absl::flat_hash_map<int, int> dim;
  std::vector<int> widest_order;
  {
    // Iterators of the widest stage, data and reduced, in their order.
    for (int i : ids[widest]) {
      if (!is_unit(i)) widest_order.push_back(i);
    }
  }
  for (int i : widest_order) {
    dim[find(i)] = static_cast<int>(space.dims.size());
    const bool scans = scanned.contains(find(i));
    space.dims.push_back({iters[i]->extent, scans || reduced.contains(find(i)), scans});
  }
  for (size_t k = 0; k < stages.size(); ++k) {
    std::vector<int> dims;
    absl::flat_hash_set<int> present;
    for (size_t i = 0; i < ids[k].size(); ++i) {
      int d = -1;
      if (!is_unit(ids[k][i])) {
        auto it = dim.find(find(ids[k][i]));
        if (it == dim.end()) return std::nullopt;  // no stage has all dimensions
        d = it->second;
        present.insert(d);
        const bool is_reduce_iter = i >= stages[k].iters.size();
        // A reduction keeps no dimension that others reduce.
        if (!sums && stages[k].IsReduction() && !is_reduce_iter && space.dims[d].reduced) return std::nullopt;
      }
      dims.push_back(d);
    }
    for (size_t d = 0; d < space.dims.size(); ++d) {
      const bool has = present.contains(static_cast<int>(d));
      // A stage without a parallel dimension would be repeated along it; a reduction runs over all reduced ones.
      if (!has && (!space.dims[d].reduced || stages[k].IsReduction())) return std::nullopt;
    }
    space.dim_of.push_back(std::move(dims));
  }
  return space;
}

bool MovesAcross(const std::vector<Stage>& stages, const std::vector<Buffer>& outputs) {
  const std::optional<RowSpace> space = FindRowSpace(stages);
  if (!space) return false;
  absl::flat_hash_set<Buffer> made;
  for (const Stage& s : stages) made.insert(s.outputs.begin(), s.outputs.end());
  std::set<int> ends;
  for (size_t k = 0; k < stages.size(); ++k) {
    const Stage& s = stages[k];
    const auto look = [&](const std::vector<Expr>& indices) {
      int last = -1;
      size_t used = 0;
      for (Expr index : indices) {
        for (size_t i = 0; i < space->dim_of[k].size(); ++i) {
          const Expr var = i < s.iters.size() ? s.iters[i].var : s.reduce_iters[i - s.iters.size()].var;
          if (index != var || space->dim_of[k][i] < 0) continue;
          last = space->dim_of[k][i];
          ++used;
        }
      }
      if (last >= 0 && used == space->dims.size()) ends.insert(last);
    };
    if (Contains(outputs, s.outputs[0])) look(s.at.empty() ? VarsOf(s.iters) : s.at);
    for (Expr v : s.values) {
      VisitLoads(v, [&](Expr e) {
        if (!made.contains(e->buffer)) look(IndicesOf(e));
      });
    }
  }
  if (!space->HasReduction()) return ends.size() > 1;
  const auto is_reduced = [&](int d) { return space->dims[d].reduced; };
  return std::any_of(ends.begin(), ends.end(), is_reduced) && !std::all_of(ends.begin(), ends.end(), is_reduced);
}

Expr IterOf(const TeProgram& p, const RowSpace& space, size_t k, int dim) {
  const Stage& s = p.stages[k];
  for (size_t i = 0; i < space.dim_of[k].size(); ++i) {
    if (space.dim_of[k][i] != dim) continue;
    return i < s.iters.size() ? s.iters[i].var : s.reduce_iters[i - s.iters.size()].var;
  }
  return nullptr;
}

int64_t ThreadsOfSummedRow(int64_t accesses, int64_t most) {
  constexpr int64_t kMost = 512, kAccesses = 4;  // threads; a thread's
  most = std::min(most, kMost);
  int64_t best = most, least = INT64_MAX;
  for (int64_t threads = most; threads >= 32; threads /= 2) {
    const int64_t each = (accesses + threads - 1) / threads;
    if (each <= kAccesses && each * threads < least) best = threads, least = each * threads;
  }
  return best;
}

std::vector<Expr> DigitsOf(Context& c, Expr r, const std::vector<Expr>& extents) {
  std::vector<Expr> digits;
  Expr below = nullptr;  // rows of one step of the digit
  for (size_t k = extents.size(); k-- > 0;) {
    Expr digit = below == nullptr ? r : c.Div(r, below);
    if (k > 0) digit = c.Mod(digit, extents[k]);
    digits.insert(digits.begin(), digit);
    below = below == nullptr ? extents[k] : c.Mul(extents[k], below);
  }
  return digits;
}

namespace {

std::optional<Parts> ChunksOf(Context& c, const Stage& s) {
  if (s.reduce_iters.size() != 1 || !IsInt(s.reduce_iters[0].extent)) return std::nullopt;
  const StageIter& q = s.reduce_iters[0];
  for (const StageIter& p : s.iters) {
    const Expr row = c.Add(c.Mul(p.var, q.extent), q.var);
    Expr place = row;
    bool only = true;
    std::vector<Expr> found;
    for (Expr v : s.values) {
      Visit(v, [&](Expr e) {
        if (e->op == ExprOp::kMin && e->args[0] == row) place = e;
        only &= e != p.var && e != q.var;
        return e != row && !(e->op == ExprOp::kLoad && Contains(s.outputs, e->buffer));
      });
    }
    // A digit is place / D % E; where D is, and of which it is the first.
    const auto below = [&](Expr e) {
      const Expr x = e->op == ExprOp::kMod ? e->args[0] : e;
      return x == place ? c.Int(1) : x->op == ExprOp::kDiv && x->args[0] == place ? x->args[1] : nullptr;
    };
    for (Expr load : LoadsOf(s)) {
      if (Contains(s.outputs, load->buffer)) continue;
      for (Expr e : IndicesOf(load)) {
        if (!Uses(e, p.var) || std::count(found.begin(), found.end(), e) > 0) continue;
        only &= below(e) != nullptr;
        found.push_back(e);
      }
    }
    if (!only || found.empty()) continue;
    // The outermost first: what is below it has the most factors.
    std::sort(found.begin(), found.end(), [&](Expr x, Expr y) {
      const Expr m = below(x), n = below(y);
      if (IsInt(m) != IsInt(n)) return IsInt(n);
      return IsInt(m) ? m->int_value > n->int_value : m->size > n->size;
    });
    return Parts{p, q, found, 1};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Parts> PartsOf(Context& c, const Stage& s, bool chunks) {
  if (chunks) return ChunksOf(c, s);
  for (const StageIter& p : s.iters) {
    if (!IsInt(p.extent) || p.extent->int_value < 2) continue;
    int64_t inner = 1;
    for (Expr v : s.values) {
      Visit(v, [&](Expr e) {
        if (e->op == ExprOp::kMod && e->args[0] == p.var && IsInt(e->args[1])) inner = e->args[1]->int_value;
        return true;
      });
    }
    if (inner < 1 || p.extent->int_value % inner != 0) continue;
    for (const StageIter& q : s.reduce_iters) {
      Parts r{p, q, {c.Add(c.Mul(q.var, c.Int(p.extent->int_value / inner)), c.Div(p.var, c.Int(inner)))}, inner};
      if (inner > 1) r.places.push_back(c.Mod(p.var, c.Int(inner)));
      bool found = false, only = true;
      for (Expr v : s.values) {
        Visit(v, [&](Expr e) {
          const bool is_place = std::count(r.places.begin(), r.places.end(), e) > 0;
          const bool is_own = e->op == ExprOp::kLoad && Contains(s.outputs, e->buffer);
          found |= e == r.places[0];
          only &= e != p.var && e != q.var;
          return !is_place && !is_own;
        });
      }
      if (found && only) return r;
    }
  }
  return std::nullopt;
}

std::optional<ColumnSums> FindColumnSums(Context& c, const std::vector<Stage>& stages, bool chunks) {
  ColumnSums r{0, 1, {}, {}};
  std::vector<Parts> parts;
  std::vector<size_t> others;
  std::vector<Stage> rows;
  std::vector<Buffer> summed;
  for (size_t k = 0; k < stages.size(); ++k) {
    const Stage& s = stages[k];
    if (const std::optional<Parts> of = s.iters.size() > 1 ? PartsOf(c, s, chunks) : std::nullopt) {
      r.sums.push_back(k);
      parts.push_back(*of);
      summed.insert(summed.end(), s.outputs.begin(), s.outputs.end());
    } else {
      others.push_back(k);
      rows.push_back(s);
    }
  }
  if (r.sums.empty() || rows.empty()) return std::nullopt;
  for (const Stage& s : rows) {
    for (Buffer b : InputsOf(s)) {
      if (Contains(summed, b)) return std::nullopt;
    }
  }
  const std::optional<RowSpace> space = FindRowSpace(rows);
  if (!space || !FindRowSpace(rows, true)) return std::nullopt;
  const auto dim_of = [&](size_t k, Expr var) {
    for (size_t i = 0; i < space->dim_of[k].size(); ++i) {
      const size_t data = rows[k].iters.size();
      if ((i < data ? rows[k].iters[i] : rows[k].reduce_iters[i - data]).var == var) return space->dim_of[k][i];
    }
    return -1;
  };
  std::vector<int> digits;  // the dimension of each place
  for (size_t n = 0; n < r.sums.size(); ++n) {
    const Stage &s = stages[r.sums[n]], &first = stages[r.sums[0]];
    const std::vector<Expr>& places = parts[n].places;
    if (parts[n].part.extent != parts[0].part.extent || parts[n].inner != parts[0].inner ||
        places.size() != parts[0].places.size() || s.iters.size() != first.iters.size() ||
        s.reduce_iters.size() != first.reduce_iters.size())
      return std::nullopt;
    // Which dimension each of its iterators is, by what it reads that a row reads or computes too.
    absl::flat_hash_map<Expr, int> dims;
    bool agree = true;
    const auto match = [&](size_t k, const std::vector<Expr>& mine, const std::vector<Expr>& at) {
      absl::flat_hash_map<Expr, int> found;
      for (size_t d = 0; d < mine.size(); ++d) {
        const int dim = dim_of(k, at[d]);
        if (dim >= 0)
          found[mine[d]] = dim;
        else if (mine[d] != at[d] && !IsInt(mine[d], 0))
          return false;
      }
      for (auto [e, dim] : found) {
        const auto [it, fresh] = dims.emplace(e, dim);
        agree &= fresh || it->second == dim;
      }
      return true;
    };
    for (Expr load : LoadsOf(s)) {
      if (Contains(s.outputs, load->buffer)) continue;
      for (size_t k = 0; k < rows.size(); ++k) {
        if (Contains(rows[k].outputs, load->buffer)) {
          if (!rows[k].at.empty() || load->has_mask || !match(k, load->args, VarsOf(rows[k].iters)))
            return std::nullopt;
        }
        for (Expr other : LoadsOf(rows[k])) {
          if (other->buffer == load->buffer && !load->has_mask && !other->has_mask) match(k, load->args, other->args);
        }
      }
    }
    absl::flat_hash_set<int> covered;
    const auto covers = [&](Expr e, Expr extent, bool parallel) {
      if (extent != nullptr && IsInt(extent, 1)) return true;
      const auto it = dims.find(e);
      if (it == dims.end() || !covered.insert(it->second).second) return false;
      const RowSpace::Dim& dim = space->dims[it->second];
      return !(parallel && dim.reduced) && (extent == nullptr || dim.extent == extent);
    };
    bool all = true;
    for (size_t d = 0; d < places.size(); ++d)
      all = all && covers(places[d], !chunks && d == 1 ? c.Int(parts[n].inner) : nullptr, true);
    for (const StageIter& i : s.iters) all = all && (i.var == parts[n].part.var || covers(i.var, i.extent, false));
    for (const StageIter& i : s.reduce_iters)
      all = all && (i.var == parts[n].element.var || covers(i.var, i.extent, true));
    if (!all || !agree || covered.size() != space->dims.size()) return std::nullopt;
    std::vector<int> mine;
    for (Expr e : places) mine.push_back(dims[e]);
    if (n > 0 && mine != digits) return std::nullopt;
    digits = mine;
  }
  r.parts = IsInt(parts[0].part.extent) ? parts[0].part.extent->int_value : 0;
  r.inner = parts[0].inner;
  for (size_t k = 0; k < rows.size(); ++k) {
    ColumnSums::Rows of{others[k], {}};
    for (int d : digits) {
      for (size_t i = 0; i < rows[k].iters.size(); ++i) {
        if (space->dim_of[k][i] == d) of.digits.push_back(rows[k].iters[i].var);
      }
    }
    if (of.digits.size() != digits.size()) return std::nullopt;
    r.rows.push_back(of);
  }
  return r;
}

}  // namespace cinn_like::hlir
