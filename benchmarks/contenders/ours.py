"""The package's own model, loss, dropout, optimiser and allocator, put together as `Trainer` does."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from benchmarks.batches import Batch
from benchmarks.contenders.loop import LEARNING_RATE, SMOOTHING
from benchmarks.shapes import Shape
from transduce.config import ModelConfig, TrainConfig
from transduce.data import batching
from transduce.model import Transformer
from transduce.train.allocator import keep_freed_memory
from transduce.train.feed import LoadedBatch, load, parted
from transduce.train.guard import Guard
from transduce.train.loop import make_optimizer
from transduce.train.workers import Workers


class Ours:
    """One update as in `train/loop.py:Loop.update`."""

    def __init__(self, config: ModelConfig, shape: Shape) -> None:
        torch.manual_seed(1)
        self.model = Transformer(config, shape.vocabulary, shape.vocabulary)
        train = TrainConfig(batch_tokens=shape.tokens, micro_batch_tokens=shape.tokens, label_smoothing=SMOOTHING)
        self.workers = Workers(self.model, train)
        self.guard = Guard(self.model, make_optimizer(self.model, train), train)
        self.rate = LEARNING_RATE

    def update(self, batch: Batch, number: int) -> Tensor:
        """One update."""
        loss = self.workers.backward(self.parts(batch), number)
        self.guard.apply(number, np.arange(len(batch.source)), loss, self.rate)
        assert [verdict.culprit for verdict in self.guard.read()] == [None]
        return loss.smoothed / batch.tokens

    def parts(self, batch: Batch) -> list[LoadedBatch]:
        """The same sentences, dealt out to the workers as `train/feed.py:updates` does."""
        found = []
        for part in parted(np.arange(len(batch.source)), self.workers.count):
            source, target = (int(lengths[part].max()) for lengths in batch.lengths)
            ids = batch.source[part, :source], batch.target[part, :target], batch.expected[part, :target]
            tokens = [int(lengths[part].sum()) for lengths in reversed(batch.lengths)]
            found.append(load(batching.Batch(*ids, *tokens), self.workers.device))
        return found


def ours(shape: Shape) -> Ours:
    """Dropout at all places."""
    keep_freed_memory()
    return Ours(shape.model_config(), shape)


def ours_residual(shape: Shape) -> Ours:
    """Dropout where the paper and the presets have it: less work than the others do."""
    keep_freed_memory()
    return Ours(shape.residual_dropout_config(), shape)
