// runtime/hip_device.cc against a stand-in for libamdhip64.so with two devices, made by the system's C compiler: which
// functions are called, on which device and with what. No GPU of AMD has run this.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "runtime/device_api.h"
#include "runtime/kernel_images.h"
#include "tests/system_c.h"

namespace cinn_like {
namespace {

// Memory is the host's; a module has one kernel, "twice", which doubles n floats; what is called is counted.
constexpr char kStandIn[] = R"(
#include <stdlib.h>
#include <string.h>
char arch_of_1[32] = "gfx942";
int device, loaded, launched_on = -1, wrong_device;
static int module_on[16], last_module;
int hipInit(unsigned flags) { return flags ? 1 : 0; }
const char* hipGetErrorName(int e) { return e == 2 ? "hipErrorOutOfMemory" : e == 209 ? "hipErrorNoBinaryForGpu" : "hipErrorOther"; }
const char* hipGetErrorString(int e) { (void)e; return "a stand-in says so"; }
int hipGetDeviceCount(int* n) { *n = 2; return 0; }
int hipGetDeviceProperties(void* p, int d) {
  memset(p, 0, 2000);
  strcpy(p, "AMD Instinct");
  strcpy((char*)p + 1160, d == 0 ? "gfx942:sramecc+:xnack-" : arch_of_1);
  return 0;
}
int hipGetDevice(int* d) { *d = device; return 0; }
int hipSetDevice(int d) { device = d; return 0; }
int hipDeviceSynchronize(void) { return 0; }
int hipMalloc(void** p, size_t n) { *p = n > 1 << 20 ? 0 : malloc(n); return *p ? 0 : 2; }
int hipFree(void* p) { free(p); return 0; }
int hipMallocAsync(void** p, size_t n, void* s) { (void)s; return hipMalloc(p, n); }
int hipFreeAsync(void* p, void* s) { (void)s; return hipFree(p); }
int hipMemcpyAsync(void* to, const void* from, size_t n, int kind, void* s) { (void)s; memmove(to, from, n); return kind == 4 ? 0 : 1; }
int hipStreamCreateWithFlags(void** s, unsigned f) { *s = &device; return f == 1 ? 0 : 1; }
int hipStreamDestroy(void* s) { return s == &device ? 0 : 1; }
int hipStreamSynchronize(void* s) { return s == 0 || s == &device ? 0 : 1; }
int hipStreamWaitEvent(void* s, void* e, unsigned f) { return s == &device && e == &loaded && f == 0 ? 0 : 1; }
int hipEventCreateWithFlags(void** e, unsigned f) { *e = &loaded; return f == 2 ? 0 : 1; }
int hipEventRecord(void* e, void* s) { (void)s; return e == &loaded ? 0 : 1; }
int hipEventQuery(void* e) { return e == &loaded ? 0 : 600; }
int hipEventDestroy(void* e) { return e == &loaded ? 0 : 1; }
int hipModuleLoadData(void** m, const void* image) {
  if (memcmp(image, "code", 4) != 0) return 209;
  module_on[++last_module] = device + 1;
  *m = &module_on[last_module];
  ++loaded;
  return 0;
}
int hipModuleUnload(void* m) { if (*(int*)m != device + 1) wrong_device = 1; --loaded; return 0; }
int hipModuleGetFunction(void** f, void* m, const char* name) { *f = m; return strcmp(name, "twice") == 0 ? 0 : 500; }
int hipModuleLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void* s, void** params, void** extra) {
  float* p = *(float**)params[1];
  long long n = *(long long*)params[0];
  (void)s;
  if (*(int*)f != device + 1) wrong_device = 1;
  launched_on = device;
  if (extra || gy * gz * by * bz != 1 || gx * bx < n || bx > 1024) return 1;
  for (long long i = 0; i < n; ++i) p[i] = p[i] * 2 + (float)shared;
  return 0;
}
)";

class HipDeviceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (CCompilers().empty()) return;
    c_ = new SystemC;  // stays, as the library does
    std::filesystem::create_directory(c_->folder() + "/lib");
    const std::string library = c_->folder() + "/lib/libamdhip64.so";
    ASSERT_EQ(c_->Run(Cat(CCompilers()[0], " -shared -fPIC -o ", library, " ", c_->Write("hip.c", kStandIn))), "");
    setenv("ROCM_PATH", c_->folder().c_str(), 1);
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  void SetUp() override {
    SKIP_WITHOUT_C_COMPILER();
    const StatusOr<DeviceApi*> api = GetHipDevice();
    ASSERT_TRUE(api.ok()) << api.status();
    api_ = *api;
  }
  static int& Of(const char* name) { return *static_cast<int*>(dlsym(library_, name)); }

  static SystemC* c_;
  static void* library_;
  DeviceApi* api_ = nullptr;
};
SystemC* HipDeviceTest::c_ = nullptr;
void* HipDeviceTest::library_ = nullptr;

TEST_F(HipDeviceTest, MemoryStreamsAndEvents) {
  EXPECT_EQ(*api_->Count(), 2);
  const StatusOr<void*> data = api_->Alloc(1, 64, nullptr), pooled = api_->AllocWorkspace(0, 64, nullptr);
  ASSERT_TRUE(data.ok() && pooled.ok());
  const std::vector<float> sent = {1, 2, 3};
  std::vector<float> back(3);
  EXPECT_TRUE(api_->Copy(1, *data, sent.data(), 12, nullptr).ok());
  EXPECT_TRUE(api_->Copy(1, *pooled, *data, 12, nullptr).ok());
  EXPECT_TRUE(api_->Copy(1, back.data(), *pooled, 12, nullptr).ok());
  EXPECT_EQ(back, sent);
  api_->Free(1, *data);
  api_->FreeWorkspace(0, *pooled, nullptr);
  const StatusOr<void*> stream = api_->CreateStream(1), event = api_->RecordEvent(1, nullptr);
  ASSERT_TRUE(stream.ok() && event.ok());
  EXPECT_TRUE(api_->WaitForEvent(1, *stream, *event).ok());
  EXPECT_TRUE(api_->IsDone(1, *event));
  EXPECT_TRUE(api_->Synchronize(1, *stream).ok());
  EXPECT_TRUE(api_->SynchronizeDevice(1).ok());
  api_->DestroyEvent(1, *event);
  api_->DestroyStream(1, *stream);
  EXPECT_EQ(Of("device"), 0);  // the thread's own, as before
}

TEST_F(HipDeviceTest, LaunchesOnEachDevice) {
  {
    const KernelImages images = {{"code object"}, {{"f_kernel", 0, "twice"}}};
    const auto kernels = LoadedKernels::Load(images, cinn_device_hip);
    ASSERT_TRUE(kernels.ok()) << kernels.status();
    void* kernel = *(*kernels)->Kernel("f_kernel");
    for (const int device : {0, 1, 1, 0}) {
      std::vector<float> x = {1, 2, 3};
      float* p = x.data();
      int64_t n = 3;
      void* params[] = {&n, &p};
      CinnCallEnv env{};
      env.size = sizeof(env);
      env.device = {kDLROCM, device};
      const Status status = api_->Launch(kernel, {{1, 1, 1}, {64, 1, 1}, 8}, params, env);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(x, (std::vector<float>{10, 12, 14}));
      EXPECT_EQ(Of("launched_on"), device);
      EXPECT_EQ(Of("device"), 0);
    }
    EXPECT_EQ(Of("loaded"), 2);  // once a device
  }
  EXPECT_EQ(Of("loaded"), 0);
  EXPECT_EQ(Of("wrong_device"), 0);
}

TEST_F(HipDeviceTest, WhatIsHere) {
  const auto resolved = [] { return ResolveTarget(*Target::Parse("hip"), cinn_device_hip); };
  ASSERT_TRUE(resolved().ok()) << resolved().status();
  EXPECT_EQ(resolved()->arch, "gfx942");
  EXPECT_EQ(resolved()->cores, 304);
  char* arch = static_cast<char*>(dlsym(library_, "arch_of_1"));
  strcpy(arch, "gfx90a");
  EXPECT_EQ(Message(resolved().status()),
            "target 'hip -arch=native' names no arch and devices differ: gfx942 and gfx90a");
  strcpy(arch, "gfx1100");
  EXPECT_EQ(Message(resolved().status()),
            "target: option -arch: unknown arch 'gfx1100'; known: native, gfx90a, gfx942");
  strcpy(arch, "gfx942");
}

TEST_F(HipDeviceTest, Errors) {
  EXPECT_EQ(Message(api_->Alloc(0, 2 << 20, nullptr).status()),
            "hip:0: hipMalloc of 2097152 bytes failed: hipErrorOutOfMemory (a stand-in says so)");
  EXPECT_EQ(api_->Alloc(0, 2 << 20, nullptr).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(api_->Alloc(2, 8, nullptr).status()), "hip:2: there are 2 HIP devices");
  EXPECT_EQ(Message(api_->Load("what").status()),
            "loading a code object of 4 bytes on hip:0 failed: hipErrorNoBinaryForGpu (a stand-in says so)");
  const auto module = api_->Load("code");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(Message((*module)->Kernel("thrice").status()),
            "finding the kernel 'thrice' failed: hipErrorOther (a stand-in says so)");
  float* p = nullptr;
  int64_t n = 0;
  void* params[] = {&n, &p};
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLROCM, 1};
  EXPECT_EQ(Message(api_->Launch(*(*module)->Kernel("twice"), {{1, 2, 1}, {64, 1, 1}, 0}, params, env)),
            "kernel 'twice': launch on hip:1 with grid 1x2x1, block 64x1x1, 0 bytes of shared memory failed: "
            "hipErrorOther (a stand-in says so)");
  env.device.device_id = 7;
  EXPECT_EQ(Message(api_->Launch(*(*module)->Kernel("twice"), {{1, 1, 1}, {64, 1, 1}, 0}, params, env)),
            "kernel 'twice': hip:7: there are 2 HIP devices");
}

}  // namespace
}  // namespace cinn_like
