// The C API: everything that a host (Python, C, another framework) needs, and all that the shared library exports.
//
// A program is graph text (docs/graph_text.md), or loop text with a schedule (docs/schedules.md), so any language can
// write it. Functions by name, in both directions, are runtime/global_functions.h. Functions return 0 or a negative
// code; CinnLastError() then gives this thread's message. Strings returned by const char* live as long as their object,
// or until the thread's next call where there is none. Every function may be called from any thread.
#ifndef CINN_LIKE_C_API_H_
#define CINN_LIKE_C_API_H_
#include "runtime/call.h"
#include "runtime/global_functions.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CINN_API __attribute__((visibility("default")))

typedef struct CinnFunction CinnFunction;
typedef struct CinnBytes CinnBytes;

CINN_API const char* CinnVersion(void);
CINN_API const char* CinnLastError(void);

// Sets / reads one of our gflags ("cinn_dump_ir", "true"). FLAGS_<name> in the environment is read at load.
CINN_API int32_t CinnSetFlag(const char* name, const char* value);
CINN_API const char* CinnGetFlag(const char* name);  // null: no such flag

// JSON: [{"name": "add", "operands": ["a", "b"], "attributes": ["axis"], "doc": ...}, ...]
CINN_API const char* CinnListOps(void);

// Whether `graph_text` can be compiled as far as its text says: syntax, ops, attributes and types, those included that
// the device of `target` lacks. Where there is no such target or device, compiling says so. Costs microseconds per op.
CINN_API int32_t CinnCheck(const char* graph_text, const char* target);

// Compiles the graph in `graph_text` for `target` ("cpu", "x86_64 -mcpu=native -num-threads=2", "cuda", "cpu; opencl",
// "cuda -arch=sm_90a -libs=cublas") and gives a function that CinnReleaseFunction frees, code included.
CINN_API int32_t CinnCompile(const char* graph_text, const char* target, CinnFunction** out);
CINN_API void CinnReleaseFunction(CinnFunction* fn);
// The same in two halves. CinnBid stops where it is known which ops the target's framework ("-framework=auto") computes
// faster: "lost" of CinnFunctionInfo; the caller may leave those to it and give `fn` up. CinnFinish does the rest,
// which takes the larger part of the time (in another thread, if the caller likes), and may, seldom, find ops lost
// after all, also since a kernel of them can't be compiled; before it there is no entry.
CINN_API int32_t CinnBid(const char* graph_text, const char* target, CinnFunction** out);
CINN_API int32_t CinnFinish(CinnFunction* fn);

// The steps of schedules, as JSON: [{"name": "split", "usage": "LOOP FACTOR... -> NAME NAME...", "on": "loops"}, ...];
// "on" is stages or loops.
CINN_API const char* CinnListSteps(void);
// The functions of loop text's expressions, as JSON: [{"name": "exp", "operands": 1, "result": "same"}, ...]; "result"
// is the type, same as the first operand's, or bool, or the second operand's.
CINN_API const char* CinnListFunctions(void);
// What cinn_opt does: runs the steps of `schedule` on loop text, then `passes` ("lower", "split i 8 -> io ii |
// simplify", on graph text "cse | dce"), and prints what comes out. Either may be empty. Null on an error. `target`:
// what passes may assume of the machine.
CINN_API const char* CinnRunOnText(const char* text, const char* schedule, const char* passes, const char* target);
// Two texts side by side, line by line, under two titles, with a mark between lines that differ. What cinn_opt
// --show=diffs prints of each step.
CINN_API const char* CinnSideBySide(const char* before, const char* after, const char* before_title,
                                    const char* after_title);
// What a caller puts between the source text of kernels and their code: generated text, or `source`, goes through
// `rewrite`, and what comes out to the device's compiler, or to `compile`. Text is that of all kernels, as
// CinnFunctionSource gives it ("cuda", "opencl", "hip", "metal"); of target "c" that of all functions but the entry,
// without header and helpers. A kernel is under the name that the text gives it, or under its own (@add's first is
// add_k0_kernel, in C add_k0), with the parameters of the generated one. What is null does nothing.
//
// Callbacks give their result, or the text of an error and a value other than 0, by CinnGiveBytes. They are called from
// any thread, as often as source or code is made, until CinnReleaseFunction; `source` is copied.
typedef struct CinnSourceHooks {
  uint32_t size;  // sizeof(CinnSourceHooks)
  void* context;  // of the callbacks
  const char* source;
  // `language`: "cuda", "opencl", "hip", "metal", "c".
  int32_t (*rewrite)(void* context, const char* language, const char* source, CinnBytes* out);
  // Of CUDA C++ alone: a cubin, a fatbin or PTX for `arch` ("sm_90a"). `options` are nvcc's, with blanks between them;
  // the first is -cubin, -ptx or -fatbin, what is asked for.
  int32_t (*compile)(void* context, const char* source, const char* arch, const char* options, CinnBytes* out);
} CinnSourceHooks;
CINN_API void CinnGiveBytes(CinnBytes* to, const void* data, size_t size);

// Loop text to a function: one function, whose results are its parameters marked `out`, or several with an entry that
// calls them; scheduled by the steps of `schedule`, which may be empty. It is lowered, so that CinnFunctionSource gives
// "stages", "schedule", "loops" and what code becomes also where the device is missing; CinnFinish makes it callable.
// `hooks` may be null.
CINN_API int32_t CinnLowerModule(const char* loop_text, const char* schedule, const char* target,
                                 const CinnSourceHooks* hooks, CinnFunction** out);

// Entry, `self` and prepare take tensors of this DLDeviceType from now on: of the target's own device, as they do at
// first, or of the host, from where arguments are copied to the device's first, and results back (CinnCallEnv::device
// is the host, too); prepared arguments stay there. Before those are asked for; others are an error.
CINN_API int32_t CinnFunctionTakeTensors(CinnFunction* fn, int32_t device_type);
// The entry and its `self`; see runtime/call.h. Valid until CinnReleaseFunction.
CINN_API CinnFunctionPtr CinnFunctionEntry(const CinnFunction* fn);
CINN_API void* CinnFunctionSelf(const CinnFunction* fn);

// Computes into `self` what depends only on parameters marked `static`. `args` has one value per static parameter, in
// parameter order; call it before the first call and again whenever a static tensor's data or pointer changed
// (never while calls run). A function without static parameters needs no prepare (and then num_args is 0).
// After this the entry still takes every parameter, static ones included, but does not read those it has packed.
CINN_API int32_t CinnFunctionPrepare(CinnFunction* fn, const CinnValue* args, int32_t num_args, const CinnCallEnv* env);
// One more `self` for the same entry, with prepared tensors of its own, for other static tensors beside the first; it
// is prepared like the first and lives as long as the function.
CINN_API void* CinnFunctionAddSelf(CinnFunction* fn);
CINN_API int32_t CinnFunctionPrepareSelf(CinnFunction* fn, void* self, const CinnValue* args, int32_t num_args,
                                         const CinnCallEnv* env);

// A finished function of `fn`, a CinnFunction*, as whoever calls packed functions calls it: CinnGlobalRegister("add",
// CinnFunctionCallPacked, fn, ...) gives it a name, and tvm-ffi takes both, too (TVMFFIFunctionCreate). Arguments may
// end with tensors for the results; else tvm-ffi, where its library is in the process, makes these. Prepared parameters
// are those of CinnFunctionSelf.
CINN_API int32_t CinnFunctionCallPacked(void* fn, const CinnValue* args, int32_t num_args, CinnValue* result);

// Writes functions as one shared library, which runtime/library.h loads without a compiler (docs/libraries.md). Those
// of one name, for several targets, are variants of one: the first that runs there is taken. They may be unfinished
// (CinnBid). `args` has one value per static parameter, of each function the same, whose weights then lie in the file;
// none (num_args 0): who loads it hands them over. An earlier file is replaced as a whole.
CINN_API int32_t CinnExportLibrary(CinnFunction* const* functions, int32_t num_functions, const char* path,
                                   const CinnValue* args, int32_t num_args);

// JSON: {"name", "params": [{"name","dtype","shape":["n",256],"static":bool}], "results": [...], "symbols": [...],
//  "ops": n, "kernels": n, "unique_kernels": n, "cache_hit": bool, "seconds": {"parse":..., "optimize":...,
//  "lower":..., "codegen":..., "load":...}, "peak_rss_bytes": n (of the process), "added_rss_bytes": n (by compiling),
//  "tactics": ["k0: rows_cpu", ...], "refused": ["kernel k0: tactic matmul_gpu: why it did not run", ...],
//  "lost": [[op, our seconds, the framework's], [op, 0, 0, "why our kernel of it can't be compiled"], ...]}
CINN_API const char* CinnFunctionInfo(const CinnFunction* fn);
// What was made on the way: "graph", "stages", "schedule", "loops", "llvm", "asm", "cuda", "ptx", "resources". Null
// where there is none; the text lives until this thread's next call.
CINN_API const char* CinnFunctionSource(const CinnFunction* fn, const char* kind);
// The same, and of how many bytes: those of "object", "kernels" (runtime/library.h), "cubin", "fatbin" and "hsaco" are
// no text.
CINN_API const char* CinnFunctionBytes(const CinnFunction* fn, const char* kind, size_t* size);

#ifdef __cplusplus
}
#endif
#endif  // CINN_LIKE_C_API_H_
