"""Writes the model of embed_sentences.c, and the tokens of the sentences on standard input.

python examples/embed_sentences.py minilm.so < sentences.txt > sentences.ids
"""

import sys

import cinn_like
import torch
from cinn_like import demo


class Embed(torch.nn.Module):
    """Token ids and their mask -> embeddings of length 1."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return demo.embed(self.model, {"input_ids": input_ids, "attention_mask": attention_mask})


def export(model, path, ids, mask, **options):
    """`model`: a BERT; `ids` and `mask`: an example. Any number of sentences up to 64, of up to 512 tokens."""
    sizes = {0: torch.export.Dim("sentences", max=64), 1: torch.export.Dim("tokens", max=512)}
    shapes = {"input_ids": sizes, "attention_mask": sizes}
    return cinn_like.aot(Embed(model), (ids, mask), dynamic_shapes=shapes, path=path, **options)


def main():
    tokenizer, model = demo.load_minilm()
    sentences = tokenizer([line.strip() for line in sys.stdin])
    ids, mask = torch.zeros(8, 32, dtype=torch.int64), torch.ones(8, 32, dtype=torch.int64)
    export(model, sys.argv[1] if len(sys.argv) > 1 else "minilm.so", ids, mask)
    for line in sentences.input_ids:
        print(*line)


if __name__ == "__main__":
    main()
