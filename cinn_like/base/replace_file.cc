#include "cinn_like/base/replace_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace cinn_like {

Status ReplaceFile(const std::string& path, std::string_view bytes) {
  const std::string fresh = Cat(path, ".", getpid(), ".tmp");
  {
    std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (file && rename(fresh.c_str(), path.c_str()) == 0) return absl::OkStatus();
  }
  const std::string why = strerror(errno);
  unlink(fresh.c_str());
  return absl::UnavailableError(Cat("can't write '", path, "': ", why));
}

}  // namespace cinn_like
