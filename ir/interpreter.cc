#include "ir/interpreter.h"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "ir/interpreter_memory.h"

namespace cinn_like::ir {
namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr int kWarp = 32;

class Machine;

// One thread of a block.
struct Fiber {
  ucontext_t context{};
  std::vector<char> stack;
  Machine* machine = nullptr;
  bool is_done = false;
  enum { kRunning, kAtBarrier, kAtShuffle } state = kRunning;
  Lane exchanged;
  std::vector<Lane> received;
};

// What the threads of a block have in common.
struct BlockState {
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1}, block_index{};
  absl::flat_hash_map<Buffer, View> shared;
  std::vector<std::unique_ptr<Fiber>> fibers;
  ucontext_t scheduler{};
  int64_t epoch = 0;
  Status error;
};

// Executes statements for one thread (or for the host).
class Machine {
 public:
  Machine(const Module& m, Status* error) : module_(m), error_(*error) {}
  Machine(const Machine& m, BlockState* block, int thread)
      : module_(m.module_),
        error_(block->error),
        vars_(m.vars_),
        views_(m.views_),
        block_(block),
        thread_(thread),
        func_(m.func_) {}

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

  void Run(const Stmt& s) {
    if (!error_.ok()) return;
    Match(
        s,
        [&](const Seq& n) {
          for (const Stmt& x : n.stmts) Run(x);
        },
        [&](const For& n) { RunFor(n, s); },
        [&](const If& n) {
          const bool taken = EvalInt(n.cond) != 0;
          if (taken) {
            Run(n.then);
          } else if (n.otherwise != nullptr) {
            Run(n.otherwise);
          }
        },
        [&](const Let& n) { vars_[n.var] = Eval(n.value); }, [&](const Alloc& n) { RunAlloc(n.buffer); },
        [&](const Store& n) { RunStore(n); }, [&](const Block& n) { RunBlock(n); },
        [&](const Barrier&) {
          if (block_ == nullptr || thread_ < 0) return Fail(InvalidArgument("a barrier outside thread loops"));
          Wait(Fiber::kAtBarrier);
        },
        [&](const Launch& n) { RunLaunch(n); },
        [&](const ir::Call& n) {
          if (n.meaning != nullptr) return Run(n.meaning);
          const Func* f = module_.Find(n.callee);
          if (n.is_runtime || f == nullptr) return Fail(Unimplemented("call of ", n.callee));
          Machine callee(module_, &error_);
          callee.Call(*f, EvalAll(n.args), {});
        });
  }

  static void Enter(uint32_t high, uint32_t low) {
    auto* fiber = reinterpret_cast<Fiber*>((static_cast<uint64_t>(high) << 32) | low);
    fiber->machine->Run(*fiber->machine->body_);
    fiber->is_done = true;
    swapcontext(&fiber->context, &fiber->machine->block_->scheduler);
  }

 private:
  void Fail(Status s) {
    if (error_.ok()) error_ = Annotate(s, func_ == nullptr ? "?" : Cat("@", func_->name));
  }

  void Bind(Buffer b, std::shared_ptr<Memory> memory, int64_t offset) {
    View v{std::move(memory), offset, {}, {}};
    int64_t last = 0, stride = 1;
    bool is_empty = false;
    for (Expr e : b->shape) v.shape.push_back(EvalInt(e));
    for (Expr e : b->strides) v.strides.push_back(EvalInt(e));
    if (v.strides.empty()) {
      v.strides.resize(v.shape.size());
      for (size_t d = v.shape.size(); d-- > 0;) {
        v.strides[d] = stride;
        stride *= v.shape[d];
      }
    }
    for (size_t d = 0; d < v.shape.size(); ++d) {
      last += (v.shape[d] - 1) * v.strides[d];
      is_empty = is_empty || v.shape[d] <= 0;
    }
    if (error_.ok() && !is_empty && offset + (last + 1) * BytesOf(b->dtype) > v.memory->size) {
      return Fail(InvalidArgument("buffer ", b->name, " needs ", (last + 1) * BytesOf(b->dtype),
                                  " bytes and its memory has ", v.memory->size - offset));
    }
    views_[b] = std::move(v);
  }

  void RunAlloc(Buffer b) {
    if (b->scope == Scope::kShared && block_ != nullptr) {
      auto it = block_->shared.find(b);
      if (it != block_->shared.end()) {
        views_[b] = it->second;
        return;
      }
    }
    int64_t size = BytesOf(b->dtype);
    for (Expr e : b->shape) size *= std::max<int64_t>(EvalInt(e), 0);
    if (!error_.ok()) return;
    if (size > (int64_t{1} << 32)) return Fail(InvalidArgument("buffer ", b->name, " has ", size, " bytes"));
    Bind(b, std::make_shared<Memory>(size, b->scope == Scope::kShared), 0);
    if (b->scope == Scope::kShared && block_ != nullptr) block_->shared[b] = views_[b];
  }

  void RunBlock(const Block& n) {
    bool at_start = true;
    absl::InlinedVector<std::pair<Expr, Value>, 4> iters;
    if (n.predicate != nullptr && EvalInt(n.predicate) == 0) return;
    for (const BlockIter& i : n.iters) {
      const int64_t v = EvalInt(i.binding), extent = EvalInt(i.extent);
      if (!error_.ok()) return;
      if (v < 0 || v >= extent) {
        return Fail(InvalidArgument("block ", n.name, ": ", i.var->name, " is ", v, " outside 0..", extent));
      }
      at_start = at_start && (i.kind == IterKind::kData || v == 0);
      iters.emplace_back(i.var, Scalar(v));
    }
    for (auto& [var, v] : iters) vars_[var] = v;
    if (at_start && n.init != nullptr) Run(n.init);
    Run(n.body);
  }

  void RunFor(const For& n, const Stmt& s) {
    const bool is_block = IsBlockAxis(n.kind), is_thread = IsThreadAxis(n.kind);
    if (is_block || is_thread) {
      if (block_ == nullptr) return RunDevice(s);
      const int axis = static_cast<int>(n.kind) - static_cast<int>(is_block ? ForKind::kBlockX : ForKind::kThreadX);
      const int64_t extent = EvalInt(n.extent);
      const int64_t size = (is_block ? block_->grid : block_->block)[static_cast<size_t>(axis)];
      if (error_.ok() && extent > size) {
        return Fail(InvalidArgument("loop ", n.var->name, " has extent ", extent, " and ", Name(n.kind), " ", size));
      }
      const int64_t at = is_block ? block_->block_index[static_cast<size_t>(axis)] : ThreadIndex(axis);
      if (at >= extent) return;
      vars_[n.var] = Scalar(at);
      return Run(n.body);
    }
    const int64_t extent = EvalInt(n.extent);
    for (int64_t i = 0; i < extent && error_.ok(); ++i) {
      vars_[n.var] = Scalar(i);
      Run(n.body);
    }
  }

  int64_t ThreadIndex(int axis) const {
    const auto& b = block_->block;
    return axis == 0 ? thread_ % b[0] : axis == 1 ? thread_ / b[0] % b[1] : thread_ / (b[0] * b[1]);
  }

  // A nest with block and thread loops in a function that was not split yet: the launch has the largest extents.
  void RunDevice(const Stmt& s) {
    std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
    VisitStmts(s, [&](const Stmt& x) {
      const For* n = As<For>(x);
      if (n == nullptr || (!IsBlockAxis(n->kind) && !IsThreadAxis(n->kind))) return true;
      const bool is_block = IsBlockAxis(n->kind);
      const auto axis =
          static_cast<size_t>(n->kind) - static_cast<size_t>(is_block ? ForKind::kBlockX : ForKind::kThreadX);
      int64_t& size = (is_block ? grid : block)[axis];
      size = std::max(size, EvalInt(n->extent));
      return true;
    });
    if (error_.ok()) RunGrid(s, grid, block);
  }

  void RunLaunch(const Launch& n) {
    const Func* f = module_.Find(n.kernel);
    if (f == nullptr) return Fail(InvalidArgument("launch of unknown kernel @", n.kernel));
    std::array<int64_t, 3> grid{}, block{};
    for (size_t d = 0; d < 3; ++d) {
      grid[d] = EvalInt(n.grid[d]);
      block[d] = EvalInt(n.block[d]);
    }
    EvalInt(n.shared_bytes);
    std::vector<Value> args = EvalAll(n.args);
    if (!error_.ok()) return;
    Machine callee(module_, &error_);
    Func parameters = *f;
    parameters.body = MakeSeq({});
    callee.Call(parameters, args, {});
    callee.func_ = f;
    if (error_.ok()) callee.RunGrid(f->body, grid, block);
  }

  void RunGrid(const Stmt& body, std::array<int64_t, 3> grid, std::array<int64_t, 3> block) {
    const int64_t threads = block[0] * block[1] * block[2];
    if (threads < 1 || threads > 1024) return Fail(InvalidArgument("a block of ", threads, " threads"));
    std::vector<std::unique_ptr<Fiber>> fibers;
    for (int64_t t = 0; t < threads; ++t) {
      fibers.push_back(std::make_unique<Fiber>());
      fibers.back()->stack.resize(kStackBytes);
    }
    for (int64_t z = 0; z < grid[2]; ++z) {
      for (int64_t y = 0; y < grid[1]; ++y) {
        for (int64_t x = 0; x < grid[0] && error_.ok(); ++x) {
          BlockState state;
          state.grid = grid;
          state.block = block;
          state.block_index = {x, y, z};
          state.fibers = std::move(fibers);
          RunThreads(body, state);
          fibers = std::move(state.fibers);
          if (error_.ok()) error_ = state.error;
        }
      }
    }
  }

  void RunThreads(const Stmt& body, BlockState& state) {
    std::vector<std::unique_ptr<Machine>> machines;
    for (size_t t = 0; t < state.fibers.size(); ++t) {
      machines.push_back(std::make_unique<Machine>(*this, &state, static_cast<int>(t)));
      machines.back()->body_ = &body;
      Fiber& f = *state.fibers[t];
      f.machine = machines.back().get();
      f.is_done = false;
      f.state = Fiber::kRunning;
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.data();
      f.context.uc_stack.ss_size = f.stack.size();
      f.context.uc_link = nullptr;
      const auto p = reinterpret_cast<uint64_t>(&f);
      makecontext(&f.context, reinterpret_cast<void (*)()>(&Machine::Enter), 2, static_cast<uint32_t>(p >> 32),
                  static_cast<uint32_t>(p));
    }
    for (;;) {
      size_t running = 0, done = 0;
      for (auto& f : state.fibers) {
        if (!f->is_done && f->state == Fiber::kRunning) swapcontext(&state.scheduler, &f->context);
        // After an error every thread runs on to its end: statements do nothing, waits return at once.
        if (!state.error.ok()) f->state = Fiber::kRunning;
        done += f->is_done;
        running += !f->is_done && f->state == Fiber::kRunning;
      }
      if (done == state.fibers.size()) return;
      if (running > 0) continue;
      Resume(state);
    }
  }

  // Every thread waits or is done.
  void Resume(BlockState& state) {
    bool resumed = false;
    for (size_t first = 0; first < state.fibers.size(); first += kWarp) {
      const size_t last = std::min(first + kWarp, state.fibers.size());
      const auto begin = state.fibers.begin() + static_cast<int64_t>(first),
                 end = state.fibers.begin() + static_cast<int64_t>(last);
      if (!std::all_of(begin, end, [](auto& f) { return f->state == Fiber::kAtShuffle && !f->is_done; })) continue;
      std::vector<Lane> lanes;
      for (auto it = begin; it != end; ++it) lanes.push_back((*it)->exchanged);
      for (auto it = begin; it != end; ++it) {
        (*it)->received = lanes;
        (*it)->state = Fiber::kRunning;
      }
      resumed = true;
    }
    if (resumed) return;
    const bool all_wait = std::all_of(state.fibers.begin(), state.fibers.end(),
                                      [](auto& f) { return !f->is_done && f->state == Fiber::kAtBarrier; });
    if (!all_wait && state.error.ok()) {
      const bool at_shuffle = std::any_of(state.fibers.begin(), state.fibers.end(),
                                          [](auto& f) { return !f->is_done && f->state == Fiber::kAtShuffle; });
      state.error =
          InvalidArgument("@", func_->name, ": not every thread reaches a ", at_shuffle ? "shuffle" : "barrier");
    }
    ++state.epoch;
    for (auto& f : state.fibers) f->state = Fiber::kRunning;
  }

  void Wait(decltype(Fiber::state) why) {
    if (!error_.ok()) return;
    Fiber& f = *block_->fibers[static_cast<size_t>(thread_)];
    f.state = why;
    swapcontext(&f.context, &block_->scheduler);
  }

  // ---- memory ----
  // The byte offset of lane l; -1 after an error.
  int64_t Locate(Buffer b, const View& v, const std::vector<Value>& indices, size_t lane) {
    int64_t at = 0;
    for (size_t d = 0; d < v.shape.size(); ++d) {
      const auto& lanes = indices[d].lanes;
      const int64_t i = lanes[lanes.size() == 1 ? 0 : lane].i;
      if (i < 0 || i >= v.shape[d]) {
        Fail(InvalidArgument("index ", i, " of buffer ", b->name, " is outside 0..", v.shape[d], " in dimension ", d));
        return -1;
      }
      at += i * v.strides[d];
    }
    return v.offset + at * BytesOf(b->dtype);
  }

  const View* Find(Buffer b) {
    auto it = views_.find(b);
    if (it != views_.end()) return &it->second;
    Fail(InvalidArgument("buffer ", b->name, " is used outside its allocation"));
    return nullptr;
  }

  void CheckRace(Buffer b, Memory& m, int64_t at, bool is_write) {
    if (m.uses.empty() || thread_ < 0) return;
    Use& u = m.uses[static_cast<size_t>(at)];
    const int64_t epoch = block_->epoch;
    const bool other_wrote = u.write_epoch == epoch && u.writer != thread_;
    const bool other_read = u.read_epoch == epoch && u.reader != thread_;
    if (other_wrote || (is_write && other_read)) {
      return Fail(InvalidArgument("threads use an element of ", b->name, " without a barrier between"));
    }
    if (is_write) {
      u.writer = thread_;
      u.write_epoch = epoch;
    } else {
      u.reader = u.read_epoch == epoch && u.reader != thread_ ? -2 : thread_;
      u.read_epoch = epoch;
    }
  }

  void RunStore(const Store& n) {
    const View* found = Find(n.buffer);
    if (found == nullptr) return;
    const View view = *found;
    const std::vector<Value> indices = EvalAll(n.indices);
    const Value value = Eval(n.value);
    const Value mask = n.mask == nullptr ? Scalar(1) : Eval(n.mask);
    size_t lanes = std::max(value.lanes.size(), mask.lanes.size());
    for (const Value& i : indices) lanes = std::max(lanes, i.lanes.size());
    const DType t = n.buffer->dtype;
    for (size_t l = 0; l < lanes && error_.ok(); ++l) {
      if (mask.lanes[mask.lanes.size() == 1 ? 0 : l].i == 0) continue;
      const int64_t at = Locate(n.buffer, view, indices, l);
      if (at < 0) return;
      CheckRace(n.buffer, *view.memory, at, true);
      const Lane v = value.lanes[value.lanes.size() == 1 ? 0 : l];
      StoreLane(t, view.memory->bytes + at, v);
      std::memset(view.memory->written + at, 1, static_cast<size_t>(BytesOf(t)));
    }
  }

  Value EvalLoad(Expr e) {
    const View* found = Find(e->buffer);
    Value r{absl::InlinedVector<Lane, 1>(static_cast<size_t>(e->type.lanes)), nullptr};
    if (found == nullptr) return r;
    const View view = *found;
    const std::vector<Value> indices = EvalAll(IndicesOf(e));
    const Value mask = e->has_mask ? Eval(MaskOf(e)) : Scalar(1);
    const DType t = e->type.dtype;
    for (size_t l = 0; l < r.lanes.size() && error_.ok(); ++l) {
      if (mask.lanes[mask.lanes.size() == 1 ? 0 : l].i == 0) continue;
      const int64_t at = Locate(e->buffer, view, indices, l);
      if (at < 0) return r;
      CheckRace(e->buffer, *view.memory, at, false);
      for (int k = 0; k < BytesOf(t); ++k) {
        if (view.memory->written[at + k] == 0) {
          Fail(InvalidArgument("buffer ", e->buffer->name, " is read before it is written, in ", Print(e)));
          return r;
        }
      }
      r.lanes[l] = LoadLane(t, view.memory->bytes + at);
    }
    return r;
  }

  // ---- values ----
  int64_t EvalInt(Expr e) { return Eval(e).lanes[0].i; }
  std::vector<Value> EvalAll(const std::vector<Expr>& v) {
    std::vector<Value> r;
    for (Expr e : v) r.push_back(Eval(e));
    return r;
  }

  Value Eval(Expr e) {
    switch (e->op) {
      case ExprOp::kInt:
        return Scalar(e->int_value);
      case ExprOp::kFloat:
        return {{{0, e->float_value}}, nullptr};
      case ExprOp::kVar: {
        auto it = vars_.find(e);
        if (it != vars_.end()) return it->second;
        Fail(InvalidArgument("variable ", e->name, " has no value"));
        return {absl::InlinedVector<Lane, 1>(static_cast<size_t>(e->type.lanes)), nullptr};
      }
      case ExprOp::kLoad:
        return EvalLoad(e);
      case ExprOp::kAddress: {
        const View* v = Find(e->buffer);
        if (v == nullptr) return Scalar(0);
        const View view = *v;
        int64_t at = 0;
        for (size_t d = 0; d < e->args.size(); ++d) at += EvalInt(e->args[d]) * view.strides[d];
        Value r = Scalar(view.offset + at * BytesOf(e->buffer->dtype));
        r.memory = view.memory;
        return r;
      }
      default:
        break;
    }
    std::vector<Value> args = EvalAll(e->args);
    Value r;
    if (!error_.ok()) {
      r.lanes.resize(static_cast<size_t>(e->type.lanes));
      return r;
    }
    if (e->op == ExprOp::kShuffleXor) return EvalShuffle(e, args);
    if (e->op == ExprOp::kRamp) {
      for (int l = 0; l < e->type.lanes; ++l) {
        r.lanes.push_back({WrapTo(e->type.dtype, args[0].lanes[0].i + l * args[1].lanes[0].i), 0});
      }
      return r;
    }
    if (e->op == ExprOp::kBroadcast) {
      r.lanes.assign(static_cast<size_t>(e->type.lanes), args[0].lanes[0]);
      return r;
    }
    if (RowOf(e->op) != nullptr && RowOf(e->op)->result == OpRow::kElement) return EvalLanes(e, args[0]);
    for (size_t l = 0; l < static_cast<size_t>(e->type.lanes); ++l) {
      Lane a[3];
      for (size_t k = 0; k < args.size(); ++k) a[k] = args[k].lanes[args[k].lanes.size() == 1 ? 0 : l];
      r.lanes.push_back(e->op == ExprOp::kCast ? Convert(e->args[0]->type.dtype, e->type.dtype, a[0]) : Apply(e, a));
    }
    return r;
  }

  Value EvalLanes(Expr e, const Value& v) {
    const ExprOp op = e->op == ExprOp::kLaneAdd   ? ExprOp::kAdd
                      : e->op == ExprOp::kLaneMul ? ExprOp::kMul
                      : e->op == ExprOp::kLaneMin ? ExprOp::kMin
                                                  : ExprOp::kMax;
    Lane r = v.lanes[0];
    for (size_t l = 1; l < v.lanes.size(); ++l) {
      r = IsFloat(e->type.dtype) ? Lane{0, FoldFloat(op, e->type.dtype, r.f, v.lanes[l].f, 0).value_or(0)}
                                 : Lane{FoldInt(op, e->type.dtype, {r.i, v.lanes[l].i}).value_or(0), 0};
    }
    return {{r}, nullptr};
  }

  Value EvalShuffle(Expr e, const std::vector<Value>& args) {
    if (block_ == nullptr || e->type.lanes != 1) {
      Fail(InvalidArgument("shuffle_xor outside thread loops"));
      return args[0];
    }
    Fiber& f = *block_->fibers[static_cast<size_t>(thread_)];
    f.exchanged = args[0].lanes[0];
    Wait(Fiber::kAtShuffle);
    if (!error_.ok()) return args[0];
    const auto partner = static_cast<size_t>((thread_ % kWarp) ^ args[1].lanes[0].i);
    if (partner >= f.received.size()) {
      Fail(InvalidArgument("shuffle_xor with lane ", partner, " of a warp of ", f.received.size()));
      return args[0];
    }
    return {{f.received[partner]}, nullptr};
  }

  Lane Apply(Expr e, const Lane* a) {
    if (e->op == ExprOp::kSelect) return a[0].i != 0 ? a[1] : a[2];
    const DType t = e->args[0]->type.dtype;
    if (!IsFloat(t)) {
      std::vector<int64_t> args;
      for (size_t k = 0; k < e->args.size(); ++k) args.push_back(a[k].i);
      if (e->op == ExprOp::kPow || e->op == ExprOp::kFma) {
        if (e->op == ExprOp::kFma) return {WrapTo(t, a[0].i * a[1].i + a[2].i), 0};
        int64_t r = 1;
        for (int64_t k = 0; k < a[1].i && k < 64; ++k) r = FoldInt(ExprOp::kMul, t, {r, a[0].i}).value_or(0);
        return {r, 0};
      }
      if (auto v = FoldInt(e->op, t, args)) return {*v, 0};
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
  Status& error_;
  absl::flat_hash_map<Expr, Value> vars_;
  absl::flat_hash_map<Buffer, View> views_;
  absl::flat_hash_map<size_t, std::vector<int64_t>> array_shapes_;
  BlockState* block_ = nullptr;
  int thread_ = -1;
  const Func* func_ = nullptr;
  const Stmt* body_ = nullptr;
};

}  // namespace

Status Interpret(const Module& m, std::string_view name, const std::vector<InterpretArg>& args,
                 const absl::flat_hash_map<std::string, int64_t>& symbols) {
  const Func* f = m.Find(name);
  if (f == nullptr) return InvalidArgument("no function @", name);
  Status error;
  Machine machine(m, &error);
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
      values.push_back({{{0, std::get<double>(args[i])}}, nullptr});
    }
  }
  machine.Call(*f, values, symbols);
  return error;
}

Status Interpret(const Func& f, const std::vector<InterpretArg>& args,
                 const absl::flat_hash_map<std::string, int64_t>& symbols) {
  Module m{f.context, {f}};
  return Interpret(m, f.name, args, symbols);
}

}  // namespace cinn_like::ir
