"""A curve over updates as inline SVG; colours come from the page, so that light and dark are its choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460.0, 220.0  # of the picture, in units of its viewBox
LEFT, RIGHT, TOP, BOTTOM = 52.0, 60.0, 10.0, 26.0  # around the curve, for its numbers
LABEL_GAP = 14.0  # between the last values of two curves
LARGEST = 1e100  # beyond it a value is no more drawn than infinity is
BUCKETS = 300  # a longer curve is drawn by the lowest and highest value of each

Point = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """Values over updates; `name` is the class that the page colours."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Axis:
    """Where values go: from `low` at `start` to `high` at `end`, by the scale's function."""

    low: float
    high: float
    start: float
    end: float
    scale: Callable[[float], float]

    def place(self, value: float) -> float:
        """The coordinate of a value."""
        low, high = self.scale(self.low), self.scale(self.high)
        share = (self.scale(value) - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


def linear(value: float) -> float:
    """Equal distances for equal differences."""
    return value


def logarithmic(value: float) -> float:
    """Equal distances for equal ratios."""
    return math.log(value)


def curves_svg(
    title: str,
    curves: Sequence[Curve],
    scale: Callable[[float], float] = linear,
    *,
    down_to: float = math.inf,
) -> str:
    """The curves in one frame, which reaches `down_to`, each with its last value; "" if there is nothing to draw."""
    drawable = [Curve(curve.name, _drawable(curve.points, scale)) for curve in curves]
    drawable = [curve for curve in drawable if curve.points]
    if not drawable:
        return ""
    steps = [step for curve in drawable for step, _ in curve.points]
    values = [value for curve in drawable for _, value in curve.points]
    low, high = min(down_to, *values), max(values)
    ticks = log_ticks(low, high) if scale is logarithmic else linear_ticks(low, high)
    low, high = min(ticks[0], low), max(ticks[-1], high)
    end = max(1.0, *steps)
    x = Axis(0.0, end, LEFT, WIDTH - RIGHT, linear)
    y = Axis(low, high, HEIGHT - BOTTOM, TOP, scale)
    view = f"0 0 {WIDTH:g} {HEIGHT:g}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" role="img" aria-label="{escape(title)}">',
        *(_row(tick, y.place(tick)) for tick in ticks),
        *(_column(tick, x.place(tick)) for tick in linear_ticks(0.0, end) if tick <= end),
        *(_curve(curve, x, y) for curve in drawable),
        *_last_values(drawable, x, y),
        "</svg>",
    ]
    return "\n".join(parts)


def linear_ticks(low: float, high: float) -> list[float]:
    """About five round numbers that span the values."""
    if low == high:
        low, high = min(low, 0.0), max(high, 0.0) or float(low == 0)
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [count * step for count in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten that span the values, with 2 and 5 between them where there is room."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    every = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    below, above = [tick for tick in every if tick <= low], [tick for tick in every if tick >= high]
    return [tick for tick in every if max(below, default=low) <= tick <= min(above, default=high)]


def short(value: float) -> str:
    """A number as a tick or a last value says it: three digits."""
    if value and abs(value) < 1e-3:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(size, 1e4):
            return f"{value / size:.3g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def can_draw(value: float, scale: Callable[[float], float]) -> bool:
    """Whether a value has a place on the scale."""
    return abs(value) <= LARGEST if scale is linear else 1 / LARGEST <= value <= LARGEST


def _drawable(points: Sequence[Point], scale: Callable[[float], float]) -> list[Point]:
    """The finite points, and only as many as the eye can tell apart."""
    finite = [point for point in points if can_draw(point[1], scale)]
    if len(finite) <= 2 * BUCKETS:
        return finite
    size = len(finite) / BUCKETS
    kept = {0, len(finite) - 1}
    for bucket in range(BUCKETS):
        places = range(round(bucket * size), round((bucket + 1) * size))
        kept |= {min(places, key=lambda i: finite[i][1]), max(places, key=lambda i: finite[i][1])}
    return [finite[i] for i in sorted(kept)]


def _row(value: float, y: float) -> str:
    return (
        f'<line class="grid" x1="{LEFT:g}" y1="{y:.1f}" x2="{WIDTH - RIGHT:g}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{LEFT - 6:g}" y="{y:.1f}" dy="0.35em" text-anchor="end">{short(value)}</text>'
    )


def _column(value: float, x: float) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 8:g}" text-anchor="middle">{short(value)}</text>'


def _curve(curve: Curve, x: Axis, y: Axis) -> str:
    places = [(x.place(step), y.place(value)) for step, value in curve.points]
    line = f'<polyline class="curve {curve.name}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in places)}"/>'
    if len(places) > BUCKETS // 4:
        return line
    marks = (
        f'<circle class="mark {curve.name}" cx="{a:.1f}" cy="{b:.1f}" r="2.5">'
        f"<title>{escape(curve.name)}, update {step:,.0f}: {value:.6g}</title></circle>"
        for (a, b), (step, value) in zip(places, curve.points, strict=True)
    )
    return line + "".join(marks)


def _last_values(curves: Sequence[Curve], x: Axis, y: Axis) -> list[str]:
    """Each curve's last value beside its end, moved down where it would cover another."""
    labels, free = [], -math.inf
    for curve in sorted(curves, key=lambda curve: y.place(curve.points[-1][1])):
        step, value = curve.points[-1]
        free = max(free + LABEL_GAP, y.place(value))
        place = f'x="{x.place(step) + 7:.1f}" y="{free:.1f}" dy="0.35em"'
        labels.append(f'<text class="last {curve.name}" {place}>{short(value)}</text>')
    return labels
