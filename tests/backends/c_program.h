// Loop text -> C text -> the system's C compiler -> functions of this process.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backends/c_emitter.h"

namespace cinn_like::backends {

class CProgram {
 public:
  explicit CProgram(const std::string& loops, const std::string& flags = "-O1") {
    auto m = ir::ParseModule(loops);
    EXPECT_TRUE(m.ok()) << m.status() << "\n" << loops;
    if (!m.ok()) return;
    auto text = EmitModule(*m, CDialect());
    EXPECT_TRUE(text.ok()) << text.status();
    if (!text.ok()) return;
    source_ = *text;
    std::string folder = std::filesystem::temp_directory_path() / "c_program_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    std::ofstream(folder + "/p.c") << *text;
    const std::string cc =
        Cat("cc -std=c11 -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-parameter -Wno-unused-variable -fPIC "
            "-shared ",
            flags, " -o ", folder, "/p.so ", folder, "/p.c -lm");
    EXPECT_EQ(system(cc.c_str()), 0) << cc << "\n" << *text;
    handle_ = dlopen((folder + "/p.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << dlerror();
    std::filesystem::remove_all(folder);
  }
  template <class... Args>
  int32_t Call(const std::string& name, Args... args) const {
    auto fn = handle_ == nullptr ? nullptr : reinterpret_cast<int32_t (*)(Args...)>(dlsym(handle_, name.c_str()));
    EXPECT_NE(fn, nullptr) << name;
    return fn == nullptr ? -1 : fn(args...);
  }
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  void* handle_ = nullptr;
};

}  // namespace cinn_like::backends
