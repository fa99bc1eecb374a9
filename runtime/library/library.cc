#include "runtime/library.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "runtime/host_tensors.h"
#include "runtime/last_error.h"
#include "runtime/library/loaded_file.h"
#include "runtime/library_format.h"
#include "runtime/parallel_for.h"
#include "runtime/prepared_state.h"

using namespace cinn_like;

namespace {

constexpr off_t kMostBytes = off_t{1} << 36;

Status CantRead(int error) { return absl::NotFoundError(Cat("can't be read: ", strerror(error))); }

// The bytes of a file, while this lives.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (size_ != 0) munmap(data_, size_);
  }
  Status Map(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return CantRead(errno);
    const std::unique_ptr<const int, void (*)(const int*)> closer(&file, [](const int* f) { close(*f); });
    struct stat about;
    if (fstat(file, &about) != 0) return CantRead(errno);
    if (!S_ISREG(about.st_mode)) return absl::InvalidArgumentError("is no file");
    if (about.st_size > kMostBytes) return absl::InvalidArgumentError("is too large");
    if (about.st_size == 0) return absl::OkStatus();
    void* data = mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) return CantRead(errno);
    data_ = data, size_ = static_cast<size_t>(about.st_size);
    return absl::OkStatus();
  }
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

StatusOr<std::unique_ptr<CinnLibrary>> Open(const char* path) {
  // The loader looks a name without a folder up in places of its own.
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path, nullptr), &free);
  if (real == nullptr) return CantRead(errno);
  MappedFile mapped;
  RETURN_IF_ERROR(mapped.Map(real.get()));
  ASSIGN_OR_RETURN(const LibraryFile read, ReadLibrary(mapped.bytes()));
  auto file = std::make_shared<LoadedFile>();
  RETURN_IF_ERROR(file->Load(real.get(), read));
  auto library = std::make_unique<CinnLibrary>();
  library->description = file->info().Describe();
  library->json = file->info().Json();
  library->file = std::move(file);
  return library;
}

// What `self` of a library's function points to, as its code knows it, and what it needs beside: a tensor for each
// parameter that calls do not read from their arguments, because its weight is in the file or was copied to the device.
class Self : public PreparedState {
 public:
  Self(std::shared_ptr<const LoadedFile> file, const LoadedFile::Ready& ready)
      : PreparedState(ready.variant->slots, *ready.device), file_(std::move(file)), ready_(ready) {}

  // With the parameters marked static that are not in the file.
  Status Fill(std::span<const CinnValue> args, const CinnCallEnv& env) {
    const LibraryFunction& f = *ready_.function;
    if (ready_.variant->weights && !args.empty()) {
      return InvalidArgument(f.name, ": its weights are in the file: expected no others, got ", args.size());
    }
    if (ready_.variant->plan) return FillParts(args, env);
    if (ready_.IsOnHost()) return ready_.variant->weights ? TakeWeights() : PrepareFrom(args, env);
    const bool is_here = env.device.device_type == kDLCPU;
    if (!is_here) place_ = env.device;
    if (!is_here && !ready_.variant->weights) return PrepareFrom(args, env);
    ASSIGN_OR_RETURN(DeviceApi * api, ready_.device->api());
    const DevicePlace place{api, place_};
    CinnCallEnv there{};
    there.size = sizeof(there);
    there.device = place.device;
    there.stream = is_here ? nullptr : env.stream;
    return ready_.variant->weights ? CopyWeights(place, there) : CopyArguments(args, place, there);
  }

  int32_t Call(const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
    const LibraryFunction& f = *ready_.function;
    if (ready_.variant->plan) return SetLastError(CallParts(*ready_.variant->plan, called_, args, num_args, env));
    const bool are_given = !ready_.variant->weights;
    if (!are_given && (num_args != f.params + f.results || (args == nullptr && num_args != 0))) {
      return SetLastError(InvalidArgument(f.name, ": expected ", f.params, " arguments and ", f.results,
                                          " results, those of ", f.signature, ", got ",
                                          args == nullptr ? 0 : num_args));
    }
    const bool knows_env = env != nullptr && env->size >= sizeof(CinnCallEnv) && num_args >= 0 && args != nullptr;
    if (knows_env && env->device.device_type == kDLCPU && !ready_.IsOnHost())
      return SetLastError(CallFromHost(args, static_cast<size_t>(num_args), *env));
    auto* const self = static_cast<PreparedState*>(this);
    if (are_given) return ready_.call(self, args, num_args, env);
    std::vector<CinnValue> values(own_.size() + static_cast<size_t>(f.results));
    size_t to = 0;
    for (; to < own_.size(); ++to) {
      if (own_[to] == nullptr) {
        values[to] = *args++;
      } else {
        values[to].tag = kCinnTensor;
        values[to].tensor = own_[to];
      }
    }
    std::copy_n(args, f.results, &values[to]);
    return ready_.call(self, values.data(), static_cast<int32_t>(values.size()), env);
  }

 private:
  // The parts' own.
  Status FillParts(std::span<const CinnValue> args, const CinnCallEnv& env) {
    const LibraryFunction& f = *ready_.function;
    if (args.size() != f.statics.size()) {
      return InvalidArgument(f.name, ": expected ", f.statics.size(), " static arguments, got ", args.size());
    }
    for (size_t i = 0; i < ready_.parts.size(); ++i) {
      const LoadedFile::Ready& part = *ready_.parts[i];
      std::vector<CinnValue> own;
      for (const int at : ready_.variant->plan->parts[i].statics) {
        if (!args.empty()) own.push_back(args[static_cast<size_t>(at)]);
      }
      Self& self = *parts_.emplace_back(std::make_unique<Self>(file_, part));
      RETURN_IF_ERROR(self.Fill(own, env));
      called_.push_back({part.HasSelf() ? &cinn_call_self : part.call, static_cast<PreparedState*>(&self)});
    }
    return absl::OkStatus();
  }

  Status PrepareFrom(std::span<const CinnValue> args, const CinnCallEnv& env) {
    if (ready_.prepare == nullptr) return absl::OkStatus();
    return Prepare(ready_.prepare, args.data(), static_cast<int32_t>(args.size()), env);
  }

  DLTensor TensorOf(const WeightedParam& p) const {
    DLTensor t{};
    t.data = ready_.weights + p.data.offset;
    t.device = {kDLCPU, 0};
    t.dtype = {InfoOf(p.dtype).dlpack_code, static_cast<uint8_t>(InfoOf(p.dtype).bits), 1};
    t.ndim = static_cast<int32_t>(p.shape.size());
    t.shape = const_cast<int64_t*>(p.shape.data());
    t.strides = const_cast<int64_t*>(p.strides.data());
    return t;
  }

  // From the file, where they are prepared.
  Status TakeWeights() {
    std::vector<void*> slots;
    for (const WeightPiece& s : ready_.variant->weights->slots) slots.push_back(ready_.weights + s.offset);
    Borrow(slots);
    for (const WeightedParam& p : ready_.variant->weights->params) {
      const bool is_given = p.kind == WeightedParam::Kind::kGiven;
      // What is packed is not looked at.
      if (!is_given) tensors_.push_back(p.kind == WeightedParam::Kind::kWeight ? TensorOf(p) : DLTensor{});
      own_.push_back(is_given ? nullptr : &tensors_.back());
    }
    return absl::OkStatus();
  }

  // From the file, where they are as they were, to the device, to be prepared there.
  Status CopyWeights(const DevicePlace& place, const CinnCallEnv& env) {
    std::vector<CinnValue> values;
    const std::vector<WeightedParam>& params = ready_.variant->weights->params;
    for (const WeightedParam& p : params) {
      own_.push_back(nullptr);
      if (p.kind == WeightedParam::Kind::kGiven) continue;
      RETURN_IF_ERROR(Keep(TensorOf(p), place, values));
      own_.back() = values.back().tensor;
    }
    RETURN_IF_ERROR(place.api->Synchronize(place.device.device_id, nullptr));
    RETURN_IF_ERROR(PrepareFrom(values, env));
    RETURN_IF_ERROR(place.api->SynchronizeDevice(place.device.device_id));
    auto kept = kept_.begin();
    for (const WeightedParam& p : params) {
      if (p.kind == WeightedParam::Kind::kRaw) kept->Clear();
      kept += p.kind == WeightedParam::Kind::kGiven ? 0 : 1;
    }
    return absl::OkStatus();
  }

  Status CopyArguments(std::span<const CinnValue> args, const DevicePlace& place, const CinnCallEnv& env) {
    const LibraryFunction& f = *ready_.function;
    if (args.size() != f.statics.size()) {
      return InvalidArgument(f.name, ": expected ", f.statics.size(), " static arguments, got ", args.size());
    }
    std::vector<CinnValue> values;
    own_.resize(static_cast<size_t>(f.params));
    for (size_t i = 0; i < args.size(); ++i) {
      const std::string what = Cat(f.name, ": static argument ", i);
      if (args[i].tag != kCinnTensor || args[i].tensor == nullptr) return InvalidArgument(what, ": expected a tensor");
      RETURN_IF_ERROR(Annotate(Keep(*args[i].tensor, place, values), what));
      own_[static_cast<size_t>(f.statics[i])] = values.back().tensor;
    }
    RETURN_IF_ERROR(place.api->Synchronize(place.device.device_id, nullptr));
    return PrepareFrom(values, env);
  }

  Status Keep(const DLTensor& from, const DevicePlace& place, std::vector<CinnValue>& values) {
    KeptTensor& kept = kept_.emplace_back();
    CinnValue& value = values.emplace_back();
    value.tag = kCinnTensor;
    value.tensor = &kept.tensor();
    return kept.Take(place, from);
  }

  Status CallFromHost(const CinnValue* args, size_t num_args, const CinnCallEnv& env) {
    ASSIGN_OR_RETURN(DeviceApi * api, ready_.device->api());
    HostTensorsCall call({api, place_}, env);
    const size_t params = own_.empty() ? static_cast<size_t>(ready_.function->params) : own_.size();
    const bool are_given = !ready_.variant->weights;
    for (size_t i = 0, next = 0; next < num_args || i < params; ++i) {
      DLTensor* own = i < own_.size() ? own_[i] : nullptr;
      const bool is_passed = own == nullptr || are_given;
      if (is_passed && next == num_args) break;  // the function says what it lacks
      const CinnValue value = is_passed ? args[next++] : CinnValue{};
      RETURN_IF_ERROR(Annotate(call.Add(value, i >= params, own), Cat(ready_.function->name, ": argument ", i)));
    }
    return call.Run(ready_.call, static_cast<PreparedState*>(this));
  }

  const std::shared_ptr<const LoadedFile> file_;
  const LoadedFile::Ready& ready_;
  DLDevice place_{ready_.device->type, 0};  // of calls with tensors of the host
  std::vector<DLTensor*> own_;              // by parameter; null: the caller's. Empty: all are
  std::deque<DLTensor> tensors_;
  std::deque<KeptTensor> kept_;
  // Where devices share it:
  std::vector<std::unique_ptr<Self>> parts_;
  std::vector<CalledPart> called_;
};

StatusOr<const LoadedFile::Ready*> FindFunction(const CinnLibrary* library, const char* name) {
  if (library == nullptr || name == nullptr) return InvalidArgument("library and name must not be null");
  return library->file->Find(name);
}

StatusOr<void*> Prepare(const CinnLibrary* library, const char* name, std::span<const CinnValue> args,
                        const CinnCallEnv& env) {
  ASSIGN_OR_RETURN(const LoadedFile::Ready* ready, FindFunction(library, name));
  if (!ready->HasSelf() && ready->prepare == nullptr) return nullptr;
  auto self = std::make_unique<Self>(library->file, *ready);
  RETURN_IF_ERROR(self->Fill(args, env));
  return static_cast<PreparedState*>(self.release());
}

}  // namespace

extern "C" {

int32_t cinn_call_self(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
  if (self == nullptr) return SetLastError(absl::FailedPreconditionError("the function is not prepared"));
  return static_cast<Self*>(static_cast<PreparedState*>(self))->Call(args, num_args, env);
}

int32_t CinnLibraryOpen(const char* path, CinnLibrary** out) {
  if (out != nullptr) *out = nullptr;
  if (path == nullptr || out == nullptr) return SetLastError(InvalidArgument("path and out must not be null"));
  StatusOr<std::unique_ptr<CinnLibrary>> library = Open(path);
  if (!library.ok()) {
    return SetLastError(Status(library.status().code(), Cat("library '", path, "' ", Message(library.status()))));
  }
  *out = library->release();
  return 0;
}

void CinnLibraryClose(CinnLibrary* library) { delete library; }

const char* CinnLibraryDescription(const CinnLibrary* library) { return library->description.c_str(); }

const char* CinnLibraryInfo(const CinnLibrary* library) { return library->json.c_str(); }

CinnFunctionPtr CinnLibraryLookup(const CinnLibrary* library, const char* name) {
  const auto found = FindFunction(library, name);
  if (found.ok()) return (*found)->HasSelf() ? &cinn_call_self : (*found)->call;
  SetLastError(found.status());
  return nullptr;
}

int32_t CinnLibraryDevice(const CinnLibrary* library, const char* name, DLDeviceType* type) {
  const auto found = FindFunction(library, name);
  if (found.ok() && type != nullptr) *type = (*found)->device->type;
  return SetLastError(found.status());
}

int32_t CinnLibraryPrepare(const CinnLibrary* library, const char* name, const CinnValue* args, int32_t num_args,
                           const CinnCallEnv* env, void** self) {
  if (self == nullptr || env == nullptr) return SetLastError(InvalidArgument("env and self must not be null"));
  *self = nullptr;
  if (num_args < 0 || (args == nullptr && num_args != 0)) return SetLastError(InvalidArgument("no args"));
  const StatusOr<void*> made = Prepare(library, name, {args, static_cast<size_t>(num_args)}, *env);
  if (made.ok()) *self = *made;
  return SetLastError(made.status());
}

void CinnLibraryRelease(void* self) { delete static_cast<Self*>(static_cast<PreparedState*>(self)); }

const char* CinnLibraryError(void) { return LastError(); }

void CinnLibrarySetThreads(int64_t threads) { SetNumThreads(threads); }

}  // extern "C"
