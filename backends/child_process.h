// Programs of the system, run without a shell: linkers and compilers that turn files into files.
//
//   TemporaryFolder folder;
//   RETURN_IF_ERROR(folder.Make());
//   RETURN_IF_ERROR(folder.Write("a.cu", source));
//   ASSIGN_OR_RETURN(const Ended ended, RunProgram({"nvcc", "-cubin", "-o", folder.File("a.cubin"), ...}));
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"

namespace cinn_like {

// A folder of our own under the system's, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() = default;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  Status Make();
  std::string File(std::string_view name) const { return Cat(path_, "/", name); }
  // Of its files.
  Status Write(std::string_view name, std::string_view bytes) const;
  StatusOr<std::string> Read(std::string_view name) const;

 private:
  std::string path_;
};

// Starts the program, found in PATH, waits, and gives what it wrote to its standard streams. NotFound: there is none.
struct Ended {
  int status = 0;  // as of waitpid
  std::string text;
};
StatusOr<Ended> RunProgram(const std::vector<std::string>& command);

}  // namespace cinn_like
