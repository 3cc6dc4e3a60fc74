"""Keys and values that decoding need not compute again.

R rows (sentences x beam), H heads, T past length, K d_k, V d_v.
"""

from __future__ import annotations

import torch
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]


class Cache:
    """The memory's keys and values, once per sentence, and the decoder's own, which grow by a step at a time.

    A cache belongs to one request: it is made by `Transformer.start`, passed to `decode`, and thrown away.
    """

    def __init__(self, memory: list[KeysValues]) -> None:
        self.memory = memory
        self.past: list[KeysValues | None] = [None] * len(memory)

    @property
    def length(self) -> int:
        """How many target positions have been decoded."""
        return 0 if self.past[-1] is None else self.past[-1][0].size(2)

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> KeysValues:
        """Append new positions of one layer; returns all of them so far."""
        past = self.past[layer]
        if past is not None:
            keys, values = torch.cat([past[0], keys], dim=2), torch.cat([past[1], values], dim=2)
        self.past[layer] = keys, values
        return keys, values

    def reorder(self, rows: Tensor) -> None:
        """Make row i the continuation of what was row rows[i]."""
        self.past = [None if p is None else (p[0].index_select(0, rows), p[1].index_select(0, rows)) for p in self.past]

    def keep(self, sentences: Tensor) -> None:
        """Drop the memory of all but these sentences; the rows follow by `reorder`."""
        self.memory = [(k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.memory]
