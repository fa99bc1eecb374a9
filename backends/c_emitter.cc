#include "backends/c_emitter.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_replace.h"
#include "backends/c_host.h"
#include "backends/expr_printer.h"
#include "backends/instruction_printer.h"
#include "backends/kernel_facts.h"
#include "backends/mma_printer.h"
#include "backends/tensor_copy_printer.h"
#include "backends/wgmma_printer.h"
#include "ir/passes/split_host_device.h"

namespace cinn_like::backends {
namespace {
using ir::Expr;
using ir::ForKind;
using ir::Stmt;

constexpr size_t kQuad = 4;
constexpr int64_t kPanelAlignment = 1024;
constexpr std::string_view kPanelFence = "asm volatile(\"fence.proxy.async.shared::cta;\" : : : \"memory\");";
constexpr std::string_view kFragment = "uint4 ", kConstFragment = "const uint4 ";

class FuncEmitter {
 public:
  FuncEmitter(const ir::Func& f, const Dialect& d, const CEntry* entry = nullptr)
      : f_(f),
        d_(d),
        printer_(d, f, out_),
        facts_(FindKernelFacts(f)),
        mma_(d, f, printer_, out_),
        wgmma_(d, f, printer_, mma_, out_),
        tensor_copies_(d, f, printer_, out_),
        host_(f, entry, printer_, out_) {}

  StatusOr<std::string> Emit(std::string_view name) {
    const bool is_kernel = f_.kind == ir::FuncKind::kKernel;
    if (is_kernel != d_.HasKernels()) {
      return InvalidArgument("function ", f_.name, ": ", d_.name, " text is for ",
                             is_kernel ? "host functions" : "kernels");
    }
    for (ir::Buffer b : facts_.streamed) printer_.NoteStreamed(b);
    copies_ = !tensor_copies_.HasMaps();
    RETURN_IF_ERROR(wgmma_.FindPanels());
    ASSIGN_OR_RETURN(std::string signature, Signature(name));
    ASSIGN_OR_RETURN(threads_, facts_.Threads());
    absl::StrReplaceAll({{"$N", Cat(threads_)},
                         {"$X", Cat(Side(ForKind::kThreadX))},
                         {"$Y", Cat(Side(ForKind::kThreadY))},
                         {"$Z", Cat(Side(ForKind::kThreadZ))},
                         {"$W", Cat(d_.subgroup)},
                         {"$C", Cat(facts_.Cluster())}},
                        &signature);
    if (facts_.Cluster() > 1 && d_.cluster_kernel.empty()) return Unsupported("clusters of blocks");
    if (!is_kernel) {
      host_.Open(signature);
      RETURN_IF_ERROR(Emit(f_.body));
      RETURN_IF_ERROR(Annotate(printer_.status(), Cat("function ", f_.name)));
      host_.Close();
      return out_.Take();
    }
    out_.Open(signature);
    if (d_.offset_pointers) OffsetPointers();
    if (!d_.shared_space.empty()) RETURN_IF_ERROR(DeclareShared());
    if (!d_.dynamic_shared.empty() && ir::DynamicSharedBytes(f_.body) > 0) {
      dynamic_shared_ = 0;
      out_.Line(Aligned(d_.dynamic_shared, wgmma_.HasPanels()));
    }
    if (!d_.start.empty()) out_.Line(d_.start);
    // Nobody's memory is written before all blocks have started.
    if (IsCluster()) out_.Line("cinn_cluster_start();");
    RETURN_IF_ERROR(Emit(f_.body));
    RETURN_IF_ERROR(Annotate(printer_.status(), Cat("function ", f_.name)));
    out_.Close();
    return out_.Take();
  }

 private:
  StatusOr<std::string> Signature(std::string_view name) {
    std::string params;
    int pointers = 0, scalars = 0;
    if (d_.max_params > 0 && f_.params.size() > d_.max_params) {
      return Unsupported(Cat(f_.params.size(), " parameters: a kernel has at most ", d_.max_params));
    }
    for (const ir::Param& p : f_.params) {
      const DType dtype = p.buffer != nullptr ? p.buffer->dtype : p.var->type.dtype;
      if (printer_.ValueType(dtype).empty()) return Unsupported(Cat("a parameter of ", Name(dtype)));
      if (!params.empty()) params += ", ";
      if (p.buffer != nullptr) {
        const std::string n = Cat("p", pointers++);
        printer_.NameBuffer(p.buffer, n);
        const bool is_const = !facts_.written.contains(p.buffer);
        const bool is_restricted = !d_.restricted.empty() && !(d_.HasKernels() && facts_.may_read_late);
        params += Cat(d_.global_space, is_const ? "const " : "", printer_.MemoryType(dtype), "* ",
                      is_restricted ? d_.restricted : "", is_restricted ? " " : "", n);
        if (d_.offset_pointers) params += Cat(", ", printer_.ValueType(DType::kI64), " ", OffsetOf(n));
      } else {
        const std::string n = Cat("n", scalars++);
        printer_.NameVar(p.var, n);
        params += Cat(Filled(d_.scalar, "$T", std::string(printer_.ValueType(dtype))), " ", n);
      }
      params += Filled(d_.param_end, "$I", Cat(pointers + scalars - 1));
    }
    if (d_.has_wgmma) params += tensor_copies_.Parameters();
    if (!d_.thread_params.empty()) params += Cat(params.empty() ? "" : ", ", d_.thread_params);
    if (facts_.can_fail && !d_.report.empty()) params += Cat(params.empty() ? "" : ", ", d_.report);
    if (params.empty() && !d_.HasKernels()) params = "void";
    const std::string_view kernel = facts_.Cluster() > 1 ? d_.cluster_kernel
                                    : NumbersThreads()   ? d_.shuffling_kernel
                                                         : d_.kernel;
    return Cat(d_.HasKernels() ? kernel : d_.function, " ", name, "(", params, ")");
  }

  static std::string Filled(std::string_view text, const std::string& name, const std::string& value) {
    return absl::StrReplaceAll(std::string(text), {{name, value}});
  }

  static std::string OffsetOf(const std::string& pointer) { return Cat("o", pointer.substr(1)); }

  void OffsetPointers() {
    for (const ir::Param& p : f_.params) {
      if (p.buffer == nullptr) continue;
      const std::string& n = printer_.NameOf(p.buffer);
      const std::string_view space = d_.global_space, is_const = facts_.written.contains(p.buffer) ? "" : "const ";
      out_.Line(n, " = (", space, is_const, printer_.MemoryType(p.buffer->dtype), "*)((", space, is_const,
                printer_.MemoryType(DType::kU8), "*)", n, " + ", OffsetOf(n), ");");
    }
  }

  Status DeclareShared() {
    Status status;
    ir::VisitStmts(f_.body, [&](const Stmt& s) {
      const auto* n = ir::As<ir::Alloc>(s);
      if (n != nullptr && n->buffer->scope == ir::Scope::kShared && status.ok()) status = EmitAlloc(n->buffer);
      return true;
    });
    return status;
  }

  Status Unsupported(std::string_view what) {
    return Unimplemented("function ", f_.name, ": no ", d_.name, " text for ", what);
  }

  // Blocks that share memory.
  bool IsCluster() const { return facts_.Cluster() > 1 && facts_.has_shared; }

  Status Emit(const Stmt& s) {
    return ir::Match(
        s,
        [&](const ir::Seq& n) -> Status {
          for (size_t i = 0; i < n.stmts.size();) {
            size_t end = i;
            while (end < n.stmts.size() && IsMma(n.stmts[end])) ++end;
            if (end == i && EmitQuad(n.stmts, i)) {
              i += kQuad;
              continue;
            }
            if (end == i && wgmma_.HasPanels()) {
              ASSIGN_OR_RETURN(const size_t begun, EmitFromZero(n.stmts, i));
              if (begun > i) {
                i = begun;
                continue;
              }
            }
            RETURN_IF_ERROR(end > i ? EmitMma({n.stmts.begin() + static_cast<ptrdiff_t>(i),
                                               n.stmts.begin() + static_cast<ptrdiff_t>(end)})
                                    : Emit(n.stmts[i]));
            i = std::max(end, i + 1);
          }
          if (!d_.HasKernels()) host_.FreeAllocsOf(n, nesting_);
          return absl::OkStatus();
        },
        [&](const ir::For& n) { return IsMma(s) ? EmitMma({s}) : EmitFor(n); },
        [&](const ir::If& n) -> Status {
          printer_.Begin({n.cond});
          out_.Open("if (", printer_.Print(n.cond), ")");
          ++nesting_;
          const int splits = SplitsQuads(n.cond) ? 1 : 0;
          split_quads_ += splits;
          RETURN_IF_ERROR(Emit(n.then));
          if (n.otherwise != nullptr) {
            out_.Else();
            ++rests_;
            RETURN_IF_ERROR(Emit(n.otherwise));
            --rests_;
          }
          --nesting_;
          split_quads_ -= splits;
          out_.Close();
          return absl::OkStatus();
        },
        [&](const ir::While& n) -> Status {
          out_.Open("for (;;)");
          printer_.Begin({n.cond});
          const std::string cond = printer_.Print(n.cond);
          out_.Line("if (!(", cond, ")) break;");
          ++nesting_;
          const int splits = SplitsQuads(n.cond) ? 1 : 0;
          split_quads_ += splits;
          RETURN_IF_ERROR(Emit(n.body));
          split_quads_ -= splits;
          --nesting_;
          out_.Close();
          return absl::OkStatus();
        },
        [&](const ir::Prefetch& n) {
          EmitPrefetch(n);
          return absl::OkStatus();
        },
        [&](const ir::Let& n) -> Status {
          if (!d_.HasKernels() && !host_.IsRead(n.var)) return absl::OkStatus();
          printer_.Begin({n.value});
          const std::string name = Cat("v", let_count_++);
          if (d_.HasLaneLoops() && n.value->type.lanes > 1) {
            printer_.PrintLanes(name, n.value);
            printer_.NameLet(n.var, name, n.value);
            return absl::OkStatus();
          }
          for (int i = 0; i < n.value->type.lanes; ++i) {
            const std::string value = printer_.Print(n.value, i);
            out_.Line("const ", printer_.ValueType(n.value->type.dtype), " ", name,
                      n.value->type.lanes == 1 ? "" : Cat("_", i), " = ", value, ";");
          }
          printer_.NameLet(n.var, name, n.value);
          return absl::OkStatus();
        },
        [&](const ir::Alloc& n) {
          const bool done = n.buffer->scope == ir::Scope::kShared && !d_.shared_space.empty();
          return done ? absl::OkStatus() : EmitAlloc(n.buffer);
        },
        [&](const ir::Store& store) -> Status {
          ir::Store n = store;
          if (n.buffer->scope == ir::Scope::kWarp) {
            ASSIGN_OR_RETURN(n.indices[0], mma_.IndexInPart(n.buffer, n.indices[0], around_));
          }
          std::vector<Expr> roots = {n.indices[0], n.value};
          if (n.mask != nullptr) roots.push_back(n.mask);
          printer_.Begin(roots);
          if (IsCluster() && n.buffer->scope == ir::Scope::kShared && !facts_.own.contains(n.buffer))
            return EmitClusterStore(n);
          if (in_copies_ && printer_.PrintCopy(n)) {
            copies_ = true;
            return absl::OkStatus();
          }
          stores_panels_ |= printer_.IsPanel(n.buffer);
          printer_.PrintStore(n);
          return absl::OkStatus();
        },
        [&](const ir::Barrier& n) { return EmitBarrier(n); },
        [&](const ir::Call& n) -> Status {
          if (n.callee == "cinn_range_error" && !d_.assertion.empty()) {
            EmitFailure(d_.assertion, n);
            return absl::OkStatus();
          }
          if (n.callee == "cinn_bounds_error" && !d_.bounds_error.empty()) {
            EmitFailure(d_.bounds_error, n);
            return absl::OkStatus();
          }
          if (ir::IsTensorCall(n) && d_.has_wgmma)
            return IsCluster() ? Unsupported("tensor copies in clusters of blocks") : tensor_copies_.Print(n);
          return d_.HasKernels() ? Unsupported(Cat("the call of ", n.callee)) : host_.PrintCall(n);
        },
        [&](const ir::Launch&) { return Unsupported("a kernel launch"); },
        [&](const ir::Block& n) { return Unsupported(Cat("block ", n.name, ": lower the function first")); });
  }

  // Languages without the means do nothing.
  void EmitPrefetch(const ir::Prefetch& n) {
    for (Expr load : ir::LoadsOf(n)) {
      if (d_.prefetch.empty() || load->type.lanes != 1 || load->buffer->scope != ir::Scope::kGlobal) continue;
      const Expr index = load->args[0];
      if (load->has_mask) {
        printer_.Begin({ir::MaskOf(load)});
        out_.Open("if (", printer_.Print(ir::MaskOf(load)), ")");
      }
      printer_.Begin({index});
      const std::string at = printer_.Print(index);
      out_.Line(Filled(d_.prefetch, "$0", Cat(printer_.NameOf(load->buffer), " + (", at, ")")));
      if (load->has_mask) out_.Close();
    }
  }

  // $0 is the call's text, $1 and on are its arguments.
  void EmitFailure(std::string_view spelling, const ir::Call& n) {
    printer_.Begin(n.args);
    std::string text(spelling);
    absl::StrReplaceAll({{"$0", n.text}}, &text);
    for (size_t i = 0; i < n.args.size(); ++i) {
      const std::string name = Cat("$", i + 1);
      if (text.find(name) != text.npos) absl::StrReplaceAll({{name, printer_.Print(n.args[i])}}, &text);
    }
    out_.Line(text);
  }

  // What four neighbours of a warp store of two elements each, perhaps under one condition, where all of them come
  // there or none. False, and nothing is printed, where it is anything else.
  bool EmitQuad(const std::vector<Stmt>& stmts, size_t first) {
    const auto x = std::find_if(around_.begin(), around_.end(), [](const ir::For* n) {
      return n->kind == ForKind::kThreadX && ir::IsInt(n->extent, kQuad);
    });
    const Expr threads = facts_.extents[ir::AxisOf(ForKind::kThreadX)];
    if (x == around_.end() || !ir::IsInt(threads, kQuad) || stmts.size() < first + kQuad || split_quads_ > 0)
      return false;
    const auto* guard = ir::As<ir::If>(stmts[first]);
    const Expr cond = guard == nullptr ? nullptr : guard->cond;
    std::vector<const ir::Store*> stores;
    for (size_t i = first; i < first + kQuad; ++i) {
      const auto* n = ir::As<ir::If>(stmts[i]);
      const bool same = (n == nullptr ? nullptr : n->cond) == cond && (n == nullptr || n->otherwise == nullptr);
      stores.push_back(same ? ir::As<ir::Store>(n == nullptr ? stmts[i] : n->then) : nullptr);
    }
    if (std::count(stores.begin(), stores.end(), nullptr) > 0) return false;
    if (cond == nullptr) return printer_.PrintQuad(stores, (*x)->var);
    if (SplitsQuads(cond) || !printer_.IsQuad(stores, (*x)->var)) return false;
    printer_.Begin({cond});
    out_.Open("if (", printer_.Print(cond), ")");
    printer_.PrintQuad(stores, (*x)->var);
    out_.Close();
    return true;
  }

  // Neighbours along threadIdx.x may go different ways.
  bool SplitsQuads(Expr cond) const {
    bool r = false;
    ir::Visit(cond, [&](Expr e) {
      if (e->op == ir::ExprOp::kLoad) r = true;
      if (e->op != ir::ExprOp::kVar) return !r;
      r |= std::none_of(around_.begin(), around_.end(),
                        [&](const ir::For* n) { return n->var == e && n->kind != ForKind::kThreadX; }) &&
           std::none_of(f_.params.begin(), f_.params.end(), [&](const ir::Param& p) { return p.var == e; });
      return !r;
    });
    return r;
  }

  Status EmitBarrier(const ir::Barrier& n) {
    switch (n.scope) {
      case ir::BarrierScope::kBlock:
        if (d_.barrier.empty()) return Unsupported("a barrier");
        if (threads_ == 1 && !IsCluster()) break;
        // Before matrix units read what threads wrote. What was copied is in memory when it has been waited for: PTX
        // has no words for that, but CUTLASS's kernels rely on it, and a fence would wait for later copies, too.
        if (stores_panels_) out_.Line(kPanelFence);
        stores_panels_ &= std::any_of(around_.begin(), around_.end(), [](const ir::For* n) {
          return !ir::IsThreadAxis(n->kind) && !ir::IsBlockAxis(n->kind);
        });
        out_.Line(IsCluster() ? "cinn_cluster_barrier();" : d_.barrier);
        break;
      case ir::BarrierScope::kBeginCopies:
        in_copies_ = d_.HasCopies();
        break;
      case ir::BarrierScope::kCommitCopies:
        if (in_copies_ && copies_) out_.Line(d_.commit_copies);
        in_copies_ = false;
        break;
      case ir::BarrierScope::kAwaitCopies:
        // Threads wait for none if a copy engine makes all: the first groups stand before the first wait.
        if (d_.HasCopies() && copies_) {
          std::string text(d_.await_copies);
          absl::StrReplaceAll({{"$0", Cat(n.pending)}}, &text);
          out_.Line(text);
        }
        break;
    }
    return absl::OkStatus();
  }

  bool IsMma(const Stmt& s) const {
    const auto* loop = ir::As<ir::For>(s);
    return loop != nullptr && (loop->kind == ForKind::kMma ? d_.has_mma : IsWgmma(s));
  }

  bool IsWgmma(const Stmt& s) const { return ir::As<ir::For>(s)->kind == ForKind::kWgmma && d_.has_wgmma; }

  // One nest after the other. Fragments of the next are on their way while one's products are computed.
  Status EmitMma(const std::vector<Stmt>& nests) {
    ASSIGN_OR_RETURN(const std::vector<ir::MmaNest> m, MatchMmas(nests));
    if (IsWgmma(nests[0])) return MultiplyByFour(m, false);
    int id = mma_.NewFragments();
    RETURN_IF_ERROR(mma_.Load(m[0], id, kConstFragment, around_));
    for (size_t i = 0; i < m.size(); ++i) {
      const int next = i + 1 < m.size() ? mma_.NewFragments() : -1;
      if (next >= 0) RETURN_IF_ERROR(mma_.Load(m[i + 1], next, kConstFragment, around_));
      RETURN_IF_ERROR(mma_.Multiply(m[i], id));
      id = next;
    }
    return absl::OkStatus();
  }

  Status MultiplyByFour(const std::vector<ir::MmaNest>& nests, bool from_zero) {
    RETURN_IF_ERROR(wgmma_.Multiply(nests, around_, from_zero));
    AwaitAll(nests);
    return absl::OkStatus();
  }

  void AwaitAll(const std::vector<ir::MmaNest>& nests) {
    std::set<ir::Buffer> sums;
    for (const ir::MmaNest& m : nests) {
      if (sums.insert(m.acc).second) wgmma_.Await(0, m.acc);
    }
  }

  // Nests by the units of four warps behind stores of zeros to their sums, from statement `first` on: where they end,
  // or `first` if there is none, and nothing is printed.
  StatusOr<size_t> EmitFromZero(const std::vector<Stmt>& stmts, size_t first) {
    size_t nests = first;
    while (nests < stmts.size() && ir::As<ir::Store>(stmts[nests]) != nullptr) ++nests;
    size_t end = nests;
    while (end < stmts.size() && ir::As<ir::For>(stmts[end]) != nullptr && IsWgmma(stmts[end])) ++end;
    if (nests == first || end == nests) return first;
    const auto at = [&](size_t i) { return stmts.begin() + static_cast<ptrdiff_t>(i); };
    ASSIGN_OR_RETURN(const std::vector<ir::MmaNest> m, MatchMmas({at(nests), at(end)}));
    if (!WgmmaPrinter::StartsFromZero({at(first), at(nests)}, m)) return first;
    RETURN_IF_ERROR(MultiplyByFour(m, true));
    return end;
  }

  StatusOr<std::vector<ir::MmaNest>> MatchMmas(const std::vector<Stmt>& nests) {
    std::vector<ir::MmaNest> r;
    for (const Stmt& s : nests) {
      const auto& loop = *ir::As<ir::For>(s);
      if (loop.kind != ir::As<ir::For>(nests[0])->kind) return Unsupported("nests of two kinds in a row");
      ASSIGN_OR_RETURN(r.emplace_back(), ir::MatchMma(*f_.context, loop, around_, loop.kind));
    }
    return r;
  }

  // A pipelined loop whose iterations wait, copy for later ones and multiply by matrix units, some steps each: the next
  // iteration's first fragments are on their way, too, while the last products run, and what is copied is asked for
  // behind the first ones. False, and nothing is printed, where it is another loop.
  StatusOr<bool> EmitPipelinedMma(const ir::For& n, std::string_view head) {
    std::vector<Stmt> waits, copies, threads;
    Stmt body;
    bool copying = false;
    const auto* seq = ir::As<ir::Seq>(n.body);
    for (const Stmt& s : seq != nullptr ? seq->stmts : std::vector<Stmt>()) {
      const auto* barrier = ir::As<ir::Barrier>(s);
      if (barrier != nullptr && barrier->scope == ir::BarrierScope::kBeginCopies) copying = true;
      const auto* call = ir::As<ir::Call>(s);
      if (copying || barrier != nullptr || (call != nullptr && ir::IsTensorCall(*call))) {
        (copying ? copies : waits).push_back(s);
      } else if (std::exchange(body, s) != nullptr) {
        return false;
      }
      if (barrier != nullptr && barrier->scope == ir::BarrierScope::kCommitCopies) copying = false;
    }
    while (ir::As<ir::For>(body) != nullptr && ir::IsThreadAxis(ir::As<ir::For>(body)->kind)) {
      threads.push_back(body);
      body = ir::As<ir::For>(body)->body;
    }
    const auto* nests = ir::As<ir::Seq>(body);
    const auto is_mma = [&](const Stmt& s) { return IsMma(s); };
    if (nests == nullptr || !std::all_of(nests->stmts.begin(), nests->stmts.end(), is_mma)) return false;

    for (const Stmt& s : threads) {
      EmitAxis(*ir::As<ir::For>(s));
      around_.push_back(ir::As<ir::For>(s));
    }
    ASSIGN_OR_RETURN(const std::vector<ir::MmaNest> m, MatchMmas(nests->stmts));
    const auto first_at = [&](Expr iteration) {
      ir::MmaNest r = m[0];
      for (auto* x : {&r.lhs, &r.rhs}) x->base = ir::Substitute(*f_.context, x->base, {{n.var, iteration}});
      return r;
    };
    const auto emit = [&](const std::vector<Stmt>& stmts) -> Status {
      for (const Stmt& s : stmts) RETURN_IF_ERROR(Emit(s));
      return absl::OkStatus();
    };
    if (IsWgmma(nests->stmts[0])) {
      // The products of an iteration are still computed while the next begins.
      out_.Open(head);
      RETURN_IF_ERROR(emit(waits));
      RETURN_IF_ERROR(wgmma_.Multiply(m, around_));
      const bool fenced = stores_panels_;
      RETURN_IF_ERROR(emit(copies));
      if (stores_panels_ && !fenced) out_.Line(kPanelFence);
      wgmma_.Await(1, nullptr);
      out_.Close();
      AwaitAll(m);
      for (size_t i = 0; i < threads.size(); ++i) around_.pop_back();
      return true;
    }
    const DType index = n.var->type.dtype;
    const int first = mma_.NewFragments();
    RETURN_IF_ERROR(emit(waits));
    RETURN_IF_ERROR(mma_.Load(first_at(f_.context->Int(0, index)), first, kFragment, around_));
    out_.Open(head);
    int id = first;
    for (size_t i = 0; i < m.size(); ++i) {
      const bool last = i + 1 == m.size();
      const int next = last ? first : mma_.NewFragments();
      if (last) {
        // Behind the last iteration there is nothing to wait for, and what is loaded, of a place that exists, is not
        // used.
        RETURN_IF_ERROR(emit(waits));
        ir::Context& c = *f_.context;
        const Expr after = c.Add(n.var, c.Int(1, index));
        const Expr next_one = c.Select(c.Lt(after, n.extent), after, c.Int(0, index));
        RETURN_IF_ERROR(mma_.Load(first_at(next_one), first, "", around_));
      } else {
        RETURN_IF_ERROR(mma_.Load(m[i + 1], next, kConstFragment, around_));
      }
      RETURN_IF_ERROR(mma_.Multiply(m[i], id));
      if (i == 0) RETURN_IF_ERROR(emit(copies));
      id = next;
    }
    out_.Close();
    for (size_t i = 0; i < threads.size(); ++i) around_.pop_back();
    return true;
  }

  Status EmitFor(const ir::For& n) {
    around_.push_back(&n);
    const Status status = EmitLoop(n);
    around_.pop_back();
    return status;
  }

  bool NumbersThreads() const { return facts_.has_shuffles && !d_.thread.empty(); }

  // A thread's number along an axis, of its number in the block.
  std::string DigitOf(ForKind axis) const {
    const std::string thread = Filled(d_.thread, "$W", Cat(d_.subgroup));
    int64_t below = 1, above = 1;
    for (ForKind k : {ForKind::kThreadX, ForKind::kThreadY, ForKind::kThreadZ})
      (ir::AxisOf(k) < ir::AxisOf(axis) ? below : above) *= Side(k);
    if (below == 1 && above == Side(axis)) return thread;
    const std::string from_below = below == 1 ? "" : Cat(" / ", below);
    return Cat("(", thread, ")", from_below, above == Side(axis) ? "" : Cat(" % ", Side(axis)));
  }

  // The thread's or block's number.
  void EmitAxis(const ir::For& n) {
    const std::string name = Cat("i", loop_count_++);
    printer_.NameVar(n.var, name);
    // The blocks of a cluster lie side by side along x.
    const bool is_cluster = n.kind == ForKind::kClusterX;
    std::string index(d_.axes[is_cluster ? 0 : ir::AxisOf(n.kind)]);
    if (NumbersThreads() && ir::IsThreadAxis(n.kind)) index = DigitOf(n.kind);
    if (facts_.Cluster() > 1 && (is_cluster || n.kind == ForKind::kBlockX))
      index += Cat(is_cluster ? " % " : " / ", facts_.Cluster());
    out_.Line("const ", printer_.ValueType(n.var->type.dtype), " ", name, " = ",
              is_cluster && facts_.Cluster() == 1 ? "0" : index, ";");
  }

  Status EmitLoop(const ir::For& n) {
    if (n.kind == ForKind::kIntrinsic && PrintInstruction(d_, f_, around_, printer_, out_)) return absl::OkStatus();
    if (ir::IsBlockAxis(n.kind) || ir::IsThreadAxis(n.kind)) {
      if (!d_.HasKernels()) return Unsupported(Cat("loops bound to ", Name(n.kind)));
      EmitAxis(n);
      return Emit(n.body);
    }
    const std::string name = Cat("i", loop_count_++);
    const std::string_view type = printer_.ValueType(n.var->type.dtype);
    printer_.NameVar(n.var, name);
    // On hosts what is left of them is a loop.
    if ((n.kind == ForKind::kVectorized || n.kind == ForKind::kParallel) && d_.HasKernels()) {
      return Unsupported(Cat(Name(n.kind), " loops: lower the function first"));
    }
    printer_.Begin({n.extent});
    std::string extent = printer_.Print(n.extent);
    if (n.extent->reads) {  // as it is before the loop
      const std::string end = Cat(name, "_end");
      out_.Line("const ", type, " ", end, " = ", extent, ";");
      extent = end;
    }
    const bool unroll = n.kind == ForKind::kUnrolled || facts_.unrolled.contains(n.var);
    const int hint = n.kind.hints.unroll;
    if (hint > 0) {
      if (!d_.unroll_by.empty()) out_.Directive(Filled(d_.unroll_by, "$0", Cat(hint)));
    } else if (unroll) {
      if (!d_.unroll.empty()) out_.Directive(d_.unroll);
    } else if (rests_ > 0 && !d_.keep.empty()) {
      out_.Directive(d_.keep);  // the registers of what runs seldom would be taken from what runs most
    }
    if (n.kind == ForKind::kParallel) out_.Directive(d_.parallel);
    const std::string head = Cat("for (", type, " ", name, " = 0; ", name, " < ", extent, "; ++", name, ")");
    if (ir::PipelineStages(n.kind) > 0 && d_.HasCopies()) {
      ASSIGN_OR_RETURN(const bool done, EmitPipelinedMma(n, head));
      if (done) return absl::OkStatus();
    }
    // What threads have stored before it is told of once, what they store in it at the end of an iteration.
    const bool fences = ir::PipelineStages(n.kind) > 0 && wgmma_.HasPanels();
    if (fences && std::exchange(stores_panels_, false)) out_.Line(kPanelFence);
    out_.Open(head);
    ++nesting_;
    const bool may_leave = n.kind == ForKind::kParallel && host_.OpenIteration(n.body, nesting_);
    RETURN_IF_ERROR(Emit(n.body));
    if (fences && std::exchange(stores_panels_, false)) out_.Line(kPanelFence);
    --nesting_;
    if (may_leave)
      host_.CloseIteration();
    else
      out_.Close();
    return absl::OkStatus();
  }

  // What a cluster shares each of its blocks has a copy of, which it reads.
  Status EmitClusterStore(const ir::Store& n) {
    if (n.mask != nullptr || n.value->type.lanes > 1 || n.indices[0]->type.lanes > 1)
      return Unsupported(Cat("a vector in the shared memory ", n.buffer->name, " of a cluster"));
    const std::string value = printer_.Print(n.value), index = printer_.Print(n.indices[0]);
    const std::string_view type = printer_.MemoryType(n.buffer->dtype);
    out_.Line("cinn_cluster_store(", printer_.NameOf(n.buffer), " + ", index, ", (", type, ")(", value, "), ",
              facts_.Cluster(), ");");
    return absl::OkStatus();
  }

  Status EmitAlloc(ir::Buffer b) {
    const std::string_view type = printer_.MemoryType(b->dtype);
    if (b->scope == ir::Scope::kGlobal) {
      if (d_.HasKernels()) return Unsupported(Cat("global memory ", b->name, " of a kernel"));
      printer_.Begin({b->shape[0]});
      const std::string size = printer_.Print(b->shape[0]);
      host_.PrintAlloc(b, size);
      return absl::OkStatus();
    }
    if (!ir::IsInt(b->shape[0])) {
      return InvalidArgument("function ", f_.name, ": the size of ", b->name, " (", Name(b->scope),
                             ") must be constant");
    }
    if (b->scope == ir::Scope::kWarp) {
      ASSIGN_OR_RETURN(const int64_t elements, mma_.PartOf(b));
      const std::string n = Cat("r", local_count_++);
      printer_.NameBuffer(b, n);
      out_.Line("alignas(16) ", type, " ", n, "[", elements / Side(ForKind::kThreadZ), "];");
      return absl::OkStatus();
    }
    const bool shared = b->scope == ir::Scope::kShared;
    if (shared && d_.shared.empty()) return Unsupported(Cat("shared memory ", b->name));
    if (shared && IsCluster()) {
      if (nesting_ > 0)
        return Unsupported(Cat("shared memory ", b->name, " of a cluster, which not all threads reach"));
      if (!std::exchange(waited_, true)) out_.Line("cinn_cluster_wait();");
    }
    const std::string n = shared ? Cat("s", shared_count_++) : Cat("r", local_count_++);
    printer_.NameBuffer(b, n);
    if (shared && printer_.IsPanel(b) && dynamic_shared_ % kPanelAlignment > 0)
      return Unsupported(Cat("the panel ", b->name, " behind ", dynamic_shared_, " bytes of shared memory"));
    if (shared && dynamic_shared_ >= 0) {
      out_.Line(type, "* const ", n, " = (", type, "*)(cinn_shared + ", dynamic_shared_, ");");
      dynamic_shared_ += ir::SharedBytesOf(b);
      return absl::OkStatus();
    }
    out_.Line(shared ? Cat(Aligned(d_.shared, printer_.IsPanel(b)), " ") : "", type, " ", n, "[",
              b->shape[0]->int_value, "];");
    if (!d_.HasKernels() && !host_.IsRead(b)) out_.Line("(void)", n, ";");
    return absl::OkStatus();
  }

  static std::string Aligned(std::string_view text, bool panel) {
    return Filled(text, "$A", Cat(panel ? kPanelAlignment : ir::kSharedAlignment));
  }

  // Of a block, in threads.
  int64_t Side(ForKind axis) const {
    const Expr extent = facts_.extents[ir::AxisOf(axis)];
    return extent != nullptr && ir::IsInt(extent) ? extent->int_value : 1;
  }

  const ir::Func& f_;
  const Dialect& d_;
  TextBuilder out_;
  ExprPrinter printer_;
  const KernelFacts facts_;
  int64_t dynamic_shared_ = -1;  // the next free byte; negative: arrays of their own
  MmaPrinter mma_;
  WgmmaPrinter wgmma_;
  TensorCopyPrinter tensor_copies_;
  CHostPrinter host_;
  std::vector<const ir::For*> around_;  // loops
  bool in_copies_ = false;              // asynchronous ones
  bool copies_ = false;                 // threads wait for their own, too
  bool stores_panels_ = false;          // by then
  int64_t threads_ = 0;                 // of a block
  int split_quads_ = 0;                 // branches around that neighbouring threads may take apart
  int nesting_ = 0;                     // branches and loops around
  bool waited_ = false;                 // for all blocks of a cluster
  int rests_ = 0;                       // branches around that another goes before
  int loop_count_ = 0, let_count_ = 0, shared_count_ = 0, local_count_ = 0;
};

}  // namespace

StatusOr<std::string> EmitFunc(const ir::Func& f, const Dialect& d, std::string_view name) {
  if (f.kind == ir::FuncKind::kEntry && !d.HasKernels())
    return InvalidArgument("function ", f.name, ": an entry function is part of a program (c_program.h)");
  return FuncEmitter(f, d).Emit(name);
}

StatusOr<std::string> EmitEntry(const ir::Func& f, const Dialect& d, const CEntry& entry) {
  return FuncEmitter(f, d, &entry).Emit(f.name);
}

std::string JoinSource(const Dialect& d, const std::vector<std::string>& functions) {
  std::string body;
  for (const std::string& f : functions) body += Cat("\n", f);
  return Cat(d.header, HelpersFor(d, body), body);
}

StatusOr<std::string> EmitModule(const ir::Module& m, const Dialect& d) {
  std::vector<std::string> texts;
  std::string prototypes;
  for (const ir::Func& f : m.funcs) {
    if (d.HasKernels() && f.kind != ir::FuncKind::kKernel) continue;
    ASSIGN_OR_RETURN(std::string text, EmitFunc(f, d, f.name));
    if (!d.HasKernels()) prototypes += Cat(text.substr(0, text.find(" {\n")), ";\n");
    texts.push_back(std::move(text));
  }
  if (!prototypes.empty()) texts.insert(texts.begin(), std::move(prototypes));
  return JoinSource(d, texts);
}

}  // namespace cinn_like::backends
