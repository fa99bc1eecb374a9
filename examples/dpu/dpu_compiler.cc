// Kernels -> text in the dpu's language -> images. The language is C with the device's instructions; its compiler is
// the system's `cc`, and a vendor's would be called in its place.
#include <filesystem>
#include <fstream>

#include "absl/strings/str_replace.h"
#include "backends/c_emitter.h"
#include "examples/dpu/dpu.h"

namespace dpu {
namespace {
namespace fs = std::filesystem;

using backends::Dialect;

// What the silicon does.
constexpr std::string_view kMachine = R"(
#define DPU_FIRST_ADDRESS 0x00d0000000000000u
#define dpu_scratchpad static _Thread_local _Alignas(64)
static _Thread_local int64_t dpu_block[3];
static _Thread_local const char* dpu_error;

static inline void dpu_mm8(float* c, int c_row, const float* a, int a_row, const float* b, int b_row) {
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j)
      for (int k = 0; k < 8; ++k) c[i * c_row + j] += a[i * a_row + k] * b[k * b_row + j];
}
static inline void dpu_copy8(float* to, const float* from) { memcpy(to, from, 8 * sizeof(float)); }
)";

const Dialect& Language() {
  static const auto* language = [] {
    auto* d = new Dialect(backends::CDialect());
    d->name = "dpu";
    static const std::string header = Cat(d->header, kMachine);
    d->header = header;
    d->kernel = "static void";
    d->axes = {"dpu_block[0]", "dpu_block[1]", "dpu_block[2]", "0", "0", "0"};
    d->shared = "dpu_scratchpad";
    d->parallel = "";
    d->lane_loop = "";
    d->assertion = "{ dpu_error = \"$0\"; return; }";
    d->bounds_error = "{ dpu_error = \"$0: an index out of bounds\"; return; }";
    d->intrinsics = Kind().intrinsics;
    return d;
  }();
  return *language;
}

// run_<kernel>, which a launch calls: all blocks of the grid, one after the other.
std::string RunnerOf(const ir::Func& f) {
  std::string args;
  for (size_t i = 0; i < f.params.size(); ++i) {
    const ir::Param& p = f.params[i];
    const DType t = p.buffer != nullptr ? p.buffer->dtype : p.var->type.dtype;
    const std::string at = Cat("params[", i, "]");
    args += Cat(i == 0 ? "" : ", ", p.buffer != nullptr
                                        ? Cat("(void*)(memory + (*(uint64_t*)", at, " - DPU_FIRST_ADDRESS))")
                                        : Cat("*(", Language().value_types[static_cast<size_t>(t)], "*)", at));
  }
  std::string text =
      Cat("\nconst char* run_", f.name, "(char* memory, void** params, const int64_t* grid) {\n", "  dpu_error = 0;\n");
  for (const int axis : {2, 1, 0}) {
    text += Cat("  for (dpu_block[", axis, "] = 0; dpu_block[", axis, "] < grid[", axis,
                "] && !dpu_error; ++dpu_block[", axis, "])\n");
  }
  return Cat(text, "    ", f.name, "(", args, ");\n  return dpu_error;\n}\n");
}

class Compiler : public DeviceCompiler {
 public:
  StatusOr<std::string> EmitSource(const ir::Module& module) override {
    return backends::EmitModule(module, Language());
  }

  StatusOr<KernelImages> Compile(const ir::Module& module, std::string_view given) override {
    std::string source(given);
    if (given.empty()) {
      ASSIGN_OR_RETURN(source, EmitSource(module));
    }
    KernelImages r;
    for (const ir::Func& f : module.funcs) {
      if (f.kind != ir::FuncKind::kKernel) continue;
      source += RunnerOf(f);
      r.kernels.push_back({f.name, 0, "run_" + f.name});
    }
    if (r.kernels.empty()) return r;
    ASSIGN_OR_RETURN(r.images.emplace_back(), CompileC(source));
    return r;
  }

  std::vector<std::string> Forms() const override { return {"dpu"}; }

 private:
  // Nothing is contracted: a product and a sum round as two operations, as the device's do.
  static StatusOr<std::string> CompileC(const std::string& source) {
    std::string folder = fs::temp_directory_path() / "dpu_XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return absl::UnavailableError(Cat("dpu: can't make '", folder, "'"));
    std::ofstream(folder + "/k.c") << source;
    const int code = system(Cat("cc -std=c11 -w -O1 -ffp-contract=off -fPIC -shared -o ", folder, "/k.so ", folder,
                                "/k.c -lm > ", folder, "/log 2>&1")
                                .c_str());
    const auto read = [&](const char* name) {
      std::ifstream file(folder + name, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    const std::string log = read("/log"), image = read("/k.so");
    fs::remove_all(folder);
    if (code != 0) return InvalidArgument("dpu: cc says\n", log, "of\n", source);
    return image;
  }
};

}  // namespace

std::unique_ptr<DeviceCompiler> MakeCompiler() { return std::make_unique<Compiler>(); }

}  // namespace dpu
