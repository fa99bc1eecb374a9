#include "backends/system_linker.h"

#include <dlfcn.h>

#include <vector>

#include "backends/child_process.h"

namespace cinn_like {
namespace {

// Where this process has its C library from, and its libm: LLVM's linker looks nowhere by itself.
std::string SystemFolder() {
  Dl_info info;
  if (dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info) == 0 || info.dli_fname == nullptr) return "/lib";
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

}  // namespace

StatusOr<std::string> LinkSharedLibrary(const LinkInputs& inputs) {
  TemporaryFolder folder;
  RETURN_IF_ERROR(folder.Make());
  std::vector<std::string> objects;
  for (const std::string& object : inputs.objects) {
    const std::string name = Cat(objects.size(), ".o");
    RETURN_IF_ERROR(folder.Write(name, object));
    objects.push_back(folder.File(name));
  }
  const std::string needed = folder.File("needed.so"), needed_object = folder.File("needed.o"),
                    exports = folder.File("exports.map"), out = folder.File("out.so");
  RETURN_IF_ERROR(folder.Write("needed.o", inputs.needed_symbols));
  std::string map = "{ global:";
  for (const std::string& name : inputs.exported) map += Cat(" \"", name, "\";");
  RETURN_IF_ERROR(folder.Write("exports.map", map + " local: *; };\n"));

  // Compilers hand the linker's options on and know where their own support library is.
  static constexpr const char* kLinkers[] = {"cc", "gcc", "clang", "ld", "ld.lld", "ld.lld-19"};
  for (const std::string linker : kLinkers) {
    const bool is_compiler = !linker.starts_with("ld");
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
      // Of compilers: conversions of 16-bit floats on old CPUs.
      command.push_back(is_compiler ? "-lgcc" : Cat("-L", SystemFolder()));
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
    return folder.Read("out.so");
  }
  return absl::FailedPreconditionError("no linker: there is no cc, gcc, clang, ld or ld.lld in PATH");
}

}  // namespace cinn_like
