"""cinn_like: compiles the subgraphs that PyTorch hands over, and tensor expressions (cinn_like.te).

model = torch.compile(model, backend="cinn_like")
print(cinn_like.report())
"""


def __getattr__(name):
    """What needs PyTorch is imported when it is asked for: cinn_like.te does without."""
    if name in ("report", "reset_report"):
        from . import reporting

        return getattr(reporting, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def set_flag(name, value):
    """Sets a flag of the library, such as ("cinn_dump_ir", True); FLAGS_<name> in the environment does the same."""
    from . import library

    library.get().set_flag(name, value)


def get_flag(name):
    from . import library

    return library.get().get_flag(name)


__all__ = ["get_flag", "report", "reset_report", "set_flag"]
