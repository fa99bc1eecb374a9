"""Exported libraries (docs/libraries.md) in Python: `libcinn_runtime.so`, no compiler, and no framework but the caller's.

net = cinn_like.load_library("net.so")
y = net(x)
"""

import ctypes
import functools
import json
import os
import pathlib
import sys
import threading

from . import functions
from .abi import ENTRY, OUT_OF_RANGE, describe, make_env, values_of

_RUNTIME = "libcinn_runtime.so.0"
_FOLDER = pathlib.Path(__file__).parent


def get_library_dir():
    """The folder of libcinn_runtime.so, for `cc -L` and for loaders."""
    return str(_FOLDER)


def get_include():
    """The folder of "runtime/library.h", for `cc -I`."""
    return str(_FOLDER / "include")


@functools.cache
def _runtime():
    named = os.environ.get("CINN_LIKE_RUNTIME")
    lib = ctypes.CDLL(named or str(_FOLDER / _RUNTIME))
    text, pointer, code = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int32
    for name, result, arguments in [
        ("CinnLibraryOpen", code, [text, ctypes.POINTER(pointer)]),
        ("CinnLibraryClose", None, [pointer]),
        ("CinnLibraryDescription", text, [pointer]),
        ("CinnLibraryInfo", text, [pointer]),
        ("CinnLibraryLookup", pointer, [pointer, text]),
        ("CinnLibraryDevice", code, [pointer, text, ctypes.POINTER(ctypes.c_int32)]),
        ("CinnLibraryPrepare", code, [pointer, text, pointer, code, pointer, ctypes.POINTER(pointer)]),
        ("CinnLibraryRelease", None, [pointer]),
        ("CinnLibraryError", text, []),
    ]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    functions.attach(lib, lib.CinnLibraryError)
    return lib


def _last_error():
    return _runtime().CinnLibraryError().decode()


def load_library(path):
    return Library(path)


class _File:
    """Loaded, until its last user is gone."""

    handle = None

    def __init__(self, path):
        handle = ctypes.c_void_p()
        if _runtime().CinnLibraryOpen(os.fsencode(path), ctypes.byref(handle)) < 0:
            raise RuntimeError(_last_error())
        self.handle = handle.value

    def __del__(self):
        if self.handle is not None:
            _runtime().CinnLibraryClose(self.handle)


class Library:
    """An exported file. Its functions are attributes; `lib(...)` calls the only one."""

    def __init__(self, path):
        file = _File(path)
        self.info = json.loads(_runtime().CinnLibraryInfo(file.handle))
        self.description = _runtime().CinnLibraryDescription(file.handle).decode()
        self.functions = {about["name"]: Function(file, about) for about in self.info["functions"]}

    def __getattr__(self, name):
        if name in self.__dict__.get("functions", ()):
            return self.functions[name]
        raise AttributeError(f"the library has no function '{name}'; there are {', '.join(self.__dict__.get('functions', ()))}")

    def __call__(self, *args, **kwargs):
        if len(self.functions) != 1:
            raise TypeError(f"the library has {len(self.functions)} functions: {', '.join(self.functions)}")
        return next(iter(self.functions.values()))(*args, **kwargs)

    def __repr__(self):
        return f"<cinn_like.Library\n{self.description}>"


_HOST = (1, 0)  # DLPack's device
_CUDA = 2


class Function:
    """Takes its parameters in order or by name: tensors of PyTorch, NumPy or whoever exports DLPack, on the host (they are
    copied to the function's device, and results back) or of PyTorch on its device, then sizes. Gives its results, one or
    a tuple: tensors of PyTorch where an argument is one, else arrays of NumPy. What this machine lacks for it, the first
    use says."""

    def __init__(self, file, about):
        self._file, self._about, self.name = file, about, about["name"]
        self.parameters = [p["name"] for p in about["params"]]
        self._symbols = [p["name"] for p in about["params"] if "symbol" in p]
        self._statics = [i for i, p in enumerate(about["params"]) if p.get("static")]
        self._tensors = len(self.parameters) - len(self._symbols)
        self._given = {}  # weights by position
        self._selves = {}  # of calls with tensors on a device
        self._bound = {}
        self._lock = threading.Lock()

    def __del__(self):
        for pointer in self.__dict__.get("_selves", {}).values():
            if pointer:
                _runtime().CinnLibraryRelease(pointer)

    @functools.cached_property
    def _entry(self):
        entry = _runtime().CinnLibraryLookup(self._file.handle, self.name.encode())
        if not entry:
            raise RuntimeError(_last_error())
        return entry

    @property
    def device_type(self):
        """DLPack's number of the device that it runs on: of its variants the first that does here."""
        found = ctypes.c_int32()
        if _runtime().CinnLibraryDevice(self._file.handle, self.name.encode(), ctypes.byref(found)) < 0:
            raise RuntimeError(_last_error())
        return found.value

    def _self(self, place):
        with self._lock:
            if place not in self._selves:
                tensors, made = [_describe(x) for x in self._given.values()], ctypes.c_void_p()
                values, env = values_of(tensors, (), 0), make_env(device=place, stream=_stream(place))
                code = _runtime().CinnLibraryPrepare(self._file.handle, self.name.encode(), values, len(tensors),
                                                     ctypes.byref(env), ctypes.byref(made))  # fmt: skip
                if code < 0:
                    raise RuntimeError(_last_error())
                self._selves[place] = made
            return self._selves[place]

    def prepare(self, *weights):
        """The function of the other parameters, with these for those marked static (which are not in the file)."""
        if len(weights) != len(self._statics):
            names = ", ".join(self.parameters[i] for i in self._statics)
            raise TypeError(f"{self.name}: expected {len(self._statics)} weights ({names}), got {len(weights)}")
        result = Function(self._file, self._about)
        kept = [_contiguous(_array(x, self.name)) for x in weights]
        result._given = dict(zip(self._statics, kept))
        result._self(_place(kept))
        return result

    def _arrange(self, args, kwargs):
        """One argument for each parameter, weights between."""
        free = [name for i, name in enumerate(self.parameters) if i not in self._given]
        unknown = [name for name in kwargs if name not in free[len(args) :]]
        if unknown or len(args) + len(kwargs) != len(free):
            wrong = f", '{unknown[0]}' among them" if unknown else ""
            raise TypeError(f"{self.name}: expected {len(free)} arguments ({', '.join(free)}), "
                            f"got {len(args) + len(kwargs)}{wrong}")  # fmt: skip
        if self._statics and not self._given:
            raise RuntimeError(f"{self.name}: its weights are not in the file: call prepare() with them first")
        rest = iter([*args, *(kwargs[name] for name in free[len(args) :])])
        return [self._given[i] if i in self._given else next(rest) for i in range(len(self.parameters))]

    def __call__(self, *args, **kwargs):
        args = self._arrange(args, kwargs)
        torch = sys.modules.get("torch")
        if torch is not None and any(isinstance(x, torch.Tensor) for x in args):
            tensors = [_torch_tensor(x, torch) for x in args[: self._tensors]]
            results = self._bind(_place(tensors))(*tensors, *args[self._tensors :])
        else:
            results = self._call_arrays([_array(x, self.name) for x in args[: self._tensors]], args[self._tensors :])
        return results[0] if len(results) == 1 else results

    def _bind(self, place):
        """The entry for tensors of PyTorch on that device."""
        if place not in self._bound:
            import torch

            from .function import _binder

            # It releases null: `self` is this object's.
            release, last_error = (
                ctypes.cast(f, ctypes.c_void_p).value
                for f in (_runtime().CinnLibraryRelease, _runtime().CinnLibraryError)
            )
            self._bound[place] = _binder()(
                self._entry, self._self(place).value or 0, 0, 0, release, 0, last_error, torch.Tensor, *place,
                self._tensors, len(self._symbols), len(self._about["results"]), ())  # fmt: skip
        return self._bound[place]

    def _call_arrays(self, arrays, sizes):
        import numpy as np

        arrays = [_contiguous(x) for x in arrays]
        results, errors = [None] * len(self._about["results"]), []

        def alloc(context, index, spec):
            try:
                spec = spec[0]
                shape = tuple(spec.shape[i] for i in range(spec.ndim))
                dtype = _numpy_dtype(spec.code, spec.bits)
                count = dtype.itemsize
                for size in shape:
                    count *= size
                raw = np.empty(count + 64, np.uint8)
                start = -raw.ctypes.data % 64
                results[index] = raw[start : start + count].view(dtype).reshape(shape)
                spec.data = raw.ctypes.data + start
                return 0
            except Exception as why:  # it must not pass through C
                errors.append(why)
                return -1

        tensors = [_describe(x) for x in arrays]
        values, env = values_of(tensors, sizes, len(results)), make_env(alloc)
        own = self._self(_HOST)
        functions.forget_error()
        code = ENTRY(self._entry)(own, values, len(values), env)
        if errors:
            raise errors[0]
        if code != 0:
            raise (IndexError if code == OUT_OF_RANGE else RuntimeError)(_last_error()) from functions.take_error()
        return tuple(results)

    def __repr__(self):
        return f"<cinn_like.Function {self.name}({', '.join(self.parameters)})>"


_KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}  # NumPy's letters, DLPack's codes


def _place(tensors):
    """The device of tensors: the first that is none of the host's."""
    devices = (x.device for x in tensors if not isinstance(getattr(x, "device", "cpu"), str))
    return next(((_CUDA, d.index or 0) for d in devices if d.type == "cuda"), _HOST)


def _stream(place):
    return sys.modules["torch"].cuda.current_stream(place[1]).cuda_stream if place[0] == _CUDA else None


def _numpy_dtype(code, bits):
    import numpy as np

    letter = next((k for k, v in _KINDS.items() if v == code), None)
    if letter is None:
        raise TypeError("NumPy has no bf16: pass tensors of PyTorch")
    return np.dtype(f"{letter}{bits // 8}")


def _torch_tensor(x, torch):
    x = x.detach() if isinstance(x, torch.Tensor) else torch.from_dlpack(x)
    return x if x.is_contiguous() else x.contiguous()


def _array(x, name):
    import numpy as np

    if isinstance(x, np.ndarray):
        return x
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return x.detach()
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}")
    return np.from_dlpack(x)


def _contiguous(x):
    import numpy as np

    if isinstance(x, np.ndarray):
        return x if x.flags.c_contiguous else np.ascontiguousarray(x)
    return x.contiguous()


def _describe(x):
    import numpy as np

    if not isinstance(x, np.ndarray):
        from .slow_call import describe_tensor

        return describe_tensor(x)
    if x.dtype.kind not in _KINDS or not x.dtype.isnative:
        raise TypeError(f"no tensors of {x.dtype}")
    strides = [s // x.itemsize for s in x.strides]
    return describe(x.ctypes.data, (1, 0), x.shape, strides, _KINDS[x.dtype.kind], x.itemsize * 8)
