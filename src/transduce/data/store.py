"""Token ids on disk, memory-mapped: a corpus of any size costs a few bytes of memory a pair.

A store is a directory named by the hash of all it came from, so that a second run finds it and starts at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from transduce.errors import CorpusError
from transduce.files import write_directory, write_json
from transduce.text.codec import Codec

Integers = npt.NDArray[np.integer[Any]]
CHUNK = 20_000  # pairs encoded at once
LENGTHS = 1 << 20  # lengths computed at once


@dataclass(frozen=True)
class Sequences:
    """Many sequences of ids end to end, and where each one starts."""

    ids: Integers
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Integers:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> Integers:
        """Tokens in each sequence and its EOS, in as few bytes as hold them: one or two a pair, mostly."""
        pieces = (np.diff(self.offsets[at : at + LENGTHS + 1]) + 1 for at in range(0, len(self), LENGTHS))
        return np.concatenate([np.empty(0, np.uint8), *(p.astype(np.min_scalar_type(p.max())) for p in pieces)])


class Part(NamedTuple):
    """Consecutive pairs of a store that came from one corpus, and how often an epoch sees each."""

    start: int
    end: int
    weight: float


@dataclass(frozen=True)
class Store:
    """Corpora as ids: pair i is source[i], target[i], and came from line lines[i]."""

    source: Sequences
    target: Sequences
    lines: npt.NDArray[np.int64]
    too_long: int
    parts: tuple[Part, ...] = ()
    """Of corpora with weights; none: an epoch sees every pair once."""

    def __len__(self) -> int:
        return len(self.lines)

    def weighted(self, corpora: Iterable[tuple[int, float]]) -> Store:
        """The same pairs with the weights of their corpora, each given by its first line over all files."""
        known = list(corpora)
        starts = [int(np.searchsorted(self.lines, line)) for line, _ in known]
        parts = map(Part, starts, [*starts[1:], len(self)], (weight for _, weight in known))
        return replace(self, parts=tuple(part for part in parts if part.end > part.start))


def write_store(
    directory: Path,
    pairs: Iterable[tuple[int, str, str]],
    source_codec: Codec,
    target_codec: Codec,
    *,
    max_length: int,
) -> Store:
    """Encode (line, source, target) triples; pairs with a side over `max_length` tokens are left out and counted."""

    def fill(temporary: Path) -> None:
        too_long = 0
        with closing(Writer(temporary, source_codec.size, target_codec.size)) as writer:
            for chunk in _chunks(pairs):
                source = source_codec.encode_many(pair[1] for pair in chunk)
                target = target_codec.encode_many(pair[2] for pair in chunk)
                kept = [i for i, ids in enumerate(source) if len(ids) <= max_length and len(target[i]) <= max_length]
                too_long += len(chunk) - len(kept)
                lines = np.array([chunk[i][0] for i in kept], np.int64)
                writer.append(lines, [source[i] for i in kept], [target[i] for i in kept])
            writer.describe(too_long)

    write_directory(directory, fill)
    return open_store(directory)


def open_store(directory: Path) -> Store:
    """Map an existing store into memory."""
    try:
        description = json.loads((directory / "store.json").read_text(encoding="utf-8"))
        source, target = (
            Sequences(_map(directory / f"{side}.ids", dtype), _map(directory / f"{side}.offsets", "<i8"))
            for side, dtype in zip(("source", "target"), description["dtypes"], strict=True)
        )
        store = Store(source, target, _map(directory / "lines", "<i8"), description["too_long"])
    except (OSError, ValueError, KeyError) as error:
        raise CorpusError(f"{directory}: a damaged store of token ids ({error}): delete it and start again") from None
    if not len(source) == len(target) == len(store):
        raise CorpusError(f"{directory}: a damaged store of token ids: delete it and start again")
    return store


class Writer:
    """A store under way: pairs are appended, and what is told of them all comes last."""

    def __init__(self, directory: Path, source_size: int, target_size: int) -> None:
        self.directory = directory
        self.sides = _Side(directory, "source", source_size), _Side(directory, "target", target_size)
        self.lines = (directory / "lines").open("wb")

    def append(self, lines: npt.NDArray[np.int64], source: list[list[int]], target: list[list[int]]) -> None:
        """Some more pairs, and the lines that they came from."""
        for side, sequences in zip(self.sides, (source, target), strict=True):
            side.append(sequences)
        lines.astype("<i8").tofile(self.lines)

    def describe(self, too_long: int) -> None:
        """What `open_store` must know, and how many pairs were left out."""
        dtypes = [side.dtype.str for side in self.sides]
        write_json(self.directory / "store.json", {"too_long": too_long, "dtypes": dtypes})

    def close(self) -> None:
        """Close the files."""
        for side in self.sides:
            side.close()
        self.lines.close()


class _Side:
    """One side's ids, appended chunk by chunk."""

    def __init__(self, directory: Path, name: str, size: int) -> None:
        self.dtype = np.dtype("<u2" if size <= 2**16 else "<u4")
        self.ids = (directory / f"{name}.ids").open("wb")
        self.offsets = (directory / f"{name}.offsets").open("wb")
        self.end = 0
        np.zeros(1, "<i8").tofile(self.offsets)

    def append(self, sequences: list[list[int]]) -> None:
        np.fromiter((i for ids in sequences for i in ids), self.dtype).tofile(self.ids)
        ends = self.end + np.cumsum([len(ids) for ids in sequences], dtype="<i8")
        ends.tofile(self.offsets)
        self.end = int(ends[-1]) if len(ends) else self.end

    def close(self) -> None:
        self.ids.close()
        self.offsets.close()


def _chunks(pairs: Iterable[tuple[int, str, str]]) -> Iterator[list[tuple[int, str, str]]]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk


def _map(path: Path, dtype: str) -> npt.NDArray[Any]:
    if path.stat().st_size == 0:
        return np.empty(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")
