"""Training speed, interleaved: every contender does some updates in turn, round after round."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import torch

from benchmarks.contenders import Contender
from benchmarks.corpus import Workload
from transduce.config import ModelConfig


@dataclass(frozen=True)
class Speed:
    """Target tokens a second in each round."""

    name: str
    rounds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


def race(contenders: list[Contender], work: Workload, *, rounds: int, updates: int) -> list[Speed]:
    """Each round gives every contender the same batches; the first, for warming up, does not count."""
    found: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(rounds + 1):
        start = number * updates % max(1, len(work.batches) - updates)
        batches = work.batches[start : start + updates]
        tokens = sum(batch.tokens for batch in batches)
        for contender in contenders:
            begin = time.perf_counter()
            for index, batch in enumerate(batches):
                contender.update(batch, number * updates + index)
            if number:
                found[contender.name].append(tokens / (time.perf_counter() - begin))
    return [Speed(name, speeds) for name, speeds in found.items()]


def sgemm(size: int = 2048, repeats: int = 7) -> float:
    """The best matrix product of this run, in FLOP/s."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best


def flops_per_target_token(config: ModelConfig, work: Workload) -> float:
    """Useful FLOPs of forward and backward, padding not counted, per target token of this workload."""
    attention = 2 * config.d_model * config.num_heads * (config.key_width + config.value_width)
    feed_forward = 2 * config.d_model * config.d_ff
    memory = config.d_model * config.num_heads * (config.key_width + config.value_width)
    total = tokens = 0
    width = config.num_heads * (config.key_width + config.value_width)
    for batch in work.batches:
        sentences = len(batch.source)
        source, target = batch.source_tokens, batch.tokens
        # mean lengths stand for each sentence's own: batches hold sentences of like length
        pairs = (source * source + target * source) / sentences
        own = target * target / sentences
        total += source * config.encoder_layers * (attention + feed_forward)
        total += config.decoder_layers * (target * (2 * attention - memory + feed_forward) + source * memory)
        total += width * (config.encoder_layers * source * source / sentences + config.decoder_layers * own)
        total += width * config.decoder_layers * (pairs - source * source / sentences)
        total += target * config.d_model * work.vocabulary
        tokens += target
    return 3 * 2 * total / tokens
