"""A layer computed twice has the gradients of one computed once, and float16 learns as float32 does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from test_training import new_loop
from transduce.data.store import Store
from transduce.model.layers import EncoderLayer
from transduce.text import Symbols
from transduce.train.feed import updates
from transduce.train.loop import Loop
from transduce.train.recompute import recompute_layers
from transduce.train.workers import Workers

Letters = tuple[Store, Symbols]
EVERYWHERE = ("model.dropout=0.2", "model.attention_dropout=0.2", "model.relu_dropout=0.2", "model.encoder_layers=2")


def gradients(loop: Loop) -> list[torch.Tensor]:
    device = torch.device("cpu")
    update = next(updates(loop.store, loop.batching, device, parts=loop.workers.count, epoch=0, update=0))
    loop.workers.backward(update.batches, 1)
    return [p.grad for p in loop.model.parameters() if p.grad is not None]


@pytest.mark.parametrize("settings", [(), ("model.norm=pre", "model.window=3"), ("model.attention=additive",)])
@pytest.mark.parametrize("threads", [1, 2])
def test_recomputing_gives_the_same_gradients_bit_for_bit(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch, settings: tuple[str, ...], threads: int
) -> None:
    plain, twice = (new_loop(*letters, tmp_path / "a", *EVERYWHERE, *settings) for _ in range(2))
    passes = 0
    forward = EncoderLayer.forward

    def counted(*arguments, **options):  # type: ignore[no-untyped-def]
        nonlocal passes
        passes += 1
        return forward(*arguments, **options)

    monkeypatch.setattr(EncoderLayer, "forward", counted)
    recompute_layers(twice.model)
    for loop in (plain, twice):
        loop.workers = Workers(loop.model, loop.config.train)
        loop.workers.count = threads
    once = gradients(plain)
    of_one = passes
    again = gradients(twice)
    assert passes == 3 * of_one
    assert len(once) == len(again) == len(list(plain.model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    assert plain.model.state_dict().keys() == twice.model.state_dict().keys()


def test_without_noise_nothing_is_computed_twice(tmp_path: Path, letters: Letters) -> None:
    loop = new_loop(*letters, tmp_path / "a")
    ids = torch.tensor([[5, 6, 7]])
    before = loop.model(ids, ids)
    recompute_layers(loop.model)
    assert torch.equal(loop.model(ids, ids), before)


def test_float16_learns_as_float32_does(tmp_path: Path, letters: Letters) -> None:
    ends = []
    for precision in ("float32", "float16"):
        loop = new_loop(*letters, tmp_path / precision, "train.steps=12", f"train.precision={precision}")
        loop.model.float()
        loop.run()
        ends.append(loop)
    exact, rough = ([p.detach() for p in loop.model.parameters()] for loop in ends)
    assert ends[1].state.loss_scale is not None
    assert any(not torch.equal(a, b) for a, b in zip(exact, rough, strict=True))
    for a, b in zip(exact, rough, strict=True):
        assert torch.allclose(a, b, atol=0.05)
