"""Training loops to compare: ours and a plain torch.nn.Transformer.

Each takes the same batches, drops at the same places, and does one Adam update a batch.
B batch, S source length, T target length, D d_model, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.config import ModelConfig, TrainConfig
from transduce.data.batching import Batch
from transduce.model import Noise, Transformer
from transduce.model.positions import sinusoids
from transduce.train.loop import batch_loss, make_optimizer

PAD = 0
SMOOTHING = 0.1


class Contender(Protocol):
    """A model that can be trained by one batch."""

    name: str

    def update(self, batch: Batch, number: int) -> None:
        """One update."""
        ...


class Transduce:
    """The package's own model, loss, dropout and optimiser."""

    name = "transduce"

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        torch.manual_seed(1)
        self.model = Transformer(config, vocabulary, vocabulary)
        self.optimizer = make_optimizer(self.model, TrainConfig())
        self.optimizer.param_groups[0]["lr"] = 1e-4

    def update(self, batch: Batch, number: int) -> None:
        loss = batch_loss(self.model, batch, Noise(1, number), SMOOTHING)
        (loss.smoothed / batch.tokens).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class PlainModel(nn.Module):
    """torch.nn.Transformer with tied embeddings: what a user writes from the tutorial."""

    def __init__(self, config: ModelConfig, vocabulary: int, stacks: nn.Module) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.register_buffer("positions", sinusoids(0, 512, config.d_model))
        self.dropout = nn.Dropout(config.dropout)
        self.stacks = stacks

    def embed(self, ids: Tensor) -> Tensor:
        scaled = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions[: ids.size(1)])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1), dtype=torch.bool)
        hidden = self.stacks(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(hidden, self.embedding.weight)


class Plain:
    """A plain loop around a module that gives logits."""

    def __init__(self, name: str, model: nn.Module) -> None:
        self.name, self.model = name, model.train()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def update(self, batch: Batch, number: int) -> None:
        source, target, expected = map(torch.from_numpy, (batch.source, batch.target, batch.expected))
        logits = self.model(source, target)
        loss = F.cross_entropy(logits.flatten(0, 1), expected.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def torch_nn(config: ModelConfig, vocabulary: int) -> Plain:
    """A torch.nn.Transformer loop; its dropout is also on attention weights and inside the FFN."""
    torch.manual_seed(1)
    stacks = nn.Transformer(
        config.d_model,
        config.num_heads,
        config.encoder_layers,
        config.decoder_layers,
        config.d_ff,
        config.dropout,
        batch_first=True,
    )
    stacks.encoder.norm = stacks.decoder.norm = None
    return Plain("torch.nn.Transformer loop", PlainModel(config, vocabulary, stacks))
