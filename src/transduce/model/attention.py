"""Attention (section 3.2).

B batch, R rows (B x beam), T queries, S keys, D d_model, H heads, K d_k, V d_v.
A mask is True where a query may attend.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.model.cache import Cache, KeysValues
from transduce.model.dropout import Dropout, Noise
from transduce.model.products import HALVES, onednn_multiplies
from transduce.model.window import windowed
from transduce.model.written_out import attend

SHORT = 256 * 256  # of a head's weights


def scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, may_attend: Tensor | None = None) -> Tensor:
    """Equation 1: softmax(Q K^T / sqrt(d_k)) V."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return attention_weights(scores, may_attend) @ v


def attention_weights(scores: Tensor, may_attend: Tensor | None) -> Tensor:
    """Softmax over the keys that may be attended to; every query must have one."""
    if may_attend is not None:
        scores = scores.masked_fill(~may_attend, float("-inf"))
    return scores.softmax(dim=-1)


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """The last query sees all keys, the one before it all but the last, and so on."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


class Compatibility(nn.Module):
    """The attention function with the compatibility that section 3.2.1 names: scaled, unscaled or additive."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.scale = config.key_width**-0.5 if config.attention == "scaled" else 1.0
        self.dropout = Dropout(config.attention_dropout)
        self.hidden: nn.Parameter | None = None
        if config.attention == "additive":
            self.hidden = nn.Parameter(torch.empty(config.num_heads, config.key_width))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        may_attend: Tensor | None,
        *,
        noise: Noise | None = None,
        record: list[Tensor] | None = None,
    ) -> Tensor:
        """BHTK, BHSK, BHSV -> BHTV."""
        if record is None and self.hidden is None:
            rate = 0.0 if noise is None else self.dropout.rate
            keep = self.dropout.keep((*q.shape[:-1], k.size(-2)), noise) if q.device.type == "cpu" else None
            if keep is not None or (noise is not None and written_out_is_faster(q, k)):
                return attend(q, k, v, may_attend, keep, scale=self.scale, keep_scale=self.dropout.scale)
            return F.scaled_dot_product_attention(q, k, v, may_attend, rate, scale=self.scale)
        weights = attention_weights(self.scores(q, k), may_attend)
        if record is not None:
            record.append(weights.detach())
        attended: Tensor = self.dropout(weights, noise) @ v
        return attended

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """How well each query fits each key: BHTK, BHSK -> BHTS."""
        if self.hidden is None:
            return (q * self.scale) @ k.transpose(-2, -1)
        joined = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))  # BHTSK
        return torch.einsum("bhtsk,hk->bhts", joined, self.hidden)


def written_out_is_faster(q: Tensor, k: Tensor) -> bool:
    """Whether to train by `attend`: torch's fused attention asks oneDNN for many small products, each set up anew.

    Not for long sequences, whose weights would have to be remembered.
    """
    by_onednn = q.dtype in HALVES or (q.dtype == torch.float32 and onednn_multiplies())
    return by_onednn and q.device.type == "cpu" and q.size(-2) * k.size(-2) <= SHORT


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself; Q, K and V of all heads are one projection."""

    def __init__(self, config: ModelConfig, *, causal: bool) -> None:
        super().__init__()
        self.num_heads, self.causal, self.window = config.num_heads, causal, config.window
        self.widths = [config.num_heads * w for w in (config.key_width, config.key_width, config.value_width)]
        self.qkv = nn.Linear(config.d_model, sum(self.widths), bias=config.attention_bias)
        self.compatibility = Compatibility(config)
        self.output = nn.Linear(self.widths[2], config.d_model, bias=config.attention_bias)

    def forward(
        self,
        x: Tensor,
        may_attend: Tensor | None,
        *,
        cache: Cache | None = None,
        layer: int = 0,
        noise: Noise | None = None,
        record: list[Tensor] | None = None,
    ) -> Tensor:
        """BTD -> BTD; `may_attend` (B1TS) is the whole mask, causality included, except with a window."""
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).split(self.widths, dim=-1))
        if cache is not None:
            k, v = cache.extend(layer, k, v)
        if self.window is not None:
            attended = windowed(
                self.compatibility,
                q,
                k,
                v,
                may_attend,
                self.window,
                causal=self.causal,
                noise=noise,
                record=record,
            )
        else:
            attended = self.compatibility(q, k, v, may_attend, noise=noise, record=record)
        projected: Tensor = self.output(join_heads(attended))
        return projected


class CrossAttention(nn.Module):
    """Multi-head attention of the decoder to the memory, whose keys and values the decoder has projected."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.query = nn.Linear(config.d_model, config.num_heads * config.key_width, bias=config.attention_bias)
        self.compatibility = Compatibility(config)
        self.output = nn.Linear(config.num_heads * config.value_width, config.d_model, bias=config.attention_bias)

    def forward(
        self,
        x: Tensor,
        memory: KeysValues,
        may_attend: Tensor | None,
        *,
        noise: Noise | None = None,
        record: list[Tensor] | None = None,
    ) -> Tensor:
        """RTD -> RTD: the beams of a sentence are queries to its one memory, which is never copied."""
        rows, length, _ = x.shape
        sentences = memory[0].size(0)
        q = split_heads(self.query(x).view(sentences, -1, self.query.out_features), self.num_heads)
        attended = self.compatibility(q, *memory, may_attend, noise=noise, record=record)
        projected: Tensor = self.output(join_heads(attended).view(rows, length, -1))
        return projected


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """BT(HK) -> BHTK."""
    heads: Tensor = x.unflatten(-1, (num_heads, -1))
    return heads.transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """BHTV -> BT(HV)."""
    return x.transpose(1, 2).flatten(2)
