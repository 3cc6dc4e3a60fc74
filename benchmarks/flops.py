"""What the machine can do and what a model needs, so that a speed can be read as a share of the possible."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from benchmarks.batches import Batch
from benchmarks.shapes import Shape
from transduce.model.flops import training_flops as pair_flops


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
    """FLOPs of the matrix products of one update, padding not counted; as `transduce.model.flops` counts them."""
    config = shape.model_config()
    lengths = zip(*(side.tolist() for side in batch.lengths), strict=True)
    return sum(pair_flops(config, source, target, shape.vocabulary) for source, target in lengths)


def flops_per_token(shape: Shape, batches: Sequence[Batch]) -> float:
    """FLOPs of training per target token."""
    return sum(training_flops(shape, batch) for batch in batches) / sum(batch.tokens for batch in batches)
