"""Alignment error rate, precision and recall of word alignments (Och and Ney 2003)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transduce.errors import UserError

Links = Iterable[tuple[int, int]]
"""Pairs of a source word's number and a target word's, from 0."""

_LINK = re.compile(r"([0-9]+)([-p])([0-9]+)")


@dataclass(frozen=True)
class Reference:
    """What a person says: links that must be there, and links that may be. What must be may be, too."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, sure: Links, possible: Links = ()) -> Reference:
        """The possible links need not name the sure ones."""
        must = frozenset(sure)
        return cls(must, must | frozenset(possible))


@dataclass(frozen=True)
class AlignmentScore:
    """Counts over a whole corpus, and what follows from them."""

    links: int
    """That were found (A)."""
    sure: int
    """Of the reference (S)."""
    found_sure: int
    """Found and sure."""
    found_possible: int
    """Found and possible, the sure ones included."""
    sentences: int

    @property
    def aer(self) -> float:
        """1 - (|A and S| + |A and P|) / (|A| + |S|): 0 is best."""
        return 1 - (self.found_sure + self.found_possible) / (self.links + self.sure)

    @property
    def precision(self) -> float:
        """|A and P| / |A|: which share of what was found may be; 1 where nothing was found."""
        return self.found_possible / self.links if self.links else 1.0

    @property
    def recall(self) -> float:
        """|A and S| / |S|: which share of what must be was found; 1 where nothing must be."""
        return self.found_sure / self.sure if self.sure else 1.0

    def __str__(self) -> str:
        made = f"precision {self.precision:.1%}, recall {self.recall:.1%}, {self.links:,} links"
        return f"AER {self.aer:.1%} ({made}; {self.sentences:,} sentences)"


def alignment_error(found: Sequence[Links], references: Sequence[Reference]) -> AlignmentScore:
    """The score of the links found in each sentence, summed over sentences as Och and Ney do."""
    if len(found) != len(references):
        raise UserError(f"{len(found):,} alignments, but {len(references):,} references: line i must answer line i")
    links = sure = found_sure = found_possible = 0
    for each, reference in zip(found, references, strict=True):
        own = frozenset(each)
        links += len(own)
        sure += len(reference.sure)
        found_sure += len(own & reference.sure)
        found_possible += len(own & reference.possible)
    if links + sure == 0:
        raise UserError("alignments without a single link on either side: nothing to score")
    return AlignmentScore(links, sure, found_sure, found_possible, len(found))


def parse_links(line: str) -> Reference:
    """A line such as `0-0 1-2 1p3`: pairs from 0, sure with a hyphen (the Pharaoh format), possible with a p."""
    sure: list[tuple[int, int]] = []
    possible: list[tuple[int, int]] = []
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise UserError(f"alignment {word!r}: give pairs of word numbers from 0, as 0-0 1-2 1p3")
        (possible if match[2] == "p" else sure).append((int(match[1]), int(match[3])))
    return Reference.of(sure, possible)


def diagonal(source_words: int, target_words: int) -> list[tuple[int, int]]:
    """What one reaches by place alone: each target word with the source word as far along its sentence."""
    if not source_words:
        return []
    return [((2 * place + 1) * source_words // (2 * target_words), place) for place in range(target_words)]
