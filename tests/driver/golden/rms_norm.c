/* C99 by cinn_like, for the C library with libm and nothing else.

     rms_norm(x: bf16[n,64], g: f32[64]) -> cast_1: bf16[n,64], where n in 1..4096

   int32_t fn(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env);

   `args` are the parameters in order, then the results. A tensor is a DLTensor of the host, contiguous where nothing
   else is said, aligned to its elements (tag kCinnTensor); a result overlaps no other tensor, and where it is None (tag
   kCinnNone), env->alloc is asked for its memory. `env` may be null: there is no allocator then. Where it has both
   alloc and free, the workspace comes from there, too, else from malloc. Returns 0, or -3: an argument is not as said
   above (nothing was computed), -8: there is no memory, -9: not prepared, -11: an index or a size is out of range.
   Compile with -D'CINN_ERROR(what, why)=...' to be told the texts of an error. Any number of threads may call it at
   once. With OpenMP (-fopenmp) its loops run in parallel.

   With CINN_DECLARATIONS defined the file is its own header; it follows dlpack/dlpack.h and runtime/call.h where these
   are included, too. */

#include <stdint.h>

#if !defined(CINN_LIKE_RUNTIME_CALL_H_) && !defined(CINN_LIKE_CALL_TYPES)
#define CINN_LIKE_CALL_TYPES
#ifndef DLPACK_DLPACK_H_
typedef struct {
  int32_t device_type; /* 1: the host */
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code; /* 0: signed, 1: unsigned, 2: float, 4: bfloat, 6: bool */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; null: contiguous */
  uint64_t byte_offset;
} DLTensor;
#endif
enum { kCinnNone = 0, kCinnInt = 1, kCinnBool = 2, kCinnFloat = 3, kCinnPointer = 4, kCinnTensor = 7 };
typedef struct CinnValue {
  int32_t tag;
  uint32_t zero; /* 0 */
#ifdef __GNUC__
  __extension__
#endif
      union {
    int64_t i;
    double f;
    void* p;
    DLTensor* tensor;
  };
} CinnValue;
typedef struct CinnCallEnv {
  uint32_t size;   /* sizeof(CinnCallEnv) */
  DLDevice device; /* {1, 0} */
  void* stream;
  void* context; /* of the callbacks */
  /* Sets spec->data: memory of the result `index`, or, of index -1, of a workspace. 0 where it could. May be null. */
  int32_t (*alloc)(void* context, int32_t index, DLTensor* spec);
  void (*free)(void* context, void* data);       /* of a workspace; may be null */
  void (*release)(void* context, int32_t index); /* not called */
} CinnCallEnv;
#endif

#ifdef __cplusplus
extern "C" {
#endif
int32_t rms_norm(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env);
#ifdef __cplusplus
}
#endif

#ifndef CINN_DECLARATIONS
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static inline unsigned int cinn_bits_f32(float a) {
  unsigned int r;
  memcpy(&r, &a, 4);
  return r;
}
static inline float cinn_f32_bits(unsigned int a) {
  float r;
  memcpy(&r, &a, 4);
  return r;
}
static inline float cinn_f32_bf16(unsigned short a) { return cinn_f32_bits((unsigned int)a << 16); }
static inline unsigned short cinn_bf16_f32(float a) {
  const unsigned int b = cinn_bits_f32(a);
  return a != a ? 0x7fc0 : (unsigned short)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
#ifdef _OPENMP
#define cinn_parallel _Pragma("omp parallel for")
#else
#define cinn_parallel
#endif
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define cinn_lanes _Pragma("GCC unroll 1")
#else
#define cinn_lanes
#endif
#ifndef CINN_ERROR
#define CINN_ERROR(what, why) ((void)0)
#endif
static inline int32_t cinn_fail(int32_t code, const char* what, const char* why) {
  CINN_ERROR(what, why);
  (void)what, (void)why;
  return code;
}
typedef struct {
  void* data;
  const char *begin, *end;
} cinn_memory;
static inline int32_t cinn_check_call(const char* what, const CinnValue* args, int32_t num_args, int32_t expected,
                                      const CinnCallEnv* env) {
  if (num_args != expected || (args == 0 && expected != 0)) return cinn_fail(-3, what, "number of arguments");
  if (env != 0 && (env->size < sizeof(CinnCallEnv) || env->device.device_type != 1))
    return cinn_fail(-3, what, "environment of the call");
  return 0;
}
static inline int32_t cinn_symbol(const CinnValue* v, const char* what, int32_t dim, int64_t lo, int64_t hi,
                                  int64_t divisor, int64_t* n) {
  if (dim < 0) {
    if (v->tag != kCinnInt) return cinn_fail(-3, what, "not an integer");
    *n = v->i;
  } else {
    if (v->tag != kCinnTensor || v->tensor == 0) return cinn_fail(-3, what, "not a tensor");
    if (v->tensor->ndim <= dim || v->tensor->shape == 0) return cinn_fail(-3, what, "rank");
    *n = v->tensor->shape[dim];
  }
  if (*n < lo || *n > hi || *n % divisor != 0) return cinn_fail(-3, what, "size outside of its range");
  return 0;
}
static inline int32_t cinn_place(const char* what, int32_t bits, int empty, const DLTensor* t, cinn_memory* m) {
  static char nothing[16];
  m->data = nothing;
  m->begin = m->end = 0;
  if (empty) return 0;
  if (t->data == 0) return cinn_fail(-3, what, "null data");
  m->data = (char*)t->data + t->byte_offset;
  if ((uintptr_t)m->data % (uintptr_t)((bits + 7) / 8) != 0) return cinn_fail(-3, what, "alignment");
  return 0;
}
static inline int32_t cinn_take(const CinnValue* v, const char* what, int32_t code, int32_t bits, int32_t ndim,
                                const int64_t* shape, const int64_t* strides, cinn_memory* m) {
  const DLTensor* t;
  uint64_t compact = 1, last = 0;
  int32_t d, status;
  int empty = 0;
  if (v->tag != kCinnTensor || v->tensor == 0) return cinn_fail(-3, what, "not a tensor");
  t = v->tensor;
  if (t->dtype.code != code || t->dtype.bits != bits || t->dtype.lanes != 1) return cinn_fail(-3, what, "dtype");
  if (t->ndim != ndim || (ndim != 0 && t->shape == 0)) return cinn_fail(-3, what, "rank");
  for (d = 0; d < ndim; ++d) {
    if (t->shape[d] != shape[d] || shape[d] < 0) return cinn_fail(-3, what, "shape");
    empty |= shape[d] == 0;
  }
  if (t->device.device_type != 1 && t->device.device_type != 3) return cinn_fail(-3, what, "device");
  for (d = ndim - 1; d >= 0 && !empty; --d) {
    const int64_t expected = strides != 0 ? strides[d] : (int64_t)compact;
    const int64_t stride = t->strides != 0 ? t->strides[d] : (int64_t)compact;
    if (shape[d] != 1 && stride != expected) return cinn_fail(-3, what, "strides");
    last += ((uint64_t)shape[d] - 1) * (uint64_t)stride;
    compact *= (uint64_t)shape[d];
  }
  status = cinn_place(what, bits, empty, t, m);
  if (status != 0 || empty) return status;
  m->begin = (const char*)m->data;
  m->end = m->begin + (size_t)(last + 1) * (size_t)((bits + 7) / 8);
  return 0;
}
static inline size_t cinn_bytes(int32_t bits, int32_t ndim, const int64_t* shape, int64_t* strides) {
  size_t count = 1;
  int32_t d;
  for (d = ndim - 1; d >= 0; --d) {
    const size_t n = shape[d] > 0 ? (size_t)shape[d] : 1;
    if (strides != 0) strides[d] = (int64_t)count;
    if (shape[d] < 0 || (uint64_t)shape[d] > SIZE_MAX || count > (SIZE_MAX >> 5) / n) return 0;
    count *= n;
  }
  return count * (size_t)((bits + 7) / 8);
}
static inline int32_t cinn_give(const CinnValue* v, const char* what, int32_t code, int32_t bits, int32_t ndim,
                                const int64_t* shape, const int64_t* strides, const CinnCallEnv* env, int32_t index,
                                cinn_memory* m) {
  int64_t sizes[33], steps[33];
  DLTensor t = {0};
  int32_t d;
  int empty = 0;
  if (v->tag != kCinnNone) return cinn_take(v, what, code, bits, ndim, shape, strides, m);
  if (env == 0 || env->alloc == 0) return cinn_fail(-3, what, "None, and the call has no allocator");
  if (cinn_bytes(bits, ndim, shape, steps) == 0) return cinn_fail(-11, what, "size");
  for (d = 0; d < ndim; ++d) {
    sizes[d] = shape[d];
    if (strides != 0) steps[d] = strides[d];
    empty |= shape[d] == 0;
  }
  t.device = env->device;
  t.ndim = ndim;
  t.dtype.code = (uint8_t)code;
  t.dtype.bits = (uint8_t)bits;
  t.dtype.lanes = 1;
  t.shape = sizes;
  t.strides = steps;
  if (env->alloc(env->context, index, &t) != 0) return cinn_fail(-8, what, "allocator of the call");
  return cinn_place(what, bits, empty, &t, m);
}
static inline int32_t cinn_check_apart(const char* what, const cinn_memory* m, int32_t inputs, int32_t count) {
  int32_t i, k;
  for (i = inputs; i < count; ++i) {
    for (k = 0; k < i; ++k) {
      if ((uintptr_t)m[i].begin < (uintptr_t)m[k].end && (uintptr_t)m[k].begin < (uintptr_t)m[i].end)
        return cinn_fail(-3, what, "a result overlaps another tensor");
    }
  }
  return 0;
}

static int32_t rms_norm_k0(const uint16_t* restrict p0, const float* restrict p1, uint16_t* restrict p2, int64_t n0);

static int32_t rms_norm_k0(const uint16_t* restrict p0, const float* restrict p1, uint16_t* restrict p2, int64_t n0) {
  cinn_parallel for (int64_t i0 = 0; i0 < n0; ++i0) {
    float r0[1];
    r0[0LL] = 0.0f;
    float r1[16];
    cinn_lanes for (int l = 0; l < 16; ++l) { r1[l] = 0.0f; }
    for (int64_t i1 = 0; i1 < 4LL; ++i1) {
      cinn_lanes for (int l = 0; l < 16; ++l) {
        const int64_t t0 = i0 * 64LL + i1 * 16LL;
        const float t1 = cinn_f32_bf16(p0[t0 + l]);
        r1[l] = r1[l] + t1 * t1;
      }
    }
    r0[0LL] = r0[0LL] + (r1[0LL] + r1[1LL] + (r1[2LL] + r1[3LL]) + (r1[4LL] + r1[5LL] + (r1[6LL] + r1[7LL])) +
                         (r1[8LL] + r1[9LL] + (r1[10LL] + r1[11LL]) + (r1[12LL] + r1[13LL] + (r1[14LL] + r1[15LL]))));
    float r2[1];
    r2[0LL] = (float)1 / sqrtf(r0[0LL] * 0.015625f);
    for (int64_t i2 = 0; i2 < 4LL; ++i2) {
      cinn_lanes for (int l = 0; l < 16; ++l) {
        const int64_t t2 = i2 * 16LL;
        const int64_t t3 = i0 * 64LL + t2;
        const int64_t t4 = t3 + l;
        const float t5 = r2[0LL];
        p2[t4] = cinn_bf16_f32(cinn_f32_bf16(p0[t4]) * t5 * p1[t2 + l]);
      }
    }
  }
  return 0;
}

int32_t rms_norm(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env) {
  int32_t status = 0;
  cinn_memory m[3];
  int64_t n0 = 0;
  (void)self;
  if ((status = cinn_check_call("rms_norm", args, num_args, 3, env)) != 0) return status;
  if ((status = cinn_symbol(&args[0], "rms_norm: expected n in 1..4096", 0, 1LL, 4096LL, 1LL, &n0)) != 0) return status;
  {
    const int64_t shape[] = {n0, 64LL};
    if ((status = cinn_take(&args[0], "rms_norm: argument 'x': expected bf16[n,64]", 4, 16, 2, shape, 0, &m[0])) != 0)
      return status;
  }
  {
    const int64_t shape[] = {64LL};
    if ((status = cinn_take(&args[1], "rms_norm: argument 'g': expected f32[64]", 2, 32, 1, shape, 0, &m[1])) != 0)
      return status;
  }
  {
    const int64_t shape[] = {n0, 64LL};
    if ((status = cinn_give(&args[2], "rms_norm: result 'cast_1': expected bf16[n,64]", 4, 16, 2, shape, 0, env, 0,
                            &m[2])) != 0)
      return status;
  }
  if ((status = cinn_check_apart("rms_norm", m, 2, 3)) != 0) return status;
  const uint16_t* const p0 = (const uint16_t*)m[0].data;
  const float* const p1 = (const float*)m[1].data;
  uint16_t* const p2 = (uint16_t*)m[2].data;
  if ((status = rms_norm_k0((void*)p0, (void*)p1, (void*)p2, n0)) != 0) goto done;
done:
  return status;
}
#endif
