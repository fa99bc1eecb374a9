// Functions of exported libraries as tvm-ffi's (`tvm_ffi.load_module("net.so").net(x)`): "__tvm_ffi_<name>" of a file
// comes here. Values are tvm-ffi's own (runtime/call.h), but for its tensor objects; arguments may end with tensors for
// the results, or these are made by the caller's allocator. Its library is in the process already, as whoever calls.
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <utility>

#include "cinn_like/base/tensor.h"
#include "runtime/last_error.h"
#include "runtime/library/loaded_file.h"

namespace cinn_like {
namespace {

// tvm/ffi/c_api.h
constexpr int32_t kObjectTensor = 70;
struct Object {
  uint64_t references;
  int32_t type;
  uint32_t zero;
  void* deleter;
};
static_assert(sizeof(Object) == 24);
struct Name {
  const char* data;
  size_t size;
};

DLTensor* TensorOf(void* object) { return reinterpret_cast<DLTensor*>(static_cast<Object*>(object) + 1); }

template <class F>
F Find(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

void Release(void* object) {
  static const auto release = Find<int (*)(void*)>("TVMFFIObjectDecRef");
  if (object != nullptr) release(object);
}

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
  for (const LibraryFunction& f : ready.file->info.functions) {
    if (f.name == name) ready.function = &f;
  }
  if (ready.function == nullptr) return Internal("'", about.dli_fname, "' has no function '", name, "'");
  if (!ready.function->prepare.empty()) {
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

struct Results {
  std::vector<void*> objects;

  ~Results() {
    for (void* object : objects) Release(object);
  }
};

int32_t Allocate(void* context, int32_t index, DLTensor* spec) {
  static const auto allocate = Find<int (*)(DLTensor*, void**)>("TVMFFIEnvTensorAlloc");
  void*& object = static_cast<Results*>(context)->objects[static_cast<size_t>(index)];
  if (allocate == nullptr || allocate(spec, &object) != 0) return -1;
  spec->data = DataOf(*TensorOf(object));
  return 0;
}

// An array, of several.
Status Give(Results& results, CinnValue* to) {
  if (results.objects.size() == 1) {
    to->tag = kObjectTensor;
    to->p = std::exchange(results.objects[0], nullptr);
    return absl::OkStatus();
  }
  static const auto find = Find<int (*)(const Name*, void**)>("TVMFFIFunctionGetGlobal");
  static const auto call = Find<int (*)(void*, const CinnValue*, int32_t, CinnValue*)>("TVMFFIFunctionCall");
  const Name name = {"ffi.Array", 9};
  void* make = nullptr;
  std::vector<CinnValue> values(results.objects.size());
  for (size_t i = 0; i < values.size(); ++i) values[i].tag = kObjectTensor, values[i].p = results.objects[i];
  if (find(&name, &make) != 0) return Internal("tvm-ffi has no function 'ffi.Array'");
  const int code = call(make, values.data(), static_cast<int32_t>(values.size()), to);
  Release(make);
  return code == 0 ? absl::OkStatus() : Internal("tvm-ffi made no array of the results");
}

Status Call(void* entry, const CinnValue* args, int32_t num_args, CinnValue* result) {
  ASSIGN_OR_RETURN(const Ready ready, FindReady(entry));
  const LibraryFunction& f = *ready.function;
  const bool is_given = num_args == f.params + f.results;
  if (num_args != f.params && !is_given) {
    return InvalidArgument(f.name, ": expected ", f.params, " arguments, and none or ", f.results,
                           " tensors for results, those of ", f.signature, ", got ", num_args);
  }
  std::vector<CinnValue> values(static_cast<size_t>(f.params + f.results));
  for (int32_t i = 0; i < num_args; ++i) {
    values[i] = args[i];
    if (args[i].tag == kObjectTensor) values[i].tag = kCinnTensor, values[i].tensor = TensorOf(args[i].p);
  }
  Results results{std::vector<void*>(is_given ? 0 : static_cast<size_t>(f.results))};
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  env.context = &results;
  env.alloc = is_given ? nullptr : Allocate;
  const int32_t code = ready.call(ready.self, values.data(), static_cast<int32_t>(values.size()), &env);
  if (code != 0) return LastErrorStatus(code);
  return is_given ? absl::OkStatus() : Give(results, result);
}

}  // namespace
}  // namespace cinn_like

extern "C" int32_t cinn_tvm_ffi_call(void* entry, const CinnValue* args, int32_t num_args, CinnValue* result) {
  const absl::Status status = cinn_like::Call(entry, args, num_args, result);
  if (status.ok()) return 0;
  using SetError = void (*)(const char* kind, const char* message);
  static const auto set_error = cinn_like::Find<SetError>("TVMFFIErrorSetRaisedFromCStr");
  const char* kind = absl::IsOutOfRange(status) ? "IndexError" : "RuntimeError";
  if (set_error != nullptr) set_error(kind, std::string(cinn_like::Message(status)).c_str());
  return -1;
}
