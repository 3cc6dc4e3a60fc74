"""What a layer costs: operations, bytes and seconds, and how fast that grows.

Operations and bytes are counted and come out the same every time; seconds are the fewest of passes taken in turns, as
whatever else a machine does can only add to them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from transduce.config import TrainConfig
from transduce.files import write_json
from transduce.train.device import choose_device
from transduce.train.environment import environment
from transduce.train.progress import Listener

FITTED = 3
"""Exponents are fitted over this many of the largest sizes: smaller ones show the overhead of a call."""


def device() -> torch.device:
    """Where layers are timed."""
    return choose_device(TrainConfig())


def where() -> str:
    """The same in words."""
    threads = torch.get_num_threads()
    return f"the CPU, {threads} thread{'s' * (threads > 1)}" if device().type == "cpu" else str(device())


def three_digits(value: float) -> str:
    """A measured number without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def operations(layer: nn.Module, x: Tensor) -> int:
    """Multiplications and additions of matrix products and convolutions in one forward pass."""
    with torch.no_grad(), taken_apart(), FlopCounterMode(display=False) as counter:
        layer(x)
    return int(counter.get_total_flops())


@contextmanager
def taken_apart() -> Iterator[None]:
    """Within it attention and recurrent layers are computed in parts: into fused operations torch cannot see."""
    before, *_ = torch.backends.mkldnn.set_flags(False, _fp32_precision=None)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mkldnn.set_flags(before, _fp32_precision=None)


def saved_bytes(layer: nn.Module, x: Tensor) -> int:
    """What a forward pass leaves in memory for the backward pass, and its output; weights are not counted."""
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor  # a view keeps all of what it is a view of
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        keep(layer(x.requires_grad_()))
    for weight in layer.parameters():
        kept.pop(weight.untyped_storage().data_ptr(), None)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def seconds(layer: nn.Module, x: Tensor) -> float:
    """One forward and backward pass, after one that is not counted."""
    _pass(layer, x)
    start = time.perf_counter()
    _pass(layer, x)
    return time.perf_counter() - start


def _pass(layer: nn.Module, x: Tensor) -> None:
    y = layer(x.requires_grad_())
    torch.autograd.grad(y, [x, *layer.parameters()], torch.ones_like(y))
    if x.device.type == "cuda":
        torch.cuda.synchronize(x.device)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """b of value = a size^b, by least squares of the logarithms over the largest sizes."""
    slope, _ = np.polyfit(np.log(sizes[-FITTED:]), np.log(values[-FITTED:]), 1)
    return float(slope)


def fewest_seconds(
    path: Path, cells: Mapping[str, Callable[[], float]], *, rounds: int, listener: Listener
) -> dict[str, float]:
    """The fastest time of each cell over so many rounds, in each of which every cell has its turn.

    Every time taken is kept in `path`: who is interrupted goes on there, if it is on the same machine.
    """
    machine = {name: environment(TrainConfig())[name] for name in ("torch", "processor", "threads", "device")}
    times: dict[str, list[float]] = {name: [] for name in cells}
    if path.is_file():
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["machine"] == machine:
            times = {name: saved["times"].get(name, []) for name in cells}
    to_go = sum(max(0, rounds - len(taken)) for taken in times.values())
    begun, done = time.monotonic(), 0
    for number in range(rounds):
        if any(len(taken) <= number for taken in times.values()):
            left = f", about {(time.monotonic() - begun) / done * (to_go - done):.0f} s to go" if done else ""
            listener.note(f"{path.stem}: round {number + 1} of {rounds}, {len(cells)} timings each{left}")
        for name, measure in cells.items():
            if len(times[name]) <= number:
                times[name].append(measure())
                write_json(path, {"machine": machine, "times": times})
                done += 1
    return {name: min(taken[:rounds]) for name, taken in times.items()}
