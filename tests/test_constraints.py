"""Phrases that must occur: against brute force, and that they do."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_search import Ids, all_outputs, brute_force, contains, find, random_model, random_requests
from transduce.config import SearchConfig
from transduce.decode.constraints import Progress
from transduce.decode.hypothesis import Phrase, Request, length_penalty
from transduce.decode.torch_engine import TorchEngine
from transduce.errors import UserError
from transduce.text.codec import EOS

LIMIT = 5
FULL = len(all_outputs(LIMIT))
PHRASES = [
    (((4,),),),
    (((4, 5),), ((6,),)),
    (((5, 5),), ((5, 6),)),  # which may overlap
    (((4, 6), (5,)), ((6, 6, 4), (1, 4))),  # with two spellings each
]
runs = st.lists(st.integers(4, 6), min_size=1, max_size=3).map(tuple)
phrases_strategy = st.lists(st.lists(runs, min_size=1, max_size=2, unique=True), min_size=1, max_size=3)


def meets(ids: Ids, phrases: tuple[Phrase, ...]) -> bool:
    return all(any(contains(ids, spelling) for spelling in phrase.spellings) for phrase in phrases)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("spellings", PHRASES, ids=str)
def test_a_beam_of_full_width_finds_what_brute_force_finds(seed: int, spellings: tuple[tuple[Ids, ...], ...]) -> None:
    model, requests = random_model(seed), random_requests(seed, [2, 3])
    phrases = tuple(map(Phrase, spellings))
    expected = brute_force(
        model,
        requests[0].source,
        LIMIT,
        lambda ids, p: p / length_penalty(len(ids) + 1, 0.6),
        lambda ids: meets(ids, phrases),
    )
    asked = [replace(requests[0], phrases=phrases), requests[1]]
    found, other = find(model, asked, beam=FULL, extra_length=2)
    assert [h.ids for h in found] == [h.ids for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-9)
    assert other == find(model, requests[1:], beam=FULL, extra_length=2)[0]


@given(spellings=phrases_strategy, beam=st.integers(1, 4), seed=st.integers(0, 3), prefix=st.just(()) | runs)
@settings(max_examples=60)
def test_whatever_fits_into_the_limit_occurs(spellings: list[list[Ids]], beam: int, seed: int, prefix: Ids) -> None:
    model, (request,) = random_model(seed, size=12), random_requests(seed, [1], size=12)
    phrases = tuple(Phrase(tuple(each)) for each in spellings)
    room = len(prefix) + sum(phrase.shortest for phrase in phrases)
    (found,) = find(model, [replace(request, phrases=phrases, prefix=prefix)], beam=beam, extra_length=room)
    assert found
    assert all(meets(h.ids, phrases) and h.ids[: len(prefix)] == prefix for h in found)


@pytest.mark.parametrize("beam", [1, 4])
def test_what_does_not_fit_finds_nothing_and_leaves_others_alone(beam: int) -> None:
    model, requests = random_model(0, size=12), random_requests(0, [3, 3], size=12)
    long = Phrase(((7,) * 9,))
    found, other = find(model, [replace(requests[0], phrases=(long,)), requests[1]], beam=beam, extra_length=2)
    assert found == []
    assert other == find(model, requests[1:], beam=beam, extra_length=2)[0]


@pytest.mark.parametrize("seed", range(4))
def test_what_occurs_by_itself_changes_nothing(seed: int) -> None:
    model, (request,) = random_model(seed), random_requests(seed, [2])
    (free,) = find(model, [request], beam=FULL, extra_length=2)
    best = next(h for h in free if len(h.ids) >= 2)
    place = free.index(best)
    (bound,) = find(model, [replace(request, phrases=(Phrase((best.ids[:2],)),))], beam=FULL, extra_length=2)
    assert bound == [h for h in free[place:] if contains(h.ids, best.ids[:2])]


def test_a_request_does_not_depend_on_its_batch() -> None:
    model, requests = random_model(2, size=30), random_requests(2, [4, 1, 7, 3], size=30)
    requests[0] = replace(requests[0], phrases=(Phrase(((9, 8), (8, 9))),))
    requests[2] = replace(requests[2], phrases=(Phrase(((10,),)), Phrase(((11,),))))
    for request, together in zip(requests, find(model, requests, beam=3), strict=True):
        (alone,) = find(model, [request], beam=3)
        assert [h.ids for h in alone] == [h.ids for h in together]
        assert [h.score for h in alone] == pytest.approx([h.score for h in together], abs=1e-9)


@given(spellings=phrases_strategy, ids=st.lists(st.integers(4, 6), max_size=8).map(tuple))
def test_progress_knows_what_has_occurred(spellings: list[list[Ids]], ids: Ids) -> None:
    phrases = [Phrase(tuple(each)) for each in spellings]
    progress = Progress.start(phrases)
    for token in ids:
        progress = progress.advance(token)
    assert list(progress.met) == [meets(ids, (phrase,)) for phrase in phrases]
    assert (progress.left == 0) == all(progress.met)


@given(spellings=phrases_strategy, ids=st.lists(st.integers(4, 6), max_size=5).map(tuple))
def test_some_wanted_token_leaves_fewer(spellings: list[list[Ids]], ids: Ids) -> None:
    progress = Progress.start([Phrase(tuple(each)) for each in spellings])
    for token in ids:
        progress = progress.advance(token)
    if progress.left:
        assert min(progress.advance(token).left for token in progress.wanted()) < progress.left


@pytest.mark.parametrize("changes", [{"sampling": True}, {"groups": 2}])
def test_phrases_need_plain_beam_search(changes: dict[str, object]) -> None:
    search = SearchConfig.model_validate(changes)
    with pytest.raises(UserError, match=r"plain beam search: without search\.(sampling|groups)"):
        TorchEngine(random_model(0)).search([Request((4, EOS), phrases=(Phrase(((4,),)),))], search)
