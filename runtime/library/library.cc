#include "runtime/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

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

StatusOr<CinnFunctionPtr> FindSymbol(void* handle, const std::string& name) {
  void* address = dlsym(handle, name.c_str());
  if (address == nullptr) return absl::DataLossError(Cat("has no function '", name, "', which it describes"));
  return reinterpret_cast<CinnFunctionPtr>(address);
}

StatusOr<std::unique_ptr<CinnLibrary>> Open(const char* path) {
  // The loader looks a name without a folder up in places of its own.
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path, nullptr), &free);
  if (real == nullptr) return CantRead(errno);
  MappedFile mapped;
  RETURN_IF_ERROR(mapped.Map(real.get()));
  ASSIGN_OR_RETURN(LibraryFile read, ReadLibrary(mapped.bytes()));
  RETURN_IF_ERROR(CheckCpu(read.info.cpu_features));
  auto file = std::make_shared<LoadedFile>();
  file->handle = dlopen(real.get(), RTLD_NOW | RTLD_LOCAL);
  if (file->handle == nullptr) return absl::FailedPreconditionError(Cat("can't be loaded: ", dlerror()));
  // The loader takes a path that it has loaded before for the same file.
  const void* note = dlsym(file->handle, kLibraryNoteSymbol);
  if (note == nullptr || memcmp(note, read.note.data(), read.note.size()) != 0) {
    return absl::FailedPreconditionError("has changed since it was loaded: close the earlier one first");
  }
  file->info = std::move(read.info);
  file->weights = static_cast<char*>(dlsym(file->handle, kLibraryWeightsSymbol));
  for (const LibraryFunction& f : file->info.functions) {
    LoadedFile::Entry& entry = file->entries.emplace_back();
    ASSIGN_OR_RETURN(entry.call, FindSymbol(file->handle, f.name));
    if (f.weights && file->weights == nullptr) return absl::DataLossError("has no weights, which it describes");
    if (f.prepare.empty()) continue;
    ASSIGN_OR_RETURN(entry.prepare, FindSymbol(file->handle, f.prepare));
  }
  auto library = std::make_unique<CinnLibrary>();
  library->description = file->info.Describe();
  library->json = file->info.Json();
  library->file = std::move(file);
  return library;
}

// What `self` of a library's function points to, as its code knows it, and what it needs beside.
struct Self : PreparedState {
  Self(std::shared_ptr<const LoadedFile> file, int slots)
      : PreparedState(slots, cinn_device_x86_64), file(std::move(file)) {}
  // Of the function whose weights are in the file: takes them from there.
  void TakeWeights(const LibraryFunction& f, CinnFunctionPtr its_entry) {
    entry = its_entry;
    function = &f;
    std::vector<void*> slots;
    for (const WeightPiece& s : f.weights->slots) slots.push_back(file->weights + s.offset);
    Borrow(slots);
    for (const WeightedParam& p : f.weights->params) {
      DLTensor& t = tensors.emplace_back();  // what is packed is not looked at
      if (p.kind != WeightedParam::Kind::kWeight) continue;
      t.data = file->weights + p.data.offset;
      t.device = {kDLCPU, 0};
      t.dtype = {InfoOf(p.dtype).dlpack_code, static_cast<uint8_t>(InfoOf(p.dtype).bits), 1};
      t.ndim = static_cast<int32_t>(p.shape.size());
      t.shape = const_cast<int64_t*>(p.shape.data());
      t.strides = const_cast<int64_t*>(p.strides.data());
    }
  }
  // The function's, with its weights between what is given.
  int32_t Call(const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
    const LibraryWeights& weights = *function->weights;
    if (num_args != function->params + function->results || (args == nullptr && num_args != 0)) {
      return SetLastError(InvalidArgument(function->name, ": expected ", function->params, " arguments and ",
                                          function->results, " results, those of ", function->signature, ", got ",
                                          args == nullptr ? 0 : num_args));
    }
    std::vector<CinnValue> values(weights.params.size() + static_cast<size_t>(function->results));
    size_t to = 0;
    for (; to < weights.params.size(); ++to) {
      if (weights.params[to].kind == WeightedParam::Kind::kGiven) {
        values[to] = *args++;
      } else {
        values[to].tag = kCinnTensor;
        values[to].tensor = &tensors[to];
      }
    }
    std::copy_n(args, function->results, &values[to]);
    return entry(static_cast<PreparedState*>(this), values.data(), static_cast<int32_t>(values.size()), env);
  }

  const std::shared_ptr<const LoadedFile> file;
  // Of a function whose weights are in the file:
  CinnFunctionPtr entry = nullptr;
  const LibraryFunction* function = nullptr;
  std::vector<DLTensor> tensors;  // a place for each parameter
};

int32_t CallWithWeights(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
  if (self == nullptr) return SetLastError(absl::FailedPreconditionError("the function is not prepared"));
  return static_cast<Self*>(static_cast<PreparedState*>(self))->Call(args, num_args, env);
}

StatusOr<size_t> FindFunction(const CinnLibrary* library, const char* name) {
  if (library == nullptr || name == nullptr) return InvalidArgument("library and name must not be null");
  const std::vector<LibraryFunction>& functions = library->file->info.functions;
  std::string known;
  for (size_t i = 0; i < functions.size(); ++i) {
    if (functions[i].name == name) return i;
    known += Cat(i == 0 ? "" : ", ", functions[i].name);
  }
  return absl::NotFoundError(Cat("the library has no function '", name, "'; there are ", known));
}

StatusOr<void*> Prepare(const CinnLibrary* library, const char* name, std::span<const CinnValue> args,
                        const CinnCallEnv& env) {
  ASSIGN_OR_RETURN(const size_t found, FindFunction(library, name));
  const LibraryFunction& f = library->file->info.functions[found];
  const LoadedFile::Entry& entry = library->file->entries[found];
  auto self = std::make_unique<Self>(library->file, f.slots);
  if (f.weights) {
    if (!args.empty()) {
      return InvalidArgument(f.name, ": its weights are in the file: expected no others, got ", args.size());
    }
    self->TakeWeights(f, entry.call);
  } else if (entry.prepare == nullptr) {
    return nullptr;
  } else {
    RETURN_IF_ERROR(self->Prepare(entry.prepare, args.data(), static_cast<int32_t>(args.size()), env));
  }
  return static_cast<PreparedState*>(self.release());
}

}  // namespace

extern "C" {

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
  const StatusOr<size_t> found = FindFunction(library, name);
  if (found.ok()) {
    return library->file->info.functions[*found].weights ? &CallWithWeights : library->file->entries[*found].call;
  }
  SetLastError(found.status());
  return nullptr;
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
