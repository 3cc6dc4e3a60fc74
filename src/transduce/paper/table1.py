"""Table 1, measured: what the layer types cost as n and d grow, and how far apart they leave two positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from transduce.explain.plot import plot_svg
from transduce.paper.cost import (
    FITTED,
    device,
    exponent,
    fewest_seconds,
    operations,
    saved_bytes,
    seconds,
    three_digits,
    where,
)
from transduce.paper.layer_types import ATTENTION, GRU, LAYER_TYPES, LSTM, PROJECTED, LayerType, usual_size
from transduce.paper.paths import longest_chain, measure_paths, path_plot, path_table
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Scale, Study
from transduce.train.progress import Listener

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEQUENTIAL = """\
Sequential operations: the longest chain of operations each of which needs the one before it, as autograd recorded it.
It stays where the paper has O(1) and grows with n where it has O(n)."""
PATHS = """\
Maximum path length: layers, or steps of a recurrent layer, until the last output has a gradient by the first input. The
value of the paper's expression stands in brackets; it has no constant. A neighbourhood of r reaches r/2 back, and k
contiguous positions k - 1."""
FUSED_LSTM = """\
That the GRU takes longer than the LSTM is the library's doing, not the layer type's: on a CPU, torch computes all steps
of an LSTM in one operation of oneDNN, and a GRU step by step."""
CLAIM = """\
Section 4: "self-attention layers are faster than recurrent layers when the sequence length n is smaller than the
representation dimensionality d"."""


@dataclass(frozen=True)
class Sizes:
    """What varies, and at which values of the others."""

    lengths: tuple[int, ...]
    at_width: int
    widths: tuple[int, ...]
    at_length: int
    kernels: tuple[int, ...] = (3, 5, 9, 17)
    neighbourhoods: tuple[int, ...] = (32, 64, 128, 256)
    rounds: int = 5
    chains: tuple[int, ...] = (16, 64, 256)
    paths: tuple[int, ...] = (16, 64, 256, 1024)


SIZES: dict[Scale, Sizes] = {
    "tiny": Sizes((64, 128, 256, 512, 1024, 2048, 4096), 256, (64, 128, 256, 512, 1024), 512),
    "small": Sizes(tuple(2**i for i in range(6, 14)), 512, (128, 256, 512, 1024, 2048), 1024, rounds=9),
    "paper": Sizes(tuple(2**i for i in range(6, 15)), 512, (128, 256, 512, 1024, 2048, 4096), 1024, rounds=25),
}


@dataclass(frozen=True)
class Cell:
    """A layer of one size; its name is the key of its time."""

    layer: LayerType
    n: int
    d: int
    size: int

    @property
    def name(self) -> str:
        """Unique."""
        return f"{self.layer.name}, n={self.n}, d={self.d}, size={self.size}"

    def of(self, measure: Callable[[torch.nn.Module, torch.Tensor], float]) -> float:
        """A measure of the layer, made anew."""
        layer = self.layer.make(self.d, self.size).to(device())
        return measure(layer, torch.randn(1, self.n, self.d, device=device()))


@dataclass(frozen=True)
class Sweep:
    """One layer type as one size grows; `varied` is n, d, k or r."""

    layer: LayerType
    varied: str
    sizes: tuple[int, ...]
    cells: tuple[Cell, ...]


def table1(study: Study) -> Result:
    """Cost and path lengths of the layer types, beside the paper's Table 1."""
    study.work.mkdir(parents=True, exist_ok=True)
    return study_table1(SIZES[study.scale], study.work / f"table1-{study.scale}.json", study.listener)


def study_table1(sizes: Sizes, path: Path, listener: Listener) -> Result:
    """The same for given sizes; times are kept in `path`."""
    sweeps = list(make_sweeps(sizes))
    cells = {cell.name: cell for sweep in sweeps for cell in sweep.cells}
    listener.note("table1: path lengths")
    paths = measure_paths(sizes.paths)
    listener.note(f"table1: operations and bytes of {len(cells)} layers")
    counted = {name: cell.of(operations) for name, cell in cells.items()}
    kept = {name: cell.of(saved_bytes) for name, cell in cells.items()}
    measures = {name: _timing(cell) for name, cell in cells.items()}
    times = fewest_seconds(path, measures, rounds=sizes.rounds, listener=listener)
    return Result(
        name="table1",
        title="Table 1: complexity, sequential operations and maximum path lengths of layer types",
        scope=_scope(sizes),
        parts=[
            _how(sizes),
            growth_table(sweeps, counted, times, kept),
            _size_table(sweeps, counted, times, kept),
            Picture("table1-cost", "Time and memory of each layer type over n and d", _plot(sweeps, times, kept)),
            crossing(sizes, times),
            _time_table(sizes, times, kept),
            *_slow_gru(sizes, times),
            SEQUENTIAL,
            chain_table(sizes),
            PATHS,
            path_table(sizes.paths, paths),
            Picture(
                "table1-paths", "Layers or steps from the first input to the last output", path_plot(sizes.paths, paths)
            ),
        ],
    )


def _timing(cell: Cell) -> Callable[[], float]:
    return lambda: cell.of(seconds)


def make_sweeps(sizes: Sizes) -> Iterator[Sweep]:
    """Every layer type over n and over d, and over k or r if it has one."""
    for layer in LAYER_TYPES:
        usual = usual_size(layer)
        over_n = tuple(Cell(layer, n, sizes.at_width, usual) for n in sizes.lengths)
        yield Sweep(layer, "n", sizes.lengths, over_n)
        yield Sweep(layer, "d", sizes.widths, tuple(Cell(layer, sizes.at_length, d, usual) for d in sizes.widths))
        if layer.varied:
            varied = sizes.neighbourhoods if layer.varied == "r" else sizes.kernels
            cells = tuple(Cell(layer, sizes.at_length, sizes.at_width, size) for size in varied)
            yield Sweep(layer, layer.varied, varied, cells)


def _scope(sizes: Sizes) -> str:
    return (
        f"Table 1 is about how cost grows, and that can be measured anywhere: here up to n = {sizes.lengths[-1]:,} and "
        f"d = {sizes.widths[-1]:,}, one sequence at a time, on {where()}. "
        "Operations, memory, sequential operations and path lengths are exact. Seconds are this machine's: they do not "
        "show how much a GPU gains from a layer without sequential operations, which is the paper's argument."
    )


def _how(sizes: Sizes) -> str:
    last_n, last_d = (f"{values[-FITTED]:,} to {values[-1]:,}" for values in (sizes.lengths, sizes.widths))
    return (
        f"Exponents b of cost = a size^b, by least squares of logarithms over the {FITTED} largest sizes: n from "
        f"{last_n} at d = {sizes.at_width}, d from {last_d} at n = {sizes.at_length}. Operations are those of matrix "
        "products and convolutions in a forward pass, counted. Time is the fastest of "
        f"{sizes.rounds} forward and backward passes, all layers in turns: other work can only slow one down. "
        "Memory is what is kept for the backward pass, and the output. Self-attention is one fused "
        "operation, which keeps no n × n weights; written out, it does. Projections are no part of the "
        "paper's complexity and are measured apart."
    )


def growth_table(
    sweeps: Sequence[Sweep], counted: Mapping[str, float], times: Mapping[str, float], kept: Mapping[str, float]
) -> Table:
    """Fitted exponents of n and d beside the paper's."""
    heading = ["layer", "paper", "paper's exponents of n, d"]
    heading += [f"{what}: {size}" for what in ("operations", "time", "memory") for size in "nd"]
    rows = []
    for layer in LAYER_TYPES:
        mine = {sweep.varied: sweep for sweep in sweeps if sweep.layer is layer}
        fitted = [_fit(mine[size], values) for values in (counted, times, kept) for size in "nd"]
        rows.append([layer.name, f"O({layer.complexity})", layer.exponents, *fitted])
    return Table("table1-growth", heading, rows)


def _size_table(
    sweeps: Sequence[Sweep], counted: Mapping[str, float], times: Mapping[str, float], kept: Mapping[str, float]
) -> Table:
    """Fitted exponents of k and r, of which the paper's are 1."""
    rows = [
        [sweep.layer.name, sweep.varied, f"{sweep.sizes[-FITTED]} to {sweep.sizes[-1]}", "1"]
        + [_fit(sweep, values) for values in (counted, times, kept)]
        for sweep in sweeps
        if sweep.varied in ("k", "r")
    ]
    heading = ["layer", "size", "fitted over", "paper's exponent", "operations", "time", "memory"]
    return Table("table1-kernels", heading, rows)


def _fit(sweep: Sweep, values: Mapping[str, float]) -> str:
    return f"{exponent(sweep.sizes, [values[cell.name] for cell in sweep.cells]):.2f}"


def crossing(sizes: Sizes, times: Mapping[str, float]) -> str:
    """Section 4: self-attention is faster than recurrence when n is smaller than d."""
    lines = []
    for attention in (ATTENTION, PROJECTED):
        faster = [_time(times, attention, n, sizes) < _time(times, LSTM, n, sizes) for n in sizes.lengths]
        below = [won for won, n in zip(faster, sizes.lengths, strict=True) if n < sizes.at_width]
        last = max((n for won, n in zip(faster, sizes.lengths, strict=True) if won), default=0)
        end = f"the last at which it is has n = {last:,}" if last else "it is at none"
        lines.append(f"{attention.name} was faster than an LSTM at {sum(below)} of {len(below)} lengths below d; {end}")
    return f"{CLAIM} At d = {sizes.at_width}, {'; '.join(lines)}."


def _time(times: Mapping[str, float], layer: LayerType, n: int, sizes: Sizes) -> float:
    return times[Cell(layer, n, sizes.at_width, usual_size(layer)).name]


def _time_table(sizes: Sizes, times: Mapping[str, float], kept: Mapping[str, float]) -> Table:
    """Milliseconds and megabytes over n."""
    heading = [f"d = {sizes.at_width}", *(f"n = {n:,}" for n in sizes.lengths)]
    rows = []
    for layer in LAYER_TYPES:
        cells = [Cell(layer, n, sizes.at_width, usual_size(layer)).name for n in sizes.lengths]
        rows.append([f"{layer.name}, ms", *(three_digits(1e3 * times[cell]) for cell in cells)])
        rows.append([f"{layer.name}, MB", *(three_digits(kept[cell] / 1e6) for cell in cells)])
    return Table("table1-times", heading, rows)


def _slow_gru(sizes: Sizes, times: Mapping[str, float]) -> list[str]:
    """Why a GRU, which does less, takes longer where torch has a fused operation for the LSTM alone."""
    slower = all(_time(times, GRU, n, sizes) > _time(times, LSTM, n, sizes) for n in sizes.lengths[-FITTED:])
    return [FUSED_LSTM] if slower and device().type == "cpu" and torch.backends.mkldnn.is_available() else []


def chain_table(sizes: Sizes) -> Table:
    """Sequential operations of each layer type at several n."""
    rows = []
    for layer in LAYER_TYPES:
        chains = [longest_chain(layer.make(8, usual_size(layer)), torch.randn(1, n, 8)) for n in sizes.chains]
        rows.append([layer.name, layer.sequential, *map(str, chains)])
    return Table("table1-sequential", ["layer", "paper", *(f"n = {n}" for n in sizes.chains)], rows)


def _plot(sweeps: Sequence[Sweep], times: Mapping[str, float], kept: Mapping[str, float]) -> str:
    panels = [
        (size, values, unit, what)
        for values, unit, what in ((times, 1e3, "time in ms"), (kept, 1e-6, "memory in MB"))
        for size in "nd"
    ]

    def fill(figure: Figure) -> None:
        figure.set_size_inches(9, 8)
        for place, (size, values, unit, what) in enumerate(panels):
            axes = figure.add_subplot(2, 2, place + 1, xlabel=size, title=f"{what} over {size}")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.grid(visible=True)
            for number, sweep in enumerate(each for each in sweeps if each.varied == size):
                costs = [unit * values[cell.name] for cell in sweep.cells]
                style = "--" if number % 3 == 1 else "-"
                axes.plot(sweep.sizes, costs, style, marker=".", label=sweep.layer.name)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)

    return plot_svg(fill)
