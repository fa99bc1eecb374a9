// Functions by name, which who registers them and who calls them share: C, C++ (runtime/function_registry.h), Python
// (cinn_like.register_func, get_global_func) and code that is compiled (extern calls of tensor expressions). Plain C; a
// part of the C API and of libcinn_runtime.so. Each of the two libraries has names of its own.
//
//   int32_t Twice(void* self, const CinnValue* args, int32_t num_args, CinnValue* result) {
//     if (num_args != 1 || args[0].tag != kCinnInt) return CinnGlobalFail("expected an integer");
//     result->tag = kCinnInt;
//     result->i = 2 * args[0].i;
//     return 0;
//   }
//   CinnGlobalRegister("twice", &Twice, NULL, NULL, 0);
//
//   CinnGlobalFunction* twice;
//   if (CinnGlobalFind("twice", &twice) != 0) return -1;
//   CinnGlobalCall(twice, args, 1, &result);
//   CinnGlobalRelease(twice);
//
// Any thread may call; a function is called by whichever thread calls it. Functions that can fail return 0 or a
// negative code, with the message where the library's others leave it (CinnLastError, CinnLibraryError).
#ifndef CINN_LIKE_RUNTIME_GLOBAL_FUNCTIONS_H_
#define CINN_LIKE_RUNTIME_GLOBAL_FUNCTIONS_H_
#include "runtime/call.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CINN_API __attribute__((visibility("default")))

typedef struct CinnGlobalFunction CinnGlobalFunction;

// The name is taken if there is such a function, unless `replace`. `release` (may be null) is called with `self` once
// the name is gone, or another function's, and nobody has or calls the function any more; not where this fails.
CINN_API int32_t CinnGlobalRegister(const char* name, CinnPackedFunctionPtr call, void* self,
                                    void (*release)(void* self), int32_t replace);
// Who has found the function keeps it: it can be called until its release.
CINN_API int32_t CinnGlobalRemove(const char* name);

// The function of that name now, to be released; an error where there is none.
CINN_API int32_t CinnGlobalFind(const char* name, CinnGlobalFunction** out);
CINN_API void CinnGlobalRelease(CinnGlobalFunction* function);  // null is fine

// Arguments are the caller's, tensors and strings included, and the function may use them until it returns. `result`
// (may be null) is None, a number, a bool, a pointer or a string, which is the function's and lasts until this thread
// calls it again; what tensors are to hold is written to arguments. Errors name the function.
CINN_API int32_t CinnGlobalCall(const CinnGlobalFunction* function, const CinnValue* args, int32_t num_args,
                                CinnValue* result);
// What a function that fails returns.
CINN_API int32_t CinnGlobalFail(const char* message);

// The names there are, as JSON: ["twice", ...]. Lasts until this thread's next call.
CINN_API const char* CinnGlobalList(void);

#ifdef __cplusplus
}
#endif
#endif  // CINN_LIKE_RUNTIME_GLOBAL_FUNCTIONS_H_
