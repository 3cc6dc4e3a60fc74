"""The batch that needs most memory, tried before the first update: better now than in the middle of the night."""

from __future__ import annotations

import torch

from transduce.config import Config
from transduce.data.batching import Batching
from transduce.data.layout import Indices
from transduce.data.store import Store
from transduce.errors import RunError
from transduce.train.feed import share
from transduce.train.workers import Workers


def largest(batching: Batching) -> list[Indices]:
    """The micro-batch with most padded tokens and the one with the longest sentence; another epoch's are as large."""
    cuts = [cut for update in batching.epoch(0) for cut in update]
    widest = max(cuts, key=lambda cut: len(cut) * sum(_lengths(batching, cut)))
    longest = max(cuts, key=lambda cut: max(_lengths(batching, cut)))
    return [widest] if widest is longest else [widest, longest]


def try_largest(workers: Workers, store: Store, batching: Batching, config: Config) -> None:
    """Take the largest micro-batches there and back; weights, gradients and randomness stay as they were."""
    cuts = largest(batching)
    before = [parameter.grad for parameter in workers.parameters]
    cuda = [workers.device] if workers.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=cuda):
            own = [share(store, cut, workers.device, parts=workers.count, world=workers.world) for cut in cuts]
            workers.backward([part for parts in own for part in parts], step=0)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        sizes = " and ".join(_describe(batching, cut) for cut in cuts)
        raise RunError(
            f"{workers.device}: out of memory with the largest batch of this corpus, {sizes}: lower "
            f"train.micro_batch_tokens (now {config.train.micro_batch_tokens:,}) or data.max_length (now "
            f"{config.data.max_length:,}), or set train.recompute=true"
        ) from error
    finally:
        for parameter, gradient in zip(workers.parameters, before, strict=True):
            parameter.grad = gradient


def _lengths(batching: Batching, cut: Indices) -> tuple[int, int]:
    return int(batching.source_lengths[cut].max()), int(batching.target_lengths[cut].max())


def _describe(batching: Batching, cut: Indices) -> str:
    source, target = _lengths(batching, cut)
    tokens = len(cut) * (source + target)
    return f"{len(cut):,} pairs of up to {source:,} and {target:,} tokens ({tokens:,} with padding)"


def _out_of_memory(error: Exception) -> bool:
    """torch has a class for a GPU's; the CPU's allocator raises a plain RuntimeError."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
