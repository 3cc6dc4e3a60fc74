"""Which lengths share a batch.

A cell is a pair of lengths, of a source and its target: its pairs may change places. What is as long as the corpus is
kept in few bytes and worked on in pieces: some 25 bytes of memory a pair at the most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from transduce.data.store import Integers

Indices = Integers
STRIPS = (1, 2, 3)
COARSE, FINE = 4, 64  # pieces of a full batch that cuts fall between: to compare walks, and to cut the best
MANY_PIECES = 2**18  # more would take long: where there are so many cells, few are enough
PIECE = 1 << 20  # pairs worked on at once


@dataclass(frozen=True)
class Layout:
    """Batches in terms of cells: take the pairs sorted by cell, reorder them by `places`, and cut at `ends`."""

    cells: Integers  # the number of each pair's cell
    starts: Indices  # of each cell among the sorted pairs
    places: Indices
    ends: Indices


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
