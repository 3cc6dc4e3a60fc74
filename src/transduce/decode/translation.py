"""What a translator returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Token:
    """A piece of an output and its log-probability, given all before it; the end token is the last."""

    piece: str
    log_probability: float


@dataclass(frozen=True)
class Alternative:
    """One of the n best outputs; higher scores are better."""

    text: str
    score: float
    log_probability: float
    tokens: tuple[Token, ...] = ()
    """Where they were asked for."""


@dataclass(frozen=True)
class Translation:
    """The best output of a line, and the n best if more were asked for (best first, the best included)."""

    text: str
    score: float
    log_probability: float
    alternatives: tuple[Alternative, ...] = ()
    tokens: tuple[Token, ...] = ()
    """Where they were asked for."""
    warning: str | None = None
    """What makes the output doubtful."""
    error: str | None = None
    """Why there is none; then the text is empty."""


@dataclass(frozen=True)
class Continuation:
    """A token that may come next: its log-probability, and the translation that takes it."""

    token: int
    piece: str
    log_probability: float
    text: str


def empty(error: str | None = None) -> Translation:
    """Of a line that is blank, or that could not be translated."""
    return Translation("", 0.0, 0.0, (Alternative("", 0.0, 0.0),), error=error)


def join(parts: list[list[Alternative]], n_best: int, warning: str | None) -> Translation:
    """One line from its parts; alternatives are of the same rank in each part."""
    joined = tuple(map(_joined, zip(*(part[:n_best] for part in parts), strict=False)))
    best = joined[0]
    return Translation(best.text, best.score, best.log_probability, joined, best.tokens, warning)


def _joined(parts: tuple[Alternative, ...]) -> Alternative:
    if len(parts) == 1:
        return parts[0]
    return Alternative(
        " ".join(part.text for part in parts),
        sum(part.score for part in parts),
        sum(part.log_probability for part in parts),
        tuple(token for part in parts for token in part.tokens),
    )
