"""Tensors and the stages that compute them (ir/te.h), each written as an element's expression."""

import inspect
import itertools
import math
import numbers

from .. import functions
from .expr import (
    Expr, ReduceAxis, Var, as_expr, call, cast, const, dtype_of, greatest, if_then_else, is_float, is_int, max_value,
    min_value,
)  # fmt: skip


_numbers = itertools.count()


class Stage:
    """A pointwise stage, a reduction (`axes`, `inits`) or a scan (`along`, `inits`); `values` are its outputs' elements."""

    def __init__(self, name, iters, shape, values, axes=(), inits=(), along=None, out_dtypes=None):
        self.name, self.iters, self.shape, self.values = name, iters, shape, values
        self.axes, self.inits, self.along = axes, inits, along
        dtypes = out_dtypes or [v.dtype for v in values]
        self.outputs = [Tensor(name if k == 0 or name is None else f"{name}_{k}", shape, dtype, self)
                        for k, dtype in enumerate(dtypes)]  # fmt: skip


class Extern:
    """A stage whose outputs a function writes that is called by name with its inputs, tensors and scalars, and them."""

    def __init__(self, name, shapes, dtypes, inputs, function, kept):
        self.name, self.inputs, self.function, self.kept = name, inputs, function, kept
        self.values = [x for x in inputs if isinstance(x, Expr)]
        self.axes, self.inits, self.along = (), (), None
        self.outputs = [Tensor(name if k == 0 or name is None else f"{name}_{k}", shape, dtype, self)
                        for k, (shape, dtype) in enumerate(zip(shapes, dtypes))]  # fmt: skip


class Tensor:
    """A placeholder, or an output of a stage. `A[i, j]` is an element; nothing is read outside of a tensor: what is not
    known to be inside is asked at run time, and an error there."""

    def __init__(self, name, shape, dtype, stage=None, strides=None):
        self.name, self.shape, self.dtype, self.stage, self.strides = name, shape, dtype, stage, strides
        self.number = next(_numbers)  # tensors in the order in which they were made

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def op(self):
        return self.stage

    def __getitem__(self, indices):
        indices = indices if isinstance(indices, tuple) else (indices,)
        if len(indices) != self.ndim:
            raise TypeError(f"{self.name or 'a tensor'} has {self.ndim} dimensions and is indexed by {len(indices)}")
        return Expr("load", self.dtype, [_index(i, self) for i in indices], (self, False))

    def __call__(self, *indices):
        return self[indices]

    def __iter__(self):
        raise TypeError(f"{self.name or 'a tensor'}: expected indices, as in A[i, j]")

    def as_expr(self):
        if self.ndim == 0:
            return self[()]
        raise TypeError(f"{self.name or 'a tensor'} has {self.ndim} dimensions: expected an element of it, as in A[i, j]")

    def __repr__(self):
        return f"Tensor({self.name}: {self.dtype}[{', '.join(map(str, self.shape))}])"


def _index(i, tensor):
    if isinstance(i, slice) or i is None or i is Ellipsis:
        raise TypeError(f"{tensor.name or 'a tensor'}: expected indices of one element, got {i}")
    i = as_expr(i, "int64")
    if not is_int(i.dtype):
        raise TypeError(f"{tensor.name or 'a tensor'}: an index is {i.dtype}")
    return cast(i, "int64")


def var(name="n", dtype="int64", *, low=1, high=2**31 - 1, multiple=1, hint=0):
    """A size (or another integer) that calls give: low <= it <= high, a multiple of `multiple`; `hint` is a likely value.
    Sizes count in int64, also those that are said to fit an int32."""
    if dtype_of(dtype) not in ("int32", "int64"):
        raise TypeError(f"var {name}: expected int32 or int64, got {dtype_of(dtype)}")
    if dtype_of(dtype) == "int32" and high > greatest("int32"):
        raise ValueError(f"var {name}: {high} is no int32")
    if low < 0:
        raise ValueError(f"var {name}: expected low from 0 up, got {low}; a number of any sign is a placeholder(())")
    return Var(name, int(low), int(high), int(multiple), int(hint))


def _dims(shape):
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for d in shape:
        if isinstance(d, Expr):
            if d.dtype != "int64":
                raise TypeError(f"shape: {d} is {d.dtype}, expected int64")
        elif not isinstance(d, numbers.Number) and not hasattr(d, "__index__"):
            raise TypeError(f"shape: expected sizes, got {d!r}")
        elif int(d) != d or d < 0:
            raise ValueError(f"shape: expected sizes from 0 up, got {d}")
    return tuple(d if isinstance(d, Expr) else int(d) for d in shape)


def placeholder(shape, dtype="float32", name=None, strides=None):
    """An argument. Strides are in elements, numbers or vars (which calls read off the tensor); none: it is contiguous."""
    shape = _dims(shape)
    strides = None if strides is None else _dims(strides)
    if strides is not None and len(strides) != len(shape):
        raise ValueError(f"placeholder {name}: {len(shape)} dimensions and {len(strides)} strides")
    return Tensor(name, shape, dtype_of(dtype), None, strides)


def reduce_axis(dom, name="k", most=None):
    """What a reduction runs over: (low, high), or a size. high may be an element of a tensor, length[i] in the function that
    computes element i; it then counts as at least 0 and at most `most`."""
    low, high = dom if isinstance(dom, (tuple, list)) else (0, dom)
    return ReduceAxis(low, high, name, most)


def thread_axis(dom, tag=None):
    """An axis as the step `bind` takes it, which is by name: thread_axis("threadIdx.x"), thread_axis((0, 64), "threadIdx.x").
    It is as long as the loops that are bound to it."""
    name = dom if tag is None else tag
    if not isinstance(name, str):
        raise TypeError(f'thread_axis: expected a name such as "threadIdx.x", got {name!r}')
    return name


class Reduction:
    """The body of a compute: elements that `step(running, elements)` joins, from `inits` on, over `axes`."""

    def __init__(self, step, inits, elements, axes, order=None):
        self.step, self.inits, self.elements, self.axes, self.order = step, inits, elements, axes, order

    def __getattr__(self, name):
        raise TypeError("a reduction is all that a compute computes: use its result in another compute")

    def _refuse(self, *_):
        raise TypeError("a reduction is all that a compute computes: use its result in another compute")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = _refuse


def _axes(axis, what):
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    for a in axes:
        if not isinstance(a, ReduceAxis):
            raise TypeError(f"{what}: axis: expected what te.reduce_axis gives, got {a}")
    if not axes or len(set(map(id, axes))) != len(axes):
        raise ValueError(f"{what}: expected reduce axes, each once")
    return axes


def _reducer(name, step, identity, allowed):
    def reduce(expr, axis, where=None, init=None):
        if init is not None:
            raise TypeError(f"{name}: a reduction begins with what changes nothing: add init= to its result in another compute")
        e = as_expr(expr)
        if not allowed(e.dtype):
            raise TypeError(f"{name} of {e.dtype}: cast first (te.cast)")
        start = identity(e.dtype)
        if where is not None:
            e = if_then_else(where, e, start)
        return Reduction(lambda old, new: [step(old[0], new[0])], [start], [e], _axes(axis, name))

    reduce.__name__ = reduce.__qualname__ = name
    return reduce


def _call(name):
    return lambda a, b: Expr(name, a.dtype, (a, b))


def _number(dtype):
    return dtype != "bool"


sum_ = _reducer("sum", _call("+"), lambda t: const(0, t), _number)
prod = _reducer("prod", _call("*"), lambda t: const(1, t), _number)
_max = _reducer("max", _call("max"), min_value, _number)
_min = _reducer("min", _call("min"), max_value, _number)
_any = _reducer("any", _call("||"), lambda t: const(False, t), lambda t: t == "bool")
_all = _reducer("all", _call("&&"), lambda t: const(True, t), lambda t: t == "bool")


def _either(reduce, join):
    """With `axis`, or a reduce axis in second place, a reduction, else of the arguments themselves."""

    def both(*exprs, axis=None, where=None):
        if len(exprs) == 2 and axis is None and isinstance(exprs[1], (ReduceAxis, tuple, list)):
            exprs, axis = exprs[:1], exprs[1]  # max(e, k), as in TVM
        if axis is not None:
            if len(exprs) != 1:
                raise TypeError(f"{reduce.__name__}: expected one expression to reduce, got {len(exprs)}")
            return reduce(exprs[0], axis, where)
        if not exprs or where is not None:
            raise TypeError(f"{reduce.__name__}: expected expressions, or one and axis=")
        result = as_expr(exprs[0])
        for e in exprs[1:]:
            result = join(result, e)
        return result

    both.__name__ = both.__qualname__ = reduce.__name__
    return both


def comm_reducer(fcombine, fidentity, name="reduce"):
    """A reducer of one's own: `fcombine(x, y)` of expressions, or of tuples of them, takes any order, and `fidentity(dtype,
    ...)` changes nothing. Gives reducer(expr or tuple, axis, where=None)."""

    def reduce(expr, axis, where=None):
        several = isinstance(expr, (tuple, list))
        elements = [as_expr(e) for e in (expr if several else [expr])]
        dtypes = [e.dtype for e in elements]
        starts = fidentity(*dtypes)
        starts = [as_expr(s, t) for s, t in zip(starts if several else [starts], dtypes, strict=True)]
        if where is not None:
            elements = [if_then_else(where, e, s) for e, s in zip(elements, starts)]

        def step(old, new):
            made = fcombine(tuple(old), tuple(new)) if several else [fcombine(old[0], new[0])]
            made = [as_expr(m, t) for m, t in zip(made, dtypes, strict=True)]
            for m, t in zip(made, dtypes):
                if m.dtype != t:
                    raise TypeError(f"{name}: {t} elements are combined to {m.dtype}")
            return made

        return Reduction(step, starts, elements, _axes(axis, name))

    reduce.__name__ = name
    return reduce


def _arg(name, largest):
    def reduce(expr, axis):
        """The place of the first such element, counted over the axes in order, and the element: two tensors."""
        x, axes = as_expr(expr), _axes(axis, name)
        if not _number(x.dtype):
            raise TypeError(f"{name} of {x.dtype}: cast first (te.cast)")
        place = axes[0].raw
        for a in axes[1:]:
            place = place * a.extent + a.raw

        def step(old, new):
            (best, best_place), (x, place) = old, new
            lower = place < best_place
            take = (best < x if largest else x < best) | ((x == best) & lower)
            if is_float(x.dtype):  # the first NaN is taken before any number
                nan, best_nan = Expr("isnan", "bool", (x,)), Expr("isnan", "bool", (best,))
                take = Expr("select", "bool", (nan, ~best_nan | lower, take))
            return [Expr("select", x.dtype, (take, x, best)), Expr("select", "int64", (take, place, best_place))]

        worst = min_value(x.dtype) if largest else max_value(x.dtype)
        return Reduction(step, [worst, max_value("int64")], [x, place], axes, (1, 0))

    reduce.__name__ = name
    return reduce


argmax, argmin = _arg("argmax", True), _arg("argmin", False)


def _iterators(fn, rank, extra=0):
    """Variables named as the function's parameters are."""
    try:
        params = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        params = []
    names = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    variadic = not params or any(p.kind == p.VAR_POSITIONAL for p in params)
    if not variadic and len(names) != rank + extra:
        what = "indices and running values" if extra else "indices"
        raise TypeError(f"expected a function of {rank + extra} {what}, got {len(names)}")
    names = [*names[:rank], *(f"i{d}" for d in range(len(names), rank))]
    return [Expr("var", "int64", data=name) for name in names]


def _results(outputs, several):
    return tuple(outputs) if several else outputs[0]


def compute(shape, fcompute, name=None):
    """A tensor whose element at `i, j` is fcompute(i, j): an expression, a reduction, or a tuple of expressions for as many
    tensors of one shape."""
    shape = _dims(shape)
    iters = _iterators(fcompute, len(shape))
    body = fcompute(*iters)
    if isinstance(body, Reduction):
        running = [Expr("running", e.dtype, data=k) for k, e in enumerate(body.elements)]
        values = body.step(running, body.elements)
        stage = Stage(name, iters, shape, values, body.axes, body.inits)
        outputs = [stage.outputs[k] for k in body.order] if body.order else stage.outputs
        return _results(outputs, len(outputs) > 1)
    several = isinstance(body, (tuple, list))
    values = [as_expr(v) for v in (body if several else [body])]
    if not values:
        raise ValueError("compute: expected an expression, got none")
    return _results(Stage(name, iters, shape, values).outputs, several)


def scan(shape, fnext, init, axis=-1, name=None, dtype=None, out_dtype=None):
    """What a value has come to at each step along one axis: fnext(i, t, before) of its value before, which is `init` at
    first; with tuples, of several. scan((n, m), lambda i, t, s: s + A[i, t], 0.0) are running sums. `dtype` is that of the
    running values, `out_dtype` what they are kept in."""
    shape = _dims(shape)
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"scan: axis {axis} of {len(shape)} dimensions")
    several = isinstance(init, (tuple, list))
    count = len(init) if several else 1
    each = lambda x: list(x) if isinstance(x, (tuple, list)) else [x] * count  # noqa: E731
    dtypes = [t and dtype_of(t) for t in each(dtype)]
    inits = [as_expr(e, t) for e, t in zip(each(init), dtypes, strict=True)]
    inits = [cast(e, t) if t else e for e, t in zip(inits, dtypes)]
    iters = _iterators(fnext, len(shape), count)
    running = [Expr("running", e.dtype, data=k) for k, e in enumerate(inits)]
    made = fnext(*iters, *running)
    made = [as_expr(v, e.dtype) for v, e in zip(made if several else [made], inits, strict=True)]
    for v, e in zip(made, inits):
        if v.dtype != e.dtype:
            raise TypeError(f"scan: running values are {e.dtype} and the next is {v.dtype}: give dtype=, or cast")
    outs = [dtype_of(t) if t else e.dtype for t, e in zip(each(out_dtype), inits, strict=True)]
    stage = Stage(name, iters, shape, made, (), inits, iters[axis], outs)
    return _results(stage.outputs, several)


def extern(shape, inputs, fcompute, name=None, dtype=None):
    """Tensors that a function writes, which is called with the inputs, tensors and scalars, and then them: one that is
    registered (`cinn_like.register_func`, or by C++) by its name, or a function of Python. A list of shapes gives several;
    dtypes are those of the inputs where these have one."""
    several = isinstance(shape, list) and bool(shape) and all(isinstance(s, (tuple, list)) for s in shape)
    shapes = [_dims(s) for s in (shape if several else [shape])]
    inputs = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    for k, x in enumerate(inputs):
        if not isinstance(x, Tensor):
            try:
                inputs[k] = as_expr(x, "int64" if isinstance(x, int) and not isinstance(x, bool) else None)
            except TypeError:
                raise TypeError(f"extern: input {k}: expected a tensor or a number, got {type(x).__name__}") from None
    if dtype is None:
        dtypes = {x.dtype for x in inputs if isinstance(x, Tensor)}
        if len(dtypes) != 1:
            raise TypeError(f"extern: expected dtype=, of inputs of {', '.join(sorted(dtypes)) or 'none'}")
        dtype = dtypes.pop()
    dtypes = [dtype_of(t) for t in (dtype if isinstance(dtype, (tuple, list)) else [dtype] * len(shapes))]
    if len(dtypes) != len(shapes):
        raise ValueError(f"extern: {len(shapes)} shapes and {len(dtypes)} dtypes")
    if isinstance(fcompute, str):
        function, kept = fcompute, None
        if not function or any(c in '"\\' or c < " " for c in function):
            raise ValueError(f"extern: no function can be named {function!r}")
    elif callable(fcompute):
        kept = functions.Unnamed(fcompute)
        function = kept.name
    else:
        raise TypeError(f"extern: expected a function's name or a function, got {type(fcompute).__name__}")
    return _results(Extern(name, shapes, dtypes, inputs, function, kept).outputs, several)


def sigmoid(x):
    x = as_expr(x)
    return const(1, x.dtype) / (Expr("exp", x.dtype, (-x,)) + const(1, x.dtype))


def isinf(x):
    x = as_expr(x)
    return abs(x) == math.inf if is_float(x.dtype) else const(False, "bool")


def isfinite(x):
    x = as_expr(x)
    return abs(x) < math.inf if is_float(x.dtype) else const(True, "bool")


max_, min_ = _either(_max, lambda a, b: call("max", a, b)), _either(_min, lambda a, b: call("min", a, b))
any_, all_ = _either(_any, lambda a, b: a | b), _either(_all, lambda a, b: a & b)

