// Exported functions (`cinn_compile -o net.so net.graph`) in a program that has no compiler: libcinn_runtime.so, which
// this header describes, loads them and holds what their code calls. Plain C.
//
//   CinnLibrary* lib;
//   if (CinnLibraryOpen("net.so", &lib) != 0) puts(CinnLibraryError());
//   CinnFunctionPtr net = CinnLibraryLookup(lib, "net");
//   void* self;
//   CinnLibraryPrepare(lib, "net", static_args, num_static_args, &env, &self);
//   net(self, args, num_args, &env);                                    // runtime/call.h; from any number of threads
//
// A file may hold its weights. Then there are no static parameters: CinnLibraryPrepare is given none, and calls take
// the others.
//
// A function for another device than the host is always prepared before it is called. Calls take tensors of that
// device, or of the host (env.device is a CPU): these are copied there, to its device 0 or the one it was prepared on,
// results come back, and the call returns when they are here.
//
// A function may be in the file for several targets. The first that can run here is taken, when it is first asked for.
//
// Functions that code of libraries calls by name are those of runtime/global_functions.h.
//
// Functions that can fail return 0 or a negative code, and then CinnLibraryError() of the same thread says why; that
// also holds for functions of libraries. Any thread may call.
#ifndef CINN_LIKE_RUNTIME_LIBRARY_H_
#define CINN_LIKE_RUNTIME_LIBRARY_H_
#include "runtime/call.h"
#include "runtime/global_functions.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CINN_API __attribute__((visibility("default")))

typedef struct CinnLibrary CinnLibrary;

// Reads what the file says of itself and checks it (a library of a format that this runtime knows, undamaged, for
// extensions of the instruction set that this CPU has) and only then loads it. The check finds mistakes and damage: who
// may write the file may have any code run.
CINN_API int32_t CinnLibraryOpen(const char* path, CinnLibrary** out);
// Its functions must not be running nor be called later, but for those that a `self` was prepared for: the file stays
// loaded until that is released. Null is fine.
CINN_API void CinnLibraryClose(CinnLibrary* library);

// For people: format, compiler, and of each function its type, its targets and what their CPUs must have. Lives as long
// as the library.
CINN_API const char* CinnLibraryDescription(const CinnLibrary* library);

// For programs: {"compiler", "functions": [{"name", "params": [{"name", "dtype", "shape": ["n",256], "static": bool} or
// {"name", "symbol": true}], "results": [{"dtype", "shape"}], "symbols": [...], "variants": [{"target", "device",
// "cpu":
// [...]}]}]}. Lives as long as the library.
CINN_API const char* CinnLibraryInfo(const CinnLibrary* library);

// The function of that name; null with an error that names those there are, or what this machine lacks.
CINN_API CinnFunctionPtr CinnLibraryLookup(const CinnLibrary* library, const char* name);

// The kind of device that it runs on: kDLCPU, kDLCUDA, ...
CINN_API int32_t CinnLibraryDevice(const CinnLibrary* library, const char* name, DLDeviceType* type);

// Computes a `self` for calls of the function `name` from its parameters marked `static`: `args` has one value for each
// of them, in order. Any number can be made, each for other weights. Where the weights are in the file there are no
// such parameters, and on a CPU nothing is computed. A function for a CPU that has neither gets null.
CINN_API int32_t CinnLibraryPrepare(const CinnLibrary* library, const char* name, const CinnValue* args,
                                    int32_t num_args, const CinnCallEnv* env, void** self);
// Null is fine.
CINN_API void CinnLibraryRelease(void* self);

// Functions by their parts, without a file of ours. A program that is linked with an object (`cinn_compile
// --emit=object`) and this library calls its functions as those that CinnLibraryLookup gives. Where they launch
// kernels, the program defines `void* <kernel>_kernel_ptr_` for each, and puts there what CinnKernelsFind gives for
// <kernel>.
//
// Loads what `cinn_compile --emit=kernels` wrote, undamaged, on a device: "cuda", "opencl", "hip", or one that the
// program has.
typedef struct CinnKernels CinnKernels;
CINN_API int32_t CinnKernelsLoad(const char* device, const void* bytes, size_t size, CinnKernels** out);
// Null, with an error, where there is no such kernel; else it lives as long as `kernels`.
CINN_API void* CinnKernelsFind(const CinnKernels* kernels, const char* kernel);
// None of them may be running. Null is fine.
CINN_API void CinnKernelsRelease(CinnKernels* kernels);

// The message of this thread's last failure; "" where there was none.
CINN_API const char* CinnLibraryError(void);

// Threads of parallel loops, the caller's included; 0 (at first): as many as the process may use. A library whose
// target says "-num-threads" keeps to that.
CINN_API void CinnLibrarySetThreads(int64_t threads);

#ifdef __cplusplus
}
#endif
#endif  // CINN_LIKE_RUNTIME_LIBRARY_H_
