"""A walk as one HTML page: no script, nothing from the network, light or dark as the browser is set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from transduce.explain.stage import Grid, Listing, Part, Row, Stage, Step, Vector, Walk
from transduce.explain.walk_text import numbers

FAINTER = 0.75
"""Of full colour is the strongest cell, so that its number can be read in either scheme."""


def walk_html(walk: Walk) -> str:
    """The page; closed stages open at a click."""
    style = (files("transduce.explain") / "walk.css").read_text(encoding="utf-8")
    stages = "\n".join(_stage(number, stage) for number, stage in enumerate(walk.stages, 1))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(walk.sentence)}</title>
<style>
{style}</style>
</head>
<body>
<header><h1 dir="auto">{text(walk.sentence)}</h1>
<p dir="auto">{text(walk.translation)}</p>
<p class="quiet">{text(walk.model)}. {text(walk.opened)} Sections and equations are those of “Attention Is All You
Need”, arXiv 1706.03762. Every number is the model's; of vectors the first values are shown.</p></header>
<main>
{stages}
</main>
</body>
</html>
"""


def text(value: str) -> str:
    """HTML text; characters that a document cannot hold, such as control characters, become U+FFFD."""
    return escape(re.sub(r"[^\t\n\x20-\x7E\xA0-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]", "\ufffd", value))


def _stage(number: int, stage: Stage) -> str:
    steps = "\n".join(map(_step, stage.steps))
    opened = " open" if stage.opened else ""
    title = f"<h2>{number}. {text(stage.title)}</h2>"
    summary = f'<summary>{title} <span class="quiet">{text(stage.summary)}</span></summary>'
    return f"<details{opened}>{summary}\n{steps}</details>"


def _step(step: Step) -> str:
    equation = f'<p class="equation">{text(step.equation)}</p>' if step.equation else ""
    note = f'<p class="quiet">{text(step.note)}</p>' if step.note else ""
    title = f'<h3>{text(step.title)} <span class="section">section {text(step.section)}</span></h3>'
    return f'<div class="step">{title}{equation}{_parts(step.parts)}{note}</div>'


def _parts(parts: Sequence[Part]) -> str:
    """Vectors that follow each other are one table."""
    html: list[str] = []
    vectors: list[Vector] = []
    for part in parts:
        if isinstance(part, Vector):
            vectors.append(part)
            continue
        html += [_vectors(vectors), _part(part)]
        vectors = []
    return "".join([*html, _vectors(vectors)])


def _vectors(vectors: Sequence[Vector]) -> str:
    rows = "".join(
        f'<tr><th>{text(each.name)}</th><td class="number">{numbers(each)}</td>'
        f'<td class="quiet">{" × ".join(map(str, each.shape))}</td></tr>'
        for each in vectors
    )
    return f'<div class="scroll"><table>{rows}</table></div>' if rows else ""


def _part(part: Row | Grid | Listing) -> str:
    match part:
        case Row(name, labels, values):
            heads = "".join(f"<th>{text(label)}</th>" for label in labels)
            cells = "".join(f"<td>{text(value)}</td>" for value in values)
            table = f'<table class="row"><caption>{text(name)}</caption><tr>{heads}</tr><tr>{cells}</tr></table>'
        case Grid():
            table = _grid(part)
        case Listing(heading, rows):
            head = "".join(f"<th>{text(cell)}</th>" for cell in heading)
            lines = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
            table = f"<table><tr>{head}</tr>{lines}</table>"
    return f'<div class="scroll">{table}</div>'


def _grid(grid: Grid) -> str:
    head = "".join(f"<th>{text(key)}</th>" for key in grid.keys)
    lines = "".join(
        f"<tr><th>{text(query)}</th>{''.join(map(_cell, row))}</tr>"
        for query, row in zip(grid.queries, grid.weights, strict=True)
    )
    body = f"<thead><tr><th></th>{head}</tr></thead><tbody>{lines}</tbody>"
    return f'<table class="grid"><caption>{text(grid.name)}: queries down, keys across</caption>{body}</table>'


def _cell(weight: float) -> str:
    return f'<td style="background:rgba(var(--heat),{FAINTER * weight:.3f})">{weight:.2f}</td>'
