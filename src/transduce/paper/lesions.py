"""A Transformer with a part taken out, to see what the part is for: surgery on the modules of a built model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from transduce.model import Noise, Transformer
from transduce.model.layers import Residual
from transduce.model.transformer import Embedding

Lesion = Callable[[Transformer], None]


class NoSublayer(nn.Module):
    """Instead of a residual connection around a sub-layer that is gone: the input as it is."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], noise: Noise | None) -> Tensor:
        """BTD -> BTD."""
        return x


class NoShortcut(nn.Module):
    """LayerNorm(Sublayer(x)): what a sub-layer does not pass on is lost."""

    def __init__(self, residual: Residual) -> None:
        super().__init__()
        assert not residual.norm_first, "the paper normalises after the residual connection, and so does this"
        self.norm, self.dropout = residual.norm, residual.dropout

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], noise: Noise | None) -> Tensor:
        """BTD -> BTD."""
        normed: Tensor = self.norm(self.dropout(sublayer(x), noise))
        return normed


class NoPositions(nn.Module):
    """Nothing is added to an embedding: a sentence is a bag of words to the encoder."""

    def forward(self, start: int, stop: int) -> Tensor:
        """A zero for every position."""
        return torch.zeros(())


def whole(model: Transformer) -> None:
    """Leave everything where it is."""


def without_feed_forward(model: Transformer) -> None:
    """Attention is all there is: the feed-forward sub-layers go, with their residual connections and norms."""
    for layer in _layers(model):
        layer.feed_forward = nn.Identity()
        layer.feed_forward_residual = NoSublayer()


def without_residuals(model: Transformer) -> None:
    """Every sub-layer's output replaces its input instead of being added to it."""
    for layer in _layers(model):
        for name, module in list(layer.named_children()):
            if isinstance(module, Residual):
                setattr(layer, name, NoShortcut(module))


def without_norms(model: Transformer) -> None:
    """x + Sublayer(x), never normalised."""
    for module in list(model.modules()):
        if isinstance(module, Residual):
            module.norm = nn.Identity()  # type: ignore[assignment]


def without_positions(model: Transformer) -> None:
    """Neither side is told where a token stands; the decoder's mask still lets a token know how many came before."""
    for module in model.modules():
        if isinstance(module, Embedding):
            module.positions = NoPositions()  # type: ignore[assignment]


LESIONS: dict[str, Lesion] = {
    "whole": whole,
    "without feed-forward": without_feed_forward,
    "without residuals": without_residuals,
    "without layer norm": without_norms,
    "without positions": without_positions,
}


def _layers(model: Transformer) -> list[nn.Module]:
    return [*model.encoder.layers, *model.decoder.layers]
