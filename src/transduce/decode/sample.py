"""Outputs drawn by their probability.

What is drawn for a sentence follows from the seed and its ids: no batch and no other sentence changes it.

R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from transduce.config import SearchConfig
from transduce.decode.greedy import walk
from transduce.decode.hypothesis import Hypothesis, Request
from transduce.model import Transformer


def sample(
    models: Sequence[Transformer],
    source: Tensor,
    requests: Sequence[Request],
    limits: Sequence[int],
    search: SearchConfig,
) -> list[list[Hypothesis]]:
    """`search.beam` outputs of each request, as they were drawn; log-probabilities are the model's."""
    draws = range(search.beam)
    chances = [
        np.random.default_rng([search.seed, draw, *request.source]).random(limit)
        for request, limit in zip(requests, limits, strict=True)
        for draw in draws
    ]
    step = 0

    def choose(scores: Tensor, places: Sequence[int]) -> Tensor:
        nonlocal step
        at = torch.tensor([chances[place][step] for place in places], dtype=torch.float64, device=scores.device)
        step += 1
        return draw_tokens(scores, at, search)

    found = walk(
        models,
        source.repeat_interleave(search.beam, dim=0),
        [request for request in requests for _ in draws],
        [limit for limit in limits for _ in draws],
        search,
        choose=choose,
    )
    shares = (found[place * search.beam : (place + 1) * search.beam] for place in range(len(requests)))
    return [[hypothesis for drawn in share for hypothesis in drawn] for share in shares]


def draw_tokens(scores: Tensor, chances: Tensor, search: SearchConfig) -> Tensor:
    """The token at which the probabilities of those left, the likeliest first, add up to each chance (R, in [0, 1))."""
    probabilities, tokens = sampled_from(scores, search)
    reached = probabilities.cumsum(dim=1)
    places = (reached <= chances.unsqueeze(1) * reached[:, -1:]).sum(dim=1, keepdim=True)
    last = (probabilities > 0).sum(dim=1, keepdim=True) - 1  # where rounding would go past the end
    return tokens.gather(1, torch.minimum(places, last.clamp(min=0))).squeeze(1)


def sampled_from(scores: Tensor, search: SearchConfig) -> tuple[Tensor, Tensor]:
    """Probabilities and tokens of each row, the likeliest first, after temperature, top_k, top_p and min_p in turn."""
    count = min(search.top_k or scores.size(1), scores.size(1))
    kept, tokens = scores.double().topk(count, dim=1)
    probabilities = (kept / search.temperature).softmax(dim=1).nan_to_num(0.0)  # a row without a token has none
    if search.top_p < 1:
        before = probabilities.cumsum(dim=1) - probabilities
        probabilities = probabilities.masked_fill(before >= search.top_p, 0.0)
    return probabilities.masked_fill(probabilities < search.min_p * probabilities[:, :1], 0.0), tokens
