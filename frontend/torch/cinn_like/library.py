"""The shared library through ctypes: compile-time calls only (ctypes gives up the GIL during them)."""

import ctypes
import json
import os
import pathlib
import threading

from . import abi, functions

_lock = threading.Lock()
_library = None


def path():
    """The library's file: $CINN_LIKE_LIBRARY, or beside this package."""
    named = os.environ.get("CINN_LIKE_LIBRARY")
    return pathlib.Path(named) if named else pathlib.Path(__file__).with_name("libcinn_like.so")


class Library:
    def __init__(self, file):
        lib = self._lib = ctypes.CDLL(str(file))
        text, pointer = ctypes.c_char_p, ctypes.c_void_p
        for name, result, arguments in [
            ("CinnVersion", text, []),
            ("CinnLastError", text, []),
            ("CinnSetFlag", ctypes.c_int32, [text, text]),
            ("CinnGetFlag", text, [text]),
            ("CinnListOps", text, []),
            ("CinnListSteps", text, []),
            ("CinnListFunctions", text, []),
            ("CinnRunOnText", text, [text, text, text, text]),
            ("CinnSideBySide", text, [text, text, text, text]),
            ("CinnLowerModule", ctypes.c_int32, [text, text, text, ctypes.POINTER(abi.SourceHooks), ctypes.POINTER(pointer)]),
            ("CinnGiveBytes", None, [pointer, text, ctypes.c_size_t]),
            ("CinnCheck", ctypes.c_int32, [text, text]),
            ("CinnCompile", ctypes.c_int32, [text, text, ctypes.POINTER(pointer)]),
            ("CinnBid", ctypes.c_int32, [text, text, ctypes.POINTER(pointer)]),
            ("CinnFinish", ctypes.c_int32, [pointer]),
            ("CinnFunctionTakeTensors", ctypes.c_int32, [pointer, ctypes.c_int32]),
            ("CinnReleaseFunction", None, [pointer]),
            ("CinnFunctionEntry", pointer, [pointer]),
            ("CinnFunctionSelf", pointer, [pointer]),
            ("CinnFunctionAddSelf", pointer, [pointer]),
            ("CinnFunctionPrepareSelf", ctypes.c_int32, [pointer, pointer, pointer, ctypes.c_int32, pointer]),
            ("CinnFunctionCallPacked", ctypes.c_int32, [pointer, pointer, ctypes.c_int32, pointer]),
            ("CinnExportLibrary", ctypes.c_int32, [ctypes.POINTER(pointer), ctypes.c_int32, text, pointer, ctypes.c_int32]),
            ("CinnFunctionInfo", text, [pointer]),
            ("CinnFunctionBytes", pointer, [pointer, text, ctypes.POINTER(ctypes.c_size_t)]),
        ]:
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        functions.attach(lib, lib.CinnLastError)

    def address(self, name):
        return ctypes.cast(getattr(self._lib, name), ctypes.c_void_p).value

    def last_error(self):
        return (self._lib.CinnLastError() or b"").decode()

    def version(self):
        return self._lib.CinnVersion().decode()

    def set_flag(self, name, value):
        value = str(value).lower() if isinstance(value, bool) else str(value)
        if self._lib.CinnSetFlag(name.encode(), value.encode()) < 0:
            raise ValueError(self.last_error())

    def get_flag(self, name):
        value = self._lib.CinnGetFlag(name.encode())
        if value is None:
            raise ValueError(f"no flag named '{name}'")
        return value.decode()

    def list_ops(self):
        return json.loads(self._lib.CinnListOps())

    def list_steps(self):
        return json.loads(self._lib.CinnListSteps())

    def list_functions(self):
        return json.loads(self._lib.CinnListFunctions())

    def run_on_text(self, text, schedule="", passes="", target="cpu"):
        """What cinn_opt prints."""
        out = self._lib.CinnRunOnText(text.encode(), schedule.encode(), passes.encode(), target.encode())
        if out is None:
            raise ValueError(self.last_error())
        return out.decode()

    def side_by_side(self, before, after, titles):
        return self._lib.CinnSideBySide(*(x.encode() for x in (before, after, *titles))).decode()

    def lower_module(self, text, schedule, target, hooks=None):
        """Loop text and a schedule as a function that `finish` makes callable. `hooks`: an abi.SourceHooks, whose callbacks
        the caller keeps until `release`."""
        handle, texts = ctypes.c_void_p(), (text.encode(), schedule.encode(), target.encode())
        if self._lib.CinnLowerModule(*texts, hooks, ctypes.byref(handle)) < 0:
            raise ValueError(self.last_error())
        return handle.value

    def give_bytes(self, to, data):
        """What a callback of hooks gives, or the text of its error."""
        self._lib.CinnGiveBytes(to, data, len(data))

    def check(self, text, target="cpu"):
        """What is wrong with a graph text, or None: it is read and its types are inferred, nothing more."""
        return self.last_error() if self._lib.CinnCheck(text.encode(), target.encode()) < 0 else None

    def compile(self, text, target):
        return self._make(self._lib.CinnCompile, text, target)

    def bid(self, text, target):
        """The first half of `compile`: "lost" of its info is what the target's framework computes faster."""
        return self._make(self._lib.CinnBid, text, target)

    def _make(self, function, text, target):
        handle = ctypes.c_void_p()
        if function(text.encode(), target.encode(), ctypes.byref(handle)) < 0:
            raise RuntimeError(self.last_error())
        return handle.value

    def take_tensors(self, handle, device_type):
        """Calls take tensors on a device of this DLPack type."""
        if self._lib.CinnFunctionTakeTensors(handle, device_type) < 0:
            raise RuntimeError(self.last_error())

    def finish(self, handle):
        """The second half."""
        if self._lib.CinnFinish(handle) < 0:
            raise RuntimeError(self.last_error())

    def release(self, handle):
        self._lib.CinnReleaseFunction(handle)

    def entry(self, handle):
        return self._lib.CinnFunctionEntry(handle)

    def self_pointer(self, handle):
        return self._lib.CinnFunctionSelf(handle)

    def info(self, handle):
        return json.loads(self._lib.CinnFunctionInfo(handle))

    def export_library(self, handles, path, values=None, count=0):
        """`values`: the CinnValue of each weight."""
        functions = (ctypes.c_void_p * len(handles))(*handles)
        if self._lib.CinnExportLibrary(functions, len(handles), os.fsencode(path), values, count) < 0:
            raise RuntimeError(self.last_error())

    def source(self, handle, kind):
        """Text, or bytes of what is none ("object", "cubin", ...); None: there is no such kind."""
        size = ctypes.c_size_t()
        start = self._lib.CinnFunctionBytes(handle, kind.encode(), ctypes.byref(size))
        if start is None:
            return None
        data = ctypes.string_at(start, size.value)
        return data if b"\0" in data else data.decode()


def available():
    return path().exists()


def get():
    global _library
    with _lock:
        if _library is None:
            _library = Library(path())
        return _library


def load_beside():
    """Starts to load the library, which takes a while, in a thread: whoever calls `get` next waits, and hears of errors."""

    def load():
        try:
            get()
        except (OSError, AttributeError):
            pass

    if _library is None:
        threading.Thread(target=load, daemon=True).start()


def reset_after_fork():
    global _lock
    _lock = threading.Lock()
