#include "runtime/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/last_error.h"
#include "runtime/library_format.h"
#include "runtime/parallel_for.h"
#include "runtime/prepared_state.h"

using namespace cinn_like;

struct CinnLibrary {
  void* handle = nullptr;
  LibraryInfo info;
  std::string description;
  struct Entry {
    CinnFunctionPtr call = nullptr, prepare = nullptr;
  };
  std::vector<Entry> entries;  // of info.functions

  ~CinnLibrary() {
    if (handle != nullptr) dlclose(handle);
  }
};

namespace {

constexpr off_t kMostBytes = off_t{1} << 30;

Status CantRead(int error) { return absl::NotFoundError(Cat("can't be read: ", strerror(error))); }

StatusOr<std::string> ReadFile(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return CantRead(errno);
  const std::unique_ptr<const int, void (*)(const int*)> closer(&file, [](const int* f) { close(*f); });
  struct stat about;
  if (fstat(file, &about) != 0) return CantRead(errno);
  if (!S_ISREG(about.st_mode)) return absl::InvalidArgumentError("is no file");
  if (about.st_size > kMostBytes) return absl::InvalidArgumentError("is too large");
  std::string bytes(static_cast<size_t>(about.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = read(file, &bytes[done], bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CantRead(errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

StatusOr<CinnFunctionPtr> FindSymbol(void* handle, const std::string& name) {
  void* address = dlsym(handle, name.c_str());
  if (address == nullptr) return absl::DataLossError(Cat("has no function '", name, "', which it describes"));
  return reinterpret_cast<CinnFunctionPtr>(address);
}

StatusOr<std::unique_ptr<CinnLibrary>> Open(const char* path) {
  // The loader looks a name without a folder up in places of its own.
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path, nullptr), &free);
  if (real == nullptr) return CantRead(errno);
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(real.get()));
  ASSIGN_OR_RETURN(LibraryFile file, ReadLibrary(bytes));
  RETURN_IF_ERROR(CheckCpu(file.info.cpu_features));
  auto library = std::make_unique<CinnLibrary>();
  library->handle = dlopen(real.get(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) return absl::FailedPreconditionError(Cat("can't be loaded: ", dlerror()));
  // The loader takes a path that it has loaded before for the same file.
  const void* note = dlsym(library->handle, kLibraryNoteSymbol);
  if (note == nullptr || memcmp(note, file.note.data(), file.note.size()) != 0) {
    return absl::FailedPreconditionError("has changed since it was loaded: close the earlier one first");
  }
  library->info = std::move(file.info);
  library->description = library->info.Describe();
  for (const LibraryFunction& f : library->info.functions) {
    CinnLibrary::Entry& entry = library->entries.emplace_back();
    ASSIGN_OR_RETURN(entry.call, FindSymbol(library->handle, f.name));
    if (f.prepare.empty()) continue;
    ASSIGN_OR_RETURN(entry.prepare, FindSymbol(library->handle, f.prepare));
  }
  return library;
}

StatusOr<size_t> FindFunction(const CinnLibrary* library, const char* name) {
  if (library == nullptr || name == nullptr) return InvalidArgument("library and name must not be null");
  const std::vector<LibraryFunction>& functions = library->info.functions;
  std::string known;
  for (size_t i = 0; i < functions.size(); ++i) {
    if (functions[i].name == name) return i;
    known += Cat(i == 0 ? "" : ", ", functions[i].name);
  }
  return absl::NotFoundError(Cat("the library has no function '", name, "'; there are ", known));
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

CinnFunctionPtr CinnLibraryLookup(const CinnLibrary* library, const char* name) {
  const StatusOr<size_t> found = FindFunction(library, name);
  if (found.ok()) return library->entries[*found].call;
  SetLastError(found.status());
  return nullptr;
}

int32_t CinnLibraryPrepare(const CinnLibrary* library, const char* name, const CinnValue* args, int32_t num_args,
                           const CinnCallEnv* env, void** self) {
  if (self == nullptr || env == nullptr) return SetLastError(InvalidArgument("env and self must not be null"));
  *self = nullptr;
  const StatusOr<size_t> found = FindFunction(library, name);
  if (!found.ok()) return SetLastError(found.status());
  const CinnFunctionPtr prepare = library->entries[*found].prepare;
  if (prepare == nullptr) return 0;
  if (num_args < 0 || (args == nullptr && num_args != 0)) return SetLastError(InvalidArgument("no args"));
  auto state = std::make_unique<PreparedState>(library->info.functions[*found].slots, cinn_device_x86_64);
  if (const Status s = state->Prepare(prepare, args, num_args, *env); !s.ok()) return SetLastError(s);
  *self = state.release();
  return 0;
}

void CinnLibraryRelease(void* self) { delete static_cast<PreparedState*>(self); }

const char* CinnLibraryError(void) { return LastError(); }

void CinnLibrarySetThreads(int64_t threads) { SetNumThreads(threads); }

}  // extern "C"
