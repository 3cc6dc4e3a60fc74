"""Several models as one: the mean of their probabilities, and one vocabulary."""

import math
from pathlib import Path

import pytest

from random_search import all_outputs, random_model, random_requests, token_log_probabilities
from short_phrases import short_phrases
from transduce import Translator
from transduce.config import SearchConfig
from transduce.decode.hypothesis import length_penalty
from transduce.decode.torch_engine import TorchEngine
from transduce.errors import UserError

LIMIT = 4


def test_probabilities_are_averaged_token_by_token() -> None:
    models = [random_model(seed, decoder_layers=layers) for seed, layers in ((0, 1), (1, 2), (2, 1))]
    (request,) = random_requests(0, [2])

    def score(ids: tuple[int, ...]) -> float:
        each = zip(*(token_log_probabilities(model, request.source, ids) for model in models), strict=True)
        total = sum(math.log(sum(map(math.exp, token)) / len(models)) for token in each)
        return total / length_penalty(len(ids) + 1, 0.6)

    outputs = all_outputs(LIMIT)
    expected = sorted(outputs, key=lambda ids: -score(ids))
    search = SearchConfig(beam=len(outputs), extra_length=1)
    (found,) = TorchEngine(*models).search([request], search)
    assert [h.ids for h in found] == expected
    assert [h.score for h in found] == pytest.approx([score(ids) for ids in expected], abs=1e-9)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_model_beside_itself_is_that_model(beam: int) -> None:
    model, requests = random_model(3, size=30), random_requests(3, [5, 2, 7], size=30)
    search = SearchConfig(beam=beam, coverage=0.1)
    alone, twice = TorchEngine(model).search(requests, search), TorchEngine(model, model).search(requests, search)
    assert [[h.ids for h in found] for found in twice] == [[h.ids for h in found] for found in alone]
    assert [h.score for found in twice for h in found] == pytest.approx(
        [h.score for found in alone for h in found], abs=1e-9
    )


def test_the_fewest_positions_bound_them_all() -> None:
    models = [random_model(0), random_model(1, positions="learned", max_positions=9)]
    assert TorchEngine(*models).max_positions == 9
    assert TorchEngine(models[0]).max_positions is None


def test_bundles_with_one_vocabulary_translate_together(bundle: Path) -> None:
    sources = [phrase.source for phrase in short_phrases("test", 80)]
    alone = Translator.load(bundle, engine="pytorch").translate(sources)
    together = Translator.load_ensemble([bundle, bundle]).translate(sources)
    assert [t.text for t in together] == [t.text for t in alone]


def test_another_vocabulary_is_refused(bundle: Path, small_run: Path) -> None:
    with pytest.raises(UserError, match=r"its source vocabulary is not that of .*run/model"):
        Translator.load_ensemble([bundle, small_run])
    with pytest.raises(UserError, match="an ensemble of no models"):
        Translator.load_ensemble([])


def test_perplexity_is_that_of_one_model() -> None:
    with pytest.raises(UserError, match="of one model"):
        TorchEngine(random_model(0), random_model(1)).likelihood([((4,), (4,))], 100)
