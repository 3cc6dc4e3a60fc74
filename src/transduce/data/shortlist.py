"""A vocabulary shortlist: which target tokens a source sentence may need, so that search looks at no others.

It is learned from the pairs alone, by IBM's model 1 (Brown et al. 1993): a source token brings along the target tokens
that it explains best. Frequent target tokens are allowed always, and a source token may be copied. Memory is bounded:
meetings are counted for a range of source tokens at a time, and of each only the partners met most go into the model.
Shares of a meeting are counted in whole numbers, so that the result does not depend on how the pairs are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from transduce.data.preparation import Prepared
from transduce.data.store import Sequences, Store
from transduce.errors import CodecError, CorpusError
from transduce.files import write_file
from transduce.text.codec import SPECIALS

Ids = npt.NDArray[np.int64]
Pair = tuple[Sequence[int] | npt.NDArray[np.integer[Any]], Sequence[int] | npt.NDArray[np.integer[Any]]]

FREQUENT, BEST = 500, 100
"""How many target tokens are allowed always, and how many a source token brings along."""
PAIRS = 300_000  # of a larger store so many are looked at, evenly spread
PRODUCTS = 1 << 21  # meetings of a source and a target token in memory at once
CELLS = 1 << 25  # counts in memory at once: 128 MB
PARTNERS = 256  # of a source token in the model
ROUNDS = 5
WHOLE = 2.0**20  # what a target token shares out among the source tokens of its pair


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


def learn_shortlist(prepared: Prepared, *, frequent: int, best: int) -> Shortlist:
    """From the training pairs of a run."""
    sizes = prepared.source_codec.size, prepared.target_codec.size
    pieces = prepared.source_codec.pieces(range(sizes[0])), prepared.target_codec.pieces(range(sizes[1]))
    return learn(prepared.train, *sizes, frequent=frequent, best=best, copies=same_pieces(*pieces))


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
    frequency = np.zeros(target_size, np.int64)
    for chunk in chunks:
        frequency += np.bincount(_distinct(store.target, chunk, target_size)[1], minlength=target_size)
    by_frequency = np.lexsort((np.arange(target_size), -frequency))[:frequent]
    always = np.union1d(np.arange(len(SPECIALS)), by_frequency[frequency[by_frequency] > 0])
    meetings = _Meetings(store, chunks, source_size, np.setdiff1d(np.flatnonzero(frequency), always), target_size)
    keys = meetings.partners()
    shares = model_1(meetings, keys)
    rows: list[Ids] = [np.empty(0, np.int64)] * source_size
    sources, columns = np.divmod(keys, meetings.width)
    order = np.lexsort((columns, -shares, sources))
    firsts = np.searchsorted(sources, np.arange(source_size + 1))
    for source, (first, last) in enumerate(pairwise(firsts)):
        ranked = order[first:last][:best]
        rows[source] = meetings.targets[columns[ranked[shares[ranked] > 0]]]
    for source, target in copies:
        rows[source] = np.append(rows[source], target)
    return _shortlist(always, rows)


def model_1(meetings: _Meetings, keys: Ids) -> npt.NDArray[np.float64]:
    """How often, in WHOLEs, each partnership explains a target token, after some rounds of expectation maximisation."""
    probabilities = np.ones(len(keys))
    shares = np.zeros(len(keys))
    for _ in range(ROUNDS):
        shares = np.zeros(len(keys))
        for met, slots in meetings.of_chunks():
            places = np.minimum(np.searchsorted(keys, met), len(keys) - 1)
            likely = np.where(keys[places] == met, probabilities[places], 0.0)
            np.add.at(shares, places, np.rint(likely / np.bincount(slots, likely)[slots] * WHOLE))
        sources = keys // meetings.width
        probabilities = shares / np.maximum(np.bincount(sources, shares), 1.0)[sources]
    return shares


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

    CTranslate2 allows a batch what any of its sentences is allowed, and shares probability out among that alone. So the
    more a list holds of what its own sentence needs, the less a translation depends on its neighbours; a little it
    always does.
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


class _Meetings:
    """Who meets whom in the pairs: source tokens, and a null token after the last of them, with some target tokens.

    A meeting is a number: source x width + the target's place among `targets`.
    """

    def __init__(self, store: Store, chunks: list[Ids], source_size: int, targets: Ids, target_size: int) -> None:
        self.store, self.chunks, self.targets = store, chunks, targets
        self.null, self.target_size = source_size, target_size
        self.width = max(len(targets), 1)
        self.column = np.full(target_size, -1)
        self.column[targets] = np.arange(len(targets))

    def partners(self) -> Ids:
        """The meetings of each source token with the PARTNERS targets it meets most, and all of the null token's."""
        found = []
        height = max(CELLS // self.width, 1)
        for first in range(0, self.null, height):
            rows = min(height, self.null - first)
            counts = np.zeros(rows * self.width, np.int32)
            for chunk in self.chunks:
                np.add.at(counts, self.of(chunk, first, first + rows)[0] - first * self.width, np.int32(1))
            for row, met in enumerate(counts.reshape(rows, -1)):
                columns = np.flatnonzero(met)
                most = columns[np.argsort(-met[columns], kind="stable")[:PARTNERS]]
                found.append(np.sort(most) + (first + row) * self.width)
        return np.concatenate([*found, np.arange(len(self.targets)) + self.null * self.width])

    def of_chunks(self) -> Iterator[tuple[Ids, Ids]]:
        """All meetings, the null token's too."""
        for chunk in self.chunks:
            yield self.of(chunk, 0, self.null + 1)

    def of(self, chunk: Ids, first: int, last: int) -> tuple[Ids, Ids]:
        """The meetings of some source tokens; and of each, which target token of the chunk's it is."""
        numbers, sources = _distinct(self.store.source, chunk, self.null)
        numbers = np.concatenate([numbers, np.arange(len(chunk))])
        sources = np.concatenate([sources, np.full(len(chunk), self.null)])
        here = (sources >= first) & (sources < last)
        numbers, sources = numbers[here], sources[here]
        target_numbers, targets = _distinct(self.store.target, chunk, self.target_size)
        known = self.column[targets] >= 0
        widths = np.bincount(target_numbers[known], minlength=len(chunk))
        slots = _ranges((np.cumsum(widths) - widths)[numbers], widths[numbers])
        return np.repeat(sources * self.width, widths[numbers]) + self.column[targets[known]][slots], slots
