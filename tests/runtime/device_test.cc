#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "cinn_like/base/words.h"
#include "runtime/device_api.h"
#include "runtime/last_error.h"
#include "runtime/workspace.h"
#include "tests/opencl.h"

// Sanitizers abort on sizes that malloc refuses; here the refusal is what is tested.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}

namespace cinn_like {
namespace {

CinnCallEnv Env(DLDevice device) {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = device;
  return env;
}

// Every device of the process, by every question of the interface.
void CheckDevice(const RuntimeDevice& device, uintptr_t alignment) {
  DeviceApi& api = **device.api();
  const StatusOr<int> count = api.Count();
  ASSERT_TRUE(count.ok()) << count.status();
  ASSERT_GE(*count, 1);
  for (int d = 0; d < *count; ++d) {
    std::vector<int> data(100000), back(100000);
    std::iota(data.begin(), data.end(), d);
    const int64_t bytes = data.size() * sizeof(int);
    const StatusOr<void*> stream = api.CreateStream(d);
    ASSERT_TRUE(stream.ok()) << stream.status();
    const StatusOr<void*> memory = api.Alloc(d, bytes, nullptr);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % alignment, 0u);
    const StatusOr<void*> scratch = api.AllocWorkspace(d, bytes, *stream);
    ASSERT_TRUE(scratch.ok()) << scratch.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*scratch) % alignment, 0u);
    ASSERT_TRUE(api.Copy(d, *memory, data.data(), bytes, *stream).ok());
    ASSERT_TRUE(api.Copy(d, *scratch, *memory, bytes, *stream).ok());
    ASSERT_TRUE(api.Copy(d, back.data(), *scratch, bytes, *stream).ok());
    ASSERT_TRUE(api.Synchronize(d, *stream).ok());
    EXPECT_EQ(back, data);
    api.FreeWorkspace(d, *scratch, *stream);
    api.Free(d, *memory);
    api.DestroyStream(d, *stream);
    const Status too_much = api.Alloc(d, INT64_MAX / 2, nullptr).status();
    EXPECT_EQ(too_much.code(), absl::StatusCode::kResourceExhausted) << too_much;
    const StatusOr<Target> target = api.Detect(d);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ(*Target::Parse(target->Print()), *target);
    std::printf("%s\n", target->Print().c_str());
  }
}

TEST(Device, Host) {
  CheckDevice(cinn_device_x86_64, 64);
  EXPECT_EQ((*GetHostDevice())->Detect(0)->Print(), "x86_64 -mcpu=native");
}

TEST(Device, Cuda) {
  const Status found = GetCudaDevice().status();
  if (!found.ok()) GTEST_SKIP() << found;
  CheckDevice(cinn_device_cuda, 256);
  DeviceApi& api = **GetCudaDevice();
  const int count = *api.Count();
  EXPECT_EQ(Message(api.Alloc(count, 8, nullptr).status()),
            Cat("cuda:", count, ": there are ", count, " CUDA devices"));
  const StatusOr<Target> resolved = ResolveTarget(*Target::Parse("cuda -libs=cublas"), cinn_device_cuda);
  ASSERT_TRUE(resolved.ok());
  EXPECT_NE(resolved->arch, "native");
  EXPECT_TRUE(resolved->HasLib("cublas"));
  EXPECT_EQ(resolved->arch, api.Detect(0)->arch);
}

TEST(Device, OpenCl) {
  SKIP_WITHOUT_OPENCL();
  CheckDevice(cinn_device_opencl, 256);
  DeviceApi& api = **GetOpenClDevice();
  const int count = *api.Count();
  EXPECT_EQ(Message(api.Alloc(count, 8, nullptr).status()),
            Cat("opencl:", count, ": there are ", count, " OpenCL devices"));
  // A stream that waits for another.
  std::vector<int> data(1000, 7), back(1000);
  void *a = *api.Alloc(0, 4000, nullptr), *b = *api.Alloc(0, 4000, nullptr);
  void *first = *api.CreateStream(0), *second = *api.CreateStream(0);
  ASSERT_TRUE(api.Copy(0, a, data.data(), 4000, first).ok());
  ASSERT_TRUE(api.Copy(0, b, a, 4000, first).ok());
  void* event = *api.RecordEvent(0, first);
  ASSERT_TRUE(api.WaitForEvent(0, second, event).ok());
  // Into the middle, from the middle.
  ASSERT_TRUE(api.Copy(0, back.data() + 100, static_cast<char*>(b) + 400, 3600, second).ok());
  EXPECT_TRUE(api.IsDone(0, event));
  EXPECT_EQ(back[99], 0);
  EXPECT_EQ(back[100], 7);
  EXPECT_EQ(back[999], 7);
  api.DestroyEvent(0, event);
  api.DestroyStream(0, first);
  api.DestroyStream(0, second);
  api.Free(0, a);
  api.Free(0, b);
  EXPECT_EQ(ResolveTarget(*Target::Parse("opencl"), cinn_device_opencl)->arch, "generic");
}

// Calls repeat: memory that one gave back is that of the next.
TEST(Device, OpenClKeepsWorkspaces) {
  SKIP_WITHOUT_OPENCL();
  DeviceApi& api = **GetOpenClDevice();
  const auto take = [&](int64_t bytes) { return api.AllocWorkspace(0, bytes, nullptr).value_or(nullptr); };
  const auto give = [&](void* data) { api.FreeWorkspace(0, data, nullptr); };
  void *large = take(int64_t{3} << 20), *small = take(1000);
  ASSERT_NE(large, nullptr);
  ASSERT_NE(small, nullptr);
  give(large);
  give(small);
  EXPECT_EQ(take(1000), small);
  EXPECT_EQ(take((int64_t{3} << 20) - 100), large);
  EXPECT_NE(take(1000), small);  // in use
  give(large);
  // Not more than was in use at one time: the larger goes.
  void* other = take(int64_t{2} << 20);
  EXPECT_NE(other, large);
  give(other);
  EXPECT_EQ(take(int64_t{2} << 20), other);
  EXPECT_EQ(api.AllocWorkspace(0, INT64_MAX / 2, nullptr).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Device, OpenClProgramsAreChecked) {
  SKIP_WITHOUT_OPENCL();
  DeviceApi& api = **GetOpenClDevice();
  EXPECT_EQ(Message(api.Load("// kernel k px\n").status()), "OpenCL image: bad line: // kernel k px");
  const Status broken =
      api.Load("// kernel k p\n__kernel void k(__global float* p, long o) { p[o] = nothing; }\n").status();
  EXPECT_TRUE(Message(broken).starts_with("compiling OpenCL C for ")) << broken;
  EXPECT_NE(Message(broken).find("nothing"), std::string::npos) << broken;
  const auto module = api.Load("// kernel k p4\n__kernel void k(__global float* p, long o, int n) { p[o / 4] = n; }\n");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(Message((*module)->Kernel("l").status()), "the OpenCL program has no kernel 'l'");
  void* kernel = *(*module)->Kernel("k");
  const CinnCallEnv env = Env({kDLOpenCL, 0});
  float value = 0;
  void* memory = *api.Alloc(0, 64, nullptr);
  void *at = static_cast<char*>(memory) + 8, *host = &value;
  int n = 5;
  void *params[] = {&at, &n}, *of_host[] = {&host, &n};
  EXPECT_EQ(api.Launch(kernel, {{1, 1, 1}, {1, 1, 1}, 0}, params, env), absl::OkStatus());
  ASSERT_TRUE(api.Copy(0, &value, at, 4, nullptr).ok());
  EXPECT_EQ(value, 5);
  EXPECT_EQ(Message(api.Launch(kernel, {{1, 1, 1}, {1, 1, 1}, 0}, of_host, env)),
            "kernel 'k': argument 0 is no address of OpenCL's memory");
  const Status wide = api.Launch(kernel, {{1, 1, 1}, {1 << 20, 1, 1}, 0}, params, env);
  EXPECT_TRUE(
      Message(wide).starts_with("kernel 'k': launch on opencl:0 with grid 1x1x1, block 1048576x1x1, where the device "
                                "runs at most "))
      << wide;
  api.Free(0, memory);
}

struct FakeDevice {
  std::string extensions;
  std::vector<size_t> sizes;
};

opencl::Result FakeInfo(opencl::DeviceId id, unsigned what, size_t size, void* value, size_t* written) {
  const auto& device = *reinterpret_cast<const FakeDevice*>(id);
  const bool is_text = what == opencl::kExtensions;
  if (!is_text && what != opencl::kSubgroupSizes) return -30;
  const void* data = is_text ? static_cast<const void*>(device.extensions.c_str()) : device.sizes.data();
  const size_t bytes = is_text ? device.extensions.size() + 1 : device.sizes.size() * sizeof(size_t);
  if (written != nullptr) *written = bytes;
  if (value != nullptr && size < bytes) return -30;
  if (value != nullptr) std::memcpy(value, data, bytes);
  return opencl::kSuccess;
}

TEST(Device, OpenClSubgroupsAreOfASizeThatAllDevicesOffer) {
  const std::string both = "cl_khr_fp64 cl_intel_subgroups cl_intel_required_subgroup_size";
  const auto found = [](std::vector<FakeDevice> devices) {
    opencl::Driver driver;
    driver.clGetDeviceInfo = FakeInfo;
    for (FakeDevice& d : devices) driver.devices.emplace_back().id = reinterpret_cast<opencl::DeviceId>(&d);
    const StatusOr<int64_t> size = opencl::CommonSubgroupSize(driver);
    EXPECT_TRUE(size.ok()) << size.status();
    return size.value_or(0);
  };
  EXPECT_EQ(found({}), 1);
  EXPECT_EQ(found({{both, {8, 16, 32}}}), 16);
  EXPECT_EQ(found({{both, {32, 64}}}), 32);
  EXPECT_EQ(found({{both, {4, 8, 16, 32, 64}}, {both, {8, 32}}}), 32);
  EXPECT_EQ(found({{both, {4, 8}}}), 1);
  EXPECT_EQ(found({{both, {24, 64}}}), 1);
  EXPECT_EQ(found({{both, {}}}), 1);
  EXPECT_EQ(found({{both, {32}}, {"cl_khr_fp64", {}}}), 1);
  // No size that a kernel can ask for, or no shuffles.
  EXPECT_EQ(found({{"cl_khr_subgroups cl_khr_subgroup_shuffle cl_intel_subgroups", {32}}}), 1);
  EXPECT_EQ(found({{"cl_intel_subgroups_short cl_intel_required_subgroup_size", {32}}}), 1);
}

TEST(Device, OpenClSubgroupsThatTheDeviceLacks) {
  SKIP_WITHOUT_OPENCL();
  const opencl::Driver& driver = **opencl::GetDriver();
  const std::vector<size_t> sizes = *driver.SubgroupSizes(driver.devices[0].id);
  const Status lacking = (*GetOpenClDevice())
                             ->Load(
                                 "// kernel k -\n__kernel __attribute__((reqd_work_group_size(64, 1, 1), "
                                 "intel_reqd_sub_group_size(2048))) "
                                 "void k() {}\n")
                             .status();
  EXPECT_EQ(lacking.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(lacking), Cat("kernels with sub-groups of 2048, of which the OpenCL device ",
                                  driver.devices[0].name, " offers ", sizes.empty() ? "none" : JoinWords(sizes)));
  const int64_t common = *opencl::CommonSubgroupSize(driver);
  EXPECT_EQ(ResolveTarget(*Target::Parse("opencl"), cinn_device_opencl)->subgroup_size, common);
  // What is said stays.
  EXPECT_EQ(ResolveTarget(*Target::Parse("opencl -subgroup-size=64"), cinn_device_opencl)->subgroup_size, 64);
}

TEST(Device, NoOpenClIsAClearError) {
  const Status found = GetOpenClDevice().status();
  if (found.ok()) GTEST_SKIP() << "this machine has an OpenCL device";
  EXPECT_EQ(found.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Message(found).starts_with("no OpenCL: libOpenCL.so.1")) << found;
  EXPECT_EQ(Message(ResolveTarget(*Target::Parse("opencl"), cinn_device_opencl).status()),
            Cat("target 'opencl -arch=native' names no arch: ", Message(found)));
}

TEST(Device, NoHipIsAClearError) {
  const Status found = GetHipDevice().status();
  if (found.ok()) GTEST_SKIP() << "this machine has a GPU of AMD";
  EXPECT_EQ(found.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Message(found).starts_with("no HIP: ")) << found;
}

TEST(Device, NoDriverIsAClearError) {
  const Status found = GetCudaDevice().status();
  if (found.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(found.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Message(found).starts_with("no CUDA driver: ")) << found;
  EXPECT_EQ(Message(ResolveTarget(*Target::Parse("cuda -libs=cublas"), cinn_device_cuda).status()),
            Cat("target 'cuda -arch=native -libs=cublas' names no arch: ", Message(found)));
  const CinnCallEnv env = Env({kDLCUDA, 0});
  EXPECT_EQ(cinn_alloc_workspace(&cinn_device_cuda, &env, 8), nullptr);
  EXPECT_EQ(LastError(), Message(found));
}

TEST(Device, AKindWithoutKernelsSaysSo) {
  EXPECT_EQ(Message((*GetHostDevice())->Load("image").status()), "this kind of device has no kernels to load");
  const CinnCallEnv env = Env({kDLCPU, 0});
  EXPECT_LT(cinn_launch(&cinn_device_x86_64, nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, &env), 0);
  EXPECT_STREQ(LastError(), "cpu: this kind of device launches no kernels");
  const int64_t numbers[] = {64, 64, 1, 64, 64, 8};
  EXPECT_LT(cinn_tensor_map(&cinn_device_x86_64, nullptr, nullptr, static_cast<int64_t>(DType::kF16), 2, numbers, &env),
            0);
  EXPECT_STREQ(LastError(), "cpu: this kind of device has no copy engine that kernels ask");
}

TEST(Device, ATargetWithAnArchNeedsNoDevice) {
  const Target t = *Target::Parse("cuda -arch=sm_90a");
  EXPECT_EQ(*ResolveTarget(t, cinn_device_cuda), t);
}

TEST(Workspace, IsKeptForLaterCalls) {
  const CinnCallEnv env = Env({kDLCPU, 0});
  void* first = cinn_alloc_workspace(&cinn_device_x86_64, &env, 1 << 20);
  ASSERT_NE(first, nullptr);
  std::memset(first, 1, 1 << 20);
  void* second = cinn_alloc_workspace(&cinn_device_x86_64, &env, 1 << 20);
  EXPECT_NE(first, second);
  std::memset(second, 2, 1 << 20);
  EXPECT_EQ(static_cast<char*>(first)[(1 << 20) - 1], 1);
  cinn_free_workspace(&cinn_device_x86_64, &env, second);
  EXPECT_EQ(cinn_alloc_workspace(&cinn_device_x86_64, &env, 1 << 20), second);
  cinn_free_workspace(&cinn_device_x86_64, &env, second);
  // A larger one takes its place, and then serves smaller ones; also those of other threads.
  void* third = cinn_alloc_workspace(&cinn_device_x86_64, &env, 100 << 20);
  std::memset(third, 3, 100 << 20);
  std::thread([&] { cinn_free_workspace(&cinn_device_x86_64, &env, third); }).join();
  std::thread([&] { EXPECT_EQ(cinn_alloc_workspace(&cinn_device_x86_64, &env, 70 << 20), third); }).join();
  EXPECT_EQ(static_cast<char*>(first)[(1 << 20) - 1], 1);
  cinn_free_workspace(&cinn_device_x86_64, &env, third);
  cinn_free_workspace(&cinn_device_x86_64, &env, first);
  void* small = cinn_alloc_workspace(&cinn_device_x86_64, &env, 1000);
  std::memset(small, 4, 1000);
  cinn_free_workspace(&cinn_device_x86_64, &env, small);
  cinn_free_workspace(&cinn_device_x86_64, &env, nullptr);
  EXPECT_EQ(cinn_alloc_workspace(&cinn_device_x86_64, &env, -1), nullptr);
  EXPECT_STREQ(LastError(), "workspace of -1 bytes");
  EXPECT_EQ(cinn_alloc_workspace(&cinn_device_x86_64, &env, INT64_MAX / 2), nullptr);
  EXPECT_TRUE(std::string(LastError()).starts_with("cpu: can't allocate ")) << LastError();
}

TEST(Workspace, ComesFromTheCaller) {
  struct Caller {
    alignas(64) char memory[256];
    int64_t asked = 0;
    void* freed = nullptr;
  } caller;
  CinnCallEnv env = Env({kDLCPU, 0});
  env.context = &caller;
  env.alloc = [](void* context, int32_t index, DLTensor* t) {
    auto& c = *static_cast<Caller*>(context);
    if (index != -1 || t->ndim != 1 || t->dtype.bits != 8 || t->shape[0] > 200) return -5;
    c.asked = t->shape[0];
    t->data = c.memory;
    t->byte_offset = 64;
    return 0;
  };
  env.free = [](void* context, void* data) { static_cast<Caller*>(context)->freed = data; };
  void* data = cinn_alloc_workspace(&cinn_device_x86_64, &env, 100);
  EXPECT_EQ(data, caller.memory + 64);
  EXPECT_EQ(caller.asked, 100);
  cinn_free_workspace(&cinn_device_x86_64, &env, data);
  EXPECT_EQ(caller.freed, data);
  EXPECT_EQ(cinn_alloc_workspace(&cinn_device_x86_64, &env, 201), nullptr);
  EXPECT_STREQ(LastError(), "workspace of 201 bytes on cpu: the caller's allocator failed with -5");
  env.free = nullptr;  // one that takes none back has them from the device
  data = cinn_alloc_workspace(&cinn_device_x86_64, &env, 201);
  EXPECT_NE(data, nullptr);
  cinn_free_workspace(&cinn_device_x86_64, &env, data);
}

}  // namespace
}  // namespace cinn_like
