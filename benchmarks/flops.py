"""What the machine can do and what a model needs, so that a speed can be read as a share of the possible."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from benchmarks.batches import Batch
from benchmarks.shapes import Shape


def sgemm(size: int = 2048, repeats: int = 7) -> float:
    """The best of some matrix products, in FLOP/s."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best


def training_flops(shape: Shape, batch: Batch) -> int:
    """FLOPs of the matrix products of one update, padding not counted.

    A multiplication and an addition are two; the backward pass has two products for each of the forward pass. The
    decoder's own attention counts whole, as is usual, though half of it is masked.
    """
    source_lengths, target_lengths = batch.lengths
    source, target = int(source_lengths.sum()), int(target_lengths.sum())
    projection = shape.d_model**2  # one of Q, K, V and the output's
    feed_forward = 2 * shape.d_model * shape.d_ff
    encoder = source * (4 * projection + feed_forward)
    decoder = target * (4 * projection + 2 * projection + feed_forward) + source * 2 * projection
    pairs = source_lengths**2 + target_lengths**2 + source_lengths * target_lengths
    attention = 2 * shape.d_model * int(pairs.sum())  # Q K^T and the weights times V
    output = target * shape.d_model * shape.vocabulary
    return 3 * 2 * (shape.layers * (encoder + decoder + attention) + output)


def flops_per_token(shape: Shape, batches: Sequence[Batch]) -> float:
    """FLOPs of training per target token."""
    return sum(training_flops(shape, batch) for batch in batches) / sum(batch.tokens for batch in batches)
