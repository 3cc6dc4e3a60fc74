"""Section 3.2.1: why dot products are divided by sqrt(d_k)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.explain.plot import plot_svg
from transduce.model.attention import Compatibility
from transduce.paper.additive import additive_cost
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Scale, Study
from transduce.train.progress import Listener

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 1
SATURATED = 0.99


@dataclass(frozen=True)
class Sizes:
    """What is drawn and what is timed."""

    widths: tuple[int, ...]
    keys: int
    """Of each query: words of a sentence."""
    queries: int
    lengths: tuple[int, ...]
    rounds: int


SIZES: dict[Scale, Sizes] = {
    "tiny": Sizes((1, 4, 16, 64, 256, 1024), 32, 4096, (16, 32, 64, 128, 256), 7),
    "small": Sizes(tuple(4**i for i in range(7)), 32, 65536, (16, 32, 64, 128, 256, 512), 15),
    "paper": Sizes(tuple(4**i for i in range(7)), 32, 65536, (32, 64, 128, 256, 512, 1024), 25),
}


@dataclass(frozen=True)
class Softmax:
    """Scores of random queries and keys, and what a softmax over the keys makes of them; medians over queries."""

    mean: float
    variance: float
    entropy: float
    gradient: float
    """The Frobenius norm of the softmax's Jacobian."""
    saturated: float
    """The share of queries of which one key gets nearly all of the weight."""


def scaling(study: Study) -> Result:
    """Dot products with and without scaling, and additive attention, beside what section 3.2.1 says of them."""
    study.work.mkdir(parents=True, exist_ok=True)
    return study_scaling(SIZES[study.scale], study.work / f"scaling-{study.scale}.json", study.listener)


def study_scaling(sizes: Sizes, path: Path, listener: Listener) -> Result:
    """The same for given sizes; times are kept in `path`."""
    listener.note("scaling: dot products of random queries and keys")
    plain = [draw(d_k, "unscaled", sizes) for d_k in sizes.widths]
    scaled = [draw(d_k, "scaled", sizes) for d_k in sizes.widths]
    return Result(
        name="scaling",
        title="Section 3.2.1: scaled, unscaled and additive attention",
        scope=SCOPE,
        parts=[
            _variance_text(sizes),
            variance_table(sizes.widths, plain, scaled),
            Picture(
                "scaling-variance",
                "Variance of q·k over d_k, with and without scaling",
                _variance_plot(sizes, plain, scaled),
            ),
            _softmax_text(sizes),
            softmax_table(sizes.widths, plain, scaled),
            Picture(
                "scaling-softmax", "Entropy and gradient of the softmax over d_k", _softmax_plot(sizes, plain, scaled)
            ),
            *additive_cost(sizes.lengths, sizes.rounds, path, listener),
        ],
    )


SCOPE = """\
The argument of section 3.2.1 is about random vectors, and holds or fails at any scale; so does the comparison of cost.
That additive attention learns better than unscaled dot products for large d_k is not shown here: that takes trainings,
`model.attention` of which is `"unscaled"` and `"additive"`."""


def draw(d_k: int, attention: Literal["scaled", "unscaled"], sizes: Sizes) -> Softmax:
    """Queries and keys whose components are independent, of mean 0 and variance 1, in the model's own function."""
    generator = torch.Generator().manual_seed(SEED)
    compatibility = Compatibility(ModelConfig(num_heads=1, d_k=d_k, d_v=d_k, attention=attention))
    blocks = []
    for _ in range(max(1, sizes.queries // 1024)):  # a block at a time: each query has keys of its own
        q = torch.randn(1024, 1, 1, d_k, generator=generator)
        k = torch.randn(1024, 1, sizes.keys, d_k, generator=generator)
        blocks.append(compatibility.scores(q, k).flatten(0, 2))
    scores = torch.cat(blocks).double()
    weights = scores.softmax(dim=-1)
    return Softmax(
        mean=float(scores.mean()),
        variance=float(scores.var()),
        entropy=float(torch.special.entr(weights).sum(dim=-1).median()),
        gradient=float(jacobian_norm(weights).median()),
        saturated=float((weights.amax(dim=-1) > SATURATED).double().mean()),
    )


def jacobian_norm(weights: Tensor) -> Tensor:
    """The Frobenius norm of diag(p) - p p^T, the softmax's Jacobian, for each row p."""
    squares, cubes = (weights**2).sum(dim=-1), (weights**3).sum(dim=-1)
    return (squares - 2 * cubes + squares**2).clamp(min=0).sqrt()


def variance_table(widths: Sequence[int], plain: Sequence[Softmax], scaled: Sequence[Softmax]) -> Table:
    """Measured variances beside d_k and 1."""
    heading = ["d_k", "mean of q·k", "paper", "variance of q·k", "paper", "variance of q·k / √d_k", "paper"]
    rows = [
        [str(d_k), f"{a.mean:+.3f}", "0", f"{a.variance:.4g}", str(d_k), f"{b.variance:.3f}", "1"]
        for d_k, a, b in zip(widths, plain, scaled, strict=True)
    ]
    return Table("scaling-variance", heading, rows)


def softmax_table(widths: Sequence[int], plain: Sequence[Softmax], scaled: Sequence[Softmax]) -> Table:
    """What the softmax makes of both."""
    heading = ["d_k", "entropy, unscaled", "entropy, scaled", "gradient, unscaled", "gradient, scaled"]
    heading += [f"over {SATURATED} on one key, unscaled", "scaled"]
    rows = [
        [
            str(d_k),
            *(f"{each.entropy:.3f}" for each in pair),
            *(f"{each.gradient:.3g}" for each in pair),
            *(f"{each.saturated:.1%}" for each in pair),
        ]
        for d_k, *pair in zip(widths, plain, scaled, strict=True)
    ]
    return Table("scaling-softmax", heading, rows)


def _variance_text(sizes: Sizes) -> str:
    return (
        "The paper: if the components of q and k are independent with mean 0 and variance 1, q·k has mean 0 and "
        f"variance d_k. Here {sizes.queries:,} queries with {sizes.keys} keys each, drawn so, go through the model's "
        "own function."
    )


def _softmax_text(sizes: Sizes) -> str:
    return (
        "The paper suspects that for large d_k the dot products push the softmax into regions of extremely small "
        f"gradients. Entropy is in nats, at most ln {sizes.keys} = {math.log(sizes.keys):.2f}; the gradient is the "
        "Frobenius norm of the softmax's Jacobian. Both are medians over queries, as the few undecided queries would "
        "decide a mean. The norm is largest where a softmax wavers between few keys, so that unscaled products lose "
        "gradient only beyond some d_k."
    )


def _variance_plot(sizes: Sizes, plain: Sequence[Softmax], scaled: Sequence[Softmax]) -> str:
    def fill(figure: Figure) -> None:
        figure.set_size_inches(6, 3.6)
        axes = figure.add_subplot(xlabel="d_k", title="variance of dot products")
        axes.plot(sizes.widths, sizes.widths, color="#BBBBBB", linewidth=4, label="paper: d_k")
        axes.plot(sizes.widths, [1] * len(sizes.widths), color="#DDDDDD", linewidth=4, label="paper: 1")
        axes.plot(sizes.widths, [each.variance for each in plain], marker="o", label="q·k")
        axes.plot(sizes.widths, [each.variance for each in scaled], marker="o", label="q·k / √d_k")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.grid(visible=True)
        axes.legend(frameon=False)

    return plot_svg(fill)


def _softmax_plot(sizes: Sizes, plain: Sequence[Softmax], scaled: Sequence[Softmax]) -> str:
    def fill(figure: Figure) -> None:
        figure.set_size_inches(9, 3.6)
        left, right = figure.subplots(1, 2)
        left.plot(sizes.widths, [each.entropy for each in plain], marker="o", label="q·k")
        left.plot(sizes.widths, [each.entropy for each in scaled], marker="o", label="q·k / √d_k")
        left.axhline(math.log(sizes.keys), color="#BBBBBB", linestyle="--", label="uniform")
        left.set(title="entropy of the weights, nats", xlabel="d_k", ylim=(0, None))
        right.plot(sizes.widths, [each.gradient for each in plain], marker="o")
        right.plot(sizes.widths, [each.gradient for each in scaled], marker="o")
        right.set(title="norm of the softmax's Jacobian", xlabel="d_k", yscale="log")
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.grid(visible=True)
        left.legend(frameon=False)

    return plot_svg(fill)
