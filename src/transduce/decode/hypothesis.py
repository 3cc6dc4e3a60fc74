"""What a search is asked for and what it returns; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transduce.config import SearchConfig

if TYPE_CHECKING:
    from transduce.decode.well_formed import Trees


@dataclass(frozen=True)
class Phrase:
    """Something that an output must contain: any one of its spellings, as ids in succession."""

    spellings: tuple[tuple[int, ...], ...]

    @property
    def shortest(self) -> int:
        """How many tokens it takes at least."""
        return min(map(len, self.spellings))


@dataclass(frozen=True)
class Request:
    """One sentence to be translated, as ids without the end token, and what its output must look like."""

    source: tuple[int, ...]
    prefix: tuple[int, ...] = ()
    """The output begins so."""
    phrases: tuple[Phrase, ...] = ()
    """The output contains each of these."""
    token_scores: bool = False
    """Whether hypotheses shall tell the log-probability of each token."""
    trees: Trees | None = None
    """The output is one of these trees."""


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: ids without the end token, its log-probability with it, and the score it is ranked by."""

    ids: tuple[int, ...]
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...] = ()
    """Of each id and of the end token, where the request asked for them."""


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha, the length counting the end token (section 6.1, after GNMT)."""
    return float(((5 + length) / 6) ** alpha)


def power_penalty(length: int, alpha: float) -> float:
    """length^alpha, the length counting the end token."""
    return float(length**alpha)


def length_divisor(length: int, search: SearchConfig) -> float:
    """What the log-probability of an output of this length is divided by, the end token counted."""
    return {"gnmt": length_penalty, "length": power_penalty}[search.penalty](length, search.alpha)
