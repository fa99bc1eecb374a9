"""The backend around the ops: fallbacks, dynamic batches, aliasing, mutation, threads, forks, the report."""

import gc
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings

import cinn_like
import pytest
import torch
import torch.nn.functional as F
from cinn_like import decompositions, function, library, regions, reporting
from cinn_like import backend as fx
from cinn_like.backend import cinn_like as backend
from torch.fx.experimental.proxy_tensor import make_fx


def compiled(fn, **kwargs):
    return torch.compile(fn, backend=backend, fullgraph=True, **kwargs)


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def test_an_unsupported_op_falls_back_with_its_reason(engine):
    def fn(x):
        y = torch.sort(x * 2 + 1, dim=1).values
        return y.exp() + x.sum()

    x = torch.randn(4, 5)
    torch.testing.assert_close(compiled(fn)(x), fn(x))
    report = cinn_like.report()
    assert report.fallback_ops == {"aten.sort.default": "no such op in graph text"}
    assert len(report.subgraphs) == 2 and sum(report.compiled_ops.values()) == 5
    assert 0.0 < report.compiled_share < 1.0
    assert "aten.sort.default: no such op in graph text" in str(report)


def test_only_what_the_compiler_refuses_falls_back(real_library, monkeypatch):
    """Where something is wrong with the trial as a whole, every op is asked for alone."""
    check = library.Library.check

    def refuses_tanh(self, text, target):
        return "no tanh today" if "tanh(" in text else check(self, text, target)

    monkeypatch.setattr(library.Library, "check", refuses_tanh)
    x = torch.randn(4, 5)
    torch.testing.assert_close(compiled(lambda x: (x.exp() * 2 + 1).tanh())(x), (x.exp() * 2 + 1).tanh())
    report = cinn_like.report()
    assert report.fallback_ops == {"aten.tanh.default": "no tanh today"} and len(report.subgraphs[0].ops) == 3


def test_a_data_dependent_shape_falls_back(engine):
    def fn(x):
        return (x * 2)[x > 0].sum()

    x = torch.randn(20)
    got = torch.compile(fn, backend=backend)(x)
    torch.testing.assert_close(got, fn(x))


def test_a_complex_dtype_falls_back(engine):
    def fn(x):
        return (torch.fft.fft(x + 1).abs() * 2).sum()

    x = torch.randn(3, 8)
    torch.testing.assert_close(compiled(fn)(x), fn(x))
    assert any("complex" in r for r in cinn_like.report().fallback_ops.values()), cinn_like.report().fallback_ops


def test_a_failed_compile_falls_back(monkeypatch):
    def refuse(text, target, device, signature):
        raise RuntimeError("the compiler said no")

    monkeypatch.setattr(function, "compile_function", refuse)
    x = torch.randn(4, 5)
    fn = lambda x: (x + 1).tanh().t()  # noqa: E731
    torch.testing.assert_close(compiled(fn)(x), fn(x))
    report = cinn_like.report()
    assert not report.subgraphs and "the compiler said no" in report.failures[0]
    assert all("the compiler said no" in why for why in report.fallback_ops.values())


def test_random_graphs_of_both_kinds(reference):
    """Compiled and framework ops mixed at random: the order of units and what they pass on is right."""
    generator = torch.Generator("cpu").manual_seed(3)
    pick = lambda n: int(torch.randint(n, (), generator=generator, device="cpu"))  # noqa: E731
    steps = [
        lambda a, b: torch.tanh(a) + b, lambda a, b: torch.sort(a, 0).values * 0.5, lambda a, b: a.t() - b.t(),
        lambda a, b: torch.cumsum(a, 1) * 0.1, lambda a, b: torch.where(a > b, a, b), lambda a, b: a @ b * 0.2,
        lambda a, b: a.sum(0).expand(6, 6) * 0.1, lambda a, b: torch.roll(a, 1, 1),
        lambda a, b: a.view(-1)[6:].cumsum(0)[:6] + b,
    ]  # fmt: skip
    for _ in range(8):
        program = [(pick(len(steps)), pick(1000), pick(1000)) for _ in range(12)]

        def fn(x, y, program=program):
            values = [x, y]
            for which, i, j in program:
                values.append(steps[which](values[i % len(values)], values[j % len(values)]).contiguous())
            return values[-1], values[-2], values[len(values) // 2].t()

        torch._dynamo.reset()
        x, y = torch.randn(6, 6), torch.randn(6, 6)
        for got, want in zip(compiled(fn)(x, y), fn(x, y)):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
            assert got.stride() == want.stride()
    assert cinn_like.report().fallback_ops and cinn_like.report().subgraphs


def test_sizes_are_constant_first_and_symbolic_when_a_second_one_is_seen(engine):
    linear = torch.nn.Linear(6, 3).requires_grad_(False)
    torch._dynamo.utils.counters.clear()
    f = compiled(lambda x: F.gelu(linear(x)).softmax(1))
    for batch in (4, 7, 4, 19, 23):
        x = torch.randn(batch, 6)
        torch.testing.assert_close(f(x), F.gelu(linear(x)).softmax(1), rtol=1e-4, atol=1e-5)
    assert graphs() == 2 and len(engine) == 2
    assert " where " not in engine[0].text and "n in 2.." in engine[1].text


@pytest.mark.parametrize("how", ["mark_dynamic", "dynamic=True", "dynamic_batch"])
def test_a_batch_that_the_user_marks_does_not_recompile(engine, how):
    linear = torch.nn.Linear(6, 3).requires_grad_(False)
    torch._dynamo.utils.counters.clear()
    kwargs = {"dynamic=True": {"dynamic": True}, "dynamic_batch": {"options": {"dynamic_batch": True}}}.get(how, {})
    f = compiled(lambda x: F.gelu(linear(x)).softmax(1), **kwargs)
    for batch in (4, 7, 4, 19):
        x = torch.randn(batch, 6)
        if how == "mark_dynamic":
            torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(f(x), F.gelu(linear(x)).softmax(1), rtol=1e-4, atol=1e-5)
    assert graphs() == 1 and len(engine) == 1
    assert "n in 2.." in engine[0].text
    assert engine[0].text.count(" hint 4") == 1  # the size that was traced


def test_the_module_of_an_exported_program(engine):
    """Its code is not traced a second time, which Dynamo does not allow there."""
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)).requires_grad_(False)
    x = torch.randn(4, 6)
    exported = torch.export.export(model, (x,)).module()
    torch.testing.assert_close(torch.compile(exported, backend=backend)(x), model(x), rtol=1e-4, atol=1e-5)
    assert not cinn_like.report().fallback_ops


def test_the_batch_is_dynamic_in_training(engine):
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 5))
    torch._dynamo.utils.counters.clear()
    f = compiled(lambda x, y: F.cross_entropy(model(x), y))
    for batch in (4, 9):
        x, y = torch.randn(batch, 1, 6, 6), torch.randint(5, (batch,))
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.mark_dynamic(y, 0)
        model.zero_grad()
        f(x, y).backward()
        got = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for p, g in zip(model.parameters(), got):
            torch.testing.assert_close(p.grad, g, rtol=1e-4, atol=1e-5)
    assert graphs() == 1 and len(engine) == 2
    assert not cinn_like.report().fallback_ops


def test_a_size_that_is_read_from_a_value_does_not_write_it_out(engine):
    """The view's size is computed from the input's; each forward region gives as many results as that of constant sizes."""

    def fn(x, w):
        rows = (x.tanh() * 2).view(-1, x.size(-1))  # as in Hugging Face's Conv1D
        y = rows.double() @ w
        return y.view(x.size()[:-1] + (w.size(-1),)).float().cos(), rows.size(0) + 1

    results = []
    for dynamic in (False, True):
        torch._dynamo.reset()
        x, w = torch.randn(4, 3, 8, requires_grad=True), torch.randn(8, 6, dtype=torch.float64, requires_grad=True)
        got, want = compiled(fn, dynamic=dynamic)(x, w), fn(x, w)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        got, want = (torch.autograd.grad(out[0].sum(), (x, w)) for out in (got, want))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        forward = engine[-2].text
        results.append(forward.split("return ")[1].split("\n")[0].count("%"))
    assert results[0] == results[1], results


def test_rolls_of_symbolic_length_are_compiled(engine):
    def rolls(x):
        return torch.roll(x, 3, 0), torch.roll(x, -2, 0), torch.roll(x, (5, 1), (0, 1)), torch.roll(x, 4)

    f = compiled(rolls)
    for n in (7, 2, 11):
        x = torch.randn(n, 4)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(f(x), rolls(x), rtol=0, atol=0)
    assert len(engine) == 1 and not cinn_like.report().fallback_ops


def test_an_unknown_option_is_named(reference):
    with pytest.raises(Exception, match="unknown options"):
        compiled(lambda x: x - 5, options={"batch": 1})(torch.randn(4))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_a_mode_is_refused_by_name(reference, mode):
    x = torch.randn(4)
    assert torch.equal(compiled(lambda x: x - 5, mode="default")(x), x - 5)
    with pytest.raises(Exception, match=f"mode='{mode}' means nothing to backend='cinn_like' .*: leave it out"):
        compiled(lambda x: x - 6, mode=mode)(x)


def test_sizes_as_numbers_and_as_results(engine):
    def fn(x):
        return x * x.size(0) + 1.0 / x.size(0), x.size(0) * 2, x.reshape(-1, 2).sum(0) / x.numel()

    f = compiled(fn)
    for batch in (4, 6):
        x = torch.randn(batch, 4)
        for got, want in zip(f(x), fn(x)):
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("numbers", [(-3, -5, 4, -1), (2, -7, 0)])
def test_integers_that_the_trace_does_not_fix(engine, numbers):
    """Dynamo makes an int argument symbolic once it sees a second value; it may be negative."""

    def fn(x, k):
        return x * k + 2.0 * k, torch.full_like(x, k * k - 1, dtype=torch.int64)

    f = compiled(fn)
    for k in numbers:
        x = torch.randn(4, 3)
        for got, want in zip(f(x, k), fn(x, k)):
            torch.testing.assert_close(got, want)
    assert not cinn_like.report().fallback_ops
    assert len(engine) <= 3  # one with the first number, one per sign


def test_an_index_that_the_trace_does_not_fix(engine):
    fn = lambda x, k: x[k] * 2  # noqa: E731
    f = compiled(fn)
    for k in (1, 2, 3, -1, -2, -4):
        x = torch.randn(4, 3)
        torch.testing.assert_close(f(x, k), fn(x, k))


def test_axes_of_size_1_keep_the_strides_of_eager(engine):
    def fn(x, y):
        return (x * 2).transpose(0, 1), x[:1] + 1, (x.t() + 1)[:, :1] * 2, y.sum(1, keepdim=True), y[:, :, :1].exp()

    f = compiled(fn)
    for batch in (1, 4, 5):
        x, y = torch.randn(batch, 1), torch.randn(batch, 1, 3)
        for got, want in zip(f(x, y), fn(x, y)):
            torch.testing.assert_close(got, want)
            assert got.stride() == want.stride()


@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (2, 5, 3, 8)])
def test_attention_has_the_layout_of_eager(engine, shape):
    """So that a view works where it works in eager."""

    def fn(x):
        q = x.transpose(1, 2) if shape[1] == 5 else x
        y = F.scaled_dot_product_attention(q, q * 0.5, q)
        z = y.transpose(1, 2)
        return y, z.view(2, 5, 24) + 1 if z.is_contiguous() else z.flatten(2) + 1

    x = torch.randn(shape)
    for got, want in zip(compiled(fn)(x), fn(x)):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        assert got.stride() == want.stride()


def test_the_weights_of_now(engine):
    """However they were changed, also where no version tells."""
    linear = torch.nn.Linear(8, 8).requires_grad_(False)
    f = compiled(lambda x: linear(x).relu())
    x, delta = torch.randn(3, 8), torch.randn(8, 8)

    def check():
        with torch.inference_mode():
            torch.testing.assert_close(f(x), linear(x).relu(), rtol=1e-4, atol=1e-5)

    check()
    linear.weight.data += delta  # as merging LoRA does
    check()
    linear.weight.data[3, 5] += 10
    check()
    with torch.inference_mode():
        linear.weight.mul_(0.5)
        check()
        linear.bias.data.add_(1)
    check()
    linear.weight.data = torch.randn(8, 8)
    check()
    assert all(" static" not in f.text for f in engine)


def test_frozen_weights_are_computed_ahead(real_library):
    """options={"freeze": True}: again when a pointer or version changes; writes through .data are not seen."""
    linear = torch.nn.Linear(8, 8).requires_grad_(False)
    f = compiled(lambda x: x @ linear.weight.t().exp(), options={"freeze": True})
    x = torch.randn(3, 8)
    for change in (lambda: None, lambda: linear.weight.mul_(0.5), lambda: linear.load_state_dict(torch.nn.Linear(8, 8).state_dict())):
        change()
        torch.testing.assert_close(f(x), x @ linear.weight.t().exp(), rtol=1e-4, atol=1e-4)
    linear.weight.data = torch.randn(8, 8)
    torch.testing.assert_close(f(x), x @ linear.weight.t().exp(), rtol=1e-4, atol=1e-4)
    assert " static" in real_library[0].text


def test_inputs_are_mutated_in_place(engine):
    def fn(x, y):
        x.add_(1).mul_(y)
        return x * 2

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    a, b = x.clone(), x.clone()
    got, want = compiled(fn)(a, y), fn(b, y)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(a, b)


def test_a_cache_is_updated_in_place_for_batches_of_any_size(engine):
    """Keys and values as a model that generates text keeps them: written in place at a position, then read as views."""

    def fn(cache, x, position):
        cache[:, position : position + x.size(1)] = x * 2
        cache[:, 0].mul_(0.5)
        return (cache.transpose(0, 1) * x.mean()).sum(0), cache[:, :3], cache

    torch._dynamo.utils.counters.clear()
    f = compiled(fn)
    for batch in (3, 5, 2):
        ours, x = torch.randn(batch, 6, 4), torch.randn(batch, 2, 4)
        eager = ours.clone()
        got, want = f(ours, x, 1), fn(eager, x, 1)
        for g, w in zip(got, want):
            torch.testing.assert_close(g, w)
            assert g.stride() == w.stride()
        torch.testing.assert_close(ours, eager)
        assert got[2] is ours and got[1].data_ptr() == ours.data_ptr()
    assert graphs() == 2 and not cinn_like.report().fallback_ops


UPDATES = {
    "index_copy_": lambda kept, at, x: kept.index_copy_(1, at, x),
    "index_add_": lambda kept, at, x: kept.index_add_(1, at, x),
    "index_put_": lambda kept, at, x: kept.__setitem__((slice(None), at), x),
    "slice": lambda kept, at, x: kept[:, 2:4].copy_(x),
    "select": lambda kept, at, x: kept[:, 3].copy_(x[:, 0]),
    "both": lambda kept, at, x: kept[:, 1:7].index_copy_(1, at, x),
    "twice": lambda kept, at, x: kept.index_copy_(1, at, x).index_copy_(1, at + 1, x * 2),
    "scatter": lambda kept, at, x: kept.scatter_(1, at[None, :, None].expand_as(x), x),
}


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("reads", ["after", "before", "both", "result", "together"])
def test_a_part_of_an_input_is_updated_where_it_is(engine, update, reads):
    """Whatever else reads the input finds what eager does; where nothing reads the old values, no copy is made."""

    def fn(kept, at, x):
        old = (kept * 2).sum() if reads in ("before", "both") else 0
        whole = kept * 2 if reads == "together" else 0  # what reads it reads the new values, too
        view = kept.view(-1)[3:9] if reads == "both" else 1
        UPDATES[update](kept, at, x.exp())
        return kept.sum(0) * old + x.sum(), view * 2, whole - kept, kept if reads == "result" else kept.transpose(0, 1)

    ours, at, x = torch.randn(3, 8, 4), torch.tensor([4, 1]), torch.randn(3, 2, 4)
    eager = ours.clone()
    f = compiled(fn)
    for _ in range(2):
        torch.testing.assert_close(f(ours, at, x), fn(eager, at, x))
        torch.testing.assert_close(ours, eager)
    if update in ("index_copy_", "index_put_", "scatter", "slice", "select") and reads == "after":
        left = [op for op in cinn_like.report().fallback_ops if not op.endswith("view")]
        assert len(left) == 1 and left[0].removesuffix(".default").removesuffix(".src").endswith("_"), left


def test_what_a_backward_pass_recomputes_is_computed_where_it_is_read(engine):
    """An op that depends on saved values alone could run first; it joins what reads it instead."""

    def fn(x, order):
        saved = x.exp() * 2
        first = torch.sort(order, dim=1).values
        return (first * 3).cos() * saved

    x, order = torch.randn(4, 5), torch.randn(4, 5)
    torch.testing.assert_close(compiled(fn)(x, order), fn(x, order))
    assert len(cinn_like.report().subgraphs) == 1


def test_a_small_result_of_a_large_value_does_not_wait(engine):
    """What would keep more alive than it saves runs when it can."""

    def fn(x, order):
        small = x.exp().sum(1, keepdim=True)
        return torch.sort(order, dim=1).values * small

    x, order = torch.randn(4, 500), torch.randn(4, 5)
    torch.testing.assert_close(compiled(fn)(x, order), fn(x, order))
    assert len(cinn_like.report().subgraphs) == 2


def test_nor_does_one_of_a_view_that_others_read(engine):
    """What a view keeps alive is the memory that it shows: a gradient of logits, of which two products are."""

    def fn(x, order):
        rows = x.view(40, 50)
        small = rows.exp().sum(1, keepdim=True)[:4]
        return torch.sort(order + rows.sum(), dim=1).values * small

    x, order = torch.randn(4, 500), torch.randn(4, 5)
    torch.testing.assert_close(compiled(fn)(x, order), fn(x, order))
    first, second = sorted(cinn_like.report().subgraphs, key=lambda subgraph: "aten.mul" in str(subgraph.ops))
    assert " exp(" in first.text and " exp(" not in second.text


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_batches_in_any_order_reuse_one_graph_of_each_kind(engine, mode):
    """The first batch and batch 1 are graphs of their own, all others share one; results keep dtype and layout of eager."""
    norm = torch.nn.GroupNorm(1, 2).requires_grad_(mode == "training")
    fn = lambda x: norm(x).relu().permute(0, 2, 3, 1)  # noqa: E731
    torch._dynamo.utils.counters.clear()
    f = compiled(fn)
    for batch in (4, 1, 9, 2, 1, 64):
        x = torch.randn(batch, 2, 6, 6)
        got, want = f(x), fn(x)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        assert got.stride()[1:] == want.stride()[1:] and got.requires_grad == want.requires_grad
    assert graphs() == 3


def test_results_that_alias_inputs_and_each_other(engine):
    def fn(x):
        y = x * 2
        return x.t(), x[1:], y, y.view(-1), x

    x = torch.randn(3, 4)
    got, want = compiled(fn)(x), fn(x)
    for g, w in zip(got, want):
        torch.testing.assert_close(g, w)
        assert g.stride() == w.stride()
    assert got[0].data_ptr() == x.data_ptr() and got[4] is x
    assert got[2].data_ptr() == got[3].data_ptr()


def test_buffers_are_updated_in_training(engine):
    eager, ours = torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)
    f = compiled(ours)
    for _ in range(2):
        x = torch.randn(4, 3, 5, 5)
        torch.testing.assert_close(f(x), eager(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.running_var, eager.running_var)
    assert int(ours.num_batches_tracked) == 2


# Before 2.12, PyTorch refuses a compiled function in one thread while another thread traces.
@torch._dynamo.config.patch(error_on_nested_fx_trace=False)
def test_several_threads_compile_and_run(engine):
    """Each compiles functions of its own and runs one that all share, weights included."""
    x, linear = torch.randn(64, 128), torch.nn.Linear(128, 128).requires_grad_(False)
    shared, want = compiled(lambda x: linear(x).softmax(1)), linear(x).softmax(1)
    shared(x)
    errors = []

    def work(k):
        try:
            f = compiled(lambda x: (x + k).tanh() * k)
            for _ in range(3):
                torch.testing.assert_close(f(x), (x + k).tanh() * k)
                for _ in range(5):
                    torch.testing.assert_close(shared(x), want, rtol=1e-4, atol=1e-5)
        except BaseException as why:
            errors.append(why)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors


def test_importing_the_package_costs_nothing():
    """It loads modules of its own and of Python's only; the backend comes with the first compile."""
    code = "import sys, torch; before = set(sys.modules); import cinn_like; print(*sorted(set(sys.modules) - before))"
    package = str(pathlib.Path(cinn_like.__file__).parents[1])
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         env={**os.environ, "PYTHONPATH": package})  # fmt: skip
    assert {m.split(".")[0] for m in run.stdout.split()} <= {"cinn_like", *sys.stdlib_module_names}, run.stdout


THREADS = """
import pathlib, re, sys, threading
from importlib.metadata import EntryPoint
import torch
from torch._dynamo.backends import registry

text = pathlib.Path(sys.argv[1]).read_text()
value = re.search(r'cinn_like = "(cinn_like[.]backend:[^"]*)"', text).group(1)
registry._lazy_import()
registry._BACKENDS["cinn_like"] = EntryPoint("cinn_like", value, "torch_dynamo_backends")
torch._dynamo.config.error_on_nested_fx_trace = False
x, wrong, barrier = torch.randn(8, 16), [], threading.Barrier(64)

def work(k):
    try:
        barrier.wait()
        f = torch.compile(lambda x: (x + k).tanh() * k, backend="cinn_like")
        for _ in range(3):
            torch.testing.assert_close(f(x), (x + k).tanh() * k)
    except BaseException as why:
        wrong.append(why)

threads = [threading.Thread(target=work, args=(k,)) for k in range(64)]
for t in threads: t.start()
for t in threads: t.join()
print(len(wrong), "threads failed:", wrong[:3])
"""


def test_64_threads_that_compile_first(real_library):
    """By the backend's name, in a process that has not loaded it."""
    root = pathlib.Path(__file__).parents[2]
    package = str(pathlib.Path(cinn_like.__file__).parents[1])
    run = subprocess.run([sys.executable, "-c", THREADS, str(root / "pyproject.toml")], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": package})  # fmt: skip
    assert run.stdout.strip() == "0 threads failed: []", run.stdout + run.stderr


def run_in_child(work):
    """The exit code of a forked child that does `work`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(2)
    deadline = time.monotonic() + 120
    while (done := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.02)
    if done == (0, 0):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "it hangs"
    return os.waitstatus_to_exitcode(done[1])


@pytest.mark.skipif(torch.get_default_device().type == "cuda", reason="CUDA does not survive a fork")
def test_fork_after_use(engine):
    """The child has none of the parent's worker threads: it runs what the parent compiled, parallel loops included,
    compiles anew and starts afresh with its report; so does a child of its own."""
    linear = torch.nn.Linear(256, 256).requires_grad_(False)
    fn = lambda x: linear(x).softmax(1)  # noqa: E731
    x = torch.randn(512, 256)
    f = compiled(fn)
    expected = f(x)

    def child():
        assert torch.equal(f(x), expected)
        torch.testing.assert_close(
            compiled(lambda x: x.exp() - linear(x))(x), x.exp() - linear(x), rtol=1e-4, atol=1e-4
        )

    def grandparent():
        child()
        assert run_in_child(child) == 0

    # The framework's own threads do not survive a fork: its products of matrices would hang in the child.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert run_in_child(grandparent) == 0
        assert torch.equal(f(x), expected)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.skipif(torch.get_default_device().type == "cuda", reason="CUDA does not survive a fork")
def test_fork_while_another_thread_compiles(real_library):
    x, stop, errors = torch.randn(64, 64), threading.Event(), []
    gm = make_fx(lambda x: (x.tanh().softmax(1) + 1,))(x)
    run, (expected,) = fx.compile_graph(gm, [x]), gm(x)
    cinn_like.set_flag("cinn_disable_cache", True)

    def compile_on():
        try:
            while not stop.is_set():
                torch.testing.assert_close(fx.compile_graph(gm, [x])([x])[0], expected)
        except BaseException as why:
            errors.append(why)

    def child():
        torch.testing.assert_close(run([x])[0], expected)
        torch.testing.assert_close(fx.compile_graph(gm, [x])([x])[0], expected)

    thread = threading.Thread(target=compile_on)
    thread.start()
    try:
        codes = []
        while len(codes) < 8 and not any(codes):
            codes.append(run_in_child(child))
            time.sleep(0.03)
    finally:
        stop.set()
        thread.join()
        cinn_like.set_flag("cinn_disable_cache", False)
    assert codes == [0] * 8 and not errors, (codes, errors)


@pytest.mark.skipif(torch.get_default_device().type == "cuda", reason="CUDA does not survive a fork")
def test_fork_before_anybody_waited(real_library):
    """What threads compile still is whole in the child, and in the parent: the fork waits for it."""
    x, ends, finish = torch.randn(64, 64), [], library.get().finish
    gm = make_fx(lambda x: (x.tanh().softmax(1) + 1,))(x)

    def slowly(handle):
        time.sleep(0.3)
        finish(handle)
        ends.append(handle)

    cinn_like.set_flag("cinn_disable_cache", True)
    library.get().finish = slowly
    try:
        for k in range(2):
            run, (expected,) = fx.compile_graph(gm, [x]), gm(x)
            assert len(ends) == k

            def child():
                assert len(ends) == k + 1  # noqa: B023
                torch.testing.assert_close(run([x])[0], expected)  # noqa: B023

            assert run_in_child(child) == 0
            torch.testing.assert_close(run([x])[0], expected)
    finally:
        del library.get().finish
        cinn_like.set_flag("cinn_disable_cache", False)


def test_threads_compile_until_the_first_call(real_library):
    """The compiler returns when prices are known; whoever calls, or asks for a report, waits for the rest."""
    x = torch.randn(64, 64)
    gm = make_fx(lambda x: (x.tanh().softmax(1) + 1,))(x)
    may_end, finish = threading.Event(), library.get().finish
    library.get().finish = lambda handle: may_end.wait(60) and finish(handle)
    try:
        runs = [fx.compile_graph(gm, [x]) for _ in range(2)]
        threading.Timer(0.05, may_end.set).start()
        assert not may_end.is_set()
        torch.testing.assert_close(runs[0]([x]), gm(x))
        assert may_end.is_set()
    finally:
        del library.get().finish
    assert len(cinn_like.report().subgraphs) == 2  # the other one, too
    torch.testing.assert_close(runs[1]([x]), gm(x))


def test_ops_that_are_lost_when_all_is_compiled(reference, monkeypatch):
    """What was to be fast may be refused when it is lowered. Regions that lose nothing are bid for, and compiled, once."""
    make, compile_region, bids, compiles = function.compile_function, regions._compile_region, [], []

    def compile_function(text, target, device, signature):
        made = make(text, target, device, signature)
        bids.append(len(signature.ops))
        if "tanh(" not in text or "-framework=" not in target:
            return made
        op = next(i for i, line in enumerate(line for line in text.splitlines() if " = " in line) if "tanh(" in line)

        class Refused:
            @property
            def call(self):
                raise function.LostOps([[op, 2e-3, 1e-3]])

        return Refused()

    def compile_and_count(bid):
        compiles.append(len(bid.region.nodes))
        return compile_region(bid)

    monkeypatch.setattr(function, "compile_function", compile_function)
    monkeypatch.setattr(regions, "_compile_region", compile_and_count)
    x = torch.randn(5, 7)
    gm = make_fx(lambda x: (x.sin().tanh().cos(), x.sort(1).values.exp().neg()))(x)
    run = fx.compile_graph(gm, [x])
    torch.testing.assert_close(run([x]), gm(x))
    report = cinn_like.report()
    assert not report.failures and report.fallback_ops == {
        "aten.sort.default": "no such op in graph text",
        "aten.tanh.default": "the framework's kernel is faster: 0.001 s predicted, ours 0.002 s",
    }
    assert sorted(s.ops[0] for s in report.subgraphs) == ["aten.cos.default", "aten.exp.default", "aten.sin.default"]
    assert sorted(bids) == sorted(compiles) == [1, 1, 2, 3], (bids, compiles)


def test_what_is_lost_when_all_is_compiled_goes_back_in_any_round(reference, monkeypatch):
    make = function.compile_function

    def compile_function(text, target, device, signature):
        class Refused:
            @property
            def call(self):
                raise function.LostOps([[0, 1e3, 1e-3]])  # the region's first op

        return Refused() if "-framework=" in target else make(text, target, device, signature)

    monkeypatch.setattr(function, "compile_function", compile_function)
    x = torch.randn(5, 7)
    gm = make_fx(lambda x: (x.sin().tanh().cos().exp().neg(),))(x)
    torch.testing.assert_close(fx.compile_graph(gm, [x])([x]), gm(x))
    report = cinn_like.report()
    assert len(report.fallback_ops) == 5 and not report.subgraphs and not report.failures


def test_ops_go_back_in_three_rounds(reference, monkeypatch):
    """What is left then is compiled, whoever is faster."""
    make = function.compile_function

    def compile_function(text, target, device, signature):
        if "-framework=" in target:
            raise function.LostOps([[0, 2e-3, 1e-3]])  # the region's first op
        return make(text, target, device, signature)

    monkeypatch.setattr(function, "compile_function", compile_function)
    x = torch.randn(5, 7)
    gm = make_fx(lambda x: (x.sin().tanh().cos().exp().neg(),))(x)
    torch.testing.assert_close(fx.compile_graph(gm, [x])([x]), gm(x))
    report = cinn_like.report()
    assert list(report.fallback_ops) == ["aten.sin.default", "aten.tanh.default", "aten.cos.default"]
    assert [s.ops for s in report.subgraphs] == [["aten.exp.default", "aten.neg.default"]] and not report.failures


def test_a_kernel_that_cannot_be_compiled_costs_its_own_ops(reference, monkeypatch):
    make = function.compile_function

    def compile_function(text, target, device, signature):
        class Refused:
            @property
            def call(self):
                raise function.LostOps([[0, 0, 0, "kernel k3: no"], [1, 0, 0, "kernel k3: no"]])

        return Refused() if "tanh(" in text else make(text, target, device, signature)

    monkeypatch.setattr(function, "compile_function", compile_function)
    x = torch.randn(5, 7)
    gm = make_fx(lambda x: (x.sin().tanh().cos().exp(),))(x)
    torch.testing.assert_close(fx.compile_graph(gm, [x])([x]), gm(x))
    report = cinn_like.report()
    assert report.fallback_ops == dict.fromkeys(["aten.sin.default", "aten.tanh.default"], "kernel k3: no")
    assert [s.ops for s in report.subgraphs] == [["aten.cos.default", "aten.exp.default"]]
    assert len(report.failures) == 1 and re.fullmatch(r"2 ops of subgraph\d+: kernel k3: no", report.failures[0])


def test_what_fails_when_it_is_compiled_is_left_to_the_framework(real_library):
    x, finish = torch.randn(5, 7), library.get().finish

    def fail(handle):
        raise RuntimeError("no")

    library.get().finish = fail
    try:
        assert torch.equal(compiled(torch.tanh)(x), x.tanh())
    finally:
        library.get().finish = finish
    assert cinn_like.report().failures == ["a region of 1 ops: RuntimeError: no"]


def test_no_collections_while_graphs_are_traced_and_compiled(engine, monkeypatch):
    seen = []
    for module, name in [(decompositions, "rewrite"), (regions, "start")]:

        def look(*args, name=name, original=getattr(module, name)):
            seen.append((name, gc.isenabled()))
            return original(*args)

        monkeypatch.setattr(module, name, look)
    x = torch.randn(3)
    fx.compile_graph(make_fx(lambda x: (x.sin() * 2,))(x), [x])  # as AOTAutograd has backward graphs compiled
    compiled(lambda x: x.sin() * 2)(x)
    assert seen == [("start", False), ("rewrite", False), ("start", False)] and gc.isenabled()


def test_collections_of_the_user_stay_as_they_are(engine):
    """No look for cycles during a trace, and none at all of it right behind; frozen objects stay frozen."""
    x, passes, thresholds = torch.randn(3), [], gc.get_threshold()
    gm = make_fx(lambda x: (x.sin() * 2,))(x)
    gc.callbacks.append(lambda phase, info: passes.append(phase))
    try:
        with fx._no_collections():
            fx.compile_graph(gm, [x])
            lists = [[] for _ in range(10000)]
            assert not gc.isenabled() and not passes
            gc.set_threshold(0)  # no look before ours
        assert gc.isenabled() and gc.get_freeze_count() == 0 and len(gc.get_objects(0)) < len(lists)
        gc.set_threshold(*thresholds)
        gc.freeze()
        frozen = gc.get_freeze_count()
        compiled(lambda x: x.sin() * 3)(x)
        assert gc.isenabled() and gc.get_freeze_count() >= frozen - frozen // 10
        gc.unfreeze()
        gc.disable()
        compiled(lambda x: x.sin() * 4)(x)
        assert not gc.isenabled()
    finally:
        gc.unfreeze()
        gc.enable()
        gc.set_threshold(*thresholds)
        gc.callbacks.pop()


def test_an_interrupt_during_a_compile_leaves_all_usable(real_library, monkeypatch):
    """Ctrl-C while a first call waits for the compiler: the call ends, and another waits for the same."""
    cinn_like.set_flag("cinn_disable_cache", True)
    layers = [torch.nn.Linear(16 + k, 17 + k) for k in range(60)]
    layers = torch.nn.Sequential(*[m for layer in layers for m in (layer, torch.nn.Softmax(1))]).requires_grad_(False)
    x = torch.randn(40, 16)
    started, waits, may_end, ends = threading.Event(), threading.Event(), threading.Event(), []
    finish, result = library.get().finish, regions._result

    def watched(handle):
        started.set()
        may_end.wait(60)
        finish(handle)
        ends.append(time.perf_counter())

    def wait(of):
        if started.is_set():
            waits.set()
        return result(of)

    def interrupt():
        waits.wait(60)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(regions, "_result", wait)

    library.get().finish = watched
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may ignore it
    thread = threading.Thread(target=interrupt)
    thread.start()
    run = compiled(layers)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(x)
            time.sleep(10)
        assert not ends
        thread.join()
    finally:
        may_end.set()
        del library.get().finish
        signal.signal(signal.SIGINT, handler)
        cinn_like.set_flag("cinn_disable_cache", False)
    torch.testing.assert_close(run(x), layers(x), rtol=1e-4, atol=1e-5)
    assert len(ends) == len(cinn_like.report().subgraphs) == 1


class WrongTanh:
    """A compiler whose tanh is wrong."""

    def __init__(self, inner):
        self.inner, self.info = inner, inner.info
        self.lines = [line for line in inner.text.splitlines() if "tanh" in line]
        self.results = inner.text.split("return ")[1].split("\n")[0].split(", ")

    def call(self, *args):
        wrong = {line.split(" =")[0].strip() for line in self.lines}
        return tuple(r + 0.5 if n in wrong else r for n, r in zip(self.results, self.inner.call(*args)))


def test_verify_names_the_first_differing_op(reference, monkeypatch):
    make = function.compile_function
    monkeypatch.setenv("FLAGS_cinn_verify", "1")
    monkeypatch.setattr("cinn_like.library.available", lambda: False)
    x = torch.randn(4, 5)
    fn = lambda x: (x.exp() + 1).tanh().t()  # noqa: E731
    compiled(fn)(x)
    assert not cinn_like.report().differences
    torch._dynamo.reset()
    monkeypatch.setattr(function, "compile_function", lambda *a: WrongTanh(make(*a)))
    with pytest.warns(UserWarning, match="tanh"):
        compiled(fn)(x)
    difference = cinn_like.report().differences[0]
    assert difference.startswith("tanh = aten.tanh.default: the largest difference is 0.5")


@pytest.fixture
def empty_cache(real_library, tmp_path):
    """The disk cache in a folder of its own."""
    before = cinn_like.get_flag("cinn_cache_dir")
    cinn_like.set_flag("cinn_cache_dir", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    cinn_like.set_flag("cinn_cache_dir", before)


def test_report(empty_cache):
    fn = lambda x: torch.sort((x * 2 + 1).tanh(), 1).values.exp().sum(1)  # noqa: E731
    x = torch.randn(50, 40)
    reports = []
    for _ in range(2):
        torch._dynamo.reset()
        cinn_like.reset_report()
        assert str(cinn_like.report()).startswith("cinn_like: 0 ops compiled in 0 subgraphs")
        torch.testing.assert_close(compiled(fn)(x), fn(x))
        reports.append(cinn_like.report())
    for report, hits in zip(reports, (0, 2)):
        assert [len(s.ops) for s in report.subgraphs] == [3, 2] and report.graphs == 1
        assert report.compiled_ops == dict.fromkeys(
            [f"aten.{op}" for op in ("mul.Tensor", "add.Tensor", "tanh.default", "exp.default", "sum.dim_IntList")], 1
        )
        assert report.fallback_ops == {"aten.sort.default": "no such op in graph text"}
        assert report.cache_hits == hits and [s.cache_hit for s in report.subgraphs] == [hits > 0] * 2
        assert 0 < report.compiled_share < 1
        assert report.peak_rss_bytes > 2**20 and 0 <= report.added_rss_bytes < report.peak_rss_bytes
        assert 0 < report.compile_seconds["emit"] < report.total_seconds
    assert reports[0].compile_seconds["codegen"] > 0 and "codegen" not in reports[1].compile_seconds
    lines = str(reports[1]).splitlines()
    assert "5 ops compiled in 2 subgraphs, 2 from the cache" in lines[0] and "% of eager's time" in lines[0]
    for part in (
        "  subgraph ",
        "(cached)",
        "    aten.sort.default: no such op in graph text",
        "  compile seconds: ",
        "MiB",
    ):
        assert any(part in line for line in lines), (part, lines)


def test_a_report_of_many_subgraphs_is_short():
    for k in range(40):
        reporting.add_subgraph(reporting.Subgraph(f"subgraph{k}", ["aten.add.Tensor"], "cpu"))
    assert "  ... and 28 more" in str(cinn_like.report()).splitlines() and len(cinn_like.report().subgraphs) == 40


def test_a_report_names_refused_tactics(reference, monkeypatch):
    make, why = function.compile_function, "kernel subgraph_k0: tactic rows_gpu: step 'merge e f': no"

    def compile_function(*args):
        made = make(*args)
        made.info |= {"tactics": ["subgraph_k0: naive"], "refused": [why]}
        return made

    monkeypatch.setattr(function, "compile_function", compile_function)
    compiled(lambda x: x.sin() * 2)(torch.zeros(3))
    subgraph = cinn_like.report().subgraphs[0]
    assert subgraph.refused == [why] and subgraph.tactics == ["subgraph_k0: naive"]
    assert f"  refused: {subgraph.name}: {why}" in str(cinn_like.report()).splitlines()


@torch.library.custom_op("cinn_like_tests::no_ones", mutates_args=())
def no_ones(x: torch.Tensor) -> torch.Tensor:
    if (x == 1).any():
        raise ValueError("a one")
    return x.clone()


@no_ones.register_fake
def _(x):
    return torch.empty_like(x)


def test_a_report_tells_what_it_cannot_measure(reference):
    compiled(lambda x: no_ones(x) * 2)(torch.zeros(3))
    assert "can't be measured (ValueError: a one" in str(cinn_like.report())
