"""R-Drop (Liang et al. 2021): two passes whose dropout differs are to say the same.

The paper's loss is CE1 + CE2 + alpha / 2 (KL(p1 || p2) + KL(p2 || p1)) a token. Half of it is minimised here, so that
alpha is the paper's and the gradient is as large as one pass's: learning rates keep their meaning. The passes are one
batch of 2B rows, each row with masks of its own; both must be remembered anyway until their divergence is known.
As in `loss.py`, the logits are never all there. N target tokens, D d_model, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from transduce.train import loss as loss_module
from transduce.train.feed import LoadedBatch
from transduce.train.loss import Loss, Sums, add_product, product, products_of, rounded_product, wanted


def twice(batch: LoadedBatch) -> LoadedBatch:
    """The batch with each sentence a second time, B rows further down; what is expected is the same for both."""
    present = None
    if batch.present is not None:
        present = torch.cat([batch.present, batch.present + batch.target.numel()])
    source, target = (torch.cat([ids, ids]) for ids in (batch.source, batch.target))
    return replace(batch, source=source, target=target, present=present)


def r_drop(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, expected: Tensor, *, smoothing: float, alpha: float
) -> tuple[Tensor, Loss]:
    """What is differentiated, given the states of both passes one below the other (2ND), and what is told of it.

    The latter is the mean of the two cross-entropies, comparable to the loss of one pass; it has no gradient.
    """
    learning = wanted(hidden, weight, bias)
    halves = _RDrop.apply(hidden, weight, bias, expected, smoothing, alpha, learning)  # type: ignore[no-untyped-call]
    return halves[0], Loss(*halves[1:])


class _RDrop(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        expected: Tensor,
        smoothing: float,
        alpha: float,
        learning: bool,
    ) -> tuple[Tensor, ...]:
        products = products_of(hidden, weight)
        with torch.autocast(hidden.device.type, enabled=False):
            sums = _TwoPasses(
                hidden.to(weight.dtype),
                weight,
                bias,
                smoothing=smoothing,
                alpha=alpha,
                products=products,
                learning=learning,
            )
            rows = max(1, loss_module.CHUNK_ELEMENTS // (2 * weight.size(0)))
            for start in range(0, len(expected), rows):
                sums.add(slice(start, start + rows), expected[start : start + rows, None])
            sums.finish()
        ctx.save_for_backward(*sums.gradients)
        ctx.dtype = hidden.dtype
        objective = sums.smoothed + alpha / 2 * sums.divergence
        told = sums.smoothed / 2, sums.nll / 2, sums.correct / 2
        ctx.mark_non_differentiable(*told)
        return objective / 2, *told

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        half = upstream[0] / 2
        of_hidden, *others = (None if g is None else g * half for g in ctx.saved_tensors)
        return None if of_hidden is None else of_hidden.to(ctx.dtype), *others, None, None, None, None


class _TwoPasses(Sums):
    """Sums over both passes of the paper's loss, not halved, and its gradients.

    With r = log p1 - log p2 the gradient of KL(p1 || p2) + KL(p2 || p1) by the first pass's logits is
    p1 (1 + r - KL(p1 || p2)) - p2, and by the second's p2 (1 - r - KL(p2 || p1)) - p1.
    """

    def __init__(
        self,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        *,
        smoothing: float,
        alpha: float,
        products: torch.dtype,
        learning: bool,
    ) -> None:
        super().__init__(hidden, weight, bias, smoothing, products, learning)
        self.alpha, self.divergence = alpha, hidden.new_zeros(())

    def add(self, rows: slice, gold: Tensor) -> None:
        """Some tokens, which are `gold` (N1), in both passes."""
        states, products = self.hidden.unflatten(0, (2, -1))[:, rows].flatten(0, 1), self.factor.dtype
        logits = product(states.to(products), self.factor.t())
        if self.bias is not None:
            logits += self.bias
        logarithms, gold = logits.log_softmax(dim=1), torch.cat([gold, gold])
        del logits
        of_gold = logarithms.gather(1, gold)
        spread = logarithms.mean(dim=1, keepdim=True)
        self.nll -= of_gold.sum()
        self.smoothed -= ((1 - self.smoothing) * of_gold + self.smoothing * spread).sum()
        self.correct += (of_gold == logarithms.amax(dim=1, keepdim=True)).sum()
        first, second = logarithms.chunk(2)
        ratio = first - second
        probabilities = logarithms.exp_()
        p1, p2 = probabilities.chunk(2)
        forth, back = (p1 * ratio).sum(dim=1, keepdim=True), -(p2 * ratio).sum(dim=1, keepdim=True)
        self.divergence += forth.sum() + back.sum()
        if self.hidden_gradient is None or self.weight_gradient is None:
            return
        gradient, half = torch.empty_like(probabilities), self.alpha / 2
        of_first, of_second = gradient.chunk(2)
        torch.add(1 + half - half * forth, ratio, alpha=half, out=of_first).mul_(p1).sub_(p2, alpha=half)
        torch.sub(1 + half - half * back, ratio, alpha=half, out=of_second).mul_(p2).sub_(p1, alpha=half)
        gradient.scatter_add_(1, gold, gradient.new_full(gold.shape, self.smoothing - 1))
        if self.bias_gradient is not None:
            self.bias_gradient += gradient.sum(dim=0)
        gradient = gradient.to(products)
        both = rounded_product(gradient, self.factor).unflatten(0, (2, -1))
        self.hidden_gradient.unflatten(0, (2, -1))[:, rows] = both
        add_product(self.weight_gradient, gradient.t(), states.to(products))
