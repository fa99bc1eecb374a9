"""A compiled region as something to call: `compile_function(text, target, device, signature).call(*tensors, *sizes)`.

Calls go through the extension module `_call` where the framework's tensors carry the DLPack exchange table, else
through `slow_call`. Static tensors are prepared before the first call with them and again when a data pointer or
version changed.
"""

import ctypes
import functools
import importlib.util
import os
import re
import threading

import torch

from . import library

_DEVICE_TYPES = {"cpu": 1, "cuda": 2}  # DLPack's numbers
_KINDS = {"cpu": ("cpu", "x86_64"), "cuda": ("cuda",)}  # of targets that compute where the tensors lie


@functools.cache
def _has_cublaslt():
    """As the library finds it (runtime/cublas.cc): the framework's own copy, which is loaded, or the system's."""
    for name in ("libcublasLt.so.13", "libcublasLt.so.12"):
        try:
            ctypes.CDLL(name)
            return True
        except OSError:
            pass
    return False


def _tf32_options():
    """What the user lets round operands of float32: products (Dynamo compiles again when that changes), and convolutions, which PyTorch
    lets do so unless told otherwise (as it is set when they are compiled)."""
    backends = torch.backends
    settings = {"": (backends.cuda.matmul, backends.cuda.matmul), "-convolutions": (backends.cudnn, getattr(backends.cudnn, "conv", None))}
    options = ""
    for name, (flag, newer) in settings.items():
        try:
            allowed = flag.allow_tf32
        except RuntimeError:  # it was set through the newer name
            allowed = newer.fp32_precision == "tf32"
        options += f" -allow-tf32{name}=1" if allowed else ""
    return options


def default_target(device):
    """The target of graphs on `device`, as the framework's settings of now have it."""
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        libs = " -libs=cublas" if _has_cublaslt() else ""
        tf32 = _tf32_options() if major >= 8 else ""  # older ones have no units for it
        return f"cuda -arch=sm_{major}{minor}{'a' if major >= 9 else ''}{_numbers(device_id(device))}{libs}{tf32}"
    return f"x86_64 -mcpu=native -num-threads={torch.get_num_threads()}"


def computes_elsewhere(target, device):
    """Whether calls copy tensors from `device` to the target's device, and results back."""
    words = target.split(";")[0].split()
    return bool(words) and words[0] not in _KINDS.get(device.type, ())


@functools.cache
def _numbers(index):
    """What devices of one architecture differ in, as far as the framework tells."""
    found = torch.cuda.get_device_properties(index)
    # Two transfers a clock (kHz); GB/s.
    bandwidth = getattr(found, "memory_clock_rate", 0) * 2 * (getattr(found, "memory_bus_width", 0) // 8) // 1000000
    words = {"sm-count": found.multi_processor_count, "l2-bytes": getattr(found, "L2_cache_size", 0), "bandwidth": bandwidth}
    return "".join(f" -{name}={value}" for name, value in words.items() if value > 0)


def device_id(device):
    if device.type == "cpu":
        return 0
    return torch.cuda.current_device() if device.index is None else device.index


class LostOps(Exception):
    """`ops`: [index in the text, our predicted seconds, the framework's] of what the framework computes faster, or with
    a fourth: why our kernel can't be compiled."""

    def __init__(self, ops):
        super().__init__(f"{len(ops)} ops are the framework's")
        self.ops = ops


class _once:
    """As functools.cached_property, for objects with a `_lock`: one thread computes it, while those of other objects are
    computed, too. Of cached_property both depends on Python's version."""

    def __init__(self, compute):
        self._compute = compute

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, instance, owner=None):
        with instance._lock:
            if self._name not in instance.__dict__:
                instance.__dict__[self._name] = self._compute(instance)
            return instance.__dict__[self._name]


class CompiledFunction:
    """Compiled as far as prices; the rest, the larger part, when `call`, `info` or `source` is first asked for. Either
    may raise LostOps."""

    _handle, _is_bound = None, False

    def __init__(self, text, target, device, signature):
        if device.type not in _DEVICE_TYPES:
            raise RuntimeError(f"no code for devices of type '{device.type}'")
        self.text, self.target, self.device, self.signature = text, target, device, signature
        self._lock = threading.RLock()
        self._library = library.get()
        self._handle = self._library.bid(text, target)
        self._library.take_tensors(self._handle, _DEVICE_TYPES[device.type])
        self._require_all()

    def __del__(self):
        if not self._is_bound and self._handle is not None:
            self._library.release(self._handle)

    def _require_all(self):
        """The info, if no op is lost."""
        info = self._library.info(self._handle)
        if info.get("lost"):
            raise LostOps(info["lost"])
        return info

    @_once
    def info(self):
        self._library.finish(self._handle)
        return self._require_all()

    @_once
    def call(self):
        self.info  # noqa: B018  (compiled)
        lib, device, signature = self._library, self.device, self.signature
        statics = tuple(i for i, static in enumerate(signature.static) if static)
        bound = _binder()(
            lib.entry(self._handle),
            lib.self_pointer(self._handle) or 0,
            lib.address("CinnFunctionPrepareSelf"),
            lib.address("CinnFunctionAddSelf"),
            lib.address("CinnReleaseFunction"),
            self._handle,
            lib.address("CinnLastError"),
            torch.Tensor,
            _DEVICE_TYPES[device.type],
            device_id(device),
            len(signature.static),
            signature.num_symbols,
            signature.num_results,
            statics,
        )  # fmt: skip
        self._is_bound = True  # `bound` releases the handle

        # The framework's own ops may give strides or a dtype other than its trace foretold; only then is a copy made.
        def call(*args):
            try:
                return bound(*args)
            except RuntimeError:
                fixed = self._as_traced(args)
                if fixed is None:
                    raise
                return call(*fixed)
            except IndexError as why:
                raise IndexError(re.sub(r"^op (\d+), \w+", lambda m: self._name_of(int(m[1]), m[0]), str(why))) from None

        return call

    def _name_of(self, op, otherwise):
        """The framework's name for an op of the text."""
        return self.signature.ops[op] if op < len(self.signature.ops) else otherwise

    def _as_traced(self, args):
        """The arguments with the strides and dtypes of the trace, or None if they have them already."""
        fixed, changed = list(args), False
        for i, strides in enumerate(self.signature.strides):
            x = args[i]
            if self.signature.dtypes and x.dtype != self.signature.dtypes[i]:
                x = fixed[i] = x.to(self.signature.dtypes[i])
                changed = True
            if strides is None:
                continue
            if any(a != b for a, b, size in zip(x.stride(), strides, x.shape) if size > 1):
                fixed[i] = torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)
                changed = True
        return fixed if changed else None

    def source(self, kind):
        """The generated source of a kind ("llvm", "asm", "cuda", "ptx", "graph", "loops"), or None."""
        self.info  # noqa: B018  (compiled)
        return self._library.source(self._handle, kind)


@functools.cache
def _extension():
    """The module `_call`, of this package or beside the library that $CINN_LIKE_LIBRARY names; None where neither has it."""
    try:
        from . import _call
    except ImportError:
        spec = importlib.util.spec_from_file_location(f"{__package__}._call", library.path().with_name("_call.abi3.so"))
        try:
            _call = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(_call)
        except ImportError:
            return None
    return _call


def _binder():
    extension = None if os.environ.get("CINN_LIKE_SLOW_CALL", "") == "1" else _extension()
    if extension is not None and extension.has_exchange_api(torch.Tensor):
        return extension.bind
    from . import slow_call

    return slow_call.bind


def compile_function(text, target, device, signature):
    return CompiledFunction(text, target, device, signature)
