"""Word dropout: whole embeddings are left out, never a special's, and nothing else changes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from test_training import new_loop
from transduce.config import ModelConfig
from transduce.data.store import Store
from transduce.model import Noise, Transformer
from transduce.model.dropout import Dropout, WordDropout
from transduce.model.transformer import Embedding
from transduce.text import Symbols
from transduce.text.codec import SPECIALS
from transduce.train.feed import updates
from transduce.train.recompute import recompute_layers
from transduce.train.workers import Workers

NOISE = Noise(seed=1, update=2, micro_batch=3, rank=4)
RATE = 0.3
SIGMAS = 4
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, 3], [9, 4, 5, 3, 0, 0, 0]])
TARGET = torch.tensor([[2, 5, 6, 7, 8, 9, 10], [2, 8, 9, 10, 0, 0, 0]])


def model(**changes: object) -> Transformer:
    shape = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 12, "num_heads": 2, "dropout": 0.0}
    torch.manual_seed(0)
    return Transformer(ModelConfig.model_validate({**shape, **changes}), 40, 40).double()


def words(embedding: Embedding, ids: Tensor, noise: Noise | None) -> Tensor:
    """What is left of the words, the position taken off again."""
    return embedding(ids, 0, noise) - embedding.positions(0, ids.size(1))


def left_out(embedding: Embedding, ids: Tensor, noise: Noise = NOISE) -> Tensor:
    return words(embedding, ids, noise).abs().amax(dim=-1) < 1e-12


def test_whole_words_are_left_out_before_the_position_is_added_and_the_others_are_scaled() -> None:
    for positions in ("sinusoidal", "learned"):
        embedding = model(word_dropout=RATE, positions=positions).source_embedding
        kept = NOISE.keep(embedding.word_dropout.site, SOURCE.shape, round(RATE * 2**16))
        factors = torch.where(SOURCE.lt(len(SPECIALS)), 1.0, kept.double() * embedding.word_dropout.scale)
        assert len(factors.unique()) == 3
        expected = words(embedding, SOURCE, None) * factors.unsqueeze(-1)
        assert torch.allclose(words(embedding, SOURCE, NOISE), expected, rtol=0, atol=1e-12)


def test_as_many_words_are_left_out_as_the_rate_says_and_no_special() -> None:
    embedding = model(word_dropout=RATE).target_embedding
    many = torch.randint(4, 40, (100, 90), generator=torch.Generator().manual_seed(1))
    count = int(left_out(embedding, many).sum())
    assert abs(count - RATE * many.numel()) < SIGMAS * math.sqrt(RATE * (1 - RATE) * many.numel())
    specials = many % len(SPECIALS)
    assert torch.equal(words(embedding, specials, NOISE), words(embedding, specials, None))


def test_source_target_and_other_moments_have_masks_of_their_own() -> None:
    trained = model(word_dropout=0.5)
    ids = torch.full((20, 20), 7)
    moments = [NOISE, replace(NOISE, seed=9), replace(NOISE, update=9), replace(NOISE, micro_batch=9)]
    moments.append(replace(NOISE, rank=9))
    sides = (trained.source_embedding, trained.target_embedding)
    masks = {tuple(left_out(side, ids, noise).flatten().tolist()) for side in sides for noise in moments}
    assert len(masks) == 2 * len(moments)
    assert torch.equal(left_out(sides[0], ids), left_out(sides[0], ids))


@pytest.mark.parametrize("rate", [0.0, RATE])
def test_other_masks_are_those_of_a_model_that_drops_no_words(rate: float) -> None:
    found = [module for module in model(word_dropout=rate).modules() if isinstance(module, Dropout)]
    others = [module.site for module in found if not isinstance(module, WordDropout)]
    assert others == list(range(len(found) - 2))
    assert sorted(module.site for module in found) == list(range(len(found)))


def test_without_noise_or_rate_nothing_is_left_out() -> None:
    dropped, plain = model(word_dropout=RATE), model()
    assert torch.equal(dropped(SOURCE, TARGET), plain(SOURCE, TARGET))
    assert torch.equal(plain(SOURCE, TARGET, noise=NOISE), plain(SOURCE, TARGET))
    assert not torch.allclose(dropped(SOURCE, TARGET, noise=NOISE), plain(SOURCE, TARGET))
    assert dropped.state_dict().keys() == plain.state_dict().keys()


def test_a_word_that_is_left_out_learns_nothing() -> None:
    trained = model(word_dropout=0.5, tying="none")
    ids = torch.arange(4, 34).unsqueeze(0)
    memory, _ = trained.encode(ids, noise=NOISE)
    (gradient,) = torch.autograd.grad(memory.sin().sum(), [trained.source_embedding.tokens.weight])
    still = gradient[ids[0]].abs().amax(dim=-1) == 0
    assert 0 < still.sum() < len(still)
    assert torch.equal(still, left_out(trained.source_embedding, ids)[0])


def test_a_recomputed_pass_leaves_out_the_same_words() -> None:
    trained = model(word_dropout=RATE, dropout=0.1)

    def gradients(hidden: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(hidden.sin().sum(), list(trained.parameters()))

    stored = gradients(trained(SOURCE, TARGET, noise=NOISE))
    recomputed = gradients(checkpoint(trained, SOURCE, TARGET, noise=NOISE, use_reentrant=False))
    assert all(torch.equal(a, b) for a, b in zip(stored, recomputed, strict=True))


def test_recomputing_layers_gives_the_same_gradients(tmp_path: Path, letters: tuple[Store, Symbols]) -> None:
    found = []
    for recompute in (False, True):
        loop = new_loop(*letters, tmp_path / "a", "model.word_dropout=0.3", "model.dropout=0.1")
        if recompute:
            recompute_layers(loop.model)
        loop.workers = Workers(loop.model, loop.config.train)
        loop.workers.count = 2
        update = next(updates(loop.store, loop.batching, loop.workers.device, parts=2, epoch=0, update=0))
        loop.workers.backward(update.batches, 1)
        found.append([parameter.grad for parameter in loop.model.parameters()])
    for one, other in zip(*found, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)
