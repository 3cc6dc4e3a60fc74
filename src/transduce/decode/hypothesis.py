"""What a search is asked for and what it returns; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One sentence to be translated, as ids without the end token."""

    source: tuple[int, ...]


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: ids without the end token, its log-probability with it, and the score it is ranked by."""

    ids: tuple[int, ...]
    log_probability: float
    score: float


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha, the length counting the end token (section 6.1, after GNMT)."""
    return float(((5 + length) / 6) ** alpha)
