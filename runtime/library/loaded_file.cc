#include "runtime/library/loaded_file.h"

#include <cstring>

namespace cinn_like {
namespace {

StatusOr<void*> FindSymbol(void* handle, const std::string& name) {
  void* address = dlsym(handle, name.c_str());
  if (address == nullptr) return absl::DataLossError(Cat("has no '", name, "', which it describes"));
  return address;
}

StatusOr<CinnFunctionPtr> FindFunction(void* handle, const std::string& name) {
  ASSIGN_OR_RETURN(void* address, FindSymbol(handle, name));
  return reinterpret_cast<CinnFunctionPtr>(address);
}

StatusOr<std::unique_ptr<LoadedKernels>> LoadKernels(void* handle, const LibraryKernels& kernels,
                                                     const RuntimeDevice& device, void** pointers) {
  ASSIGN_OR_RETURN(const void* bytes, FindSymbol(handle, Cat(kLibraryKernelsSymbol, kernels.number)));
  ASSIGN_OR_RETURN(const KernelImages images,
                   KernelImages::Decode({static_cast<const char*>(bytes), static_cast<size_t>(kernels.bytes)}));
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedKernels> loaded, LoadedKernels::Load(images, device));
  for (size_t i = 0; i < images.kernels.size(); ++i) {
    ASSIGN_OR_RETURN(pointers[i], loaded->Kernel(images.kernels[i].name));
  }
  return loaded;
}

}  // namespace

StatusOr<const RuntimeDevice*> FindDevice(const std::string& name) {
  static constexpr const RuntimeDevice* kOwn[] = {&cinn_device_x86_64, &cinn_device_cuda, &cinn_device_opencl,
                                                  &cinn_device_hip};
  for (size_t i = 0; i < std::size(kOwn); ++i) {
    if (name == kLibraryDevices[i]) return kOwn[i];
  }
  const std::string symbol = Cat("cinn_device_", name);
  if (const void* found = dlsym(RTLD_DEFAULT, symbol.c_str()); found != nullptr)
    return static_cast<const RuntimeDevice*>(found);
  return absl::FailedPreconditionError(
      Cat("needs device '", name, "', which the program has not (a symbol ", symbol, ")"));
}

LoadedFile::~LoadedFile() {
  ready_.clear();
  if (handle_ != nullptr) dlclose(handle_);
}

Status LoadedFile::Load(const char* path, const LibraryFile& file) {
  Status lacking;
  bool any = false;
  for (const LibraryFunction& f : file.info.functions) {
    for (const LibraryVariant& v : f.variants) {
      const Status cpu = CheckCpu(v.cpu_features);
      any |= cpu.ok();
      if (!cpu.ok()) lacking = cpu;
    }
  }
  if (!any) RETURN_IF_ERROR(lacking);
  handle_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) return absl::FailedPreconditionError(Cat("can't be loaded: ", dlerror()));
  // The loader takes a path that it has loaded before for the same file.
  const void* note = dlsym(handle_, kLibraryNoteSymbol);
  if (note == nullptr || memcmp(note, file.note.data(), file.note.size()) != 0) {
    return absl::FailedPreconditionError("has changed since it was loaded: close the earlier one first");
  }
  info_ = file.info;
  ready_.resize(info_.functions.size());
  return absl::OkStatus();
}

StatusOr<const LoadedFile::Ready*> LoadedFile::Find(const std::string& function) const {
  const std::lock_guard lock(mutex_);
  return FindHere(function, false);
}

StatusOr<const LoadedFile::Ready*> LoadedFile::FindHere(const std::string& function, bool is_part) const {
  std::string known;
  for (size_t i = 0; i < info_.functions.size(); ++i) {
    const LibraryFunction& f = info_.functions[i];
    if (f.is_part != is_part) continue;
    known += Cat(known.empty() ? "" : ", ", f.name);
    if (f.name != function) continue;
    Status lacking;
    std::string all;
    for (size_t v = 0; v < f.variants.size() && ready_[i] == nullptr; ++v) {
      StatusOr<std::unique_ptr<Ready>> ready = MakeReady(f, f.variants[v]);
      if (ready.ok()) {
        ready_[i] = *std::move(ready);
        break;
      }
      lacking = ready.status();
      all += Cat(all.empty() ? "" : "; ", "for ", f.variants[v].target, ": ", Message(lacking));
    }
    if (ready_[i] != nullptr) return ready_[i].get();
    return f.variants.size() == 1 ? Annotate(lacking, f.name)
                                  : absl::FailedPreconditionError(Cat(f.name, ": none of its variants runs: ", all));
  }
  return absl::NotFoundError(Cat("the library has no function '", function, "'; there are ", known));
}

StatusOr<std::unique_ptr<LoadedFile::Ready>> LoadedFile::MakeReady(const LibraryFunction& function,
                                                                   const LibraryVariant& variant) const {
  RETURN_IF_ERROR(CheckCpu(variant.cpu_features));
  auto r = std::make_unique<Ready>();
  r->function = &function;
  r->variant = &variant;
  ASSIGN_OR_RETURN(r->device, FindDevice(variant.device));
  if (variant.plan) {
    for (const PartsPlan::Part& part : variant.plan->parts) {
      ASSIGN_OR_RETURN(r->parts.emplace_back(), FindHere(part.name, true));
    }
    return r;
  }
  ASSIGN_OR_RETURN(r->call, FindFunction(handle_, variant.symbol));
  if (!variant.prepare.empty()) {
    ASSIGN_OR_RETURN(r->prepare, FindFunction(handle_, variant.prepare));
  }
  if (variant.weights) {
    ASSIGN_OR_RETURN(void* block, FindSymbol(handle_, Cat(kLibraryWeightsSymbol, variant.weights_block)));
    r->weights = static_cast<char*>(block);
  }
  if (!r->IsOnHost()) RETURN_IF_ERROR(r->device->api().status());
  if (variant.kernels.empty()) return r;
  ASSIGN_OR_RETURN(void* pointers, FindSymbol(handle_, Cat(kLibraryPointersSymbol, variant.pointers)));
  Status refused;
  for (const LibraryKernels& kernels : variant.kernels) {
    auto loaded = LoadKernels(handle_, kernels, *r->device, static_cast<void**>(pointers));
    if (loaded.ok()) {
      r->kernels = *std::move(loaded);
      return r;
    }
    if (refused.ok()) refused = loaded.status();  // the first form's says most
  }
  return refused;
}

}  // namespace cinn_like
