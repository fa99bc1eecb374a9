// A library file that the system has loaded, after its checks.
#pragma once
#include <dlfcn.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/call.h"
#include "runtime/library.h"
#include "runtime/library_format.h"

namespace cinn_like {

// Its last user unloads it.
struct LoadedFile {
  void* handle = nullptr;
  LibraryInfo info;
  char* weights = nullptr;
  struct Entry {
    CinnFunctionPtr call = nullptr, prepare = nullptr;
  };
  std::vector<Entry> entries;  // of info.functions

  LoadedFile() = default;
  LoadedFile(const LoadedFile&) = delete;
  LoadedFile& operator=(const LoadedFile&) = delete;
  ~LoadedFile() {
    if (handle != nullptr) dlclose(handle);
  }
};

}  // namespace cinn_like

struct CinnLibrary {
  std::shared_ptr<const cinn_like::LoadedFile> file;
  std::string description, json;
};
