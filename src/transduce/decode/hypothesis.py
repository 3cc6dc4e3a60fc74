"""What a search returns, and the limits it keeps.

A search never chooses PAD or BOS, and ends a sentence at its own length limit by the end token, so that every
hypothesis is complete and none depends on the rest of its batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.text.codec import BOS, PAD


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: ids without the end token, its log-probability with it, and the score it is ranked by."""

    ids: tuple[int, ...]
    log_probability: float
    score: float


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha, the length counting the end token (section 6.1, after GNMT)."""
    return float(((5 + length) / 6) ** alpha)


def length_limits(source: Tensor, extra_length: int, config: ModelConfig) -> list[int]:
    """How many tokens each sentence's output may have, the end token included: its own input's, plus `extra_length`."""
    limits = (source != PAD).sum(dim=1) + extra_length
    if config.positions == "learned":
        limits = limits.clamp(max=config.max_positions)
    return [int(limit) for limit in limits]


def log_probabilities(logits: Tensor) -> Tensor:
    """Log-probabilities in which PAD and BOS can never be chosen: RV -> RV."""
    scores = torch.log_softmax(logits, dim=-1)
    scores[:, [PAD, BOS]] = float("-inf")
    return scores
