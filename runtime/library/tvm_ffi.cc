// Functions of exported libraries as tvm-ffi's (`tvm_ffi.load_module("net.so").net(x)`): "__tvm_ffi_<name>" of a file
// comes here.
#include <dlfcn.h>

#include <map>
#include <mutex>

#include "runtime/last_error.h"
#include "runtime/library/loaded_file.h"
#include "runtime/packed_call.h"

namespace cinn_like {
namespace {

// A function that was called, ready, for the rest of the process.
struct Ready {
  std::shared_ptr<const LoadedFile> file;
  CinnFunctionPtr call = nullptr;
  void* self = nullptr;
  const LibraryFunction* function = nullptr;
};

// The file passes its checks first, as with CinnLibraryOpen, which finds it loaded.
StatusOr<Ready> Prepare(void* entry) {
  Dl_info about;
  if (dladdr(entry, &about) == 0 || about.dli_sname == nullptr) return Internal("no library is loaded there");
  CinnLibrary* opened = nullptr;
  if (CinnLibraryOpen(about.dli_fname, &opened) != 0) return absl::FailedPreconditionError(LastError());
  const std::unique_ptr<CinnLibrary, void (*)(CinnLibrary*)> library(opened, &CinnLibraryClose);
  const std::string name = about.dli_sname;
  Ready ready;
  ready.file = library->file;
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  ASSIGN_OR_RETURN(const LoadedFile::Ready* found, ready.file->Find(name));
  ready.function = found->function;
  if (!ready.function->statics.empty()) {
    return absl::FailedPreconditionError(Cat(name, ": its weights are not in the file: export it with them"));
  }
  if (CinnLibraryPrepare(library.get(), name.c_str(), nullptr, 0, &env, &ready.self) != 0) {
    return absl::FailedPreconditionError(LastError());
  }
  ready.call = CinnLibraryLookup(library.get(), name.c_str());
  return ready;
}

StatusOr<Ready> FindReady(void* entry) {
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<void*, Ready>;
  const std::lock_guard lock(*mutex);
  const auto found = known->find(entry);
  if (found != known->end()) return found->second;
  ASSIGN_OR_RETURN(const Ready ready, Prepare(entry));
  known->emplace(entry, ready);
  return ready;
}

Status Call(void* entry, std::span<const CinnValue> args, CinnValue* result) {
  ASSIGN_OR_RETURN(const Ready ready, FindReady(entry));
  const LibraryFunction& f = *ready.function;
  return CallPacked(
      {ready.call, ready.self, f.name, f.signature, static_cast<size_t>(f.params), static_cast<size_t>(f.results)},
      args, result);
}

}  // namespace
}  // namespace cinn_like

extern "C" int32_t cinn_tvm_ffi_call(void* entry, const CinnValue* args, int32_t num_args, CinnValue* result) {
  return cinn_like::ReportPacked(cinn_like::Call(entry, {args, static_cast<size_t>(num_args)}, result));
}
