// The source text of kernels, compiled for the CPU by clang with a stand-in for its language's header, and run thread
// by thread against the interpreter: what operators mean, without the device. Barriers and shuffles can't run so.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "backends/c_emitter.h"
#include "backends/child_process.h"
#include "ir/interpreter.h"
#include "tests/backends/kernel_cases.h"

namespace cinn_like::backends {

inline std::string LoopsOf(const std::vector<KernelCase>& cases) {
  std::string text;
  for (size_t k = 0; k < cases.size(); ++k) text += LoopsOf(cases[k], k);
  return text;
}

// `header` is included as <folder/name>. `call` runs the thread t of block b of the kernel $K on the arguments $A.
inline void RunOnCpu(const std::vector<KernelCase>& cases, const Dialect& d, const std::string& folder,
                     const std::string& name, const std::string& header, const std::string& call) {
  const ir::Module module = *ir::ParseModule(LoopsOf(cases));
  StatusOr<std::string> source = EmitModule(module, d);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto pointer = [&](std::string_view is_const, DType t, std::string_view to) {
    return Cat("(", is_const, d.memory_types[static_cast<size_t>(t)], "*)", to);
  };
  for (size_t k = 0; k < cases.size(); ++k) {
    const auto& [in, out, value] = cases[k];
    const std::string args =
        Cat(pointer("const ", in, "x"), ", ", pointer("const ", in, "z"), ", ", pointer("", out, "y"));
    *source += Cat("extern \"C\" void run_k", k, "(void* x, void* z, void* y) {\n  for (unsigned b = 0; b < ",
                   kCount / kThreadsOfBlock, "; ++b)\n    for (unsigned t = 0; t < ", kThreadsOfBlock, "; ++t) ",
                   absl::StrReplaceAll(call, {{"$K", Cat("k", k)}, {"$A", args}}), ";\n}\n");
  }
  TemporaryFolder files;
  ASSERT_TRUE(files.Make().ok());
  std::filesystem::create_directories(files.File(folder));
  ASSERT_TRUE(files.Write(Cat(folder, "/", name), header).ok());
  ASSERT_TRUE(files.Write("k.cc", *source).ok());
  const StatusOr<Ended> ended =
      RunProgram({"clang++-19", "-std=c++20", "-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-w", "-fPIC",
                  "-shared", "-I", files.File(""), "-o", files.File("k.so"), files.File("k.cc")});
  if (!ended.ok()) GTEST_SKIP() << ended.status();  // g++ 12 has no _Float16 in C++
  ASSERT_EQ(ended->status, 0) << ended->text;
  void* library = dlopen(files.File("k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  for (size_t k = 0; k < cases.size(); ++k) {
    const auto run = reinterpret_cast<void (*)(void*, void*, void*)>(dlsym(library, Cat("run_k", k).c_str()));
    ASSERT_NE(run, nullptr);
    const KernelCase& c = cases[k];
    ir::HostArray x = Numbers(c.in, 0), z = Numbers(c.in, 1), got(c.out, {kCount}), want(c.out, {kCount});
    run(x.bytes.data(), z.bytes.data(), got.bytes.data());
    const Status status = ir::Interpret(module, Cat("k", k), {&x, &z, &want}, {});
    ASSERT_TRUE(status.ok()) << status;
    ExpectSame(c, x, z, got, want);
  }
  dlclose(library);
}

}  // namespace cinn_like::backends
