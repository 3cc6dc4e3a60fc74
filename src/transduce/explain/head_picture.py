"""Layers by heads: a picture with a square for every head of a model, one panel a score."""

from __future__ import annotations

import math
from collections.abc import Mapping

from transduce.explain.drawing import Box, Label, Sheet, text_width, to_svg
from transduce.explain.figures import TITLES
from transduce.explain.head import KINDS, Head
from transduce.explain.record import Kind

CELL, ROW, MARGIN, GAP = 18.0, 20.0, 16.0, 26.0  # CSS pixels
DARK, GRID = "#0B3C7D", "#DDDDDD"

Panels = Mapping[str, Mapping[Head, float]]
"""By the name of a score, its value for each head; NaN: it has none."""


def heads_svg(panels: Panels) -> str:
    """The heads of each kind below one another, layers downwards, heads to the right, darker where a score is higher.

    Each panel has its own scale, from 0 or below (white) to the value below it. Hovering shows the value.
    """
    sheet = Sheet(0, MARGIN)
    for kind in KINDS:
        own = {name: _of_kind(values, kind) for name, values in panels.items()}
        _block(sheet, kind, {name: values for name, values in own.items() if values})
    sheet.width += MARGIN - GAP
    return to_svg(sheet)


def _of_kind(values: Mapping[Head, float], kind: Kind) -> dict[Head, float]:
    return {head: value for head, value in values.items() if head.kind == kind and not math.isnan(value)}


def _block(sheet: Sheet, kind: Kind, panels: Panels) -> None:
    """One kind of heads, its panels in a row, below what is on the sheet."""
    if not panels:
        return
    layers = 1 + max(head.layer for values in panels.values() for head in values)
    heads = 1 + max(head.head for values in panels.values() for head in values)
    sheet.marks.append(Label(MARGIN, sheet.height + ROW / 2, TITLES[kind], bold=True))
    top = sheet.height + 3.2 * ROW
    axis = "layer"
    left = MARGIN + text_width(axis) + 10
    sheet.marks.append(Label(left - 6, top - ROW / 2, axis, "end"))
    for layer in range(layers):
        sheet.marks.append(Label(left - 6, top + (layer + 0.5) * CELL, str(layer + 1), "end"))
    for name, values in panels.items():
        _panel(sheet, name, values, left, top, layers, heads)
        left += max(heads * CELL, text_width(name), text_width("darkest 0.00")) + GAP
    sheet.width = max(sheet.width, left)
    sheet.height = top + layers * CELL + 1.8 * ROW


def _panel(
    sheet: Sheet, name: str, values: Mapping[Head, float], left: float, top: float, layers: int, heads: int
) -> None:
    strongest = max(*values.values(), 0.0)
    sheet.marks.append(Label(left, top - 1.5 * ROW, name))
    for place in range(heads):
        number = str(place + 1)
        sheet.marks.append(Label(left + (place + 0.5) * CELL - text_width(number) / 2, top - ROW / 2, number))
    sheet.marks.append(Box(left, top, heads * CELL, layers * CELL, GRID))  # shows between the squares
    for head, value in values.items():
        x, y = left + head.head * CELL + 0.5, top + head.layer * CELL + 0.5
        share = max(value, 0.0) / strongest if strongest > 0 else 0.0
        sheet.marks.append(Box(x, y, CELL - 1, CELL - 1, "#FFFFFF"))
        sheet.marks.append(Box(x, y, CELL - 1, CELL - 1, DARK, share, f"{head}: {name} {value:.4g}"))
    sheet.marks.append(Label(left, top + layers * CELL + ROW / 2, f"darkest {strongest:.2g}"))
