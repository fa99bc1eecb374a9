#include "runtime/cuda_module.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/device_api.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

// scale(float* x, int n): x[i] *= 3 for i < n. fill(float* x): x[i] = dynamic shared memory written and read back.
constexpr char kPtx[] = R"(
.version 7.8
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 x, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<3>; .reg .f32 %f<2>;
  ld.param.u64 %d0, [x];
  ld.param.u32 %r0, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  setp.ge.s32 %p, %r4, %r0;
  @%p bra DONE;
  cvta.to.global.u64 %d0, %d0;
  mul.wide.s32 %d1, %r4, 4;
  add.s64 %d2, %d0, %d1;
  ld.global.f32 %f0, [%d2];
  mul.f32 %f1, %f0, 0f40400000;
  st.global.f32 [%d2], %f1;
DONE:
  ret;
}
.extern .shared .align 16 .b8 room[];
.visible .entry fill(.param .u64 x, .param .u32 offset) {
  .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .f32 %f<2>;
  ld.param.u64 %d0, [x];
  ld.param.u32 %r0, [offset];
  cvta.to.global.u64 %d0, %d0;
  mov.u32 %r1, room;
  add.s32 %r2, %r1, %r0;
  mov.f32 %f0, 0f40E00000;
  st.shared.f32 [%r2], %f0;
  bar.sync 0;
  ld.shared.f32 %f1, [%r2];
  st.global.f32 [%d0], %f1;
  ret;
}
)";

class CudaModuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const StatusOr<DeviceApi*> found = GetCudaDevice();
    if (!found.ok()) GTEST_SKIP() << found.status();
    api = *found;
  }
  static CinnCallEnv Env(int device, void* stream = nullptr) {
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = {kDLCUDA, device};
    env.stream = stream;
    return env;
  }
  DeviceApi* api = nullptr;
};

TEST_F(CudaModuleTest, LaunchesOnEveryDeviceFromEveryThread) {
  const auto module = CudaModule::Load(kPtx);
  ASSERT_TRUE(module.ok()) << module.status();
  void* scale = *(*module)->Kernel("scale");
  std::vector<std::thread> threads;
  for (int t = 0; t < 2 * *api->Count(); ++t) {
    threads.emplace_back([this, scale, t] {
      const int device = t % *api->Count();
      std::vector<float> data(1000, 1.0f + t);
      const int64_t bytes = data.size() * sizeof(float);
      void* stream = *api->CreateStream(device);
      const CinnCallEnv env = Env(device, stream);
      void* memory = *api->Alloc(device, bytes, nullptr);
      EXPECT_TRUE(api->Copy(device, memory, data.data(), bytes, stream).ok());
      int n = 999;
      void* params[] = {&memory, &n};
      EXPECT_EQ(cinn_launch(&cinn_device_cuda, scale, 4, 1, 1, 256, 1, 1, 0, params, &env), 0) << LastError();
      EXPECT_EQ(cinn_launch(&cinn_device_cuda, scale, 0, 1, 1, 256, 1, 1, 0, params, &env), 0) << LastError();
      EXPECT_TRUE(api->Copy(device, data.data(), memory, bytes, stream).ok());
      EXPECT_TRUE(api->Synchronize(device, stream).ok());
      EXPECT_EQ(data[998], 3 * (1.0f + t));
      EXPECT_EQ(data[999], 1.0f + t);
      api->Free(device, memory);
      api->DestroyStream(device, stream);
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_F(CudaModuleTest, LargeSharedMemory) {
  const auto module = CudaModule::Load(kPtx);
  ASSERT_TRUE(module.ok()) << module.status();
  void* fill = *(*module)->Kernel("fill");
  const int64_t most = api->Detect(0)->shared_bytes;
  ASSERT_GT(most, 48 * 1024);
  void* memory = *api->Alloc(0, 4, nullptr);
  const CinnCallEnv env = Env(0);
  for (const int64_t bytes : {int64_t{1024}, most, int64_t{50 * 1024}}) {
    int offset = static_cast<int>(bytes) - 4;
    void* params[] = {&memory, &offset};
    EXPECT_EQ(cinn_launch(&cinn_device_cuda, fill, 1, 1, 1, 1, 1, 1, bytes, params, &env), 0) << LastError();
    float value = 0;
    EXPECT_TRUE(api->Copy(0, &value, memory, 4, nullptr).ok());
    EXPECT_TRUE(api->Synchronize(0, nullptr).ok());
    EXPECT_EQ(value, 7);
  }
  int offset = 0;
  void* params[] = {&memory, &offset};
  EXPECT_LT(cinn_launch(&cinn_device_cuda, fill, 1, 1, 1, 1, 1, 1, most + 1024, params, &env), 0);
  EXPECT_TRUE(std::string(LastError()).starts_with(Cat("kernel 'fill': allowing ", most + 1024, " bytes")))
      << LastError();
  api->Free(0, memory);
}

TEST_F(CudaModuleTest, ErrorsNameTheKernel) {
  const auto module = CudaModule::Load(kPtx);
  ASSERT_TRUE(module.ok()) << module.status();
  const Status missing = (*module)->Kernel("nothing").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Message(missing).starts_with("finding the kernel 'nothing' failed: CUDA_ERROR_NOT_FOUND")) << missing;
  void* scale = *(*module)->Kernel("scale");
  void* memory = nullptr;
  int n = 0;
  void* params[] = {&memory, &n};
  const CinnCallEnv env = Env(0);
  EXPECT_LT(cinn_launch(&cinn_device_cuda, scale, 1, 70000, 1, 32, 1, 1, 0, params, &env), 0);
  EXPECT_STREQ(LastError(), "kernel 'scale': grid dimension 1 is 70000, at most 65535 is possible");
  EXPECT_LT(cinn_launch(&cinn_device_cuda, scale, 1, 1, 1, 32, 0, 1, 0, params, &env), 0);
  EXPECT_STREQ(LastError(), "kernel 'scale': block dimension 1 is 0, expected 1..1024");
  EXPECT_LT(cinn_launch(&cinn_device_cuda, scale, 1, 1, 1, 1024, 2, 1, 0, params, &env), 0);
  EXPECT_TRUE(std::string(LastError())
                  .starts_with("kernel 'scale': launch on cuda:0 with grid 1x1x1, block 1024x2x1, 0 "
                               "bytes of shared memory failed: CUDA_ERROR_INVALID_VALUE"))
      << LastError();
  const CinnCallEnv far = Env(*api->Count());
  EXPECT_LT(cinn_launch(&cinn_device_cuda, scale, 1, 1, 1, 32, 1, 1, 0, params, &far), 0);
  EXPECT_TRUE(std::string(LastError()).starts_with("kernel 'scale': cuda:")) << LastError();
}

TEST_F(CudaModuleTest, BadImages) {
  const Status bad = CudaModule::Load(".version 7.8\n.target sm_75\n.address_size 64\nnonsense").status();
  EXPECT_TRUE(Message(bad).starts_with("loading a CUDA image of ")) << bad;
  EXPECT_NE(Message(bad).find("ptxas"), std::string::npos) << bad;
}

TEST(CudaModuleWithoutDriver, IsAClearError) {
  if (GetCudaDevice().ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_TRUE(Message(CudaModule::Load(kPtx).status()).starts_with("no CUDA driver: "));
  CinnCallEnv env{};
  env.device = {kDLCUDA, 0};
  EXPECT_LT(cinn_launch(&cinn_device_cuda, nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, &env), 0);
  EXPECT_TRUE(std::string(LastError()).starts_with("no CUDA driver: ")) << LastError();
  EXPECT_EQ(cinn_launch(&cinn_device_cuda, nullptr, 0, 1, 1, 1, 1, 1, 0, nullptr, &env), 0);
}

}  // namespace
}  // namespace cinn_like
