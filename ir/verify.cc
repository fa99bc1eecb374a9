#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "cinn_like/base/runtime_calls.h"
#include "ir/buffer_sizes.h"
#include "ir/stmt.h"
#include "ir/tensor_copy.h"

namespace cinn_like::ir {
namespace {

// "for i in 0..4 {": enough of a statement to find it.
std::string Head(const Stmt& s) {
  std::string text = Print(s);
  return text.substr(0, text.find('\n'));
}

bool NeedsFloat(ExprOp op) { return op >= ExprOp::kExp && op <= ExprOp::kIsNan && op != ExprOp::kPow; }
bool NeedsInt(ExprOp op) { return op >= ExprOp::kBitOr && op <= ExprOp::kShr; }

class Verifier {
 public:
  explicit Verifier(const Func& f) : f_(f) {}

  Status Run() {
    if (!f_.device.empty() && f_.kind != FuncKind::kEntry) return Error("only an entry function has a device");
    for (const SymbolFact& s : f_.symbols) {
      RETURN_IF_ERROR(Declare(s.var->name));
      vars_.insert(s.var);
      if (s.lo > s.hi) return Error(Cat("symbol ", s.var->name, " has the empty range ", s.lo, "..", s.hi));
      if (s.divisor < 1) return Error(Cat("symbol ", s.var->name, " has divisor ", s.divisor));
    }
    for (const Param& p : f_.params) {
      RET_CHECK((p.buffer == nullptr) != (p.var == nullptr), "a parameter is a buffer or a scalar");
      if (p.var == nullptr) continue;
      // A scalar parameter may be the value of a symbol.
      if (vars_.insert(p.var).second) RETURN_IF_ERROR(Declare(p.var->name));
    }
    for (const Param& p : f_.params) {
      if (p.buffer != nullptr) RETURN_IF_ERROR(DeclareBuffer(p.buffer));
    }
    if (f_.body == nullptr) return Error("no body");
    return Walk(f_.body);
  }

 private:
  Status Error(std::string_view message) const {
    return InvalidArgument("@", f_.name, ": ", at_ == nullptr ? "" : Cat("in '", Head(at_), "': "), message);
  }

  Status Declare(const std::string& name) {
    if (!names_.insert(name).second) return Error(Cat("the name ", name, " is used twice"));
    return {};
  }
  Status DeclareVar(Expr var) {
    RETURN_IF_ERROR(Declare(var->name));
    vars_.insert(var);
    return {};
  }
  Status DeclareBuffer(Buffer b) {
    RETURN_IF_ERROR(Declare(b->name));
    for (Expr e : b->shape) RETURN_IF_ERROR(Extent(e));
    if (const Status s = sizes_.Check(b); !s.ok()) return Error(std::string(s.message()));
    for (Expr e : b->strides) RETURN_IF_ERROR(Index(e));
    if (!b->strides.empty() && b->strides.size() != b->shape.size()) {
      return Error(
          Cat("buffer ", b->name, " has ", b->shape.size(), " dimensions and ", b->strides.size(), " strides"));
    }
    buffers_.insert(b);
    return {};
  }

  Status Index(Expr e) {
    RETURN_IF_ERROR(Check(e));
    if (!IsInt(e->type.dtype) || e->type.lanes != 1)
      return Error(Cat(Print(e), " is ", Print(e->type), ", not an integer"));
    return {};
  }
  Status Extent(Expr e) {
    RETURN_IF_ERROR(Index(e));
    if (IsInt(e) && (e->int_value < 0 || static_cast<double>(e->int_value) > kMaxBytes))
      return Error(Cat("expected an extent in 0..", static_cast<int64_t>(kMaxBytes), ", got ", Print(e)));
    return {};
  }
  Status Condition(Expr e) {
    RETURN_IF_ERROR(Check(e));
    if (e->type != kBoolType) return Error(Cat("the condition ", Print(e), " is ", Print(e->type), ", not bool"));
    return {};
  }

  // Every node once: scopes only shrink what was checked by forgetting it.
  Status Check(Expr e) {
    if (checked_.contains(e)) return {};
    for (Expr a : e->args) RETURN_IF_ERROR(Check(a));
    switch (e->op) {
      case ExprOp::kInt:
      case ExprOp::kFloat:
        break;
      case ExprOp::kVar:
        if (!vars_.contains(e)) {
          const bool is_loop = hidden_.contains(e);
          return Error(
              Cat(e->name, is_loop ? " is a loop variable; a block speaks of its iterators" : " is not declared here"));
        }
        break;
      case ExprOp::kLoad:
      case ExprOp::kAddress:
        RETURN_IF_ERROR(Access(e->buffer, IndicesOf(e), MaskOf(e), e->type.lanes));
        break;
      case ExprOp::kCast:
        break;
      case ExprOp::kRamp:
        if (e->args[0]->type != e->args[1]->type || e->args[0]->type.lanes != 1 || e->type.lanes < 2) return Bad(e);
        break;
      case ExprOp::kBroadcast:
        if (e->args[0]->type.lanes != 1 || e->type.lanes < 2) return Bad(e);
        break;
      case ExprOp::kChecked:
        for (Expr a : e->args) {
          if (a->type != e->type) return Bad(e);
        }
        if (e->name.empty() || e->name.find_first_of("\"\\\n") != e->name.npos)
          return Error(Cat(Print(e), " has a text that is empty, or has quotes or backslashes"));
        break;
      default:
        RETURN_IF_ERROR(Operator(e));
    }
    checked_.insert(e);
    return {};
  }

  Status Bad(Expr e) {
    std::string types;
    for (Expr a : e->args) types += Cat(types.empty() ? "" : ", ", Print(a->type));
    return Error(Cat(Print(e), " has operands of types ", types));
  }

  Status Operator(Expr e) {
    const OpRow& row = *RowOf(e->op);
    if (static_cast<int>(e->args.size()) != row.arity) return Bad(e);
    const DType t = e->args[e->op == ExprOp::kSelect ? 1 : 0]->type.dtype;
    for (Expr a : e->args) {
      if (a->type.lanes != e->args[0]->type.lanes) return Bad(e);
    }
    if (e->op == ExprOp::kSelect) {
      return e->args[0]->type.dtype == DType::kBool && e->args[1]->type == e->args[2]->type ? Status() : Bad(e);
    }
    const bool is_logic = e->op == ExprOp::kAnd || e->op == ExprOp::kOr;
    if ((is_logic && t != DType::kBool) || (NeedsFloat(e->op) && !IsFloat(t)) || (NeedsInt(e->op) && IsFloat(t)))
      return Bad(e);
    if (e->op == ExprOp::kShuffleXor) return IsInt(e->args[1]->type.dtype) ? Status() : Bad(e);
    if (e->op == ExprOp::kLaneShift) return LanesMoved(e) ? Status() : Bad(e);
    for (Expr a : e->args) {
      if (a->type.dtype != t) return Bad(e);
    }
    return {};
  }

  Status Access(Buffer b, const std::vector<Expr>& indices, Expr mask, int lanes) {
    if (!buffers_.contains(b)) return Error(Cat("buffer ", b->name, " is not declared here"));
    if (indices.size() != b->shape.size()) {
      return Error(Cat("buffer ", b->name, " has ", b->shape.size(), " dimensions and is indexed by ", indices.size()));
    }
    for (Expr i : indices) {
      if (!IsInt(i->type.dtype) || (i->type.lanes != 1 && i->type.lanes != lanes)) {
        return Error(Cat("index ", Print(i), " of ", b->name, " is ", Print(i->type)));
      }
    }
    if (mask != nullptr && (mask->type.dtype != DType::kBool || (mask->type.lanes != 1 && mask->type.lanes != lanes))) {
      return Error(Cat("the mask of ", b->name, " is ", Print(mask->type)));
    }
    return {};
  }

  Status Walk(const Stmt& s) {
    const Stmt before = at_;
    if (As<Seq>(s) == nullptr) at_ = s;
    Status r = Match(s, [&](const auto& n) { return Visit(n); });
    at_ = before;
    return r;
  }

  // Runs f, then forgets what it declared.
  template <class F>
  Status Scoped(F f) {
    auto vars = vars_;
    auto buffers = buffers_;
    auto checked = checked_;
    Status r = f();
    vars_ = std::move(vars);
    buffers_ = std::move(buffers);
    checked_ = std::move(checked);
    return r;
  }

  Status Visit(const Seq& n) {
    return Scoped([&]() -> Status {
      for (const Stmt& x : n.stmts) {
        if (x == nullptr) return Error("an empty statement");
        RETURN_IF_ERROR(Walk(x));
      }
      return {};
    });
  }
  Status Visit(const For& n) {
    RETURN_IF_ERROR(Extent(n.extent));
    if (n.extent->type != n.var->type) {
      return Error(
          Cat("variable ", n.var->name, " is ", Print(n.var->type), " and its extent ", Print(n.extent->type)));
    }
    return Scoped([&]() -> Status {
      RETURN_IF_ERROR(DeclareVar(n.var));
      loops_.push_back(n.var);
      RETURN_IF_ERROR(Walk(n.body));
      loops_.pop_back();
      return {};
    });
  }
  Status Visit(const If& n) {
    RETURN_IF_ERROR(Condition(n.cond));
    RETURN_IF_ERROR(Scoped([&] { return Walk(n.then); }));
    return n.otherwise == nullptr ? Status() : Scoped([&] { return Walk(n.otherwise); });
  }
  Status Visit(const While& n) {
    RETURN_IF_ERROR(Condition(n.cond));
    return Scoped([&] { return Walk(n.body); });
  }
  Status Visit(const Prefetch& n) { return Check(n.value); }
  Status Visit(const Let& n) {
    RETURN_IF_ERROR(Check(n.value));
    if (n.value->type != n.var->type) {
      return Error(Cat(n.var->name, " is ", Print(n.var->type), " and its value ", Print(n.value->type)));
    }
    return DeclareVar(n.var);
  }
  Status Visit(const Alloc& n) { return DeclareBuffer(n.buffer); }
  Status Visit(const Store& n) {
    for (Expr i : n.indices) RETURN_IF_ERROR(Check(i));
    RETURN_IF_ERROR(Check(n.value));
    if (n.mask != nullptr) RETURN_IF_ERROR(Check(n.mask));
    int lanes = n.value->type.lanes;
    for (Expr i : n.indices) lanes = std::max(lanes, i->type.lanes);
    if (n.value->type.dtype != n.buffer->dtype) {
      return Error(
          Cat("buffer ", n.buffer->name, " is ", Name(n.buffer->dtype), " and the value ", Print(n.value->type)));
    }
    if (n.value->type.lanes != 1 && n.value->type.lanes != lanes) {
      return Error(Cat("the value has ", n.value->type.lanes, " lanes and the index ", lanes));
    }
    return Access(n.buffer, n.indices, n.mask, lanes);
  }
  Status Visit(const Block& n) {
    if (!blocks_.insert(n.name).second) return Error(Cat("the block name ", n.name, " is used twice"));
    if (in_block_) return Error("a block inside a block");
    for (const BlockIter& i : n.iters) {
      RETURN_IF_ERROR(Extent(i.extent));
      RETURN_IF_ERROR(Index(i.binding));
    }
    if (n.predicate != nullptr) RETURN_IF_ERROR(Condition(n.predicate));
    in_block_ = true;
    Status r = Scoped([&]() -> Status {
      for (Expr v : loops_) {
        vars_.erase(v);
        hidden_.insert(v);
      }
      checked_.clear();
      for (const BlockIter& i : n.iters) RETURN_IF_ERROR(DeclareVar(i.var));
      if (n.init != nullptr) RETURN_IF_ERROR(Scoped([&] { return Walk(n.init); }));
      return Walk(n.body);
    });
    in_block_ = false;
    hidden_.clear();
    return r;
  }
  Status Visit(const Barrier&) { return {}; }
  Status Visit(const Launch& n) {
    if (n.grid.size() != 3 || n.block.size() != 3) return Error("grid and block have three dimensions");
    for (const auto* list : {&n.grid, &n.block}) {
      for (Expr e : *list) RETURN_IF_ERROR(Index(e));
    }
    RETURN_IF_ERROR(Index(n.shared_bytes));
    if (n.cluster != nullptr) RETURN_IF_ERROR(Index(n.cluster));
    for (Expr e : n.args) RETURN_IF_ERROR(Check(e));
    for (const TensorMap& m : n.maps) {
      RETURN_IF_ERROR(Check(m.address));
      if (m.address->op != ExprOp::kAddress) return Error(Cat("a map of ", Print(m.address), ", which is no address"));
      if (m.extents.empty() || m.extents.size() != m.strides.size() || m.extents.size() != m.box.size())
        return Error("a map has as many strides and sides of its box as it has extents");
      for (const auto* numbers : {&m.extents, &m.strides, &m.box}) {
        for (Expr e : *numbers) RETURN_IF_ERROR(Index(e));
      }
      for (Expr e : m.box) {
        if (!IsInt(e) || e->int_value < 1) return Error(Cat("boxes of maps are positive constants, got ", Print(e)));
      }
    }
    return {};
  }
  Status Visit(const Call& n) {
    for (Expr e : n.args) RETURN_IF_ERROR(Check(e));
    if (!n.text.empty() && (!n.is_runtime || n.text.find_first_of("\"\\\n") != n.text.npos)) {
      return Error("a text is an argument of runtime calls, without quotes and backslashes");
    }
    if (n.IsOfFunction()) return CheckOperands(n);
    const RuntimeCall* row = n.is_runtime ? FindRuntimeCall(n.callee) : nullptr;
    if (row != nullptr) {
      // The last parameter is the call's environment.
      const size_t first = n.text.empty() ? 0 : 1;
      bool fits = row->params.size() == first + n.args.size() + 1 && (first == 0 || row->params[0] == CallType::kPtr);
      for (size_t i = 0; fits && i < n.args.size(); ++i) {
        fits = (row->params[first + i] == CallType::kPtr) == (n.args[i]->type.dtype == DType::kU64);
      }
      if (!fits) return Error(Cat(n.callee, " is ", row->signature, ", its last argument implied"));
    }
    return n.meaning == nullptr ? Status() : Scoped([&] { return Walk(n.meaning); });
  }

  Status CheckOperands(const Call& n) {
    size_t size = 0;
    for (const Call::Operand& o : n.operands) size += o.size();
    if (n.text.empty() || !n.is_runtime || size != n.args.size()) return Error("expected call \"name\"(...)");
    Status status;
    ForEachOperand(n, [&](const Call::Operand& o, absl::Span<const Expr> args) {
      if (!status.ok()) return;
      if (!o.is_tensor) {
        if (args[0]->type.lanes != 1 || args[0]->type.dtype == DType::kU64)
          status = Error(Cat(Print(args[0]), " is ", Print(args[0]->type), ", no scalar to hand over"));
        return;
      }
      if (args[0]->op != ExprOp::kAddress) {
        status = Error(Cat("expected an address, got ", Print(args[0])));
      } else if (args[0]->buffer->scope != Scope::kGlobal) {
        status =
            Error(Cat("buffer ", args[0]->buffer->name, " is ", Name(args[0]->buffer->scope), ", expected global"));
      } else if (o.rank > kMostRank) {
        status = Error(Cat("expected at most ", kMostRank, " dimensions, got ", o.rank));
      }
      for (Expr e : args.subspan(1)) status.Update(Index(e));
    });
    return status;
  }

  static constexpr size_t kMostRank = 255;  // what runtime/call_function.h counts

  const Func& f_;
  BufferSizes sizes_{f_};
  Stmt at_;
  absl::flat_hash_set<std::string> names_, blocks_;
  absl::flat_hash_set<Expr> vars_, hidden_, checked_;
  absl::flat_hash_set<Buffer> buffers_;
  std::vector<Expr> loops_;
  bool in_block_ = false;
};

Status VerifyCall(const Func& from, const Func& to, const std::vector<Expr>& args) {
  if (args.size() != to.params.size()) {
    return InvalidArgument("@", from.name, ": @", to.name, " takes ", to.params.size(), " arguments and got ",
                           args.size());
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const Param& p = to.params[i];
    const bool is_address = args[i]->type.dtype == DType::kU64;
    if (p.buffer != nullptr ? !is_address : args[i]->type != p.var->type) {
      return InvalidArgument("@", from.name, ": argument ", i, " of @", to.name, " is ", Print(args[i]), " of type ",
                             Print(args[i]->type), ", expected ",
                             p.buffer != nullptr ? "an address" : Print(p.var->type));
    }
  }
  return {};
}

// A kernel's tensor copies find their maps by their order.
Status VerifyMaps(const Func& from, const Func& to, const Launch& n) {
  const std::vector<TensorMap> needed = TensorMapsOf(to.body);
  if (needed.size() != n.maps.size()) {
    return InvalidArgument("@", from.name, ": launch of @", to.name, ": its tensor copies need ", needed.size(),
                           " maps and it got ", n.maps.size());
  }
  for (size_t i = 0; i < needed.size(); ++i) {
    const auto of = std::find_if(to.params.begin(), to.params.end(),
                                 [&](const Param& p) { return p.buffer == needed[i].address->buffer; });
    const bool same = of != to.params.end() &&
                      n.maps[i].address == n.args[static_cast<size_t>(of - to.params.begin())] &&
                      n.maps[i].box == needed[i].box;
    if (!same) {
      return InvalidArgument("@", from.name, ": launch of @", to.name, ": map ", i, " is not that of ",
                             needed[i].address->buffer->name, " which its tensor copies need");
    }
  }
  return {};
}

}  // namespace

Status Verify(const Func& f) { return Verifier(f).Run(); }

Status Verify(const Module& m) {
  absl::flat_hash_set<std::string> names;
  for (const Func& f : m.funcs) {
    if (!names.insert(f.name).second) return InvalidArgument("two functions are called @", f.name);
    RETURN_IF_ERROR(Verify(f));
  }
  for (const Func& f : m.funcs) {
    Status status;
    VisitStmts(f.body, [&](const Stmt& s) {
      if (const Call* n = As<Call>(s); n != nullptr && !n->is_runtime && status.ok()) {
        const Func* to = m.Find(n->callee);
        if (to == nullptr) {
          status = InvalidArgument("@", f.name, ": call of unknown function @", n->callee);
        } else if (to->kind == FuncKind::kKernel) {
          status = InvalidArgument("@", f.name, ": @", n->callee, " is a kernel: launch it");
        } else {
          status = VerifyCall(f, *to, n->args);
        }
      }
      // Kernels may be in a module of their own.
      if (const Launch* n = As<Launch>(s); n != nullptr && status.ok()) {
        const Func* to = m.Find(n->kernel);
        if (to != nullptr && to->kind != FuncKind::kKernel) {
          status = InvalidArgument("@", f.name, ": launch of @", n->kernel, ", which is no kernel");
        } else if (to != nullptr) {
          status = VerifyCall(f, *to, n->args);
          status.Update(VerifyMaps(f, *to, *n));
        }
      }
      return status.ok();
    });
    RETURN_IF_ERROR(status);
  }
  return {};
}

}  // namespace cinn_like::ir
