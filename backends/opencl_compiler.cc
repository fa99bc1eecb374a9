#include "backends/opencl_compiler.h"

#include <set>

#include "backends/c_emitter.h"
#include "backends/kernel_facts.h"
#include "backends/unique_kernels.h"
#include "cinn_like/base/pass_pipeline.h"

namespace cinn_like {
namespace {

using backends::OpenClDialect;
using backends::UniqueKernel;

// "pp8": what the arguments of a kernel are.
std::string ParamsOf(const ir::Func& f) {
  std::string r;
  for (const ir::Param& p : f.params) r += p.buffer != nullptr ? "p" : Cat(BytesOf(p.var->type.dtype));
  if (backends::FindKernelFacts(f).can_fail) r += "r";
  return r.empty() ? "-" : r;
}

class OpenClCompiler : public DeviceCompiler {
 public:
  OpenClCompiler(const Target& target, const CompileOptions& options)
      : dialect_(OpenClDialect(target.subgroup_size)), options_(options) {}

  StatusOr<std::string> EmitSource(const ir::Module& module) override {
    ASSIGN_OR_RETURN(const std::vector<UniqueKernel> kernels, backends::FindUniqueKernels(module, dialect_));
    return Cat(Pragma(), backends::JoinForPeople(dialect_, kernels));
  }

  StatusOr<KernelImages> Compile(const ir::Module& module, std::string_view source) override {
    KernelImages r;
    std::string table, program;
    const auto add = [&](const ir::Func& f, std::string_view entry) {
      table += Cat("// kernel ", entry, " ", ParamsOf(f), "\n");
    };
    if (source.empty()) {
      ASSIGN_OR_RETURN(const std::vector<UniqueKernel> kernels, backends::FindUniqueKernels(module, dialect_));
      std::vector<std::string> texts;
      for (const UniqueKernel& k : kernels) {
        add(*k.func, k.entry);
        texts.push_back(k.text);
        for (const std::string& n : k.names) r.kernels.push_back({n, 0, k.entry});
      }
      program = Cat(Pragma(), backends::JoinSource(dialect_, texts));
    } else {
      ASSIGN_OR_RETURN(const auto kernels, backends::FindKernelsIn(source, module, dialect_));
      std::set<std::string> added;
      for (const backends::KernelInSource& k : kernels) {
        if (added.insert(k.entry).second) add(*k.func, k.entry);
        r.kernels.push_back({k.name, 0, k.entry});
      }
      program = source;
    }
    if (r.kernels.empty()) return r;
    if (options_.dump_source) Dump(options_, "kernels", "cl", program);
    r.images.push_back(Cat(table, IsExact() ? "// exact\n" : "", program));
    return r;
  }

  std::vector<std::string> Forms() const override { return {"opencl"}; }

 private:
  bool IsExact() const { return options_.numerics == "exact"; }
  // a * b + c may else round once.
  std::string_view Pragma() const { return IsExact() ? "#pragma OPENCL FP_CONTRACT OFF\n" : ""; }

  const backends::Dialect& dialect_;
  const CompileOptions options_;
};

}  // namespace

std::unique_ptr<DeviceCompiler> MakeOpenClCompiler(const Target& target, const CompileOptions& options, ObjectCache*) {
  return std::make_unique<OpenClCompiler>(target, options);
}

}  // namespace cinn_like
