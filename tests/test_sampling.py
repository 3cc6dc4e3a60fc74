"""Outputs drawn by their probability: how often, from which tokens, and by which seed."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from random_search import Ids, all_outputs, find, log_probability, random_model, random_requests
from transduce.config import SearchConfig
from transduce.decode.hypothesis import Request
from transduce.decode.sample import draw_tokens, sampled_from
from transduce.text.codec import BOS, PAD


def kept(probabilities: list[float], search: SearchConfig) -> dict[int, float]:
    """Which tokens are drawn from, with their new probabilities, one rule after the other."""
    powers = {token: p ** (1 / search.temperature) for token, p in enumerate(probabilities)}
    ranked = sorted(powers, key=lambda token: -powers[token])[: search.top_k]
    total = sum(powers[token] for token in ranked)
    left, mass = {}, 0.0
    for token in ranked:
        share = powers[token] / total
        if mass < search.top_p and share >= search.min_p * powers[ranked[0]] / total:
            left[token] = share
        mass += share
    whole = sum(left.values())
    return {token: share / whole for token, share in left.items()}


@given(
    weights=st.lists(st.floats(0.01, 1), min_size=2, max_size=9, unique=True),
    temperature=st.floats(0.3, 3),
    top_k=st.none() | st.integers(1, 9),
    top_p=st.floats(0.05, 1),
    min_p=st.floats(0, 0.9),
)
def test_tokens_are_drawn_from_what_the_rules_leave(
    weights: list[float], temperature: float, top_k: int | None, top_p: float, min_p: float
) -> None:
    search = SearchConfig(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    probabilities = [weight / sum(weights) for weight in weights]
    scores = torch.tensor([probabilities], dtype=torch.float64).log()
    found, tokens = sampled_from(scores, search)
    whole = float(found.sum())
    left = {t: p / whole for t, p in zip(tokens[0].tolist(), found[0].tolist(), strict=True) if p > 0}
    expected = kept(probabilities, search)
    edge = min(abs(sum(sorted(expected.values())[:n]) - top_p) for n in range(len(expected) + 1))
    assert left.keys() == expected.keys() or edge < 1e-9
    if left.keys() == expected.keys():
        assert left == pytest.approx(expected, rel=1e-6)


def test_a_chance_is_the_place_among_the_probabilities() -> None:
    scores = torch.tensor([[0.2, 0.5, 0.3]]).log().expand(7, -1)
    chances = torch.tensor([0.0, 0.49, 0.51, 0.79, 0.81, 0.999, 0.9999999], dtype=torch.float64)
    assert draw_tokens(scores, chances, SearchConfig()).tolist() == [1, 1, 2, 2, 0, 0, 0]


def test_outputs_are_drawn_as_often_as_they_are_likely() -> None:
    draws, model, (request,) = 3000, random_model(1, spread=1.0, output_bias=True), random_requests(1, [1])
    model.projection.bias[[PAD, BOS]] = -1e4
    (found,) = find(model, [request], sampling=True, beam=draws, extra_length=1, batch_tokens=10**6)
    assert len(found) == draws
    counts = Counter(h.ids for h in found)
    ended = [ids for ids in all_outputs(3) if len(ids) < 2]  # those of two tokens are ended by the limit
    for ids in ended:
        expected = math.exp(log_probability(model, request.source, ids))
        assert abs(counts[ids] / draws - expected) < 4.5 * math.sqrt(expected * (1 - expected) / draws)


def test_log_probabilities_are_the_models_own_whatever_was_drawn_from() -> None:
    model, requests = random_model(1, size=30), random_requests(1, [4, 6], size=30)
    settings = {"sampling": True, "beam": 3, "temperature": 2.0, "top_k": 5, "extra_length": 8}
    for request, hypotheses in zip(requests, find(model, requests, **settings), strict=True):
        assert len(hypotheses) == 3
        for hypothesis in hypotheses:
            expected = log_probability(model, request.source, hypothesis.ids)
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-9)


def test_what_is_drawn_follows_from_seed_and_sentence() -> None:
    model, requests = random_model(3, size=40, spread=1.0), random_requests(3, [5, 2, 9], size=40)

    def drawn(requests: list[Request], *, seed: int = 7, beam: int = 2) -> list[list[Ids]]:
        found = find(model, requests, sampling=True, beam=beam, seed=seed, extra_length=9)
        return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in found]

    together = drawn(requests)
    assert [drawn([request])[0] for request in requests] == together
    assert drawn(requests[::-1]) == together[::-1]
    assert drawn(requests, seed=8) != together
    assert together[0][0] != together[0][1]
    assert drawn(requests, beam=1) == [ids[:1] for ids in together]


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"temperature": 1e-4}, {"top_p": 1e-6}, {"min_p": 0.999}], ids=str)
def test_from_one_token_alone_greedy_search_is_drawn(settings: dict[str, object]) -> None:
    model, requests = random_model(2, size=40), random_requests(2, [5, 2], size=40)
    drawn = find(model, requests, sampling=True, beam=1, **settings)
    assert [h.ids for (h,) in drawn] == [h.ids for (h,) in find(model, requests, beam=1)]
