#include "runtime/prepared_state.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/arg_spec.h"
#include "runtime/bind_args.h"
#include "runtime/device_api.h"
#include "runtime/last_error.h"
#include "runtime/workspace.h"

namespace cinn_like {
namespace {

CinnCallEnv CpuEnv() {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  return env;
}

// As generated code would: scale_prepare(w: f32[4]) -> slot 0 = 2 * w, by way of a workspace.
int32_t ScalePrepare(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
  static const std::string* spec = [] {
    ArgSpec s;
    s.function = "scale_prepare";
    s.args = {{"w", ArgRole::kInput, 0, DType::kF32, {ConstDim(4)}, {}, 4},
              {"w.packed", ArgRole::kResult, 0, DType::kF32, {ConstDim(4)}, {}, 64}};
    return new std::string(*EncodeArgSpec(s));
  }();
  void* pointers[3];
  const int32_t code =
      cinn_bind_args(&cinn_device_x86_64, spec->data(), spec->size(), self, args, num_args, env, pointers, nullptr);
  if (code != 0) return code;
  auto* scratch = static_cast<float*>(cinn_alloc_workspace(&cinn_device_x86_64, env, 16));
  if (scratch == nullptr) return -1;
  for (int i = 0; i < 4; ++i) scratch[i] = 2 * static_cast<float*>(pointers[0])[i];
  for (int i = 0; i < 4; ++i) static_cast<float*>(pointers[1])[i] = scratch[i];
  cinn_free_workspace(&cinn_device_x86_64, env, scratch);
  return 0;
}

struct Weights {
  float data[4] = {1, 2, 3, 4};
  int64_t shape[1] = {4};
  DLTensor t{data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
  CinnValue Value() { return {kCinnTensor, 0, {.tensor = &t}}; }
};

TEST(PreparedState, PreparesBindsAndPreparesAgain) {
  PreparedState state(1, cinn_device_x86_64);
  Weights w;
  const CinnCallEnv env = CpuEnv();
  CinnValue value = w.Value();
  EXPECT_FALSE(state.prepared());
  ASSERT_TRUE(state.Prepare(ScalePrepare, &value, 1, env).ok()) << LastError();
  EXPECT_TRUE(state.prepared());
  EXPECT_EQ(state.TotalBytes(), 16);

  ArgSpec spec;
  spec.function = "scale";
  spec.args = {{"w", ArgRole::kPacked, 0, DType::kF32, {ConstDim(4)}, {}, 4},
               {"w.packed", ArgRole::kPrepared, 0, DType::kF32, {ConstDim(4)}, {}, 1}};
  const std::string bytes = *EncodeArgSpec(spec);
  void* pointers[3];
  const CinnValue none{};
  ASSERT_EQ(cinn_bind_args(&cinn_device_x86_64, bytes.data(), bytes.size(), &state, &none, 1, &env, pointers, nullptr),
            0)
      << LastError();
  EXPECT_EQ(pointers[0], nullptr);
  EXPECT_EQ(pointers[1], state.data(0));
  EXPECT_EQ(static_cast<float*>(pointers[1])[3], 8);

  w.data[3] = 10;
  ASSERT_TRUE(state.Prepare(ScalePrepare, &value, 1, env).ok());
  EXPECT_NE(state.data(0), pointers[1]);  // a kernel in flight may read the old memory
  EXPECT_EQ(static_cast<float*>(state.data(0))[3], 20);
}

// Two streams of a GPU: what one prepares, and prepares again while copies of the old are under way, the other sees
// whole.
TEST(PreparedState, OtherStreamsWait) {
  const StatusOr<DeviceApi*> found = GetCudaDevice();
  if (!found.ok() || (*found)->Count().value_or(0) == 0) GTEST_SKIP() << "no CUDA device";
  DeviceApi& api = **found;
  constexpr int64_t kBytes = int64_t{64} << 20;
  static void* source = nullptr;
  source = *api.Alloc(0, kBytes, nullptr);
  void *out = *api.Alloc(0, kBytes, nullptr), *first = *api.CreateStream(0), *second = *api.CreateStream(0);
  const auto prepare = [](void*, const CinnValue*, int32_t, const CinnCallEnv* env) -> int32_t {
    int64_t shape[1] = {kBytes};
    DLTensor t{nullptr, env->device, 1, {kDLUInt, 8, 1}, shape, nullptr, 0};
    if (const int32_t code = env->alloc(env->context, 0, &t); code != 0) return code;
    DeviceApi* api = *GetCudaDevice();
    for (int i = 0; i < 200; ++i) {  // work that takes a while
      if (!api->Copy(0, t.data, source, kBytes, env->stream).ok()) return -1;
    }
    return 0;
  };
  CinnCallEnv env = CpuEnv();
  env.device = {kDLCUDA, 0};
  env.stream = first;
  PreparedState state(1, cinn_device_cuda);
  for (char round = 1; round < 4; ++round) {
    const std::vector<char> value(kBytes, round);
    ASSERT_TRUE(api.Copy(0, source, value.data(), kBytes, first).ok());
    ASSERT_TRUE(api.Synchronize(0, first).ok());
    ASSERT_TRUE(state.Prepare(prepare, nullptr, 0, env).ok()) << LastError();
    ASSERT_TRUE(state.Await(second).ok());
    std::vector<char> got(kBytes);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(api.Copy(0, out, state.data(0), kBytes, second).ok());
    ASSERT_TRUE(api.Copy(0, got.data(), out, kBytes, second).ok());
    ASSERT_TRUE(api.Synchronize(0, second).ok());
    EXPECT_EQ(got, value);
  }
  api.Free(0, source);
  api.Free(0, out);
  api.DestroyStream(0, first);
  api.DestroyStream(0, second);
}

TEST(PreparedState, AFailureLeavesNothingPrepared) {
  PreparedState state(1, cinn_device_x86_64);
  Weights w;
  CinnValue value = w.Value();
  ASSERT_TRUE(state.Prepare(ScalePrepare, &value, 1, CpuEnv()).ok());
  w.shape[0] = 3;
  const Status s = state.Prepare(ScalePrepare, &value, 1, CpuEnv());
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(s),
            "scale_prepare: argument 'w': expected f32[4], got f32[3] on cpu: dimension 0 is 3, expected 4");
  EXPECT_FALSE(state.prepared());
  EXPECT_EQ(state.TotalBytes(), 0);
}

TEST(PreparedState, ASlotTooManyIsInternal) {
  PreparedState state(0, cinn_device_x86_64);
  const auto prepare = [](void*, const CinnValue*, int32_t, const CinnCallEnv* env) {
    int64_t shape[1] = {4};
    DLTensor t{nullptr, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
    return env->alloc(env->context, 0, &t);
  };
  const Status s = state.Prepare(prepare, nullptr, 0, CpuEnv());
  EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
  EXPECT_NE(Message(s).find("slot 0 of 0"), std::string::npos);
}

}  // namespace
}  // namespace cinn_like
