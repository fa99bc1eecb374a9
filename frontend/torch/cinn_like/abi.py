"""The calling convention (runtime/call.h) and DLPack's tensors through ctypes; knows no framework."""

import ctypes

OUT_OF_RANGE = -11  # the code of an index, or of sizes that leave no room
TENSOR, INT = 7, 1  # tags of Value


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Value(ctypes.Structure):
    _fields_ = [("tag", ctypes.c_int32), ("zero", ctypes.c_uint32), ("payload", ctypes.c_int64)]


ALLOC = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(Tensor))
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Env(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32), ("device", Device), ("stream", ctypes.c_void_p), ("context", ctypes.c_void_p),
        ("alloc", ALLOC), ("free", FREE), ("release", ctypes.c_void_p),
    ]  # fmt: skip


REWRITE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
COMPILE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p
)


class SourceHooks(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32), ("context", ctypes.c_void_p), ("source", ctypes.c_char_p), ("rewrite", REWRITE),
        ("compile", COMPILE),
    ]  # fmt: skip


ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(Value), ctypes.c_int32, ctypes.POINTER(Env))
PREPARE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(Value), ctypes.c_int32, ctypes.POINTER(Env)
)


def describe(pointer, device, shape, strides, code, bits):
    """A DLTensor; strides in elements, None where it is contiguous."""
    sizes, steps = (None if x is None else (ctypes.c_int64 * max(len(x), 1))(*x) for x in (shape, strides))
    return Tensor(pointer, Device(*device), len(shape), code, bits, 1, sizes, steps, 0)


def values_of(tensors, numbers, num_results):
    """The array of arguments; `tensors` must outlive it."""
    values = (Value * (len(tensors) + len(numbers) + num_results))()
    for i, tensor in enumerate(tensors):
        values[i] = Value(TENSOR, 0, ctypes.addressof(tensor))
    for i, number in enumerate(numbers, len(tensors)):
        values[i] = Value(INT, 0, int(number))
    return values


def make_env(alloc=None, device=(1, 0), stream=None):
    return Env(ctypes.sizeof(Env), Device(*device), stream, None, ALLOC(alloc) if alloc else ALLOC(), FREE(), None)
