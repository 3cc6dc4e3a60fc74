"""Checkpoint averaging (section 6.1)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def average(models: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight over several checkpoints, summed in float64 so that their order does not matter."""
    total: dict[str, Tensor] = {}
    count = 0
    for weights in models:
        count += 1
        for name, weight in weights.items():
            total[name] = weight.double() + total[name] if name in total else weight.double()
    assert count, "nothing to average"
    return {name: (weight / count).to(torch.float32) for name, weight in total.items()}
