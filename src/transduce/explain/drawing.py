"""Marks on a sheet, laid out once in CSS pixels: SVG is written by hand, PDF and PNG by matplotlib."""

from __future__ import annotations

import io
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from transduce.errors import UserError, require
from transduce.files import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Paul Tol's "muted" scheme: nine colours that stay apart for colour-blind readers; further heads are dashed.
PALETTE = ("#332288", "#CC6677", "#117733", "#88CCEE", "#882255", "#999933", "#44AA99", "#AA4499", "#DDCC77")
INK = "#222222"
FONT_SIZE = 13.0
FONTS = "system-ui, Helvetica, Arial, DejaVu Sans, sans-serif"
ALIGN = {"start": "left", "middle": "center", "end": "right"}  # SVG's word for it -> matplotlib's
HEAD = (7.0, 3.5)  # length and half the width of an arrow's head

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A stroke in a head's colour."""

    start: tuple[float, float]
    end: tuple[float, float]
    head: int
    opacity: float
    title: str = ""


@dataclass(frozen=True)
class Box:
    """A filled rectangle; with a radius its corners are round, with a stroke it has an edge of that colour."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    opacity: float = 1.0
    title: str = ""
    radius: float = 0.0
    stroke: str = ""


@dataclass(frozen=True)
class Stroke:
    """A line through points, its corners rounded; with `arrow` it ends in a head at the last point."""

    points: tuple[Point, ...]
    arrow: bool = False
    dashed: bool = False
    colour: str = INK
    corner: float = 6.0


@dataclass(frozen=True)
class Label:
    """A word, centred in height on `y`; `slant` turns it, in degrees, anticlockwise."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    slant: float = 0.0
    bold: bool = False
    size: float = FONT_SIZE
    colour: str = INK


Mark = Line | Box | Stroke | Label


@dataclass
class Sheet:
    """A white sheet and its marks, the first one lowest."""

    width: float
    height: float
    marks: list[Mark] = field(default_factory=list)


def head_colour(head: int) -> str:
    """The colour of a head, the same in every picture."""
    return PALETTE[head % len(PALETTE)]


def _dashed(head: int) -> bool:
    return head >= len(PALETTE)


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """A guess, on the wide side, as SVG leaves the choice of font to the viewer."""
    return size * sum(1.05 if unicodedata.east_asian_width(c) in "WF" else 0.64 for c in text)


def to_svg(sheet: Sheet) -> str:
    """The sheet as an SVG document."""
    width, height = round(sheet.width), round(sheet.height)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="{FONTS}" font-size="{FONT_SIZE:g}">'
    )
    background = f'<rect width="{width}" height="{height}" fill="#FFFFFF"/>'
    return "\n".join([opening, background, *map(_mark_svg, sheet.marks), "</svg>\n"])


def _mark_svg(mark: Mark) -> str:
    match mark:
        case Line((x1, y1), (x2, y2), head, opacity, title):
            dashes = ' stroke-dasharray="5 3"' if _dashed(head) else ""
            return (
                f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{head_colour(head)}"'
                f' stroke-width="1.8" stroke-opacity="{opacity:.4f}"{dashes}>{_title(title)}</line>'
            )
        case Box(x, y, width, height, colour, opacity, title, radius, stroke):
            corners = f' rx="{radius:.1f}"' if radius else ""
            edge = f' stroke="{stroke}"' if stroke else ""
            return (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"'
                f' fill-opacity="{opacity:.4f}"{corners}{edge}>{_title(title)}</rect>'
            )
        case Stroke(points, arrow, dashed, colour):
            dashes = ' stroke-dasharray="4 3"' if dashed else ""
            words = " ".join(word + "".join(f" {x:.1f} {y:.1f}" for x, y in at) for word, at in _bends(mark))
            line = f'<path d="{words}" fill="none" stroke="{colour}" stroke-width="1.2"{dashes}/>'
            triangle = " ".join(f"{x:.1f},{y:.1f}" for x, y in _head(points))
            return f'{line}<polygon points="{triangle}" fill="{colour}"/>' if arrow else line
        case Label(x, y, text, anchor, slant, bold, size, colour):
            font = f' font-size="{size:g}"' if size != FONT_SIZE else ""
            turn = f' transform="rotate({-slant:g} {x:.1f} {y:.1f})"' if slant else ""
            weight = ' font-weight="bold"' if bold else ""
            # 0.35 em below: the middle of a letter; viewers disagree about dominant-baseline
            return (
                f'<text x="{x:.1f}" y="{y:.1f}" dy="0.35em" text-anchor="{anchor}" fill="{colour}"'
                f"{font}{weight}{turn}>{_escape(text)}</text>"
            )


def _title(text: str) -> str:
    return f"<title>{_escape(text)}</title>" if text else ""


def _escape(text: str) -> str:
    """XML text; characters that XML cannot hold, such as control characters, become U+FFFD."""
    return escape(re.sub(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]", "\ufffd", text))


def _head(points: Sequence[Point]) -> list[Point]:
    """The triangle at the end of a line through points: its tip, then its two corners."""
    (x0, y0), (x, y) = points[-2:]
    length, half = HEAD
    run = math.dist(points[-2], points[-1])
    along, down = (x - x0) / run, (y - y0) / run
    back_x, back_y = x - length * along, y - length * down
    return [(x, y), (back_x - half * down, back_y + half * along), (back_x + half * down, back_y - half * along)]


def _bends(stroke: Stroke) -> list[tuple[str, tuple[Point, ...]]]:
    """A stroke's line in SVG's words: M moves, L draws, Q goes round a corner; below a head there is no line."""
    points = stroke.points
    words: list[tuple[str, tuple[Point, ...]]] = [("M", (points[0],))]
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        words += [("L", (_towards(at, before, stroke.corner),)), ("Q", (at, _towards(at, after, stroke.corner)))]
    end = _towards(points[-1], points[-2], HEAD[0]) if stroke.arrow else points[-1]
    return [*words, ("L", (end,))]


def _towards(start: Point, end: Point, distance: float) -> Point:
    """At most half the way from one point to another."""
    run = math.dist(start, end)
    share = min(distance / run, 0.5) if run else 0.0
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def to_matplotlib(sheet: Sheet, format: Literal["pdf", "png"]) -> bytes:
    """The same marks by matplotlib, without pyplot, whose state is global."""
    require("matplotlib", extra="figures")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"pdf.fonttype": 42, "text.usetex": False, "font.family": "sans-serif"}):
        figure = Figure(figsize=(sheet.width / 96, sheet.height / 96), facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, sheet.width), ylim=(sheet.height, 0))
        axes.set_axis_off()
        for mark in sheet.marks:
            _add(axes, mark)
        buffer = io.BytesIO()
        undated = {"CreationDate": None} if format == "pdf" else None  # the same picture is the same bytes
        figure.savefig(buffer, format=format, dpi=192, metadata=undated)
    return buffer.getvalue()


def _add(axes: Axes, mark: Mark) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, FancyBboxPatch, Patch, PathPatch, Polygon, Rectangle
    from matplotlib.path import Path

    points = 72 / 96  # of a CSS pixel
    match mark:
        case Line((x1, y1), (x2, y2), head, opacity):
            line = Line2D([x1, x2], [y1, y2], color=head_colour(head), alpha=opacity)
            line.set(linewidth=1.8 * points, linestyle="dashed" if _dashed(head) else "solid")
            axes.add_line(line)
        case Box(x, y, width, height, colour, opacity, _, 0.0, ""):
            axes.add_patch(Rectangle((x, y), width, height, color=colour, alpha=opacity, linewidth=0))
        case Box(x, y, width, height, colour, opacity, _, radius, stroke):
            patch: Patch = FancyBboxPatch((x, y), width, height, boxstyle=f"round,pad=0,rounding_size={radius}")
            if width == height == 2 * radius:
                patch = Circle((x + radius, y + radius), radius)
            patch.set(facecolor=colour, edgecolor=stroke or colour, alpha=opacity, linewidth=points if stroke else 0)
            axes.add_patch(patch)
        case Stroke(through, arrow, dashed, colour):
            codes = {"M": [Path.MOVETO], "L": [Path.LINETO], "Q": [Path.CURVE3, Path.CURVE3]}
            words = _bends(mark)
            vertices = [point for _, at in words for point in at]
            path = PathPatch(Path(vertices, [code for word, _ in words for code in codes[word]]), fill=False)
            path.set(edgecolor=colour, linewidth=1.2 * points, linestyle=(0, (4, 3)) if dashed else "solid")
            axes.add_patch(path)
            if arrow:
                axes.add_patch(Polygon(_head(through), color=colour, linewidth=0))
        case Label(x, y, text, anchor, slant, bold, size, colour):
            label = axes.text(x, y, text, color=colour, parse_math=False)  # a "$" is a dollar
            label.set(fontsize=size * points, fontweight="bold" if bold else "normal")
            label.set(ha=ALIGN[anchor], va="center_baseline", rotation=slant, rotation_mode="anchor")


def write_sheet(path: Path, sheet: Sheet) -> None:
    """Write the sheet as the path's suffix says: .svg, .pdf or .png."""
    match path.suffix.lower():
        case ".svg":
            write_file(path, to_svg(sheet).encode())
        case ".pdf":
            write_file(path, to_matplotlib(sheet, "pdf"))
        case ".png":
            write_file(path, to_matplotlib(sheet, "png"))
        case _:
            raise UserError(f"{path}: no picture can be written so: let the name end in .svg, .pdf or .png")
