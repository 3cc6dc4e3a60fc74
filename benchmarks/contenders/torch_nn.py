"""torch.nn.Transformer with tied embeddings: what a user writes from the tutorial.

B batch, S source length, T target length, D d_model, V vocabulary.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.batches import PAD
from benchmarks.contenders.loop import PlainLoop
from benchmarks.shapes import Shape
from transduce.model.positions import sinusoids

LONGEST = 1024


class TorchTransformer(nn.Module):
    """Embeddings, torch.nn.Transformer and the projection."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.d_model)
        nn.init.normal_(self.embedding.weight, std=shape.d_model**-0.5)
        self.positions = nn.Buffer(sinusoids(0, LONGEST, shape.d_model))
        self.dropout = nn.Dropout(shape.dropout)
        self.stacks = nn.Transformer(
            shape.d_model,
            shape.num_heads,
            shape.layers,
            shape.layers,
            shape.d_ff,
            shape.dropout,
            batch_first=True,
        )
        # the paper has no norm after a stack of post-norm layers
        self.stacks.encoder.norm = self.stacks.decoder.norm = None

    def embed(self, ids: Tensor) -> Tensor:
        """BT -> BTD."""
        scaled = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        embedded: Tensor = self.dropout(scaled + self.positions[: ids.size(1)])
        return embedded

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """BS, BT -> BTV."""
        padding = source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1), dtype=torch.bool)
        hidden = self.stacks(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(hidden, self.embedding.weight)


def torch_nn(shape: Shape) -> PlainLoop:
    """A loop around torch.nn.Transformer."""
    torch.manual_seed(1)
    return PlainLoop(TorchTransformer(shape))
