"""Section 3.2.1: what additive attention costs beside dot-product attention."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.explain.plot import plot_svg
from transduce.model.attention import Compatibility, scaled_dot_product
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
from transduce.paper.result import Picture, Table
from transduce.train.progress import Listener

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRESH = 32 << 20
"""Bytes from which on glibc asks the system for every allocation: its largest threshold for mmap."""
STEEP = 2.3
"""An exponent of n that n² alone does not explain."""


def additive_cost(lengths: Sequence[int], rounds: int, path: Path, listener: Listener) -> list[str | Table | Picture]:
    """How it was measured, what was found, a plot, and perhaps why time grows as it does; times are kept in `path`."""
    cells = {(name, n): Cell(make, n) for name, make in FUNCTIONS.items() for n in lengths}
    counted = {key: cell.of(operations) for key, cell in cells.items()}
    kept = {key: cell.of(saved_bytes) for key, cell in cells.items()}
    measures = {f"{name}, n={n}": cell.time for (name, n), cell in cells.items()}
    taken = fewest_seconds(path, measures, rounds=rounds, listener=listener)
    times = {(name, n): taken[f"{name}, n={n}"] for name, n in cells}
    picture = _cost_plot(lengths, times, kept)
    return [
        _how(rounds),
        cost_table(lengths, counted, times, kept),
        Picture("scaling-additive", "Time and memory of attention functions over n", picture),
        *_fresh_pages(lengths, times),
    ]


class Head(nn.Module):
    """The paper's 8 heads of an attention function over one sequence; q, k and v are parts of the input."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor], compatibility: Compatibility) -> None:
        super().__init__()
        self.attend, self.compatibility = attend, compatibility

    def forward(self, x: Tensor) -> Tensor:
        """(3, H, n, K) -> (1, H, n, K)."""
        q, k, v = x.unsqueeze(1)
        return self.attend(q, k, v)


def _fused() -> Head:
    compatibility = Compatibility(ModelConfig())
    return Head(lambda q, k, v: compatibility(q, k, v, None), compatibility)


def _written_out() -> Head:
    return Head(scaled_dot_product, Compatibility(ModelConfig()))


def _additive() -> Head:
    compatibility = Compatibility(ModelConfig(attention="additive"))
    assert compatibility.hidden is not None
    nn.init.normal_(compatibility.hidden, std=ModelConfig().key_width ** -0.5)
    return Head(lambda q, k, v: compatibility(q, k, v, None), compatibility)


FUNCTIONS: dict[str, Callable[[], Head]] = {
    "dot-product": _fused,
    "dot-product, written out": _written_out,
    "additive": _additive,
}


@dataclass(frozen=True)
class Cell:
    """An attention function of one length."""

    make: Callable[[], Head]
    n: int

    def of(self, measure: Callable[[nn.Module, Tensor], float]) -> float:
        """A measure of the function."""
        config = ModelConfig()
        x = torch.randn(3, config.num_heads, self.n, config.key_width, device=device())
        return measure(self.make().to(device()), x)

    def time(self) -> float:
        """Of a forward and backward pass."""
        return self.of(seconds)


Costs = Mapping[tuple[str, int], float]


def cost_table(lengths: Sequence[int], counted: Costs, times: Costs, kept: Costs) -> Table:
    """Time and memory of each function at each length, how they grow, and how many times the dot product's."""
    heading = ["attention", *(f"n = {n}" for n in lengths), "exponent of n", f"of dot-product at n = {lengths[-1]}"]
    rows = []
    for what, values, unit in (("operations, 10⁶", counted, 1e-6), ("ms", times, 1e3), ("MB", kept, 1e-6)):
        for name in FUNCTIONS:
            own = [values[name, n] for n in lengths]
            ratio = own[-1] / values["dot-product", lengths[-1]]
            row = [f"{name}: {what}", *(three_digits(unit * value) for value in own)]
            rows.append([*row, f"{exponent(lengths, own):.2f}", f"{three_digits(ratio)} times"])
    return Table("scaling-additive", heading, rows)


def _fresh_pages(lengths: Sequence[int], times: Costs) -> list[str]:
    """Why additive attention takes more than its operations do, if it does and the reason is this one."""
    config = ModelConfig()
    large = [n for n in lengths if 4 * config.num_heads * n * n * config.key_width >= FRESH]
    grown = exponent(lengths, [times["additive", n] for n in lengths])
    if not large or grown <= STEEP or device().type != "cpu" or sys.platform != "linux":
        return []
    return [
        (
            f"The time of additive attention grows faster than n² because a tensor of it, {config.num_heads} × n × n ×"
            f" {config.key_width} numbers, has {FRESH >> 20} MiB or more from n = {large[0]} on: the C library gives"
            " memory of that size back to the system at once and asks for it again, and the system clears"
            " every page of it."
        )
    ]


def _how(rounds: int) -> str:
    config = ModelConfig()
    return (
        'The paper: dot-product attention is "much faster and more space-efficient in practice" than additive '
        f"attention, though alike in theoretical complexity. Here {config.num_heads} heads of "
        f"d_k = {config.key_width}, one sequence, on {where()}; forward and backward, the fastest of "
        f"{rounds} in turns; memory is what is kept for the backward pass and the output; exponents are fitted over "
        f"the {FITTED} largest n. Only matrix products count as operations: the tanh of additive attention, one for "
        "each query, key and component, does not."
    )


def _cost_plot(lengths: Sequence[int], times: Costs, kept: Costs) -> str:
    def fill(figure: Figure) -> None:
        figure.set_size_inches(9, 3.6)
        panels = figure.subplots(1, 2)
        for axes, values, unit, title in zip(
            panels, (times, kept), (1e3, 1e-6), ("time, ms", "memory, MB"), strict=True
        ):
            for name in FUNCTIONS:
                axes.plot(lengths, [unit * values[name, n] for n in lengths], marker="o", label=name)
            axes.set(title=title, xlabel="n", yscale="log")
            axes.set_xscale("log", base=2)
            axes.grid(visible=True)
        panels[0].legend(frameon=False)

    return plot_svg(fill)
