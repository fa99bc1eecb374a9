"""Types of elements by the names that NumPy, PyTorch and TVM have in common; knows none of them."""

# -> loop text's.
DTYPES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip


def dtype_of(x):
    """ "float32" of "float32", "f32", numpy.float32, torch.float32."""
    name = getattr(x, "name", None) or getattr(x, "__name__", None) or str(x)
    name = str(name).removeprefix("torch.")
    for full, short in DTYPES.items():
        if name in (full, short, full + "_"):
            return full
    raise ValueError(f"unknown dtype {x!r}; there are {', '.join(DTYPES)}")


def bits_of(dtype):
    return 8 if dtype == "bool" else int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))


# DLPack's code and bits.
CODES = {
    t: (6 if t == "bool" else 4 if t == "bfloat16" else 2 if "float" in t else int(t.startswith("uint")), bits_of(t))
    for t in DTYPES
}
NAMES = {code: t for t, code in CODES.items()}
