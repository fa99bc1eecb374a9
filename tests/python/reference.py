"""An independent evaluator of graph text, in PyTorch: floats in float64, integers in int64. Written from
docs/graph_text.md alone; nothing here is shared with the compiler or with the frontend.

    Graph(text).run([tensor, ...], {"n": 4})  -> [tensor, ...]
"""

import math
import re

import torch
import torch.nn.functional as F

DTYPES = dict(bool=torch.bool, i8=torch.int8, i16=torch.int16, i32=torch.int32, i64=torch.int64, u8=torch.uint8,
              u16=torch.uint16, u32=torch.uint32, u64=torch.uint64, f16=torch.float16, bf16=torch.bfloat16,
              f32=torch.float32, f64=torch.float64)  # fmt: skip
BITS = dict(i8=8, i16=16, i32=32, i64=64, u8=8, u16=16, u32=32, u64=64)
TOKEN = re.compile(
    r'\s+|//[^\n]*|(?P<str>"[^"]*")|(?P<num>\d+(\.(?!\.)\d*)?([eE][+-]?\d+)?)|(?P<id>[%@]?\w+)|(?P<p>\.\.|.)'
)


class Parser:
    def __init__(self, text):
        self.tokens = [m for m in TOKEN.finditer(text) if m.lastgroup]
        self.i = 0

    def peek(self):
        return self.tokens[self.i].group() if self.i < len(self.tokens) else None

    def take(self, expected=None):
        token = self.peek()
        assert expected is None or token == expected, f"expected {expected!r}, got {token!r} at token {self.i}"
        self.i += 1
        return token

    def eat(self, token):
        if self.peek() == token:
            self.i += 1
            return True
        return False

    def many(self, close, item):
        items = []
        while not self.eat(close):
            items.append(item())
            if not self.eat(","):
                self.take(close)
                break
        return items

    # Integer expressions become functions of the symbols' values.
    def expr(self):
        left = self.term()
        while self.peek() in ("+", "-"):
            left = self.join(self.take(), left, self.term())
        return left

    def term(self):
        left = self.factor()
        while self.peek() in ("*", "/", "%"):
            left = self.join(self.take(), left, self.factor())
        return left

    def factor(self):
        if self.eat("("):
            e = self.expr()
            self.take(")")
            return e
        if self.eat("-"):
            e = self.factor()
            return lambda s: -e(s)
        token = self.take()
        if token[0].isdigit():
            return lambda s: int(token)
        return lambda s: s[token]

    @staticmethod
    def join(op, a, b):
        return {"+": lambda s: a(s) + b(s), "-": lambda s: a(s) - b(s), "*": lambda s: a(s) * b(s),
                "/": lambda s: a(s) // b(s), "%": lambda s: a(s) % b(s)}[op]  # fmt: skip

    def type(self):
        dtype = self.take()
        assert dtype in DTYPES, dtype
        self.take("[")
        return dtype, self.many("]", self.expr)

    def attribute(self):
        token = self.peek()
        if self.eat("["):
            items = self.many("]", self.attribute)
            return lambda s: [i(s) for i in items]
        if token.startswith('"'):
            self.take()
            return lambda s: token[1:-1]
        if token in ("true", "false"):
            self.take()
            return lambda s: token == "true"
        if token in DTYPES:
            self.take()
            return lambda s: token
        sign = -1 if token == "-" else 1
        number = self.tokens[self.i + (sign < 0)].group()
        if number in ("inf", "nan") or (number[0].isdigit() and not number.isdigit()):
            self.i += 2 if sign < 0 else 1
            return lambda s: sign * float(number)
        return self.expr()


class Graph:
    def __init__(self, text):
        p = Parser(text)
        p.take("graph")
        self.name = p.take()
        p.take("(")
        self.params = p.many(")", lambda: self.param(p))
        self.symbols = {}
        if p.eat("where"):
            while True:
                name = p.take()
                p.take("in")
                low = int(p.take())
                p.take("..")
                high = int(p.take())
                divisor = int(p.take()) if p.eat("multiple") else 1
                if p.eat("hint"):
                    p.take()
                self.symbols[name] = (low, high, divisor)
                if not p.eat(","):
                    break
        p.take("{")
        self.ops = []
        while not p.eat("return"):
            self.ops.append(self.op(p))
        self.results = [p.take()]
        while p.eat(","):
            self.results.append(p.take())
        p.take("}")
        assert p.peek() is None
        defined = {name for name, *_ in self.params}
        for results, _, operands, _, _ in self.ops:
            assert all(o in defined for o in operands), operands
            assert not defined & set(results), f"{results} defined twice"
            defined |= set(results)
        assert all(r in defined for r in self.results)

    @staticmethod
    def param(p):
        name = p.take()
        p.take(":")
        if not name.startswith("%"):
            p.take("i64")
            return name, None, None, None, False
        dtype, shape = p.type()
        strides = None
        if p.eat("strides"):
            p.take("[")
            strides = p.many("]", p.expr)
        return name, dtype, shape, strides, p.eat("static")

    @staticmethod
    def op(p):
        results = [p.take()]
        while p.eat(","):
            results.append(p.take())
        p.take("=")
        name = p.take()
        p.take("(")
        operands = p.many(")", p.take)
        attributes = {}
        if p.eat("{"):
            for key, value in p.many("}", lambda: (p.take(), p.take("=") and p.attribute())):
                assert key not in attributes
                attributes[key] = value
        p.take(":")
        types = [p.type()]
        while p.eat(","):
            types.append(p.type())
        assert len(types) == len(results)
        return results, name, operands, attributes, types

    def run(self, args, sizes=()):
        """`args`: the tensors, `sizes`: the values of the symbol parameters, both in order. Results keep float64/int64
        and lie on the CPU, where all is computed."""
        with torch.device("cpu"):
            return self._run(args, sizes)

    def _run(self, args, sizes):
        tensors = [p for p in self.params if p[0].startswith("%")]
        assert len(args) == len(tensors), f"{len(args)} tensors for {len(tensors)} parameters"
        symbols = dict(zip([p[0] for p in self.params if not p[0].startswith("%")], sizes, strict=True))
        bind = [(e, d) for (_, _, shape, _, _), a in zip(tensors, args) for e, d in zip(shape, a.shape)]
        for _ in range(2):  # plain dimensions bind, the second round checks expressions
            for expr, size in bind:
                probe = _Probe(symbols)
                try:
                    assert expr(probe) == size, f"{expr(probe)} != {size}"
                except _Unbound as unbound:
                    symbol = unbound.args[0]
                    if expr({symbol: 7919}) == 7919 and expr({symbol: 104729}) == 104729:
                        symbols[symbol] = size
                except KeyError:
                    pass
        assert set(symbols) == set(self.symbols), f"{symbols} against {self.symbols}"
        for name, (low, high, divisor) in self.symbols.items():
            assert low <= symbols[name] <= high and symbols[name] % divisor == 0, (name, symbols[name])
        env = {}
        for (name, dtype, shape, strides, _), a in zip(tensors, args):
            assert a.dtype == DTYPES[dtype], f"{name}: {a.dtype} for {dtype}"
            expected = [e(symbols) for e in strides] if strides is not None else _contiguous(a.shape)
            for size, got, want in zip(a.shape, a.stride(), expected):
                assert size <= 1 or a.numel() == 0 or got == want, f"{name}: strides {a.stride()}, expected {expected}"
            env[name] = (_wide(a.detach().cpu()), dtype)
        for results, op, operands, attributes, types in self.ops:
            attributes = {k: v(symbols) for k, v in attributes.items()}
            values = OPS[op]([env[o][0] for o in operands], attributes, types[0][0], [env[o][1] for o in operands])
            values = values if isinstance(values, tuple) else (values,)
            for name, value, (dtype, shape) in zip(results, values, types, strict=True):
                shape = [e(symbols) for e in shape]
                assert list(value.shape) == shape, f"{name} = {op}: {list(value.shape)}, written {shape}"
                wide = torch.bool if dtype == "bool" else torch.float64 if "f" in dtype else torch.int64
                assert value.dtype == wide, f"{name} = {op}: {value.dtype}, written {dtype}"
                env[name] = (value, dtype)
        return [env[r][0] for r in self.results], [env[r][1] for r in self.results]


class _Unbound(Exception):
    pass


class _Probe:
    def __init__(self, symbols):
        self.symbols = symbols

    def __getitem__(self, name):
        if name not in self.symbols:
            raise _Unbound(name)
        return self.symbols[name]


def _contiguous(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def _wide(a):
    return a if a.dtype == torch.bool else a.to(torch.float64 if a.dtype.is_floating_point else torch.int64)


def _wrap(x, dtype):
    """An int64 as an integer of fewer bits."""
    if dtype not in BITS or BITS[dtype] == 64:
        return x
    bits = BITS[dtype]
    x = x & (2**bits - 1)
    return torch.where(x >= 2 ** (bits - 1), x - 2**bits, x) if dtype.startswith("i") else x


def _unary(f):
    return lambda x, a, t, d: f(x[0]) if "f" in t else _wrap(f(x[0]), t)


def _binary(f):
    def run(x, a, t, d):
        assert d[0] == d[1], f"operands of {d[0]} and {d[1]}"
        return f(*x) if "f" in t or t == "bool" else _wrap(f(*x), t)

    return run


def _compare(f):
    def run(x, a, t, d):
        assert d[0] == d[1] and t == "bool", f"operands of {d[0]} and {d[1]}"
        return f(*x)

    return run


def _cast(x, a, t, d):
    assert a["dtype"] == t
    v = x[0]
    if t == "bool":
        return v != 0
    if "f" in t:
        return v.to(torch.float64)
    return _wrap(v.to(torch.int64), t)


def _full(x, a, t, d):
    wide = torch.bool if t == "bool" else torch.float64 if "f" in t else torch.int64
    assert a["dtype"] == t
    assert isinstance(a["value"], bool) == (t == "bool"), a
    return torch.full(a["shape"], a["value"], dtype=wide)


def _iota(x, a, t, d):
    shape, axis = a["shape"], a.get("axis", 0)
    assert a["dtype"] == t
    index = torch.arange(shape[axis], dtype=torch.float64 if "f" in t else torch.int64)
    return index.reshape([-1 if i == axis else 1 for i in range(len(shape))]).expand(shape)


def _slice(x, a, t, d):
    v, axis = x[0], a["axis"]
    assert 0 <= a["begin"] <= a["end"] <= v.shape[axis], (a, list(v.shape))
    return v[(slice(None),) * axis + (slice(a["begin"], a["end"], a.get("step", 1)),)]


def _pad(x, a, t, d):
    pads = [p for lo, hi in zip(reversed(a["low"]), reversed(a["high"])) for p in (lo, hi)]
    return F.pad(x[0], pads, value=a.get("value", 0.0))


def _in_range(x, begin, end):
    if x.numel() and not begin <= x.min() <= x.max() < end:
        raise IndexError(f"index out of range: expected {begin} to {end - 1}")
    return x


def _gather(x, a, t, d):
    v, axis = x[0], a.get("axis", 0)
    index = x[1].clamp(0, v.shape[axis] - 1)
    out = v.index_select(axis, index.reshape(-1))
    return out.reshape(*v.shape[:axis], *index.shape, *v.shape[axis + 1 :])


def _reduce(f):
    def run(x, a, t, d):
        v = x[0]
        for axis in sorted(a["axes"], reverse=True):
            v = f(v, axis, a.get("keepdims", False))
        return v if "f" in t or t == "bool" else _wrap(v, t)

    return run


def _layer_norm(x, a, t, d):
    v, w, b = x
    axes = a["axes"]
    assert axes == list(range(v.ndim - len(axes), v.ndim)) and list(w.shape) == list(v.shape[axes[0] :])
    return F.layer_norm(v, w.shape, w, b, a.get("epsilon", 1e-5))


def _rms_norm(x, a, t, d):
    return x[0] * torch.rsqrt(x[0].square().mean(a["axes"], keepdim=True) + a["epsilon"]) * x[1]


def _batch_norm(x, a, t, d):
    v, w, b, mean, var = x
    shape = [-1 if i == a.get("axis", 1) else 1 for i in range(v.ndim)]
    w, b, mean, var = (p.reshape(shape) for p in (w, b, mean, var))
    return (v - mean) / torch.sqrt(var + a["epsilon"]) * w + b


def _of_rank(name, rank):
    """F.conv2d for rank 4."""
    return getattr(F, name.replace("Nd", f"{rank - 2}d"))


def _windows(a, *names):
    return {n: a[n] for n in names if a.get(n)}


def _conv(a):
    return dict(_windows(a, "stride", "padding", "dilation"), groups=a.get("groups", 1))


def _conv_grad(of, rank):
    return getattr(torch.nn.grad, f"conv{rank - 2}d_{of}")


def _max_pool_grad(x, a, t, d):
    dy, index = x
    n, c, *image = a["input_shape"]
    out = torch.zeros(n, c, math.prod(image), dtype=dy.dtype)
    return out.scatter_add(2, index.reshape(n, c, -1), dy.reshape(n, c, -1)).reshape(n, c, *image)


def _avg_pool(x, a):
    return _of_rank("avg_poolNd", x.ndim)(
        x, a["kernel"], a["stride"], **_windows(a, "padding"), ceil_mode=a.get("ceil_mode", False),
        count_include_pad=a.get("count_include_pad", True))  # fmt: skip


def _avg_pool_grad(x, a, t, d):
    v = torch.zeros(a["input_shape"], dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        y = _avg_pool(v, a)
    return torch.autograd.grad(y, v, x[0])[0]


def _matmul(x, a, t, d):
    assert x[0].ndim >= 2 and x[1].ndim >= 2 and d[0] == d[1]
    return torch.matmul(*x)


def _reshape(x, a, t, d):
    assert math.prod(a["shape"]) == x[0].numel()
    return x[0].reshape(a["shape"])


def _select(x, a, t, d):
    assert d[0] == "bool" and d[1] == d[2]
    return torch.where(*x)


def _arg(f):
    return lambda x, a, t, d: f(x[0], a["axis"], keepdim=a.get("keepdims", False))


OPS = {name: _unary(getattr(torch, name)) for name in
       "neg abs exp log sqrt rsqrt tanh erf sigmoid relu sin cos floor ceil round sign reciprocal log1p expm1 square"
       .split()}  # fmt: skip
OPS.update({name: _binary(getattr(torch, torch_name)) for name, torch_name in
            dict(add="add", sub="sub", mul="mul", div="div", pow="pow", maximum="maximum", minimum="minimum",
                 mod="remainder", floor_div="floor_divide").items()})  # fmt: skip
OPS.update({name: _binary(getattr(torch, f"bitwise_{name}")) for name in ("and", "or", "xor")})
OPS.update({name: _compare(getattr(torch, name)) for name in "eq ne lt le gt ge".split()})
OPS.update({
    "silu": _unary(F.silu),
    "gelu": lambda x, a, t, d: F.gelu(x[0], approximate=a.get("approximate", "none")),
    "not": lambda x, a, t, d: ~x[0],
    "isnan": lambda x, a, t, d: torch.isnan(x[0]),
    "select": _select,
    "cast": _cast,
    "full": _full,
    "iota": _iota,
    "reshape": _reshape,
    "transpose": lambda x, a, t, d: x[0].permute(a["perm"]),
    "broadcast_to": lambda x, a, t, d: x[0].expand(a["shape"]),
    "slice": _slice,
    "concat": lambda x, a, t, d: torch.cat(x, a["axis"]),
    "pad": _pad,
    "check_index": lambda x, a, t, d: _in_range(x[0], -a["size"] if a.get("from_end") else 0, a["size"]),
    "gather": _gather,
    "take_along": lambda x, a, t, d: torch.gather(x[0], a["axis"], x[1]),
    "reduce_sum": _reduce(torch.sum),
    "reduce_max": _reduce(torch.amax),
    "reduce_min": _reduce(torch.amin),
    "reduce_prod": _reduce(torch.prod),
    "reduce_mean": _reduce(torch.mean),
    "reduce_any": _reduce(torch.any),
    "reduce_all": _reduce(torch.all),
    "argmax": _arg(torch.argmax),
    "argmin": _arg(torch.argmin),
    "cumsum": lambda x, a, t, d: torch.cumsum(x[0], a["axis"], dtype=x[0].dtype),
    "cumprod": lambda x, a, t, d: torch.cumprod(x[0], a["axis"], dtype=x[0].dtype),
    "cummax": lambda x, a, t, d: torch.cummax(x[0], a["axis"]),
    "cummin": lambda x, a, t, d: torch.cummin(x[0], a["axis"]),
    "matmul": _matmul,
    "softmax": lambda x, a, t, d: torch.softmax(x[0], a["axis"]),
    "log_softmax": lambda x, a, t, d: torch.log_softmax(x[0], a["axis"]),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "conv": lambda x, a, t, d: _of_rank("convNd", x[0].ndim)(*x, None, **_conv(a)),
    "conv_input_grad": lambda x, a, t, d: _conv_grad("input", x[0].ndim)(a["input_shape"], x[1], x[0], **_conv(a)),
    "conv_weight_grad": lambda x, a, t, d: _conv_grad("weight", x[0].ndim)(x[1], a["weight_shape"], x[0], **_conv(a)),
    "max_pool": lambda x, a, t, d: _of_rank("max_poolNd_with_indices", x[0].ndim)(
        x[0], a["kernel"], a["stride"], **_windows(a, "padding", "dilation"), ceil_mode=a.get("ceil_mode", False)),
    "max_pool_grad": _max_pool_grad,
    "avg_pool": lambda x, a, t, d: _avg_pool(x[0], a),
    "avg_pool_grad": _avg_pool_grad,
    "copy": lambda x, a, t, d: x[0],
})  # fmt: skip
