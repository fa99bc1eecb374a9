#include "runtime/opencl_driver.h"

#include <dlfcn.h>

#include <algorithm>

#include "cinn_like/base/words.h"

namespace cinn_like::opencl {
namespace {

Status NoOpenCl(std::string_view why) { return absl::FailedPreconditionError(Cat("no OpenCL: ", why)); }

struct Name {
  Result result;
  std::string_view text;
};
// Those that a caller can do something about.
constexpr Name kNames[] = {
    {-2, "CL_DEVICE_NOT_AVAILABLE"},
    {-3, "CL_COMPILER_NOT_AVAILABLE"},
    {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {-5, "CL_OUT_OF_RESOURCES"},
    {-6, "CL_OUT_OF_HOST_MEMORY"},
    {-11, "CL_BUILD_PROGRAM_FAILURE"},
    {-30, "CL_INVALID_VALUE"},
    {-34, "CL_INVALID_CONTEXT"},
    {-36, "CL_INVALID_COMMAND_QUEUE"},
    {-38, "CL_INVALID_MEM_OBJECT"},
    {-46, "CL_INVALID_KERNEL_NAME"},
    {-51, "CL_INVALID_ARG_SIZE"},
    {-52, "CL_INVALID_KERNEL_ARGS"},
    {kInvalidWorkGroupSize, "CL_INVALID_WORK_GROUP_SIZE"},
    {-55, "CL_INVALID_WORK_ITEM_SIZE"},
    {-61, "CL_INVALID_BUFFER_SIZE"},
    {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
};

bool IsOutOfMemory(Result r) { return r == -4 || r == -5 || r == -6 || r == -61; }

StatusOr<Driver> Open() {
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NoOpenCl(dlerror());
  Driver d;
#define X(name, result, params)                                       \
  d.name = reinterpret_cast<result(*) params>(dlsym(library, #name)); \
  if (d.name == nullptr) return NoOpenCl("libOpenCL.so.1 has no " #name ", of OpenCL 1.2");
  CINN_OPENCL_FUNCTIONS(X)
#undef X
  unsigned count = 0;
  // The loader's own error (-1001) where no driver is installed.
  if (d.clGetPlatformIDs(0, nullptr, &count) != kSuccess || count == 0) {
    return NoOpenCl("libOpenCL.so.1 finds no driver; /etc/OpenCL/vendors lists those that are installed");
  }
  std::vector<Platform> platforms(count);
  RETURN_IF_ERROR(d.Check(d.clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs"));
  for (Platform p : platforms) {
    if (d.clGetDeviceIDs(p, kAnyDevice, 0, nullptr, &count) != kSuccess) continue;
    std::vector<DeviceId> ids(count);
    RETURN_IF_ERROR(d.Check(d.clGetDeviceIDs(p, kAnyDevice, count, ids.data(), nullptr), "clGetDeviceIDs"));
    for (DeviceId id : ids) {
      if (d.Info<Bool>(id, kCompilerAvailable).value_or(0) == 0) continue;
      Device device;
      device.id = id;
      ASSIGN_OR_RETURN(device.name, d.Text(id, kDeviceName));
      Result error = kSuccess;
      device.context = d.clCreateContext(nullptr, 1, &id, nullptr, nullptr, &error);
      RETURN_IF_ERROR(d.Check(error, Cat("clCreateContext for ", device.name)));
      device.queue = d.clCreateCommandQueue(device.context, id, 0, &error);
      RETURN_IF_ERROR(d.Check(error, Cat("clCreateCommandQueue for ", device.name)));
      d.devices.push_back(std::move(device));
    }
  }
  if (d.devices.empty()) return NoOpenCl("the installed drivers have no device that compiles kernels");
  return d;
}

}  // namespace

Status Driver::Check(Result result, std::string_view what) const {
  if (result == kSuccess) [[likely]]
    return absl::OkStatus();
  std::string message = Cat(what, " failed: OpenCL error ", result);
  for (const Name& n : kNames) {
    if (n.result == result) message += Cat(" (", n.text, ")");
  }
  return IsOutOfMemory(result) ? absl::ResourceExhaustedError(message) : absl::UnavailableError(message);
}

StatusOr<const Device*> Driver::Find(int device) const {
  if (device < 0 || static_cast<size_t>(device) >= devices.size()) {
    return InvalidArgument("opencl:", device, ": there are ", devices.size(), " OpenCL devices");
  }
  return &devices[static_cast<size_t>(device)];
}

StatusOr<std::string> Driver::Text(DeviceId device, DeviceInfo what) const {
  size_t size = 0;
  RETURN_IF_ERROR(Check(clGetDeviceInfo(device, what, 0, nullptr, &size), "clGetDeviceInfo"));
  std::string text(size, '\0');
  RETURN_IF_ERROR(Check(clGetDeviceInfo(device, what, size, text.data(), nullptr), "clGetDeviceInfo"));
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

StatusOr<std::vector<size_t>> Driver::SubgroupSizes(DeviceId device) const {
  ASSIGN_OR_RETURN(const std::string extensions, Text(device, kExtensions));
  bool has_shuffles = false, has_sizes = false;
  for (Words words(extensions); !words.is_done();) {
    const std::string_view word = words.Take();
    has_shuffles |= word == "cl_intel_subgroups";
    has_sizes |= word == "cl_intel_required_subgroup_size";
  }
  std::vector<size_t> sizes;
  if (!has_shuffles || !has_sizes) return sizes;
  size_t bytes = 0;
  RETURN_IF_ERROR(Check(clGetDeviceInfo(device, kSubgroupSizes, 0, nullptr, &bytes), "clGetDeviceInfo"));
  sizes.resize(bytes / sizeof(size_t));
  RETURN_IF_ERROR(Check(clGetDeviceInfo(device, kSubgroupSizes, bytes, sizes.data(), nullptr), "clGetDeviceInfo"));
  return sizes;
}

StatusOr<int64_t> CommonSubgroupSize(const Driver& driver) {
  std::vector<std::vector<size_t>> offers;
  for (const Device& d : driver.devices) {
    ASSIGN_OR_RETURN(offers.emplace_back(), driver.SubgroupSizes(d.id));
  }
  for (const size_t size : {16, 32}) {
    if (offers.empty()) break;
    if (std::all_of(offers.begin(), offers.end(), [&](const std::vector<size_t>& sizes) {
          return std::find(sizes.begin(), sizes.end(), size) != sizes.end();
        }))
      return static_cast<int64_t>(size);
  }
  return 1;
}

StatusOr<const Driver*> GetDriver() {
  static const auto* driver = new StatusOr<Driver>(Open());
  if (!driver->ok()) return driver->status();
  return &**driver;
}

StatusOr<QueueOf> FindQueue(const Driver& driver, int device, void* stream) {
  ASSIGN_OR_RETURN(const Device* own, driver.Find(device));
  if (stream == nullptr) [[likely]]
    return QueueOf{own->queue, own->context, own->id};
  QueueOf r{.queue = static_cast<Queue>(stream)};
  Bits properties = 0;
  const auto get = [&](QueueInfo what, auto* value) {
    return driver.Check(driver.clGetCommandQueueInfo(r.queue, what, sizeof(*value), value, nullptr),
                        "the call's stream is no cl_command_queue: clGetCommandQueueInfo");
  };
  RETURN_IF_ERROR(get(kQueueContext, &r.context));
  RETURN_IF_ERROR(get(kQueueDevice, &r.device));
  RETURN_IF_ERROR(get(kQueueProperties, &properties));
  r.in_order = (properties & kOutOfOrder) == 0;
  return r;
}

}  // namespace cinn_like::opencl
