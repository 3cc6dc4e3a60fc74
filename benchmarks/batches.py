"""Batches in a file that every contender reads, whatever its environment: numpy is all it takes.

B sentences, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

PAD, BOS, EOS, FIRST = 0, 2, 3, 4  # as in every codec of the package; words have ids from FIRST on

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """One update's sentences, padded: the decoder reads `target` and must say `expected`."""

    source: Ids  # BS, ends with EOS
    target: Ids  # BT, starts with BOS
    expected: Ids  # BT, ends with EOS

    @property
    def tokens(self) -> int:
        """Target tokens, padding not counted."""
        return int((self.expected != PAD).sum())

    @property
    def lengths(self) -> tuple[Ids, Ids]:
        """Source and target tokens of each sentence."""
        return (self.source != PAD).sum(axis=1), (self.expected != PAD).sum(axis=1)


def write_batches(path: Path, batches: Iterable[Batch]) -> None:
    """Keep the batches in an .npz file."""
    arrays = {
        f"{number}.{name}": getattr(batch, name)
        for number, batch in enumerate(batches)
        for name in ("source", "target", "expected")
    }
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_batches(path: Path) -> list[Batch]:
    """The batches of a file, in order."""
    with np.load(path, allow_pickle=False) as arrays:
        count = len(arrays.files) // 3
        return [
            Batch(*(arrays[f"{number}.{name}"] for name in ("source", "target", "expected"))) for number in range(count)
        ]


def other_words(batch: Batch, vocabulary: int, seed: int) -> Batch:
    """The same lengths and padding, but words drawn evenly from a vocabulary."""
    generator = np.random.default_rng(seed)

    def redraw(ids: Ids) -> Ids:
        return np.where(ids < FIRST, ids, generator.integers(FIRST, vocabulary, ids.shape))

    source, expected = redraw(batch.source), redraw(batch.expected)
    return Batch(source, shifted(expected), expected)


def random_batch(sentences: int, length: int, vocabulary: int) -> Batch:
    """Sentences of `length` tokens on both sides, EOS included: no padding."""
    generator = np.random.default_rng((sentences, length))
    source, expected = generator.integers(FIRST, vocabulary, (2, sentences, length))
    source[:, -1] = expected[:, -1] = EOS
    return Batch(source, shifted(expected), expected)


def shifted(expected: Ids) -> Ids:
    """What the decoder reads when it must say `expected`."""
    target = np.full_like(expected, BOS)
    target[:, 1:] = np.where(expected[:, 1:] == PAD, PAD, expected[:, :-1])
    return target
