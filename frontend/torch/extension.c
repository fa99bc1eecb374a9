/* The hot path of a compiled subgraph: PyTorch tensors in, PyTorch tensors out, through the frameworks' DLPack exchange
 * table (`__dlpack_c_exchange_api__`), so that this file knows no framework and one stable-ABI binary serves every
 * CPython.
 *
 *   bind(entry, self, prepare, add_self, release, function, last_error, tensor_type, device_type, device_id,
 *        num_tensors, num_symbols, num_results, statics)
 *   -> a callable of num_tensors tensors and num_symbols ints, which gives a tuple of tensors; it owns `function`
 *
 * What depends on static tensors alone is computed before the first call with them, and again whenever one's data
 * pointer or version changed, when no call that reads it is running. Several sets of static tensors, of instances of a
 * module that share one graph, are kept prepared side by side. The GIL is given up while code runs. */
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/call.h"

/* DLPack 1.x, declared here because the installed header may be older. */
typedef struct {
  uint32_t major, minor;
} Version;

typedef struct ManagedTensor {
  Version version;
  void* manager_ctx;
  void (*deleter)(struct ManagedTensor* self);
  uint64_t flags;
  DLTensor tensor;
} ManagedTensor;

typedef struct ExchangeApi {
  Version version;
  struct ExchangeApi* prev_api;
  int (*allocate)(DLTensor* prototype, ManagedTensor** out, void* error_ctx,
                  void (*set_error)(void* error_ctx, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensor** out);
  int (*managed_to_object)(ManagedTensor* tensor, void** out_object);
  int (*tensor_from_object)(void* object, DLTensor* out);
  int (*current_stream)(DLDeviceType type, int32_t id, void** out_stream);
} ExchangeApi;

typedef int32_t (*PrepareFn)(void* function, void* self, const CinnValue* args, int32_t num_args,
                             const CinnCallEnv* env);
typedef void* (*AddSelfFn)(void* function);
typedef void (*ReleaseFn)(void* function);
typedef const char* (*LastErrorFn)(void);

typedef struct {
  void* data;
  int64_t version; /* 0 for inference tensors, which have none */
} StaticKey;

/* What was prepared for one set of static tensors. Fields change only under the GIL. */
typedef struct {
  void* self;
  StaticKey* keys;    /* that it is prepared for */
  PyObject** tensors; /* weak references to them */
  int prepared, preparing;
  int64_t running, last_use;
} State;

enum { kMaxStates = 64, kMaxWorkspaces = 16, kMessageSize = 512 };

typedef struct {
  CinnFunctionPtr entry;
  void* self;
  PrepareFn prepare;
  AddSelfFn add_self;
  ReleaseFn release;
  void* function;
  LastErrorFn last_error;
  const ExchangeApi* api;
  PyTypeObject* tensor_type;
  DLDevice device;
  int32_t num_tensors, num_symbols, num_results, num_statics;
  int32_t* statics; /* their arguments */
  State* states[kMaxStates];
  int32_t num_states;
  int64_t uses;
} Callable;

typedef struct {
  Callable* fn;
  ManagedTensor** results;
  ManagedTensor* workspaces[kMaxWorkspaces];
  char message[kMessageSize];
} Call;

static PyObject* version_name; /* "_version" */

static void KeepMessage(void* context, const char* kind, const char* message) {
  Call* call = context;
  snprintf(call->message, kMessageSize, "%s: %s", kind, message);
}

static int32_t Allocate(void* context, int32_t index, DLTensor* spec) {
  Call* call = context;
  ManagedTensor** place = NULL;
  if (index >= 0 && index < call->fn->num_results) place = &call->results[index];
  for (int i = 0; index < 0 && i < kMaxWorkspaces && !place; ++i) {
    if (!call->workspaces[i]) place = &call->workspaces[i];
  }
  if (!place) {
    KeepMessage(call, "alloc", "too many workspaces");
    return -1;
  }
  if (*place) (*place)->deleter(*place);
  *place = NULL;
  if (call->fn->api->allocate(spec, place, call, KeepMessage) != 0) return -1;
  spec->data = (char*)(*place)->tensor.data + (*place)->tensor.byte_offset;
  return 0;
}

static void Free(void* context, void* data) {
  Call* call = context;
  for (int i = 0; i < kMaxWorkspaces; ++i) {
    ManagedTensor* w = call->workspaces[i];
    if (w && (char*)w->tensor.data + w->tensor.byte_offset == (char*)data) {
      w->deleter(w);
      call->workspaces[i] = NULL;
      return;
    }
  }
}

static void DropAll(Call* call) {
  for (int32_t i = 0; i < call->fn->num_results; ++i) {
    if (call->results[i]) call->results[i]->deleter(call->results[i]);
  }
  for (int i = 0; i < kMaxWorkspaces; ++i) {
    if (call->workspaces[i]) call->workspaces[i]->deleter(call->workspaces[i]);
  }
}

enum { kOutOfRange = -11 }; /* an index, or sizes that leave no room */

static void Raise(Call* call, int32_t code) {
  const char* message = call->message[0] ? call->message : call->fn->last_error();
  PyErr_SetString(code == kOutOfRange ? PyExc_IndexError : PyExc_RuntimeError,
                  message && message[0] ? message : "cinn_like: the call failed without a message");
}

static void Sleep(void) {
  Py_BEGIN_ALLOW_THREADS;
  usleep(20);
  Py_END_ALLOW_THREADS;
}

/* The pointers and versions of this call's static tensors; false on error. */
static int ReadKeys(const Callable* fn, PyObject* const* args, const DLTensor* tensors, StaticKey* keys) {
  for (int32_t k = 0; k < fn->num_statics; ++k) {
    const int32_t i = fn->statics[k];
    keys[k].data = (char*)tensors[i].data + tensors[i].byte_offset;
    keys[k].version = 0;
    PyObject* version = PyObject_GetAttr(args[i], version_name);
    if (version) {
      keys[k].version = PyLong_AsLongLong(version);
      Py_DECREF(version);
    } else if (PyErr_ExceptionMatches(PyExc_RuntimeError)) {
      PyErr_Clear();
    } else {
      return 0;
    }
  }
  return 1;
}

static void DropTensors(const Callable* fn, State* state) {
  for (int32_t k = 0; k < fn->num_statics; ++k) Py_CLEAR(state->tensors[k]);
}

static void FreeState(const Callable* fn, State* state) {
  if (!state) return;
  if (state->tensors) DropTensors(fn, state);
  free(state->tensors);
  free(state->keys);
  free(state);
}

static State* AddState(Callable* fn) {
  State* state = calloc(1, sizeof(State));
  if (state) {
    state->keys = calloc((size_t)fn->num_statics, sizeof(StaticKey));
    state->tensors = calloc((size_t)fn->num_statics, sizeof(PyObject*));
    state->self = fn->num_states ? fn->add_self(fn->function) : fn->self;
  }
  if (!state || !state->keys || !state->tensors || !state->self) {
    FreeState(fn, state);
    PyErr_NoMemory();
    return NULL;
  }
  return fn->states[fn->num_states++] = state;
}

/* 1 if it was prepared for these very tensor objects, whatever they hold now; -1 if one of its tensors is gone. */
static int IsFor(const Callable* fn, const State* state, PyObject* const* args) {
  int same = 1;
  for (int32_t k = 0; k < fn->num_statics; ++k) {
    PyObject* tensor = state->tensors[k] ? PyWeakref_GetObject(state->tensors[k]) : Py_None;
    if (tensor == Py_None) return -1;
    same &= tensor == args[fn->statics[k]];
  }
  return same;
}

/* The state that is prepared for `keys`, or being prepared for them; else the one to prepare: that of the same tensors,
 * one whose tensors are gone, a new one, the one that was not used for the longest time. NULL on error. */
static State* ChooseState(Callable* fn, PyObject* const* args, const StaticKey* keys) {
  State *gone = NULL, *oldest = NULL;
  for (int32_t i = 0; i < fn->num_states; ++i) {
    State* state = fn->states[i];
    const int known = state->prepared || state->preparing;
    if (known && memcmp(state->keys, keys, (size_t)fn->num_statics * sizeof(StaticKey)) == 0) return state;
  }
  for (int32_t i = 0; i < fn->num_states; ++i) {
    State* state = fn->states[i];
    const int is_for = IsFor(fn, state, args);
    if (is_for > 0) return state;
    if (is_for < 0 && !state->running && !state->preparing) gone = state;
    if (!oldest || state->last_use < oldest->last_use) oldest = state;
  }
  if (gone) return gone;
  return fn->num_states < kMaxStates ? AddState(fn) : oldest;
}

static int Prepare(Callable* fn, State* state, PyObject* const* args, const CinnValue* values, const StaticKey* keys,
                   const CinnCallEnv* env) {
  CinnValue* statics = calloc((size_t)fn->num_statics, sizeof(CinnValue));
  if (!statics) {
    PyErr_NoMemory();
    return -1;
  }
  DropTensors(fn, state);
  for (int32_t k = 0; k < fn->num_statics; ++k) {
    statics[k] = values[fn->statics[k]];
    state->keys[k] = keys[k];
    state->tensors[k] = PyWeakref_NewRef(args[fn->statics[k]], NULL);
  }
  PyErr_Clear(); /* of what can't be referred to weakly: as if it were gone */
  int32_t rc;
  state->prepared = 0;
  state->preparing = 1;
  Py_BEGIN_ALLOW_THREADS;
  rc = fn->prepare(fn->function, state->self, statics, fn->num_statics, env);
  Py_END_ALLOW_THREADS;
  state->preparing = 0;
  state->prepared = rc == 0;
  free(statics);
  return rc;
}

/* The state that is prepared for this call's static tensors, or NULL on error. */
static State* FindState(Callable* fn, PyObject* const* args, const CinnValue* values, const StaticKey* keys,
                        const CinnCallEnv* env, Call* call) {
  for (;;) {
    State* state = ChooseState(fn, args, keys);
    if (!state) return NULL;
    const int same = memcmp(state->keys, keys, (size_t)fn->num_statics * sizeof(StaticKey)) == 0;
    if (state->prepared && same) {
      state->last_use = ++fn->uses;
      return state;
    }
    if (state->running || state->preparing) {
      Sleep();
    } else {
      const int32_t code = Prepare(fn, state, args, values, keys, env);
      if (code == 0) continue;
      if (!PyErr_Occurred()) Raise(call, code);
      return NULL;
    }
  }
}

static PyObject* Finish(Call* call) {
  const int32_t n = call->fn->num_results;
  PyObject* tuple = PyTuple_New(n);
  for (int32_t i = 0; tuple && i < n; ++i) {
    void* object = NULL;
    ManagedTensor* managed = call->results[i];
    call->results[i] = NULL;
    if (!managed) {
      PyErr_Format(PyExc_RuntimeError, "cinn_like: result %d was not allocated", (int)i);
      Py_CLEAR(tuple);
    } else if (call->fn->api->managed_to_object(managed, &object) != 0) {
      Py_CLEAR(tuple);
    } else {
      PyTuple_SetItem(tuple, i, object);
    }
  }
  return tuple;
}

static PyObject* Run(Callable* fn, PyObject* const* args, CinnValue* values, DLTensor* tensors, Call* call) {
  for (int32_t i = 0; i < fn->num_tensors; ++i) {
    if (!PyType_IsSubtype(Py_TYPE(args[i]), fn->tensor_type)) {
      return PyErr_Format(PyExc_TypeError, "argument %d is no tensor", (int)i);
    }
    if (fn->api->tensor_from_object(args[i], &tensors[i]) != 0) return NULL;
    values[i].tag = kCinnTensor;
    values[i].tensor = &tensors[i];
  }
  for (int32_t i = fn->num_tensors; i < fn->num_tensors + fn->num_symbols; ++i) {
    values[i].tag = kCinnInt;
    values[i].i = PyLong_AsLongLong(args[i]);
    if (values[i].i == -1 && PyErr_Occurred()) return NULL;
  }
  // A CPU's allocator gives large workspaces back to the kernel after each call, and fresh pages cost more than
  // kernels.
  const int is_cpu = fn->device.device_type == kDLCPU;
  CinnCallEnv env = {sizeof(CinnCallEnv), fn->device, NULL, call, Allocate, is_cpu ? NULL : Free, NULL};
  if (fn->device.device_type != kDLCPU &&
      fn->api->current_stream(fn->device.device_type, fn->device.device_id, &env.stream) != 0) {
    return NULL;
  }
  State* state = NULL;
  if (fn->num_statics) {
    StaticKey* keys = calloc((size_t)fn->num_statics, sizeof(StaticKey));
    if (!keys) return PyErr_NoMemory();
    if (ReadKeys(fn, args, tensors, keys)) state = FindState(fn, args, values, keys, &env, call);
    free(keys);
    if (!state) return NULL;
    ++state->running;
  }
  int32_t rc;
  Py_BEGIN_ALLOW_THREADS;
  rc = fn->entry(state ? state->self : fn->self, values, fn->num_tensors + fn->num_symbols + fn->num_results, &env);
  Py_END_ALLOW_THREADS;
  if (state) --state->running;
  if (rc != 0) {
    Raise(call, rc);
    return NULL;
  }
  return Finish(call);
}

static PyObject* CallBound(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  Callable* fn = PyCapsule_GetPointer(self, "cinn_like.callable");
  if (!fn) return NULL;
  if (nargs != fn->num_tensors + fn->num_symbols) {
    return PyErr_Format(PyExc_TypeError, "expected %d tensors and %d sizes, got %zd arguments", (int)fn->num_tensors,
                        (int)fn->num_symbols, nargs);
  }
  enum { kSmall = 16 };
  const size_t num_values = (size_t)(nargs + fn->num_results);
  CinnValue small_values[kSmall];
  DLTensor small_tensors[kSmall];
  ManagedTensor* small_results[kSmall];
  void* large = NULL;
  CinnValue* values = small_values;
  DLTensor* tensors = small_tensors;
  Call call = {fn, small_results, {NULL}, ""};
  if (num_values > kSmall) {
    large = malloc(num_values * (sizeof(CinnValue) + sizeof(DLTensor) + sizeof(ManagedTensor*)));
    if (!large) return PyErr_NoMemory();
    values = large;
    tensors = (DLTensor*)(values + num_values);
    call.results = (ManagedTensor**)(tensors + num_values);
  }
  memset(values, 0, num_values * sizeof(CinnValue));
  memset(call.results, 0, (size_t)fn->num_results * sizeof(ManagedTensor*));
  PyObject* result = Run(fn, args, values, tensors, &call);
  DropAll(&call);
  free(large);
  return result;
}

static PyMethodDef call_def = {"compiled_subgraph", (PyCFunction)(void (*)(void))CallBound, METH_FASTCALL,
                               "Runs the compiled subgraph on tensors."};

static void FreeCallable(PyObject* capsule) {
  Callable* fn = PyCapsule_GetPointer(capsule, "cinn_like.callable");
  if (!fn) return;
  for (int32_t i = 0; i < fn->num_states; ++i) FreeState(fn, fn->states[i]);
  fn->release(fn->function);
  Py_DECREF(fn->tensor_type);
  free(fn->statics);
  free(fn);
}

/* The exchange table of major version 1 that `type` carries, or NULL with or without an exception. */
static const ExchangeApi* FindApi(PyObject* type) {
  PyObject* capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
  if (!capsule) return NULL;
  const ExchangeApi* api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_DECREF(capsule);
  while (api && api->version.major > 1) api = api->prev_api;
  return api && api->version.major == 1 && api->tensor_from_object ? api : NULL;
}

static PyObject* HasExchangeApi(PyObject* module, PyObject* type) {
  (void)module;
  const ExchangeApi* api = FindApi(type);
  PyErr_Clear();
  return PyBool_FromLong(api != NULL);
}

static PyObject* Bind(PyObject* module, PyObject* args) {
  (void)module;
  unsigned long long entry, self, prepare, add_self, release, function, last_error;
  PyObject *type, *statics;
  int device_type, device_id, num_tensors, num_symbols, num_results;
  if (!PyArg_ParseTuple(args, "KKKKKKKO!iiiiiO!", &entry, &self, &prepare, &add_self, &release, &function, &last_error,
                        &PyType_Type, &type, &device_type, &device_id, &num_tensors, &num_symbols, &num_results,
                        &PyTuple_Type, &statics)) {
    return NULL;
  }
  const ExchangeApi* api = FindApi(type);
  if (!api) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the tensor type has no DLPack exchange table");
    return NULL;
  }
  const Py_ssize_t num_statics = PyTuple_Size(statics);
  Callable* fn = calloc(1, sizeof(Callable));
  int32_t* places = calloc((size_t)num_statics + 1, sizeof(int32_t));
  PyObject* capsule = fn && places ? PyCapsule_New(fn, "cinn_like.callable", NULL) : PyErr_NoMemory();
  for (Py_ssize_t k = 0; capsule && k < num_statics; ++k) {
    const long argument = PyLong_AsLong(PyTuple_GetItem(statics, k));
    if (argument < 0 || argument >= num_tensors) {
      if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "no tensor argument %ld", argument);
      Py_CLEAR(capsule);
    }
    places[k] = (int32_t)argument;
  }
  PyObject* bound = capsule ? PyCFunction_NewEx(&call_def, capsule, NULL) : NULL;
  if (!bound) {
    Py_XDECREF(capsule);
    free(places);
    free(fn);
    return NULL;
  }
  *fn = (Callable){.entry = (CinnFunctionPtr)(uintptr_t)entry,
                   .self = (void*)(uintptr_t)self,
                   .prepare = (PrepareFn)(uintptr_t)prepare,
                   .add_self = (AddSelfFn)(uintptr_t)add_self,
                   .release = (ReleaseFn)(uintptr_t)release,
                   .function = (void*)(uintptr_t)function,
                   .last_error = (LastErrorFn)(uintptr_t)last_error,
                   .api = api,
                   .tensor_type = (PyTypeObject*)type,
                   .device = {(DLDeviceType)device_type, device_id},
                   .num_tensors = num_tensors,
                   .num_symbols = num_symbols,
                   .num_results = num_results,
                   .num_statics = (int32_t)num_statics,
                   .statics = places};
  Py_INCREF(type);
  PyCapsule_SetDestructor(capsule, FreeCallable);
  Py_DECREF(capsule);
  return bound;
}

static PyMethodDef methods[] = {
    {"bind", Bind, METH_VARARGS, "Binds a compiled function's addresses to a Python callable."},
    {"has_exchange_api", HasExchangeApi, METH_O, "Whether a tensor type carries the DLPack exchange table."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_call", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__call(void) {
  version_name = PyUnicode_InternFromString("_version");
  return version_name ? PyModule_Create(&module_def) : NULL;
}
