"""Schedules: steps, applied one by one, each of which gives the function's text anew (docs/schedules.md)."""

import difflib
import functools
import html
import re

from .. import library
from .program import Program
from .stages import Extern, Stage, Tensor

_WIDTH = 78  # of one side of a diff
# What TVM's users look for.
_ELSEWHERE = {
    "compute_inline": "inline",
    "reverse_compute_inline": "reverse_inline",
    "cache_read": "stage",
    "set_scope": "scope",
    "decompose_reduction": "split_init",
    "pad_einsum": "round_up",
    "loop_partition": "peel",
    "pragma": "annotate",
    "get_block": "the block b_ and the tensor's name",
    "get_loops": "loops",
    "mod": "text",
    "trace": "schedule",
}


class Text(str):
    """Source that a notebook shows as such."""

    def _repr_html_(self):
        return f"<pre>{html.escape(self)}</pre>"


def details(title, *parts, is_open=False):
    """What a notebook shows under a title, to be opened and closed."""
    inside = "".join(part._repr_html_() for part in parts)
    return f"<details{' open' if is_open else ''}><summary><code>{html.escape(title)}</code></summary>{inside}</details>"


class Diff:
    """Two texts side by side: as text, and in a notebook as a table."""

    def __init__(self, before, after, titles):
        self.before, self.after, self.titles = before, after, titles

    def __str__(self):
        return library.get().side_by_side(self.before, self.after, self.titles)

    __repr__ = __str__

    def _repr_html_(self, whole=True):
        """Whole, or only what differs with some lines around it."""
        table = difflib.HtmlDiff(wrapcolumn=_WIDTH).make_table(
            self.before.splitlines(), self.after.splitlines(), *map(html.escape, self.titles), not whole, 2
        )
        style = (
            "<style>table.diff{font-family:monospace}table.diff td{text-align:left;white-space:pre}"
            ".diff_add{background:#cfc}.diff_chg{background:#ffc}.diff_sub{background:#fcc}</style>"
        )
        return style + table


class _Changes:
    """Of a diff, the part that differs."""

    def __init__(self, diff):
        self.diff = diff

    def _repr_html_(self):
        return self.diff._repr_html_(whole=False)


@functools.cache
def steps():
    """Name -> the words before `->`, and those after, of every step that the library has."""
    table = {}
    for row in library.get().list_steps():
        before, _, after = row["usage"].partition("->")
        table[row["name"]] = (before.split(), after.split(), f"{row['name']} {row['usage']}", row["on"])
    return table


class Schedule:
    """The loops of a program, and the steps that made them what they are: s.split("l_i", 64, to=("io", "ii")). There is a
    method for each step of docs/schedules.md; it takes what the text has before `->` in that order, tensors for their
    stages, blocks and buffers, and `to=` what it has after; names that are not given are made up. It gives those names."""

    def __init__(self, program):
        self.program = program
        self.history = [("", _run(program.text))]  # each step, and the text after it

    @property
    def text(self):
        """The loops as they are now."""
        return Text(self.history[-1][1])

    @property
    def schedule(self):
        """The steps, one a line."""
        return "".join(f"{step}\n" for step, _ in self.history[1:])

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _ELSEWHERE:
            raise AttributeError(f"a schedule has no step {name!r}: here it is {_ELSEWHERE[name]} (docs/schedules.md)")
        if name not in steps():
            raise AttributeError(f"a schedule has no step {name!r}; there are {', '.join(steps())}")
        return functools.partial(self._step, name)

    def __dir__(self):
        return [*super().__dir__(), *steps()]

    def __getitem__(self, tensor):
        raise TypeError("a schedule's steps are its own methods, of names or tensors: s.split(s.loops(C)[0], 64), not s[C].split(...)")

    def run(self, text):
        """Steps as text, one a line; returns the schedule. Where one is illegal none is done."""
        lines = [line.split("//")[0].strip() for line in text.splitlines()]
        done = list(self.history)
        for line in filter(None, lines):
            done.append((line, _run(done[-1][1], line)))
        self.history = done
        return self

    def tile(self, x, y, x_factor, y_factor):
        """Two loops, one right in the other, cut into tiles: gives xo, yo, xi, yi."""
        xo, xi = self.split(x, x_factor)
        yo, yi = self.split(y, y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    def loops(self, block):
        """The names of the loops around a block (or a tensor's), outermost first."""
        name = self._word(block, "BLOCK")
        around = []
        for line in self.text.splitlines():
            depth = len(line) - len(line.lstrip())
            around = [(d, loop) for d, loop in around if d < depth]
            if found := re.match(r"\s*for (\w+)", line):
                around.append((depth, found[1]))
            if re.match(rf"\s*block {re.escape(name)}\(", line):
                return [loop for _, loop in around]
        raise ValueError(f"no block {name}; there are {', '.join(self.blocks())}")

    def blocks(self):
        return re.findall(r"^\s*block (\w+)\(", self.text, re.M)

    def diff(self, before=-2, after=-1):
        """Two of the texts in `history`, side by side; as it is, what the last step did."""
        last = len(self.history)
        places = [k + last if k < 0 else k for k in (before, after)]
        for k in places:
            if not 0 <= k < last:
                raise IndexError(f"step {k} of {last - 1}")
        titles = [f"{k}: {self.history[k][0] or 'stages'}" for k in places]
        return Diff(*(self.history[k][1] for k in places), titles)

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"Schedule of {len(self.history) - 1} steps\n{self.text}"

    def _repr_html_(self):
        """Each step, to be opened: what it changed, and the loops after it. The last is open, both texts whole."""
        last = len(self.history) - 1
        parts = [details("stages", Text(self.history[0][1]), is_open=last == 0)]
        for k in range(1, last + 1):
            (step, text), diff = self.history[k], self.diff(k - 1, k)
            inside = [diff] if k == last else [_Changes(diff), Text(text)]
            parts.append(details(f"{k}: {step}", *inside, is_open=k == last))
        return "".join(parts)

    def _step(self, name, *args, to=None, **unknown):
        before, after, usage, _ = steps()[name]
        if unknown:
            raise TypeError(f"{name}: expected arguments in the order of {usage!r} and to=, got {next(iter(unknown))}=")
        words = [self._word(a, before[min(k, len(before) - 1)] if before else "") for k, a in enumerate(args)]
        names = [] if to is None else [to] if isinstance(to, str) else list(to)
        if after and not names:
            names = self._names(name, words, before, after, usage)
        line = " ".join([name, *words, *(["->", *names] if names else [])])
        self.run(line)
        made = re.findall(r"[A-Za-z_]\w*", re.sub(r"\[[^]]*\]", "", " ".join(names)))
        return None if not made else made[0] if len(made) == 1 else tuple(made)

    def _word(self, x, kind):
        if isinstance(x, (Stage, Extern)):
            x = x.outputs[0]
        if isinstance(x, Tensor):
            try:
                name = self.program.name_of(x if not kind.startswith(("BLOCK", "STAGE")) else x.stage.outputs[0])
            except (AttributeError, KeyError):
                raise ValueError(f"{x!r} is {'no stage' if kind else 'none'} of this schedule") from None
            return f"b_{name}" if kind == "BLOCK" else name
        if isinstance(x, (tuple, list)):
            return " ".join(self._word(y, kind) for y in x)
        return str(x)

    def _names(self, step, words, before, after, usage):
        """Names for what a step makes: l_i -> l_i_o, l_i_i."""
        if after == ["NAME"]:
            count = 1
        elif after == ["NAME", "NAME..."] and before[-1] == "FACTOR...":
            count = len(words) - before.index("FACTOR...") + 1
        else:
            raise TypeError(f"{step}: expected to=, the names in {usage}")
        base = words[before.index("ITERATOR")] if "ITERATOR" in before and words[1:] else words[0] if words else step
        endings = [step] if count == 1 else ["o", "i"] if count == 2 else [str(k) for k in range(count)]
        used, names = set(re.findall(r"\w+", self.text)), []
        for ending in endings:
            name, k = f"{base}_{ending}", 0
            while name in used:
                name, k = f"{base}_{ending}_{k + 1}", k + 1
            used.add(name)
            names.append(name)
        return names


def _run(text, schedule="", passes="", target="cpu"):
    return library.get().run_on_text(text, schedule, passes, target)


def create_schedule(outputs, args=None, name="program", align=None):
    """A schedule without steps for `outputs`, a tensor or several, which a built function gives in this order. Its arguments
    are `args`, placeholders and vars, or else the placeholders in the order in which they were made; vars that no shape tells
    come last. Tensors begin at multiples of `align` bytes (16, or less), so that threads of GPUs can copy as many at once."""
    return Schedule(Program(outputs, args, name, align))


def check_target(target):
    """A text, or an error that says where else a list of arguments belongs."""
    if not isinstance(target, str):
        what = "create_schedule(outputs, args=...) is given arguments" if isinstance(target, (tuple, list)) else f"got {target!r}"
        raise TypeError(f'target: expected a text such as "cpu"; {what}')
    return target


def lower(s, target="cpu"):
    """The loops without blocks, as code is generated from them."""
    check_target(target)
    return Text(_run(s.text, passes="lower", target=target))
