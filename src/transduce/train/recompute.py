"""Activation checkpointing: a layer keeps its input only, and runs again when its gradient is due.

Memory for time. On the CPU dropout masks are pure functions of where and when they are drawn, so that the second pass
repeats the first; elsewhere torch gives its generator back the state it had.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from transduce.model import Noise, Transformer


def recompute_layers(model: Transformer) -> None:
    """Let each encoder and decoder layer recompute itself in training; without noise it runs as before."""
    for layer in chain(model.encoder.layers, model.decoder.layers):
        layer.forward = partial(_recomputed, layer.forward)


def _recomputed(forward: Callable[..., Tensor], x: Tensor, *inputs: Any, noise: Noise | None, **others: Any) -> Tensor:
    run = partial(forward, noise=noise, **others)
    if noise is None:
        return run(x, *inputs)
    result: Tensor = checkpoint(run, x, *inputs, use_reentrant=False, preserve_rng_state=x.device.type != "cpu")
    return result
