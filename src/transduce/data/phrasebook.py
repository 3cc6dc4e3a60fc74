"""The embedded corpus: English phrases with their German, made by a grammar that knows what each one shows.

The grammar draws; this file decides which split a phrase belongs to, from the phrase alone: no seed
and no count can put a test phrase into training.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import Literal

from transduce.data import clauses
from transduce.data.composer import Composer
from transduce.data.grammar import HELD_OUT, PHENOMENA, Draft
from transduce.errors import UserError

Split = Literal["train", "valid", "test", "combinations"]

_PATIENCE = 2_000
"""Draws in a row without a new phrase after which a split counts as exhausted."""


@dataclass(frozen=True, slots=True)
class Pronoun:
    """Word indices: the pronoun, its translation; in the source, the noun meant and the one not meant."""

    source: int
    target: int
    antecedent: int
    distractor: int


@dataclass(frozen=True, slots=True)
class Phrase:
    """A pair, what it shows, and which words translate each other; words are what spaces separate."""

    source: str
    target: str
    phenomenon: str
    constructions: frozenset[str]
    alignment: tuple[tuple[int, int], ...]
    pronoun: Pronoun | None


def phrases(split: Split, count: int, *, seed: int = 1) -> list[Phrase]:
    """`count` phrases of a split, all with different English, the same for a seed on every machine."""
    if count < 0:
        raise UserError(f"phrasebook: {count} phrases asked for; ask for 0 or more")
    composer = Composer(random.Random(seed))
    found: dict[str, Phrase] = {}
    idle = 0
    while len(found) < count:
        phrase = _draw(composer, split)
        if phrase.source not in found and split_of(phrase.source, phrase.constructions) == split:
            found[phrase.source] = phrase
            idle = 0
        elif (idle := idle + 1) == _PATIENCE:
            raise UserError(f"phrasebook: {split} ran out of new phrases at {len(found)} of {count}; ask for fewer")
    return list(found.values())


def split_of(source: str, constructions: frozenset[str]) -> Split:
    """The one split that a phrase belongs to."""
    if any(first in constructions and second in constructions for first, second in HELD_OUT):
        return "combinations"
    bucket = hashlib.sha256(source.encode()).digest()[0] % 8
    return "test" if bucket == 0 else "valid" if bucket == 1 else "train"


_TURNS = tuple((name, draw) for name, (share, draw) in PHENOMENA.items() for _ in range(share))
_HELD_OUT_TURNS = tuple(HELD_OUT.values())


def _draw(composer: Composer, split: Split) -> Phrase:
    composer.begin()
    phenomenon, draw = composer.pick(_HELD_OUT_TURNS if split == "combinations" else _TURNS)
    draft = draw(composer)
    return _finished(phenomenon, frozenset(composer.used), draft)


def _finished(phenomenon: str, constructions: frozenset[str], draft: Draft) -> Phrase:
    """Texts from linked words, and indices from links."""
    source = clauses.sentence(draft.source, draft.mark)
    target = clauses.sentence(draft.target, draft.mark)
    places: dict[int, list[int]] = {}
    for index, (_, link) in enumerate(source):
        places.setdefault(link, []).append(index)
    alignment = tuple(sorted((i, j) for j, (_, link) in enumerate(target) for i in places[link]))
    pronoun = None
    if draft.reference:
        there = [link for _, link in target].index(draft.reference.pronoun)
        here, antecedent, distractor = (places[link][-1] for link in draft.reference)
        pronoun = Pronoun(here, there, antecedent, distractor)
    return Phrase(
        source=" ".join(word for word, _ in source),
        target=" ".join(word for word, _ in target),
        phenomenon=phenomenon,
        constructions=constructions,
        alignment=alignment,
        pronoun=pronoun,
    )
