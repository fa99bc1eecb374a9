#include "backends/llvm_emitter.h"

#include <algorithm>

#include "backends/call_words.h"
#include "backends/entry_spec.h"
#include "backends/llvm_cast.h"
#include "backends/llvm_expr.h"
#include "backends/llvm_nests.h"
#include "backends/parallel_grain.h"
#include "cinn_like/base/runtime_calls.h"
#include "ir/passes/place_buffers.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Target/TargetMachine.h"
#include "runtime/device_api.h"

namespace cinn_like {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

constexpr int64_t kMaxUnroll = 256;
constexpr int32_t kOutOfMemory = -static_cast<int32_t>(absl::StatusCode::kResourceExhausted);

struct ModuleState {
  llvm::Module& module;
  const llvm::TargetMachine& machine;
  const bool contract;
  const int64_t threads;
  const DeviceKind& device;
  VectorMath math;

  llvm::Function* NewFunction(llvm::FunctionType* type, std::string_view name, bool exported) {
    auto* f =
        llvm::Function::Create(type, exported ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage,
                               std::string(name), module);
    f->setDoesNotThrow();
    f->addFnAttr("target-cpu", machine.getTargetCPU());
    f->addFnAttr("target-features", machine.getTargetFeatureString());
    // LLVM would stay at 256 bits, where a full-width tile is half as fast.
    f->addFnAttr("prefer-vector-width", "512");
    f->addFnAttr("min-legal-vector-width", "512");
    return f;
  }
};

// Buffers and variables that a statement mentions, in order of first appearance.
struct Mentions {
  std::vector<Expr> vars;
  std::vector<Buffer> buffers;
  bool can_fail = false;
};
Mentions MentionsOf(const Stmt& body) {
  Mentions m;
  absl::flat_hash_set<const void*> seen;
  auto add = [&](Buffer b) {
    if (seen.insert(b).second) m.buffers.push_back(b);
  };
  ir::ForEachExpr(body, [&](Expr e) {
    ir::Visit(e, [&](Expr x) {
      if (!seen.insert(x).second) return false;
      if (x->op == ir::ExprOp::kVar) m.vars.push_back(x);
      if (x->buffer != nullptr) add(x->buffer);
      return true;
    });
  });
  ir::VisitStmts(body, [&](const Stmt& s) {
    if (const auto* store = ir::As<ir::Store>(s)) add(store->buffer);
    const auto* alloc = ir::As<ir::Alloc>(s);
    m.can_fail |= ir::As<ir::Call>(s) != nullptr || ir::As<ir::Launch>(s) != nullptr ||
                  (alloc != nullptr && alloc->buffer->scope == ir::Scope::kGlobal);
    return true;
  });
  return m;
}

// Emits statements into one LLVM function. Errors stay in ExprEmitter::status or in status_; emission goes on.
class FunctionEmitter {
 public:
  FunctionEmitter(ModuleState& m, const ir::Func& func, const AliasScopes& alias, llvm::Function* f)
      : m_(m),
        func_(func),
        alias_(alias),
        f_(f),
        b_(llvm::BasicBlock::Create(m.module.getContext(), "entry", f)),
        exprs_(b_, m.math, alias) {
    llvm::FastMathFlags flags;
    if (m.contract) flags.setAllowContract();
    b_.setFastMathFlags(flags);
  }

  Status EmitInternal() {
    unsigned i = 0;
    for (const ir::Param& p : func_.params) {
      llvm::Argument* arg = f_->getArg(i++);
      if (p.buffer != nullptr) {
        arg->addAttr(llvm::Attribute::NoAlias);
        exprs_.Bind(p.buffer, arg);
      } else {
        exprs_.Bind(p.var, arg);
      }
    }
    env_ = f_->getArg(i);
    return Finish();
  }

  Status EmitEntry() {
    env_ = f_->getArg(3);
    ASSIGN_OR_RETURN(const ArgSpec spec, MakeArgSpec(func_, m_.device));
    ASSIGN_OR_RETURN(const std::string bytes, EncodeArgSpec(spec));
    llvm::Constant* data = b_.CreateGlobalString(bytes, "spec", 0, &m_.module);
    // One more for copies of inputs that are not aligned as the code needs.
    llvm::Value* pointers = Local(llvm::ArrayType::get(b_.getPtrTy(), spec.args.size() + 1), llvm::Align(8));
    llvm::Value* symbols = Local(llvm::ArrayType::get(b_.getInt64Ty(), spec.symbols.size()), llvm::Align(8));
    CheckedCall("cinn_bind_args", {Device(), data, b_.getInt64(bytes.size()), f_->getArg(0), f_->getArg(1),
                                   f_->getArg(2), env_, pointers, symbols});
    workspaces_.push_back(
        b_.CreateLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), pointers, spec.args.size())));
    for (size_t i = 0; i < func_.symbols.size(); ++i) {
      const Expr var = func_.symbols[i].var;
      llvm::Value* value = b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), symbols, i));
      exprs_.Bind(var, b_.CreateIntCast(value, ValueType(b_.getContext(), var->type), true));
    }
    for (size_t i = 0; i < func_.params.size(); ++i) {
      if (func_.params[i].buffer == nullptr) continue;
      llvm::Value* slot = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), pointers, i);
      exprs_.Bind(func_.params[i].buffer, b_.CreateLoad(b_.getPtrTy(), slot));
    }
    return Finish();
  }

 private:
  // ---- functions ----
  Status Finish() {
    EmitStmt(func_.body);
    for (llvm::Value* w : workspaces_) FreeWorkspace(w);
    b_.CreateRet(b_.getInt32(0));
    // What runs once a call is not worth the time of LLVM's optimisations: a millisecond a function.
    if (only_calls_) {
      f_->addFnAttr(llvm::Attribute::OptimizeNone);
      f_->addFnAttr(llvm::Attribute::NoInline);
    }
    return status_.ok() ? exprs_.status() : status_;
  }

  void Fail(Status s) {
    if (status_.ok()) status_ = std::move(s);
  }

  // Leaves the function with a failed call's code. Any of several failing threads' codes will do.
  void EmitFailure(llvm::Value* code) {
    for (auto it = workspaces_.rbegin(); it != workspaces_.rend(); ++it) FreeWorkspace(*it);
    if (failure_ == nullptr) {
      b_.CreateRet(code);
      return;
    }
    b_.CreateAlignedStore(code, failure_, llvm::Align(4))->setAtomic(llvm::AtomicOrdering::Monotonic);
    b_.CreateRetVoid();
  }

  void CheckCode(llvm::Value* code) { FailIf(b_.CreateICmpNE(code, b_.getInt32(0)), code); }
  void FailIf(llvm::Value* condition, llvm::Value* code) {
    llvm::BasicBlock* failed = NewBlock("failed");
    llvm::BasicBlock* next = NewBlock("");
    b_.CreateCondBr(condition, failed, next, llvm::MDBuilder(b_.getContext()).createUnlikelyBranchWeights());
    b_.SetInsertPoint(failed);
    EmitFailure(code);
    b_.SetInsertPoint(next);
  }

  llvm::Type* TypeOf(CallType t) {
    return t == CallType::kVoid  ? b_.getVoidTy()
           : t == CallType::kI32 ? b_.getInt32Ty()
           : t == CallType::kI64 ? static_cast<llvm::Type*>(b_.getInt64Ty())
                                 : b_.getPtrTy();
  }
  // A function of runtime_calls.def with the types of its row; others take what they are given and return a code.
  llvm::Value* Call(std::string_view name, std::vector<llvm::Value*> args) {
    const RuntimeCall* row = FindRuntimeCall(name);
    std::vector<llvm::Type*> types;
    for (size_t i = 0; i < args.size(); ++i) {
      if (row != nullptr && i < row->params.size()) {
        llvm::Type* type = TypeOf(row->params[i]);
        const bool is_null = type->isPointerTy() && !args[i]->getType()->isPointerTy();
        args[i] = is_null               ? b_.CreateIntToPtr(args[i], type)
                  : type->isPointerTy() ? args[i]
                                        : b_.CreateIntCast(args[i], type, true);
      }
      types.push_back(args[i]->getType());
    }
    llvm::Type* result = row == nullptr ? b_.getInt32Ty() : TypeOf(row->result);
    const llvm::FunctionCallee callee =
        m_.module.getOrInsertFunction(std::string(name), llvm::FunctionType::get(result, types, false));
    llvm::CallInst* call = b_.CreateCall(callee, args);
    call->setDoesNotThrow();
    return call;
  }
  void CheckedCall(std::string_view name, const std::vector<llvm::Value*>& args) { CheckCode(Call(name, args)); }

  llvm::BasicBlock* NewBlock(const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, f_); }

  // Stack memory for the whole call, wherever the builder stands.
  llvm::Value* Local(llvm::Type* type, llvm::Align align) {
    llvm::BasicBlock& entry = f_->getEntryBlock();
    llvm::IRBuilder<> at_entry(&entry, entry.begin());
    llvm::AllocaInst* memory = at_entry.CreateAlloca(type);
    memory->setAlignment(align);
    return memory;
  }

  // What the runtime's functions are told of where the code runs.
  llvm::Value* Device() { return m_.module.getOrInsertGlobal(Cat("cinn_device_", m_.device.name), b_.getInt8Ty()); }

  void FreeWorkspace(llvm::Value* memory) { Call("cinn_free_workspace", {Device(), env_, memory}); }

  // ---- statements ----
  void EmitStmt(const Stmt& s) {
    exprs_.BeginStatement();
    ir::Match(
        s, [&](const ir::Seq& n) { EmitSeq(n); }, [&](const ir::For& n) { EmitFor(n); },
        [&](const ir::If& n) { EmitIf(n); }, [&](const ir::While& n) { EmitWhile(n); },
        [&](const ir::Prefetch& n) { EmitPrefetch(n); },
        [&](const ir::Let& n) { exprs_.Bind(n.var, exprs_.Emit(n.value)); },
        [&](const ir::Alloc& n) { EmitAlloc(n.buffer); }, [&](const ir::Store& n) { EmitStore(n); },
        [&](const ir::Block& n) { Fail(Internal("LLVM emitter: block '", n.name, "' in lowered code")); },
        [&](const ir::Barrier&) { Fail(Internal("LLVM emitter: barrier in host function @", func_.name)); },
        [&](const ir::Launch& n) { EmitLaunch(n); }, [&](const ir::Call& n) { EmitCall(n); });
  }

  void EmitSeq(const ir::Seq& n) {
    const size_t outer = workspaces_.size();
    for (size_t i = 0; i < n.stmts.size(); ++i) {
      exprs_.BeginStatement();
      const auto* nest = i + 1 < n.stmts.size() ? ir::As<ir::For>(n.stmts[i + 1]) : nullptr;
      const bool both =
          nest != nullptr && EmitNest(b_, exprs_, *func_.context, m_.machine, m_.contract, *nest, &n.stmts[i]);
      if (both) {
        ++i;
      } else {
        EmitStmt(n.stmts[i]);
      }
    }
    while (workspaces_.size() > outer) {
      FreeWorkspace(workspaces_.back());
      workspaces_.pop_back();
    }
  }

  void EmitAlloc(Buffer buffer) {
    llvm::Type* element = MemoryType(b_.getContext(), {buffer->dtype, 1});
    const int64_t element_bytes = BytesOf(buffer->dtype);
    if (buffer->scope == ir::Scope::kGlobal) {
      llvm::Value* bytes = b_.getInt64(element_bytes);
      for (Expr e : buffer->shape) bytes = b_.CreateMul(bytes, exprs_.Emit(e));
      llvm::Value* memory = Call("cinn_alloc_workspace", {Device(), env_, bytes});
      FailIf(b_.CreateAnd(b_.CreateIsNull(memory), b_.CreateICmpNE(bytes, b_.getInt64(0))), b_.getInt32(kOutOfMemory));
      workspaces_.push_back(memory);
      exprs_.Bind(buffer, memory);
      return;
    }
    int64_t count = 1;
    for (Expr e : buffer->shape) {
      const bool fits = ir::IsInt(e) && e->int_value >= 0 && e->int_value <= ir::kMaxStackBytes;
      count = fits && count >= 0 && count <= ir::kMaxStackBytes ? count * e->int_value : -1;
    }
    if (buffer->scope == ir::Scope::kShared || count < 0 || stack_bytes_ + count * element_bytes > ir::kMaxStackBytes) {
      Fail(Unimplemented("host function @", func_.name, ": memory '", buffer->name, "' of scope ",
                         ir::Name(buffer->scope), " has to be local and of constant size, at most ", ir::kMaxStackBytes,
                         " bytes with all others"));
      count = 1;
    }
    // Whole vectors, where it ends in a part of one: what lies beyond may be stored anew (ExprEmitter::EmitStore).
    constexpr int64_t kVectorBytes = 256;
    if (count > 1) count = (count * element_bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes / element_bytes;
    stack_bytes_ += count * element_bytes;
    const llvm::Align align(std::max<int64_t>(buffer->alignment, count * element_bytes >= 64 ? 64 : element_bytes));
    exprs_.Bind(buffer, Local(llvm::ArrayType::get(element, static_cast<uint64_t>(count)), align));
  }

  void EmitStore(const ir::Store& n) {
    only_calls_ = false;
    exprs_.EmitStore(n);
  }

  void EmitIf(const ir::If& n) {
    llvm::Value* condition = exprs_.Emit(n.cond);
    llvm::BasicBlock* then = NewBlock("then");
    llvm::BasicBlock* otherwise = n.otherwise == nullptr ? nullptr : NewBlock("else");
    llvm::BasicBlock* after = NewBlock("");
    b_.CreateCondBr(condition, then, otherwise == nullptr ? after : otherwise);
    EmitBranch(then, n.then, after);
    if (otherwise != nullptr) EmitBranch(otherwise, n.otherwise, after);
    b_.SetInsertPoint(after);
  }
  void EmitBranch(llvm::BasicBlock* block, const Stmt& body, llvm::BasicBlock* after) {
    b_.SetInsertPoint(block);
    EmitScope(body);
    b_.CreateBr(after);
  }
  // Asked at the bottom, too.
  void EmitWhile(const ir::While& n) {
    only_calls_ = false;
    llvm::BasicBlock* loop = NewBlock("while");
    llvm::BasicBlock* after = NewBlock("");
    b_.CreateCondBr(exprs_.Emit(n.cond), loop, after);
    b_.SetInsertPoint(loop);
    EmitScope(n.body);
    exprs_.BeginStatement();
    b_.CreateCondBr(exprs_.Emit(n.cond), loop, after);
    b_.SetInsertPoint(after);
  }

  void EmitPrefetch(const ir::Prefetch& n) {
    only_calls_ = false;
    for (Expr load : ir::LoadsOf(n)) {
      if (load->type.lanes != 1) continue;
      llvm::BasicBlock* after = nullptr;
      if (load->has_mask) {
        llvm::BasicBlock* then = NewBlock("prefetch");
        after = NewBlock("");
        b_.CreateCondBr(exprs_.Emit(ir::MaskOf(load)), then, after);
        b_.SetInsertPoint(then);
        exprs_.BeginStatement();
      }
      // To be read, and kept in all caches; of data.
      llvm::Value* address = exprs_.EmitAddress(func_.context->Address(load->buffer, ir::IndicesOf(load)));
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                         {address, b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
      if (after == nullptr) continue;
      b_.CreateBr(after);
      b_.SetInsertPoint(after);
      exprs_.BeginStatement();
    }
  }

  // A body of one statement is a scope as well.
  void EmitScope(const Stmt& body) {
    const auto* seq = ir::As<ir::Seq>(body);
    EmitSeq(seq != nullptr ? *seq : ir::Seq{{body}});
  }

  void EmitFor(const ir::For& n) {
    switch (n.kind) {
      case ir::ForKind::kParallel:
        return EmitParallel(n);
      case ir::ForKind::kUnrolled:
        if (ir::IsInt(n.extent) && n.extent->int_value <= kMaxUnroll) {
          for (int64_t i = 0; i < n.extent->int_value; ++i) {
            exprs_.Bind(n.var, llvm::ConstantInt::get(ValueType(b_.getContext(), n.var->type), i));
            EmitScope(n.body);
          }
          return;
        }
        [[fallthrough]];
      case ir::ForKind::kPipelined2:  // the host's caches fill themselves
      case ir::ForKind::kPipelined3:
      case ir::ForKind::kPipelined4:
      case ir::ForKind::kSerial: {
        llvm::Value* extent = exprs_.Emit(n.extent);
        return EmitLoop(n, llvm::ConstantInt::get(extent->getType(), 0), extent);
      }
      case ir::ForKind::kDot2:
      case ir::ForKind::kDot4:
      case ir::ForKind::kTranspose:
        if (EmitNest(b_, exprs_, *func_.context, m_.machine, m_.contract, n)) return;
        return EmitLoop(n, llvm::ConstantInt::get(ValueType(b_.getContext(), n.var->type), 0), exprs_.Emit(n.extent));
      default:
        Fail(Internal("LLVM emitter: loop '", n.var->name, "' of kind ", ir::Name(n.kind), " in host code"));
    }
  }

  // How often a loop repeats, or does where it does not end early, if that is known. Else LLVM takes all loops for
  // equally long, and the constants of a short nest behind a long loop take the registers of the long one's sums.
  llvm::MDNode* RepeatWeights(Expr extent) {
    if (extent->op == ir::ExprOp::kMin) extent = extent->args[ir::IsInt(extent->args[0]) ? 0 : 1];
    if (!ir::IsInt(extent)) return nullptr;
    const auto repeats = std::clamp<int64_t>(extent->int_value - 1, 0, UINT32_MAX);
    return llvm::MDBuilder(b_.getContext()).createBranchWeights(static_cast<uint32_t>(repeats), 1);
  }

  // Tested at the bottom, behind one test at the top if it may not run: what does not vary can move before the loop.
  void EmitLoop(const ir::For& n, llvm::Value* begin, llvm::Value* end) {
    only_calls_ = false;
    llvm::Value* runs = b_.CreateICmpSLT(begin, end);
    const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(runs);
    if (constant != nullptr && constant->isZero()) return;
    llvm::BasicBlock* loop = NewBlock("loop");
    llvm::BasicBlock* after = NewBlock("");
    if (constant == nullptr) {
      llvm::BasicBlock* before_first = NewBlock("ph");
      b_.CreateCondBr(runs, before_first, after);
      b_.SetInsertPoint(before_first);
    }
    llvm::BasicBlock* before = b_.GetInsertBlock();
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode* i = b_.CreatePHI(begin->getType(), 2, n.var->name);
    i->addIncoming(begin, before);
    exprs_.Bind(n.var, i);
    EmitScope(n.body);
    llvm::Value* next = b_.CreateAdd(i, llvm::ConstantInt::get(i->getType(), 1), "", /*HasNUW=*/true, /*HasNSW=*/true);
    i->addIncoming(next, b_.GetInsertBlock());
    llvm::BranchInst* again = b_.CreateCondBr(b_.CreateICmpSLT(next, end), loop, after, RepeatWeights(n.extent));
    SetHints(again, n.kind.hints);
    b_.SetInsertPoint(after);
  }

  void SetHints(llvm::BranchInst* again, const ir::LoopHints& hints) {
    if (hints == ir::LoopHints()) return;
    llvm::LLVMContext& c = b_.getContext();
    const auto property = [&](const char* name, llvm::Constant* value) {
      llvm::SmallVector<llvm::Metadata*, 2> parts = {llvm::MDString::get(c, name)};
      if (value != nullptr) parts.push_back(llvm::ConstantAsMetadata::get(value));
      return llvm::MDNode::get(c, parts);
    };
    llvm::SmallVector<llvm::Metadata*, 4> parts = {nullptr};  // itself: it is like no other
    if (hints.unroll == 1) parts.push_back(property("llvm.loop.unroll.disable", nullptr));
    if (hints.unroll > 1) parts.push_back(property("llvm.loop.unroll.count", b_.getInt32(hints.unroll)));
    if (hints.scalar) parts.push_back(property("llvm.loop.vectorize.enable", b_.getFalse()));
    llvm::MDNode* node = llvm::MDNode::getDistinct(c, parts);
    node->replaceOperandWith(0, node);
    again->setMetadata(llvm::LLVMContext::MD_loop, node);
  }

  void EmitParallel(const ir::For& n) {
    const Mentions mentions = MentionsOf(n.body);
    std::vector<llvm::Value*> values = {env_};
    llvm::Value* failure = nullptr;
    if (mentions.can_fail) {
      failure = Local(b_.getInt32Ty(), llvm::Align(4));
      b_.CreateStore(b_.getInt32(0), failure);
      values.push_back(failure);
    }
    std::vector<Expr> vars;
    std::vector<Buffer> buffers;
    for (Expr v : mentions.vars) {
      if (exprs_.Find(v) != nullptr) vars.push_back(v);
    }
    for (Buffer b : mentions.buffers) {
      if (exprs_.Find(b) != nullptr) buffers.push_back(b);
    }
    for (Expr v : vars) values.push_back(exprs_.Find(v));
    for (Buffer b : buffers) values.push_back(exprs_.Find(b));
    std::vector<llvm::Type*> types;
    for (llvm::Value* v : values) types.push_back(v->getType());
    auto* capture_type = llvm::StructType::get(b_.getContext(), types);
    llvm::Value* captures = Local(capture_type, m_.module.getDataLayout().getABITypeAlign(capture_type));
    for (unsigned i = 0; i < values.size(); ++i)
      b_.CreateStore(values[i], b_.CreateStructGEP(capture_type, captures, i));

    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getInt64Ty(), b_.getInt64Ty(), b_.getPtrTy()}, false);
    llvm::Function* body = m_.NewFunction(type, Cat(std::string(f_->getName()), ".", n.var->name), false);
    FunctionEmitter inner(m_, func_, alias_, body);
    unsigned field = 0;
    auto next_field = [&] {
      const unsigned i = field++;
      return inner.b_.CreateLoad(types[i], inner.b_.CreateStructGEP(capture_type, body->getArg(2), i));
    };
    inner.env_ = next_field();
    inner.failure_ = failure == nullptr ? nullptr : next_field();
    for (Expr v : vars) inner.exprs_.Bind(v, next_field());
    for (Buffer b : buffers) inner.exprs_.Bind(b, next_field());
    llvm::Type* index = ValueType(b_.getContext(), n.var->type);
    inner.EmitLoop(n, inner.b_.CreateIntCast(body->getArg(0), index, true),
                   inner.b_.CreateIntCast(body->getArg(1), index, true));
    inner.b_.CreateRetVoid();
    if (!inner.status_.ok()) Fail(inner.status_);
    if (!inner.exprs_.status().ok()) Fail(inner.exprs_.status());

    llvm::Value* extent = b_.CreateIntCast(exprs_.Emit(n.extent), b_.getInt64Ty(), true);
    llvm::Value* grain = exprs_.Emit(ParallelGrain(*func_.context, n));
    Call("cinn_parallel_for", {b_.getInt64(0), extent, grain, b_.getInt64(m_.threads), body, captures});
    if (failure != nullptr) CheckCode(b_.CreateLoad(b_.getInt32Ty(), failure));
  }

  // ---- calls ----
  llvm::Value* EmitArg(Expr e) {
    if (e->op == ir::ExprOp::kAddress) return exprs_.EmitAddress(e);
    return exprs_.Emit(e);
  }

  llvm::Value* EmitWord(const backends::CallWord& w) {
    llvm::Type* word = b_.getInt64Ty();
    if (w.value == nullptr) return b_.getInt64(w.number);
    llvm::Value* value = EmitArg(w.value);
    if (w.value->op == ir::ExprOp::kAddress) return b_.CreatePtrToInt(value, word);
    const DType t = w.value->type.dtype;
    return IsFloat(t) ? b_.CreateBitCast(value, word) : b_.CreateIntCast(value, word, IsSigned(t));
  }

  void EmitFunctionCall(const ir::Call& n) {
    const std::vector<backends::CallWord> words = backends::WordsOf(*func_.context, n);
    llvm::Type* word = b_.getInt64Ty();
    llvm::Value* memory = Local(llvm::ArrayType::get(word, words.size()), llvm::Align(8));
    for (size_t i = 0; i < words.size(); ++i)
      b_.CreateStore(EmitWord(words[i]), b_.CreateConstInBoundsGEP1_64(word, memory, i));
    llvm::Value* name = b_.CreateGlobalString(n.text, "text", 0, &m_.module);
    CheckedCall(n.callee, {Device(), name, memory, b_.getInt64(n.operands.size()), env_});
  }

  void EmitCall(const ir::Call& n) {
    if (n.IsOfFunction()) return EmitFunctionCall(n);
    std::vector<llvm::Value*> args;
    if (!n.text.empty()) args.push_back(b_.CreateGlobalString(n.text, "text", 0, &m_.module));
    for (Expr e : n.args) args.push_back(EmitArg(e));
    args.push_back(env_);
    CheckedCall(n.callee, args);
  }

  // Its memory, made for this launch.
  llvm::Value* EmitTensorMap(const ir::TensorMap& m) {
    constexpr uint64_t kAlignment = 64;
    llvm::Value* map = Local(llvm::ArrayType::get(b_.getInt8Ty(), kTensorMapBytes), llvm::Align(kAlignment));
    std::vector<Expr> all;
    for (const auto* list : {&m.extents, &m.strides, &m.box}) all.insert(all.end(), list->begin(), list->end());
    llvm::Value* numbers = Local(llvm::ArrayType::get(b_.getInt64Ty(), all.size()), llvm::Align(8));
    for (size_t i = 0; i < all.size(); ++i)
      b_.CreateStore(b_.CreateIntCast(exprs_.Emit(all[i]), b_.getInt64Ty(), true),
                     b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), numbers, i));
    CheckedCall("cinn_tensor_map",
                {Device(), map, EmitArg(m.address), b_.getInt64(static_cast<uint64_t>(m.address->buffer->dtype)),
                 b_.getInt64(m.extents.size()), numbers, env_});
    return map;
  }

  void EmitLaunch(const ir::Launch& n) {
    llvm::Value* kernel = m_.module.getOrInsertGlobal(Cat(n.kernel, "_kernel_ptr_"), b_.getPtrTy());
    std::vector<llvm::Value*> args = {Device(), b_.CreateLoad(b_.getPtrTy(), kernel)};
    // A device counts the blocks of clusters along x.
    llvm::Value* blocks = exprs_.Emit(n.grid[0]);
    args.push_back(n.cluster == nullptr ? blocks : b_.CreateMul(blocks, exprs_.Emit(n.cluster)));
    for (size_t i = 1; i < 3; ++i) args.push_back(exprs_.Emit(n.grid[i]));
    for (Expr e : n.block) args.push_back(exprs_.Emit(e));
    args.push_back(exprs_.Emit(n.shared_bytes));
    llvm::Value* params = Local(llvm::ArrayType::get(b_.getPtrTy(), n.args.size() + n.maps.size()), llvm::Align(8));
    for (size_t i = 0; i < n.args.size(); ++i) {
      llvm::Value* value = EmitArg(n.args[i]);
      llvm::Value* slot = Local(value->getType(), llvm::Align(8));
      b_.CreateStore(value, slot);
      b_.CreateStore(slot, b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), params, i));
    }
    for (size_t i = 0; i < n.maps.size(); ++i) {
      b_.CreateStore(EmitTensorMap(n.maps[i]), b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), params, n.args.size() + i));
    }
    args.push_back(params);
    args.push_back(env_);
    CheckedCall("cinn_launch", args);
  }

  ModuleState& m_;
  const ir::Func& func_;
  const AliasScopes& alias_;
  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  ExprEmitter exprs_;
  llvm::Value* env_ = nullptr;
  llvm::Value* failure_ = nullptr;  // where a parallel body leaves a failed call's code; null: it is the result
  std::vector<llvm::Value*> workspaces_;
  int64_t stack_bytes_ = 0;  // of local memory so far
  bool only_calls_ = true;   // neither loops nor stores: an entry, or what hands a parallel loop over
  Status status_;
};

Status EmitFunc(ModuleState& m, const ir::Func& func) {
  llvm::LLVMContext& c = m.module.getContext();
  llvm::Type* ptr = llvm::PointerType::get(c, 0);
  llvm::Type* i32 = llvm::Type::getInt32Ty(c);
  std::vector<llvm::Type*> types = {ptr, ptr, i32, ptr};
  if (func.kind == ir::FuncKind::kInternal) {
    types.clear();
    for (const ir::Param& p : func.params) types.push_back(p.buffer != nullptr ? ptr : ValueType(c, p.var->type));
    types.push_back(ptr);
  } else if (func.kind == ir::FuncKind::kKernel) {
    return Internal("LLVM emitter: @", func.name, " is a device kernel");
  }
  llvm::Function* f = m.NewFunction(llvm::FunctionType::get(i32, types, false), func.name, true);
  const AliasScopes alias(c, func);
  FunctionEmitter emitter(m, func, alias, f);
  return func.kind == ir::FuncKind::kEntry ? emitter.EmitEntry() : emitter.EmitInternal();
}

}  // namespace

StatusOr<std::unique_ptr<llvm::Module>> EmitLlvm(llvm::LLVMContext& context, const llvm::TargetMachine& machine,
                                                 std::string_view name, std::span<const ir::Func> funcs, bool contract,
                                                 int64_t threads, const DeviceKind& device) {
  auto module = std::make_unique<llvm::Module>(std::string(name), context);
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple().str());
  ModuleState state{*module, machine, contract, threads, device, VectorMath(*module, machine)};
  for (const ir::Func& func : funcs) RETURN_IF_ERROR(Annotate(EmitFunc(state, func), Cat("function @", func.name)));
  return module;
}

}  // namespace cinn_like
