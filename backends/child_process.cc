#include "backends/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

extern char** environ;

namespace cinn_like {

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Status TemporaryFolder::Make() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "cinn_like_XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(Cat("can't make a folder '", path, "': ", strerror(errno)));
  }
  path_ = std::move(path);
  return absl::OkStatus();
}

Status TemporaryFolder::Write(std::string_view name, std::string_view bytes) const {
  const std::string path = File(name);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(Cat("can't write '", path, "'"));
}

StatusOr<std::string> TemporaryFolder::Read(std::string_view name) const {
  const std::string path = File(name);
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file) return absl::UnavailableError(Cat("can't read '", path, "'"));
  return bytes;
}

StatusOr<Ended> RunProgram(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::UnavailableError(Cat("no pipe: ", strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Ended ended;
  char buffer[4096];
  for (ssize_t n; error == 0 && ((n = read(ends[0], buffer, sizeof(buffer))) > 0 || (n < 0 && errno == EINTR));) {
    if (n > 0) ended.text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  if (error == ENOENT) return absl::NotFoundError(Cat("no program '", command[0], "'"));
  if (error != 0) return absl::UnavailableError(Cat("can't start '", command[0], "': ", strerror(error)));
  while (waitpid(child, &ended.status, 0) < 0 && errno == EINTR) {
  }
  return ended;
}

}  // namespace cinn_like
