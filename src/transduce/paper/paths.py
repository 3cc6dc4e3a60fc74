"""How far apart two positions are: dependent operations, and the layers until the last output sees the first input.

What an output depends on is found by which inputs have gradient. n positions, width d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from transduce.explain.plot import plot_svg
from transduce.paper.cost import taken_apart
from transduce.paper.layer_types import AttentionFunction, Convolution, Restricted
from transduce.paper.result import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 8
"""d: what depends on what does not depend on it."""
KERNEL, NEIGHBOURHOOD = 3, 16


def longest_chain(layer: nn.Module, x: Tensor) -> int:
    """The most operations of a forward pass of which each needs the result of the one before."""
    with taken_apart():
        y = layer(x.requires_grad_())
    lengths: dict[Any, int] = {}
    waiting: list[Any] = [y.grad_fn]
    while waiting:
        node = waiting[-1]
        needed = [before for before, _ in node.next_functions if before is not None]
        unknown = [before for before in needed if before not in lengths]
        if unknown:
            waiting += unknown
            continue
        lengths[node] = 1 + max((lengths[before] for before in needed), default=-1)  # a leaf is no operation
        waiting.pop()
    return lengths[y.grad_fn]


def layers_needed(layer: Callable[[int], nn.Module], length: int) -> int:
    """How many layers, `layer(0)` on top, it takes until the last output depends on the first input.

    One layer at a time, from the top: a product of many small gradients would be rounded to nothing.
    """
    reached = _only_last(length)
    for number in range(length):
        x = _random(length)
        (gradient,) = torch.autograd.grad(layer(number).double()(x[None])[0], x, _upstream(reached))
        reached = gradient.any(dim=1)
        if reached[0]:
            return number + 1
    raise AssertionError(f"{length} layers do not connect {length} positions")


def steps_needed(cell: nn.LSTMCell | nn.GRUCell, length: int) -> int:
    """How many steps of a recurrent layer it takes until the last output depends on the first input.

    A step takes every position's input and its left neighbour's state of the step before.
    """
    reached = _only_last(length)
    cell = cell.double()
    for number in range(1, length + 1):
        x, state = _random(length), _random(length)
        before = torch.cat([torch.zeros_like(state[:1]), state[:-1]])
        out = cell(x, (before, before))[0] if isinstance(cell, nn.LSTMCell) else cell(x, before)
        from_input, from_state = torch.autograd.grad(out, (x, state), _upstream(reached))
        if from_input[0].any():
            return number
        reached = from_state.any(dim=1)
    raise AssertionError(f"{length} steps do not connect {length} positions")


def _only_last(length: int) -> Tensor:
    return torch.arange(length) == length - 1


def _random(length: int) -> Tensor:
    return torch.randn(length, WIDTH, dtype=torch.float64).requires_grad_()


def _upstream(reached: Tensor) -> Tensor:
    """A gradient at the positions that were reached, positive so that nothing cancels out of itself."""
    return torch.rand(len(reached), WIDTH, dtype=torch.float64).add(0.5) * reached[:, None]


@dataclass(frozen=True)
class Distance:
    """A row of Table 1's last column: what the paper says of it, and how it is found."""

    name: str
    paper: str
    value: Callable[[int], float]
    """The paper's expression, without its constant."""
    measure: Callable[[int], int]


DISTANCES = (
    Distance("self-attention", "O(1)", lambda n: 1, lambda n: layers_needed(lambda _: AttentionFunction(WIDTH), n)),
    Distance("recurrent: LSTM", "O(n)", float, lambda n: steps_needed(nn.LSTMCell(WIDTH, WIDTH), n)),
    Distance("recurrent: GRU", "O(n)", float, lambda n: steps_needed(nn.GRUCell(WIDTH, WIDTH), n)),
    Distance(
        f"convolutional, k = {KERNEL}",
        "O(n/k)",
        lambda n: n / KERNEL,
        lambda n: layers_needed(lambda _: Convolution(WIDTH, KERNEL), n),
    ),
    Distance(
        f"convolutional, dilated, k = {KERNEL}",
        "O(log_k n)",
        lambda n: math.log(n, KERNEL),
        lambda n: layers_needed(lambda number: Convolution(WIDTH, KERNEL, KERNEL**number), n),
    ),
    Distance(
        f"self-attention, restricted, r = {NEIGHBOURHOOD}",
        "O(n/r)",
        lambda n: n / NEIGHBOURHOOD,
        lambda n: layers_needed(lambda _: Restricted(WIDTH, NEIGHBOURHOOD), n),
    ),
)


def measure_paths(lengths: Sequence[int]) -> list[list[int]]:
    """Of each row of DISTANCES, at each length."""
    return [[row.measure(n) for n in lengths] for row in DISTANCES]


def path_table(lengths: Sequence[int], found: Sequence[Sequence[int]]) -> Table:
    """What was found, each with the value of the paper's expression in brackets."""
    rows = [
        [row.name, row.paper, *(f"{path} ({row.value(n):.4g})" for n, path in zip(lengths, paths, strict=True))]
        for row, paths in zip(DISTANCES, found, strict=True)
    ]
    return Table("table1-path-lengths", ["layer", "paper", *(f"n = {n:,}" for n in lengths)], rows)


def path_plot(lengths: Sequence[int], found: Sequence[Sequence[int]]) -> str:
    """Path lengths over n."""

    def fill(figure: Figure) -> None:
        figure.set_size_inches(8, 4)
        axes = figure.add_subplot(xlabel="n", ylabel="layers or steps", title="maximum path length")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.grid(visible=True)
        for row, paths in zip(DISTANCES, found, strict=True):
            style = "--" if "GRU" in row.name else "-"  # it lies on the LSTM
            axes.plot(lengths, paths, style, marker=".", label=f"{row.name}: {row.paper}")
        figure.legend(loc="outside right center", frameon=False)

    return plot_svg(fill)
