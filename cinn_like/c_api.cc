#include "cinn_like/c_api.h"

#include "cinn_like/base/json.h"
#include "cinn_like/base/side_by_side.h"
#include "cinn_like/base/tensor.h"
#include "cinn_like/driver.h"
#include "cinn_like/host_tensors.h"
#include "cinn_like/interface.h"
#include "cinn_like/module_driver.h"
#include "cinn_like/opt.h"
#include "cinn_like/partition.h"
#include "hlir/graph.h"
#include "hlir/op_registry.h"
#include "ir/schedule/schedule.h"
#include "runtime/last_error.h"
#include "runtime/packed_call.h"

using cinn_like::Cat;
using cinn_like::CompileReport;
using cinn_like::JsonString;
using cinn_like::SetLastError;

struct CinnBytes {
  std::string bytes;
};

struct CinnFunction {
  std::unique_ptr<cinn_like::CompiledFunction> compiled;
  std::string info, signature;
};

namespace {

using cinn_like::ir::ExprOp;
using cinn_like::ir::OpRow;

std::string InfoJson(const cinn_like::CompiledFunction& f) {
  const CompileReport& r = f.report();
  std::string seconds, tactics, refused, lost;
  auto add = [](std::string& to, const std::string& item) { to += (to.empty() ? "" : ",") + item; };
  for (const auto& [stage, t] : r.seconds) add(seconds, Cat(JsonString(stage), ":", t));
  add(seconds, Cat("\"total\":", r.total_seconds));
  for (const std::string& t : r.tactics) add(tactics, JsonString(t));
  for (const std::string& t : r.refused) add(refused, JsonString(t));
  for (const cinn_like::hlir::LostOp& l : r.lost) {
    const std::string failure = l.failure.empty() ? "" : "," + JsonString(l.failure);
    add(lost, Cat("[", l.op, ",", l.own_seconds, ",", l.framework_seconds, failure, "]"));
  }
  return Cat("{", cinn_like::InterfaceJson(f.signature(), true), ",\"ops\":", r.ops, ",\"kernels\":", r.kernels,
             ",\"unique_kernels\":", r.unique_kernels, ",\"cache_hit\":", r.cache_hit ? "true" : "false",
             ",\"seconds\":{", seconds, "},\"peak_rss_bytes\":", r.peak_rss_bytes,
             ",\"added_rss_bytes\":", r.added_rss_bytes, ",\"tactics\":[", tactics, "],\"refused\":[", refused,
             "],\"lost\":[", lost, "]}");
}

std::string OpsJson() {
  std::string ops;
  for (const cinn_like::hlir::OpDef* def : cinn_like::hlir::OpRegistry::BuiltIn().All()) {
    std::string operands, attributes;
    for (const std::string& o : def->operands) operands += (operands.empty() ? "" : ",") + JsonString(o);
    for (const cinn_like::hlir::AttrSpec& a : def->attrs)
      attributes += (attributes.empty() ? "" : ",") + JsonString(a.name);
    ops += Cat(ops.empty() ? "" : ",", "{\"name\":", JsonString(def->name), ",\"operands\":[", operands,
               "],\"attributes\":[", attributes, "],\"doc\":", JsonString(def->doc), "}");
  }
  return "[" + ops + "]";
}

std::string StepsJson() {
  std::string steps;
  for (const cinn_like::ir::StepInfo& s : cinn_like::ir::ScheduleSteps()) {
    steps += Cat(steps.empty() ? "" : ",", "{\"name\":", JsonString(s.name), ",\"usage\":", JsonString(s.usage),
                 ",\"on\":\"", s.on_stages ? "stages" : "loops", "\"}");
  }
  return "[" + steps + "]";
}

// Those that are written as calls, but for what speaks of a vector's lanes or of other threads, from shuffle_xor on.
std::string FunctionsJson() {
  std::string functions;
  for (int i = static_cast<int>(ExprOp::kChecked) + 1; i < static_cast<int>(ExprOp::kShuffleXor); ++i) {
    const OpRow* row = RowOf(static_cast<ExprOp>(i));
    if (row->precedence != 0 || row->result == OpRow::kElement) continue;
    functions += Cat(functions.empty() ? "" : ",", "{\"name\":", JsonString(row->text), ",\"operands\":", row->arity,
                     ",\"result\":\"",
                     row->result == OpRow::kSame   ? "same"
                     : row->result == OpRow::kBool ? "bool"
                                                   : "second",
                     "\"}");
  }
  return "[" + functions + "]";
}

// Passes and targets as texts name them.
cinn_like::StatusOr<cinn_like::PassContext> ContextOf(const char* target) {
  cinn_like::PassContext context;
  ASSIGN_OR_RETURN(context.options, cinn_like::CompileOptions::FromFlags());
  ASSIGN_OR_RETURN(context.target, cinn_like::Target::Parse(target));
  return context;
}

cinn_like::StatusOr<std::string> RunText(const char* text, const char* schedule, const char* passes,
                                         const char* target) {
  if (text == nullptr || schedule == nullptr || passes == nullptr || target == nullptr)
    return cinn_like::InvalidArgument("text, schedule, passes and target must not be null");
  ASSIGN_OR_RETURN(const cinn_like::PassContext context, ContextOf(target));
  return cinn_like::RunOnText(text, schedule, passes, context);
}

// What a callback gave.
cinn_like::StatusOr<std::string> Given(int32_t code, CinnBytes given) {
  if (code == 0) return std::move(given.bytes);
  return cinn_like::InvalidArgument(given.bytes.empty() ? Cat("the callback failed with ", code) : given.bytes);
}

cinn_like::SourceHooks HooksOf(const CinnSourceHooks& hooks) {
  cinn_like::SourceHooks r;
  void* const context = hooks.context;
  if (hooks.source != nullptr) r.source = hooks.source;
  if (const auto rewrite = hooks.rewrite) {
    r.rewrite = [=](std::string_view language, std::string_view source) {
      CinnBytes out;
      const int32_t code = rewrite(context, std::string(language).c_str(), std::string(source).c_str(), &out);
      return Given(code, std::move(out));
    };
  }
  if (const auto compile = hooks.compile) {
    r.compile = [=](const cinn_like::CompileRequest& request) {
      CinnBytes out;
      std::string options;
      for (const std::string& o : request.options) options += Cat(options.empty() ? "" : " ", o);
      const int32_t code = compile(context, std::string(request.source).c_str(), std::string(request.arch).c_str(),
                                   options.c_str(), &out);
      return Given(code, std::move(out));
    };
  }
  return r;
}

cinn_like::StatusOr<std::unique_ptr<cinn_like::CompiledFunction>> Lower(const char* text, const char* schedule,
                                                                        const char* target,
                                                                        const CinnSourceHooks* hooks) {
  ASSIGN_OR_RETURN(const cinn_like::PassContext context, ContextOf(target));
  cinn_like::Devices devices = cinn_like::Devices::BuiltIn();
  if (hooks != nullptr) {
    if (hooks->size < sizeof(CinnSourceHooks)) return cinn_like::InvalidArgument("hooks are older than this library");
    RETURN_IF_ERROR(devices.SetHooks(context.target.device->name, HooksOf(*hooks)));
  }
  return cinn_like::LowerModuleText(text, schedule, context.target, context.options, devices);
}

// Hands it to the caller.
int32_t Give(cinn_like::StatusOr<std::unique_ptr<cinn_like::CompiledFunction>> compiled, CinnFunction** out) {
  if (!compiled.ok()) return cinn_like::SetLastError(compiled.status());
  auto fn = std::make_unique<CinnFunction>();
  fn->compiled = *std::move(compiled);
  fn->info = InfoJson(*fn->compiled);
  fn->signature = Describe(fn->compiled->signature());
  *out = fn.release();
  return 0;
}

cinn_like::StatusOr<std::unique_ptr<cinn_like::CompiledFunction>> Bid(const char* graph_text, const char* target_text) {
  ASSIGN_OR_RETURN(cinn_like::hlir::Graph graph, cinn_like::hlir::Parse(graph_text));
  ASSIGN_OR_RETURN(const auto targets, cinn_like::Devices::BuiltIn().ParseTargets(target_text));
  ASSIGN_OR_RETURN(const cinn_like::CompileOptions options, cinn_like::CompileOptions::FromFlags());
  if (targets.size() > 1) return cinn_like::CompileOnTargets(graph, targets, options);
  return cinn_like::BidOnGraph(graph, targets[0], options);
}

cinn_like::Status Check(const char* graph_text, const char* target_text) {
  ASSIGN_OR_RETURN(const cinn_like::hlir::Graph graph, cinn_like::hlir::Parse(graph_text));
  cinn_like::StatusOr<cinn_like::Target> target = cinn_like::Target::Parse(target_text);
  if (target.ok()) {
    ASSIGN_OR_RETURN(const cinn_like::Device device, cinn_like::Devices::BuiltIn().Of(*target));
    target = cinn_like::ResolveTarget(*target, *device.runtime);
  }
  return target.ok() ? cinn_like::CheckGraph(graph, *target) : cinn_like::hlir::Verify(graph);
}

cinn_like::Status TakeTensors(CinnFunction* fn, int32_t type) {
  const DLDeviceType own = fn->compiled->device().runtime->type;
  if (type != own && type != kDLCPU) {
    return cinn_like::InvalidArgument("target '", fn->compiled->device().kind->name, "': expected tensors of ",
                                      cinn_like::Describe(DLDevice{own, 0}), " or the host, got those of ",
                                      cinn_like::Describe(DLDevice{static_cast<DLDeviceType>(type), 0}));
  }
  if (type != own) fn->compiled = cinn_like::TakeHostTensors(std::move(fn->compiled));
  return absl::OkStatus();
}

}  // namespace

extern "C" {

const char* CinnVersion(void) { return CINN_LIKE_VERSION; }

const char* CinnLastError(void) { return cinn_like::LastError(); }

int32_t CinnSetFlag(const char* name, const char* value) { return SetLastError(cinn_like::SetFlag(name, value)); }

const char* CinnGetFlag(const char* name) {
  thread_local std::string value;
  auto v = cinn_like::GetFlag(name);
  if (!v.ok()) {
    SetLastError(v.status());
    return nullptr;
  }
  value = *v;
  return value.c_str();
}

const char* CinnListOps(void) {
  static const std::string* json = new std::string(OpsJson());
  return json->c_str();
}

const char* CinnListSteps(void) {
  static const std::string* json = new std::string(StepsJson());
  return json->c_str();
}

const char* CinnListFunctions(void) {
  static const std::string* json = new std::string(FunctionsJson());
  return json->c_str();
}

int32_t CinnCheck(const char* graph_text, const char* target) {
  if (graph_text == nullptr || target == nullptr) {
    return SetLastError(cinn_like::InvalidArgument("graph_text and target must not be null"));
  }
  return SetLastError(Check(graph_text, target));
}

int32_t CinnCompile(const char* graph_text, const char* target, CinnFunction** out) {
  int32_t code = CinnBid(graph_text, target, out);
  if (code == 0) code = CinnFinish(*out);
  if (code != 0 && out != nullptr) {
    CinnReleaseFunction(*out);
    *out = nullptr;
  }
  return code;
}

int32_t CinnBid(const char* graph_text, const char* target, CinnFunction** out) {
  if (out != nullptr) *out = nullptr;
  if (graph_text == nullptr || target == nullptr || out == nullptr) {
    return SetLastError(cinn_like::InvalidArgument("graph_text, target and out must not be null"));
  }
  return Give(Bid(graph_text, target), out);
}

void CinnGiveBytes(CinnBytes* to, const void* data, size_t size) {
  to->bytes.assign(static_cast<const char*>(data), size);
}

int32_t CinnLowerModule(const char* loop_text, const char* schedule, const char* target, const CinnSourceHooks* hooks,
                        CinnFunction** out) {
  if (out != nullptr) *out = nullptr;
  if (loop_text == nullptr || schedule == nullptr || target == nullptr || out == nullptr) {
    return SetLastError(cinn_like::InvalidArgument("loop_text, schedule, target and out must not be null"));
  }
  return Give(Lower(loop_text, schedule, target, hooks), out);
}

const char* CinnRunOnText(const char* text, const char* schedule, const char* passes, const char* target) {
  thread_local std::string result;
  auto made = RunText(text, schedule, passes, target);
  if (!made.ok()) {
    SetLastError(made.status());
    return nullptr;
  }
  result = *std::move(made);
  return result.c_str();
}

const char* CinnSideBySide(const char* before, const char* after, const char* before_title, const char* after_title) {
  thread_local std::string result;
  const auto text = [](const char* x) { return x == nullptr ? "" : x; };
  result = cinn_like::SideBySide(text(before), text(after), text(before_title), text(after_title));
  return result.c_str();
}

int32_t CinnFinish(CinnFunction* fn) {
  const int32_t code = SetLastError(fn->compiled->Finish());
  fn->info = InfoJson(*fn->compiled);
  return code;
}

void CinnReleaseFunction(CinnFunction* fn) { delete fn; }

int32_t CinnFunctionTakeTensors(CinnFunction* fn, int32_t device_type) {
  return SetLastError(TakeTensors(fn, device_type));
}

CinnFunctionPtr CinnFunctionEntry(const CinnFunction* fn) { return fn->compiled->entry(); }
void* CinnFunctionSelf(const CinnFunction* fn) { return fn->compiled->self(); }

int32_t CinnFunctionPrepare(CinnFunction* fn, const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
  return CinnFunctionPrepareSelf(fn, fn->compiled->self(), args, num_args, env);
}

void* CinnFunctionAddSelf(CinnFunction* fn) { return fn->compiled->AddSelf(); }

int32_t CinnFunctionPrepareSelf(CinnFunction* fn, void* self, const CinnValue* args, int32_t num_args,
                                const CinnCallEnv* env) {
  if (env == nullptr) return SetLastError(cinn_like::InvalidArgument("env must not be null"));
  return SetLastError(fn->compiled->PrepareSelf(self, {args, static_cast<size_t>(num_args)}, *env));
}

int32_t CinnFunctionCallPacked(void* fn, const CinnValue* args, int32_t num_args, CinnValue* result) {
  if (fn == nullptr || num_args < 0 || (args == nullptr && num_args != 0)) {
    return cinn_like::ReportPacked(cinn_like::InvalidArgument("fn and args must not be null"));
  }
  const CinnFunction& f = *static_cast<CinnFunction*>(fn);
  const cinn_like::CallSignature& s = f.compiled->signature();
  if (f.compiled->entry() == nullptr) {
    return cinn_like::ReportPacked(absl::FailedPreconditionError(Cat(s.name, ": it is not finished (CinnFinish)")));
  }
  CinnValue none{};
  return cinn_like::ReportPacked(cinn_like::CallPacked(
      {f.compiled->entry(), f.compiled->self(), s.name, f.signature, s.params.size(), s.results.size()},
      {args, static_cast<size_t>(num_args)}, result == nullptr ? &none : result));
}

int32_t CinnExportLibrary(CinnFunction* const* functions, int32_t num_functions, const char* path,
                          const CinnValue* args, int32_t num_args) {
  if (path == nullptr || num_args < 0 || (args == nullptr && num_args != 0) || functions == nullptr ||
      num_functions < 1) {
    return SetLastError(cinn_like::InvalidArgument("functions, path and args must not be null"));
  }
  std::vector<cinn_like::LibraryPart> parts;
  for (CinnFunction* fn : std::span(functions, static_cast<size_t>(num_functions))) {
    // Its own code prepares weights.
    if (num_args != 0 && fn->compiled->device().runtime->type == kDLCPU) {
      if (const int32_t code = CinnFinish(fn); code != 0) return code;
    }
    auto part = fn->compiled->MakePart({args, static_cast<size_t>(num_args)});
    if (!part.ok()) return SetLastError(part.status());
    parts.push_back(*std::move(part));
  }
  return SetLastError(cinn_like::WriteLibrary(std::move(parts), path));
}

const char* CinnFunctionInfo(const CinnFunction* fn) { return fn->info.c_str(); }

const char* CinnFunctionSource(const CinnFunction* fn, const char* kind) {
  size_t size = 0;
  return CinnFunctionBytes(fn, kind, &size);
}

const char* CinnFunctionBytes(const CinnFunction* fn, const char* kind, size_t* size) {
  thread_local std::string text;
  auto source = fn->compiled->Source(kind);
  if (!source.ok()) {
    SetLastError(source.status());
    return nullptr;
  }
  text = *std::move(source);
  *size = text.size();
  return text.c_str();
}

}  // extern "C"
