"""The stored result of the parser trained on CRAFT, which takes two hours: `runs/craft_parser.py` makes it."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ValidationError

from transduce.errors import UserError
from transduce.paper.result import Table

CRAFT = Path("runs") / "results" / "craft_parser.json"
"""In the directory that the command is started in."""
COMMAND = "python -m runs.craft_parser --work DIRECTORY"
EXPECTED = 70.0
"""The F1 on the test trees that such a parser is expected to reach."""


class Part(BaseModel):
    """Scores of sentences of some lengths, in percent."""

    sentences: int
    recall: float
    precision: float
    f1: float


class Way(Part):
    """Scores of all sentences by one way of parsing."""

    exact_match: float
    unlabelled_f1: float
    malformed: int
    by_length: dict[str, Part]


class Stored(BaseModel):
    """What was measured, when, and by which command; by part of the treebank, then by way."""

    date: str
    command: str
    about: str
    scores: dict[str, dict[str, Way]]


def read_stored(path: Path) -> Stored | None:
    """The stored result; None: there is none."""
    try:
        return Stored.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors()[0]
        where = " at " + ".".join(map(str, first["loc"])) if first["loc"] else ""
        raise UserError(
            f"{path}: damaged{where}: {first['msg']}: get it again from version control, remove it, or"
            f" make it again by `{COMMAND}`"
        ) from None


def craft_parts(stored: Stored | None, path: Path) -> list[str | Table]:
    """The stored result as tables, with its date; what is below what was expected is said."""
    if stored is None:
        return [f"No stored result on CRAFT: `{COMMAND}` makes {path}; it takes two hours."]
    columns = ("recall", "precision", "f1", "exact_match", "unlabelled_f1")
    rows = [
        [
            f"CRAFT {part}",
            name,
            f"{way.sentences:,}",
            *(f"{getattr(way, each):.1f}" for each in columns),
            f"{way.malformed:,}",
        ]
        for part, ways in stored.scores.items()
        for name, way in ways.items()
    ]
    heading = ["", "", "sentences", "recall", "precision", "F1", "exact match", "unlabelled", "not trees"]
    return [
        f"Stored on {stored.date}, not measured now: {stored.about} (`{stored.command}`).",
        Table("table4-craft", heading, rows),
        *_below(stored),
        *_lengths(stored),
    ]


def _best(stored: Stored) -> Way | None:
    """The last way on the test trees: the beam that keeps to trees."""
    ways = list(stored.scores.get("test", {}).values())
    return ways[-1] if ways else None


def _below(stored: Stored) -> list[str]:
    best = _best(stored)
    if best is None or best.f1 >= EXPECTED:
        return []
    return [
        (
            f"Its F1 on the test trees is {best.f1:.1f}, below the {EXPECTED:g} that were expected of it: on a"
            " CPU the model is small and sees its trees only as often as the minutes allow."
        )
    ]


def _lengths(stored: Stored) -> list[str | Table]:
    best = _best(stored)
    if best is None:
        return []
    rows = [
        [
            f"{bucket} words",
            f"{part.sentences:,}",
            *(f"{each:.1f}" for each in (part.recall, part.precision, part.f1)),
        ]
        for bucket, part in best.by_length.items()
    ]
    return [
        "The last row by the length of the sentence:",
        Table("table4-craft-lengths", ["length", "sentences", "recall", "precision", "F1"], rows),
    ]
