"""When a run is at its end: by its updates, its epochs, its minutes, or because it learns no more."""

from __future__ import annotations

from transduce.config import TrainConfig
from transduce.train.state import State


def finished(train: TrainConfig, state: State) -> bool:
    """Whether the budget or the patience is used up, whatever the clock says."""
    return (
        (train.steps is not None and state.step >= train.steps)
        or (train.epochs is not None and state.epoch >= train.epochs)
        or (train.patience is not None and state.without_improvement >= train.patience)
    )


def out_of_time(train: TrainConfig, seconds: float) -> bool:
    """Whether the budget in minutes is spent after so long."""
    return train.minutes is not None and seconds >= train.minutes * 60


def share(train: TrainConfig, state: State, *, seconds: float, updates_per_epoch: int) -> float | None:
    """How much of the budget is spent, 0 to 1; None when only patience ends the run.

    Epochs may differ in length: `updates_per_epoch` is for a state that does not know that of its own.
    """
    shares = []
    if train.steps is not None:
        shares.append(state.step / train.steps)
    if train.epochs is not None:
        shares.append((state.epoch + state.update / (state.of_epoch or updates_per_epoch)) / train.epochs)
    if train.minutes is not None:
        shares.append(seconds / 60 / train.minutes)
    return min(1.0, max(shares)) if shares else None
