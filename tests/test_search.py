"""Search against brute force, itself and its limits, on small random models."""

from itertools import product

import pytest
import torch

from transduce.config import ModelConfig
from transduce.decode.beam import beam_search
from transduce.decode.greedy import greedy
from transduce.decode.hypothesis import Hypothesis, length_penalty
from transduce.model import Transformer
from transduce.text.codec import BOS, EOS, PAD

SIZE = 7


def random_model(seed: int, *, size: int = SIZE, spread: float = 3.0, **changes: object) -> Transformer:
    """A model in float64 whose choices are far from uniform."""
    torch.manual_seed(seed)
    shape = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 2, **changes}
    model = Transformer(ModelConfig.model_validate(shape), size, size).double()
    with torch.no_grad():
        model.projection.weight.mul_(spread)
    return model.eval().requires_grad_(False)


def random_source(seed: int, lengths: list[int], *, size: int = SIZE) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    source = torch.full((len(lengths), max(lengths) + 1), PAD)
    for row, length in enumerate(lengths):
        source[row, :length] = torch.randint(EOS + 1, size, (length,), generator=generator)
        source[row, length] = EOS
    return source


def log_probability(model: Transformer, source: torch.Tensor, ids: tuple[int, ...]) -> float:
    """Of a complete output, by one uncached pass."""
    target = torch.tensor([[BOS, *ids]])
    scores = model.logits(model(source, target)).log_softmax(-1)[0]
    return sum(float(scores[step, token]) for step, token in enumerate([*ids, EOS]))


def brute_force(model: Transformer, source: torch.Tensor, limit: int, alpha: float) -> list[Hypothesis]:
    """Every output of at most `limit` tokens, the end token included, best first."""
    tokens = [token for token in range(SIZE) if token not in (PAD, BOS, EOS)]
    found = []
    for length in range(limit):
        for ids in product(tokens, repeat=length):
            total = log_probability(model, source, ids)
            found.append(Hypothesis(ids, total, total / length_penalty(length + 1, alpha)))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_of_full_width_finds_what_brute_force_finds(seed: int, alpha: float) -> None:
    model, source = random_model(seed), random_source(seed, [2])
    limit = 4  # 2 words and their end, plus 1
    expected = brute_force(model, source, limit, alpha)
    (found,) = beam_search(model, source, beam=len(expected), alpha=alpha, extra_length=1)
    assert [h.ids for h in found] == [h.ids for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    model, source = random_model(seed, size=40), random_source(seed, [3, 9, 5, 1], size=40)
    beams = beam_search(model, source, beam=1, alpha=0.6, extra_length=20)
    for (best,), plain in zip(beams, greedy(model, source, extra_length=20), strict=True):
        assert best.ids == plain.ids
        assert best.log_probability == pytest.approx(plain.log_probability, abs=1e-9)


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"window": 4}, {"positions": "learned", "max_positions": 40}])
def test_log_probabilities_are_the_models_own(changes: dict[str, object]) -> None:
    model, source = random_model(1, size=30, **changes), random_source(1, [4, 6], size=30)
    for row, hypotheses in enumerate(beam_search(model, source, beam=3, alpha=0.6, extra_length=8)):
        alone = source[row : row + 1, : int((source[row] != PAD).sum())]
        for hypothesis in hypotheses:
            expected = log_probability(model, alone, hypothesis.ids)
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-9)
            penalty = length_penalty(len(hypothesis.ids) + 1, 0.6)
            assert hypothesis.score == pytest.approx(expected / penalty, abs=1e-9)


def test_hypotheses_come_best_first_and_none_twice() -> None:
    model, source = random_model(3, size=30), random_source(3, [5, 2, 7], size=30)
    for hypotheses in beam_search(model, source, beam=5, alpha=0.6, extra_length=10):
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({h.ids for h in hypotheses}) == len(hypotheses) == 5


@pytest.mark.parametrize("beam", [1, 4])
def test_a_sentence_does_not_depend_on_its_batch(beam: int) -> None:
    model, lengths = random_model(2, size=60, spread=1.5), [7, 1, 12, 3, 3, 9, 2]
    source = random_source(5, lengths, size=60)
    together = beam_search(model, source, beam=beam, alpha=0.6, extra_length=15)
    for row, length in enumerate(lengths):
        (alone,) = beam_search(model, source[row : row + 1, : length + 1], beam=beam, alpha=0.6, extra_length=15)
        assert [h.ids for h in alone] == [h.ids for h in together[row]]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_model_that_never_ends_stops_at_each_sentences_own_limit(beam: int) -> None:
    model = random_model(0, size=20, output_bias=True)
    model.projection.bias[EOS] = -1e4
    source = random_source(0, [2, 6], size=20)
    for length, hypotheses in zip(
        [2, 6], beam_search(model, source, beam=beam, alpha=0.6, extra_length=5), strict=True
    ):
        assert {len(h.ids) for h in hypotheses} == {length + 5}
    assert [len(h.ids) for h in greedy(model, source, extra_length=5)] == [7, 11]


def test_padding_and_the_start_token_are_never_chosen() -> None:
    model = random_model(0, size=20, output_bias=True)
    model.projection.bias[[PAD, BOS]] = 1e4
    source = random_source(0, [3, 5], size=20)
    found = [h for hypotheses in beam_search(model, source, beam=3, alpha=0.6, extra_length=5) for h in hypotheses]
    found += greedy(model, source, extra_length=5)
    assert all(PAD not in h.ids and BOS not in h.ids for h in found)


def test_the_length_penalty_is_the_papers() -> None:
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 0.6) == pytest.approx(2**0.6)
    assert length_penalty(13, 0.0) == 1.0


def test_learned_positions_bound_the_output() -> None:
    model = random_model(0, size=20, positions="learned", max_positions=9, output_bias=True)
    model.projection.bias[EOS] = -1e4
    (only,) = greedy(model, random_source(0, [4], size=20), extra_length=50)
    assert len(only.ids) == 8
