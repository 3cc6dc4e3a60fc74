"""Dropout whose mask is a pure function of where and when it is drawn.

torch's CPU dropout draws from one global stream: resuming a run would need that stream's state, and it is slow
(docs/performance.md). Here each mask follows from (seed, update, micro-batch, rank, site): nothing is saved, a resumed
run draws the same masks, and so does a recomputed activation. Other devices have a fast dropout: there it is torch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

SPECIALS = 4  # so many ids of every codec come before those of words


@dataclass(frozen=True)
class Noise:
    """When a forward pass happens; passed in for training, absent for everything else."""

    seed: int
    update: int
    micro_batch: int = 0
    rank: int = 0

    def keep(self, site: int, shape: torch.Size, threshold: int) -> Tensor:
        """A mask that is True with probability 1 - threshold / 2^16, from 16 random bits an element."""
        count = math.prod(shape)
        entropy = np.random.SeedSequence((self.seed, self.update, self.micro_batch, self.rank, site))
        generator = np.random.Generator(np.random.SFC64(entropy))
        bits = generator.integers(0, 2**64, (count + 3) // 4, dtype=np.uint64).view(np.int16)[:count]
        return torch.from_numpy(bits >= np.int16(threshold - 2**15)).view(shape)

    def seed_device(self, device: torch.device) -> None:
        """Elsewhere than on the CPU torch draws the masks: seed it by the same numbers, so that they repeat."""
        if device.type != "cpu":
            entropy = np.random.SeedSequence((self.seed, self.update, self.micro_batch, self.rank))
            torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> 1))


class Dropout(nn.Module):
    """Zeroes elements with probability `rate` and scales the rest, when there is noise."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.threshold = min(round(rate * 2**16), 2**16 - 1)
        self.site = 0

    def forward(self, x: Tensor, noise: Noise | None) -> Tensor:
        """Dropout of x."""
        if noise is None or not self.threshold:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        keep = noise.keep(self.site, x.shape, self.threshold)
        masked: Tensor = _Masked.apply(x, keep, self.scale)  # type: ignore[no-untyped-call]
        return masked

    def add(self, x: Tensor, y: Tensor, noise: Noise | None) -> Tensor:
        """x + dropout(y), the residual connection, in one pass."""
        if noise is None or not self.threshold:
            return x + y
        if x.device.type != "cpu":
            return x + F.dropout(y, self.rate)
        keep = noise.keep(self.site, y.shape, self.threshold)
        summed: Tensor = _AddMasked.apply(x, y, keep, self.scale)  # type: ignore[no-untyped-call]
        return summed

    def relu(self, x: Tensor, noise: Noise | None) -> Tensor:
        """dropout(max(0, x)): its sign tells what was kept, so that no mask is remembered."""
        if noise is None or not self.threshold or x.device.type != "cpu":
            return self.forward(F.relu(x), noise)
        keep = noise.keep(self.site, x.shape, self.threshold)
        rectified: Tensor = _MaskedReLU.apply(x, keep, self.scale)  # type: ignore[no-untyped-call]
        return rectified

    def keep(self, shape: Sequence[int], noise: Noise | None) -> Tensor | None:
        """The mask for those who apply it themselves, on the CPU."""
        return noise.keep(self.site, torch.Size(shape), self.threshold) if noise and self.threshold else None

    @property
    def rate(self) -> float:
        """The share of elements that is dropped, to a 2^-16th."""
        return self.threshold / 2**16

    @property
    def scale(self) -> float:
        """What kept elements are multiplied by, so that the expectation stays."""
        return 1.0 / (1.0 - self.rate)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"rate={self.rate:.4g}, site={self.site}"


class WordDropout(Dropout):
    """Leaves out whole embeddings with probability `rate` and scales the rest, when there is noise.

    Each token by itself, as in Sennrich et al. (2016); Gal & Ghahramani (2016) leave out all occurrences of a word.
    """

    def words(self, embedded: Tensor, ids: Tensor, noise: Noise | None) -> Tensor:
        """BTD -> BTD, of the ids BT; the embeddings of specials stay as they are."""
        if noise is None or not self.threshold:
            return embedded
        factors: Tensor = self(torch.ones_like(ids, dtype=embedded.dtype), noise)
        return embedded * factors.masked_fill(ids < SPECIALS, 1.0).unsqueeze(-1)


def number_sites(model: nn.Module) -> None:
    """Give each Dropout of a model its own site number, in module order; whole words come last.

    So all other masks are what they are in a model that drops no words.
    """
    sites = [module for module in model.modules() if isinstance(module, Dropout)]
    for site, module in enumerate(sorted(sites, key=lambda module: isinstance(module, WordDropout))):
        module.site = site


def factor(keep: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    """A mask as numbers: `scale` where it is True, else 0. numpy widens bytes several times as fast as torch does."""
    numbers = torch.from_numpy(keep.numpy().astype(np.float32))
    return numbers.to(dtype).mul_(scale)


class _Masked(torch.autograd.Function):
    """x * keep * scale, saving only the mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return x * factor(keep, scale, x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        return gradients[0] * factor(keep, ctx.scale, gradients[0].dtype), None, None


class _AddMasked(torch.autograd.Function):
    """x + y * keep * scale, saving only the mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale, ctx.dtype = scale, y.dtype
        return torch.addcmul(x, y.to(x.dtype), factor(keep, scale, x.dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        return gradients[0], (gradients[0] * factor(keep, ctx.scale, gradients[0].dtype)).to(ctx.dtype), None, None


class _MaskedReLU(torch.autograd.Function):
    """max(0, x) * keep * scale, saving only the result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Tensor, scale: float) -> Tensor:
        dropped = F.relu(x).mul_(factor(keep, scale, x.dtype))
        ctx.save_for_backward(dropped)
        ctx.scale = scale
        return dropped

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (dropped,) = ctx.saved_tensors
        passed: Tensor = torch.ops.aten.threshold_backward(gradients[0], dropped, 0)
        return passed.mul_(ctx.scale), None, None
