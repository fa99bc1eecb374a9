"""What stands between the source text of kernels and their code: a text of one's own, functions that rewrite it or compile it."""

import contextlib
import ctypes

from .. import abi


class Hooks:
    """Of one built function, which keeps it; `structure` is None where there are none."""

    def __init__(self, library, source, rewrite, compiler):
        if source is not None and not (isinstance(source, str) and source.strip()):
            raise TypeError("source: expected the text of kernels")
        for name, function in ("rewrite", rewrite), ("compiler", compiler):
            if function is not None and not callable(function):
                raise TypeError(f"{name}: expected a function, got {function!r}")
        self._library, self._error, self.structure = library, None, None
        if source is None and rewrite is None and compiler is None:
            return
        self.structure = abi.SourceHooks(ctypes.sizeof(abi.SourceHooks), None, source and source.encode())
        if rewrite is not None:
            self.structure.rewrite = abi.REWRITE(
                lambda _, language, text, out: self._give(out, str, rewrite, text.decode(), language.decode())
            )
        if compiler is not None:
            self.structure.compile = abi.COMPILE(
                lambda _, text, arch, options, out: self._give(
                    out, bytes, compiler, text.decode(), arch.decode(), options.decode().split()
                )
            )

    def _give(self, out, kind, function, *args):
        try:
            made = function(*args)
            if not isinstance(made, kind):
                raise TypeError(f"expected {kind.__name__}, got {type(made).__name__}")
            self._library.give_bytes(out, made.encode() if kind is str else made)
            return 0
        except BaseException as why:  # it must not pass through C
            name = getattr(function, "__qualname__", repr(function))
            self._error = why
            self._library.give_bytes(out, f"{name}: {type(why).__name__}: {why}".encode())
            return -1

    @contextlib.contextmanager
    def reported(self):
        """An error in here has what a function raised as its cause."""
        self._error = None
        try:
            yield
        except (RuntimeError, ValueError) as why:
            raise why from self._error
