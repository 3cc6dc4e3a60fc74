"""Checkpoint averaging (section 6.1), and what a run says of the weights that it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from transduce.config import TrainConfig


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


def describe_plan(train: TrainConfig) -> str | None:
    """Which weights will be validated and kept, if they are not those that the paper keeps."""
    if train.ema:
        which = ", at the best validation" if train.average != "last" else ""
        return f"validations and the bundle are of a moving average of the weights, decay {train.ema}{which}"
    if train.average != "last":
        return f"the bundle averages the best {train.average_count} validated checkpoints: each validation is saved"
    return None


def describe_averaged(train: TrainConfig, steps: Sequence[int]) -> str:
    """What the bundle was made of: the checkpoints of these steps."""
    places = ", ".join(f"{step:,}" for step in steps)
    if train.ema:
        return f"moving average of the weights, decay {train.ema}, at step {places}"
    if train.average != "last":
        return f"averaged {len(steps)} checkpoints, those of steps {places}"
    return f"averaged {len(steps)} checkpoints"
