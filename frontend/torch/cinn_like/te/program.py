"""Stages as loop text: one naive nest with one block a stage, the form that ToStages of ir/te.h reads. Stage T is block b_T;
an iterator i is run by loop l_i."""

import re

from .expr import DTYPES, Expr, ReduceAxis, Var, Writer, as_expr, cast, postorder
from .stages import Extern, Stage, Tensor

_NAME = re.compile(r"[A-Za-z_]\w*")
# Words that begin statements, and values: no buffer can be called so.
_WORDS = {"alloc", "barrier", "block", "call", "false", "for", "if", "inf", "launch", "let", "nan", "true", "while"}
_ALIGNMENTS = [2**k for k in range(5)]  # bytes


def _check_name(name, what):
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{what}: expected a name of letters, digits and _, got {name!r}")


class _Names:
    def __init__(self):
        self.used = _WORDS | set(DTYPES.values())

    def claim(self, name, what):
        _check_name(name, what)
        if name in _WORDS:
            raise ValueError(f"{what}: {name} is a word of loop text")
        if name in self.used:
            raise ValueError(f"{what}: the name {name} is taken")
        self.used.add(name)
        return name

    def fresh(self, base):
        name, k = base, 0
        while name in self.used:
            k += 1
            name = f"{base}_{k}"
        self.used.add(name)
        return name


class Program:
    """What `outputs` are, with all that they need, as the text of one function."""

    def __init__(self, outputs, args, name, align=None):
        if align is not None and (not isinstance(align, int) or align not in _ALIGNMENTS):
            raise ValueError(f"align: expected a power of 2 from 1 to {_ALIGNMENTS[-1]}, got {align!r}")
        self._align = f" align {align}" if align else ""
        self.outputs = _flat(outputs)
        self.stages = _stages_of(self.outputs)
        read = [t for stage in self.stages for t in _tensors_of(stage) if t.stage is None]
        found = sorted(set(read), key=lambda t: t.number)
        self.inputs = found if args is None else list(args)
        for a in self.inputs:
            if not isinstance(a, Var) and not (isinstance(a, Tensor) and a.stage is None):
                raise TypeError(f"args: expected placeholders and vars, got {a!r}")
        missing = [t for t in found if not _has(self.inputs, t)]
        if missing:
            raise ValueError(f"args: {missing[0]!r} is missing")
        names = self._names = _Names()
        self._texts = {}
        if len(set(map(id, self.inputs))) != len(self.inputs):
            raise ValueError("args: one stands twice")
        for k, t in enumerate(t for t in self.inputs if isinstance(t, Tensor)):
            self._texts[t] = names.claim(t.name, "placeholder") if t.name else names.fresh(f"arg{k}")
        for stage in self.stages:
            for t in stage.outputs:
                self._texts[t] = names.claim(t.name, "tensor") if t.name else names.fresh("compute")
        self.symbols = self._find_symbols()
        for s in self.symbols:
            self._texts[s] = names.claim(s.name, "var")
        _check_name(name, "function")  # the only one after an @
        self.text = self._write(name)

    def name_of(self, tensor):
        return self._texts[tensor]

    def _find_symbols(self):
        roots = [d for t in self._texts for d in (*t.shape, *(t.strides or ())) if isinstance(d, Expr)]
        for stage in self.stages:
            roots += [*stage.values, *stage.inits]
            roots += [a.extent for a in stage.axes if isinstance(a.extent, Expr)]
        symbols = [e for e in postorder(roots) if isinstance(e, Var)]
        symbols += [a for a in self.inputs if isinstance(a, Var) and not _has(symbols, a)]
        # Those that no argument's shape tells are arguments, too.
        tensors = [t for t in self.inputs if isinstance(t, Tensor)]
        self.extra = [s for s in symbols if not _has(self.inputs, s) and not any(_has(t.shape, s) for t in tensors)]
        return symbols

    def strides_as_arguments(self):
        """Of the last arguments, which are symbols: the tensor and the dimension whose stride each is, or None."""
        tensors = [(k, t) for k, t in enumerate(a for a in self.inputs) if isinstance(t, Tensor) and t.strides]
        return [next(((k, d) for k, t in tensors for d, x in enumerate(t.strides) if x is s), None) for s in self.extra]

    def _write(self, name):
        params = [self._param(a) for a in self.inputs] + [f"{self._texts[s]}: i64" for s in self.extra]
        params += [f"{self._type(t)}{self._align} out" for t in self.outputs]
        facts = ", ".join(f"{self._texts[s]} in {s.facts}" for s in self.symbols)
        self._loops = [(_Call if isinstance(stage, Extern) else _Nest)(self, stage) for stage in self.stages]
        allocs = [f"  alloc {self._type(t)} @global" for s in self.stages for t in s.outputs if t not in self.outputs]
        allocs += [f"  alloc {line} @global" for nest in self._loops for line in nest.running_types]
        body = [line for nest in self._loops for line in nest.lines()]
        where = f" where {facts}" if facts else ""
        return "\n".join([f"func @{name}({', '.join(params)}){where} {{", *allocs, *body, "}", ""])

    def _param(self, a):
        return f"{self._texts[a]}: i64" if isinstance(a, Var) else self._type(a) + self._align

    def _type(self, t):
        strides = "" if t.strides is None else f" strides [{self.dims(t.strides)}]"
        return f"{self._texts[t]}: {DTYPES[t.dtype]}[{self.dims(t.shape)}]{strides}"

    def dims(self, shape):
        return ", ".join(map(self.dim, shape))

    def dim(self, d):
        if not isinstance(d, Expr):
            return str(d)
        lines = Writer(self._symbol, None).statement("", d)
        if len(lines) > 1:
            raise ValueError(f"a size is written too deeply: {lines[0]}")
        return lines[0]

    def _symbol(self, e):
        if e in self._texts:
            return self._texts[e]
        raise ValueError(f"a size speaks of {getattr(e, 'name', e.data)}, which is no te.var")


class _Call:
    """A block without iterators that calls a function by name."""

    running_types = ()

    def __init__(self, program, stage):
        self.program, self.stage = program, stage
        self.block = program._names.claim(f"b_{program.name_of(stage.outputs[0])}", "block")

    def lines(self):
        inputs = [self.program.name_of(x) if isinstance(x, Tensor) else self.program.dim(x) for x in self.stage.inputs]
        outputs = map(self.program.name_of, self.stage.outputs)
        call = f'call "{self.stage.function}"({", ".join(inputs)}) -> ({", ".join(outputs)})'
        return [f"  block {self.block}() {{", f"    {call}", "  }"]


class _Nest:
    def __init__(self, program, stage):
        self.program, self.stage, names = program, stage, program._names
        axes = [a.raw for a in stage.axes]
        if len(set(map(id, axes))) != len(axes):
            raise ValueError(f"{self.name}: a reduce axis stands twice")
        extents = [*stage.shape, *(a.extent if a.most is None else a.most for a in stage.axes)]
        self.iters = [(e, names.fresh(e.data), program.dim(n)) for e, n in zip([*stage.iters, *axes], extents)]
        self.texts = {e: name for e, name, _ in self.iters}
        self.loops = [names.fresh(f"l_{name}") for _, name, _ in self.iters]
        self.ends = [extent for *_, extent in self.iters]  # of the loops
        self.ragged = any(a.most is not None for a in stage.axes)
        for k, a in enumerate(stage.axes, len(stage.iters)):
            if a.most is not None:
                self.ends[k] = self._end(a, k)
        self.block = names.claim(f"b_{self.name}", "block")
        self.start = names.fresh(f"{self.block}_start") if self.ragged else None
        indices = ", ".join(name for _, name, _ in self.iters[: len(stage.iters)])
        self.places = [f"{program.name_of(t)}[{indices}]" for t in stage.outputs]
        self.running, self.running_types = self.places, []
        if stage.along is not None:
            others = [(i, n) for i, n in zip(stage.iters, stage.shape) if i is not stage.along]
            indices, shape = ", ".join(self.texts[i] for i, _ in others), program.dims(n for _, n in others)
            buffers = [names.fresh(f"{program.name_of(t)}_run") for t in stage.outputs]
            self.running = [f"{b}[{indices}]" for b in buffers]
            self.running_types = [f"{b}: {DTYPES[e.dtype]}[{shape}]" for b, e in zip(buffers, stage.inits)]

    @property
    def name(self):
        return self.program.name_of(self.stage.outputs[0])

    def _end(self, axis, k):
        """Where a loop that memory ends does, in terms of the loops around it."""
        around = {e: loop for (e, _, _), loop in zip(self.iters[:k], self.loops)}
        end = Expr("max", "int64", (cast(axis.extent, "int64"), as_expr(0, "int64")))
        end = Expr("min", "int64", (end, as_expr(axis.most, "int64")))
        lines = Writer(lambda e: around[e] if e in around else self._name(e), None).statement("", end)
        if len(lines) > 1:
            raise ValueError(f"{self.name}: the end of {axis.name} is written too deeply")
        return lines[0]

    def _start_lines(self):
        """What rows without an element are: the start of a reduction whose loop may not run is a nest of its own."""
        stage, names = self.stage, self.program._names
        data = self.iters[: len(stage.iters)]
        loops, lines = [names.fresh(f"{loop}_start") for loop in self.loops[: len(data)]], []
        texts = {e: names.fresh(f"{name}_start") for e, name, _ in data}
        for depth, (loop, (_, _, extent)) in enumerate(zip(loops, data)):
            lines.append("  " * (depth + 1) + f"for {loop} in 0..{extent} {{")
        pad = "  " * (len(loops) + 1)
        domains = ", ".join(f"{texts[e]} in 0..{extent} = {loop}" for (e, _, extent), loop in zip(data, loops))
        lines.append(f"{pad}block {self.start}({domains}) {{")
        indices = ", ".join(texts[e] for e, _, _ in data)
        for t, e in zip(stage.outputs, stage.inits):
            at = f"{self.program.name_of(t)}[{indices}] = "
            lines += [f"{pad}  {line}" for line in Writer(self._name, None).statement(at, e)]
        return [*lines, pad + "}", *("  " * (depth + 1) + "}" for depth in reversed(range(len(loops))))]

    def lines(self):
        stage, lines = self.stage, self._start_lines() if self.ragged else []
        for depth, (loop, end) in enumerate(zip(self.loops, self.ends)):
            lines.append("  " * (depth + 1) + f"for {loop} in 0..{end} {{")
        pad = "  " * (len(self.loops) + 1)
        domains = ", ".join(
            f"{name} {'reduce' if k >= len(stage.iters) or e is stage.along else 'in'} 0..{extent} = {loop}"
            for k, ((e, name, extent), loop) in enumerate(zip(self.iters, self.loops))
        )
        init = ""
        if stage.inits and not self.ragged:
            starts = [line for at, e in zip(self.running, stage.inits) for line in self._statement(f"{at} = ", e)]
            init = "init {\n" + "".join(f"{pad}  {line}\n" for line in starts) + pad + "} "
        lines.append(f"{pad}block {self.block}({domains}) {init}{{")
        lines += [f"{pad}  {line}" for line in self._body()]
        lines.append(pad + "}")
        lines += ["  " * (depth + 1) + "}" for depth in reversed(range(len(self.loops)))]
        return lines

    def _body(self):
        stage, lines = self.stage, []
        if len(stage.values) == 1 and stage.along is None:
            return self._statement(f"{self.places[0]} = ", stage.values[0])
        names = [self.program._names.fresh("v") for _ in stage.values]
        for v, e in zip(names, stage.values):
            lines += self._statement(f"let {v} = ", e)
        lines += [f"{at} = {v}" for at, v in zip(self.running, names)]
        if stage.along is not None:
            for at, v, t, e in zip(self.places, names, stage.outputs, stage.values):
                lines.append(f"{at} = {v if t.dtype == e.dtype else f'{DTYPES[t.dtype]}({v})'}")
        return lines

    def _statement(self, start, e):
        return Writer(self._name, lambda r: self.running[r.data]).statement(start, e)

    def _name(self, e):
        if e in self.texts:
            return self.texts[e]
        if isinstance(e, Tensor) or isinstance(e, Var):
            return self.program.name_of(e)
        what = "a reduce axis that nothing reduces over" if isinstance(e, ReduceAxis) else "an index of another tensor"
        raise ValueError(f"{self.name}: its elements speak of {e.data}, {what}")


def _has(items, x):
    return any(item is x for item in items)  # == of expressions is one


def _flat(outputs):
    tensors = []
    for t in outputs if isinstance(outputs, (tuple, list)) else [outputs]:
        found = t.outputs if isinstance(t, (Stage, Extern)) else [t]
        for x in found:
            if not isinstance(x, Tensor) or x.stage is None:
                raise TypeError(f"outputs: expected what te.compute, te.scan and te.extern give, got {x!r}")
            if x in tensors:
                raise ValueError(f"outputs: {x!r} stands twice")
            tensors.append(x)
    if not tensors:
        raise ValueError("outputs: expected a tensor, got none")
    return tensors


def _tensors_of(stage):
    handed = [x for x in stage.inputs if isinstance(x, Tensor)] if isinstance(stage, Extern) else []
    ends = [a.extent for a in stage.axes if a.most is not None]
    return handed + [e.data[0] for e in postorder([*stage.values, *stage.inits, *ends]) if e.op == "load"]


def _stages_of(outputs):
    """In the order in which they are needed."""
    seen, order, todo = set(), [], [(t.stage, False) for t in reversed(outputs)]
    while todo:
        stage, done = todo.pop()
        if done:
            order.append(stage)
        elif stage not in seen:
            seen.add(stage)
            todo.append((stage, True))
            todo += [(t.stage, False) for t in reversed(_tensors_of(stage)) if t.stage is not None]
    return order


