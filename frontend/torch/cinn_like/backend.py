"""The torch.compile backend "cinn_like".

    torch.compile(model, backend="cinn_like")

Dynamo's graph -> attention and cells rewritten -> AOTAutograd (functional ATen ops) -> partition -> graph text ->
compiled regions, stitched with the framework's own ops where graph text can't say one.
"""

import contextlib
import gc

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext, detect_fake_mode

from . import decompositions, dynamic, function, in_place, library, partition, placement, regions, scatters, sizes

_OPTIONS = ("dynamic_batch", "freeze", "leave_to_framework", "target")


def _names(words):
    return ", ".join(f"'{word}'" for word in words)


# What torch.compile's modes ask for, and what there is in their place.
_MODES = {
    "reduce-overhead": "CUDA graphs are not captured",
    "max-autotune": "nothing is tuned by running",
    "max-autotune-no-cudagraphs": "nothing is tuned by running",
}


def cinn_like(gm, example_inputs, options=None, mode=None):
    """`options`: {"target": "cuda -libs=cublas", "dynamic_batch": True, "freeze": True,
    "leave_to_framework": False}; see docs/torch.md."""
    if mode not in (None, "default"):
        why = _MODES.get(mode, "it is unknown")
        raise ValueError(f"mode='{mode}' means nothing to backend='cinn_like' ({why}): leave it out; "
                         "what can be chosen are the options " + _names(_OPTIONS))  # fmt: skip
    library.load_beside()  # while the graph is traced
    options = options or {}
    unknown = set(options) - set(_OPTIONS)
    if unknown:
        raise ValueError(f"unknown options {sorted(unknown)}; known are {_names(_OPTIONS)}")
    if options.get("dynamic_batch", False):
        dynamic.request_dynamic_batch(gm)

    def compiler(inference):
        freeze = inference and options.get("freeze", False)
        target, leave = options.get("target"), options.get("leave_to_framework", True)
        return lambda graph, inputs: compile_graph(graph, inputs, freeze, target, leave)

    from functorch.compile import min_cut_rematerialization_partition

    compile_fn = aot_autograd(
        fw_compiler=compiler(False),
        bw_compiler=compiler(False),
        inference_compiler=compiler(True),
        decompositions=decompositions.table(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    with _no_collections():
        return compile_fn(decompositions.rewrite(gm, not _computes_elsewhere(options, example_inputs)), example_inputs)


def _computes_elsewhere(options, inputs):
    devices = [x.device for x in inputs if isinstance(x, torch.Tensor)]
    device = next((d for d in devices if d.type != "cpu"), torch.device("cpu"))
    return function.computes_elsewhere(options.get("target") or "", device)


def __getattr__(name):
    """`dynamo_entry_point` is what the package's entry point names. Dynamo loads it without a lock and then registers
    what it got, which fails for all threads but one of those that compile first; so the backend registers itself, once,
    and Dynamo gets None, with which registering does nothing."""
    if name != "dynamo_entry_point":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from torch._dynamo.backends import registry

    with regions.lock:
        if "cinn_like" not in registry._COMPILER_FNS:
            registry.register_backend(cinn_like, "cinn_like")


def compile_graph(gm, example_inputs, freeze=False, target=None, leave_to_framework=True):
    """An AOTAutograd graph as a function of one list of arguments, which threads compile until its first call. `freeze`:
    parameters and buffers are static; `leave_to_framework`: ops that it computes faster, by the compiler's prices, are
    left to it."""
    with regions.lock, _no_collections():
        graph = gm.graph
        device = partition.find_device(graph)
        static = _static_inputs(graph) if freeze else set()
        placement.bring_to_device(gm, device)
        sizes.read_from_inputs(graph)
        in_place.restore(graph)
        fake_mode = detect_fake_mode(example_inputs)
        shape_env = fake_mode.shape_env if fake_mode is not None else None
        target = target or function.default_target(device)
        is_near = not function.computes_elsewhere(target, device)
        if is_near:
            scatters.replace(graph)
        is_whole = "-framework=" in target or ";" in target  # of several devices none leaves ops to the framework
        if leave_to_framework and not is_whole and is_near:
            target = f"{target} -framework=auto"
        pending = regions.start(gm, device, target, static, shape_env)

    def run(args):
        return (pending.run or pending.settle())(args)

    run._boxed_call = True
    return run


@contextlib.contextmanager
def _no_collections():
    """Python looks for cycles each time some hundreds of objects were made; among a trace's many that takes a tenth of a
    first call, and finds nothing. What was made is old at the end: the next look is not at all of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # else those would be collected again
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _static_inputs(graph):
    """Placeholders that hold parameters and buffers which the graph does not change."""
    context = TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    if meta is None:
        return set()
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    mutated = set(getattr(meta, "mutated_inp_indices", ()) or getattr(meta, "mutated_inp_runtime_indices", ()))
    return {placeholders[i] for i in meta.static_input_indices if i < len(placeholders) and i not in mutated}
