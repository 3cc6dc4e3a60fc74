"""From a store to batches: a token budget, sentences of like length together, the order a function of the seed.

B sentences, S source length, T target length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from transduce.data.store import Integers, Sequences, Store
from transduce.text.codec import BOS, EOS, PAD

Indices = npt.NDArray[np.int64]
STRIPS = (1, 2, 3, 4, 6, 8)


@dataclass(frozen=True)
class Batch:
    """One micro-batch, padded: source ends with EOS; the decoder reads `target` and must say `expected`."""

    source: npt.NDArray[np.int64]  # BS
    target: npt.NDArray[np.int64]  # BT, starts with BOS
    expected: npt.NDArray[np.int64]  # BT, ends with EOS
    tokens: int  # of expected, padding not counted
    source_tokens: int


@dataclass(frozen=True)
class Batching:
    """How a store is cut into updates of about `batch_tokens`, each in micro-batches that fit in memory."""

    source_lengths: Indices  # EOS included
    target_lengths: Indices
    batch_tokens: int
    micro_batch_tokens: int
    seed: int

    @classmethod
    def of(cls, store: Store, *, batch_tokens: int, micro_batch_tokens: int, seed: int) -> Batching:
        """The batching of a store's pairs."""
        micro = min(batch_tokens, micro_batch_tokens)
        return cls(store.source.lengths + 1, store.target.lengths + 1, batch_tokens, micro, seed)

    def epoch(self, number: int) -> list[list[Indices]]:
        """All updates of an epoch, each a list of micro-batches of pair indices.

        Pairs are laid out by length with ties in random order, cut to the budget, and the cuts shuffled: batches are
        tight, yet differ from epoch to epoch.
        """
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence((self.seed, number))))
        cuts = self.cut(self.by_length(generator.random(len(self.source_lengths)), self.strip))
        cuts = [cuts[i] for i in generator.permutation(len(cuts))]
        group = max(1, round(self.batch_tokens / self.micro_batch_tokens))
        return [cuts[i : i + group] for i in range(0, len(cuts), group)]

    @cached_property
    def strip(self) -> int:
        """The width of the strips of `by_length` that leaves least padding."""
        ties = np.zeros(len(self.source_lengths))

        def padded(strip: int) -> int:
            cuts = self.cut(self.by_length(ties, strip))
            return sum(int(side[cut].max()) * len(cut) for cut in cuts for side in self.sides)

        return min(STRIPS, key=padded)

    @property
    def sides(self) -> tuple[Indices, Indices]:
        """Source and target lengths."""
        return self.source_lengths, self.target_lengths

    def by_length(self, ties: npt.NDArray[np.float64], strip: int) -> Indices:
        """Pairs so that neighbours have like lengths on both sides.

        The plane of (target length, source length) is walked in strips of `strip` target lengths, up the source
        lengths in one strip and down in the next, and within a strip to and fro between its target lengths.
        """
        source, target = self.sides
        strips = target // strip
        along = np.where(strips % 2, source, -source)
        across = np.where(source % 2, target, -target)
        return np.lexsort((ties, across, along, strips))

    def cut(self, order: Indices) -> list[Indices]:
        """Consecutive pairs whose padded source and padded target each stay within the micro-batch budget."""
        cuts: list[Indices] = []
        start, longest_source, longest_target = 0, 0, 0
        lengths = zip(self.source_lengths[order].tolist(), self.target_lengths[order].tolist(), strict=True)
        for end, (source, target) in enumerate(lengths):
            longest_source, longest_target = max(longest_source, source), max(longest_target, target)
            if end > start and max(longest_source, longest_target) * (end + 1 - start) > self.micro_batch_tokens:
                cuts.append(order[start:end])
                start, longest_source, longest_target = end, source, target
        if start < len(order):
            cuts.append(order[start:])
        return cuts


def collate(store: Store, indices: Indices) -> Batch:
    """The padded arrays of some pairs."""
    source = _pad(store.source, indices, last=EOS)
    expected = _pad(store.target, indices, last=EOS)
    target = np.full_like(expected, BOS)
    target[:, 1:] = np.where(expected[:, 1:] == PAD, PAD, expected[:, :-1])
    return Batch(source, target, expected, int((expected != PAD).sum()), int((source != PAD).sum()))


def _pad(sequences: Sequences, indices: Indices, *, last: int) -> npt.NDArray[np.int64]:
    starts, ends = sequences.offsets[indices], sequences.offsets[indices + 1]
    lengths = ends - starts
    at = np.arange(int(lengths.max(initial=0)) + 1)
    ids: Integers = sequences.ids
    inside = at < lengths[:, None]
    padded = np.zeros(inside.shape, np.int64)
    padded[inside] = ids[(starts[:, None] + at)[inside]]
    padded[np.arange(len(indices)), lengths] = last
    return padded
