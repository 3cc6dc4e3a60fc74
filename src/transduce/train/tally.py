"""What happened since the last report."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.train.loss import Loss


@dataclass
class Tally:
    """Sums since the last report; kept as tensors, so that no step waits for a number."""

    smoothed: Tensor
    nll: Tensor
    correct: Tensor
    learned: Tensor  # tokens of updates that were made
    tokens: int = 0
    updates: int = 0

    @classmethod
    def empty(cls) -> Tally:
        """Nothing yet."""
        whole = torch.zeros((), dtype=torch.int64)
        return cls(torch.zeros(()), torch.zeros(()), whole, whole)

    def add(self, loss: Loss, tokens: int, made: Tensor) -> None:
        """One update more; of one that was not made only the time counts."""
        self.smoothed = self.smoothed + torch.where(made, loss.smoothed, 0)
        self.nll = self.nll + torch.where(made, loss.nll, 0)
        self.correct = self.correct + loss.correct * made
        self.learned = self.learned + tokens * made
        self.tokens += tokens
        self.updates += 1

    @property
    def loss(self) -> float:
        """Smoothed, a token."""
        return self._mean(self.smoothed)

    @property
    def perplexity(self) -> float:
        """Unsmoothed; an overflow is cut off."""
        return math.exp(min(self._mean(self.nll), 700.0))

    @property
    def accuracy(self) -> float:
        """The share of tokens that were thought likeliest."""
        return self._mean(self.correct)

    def _mean(self, total: Tensor) -> float:
        return total.item() / max(1, int(self.learned))
