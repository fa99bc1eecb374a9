#include "backends/metal_compiler.h"

#include "backends/c_emitter.h"
#include "backends/unique_kernels.h"

namespace cinn_like {
namespace {

using backends::MetalDialect;

class MetalCompiler : public DeviceCompiler {
 public:
  explicit MetalCompiler(bool is_exact) : is_exact_(is_exact) {}

  StatusOr<std::string> EmitSource(const ir::Module& module) override {
    ASSIGN_OR_RETURN(const auto kernels, backends::FindUniqueKernels(module, MetalDialect()));
    // a * b + c may else round once.
    return Cat(is_exact_ ? "#pragma METAL fp contract(off)\n" : "", backends::JoinForPeople(MetalDialect(), kernels));
  }

  StatusOr<KernelImages> Compile(const ir::Module&, std::string_view) override {
    return Unimplemented("metal source is compiled on Apple's systems");
  }

  std::vector<std::string> Forms() const override { return {"metal"}; }

 private:
  const bool is_exact_;
};

}  // namespace

std::unique_ptr<DeviceCompiler> MakeMetalCompiler(const Target&, const CompileOptions& options, ObjectCache*) {
  return std::make_unique<MetalCompiler>(options.numerics == "exact");
}

}  // namespace cinn_like
