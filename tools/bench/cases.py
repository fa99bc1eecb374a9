"""Functions to time, by name."""

import torch


class Cases(dict):
    def case(self, name):
        """Registers a function of `r`, which makes random tensors of the dtype asked for. It returns what to call, with what, and where
        gradients belong to the call, the result's."""

        def register(make):
            self[name] = make
            return make

        return register

    def simple(self, name, f, *shapes):
        self[name] = lambda r: (f, [r(*s) for s in shapes])


def integers(high, *shape, dtype=torch.int64):
    return torch.randint(0, high, shape, dtype=dtype)
