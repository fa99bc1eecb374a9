"""What is shown of schedules and built functions: HTML for notebooks, what kernels take, and what a target needs to be known."""

import html.parser
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from cinn_like import library, te

pytestmark = pytest.mark.skipif(not library.available(), reason="needs the shared library (CINN_LIKE_LIBRARY)")

n = te.var("n")
A = te.placeholder((n,), name="A")


def clipped():
    s = te.create_schedule(te.compute((n,), lambda i: te.if_then_else(A[i] < 0, 0.0, A[i]), name="C"))
    s.split("l_i", 8, to=("io", "ii"))
    s.vectorize("ii")
    return s


def on_gpu():
    s = clipped()
    s.run("bind io blockIdx.x")
    return s


class Page(html.parser.HTMLParser):
    """Titles and texts of a page, whose tags must close each other."""

    def __init__(self, text):
        super().__init__()
        self.open, self.titles, self.opened, self.text = [], [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag in ("td", "tr", "th", "table", "thead", "tbody", "a", "span", "details", "summary", "code", "pre", "style"):
            self.open.append(tag)
        else:
            assert tag == "colgroup"
        if tag == "details":
            self.opened.append(dict(attrs).get("open", "no") != "no")

    def handle_startendtag(self, tag, attrs):
        assert tag == "br"

    def handle_endtag(self, tag):
        if tag != "colgroup":
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-2:] == ["summary", "code"]:
            self.titles.append(data)
        self.text += data.replace("\xa0", " ")


def test_a_schedule():
    page = Page(clipped()._repr_html_())
    assert page.titles == ["stages", "1: split l_i 8 -> io ii", "2: vectorize ii"]
    assert page.opened == [False, False, True]  # the last step, side by side with what was before
    assert page.text.count("C[i] = select(A[i] < 0.0, 0.0, A[i; not(A[i] < 0.0)])") == 6  # 2 texts, and 2 differences of 2 sides
    assert "for l_i in 0..n" in page.text and "@vectorized" in page.text
    assert Page(te.create_schedule(te.compute((n,), lambda i: A[i], name="C"))._repr_html_()).opened == [True]


def test_nothing_shown_is_html():
    """What a program says is text to a notebook."""
    evil = "</pre><script>alert(1)</script>&amp;"
    for shown in (te.Text(evil), te.Diff(evil, evil + "\n<b>", (evil, evil))):
        page = shown._repr_html_()
        assert "<script" not in page and "<b>" not in page and "&lt;script" in page
    s = clipped()
    s.history.append((evil, s.history[-1][1] + evil))
    assert "<script" not in s._repr_html_() and Page(s._repr_html_()).titles[-1] == "3: " + evil
    f = te.build(clipped(), "c", rewrite=lambda text, _: text + f"// {evil}\n")
    assert "<script" not in f._repr_html_() and evil in Page(f._repr_html_()).text


@pytest.mark.parametrize("target, titles", [
    ("cpu", ["schedule", "loops", "llvm", "asm"]),
    ("c", ["schedule", "loops", "c"]),
    ("opencl", ["schedule", "loops", "opencl"]),
    ("cuda -arch=sm_80", ["schedule", "loops", "cuda", "ptx", "resources"]),
])  # fmt: skip
def test_a_function(target, titles):
    page = Page(te.build(clipped() if target in ("cpu", "c") else on_gpu(), target)._repr_html_())
    assert page.titles == titles
    assert "for " + target in page.text and "vectorize ii" in page.text and "func @program" in page.text


def test_what_cannot_be_made_says_why():
    def refuse(source, arch, options):
        raise ArithmeticError("<none>")

    page = Page(te.build(on_gpu(), "cuda -arch=sm_80", compiler=refuse)._repr_html_())
    assert page.text.count("ArithmeticError: <none>") == 2 and "__global__" in page.text


def test_resources():
    f = te.build(on_gpu(), "cuda -arch=sm_80")
    try:
        f.get_source("ptx")
    except ValueError as why:
        pytest.skip(str(why).splitlines()[0])
    first, row = f.get_source("resources").splitlines()
    assert re.split(r"  +", first) == ["kernel", "threads", "registers", "spilled", "stack", "static shared", "dynamic shared"]
    name, threads, *numbers = re.split(r"  +", row)
    assert (name, threads) == ("program_k0_kernel", "1 x 1 x 1")
    assert 0 < int(numbers[0]) < 256 and numbers[1:] == ["0"] * 4
    with pytest.raises(ValueError, match="no source of kind 'resources'; there are stages"):
        te.build(clipped()).get_source("resources")


def test_nvrtc_is_found_without_pytorch():
    """Beside this package, where no other that is loaded says where packages are."""
    packages = pathlib.Path(library.path()).resolve().parents[1]
    if not list(packages.glob("nvidia/*/lib/libnvrtc.so.*")):
        pytest.skip("no NVRTC beside this package")
    code = "import sys; from cinn_like import te; f = te.build(te.create_schedule(te.compute((3,), lambda i: i)), 'cuda -arch=sm_90a'); " \
           "print(f.get_source('ptx')); assert 'torch' not in sys.modules"  # fmt: skip
    env = {**{k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"}, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert ran.returncode == 0 and ".target sm_90a" in ran.stdout, ran.stderr


def test_has_device():
    assert te.has_device("cpu") and not te.has_device("c")
    with pytest.raises(ValueError, match="unknown kind 'tpu'"):
        te.has_device("tpu")


def test_alignment():
    s = te.create_schedule(te.compute((n,), lambda i: A[i] * 2.0, name="C"), align=16)
    assert "A: f32[n] align 16, C: f32[n] align 16 out" in s.text
    s.split("l_i", 4, to=("io", "ii"))
    s.bind("io", "blockIdx.x")
    s.vectorize("ii")
    assert "*(const uint4*)(p0" in te.build(s, "cuda -arch=sm_80").get_source()
    data = np.arange(9, dtype="float32")
    np.testing.assert_array_equal(te.build(te.create_schedule(s.program.outputs, align=16))(data[1:]), data[1:] * 2)
    for wrong in (3, 32, 0, "16"):
        with pytest.raises(ValueError, match="align: expected a power of 2 from 1 to 16"):
            te.create_schedule(s.program.outputs, align=wrong)


def test_what_is_read_or_zero_is_a_masked_read():
    B = te.compute((n + 1,), lambda i: te.if_then_else(0 < i, A[i - 1], 0.0), name="B")
    s = te.create_schedule(B)
    assert "B[i] = A[i - 1; 0 < i]\n" in s.text
    np.testing.assert_array_equal(te.build(s)(np.ones(3, "float32")), [0, 1, 1, 1])
    B = te.compute((n + 1,), lambda i: te.if_then_else(0 < i, A[i - 1], -0.0), name="B")
    assert "select(" in te.create_schedule(B).text  # a masked read gives +0
    assert np.signbit(te.build(te.create_schedule(B))(np.ones(3, "float32"))[0])
