"""Marks on a sheet, laid out once in CSS pixels: SVG is written by hand, PDF and PNG by matplotlib."""

from __future__ import annotations

import io
import re
import unicodedata
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from transduce.errors import require

# Paul Tol's "muted" scheme: nine colours that stay apart for colour-blind readers; further heads are dashed.
PALETTE = ("#332288", "#CC6677", "#117733", "#88CCEE", "#882255", "#999933", "#44AA99", "#AA4499", "#DDCC77")
INK = "#222222"
FONT_SIZE = 13.0
FONTS = "system-ui, Helvetica, Arial, DejaVu Sans, sans-serif"
ALIGN = {"start": "left", "end": "right"}  # SVG's word for it -> matplotlib's


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
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    opacity: float = 1.0
    title: str = ""


@dataclass(frozen=True)
class Label:
    """A word, centred in height on `y`; `slant` turns it, in degrees, anticlockwise."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "end"] = "start"
    slant: float = 0.0
    bold: bool = False


@dataclass
class Sheet:
    """A white sheet and its marks, the first one lowest."""

    width: float
    height: float
    marks: list[Line | Box | Label] = field(default_factory=list)


def head_colour(head: int) -> str:
    """The colour of a head, the same in every picture."""
    return PALETTE[head % len(PALETTE)]


def _dashed(head: int) -> bool:
    return head >= len(PALETTE)


def text_width(text: str) -> float:
    """A guess, on the wide side, as SVG leaves the choice of font to the viewer."""
    return FONT_SIZE * sum(1.05 if unicodedata.east_asian_width(c) in "WF" else 0.64 for c in text)


def to_svg(sheet: Sheet) -> str:
    """The sheet as an SVG document."""
    width, height = round(sheet.width), round(sheet.height)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="{FONTS}" font-size="{FONT_SIZE:g}">'
    )
    background = f'<rect width="{width}" height="{height}" fill="#FFFFFF"/>'
    return "\n".join([opening, background, *map(_mark_svg, sheet.marks), "</svg>\n"])


def _mark_svg(mark: Line | Box | Label) -> str:
    match mark:
        case Line((x1, y1), (x2, y2), head, opacity, title):
            dashes = ' stroke-dasharray="5 3"' if _dashed(head) else ""
            return (
                f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{head_colour(head)}"'
                f' stroke-width="1.8" stroke-opacity="{opacity:.4f}"{dashes}>{_title(title)}</line>'
            )
        case Box(x, y, width, height, colour, opacity, title):
            return (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"'
                f' fill-opacity="{opacity:.4f}">{_title(title)}</rect>'
            )
        case Label(x, y, text, anchor, slant, bold):
            turn = f' transform="rotate({-slant:g} {x:.1f} {y:.1f})"' if slant else ""
            weight = ' font-weight="bold"' if bold else ""
            # 0.35 em below: the middle of a letter; viewers disagree about dominant-baseline
            return (
                f'<text x="{x:.1f}" y="{y:.1f}" dy="0.35em" text-anchor="{anchor}" fill="{INK}"'
                f"{weight}{turn}>{_escape(text)}</text>"
            )


def _title(text: str) -> str:
    return f"<title>{_escape(text)}</title>" if text else ""


def _escape(text: str) -> str:
    """XML text; characters that XML cannot hold, such as control characters, become U+FFFD."""
    return escape(re.sub(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]", "\ufffd", text))


def to_matplotlib(sheet: Sheet, format: Literal["pdf", "png"]) -> bytes:
    """The same marks by matplotlib, without pyplot, whose state is global."""
    require("matplotlib", extra="figures")
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    points = 72 / 96  # of a CSS pixel
    with rc_context({"pdf.fonttype": 42, "text.usetex": False, "font.family": "sans-serif"}):
        figure = Figure(figsize=(sheet.width / 96, sheet.height / 96), facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, sheet.width), ylim=(sheet.height, 0))
        axes.set_axis_off()
        for mark in sheet.marks:
            match mark:
                case Line((x1, y1), (x2, y2), head, opacity):
                    line = Line2D([x1, x2], [y1, y2], color=head_colour(head), alpha=opacity)
                    line.set(linewidth=1.8 * points, linestyle="dashed" if _dashed(head) else "solid")
                    axes.add_line(line)
                case Box(x, y, width, height, colour, opacity):
                    axes.add_patch(Rectangle((x, y), width, height, color=colour, alpha=opacity, linewidth=0))
                case Label(x, y, text, anchor, slant, bold):
                    label = axes.text(x, y, text, color=INK, parse_math=False)  # a "$" is a dollar
                    label.set(fontsize=FONT_SIZE * points, fontweight="bold" if bold else "normal")
                    label.set(ha=ALIGN[anchor], va="center_baseline", rotation=slant, rotation_mode="anchor")
        buffer = io.BytesIO()
        undated = {"CreationDate": None} if format == "pdf" else None  # the same picture is the same bytes
        figure.savefig(buffer, format=format, dpi=192, metadata=undated)
    return buffer.getvalue()
