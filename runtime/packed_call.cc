#include "runtime/packed_call.h"

#include <dlfcn.h>

#include <atomic>
#include <utility>
#include <vector>

#include "cinn_like/base/tensor.h"
#include "runtime/last_error.h"

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

// One of tvm-ffi's functions, once its library is in the process.
template <class F>
class Found {
 public:
  explicit constexpr Found(const char* name) : name_(name) {}
  F get() {
    void* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr) found_.store(found = dlsym(RTLD_DEFAULT, name_), std::memory_order_relaxed);
    return reinterpret_cast<F>(found);
  }

 private:
  const char* const name_;
  std::atomic<void*> found_{nullptr};
};
constinit Found<int (*)(void*)> release_object("TVMFFIObjectDecRef");
constinit Found<int (*)(DLTensor*, void**)> allocate_tensor("TVMFFIEnvTensorAlloc");
constinit Found<void* (*)(int32_t, int32_t)> stream_of("TVMFFIEnvGetStream");
constinit Found<int (*)(const Name*, void**)> find_function("TVMFFIFunctionGetGlobal");
constinit Found<int (*)(void*, const CinnValue*, int32_t, CinnValue*)> call_function("TVMFFIFunctionCall");
constinit Found<void (*)(const char* kind, const char* message)> set_error("TVMFFIErrorSetRaisedFromCStr");

void Release(void* object) {
  if (object != nullptr) release_object.get()(object);
}

struct Results {
  std::vector<void*> objects;

  ~Results() {
    for (void* object : objects) Release(object);
  }
};

int32_t Allocate(void* context, int32_t index, DLTensor* spec) {
  const auto allocate = allocate_tensor.get();
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
  const Name name = {"ffi.Array", 9};
  void* make = nullptr;
  std::vector<CinnValue> values(results.objects.size());
  for (size_t i = 0; i < values.size(); ++i) values[i].tag = kObjectTensor, values[i].p = results.objects[i];
  if (find_function.get()(&name, &make) != 0) return Internal("tvm-ffi has no function 'ffi.Array'");
  const int code = call_function.get()(make, values.data(), static_cast<int32_t>(values.size()), to);
  Release(make);
  return code == 0 ? absl::OkStatus() : Internal("tvm-ffi made no array of the results");
}

}  // namespace

Status CallPacked(const PackedTarget& f, std::span<const CinnValue> args, CinnValue* result) {
  const bool is_given = args.size() == f.params + f.results;
  if (args.size() != f.params && !is_given) {
    return InvalidArgument(f.name, ": expected ", f.params, " arguments, and none or ", f.results,
                           " tensors for results, those of ", f.signature, ", got ", args.size());
  }
  std::vector<CinnValue> values(f.params + f.results);
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  for (size_t i = 0; i < args.size(); ++i) {
    values[i] = args[i];
    if (args[i].tag == kObjectTensor) values[i].tag = kCinnTensor, values[i].tensor = TensorOf(args[i].p);
    const bool is_tensor = values[i].tag == kCinnTensor && values[i].tensor != nullptr;
    if (is_tensor && env.device.device_type == kDLCPU) env.device = values[i].tensor->device;
  }
  if (env.device.device_type != kDLCPU) {
    if (const auto stream = stream_of.get(); stream != nullptr)
      env.stream = stream(env.device.device_type, env.device.device_id);
  }
  Results results{std::vector<void*>(is_given ? 0 : f.results)};
  env.context = &results;
  env.alloc = is_given ? nullptr : Allocate;
  const int32_t code = f.entry(f.self, values.data(), static_cast<int32_t>(values.size()), &env);
  if (code != 0) return LastErrorStatus(code);
  return is_given ? absl::OkStatus() : Give(results, result);
}

int32_t ReportPacked(const Status& status) {
  if (status.ok()) return 0;
  const char* kind = absl::IsOutOfRange(status) ? "IndexError" : "RuntimeError";
  if (const auto set = set_error.get(); set != nullptr) set(kind, std::string(Message(status)).c_str());
  SetLastError(status);
  return -1;
}

}  // namespace cinn_like
