"""The call path for a PyTorch without the DLPack exchange table: the same contract as `_call.bind`, through ctypes."""

import ctypes
import threading
import weakref

import torch

from .abi import ALLOC, ENTRY, FREE, OUT_OF_RANGE, PREPARE, Device, Env, Value, describe, values_of

_DTYPES = {}
for _dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
    _DTYPES[_dtype] = (0, _dtype.itemsize * 8)
for _dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64):
    _DTYPES[_dtype] = (1, _dtype.itemsize * 8)
for _dtype in (torch.float16, torch.float32, torch.float64):
    _DTYPES[_dtype] = (2, _dtype.itemsize * 8)
_DTYPES[torch.bfloat16], _DTYPES[torch.bool] = (4, 16), (6, 8)
_FROM_CODE = {code: dtype for dtype, code in _DTYPES.items()}


def describe_tensor(x):
    device = (1, 0) if x.device.type == "cpu" else (2, x.device.index)
    return describe(x.data_ptr(), device, x.shape, x.stride(), *_DTYPES[x.dtype])


def _fingerprint(x):
    return x.data_ptr(), None if x.is_inference() else x._version

_ADD_SELF = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class _State:
    """What was prepared for one set of static tensors, as in extension.c."""

    def __init__(self, pointer):
        self.pointer, self.keys, self.tensors, self.running, self.last_use = pointer, None, (), 0, 0

    def is_gone(self):
        return any(ref() is None for ref in self.tensors)

    def is_for(self, tensors):
        return len(self.tensors) == len(tensors) and all(ref() is x for ref, x in zip(self.tensors, tensors))


_MAX_STATES = 64


def bind(entry, self_pointer, prepare, add_self, release, function, last_error, tensor_type, device_type, device_id,
         num_tensors, num_symbols, num_results, statics):  # fmt: skip
    run, prepare, add_self = ENTRY(entry), PREPARE(prepare), _ADD_SELF(add_self)
    last_error = ctypes.CFUNCTYPE(ctypes.c_char_p)(last_error)
    device = torch.device("cpu") if device_type == 1 else torch.device("cuda", device_id)
    states, condition = [], threading.Condition()

    def choose(keys, tensors):
        """The state prepared for `keys`; else the one to prepare for them."""
        for state in states:
            if state.keys == keys:
                return state
        for state in states:
            if state.is_for(tensors):
                return state
        for state in states:
            if state.is_gone() and not state.running:
                return state
        if len(states) == _MAX_STATES:
            return min(states, key=lambda state: state.last_use)
        states.append(_State(add_self(function) if states else self_pointer))
        return states[-1]

    def fail(code, errors):
        if errors:
            raise errors[0]
        kind = IndexError if code == OUT_OF_RANGE else RuntimeError
        raise kind((last_error() or b"the call failed without a message").decode())

    def call(*args):
        if len(args) != num_tensors + num_symbols:
            raise TypeError(f"expected {num_tensors} tensors and {num_symbols} sizes, got {len(args)} arguments")
        described = [describe_tensor(x) for x in args[:num_tensors]]
        results, workspaces, errors = [None] * num_results, {}, []

        def alloc(context, index, spec):
            try:
                spec = spec[0]
                shape = [spec.shape[i] for i in range(spec.ndim)]
                x = torch.empty(shape, dtype=_FROM_CODE[spec.code, spec.bits], device=device)
                spec.data = x.data_ptr()
                if index >= 0:
                    results[index] = x
                else:
                    workspaces[x.data_ptr()] = x
                return 0
            except Exception as why:  # it must not pass through C
                errors.append(why)
                return -1

        def free(context, data):
            workspaces.pop(data, None)

        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
        env = Env(ctypes.sizeof(Env), Device(device_type, device_id), stream, None, ALLOC(alloc), FREE(free), None)
        values = values_of(described, args[num_tensors:], num_results)
        pointer, state = self_pointer, None
        if statics:
            tensors = [args[i] for i in statics]
            keys = [_fingerprint(x) for x in tensors]
            with condition:
                while (state := choose(keys, tensors)).keys != keys:
                    if state.running:
                        condition.wait()
                        continue
                    chosen = (Value * len(statics))(*[values[i] for i in statics])
                    state.keys, state.tensors = None, [weakref.ref(x) for x in tensors]
                    if (code := prepare(function, state.pointer, chosen, len(statics), env)) != 0:
                        fail(code, errors)
                    state.keys = keys
                state.running += 1
                state.last_use = max(s.last_use for s in states) + 1
                pointer = state.pointer
        try:
            if (code := run(pointer, values, len(values), env)) != 0:
                fail(code, errors)
        finally:
            if state is not None:
                with condition:
                    state.running -= 1
                    condition.notify_all()
        return tuple(results)

    weakref.finalize(call, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release), function)
    return call
