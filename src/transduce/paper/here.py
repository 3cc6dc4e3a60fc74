"""What a configuration comes to on this machine: a short trial, and memory by estimate."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from transduce.config import Config
from transduce.paper.training_cost import HOUR, cost, memory
from transduce.train.calibration import tokens_per_second, vocabularies
from transduce.train.choice import Size
from transduce.train.device import choose_device
from transduce.train.workers import WORKER_TOKENS

SECONDS, MOST_SECONDS = 30.0, 6.0
"""Of all trials together, and of one; what a model takes to be made comes on top."""


@dataclass(frozen=True)
class Trial:
    """How a configuration did here."""

    device: str
    speed: float | None
    """Target tokens a second; None: it was not tried, as memory does not hold it."""
    tokens_an_update: float
    memory: int
    """Of weights, gradients, Adam's moments and activations; an estimate."""
    free: int
    """Bytes of memory that nobody uses."""

    @property
    def seconds(self) -> float:
        """That an update takes; without end where it does not fit."""
        return math.inf if self.speed is None else self.tokens_an_update / self.speed

    def hours(self, updates: int) -> float:
        """That so many updates take."""
        return updates * self.seconds / HOUR

    def updates(self, minutes: float) -> int:
        """That so many minutes have room for."""
        return round(minutes * 60 / self.seconds)


def try_out(planned: Mapping[str, Config], size: Size, tick: Callable[[int], None]) -> dict[str, Trial]:
    """Each configuration on its device; equal work is tried once. `tick` is told how many are done."""
    alike = {name: _work(config) for name, config in planned.items()}
    seconds = min(MOST_SECONDS, SECONDS / len(set(alike.values())))
    speeds: dict[object, float] = {}
    trials: dict[str, Trial] = {}
    for name, config in planned.items():
        device = choose_device(config.train)
        needed, free = memory_here(config, device), free_memory(device)
        if needed <= free and alike[name] not in speeds:
            speeds[alike[name]] = tokens_per_second(config, size, seconds=seconds)
        trials[name] = Trial(
            device=_describe(config, device),
            speed=speeds.get(alike[name]) if needed <= free else None,
            tokens_an_update=size.tokens_an_update(config.train),
            memory=needed,
            free=free,
        )
        tick(len(trials))
    return trials


def memory_here(config: Config, device: torch.device) -> int:
    """As on a GPU; on a CPU each worker has gradients of its own."""
    found = memory(config, cost(config).parameters)
    if device.type != "cpu":
        return found.total
    micro_batch = min(config.train.batch_tokens, config.train.micro_batch_tokens)
    workers = max(1, min(_threads(config), micro_batch // WORKER_TOKENS))
    return found.total + (workers - 1) * found.gradients


def free_memory(device: torch.device) -> int:
    """Bytes that can be had on a device without anybody giving up theirs."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    told = Path("/proc/meminfo")
    for line in told.read_text(encoding="ascii").split("\n") if told.is_file() else ():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # all there is, where nobody tells what is free


def _work(config: Config) -> object:
    """All that the speed of a trial depends on."""
    train = config.train
    micro_batch = min(train.batch_tokens, train.micro_batch_tokens)
    return config.model, vocabularies(config), micro_batch, train.precision, train.recompute, train.device, train.r_drop


def _threads(config: Config) -> int:
    return config.train.threads or torch.get_num_threads()


def _describe(config: Config, device: torch.device) -> str:
    return f"the CPU ({_threads(config)} threads)" if device.type == "cpu" else str(device)
