"""The text that small studies train on: Multi30k where it lies, else the embedded phrasebook."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.data.corpus import Corpus, read_pairs
from transduce.data.phrasebook import Split, phrases
from transduce.files import write_file

Sides = tuple[Path, Path]
Pairs = list[tuple[str, str]]
LANGUAGES = ("en", "de")


@dataclass(frozen=True)
class Texts:
    """Pairs to train on and pairs to measure by, in files."""

    name: str
    train: Sides
    valid: Sides

    def settings(self) -> tuple[str, ...]:
        """The settings that name these files to a run."""
        sides = zip(("source", "target", "valid_source", "valid_target"), (*self.train, *self.valid), strict=True)
        return tuple(f"data.{key}={json.dumps([str(path)])}" for key, path in sides)


def multi30k(data: Path) -> Texts | None:
    """Its training pairs and its validation pairs, where they lie; None: they are not there."""
    train, valid = (_gzipped(data / "multi30k", part) for part in ("train", "val"))
    return Texts("Multi30k", train, valid) if all(path.is_file() for path in (*train, *valid)) else None


def phrasebook(directory: Path, *, train: int, valid: int) -> Texts:
    """So many phrases of the embedded corpus; written below `directory` once."""
    splits: tuple[tuple[Split, int], ...] = (("train", train), ("valid", valid))
    written = [(directory / f"phrasebook-{split}-{count}", split, count) for split, count in splits]
    for path, split, count in written:
        if not all(side.is_file() for side in _plain(path)):
            write_pairs(path, [(phrase.source, phrase.target) for phrase in phrases(split, count)])
    return Texts("the embedded phrasebook", *(_plain(path) for path, _, _ in written))


def at_most(texts: Texts, words: int, directory: Path) -> Texts:
    """The same without the training pairs of which a side has more words; written below `directory` once."""
    path = directory / f"at-most-{words}-words"
    if not all(side.is_file() for side in _plain(path)):
        write_pairs(path, (pair for pair in read(texts.train) if longest(pair) <= words))
    return Texts(f"{texts.name}, pairs of at most {words} words", _plain(path), texts.valid)


def longest(pair: tuple[str, str]) -> int:
    """Words of the longer side."""
    return max(len(side.split()) for side in pair)


def read(sides: Sides) -> Pairs:
    """All pairs of two files."""
    return [(pair.source, pair.target) for pair in read_pairs(Corpus((sides[0],), (sides[1],)))]


def write_pairs(path: Path, pairs: Iterable[Sequence[str]]) -> Sides:
    """Two plain files, named by their languages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(zip(*pairs, strict=True))
    for side, lines in zip(_plain(path), columns, strict=True):
        write_file(side, "".join(line + "\n" for line in lines).encode())
    return _plain(path)


def _plain(path: Path) -> Sides:
    source, target = (path.with_name(f"{path.name}.{language}").absolute() for language in LANGUAGES)
    return source, target


def _gzipped(directory: Path, part: str) -> Sides:
    source, target = ((directory / f"{part}.{language}.gz").absolute() for language in LANGUAGES)
    return source, target
