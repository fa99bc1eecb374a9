"""Functions by name (runtime/global_functions.h): Python's for C++ and for code that is compiled, theirs for Python.

@cinn_like.register_func("sort_rows")
def sort_rows(x, y):  # arrays over the caller's memory, for the time of the call
    y[...] = numpy.sort(x)

sort_rows = cinn_like.get_global_func("sort_rows")
"""

import atexit
import ctypes
import gc
import itertools
import json
import numbers
import threading
import weakref

from . import abi

_NONE, _INT, _BOOL, _FLOAT, _TENSOR, _STRING = 0, 1, 2, 3, 7, 8  # tags of abi.Value
_CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(abi.Value), ctypes.c_int32, ctypes.POINTER(abi.Value))
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_numbers = itertools.count()
_lock = threading.RLock()
_kept = {}  # `self` of what was handed out -> the object, how often
_registered = {}  # what Python has registered, for libraries that are loaded later
_registries = []  # of the libraries that are loaded
_local = threading.local()  # of a thread: .error, .text


def keep(pointer, what):
    """Holds `what` until `release` is called with the pointer."""
    with _lock:
        _kept[pointer] = what, _kept.get(pointer, (None, 0))[1] + 1


@_RELEASE
def release(pointer, lock=_lock, kept=_kept):  # also when this module is gone
    with lock:
        what, count = kept.pop(pointer, (None, 0))
        if count > 1:
            kept[pointer] = what, count - 1


def forget_error():
    _local.error = None


def take_error():
    """What a Python function raised that was called by what this thread has just called."""
    error, _local.error = getattr(_local, "error", None), None
    return error


class _Registry:
    """One library's."""

    def __init__(self, lib, last_error):
        text, pointer, code = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int32
        self._lib, self._last_error = lib, last_error
        for name, result, arguments in [
            ("CinnGlobalRegister", code, [text, pointer, pointer, pointer, code]),
            ("CinnGlobalRemove", code, [text]),
            ("CinnGlobalFind", code, [text, ctypes.POINTER(pointer)]),
            ("CinnGlobalRelease", None, [pointer]),
            ("CinnGlobalCall", code, [pointer, ctypes.POINTER(abi.Value), code, ctypes.POINTER(abi.Value)]),
            ("CinnGlobalFail", code, [text]),
            ("CinnGlobalList", text, []),
        ]:
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self._enter = _CALL(self._run)

    def error(self):
        return (self._last_error() or b"").decode(errors="replace")

    def register(self, name, f, replace):
        if hasattr(f, "packed") and hasattr(self._lib, "CinnFunctionCallPacked"):
            call, pointer = f.packed()
        else:
            call, pointer = ctypes.cast(self._enter, ctypes.c_void_p), id(f)
        keep(pointer, f)
        if self._lib.CinnGlobalRegister(name.encode(), call, pointer, ctypes.cast(release, ctypes.c_void_p), replace) < 0:
            release(pointer)
            raise ValueError(self.error())

    def remove(self, name):
        return self._lib.CinnGlobalRemove(name.encode()) == 0

    def names(self):
        return json.loads(self._lib.CinnGlobalList())

    def find(self, name):
        handle = ctypes.c_void_p()
        return handle.value if self._lib.CinnGlobalFind(name.encode(), ctypes.byref(handle)) == 0 else None

    def release(self, handle):
        self._lib.CinnGlobalRelease(handle)

    def call(self, handle, values, count):
        result = abi.Value()
        forget_error()
        if self._lib.CinnGlobalCall(handle, values, count, ctypes.byref(result)) < 0:
            raise RuntimeError(self.error()) from take_error()
        return result

    def _run(self, pointer, args, count, result):
        """A registered function, called by whichever thread; what it raises must not pass through C."""
        try:
            f = _kept[pointer][0]
            seen = []
            given = [_from_value(args[k], f"argument {k}", seen) for k in range(count)]
            made = f(*given)
            _give(made, given, result[0])
            made = given = None
            for what, memory in seen:
                if memory() is not None:
                    gc.collect()
                if memory() is not None:
                    raise ValueError(f"{what} is still in use after the call, which its memory is for: copy it")
            return 0
        except BaseException as why:
            _local.error = why
            return self._lib.CinnGlobalFail(_message(why).encode(errors="replace"))


def _message(why):
    try:
        return f"{type(why).__name__}: {why}"
    except Exception:  # of its own __str__
        return type(why).__name__


def _from_value(value, what, seen):
    if value.tag == _NONE:
        return None
    if value.tag in (_INT, _BOOL):
        return value.payload if value.tag == _INT else value.payload != 0
    if value.tag == _FLOAT:
        return ctypes.c_double.from_buffer(value, abi.Value.payload.offset).value
    if value.tag == _STRING:
        return ctypes.string_at(value.payload).decode(errors="replace")
    if value.tag == _TENSOR and value.payload and seen is not None:
        from .tensors import view

        array, memory = view(abi.Tensor.from_address(value.payload))
        seen.append((what, weakref.ref(memory)))
        return array
    raise TypeError(f"{what}: a value of tag {value.tag} is neither tensor, number, bool, string nor None")


def _is_bool(x):
    return isinstance(x, bool) or type(x).__name__ == "bool_" or (type(x).__module__ == "numpy" and type(x).__name__ == "bool")


def _to_value(x, what):
    """The value of what is no tensor, and what it points to; None of tensors and others."""
    if x is None:
        return abi.Value(_NONE, 0, 0), None
    if _is_bool(x):
        return abi.Value(_BOOL, 0, int(x)), None
    if isinstance(x, numbers.Integral):
        if not -(2**63) <= int(x) < 2**63:
            raise OverflowError(f"{what}: {x} has more than 64 bits")
        return abi.Value(_INT, 0, int(x)), None
    if isinstance(x, numbers.Real):
        return abi.Value(_FLOAT, 0, ctypes.c_int64.from_buffer(ctypes.c_double(x)).value), None
    if isinstance(x, str):
        if "\0" in x:
            raise ValueError(f"{what}: a string with a zero in it")
        text = ctypes.create_string_buffer(x.encode())
        return abi.Value(_STRING, 0, ctypes.addressof(text)), text
    return None


def _give(made, given, result):
    value = _to_value(made, "the result")
    if value is None and any(made is x for x in given):  # as from what takes out=
        value = abi.Value(_NONE, 0, 0), None
    if value is None:
        what = type(made).__name__
        raise TypeError(f"expected a number, a bool, a string or None as result, got {what}; tensors are written to arguments")
    _local.text = value[1]  # until the thread's next call
    result.tag, result.zero, result.payload = value[0].tag, 0, value[0].payload


class GlobalFunction:
    """A registered function: takes tensors (arrays of NumPy, PyTorch's, what exports DLPack), numbers, bools, strings and
    None, in order."""

    def __init__(self, registry, name, handle):
        self.name, self._registry, self._handle = name, registry, handle
        weakref.finalize(self, registry.release, handle).atexit = False

    def __call__(self, *args):
        values, held = (abi.Value * len(args))(), []
        for k, x in enumerate(args):
            what = f"{self.name}: argument {k}"
            found = _to_value(x, what)
            if found is None:
                found = self._tensor(x, what)
            values[k] = found[0]
            held.append(found[1])
        return _from_value(self._registry.call(self._handle, values, len(args)), f"{self.name}: the result", None)

    @staticmethod
    def _tensor(x, what):
        from .tensors import Arg

        if not any(hasattr(x, name) for name in ("__array_interface__", "__dlpack__")):
            raise TypeError(f"{what}: expected a tensor, a number, a bool, a string or None, got {type(x).__name__}")
        arg = Arg(x, what, False)
        return abi.Value(_TENSOR, 0, ctypes.addressof(arg.tensor)), arg

    def __repr__(self):
        return f"<cinn_like.GlobalFunction {self.name}>"


def attach(lib, last_error):
    """Called with each of our libraries once it is loaded."""
    registry = _Registry(lib, last_error)
    with _lock:
        for name, f in list(_registered.items()):
            registry.register(name, f, True)
        _registries.append(registry)


def _loaded():
    if not _registries:
        from . import library, loaded

        library.get() if library.available() else loaded._runtime()
    return _registries


def register_func(name, f=None, override=False):
    """Gives a function a name by which C++, code of `te.extern` and `get_global_func` call it; without `f` a decorator.
    Tensors come as arrays of NumPy over the caller's memory (as what torch.from_dlpack takes where NumPy has no such), for
    the time of the call; numbers, bools, strings and None as such, which are results, too; an argument as result is
    None. What it raises is an error of the call."""
    if callable(name) and f is None:
        return register_func(name.__name__, name, override)
    if f is None:
        return lambda g: register_func(name, g, override)
    if not isinstance(name, str):
        raise TypeError(f"register_func: expected a name, got {type(name).__name__}")
    if not callable(f):
        raise TypeError(f"register_func: {name}: expected a function, got {type(f).__name__}")
    registries = _loaded()  # takes a lock of its own
    with _lock:
        done = []
        try:
            for registry in registries:
                registry.register(name, f, override)
                done.append(registry)
        except ValueError:
            for registry in done:
                registry.remove(name)
            raise
        _registered[name] = f
    return f


def get_global_func(name, allow_missing=False):
    """The function of that name, to call; None or ValueError where there is none."""
    for registry in _loaded():
        if handle := registry.find(name):
            return GlobalFunction(registry, name, handle)
    if allow_missing:
        return None
    raise ValueError(_registries[0].error())


def remove_global_func(name):
    _loaded()
    if not _forget(name):
        raise ValueError(_registries[0].error())


def list_global_func_names():
    return sorted({name for registry in _loaded() for name in registry.names()})


class Unnamed:
    """A name for a function, as long as this lives."""

    def __init__(self, f):
        self.of = getattr(f, "__name__", type(f).__name__)
        self.name = f"cinn_like.te.{self.of}.{next(_numbers)}"
        register_func(self.name, f)
        weakref.finalize(self, _forget, self.name).atexit = False


def _forget(name):
    with _lock:
        _registered.pop(name, None)
        return any([registry.remove(name) for registry in _registries])


@atexit.register
def _remove_all():
    """Threads of C++ may outlive Python."""
    with _lock:
        for name in list(_registered):
            for registry in _registries:
                registry.remove(name)
        _registered.clear()
