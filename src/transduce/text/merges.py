"""The merges of a byte-pair encoding, and BPE-dropout (Provilkov et al. 2020), which leaves some of them out.

SentencePiece samples too, but what it draws cannot be had again in another process from its version 0.2.2 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class Merges:
    """Which two pieces make a third, the earliest learned first: as SentencePiece has it, in the order of their ids."""

    def __init__(self, pieces: Sequence[str], *, whole: int, space: str) -> None:
        """Of all `pieces` by their ids; the first `whole` ids are never taken apart nor merged."""
        known = {piece: id for id, piece in enumerate(pieces) if id >= whole}
        self.none = len(pieces)  # where there is no merge: later than all of them
        self.space = known[space]
        spelled = [[known[letter] for letter in piece] if id >= whole else [id] for id, piece in enumerate(pieces)]
        self._sizes = np.array([len(letters) for letters in spelled])
        self._letters = np.fromiter(chain.from_iterable(spelled), np.int64)
        self._starts = self._sizes.cumsum() - self._sizes
        made = sorted(
            (known[piece[:cut]] * self.none + known[piece[cut:]], id)
            for piece, id in known.items()
            for cut in range(1, len(piece))
            if piece[:cut] in known and piece[cut:] in known
        )
        self._pairs, self._made = (np.array([row[column] for row in made], np.int64) for column in (0, 1))

    def cut_anew(self, sequences: Sequence[Sequence[int]], *, dropout: float, seed: int) -> list[list[int]]:
        """Other ids of the same texts, which follow from the arguments alone.

        A word is merged again from its letters, step by step. At each step every merge that is possible is left out
        with the probability `dropout`, and the earliest that is left is made; if none is left, the word is done.
        """
        symbols, sequence = self._spell(sequences)
        words = np.cumsum((symbols == self.space) | _changes(sequence))
        places, done = np.arange(len(symbols)), []
        generator = np.random.Generator(np.random.SFC64(seed))
        while len(symbols):
            merged = self._possible(symbols, words)
            merged[generator.random(len(merged), np.float32) < dropout] = self.none
            starts = np.flatnonzero(_changes(words))
            best = np.repeat(np.minimum.reduceat(merged, starts), np.diff(starts, append=len(words)))
            ended = best == self.none
            done.append((places[ended], symbols[ended]))
            hits = np.flatnonzero((merged == best) & ~ended)
            hits = hits[_changes(words[hits])]  # the leftmost of equals
            symbols[hits] = merged[hits]
            stays = ~ended
            stays[hits + 1] = False
            symbols, words, places = symbols[stays], words[stays], places[stays]
        return _in_order(done, sequence, len(sequences))

    def _spell(self, sequences: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
        """The letters of all sequences one after the other, and whose each is."""
        ids = np.fromiter(chain.from_iterable(sequences), np.int64)
        sizes = self._sizes[ids]
        before = sizes.cumsum() - sizes
        letters = self._letters[np.repeat(self._starts[ids] - before, sizes) + np.arange(sizes.sum())]
        whose = np.repeat(np.arange(len(sequences)), [len(each) for each in sequences])
        return letters, np.repeat(whose, sizes)

    def _possible(self, symbols: Ids, words: Ids) -> Ids:
        """What each symbol and the next one make, if they are of one word."""
        merged = np.full(len(symbols), self.none)
        if not len(self._pairs):
            return merged
        within = np.flatnonzero(words[:-1] == words[1:])
        pairs = symbols[within] * self.none + symbols[within + 1]
        found = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        known = self._pairs[found] == pairs
        merged[within[known]] = self._made[found[known]]
        return merged


def _changes(values: Ids) -> NDArray[np.bool_]:
    """Where a value differs from the one before it; the first always does."""
    changes: NDArray[np.bool_] = np.diff(values, prepend=-1) != 0
    return changes


def _in_order(done: list[tuple[Ids, Ids]], sequence: Ids, count: int) -> list[list[int]]:
    """The symbols of each sequence, whenever they were done."""
    if not done:
        return [[] for _ in range(count)]
    places, symbols = (np.concatenate(each) for each in zip(*done, strict=True))
    order = np.argsort(places)
    ends = np.searchsorted(sequence[places[order]], np.arange(1, count))
    return [part.tolist() for part in np.split(symbols[order], ends)]
