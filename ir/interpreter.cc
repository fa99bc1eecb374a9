#include "ir/interpreter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "cinn_like/base/int_math.h"
#include "cinn_like/base/tensor.h"
#include "ir/interpreter_memory.h"

namespace cinn_like::ir {
namespace {

using Indices = absl::InlinedVector<Value, 4>;

// Executes statements for all threads of a block, or for the host (one thread).
class Machine {
 public:
  Machine(const Module& m, const LaunchLimits& limits, const FunctionCaller& functions, Clock* clock, Status* error)
      : module_(m), limits_(limits), functions_(functions), clock_(*clock), error_(*error) {}

  void Call(const Func& f, const std::vector<Value>& args, const absl::flat_hash_map<std::string, int64_t>& symbols) {
    func_ = &f;
    if (f.params.size() != args.size()) {
      return Fail(InvalidArgument("@", f.name, " takes ", f.params.size(), " arguments and got ", args.size()));
    }
    for (const SymbolFact& s : f.symbols) {
      if (auto it = symbols.find(s.var->name); it != symbols.end()) vars_[s.var] = Scalar(it->second);
    }
    for (size_t i = 0; i < args.size(); ++i) {
      if (f.params[i].var != nullptr) vars_[f.params[i].var] = args[i];
    }
    for (size_t i = 0; i < args.size(); ++i) {
      Buffer b = f.params[i].buffer;
      if (b == nullptr) continue;
      auto shape = array_shapes_.find(i);
      if (shape == array_shapes_.end() || shape->second.size() != b->shape.size()) continue;
      for (size_t d = 0; d < b->shape.size(); ++d) {
        if (b->shape[d]->op == ExprOp::kVar) vars_.try_emplace(b->shape[d], Scalar(shape->second[d]));
      }
    }
    for (size_t i = 0; i < args.size() && error_.ok(); ++i) {
      Buffer b = f.params[i].buffer;
      if (b == nullptr) continue;
      if (args[i].memory == nullptr)
        return Fail(InvalidArgument("argument ", i, " of @", f.name, " is not an address"));
      Bind(b, args[i].memory, args[i].lanes[0].i);
    }
    if (error_.ok()) Run(f.body);
  }
  void SetArrayShape(size_t i, std::vector<int64_t> shape) { array_shapes_[i] = std::move(shape); }

 private:
  void Fail(Status s) {
    if (error_.ok()) error_ = Annotate(s, func_ == nullptr ? "?" : Cat("@", func_->name));
  }

  void Take(int64_t steps) {
    if (steps > clock_.steps_left) return Fail(absl::ResourceExhaustedError("takes more steps than it may"));
    clock_.steps_left -= steps;
  }

  // ---- statements ----
  void Run(const Stmt& s) {
    if (!error_.ok()) return;
    Take(static_cast<int64_t>(active_.size()));
    Match(
        s,
        [&](const Seq& n) {
          for (const Stmt& x : n.stmts) Run(x);
        },
        [&](const For& n) { RunFor(n, s); },
        [&](const If& n) {
          const Value cond = Eval(n.cond);
          RunWhere([&](int t) { return cond.At(t)->i != 0; }, [&] { Run(n.then); });
          if (n.otherwise != nullptr) RunWhere([&](int t) { return cond.At(t)->i == 0; }, [&] { Run(n.otherwise); });
        },
        [&](const While& n) { RunWhile(n); }, [&](const Prefetch& n) { CheckPrefetch(n); },
        [&](const Let& n) { vars_[n.var] = Eval(n.value); }, [&](const Alloc& n) { RunAlloc(n.buffer); },
        [&](const Store& n) { RunStore(n); }, [&](const Block& n) { RunBlock(n); },
        [&](const Barrier& n) {
          if (n.scope != BarrierScope::kBlock) return;  // copies are there at once
          if (grid_ == nullptr) return Fail(InvalidArgument("a barrier outside thread loops"));
          if (active_.size() != static_cast<size_t>(threads_))
            return Fail(InvalidArgument("not every thread reaches a barrier"));
          ++clock_.epoch;
        },
        [&](const Launch& n) { RunLaunch(n); },
        [&](const ir::Call& n) {
          if (n.meaning != nullptr) return Run(n.meaning);
          if (n.IsOfFunction()) return RunFunction(n);
          if (n.callee == "cinn_range_error" || n.callee == "cinn_bounds_error")
            return Fail(absl::OutOfRangeError(n.text));
          const Func* f = module_.Find(n.callee);
          if (n.is_runtime || f == nullptr || grid_ != nullptr) return Fail(Unimplemented("call of ", n.callee));
          Machine callee(module_, limits_, functions_, &clock_, &error_);
          const Indices args = EvalAll(n.args);
          callee.Call(*f, {args.begin(), args.end()}, {});
        });
  }

  // `body` for those threads of which `condition` is true.
  template <class Condition, class Body>
  void RunWhere(Condition condition, Body body) {
    absl::InlinedVector<int, 1> chosen;
    for (int t : active_) {
      if (condition(t)) chosen.push_back(t);
    }
    if (chosen.empty() || !error_.ok()) return;
    active_.swap(chosen);
    body();
    active_.swap(chosen);
  }

  void RunAlloc(Buffer b) {
    const bool is_shared = (b->scope == Scope::kShared || b->scope == Scope::kWarp) && grid_ != nullptr;
    if (auto it = shared_.find(b); it != shared_.end()) {
      views_[b] = it->second;
      return;
    }
    const int64_t copies = is_shared ? 1 : threads_, most = (int64_t{1} << 32) / copies;
    int64_t size = BytesOf(b->dtype);
    for (Expr e : b->shape) {
      const int64_t extent = std::max<int64_t>(EvalInt(e), 0);
      if (extent != 0 && size > most / extent)
        return Fail(absl::ResourceExhaustedError(Cat("buffer ", b->name, " has more than ", most, " bytes")));
      size *= extent;
    }
    Take(size * copies / 64);
    if (!error_.ok()) return;
    Bind(b, std::make_shared<Memory>(size * copies), 0);
    if (is_shared) {
      shared_[b] = views_[b];
    } else if (copies > 1) {
      views_[b].thread_stride = size;
    }
  }

  void RunBlock(const Block& n) {
    if (n.predicate == nullptr) return RunInstance(n);
    const Value taken = Eval(n.predicate);
    RunWhere([&](int t) { return taken.At(t)->i != 0; }, [&] { RunInstance(n); });
  }

  void RunInstance(const Block& n) {
    absl::InlinedVector<Value, 4> iters;
    for (const BlockIter& i : n.iters) {
      iters.push_back(Eval(i.binding));
      const int64_t extent = EvalInt(i.extent);
      for (int t : active_) {
        const int64_t at = iters.back().At(t)->i;
        if (error_.ok() && (at < 0 || at >= extent)) {
          Fail(InvalidArgument("block ", n.name, ": ", i.var->name, " is ", at, " outside 0..", extent));
        }
      }
    }
    if (!error_.ok()) return;
    auto is_at_start = [&](int t) {
      for (size_t k = 0; k < iters.size(); ++k) {
        if (n.iters[k].kind == IterKind::kReduce && iters[k].At(t)->i != 0) return false;
      }
      return true;
    };
    for (size_t k = 0; k < iters.size(); ++k) vars_[n.iters[k].var] = iters[k];
    if (n.init != nullptr) RunWhere(is_at_start, [&] { Run(n.init); });
    Run(n.body);
  }

  void RunFor(const For& n, const Stmt& s) {
    const bool is_block = IsBlockAxis(n.kind), is_thread = IsThreadAxis(n.kind);
    if ((is_block || is_thread) && grid_ == nullptr) return RunDevice(s);
    const Value extent = Eval(n.extent);
    auto extent_of = [&](int t) { return extent.At(t)->i; };
    if (is_block || is_thread) {
      const int axis =
          static_cast<int>(n.kind.kind) - static_cast<int>(is_block ? ForKind::kBlockX : ForKind::kThreadX);
      const int64_t size = is_block ? grid_->grid[static_cast<size_t>(axis)] : grid_->block[static_cast<size_t>(axis)];
      Value index;
      ForEachThread(index, 1, is_thread && size > 1, [&](int t, Lane* r) {
        if (extent_of(t) > size) {
          Fail(InvalidArgument("loop ", n.var->name, " has extent ", extent_of(t), " and ", Name(n.kind), " ", size));
        }
        r->i = is_block ? grid_->block_index[static_cast<size_t>(axis)] : ThreadIndex(t, axis);
      });
      vars_[n.var] = index;
      return RunWhere([&](int t) { return index.At(t)->i < extent_of(t); }, [&] { Run(n.body); });
    }
    int64_t last = 0;
    for (int t : active_) last = std::max(last, extent_of(t));
    for (int64_t i = 0; i < last && error_.ok(); ++i) {
      Take(1);
      vars_[n.var] = Scalar(i);
      if (extent.varies) {
        RunWhere([&](int t) { return i < extent_of(t); }, [&] { Run(n.body); });
      } else {
        Run(n.body);
      }
    }
  }

  // Threads leave it one by one.
  void RunWhile(const While& n) {
    const absl::InlinedVector<int, 1> all = active_;
    while (error_.ok()) {
      Take(static_cast<int64_t>(active_.size()));
      const Value cond = Eval(n.cond);
      absl::InlinedVector<int, 1> on;
      for (int t : active_) {
        if (cond.At(t)->i != 0) on.push_back(t);
      }
      if (on.empty() || !error_.ok()) break;
      active_ = std::move(on);
      Run(n.body);
    }
    active_ = all;
  }

  // That addresses are within their buffers: no memory is touched.
  void CheckPrefetch(const Prefetch& n) {
    for (Expr load : LoadsOf(n)) {
      const Value mask = load->has_mask ? Eval(MaskOf(load)) : Scalar(1);
      for (int l = 0; l < load->type.lanes; ++l) {
        RunWhere([&](int t) { return mask.At(t, l).i != 0; },
                 [&] {
                   const Indices indices = EvalAll(IndicesOf(load));
                   const View* view = Find(load->buffer);
                   for (int t : active_) {
                     if (error_.ok()) Locate(load->buffer, *view, indices, t, l);
                   }
                 });
      }
    }
  }

  int64_t ThreadIndex(int t, int axis) const {
    const auto& b = grid_->block;
    if (axis == 3) return t / (b[0] * b[1] * b[2]);
    return axis == 0 ? t % b[0] : axis == 1 ? t / b[0] % b[1] : t / (b[0] * b[1]) % b[2];
  }

  // A nest with block and thread loops in a function that was not split yet: the launch has the largest extents.
  void RunDevice(const Stmt& s) {
    Grid grid;
    VisitStmts(s, [&](const Stmt& x) {
      const For* n = As<For>(x);
      if (n == nullptr || (!IsBlockAxis(n->kind) && !IsThreadAxis(n->kind))) return true;
      const bool is_block = IsBlockAxis(n->kind);
      const auto axis =
          static_cast<size_t>(n->kind.kind) - static_cast<size_t>(is_block ? ForKind::kBlockX : ForKind::kThreadX);
      int64_t& size = is_block ? grid.grid[axis] : grid.block[axis];
      size = std::max(size, EvalInt(n->extent));
      return true;
    });
    if (error_.ok()) RunGrid(s, grid);
  }

  void RunLaunch(const Launch& n) {
    const Func* f = module_.Find(n.kernel);
    if (f == nullptr) return Fail(InvalidArgument("launch of unknown kernel @", n.kernel));
    Grid grid;
    for (size_t d = 0; d < 3; ++d) {
      grid.grid[d] = EvalInt(n.grid[d]);
      grid.block[d] = EvalInt(n.block[d]);
    }
    if (n.cluster != nullptr) grid.block[3] = EvalInt(n.cluster);
    EvalInt(n.shared_bytes);
    const Indices args = EvalAll(n.args);
    if (!error_.ok()) return;
    Machine callee(module_, limits_, functions_, &clock_, &error_);
    Func parameters = *f;
    parameters.body = MakeSeq({});
    callee.Call(parameters, {args.begin(), args.end()}, {});
    callee.func_ = f;
    if (error_.ok()) callee.RunGrid(f->body, grid);
  }

  // One by name. What it is to read must have been written, and all of its outputs are afterwards.
  void RunFunction(const ir::Call& n) {
    if (grid_ != nullptr) return Fail(InvalidArgument("function \"", n.text, "\" is called in a kernel"));
    struct Tensor {
      DLTensor dl{};
      std::vector<int64_t> shape, strides;
      std::shared_ptr<Memory> memory;
      bool is_output = false;
    };
    std::vector<std::unique_ptr<Tensor>> tensors;
    std::vector<FunctionArg> args;
    ForEachOperand(n, [&](const ir::Call::Operand& o, absl::Span<const Expr> parts) {
      if (!error_.ok()) return;
      const Value first = Eval(parts[0]);
      if (!o.is_tensor) {
        if (IsFloat(o.dtype))
          args.emplace_back(first.At(0)->f);
        else
          args.emplace_back(first.At(0)->i);
        return;
      }
      Tensor& t = *tensors.emplace_back(std::make_unique<Tensor>());
      for (Expr e : parts.subspan(1, o.rank)) t.shape.push_back(EvalInt(e));
      for (Expr e : parts.subspan(1 + o.rank)) t.strides.push_back(EvalInt(e));
      if (!error_.ok()) return;
      if (!o.has_strides) {
        t.strides.assign(o.rank, 1);
        for (size_t d = o.rank; d-- > 1;) t.strides[d - 1] = (WrapInt(t.strides[d]) * t.shape[d]).value;
      }
      t.memory = first.memory;
      t.is_output = o.is_output;
      t.dl = {t.memory->bytes + first.At(0)->i,
              {kDLCPU, 0},
              static_cast<int32_t>(o.rank),
              {static_cast<uint8_t>(InfoOf(o.dtype).dlpack_code), static_cast<uint8_t>(InfoOf(o.dtype).bits), 1},
              t.shape.data(),
              t.strides.data(),
              0};
      args.emplace_back(&t.dl);
      const int64_t bytes = SpanBytes(t.dl), begin = first.At(0)->i, size = BytesOf(o.dtype);
      if (bytes < 0 || begin < 0 || begin > t.memory->size || bytes > t.memory->size - begin)
        return Fail(InvalidArgument("function \"", n.text, "\" takes more than there is of ", parts[0]->buffer->name));
      if (o.is_output) return;
      ForEachElement(t.dl, [&](int64_t at) {
        const uint8_t* written = t.memory->written + begin + at * size;
        if (std::count(written, written + size, 0) > 0)
          Fail(InvalidArgument("function \"", n.text, "\" takes ", parts[0]->buffer->name, " before it is written"));
      });
    });
    if (!error_.ok()) return;
    if (functions_ == nullptr) return Fail(Unimplemented("function \"", n.text, "\": none were given to call"));
    if (const Status called = functions_(n.text, args); !called.ok()) return Fail(called);
    for (const auto& t : tensors) {
      if (!t->is_output) continue;
      const int64_t size = t->dl.dtype.bits / 8, begin = static_cast<uint8_t*>(t->dl.data) - t->memory->bytes;
      ForEachElement(t->dl, [&](int64_t at) {
        std::memset(t->memory->written + begin + at * size, 1, static_cast<size_t>(size));
      });
    }
  }

  // f(the place of an element, in elements), until there is an error.
  template <class F>
  void ForEachElement(const DLTensor& t, F f) {
    for (int64_t i = 0, count = NumElements(t); i < count && error_.ok(); ++i) {
      int64_t at = 0, rest = i;
      for (int d = t.ndim; d-- > 0; rest /= t.shape[d]) at += rest % t.shape[d] * t.strides[d];
      f(at);
    }
  }

  void RunGrid(const Stmt& body, Grid grid) {
    const int64_t block = grid.block[0] * grid.block[1] * grid.block[2], threads = block * grid.block[3];
    if (block < 1 || block > limits_.threads) return Fail(InvalidArgument("a block of ", block, " threads"));
    if (grid.block[3] < 1 || grid.block[3] > limits_.cluster)
      return Fail(InvalidArgument("a cluster of ", grid.block[3], " blocks"));
    ++clock_.launch;
    for (int64_t z = 0; z < grid.grid[2]; ++z) {
      for (int64_t y = 0; y < grid.grid[1]; ++y) {
        for (int64_t x = 0; x < grid.grid[0] && error_.ok(); ++x) {
          grid.block_index = {x, y, z};
          ++clock_.block;
          ++clock_.epoch;
          Machine block(*this);
          block.grid_ = &grid;
          block.threads_ = static_cast<int>(threads);
          block.active_.resize(static_cast<size_t>(threads));
          for (int t = 0; t < block.threads_; ++t) block.active_[static_cast<size_t>(t)] = t;
          block.Run(body);
        }
      }
    }
  }

  // ---- memory ----
  void Bind(Buffer b, std::shared_ptr<Memory> memory, int64_t offset) {
    View v{std::move(memory), offset, 0, {}, {}};
    WrapInt last = 0, stride = 1;
    bool is_empty = false;
    for (Expr e : b->shape) v.shape.push_back(EvalInt(e));
    for (Expr e : b->strides) v.strides.push_back(EvalInt(e));
    if (v.strides.empty()) {
      v.strides.resize(v.shape.size());
      for (size_t d = v.shape.size(); d-- > 0;) {
        v.strides[d] = stride;
        stride = stride * v.shape[d];
      }
    }
    for (size_t d = 0; d < v.shape.size(); ++d) {
      last = last + (v.shape[d] - 1) * WrapInt(v.strides[d]);
      is_empty = is_empty || v.shape[d] <= 0;
    }
    if (error_.ok() && !is_empty && offset + (last + 1) * BytesOf(b->dtype) > v.memory->size) {
      return Fail(InvalidArgument("buffer ", b->name, " needs ", int64_t{(last + 1) * BytesOf(b->dtype)},
                                  " bytes and its memory has ", v.memory->size - offset));
    }
    views_[b] = std::move(v);
  }

  const View* Find(Buffer b) {
    auto it = views_.find(b);
    if (it != views_.end()) return &it->second;
    Fail(InvalidArgument("buffer ", b->name, " is used outside its allocation"));
    return nullptr;
  }

  // The byte offset of a lane of a thread; -1 after an error.
  int64_t Locate(Buffer b, const View& v, const Indices& indices, int thread, int lane) {
    WrapInt at = 0;
    for (size_t d = 0; d < v.shape.size(); ++d) {
      const int64_t i = indices[d].At(thread, lane).i;
      if (i < 0 || i >= v.shape[d]) {
        Fail(InvalidArgument("index ", i, " of buffer ", b->name, " is outside 0..", v.shape[d], " in dimension ", d));
        return -1;
      }
      at = at + i * WrapInt(v.strides[d]);
    }
    at = v.offset + thread * WrapInt(v.thread_stride) + at * BytesOf(b->dtype);
    if (at >= 0 && at <= v.memory->size - BytesOf(b->dtype)) return at;
    Fail(InvalidArgument("an element of buffer ", b->name, " is outside its memory"));  // by its strides
    return -1;
  }

  enum class Access { kRead, kWrite, kRewrite };
  // kRewrite: a write of what is there. Threads may agree on a result in global memory; in shared memory they take
  // turns.
  void CheckRace(Buffer b, const View& v, int64_t at, int thread, Access access) {
    if (grid_ == nullptr || v.thread_stride != 0) return;
    if (b->scope == Scope::kWarp) return;  // its threads run each statement together
    Use& u = v.memory->UseOf(at);
    const bool agrees = access == Access::kRewrite && b->scope == Scope::kGlobal;
    if ((!agrees && u.writer.Conflicts(clock_, thread)) ||
        (access != Access::kRead && u.reader.Conflicts(clock_, thread))) {
      return Fail(InvalidArgument("threads use an element of ", b->name, " without a barrier between"));
    }
    (access == Access::kRead ? u.reader : u.writer).Add(clock_, thread);
  }

  void RunStore(const Store& n) {
    const Indices indices = EvalAll(n.indices);
    const Value value = Eval(n.value), mask = n.mask == nullptr ? Scalar(1) : Eval(n.mask);
    const View* view = Find(n.buffer);
    if (!error_.ok()) return;
    int lanes = std::max(value.width, mask.width);
    for (const Value& i : indices) lanes = std::max(lanes, i.width);
    const DType t = n.buffer->dtype;
    for (int thread : active_) {
      for (int l = 0; l < lanes && error_.ok(); ++l) {
        if (mask.At(thread, l).i == 0) continue;
        const int64_t at = Locate(n.buffer, *view, indices, thread, l);
        if (at < 0) return;
        uint8_t bytes[8];
        const auto size = static_cast<size_t>(BytesOf(t));
        StoreLane(t, bytes, value.At(thread, l));
        uint8_t* to = view->memory->bytes + at;
        const bool repeats = view->memory->written[at] != 0 && std::memcmp(to, bytes, size) == 0;
        CheckRace(n.buffer, *view, at, thread, repeats ? Access::kRewrite : Access::kWrite);
        std::memcpy(to, bytes, size);
        std::memset(view->memory->written + at, 1, size);
      }
    }
  }

  Value EvalLoad(Expr e) {
    Indices indices = EvalAll(e->args);
    const View* view = Find(e->buffer);
    if (!error_.ok()) return Zero(e->type);
    bool varies = view->thread_stride != 0;
    for (const Value& i : indices) varies |= i.varies;
    Value mask = Scalar(1);
    if (e->has_mask) {
      mask = std::move(indices.back());
      indices.pop_back();
    }
    const DType t = e->type.dtype;
    Value r;
    ForEachThread(r, e->type.lanes, varies, [&](int thread, Lane* lanes) {
      for (int l = 0; l < e->type.lanes && error_.ok(); ++l) {
        if (mask.At(thread, l).i == 0) continue;
        const int64_t at = Locate(e->buffer, *view, indices, thread, l);
        if (at < 0) return;
        CheckRace(e->buffer, *view, at, thread, Access::kRead);
        // Every thread reads it: two stand for all.
        if (!varies && active_.size() > 1) CheckRace(e->buffer, *view, at, active_[1], Access::kRead);
        for (int k = 0; k < BytesOf(t); ++k) {
          if (view->memory->written[at + k] == 0) {
            return Fail(InvalidArgument("buffer ", e->buffer->name, " is read before it is written, in ", Print(e)));
          }
        }
        lanes[l] = LoadLane(t, view->memory->bytes + at);
      }
    });
    return r;
  }

  // ---- values ----
  // Gives `r` its lanes: f(thread, lanes of that thread) for every active thread, or once where all have the same.
  template <class F>
  void ForEachThread(Value& r, int width, bool varies, F f) {
    r.width = width;
    r.varies = varies;
    r.lanes.resize(static_cast<size_t>(varies ? width * threads_ : width));
    if (!varies) return f(active_[0], r.lanes.data());
    for (int t : active_) {
      if (error_.ok()) f(t, r.lanes.data() + t * width);
    }
  }
  Value Zero(Type t) {
    Value r;
    r.width = t.lanes;
    r.lanes.resize(static_cast<size_t>(t.lanes));
    return r;
  }

  // A number on which all threads must agree.
  int64_t EvalInt(Expr e) {
    const Value v = Eval(e);
    const int64_t r = v.At(active_[0])->i;
    for (int t : active_) {
      if (error_.ok() && v.At(t)->i != r) Fail(InvalidArgument("threads differ in ", Print(e)));
    }
    return r;
  }
  Indices EvalAll(const std::vector<Expr>& v) {
    Indices r;
    for (Expr e : v) r.push_back(Eval(e));
    return r;
  }

  Value Eval(Expr e) {
    switch (e->op) {
      case ExprOp::kInt:
        return Scalar(e->int_value);
      case ExprOp::kFloat:
        return Scalar(0, e->float_value);
      case ExprOp::kVar: {
        auto it = vars_.find(e);
        if (it != vars_.end()) return it->second;
        Fail(InvalidArgument("variable ", e->name, " has no value"));
        return Zero(e->type);
      }
      case ExprOp::kLoad:
        return EvalLoad(e);
      case ExprOp::kAddress:
        return EvalAddress(e);
      default:
        break;
    }
    const Indices args = EvalAll(e->args);
    if (!error_.ok()) return Zero(e->type);
    if (e->op == ExprOp::kShuffleXor) return EvalShuffle(e, args);
    Indices masks;  // of loads in what is checked
    if (e->op == ExprOp::kChecked) {
      VisitLoads(e->args[0], [&](Expr x) {
        if (x->has_mask) masks.push_back(Eval(MaskOf(x)));
      });
    }
    bool varies = false;
    for (const Value& a : args) varies |= a.varies;
    for (const Value& m : masks) varies |= m.varies;
    const bool folds_lanes = RowOf(e->op) != nullptr && RowOf(e->op)->result == OpRow::kElement;
    Value r;
    ForEachThread(r, e->type.lanes, varies, [&](int t, Lane* lanes) {
      if (folds_lanes) {
        *lanes = FoldLanes(e, args[0].At(t), args[0].width);
        return;
      }
      if (e->op == ExprOp::kLaneShift) {
        const int n = LanesMoved(e).value_or(0);
        for (int l = 0; l < e->type.lanes; ++l) lanes[l] = args[0].At(t, l < n ? l : l - n);
        return;
      }
      if (e->op == ExprOp::kChecked) {
        for (int l = 0; l < e->type.lanes; ++l) {
          lanes[l] = args[0].At(t, l);
          const bool is_on = std::all_of(masks.begin(), masks.end(), [&](const Value& m) { return m.At(t, l).i != 0; });
          if (is_on && (lanes[l].i < args[1].At(t, l).i || lanes[l].i >= args[2].At(t, l).i))
            Fail(absl::OutOfRangeError(e->name));
        }
        return;
      }
      for (int l = 0; l < e->type.lanes; ++l) {
        Lane a[3];
        for (size_t k = 0; k < args.size(); ++k) a[k] = args[k].At(t, l);
        lanes[l] = e->op == ExprOp::kCast        ? Convert(e->args[0]->type.dtype, e->type.dtype, a[0])
                   : e->op == ExprOp::kRamp      ? Lane{WrapTo(e->type.dtype, a[0].i + l * WrapInt(a[1].i)), 0}
                   : e->op == ExprOp::kBroadcast ? a[0]
                                                 : Apply(e, a);
      }
    });
    return r;
  }

  Value EvalAddress(Expr e) {
    const View* view = Find(e->buffer);
    if (view == nullptr) return Scalar(0);
    WrapInt at = 0;
    for (size_t d = 0; d < e->args.size(); ++d) at = at + EvalInt(e->args[d]) * WrapInt(view->strides[d]);
    Value r = Scalar(view->offset + at * BytesOf(e->buffer->dtype));
    r.memory = view->memory;
    return r;
  }

  Lane FoldLanes(Expr e, const Lane* v, int count) {
    const ExprOp op = e->op == ExprOp::kLaneAdd   ? ExprOp::kAdd
                      : e->op == ExprOp::kLaneMul ? ExprOp::kMul
                      : e->op == ExprOp::kLaneMin ? ExprOp::kMin
                                                  : ExprOp::kMax;
    if (e->op == ExprOp::kLaneLast) return v[count - 1];
    Lane r = v[0];
    for (int l = 1; l < count; ++l) {
      r = IsFloat(e->type.dtype) ? Lane{0, FoldFloat(op, e->type.dtype, r.f, v[l].f, 0).value_or(0)}
                                 : Lane{FoldInt(op, e->type.dtype, {r.i, v[l].i}).value_or(0), 0};
    }
    return r;
  }

  Value EvalShuffle(Expr e, const Indices& args) {
    Value r;
    const int warp = static_cast<int>(limits_.warp);
    if (grid_ == nullptr || e->type.lanes != 1) Fail(InvalidArgument("shuffle_xor outside thread loops"));
    std::vector<int> active_in_warp(static_cast<size_t>((threads_ + warp - 1) / warp));
    for (int t : active_) ++active_in_warp[static_cast<size_t>(t / warp)];
    ForEachThread(r, 1, true, [&](int t, Lane* lane) {
      const int first = t / warp * warp, size = std::min(warp, threads_ - first);
      const int64_t partner = (t % warp) ^ args[1].At(t)->i;
      if (active_in_warp[static_cast<size_t>(t / warp)] != size) {
        Fail(InvalidArgument("not every thread reaches a shuffle"));
      } else if (partner < 0 || partner >= size) {
        Fail(InvalidArgument("shuffle_xor with lane ", partner, " of a warp of ", size));
      } else {
        *lane = *args[0].At(first + static_cast<int>(partner));
      }
    });
    return r;
  }

  Lane Apply(Expr e, const Lane* a) {
    if (e->op == ExprOp::kSelect) return a[0].i != 0 ? a[1] : a[2];
    const DType t = e->args[0]->type.dtype;
    if (!IsFloat(t)) {
      if (e->op == ExprOp::kFma) return {WrapTo(t, a[0].i * WrapInt(a[1].i) + a[2].i), 0};
      if (e->op == ExprOp::kPow) {
        int64_t r = 1;
        for (int64_t k = 0; k < a[1].i && k < 64; ++k) r = FoldInt(ExprOp::kMul, t, {r, a[0].i}).value_or(0);
        return {r, 0};
      }
      const int64_t args[] = {a[0].i, a[1].i, a[2].i};
      if (auto v = FoldInt(e->op, t, absl::MakeSpan(args, e->args.size()))) return {*v, 0};
      Fail(InvalidArgument("no value: ", Print(e)));
      return {};
    }
    const double x = a[0].f, y = a[1].f;
    switch (e->op) {
      case ExprOp::kEq:
        return {x == y, 0};
      case ExprOp::kNe:
        return {x != y, 0};
      case ExprOp::kLt:
        return {x < y, 0};
      case ExprOp::kLe:
        return {x <= y, 0};
      case ExprOp::kIsNan:
        return {std::isnan(x), 0};
      default:
        if (auto v = FoldFloat(e->op, t, x, y, a[2].f)) return {0, *v};
        Fail(Unimplemented("operator ", RowOf(e->op)->text, " on ", Name(t)));
        return {};
    }
  }

  const Module& module_;
  const LaunchLimits& limits_;
  const FunctionCaller& functions_;
  Clock& clock_;
  Status& error_;
  absl::flat_hash_map<Expr, Value> vars_;
  absl::flat_hash_map<Buffer, View> views_;
  absl::flat_hash_map<size_t, std::vector<int64_t>> array_shapes_;
  absl::flat_hash_map<Buffer, View> shared_;  // of this block: an allocation in a loop is one
  absl::InlinedVector<int, 1> active_{0};     // the threads that execute now, in order; at least one
  int threads_ = 1;
  const Grid* grid_ = nullptr;  // null on the host
  const Func* func_ = nullptr;
};

}  // namespace

Status Interpret(const Module& m, std::string_view name, const std::vector<InterpretArg>& args,
                 const absl::flat_hash_map<std::string, int64_t>& symbols, const InterpretOptions& options) {
  const Func* f = m.Find(name);
  if (f == nullptr) return InvalidArgument("no function @", name);
  Status error;
  Clock clock{.steps_left = options.most_steps};
  Machine machine(m, options.limits, options.functions, &clock, &error);
  std::vector<Value> values;
  for (size_t i = 0; i < args.size(); ++i) {
    if (auto* a = std::get_if<HostArray*>(&args[i])) {
      if (i < f->params.size() && f->params[i].buffer != nullptr && f->params[i].buffer->dtype != (*a)->dtype) {
        return InvalidArgument("argument ", f->params[i].buffer->name, " of @", name, ": expected ",
                               Name(f->params[i].buffer->dtype), " and got ", Name((*a)->dtype));
      }
      Value v = Scalar(0);
      v.memory = std::make_shared<Memory>(*a);
      values.push_back(std::move(v));
      machine.SetArrayShape(i, (*a)->shape);
    } else if (auto* n = std::get_if<int64_t>(&args[i])) {
      values.push_back(Scalar(*n));
    } else {
      values.push_back(Scalar(0, std::get<double>(args[i])));
    }
  }
  machine.Call(*f, values, symbols);
  return error;
}

Status Interpret(const Func& f, const std::vector<InterpretArg>& args,
                 const absl::flat_hash_map<std::string, int64_t>& symbols, const InterpretOptions& options) {
  Module m{f.context, {f}};
  return Interpret(m, f.name, args, symbols, options);
}

}  // namespace cinn_like::ir
