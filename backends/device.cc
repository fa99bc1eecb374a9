#include "backends/device.h"

#include <algorithm>
#include <cctype>

#include "backends/cuda_compiler.h"
#include "backends/hip_compiler.h"
#include "backends/metal_compiler.h"
#include "backends/opencl_compiler.h"
#include "ir/intrinsic.h"
#include "ir/pass_table.h"

namespace cinn_like {
namespace {

// As texts of targets and functions and symbols of generated code have it.
bool IsIdentifier(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; });
}

Status Check(const Device& device) {
  if (device.kind == nullptr) return InvalidArgument("device: it has no kind");
  const DeviceKind& kind = *device.kind;
  if (!IsIdentifier(kind.name))
    return InvalidArgument("device: expected an identifier for a name, got '", kind.name, "'");
  const auto wrong = [&](const auto&... what) { return InvalidArgument("device '", kind.name, "': ", what...); };
  if (device.runtime == nullptr || device.runtime->api == nullptr) return wrong("it has no runtime");
  if (device.runtime->type != kind.type) {
    return wrong("its tensors are of DLPack type ", static_cast<int>(kind.type), ", for the runtime of ",
                 static_cast<int>(device.runtime->type));
  }
  if (kind.rows.empty()) return wrong("it has no rows");
  if (kind.has_kernels != (device.make_compiler != nullptr)) {
    return wrong(kind.has_kernels ? "it has kernels and no compiler" : "it has a compiler and no kernels");
  }
  if (kind.limits.warp < 1 || (kind.limits.warp & (kind.limits.warp - 1)) != 0) {
    return wrong("expected a power of 2 for the width of a warp, got ", kind.limits.warp);
  }
  for (size_t i = 0; i < kind.intrinsics.size(); ++i) {
    const Intrinsic& row = kind.intrinsics[i];
    if (!IsIdentifier(row.name)) return wrong("expected an identifier for an intrinsic's name, got '", row.name, "'");
    if (ir::FindIntrinsic(kind, row.name) != &row) return wrong("it has two intrinsics '", row.name, "'");
    RETURN_IF_ERROR(Annotate(ir::CheckIntrinsic(row), Cat("device '", kind.name, "'")));
  }
  for (size_t i = 0; kind.passes != nullptr && i < kind.passes->size(); ++i) {
    const ir::HookedPass& hooked = (*kind.passes)[i];
    if (ir::FindPass(hooked.after) == nullptr)
      return wrong("pass '", hooked.pass.name, "' is to run after '", hooked.after, "', which is no loop pass");
    if (hooked.pass.run == nullptr) return wrong("pass '", hooked.pass.name, "' has no function");
    if (ir::FindPass(hooked.pass.name) != nullptr) return wrong("there is a pass '", hooked.pass.name, "'");
  }
  return absl::OkStatus();
}

// Hooks around a compiler of kernels.
class HookedCompiler : public DeviceCompiler {
 public:
  HookedCompiler(std::unique_ptr<DeviceCompiler> compiler, const SourceHooks& hooks)
      : compiler_(std::move(compiler)), hooks_(hooks) {}

  StatusOr<std::string> EmitSource(const ir::Module& module) override {
    return ReplaceSource(hooks_, Forms()[0], [&] { return compiler_->EmitSource(module); });
  }
  StatusOr<KernelImages> Compile(const ir::Module& module, std::string_view source) override {
    ASSIGN_OR_RETURN(const std::string text, TextOf(module, source));
    return compiler_->Compile(module, text);
  }
  StatusOr<std::vector<KernelImages>> CompileForOthers(const ir::Module& module) override {
    // Of the caller's source there is one form.
    return hooks_.source.empty() && !hooks_.rewrite ? compiler_->CompileForOthers(module) : std::vector<KernelImages>();
  }
  std::vector<std::string> Forms() const override { return compiler_->Forms(); }
  StatusOr<std::string> Emit(const ir::Module& module, std::string_view form, std::string_view source) override {
    ASSIGN_OR_RETURN(const std::string text, TextOf(module, source));
    return compiler_->Emit(module, form, text);
  }

 private:
  // Empty where nothing is replaced, or nothing is there.
  StatusOr<std::string> TextOf(const ir::Module& module, std::string_view source) {
    const bool has_kernels = std::any_of(module.funcs.begin(), module.funcs.end(),
                                         [](const ir::Func& f) { return f.kind == ir::FuncKind::kKernel; });
    if (!has_kernels || (hooks_.source.empty() && !hooks_.rewrite)) return std::string(source);
    if (source.empty()) return EmitSource(module);
    return ReplaceSource({"", hooks_.rewrite, nullptr}, Forms()[0], [&] { return std::string(source); });
  }

  const std::unique_ptr<DeviceCompiler> compiler_;
  const SourceHooks hooks_;
};

}  // namespace

StatusOr<std::unique_ptr<DeviceCompiler>> MakeDeviceCompiler(const Device& device, const Target& target,
                                                             const CompileOptions& options, ObjectCache* cache) {
  if (!device.make_compiler) return nullptr;
  std::unique_ptr<DeviceCompiler> compiler = device.make_compiler(target, options, cache);
  if (!device.hooks) return compiler;
  if (device.hooks.compile) RETURN_IF_ERROR(compiler->ReplaceCompiler(device.hooks.compile));
  return std::make_unique<HookedCompiler>(std::move(compiler), device.hooks);
}

Status CheckRunsHere(const Device& device) {
  if (!device.kind->is_source) return absl::OkStatus();
  return InvalidArgument("target '", device.kind->name,
                         "': its functions leave as source text (EmitGraph, cinn_compile) and don't run here");
}

const Devices& Devices::BuiltIn() {
  static const Devices* const devices = [] {
    auto* r = new Devices;
    for (const Device& d :
         {Device{&HostKind(), &cinn_device_x86_64}, Device{&CudaKind(), &cinn_device_cuda, MakeCudaCompiler},
          Device{&OpenClKind(), &cinn_device_opencl, MakeOpenClCompiler},
          Device{&HipKind(), &cinn_device_hip, MakeHipCompiler},
          Device{&MetalKind(), &cinn_device_metal, MakeMetalCompiler}, Device{&CKind(), &cinn_device_x86_64}}) {
      r->Add(d).IgnoreError();  // a test holds that they are there
    }
    return r;
  }();
  return *devices;
}

Status Devices::Add(Device device) {
  RETURN_IF_ERROR(Check(device));
  for (const Device& d : devices_) {
    for (const std::string& name : {d.kind->name, d.kind->alias}) {
      if (!name.empty() && (name == device.kind->name || name == device.kind->alias)) {
        return absl::AlreadyExistsError(Cat("device '", device.kind->name, "': there is a device '", name, "'"));
      }
    }
    // What runs elsewhere has no tensors here.
    if (d.kind->type == device.kind->type && !d.kind->is_source && !device.kind->is_source) {
      return absl::AlreadyExistsError(Cat("device '", device.kind->name, "': DLPack type ",
                                          static_cast<int>(d.kind->type), " is that of device '", d.kind->name, "'"));
    }
  }
  devices_.push_back(std::move(device));
  return absl::OkStatus();
}

Status Devices::SetHooks(std::string_view name, SourceHooks hooks) {
  RETURN_IF_ERROR(Find(name).status());
  for (Device& d : devices_) {
    if (d.kind->name != name) continue;
    Device changed = d;
    changed.hooks = std::move(hooks);
    const auto wrong = [&](const auto&... what) { return InvalidArgument("device '", name, "': ", what...); };
    if (changed.make_compiler) {
      ASSIGN_OR_RETURN(const Target target, Target::Parse(d.kind->name, {{d.kind}}));
      RETURN_IF_ERROR(Annotate(MakeDeviceCompiler(changed, target, {}, nullptr).status(), Cat("device '", name, "'")));
    } else if (changed.hooks && !d.kind->is_source) {
      return wrong("its functions have no source text that is compiled");
    } else if (changed.hooks.compile) {
      return wrong("there is no compiler of ", name, " source to replace");
    }
    d = std::move(changed);
  }
  return absl::OkStatus();
}

StatusOr<Device> Devices::Find(std::string_view name) const {
  std::string known;
  for (const Device& d : devices_) {
    if (d.kind->name == name) return d;
    known += Cat(known.empty() ? "" : ", ", d.kind->name);
  }
  return InvalidArgument("no device '", name, "' is registered; registered: ", known);
}

StatusOr<Device> Devices::Of(const Target& target) const {
  const StatusOr<Device> device = Find(target.device->name);
  if (!device.ok()) return Annotate(device.status(), Cat("target '", target.Print(), "'"));
  if (device->kind != target.device) {
    return InvalidArgument("target '", target.Print(), "': another device of that name is registered");
  }
  return device;
}

StatusOr<Target> Devices::ParseTarget(std::string_view text) const {
  std::vector<const DeviceKind*> kinds;
  for (const Device& d : devices_) kinds.push_back(d.kind);
  return Target::Parse(text, kinds);
}

StatusOr<std::vector<Target>> Devices::ParseTargets(std::string_view text) const {
  std::vector<Target> targets;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    ASSIGN_OR_RETURN(targets.emplace_back(), ParseTarget(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return targets;
}

}  // namespace cinn_like
