#include "runtime/prepared_state.h"

#include <gtest/gtest.h>

#include "runtime/arg_spec.h"
#include "runtime/bind_args.h"
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
  const int32_t code = cinn_bind_args(spec->data(), spec->size(), self, args, num_args, env, pointers, nullptr);
  if (code != 0) return code;
  auto* scratch = static_cast<float*>(cinn_alloc_workspace(env, 16));
  if (scratch == nullptr) return -1;
  for (int i = 0; i < 4; ++i) scratch[i] = 2 * static_cast<float*>(pointers[0])[i];
  for (int i = 0; i < 4; ++i) static_cast<float*>(pointers[1])[i] = scratch[i];
  cinn_free_workspace(env, scratch);
  return 0;
}

struct Weights {
  float data[4] = {1, 2, 3, 4};
  int64_t shape[1] = {4};
  DLTensor t{data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
  CinnValue Value() { return {kCinnTensor, 0, {.tensor = &t}}; }
};

TEST(PreparedState, PreparesBindsAndPreparesAgain) {
  PreparedState state(1);
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
  ASSERT_EQ(cinn_bind_args(bytes.data(), bytes.size(), &state, &none, 1, &env, pointers, nullptr), 0) << LastError();
  EXPECT_EQ(pointers[0], nullptr);
  EXPECT_EQ(pointers[1], state.data(0));
  EXPECT_EQ(static_cast<float*>(pointers[1])[3], 8);

  w.data[3] = 10;
  ASSERT_TRUE(state.Prepare(ScalePrepare, &value, 1, env).ok());
  EXPECT_EQ(state.data(0), pointers[1]);  // the same size stays where it is
  EXPECT_EQ(static_cast<float*>(pointers[1])[3], 20);
}

TEST(PreparedState, AFailureLeavesNothingPrepared) {
  PreparedState state(1);
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
  PreparedState state(0);
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
