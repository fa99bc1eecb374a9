"""Built functions: called with NumPy arrays, PyTorch tensors or whatever speaks DLPack."""

import contextlib
import ctypes
import numbers
import threading
import weakref

from .. import abi, functions, library
from ..dtypes import NAMES
from ..tensors import CPU, CUDA, Arg, empty, torch
from .hooks import Hooks
from .schedule import Schedule, Text, check_target, details


class _Bound:
    """Code, loaded for tensors on one type of device."""

    def __init__(self, lib, handle, device_type):
        lib.take_tensors(handle, device_type)
        lib.finish(handle)
        self.handle = handle
        self.entry, self.self_pointer = abi.ENTRY(lib.entry(handle)), lib.self_pointer(handle)


def export_library(path, *built):
    """Writes functions that `te.build` gave as one shared library. Those of one name, for several targets, are variants of
    one function: the first that runs where the file is loaded is taken."""
    if not built:
        raise TypeError("export_library: expected functions to write, got none")
    for f in built:
        if not isinstance(f, Function):
            raise TypeError(f"export_library: expected what te.build gives, got {type(f).__name__}")
        if f._unnamed:
            raise ValueError(f"{f.name}: a file calls functions by name: register_func({f._unnamed[0].of!r}) first")
    with contextlib.ExitStack() as stack:
        for f in built:
            stack.enter_context(f._hooks.reported())
        library.get().export_library([f._handle for f in built], path)


class Function:
    """f(*arguments) allocates results and gives them, as arrays or as the tensors of the framework whose tensors came;
    f(*arguments, *results), or f(*arguments, out=...), writes to those."""

    def __init__(self, text, schedule, target, strides=(), unnamed=(), **hooks):
        self._library, self.target = library.get(), target
        self._hooks = Hooks(self._library, **hooks)
        self._inputs = (text, schedule, target, self._hooks.structure)
        self._strides = strides  # of the last parameters: whose stride each is
        self._unnamed = unnamed  # functions that it calls
        self._handle = self._lower()
        self.info = self._library.info(self._handle)
        self._bound, self._lock = {}, threading.Lock()

    def _lower(self):
        handle = self._library.lower_module(*self._inputs)
        weakref.finalize(self, self._library.release, handle).atexit = False
        return handle

    @property
    def name(self):
        return self.info["name"]

    def get_source(self, kind=None):
        """ "cuda", "ptx", "opencl", "hip", "metal", "c", "llvm", "asm", "loops", ...; as it is, what the target's compiler is given.
        "resources": what CUDA's kernels take, registers, spills and shared memory. Bytes of "object", "cubin", "hsaco"."""
        device = (self.target.split() or ["cpu"])[0]
        kind = kind or ("llvm" if device in ("cpu", "x86_64") else device)
        with self._hooks.reported():
            source = self._library.source(self._handle, kind)
            if source is None:
                raise ValueError(self._library.last_error())
        return source if isinstance(source, bytes) else Text(source)

    def export_library(self, path):
        """Writes it as a shared library for `cinn_like.load_library` and for C (docs/libraries.md)."""
        export_library(path, self)

    def load(self, device_type=CPU):
        """Makes code of it and loads that, for tensors on a type of device (DLPack's number); the first call does."""
        with self._lock:
            if device_type not in self._bound:
                handle = self._lower() if self._bound else self._handle
                with self._hooks.reported():
                    self._bound[device_type] = _Bound(self._library, handle, device_type)
            return self._bound[device_type]

    def runs_here(self):
        """Whether this machine has its device and what its code needs of that."""
        try:
            self.load(self._own_device())
            return True
        except RuntimeError:
            return False

    def packed(self):
        """Address and `self` of what calls it as CinnPackedFunctionPtr, as long as it lives; for functions.register_func."""
        return self._library.address("CinnFunctionCallPacked"), self.load(self._own_device()).handle

    def to_tvm_ffi(self):
        """The same as a function of tvm-ffi (PyPI apache-tvm-ffi), for whoever takes such: f(*arguments) gives tensors by
        tvm-ffi's allocator of its caller, f(*arguments, *results) writes to those."""
        import tvm_ffi

        class Name(ctypes.Structure):
            _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]

        ffi, made = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi()), ctypes.c_void_p()
        call, pointer = map(ctypes.c_void_p, self.packed())
        functions.keep(pointer.value, self)
        text = f"cinn_like.{self.name}.{pointer.value}".encode()
        name = Name(text, len(text))
        code = ffi.TVMFFIFunctionCreate(pointer, call, functions.release, ctypes.byref(made))
        # By its name: the way to a Python object that tvm-ffi documents.
        if code != 0 or ffi.TVMFFIFunctionSetGlobal(ctypes.byref(name), made, 1) != 0:
            raise RuntimeError(f"{self.name}: tvm-ffi took no function")
        ffi.TVMFFIObjectDecRef(made)
        function = tvm_ffi.get_global_func(text.decode())
        tvm_ffi.remove_global_func(text.decode())
        return function

    def _own_device(self):
        return CUDA if self.target.split()[:1] == ["cuda"] else CPU

    def _repr_html_(self):
        """Its loops, source, code and what kernels take, to be opened; of what can't be made here, why."""
        device = (self.target.split() or ["cpu"])[0]
        code = {"cpu": ("llvm", "asm"), "x86_64": ("llvm", "asm"), "cuda": ("cuda", "ptx", "resources")}
        parts = []
        for kind in ("schedule", "loops", *code.get(device, (device,))):
            try:
                text = self.get_source(kind)
            except (RuntimeError, ValueError) as why:
                text = Text(why)
            parts.append(details(kind, text))
        return Text(repr(self))._repr_html_() + "".join(parts)

    def __repr__(self):
        kinds = [p["name"] if "symbol" in p else f"{p['name']}: {p['dtype']}{p['shape']}" for p in self.info["params"]]
        results = ", ".join(f"{r['dtype']}{r['shape']}" for r in self.info["results"])
        return f"Function {self.name}({', '.join(kinds)}) -> {results}, for {self.target}"

    def __call__(self, *args, out=None):
        params, count = self.info["params"], len(self.info["results"])
        given = len(params) - sum(s is not None for s in self._strides)
        if out is not None:
            args += tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if len(args) not in (given, given + count):
            raise TypeError(f"{self.name}: expected {given} arguments, and {count} results or none, got {len(args)}")
        inputs, results = list(args[:given]), list(args[given:])
        held = {}  # position -> Arg
        for k, (x, p) in enumerate(zip(inputs, params)):
            if "symbol" not in p:
                held[k] = Arg(x, f"{self.name}: argument '{p['name']}'", False)
        for s in self._strides:
            if s is not None:
                inputs.append(held[s[0]].stride(s[1]) if s[1] < held[s[0]].tensor.ndim else 0)
        for k, x in enumerate(results):
            held[len(params) + k] = Arg(x, f"{self.name}: result {k}", True)
        values = (abi.Value * (len(params) + count))()
        for k, arg in held.items():
            values[k] = abi.Value(abi.TENSOR, 0, ctypes.addressof(arg.tensor))
        for k, (x, p) in enumerate(zip(inputs, params)):
            if "symbol" in p:
                if not isinstance(x, numbers.Integral):
                    raise TypeError(f"{self.name}: argument '{p['name']}': expected an integer, got {type(x).__name__}")
                values[k] = abi.Value(abi.INT, 0, int(x))
        made = self._run(values, held, count)
        final = results or made
        return final[0] if count == 1 else tuple(final)

    def _run(self, values, held, count):
        tensors = list(held.values())
        first = next((t for t in tensors if t.is_torch), tensors[0] if tensors else None)
        device = next((t.device for t in tensors if t.device[0] != CPU), (CPU, 0))
        made, errors = [None] * count, []

        def alloc(context, index, spec):
            try:
                made[index] = self._allocate(spec[0], index, first, device)
                spec[0].data = Arg(made[index], "result", True).tensor.data
                return 0
            except Exception as why:  # it must not pass through C
                errors.append(why)
                return -1

        stream = None
        if device[0] == CUDA and torch() is not None:
            stream = torch().cuda.current_stream(device[1]).cuda_stream
        bound, callback = self.load(device[0]), abi.ALLOC(alloc)
        env = abi.Env(ctypes.sizeof(abi.Env), abi.Device(*device), stream, None, callback, abi.FREE(), None)
        functions.forget_error()
        code = bound.entry(bound.self_pointer, values, len(values), env)
        if errors:
            raise errors[0]
        if code != 0:
            kind = IndexError if code == abi.OUT_OF_RANGE else RuntimeError
            raise kind(self._library.last_error() or "the call failed without a message") from functions.take_error()
        return made

    def _allocate(self, spec, index, first, device):
        shape, dtype = [spec.shape[d] for d in range(spec.ndim)], NAMES[spec.code, spec.bits]
        if first is not None and first.is_torch:
            framework = torch()
            return framework.empty(shape, dtype=getattr(framework, dtype), device=first.kept.device)
        if device[0] != CPU:
            raise TypeError(f"{self.name}: result {index}: give a tensor to write into (out=), whose kind is not known")
        return empty(shape, dtype, self.name)


def build(s, target="cpu", schedule="", *, source=None, rewrite=None, compiler=None):
    """A function to call, of a schedule; or of loop text (docs/schedules.md) and a schedule's text. Targets are "cpu",
    "cuda", "opencl", "hip", "metal", "c" and so on with options; source can be had of any, calls need the device.

    `source` takes the place of the generated source of kernels, `rewrite(source, language)` gives another text for it, and
    `compiler(source, arch, options)` makes a cubin, a fatbin or PTX of CUDA C++ (docs/te.md)."""
    check_target(target)
    hooks = {"source": source, "rewrite": rewrite, "compiler": compiler}
    if isinstance(s, Schedule):
        unnamed = [stage.kept for stage in s.program.stages if getattr(stage, "kept", None)]
        return Function(s.program.text, s.schedule, target, s.program.strides_as_arguments(), unnamed, **hooks)
    return Function(s, schedule, target, **hooks)


def has_device(target):
    """Whether functions for `target` run on this machine. An unknown target is an error."""
    f = build("func @f(y: f32[4] out) { for i in 0..4 { block b(vi in 0..4 = i) { y[vi] = 1.0 } } }", target)
    return f.runs_here()
