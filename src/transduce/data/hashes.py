"""Repeated pairs in a large corpus: 64-bit hashes go to buckets on disk and are counted bucket by bucket.

Equal sources fall into one bucket, so every question about repeats can be answered inside it. Python's own
hash is used: it is fast, keyed per process, and nothing here outlives the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce.data.problems import PLACES_KEPT

BUCKETS = 256
HELD = 1 << 16
"""Records kept in memory before they are sorted into the buckets."""
READ = 1 << 20
"""Records of a bucket looked at together: copies of one line without end still need little memory."""

_RECORD = np.dtype([("source", np.uint64), ("target", np.uint64), ("line", np.int64), ("copies", np.int64)])
Records = NDArray[np.void]
Lines = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Repeats:
    """How many, and the smallest line numbers."""

    count: int = 0
    lines: tuple[int, ...] = ()

    def plus(self, count: int, lines: Lines) -> Repeats:
        """Those of one more bucket."""
        return Repeats(self.count + count, tuple(sorted((*self.lines, *_smallest(lines)))[:PLACES_KEPT]))


class PairHashes:
    """The pairs of one corpus, as records on disk."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._paths = [directory / f"{bucket:03}" for bucket in range(BUCKETS)]
        self._held: list[Records] = []
        self._size = 0

    def add(self, sources: list[str], targets: list[str], lines: Lines) -> int:
        """Note some pairs; returns how many of them have equal sides, which the hashes tell in passing."""
        records = np.empty(len(sources), dtype=_RECORD)
        records["source"] = np.fromiter(map(hash, sources), dtype=np.int64, count=len(sources)).view(np.uint64)
        records["target"] = np.fromiter(map(hash, targets), dtype=np.int64, count=len(targets)).view(np.uint64)
        records["line"] = lines
        records["copies"] = 1
        self._held.append(records)
        self._size += len(records)
        if self._size >= HELD:
            self.flush()
        return int((records["source"] == records["target"]).sum())

    def flush(self) -> None:
        """Write what is held."""
        if not self._held:
            return
        records = np.concatenate(self._held)
        buckets = (records["source"] >> np.uint64(56)).astype(np.uint8)
        records = records[np.argsort(buckets, kind="stable")]
        ends = np.cumsum(np.bincount(buckets, minlength=BUCKETS))
        for path, part in zip(self._paths, np.split(records, ends[:-1]), strict=True):
            if len(part):
                with path.open("ab") as file:
                    file.write(part.tobytes())
        self._held, self._size = [], 0

    def distinct(self, bucket: int) -> Records:
        """The different pairs of a bucket, by source, each with its first line and number of copies."""
        self.flush()
        found = np.empty(0, dtype=_RECORD)
        if not self._paths[bucket].exists():
            return found
        with self._paths[bucket].open("rb") as file:
            while data := file.read(READ * _RECORD.itemsize):
                found = _merge(np.concatenate([found, np.frombuffer(data, dtype=_RECORD)]))
        return found

    def repeated(self) -> tuple[Repeats, Repeats]:
        """Surplus copies of pairs (at the pair's first line), and sources that have several targets."""
        copies, sources = Repeats(), Repeats()
        for records in self._buckets():
            again = records[records["copies"] > 1]
            copies = copies.plus(int((again["copies"] - 1).sum()), again["line"])
            _, starts, counts = np.unique(records["source"], return_index=True, return_counts=True)
            if (counts > 1).any():
                first = np.minimum.reduceat(records["line"], starts)[counts > 1]
                sources = sources.plus(len(first), first)
        return copies, sources

    def shared_with(self, other: PairHashes) -> tuple[Repeats, Repeats]:
        """Pairs, and pairs by source alone, of this corpus that `other` has too; the lines are this one's."""
        pairs, sources = Repeats(), Repeats()
        for bucket, records in enumerate(self._buckets()):
            theirs = other.distinct(bucket)
            same = records[np.isin(_pair_keys(records), _pair_keys(theirs))]
            pairs = pairs.plus(int(same["copies"].sum()), same["line"])
            same = records[np.isin(records["source"], theirs["source"])]
            sources = sources.plus(int(same["copies"].sum()), same["line"])
        return pairs, sources

    def _buckets(self) -> Iterator[Records]:
        for bucket in range(BUCKETS):
            yield self.distinct(bucket)


def _pair_keys(records: Records) -> NDArray[np.uint64]:
    """One number for both hashes: odd factors keep it as uniform as they are."""
    keys: NDArray[np.uint64] = records["source"] * np.uint64(0x9E3779B97F4A7C15) + records["target"]
    return keys


def _merge(records: Records) -> Records:
    order = np.lexsort((records["target"], records["source"]))
    records = records[order]
    new = np.ones(len(records), dtype=bool)
    new[1:] = (records["source"][1:] != records["source"][:-1]) | (records["target"][1:] != records["target"][:-1])
    starts = np.flatnonzero(new)
    merged = records[starts]
    merged["line"] = np.minimum.reduceat(records["line"], starts)
    merged["copies"] = np.add.reduceat(records["copies"], starts)
    return merged


def _smallest(lines: Lines) -> list[int]:
    if len(lines) > PLACES_KEPT:
        lines = np.partition(lines, PLACES_KEPT)[:PLACES_KEPT]
    smallest: list[int] = lines.tolist()
    return smallest
