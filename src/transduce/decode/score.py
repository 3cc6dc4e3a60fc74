"""The probability that a model gives to a target it did not choose: for perplexity."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from transduce.model import Transformer
from transduce.text.codec import PAD


@torch.inference_mode()
def target_log_probabilities(model: Transformer, source: Tensor, target: Tensor, expected: Tensor) -> Tensor:
    """The log-probability of each expected token (BT), zero at padding; `target` is `expected` shifted by one."""
    scores = torch.log_softmax(model.logits(model(source, target)), dim=-1)
    chosen = scores.gather(-1, expected.unsqueeze(-1)).squeeze(-1)
    return chosen.masked_fill(expected == PAD, 0.0)


def negative_log_likelihood(model: Transformer, batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> tuple[float, int]:
    """The sum over all expected tokens of all batches, and their number."""
    total, tokens = 0.0, 0
    for source, target, expected in batches:
        total -= float(target_log_probabilities(model, source, target, expected).sum())
        tokens += int((expected != PAD).sum())
    return total, tokens
