// Compiles loop text for this machine and calls internal functions with plain pointers.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "backends/compiler.h"
#include "gtest/gtest.h"
#include "ir/stmt.h"
#include "runtime/call.h"

namespace cinn_like {

inline std::unique_ptr<Compiler> CompileForTest(const ir::Module& module, const std::string& target = "cpu",
                                                const CompileOptions& options = {}) {
  auto parsed = Target::Parse(target);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  auto compiler = Compiler::Create(*parsed, options);
  EXPECT_TRUE(compiler.ok()) << compiler.status();
  const Status s = (*compiler)->Build(module);
  EXPECT_TRUE(s.ok()) << s;
  return *std::move(compiler);
}

inline std::unique_ptr<Compiler> CompileForTest(const std::string& text, const std::string& target = "cpu",
                                                const CompileOptions& options = {}) {
  auto module = ir::ParseModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return CompileForTest(*module, target, options);
}

inline CinnCallEnv HostEnv() {
  CinnCallEnv env = {};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  return env;
}

// An internal function of pointers and integers.
template <class... Args>
int32_t CallInternal(const Compiler& compiler, const std::string& name, Args... args) {
  auto* f = reinterpret_cast<int32_t (*)(Args..., const CinnCallEnv*)>(compiler.Lookup(name));
  EXPECT_NE(f, nullptr) << name;
  if (f == nullptr) return -1;
  const CinnCallEnv env = HostEnv();
  return f(args..., &env);
}

}  // namespace cinn_like
