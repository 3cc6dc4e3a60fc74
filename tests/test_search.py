"""Search against brute force, itself and its limits, on small random models."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from random_search import (
    Ids,
    all_outputs,
    brute_force,
    find,
    log_probability,
    random_model,
    random_requests,
    token_log_probabilities,
)
from transduce.config import SearchConfig
from transduce.decode.beam import beam_search
from transduce.decode.candidates import top
from transduce.decode.hypothesis import Hypothesis, length_penalty
from transduce.decode.torch_engine import pad
from transduce.model import AttentionRecord
from transduce.text.codec import BOS, EOS, PAD

LIMIT = 4  # two words and their end, plus one
FULL = len(all_outputs(LIMIT))


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [h.ids for h in found] == [h.ids for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-9)
    assert [h.log_probability for h in found] == pytest.approx([h.log_probability for h in expected], abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_of_full_width_finds_what_brute_force_finds(seed: int, alpha: float) -> None:
    model, (request,) = random_model(seed), random_requests(seed, [2])
    expected = brute_force(model, request.source, LIMIT, lambda ids, p: p / ((5 + len(ids) + 1) / 6) ** alpha)
    (found,) = find(model, [request], beam=FULL, alpha=alpha, extra_length=1)
    assert_same(found, expected)


def test_the_other_penalty_is_a_power_of_the_length() -> None:
    model, (request,) = random_model(4), random_requests(4, [2])
    expected = brute_force(model, request.source, LIMIT, lambda ids, p: p / (len(ids) + 1) ** 0.8)
    (found,) = find(model, [request], beam=FULL, alpha=0.8, penalty="length", extra_length=1)
    assert_same(found, expected)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_coverage_penalty_is_gnmts(layers: int) -> None:
    model, requests = random_model(2, decoder_layers=layers), random_requests(2, [2, 5])
    source = requests[0].source

    def score(ids: Ids, total: float) -> float:
        record = AttentionRecord()
        model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *ids]]), record=record)
        attended = record.cross[max(0, layers - 2)][0].mean(0).sum(0)  # HTS -> S
        return total / length_penalty(len(ids) + 1, 0.6) + 3.0 * float(attended.clamp(max=1).log().sum())

    expected = brute_force(model, source, LIMIT, score)
    found, _ = find(model, requests, beam=FULL, extra_length=1, coverage=3.0)  # padded beside the other
    assert_same(found, expected)
    assert [h.ids for h in found] != [h.ids for h in find(model, requests, beam=FULL, extra_length=1)[0]]


def repeats(ids: Ids, size: int) -> bool:
    runs = [ids[start : start + size] for start in range(len(ids) - size + 1)]
    return len(set(runs)) < len(runs)


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({"min_length": 2}, lambda ids: len(ids) >= 2),
        ({"max_length": 2}, lambda ids: len(ids) <= 2),
        ({"min_length": 9}, lambda ids: len(ids) == 3),  # its limit comes first
        ({"no_repeat": 1}, lambda ids: not repeats(ids, 1)),
        ({"no_repeat": 2}, lambda ids: not repeats(ids, 2)),
    ],
    ids=["at least 2", "at most 2", "at least 9", "no token twice", "no pair twice"],
)
def test_what_is_forbidden_is_left_out_and_the_rest_is_as_it_was(
    settings: dict[str, object], allowed: Callable[[Ids], bool]
) -> None:
    model, (request,) = random_model(5), random_requests(5, [2])
    expected = brute_force(model, request.source, LIMIT, lambda ids, p: p / length_penalty(len(ids) + 1, 0.6), allowed)
    (found,) = find(model, [request], beam=FULL, extra_length=1, **settings)
    assert_same(found, expected)


@pytest.mark.parametrize("no_repeat", [2, 3])
@pytest.mark.parametrize("beam", [1, 3])
def test_no_run_occurs_twice(no_repeat: int, beam: int) -> None:
    model = random_model(0, size=20, output_bias=True)
    model.projection.bias[EOS] = -1e4
    free, guarded = (find(model, random_requests(0, [9, 4], size=20), beam=beam, no_repeat=n) for n in (0, no_repeat))
    assert any(repeats(h.ids, no_repeat) for hypotheses in free for h in hypotheses)
    assert not any(repeats(h.ids, no_repeat) for hypotheses in guarded for h in hypotheses)


@pytest.mark.parametrize("prefix", [(4,), (5, 5), (6, 1, 4)], ids=str)
def test_a_prefix_is_how_every_output_begins(prefix: Ids) -> None:
    model, requests = random_model(6), random_requests(6, [2, 4])
    asked = [replace(requests[0], prefix=prefix), requests[1]]
    expected = brute_force(
        model,
        requests[0].source,
        LIMIT,
        lambda ids, p: p / length_penalty(len(ids) + 1, 0.6),
        lambda ids: ids[: len(prefix)] == prefix,
    )
    found, other = find(model, asked, beam=FULL, extra_length=1, no_repeat=0)
    assert_same(found, expected)
    assert_same(other, find(model, requests[1:], beam=FULL, extra_length=1)[0])


@pytest.mark.parametrize("beam", [1, 3])
def test_a_prefix_is_taken_though_it_repeats_itself_or_is_longer_than_the_limit(beam: int) -> None:
    model, (request,) = random_model(6, size=20), random_requests(6, [2], size=20)
    asked = replace(request, prefix=(7, 8) * 5)
    (found,) = find(model, [asked], beam=beam, extra_length=1, no_repeat=2)
    assert [h.ids for h in found] == [asked.prefix]
    assert found[0].log_probability == pytest.approx(log_probability(model, request.source, asked.prefix), abs=1e-9)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_prefix_past_the_last_position_finds_nothing(beam: int) -> None:
    model = random_model(0, size=20, positions="learned", max_positions=9)
    first, second = random_requests(0, [4, 3], size=20)
    found = find(model, [replace(first, prefix=(7,) * 9), second], beam=beam)
    assert found[0] == []
    assert found[1]


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    model, requests = random_model(seed, size=40), random_requests(seed, [3, 9, 5, 1], size=40)
    source, limits = pad([r.source for r in requests]), [len(r.source) + 21 for r in requests]
    beams = beam_search([model], source, requests, limits, SearchConfig(beam=1), beam=1)
    for (best,), (plain,) in zip(beams, find(model, requests, beam=1, extra_length=20), strict=True):
        assert best.ids == plain.ids
        assert best.log_probability == pytest.approx(plain.log_probability, abs=1e-9)


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"window": 4}, {"positions": "learned", "max_positions": 40}])
@pytest.mark.parametrize("beam", [1, 3])
def test_log_probabilities_are_the_models_own(changes: dict[str, object], beam: int) -> None:
    model, requests = random_model(1, size=30, **changes), random_requests(1, [4, 6], size=30)
    asked = [replace(request, token_scores=True) for request in requests]
    for request, hypotheses in zip(requests, find(model, asked, beam=beam, extra_length=8), strict=True):
        for hypothesis in hypotheses:
            expected = token_log_probabilities(model, request.source, hypothesis.ids)
            assert hypothesis.token_log_probabilities == pytest.approx(expected, abs=1e-9)
            assert hypothesis.log_probability == pytest.approx(sum(expected), abs=1e-9)
            penalty = length_penalty(len(hypothesis.ids) + 1, 0.6) if beam > 1 else 1.0
            assert hypothesis.score == pytest.approx(sum(expected) / penalty, abs=1e-9)


def test_hypotheses_come_best_first_and_none_twice() -> None:
    model, requests = random_model(3, size=30), random_requests(3, [5, 2, 7], size=30)
    for hypotheses in find(model, requests, beam=5, extra_length=10):
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({h.ids for h in hypotheses}) == len(hypotheses) == 5


@pytest.mark.parametrize(
    "settings",
    [{"beam": 1}, {"beam": 4}, {"beam": 4, "groups": 2}, {"beam": 4, "coverage": 0.2, "no_repeat": 2, "min_length": 3}],
    ids=str,
)
def test_a_sentence_does_not_depend_on_its_batch(settings: dict[str, object]) -> None:
    model, lengths = random_model(2, size=60, spread=1.5), [7, 1, 12, 3, 3, 9, 2]
    requests = random_requests(5, lengths, size=60)
    requests[2] = replace(requests[2], prefix=(9, 8))
    together = find(model, requests, extra_length=15, **settings)
    for request, hypotheses in zip(requests, together, strict=True):
        assert_same(find(model, [request], extra_length=15, **settings)[0], hypotheses)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_model_that_never_ends_stops_at_each_sentences_own_limit(beam: int) -> None:
    model = random_model(0, size=20, output_bias=True)
    model.projection.bias[EOS] = -1e4
    for length, hypotheses in zip(
        [2, 6], find(model, random_requests(0, [2, 6], size=20), beam=beam, extra_length=5), strict=True
    ):
        assert {len(h.ids) for h in hypotheses} == {length + 5}


@pytest.mark.parametrize("beam", [1, 3])
def test_padding_and_the_start_token_are_never_chosen(beam: int) -> None:
    model = random_model(0, size=20, output_bias=True)
    model.projection.bias[[PAD, BOS]] = 1e4
    found = find(model, random_requests(0, [3, 5], size=20), beam=beam, extra_length=5)
    assert all(PAD not in h.ids and BOS not in h.ids for hypotheses in found for h in hypotheses)


def test_the_length_penalty_is_the_papers() -> None:
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 0.6) == pytest.approx(2**0.6)
    assert length_penalty(13, 0.0) == 1.0


def test_learned_positions_bound_the_output() -> None:
    model = random_model(0, size=20, positions="learned", max_positions=9, output_bias=True)
    model.projection.bias[EOS] = -1e4
    ((only,),) = find(model, random_requests(0, [4], size=20), beam=1)
    assert len(only.ids) == 8


@given(st.integers(1, 9), st.integers(1, 4000), st.integers(0, 2**32))
def test_the_best_by_blocks_are_the_best(count: int, size: int, seed: int) -> None:
    scores = torch.randn(3, max(size, count), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values, indices = top(scores, count)
    expected = scores.topk(count)
    assert torch.equal(values, expected.values)
    assert torch.equal(indices, expected.indices)
