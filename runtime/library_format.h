// What an exported library (an ELF shared object, runtime/library.h) says of itself, and how that is read from the
// bytes of its file, before any of it is loaded. It lies in a note of the file, which `strip` leaves there:
//
//   note "cinn_like", type kLibraryFormat: checksum | artifact (runtime/artifact.h): compiler, target, cpu, functions
//
// The checksum is over all that is loaded. It finds damage; it is no signature.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"
#include "runtime/library_weights.h"

namespace cinn_like {

// Of the description, and of what code of a library counts on: runtime functions and argument specs.
constexpr uint32_t kLibraryFormat = 2;

// The symbol of the note, and the section that it is in.
constexpr char kLibraryNoteSymbol[] = "cinn_library_note";
constexpr char kLibraryNoteSection[] = ".note.cinn_like";
// That of the weights in it, where there are any.
constexpr char kLibraryWeightsSymbol[] = "cinn_library_weights";
// What loads libraries and what their code calls.
constexpr char kLibraryRuntime[] = "libcinn_runtime.so.0";
// The latter (cmake/runtime_exports.map): runtime functions, and the device that they are handed.
constexpr const char* kLibraryRuntimeSymbols[] = {
    "cinn_bind_args",   "cinn_release_argument", "cinn_alloc_workspace", "cinn_free_workspace", "cinn_parallel_for",
    "cinn_range_error", "cinn_bounds_error",     "cinn_device_x86_64",   "cinn_tvm_ffi_call",   "cinn_call_function"};
// Before a function's name: the same for tvm-ffi (runtime/library/tvm_ffi.cc).
constexpr char kTvmFfiPrefix[] = "__tvm_ffi_";

struct LibraryFunction {
  std::string name;
  std::string signature;  // "@mlp(%x: f32[n,256], %w: f32[256,512] static) where n in 1..4096 -> f32[n,512]"
  std::string interface;  // the same as JSON
  std::string prepare;    // the name of the function that fills `slots` of `self`; may be empty
  int slots = 0;
  int params = 0, results = 0;            // that a call takes
  std::optional<LibraryWeights> weights;  // where they are in the file; then signature and interface have no others
};

struct LibraryInfo {
  std::string compiler;                   // its build id, as text
  std::string target;                     // Target::Print
  std::vector<std::string> cpu_features;  // that code needs, of CpuFeatures()
  std::vector<LibraryFunction> functions;

  // For people: a line for each.
  std::string Describe() const;
  // {"compiler": ..., "target": ..., "cpu": [...], "functions": [interface, ...]}
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
