// What an exported library (an ELF shared object, runtime/library.h) says of itself, and how that is read from the
// bytes of its file, before any of it is loaded. It lies in a note of the file, which `strip` leaves there:
//
//   note "cinn_like", type kLibraryFormat: checksum | artifact (runtime/artifact.h): compiler, functions and variants
//
// The checksum is over all that is loaded. It finds damage; it is no signature.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"
#include "runtime/call_parts.h"
#include "runtime/library_weights.h"

namespace cinn_like {

// Of the description, and of what code of a library counts on: runtime functions and argument specs.
constexpr uint32_t kLibraryFormat = 3;

// The symbol of the note, and the section that it is in.
constexpr char kLibraryNoteSymbol[] = "cinn_library_note";
constexpr char kLibraryNoteSection[] = ".note.cinn_like";
// Before a number: those of blocks of weights, of sets of kernels (an artifact of KernelImages each) and, for each
// variant with kernels, of what its host code launches: an array of pointers, in the order of KernelImages::kernels,
// which the loader fills.
constexpr char kLibraryWeightsSymbol[] = "cinn_library_weights_";
constexpr char kLibraryKernelsSymbol[] = "cinn_library_kernels_";
constexpr char kLibraryPointersSymbol[] = "cinn_library_pointers_";
// What loads libraries and what their code calls (cmake/runtime_exports.map).
constexpr char kLibraryRuntime[] = "libcinn_runtime.so.0";
// The latter, beside base/runtime_calls.def: devices that it has itself, and these.
constexpr const char* kLibraryDevices[] = {"x86_64", "cuda", "opencl", "hip"};
constexpr char kTvmFfiCall[] = "cinn_tvm_ffi_call";
constexpr char kCallSelf[] = "cinn_call_self";
// Before a function's name: the same for tvm-ffi (runtime/library/tvm_ffi.cc).
constexpr char kTvmFfiPrefix[] = "__tvm_ffi_";

// Kernels in a file, by the number of their symbol.
struct LibraryKernels {
  int number = 0;
  int64_t bytes = 0;  // of the artifact
};

// A function as it was compiled for one target.
struct LibraryVariant {
  std::string target;                     // Target::Print
  std::string device;                     // its name: "cuda"
  std::vector<std::string> cpu_features;  // that host code needs, of CpuFeatures()
  std::string symbol;                     // of its code
  std::string prepare;                    // of the code that fills `slots` of `self`; may be empty
  int slots = 0;
  int pointers = -1;                    // the number of their symbol; -1: there are no kernels
  std::vector<LibraryKernels> kernels;  // the same ones in several forms: the first that the device takes is loaded
  int weights_block = 0;                // the number of its symbol
  std::optional<LibraryWeights> weights = std::nullopt;  // where they are in the file
  // Of a function that several devices share: it has no code but that of its parts, functions of the file which nobody
  // else calls, each of one variant.
  std::optional<PartsPlan> plan = std::nullopt;
};

struct LibraryFunction {
  std::string name;
  std::string signature;        // "@mlp(%x: f32[n,256], %w: f32[256,512] static) where n in 1..4096 -> f32[n,512]"
  std::string interface;        // the same as members of a JSON object
  int params = 0, results = 0;  // that a call takes: those of the signature, which has no weights that are in the file
  std::vector<int> statics;     // the positions of those marked static among them
  std::vector<LibraryVariant> variants;  // one at least; the first that can run is taken
  bool is_part = false;                  // of another
};

struct LibraryInfo {
  std::string compiler;  // its build id, as text
  std::vector<LibraryFunction> functions;

  // For people: a line for each.
  std::string Describe() const;
  // {"compiler": ..., "functions": [{interface, "variants": [{"target": ..., "device": ..., "cpu": [...]}]}]}
  std::string Json() const;
};

// The note, yet without its checksum.
std::string EncodeLibraryNote(const LibraryInfo& info);

// Puts the checksum into a linked file.
Status SealLibrary(std::string& file);

struct LibraryFile {
  LibraryInfo info;
  std::string note;
};
// Errors say what is wrong with the file: no ELF file, cut short, not exported, of another format, damaged.
StatusOr<LibraryFile> ReadLibrary(std::string_view file);

// FailedPrecondition names what this machine lacks of `features` and what it has.
Status CheckCpu(const std::vector<std::string>& features);

}  // namespace cinn_like
