"""From a store to batches: a token budget, sentences of like length together, the order a function of the seed.

B sentences, S source length, T target length. A cell is a pair of lengths (S, T): its pairs may change places. What is
as long as the corpus is kept in few bytes and worked on in pieces: some 25 bytes of memory a pair at the most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from transduce.data.store import Integers, Part, Sequences, Store
from transduce.text.codec import BOS, EOS, PAD

Indices = Integers
STRIPS = (1, 2, 3)
COARSE, FINE = 4, 64  # pieces of a full batch that cuts fall between: to compare walks, and to cut the best
MANY_PIECES = 2**18  # more would take long: where there are so many cells, few are enough
PIECE = 1 << 20  # pairs worked on at once


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


@dataclass(frozen=True)
class Layout:
    """Batches in terms of cells: take the pairs sorted by cell, reorder them by `places`, and cut at `ends`."""

    cells: Integers  # the number of each pair's cell
    starts: Indices  # of each cell among the sorted pairs
    places: Indices
    ends: Indices


def in_turn(size: int, share: float, number: int, *, seed: int, part: int) -> Indices:
    """The share of a part's pairs whose turn it is in an epoch: each has its turn before any has its second one."""
    first, last = (math.ceil(epoch * share * size) for epoch in (number, number + 1))
    rounds = range(first // size, -(-last // size))
    seeds = (np.random.SeedSequence(seed, spawn_key=(part, each)) for each in rounds)
    orders = [np.random.Generator(np.random.PCG64(each)).permutation(size) for each in seeds]
    return np.concatenate([np.empty(0, np.int64), *orders])[first - rounds.start * size : last - rounds.start * size]


def lay_out(source: Integers, target: Integers, budget: int) -> Layout:
    """Batches with little padding, whose padded source and padded target each stay within the budget.

    A cell with pairs for several batches fills all but the last one or two alone. What is left is ordered by a walk
    over the cells, the best of several, and cut where it costs least.
    """
    cells, counts, *sides = find_cells(source, target)
    capacity = np.maximum(1, budget // np.maximum(*sides))
    alone = np.maximum(0, counts // capacity - 1)
    left = counts - alone * capacity

    def cuts(walk: Indices, pieces: int) -> tuple[Indices, int]:
        return cut(sides[0][walk], sides[1][walk], left[walk], budget=budget, pieces=pieces)

    walk = min(walks(*sides), key=lambda walk: cuts(walk, COARSE)[1])
    ends, _ = cuts(walk, min(FINE, max(COARSE, MANY_PIECES // max(1, len(counts)))))
    starts = np.cumsum(counts) - counts
    first, rest = ranges(starts, counts - left), ranges((starts + counts - left)[walk], left[walk])
    full = np.cumsum(np.repeat(capacity, alone))
    return Layout(
        cells=cells,
        starts=starts,
        places=np.concatenate((first, rest)),
        ends=np.concatenate((full, len(first) + ends)),
    )


def find_cells(source: Integers, target: Integers) -> tuple[Integers, Indices, Indices, Indices]:
    """The number of each pair's cell; and of each cell the number of pairs, the source and the target length."""
    stride = int(target.max(initial=0)) + 1
    pieces = [slice(at, at + PIECE) for at in range(0, len(source), PIECE)]

    def codes_of(piece: slice) -> npt.NDArray[np.int64]:
        return source[piece].astype(np.int64) * stride + target[piece]

    found = [np.unique(codes_of(piece), return_counts=True) for piece in pieces]
    codes, inverse = np.unique(np.concatenate([each for each, _ in found]), return_inverse=True)
    counts = np.zeros(len(codes), np.int64)
    np.add.at(counts, inverse, np.concatenate([each for _, each in found]))
    cells = np.empty(len(source), np.min_scalar_type(len(codes)))  # 16 bits, mostly: sorted in one pass
    for piece in pieces:
        cells[piece] = np.searchsorted(codes, codes_of(piece))
    return cells, counts, codes // stride, codes % stride


def by_cell(order: Indices, layout: Layout) -> Indices:
    """The pairs sorted by cell, and in a cell as in `order`; in pieces, as numpy's sort takes 16 bytes a pair."""
    free, found = layout.starts.copy(), np.empty_like(order)
    for at in range(0, len(order), PIECE):
        piece = order[at : at + PIECE]
        cells = layout.cells[piece]
        counts = np.bincount(cells, minlength=len(free))
        found[ranges(free, counts)] = piece[np.argsort(cells, kind="stable")]
        free += counts
    return found


def walks(source: Indices, target: Indices) -> Iterator[Indices]:
    """Orders of the cells in which neighbours have like lengths on both sides.

    The plane of lengths is walked in strips of the target, the source or the longer side: up one strip and down the
    next, and to and fro within a strip.
    """
    longer = np.maximum(source, target)
    for rows, along in ((target, source), (source, target), (longer, source - target)):
        for width in STRIPS:
            strip = rows // width
            yield np.lexsort((np.where(along % 2, rows, -rows), np.where(strip % 2, along, -along), strip))


def cut(source: Indices, target: Indices, counts: Indices, *, budget: int, pieces: int) -> tuple[Indices, int]:
    """Where batches of consecutive cells end so that they cost least, and what they cost.

    A batch costs its padded tokens, and half a budget as each batch takes time of its own. Dynamic programming over
    the cells cut in pieces, the largest 1 / `pieces` of a full batch.
    """
    size = np.maximum(1, budget // np.maximum(source, target) // pieces)
    parts = -(-counts // size)
    source, target = np.repeat(source, parts), np.repeat(target, parts)
    starts = np.repeat(np.cumsum(counts) - counts, parts) + ranges(np.zeros_like(parts), parts) * np.repeat(size, parts)
    at = np.append(starts, counts.sum())
    # a batch that starts with a piece ends no later than that piece's own length allows
    latest = np.searchsorted(at, at[:-1] + budget // np.maximum(source, target), side="right").tolist()
    cost, following = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    for start in reversed(range(len(source))):
        end = max(latest[start] - 1, start + 1)  # a pair alone may exceed the budget
        tall, wide = np.maximum.accumulate(source[start:end]), np.maximum.accumulate(target[start:end])
        pairs = at[start + 1 : end + 1] - at[start]
        fitting = max(1, int(np.searchsorted(np.maximum(tall, wide) * pairs, budget, side="right")))
        total = ((tall + wide) * pairs + cost[start + 1 : end + 1])[:fitting]
        best = int(total.argmin())
        cost[start], following[start] = total[best] + budget // 2, start + 1 + best
    ends = [0]
    while ends[-1] < len(source):
        ends.append(int(following[ends[-1]]))
    return at[ends[1:]], int(cost[0])


def ranges(starts: Indices, counts: Indices) -> Indices:
    """starts[i], starts[i] + 1, ... for counts[i] numbers, one i after the other."""
    before = np.cumsum(counts) - counts
    found = np.arange(counts.sum(), dtype=index_type(int((starts + counts).max(initial=0))))
    found += np.repeat((starts - before).astype(found.dtype), counts)
    return found


def index_type(count: int) -> np.dtype[Any]:
    """Of the numbers of so many pairs: four bytes, if they suffice."""
    return np.dtype(np.int32 if count <= np.iinfo(np.int32).max else np.int64)


def taken(values: Integers, places: Indices) -> Integers:
    """values[places], in pieces: numpy would first make eight bytes of each place's four."""
    found = np.empty(len(places), values.dtype)
    for at in range(0, len(places), PIECE):
        found[at : at + PIECE] = values[places[at : at + PIECE]]
    return found


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
