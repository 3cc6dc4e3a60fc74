"""Greedy search: the most probable token at each step."""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.decode.hypothesis import Hypothesis
from transduce.decode.limits import length_limits, log_probabilities
from transduce.model import Transformer
from transduce.text.codec import BOS, EOS


@torch.inference_mode()
def greedy(model: Transformer, source: Tensor, *, extra_length: int) -> list[Hypothesis]:
    """One hypothesis per source sentence (BS); finished sentences leave the batch."""
    limits = length_limits(source, extra_length, model.config)
    memory, may_attend = model.encode(source)
    cache = model.start(memory)
    active = list(range(source.size(0)))
    outputs: list[list[int]] = [[] for _ in active]
    totals = [0.0] * len(active)
    tokens = source.new_full((len(active), 1), BOS)
    length = 0
    while active:
        length += 1
        hidden = model.decode(tokens, None, may_attend, cache=cache)
        scores = log_probabilities(model.logits(hidden[:, -1]))
        for row, sentence in enumerate(active):
            if length == limits[sentence]:
                scores[row, :EOS] = scores[row, EOS + 1 :] = float("-inf")
        best, chosen = scores.max(dim=-1)
        going_on = []
        for row, (sentence, token, score) in enumerate(zip(active, chosen.tolist(), best.tolist(), strict=True)):
            totals[sentence] += score
            if token != EOS:
                outputs[sentence].append(token)
                going_on.append(row)
        tokens = chosen.unsqueeze(1)
        if len(going_on) < len(active):
            rows = torch.tensor(going_on, dtype=torch.int64, device=source.device)
            cache.keep(rows)
            cache.reorder(rows)
            tokens = tokens.index_select(0, rows)
            may_attend = None if may_attend is None else may_attend.index_select(0, rows)
            active = [active[row] for row in going_on]
    return [Hypothesis(tuple(ids), total, total) for ids, total in zip(outputs, totals, strict=True)]
