"""Diverse beam search (Vijayakumar et al. 2016): groups of rows, each kept away from what those before it chose.

B sentences, G groups of each, N rows of a group, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.decode.candidates import Candidates, best_candidates


def diverse_candidates(scores: Tensor, strength: float) -> Candidates:
    """The candidates of each group of BGNV, in the order of sentences and then of groups.

    A group ranks its continuations by their log-probability, less `strength` for each row of an earlier group of its
    sentence that goes on with the same token in this step. The totals are the model's.
    """
    sentences, groups, rows, size = scores.shape
    chosen = scores.new_zeros(sentences, size)
    found = []
    for group in range(groups):
        own = scores[:, group]
        candidates = best_candidates(own, own - strength * chosen.unsqueeze(1))
        going_on = candidates.going_on
        tokens, totals = candidates.tokens.gather(1, going_on), candidates.totals.gather(1, going_on)
        chosen.scatter_add_(1, tokens, totals.isfinite().to(chosen.dtype))
        first = torch.arange(sentences, device=scores.device).unsqueeze(1) * rows
        moved = first * (groups - 1) + group * rows  # from rows of this group alone to rows of all
        found.append(candidates._replace(rows=candidates.rows + moved))
    return Candidates(*(torch.stack(parts, dim=1).flatten(0, 1) for parts in zip(*found, strict=True)))
