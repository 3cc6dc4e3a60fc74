"""Restricted self-attention by blocks: O(r n d) instead of O(n^2 d) (section 4, Table 1).

A position sees its neighbourhood of size r: positions at most r // 2 away, and for the decoder only those before it.
B batch, H heads, T length, C blocks, W block length, K d_k, V d_v.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.model.dropout import Noise


class AttentionFunction(Protocol):
    """What runs inside each block."""

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        may_attend: Tensor | None,
        *,
        noise: Noise | None,
        record: list[Tensor] | None,
    ) -> Tensor:
        """BHTK, BHSK, BHSV -> BHTV."""
        ...


def in_window(queries: Tensor, keys: Tensor, window: int, *, causal: bool) -> Tensor:
    """Whether a query position may see a key position: the plain form of the restriction."""
    distance = queries.unsqueeze(-1) - keys.unsqueeze(-2)
    lowest = 0 if causal else -(window // 2)
    return (distance <= window // 2) & (distance >= lowest)


def windowed(
    attend: AttentionFunction,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    may_attend: Tensor | None,
    window: int,
    *,
    causal: bool,
    noise: Noise | None,
    record: list[Tensor] | None,
) -> Tensor:
    """Attention in which each block of queries meets only its own and the neighbouring blocks of keys.

    `may_attend` (B11S) says which keys are not padding. Fewer queries than keys is a decoding step: the queries are
    the last positions, and only the keys within reach of them are looked at.
    """
    if q.size(2) < k.size(2):
        return _last_positions(attend, q, k, v, window, noise=noise, record=record)
    batch, _, length, _ = q.shape
    width = max(1, window // 2)
    sides = 1 if causal else 2
    queries = _blocks(q, width)  # BHTK -> (BC)HWK
    keys = _neighbours(k, width, sides)  # BHTK -> (BC)H(W+sides*W)K
    values = _neighbours(v, width, sides)
    blocks = queries.size(0) // batch
    query_at = torch.arange(blocks * width, device=q.device).view(blocks, width)
    key_at = query_at[:, :1] - width + torch.arange((1 + sides) * width, device=q.device)
    visible = in_window(query_at, key_at, window, causal=causal)
    present = (key_at >= 0) & (key_at < length)  # C(W..)
    if may_attend is None:
        present = present.expand(batch, -1, -1)
    else:
        padded = may_attend.expand(batch, 1, 1, length).flatten(1)
        present = present & padded[:, key_at.clamp(0, length - 1)]
    # a query always sees itself, so that no row of the softmax is empty
    itself = query_at.unsqueeze(-1) == key_at.unsqueeze(-2)
    mask = (visible & present.unsqueeze(2) | itself).flatten(0, 1).unsqueeze(1)  # (BC)1W(W..)
    local: list[Tensor] | None = None if record is None else []
    attended = attend(queries, keys, values, mask, noise=noise, record=local)
    if record is not None and local is not None:
        record.append(_dense(local[0], key_at, batch, length))
    joined: Tensor = attended.unflatten(0, (batch, blocks)).transpose(1, 2).flatten(2, 3)
    return joined[:, :, :length]  # BHTV


def _last_positions(
    attend: AttentionFunction,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    window: int,
    *,
    noise: Noise | None,
    record: list[Tensor] | None,
) -> Tensor:
    end, start = k.size(2), max(0, k.size(2) - q.size(2) - window // 2)
    queries = torch.arange(end - q.size(2), end, device=q.device)
    mask = in_window(queries, torch.arange(start, end, device=q.device), window, causal=True)
    attended = attend(q, k[:, :, start:], v[:, :, start:], mask, noise=noise, record=record)
    if record is not None:
        record[-1] = F.pad(record[-1], (start, 0))
    return attended


def _blocks(x: Tensor, width: int) -> Tensor:
    padded = F.pad(x, (0, 0, 0, -x.size(2) % width))
    blocks: Tensor = padded.unflatten(2, (-1, width))
    return blocks.transpose(1, 2).flatten(0, 1)


def _neighbours(x: Tensor, width: int, sides: int) -> Tensor:
    after = -x.size(2) % width + (width if sides == 2 else 0)
    padded = F.pad(x, (0, 0, width, after))
    windows = padded.unfold(2, (1 + sides) * width, width)  # BHC K (W..)
    return windows.permute(0, 2, 1, 4, 3).flatten(0, 1)


def _dense(local: Tensor, key_at: Tensor, batch: int, length: int) -> Tensor:
    """The weights of all blocks as one (B, H, T, T) tensor, zero outside the windows."""
    blocks, width = key_at.size(0), local.size(2)
    weights = local.unflatten(0, (batch, blocks))  # BCHW(W..)
    full = local.new_zeros(batch, local.size(1), blocks * width, length + 3 * width)
    for block in range(blocks):
        columns = key_at[block] + width  # the first block's neighbours start before 0
        full[:, :, block * width : (block + 1) * width, columns] = weights[:, block]
    return full[:, :, :length, width : width + length]
