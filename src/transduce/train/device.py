"""Where a run trains."""

from __future__ import annotations

import torch

from transduce.config import TrainConfig
from transduce.errors import ConfigError
from transduce.train.workers import Workers


def choose_device(train: TrainConfig) -> torch.device:
    """The device asked for; auto is CUDA if there is one, else the CPU."""
    if train.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("train.device = cuda: torch sees no CUDA device here: use cpu or auto")
    if train.device == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("train.device = mps: torch sees no Apple GPU here: use cpu or auto")
    if train.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(train.device)


def where(workers: Workers) -> str:
    """The device, how many of its threads are at work, and in how many processes."""
    processes = f" in each of {workers.world.size} processes" if workers.world.size > 1 else ""
    if workers.device.type != "cpu":
        return f"{workers.device.type}{processes}" if processes else str(workers.device)
    return f"the CPU ({_several(workers.count, 'worker')}, {_several(workers.threads, 'thread')}{processes})"


def _several(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
