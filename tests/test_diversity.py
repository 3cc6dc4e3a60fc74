"""Diverse beam search against its definition, written without batches, caches or tensors."""

from collections import Counter
from itertools import product

import pytest

from random_search import Ids, find, log_probability, random_model, random_requests, token_log_probabilities
from transduce.decode.hypothesis import length_penalty
from transduce.model import Transformer
from transduce.text.codec import BOS, EOS, PAD


def defined(model: Transformer, source: Ids, *, groups: int, rows: int, strength: float, limit: int, size: int) -> dict:
    """The finished outputs and their log-probabilities, group by group, step by step."""
    tokens = [token for token in range(size) if token not in (PAD, BOS)]
    live: list[list[Ids]] = [[()] for _ in range(groups)]
    finished: list[dict[Ids, float]] = [{} for _ in range(groups)]

    def total(ids: Ids, token: int) -> float:
        if token == EOS:
            return log_probability(model, source, ids)
        return sum(token_log_probabilities(model, source, (*ids, token))[:-1])

    for length in range(1, limit + 1):
        chosen: Counter[int] = Counter()
        for group in range(groups):
            if len(finished[group]) >= rows:
                continue
            possible = [(ids, t) for ids, t in product(live[group], tokens) if length < limit or t == EOS]
            totals = {pair: total(*pair) for pair in possible}
            ranked = sorted(possible, key=lambda pair: -(totals[pair] - strength * chosen[pair[1]]))
            for ids, _ in (pair for pair in ranked[:rows] if pair[1] == EOS):
                finished[group][ids] = totals[ids, EOS]
            going_on = [pair for pair in ranked[: 2 * rows] if pair[1] != EOS][:rows]
            live[group] = [(*ids, token) for ids, token in going_on]
            chosen.update(token for _, token in going_on)
    return {ids: p for group in finished for ids, p in group.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("groups", "rows", "strength"), [(2, 2, 0.7), (3, 1, 2.0), (2, 3, 0.0)])
def test_groups_do_what_the_definition_says(seed: int, groups: int, rows: int, strength: float) -> None:
    model, requests = random_model(seed, size=9, spread=1.5), random_requests(seed, [2, 4], size=9)
    expected = defined(model, requests[0].source, groups=groups, rows=rows, strength=strength, limit=5, size=9)
    settings = {"beam": groups * rows, "groups": groups, "diversity": strength, "extra_length": 2}
    found, _ = find(model, requests, **settings)
    ranked = sorted(expected, key=lambda ids: -expected[ids] / length_penalty(len(ids) + 1, 0.6))
    assert [h.ids for h in found] == ranked[: groups * rows]
    assert [h.log_probability for h in found] == pytest.approx([expected[h.ids] for h in found], abs=1e-9)


def test_groups_of_one_row_differ_in_their_first_token_if_that_is_worth_enough() -> None:
    model, (request,) = random_model(1, size=30), random_requests(1, [6], size=30)
    (found,) = find(model, [request], beam=4, groups=4, diversity=1e6, min_length=1)
    assert len({h.ids[0] for h in found}) == 4
    (alike,) = find(model, [request], beam=4, groups=4, diversity=0.0, min_length=1)
    assert len(alike) == 1
