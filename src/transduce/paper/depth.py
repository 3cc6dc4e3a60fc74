"""How much gradient reaches each layer, with residual connections and without: at the start and after some updates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from transduce.config import Config
from transduce.data.preparation import Prepared, recall
from transduce.explain.drawing import PALETTE
from transduce.explain.plot import plot_svg
from transduce.model import Transformer
from transduce.paper.grid import Failure, Numbers, Outcome
from transduce.paper.lesions import LESIONS
from transduce.paper.result import Picture, Table
from transduce.paper.training import Training
from transduce.settings import make_config, read_toml
from transduce.train.feed import LoadedBatch, updates
from transduce.train.progress import Listener
from transduce.train.workers import batch_loss
from transduce.trainer import make_batching, new_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = {"whole": "with residuals", "without residuals": "without residuals"}  # a lesion -> what to call it
MOMENTS = ("first", "last")
BATCHES = 4  # over which a gradient is taken
GRADIENTS = (
    "The norm of the loss's gradient by the weights of each encoder layer. To the lowest one it has furthest to come: "
    "through the decoder, then down the stack. The table has the lowest layer's norm as a share of the highest's, and "
    "the loss in nats a token. The paper prints no gradients; it takes residual connections from He et al. (2016), who "
    "made them to train deep stacks."
)


@dataclass(frozen=True)
class DepthTask:
    """A short training of a stack of some depth; the gradient's norm in each layer before and after it."""

    name: str
    training: Training

    @property
    def work(self) -> float:
        """That of the training."""
        return self.training.work

    def run(self, out: Path, listener: Listener) -> Numbers:
        """Norms from the lowest encoder layer to the highest, and the same of the decoder; the loss in nats a token."""
        trained = self.training.run(out, listener).reference.model.requires_grad_(True)
        path = out / "config.toml"
        config, prepared = make_config(read_toml(path), where=str(path)), recall(out)
        untrained = new_model(config, prepared)
        LESIONS[self.training.lesion](untrained)
        batches = some_batches(config, prepared)
        return {"first": gradient_norms(untrained, batches), "last": gradient_norms(trained, batches)}


def some_batches(config: Config, prepared: Prepared) -> list[LoadedBatch]:
    """The batches of the first updates."""
    batching = make_batching(config.train, prepared)
    coming = updates(prepared.train, batching, torch.device("cpu"), parts=1, epoch=0, update=0)
    return [batch for update in islice(coming, BATCHES) for batch in update.batches]


def gradient_norms(model: Transformer, batches: Sequence[LoadedBatch]) -> Numbers:
    """The norm of the mean loss's gradient by all weights of each layer, without dropout or smoothing."""
    losses = [batch_loss(model, batch, None, 0.0).smoothed for batch in batches]
    loss = torch.stack(losses).sum() / sum(batch.tokens for batch in batches)
    stacks = {"encoder": model.encoder.layers, "decoder": model.decoder.layers}
    norms = {name: [_norm(loss, layer) for layer in layers] for name, layers in stacks.items()}
    return {**norms, "loss": loss.item()}


def _norm(loss: Tensor, layer: nn.Module) -> float:
    gradients = torch.autograd.grad(loss, list(layer.parameters()), retain_graph=True)
    return math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))


def depth_tasks(depths: Sequence[int], recipe: tuple[str, ...]) -> list[DepthTask]:
    """A stack of each depth with residual connections and without."""
    return [
        DepthTask(
            f"{depth} layers {kind}",
            Training((*recipe, f"model.encoder_layers={depth}", f"model.decoder_layers={depth}"), lesion=lesion),
        )
        for depth in depths
        for lesion, kind in KINDS.items()
    ]


def depth_parts(depths: Sequence[int], updates: int, outcomes: Mapping[str, Outcome]) -> list[str | Table | Picture]:
    """What the gradients say, as a picture and a table."""
    found = {name: outcome for name, outcome in outcomes.items() if not isinstance(outcome, Failure)}
    rows = []
    for depth in depths:
        for kind in KINDS.values():
            numbers = found.get(f"{depth} layers {kind}")
            cells = ["failed", "", "", ""] if numbers is None else _cells(numbers)
            rows.append([str(depth), kind, *cells])
    heading = ["layers", "stack", "first / last layer, at the start", "loss", f"after {updates} updates", "loss after"]
    return [
        "## What are residual connections for?",
        GRADIENTS,
        _picture(depths, updates, found),
        Table("depth", heading, rows),
    ]


def _cells(numbers: Numbers) -> list[str]:
    cells = []
    for moment in MOMENTS:
        norms = numbers[moment]["encoder"]
        cells += [f"{norms[0] / norms[-1]:.2g}" if norms[-1] else "0", f"{numbers[moment]['loss']:.2f}"]
    return cells


def _picture(depths: Sequence[int], updates: int, found: Mapping[str, Numbers]) -> Picture:
    titles = dict(zip(MOMENTS, ("at the start", f"after {updates} updates"), strict=True))

    def fill(figure: Figure) -> None:
        figure.set_size_inches(9, 3.8)
        panels = figure.subplots(1, 2, sharey=True)
        for axes, moment in zip(panels, MOMENTS, strict=True):
            _panel(axes, moment, depths, found)
            axes.set_title(titles[moment])
            axes.set_xlabel("encoder layer, from the lowest")
        panels[0].set_ylabel("norm of the gradient")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", frameon=False)

    return Picture("depth", "Lines: gradient norm by layer, for stacks of several depths", plot_svg(fill))


def _panel(axes: Axes, moment: str, depths: Sequence[int], found: Mapping[str, Numbers]) -> None:
    for colour, depth in zip(PALETTE, depths, strict=False):
        for kind, style in zip(KINDS.values(), ("-", ":"), strict=True):
            numbers = found.get(f"{depth} layers {kind}")
            if numbers is None:
                continue
            norms = numbers[moment]["encoder"]
            label = f"{depth} layers {kind}" if kind == "without residuals" else f"{depth} layers"
            axes.plot(range(1, depth + 1), norms, style, color=colour, marker="o", markersize=3, label=label)
    axes.set_xticks([1, *depths])
    axes.set_yscale("log")
    axes.grid(axis="y")
