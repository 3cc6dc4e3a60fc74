"""Continuations of a beam, best first.

U beams (a sentence's, or a group's of a sentence), N rows of each, C = 2 x N candidates, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from transduce.text.codec import EOS

BLOCK = 64


class Candidates(NamedTuple):
    """All UC: log-probabilities of whole outputs, the rows that they continue, and the tokens they continue them by."""

    totals: Tensor
    rows: Tensor
    tokens: Tensor

    @property
    def finished(self) -> Tensor:
        """Which of them end an output: those with the end token among the first N."""
        ending = (self.tokens == EOS) & self.totals.isfinite()
        ending[:, ending.size(1) // 2 :] = False
        return ending

    @property
    def going_on(self) -> Tensor:
        """The places of the first N that do not end: UN."""
        count = self.tokens.size(1)
        ranks = torch.arange(count, device=self.tokens.device) + (self.tokens == EOS) * count
        return ranks.topk(count // 2, largest=False).indices


def best_candidates(scores: Tensor, order_by: Tensor | None = None) -> Candidates:
    """The best C of UNV, rows counted from the first of all; `order_by` ranks them otherwise than their scores do."""
    beams, rows, size = scores.shape
    flat = scores.flatten(1)
    if order_by is None:
        totals, indices = top(flat, 2 * rows)
    else:
        indices = top(order_by.flatten(1), 2 * rows)[1]
        totals = flat.gather(1, indices)
    first = torch.arange(beams, device=scores.device).unsqueeze(1) * rows
    return Candidates(totals, first + indices // size, indices % size)


def top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`scores.topk(count)` of each row: the best are in the blocks with the best maxima, and only those are sorted."""
    size = scores.size(1)
    blocks = size // BLOCK
    if blocks < 4 * count:
        found = scores.topk(count)
        return found.values, found.indices
    whole = scores[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    best = whole.amax(dim=2).topk(count).indices  # of blocks
    inside = whole.gather(1, best.unsqueeze(2).expand(-1, -1, BLOCK)).flatten(1)
    values, places = torch.cat([inside, scores[:, blocks * BLOCK :]], dim=1).topk(count)
    in_block = best.gather(1, (places // BLOCK).clamp(max=count - 1)) * BLOCK + places % BLOCK
    return values, torch.where(places < count * BLOCK, in_block, places + (blocks - count) * BLOCK)
