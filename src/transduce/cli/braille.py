"""A curve in a terminal: each character is a braille pattern, two dots wide and four high."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from transduce.train.report_curves import Axis, can_draw, linear

BLANK = 0x2800  # Unicode's empty pattern; a dot is a bit above it
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # left and right column, downwards


def braille(
    points: Sequence[tuple[float, float]],
    *,
    width: int,
    height: int,
    end: float,
    scale: Callable[[float], float] = linear,
) -> list[str]:
    """Lines of `width` characters from the highest value to the lowest; `end` is the step at the right edge."""
    patterns = [[BLANK] * width for _ in range(height)]
    for column, rows in _dots(points, 2 * width, 4 * height, end, scale).items():
        for row in rows:
            patterns[row // 4][column // 2] |= DOTS[column % 2][row % 4]
    return ["".join(map(chr, line)) for line in patterns]


def _dots(
    points: Sequence[tuple[float, float]], columns: int, rows: int, end: float, scale: Callable[[float], float]
) -> dict[int, range]:
    """The rows of each column that the curve passes through; a column shows the mean of its points."""
    finite = [(step, value) for step, value in points if can_draw(value, scale)]
    if not finite:
        return {}
    x = Axis(0.0, max(end, 1.0), 0.0, columns - 1.0, linear)
    columned = itertools.groupby(finite, key=lambda point: round(x.place(min(point[0], end))))
    means = {column: _mean([value for _, value in group]) for column, group in columned}
    values = [value for _, value in finite]
    y = Axis(min(values), max(values), rows - 1.0, 0.0, scale)
    places = [(column, y.place(value)) for column, value in means.items()]
    found = {places[0][0]: range(round(places[0][1]), round(places[0][1]) + 1)}
    for (left, before), (right, after) in itertools.pairwise(places):
        row = round(before)
        for column in range(left + 1, right + 1):
            now = round(before + (after - before) * (column - left) / (right - left))
            found[column] = range(min(now, row + 1), max(now + 1, row))  # joined to the column before
            row = now
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
