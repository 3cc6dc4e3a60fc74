"""From a store to batches: a token budget, sentences of like length together, the order a function of the seed.

B sentences, S source length, T target length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from transduce.data.layout import Indices, Layout, by_cell, index_type, lay_out, taken
from transduce.data.store import Integers, Part, Sequences, Store
from transduce.text.codec import BOS, EOS, PAD


@dataclass(frozen=True)
class Batch:
    """One micro-batch, padded: source ends with EOS; the decoder reads `target` and must say `expected`."""

    source: npt.NDArray[np.int64]  # BS
    target: npt.NDArray[np.int64]  # BT, starts with BOS
    expected: npt.NDArray[np.int64]  # BT, ends with EOS
    tokens: int  # of expected, padding not counted
    source_tokens: int

    @property
    def source_padded(self) -> bool:
        """Whether a source is shorter than another."""
        return self.source_tokens < self.source.size

    @property
    def present(self) -> npt.NDArray[np.int64] | None:
        """Where `expected`, flattened, is not padding; None: everywhere."""
        return np.flatnonzero(self.expected) if self.tokens < self.expected.size else None


@dataclass(frozen=True)
class Batching:
    """How a store is cut into updates of about `batch_tokens`, each in micro-batches that fit in memory."""

    source_lengths: Integers  # EOS included
    target_lengths: Integers
    batch_tokens: int
    micro_batch_tokens: int
    seed: int
    parts: tuple[Part, ...] = ()  # none: an epoch sees every pair once

    @classmethod
    def of(cls, store: Store, *, batch_tokens: int, micro_batch_tokens: int, seed: int) -> Batching:
        """The batching of a store's pairs."""
        micro = min(batch_tokens, micro_batch_tokens)
        return cls(store.source.lengths, store.target.lengths, batch_tokens, micro, seed, store.parts)

    def fitted(self, store: Store) -> Batching:
        """The same recipe for the same pairs, cut into other tokens."""
        return replace(self, source_lengths=store.source.lengths, target_lengths=store.target.lengths)

    def epoch(self, number: int) -> list[list[Indices]]:
        """All updates of an epoch, each a list of micro-batches of pair indices.

        The layout says how many pairs of which lengths make a batch; which pairs of those lengths, and the order of
        the batches, is random: batches are tight, yet differ from epoch to epoch.
        """
        drawn = self.drawn(number)
        if drawn is not None and not len(drawn):
            return []
        layout = self.layout if self._steady else self._lay_out(drawn)
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence((self.seed, number))))
        shuffled = np.arange(len(layout.cells), dtype=index_type(len(layout.cells)))
        generator.shuffle(shuffled)
        order = taken(by_cell(shuffled, layout), layout.places)
        cuts = np.split(order if drawn is None else taken(drawn, order), layout.ends)[:-1]
        cuts = [cuts[i] for i in generator.permutation(len(cuts))]
        return [cuts[i : i + self.group] for i in range(0, len(cuts), self.group)]

    def drawn(self, number: int) -> Indices | None:
        """The pairs that an epoch sees, those of a heavy corpus several times; None: every pair once."""
        if all(part.weight == 1 for part in self.parts):
            return None
        found: list[Indices] = []
        for at, part in enumerate(self.parts):
            pairs = np.arange(part.start, part.end, dtype=index_type(part.end))
            share, times = math.modf(part.weight)
            found += [pairs] * int(times)
            if share:
                found.append(pairs[in_turn(len(pairs), share, number, seed=self.seed, part=at)])
        return np.concatenate(found)

    @property
    def group(self) -> int:
        """Micro-batches in an update."""
        return max(1, round(self.batch_tokens / self.micro_batch_tokens))

    @property
    def updates_per_epoch(self) -> int:
        """As many in every epoch; where a weight is a fraction, those of the first, and about as many in the others."""
        return -(-len(self.layout.ends) // self.group)

    @cached_property
    def layout(self) -> Layout:
        """Which lengths share a batch in the first epoch; the same in every other, unless a weight is a fraction."""
        return self._lay_out(self.drawn(0))

    @property
    def _steady(self) -> bool:
        return all(float(part.weight).is_integer() for part in self.parts)

    def _lay_out(self, drawn: Indices | None) -> Layout:
        source, target = self.source_lengths, self.target_lengths
        if drawn is not None:
            source, target = taken(source, drawn), taken(target, drawn)
        return lay_out(source, target, self.micro_batch_tokens)


def in_turn(size: int, share: float, number: int, *, seed: int, part: int) -> Indices:
    """The share of a part's pairs whose turn it is in an epoch: each has its turn before any has its second one."""
    first, last = (math.ceil(epoch * share * size) for epoch in (number, number + 1))
    rounds = range(first // size, -(-last // size))
    seeds = (np.random.SeedSequence(seed, spawn_key=(part, each)) for each in rounds)
    orders = [np.random.Generator(np.random.PCG64(each)).permutation(size) for each in seeds]
    return np.concatenate([np.empty(0, np.int64), *orders])[first - rounds.start * size : last - rounds.start * size]


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
