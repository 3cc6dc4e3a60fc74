"""Where the time of an update goes, by torch's profiler: one worker on one thread, so that shares are of work done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.contenders.ours import ours
from benchmarks.corpus import workload
from benchmarks.results import Shares, this_machine
from benchmarks.shapes import Shape
from transduce.model import Noise

KINDS = {
    "matrix products": ("mm", "addmm", "addmm_", "linear"),
    "products within attention": ("bmm", "baddbmm"),
    "layer norm": ("native_layer_norm", "native_layer_norm_backward"),
    "exponentials, sums and maxima": ("exp_", "exp", "sum", "amax", "mv", "addmv_", "log", "mean"),
    "copies": ("copy_", "cat", "contiguous", "clone", "index_select", "embedding_dense_backward", "fill_", "zero_"),
    "Adam": ("_fused_adam_",),
}
MASKS, REST, PYTHON = "drawing dropout masks", "other operations, element by element", "Python and autograd"


def shares(shape: Shape, updates: int) -> Shares:
    """The share of each kind of work."""
    batches = workload(shape.vocabulary, shape.tokens).batches
    contender = ours(shape)
    threads, contender.workers.threads, contender.workers.count = torch.get_num_threads(), 1, 1
    try:
        with drawing_timed() as drawn:
            contender.update(batches[0], 0)
            drawn.clear()
            begin = time.perf_counter()
            with profile(activities=[ProfilerActivity.CPU]) as profiler:
                for number in range(updates):
                    contender.update(batches[number % len(batches)], number)
            total = time.perf_counter() - begin
    finally:
        torch.set_num_threads(threads)
    found = dict.fromkeys([*KINDS, REST], 0.0)
    kinds = {f"aten::{name}": kind for kind, names in KINDS.items() for name in names}
    for event in profiler.key_averages():
        if event.key.startswith("aten::"):
            found[kinds.get(event.key, REST)] += event.self_cpu_time_total / 1e6
    found[MASKS] = sum(drawn)
    found[PYTHON] = total - sum(found.values())
    return Shares(this_machine(), shape, {kind: seconds / total for kind, seconds in found.items()})


@contextmanager
def drawing_timed() -> Iterator[list[float]]:
    """The seconds of every mask drawn within."""
    seconds: list[float] = []
    keep = Noise.keep

    def timed(noise: Noise, site: int, shape: torch.Size, threshold: int) -> Tensor:
        begin = time.perf_counter()
        mask = keep(noise, site, shape, threshold)
        seconds.append(time.perf_counter() - begin)
        return mask

    with patch.object(Noise, "keep", timed):
        yield seconds
