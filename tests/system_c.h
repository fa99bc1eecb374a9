// Texts of C -> the system's C compilers -> functions of this process. Under AddressSanitizer the code is instrumented
// as the test is.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cinn_like/base/status.h"

namespace cinn_like {

// Those that are there, of gcc, clang and cc: one a name, no second one for the first's sake.
inline std::vector<std::string> CCompilers() {
  std::vector<std::string> r;
  for (const std::vector<const char*>& names :
       {std::vector<const char*>{"gcc", "cc"}, {"clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15"}}) {
    for (const char* name : names) {
      if (std::system(Cat("command -v ", name, " > /dev/null 2>&1").c_str()) != 0) continue;
      r.push_back(name);
      break;
    }
  }
  return r;
}

#define SKIP_WITHOUT_C_COMPILER() \
  if (::cinn_like::CCompilers().empty()) GTEST_SKIP() << "no gcc, cc or clang"

constexpr char kStrictC[] = "-std=c99 -pedantic -Wall -Wextra -Werror -fPIC";

class SystemC {
 public:
  SystemC() : folder_(std::filesystem::temp_directory_path() / "system_c_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~SystemC() { std::filesystem::remove_all(folder_); }
  SystemC(const SystemC&) = delete;
  SystemC& operator=(const SystemC&) = delete;

  const std::string& folder() const { return folder_; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return folder_ + "/" + name;
  }
  // What is wrong, or empty.
  std::string Run(const std::string& command) const {
    const std::string log = folder_ + "/log";
    if (std::system(Cat(command, " > ", log, " 2>&1").c_str()) == 0) return "";
    std::ifstream in(log);
    return Cat(command, "\n", std::string(std::istreambuf_iterator<char>(in), {}));
  }

  // Compiles texts, several at once, and loads them as one library.
  void Load(const std::string& compiler, const std::vector<std::string>& texts, const std::string& flags) {
    std::string objects, all;
#if defined(__SANITIZE_ADDRESS__)
    const std::string instrument = compiler == "gcc" ? " -fsanitize=address" : "";
#else
    const std::string instrument;
#endif
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string path = Write(Cat("f", i, ".c"), texts[i]), object = Cat(folder_, "/f", i, ".o");
      all += Cat(path, "\n");
      objects += " " + object;
    }
    Write("list", all);
    const std::string compile = Cat(compiler, " ", kStrictC, " ", flags, instrument);
    std::string wrong =
        Run(Cat("xargs -P 2 -I{} -a ", folder_, "/list sh -c '", compile, " -c {} -o $(echo {} | sed s/c$/o/)'"));
    ASSERT_EQ(wrong, "");
    wrong = Run(Cat(compiler, " -shared ", flags, instrument, " -o ", folder_, "/all.so", objects, " -lm"));
    ASSERT_EQ(wrong, "");
    handle_ = dlopen((folder_ + "/all.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle_, nullptr) << dlerror();
  }
  template <class T>
  T* Find(const std::string& name) const {
    void* r = handle_ == nullptr ? nullptr : dlsym(handle_, name.c_str());
    EXPECT_NE(r, nullptr) << name;
    return reinterpret_cast<T*>(r);
  }

 private:
  std::string folder_;
  void* handle_ = nullptr;  // stays: what it has printed may still be read
};

}  // namespace cinn_like
