// A library file that the system has loaded, after its checks.
#pragma once
#include <dlfcn.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/call.h"
#include "runtime/device_api.h"
#include "runtime/kernel_images.h"
#include "runtime/library.h"
#include "runtime/library_format.h"

namespace cinn_like {

// The device of that name: the runtime's own, or one that the program has; code of libraries finds it in the same way.
StatusOr<const RuntimeDevice*> FindDevice(const std::string& name);

// Its last user unloads it.
class LoadedFile {
 public:
  // A variant that runs here: its CPU and device are, and kernels are loaded there.
  struct Ready {
    const LibraryFunction* function = nullptr;
    const LibraryVariant* variant = nullptr;
    const RuntimeDevice* device = nullptr;
    CinnFunctionPtr call = nullptr, prepare = nullptr;
    char* weights = nullptr;  // the block
    std::unique_ptr<LoadedKernels> kernels;
    std::vector<const Ready*> parts;  // of variant->plan

    bool IsOnHost() const { return device->type == kDLCPU; }
    // Its calls need a `self` that knows what is added to them.
    bool HasSelf() const { return variant->weights.has_value() || variant->plan.has_value() || !IsOnHost(); }
  };

  LoadedFile() = default;
  LoadedFile(const LoadedFile&) = delete;
  LoadedFile& operator=(const LoadedFile&) = delete;
  ~LoadedFile();

  Status Load(const char* path, const LibraryFile& file);
  const LibraryInfo& info() const { return info_; }
  // The first variant of the function that runs here; errors say what each lacks. Found once.
  StatusOr<const Ready*> Find(const std::string& function) const;

 private:
  // With the lock.
  StatusOr<const Ready*> FindHere(const std::string& name, bool is_part) const;
  StatusOr<std::unique_ptr<Ready>> MakeReady(const LibraryFunction& function, const LibraryVariant& variant) const;

  void* handle_ = nullptr;
  LibraryInfo info_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const Ready>> ready_;  // of info_.functions, or null
};

}  // namespace cinn_like

// A function whose `self` knows what is added to its calls (LoadedFile::Ready::HasSelf). A function that devices share
// is this under its name.
extern "C" int32_t cinn_call_self(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env);

struct CinnLibrary {
  std::shared_ptr<const cinn_like::LoadedFile> file;
  std::string description, json;
};
