"""The plain training loop that people write around a module of theirs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.batches import PAD, Batch

SMOOTHING = 0.1
LEARNING_RATE = 1e-4


class PlainLoop:
    """Trains a module that maps source and target ids to logits."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model.train()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9)

    def update(self, batch: Batch, number: int) -> Tensor:
        """One update."""
        source, target, expected = map(torch.from_numpy, (batch.source, batch.target, batch.expected))
        loss = self.loss(self.model(source, target), expected)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def loss(self, output: Tensor, expected: Tensor) -> Tensor:
        """Label-smoothed cross-entropy, the mean over target tokens: BTV, BT -> ()."""
        return F.cross_entropy(output.flatten(0, 1), expected.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)
