"""Encoder and decoder layers (section 3.1) and the position-wise feed-forward network (section 3.3)."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.model.attention import CrossAttention, SelfAttention
from transduce.model.cache import Cache, KeysValues
from transduce.model.dropout import Dropout, Noise
from transduce.model.record import AttentionRecord

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2 (equation 2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.relu_dropout)

    def forward(self, x: Tensor, noise: Noise | None) -> Tensor:
        """BTD -> BTD, each position by itself."""
        inner = self.inner(x)
        relu = self.activation is F.relu
        hidden = self.dropout.relu(inner, noise) if relu else self.dropout(self.activation(inner), noise)
        projected: Tensor = self.outer(hidden)
        return projected


class Residual(nn.Module):
    """The residual connection and layer normalisation around each sub-layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)
        self.norm_first = config.norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], noise: Noise | None) -> Tensor:
        """LayerNorm(x + Sublayer(x)) as published, or x + Sublayer(LayerNorm(x))."""
        if self.norm_first:
            return self.dropout.add(x, sublayer(self.norm(x)), noise)
        normed: Tensor = self.norm(self.dropout.add(x, sublayer(x), noise))
        return normed


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config, causal=False)
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self, x: Tensor, may_attend: Tensor | None, *, noise: Noise | None, record: AttentionRecord | None
    ) -> Tensor:
        """BSD -> BSD."""
        weights = None if record is None else record.encoder
        x = self.self_residual(x, lambda x: self.self_attention(x, may_attend, noise=noise, record=weights), noise)
        fed: Tensor = self.feed_forward_residual(x, lambda x: self.feed_forward(x, noise), noise)
        return fed


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the memory, then the feed-forward network."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.self_attention = SelfAttention(config, causal=True)
        self.self_residual = Residual(config)
        self.cross_attention = CrossAttention(config)
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x: Tensor,
        past_may_attend: Tensor | None,
        memory: KeysValues,
        memory_may_attend: Tensor | None,
        *,
        cache: Cache | None,
        noise: Noise | None,
        record: AttentionRecord | None,
    ) -> Tensor:
        """RTD -> RTD."""
        own, cross = (None, None) if record is None else (record.decoder, record.cross)
        x = self.self_residual(
            x,
            lambda x: self.self_attention(x, past_may_attend, cache=cache, layer=self.layer, noise=noise, record=own),
            noise,
        )
        x = self.cross_residual(
            x, lambda x: self.cross_attention(x, memory, memory_may_attend, noise=noise, record=cross), noise
        )
        fed: Tensor = self.feed_forward_residual(x, lambda x: self.feed_forward(x, noise), noise)
        return fed
