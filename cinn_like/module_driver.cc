#include "cinn_like/module_driver.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "backends/compiled_code.h"
#include "backends/library.h"
#include "backends/parallel_tasks.h"
#include "cinn_like/base/replace_file.h"
#include "cinn_like/emit_code.h"
#include "ir/known_bounds.h"
#include "ir/lower.h"
#include "ir/schedule/schedule.h"
#include "ir/serial_loops.h"
#include "ir/te.h"
#include "runtime/prepared_state.h"

namespace cinn_like {
namespace {

// What ArgSpec and launches carry: integers that have a range.
Status CheckScalar(const ir::Func& f, ir::Expr var) {
  const bool is_symbol = std::any_of(f.symbols.begin(), f.symbols.end(), [&](const ir::SymbolFact& s) {
    return s.var == var && var->type == ir::kIndexType;
  });
  if (is_symbol) return absl::OkStatus();
  return InvalidArgument("@", f.name, ": parameter ", var->name, ": expected a tensor, or an i64 with a range (where ",
                         var->name, " in 0..100), got ", ir::Print(var->type));
}

// An entry @f for the internal function @f, which is called @f_k0 from now on and is also given its symbols.
Status AddEntry(ir::Module& m) {
  ir::Func& f = m.funcs[0];
  const std::vector<ir::Buffer> written = ir::BuffersWritten(f.body);
  std::vector<ir::Param> first, results;
  for (const ir::Param& p : f.params) {
    if (p.var != nullptr) {
      RETURN_IF_ERROR(CheckScalar(f, p.var));
      first.push_back(p);
      continue;
    }
    const bool is_written = ir::Contains(written, p.buffer), is_result = p.role == ir::ParamRole::kResult;
    if (!is_result && p.role != ir::ParamRole::kInput)
      return InvalidArgument("@", f.name, ": parameter ", p.buffer->name, " is ", ir::Name(p.role),
                             ", and nothing prepares it");
    if (is_written && !is_result)
      return InvalidArgument("@", f.name, ": parameter ", p.buffer->name, " is written and not marked out");
    if (is_result && !is_written)
      return InvalidArgument("@", f.name, ": parameter ", p.buffer->name, " is marked out and nothing writes it");
    (is_result ? results : first).push_back(p);
  }
  if (results.empty()) return InvalidArgument("@", f.name, ": no parameter is marked out");
  for (const ir::SymbolFact& s : f.symbols) {
    const bool is_param =
        std::any_of(f.params.begin(), f.params.end(), [&](const ir::Param& p) { return p.var == s.var; });
    if (!is_param) f.params.push_back({.var = s.var});
  }
  ir::Context& c = *f.context;
  ir::Call call;
  call.callee = f.name + "_k0";
  for (const ir::Param& p : f.params)
    call.args.push_back(
        p.var != nullptr ? p.var : c.Address(p.buffer, std::vector<ir::Expr>(p.buffer->shape.size(), c.Int(0))));
  first.insert(first.end(), results.begin(), results.end());
  ir::Func entry{f.name, ir::FuncKind::kEntry, std::move(first), f.symbols, ir::MakeStmt(call), f.context};
  f.name = call.callee;
  m.funcs.push_back(std::move(entry));
  return absl::OkStatus();
}

// The module's one entry.
StatusOr<const ir::Func*> EntryOf(const ir::Module& m) {
  const ir::Func* entry = nullptr;
  for (const ir::Func& f : m.funcs) {
    if (f.kind == ir::FuncKind::kKernel)
      return InvalidArgument("@", f.name, ": expected internal functions and an entry, got a kernel");
    if (f.kind != ir::FuncKind::kEntry) continue;
    if (entry != nullptr) return InvalidArgument("expected one entry, got @", entry->name, " and @", f.name);
    entry = &f;
  }
  if (entry == nullptr) return InvalidArgument("none of ", m.funcs.size(), " functions is an entry");
  for (const ir::SymbolFact& s : entry->symbols) {
    if (s.lo < 0)
      return InvalidArgument("@", entry->name, ": symbol ", s.var->name, ": expected a range from 0 up, got ", s.lo,
                             "..", s.hi);
  }
  for (const ir::Param& p : entry->params) {
    if (p.var != nullptr) {
      RETURN_IF_ERROR(CheckScalar(*entry, p.var));
    } else if (p.role != ir::ParamRole::kInput && p.role != ir::ParamRole::kResult) {
      return InvalidArgument("@", entry->name, ": parameter ", p.buffer->name, " is ", ir::Name(p.role),
                             ", and nothing prepares it");
    }
  }
  return entry;
}

CallSignature SignatureOf(const ir::Func& entry) {
  CallSignature s;
  s.name = entry.name;
  for (const ir::Param& p : entry.params) {
    CallSignature::Value& v = (p.role == ir::ParamRole::kResult ? s.results : s.params).emplace_back();
    v.is_symbol = p.var != nullptr;
    v.name = v.is_symbol ? p.var->name : p.buffer->name;
    v.dtype = v.is_symbol ? p.var->type.dtype : p.buffer->dtype;
    for (size_t d = 0; !v.is_symbol && d < p.buffer->shape.size(); ++d)
      v.shape.push_back(ir::Print(p.buffer->shape[d]));
  }
  for (const ir::SymbolFact& f : entry.symbols) s.symbols.push_back(f.var->name);
  return s;
}

// "@scale(x: f32[n], y: f32[n] out) where n in 1..4096", of the printed entry.
std::string SignatureText(const ir::Func& entry) {
  ir::Func bare = entry;
  bare.body = ir::MakeSeq({});
  bare.kind = ir::FuncKind::kInternal;
  bare.device.clear();
  const std::string text = ir::Print(bare);
  const size_t begin = text.find('@');
  return text.substr(begin, text.find(" {") - begin);
}

// What CheckGraph says of graphs. Integers that are in no memory are indices, which every device has.
Status CheckDTypes(const ir::Module& m, const Target& target) {
  const std::vector<DType> lacks = LackedBy(target);
  const auto is_lacked = [&](DType t) { return std::find(lacks.begin(), lacks.end(), t) != lacks.end(); };
  for (const ir::Func& f : m.funcs) {
    std::optional<DType> found;
    const auto see = [&](DType t) {
      if (is_lacked(t)) found = t;
    };
    for (const ir::Param& p : f.params) {
      if (p.buffer != nullptr) see(p.buffer->dtype);
    }
    ir::ForEachExpr(f.body, [&](ir::Expr root) {
      ir::Visit(root, [&](ir::Expr e) {
        if (e->op == ir::ExprOp::kLoad || IsFloat(e->type.dtype)) see(e->type.dtype);
        return !found.has_value();
      });
    });
    if (found) return InvalidArgument("@", f.name, ": the ", target.device->name, " device has no ", Name(*found));
  }
  return absl::OkStatus();
}

// What functions by name are handed lies in the memory that is there, which may be copies.
Status CheckOperands(const ir::Func& f) {
  Status status;
  ir::VisitStmts(f.body, [&](const ir::Stmt& s) {
    if (const auto* call = ir::As<ir::Call>(s)) {
      ir::ForEachOperand(*call, [&](const ir::Call::Operand& o, absl::Span<const ir::Expr> args) {
        if (o.is_tensor && ir::WholeOf(o, args) == nullptr)
          status = InvalidArgument("@", f.name, ": function \"", call->text, "\" is given a part of ",
                                   args[0]->buffer->name, ", expected all of it");
      });
      for (ir::Buffer b : call->IsOfFunction() ? ir::BuffersWritten(s) : std::vector<ir::Buffer>()) {
        if (ir::Contains(ir::BuffersRead(s), b))
          status = InvalidArgument("@", f.name, ": function \"", call->text, "\" is given ", b->name,
                                   " to read and to write, expected one of these");
      }
    }
    return status.ok();
  });
  return status;
}

class ModuleCompilation : public CompiledFunction {
 public:
  ModuleCompilation(Target target, const CompileOptions& options, Device device)
      : context_{options, std::move(target), "", &times_}, device_(std::move(device)) {}

  // On a stack of its own: the caller's may be small.
  Status Lower(const std::function<StatusOr<ir::Module>()>& make, std::string_view schedule) {
    Status status;
    RETURN_IF_ERROR(RunTasks({[&] { status = LowerHere(make, schedule); }}, 1));
    return status;
  }

  Status Finish() override {
    if (entry_ != nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(CheckRunsHere(device_));
    // "native" is known where the device is.
    ASSIGN_OR_RETURN(context_.target, ResolveTarget(context_.target, *device_.runtime));
    ASSIGN_OR_RETURN(const auto compiler, MakeDeviceCompiler(device_, context_.target, context_.options, nullptr));
    CompiledCode code;
    {
      const ScopedStage timer(&times_, "codegen");
      auto compiled = CompileModule(module_, context_.target, context_.options, compiler.get(), nullptr);
      if (!compiled.ok()) return Explained(compiled.status());
      code = *std::move(compiled);
    }
    const ScopedStage timer(&times_, "load");
    ASSIGN_OR_RETURN(code_,
                     LoadedCode::Load(signature_.name, code, RuntimeSymbols(), device_, context_.options.jit_listener));
    void* entry = code_->Lookup(signature_.name);
    RET_CHECK(entry != nullptr, signature_.name);
    state_ = std::make_unique<PreparedState>(0, *device_.runtime);
    entry_ = reinterpret_cast<CinnFunctionPtr>(entry);
    report_.seconds = times_.Get();
    for (const auto& [stage, seconds] : report_.seconds) report_.total_seconds += seconds;
    return absl::OkStatus();
  }

  CinnFunctionPtr entry() const override { return entry_; }
  void* self() const override { return state_.get(); }
  // Nothing is static.
  Status Prepare(std::span<const CinnValue>, const CinnCallEnv&) override { return absl::OkStatus(); }
  void* AddSelf() override { return state_.get(); }
  Status PrepareSelf(void*, std::span<const CinnValue>, const CinnCallEnv&) override { return absl::OkStatus(); }
  const CallSignature& signature() const override { return signature_; }
  const Device& device() const override { return device_; }
  const CompileReport& report() const override { return report_; }

  StatusOr<std::string> Source(std::string_view kind) const override {
    if (kind == "stages") return stages_;
    if (kind == "schedule") return schedule_;
    if (kind == "loops") return ir::Print(module_);
    auto text = EmitCode({module_, signature_.name, ""}, context_, device_, kind, "stages, schedule, loops");
    return text.ok() || absl::IsNotFound(text.status()) ? std::move(text) : Explained(text.status());
  }
  Status ExportObject(const std::string& path) const override {
    return ExportHostObject(module_, context_.target, context_.options, path);
  }
  StatusOr<LibraryPart> MakePart(std::span<const CinnValue> weights) const override {
    RETURN_IF_ERROR(CheckRunsHere(device_));
    if (!weights.empty()) return InvalidArgument("@", signature_.name, ": expected no weights, got ", weights.size());
    LibraryPart part;
    ASSIGN_OR_RETURN(const auto compiler, MakeDeviceCompiler(device_, context_.target, context_.options, nullptr));
    RETURN_IF_ERROR(CompileForLibrary(module_, context_.target, context_.options, compiler.get(), nullptr, &part));
    part.name = signature_.name;
    part.signature = signature_text_;
    part.interface = InterfaceJson(signature_, true);
    part.params = static_cast<int>(signature_.params.size());
    part.results = static_cast<int>(signature_.results.size());
    return part;
  }

 private:
  // Not every device can ask.
  Status Explained(const Status& error) const {
    return unknown_.empty() ? error : Annotate(error, Cat(unknown_, ", which code would ask"));
  }

  Status LowerHere(const std::function<StatusOr<ir::Module>()>& make, std::string_view schedule) {
    const ScopedStage timer(&times_, "lower");
    ASSIGN_OR_RETURN(ir::Module m, make());
    RETURN_IF_ERROR(ir::Verify(m));
    RETURN_IF_ERROR(CheckDTypes(m, context_.target));
    stages_ = ir::Print(m);
    schedule_ = schedule;
    for (const ir::Func& f : m.funcs) {
      RETURN_IF_ERROR(CheckOperands(f));
      if (f.kind == ir::FuncKind::kInternal && unknown_.empty()) unknown_ = ir::FindUnknownAccess(f);
    }
    if (!unknown_.empty()) context_.options.check_bounds = true;
    if (!schedule.empty()) {
      ASSIGN_OR_RETURN(m, ir::ApplySchedules(std::move(m), schedule));
    }
    if (m.funcs.size() == 1 && m.funcs[0].kind == ir::FuncKind::kInternal) RETURN_IF_ERROR(AddEntry(m));
    RETURN_IF_ERROR(ir::Verify(m));
    ASSIGN_OR_RETURN(const ir::Func* entry, EntryOf(m));
    signature_ = SignatureOf(*entry);
    signature_text_ = SignatureText(*entry);
    context_.name = entry->name;
    report_.kernels = report_.unique_kernels = static_cast<int>(m.funcs.size()) - 1;
    ASSIGN_OR_RETURN(module_, ir::LowerModule(m, context_));
    report_.refused = ir::FindSerialLoops(m, module_);
    report_.seconds = times_.Get();
    return absl::OkStatus();
  }

  StageTimes times_;
  PassContext context_;
  const Device device_;
  ir::Module module_;  // lowered
  std::string stages_, schedule_, signature_text_;
  std::string unknown_;  // an access that is not known to be inside of its buffer
  CallSignature signature_;
  std::unique_ptr<LoadedCode> code_;
  std::unique_ptr<PreparedState> state_;
  CinnFunctionPtr entry_ = nullptr;
  CompileReport report_;
};

StatusOr<std::unique_ptr<CompiledFunction>> Lower(const std::function<StatusOr<ir::Module>()>& make,
                                                  std::string_view schedule, const Target& target,
                                                  const CompileOptions& options, const Devices& devices) {
  RETURN_IF_ERROR(CheckDisabledPasses(options, target));
  ASSIGN_OR_RETURN(const Device device, devices.Of(target));
  // Without the device there is still source to be had.
  auto f =
      std::make_unique<ModuleCompilation>(ResolveTarget(target, *device.runtime).value_or(target), options, device);
  RETURN_IF_ERROR(f->Lower(make, schedule));
  return std::unique_ptr<CompiledFunction>(std::move(f));
}

}  // namespace

StatusOr<std::unique_ptr<CompiledFunction>> LowerModuleText(std::string_view text, std::string_view schedule,
                                                            const Target& target, const CompileOptions& options,
                                                            const Devices& devices) {
  return Lower([&] { return ir::ParseModule(text); }, schedule, target, options, devices);
}

StatusOr<std::unique_ptr<CompiledFunction>> LowerModule(const ir::Module& module, std::string_view schedule,
                                                        const Target& target, const CompileOptions& options,
                                                        const Devices& devices) {
  return Lower([&]() -> StatusOr<ir::Module> { return module; }, schedule, target, options, devices);
}

}  // namespace cinn_like
