"""Modules in the style of The Annotated Transformer: each a direct reading of a figure or an equation of the paper.

Its choices are kept: pre-norm residuals, a LayerNorm of its own, one projection each for Q, K and V, explicit softmax
attention, log-probabilities from the generator, and label smoothing that writes out the whole target distribution.
Source, target and output share a matrix, as in the paper.
B batch, S source length, T target length, D d_model, H heads, K d_k, V vocabulary.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.batches import PAD
from benchmarks.contenders.loop import SMOOTHING, PlainLoop
from benchmarks.shapes import Shape

LONGEST = 5000


def clones(module: nn.Module, count: int) -> nn.ModuleList:
    """Layers alike, with weights of their own."""
    return nn.ModuleList(copy.deepcopy(module) for _ in range(count))


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: nn.Dropout) -> Tensor:
    """Equation 1."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    scores = scores.masked_fill(mask == 0, -1e9)
    weights: Tensor = dropout(scores.softmax(dim=-1))
    return weights @ value


class LayerNorm(nn.Module):
    """Layer normalisation from its definition."""

    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.ones(features))
        self.b = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """BTD -> BTD."""
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.a * (x - mean) / (std + self.eps) + self.b


class SublayerConnection(nn.Module):
    """A residual connection around a sub-layer of the normed input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = LayerNorm(shape.d_model)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """BTD -> BTD."""
        added: Tensor = x + self.dropout(sublayer(self.norm(x)))
        return added


class MultiHeadedAttention(nn.Module):
    """Four projections and the heads between them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.num_heads = shape.num_heads
        self.linears = clones(nn.Linear(shape.d_model, shape.d_model), 4)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """BTD, BSD, BSD -> BTD; the mask is B1S or BTS."""
        projections = zip(self.linears, (query, key, value), strict=False)
        q, k, v = (
            linear(x).view(x.size(0), -1, self.num_heads, x.size(2) // self.num_heads).transpose(1, 2)  # BTD -> BHTK
            for linear, x in projections
        )
        attended = attention(q, k, v, mask.unsqueeze(1), self.dropout)
        joined: Tensor = self.linears[3](attended.transpose(1, 2).contiguous().flatten(2))
        return joined


class PositionwiseFeedForward(nn.Module):
    """Equation 2."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.inner = nn.Linear(shape.d_model, shape.d_ff)
        self.outer = nn.Linear(shape.d_ff, shape.d_model)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """BTD -> BTD."""
        fed: Tensor = self.outer(self.dropout(self.inner(x).relu()))
        return fed


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attention = MultiHeadedAttention(shape)
        self.feed_forward = PositionwiseFeedForward(shape)
        self.sublayers = clones(SublayerConnection(shape), 2)

    def forward(self, x: Tensor, source_mask: Tensor) -> Tensor:
        """BSD -> BSD."""
        x = self.sublayers[0](x, lambda x: self.self_attention(x, x, x, source_mask))
        fed: Tensor = self.sublayers[1](x, self.feed_forward)
        return fed


class DecoderLayer(nn.Module):
    """Self-attention, attention to the memory, and feed-forward."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attention = MultiHeadedAttention(shape)
        self.source_attention = MultiHeadedAttention(shape)
        self.feed_forward = PositionwiseFeedForward(shape)
        self.sublayers = clones(SublayerConnection(shape), 3)

    def forward(self, x: Tensor, memory: Tensor, source_mask: Tensor, target_mask: Tensor) -> Tensor:
        """BTD -> BTD."""
        x = self.sublayers[0](x, lambda x: self.self_attention(x, x, x, target_mask))
        x = self.sublayers[1](x, lambda x: self.source_attention(x, memory, memory, source_mask))
        fed: Tensor = self.sublayers[2](x, self.feed_forward)
        return fed


class Embeddings(nn.Module):
    """Scaled embeddings plus positions, then dropout."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.table = nn.Embedding(shape.vocabulary, shape.d_model)
        position = torch.arange(LONGEST).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, shape.d_model, 2) * -(math.log(10000.0) / shape.d_model))
        encoding = torch.stack((torch.sin(position * frequency), torch.cos(position * frequency)), dim=2).flatten(1)
        self.encoding = nn.Buffer(encoding)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        """BT -> BTD."""
        scaled = self.table(ids) * math.sqrt(self.table.embedding_dim)
        embedded: Tensor = self.dropout(scaled + self.encoding[: ids.size(1)])
        return embedded


class Generator(nn.Module):
    """Log-probabilities of the next token."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.projection = nn.Linear(table.embedding_dim, table.num_embeddings)
        self.projection.weight = table.weight

    def forward(self, x: Tensor) -> Tensor:
        """BTD -> BTV."""
        return F.log_softmax(self.projection(x), dim=-1)


class EncoderDecoder(nn.Module):
    """Both stacks, the embeddings and the generator."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed = Embeddings(shape)
        self.encoder = clones(EncoderLayer(shape), shape.layers)
        self.encoder_norm = LayerNorm(shape.d_model)
        self.decoder = clones(DecoderLayer(shape), shape.layers)
        self.decoder_norm = LayerNorm(shape.d_model)
        self.generator = Generator(self.embed.table)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """BS, BT -> BTV."""
        length = target.size(1)
        source_mask = (source != PAD).unsqueeze(-2)  # B1S
        subsequent = torch.triu(torch.ones(1, length, length), diagonal=1) == 0
        target_mask = (target != PAD).unsqueeze(-2) & subsequent  # BTT
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, source_mask)
        memory = self.encoder_norm(memory)
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, source_mask, target_mask)
        log_probabilities: Tensor = self.generator(self.decoder_norm(x))
        return log_probabilities


class AnnotatedLoop(PlainLoop):
    """The plain loop with label smoothing by KL divergence from the distribution that is wanted."""

    def loss(self, output: Tensor, expected: Tensor) -> Tensor:
        """BTV, BT -> ()."""
        log_probabilities, expected = output.flatten(0, 1), expected.flatten()
        size = log_probabilities.size(1)
        wanted = torch.full_like(log_probabilities, SMOOTHING / (size - 2))  # neither the gold nor padding
        wanted.scatter_(1, expected.unsqueeze(1), 1 - SMOOTHING)
        wanted[:, PAD] = 0
        wanted.index_fill_(0, (expected == PAD).nonzero().squeeze(1), 0.0)
        return F.kl_div(log_probabilities, wanted, reduction="sum") / (expected != PAD).sum()


def annotated(shape: Shape) -> AnnotatedLoop:
    """A loop around the modules of this file."""
    torch.manual_seed(1)
    return AnnotatedLoop(EncoderDecoder(shape))
