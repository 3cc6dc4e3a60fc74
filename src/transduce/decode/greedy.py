"""Outputs that grow by one token a step, none of which looks at another: greedy search, and what sampling is built on.

R rows, one for each output; V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from transduce.config import SearchConfig
from transduce.decode.ensemble import Ensemble
from transduce.decode.hypothesis import Hypothesis, Request
from transduce.decode.limits import forbid
from transduce.decode.well_formed import grown, keep_to_trees, seeds
from transduce.model import Transformer
from transduce.text.codec import BOS, EOS

Choose = Callable[[Tensor, Sequence[int]], Tensor]
"""From the log-probabilities of what may come next (RV) and each row's place in the batch, the tokens to take (R)."""


def likeliest(scores: Tensor, places: Sequence[int]) -> Tensor:
    """The most probable token of each row."""
    return scores.argmax(dim=1)


@torch.inference_mode()
def walk(
    models: Sequence[Transformer],
    source: Tensor,
    requests: Sequence[Request],
    limits: Sequence[int],
    search: SearchConfig,
    *,
    choose: Choose = likeliest,
) -> list[list[Hypothesis]]:
    """One hypothesis for each request, or none where nothing is possible; finished sentences leave the batch.

    `source` is BS, the requests' padded. Nothing is ranked: the score is the log-probability.
    """
    ensemble = Ensemble(models, source, rows=1)
    active = list(range(len(requests)))
    steps: list[list[float]] = [[] for _ in requests]
    found: list[list[Hypothesis]] = [[] for _ in requests]
    tokens = source.new_full((len(requests), 1), BOS)  # RT
    growths = seeds(request.trees for request in requests)
    while active:
        scores = ensemble.step(tokens[:, -1])
        own = [limits[place] for place in active]
        forbid(scores, tokens, [requests[place] for place in active], own, search)
        keep_to_trees(scores, growths, own, tokens.size(1))
        chosen = choose(scores, active)
        taken = scores.gather(1, chosen.unsqueeze(1)).squeeze(1).tolist()
        going_on = []
        for row, (place, token, score) in enumerate(zip(active, chosen.tolist(), taken, strict=True)):
            steps[place].append(score)
            if token != EOS and math.isfinite(score):
                going_on.append(row)
            elif math.isfinite(score):
                ids, total = tuple(tokens[row, 1:].tolist()), sum(steps[place])
                each = tuple(steps[place]) if requests[place].token_scores else ()
                found[place] = [Hypothesis(ids, total, total, each)]
        tokens = torch.cat([tokens, chosen.unsqueeze(1)], dim=1)
        growths = growths and grown(growths, chosen.tolist())
        if len(going_on) < len(active):
            rows = torch.tensor(going_on, dtype=torch.int64, device=source.device)
            ensemble.select(rows, rows)
            tokens = tokens.index_select(0, rows)
            active = [active[row] for row in going_on]
            growths = growths and [growths[row] for row in going_on]
    return found
