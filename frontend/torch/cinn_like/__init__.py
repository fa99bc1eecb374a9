"""cinn_like: compiles the subgraphs that PyTorch hands over.

model = torch.compile(model, backend="cinn_like")
print(cinn_like.report())
"""

from .reporting import report, reset_report


def set_flag(name, value):
    """Sets a flag of the library, such as ("cinn_dump_ir", True); FLAGS_<name> in the environment does the same."""
    from . import library

    library.get().set_flag(name, value)


def get_flag(name):
    from . import library

    return library.get().get_flag(name)


__all__ = ["get_flag", "report", "reset_report", "set_flag"]
