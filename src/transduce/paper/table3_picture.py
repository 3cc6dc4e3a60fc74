"""Table 3 as a picture: how far each row is from base, here and in the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from transduce.explain.drawing import PALETTE
from transduce.explain.plot import plot_svg
from transduce.paper.conclusions import Noise, Values
from transduce.paper.result import Picture
from transduce.paper.table3_rows import ROWS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAND = "#EEEEEE"


def rows_picture(fits: Mapping[str, Values], bleus: Mapping[str, Values]) -> Picture:
    """Two panels, BLEU and perplexity, with a row a line, better to the right; the band is what noise alone may do."""
    names = [row.name for row in ROWS if row.name != "base"]

    def fill(figure: Figure) -> None:
        figure.set_size_inches(9, 5.2)
        left, right = figure.subplots(1, 2, sharey=True)
        _panel(left, names, bleus, {row.name: row.bleu for row in ROWS}, lambda difference: difference)
        fits_of_paper = {row.name: -math.log(row.perplexity) for row in ROWS}
        _panel(right, names, fits, fits_of_paper, lambda difference: 100 * math.expm1(-difference))
        left.set_xlabel("BLEU more than base")
        right.set_xlabel("perplexity, % more than base; better to the right")
        right.invert_xaxis()
        left.set_yticks(range(len(names)), names)
        left.invert_yaxis()
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False)

    alt = "Dots: how much better or worse than base each row of Table 3 is, here and in the paper"
    return Picture("table3-rows", alt, plot_svg(fill))


def _panel(
    axes: Axes,
    names: list[str],
    here: Mapping[str, Values],
    paper: Mapping[str, float],
    shown: Callable[[float], float],
) -> None:
    """`shown` makes of a difference to base what the axis has."""
    base = here["base"]
    noise = Noise.of(base)
    if noise is not None:
        margin = noise.margin(base, Values((0.0,)))
        axes.axvspan(shown(-margin), shown(margin), color=BAND, zorder=0, label="hidden by noise")
    axes.axvline(0, color="#888888", linewidth=1)
    printed = [shown(paper[name] - paper["base"]) for name in names]
    found = {place: shown(here[name].mean - base.mean) for place, name in enumerate(names) if name in here}
    places = range(len(names))
    axes.scatter(printed, places, s=36, marker="D", facecolors="none", edgecolors=PALETTE[1], label="the paper")
    axes.scatter(list(found.values()), list(found), s=40, color=PALETTE[0], zorder=3, label="here")
    axes.grid(axis="y")
