"""Functions for several targets side by side."""

from .function import build, export_library


class Module:
    """What `build_module` gives: functions are attributes, as of a file that `cinn_like.load_library` loads. Of those of one
    name, for several targets, the first that runs on this machine is called; where none does, the first says why."""

    def __init__(self, functions):
        self.functions = tuple(functions)
        seen = set()
        for f in self.functions:
            if (f.name, f.target) in seen:
                raise ValueError(f"two functions {f.name!r} for target {f.target!r}; create_schedule(..., name=) names them")
            seen.add((f.name, f.target))

    def __getattr__(self, name):
        variants = [f for f in self.functions if f.name == name]
        if not variants:
            raise AttributeError(f"the module has no function {name!r}; there are {', '.join(self.names)}")
        return next((f for f in variants if len(variants) == 1 or f.runs_here()), variants[0])

    @property
    def names(self):
        return list(dict.fromkeys(f.name for f in self.functions))

    def __dir__(self):
        return [*super().__dir__(), *self.names]

    def export_library(self, path):
        """Writes all of them as one file for `cinn_like.load_library` and for C (docs/libraries.md)."""
        export_library(path, *self.functions)

    def __repr__(self):
        return "\n".join(repr(f) for f in self.functions)


def build_module(schedules):
    """Functions for several targets: of each target a schedule (or loop text), or a list of them.

    m = te.build_module({"cpu": [add, scale], "opencl": add_by_threads})
    m.scale(x); m.export_library("m.so")"""
    if not isinstance(schedules, dict) or not schedules:
        raise TypeError(f"build_module: expected schedules by their targets, {{\"cpu\": s}}, got {schedules!r}")
    return Module(
        build(s, target) for target, some in schedules.items() for s in (some if isinstance(some, (tuple, list)) else [some])
    )
