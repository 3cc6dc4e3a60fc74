"""What every search keeps to.

A search never chooses PAD or BOS, and ends a sentence at its own length limit by the end token, so that every
hypothesis is complete and none depends on the rest of its batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.text.codec import BOS, PAD


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
