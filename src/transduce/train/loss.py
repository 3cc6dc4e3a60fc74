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

from transduce.model.products import HALVES

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
    learning = wanted(hidden, weight, bias)
    sums = _ProjectedCrossEntropy.apply(hidden, weight, bias, expected, smoothing, learning)  # type: ignore[no-untyped-call]
    return Loss(*sums)


def wanted(*inputs: Tensor | None) -> bool:
    """Whether gradients are to be computed; within a Function's forward it is too late to ask."""
    # ctx.needs_input_grad does not know of no_grad, and a Function's forward always runs without gradients
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs)


def products_of(hidden: Tensor, weight: Tensor) -> torch.dtype:
    """The precision of matrix products: autocast's where it is on, else the weights'."""
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype


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
        products = products_of(hidden, weight)
        with torch.autocast(hidden.device.type, enabled=False):
            sums = Sums(hidden.to(weight.dtype), weight, bias, smoothing, products, learning)
            rows = max(1, CHUNK_ELEMENTS // weight.size(0))
            for start in range(0, hidden.size(0), rows):
                sums.add(slice(start, start + rows), expected[start : start + rows, None])
            sums.finish()
        ctx.save_for_backward(*sums.gradients)
        ctx.dtype = hidden.dtype
        ctx.mark_non_differentiable(sums.nll, sums.correct)
        return sums.smoothed, sums.nll, sums.correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        of_hidden, *others = (None if g is None else g * upstream[0] for g in ctx.saved_tensors)
        return None if of_hidden is None else of_hidden.to(ctx.dtype), *others, None, None, None


class Sums:
    """Loss and gradients so far; matrix products are in the precision of `products`, all sums in that of the weights.

    The gradient by the logits is softmax - (1 - eps) onehot - eps / V. Rows are kept as exponentials, that is times
    their own total, which is divided out of the smaller factor of each product; the last term comes in `finish`.
    """

    def __init__(
        self,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        smoothing: float,
        products: torch.dtype,
        learning: bool,
    ) -> None:
        self.hidden, self.weight, self.bias, self.smoothing = hidden, weight, bias, smoothing
        self.factor = weight.to(products)
        self.mean_weight, self.mean_bias = weight.mean(dim=0), 0.0 if bias is None else bias.mean()
        self.smoothed, self.nll = hidden.new_zeros(()), hidden.new_zeros(())
        self.correct = torch.zeros((), dtype=torch.int64, device=hidden.device)
        self.hidden_gradient = torch.empty_like(hidden) if learning else None
        self.weight_gradient = torch.zeros_like(weight) if learning else None
        self.bias_gradient = torch.zeros_like(bias) if learning and bias is not None else None

    @property
    def gradients(self) -> tuple[Tensor | None, ...]:
        """By hidden, weight and bias."""
        return self.hidden_gradient, self.weight_gradient, self.bias_gradient

    def add(self, rows: slice, gold: Tensor) -> None:
        """Some rows of `hidden`, whose tokens are `gold` (N1)."""
        states, products = self.hidden[rows], self.factor.dtype
        logits = product(states.to(products), self.factor.t())
        if self.bias is not None:
            logits += self.bias
        best = logits.amax(dim=1, keepdim=True)
        gold_logit = logits.gather(1, gold)
        mean_logit = (states @ self.mean_weight + self.mean_bias)[:, None]
        exponentials = logits.sub_(best).exp_()
        total = exponentials.sum(dim=1, keepdim=True)
        normaliser = total.log() + best
        self.nll += (normaliser - gold_logit).sum()
        self.smoothed += (normaliser - (1 - self.smoothing) * gold_logit - self.smoothing * mean_logit).sum()
        self.correct += (gold_logit == best).sum()
        if self.hidden_gradient is None or self.weight_gradient is None:
            return
        gradient = exponentials.scatter_add_(1, gold, total * (self.smoothing - 1))
        if self.bias_gradient is not None:
            self.bias_gradient += torch.mv(gradient.t(), total.reciprocal().squeeze(1))
        gradient = gradient.to(products)
        torch.div(rounded_product(gradient, self.factor), total, out=self.hidden_gradient[rows])
        add_product(self.weight_gradient, gradient.t(), (states / total).to(products))

    def finish(self) -> None:
        """Take the part that is eps / V everywhere off the gradients."""
        if self.hidden_gradient is None or self.weight_gradient is None:
            return
        spread = self.smoothing / self.weight.size(0)
        self.hidden_gradient.sub_(self.mean_weight, alpha=self.smoothing)
        self.weight_gradient.sub_(self.hidden.sum(dim=0), alpha=spread)
        if self.bias_gradient is not None:
            self.bias_gradient -= spread * self.hidden.size(0)


def product(a: Tensor, b: Tensor) -> Tensor:
    """A matrix product whose sums are in float32 at least, however the factors are rounded."""
    if a.dtype not in HALVES:
        return a @ b
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float()


def rounded_product(a: Tensor, b: Tensor) -> Tensor:
    """As `product`, but on a CPU rounded as its factors are, which is twice as fast: for gradients."""
    return product(a, b) if a.is_cuda else (a @ b).float() if a.dtype in HALVES else a @ b


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a matrix product to `total`, whose precision it may fall short of."""
    if a.dtype == total.dtype:
        total.addmm_(a, b)
    else:
        total += rounded_product(a, b)
