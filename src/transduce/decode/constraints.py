"""How much of what an output must contain it contains already; and a beam in which every stage of that has a place.

After Post and Vilar (2018): hypotheses are ranked not together but in banks, by how many tokens they still need, and
the beam takes the best of each bank in turn, the furthest bank first. The next token of an unmet phrase is always a
candidate. So the fewest tokens left become fewer at every step, whatever the model thinks of them, while the other
banks wait for a better moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import zip_longest

from transduce.decode.hypothesis import Phrase


@dataclass(frozen=True)
class Candidate:
    """The continuation of a row by a token."""

    total: float
    row: int
    token: int


@dataclass(frozen=True)
class Progress:
    """Which phrases an output contains, and how much of each spelling it ends with."""

    phrases: tuple[Phrase, ...]
    met: tuple[bool, ...]
    matched: tuple[tuple[int, ...], ...]
    """Of each spelling of each phrase: how many of its first ids the output ends with."""

    @classmethod
    def start(cls, phrases: Sequence[Phrase]) -> Progress:
        """Nothing is said yet."""
        return cls(tuple(phrases), (False,) * len(phrases), tuple((0,) * len(p.spellings) for p in phrases))

    def advance(self, token: int) -> Progress:
        """After one more token."""
        met, matched = list(self.met), list(self.matched)
        for place, phrase in enumerate(self.phrases):
            if self.met[place]:
                continue
            states = zip(phrase.spellings, self.matched[place], strict=True)
            matched[place] = tuple(extend_match(ids, length, token) for ids, length in states)
            met[place] = any(n == len(ids) for ids, n in zip(phrase.spellings, matched[place], strict=True))
        return Progress(self.phrases, tuple(met), tuple(matched))

    @cached_property
    def left(self) -> int:
        """How many tokens it takes at least to contain all, if what is under way is one phrase and no two overlap."""
        unmet = [place for place, met in enumerate(self.met) if not met]
        whole = sum(self.phrases[place].shortest for place in unmet)
        under_way = (self.phrases[place].shortest - self._needs(place) for place in unmet)
        return whole - max(under_way, default=0)

    def wanted(self) -> set[int]:
        """The tokens that lead on in some spelling of an unmet phrase."""
        return {
            ids[length]
            for place, phrase in enumerate(self.phrases)
            if not self.met[place]
            for ids, length in zip(phrase.spellings, self.matched[place], strict=True)
        }

    def _needs(self, place: int) -> int:
        return min(len(s) - n for s, n in zip(self.phrases[place].spellings, self.matched[place], strict=True))


@lru_cache(maxsize=1 << 16)
def extend_match(ids: tuple[int, ...], length: int, token: int) -> int:
    """How many of the first `ids` a text ends with after `token`, if it ended with `length` of them before."""
    text = (*ids[:length], token)
    return next(n for n in range(len(text), -1, -1) if n <= len(ids) and text[len(text) - n :] == ids[:n])


def in_turn(candidates: Sequence[Candidate], left: Sequence[int]) -> Iterator[Candidate]:
    """The best of each bank, then the second of each, and so on; in each turn those with fewest tokens left first."""
    banks: dict[int, list[Candidate]] = {}
    for candidate, tokens_left in zip(candidates, left, strict=True):
        banks.setdefault(tokens_left, []).append(candidate)
    ranked = [sorted(banks[key], key=lambda c: (-c.total, c.row, c.token)) for key in sorted(banks)]
    for turn in zip_longest(*ranked):
        yield from (candidate for candidate in turn if candidate is not None)
