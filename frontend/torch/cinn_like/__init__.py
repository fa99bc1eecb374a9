"""cinn_like: compiles the subgraphs that PyTorch hands over, and tensor expressions (cinn_like.te).

model = torch.compile(model, backend="cinn_like")
print(cinn_like.report())
"""

from .errors import Unsupported
from .functions import get_global_func, list_global_func_names, register_func, remove_global_func
from .loaded import get_include, get_library_dir, load_library


def __getattr__(name):
    """What needs PyTorch is imported when it is asked for: cinn_like.te and load_library do without."""
    if name in ("report", "reset_report"):
        from . import reporting

        return getattr(reporting, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def aot(*args, **kwargs):
    """aot(model, args, kwargs=None, dynamic_shapes=None, path="net.so", *, target="cpu"): writes a model as a shared
    library, weights inside, that needs no framework (docs/libraries.md)."""
    from . import aot_export

    return aot_export.aot(*args, **kwargs)


def set_flag(name, value):
    """Sets a flag of the library, such as ("cinn_dump_ir", True); FLAGS_<name> in the environment does the same."""
    from . import library

    library.get().set_flag(name, value)


def get_flag(name):
    from . import library

    return library.get().get_flag(name)


__all__ = [
    "Unsupported", "aot", "get_flag", "get_global_func", "get_include", "get_library_dir", "list_global_func_names",
    "load_library", "register_func", "remove_global_func", "report", "reset_report", "set_flag",
]  # fmt: skip
