#include "backends/system_linker.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

extern char** environ;

namespace cinn_like {
namespace {

// A folder of our own under the system's, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() = default;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Status Make() {
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / "cinn_like_XXXXXX").string();
    if (error || mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(Cat("can't make a folder '", path, "': ", strerror(errno)));
    }
    path_ = std::move(path);
    return absl::OkStatus();
  }
  std::string File(std::string_view name) const { return Cat(path_, "/", name); }

 private:
  std::string path_;
};

Status Write(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(Cat("can't write '", path, "'"));
}

StatusOr<std::string> Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file) return absl::UnavailableError(Cat("can't read '", path, "'"));
  return bytes;
}

// Starts the program, found in PATH, waits, and gives what it wrote to its standard streams. NotFound: there is none.
struct Ended {
  int status = 0;
  std::string text;
};
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

}  // namespace

StatusOr<std::string> LinkSharedLibrary(const LinkInputs& inputs) {
  TemporaryFolder folder;
  RETURN_IF_ERROR(folder.Make());
  std::vector<std::string> objects;
  for (const std::string& object : inputs.objects) {
    objects.push_back(folder.File(Cat(objects.size(), ".o")));
    RETURN_IF_ERROR(Write(objects.back(), object));
  }
  const std::string needed = folder.File("needed.so"), needed_object = folder.File("needed.o"),
                    exports = folder.File("exports.map"), out = folder.File("out.so");
  RETURN_IF_ERROR(Write(needed_object, inputs.needed_symbols));
  std::string map = "{ global:";
  for (const std::string& name : inputs.exported) map += Cat(" \"", name, "\";");
  RETURN_IF_ERROR(Write(exports, map + " local: *; };\n"));

  // Compilers hand the linker's options on and know where their own support library is.
  static constexpr const char* kLinkers[] = {"cc", "gcc", "clang", "ld"};
  for (const std::string linker : kLinkers) {
    const bool is_compiler = linker != "ld";
    const auto link = [&](const std::string& result, const std::vector<std::string>& files,
                          const std::vector<std::string>& options,
                          const std::vector<std::string>& libraries) -> StatusOr<Ended> {
      std::vector<std::string> command = {linker, "-shared", "-o", result};
      if (is_compiler) command.push_back("-nostdlib");
      for (const std::string& option : options) {
        if (is_compiler) command.push_back("-Xlinker");
        command.push_back(option);
      }
      command.insert(command.end(), files.begin(), files.end());
      command.insert(command.end(), libraries.begin(), libraries.end());
      if (is_compiler) command.push_back("-lgcc");  // conversions of 16-bit floats on old CPUs
      return RunProgram(command);
    };
    StatusOr<Ended> ended = link(needed, {needed_object}, {Cat("-soname=", inputs.needed)}, {});
    if (absl::IsNotFound(ended.status())) continue;
    if (ended.ok() && ended->status == 0) {
      std::vector<std::string> files = objects;
      files.push_back(needed);
      ended = link(out, files,
                   {Cat("--version-script=", exports), "-rpath=$ORIGIN", "--as-needed", "--build-id=none", "-zdefs",
                    "-znow", "-zrelro", "-znoexecstack"},
                   {"-l:libm.so.6", "-l:libc.so.6"});
    }
    RETURN_IF_ERROR(ended.status());
    if (ended->status != 0) return Internal("linker '", linker, "' failed: ", ended->text);
    return Read(out);
  }
  return absl::FailedPreconditionError("no linker: there is no cc, gcc, clang or ld in PATH");
}

}  // namespace cinn_like
