#include "ir/passes/split_host_device.h"

#include <array>

#include "cinn_like/base/int_math.h"
#include "ir/tensor_copy.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kStaticSharedBytes = 48 << 10;
bool IsBound(ForKind k) { return IsBlockAxis(k) || IsThreadAxis(k); }
constexpr size_t kCluster = kNumAxes - 1;

bool HasBarrier(const Stmt& s) {
  bool r = false;
  VisitStmts(s, [&](const Stmt& x) { return !(r |= As<Barrier>(x) != nullptr); });
  return r;
}

int64_t AllSharedBytes(const Stmt& kernel_body) {
  WrapInt bytes = 0;
  VisitStmts(kernel_body, [&](const Stmt& s) {
    if (const Alloc* n = As<Alloc>(s); n != nullptr && n->buffer->scope == Scope::kShared)
      bytes += SharedBytesOf(n->buffer);
    return true;
  });
  return bytes;
}

// One nest: what it declares, what it takes from outside, the extents of its axes.
class Nest {
 public:
  Nest(Context& c, const std::string& func, const LaunchLimits& limits) : c_(c), func_(func), limits_(limits) {}

  StatusOr<Stmt> Prepare(const Stmt& s) {
    RETURN_IF_ERROR(Collect(s, {}));
    for (size_t i = 0; i < kNumAxes; ++i) {
      if (extents_[i] == nullptr) continue;
      if (Uses(extents_[i], declared_)) {
        return Error("the extent ", Print(extents_[i]), " of ", NameOf(i), " depends on variables of the kernel");
      }
      if (!IsInt(extents_[i])) {
        if (i >= 3) return Error("the extent of ", NameOf(i), " must be constant, got ", Print(extents_[i]));
      } else if (const int64_t most = i < 3           ? limits_.grid[i]
                                      : i == kCluster ? limits_.cluster
                                                      : limits_.block[i - 3];
                 extents_[i]->int_value > most) {
        return Error("the extent of ", NameOf(i), " is at most ", most, ", got ", extents_[i]->int_value);
      }
    }
    WrapInt threads = 1;
    for (size_t i = 3; i < kCluster; ++i) threads *= Extent(i)->int_value;
    if (threads > limits_.threads)
      return Error("a block has at most ", limits_.threads, " threads, got ", threads.value);
    if (const int64_t bytes = AllSharedBytes(s); bytes > limits_.shared_bytes)
      return Error("a block has at most ", limits_.shared_bytes, " bytes of shared memory, got ", bytes);
    Status status;
    Stmt r = RewriteStmts(s, [&](const Stmt& x) -> Stmt {
      const For* n = As<For>(x);
      if (n == nullptr || !IsBound(n->kind)) return nullptr;
      Expr whole = extents_[AxisOf(n->kind)];
      if (n->extent == whole) return nullptr;
      if (IsThreadAxis(n->kind) && HasBarrier(n->body)) {
        status = Error("loop ", n->var->name, " runs over ", Print(n->extent), " of the ", Print(whole), " threads of ",
                       Name(n->kind), " and has a barrier, which all must reach");
      }
      return MakeStmt(For{n->var, whole, n->kind, MakeStmt(If{c_.Lt(n->var, n->extent), n->body, nullptr})});
    });
    RETURN_IF_ERROR(status);
    return r;
  }

  Expr Extent(size_t axis) const { return extents_[axis] == nullptr ? c_.Int(1) : extents_[axis]; }

  // Buffers and scalars from outside, in order of first appearance in the finished body.
  std::vector<Param> Params(const Stmt& body, const std::vector<SymbolFact>& symbols) const {
    std::vector<Param> r;
    absl::flat_hash_set<const void*> seen;
    const auto is_symbol = [&](Expr e) {
      return std::any_of(symbols.begin(), symbols.end(), [&](const SymbolFact& s) { return s.var == e; });
    };
    auto scalar = [&](Expr x) {
      if (x->op == ExprOp::kVar && !declared_.contains(x) && seen.insert(x).second) r.push_back({.var = x});
    };
    // What the text shows of an extent; its symbols are no values of the kernel.
    auto shown = [&](Expr e) {
      Visit(e, [&](Expr x) {
        if (!is_symbol(x)) scalar(x);
        return true;
      });
    };
    auto buffer = [&](Buffer b) {
      if (allocated_.contains(b) || !seen.insert(b).second) return;
      r.push_back({.buffer = b});
      for (Expr e : b->shape) shown(e);
      for (Expr e : b->strides) shown(e);
    };
    auto expr = [&](Expr e) {
      Visit(e, [&](Expr x) {
        if (x->buffer != nullptr) buffer(x->buffer);
        scalar(x);
        return true;
      });
    };
    VisitStmts(body, [&](const Stmt& s) {
      const For* loop = As<For>(s);
      if (loop != nullptr && IsBound(loop->kind)) {
        shown(loop->extent);  // an axis is the launch's
      } else {
        ForEachChild(s, expr, [](const Stmt&) {});
      }
      if (const Store* n = As<Store>(s)) buffer(n->buffer);
      return true;
    });
    return r;
  }

 private:
  static std::string_view NameOf(size_t axis) {
    return Name(static_cast<ForKind>(axis + static_cast<size_t>(ForKind::kBlockX)));
  }
  template <class... Args>
  Status Error(const Args&... args) const {
    return InvalidArgument("function ", func_, ": ", args...);
  }

  Status Collect(const Stmt& s, std::array<bool, kNumAxes> bound) {
    if (const Let* n = As<Let>(s)) declared_.insert(n->var);
    if (const Alloc* n = As<Alloc>(s)) {
      if (n->buffer->scope == Scope::kShared && limits_.shared_bytes == 0) {
        return Error("memory ", n->buffer->name, " is shared; blocks of this device share none");
      }
      allocated_.insert(n->buffer);
    }
    if (const Call* n = As<Call>(s); n != nullptr && n->IsOfFunction())
      return Error("function \"", n->text, "\" is called in a kernel");
    if (As<Barrier>(s) != nullptr && limits_.shared_bytes == 0) {
      return Error("a barrier; blocks of this device have none");
    }
    if (const Block* n = As<Block>(s)) {
      for (const BlockIter& i : n->iters) declared_.insert(i.var);
    }
    if (const For* n = As<For>(s)) {
      declared_.insert(n->var);
      if (n->kind == ForKind::kParallel) return Error("loop ", n->var->name, " is parallel inside a kernel");
      if (IsBound(n->kind)) {
        const size_t axis = AxisOf(n->kind);
        if (bound[axis]) return Error("loop ", n->var->name, " binds ", Name(n->kind), ", which a loop around it has");
        bound[axis] = true;
        Expr& e = extents_[axis];
        e = e == nullptr ? n->extent : c_.Max(e, n->extent);
      }
    }
    Status status;
    ForEachChild(s, [&](const Stmt& x) {
      if (status.ok()) status = Collect(x, bound);
    });
    return status;
  }

  Context& c_;
  const std::string& func_;
  const LaunchLimits& limits_;
  std::array<Expr, kNumAxes> extents_ = {};
  absl::flat_hash_set<Expr> declared_;
  absl::flat_hash_set<Buffer> allocated_;
};

class Splitter {
 public:
  Splitter(const Func& f, NameSupply& names, const LaunchLimits& limits)
      : f_(f), c_(*f.context), names_(names), limits_(limits) {}

  StatusOr<Func> Run() {
    Func r = f_;
    r.body = Walk(f_.body);
    RETURN_IF_ERROR(status_);
    return r;
  }
  std::vector<Func> TakeKernels() { return std::move(kernels_); }

 private:
  template <class... Args>
  Stmt Fail(const Stmt& s, const Args&... args) {
    if (status_.ok()) status_ = InvalidArgument("function ", f_.name, ": ", args...);
    return s;
  }

  Stmt Walk(const Stmt& s) {
    const For* loop = As<For>(s);
    if (loop != nullptr && IsBound(loop->kind)) return MakeKernel(s);
    if (const Store* n = As<Store>(s))
      return Fail(s, "the store to ", n->buffer->name, " is in no loop bound to a device axis");
    if (const Block* n = As<Block>(s)) return Fail(s, "block ", n->name, " is in no loop bound to a device axis");
    if (const Call* n = As<Call>(s); n != nullptr && n->meaning != nullptr) return s;
    if (As<Barrier>(s) != nullptr) return Fail(s, "a barrier is in no loop bound to a device axis");
    if (const Alloc* n = As<Alloc>(s); n != nullptr && n->buffer->scope != Scope::kGlobal) {
      return Fail(s, "memory ", n->buffer->name, " (", Name(n->buffer->scope),
                  ") is in no loop bound to a device axis");
    }
    return MapChildren(
        s,
        [&](Expr e) {
          Visit(e, [&](Expr x) {
            if (x->op == ExprOp::kLoad)
              Fail(s, "the load of ", x->buffer->name, " is in no loop bound to a device axis");
            return true;
          });
          return e;
        },
        [&](const Stmt& x) { return Walk(x); });
  }

  Stmt MakeKernel(const Stmt& s) {
    Nest nest(c_, f_.name, limits_);
    StatusOr<Stmt> body = nest.Prepare(s);
    if (!body.ok()) {
      if (status_.ok()) status_ = body.status();
      return s;
    }
    Func k{names_.Fresh(Cat(f_.name, "_kernel")),
           FuncKind::kKernel,
           nest.Params(*body, f_.symbols),
           f_.symbols,
           *body,
           f_.context};
    Launch launch{
        .kernel = k.name, .grid = {}, .block = {}, .shared_bytes = c_.Int(DynamicSharedBytes(*body)), .args = {}};
    for (size_t i = 0; i < 3; ++i) {
      launch.grid.push_back(nest.Extent(i));
      launch.block.push_back(nest.Extent(i + 3));
    }
    if (const Expr cluster = nest.Extent(kCluster); !IsInt(cluster, 1)) launch.cluster = cluster;
    for (const Param& p : k.params) {
      launch.args.push_back(
          p.buffer == nullptr ? p.var : c_.Address(p.buffer, std::vector<Expr>(p.buffer->shape.size(), c_.Int(0))));
    }
    launch.maps = TensorMapsOf(k.body);
    kernels_.push_back(std::move(k));
    return MakeStmt(std::move(launch));
  }

  const Func& f_;
  Context& c_;
  NameSupply& names_;
  const LaunchLimits& limits_;
  std::vector<Func> kernels_;
  Status status_;
};

}  // namespace

int64_t SharedBytesOf(Buffer b) {
  WrapInt bytes = BytesOf(b->dtype);
  for (Expr e : b->shape) bytes *= e->int_value;
  return (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
}

int64_t DynamicSharedBytes(const Stmt& kernel_body) {
  const int64_t bytes = AllSharedBytes(kernel_body);
  return bytes <= kStaticSharedBytes ? 0 : bytes;
}

StatusOr<Module> SplitHostDevice(Module m, const LaunchLimits& limits) {
  NameSupply names;
  for (const Func& f : m.funcs) names.Reserve(f.name);
  Module r{m.context, {}};
  for (const Func& f : m.funcs) {
    if (f.kind == FuncKind::kKernel) {
      r.funcs.push_back(f);
      continue;
    }
    Splitter splitter(f, names, limits);
    ASSIGN_OR_RETURN(Func host, splitter.Run());
    r.funcs.push_back(std::move(host));
    for (Func& k : splitter.TakeKernels()) r.funcs.push_back(std::move(k));
  }
  return r;
}

}  // namespace cinn_like::ir
