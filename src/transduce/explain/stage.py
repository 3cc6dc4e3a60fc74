"""A walk through the model as data: stages, their steps, and the numbers of each; drawn by walk_text and walk_page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Vector:
    """A tensor by its name and shape, and the first values of one of its rows."""

    name: str
    shape: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """A number for each of some labels, such as a weight for each token."""

    name: str
    labels: Sequence[str]
    values: Sequence[str]


@dataclass(frozen=True)
class Grid:
    """All weights of a head: a row of keys for each query, from 0 to 1."""

    name: str
    queries: Sequence[str]
    keys: Sequence[str]
    weights: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Listing:
    """A table."""

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]


Part = Vector | Row | Grid | Listing


@dataclass(frozen=True)
class Step:
    """An equation, the paper's section that has it, and its numbers here."""

    title: str
    section: str
    equation: str
    parts: Sequence[Part]
    note: str = ""


@dataclass(frozen=True)
class Stage:
    """A part of the model with its steps; a closed one shows its summary first."""

    title: str
    summary: str
    steps: Sequence[Step]
    opened: bool = True


@dataclass(frozen=True)
class Walk:
    """A sentence on its way through the whole model."""

    sentence: str
    translation: str
    model: str
    """Its sizes in a line."""
    opened: str
    """What is shown in detail, in a line."""
    stages: Sequence[Stage] = field(default_factory=list)
