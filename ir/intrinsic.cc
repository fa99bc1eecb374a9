#include "ir/intrinsic.h"

#include <algorithm>
#include <functional>

#include "ir/linear.h"
#include "ir/mma.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMostPitch = int64_t{1} << 40;

// A row's meaning, read.
struct Meaning {
  Func func;  // owns the rest
  std::vector<Buffer> operands;
  InstructionNest nest;
  const Store& store() const { return *As<Store>(nest.store); }
};

StatusOr<Meaning> ReadMeaning(const Intrinsic& row) {
  Meaning m;
  ASSIGN_OR_RETURN(m.func, ParseFunc(row.meaning));
  const For* top = nullptr;
  std::vector<Stmt> stmts = {m.func.body};
  if (const Seq* seq = As<Seq>(m.func.body)) stmts = seq->stmts;
  for (const Stmt& s : stmts) {
    const Alloc* alloc = As<Alloc>(s);
    if (alloc != nullptr && top == nullptr) {
      m.operands.push_back(alloc->buffer);
    } else if (top == nullptr && As<For>(s) != nullptr) {
      top = As<For>(s);
    } else {
      return InvalidArgument("expected allocations of the operands and one nest of loops");
    }
  }
  if (top == nullptr || !m.func.params.empty())
    return InvalidArgument("expected a function without parameters that is one nest of loops");
  ASSIGN_OR_RETURN(m.nest, InstructionNestOf(*m.func.context, *top));
  return m;
}

// An access of a meaning: which loop each dimension goes along, as its depth.
StatusOr<std::vector<size_t>> DepthsOf(const Meaning& m, Buffer b, const std::vector<Expr>& indices) {
  std::vector<size_t> r;
  for (Expr e : indices) {
    const auto loop = std::find_if(m.nest.loops.begin(), m.nest.loops.end(), [&](const For* n) { return n->var == e; });
    const auto depth = static_cast<size_t>(loop - m.nest.loops.begin());
    if (loop == m.nest.loops.end() || std::find(r.begin(), r.end(), depth) != r.end())
      return InvalidArgument("expected operand ", b->name, " at a loop of its own for each dimension, got ", Print(e));
    r.push_back(depth);
  }
  return r;
}

class Matcher {
 public:
  Matcher(Analyzer& a, const Meaning& m, const std::vector<const For*>& loops) : a_(a), m_(m), loops_(loops) {
    for (Buffer b : m.operands) operands_.push_back({b->name, nullptr, nullptr, {}});
  }

  // What is wrong, in words; empty: nothing.
  std::string Match(const Store& store) {
    if (!Bind(m_.store().buffer, m_.store().indices, store.buffer, store.indices)) return why_;
    if (!Unify(m_.store().value, store.value)) return why_;
    const Buffer written = store.buffer;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (m_.operands[i] == m_.store().buffer && !IsApart(operands_[i].pitches, m_.operands[i]->shape))
        return Cat("expected elements of operand ", operands_[i].name, ", which is written, in places of their own");
      if (operands_[i].buffer == written && m_.operands[i] != m_.store().buffer)
        return Cat("expected operand ", operands_[i].name, " in other memory than ", written->name,
                   ", which is written");
    }
    return "";
  }
  std::vector<IntrinsicOperand> TakeOperands() { return std::move(operands_); }

 private:
  bool Fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // No two elements share a place.
  static bool IsApart(const std::vector<int64_t>& pitches, const std::vector<Expr>& shape) {
    int64_t least = 1;
    for (size_t d = pitches.size(); d-- > 0; least = pitches[d] * shape[d]->int_value) {
      if (pitches[d] < least || pitches[d] > kMostPitch) return false;
    }
    return true;
  }

  // How far elements are apart along a loop, whose term is taken from `l`.
  int64_t Take(Linear& l, Expr var) {
    for (const LinearTerm& t : l.terms) {
      if (t.atom != var) continue;
      const int64_t step = t.coef;
      RemoveTerm(l, var);
      return step;
    }
    return 0;
  }
  bool Moves(const Linear& l) const {
    return !l.exact || std::any_of(l.terms.begin(), l.terms.end(), [&](const LinearTerm& t) {
      return std::any_of(loops_.begin(), loops_.end(), [&](const For* n) { return Uses(t.atom, n->var); });
    });
  }

  // Of flat memory the index itself, which may be narrow. Before panels are placed their shapes can be symbolic, but
  // the order of their dimensions is what it will be (MmaOffset).
  Expr OffsetOf(Buffer b, const std::vector<Expr>& indices) const {
    if (indices.size() == 1 && b->strides.empty()) return indices[0];
    const bool is_placed = b->scope == Scope::kGlobal ||
                           std::all_of(b->shape.begin(), b->shape.end(), [](Expr extent) { return IsInt(extent); });
    return is_placed ? ElementOffset(a_.context(), b, indices) : MmaOffset(a_.context(), indices);
  }

  bool Bind(Buffer formal, const std::vector<Expr>& formal_indices, Buffer b, const std::vector<Expr>& indices) {
    const auto at = std::find(m_.operands.begin(), m_.operands.end(), formal) - m_.operands.begin();
    IntrinsicOperand& operand = operands_[static_cast<size_t>(at)];
    const auto what = [&](const auto&... rest) { return Cat("expected operand ", formal->name, rest...); };
    if (b->dtype != formal->dtype || b->scope != formal->scope) {
      return Fail(what(" of ", Name(formal->dtype), " in ", Name(formal->scope), " memory, got ", b->name, ": ",
                       Name(b->dtype), " @", Name(b->scope)));
    }
    const Expr offset = OffsetOf(b, indices);
    IntrinsicOperand found{operand.name, b, nullptr, {}};
    Linear l = ToLinear(a_.context(), offset);
    std::vector<int64_t> steps = StepsOf(l);
    if (Moves(l)) {
      l = ToLinear(a_.context(), a_.Simplify(offset));
      steps = StepsOf(l);
    }
    const StatusOr<std::vector<size_t>> depths = DepthsOf(m_, formal, formal_indices);
    if (!depths.ok()) return Fail(Message(depths.status()));
    for (const size_t depth : *depths) found.pitches.push_back(std::exchange(steps[depth], 0));
    const bool stays = std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 0; });
    if (Moves(l) || !stays || (!found.pitches.empty() && found.pitches.back() != 1)) {
      return Fail(what(" to move along its own loops alone, from element to element along the last, got ", b->name,
                       " at ", Print(offset)));
    }
    found.base = FromLinear(a_.context(), l, offset->type.dtype);
    if (operand.buffer == nullptr) {
      operand = std::move(found);
    } else if (operand.buffer != found.buffer || operand.base != found.base || operand.pitches != found.pitches) {
      return Fail(what(" at one place, got ", operand.buffer->name, " and ", b->name, " at ", Print(offset)));
    }
    return true;
  }

  std::vector<int64_t> StepsOf(Linear& l) {
    std::vector<int64_t> r;
    for (const For* n : loops_) r.push_back(Take(l, n->var));
    return r;
  }

  bool Unify(Expr formal, Expr e) {
    const auto differs = [&] { return Fail(Cat("expected ", Print(formal), ", got ", Print(e))); };
    if (formal->op != e->op || formal->type != e->type || formal->args.size() != e->args.size()) {
      if (formal->op != ExprOp::kLoad || e->op != ExprOp::kLoad) return differs();
    }
    if (formal->op == ExprOp::kLoad) {
      if (e->has_mask) return Fail(Cat("expected no condition of ", Print(e)));
      return Bind(formal->buffer, IndicesOf(formal), e->buffer, IndicesOf(e));
    }
    if (formal->args.empty()) return Print(formal) == Print(e) || differs();
    const std::vector<IntrinsicOperand> before = operands_;
    const auto unify_all = [&](bool swapped) {
      for (size_t i = 0; i < e->args.size(); ++i) {
        if (!Unify(formal->args[i], e->args[swapped ? 1 - i : i])) return false;
      }
      return true;
    };
    if (unify_all(false)) return true;
    const bool commutes = formal->op == ExprOp::kAdd || formal->op == ExprOp::kMul || formal->op == ExprOp::kMin ||
                          formal->op == ExprOp::kMax;
    if (!commutes) return false;
    const std::string why = why_;
    operands_ = before;
    if (unify_all(true)) return true;
    why_ = why;
    return false;
  }

  Analyzer& a_;
  const Meaning& m_;
  const std::vector<const For*>& loops_;
  std::vector<IntrinsicOperand> operands_;
  std::string why_;
};

}  // namespace

const Intrinsic* FindIntrinsic(std::span<const Intrinsic> rows, std::string_view name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Intrinsic& r) { return r.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

StatusOr<InstructionNest> InstructionNestOf(Context& c, const For& loop) {
  const auto refuse = [&](const auto&... why) { return InvalidArgument("loop ", loop.var->name, ": ", why...); };
  InstructionNest r;
  Stmt body;
  for (const For* n = &loop; n != nullptr; n = As<For>(body)) {
    if (!IsInt(n->extent) || (n != &loop && n->kind != ForKind::kSerial))
      return refuse("expected loops of constant extents inside, got ", n->var->name);
    r.loops.push_back(n);
    body = n->body;
  }
  if (const Block* b = As<Block>(body)) {
    if (b->init != nullptr || (b->predicate != nullptr && !IsInt(b->predicate, 1)))
      return refuse("block ", b->name, " has a start or a condition");
    body = Substitute(c, b->body, Bindings(*b));
  }
  const Store* store = As<Store>(body);
  if (store == nullptr || store->mask != nullptr) return refuse("expected one store, without a mask");
  r.store = body;
  return r;
}

Status CheckIntrinsic(const Intrinsic& row) {
  const auto check = [&]() -> Status {
    ASSIGN_OR_RETURN(const Meaning m, ReadMeaning(row));
    absl::flat_hash_set<Buffer> used;
    Status status;
    const auto access = [&](Buffer b, const std::vector<Expr>& indices) {
      used.insert(b);
      const StatusOr<std::vector<size_t>> depths = DepthsOf(m, b, indices);
      if (status.ok()) status = depths.status();
      for (size_t d = 0; status.ok() && d < indices.size(); ++d) {
        if (b->shape[d] != m.nest.loops[(*depths)[d]]->extent)
          status = InvalidArgument("operand ", b->name, " has ", Print(b->shape[d]), " elements along dimension ", d,
                                   ", its loop goes over ", Print(m.nest.loops[(*depths)[d]]->extent));
      }
    };
    access(m.store().buffer, m.store().indices);
    Visit(m.store().value, [&](Expr e) {
      if (e->op == ExprOp::kLoad) access(e->buffer, IndicesOf(e));
      return e->op != ExprOp::kLoad;
    });
    RETURN_IF_ERROR(status);
    for (Buffer b : m.operands) {
      if (!used.contains(b)) return InvalidArgument("operand ", b->name, " is used nowhere");
    }
    if (row.text.empty()) return InvalidArgument("it has no text");
    return absl::OkStatus();
  };
  return Annotate(check(), Cat("intrinsic '", row.name, "'"));
}

StatusOr<std::vector<IntrinsicOperand>> MatchIntrinsic(Analyzer& a, const For& loop, const Intrinsic& row) {
  const auto match = [&]() -> StatusOr<std::vector<IntrinsicOperand>> {
    ASSIGN_OR_RETURN(const Meaning m, ReadMeaning(row));
    ASSIGN_OR_RETURN(const InstructionNest nest, InstructionNestOf(a.context(), loop));
    const auto extents = [](const std::vector<const For*>& loops) {
      std::string r;
      for (const For* n : loops) r += Cat(r.empty() ? "" : ", ", n->extent->int_value);
      return r;
    };
    if (extents(nest.loops) != extents(m.nest.loops)) {
      return InvalidArgument("loop ", loop.var->name, ": expected a nest of ", extents(m.nest.loops),
                             " iterations, got ", extents(nest.loops));
    }
    for (const For* n : nest.loops) a.BindRange(n->var, a.context().Int(0, n->var->type.dtype), n->extent);
    Matcher matcher(a, m, nest.loops);
    if (const std::string why = matcher.Match(*As<Store>(nest.store)); !why.empty())
      return InvalidArgument("loop ", loop.var->name, ": ", why);
    return matcher.TakeOperands();
  };
  StatusOr<std::vector<IntrinsicOperand>> r = match();
  return r.ok() ? std::move(r) : Annotate(r.status(), Cat("intrinsic ", row.name));
}

Status CheckIntrinsics(const Func& f, const DeviceKind& device) {
  std::vector<const For*> around;
  std::function<Status(const Stmt&)> check = [&](const Stmt& s) -> Status {
    const For* n = As<For>(s);
    if (n != nullptr && n->kind == ForKind::kIntrinsic) {
      const Intrinsic* row = FindIntrinsic(device, *n->kind.intrinsic);
      if (row == nullptr) {
        std::string known;
        for (const Intrinsic& r : device.intrinsics) known += Cat(known.empty() ? "" : ", ", r.name);
        return InvalidArgument("loop ", n->var->name, ": device '", device.name, "' has no intrinsic '",
                               *n->kind.intrinsic, "'; it has ", known.empty() ? "none" : known);
      }
      Analyzer a(*f.context);
      BindFacts(a, f, around);
      return MatchIntrinsic(a, *n, *row).status();
    }
    if (n != nullptr) around.push_back(n);
    Status status;
    ForEachChild(s, [&](const Stmt& x) {
      if (status.ok()) status = check(x);
    });
    if (n != nullptr) around.pop_back();
    return status;
  };
  return Annotate(check(f.body), Cat("function ", f.name));
}

}  // namespace cinn_like::ir
