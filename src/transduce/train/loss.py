"""Output projection and label-smoothed cross-entropy as one function (section 5.4).

The logits of a batch are its largest tensor by far. They are made a few rows at a time, turned into their own gradient
in place and dropped, so that they stay in the cache and are never all there.
N target tokens, D d_model, V vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_ELEMENTS = 2**21  # logits at once: 8 MB in float32


class Loss(NamedTuple):
    """Sums over the tokens of a batch; only `smoothed` has a gradient."""

    smoothed: Tensor
    nll: Tensor
    correct: Tensor


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, expected: Tensor, smoothing: float
) -> Loss:
    """The loss of `expected` (N) given `hidden` (ND): 1 - eps of the target is the gold, eps is spread over V."""
    # ctx.needs_input_grad does not know of no_grad, and a Function's forward always runs without gradients
    learning = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (hidden, weight, bias))
    sums = _ProjectedCrossEntropy.apply(hidden, weight, bias, expected, smoothing, learning)  # type: ignore[no-untyped-call]
    return Loss(*sums)


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        expected: Tensor,
        smoothing: float,
        learning: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        size = weight.size(0)
        hidden_gradient = torch.empty_like(hidden) if learning else None
        weight_gradient = torch.zeros_like(weight) if learning else None
        bias_gradient = torch.zeros_like(bias) if learning and bias is not None else None
        smoothed, nll = hidden.new_zeros(()), hidden.new_zeros(())
        correct = torch.zeros((), dtype=torch.int64, device=hidden.device)
        rows = max(1, CHUNK_ELEMENTS // size)
        for start in range(0, hidden.size(0), rows):
            states, gold = hidden[start : start + rows], expected[start : start + rows, None]
            logits = states @ weight.t() if bias is None else torch.addmm(bias, states, weight.t())
            best = logits.amax(dim=1, keepdim=True)
            gold_logit = logits.gather(1, gold)
            mean_logit = logits.mean(dim=1, keepdim=True)
            exponentials = logits.sub_(best).exp_()
            total = exponentials.sum(dim=1, keepdim=True)
            normaliser = total.log() + best
            nll += (normaliser - gold_logit).sum()
            smoothed += (normaliser - (1 - smoothing) * gold_logit - smoothing * mean_logit).sum()
            correct += (gold_logit == best).sum()
            if hidden_gradient is None or weight_gradient is None:
                continue
            gradient = exponentials.div_(total)  # softmax - (1 - eps) onehot - eps / V
            gradient.sub_(smoothing / size)
            gradient.scatter_add_(1, gold, gradient.new_full(gold.shape, smoothing - 1))
            torch.mm(gradient, weight, out=hidden_gradient[start : start + rows])
            weight_gradient.addmm_(gradient.t(), states)
            if bias_gradient is not None:
                bias_gradient += gradient.sum(dim=0)
        ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        ctx.mark_non_differentiable(nll, correct)
        return smoothed, nll, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (None if g is None else g * upstream[0] for g in ctx.saved_tensors)
        return *gradients, None, None, None
