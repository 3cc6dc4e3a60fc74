"""Attention (equation 1) with its gradient written out, for a CPU.

torch's fused attention cannot be given a mask to drop weights by, and is slow where oneDNN multiplies; as separate
operations attention remembers more than its gradient needs. Here the weights are made in place and remembered once.
N batch x heads, T queries, S keys, K d_k, V d_v.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from transduce.model.dropout import factor


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
    """dropout(softmax(scale Q K^T)) V: BHTK, BHSK, BHSV -> BHTV.

    Kept weights are those where `keep` (BHTS) is True; without it, all.
    """
    attended: Tensor = _Attention.apply(q, k, v, may_attend, keep, scale, keep_scale)  # type: ignore[no-untyped-call]
    return attended


class _Attention(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)  # type: ignore[untyped-decorator]
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        may_attend: Tensor | None,
        keep: Tensor | None,
        scale: float,
        keep_scale: float,
    ) -> Tensor:
        heads = (q.size(0), q.size(1))
        q = torch.mul(q, scale, out=q.new_empty(q.shape)).flatten(0, 1)
        k, v = (x.contiguous().flatten(0, 1) for x in (k, v))
        scores = torch.bmm(q, k.transpose(1, 2))  # NTS
        if may_attend is not None:
            refusal = torch.zeros(may_attend.shape, dtype=q.dtype).masked_fill_(~may_attend, float("-inf"))
            scores.unflatten(0, heads).add_(refusal)
        exponentials = scores.sub_(scores.amax(dim=-1, keepdim=True)).exp_()
        normaliser = _row_sums(exponentials).reciprocal_()
        dropped = exponentials if keep is None else _kept(keep, keep_scale, q.dtype).mul_(exponentials)
        attended = torch.bmm(dropped, v).mul_(normaliser)  # the weights are divided by their sum only here
        ctx.save_for_backward(q, k, v, exponentials, normaliser, keep)
        ctx.scale, ctx.keep_scale, ctx.heads = scale, keep_scale, heads
        heads_apart: Tensor = attended.unflatten(0, heads)
        return heads_apart

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, exponentials, normaliser, keep = ctx.saved_tensors
        gradient = upstream[0].flatten(0, 1) * normaliser
        weights_gradient, dropped = torch.bmm(gradient, v.transpose(1, 2)), exponentials
        if keep is not None:
            kept = _kept(keep, ctx.keep_scale, q.dtype)
            weights_gradient.mul_(kept)
            dropped = kept.mul_(exponentials)
        v_gradient = torch.bmm(dropped.transpose(1, 2), gradient)
        # softmax: weights * (their gradient - the mean of it under the weights)
        scores_gradient = weights_gradient.mul_(exponentials)
        mean = _row_sums(scores_gradient).mul_(normaliser)
        scores_gradient.addcmul_(exponentials, mean, value=-1)
        q_gradient = torch.bmm(scores_gradient, k).mul_(ctx.scale)
        k_gradient = torch.bmm(scores_gradient.transpose(1, 2), q)
        gradients = (g.unflatten(0, ctx.heads) for g in (q_gradient, k_gradient, v_gradient))
        return *gradients, None, None, None, None


def _row_sums(x: Tensor) -> Tensor:
    """NTS -> NT1; as a product it is much faster than `sum` for short rows."""
    return x.flatten(0, 1).mv(x.new_ones(x.size(2))).view(*x.shape[:2], 1)


def _kept(keep: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    return factor(keep, scale, dtype).flatten(0, 1)
