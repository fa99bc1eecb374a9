"""Tensors of NumPy, PyTorch and whatever speaks DLPack, as the calling convention has them (abi.py), and the other way."""

import ctypes
import sys

from . import abi
from .dtypes import CODES, NAMES, dtype_of

CPU, CUDA = 1, 2  # DLPack's numbers
ALIGNMENT = 64  # of results, which code may count on

_to_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_to_pointer.restype, _to_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _describe(data, device, dtype, shape, strides):
    code, bits = CODES[dtype]
    return abi.describe(data, device, shape, strides, int(code), bits)


def torch():
    """PyTorch, if the program has it; whoever has not passed its tensors need not have it."""
    return sys.modules.get("torch")


def is_torch(x):
    framework = torch()
    return framework is not None and isinstance(x, framework.Tensor)


class Arg:
    """A tensor as the calling convention has it; keeps what it points to."""

    def __init__(self, x, name, is_result):
        self.kept, self.is_torch = x, is_torch(x)
        if self.is_torch:
            place = (CPU, 0) if x.device.type == "cpu" else (CUDA, x.device.index or 0)
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
        return _describe(x.ctypes.data, (CPU, 0), dtype, x.shape, [s // x.itemsize for s in x.strides])

    @property
    def device(self):
        place = self.tensor.device
        return (CPU, 0) if place.type in (CPU, 3) else (place.type, place.id)  # 3: CUDA's memory of the host

    def stride(self, d):
        return _strides(self.tensor)[d]


def empty(shape, dtype, name):
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
    memory = numpy.empty(size + ALIGNMENT, numpy.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(element).reshape(shape)


class _Memory:
    """What arrays over a tensor's memory refer to, as long as there are any."""

    def __init__(self, tensor, dtype):
        import numpy

        dtype = numpy.dtype(dtype)
        self.__array_interface__ = {
            "shape": _numbers(tensor.shape, tensor.ndim), "typestr": dtype.str, "version": 3,
            "data": ((tensor.data or 0) + tensor.byte_offset, False),
            "strides": tuple(s * dtype.itemsize for s in _strides(tensor)),
        }  # fmt: skip


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", abi.Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


# Memory that its user frees, with no call of Python: an exception may be on its way.
_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Tensor:
    """A tensor that NumPy has not, on a device or of bfloat16: torch.from_dlpack(it) and others take it."""

    def __init__(self, tensor):
        self._pointer, self._offset = tensor.data, tensor.byte_offset
        self._code = tensor.code, tensor.bits, tensor.lanes
        self.device = tensor.device.type, tensor.device.id
        self.shape, self.strides = _numbers(tensor.shape, tensor.ndim), _strides(tensor)

    @property
    def dtype(self):
        return NAMES.get(self._code[:2], f"dlpack{self._code}")

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        rank, size = len(self.shape), ctypes.sizeof(_Managed)
        memory = _libc.malloc(size + 16 * rank)
        (ctypes.c_int64 * (2 * rank)).from_address(memory + size)[:] = [*self.shape, *self.strides]
        shape, strides = (ctypes.cast(memory + size + at, ctypes.POINTER(ctypes.c_int64)) for at in (0, 8 * rank))
        managed = _Managed.from_address(memory)
        managed.tensor = abi.Tensor(self._pointer, abi.Device(*self.device), rank, *self._code, shape, strides, self._offset)
        managed.context, managed.deleter = None, ctypes.cast(_libc.free, ctypes.c_void_p)
        return _new_capsule(memory, b"dltensor", None)

    def __repr__(self):
        return f"Tensor({self.dtype}{list(self.shape)} on {self.device})"


def _numbers(pointer, count):
    return tuple(pointer[d] for d in range(count))


def _strides(tensor):
    """In elements."""
    if tensor.strides:
        return _numbers(tensor.strides, tensor.ndim)
    strides, product = [], 1
    for d in reversed(range(tensor.ndim)):
        strides.append(product)
        product *= tensor.shape[d]
    return tuple(reversed(strides))


def view(tensor):
    """An abi.Tensor's memory as an array of NumPy, or a Tensor where NumPy has no such; and what lives as long as somebody
    looks at it."""
    dtype = NAMES.get((tensor.code, tensor.bits))
    if tensor.device.type == CPU and tensor.lanes == 1 and dtype not in (None, "bfloat16"):
        import numpy

        memory = _Memory(tensor, dtype)
        return numpy.asarray(memory), memory
    other = Tensor(tensor)
    return other, other
