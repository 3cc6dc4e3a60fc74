"""The package's loop with one of its fast ways taken out: how much slower it is then is what that way is worth."""

from __future__ import annotations

from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Adam

from benchmarks.contenders.ours import Ours, ours
from benchmarks.contenders.torch_dropout import use_torch_dropout
from benchmarks.shapes import Shape
from transduce.model import attention, products
from transduce.model.attention import attention_weights
from transduce.train import workers
from transduce.train.loss import Loss


def without_workers(shape: Shape) -> Ours:
    """torch splits each operation over the cores."""
    made = ours(shape)
    made.workers.count = 1
    return made


def without_own_dropout(shape: Shape) -> Ours:
    """Masks drawn and applied by torch."""
    use_torch_dropout()
    return ours(shape)


def without_written_out_attention(shape: Shape) -> Ours:
    """Equation 1 in torch's operations, differentiated by autograd."""

    def attend(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        may_attend: Tensor | None,
        keep: Tensor | None,
        *,
        scale: float,
        keep_scale: float,
    ) -> Tensor:
        weights = attention_weights((q * scale) @ k.transpose(-2, -1), may_attend)
        return weights @ v if keep is None else (weights * keep * keep_scale) @ v

    patch.object(attention, "attend", attend).start()
    return ours(shape)


def without_onednn(shape: Shape) -> Ours:
    """MKL multiplies, as torch has it."""
    patch.object(products, "onednn_is_better", lambda: False).start()
    return ours(shape)


def without_chunked_loss(shape: Shape) -> Ours:
    """All logits at once, then torch's label-smoothed cross-entropy."""

    def plain(hidden: Tensor, weight: Tensor, bias: Tensor | None, expected: Tensor, smoothing: float) -> Loss:
        logits = F.linear(hidden, weight, bias)
        smoothed = F.cross_entropy(logits, expected, label_smoothing=smoothing, reduction="sum")
        with torch.no_grad():
            nll = F.cross_entropy(logits, expected, reduction="sum")
            return Loss(smoothed, nll, (logits.argmax(dim=1) == expected).sum())

    patch.object(workers, "smoothed_cross_entropy", plain).start()
    return ours(shape)


def without_kept_memory(shape: Shape) -> Ours:
    """glibc's allocator as it comes."""
    return Ours(shape.model_config(), shape)


class PlainAdam(Adam):
    """Adam as it comes, which cannot leave an update out by itself."""

    found_inf = property(lambda self: None, lambda self, value: None)


def without_fused_adam(shape: Shape) -> Ours:
    """Adam as it comes."""
    made = ours(shape)
    group = made.guard.optimizer.param_groups[0]
    made.guard.optimizer = PlainAdam(group["params"], betas=group["betas"], eps=group["eps"])
    return made
