"""Boxes, arrows and captions of the paper's diagrams (Figures 1 and 2), in its colours."""

from __future__ import annotations

import math

from transduce.explain.drawing import FONT_SIZE, Box, Label, Point, Sheet, Stroke, text_width

COLOURS = {
    "embedding": "#FCE0E1",
    "positions": "#FFFFFF",
    "attention": "#FFE2BB",
    "norm": "#F2F4C1",
    "feed-forward": "#C2E8F7",
    "linear": "#DCDFF0",
    "softmax": "#CBE7CF",
    "stack": "#F5F5F6",
}
EDGE, FAINT = "#777777", "#555555"
SMALL = 10.5
TITLE, LINE, PAD = 17.0, 14.0, 7.0  # heights of a box's first line, of its further ones, and of its margins
RADIUS = 9.0  # of the circles


def box_height(details: tuple[str, ...]) -> float:
    """Of a box with a title and these lines."""
    return TITLE + LINE * len(details) + 2 * PAD


def box_width(title: str, details: tuple[str, ...]) -> float:
    """Wide enough for the title and these lines."""
    return max(text_width(title), *(text_width(line, SMALL) for line in details), 0.0) + 2 * PAD


def add_box(
    sheet: Sheet, x: float, bottom: float, width: float, *, kind: str, title: str, details: tuple[str, ...] = ()
) -> float:
    """A box centred on `x` that stands on `bottom`; returns its upper edge."""
    height = box_height(details)
    top = bottom - height
    sheet.marks.append(Box(x - width / 2, top, width, height, COLOURS[kind], radius=6, stroke=EDGE))
    sheet.marks.append(Label(x, top + PAD + TITLE / 2, title, "middle"))
    for number, line in enumerate(details):
        add_caption(sheet, x, top + PAD + TITLE + LINE * (number + 0.5), line)
    return top


def add_caption(sheet: Sheet, x: float, y: float, text: str, *, slant: float = 0.0) -> None:
    """A small line centred on a point."""
    sheet.marks.append(Label(x, y, text, "middle", slant, size=SMALL, colour=FAINT))


def add_word(sheet: Sheet, x: float, y: float, text: str) -> None:
    """A line of full size centred on a point."""
    sheet.marks.append(Label(x, y, text, "middle", size=FONT_SIZE))


def add_arrow(sheet: Sheet, *points: Point) -> None:
    """A line through points that ends in a head."""
    sheet.marks.append(Stroke(points, arrow=True))


def add_line(sheet: Sheet, *points: Point, dashed: bool = False) -> None:
    """A line through points."""
    sheet.marks.append(Stroke(points, dashed=dashed, colour="#AA4455" if dashed else "#222222"))


def add_circle(sheet: Sheet, x: float, y: float) -> None:
    """An empty circle."""
    sheet.marks.append(Box(x - RADIUS, y - RADIUS, 2 * RADIUS, 2 * RADIUS, "#FFFFFF", radius=RADIUS, stroke="#222222"))


def add_sum(sheet: Sheet, x: float, y: float) -> None:
    """A circle with a plus: what comes in is added."""
    add_circle(sheet, x, y)
    add_line(sheet, (x - 5, y), (x + 5, y))
    add_line(sheet, (x, y - 5), (x, y + 5))


def add_wave(sheet: Sheet, x: float, y: float) -> None:
    """A circle with a period of a sine."""
    add_circle(sheet, x, y)
    steps = [step / 16 for step in range(17)]
    wave = tuple((x - 6.5 + 13 * step, y - 4.5 * math.sin(2 * math.pi * step)) for step in steps)
    sheet.marks.append(Stroke(wave, corner=0.5))


def add_table(sheet: Sheet, x: float, y: float) -> None:
    """A small table: a learned one."""
    sheet.marks.append(Box(x - 9, y - 9, 18, 18, COLOURS["embedding"], radius=2, stroke="#222222"))
    for row in (-3, 3):
        add_line(sheet, (x - 9, y + row), (x + 9, y + row))
    add_line(sheet, (x - 3, y - 9), (x - 3, y + 9))
