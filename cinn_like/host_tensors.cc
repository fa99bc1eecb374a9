#include "cinn_like/host_tensors.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "cinn_like/base/tensor.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

bool IsOnHost(const DLTensor& t) { return t.device.device_type == kDLCPU || t.device.device_type == kDLCUDAHost; }

// 0: there is nothing to copy, or a tensor so wrong that the function's own check of arguments refuses it.
int64_t BytesToCopy(const DLTensor& t) {
  if (t.data == nullptr || t.ndim < 0 || (t.ndim > 0 && t.shape == nullptr)) return 0;
  return std::max<int64_t>(SpanBytes(t), 0);
}

// The device, as calls on its default stream see it.
struct Place {
  DeviceApi* api;
  DLDevice device;

  Status Copy(void* to, const void* from, int64_t bytes) const {
    return api->Copy(device.device_id, to, from, bytes, nullptr);
  }
};

// A static argument, as it was when it was prepared.
struct Kept {
  DLTensor tensor{};
  std::vector<int64_t> shape, strides;
};

// One call on its way to the device.
class Call {
 public:
  Call(const Place& place, const CinnCallEnv& caller) : place_(place), caller_(caller) {}
  ~Call() {
    if (!is_done_) (void)place_.api->Synchronize(place_.device.device_id, nullptr);  // it may still read arguments
    for (void* block : blocks_) place_.api->FreeWorkspace(place_.device.device_id, block, nullptr);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // `kept`: on the device already, or null. A result comes back after Run.
  Status Add(const CinnValue& value, bool is_result, const Kept* kept) {
    CinnValue& v = values_.emplace_back(value);
    if (value.tag != kCinnTensor || value.tensor == nullptr) return absl::OkStatus();
    if (kept != nullptr) {
      v.tensor = &tensors_.emplace_back(kept->tensor);
      return absl::OkStatus();
    }
    const DLTensor& host = *value.tensor;
    if (!IsOnHost(host)) {
      return InvalidArgument("expected a tensor of the host, got ", Describe(host));
    }
    DLTensor& t = tensors_.emplace_back(host);
    v.tensor = &t;
    t.device = place_.device;
    t.byte_offset = 0;
    t.data = nullptr;
    const int64_t bytes = BytesToCopy(host);
    if (bytes == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(t.data, Allocate(bytes));
    if (is_result) results_.push_back({DataOf(host), t.data, bytes});
    // Between the elements of a result there may be others.
    if (is_result && bytes == NumBytes(host)) return absl::OkStatus();
    return place_.Copy(t.data, DataOf(host), bytes);
  }

  Status Run(CinnFunctionPtr entry, void* self) {
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = place_.device;
    env.context = this;
    if (caller_.alloc != nullptr) env.alloc = &AllocateResult;
    if (caller_.release != nullptr) {
      env.release = [](void* context, int32_t index) {
        const CinnCallEnv& caller = static_cast<Call*>(context)->caller_;
        caller.release(caller.context, index);
      };
    }
    const int32_t code = entry(self, values_.data(), static_cast<int32_t>(values_.size()), &env);
    RETURN_IF_ERROR(failure_);
    if (code != 0) return LastErrorStatus(code);
    for (const Result& r : results_) RETURN_IF_ERROR(place_.Copy(r.host, r.device, r.bytes));
    RETURN_IF_ERROR(place_.api->Synchronize(place_.device.device_id, nullptr));
    is_done_ = true;
    return absl::OkStatus();
  }

 private:
  struct Result {
    void *host, *device;
    int64_t bytes;
  };

  StatusOr<void*> Allocate(int64_t bytes) {
    ASSIGN_OR_RETURN(void* block, place_.api->AllocWorkspace(place_.device.device_id, bytes, nullptr));
    blocks_.push_back(block);
    return block;
  }

  // On the host by the caller, and on the device.
  static int32_t AllocateResult(void* context, int32_t index, DLTensor* spec) {
    auto& call = *static_cast<Call*>(context);
    DLTensor host = *spec;
    host.device = {kDLCPU, 0};
    if (const int32_t code = call.caller_.alloc(call.caller_.context, index, &host); code != 0) return code;
    const int64_t bytes = NumBytes(*spec);
    const StatusOr<void*> block = call.Allocate(bytes);
    if (!block.ok()) return SetLastError(call.failure_ = block.status());
    spec->data = *block;
    if (bytes > 0) call.results_.push_back({DataOf(host), *block, bytes});
    return 0;
  }

  const Place place_;
  const CinnCallEnv& caller_;
  std::vector<CinnValue> values_;
  std::deque<DLTensor> tensors_;  // that values_ point to
  std::vector<void*> blocks_;
  std::vector<Result> results_;
  Status failure_;
  bool is_done_ = false;
};

class OnHostTensors : public CompiledFunction {
 public:
  OnHostTensors(std::unique_ptr<CompiledFunction> function, int device_id)
      : function_(std::move(function)),
        device_{function_->device().runtime->type, device_id},
        own_(std::make_unique<State>(*this)) {
    const std::vector<CallSignature::Value>& params = function_->signature().params;
    num_params_ = params.size();
    for (size_t i = 0; i < num_params_; ++i) {
      if (params[i].is_static) statics_.push_back(i);
    }
    own_->inner = function_->self();
  }

  Status Finish() override {
    RETURN_IF_ERROR(function_->Finish());
    own_->inner = function_->self();
    return absl::OkStatus();
  }
  CinnFunctionPtr entry() const override { return function_->entry() == nullptr ? nullptr : &Enter; }
  void* self() const override { return own_.get(); }
  Status Prepare(std::span<const CinnValue> args, const CinnCallEnv& env) override {
    return PrepareSelf(own_.get(), args, env);
  }
  void* AddSelf() override {
    const std::lock_guard lock(added_mutex_);
    State& state = added_.emplace_back(*this);
    state.inner = function_->AddSelf();
    return &state;
  }

  Status PrepareSelf(void* self, std::span<const CinnValue> args, const CinnCallEnv& env) override {
    auto& state = *static_cast<State*>(self);
    state.Clear();
    ASSIGN_OR_RETURN(const Place place, FindPlace(env));
    if (args.size() != statics_.size()) {
      return InvalidArgument(Name(), ": expected ", statics_.size(), " static arguments, got ", args.size());
    }
    std::vector<CinnValue> values(args.begin(), args.end());
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].tag != kCinnTensor || args[i].tensor == nullptr) {
        return InvalidArgument(Name(), ": static argument ", i, ": expected a tensor");
      }
      Kept& kept = state.kept.emplace_back();
      RETURN_IF_ERROR(Annotate(Keep(place, *args[i].tensor, &kept), Cat(Name(), ": static argument ", i)));
      values[i].tensor = &kept.tensor;
    }
    CinnCallEnv own{};
    own.size = sizeof(own);
    own.device = device_;
    const Status status = function_->PrepareSelf(state.inner, values, own);
    if (!status.ok()) state.Clear();
    return status;
  }

  const Device& device() const override { return function_->device(); }
  const CallSignature& signature() const override { return function_->signature(); }
  const CompileReport& report() const override { return function_->report(); }
  StatusOr<std::string> Source(std::string_view kind) const override { return function_->Source(kind); }
  Status ExportObject(const std::string& path) const override { return function_->ExportObject(path); }
  Status ExportLibrary(const std::string& path, std::span<const CinnValue> weights) const override {
    return function_->ExportLibrary(path, weights);
  }

 private:
  // What `self` of the entry points to.
  struct State {
    explicit State(OnHostTensors& of) : of(of) {}
    ~State() { Clear(); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    // No call runs, and none returns before the device is done.
    void Clear() {
      if (const auto api = of.function_->device().runtime->api(); api.ok()) {
        for (const Kept& k : kept) (*api)->Free(of.device_.device_id, k.tensor.data);
      }
      kept.clear();
    }

    OnHostTensors& of;
    void* inner = nullptr;
    std::deque<Kept> kept;  // one per static parameter, or none before Prepare
  };

  std::string Name() const { return Cat("@", signature().name); }

  StatusOr<Place> FindPlace(const CinnCallEnv& env) const {
    if (env.device.device_type != kDLCPU) {
      return InvalidArgument(Name(), ": expected tensors of the host, called on ", Describe(env.device));
    }
    ASSIGN_OR_RETURN(DeviceApi * api, function_->device().runtime->api());
    return Place{api, device_};
  }

  static Status Keep(const Place& place, const DLTensor& from, Kept* kept) {
    if (!IsOnHost(from)) return InvalidArgument("expected a tensor of the host, got ", Describe(from));
    const int64_t bytes = BytesToCopy(from);
    kept->tensor = from;
    kept->tensor.device = place.device;
    kept->tensor.data = nullptr;
    kept->tensor.byte_offset = 0;
    if (from.shape != nullptr) kept->shape.assign(from.shape, from.shape + from.ndim);
    if (from.strides != nullptr) kept->strides.assign(from.strides, from.strides + from.ndim);
    kept->tensor.shape = from.shape != nullptr ? kept->shape.data() : nullptr;
    kept->tensor.strides = from.strides != nullptr ? kept->strides.data() : nullptr;
    if (bytes == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(kept->tensor.data, place.api->Alloc(place.device.device_id, bytes, nullptr));
    return place.Copy(kept->tensor.data, DataOf(from), bytes);
  }

  Status Run(const State& state, const CinnValue* args, size_t num_args, const CinnCallEnv& env) {
    ASSIGN_OR_RETURN(const Place place, FindPlace(env));
    Call call(place, env);
    size_t next_static = 0;
    for (size_t i = 0; i < num_args; ++i) {
      const bool is_static = next_static < statics_.size() && statics_[next_static] == i;
      const Kept* kept = is_static && !state.kept.empty() ? &state.kept[next_static] : nullptr;
      next_static += is_static;
      RETURN_IF_ERROR(Annotate(call.Add(args[i], i >= num_params_, kept), Cat(Name(), ": argument ", i)));
    }
    return call.Run(function_->entry(), state.inner);
  }

  static int32_t Enter(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
    const auto& state = *static_cast<const State*>(self);
    OnHostTensors& of = state.of;
    // Of what is wrong here, it says so.
    if (env == nullptr || env->size < sizeof(CinnCallEnv) || args == nullptr || num_args < 0) {
      return of.function_->entry()(state.inner, args, num_args, env);
    }
    return SetLastError(of.Run(state, args, static_cast<size_t>(num_args), *env));
  }

  const std::unique_ptr<CompiledFunction> function_;
  const DLDevice device_;
  size_t num_params_ = 0;
  std::vector<size_t> statics_;  // their positions
  const std::unique_ptr<State> own_;
  std::mutex added_mutex_;
  std::deque<State> added_;
};

}  // namespace

std::unique_ptr<CompiledFunction> TakeHostTensors(std::unique_ptr<CompiledFunction> function, int device_id) {
  if (function->device().runtime->type == kDLCPU) return function;
  return std::make_unique<OnHostTensors>(std::move(function), device_id);
}

}  // namespace cinn_like
