"""Calls that take turns, timed one by one: what one gains over another is seen in spite of a machine that is busy."""

import time

import torch


def in_turns(contenders, seconds, device="cpu", least=5):
    """Seconds of every call, a list for each contender, for about `seconds` in all and at least `least` calls of each. Of CUDA
    it is the device's time, of calls that the host had enqueued by the time that they ran."""
    times = [[] for _ in contenders]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < least:
        for call, taken in zip(contenders, times):
            taken.append(_seconds_on_gpu(call) if device == "cuda" else _seconds(call))
    return times


def _seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _seconds_on_gpu(call):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(4_000_000)  # 2 ms: a compiled step with gradients takes a host up to 1
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3
