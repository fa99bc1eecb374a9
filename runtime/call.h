// The calling convention: what a framework passes to a compiled function. Plain C, stable.
//
//   int32_t fn(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env);
//
// `args` are the graph's parameters in order (tensors; symbol values may follow), then its results. A result is either
// a tensor to write into (checked like an argument; it overlaps no other tensor of the call) or None, in which case
// env->alloc is asked for it. Returns 0, or a negative code, and then CinnLastError() of the same thread says what was
// wrong, naming the argument; -OutOfRange (-11) where an index is, or sizes leave no room.
// `self` holds what `<fn>_prepare` computed; it is read-only during calls, so any number of threads may call.
#ifndef CINN_LIKE_RUNTIME_CALL_H_
#define CINN_LIKE_RUNTIME_CALL_H_
#include <dlpack/dlpack.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Tags of CinnValue; the numbers are tvm-ffi's.
enum {
  kCinnNone = 0,
  kCinnInt = 1,
  kCinnBool = 2,  // `i` is 0 or 1
  kCinnFloat = 3,
  kCinnPointer = 4,
  kCinnTensor = 7,
  kCinnString = 8  // ends with 0; the caller's, as tensors are
};

// 16 bytes, laid out as tvm-ffi's TVMFFIAny.
typedef struct CinnValue {
  int32_t tag;
  uint32_t zero;  // 0
  union {
    int64_t i;
    double f;
    void* p;
    DLTensor* tensor;
    const char* text;
  };
} CinnValue;

// The caller's side of one call. `size` is sizeof(CinnCallEnv) as the caller knew it.
typedef struct CinnCallEnv {
  uint32_t size;
  DLDevice device;
  void* stream;   // CUstream for CUDA; null is the default stream
  void* context;  // passed back to the callbacks
  // Memory of the result `index` (>= 0; `spec` gives dtype, shape, strides, device; the caller sets spec->data and
  // may keep spec's shape only during the call) or of a workspace (index -1; one-dimensional u8). 0 on success.
  // At least 64-byte (CPU) / 256-byte (CUDA) aligned. Null: results must be given.
  int32_t (*alloc)(void* context, int32_t index, DLTensor* spec);
  // Gives back a workspace after the work that uses it has been enqueued on `stream`. Null: workspaces come from the
  // device's own pool instead, which on a CPU keeps their pages from call to call.
  void (*free)(void* context, void* data);
  // Argument `index` was passed as donated and is used no more. May be null.
  void (*release)(void* context, int32_t index);
} CinnCallEnv;

typedef int32_t (*CinnFunctionPtr)(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env);

// A packed call, laid out as tvm-ffi's TVMFFISafeCallType: any values in, one out, which the caller sets to None first.
// Returns 0, or another code after it has said what was wrong.
typedef int32_t (*CinnPackedFunctionPtr)(void* self, const CinnValue* args, int32_t num_args, CinnValue* result);

#ifdef __cplusplus
}
#endif
#endif  // CINN_LIKE_RUNTIME_CALL_H_
