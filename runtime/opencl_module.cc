#include "runtime/opencl_module.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <list>
#include <map>
#include <mutex>

#include "cinn_like/base/words.h"
#include "runtime/opencl_driver.h"
#include "runtime/opencl_memory.h"
#include "runtime/range_error.h"

namespace cinn_like::opencl {

struct Module::Impl {
  struct KernelInfo {
    Impl* module;
    std::string name, params;
    struct Built {
      opencl::Kernel kernel = nullptr;
      size_t required[3] = {};  // sizes of a block, or zeros
    };
    std::map<Context, Built> in;  // where it has been built
    std::mutex mutex;             // of its arguments, until it is enqueued
  };
  Impl(const Driver& driver, std::string_view image) : driver(driver), source(image) {}

  const Driver& driver;
  const std::string source;
  bool exact = false;
  std::list<KernelInfo> kernels;
  std::map<std::pair<Context, DeviceId>, Program> programs;
  std::mutex mutex;

  StatusOr<Program> Build(Context context, DeviceId device) {
    const std::lock_guard lock(mutex);
    Program& known = programs[{context, device}];
    if (known != nullptr) return known;
    ASSIGN_OR_RETURN(const std::string name, driver.Text(device, kDeviceName));
    RETURN_IF_ERROR(CheckSubgroups(device, name));
    const char* options = "-cl-std=CL1.2";
    if (exact) {
      ASSIGN_OR_RETURN(const Bits floats, driver.Info<Bits>(device, kSingleFpConfig));
      if ((floats & kRoundsDivision) == 0) {
        return absl::FailedPreconditionError(
            Cat("exact numerics need correctly rounded division and square roots of f32, which the OpenCL device ",
                name, " does not offer"));
      }
      options = "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt";
    }
    Result error = kSuccess;
    const char* text = source.data();
    const size_t length = source.size();
    const Program program = driver.clCreateProgramWithSource(context, 1, &text, &length, &error);
    RETURN_IF_ERROR(driver.Check(error, "clCreateProgramWithSource"));
    if (error = driver.clBuildProgram(program, 1, &device, options, nullptr, nullptr); error != kSuccess) {
      size_t size = 0;
      driver.clGetProgramBuildInfo(program, device, kBuildLog, 0, nullptr, &size);
      std::string log(size, '\0');
      driver.clGetProgramBuildInfo(program, device, kBuildLog, size, log.data(), nullptr);
      driver.clReleaseProgram(program);
      return InvalidArgument(Message(driver.Check(error, Cat("compiling OpenCL C for ", name))), "\n", log.c_str());
    }
    return known = program;
  }

  // Drivers that don't know the attribute ignore it.
  Status CheckSubgroups(DeviceId device, const std::string& name) const {
    constexpr std::string_view kSize = "intel_reqd_sub_group_size(";
    for (size_t at = source.find(kSize); at != source.npos; at = source.find(kSize, at + 1)) {
      size_t size = 0;
      const char* number = source.data() + at + kSize.size();
      if (std::from_chars(number, source.data() + source.size(), size).ec != std::errc()) continue;
      ASSIGN_OR_RETURN(const std::vector<size_t> sizes, driver.SubgroupSizes(device));
      if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) {
        return absl::FailedPreconditionError(Cat("kernels with sub-groups of ", size, ", of which the OpenCL device ",
                                                 name, " offers ", sizes.empty() ? "none" : JoinWords(sizes)));
      }
    }
    return absl::OkStatus();
  }

  StatusOr<const KernelInfo::Built*> Find(KernelInfo& info, const QueueOf& queue) {
    KernelInfo::Built& known = info.in[queue.context];
    if (known.kernel != nullptr) return &known;
    ASSIGN_OR_RETURN(const Program program, Build(queue.context, queue.device));
    Result error = kSuccess;
    const opencl::Kernel kernel = driver.clCreateKernel(program, info.name.c_str(), &error);
    RETURN_IF_ERROR(driver.Check(error, "clCreateKernel"));
    known.kernel = kernel;
    RETURN_IF_ERROR(driver.Check(driver.clGetKernelWorkGroupInfo(kernel, queue.device, kKernelRequiredSize,
                                                                 sizeof(known.required), known.required, nullptr),
                                 "clGetKernelWorkGroupInfo"));
    return &known;
  }
};

namespace {

using KernelInfo = Module::Impl::KernelInfo;
using Sizes = std::array<size_t, 3>;

Sizes ToSizes(const std::array<int64_t, 3>& a) {
  return {static_cast<size_t>(a[0]), static_cast<size_t>(a[1]), static_cast<size_t>(a[2])};
}

// A report on the device, while a kernel runs that may fill it.
class Report {
 public:
  explicit Report(const Driver& driver) : driver_(driver) {}
  ~Report() {
    if (memory != nullptr) driver_.clReleaseMemObject(memory);
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  Status Create(Context context) {
    RangeReport none;
    Result error = kSuccess;
    memory = driver_.clCreateBuffer(context, kReadWrite | kCopyHostPtr, sizeof(none), &none, &error);
    return driver_.Check(error, "clCreateBuffer of a report");
  }
  Status Read(const QueueOf& queue) {
    RangeReport report;
    RETURN_IF_ERROR(driver_.Check(
        driver_.clEnqueueReadBuffer(queue.queue, memory, 1, 0, sizeof(report), &report, 0, nullptr, nullptr),
        "reading the report of indices out of range"));
    return report.taken == 0 ? absl::OkStatus() : RangeError(report.text, report.value, report.lo, report.end);
  }

  Mem memory = nullptr;

 private:
  const Driver& driver_;
};

Status Launch(KernelInfo& info, const LaunchShape& shape, void** params, const CinnCallEnv& env) {
  const Driver& driver = info.module->driver;
  ASSIGN_OR_RETURN(const QueueOf queue, FindQueue(driver, env.device.device_id, env.stream));
  const std::lock_guard lock(info.mutex);
  ASSIGN_OR_RETURN(const KernelInfo::Built* built, info.module->Find(info, queue));
  const opencl::Kernel kernel = built->kernel;
  unsigned index = 0;
  const auto set = [&](size_t size, const void* value) {
    const Result result = driver.clSetKernelArg(kernel, index, size, value);
    ++index;
    return driver.Check(result, Cat("clSetKernelArg ", index - 1));
  };
  Report report(driver);
  for (char kind : info.params) {
    if (kind == 'r') {
      RETURN_IF_ERROR(report.Create(queue.context));
      RETURN_IF_ERROR(set(sizeof(Mem), &report.memory));
      continue;
    }
    const void* param = *params++;
    if (kind != 'p') {
      RETURN_IF_ERROR(set(static_cast<size_t>(kind - '0'), param));
      continue;
    }
    const void* address = *static_cast<void* const*>(param);
    Place place;
    if (address != nullptr && !FindPlace(address, &place)) {
      return InvalidArgument("argument ", index, " is no address of OpenCL's memory");
    }
    if (address != nullptr && place.context != queue.context) {
      return InvalidArgument("argument ", index, " is memory of another OpenCL context than the call's stream");
    }
    RETURN_IF_ERROR(set(sizeof(Mem), &place.memory));
    RETURN_IF_ERROR(set(sizeof(place.offset), &place.offset));
  }
  Sizes local = ToSizes(shape.block);
  // A kernel can require its block's threads in one row, and number them itself.
  if (const Sizes row = {local[0] * local[1] * local[2], 1, 1}; std::equal(row.begin(), row.end(), built->required))
    local = row;
  Sizes global = ToSizes(shape.grid);
  for (size_t i = 0; i < 3; ++i) global[i] *= local[i];
  if (!queue.in_order) {
    RETURN_IF_ERROR(
        driver.Check(driver.clEnqueueBarrierWithWaitList(queue.queue, 0, nullptr, nullptr), "clEnqueueBarrier"));
  }
  const Result result =
      driver.clEnqueueNDRangeKernel(queue.queue, kernel, 3, nullptr, global.data(), local.data(), 0, nullptr, nullptr);
  if (result == kSuccess) [[likely]]
    return report.memory == nullptr ? absl::OkStatus() : report.Read(queue);
  std::string what = Cat("launch on opencl:", env.device.device_id, " with grid ", shape.grid[0], "x", shape.grid[1],
                         "x", shape.grid[2], ", block ", local[0], "x", local[1], "x", local[2]);
  size_t most = 0;
  if (driver.clGetKernelWorkGroupInfo(kernel, queue.device, kKernelWorkGroupSize, sizeof(most), &most, nullptr) ==
          kSuccess &&
      local[0] * local[1] * local[2] > most) {
    what += Cat(", where the device runs at most ", most, " threads of a block,");
  }
  return driver.Check(result, what);
}

}  // namespace

Module::Module(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Module::~Module() {
  for (const KernelInfo& info : impl_->kernels) {
    for (const auto& [context, built] : info.in) {
      if (built.kernel != nullptr) impl_->driver.clReleaseKernel(built.kernel);
    }
  }
  for (const auto& [of, program] : impl_->programs) {
    if (program != nullptr) impl_->driver.clReleaseProgram(program);
  }
}

StatusOr<std::unique_ptr<Module>> Module::Load(std::string_view image) {
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  std::unique_ptr<Impl> impl(new Impl(*driver, image));
  Words lines(impl->source, '\n');
  for (std::string_view line; (line = lines.Take()).starts_with("// ");) {
    Words words(line.substr(3));
    const std::string_view word = words.Take();
    std::string name(words.Take()), params(words.Take());
    if (word == "exact") impl->exact = true;
    if (word != "kernel") continue;
    if (params.find_first_not_of("p48r-") != params.npos || params.empty()) {
      return InvalidArgument("OpenCL image: bad line: ", line);
    }
    if (params == "-") params.clear();
    KernelInfo& info = impl->kernels.emplace_back();
    info.module = impl.get();
    info.name = std::move(name);
    info.params = std::move(params);
  }
  const Device& first = driver->devices[0];
  RETURN_IF_ERROR(impl->Build(first.context, first.id).status());
  return std::unique_ptr<Module>(new Module(std::move(impl)));
}

StatusOr<void*> Module::Kernel(const std::string& name) {
  for (KernelInfo& info : impl_->kernels) {
    if (info.name == name) return &info;
  }
  return absl::NotFoundError(Cat("the OpenCL program has no kernel '", name, "'"));
}

Status LaunchKernel(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env) {
  auto& info = *static_cast<KernelInfo*>(kernel);
  const Status status = Launch(info, shape, params, env);
  if (status.ok()) [[likely]]
    return status;
  // An index out of range is the caller's, who knows of no kernels.
  return absl::IsOutOfRange(status) ? status : Annotate(status, Cat("kernel '", info.name, "'"));
}

}  // namespace cinn_like::opencl
