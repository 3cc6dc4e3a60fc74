"""A walk as lines of text, for the terminal; stages that are not opened are a line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from transduce.explain.stage import Grid, Listing, Part, Row, Step, Vector, Walk

WIDTH = 100


def walk_lines(walk: Walk) -> Iterator[str]:
    """Everything that is opened; weights of a whole head are on the page only."""
    yield f"“{walk.sentence}” → “{walk.translation}”"
    yield walk.model
    yield walk.opened
    for number, stage in enumerate(walk.stages, 1):
        yield ""
        yield f"{number}. {stage.title} ({stage.summary})"
        for step in stage.steps if stage.opened else ():
            yield from _step(step)


def _step(step: Step) -> Iterator[str]:
    yield f"   {step.title} [section {step.section}]"
    if step.equation:
        yield f"      {step.equation}"
    for part in step.parts:
        yield from (f"        {line}" for line in _part(part))
    if step.note:
        yield f"      {step.note}"


def _part(part: Part) -> list[str]:
    match part:
        case Vector(name, shape):
            return [f"{name:<28} {numbers(part)}   ({' x '.join(map(str, shape))})"]
        case Row(name, labels, values):
            return [name, *_filled([f"{label} {value}" for label, value in zip(labels, values, strict=True)])]
        case Grid():
            return []
        case Listing(heading, rows):
            return _columns([heading, *rows])


def numbers(vector: Vector) -> str:
    """The first values of a row, and whether there are more."""
    shown = [f"{value:.3f}" for value in vector.values]
    return f"[{', '.join(shown if len(shown) == vector.shape[-1] else [*shown, '...'])}]"


def _filled(words: Sequence[str]) -> list[str]:
    """Cells of one width, as many on a line as fit."""
    width = max(map(len, words)) + 2
    fitting = max(1, (WIDTH - 10) // width)
    cells = [word.ljust(width) for word in words]
    return ["  " + "".join(cells[place : place + fitting]).rstrip() for place in range(0, len(cells), fitting)]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
