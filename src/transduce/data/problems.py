"""Why a pair cannot be used, where that was first seen, and when there are too many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from transduce.errors import CorpusError

TOLERATED_SHARE = 0.05
PLACES_KEPT = 5


class Problem(StrEnum):
    """One reason, the gravest first; a pair with several is counted under the first."""

    BAD_UTF8 = "bad UTF-8"
    NUL = "NUL character"
    CARRIAGE_RETURN = "CR inside"
    LINE_BREAK = "U+2028 or other break"  # whatever other tools would split the line at
    EMPTY_SOURCE = "empty source"
    EMPTY_TARGET = "empty target"
    OVER_LONG = "over-long"
    LENGTH_RATIO = "length ratio"


class Place(NamedTuple):
    """A line of a file, from 1; with two files, of the source: the target's line has the same number."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Finding:
    """How many there are, and the first few."""

    count: int = 0
    places: tuple[Place, ...] = ()

    def plus(self, place: Place) -> Finding:
        """One more, at a later place."""
        kept = self.places if len(self.places) >= PLACES_KEPT else (*self.places, place)
        return Finding(self.count + 1, kept)

    def where(self) -> str:
        """The places in few words: line numbers, with their files where there are several."""
        if len({place.path for place in self.places}) > 1:
            return ", ".join(str(place) for place in self.places)
        return f"line{'s' if len(self.places) > 1 else ''} " + ", ".join(str(p.line) for p in self.places)


@dataclass(slots=True)
class Tally:
    """What became of the pairs: all are counted, none is dropped without a reason and a place."""

    pairs: int = 0
    boms: int = 0
    """Byte order marks removed from the start of files."""
    crs: int = 0
    r"""Carriage returns removed before "\n"."""
    dropped: dict[Problem, Finding] = field(default_factory=dict)
    parts: Counter[int] = field(default_factory=Counter)
    """Pairs of each corpus, usable or not, by its number in `Corpus.parts`."""

    @property
    def unusable(self) -> int:
        """Pairs with a problem."""
        return sum(finding.count for finding in self.dropped.values())

    @property
    def usable(self) -> int:
        """Pairs without one."""
        return self.pairs - self.unusable

    def drop(self, problem: Problem, place: Place) -> None:
        """Count one pair as unusable."""
        self.dropped[problem] = self.dropped.get(problem, Finding()).plus(place)

    def reasons(self) -> str:
        """Each reason with its count and first lines, the gravest first."""
        return "; ".join(
            f"{problem} {self.dropped[problem].count:,} ({self.dropped[problem].where()})"
            for problem in Problem
            if problem in self.dropped
        )

    def refuse_if_bad(self, files: Iterable[Path], *, strict: bool) -> None:
        """Raise when no pair is usable, when too many are not, or when any is not and `strict` holds."""
        names = ", ".join(str(path) for path in files)
        counts = f"{names}: {self.unusable:,} of {self.pairs:,} pairs are unusable: {self.reasons()}"
        if not self.usable:
            raise CorpusError(f"{counts}: nothing is left; `transduce doctor` shows more")
        if strict and self.unusable:
            raise CorpusError(f"{counts}: mend or remove them, or set data.strict=false")
        if self.unusable > TOLERATED_SHARE * self.pairs:
            limit = f"more than {TOLERATED_SHARE:.0%}"
            raise CorpusError(f"{counts}: that is {limit}; mend or remove them (`transduce doctor` shows more)")
