#include "cinn_like/host_tensors.h"

#include <deque>
#include <mutex>

#include "cinn_like/base/tensor.h"
#include "runtime/host_tensors.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

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
    state.kept.clear();
    ASSIGN_OR_RETURN(const DevicePlace place, FindPlace(env));
    if (args.size() != statics_.size()) {
      return InvalidArgument(Name(), ": expected ", statics_.size(), " static arguments, got ", args.size());
    }
    std::vector<CinnValue> values(args.begin(), args.end());
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].tag != kCinnTensor || args[i].tensor == nullptr) {
        return InvalidArgument(Name(), ": static argument ", i, ": expected a tensor");
      }
      KeptTensor& kept = state.kept.emplace_back();
      RETURN_IF_ERROR(Annotate(kept.Take(place, *args[i].tensor), Cat(Name(), ": static argument ", i)));
      values[i].tensor = &kept.tensor();
    }
    CinnCallEnv own{};
    own.size = sizeof(own);
    own.device = device_;
    const Status status = function_->PrepareSelf(state.inner, values, own);
    if (!status.ok()) state.kept.clear();
    return status;
  }

  const Device& device() const override { return function_->device(); }
  const CallSignature& signature() const override { return function_->signature(); }
  const CompileReport& report() const override { return function_->report(); }
  StatusOr<std::string> Source(std::string_view kind) const override { return function_->Source(kind); }
  Status ExportObject(const std::string& path) const override { return function_->ExportObject(path); }
  StatusOr<LibraryPart> MakePart(std::span<const CinnValue> weights) const override {
    return function_->MakePart(weights);
  }

 private:
  // What `self` of the entry points to.
  struct State {
    explicit State(OnHostTensors& of) : of(of) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    OnHostTensors& of;
    void* inner = nullptr;
    // One per static parameter, or none before Prepare. They go when no call runs, and none returns before the device
    // is done.
    std::deque<KeptTensor> kept;
  };

  std::string Name() const { return Cat("@", signature().name); }

  StatusOr<DevicePlace> FindPlace(const CinnCallEnv& env) const {
    if (env.device.device_type != kDLCPU) {
      return InvalidArgument(Name(), ": expected tensors of the host, called on ", Describe(env.device));
    }
    ASSIGN_OR_RETURN(DeviceApi * api, function_->device().runtime->api());
    return DevicePlace{api, device_};
  }

  Status Run(State& state, const CinnValue* args, size_t num_args, const CinnCallEnv& env) {
    ASSIGN_OR_RETURN(const DevicePlace place, FindPlace(env));
    HostTensorsCall call(place, env);
    size_t next_static = 0;
    for (size_t i = 0; i < num_args; ++i) {
      const bool is_static = next_static < statics_.size() && statics_[next_static] == i;
      DLTensor* kept = is_static && !state.kept.empty() ? &state.kept[next_static].tensor() : nullptr;
      next_static += is_static;
      RETURN_IF_ERROR(Annotate(call.Add(args[i], i >= num_params_, kept), Cat(Name(), ": argument ", i)));
    }
    return call.Run(function_->entry(), state.inner);
  }

  static int32_t Enter(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
    auto& state = *static_cast<State*>(self);
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
