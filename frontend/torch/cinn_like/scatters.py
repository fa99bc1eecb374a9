"""Scatters that add, as sums of rows that share an index: the gradient of an embedding, on devices. In whatever order threads
find each other there, as with atomics, each gives another result; here the indices are sorted, by the framework, and each
result's rows are summed in their order.

    d = embedding_dense_backward(dy, i, 1000, -1, False)
      ->  keys, order = sort(i);  d = segment_sum(dy, order, keys, 1000)
"""

import operator

import torch

from . import dims, emit
from .ops_segments import segment_sum
from .sizes import call

aten = torch.ops.aten

_FEW = 3072  # rows, for which the framework has a kernel that sorts nothing (ATen, Embedding.cu)


def replace(graph):
    """Gradients of embeddings as sums of segments, on devices; one that weighs words by how often they come is left as it is."""
    for node in list(graph.nodes):
        fake = node.meta.get("val")
        if node.target is not aten.embedding_dense_backward.default or fake.device.type == "cpu" or not fake.is_floating_point():
            continue
        grad, words, count, padding, by_frequency = node.args
        number = words.meta["val"].numel()
        is_known = not isinstance(number, torch.SymInt) or number.node.has_hint()  # not a number that depends on data
        if by_frequency or not is_known or emit.hint(number) <= _FEW or number > dims.LARGEST:
            continue
        types = (t for t in (torch.int8, torch.int16) if isinstance(count, int) and count <= torch.iinfo(t).max)
        with graph.inserting_before(node):
            keys = call(graph, aten.reshape.default, words, [-1])
            if not isinstance(padding, int) or padding >= 0:
                is_word = call(graph, aten.ne.Scalar, keys, padding)
                keys = call(graph, aten.where.ScalarOther, is_word, keys, -1)
            keys = call(graph, aten._to_copy.default, keys, dtype=next(types, torch.int32))  # a sort goes through each byte
            pair = call(graph, aten.sort.stable, keys, stable=True)
            keys, order = (call(graph, operator.getitem, pair, i) for i in (0, 1))
            rows = call(graph, aten.reshape.default, grad, [-1, fake.shape[1]])
            result = call(graph, segment_sum, rows, order, keys, count)
        node.replace_all_uses_with(result)
        graph.erase_node(node)
