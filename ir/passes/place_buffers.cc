#include "ir/passes/place_buffers.h"

#include <algorithm>

#include "ir/linear.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

struct Access {
  StmtPath path;  // to the statement
  std::vector<Expr> indices;
  Expr mask;  // may be null
};

// A loop variable that runs inside the place of the allocation.
struct InnerVar {
  Expr extent;
  bool is_thread;
};

class Placer {
 public:
  explicit Placer(Func& f) : f_(f), c_(*f.context) {}

  // `stack`: bytes that a thread has on its stack so far; null in a kernel.
  Status Place(Buffer b, int64_t* stack) {
    const Stmt without = RewriteStmts(f_.body, [&](const Stmt& s) -> Stmt {
      const Alloc* a = As<Alloc>(s);
      return a != nullptr && a->buffer == b ? MakeSeq({}) : nullptr;
    });
    CollectAccesses(without, b);
    for (const Access& a : accesses_) {
      for (Expr i : a.indices) {
        if (i->type.lanes > 1) return absl::OkStatus();  // vectorized: it was placed before
      }
    }
    f_.body = without;
    if (accesses_.empty()) return absl::OkStatus();
    // The depth to which all paths agree; the statement there holds every access.
    size_t depth = accesses_[0].path.size();
    for (const Access& a : accesses_) {
      size_t d = 0;
      while (d < depth && d < a.path.size() && a.path[d] == accesses_[0].path[d]) ++d;
      depth = d;
    }
    // What an iteration of a while leaves, the next one may read.
    for (size_t d = 0; d < depth; ++d) {
      if (As<While>(accesses_[0].path[d]) != nullptr) depth = d;
    }
    RET_CHECK(depth > 0, b->name);
    const Stmt home = accesses_[0].path[depth - 1];
    inner_.clear();
    Analyzer analyzer(c_);
    BindFacts(analyzer, f_);
    for (size_t i = 0; i < depth; ++i) {
      const For* n = As<For>(accesses_[0].path[i]);
      if (n == nullptr) continue;
      analyzer.BindRange(n->var, c_.Int(0), n->extent);
      // Threads around the allocation share it.
      if (b->scope == Scope::kShared && IsThreadAxis(n->kind)) inner_[n->var] = {n->extent, false};
    }
    canonical_.clear();
    for (const Access& a : accesses_) {
      for (size_t i = depth; i < a.path.size(); ++i) {
        const For* n = As<For>(a.path[i]);
        if (n == nullptr) continue;
        const bool is_thread = (IsThreadAxis(n->kind) || IsBlockAxis(n->kind)) && b->scope == Scope::kLocal;
        Expr var = n->var;
        if (is_thread) {
          var = c_.Var(Cat(Name(n->kind)));
          canonical_[n->var] = var;
          auto it = inner_.find(var);
          if (it != inner_.end() && it->second.extent->int_value >= n->extent->int_value) continue;
        }
        inner_[var] = {n->extent, is_thread};
        analyzer.BindRange(var, c_.Int(0), n->extent);
      }
    }

    std::vector<std::vector<Expr>> old(accesses_.size());
    for (size_t k = 0; k < accesses_.size(); ++k) {
      for (Expr e : accesses_[k].indices) old[k].push_back(analyzer.Simplify(Substitute(c_, e, canonical_)));
    }
    SplitThreads(old, analyzer);
    StatusOr<Placement> placement = Shrink(*b, old, b->shape, analyzer);
    // Digits of one index in several dimensions (v / m, v % m) come together in the offset over these dimensions. Where
    // an index may run over an inner dimension (padding), offsets would run into each other.
    const size_t rank = b->shape.size();
    for (size_t begin = 0; begin + 1 < rank; ++begin) {
      for (size_t end = rank; end > begin + 1; --end) {
        if (b->pitch_factor != 0) continue;
        StatusOr<Placement> joined = ShrinkJoined(*b, old, begin, end, analyzer);
        if (joined.ok() && (!placement.ok() || joined->Elements() < placement->Elements()))
          placement = std::move(joined);
      }
    }
    RETURN_IF_ERROR(placement.status());
    const auto& [indices, shape] = *placement;
    BufferNode n = *b;
    n.shape = shape;
    n.strides.clear();
    if (n.pitch_factor != 0 && IsInt(shape.back())) {
      const int64_t gap = (n.pitch_offset - shape.back()->int_value) % n.pitch_factor;
      n.shape.back() = c_.Int(shape.back()->int_value + (gap < 0 ? gap + n.pitch_factor : gap));
    }
    n.pitch_factor = n.pitch_offset = 0;
    if (stack != nullptr && n.scope == Scope::kLocal) n.scope = OnStack(n, *stack);
    const Buffer placed = c_.MakeBuffer(std::move(n));
    absl::flat_hash_map<std::vector<Expr>, std::vector<Expr>> map;
    for (size_t k = 0; k < accesses_.size(); ++k) map[accesses_[k].indices] = indices[k];
    Stmt inside = Rename(home, b, placed, map);
    if (const Seq* q = As<Seq>(inside)) {
      // Just before the first use.
      std::vector<Stmt> v;
      bool done = false;
      for (const Stmt& s : q->stmts) {
        if (!done && UsesBuffer(s, placed)) {
          v.push_back(MakeStmt(Alloc{placed}));
          done = true;
        }
        v.push_back(s);
      }
      inside = MakeSeq(std::move(v));
    } else {
      inside = MakeSeq({MakeStmt(Alloc{placed}), inside});
    }
    f_.body = Replace(f_.body, home, inside);
    return absl::OkStatus();
  }

 private:
  struct Placement {
    std::vector<std::vector<Expr>> indices;  // of every access
    std::vector<Expr> shape;
    double Elements() const {
      double n = 1;
      for (Expr e : shape) n *= IsInt(e) ? static_cast<double>(e->int_value) : 1e18;
      return n;
    }
  };

  // Local where the stack has room, else memory that is asked for: bounds that can't be proven may leave all of a
  // symbolic size.
  static Scope OnStack(const BufferNode& b, int64_t& stack) {
    double bytes = std::max(BytesOf(b.dtype), BytesOf(DType::kF32));  // keep_wide makes f32 of halves
    for (Expr e : b.shape) bytes *= IsInt(e) ? static_cast<double>(e->int_value) : 2.0 * kMaxStackBytes;
    if (static_cast<double>(stack) + bytes > kMaxStackBytes) return Scope::kGlobal;
    stack += static_cast<int64_t>(bytes);
    return Scope::kLocal;
  }

  // Dimension by dimension, what moves inside of the allocation.
  StatusOr<Placement> Shrink(const BufferNode& b, const std::vector<std::vector<Expr>>& old,
                             const std::vector<Expr>& old_shape, Analyzer& analyzer) {
    Placement r;
    r.indices.resize(old.size());
    for (size_t d = 0; d < old_shape.size(); ++d) {
      std::vector<Linear> l;
      for (const std::vector<Expr>& index : old) {
        l.push_back(ToLinear(c_, index[d]));
        if (!l.back().exact) return InvalidArgument("buffer ", b.name, ": the index ", Print(index[d]), " overflows");
      }
      const std::vector<Linear> whole = l;
      int64_t start = DropFixed(l, analyzer);
      // What falls from where it starts (n - 1 - v) keeps that.
      const bool falls = std::any_of(l.begin(), l.end(), [](const Linear& x) {
        return std::any_of(x.terms.begin(), x.terms.end(), [](const LinearTerm& t) { return t.coef < 0; });
      });
      if (falls) l = whole, start = 0;
      if (b.scope == Scope::kLocal) {
        RETURN_IF_ERROR(DropThreads(b, d, l, analyzer));
      }
      int64_t hi = 0;
      for (const Linear& x : l) hi = std::max(hi, analyzer.ConstBounds(FromLinear(c_, x, DType::kI64)).hi);
      // A symbol's own bound is far from what it is.
      bool in_bounds = IsInt(old_shape[d]) || (hi >= kMaxStackBytes && hi < Analyzer::kUnknown);
      for (size_t k = 0; k < l.size(); ++k)
        in_bounds = in_bounds && StaysBelow(accesses_[k].path, old[k][d], old_shape[d], analyzer);
      if (in_bounds) hi = IsInt(old_shape[d]) ? std::min(hi, old_shape[d]->int_value - 1 - start) : Analyzer::kUnknown;
      // Loops that are rounded up run over the shape: as far as their extents say.
      Expr reach = nullptr;
      if (!in_bounds && hi >= kMaxStackBytes && !IsInt(old_shape[d])) {
        reach = Reach(l, analyzer);
        if (reach == nullptr && old_shape.size() < b.shape.size())
          return Internal("buffer ", b.name, ": what dimension ", d, " needs is not known");
      }
      r.shape.push_back(reach != nullptr           ? reach
                        : hi >= Analyzer::kUnknown ? c_.Sub(old_shape[d], c_.Int(start))
                                                   : c_.Int(hi + 1));
      for (size_t k = 0; k < l.size(); ++k) {
        const Expr index = FromLinear(c_, l[k], DType::kI64);
        for (Expr thread : Threads()) {
          if (Uses(index, thread)) {
            return Unimplemented("local buffer ", b.name, ": dimension ", d, " at ", Print(index),
                                 " depends on the thread\n", Print(f_));
          }
        }
        r.indices[k].push_back(index);
      }
    }
    return r;
  }

  // One more than the largest of `l`, in symbols and what is around, and no less than 0, where loops may not run; null
  // if loops move it in another way than step by step.
  Expr Reach(const std::vector<Linear>& l, Analyzer& analyzer) {
    const auto is_inside = [&](Expr v) { return inner_.contains(v); };
    const auto moves = [&](Expr e) {
      const std::vector<Expr> vars = VarsOf(e);
      return std::any_of(vars.begin(), vars.end(), is_inside);
    };
    Expr most = c_.Int(0);
    for (const Linear& x : l) {
      Expr last = c_.Int(x.constant + 1);
      for (const LinearTerm& t : x.terms) {
        const auto it = inner_.find(t.atom);
        if (moves(it != inner_.end() ? it->second.extent : t.atom)) return nullptr;
        if (it == inner_.end())
          last = c_.Add(last, c_.Mul(t.atom, c_.Int(t.coef)));
        else if (t.coef > 0)
          last = c_.Add(last, c_.Mul(c_.Sub(it->second.extent, c_.Int(1)), c_.Int(t.coef)));
      }
      most = analyzer.Simplify(c_.Max(most, last));
    }
    return most;
  }

  // The same with dimensions [begin, end) as one.
  StatusOr<Placement> ShrinkJoined(const BufferNode& b, const std::vector<std::vector<Expr>>& old, size_t begin,
                                   size_t end, Analyzer& analyzer) {
    std::vector<Expr> shape;
    std::vector<std::vector<Expr>> indices(old.size());
    for (size_t d = 0; d < b.shape.size(); ++d) {
      const bool joins = d > begin && d < end;
      if (joins)
        shape.back() = c_.Mul(shape.back(), b.shape[d]);
      else
        shape.push_back(b.shape[d]);
      for (size_t k = 0; k < old.size(); ++k) {
        if (!joins) {
          indices[k].push_back(old[k][d]);
          continue;
        }
        if (!StaysBelow(accesses_[k].path, old[k][d], b.shape[d], analyzer))
          return Internal("local buffer ", b.name, ": dimension ", d, " at ", Print(old[k][d]), " may run over");
        indices[k].back() = c_.Add(c_.Mul(indices[k].back(), b.shape[d]), old[k][d]);
      }
    }
    for (std::vector<Expr>& index : indices) index[begin] = analyzer.Simplify(index[begin]);
    return Shrink(b, indices, shape, analyzer);
  }

  // The conditions around a statement.
  Expr ConditionOf(const StmtPath& path) {
    Expr around = c_.Bool(true);
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      const If* n = As<If>(path[i]);
      if (n != nullptr && path[i + 1] == n->then) around = c_.And(around, n->cond);
    }
    return Substitute(c_, around, canonical_);
  }

  // Whether index < size, as the conditions around the access say.
  bool StaysBelow(const StmtPath& path, Expr index, Expr size, Analyzer& analyzer) {
    const Analyzer::Assume assume(analyzer, ConditionOf(path));
    return analyzer.CanProve(c_.Lt(index, size));
  }

  static bool UsesBuffer(const Stmt& s, Buffer b) {
    const std::vector<Buffer> r = BuffersRead(s), w = BuffersWritten(s);
    return std::find(r.begin(), r.end(), b) != r.end() || std::find(w.begin(), w.end(), b) != w.end();
  }

  void CollectAccesses(const Stmt& body, Buffer b) {
    accesses_.clear();
    StmtPath path;
    std::function<void(const Stmt&)> go = [&](const Stmt& s) {
      path.push_back(s);
      auto expr = [&](Expr e) {
        Visit(e, [&](Expr x) {
          if (x->op == ExprOp::kLoad && x->buffer == b) accesses_.push_back({path, IndicesOf(x), MaskOf(x)});
          return true;
        });
      };
      if (const Store* n = As<Store>(s); n != nullptr && n->buffer == b)
        accesses_.push_back({path, n->indices, n->mask});
      ForEachChild(s, expr, go);
      path.pop_back();
    };
    go(body);
  }

  // The threads' numbers in the order of their names: code must not follow addresses.
  std::vector<Expr> Threads() const {
    std::vector<Expr> threads;
    for (const auto& [var, info] : inner_) {
      if (info.is_thread) threads.push_back(var);
    }
    std::sort(threads.begin(), threads.end(), [](Expr a, Expr b) { return a->name < b->name; });
    return threads;
  }

  // A thread's number that indices speak of by its digits alone, t / 8, t / 4 % 2 and t % 4, becomes several threads'
  // numbers, the lowest digit's first.
  void SplitThreads(std::vector<std::vector<Expr>>& indices, Analyzer& analyzer) {
    std::vector<Expr> threads = Threads();
    std::erase_if(threads, [&](Expr thread) { return !IsInt(inner_.at(thread).extent); });
    while (!threads.empty()) {
      const Expr thread = threads.back();
      threads.pop_back();
      const int64_t extent = inner_.at(thread).extent->int_value;
      const auto is_digit = [&](Expr e) {
        return (e->op == ExprOp::kDiv || e->op == ExprOp::kMod) && e->args[0] == thread && IsInt(e->args[1]);
      };
      int64_t factor = extent;
      for (const std::vector<Expr>& index : indices) {
        for (Expr e : index) {
          Visit(e, [&](Expr x) {
            if (is_digit(x)) factor = std::min(factor, x->args[1]->int_value);
            return true;
          });
        }
      }
      if (factor < 2 || factor == extent || extent % factor != 0) continue;
      const Expr high = c_.Var(Cat(thread->name, "_high"), thread->type),
                 low = c_.Var(Cat(thread->name, "_low"), thread->type);
      Rewriter rewrite(c_, [&](Expr e) -> Expr {
        if (!is_digit(e) || e->args[1]->int_value % factor != 0) return nullptr;
        const Expr rest = c_.Int(e->args[1]->int_value / factor, thread->type.dtype);
        if (e->op == ExprOp::kDiv) return IsInt(rest, 1) ? high : c_.Div(high, rest);
        if (IsInt(rest, 1)) return low;
        return c_.Add(c_.Mul(c_.Mod(high, rest), c_.Int(factor, thread->type.dtype)), low);
      });
      std::vector<std::vector<Expr>> digits = indices;
      bool alone = true;
      for (std::vector<Expr>& index : digits) {
        for (Expr& e : index) {
          e = rewrite(e);
          alone = alone && !Uses(e, thread);
        }
      }
      if (!alone) continue;
      indices = std::move(digits);
      inner_.erase(thread);
      inner_[high] = {c_.Int(extent / factor), true};
      inner_[low] = {c_.Int(factor), true};
      for (Expr v : {high, low}) analyzer.BindRange(v, c_.Int(0), inner_[v].extent);
      threads.push_back(high);
    }
  }

  // Subtracts the part that only variables outside of the allocation move, if it is the same in every access, and where
  // what is left begins, if that is below 0: the constant of rows that run downwards (n - 1 - p), which it gives.
  int64_t DropFixed(std::vector<Linear>& l, Analyzer& analyzer) {
    std::vector<Linear> fixed(l.size());
    for (size_t k = 0; k < l.size(); ++k) {
      for (const LinearTerm& t : l[k].terms) {
        const std::vector<Expr> vars = VarsOf(t.atom);
        if (std::none_of(vars.begin(), vars.end(), [&](Expr v) { return inner_.contains(v); }))
          AddTerm(fixed[k], t.atom, t.coef);
      }
    }
    for (const Linear& x : fixed) {
      if (FromLinear(c_, x, DType::kI64) != FromLinear(c_, fixed[0], DType::kI64)) return 0;
    }
    for (Linear& x : l) x = AddScaled(x, fixed[0], -1);
    int64_t start = 0;
    for (size_t k = 0; k < l.size(); ++k) {
      const Expr mask = accesses_[k].mask;
      Expr where = ConditionOf(accesses_[k].path);
      if (mask != nullptr) where = c_.And(where, Substitute(c_, mask, canonical_));
      const Analyzer::Assume assume(analyzer, where);
      const int64_t lowest = analyzer.ConstBounds(FromLinear(c_, l[k], DType::kI64)).lo;
      if (lowest > -Analyzer::kUnknown) start = std::min(start, lowest);
    }
    for (Linear& x : l) x.constant -= start;
    // The same whole index everywhere, moved by threads alone: one element for each thread.
    const Expr first = FromLinear(c_, l[0], DType::kI64);
    const bool same =
        std::all_of(l.begin(), l.end(), [&](const Linear& x) { return FromLinear(c_, x, DType::kI64) == first; });
    const std::vector<Expr> vars = VarsOf(first);
    if (same &&
        std::all_of(vars.begin(), vars.end(), [&](Expr v) { return !inner_.contains(v) || inner_.at(v).is_thread; })) {
      for (Linear& x : l) x = Linear();
      start = 0;
    }
    return start;
  }

  // Removes the mixed-radix digit of each thread variable: k*2048 + t*8 + v with t in 0..256 becomes k*8 + v.
  // An access that only the first thread comes to may lack the thread: its digit is 0.
  Status DropThreads(const BufferNode& b, size_t d, std::vector<Linear>& l, Analyzer& analyzer) {
    for (Expr thread : Threads()) {
      const Expr extent = inner_.at(thread).extent;
      WrapInt coef = 0;
      for (const Linear& x : l) {
        for (const LinearTerm& t : x.terms) {
          if (t.atom == thread) coef = t.coef;
        }
      }
      if (coef == 0) continue;
      const int64_t threads = IsInt(extent) ? extent->int_value : int64_t{1} << 31;
      for (size_t k = 0; k < l.size(); ++k) {
        Linear& x = l[k];
        Linear r;
        r.constant = x.constant;
        bool found =
            !Uses(FromLinear(c_, x, DType::kI64), thread) && StaysBelow(accesses_[k].path, thread, c_.Int(1), analyzer);
        bool fits = true;
        WrapInt low = x.constant;
        for (const LinearTerm& t : x.terms) {
          if (t.atom == thread) {
            found = t.coef == coef;
            continue;
          }
          if (t.coef % (coef * threads) == 0) {
            AddTerm(r, t.atom, t.coef / threads);
            continue;
          }
          AddTerm(r, t.atom, t.coef);
          auto it = inner_.find(t.atom);
          if (it == inner_.end() || !IsInt(it->second.extent) || t.coef < 0) {
            fits = false;
          } else {
            low += t.coef * (it->second.extent->int_value - 1);
          }
        }
        if (!found || !fits || low >= coef || x.constant < 0) {
          return Unimplemented("local buffer ", b.name, ": in dimension ", d,
                               " its uses do not belong to one thread each: ", Print(FromLinear(c_, x, DType::kI64)),
                               "\n", Print(f_));
        }
        x = r;
      }
    }
    return absl::OkStatus();
  }

  Stmt Rename(const Stmt& s, Buffer from, Buffer to,
              const absl::flat_hash_map<std::vector<Expr>, std::vector<Expr>>& map) {
    Rewriter* self = nullptr;
    Rewriter rewrite(c_, [&](Expr e) -> Expr {
      if (e->op != ExprOp::kLoad || e->buffer != from) return nullptr;
      Expr mask = MaskOf(e);
      return c_.Load(to, map.at(IndicesOf(e)), mask == nullptr ? nullptr : (*self)(mask));
    });
    self = &rewrite;
    std::function<Stmt(const Stmt&)> go = [&](const Stmt& x) {
      if (const Store* n = As<Store>(x); n != nullptr && n->buffer == from) {
        return MakeStmt(
            Store{to, map.at(n->indices), rewrite(n->value), n->mask == nullptr ? nullptr : rewrite(n->mask)});
      }
      return MapChildren(x, [&](Expr e) { return rewrite(e); }, go);
    };
    return go(s);
  }

  Func& f_;
  Context& c_;
  std::vector<Access> accesses_;
  absl::flat_hash_map<Expr, InnerVar> inner_;
  VarMap canonical_;  // loops on one thread axis are the same threads
};

}  // namespace

StatusOr<Func> PlaceBuffers(Func f) {
  // What is in no global memory needs no prefetch, and none is a use of it.
  f.body = RewriteStmts(f.body, [](const Stmt& s) -> Stmt {
    if (As<Prefetch>(s) == nullptr) return nullptr;
    const std::vector<Buffer> read = BuffersRead(s);
    const bool helps = std::all_of(read.begin(), read.end(), [](Buffer b) { return b->scope == Scope::kGlobal; });
    return helps ? nullptr : MakeSeq({});
  });
  std::vector<Buffer> buffers;
  bool is_kernel = false;
  VisitStmts(f.body, [&](const Stmt& s) {
    const Alloc* a = As<Alloc>(s);
    if (a != nullptr && a->buffer->scope != Scope::kGlobal) buffers.push_back(a->buffer);
    const For* n = As<For>(s);
    is_kernel = is_kernel || (n != nullptr && (IsThreadAxis(n->kind) || IsBlockAxis(n->kind)));
    return true;
  });
  int64_t stack = 0;
  for (Buffer b : buffers) {
    RETURN_IF_ERROR(Placer(f).Place(b, is_kernel ? nullptr : &stack));
  }
  return f;
}

}  // namespace cinn_like::ir
