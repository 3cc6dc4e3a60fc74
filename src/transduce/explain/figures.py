"""Pictures of attention in the manner of the paper's Figures 3 to 5, as SVG, PDF or PNG.

Layers, heads and words are indices from 0 here; what a person reads counts from 1, as in the paper's "layer 5
of 6".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from transduce.errors import UserError
from transduce.explain.drawing import Box, Label, Line, Sheet, head_colour, text_width, to_svg, write_sheet
from transduce.explain.record import Attention

ROW, STRIP, MARGIN = 22.0, 7.0, 16.0  # CSS pixels
BOLD = 1.1  # times as wide
GRID = "#DDDDDD"
TITLES = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "encoder-decoder attention",
}


def lines_svg(
    attention: Attention,
    *,
    layer: int,
    heads: Sequence[int] | None = None,
    query: int | None = None,
    threshold: float = 0.01,
) -> str:
    """Queries left, keys right, a line per head, query and key whose weight is at least `threshold`.

    Opacity is in proportion to the weight, the strongest line being opaque. Figure 3 is one query in all
    heads (`heads=None`); Figure 4 is all queries (`query=None`) in one head.
    """
    return to_svg(_lines(attention, layer, heads, query, threshold))


def heatmap_svg(attention: Attention, *, layer: int, head: int | None = None) -> str:
    """A cell per query and key of one head, or of the mean over heads; hovering shows the weight."""
    return to_svg(_heatmap(attention, layer, head))


def write_lines(
    path: Path,
    attention: Attention,
    *,
    layer: int,
    heads: Sequence[int] | None = None,
    query: int | None = None,
    threshold: float = 0.01,
) -> None:
    """Write what `lines_svg` draws as the path's suffix says: .svg, .pdf or .png."""
    write_sheet(path, _lines(attention, layer, heads, query, threshold))


def write_heatmap(path: Path, attention: Attention, *, layer: int, head: int | None = None) -> None:
    """Write what `heatmap_svg` draws as the path's suffix says: .svg, .pdf or .png."""
    write_sheet(path, _heatmap(attention, layer, head))


def _lines(attention: Attention, layer: int, heads: Sequence[int] | None, query: int | None, threshold: float) -> Sheet:
    heads = range(attention.num_heads) if heads is None else heads
    rows = range(len(attention.queries)) if query is None else [query]
    _check("layer", [layer], attention.num_layers)
    _check("head", heads, attention.num_heads)
    _check("word", rows, len(attention.queries))
    weights = attention.weights[layer]
    strongest = float(weights[np.ix_(heads, rows)].max())

    left = MARGIN + BOLD * _longest(attention.queries) + 6
    right = left + 240
    words = right + 6 + (STRIP * len(heads) if query is not None else 0)
    top = MARGIN + 3 * ROW
    height = top + ROW * max(len(attention.queries), len(attention.keys)) + MARGIN
    sheet = Sheet(words + _longest(attention.keys) + MARGIN, height)
    _caption(sheet, attention, layer)
    _legend(sheet, heads, strongest)

    for place, head in enumerate(heads):
        shift = (place - (len(heads) - 1) / 2) * min(2.0, 14 / len(heads))  # keeps heads apart on one path
        for row, column in itertools.product(rows, range(len(attention.keys))):
            weight = float(weights[head, row, column])
            if weight < threshold:
                continue
            start = (left, top + (row + 0.5) * ROW + shift)
            end = (right, top + (column + 0.5) * ROW + shift)
            title = f"head {head + 1}: {attention.queries[row]} → {attention.keys[column]}: {weight:.6g}"
            sheet.marks.append(Line(start, end, head, weight / strongest, title))
            if query is not None:
                x, y, colour = right + 3 + STRIP * place, top + column * ROW + 3, head_colour(head)
                sheet.marks.append(Box(x, y, STRIP - 1, ROW - 6, colour, weight / strongest, title))
    for row, word in enumerate(attention.queries):
        sheet.marks.append(Label(left - 6, top + (row + 0.5) * ROW, word, "end", bold=row == query))
    for column, word in enumerate(attention.keys):
        sheet.marks.append(Label(words, top + (column + 0.5) * ROW, word))
    return sheet


def _heatmap(attention: Attention, layer: int, head: int | None) -> Sheet:
    _check("layer", [layer], attention.num_layers)
    _check("head", [] if head is None else [head], attention.num_heads)
    weights = attention.weights[layer].mean(axis=0) if head is None else attention.weights[layer, head]
    strongest = float(weights.max())

    slanted = _longest(attention.keys) * math.sqrt(0.5)
    left = MARGIN + _longest(attention.queries) + 6
    top = MARGIN + ROW + slanted + 16
    right, bottom = left + ROW * len(attention.keys), top + ROW * len(attention.queries)
    sheet = Sheet(right + slanted + MARGIN, bottom + 2 * ROW + MARGIN)
    _caption(sheet, attention, layer, ", mean of heads" if head is None else f", head {head + 1}")

    sheet.marks.append(Box(left, top, right - left, bottom - top, GRID))  # shows between the cells
    for row, column in itertools.product(range(len(attention.queries)), range(len(attention.keys))):
        x, y, weight = left + column * ROW, top + row * ROW, float(weights[row, column])
        title = f"{attention.queries[row]} → {attention.keys[column]}: {weight:.6g}"
        sheet.marks.append(Box(x + 0.5, y + 0.5, ROW - 1, ROW - 1, _heat(weight / strongest), 1.0, title))
    for row, word in enumerate(attention.queries):
        sheet.marks.append(Label(left - 6, top + (row + 0.5) * ROW, word, "end"))
    for column, word in enumerate(attention.keys):
        sheet.marks.append(Label(left + (column + 0.5) * ROW, top - 8, word, slant=45))

    _scale(sheet, strongest, left, bottom + ROW)
    return sheet


def _check(what: str, indices: Sequence[int], count: int) -> None:
    for index in indices:
        if not 0 <= index < count:
            raise UserError(f"{what} {index + 1}: there are {count}: choose from 1 to {count}")


def _caption(sheet: Sheet, attention: Attention, layer: int, which: str = "") -> None:
    text = f"{TITLES[attention.kind]}, layer {layer + 1} of {attention.num_layers}{which}"
    sheet.marks.append(Label(MARGIN, MARGIN + ROW / 2, text, bold=True))
    sheet.width = max(sheet.width, MARGIN + BOLD * text_width(text) + MARGIN)


def _legend(sheet: Sheet, heads: Sequence[int], strongest: float) -> None:
    x, y = MARGIN, MARGIN + 1.5 * ROW
    heading = "head" if len(heads) == 1 else "heads"
    sheet.marks.append(Label(x, y, heading))
    x += text_width(heading) + 4
    for head in heads:
        number = str(head + 1)
        sheet.marks.append(Label(x, y, number))
        x += text_width(number) + 4
        sheet.marks.append(Line((x, y), (x + 14, y), head, 1.0))
        x += 24
    scale = f"opaque = {strongest:.2f}"
    sheet.marks.append(Label(x, y, scale))
    sheet.width = max(sheet.width, x + text_width(scale) + MARGIN)


def _scale(sheet: Sheet, strongest: float, x: float, y: float) -> None:
    sheet.marks.append(Label(x, y + ROW / 2, "0"))
    sheet.marks.append(Box(x + 13.5, y + 4.5, 100, 13, GRID))
    for step in range(11):
        sheet.marks.append(Box(x + 14 + 9 * step, y + 5, 9, 12, _heat(step / 10)))
    sheet.marks.append(Label(x + 119, y + ROW / 2, f"{strongest:.2f}"))
    sheet.width = max(sheet.width, x + 119 + text_width("0.00") + MARGIN)


def _heat(share: float) -> str:
    """From white to dark blue."""
    return "#" + "".join(f"{round(255 + share * (dark - 255)):02X}" for dark in (11, 60, 125))


def _longest(words: Sequence[str]) -> float:
    return max((text_width(word) for word in words), default=0.0)
