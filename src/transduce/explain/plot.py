"""Plots by matplotlib in one style, as SVG; without pyplot, whose state is global."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from transduce.errors import require
from transduce.explain.drawing import INK, PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "transduce",  # the same plot is the same bytes
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "xtick.color": INK,
    "ytick.color": INK,
}


def plot_svg(fill: Callable[[Figure], None]) -> str:
    """An SVG document with a white ground; `fill` sets the size and adds axes."""
    require("matplotlib", extra="figures")
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.rcsetup import cycler

    with rc_context({**STYLE, "axes.prop_cycle": cycler(color=PALETTE)}):
        figure = Figure(facecolor="white", layout="constrained")
        fill(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()
