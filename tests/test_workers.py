"""Sentences shared out among threads give the gradient of the whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from transduce.config import ModelConfig, TrainConfig
from transduce.data.batching import collate
from transduce.data.store import Store, write_store
from transduce.model import Transformer
from transduce.text import Symbols
from transduce.train import workers as workers_module
from transduce.train.device import where
from transduce.train.feed import LoadedBatch, load, parted
from transduce.train.loss import Loss
from transduce.train.workers import WORKER_TOKENS, Workers, batch_loss

CPU = torch.device("cpu")
SHAPE = ModelConfig(encoder_layers=1, decoder_layers=2, d_model=8, d_ff=16, num_heads=2, dropout=0.0)
LETTERS = Symbols(list("abcdef"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    lengths = np.random.default_rng(0).integers(1, 9, (60, 2))
    triples = [(line, " ".join("abcdefab"[:s]), " ".join("fedcbafe"[:t])) for line, (s, t) in enumerate(lengths)]
    return write_store(tmp_path / "ids", triples, LETTERS, LETTERS, max_length=9)


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def model(**changes: float) -> Transformer:
    torch.manual_seed(1)
    return Transformer(SHAPE.model_copy(update=changes), LETTERS.size, LETTERS.size).double()


def workers(model: Transformer, count: int) -> Workers:
    tokens = count * WORKER_TOKENS
    return Workers(model, TrainConfig(threads=count, batch_tokens=tokens, micro_batch_tokens=tokens))


def parts(store: Store, count: int) -> list[LoadedBatch]:
    return [load(collate(store, part), CPU) for part in parted(np.arange(len(store)), count)]


def gradient(model: Transformer) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize(("count", "batches"), [(1, 1), (1, 3), (2, 2), (2, 5), (3, 3), (4, 2)])
def test_however_shared_out_the_gradient_is_that_of_the_mean_loss(store: Store, count: int, batches: int) -> None:
    shared, whole = model(), model()
    loss = workers(shared, count).backward(parts(store, batches), step=1)
    everything = load(collate(store, np.arange(len(store))), CPU)
    plain = batch_loss(whole, everything, None, TrainConfig().label_smoothing)
    (plain.smoothed / everything.tokens).backward()
    assert len(gradient(shared)) == whole.num_parameters()
    assert torch.allclose(gradient(shared), gradient(whole), rtol=1e-9, atol=1e-12)
    assert loss.smoothed.item() == pytest.approx(plain.smoothed.item())
    assert loss.nll.item() == pytest.approx(plain.nll.item())
    assert loss.correct == plain.correct


def test_threads_in_any_order_give_the_same_bits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    started = [threading.Event() for _ in range(3)]

    def late(first_last: bool) -> Tensor:
        """The gradient when worker 0 waits for the others, or they for it."""
        for event in started:
            event.clear()

        def waiting(model: Transformer, batch: LoadedBatch, *rest: object) -> Loss:
            number = next(i for i, each in enumerate(shares) if each is batch)
            for other in (1, 2) if first_last and number == 0 else (0,) if not first_last and number else ():
                started[other].wait(5)
            loss = batch_loss(model, batch, *rest)  # type: ignore[arg-type]
            started[number].set()
            return loss

        monkeypatch.setattr(workers_module, "batch_loss", waiting)
        own, shares = model(dropout=0.3), parts(store, 3)
        workers(own, 3).backward(shares, step=1)
        return gradient(own)

    assert torch.equal(late(True), late(False))


def test_every_part_has_its_own_masks(store: Store) -> None:
    same = parts(store, 1) * 2
    own = model(dropout=0.5)
    once = workers(own, 1).backward(same[:1], step=1)
    twice = workers(own, 2).backward(same, step=1)
    assert twice.smoothed != 2 * once.smoothed


def test_an_error_in_a_thread_is_raised(store: Store) -> None:
    broken = parts(store, 2)
    broken[1].source.fill_(10**6)
    with pytest.raises(IndexError):
        workers(model(), 2).backward(broken, step=1)


def test_operations_get_their_threads_back(store: Store) -> None:
    own = workers(model(), 2)
    own.backward(parts(store, 2), step=1)
    assert torch.get_num_threads() == 2


def test_a_small_batch_or_a_single_core_has_one_worker() -> None:
    own = model()
    count = {
        (threads, tokens): Workers(
            own, TrainConfig(threads=threads, batch_tokens=tokens, micro_batch_tokens=25_000)
        ).count
        for threads in (1, 2, 8)
        for tokens in (500, 3000, 25_000)
    }
    assert count == {
        (1, 500): 1,
        (1, 3000): 1,
        (1, 25_000): 1,
        (2, 500): 1,
        (2, 3000): 2,
        (2, 25_000): 2,
        (8, 500): 1,
        (8, 3000): 5,
        (8, 25_000): 8,
    }


def test_a_run_says_how_many_work_on_it() -> None:
    told = [where(Workers(model(), TrainConfig(threads=threads))) for threads in (1, 2)]
    assert told == ["the CPU (1 worker, 1 thread)", "the CPU (2 workers, 2 threads)"]
