"""The attention of a forward pass, kept only when a caller passes one of these in."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class AttentionRecord:
    """Attention weights by layer, each (batch, heads, queries, keys).

    With a cache, each decoding step appends its own row of queries: layer i of step s is at s * layers + i.
    """

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)
