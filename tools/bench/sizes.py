"""Sizes that a trace doesn't know."""

import torch


def with_symbolic_sizes(tensors, only_first=False):
    """The tensors, on the same memory, with every size (or the first one) but those of one a symbol of what is traced of them, where
    nothing in the trace makes it a constant."""
    marked = []
    for x in tensors:
        x = x.detach().requires_grad_(x.requires_grad)
        for d in range(min(x.dim(), 1) if only_first else x.dim()):
            if x.shape[d] > 1:
                torch._dynamo.maybe_mark_dynamic(x, d)
        marked.append(x)
    return marked
