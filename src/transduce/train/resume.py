"""Going on with a run: how much further, from where in its log, and what is no longer as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transduce.config import TrainConfig
from transduce.errors import RunError
from transduce.files import write_file
from transduce.train.state import State
from transduce.train.workers import Workers


def extended(train: TrainConfig, state: State, more: int, *, updates_per_epoch: int) -> TrainConfig:
    """The recipe with a budget of `more` updates beyond its own, or beyond here if the clock or patience is the end."""
    ends = [] if train.steps is None else [train.steps]
    if train.epochs is not None:
        done = state.epoch >= train.epochs  # with epochs that need not have been as long as the next
        ends.append(state.step if done else train.epochs * updates_per_epoch)
    known = ends and train.minutes is None and not _tired(train, state)
    return _ending_at((max(state.step, min(ends)) if known else state.step) + more, train, state)


def stepped(train: TrainConfig, state: State, steps: int, *, run: Path) -> TrainConfig:
    """The recipe with a budget of `steps` updates in all."""
    if steps < state.step:
        raise RunError(
            f"{run}: {state.step:,} updates are done, {steps:,} were asked for: --more N goes on for N updates"
        )
    return _ending_at(steps, train, state)


def _ending_at(steps: int, train: TrainConfig, state: State) -> TrainConfig:
    """No other budget ends it before, nor patience that is used up."""
    patience = None if _tired(train, state) else train.patience
    return train.model_copy(update={"steps": steps, "epochs": None, "minutes": None, "patience": patience})


def _tired(train: TrainConfig, state: State) -> bool:
    return train.patience is not None and state.without_improvement >= train.patience


def differences(state: State, workers: Workers) -> str | None:
    """A warning if sums will be rounded otherwise than before the run was stopped."""
    before = (state.threads, state.workers, state.world_size)
    now = (workers.threads, workers.count, workers.world.size)
    if state.threads is None or before == now:
        return None
    names = ("threads", "workers", "processes")
    changed = [f"{name} {a} -> {b}" for name, a, b in zip(names, before, now, strict=True) if a != b]
    return f"{', '.join(changed)}: training goes on, but not bit for bit as an unbroken run would"


def cut_back(log: Path, state: State) -> None:
    """Remove from a log what is done again from `state` on: later steps, a validation it knows not of, half a line."""
    if not log.is_file():
        return
    lines = log.read_bytes().split(b"\n")
    kept = [line for line in lines if line and not _repeated(line, state)]
    text = b"".join(line + b"\n" for line in kept)
    if text != b"\n".join(lines):
        write_file(log, text)


def _repeated(line: bytes, state: State) -> bool:
    try:
        event: Any = json.loads(line)
    except ValueError:  # half a line, as a killed run leaves
        return True
    step = event.get("step") if isinstance(event, dict) else None
    if not isinstance(step, int):
        return False
    return step > state.step or (step == state.step and not state.validated and event.get("event") == "validation")
