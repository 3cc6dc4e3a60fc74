"""A vocabulary shortlist: which target tokens a source sentence may need, so that search looks at no others.

It is learned from the pairs alone: a source token brings along the target tokens that stand in the same pairs more
often than chance would have it, by the likelihood ratio of Dunning (1993). Frequent target tokens are allowed always,
and a source token may be copied. Counts are exact and their memory is bounded: a range of source tokens at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from transduce.data.store import Sequences, Store
from transduce.errors import CodecError, CorpusError
from transduce.files import write_file
from transduce.text.codec import SPECIALS

Ids = npt.NDArray[np.int64]
Pair = tuple[Sequence[int] | npt.NDArray[np.integer[Any]], Sequence[int] | npt.NDArray[np.integer[Any]]]

PAIRS = 1_000_000  # of a larger store so many are looked at, evenly spread
PRODUCTS = 1 << 21  # pairs of a source and a target token made at once
CELLS = 1 << 25  # counts in memory at once: 128 MB


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Target tokens that are allowed always, and those that each source token brings along, all sorted."""

    always: Ids
    rows: list[Ids]
    """One per source token; what is allowed always is not repeated."""

    def candidates(self, source: Iterable[int]) -> Ids:
        """What is allowed for a sentence by itself, sorted."""
        return np.unique(np.concatenate([self.always, *(self.rows[token] for token in set(source))]))

    def write_vmap(self, path: Path, source_pieces: Sequence[str], target_pieces: Sequence[str]) -> None:
        """As CTranslate2's vmap.txt: source token, tab, target tokens; nothing before the tab: allowed always."""
        for piece in (*source_pieces, *target_pieces):
            if set(piece) & set(" \t\n"):
                raise CodecError(f"{path}: the token {piece!r} cannot stand in a shortlist: translate without one")
        rows = [("", self.always), *zip(source_pieces, self.rows, strict=True)]
        lines = [f"{piece}\t{' '.join(target_pieces[id] for id in row)}\n" for piece, row in rows if len(row)]
        write_file(path, "".join(lines).encode())


def read_vmap(path: Path, source_pieces: Sequence[str], target_pieces: Sequence[str]) -> Shortlist:
    """The shortlist that `write_vmap` wrote with the same pieces."""
    sources = {piece: id for id, piece in enumerate(source_pieces)}
    targets = {piece: id for id, piece in enumerate(target_pieces)}
    always: list[int] = []
    rows: list[list[int]] = [[] for _ in source_pieces]
    try:
        for line in path.read_bytes().decode().removesuffix("\n").split("\n"):
            piece, _, row = line.partition("\t")
            (rows[sources[piece]] if piece else always).extend(targets[target] for target in row.split(" "))
    except (OSError, UnicodeDecodeError, KeyError) as error:
        raise CorpusError(f"{path}: not a shortlist of this vocabulary ({error}): learn it again") from None
    return _shortlist(always, rows)


def same_pieces(source_pieces: Sequence[str], target_pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Source tokens with the target tokens that read the same, such as digits, punctuation and names."""
    targets = {piece: id for id, piece in enumerate(target_pieces)}
    return [(id, targets[piece]) for id, piece in enumerate(source_pieces) if piece in targets]


def learn(
    store: Store,
    source_size: int,
    target_size: int,
    *,
    frequent: int,
    best: int,
    copies: Iterable[tuple[int, int]],
) -> Shortlist:
    """Always the specials and the `frequent` most frequent target tokens; with a source token its `best` and its copy.

    `copies` is what `same_pieces` found. The result depends on the pairs, not on how they are cut for counting.
    """
    places = np.unique(np.linspace(0, len(store) - 1, min(len(store), PAIRS)).astype(np.int64))
    chunks = _chunks(store, places)
    sources = _pairs_with(store.source, chunks, source_size)
    targets = _pairs_with(store.target, chunks, target_size)
    by_frequency = np.lexsort((np.arange(target_size), -targets))[:frequent]
    always = np.union1d(np.arange(len(SPECIALS)), by_frequency[targets[by_frequency] > 0])
    others = np.setdiff1d(np.flatnonzero(targets), always)
    rows: list[Ids] = []
    for counts in _together(store, chunks, source_size, others, target_size):
        for together in counts:
            found = np.flatnonzero(together)
            ratio = likelihood_ratio(together[found], sources[len(rows)], targets[others[found]], len(places))
            order = np.lexsort((found, -ratio))
            rows.append(others[found[order[: min(best, np.count_nonzero(ratio > 0))]]])
    for source, target in copies:
        rows[source] = np.append(rows[source], target)
    return _shortlist(always, rows)


def likelihood_ratio(
    together: npt.NDArray[Any], source: npt.NDArray[Any], target: npt.NDArray[Any], pairs: int
) -> npt.NDArray[np.float64]:
    """Dunning's ratio for tokens that are in so many pairs together and in so many each; 0: no more than by chance."""
    c, s, t = (np.asarray(count, np.float64) for count in (together, source, target))
    cells = (c, s - c, t - c, pairs - s - t + c)
    margins = (s, pairs - s, t, pairs - t)
    entropies = sum(map(_x_log_x, cells)) - sum(map(_x_log_x, margins)) + _x_log_x(np.float64(pairs))
    return np.where(c * pairs > s * t, 2 * entropies, 0.0)


@dataclass(frozen=True)
class Coverage:
    """How much of given translations the sentences' own lists hold."""

    sentences: int
    whole: int
    """Sentences all of whose target tokens are in their list."""
    tokens: int
    covered: int
    """Target tokens in their sentence's list."""
    candidates: int
    """Sizes of the lists, added up."""

    def __str__(self) -> str:
        share, whole = self.covered / max(self.tokens, 1), self.whole / max(self.sentences, 1)
        size = self.candidates / max(self.sentences, 1)
        return f"{share:.2%} of target tokens, {whole:.1%} of sentences whole, {size:,.0f} candidates a sentence"


def coverage(shortlist: Shortlist, pairs: Iterable[Pair]) -> Coverage:
    """Of pairs of ids that were not learned from: so the width can be chosen by measuring.

    CTranslate2 allows a batch what any of its sentences is allowed. Only a list that holds what its own sentence needs
    leaves the sentence's translation the same whatever its neighbours are.
    """
    sentences = whole = tokens = covered = candidates = 0
    for source, target in pairs:
        allowed = shortlist.candidates(source)
        found = int(np.isin(target, allowed).sum())
        sentences += 1
        whole += found == len(target)
        tokens += len(target)
        covered += found
        candidates += len(allowed)
    return Coverage(sentences, whole, tokens, covered, candidates)


def _x_log_x(count: npt.NDArray[np.float64] | np.float64) -> npt.NDArray[np.float64]:
    return count * np.log(np.maximum(count, 1.0))


def _shortlist(always: Iterable[int], rows: Iterable[Iterable[int]]) -> Shortlist:
    allowed = np.unique(np.array(list(always), np.int64))
    return Shortlist(allowed, [np.setdiff1d(np.array(list(row), np.int64), allowed) for row in rows])


def _chunks(store: Store, places: Ids) -> list[Ids]:
    """The places cut so that a chunk has about PRODUCTS pairs of a source and a target token at most."""
    lengths = [side.offsets[places + 1] - side.offsets[places] for side in (store.source, store.target)]
    ends = np.cumsum(lengths[0] * lengths[1])
    return np.split(places, np.flatnonzero(np.diff(ends // PRODUCTS)) + 1)


def _distinct(side: Sequences, places: Ids, size: int) -> tuple[Ids, Ids]:
    """Each token of each place once, sorted by place: the place's number in the chunk, and the token."""
    starts, lengths = side.offsets[places], side.offsets[places + 1] - side.offsets[places]
    ids = side.ids[_ranges(starts, lengths)].astype(np.int64)
    numbers, tokens = np.divmod(np.unique(np.repeat(np.arange(len(places)), lengths) * size + ids), size)
    return numbers, tokens


def _ranges(starts: Ids, lengths: Ids) -> Ids:
    """Numbers from each start on, so many as its length says, end to end."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def _pairs_with(side: Sequences, chunks: Iterable[Ids], size: int) -> Ids:
    """In how many pairs each token is."""
    counts = np.zeros(size, np.int64)
    for places in chunks:
        counts += np.bincount(_distinct(side, places, size)[1], minlength=size)
    return counts


def _together(
    store: Store, chunks: Sequence[Ids], source_size: int, others: Ids, target_size: int
) -> Iterator[npt.NDArray[np.int32]]:
    """In how many pairs each source token is with each of the `others`: rows for a range of source tokens at a time."""
    column = np.full(target_size, -1)
    column[others] = np.arange(len(others))
    height = max(CELLS // max(len(others), 1), 1)
    for first in range(0, source_size, height):
        counts = np.zeros((min(height, source_size - first), len(others)), np.int32)
        for places in chunks:
            numbers, tokens = _distinct(store.source, places, source_size)
            here = (tokens >= first) & (tokens < first + len(counts))
            numbers, rows = numbers[here], tokens[here] - first
            target_numbers, targets = _distinct(store.target, places, target_size)
            known = column[targets] >= 0
            columns = column[targets[known]]
            widths = np.bincount(target_numbers[known], minlength=len(places))
            starts = np.cumsum(widths) - widths
            crossed = columns[_ranges(starts[numbers], widths[numbers])]
            cells = np.repeat(rows * len(others), widths[numbers]) + crossed
            np.add.at(counts.reshape(-1), cells, np.int32(1))
        yield counts
