"""What every search keeps to.

A search never chooses PAD or BOS, and ends a sentence at its own length limit by the end token, so that every
hypothesis is complete and none depends on the rest of its batch.

R rows, T tokens so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from transduce.config import SearchConfig
from transduce.decode.hypothesis import Request
from transduce.text.codec import BOS, EOS, PAD

NEVER = float("-inf")


def length_limit(request: Request, search: SearchConfig, max_positions: int | None) -> int:
    """How many tokens an output may have, the end token included: its own input's, plus `extra_length`.

    `max_length` may make that less, a longer prefix more; a model's positions end it in any case.
    """
    limit = len(request.source) + 1 + search.extra_length
    if search.max_length is not None:
        limit = min(limit, search.max_length + 1)
    limit = max(limit, len(request.prefix) + 1)
    return limit if max_positions is None else min(limit, max_positions)


def forbid(
    scores: Tensor,
    tokens: Tensor,
    requests: Sequence[Request],
    limits: Sequence[int],
    search: SearchConfig,
    *,
    unmet: Sequence[int] = (),
) -> None:
    """Make what may not come next impossible, in place (RV); `tokens` (RT) begin with BOS.

    Each request has the same number of rows. A prefix is taken as it is; at its limit a sentence can only end; before
    `min_length`, and in the rows that are `unmet`, it cannot.
    """
    rows, length = scores.size(0) // len(requests), tokens.size(1)
    own = [slice(place * rows, (place + 1) * rows) for place in range(len(requests))]
    forced = {place: r.prefix[length - 1] for place, r in enumerate(requests) if length <= len(r.prefix)}
    kept = {place: scores[own[place], token].clone() for place, token in forced.items()}
    scores[:, [PAD, BOS]] = NEVER
    if search.no_repeat and length > search.no_repeat:
        forbid_repeats(scores, tokens[:, 1:], search.no_repeat)
    if unmet:
        scores[list(unmet), EOS] = NEVER
    for place, limit in enumerate(limits):
        if place in forced:
            scores[own[place]] = NEVER
            if length < limit:
                scores[own[place], forced[place]] = kept[place]
        elif length >= limit:
            scores[own[place], :EOS] = scores[own[place], EOS + 1 :] = NEVER
        elif length <= search.min_length:
            scores[own[place], EOS] = NEVER


def forbid_repeats(scores: Tensor, ids: Tensor, size: int) -> None:
    """Make every token impossible that would complete a run of `size` ids a second time."""
    if size == 1:
        scores.scatter_(1, ids, NEVER)
        return
    runs = ids.unfold(1, size - 1, 1)  # RT -> R(T-size+2)(size-1)
    again = (runs[:, :-1] == runs[:, -1:]).all(dim=2)
    places, runs_at = again.nonzero(as_tuple=True)
    scores[places, ids[places, runs_at + size - 1]] = NEVER
