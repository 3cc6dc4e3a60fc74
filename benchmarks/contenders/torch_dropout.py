"""The package's `Dropout` with every mask drawn by torch, as nn.Dropout draws it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.model import Noise
from transduce.model.dropout import Dropout


def forward(own: Dropout, x: Tensor, noise: Noise | None) -> Tensor:
    """nn.Dropout."""
    return F.dropout(x, own.rate, training=noise is not None)


def add(own: Dropout, x: Tensor, y: Tensor, noise: Noise | None) -> Tensor:
    """A residual connection with nn.Dropout."""
    return x + F.dropout(y, own.rate, training=noise is not None)


def relu(own: Dropout, x: Tensor, noise: Noise | None) -> Tensor:
    """A rectifier and nn.Dropout."""
    return F.dropout(F.relu(x), own.rate, training=noise is not None)


def keep(own: Dropout, shape: Sequence[int], noise: Noise | None) -> Tensor | None:
    """The mask that nn.Dropout would draw for the attention weights."""
    return torch.empty(tuple(shape)).bernoulli_(1 - own.rate).bool() if noise and own.rate else None


def use_torch_dropout() -> None:
    """From now on, in this process."""
    for method in (forward, add, relu, keep):
        setattr(Dropout, method.__name__, method)
