"""The pictures of docs/performance.md, by matplotlib, in the colours of the package's own."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import translators
from benchmarks.contenders import OURS, OURS_RESIDUAL
from benchmarks.results import Growth, Race, Results, Speed
from benchmarks.translation_page import UNTRAINED
from transduce.explain.drawing import INK, PALETTE
from transduce.explain.plot import plot_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    OURS: PALETTE[6],
    OURS_RESIDUAL: PALETTE[3],
    translators.OURS: PALETTE[6],
    translators.OURS_SHORTLIST: PALETTE[6],
    translators.OURS_TORCH: PALETTE[3],
}
OTHERS = "#BBBBBB"


@dataclass(frozen=True)
class Picture:
    """A file in docs/images/, the section that shows it, and what it says to those who cannot see it."""

    file: str
    section: str
    alt: str
    draw: Callable[[Results], str | None]
    """SVG; None where its numbers were not measured."""


def ratios(results: Results) -> str | None:
    """Speed relative to the torch.nn loop, a panel a race."""
    label = "speed, relative to the torch.nn.Transformer loop"
    return bars(results, label, lambda race, speed: race.ratios(speed))


def memory(results: Results) -> str | None:
    """Peak memory, a panel a race."""
    return bars(results, "peak memory, MB", lambda race, speed: [(speed.peak_memory or 0) / 2**20])


def bars(results: Results, label: str, values: Callable[[Race, Speed], list[float]]) -> str | None:
    """Horizontal bars of medians with their range, for the main races."""
    races = results.main_races()
    everyone = {name: [*race.speeds, *results.peers.get(name, [])] for name, race in races.items()}
    rows = list(dict.fromkeys(speed.name for speeds in everyone.values() for speed in speeds))
    if not rows:
        return None

    def fill(figure: Figure) -> None:
        figure.set_size_inches(2.4 + 3.3 * len(races), 0.9 + 0.34 * len(rows))
        for axes, (name, speeds) in zip(axes_in_a_row(figure, len(races)), everyone.items(), strict=True):
            found = {speed.name: values(races[name], speed) for speed in speeds if speed.rounds}
            draw_bars(axes, rows, {name: each for name, each in found.items() if any(each)})
            axes.set_title(f"{races[name].shape.name}, vocabulary {races[name].shape.vocabulary:,}")
            axes.tick_params(axis="y", length=0, labelleft=axes is figure.axes[0])
        figure.supxlabel(label, fontsize="medium")

    return plot_svg(fill)


def draw_bars(axes: Axes, rows: Sequence[str], found: dict[str, list[float]]) -> None:
    """The first row on top, its number at its end; a row without numbers has no bar."""
    for name, values in found.items():
        row, middle = rows.index(name), statistics.median(values)
        axes.barh(row, middle, height=0.66, color=COLOURS.get(name, OTHERS))
        axes.plot([min(values), max(values)], [row, row], color=INK, linewidth=1.2, solid_capstyle="butt")
        number = f"{middle:.2f}" if middle < 100 else f"{middle:,.0f}"
        axes.annotate(number, (max(values), row), (5, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 1.2 * max((max(values) for values in found.values()), default=1.0))
    axes.grid(axis="x")


def translation(results: Results) -> str | None:
    """Sentences a second, a panel a contest, our names marked."""
    contests = {name: contest for name, contest in results.translation.items() if name != UNTRAINED}
    rows = list(dict.fromkeys(rate.name for contest in contests.values() for rate in contest.speeds))
    if not rows:
        return None

    def fill(figure: Figure) -> None:
        figure.set_size_inches(2.6 + 2.9 * len(contests), 0.9 + 0.34 * len(rows))
        for axes, (name, contest) in zip(axes_in_a_row(figure, len(contests)), contests.items(), strict=True):
            draw_bars(axes, rows, {rate.name: rate.rounds for rate in contest.speeds if rate.rounds})
            axes.set_title(name)
            axes.tick_params(axis="y", length=0, labelleft=axes is figure.axes[0])
        figure.supxlabel("sentences a second", fontsize="medium")

    return plot_svg(fill)


def growth(results: Results) -> str | None:
    """Seconds against size, both logarithmic, with the fitted exponents."""
    panels = [[each] for each in results.growth.values()]
    if results.preparation:
        panels.append(list(results.preparation.values()))
    if not panels:
        return None

    def fill(figure: Figure) -> None:
        figure.set_size_inches(3.4 * len(panels), 3.4)
        for axes, lines in zip(axes_in_a_row(figure, len(panels)), panels, strict=True):
            draw_lines(axes, lines)
        figure.axes[0].set_ylabel("seconds")

    return plot_svg(fill)


def draw_lines(axes: Axes, lines: Sequence[Growth]) -> None:
    """Medians with their range; room for the legend is left above them."""
    alone = len(lines) == 1
    for line, colour in zip(lines, PALETTE, strict=False):
        label = f"exponent {line.exponent:.2f}" if alone else f"{line.what}: exponent {line.exponent:.2f}"
        axes.plot(line.sizes, line.medians, "o-", color=colour, markersize=4, label=label)
        axes.vlines(line.sizes, [*map(min, line.seconds)], [*map(max, line.seconds)], color=colour)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_ylim(top=(2 if alone else 6) * max(max(each) for line in lines for each in line.seconds))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    ticks = lines[0].sizes[:: (len(lines[0].sizes) + 3) // 4]
    axes.set_xticks(ticks, [f"{size:,}" for size in ticks])
    axes.grid()
    axes.set(xlabel=lines[0].over, title=lines[0].what if alone else "preparing a corpus")
    axes.legend(loc="upper left", frameon=False, fontsize=9)


def axes_in_a_row(figure: Figure, count: int) -> list[Axes]:
    """Panels beside each other."""
    return [figure.add_subplot(1, count, place) for place in range(1, count + 1)]


PICTURES = (
    Picture(
        "performance-training.svg",
        "training",
        "Bars: training speed of each loop relative to torch.nn.Transformer's",
        ratios,
    ),
    Picture("performance-memory.svg", "training", "Bars: peak memory of each loop", memory),
    Picture("performance-growth.svg", "growth", "Lines: time against size, for updates and preparation", growth),
    Picture("performance-translation.svg", "translation", "Bars: sentences a second of each translator", translation),
)
