"""Keys and values that decoding need not compute again.

R rows (sentences x beam), H heads, T past length, K d_k, V d_v.
"""

from __future__ import annotations

import torch
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]


class Cache:
    """The memory's keys and values, once per sentence, and the decoder's own, which grow by a step at a time.

    A cache belongs to one request: it is made by `Transformer.start`, passed to `decode`, and thrown away. A new order
    of rows waits until a layer grows, so that its past is copied once a step and not twice.
    """

    def __init__(self, memory: list[KeysValues]) -> None:
        self.memory = memory
        self._past: list[KeysValues | None] = [None] * len(memory)
        self._orders: list[Tensor | None] = [None] * len(memory)

    @property
    def past(self) -> list[KeysValues | None]:
        """The decoder's keys and values of each layer so far, in the order of rows."""
        self._past = [
            p if p is None or order is None else (p[0].index_select(0, order), p[1].index_select(0, order))
            for p, order in zip(self._past, self._orders, strict=True)
        ]
        self._orders = [None] * len(self._past)
        return self._past

    @past.setter
    def past(self, past: list[KeysValues | None]) -> None:
        self._past, self._orders = past, [None] * len(past)

    @property
    def length(self) -> int:
        """How many target positions have been decoded."""
        return 0 if self._past[-1] is None else self._past[-1][0].size(2)

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> KeysValues:
        """Append new positions of one layer; returns all of them so far."""
        past, order = self._past[layer], self._orders[layer]
        if past is not None:
            keys, values = append(past[0], order, keys), append(past[1], order, values)
        self._past[layer], self._orders[layer] = (keys, values), None
        return keys, values

    def reorder(self, rows: Tensor) -> None:
        """Make row i the continuation of what was row rows[i]."""
        self._orders = [rows if order is None else order.index_select(0, rows) for order in self._orders]

    def keep(self, sentences: Tensor) -> None:
        """Drop the memory of all but these sentences; the rows follow by `reorder`."""
        self.memory = [(k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.memory]


def append(past: Tensor, order: Tensor | None, new: Tensor) -> Tensor:
    """The rows of `past` (RHTK) in a new order, each longer by its own of `new`."""
    if order is None:
        return torch.cat([past, new], dim=2)
    length = past.size(2)
    joined = new.new_empty(*new.shape[:2], length + new.size(2), new.size(3))
    torch.index_select(past, 0, order, out=joined[:, :, :length])
    joined[:, :, length:] = new
    return joined
