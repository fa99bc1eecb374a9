"""Built functions: called with NumPy arrays, PyTorch tensors or whatever speaks DLPack."""

import ctypes
import numbers
import sys
import threading
import weakref

from .. import abi, library
from .expr import DTYPES, bits_of, dtype_of
from .hooks import Hooks
from .schedule import Schedule, Text

_CPU, _CUDA = 1, 2  # DLPack's numbers
_CODES = {
    t: (6 if t == "bool" else 4 if t == "bfloat16" else 2 if "float" in t else t.startswith("uint"), bits_of(t)) for t in DTYPES
}
_NAMES = {code: t for t, code in _CODES.items()}
_ALIGNMENT = 64  # of results, which code may count on

_to_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_to_pointer.restype, _to_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _describe(data, device, dtype, shape, strides):
    code, bits = _CODES[dtype]
    return abi.describe(data, device, shape, strides, int(code), bits)


def _torch():
    """If the program has it; whoever has not passed its tensors need not have it."""
    return sys.modules.get("torch")


def _is_torch(x):
    torch = _torch()
    return torch is not None and isinstance(x, torch.Tensor)


class _Arg:
    """A tensor as the calling convention has it; keeps what it points to."""

    def __init__(self, x, name, is_result):
        self.kept, self.is_torch = x, _is_torch(x)
        if self.is_torch:
            place = (_CPU, 0) if x.device.type == "cpu" else (_CUDA, x.device.index or 0)
            if x.device.type not in ("cpu", "cuda"):
                raise TypeError(f"{name}: a tensor on {x.device}")
            self.tensor = _describe(x.data_ptr(), place, dtype_of(x.dtype), x.shape, x.stride())
        elif hasattr(x, "__array_interface__"):
            self.tensor = self._array(x, name, is_result)
        elif hasattr(x, "__dlpack__"):
            self.capsule = x.__dlpack__()
            pointer = _to_pointer(self.capsule, b"dltensor")
            self.tensor = abi.Tensor.from_buffer_copy((ctypes.c_char * ctypes.sizeof(abi.Tensor)).from_address(pointer))
        else:
            raise TypeError(f"{name}: expected an array or a tensor, got {type(x).__name__}")

    @staticmethod
    def _array(x, name, is_result):
        import numpy

        x = numpy.asarray(x)
        if is_result and not x.flags.writeable:
            raise ValueError(f"{name}: the array is read-only")
        if not x.dtype.isnative:
            raise TypeError(f"{name}: {x.dtype} is not of this machine's byte order")
        try:
            dtype = dtype_of(x.dtype)
        except ValueError as why:
            raise TypeError(f"{name}: {why}") from None
        if any(s % x.itemsize for s in x.strides):
            raise ValueError(f"{name}: strides of {x.strides} bytes are no multiples of {x.itemsize}")
        return _describe(x.ctypes.data, (_CPU, 0), dtype, x.shape, [s // x.itemsize for s in x.strides])

    @property
    def device(self):
        place = self.tensor.device
        return (_CPU, 0) if place.type in (_CPU, 3) else (place.type, place.id)  # 3: CUDA's memory of the host

    def stride(self, d):
        if self.tensor.strides:
            return self.tensor.strides[d]
        product = 1
        for k in range(d + 1, self.tensor.ndim):
            product *= self.tensor.shape[k]
        return product


class _Bound:
    """Code, loaded for tensors on one type of device."""

    def __init__(self, lib, handle, device_type):
        lib.take_tensors(handle, device_type)
        lib.finish(handle)
        self.entry, self.self_pointer = abi.ENTRY(lib.entry(handle)), lib.self_pointer(handle)


class Function:
    """f(*arguments) allocates results and gives them, as arrays or as the tensors of the framework whose tensors came;
    f(*arguments, *results), or f(*arguments, out=...), writes to those."""

    def __init__(self, text, schedule, target, strides=(), **hooks):
        self._library, self.target = library.get(), target
        self._hooks = Hooks(self._library, **hooks)
        self._inputs = (text, schedule, target, self._hooks.structure)
        self._strides = strides  # of the last parameters: whose stride each is
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
        """ "cuda", "ptx", "opencl", "hip", "metal", "c", "llvm", "asm", "loops", ...; as it is, what the target's compiler is given."""
        device = (self.target.split() or ["cpu"])[0]
        kind = kind or ("llvm" if device in ("cpu", "x86_64") else device)
        with self._hooks.reported():
            source = self._library.source(self._handle, kind)
            if source is None:
                raise ValueError(self._library.last_error())
        return Text(source)

    def export_library(self, path):
        """Writes it as a shared library for `cinn_like.load_library` and for C (docs/libraries.md); for CPUs."""
        self._library.export_library(self._handle, path, None, 0)

    def load(self, device_type=_CPU):
        """Makes code of it and loads that, for tensors on a type of device (DLPack's number); the first call does."""
        with self._lock:
            if device_type not in self._bound:
                handle = self._lower() if self._bound else self._handle
                with self._hooks.reported():
                    self._bound[device_type] = _Bound(self._library, handle, device_type)
            return self._bound[device_type]

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
        held = {}  # position -> _Arg
        for k, (x, p) in enumerate(zip(inputs, params)):
            if "symbol" not in p:
                held[k] = _Arg(x, f"{self.name}: argument '{p['name']}'", False)
        for s in self._strides:
            if s is not None:
                inputs.append(held[s[0]].stride(s[1]) if s[1] < held[s[0]].tensor.ndim else 0)
        for k, x in enumerate(results):
            held[len(params) + k] = _Arg(x, f"{self.name}: result {k}", True)
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
        device = next((t.device for t in tensors if t.device[0] != _CPU), (_CPU, 0))
        made, errors = [None] * count, []

        def alloc(context, index, spec):
            try:
                made[index] = self._allocate(spec[0], index, first, device)
                spec[0].data = _Arg(made[index], "result", True).tensor.data
                return 0
            except Exception as why:  # it must not pass through C
                errors.append(why)
                return -1

        stream = None
        if device[0] == _CUDA and _torch() is not None:
            stream = _torch().cuda.current_stream(device[1]).cuda_stream
        bound, callback = self.load(device[0]), abi.ALLOC(alloc)
        env = abi.Env(ctypes.sizeof(abi.Env), abi.Device(*device), stream, None, callback, abi.FREE(), None)
        code = bound.entry(bound.self_pointer, values, len(values), env)
        if errors:
            raise errors[0]
        if code != 0:
            kind = IndexError if code == abi.OUT_OF_RANGE else RuntimeError
            raise kind(self._library.last_error() or "the call failed without a message")
        return made

    def _allocate(self, spec, index, first, device):
        shape, dtype = [spec.shape[d] for d in range(spec.ndim)], _NAMES[spec.code, spec.bits]
        if first is not None and first.is_torch:
            torch = _torch()
            return torch.empty(shape, dtype=getattr(torch, dtype), device=first.kept.device)
        if device[0] != _CPU:
            raise TypeError(f"{self.name}: result {index}: give a tensor to write into (out=), whose kind is not known")
        return _empty(shape, dtype, self.name)


def _empty(shape, dtype, name):
    import math

    import numpy

    if dtype == "bfloat16":
        try:
            from ml_dtypes import bfloat16 as element
        except ImportError:
            raise TypeError(f"{name}: NumPy has no bfloat16: install ml_dtypes, or give a result to write into (out=)") from None
        element = numpy.dtype(element)
    else:
        element = numpy.dtype(dtype)
    size = math.prod(shape) * element.itemsize
    memory = numpy.empty(size + _ALIGNMENT, numpy.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(element).reshape(shape)


def build(s, target="cpu", schedule="", *, source=None, rewrite=None, compiler=None):
    """A function to call, of a schedule; or of loop text (docs/schedules.md) and a schedule's text. Targets are "cpu",
    "cuda", "opencl", "hip", "metal", "c" and so on with options; source can be had of any, calls need the device.

    `source` takes the place of the generated source of kernels, `rewrite(source, language)` gives another text for it, and
    `compiler(source, arch, options)` makes a cubin, a fatbin or PTX of CUDA C++ (docs/te.md)."""
    hooks = {"source": source, "rewrite": rewrite, "compiler": compiler}
    if isinstance(s, Schedule):
        return Function(s.program.text, s.schedule, target, s.program.strides_as_arguments(), **hooks)
    return Function(s, schedule, target, **hooks)
