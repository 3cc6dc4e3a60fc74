"""R-Drop: the plain formula, its gradients, and two passes that differ in their dropout alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from test_loss import CHUNKS, VOCABULARY, assert_same
from test_training import new_loop
from transduce.config import ModelConfig, TrainConfig
from transduce.data.batching import collate
from transduce.data.store import Store
from transduce.model import Noise, Transformer
from transduce.text import Symbols
from transduce.train import loss as loss_module
from transduce.train.feed import LoadedBatch, load, parted, updates
from transduce.train.loss import Loss, smoothed_cross_entropy
from transduce.train.r_drop import r_drop, twice
from transduce.train.recompute import recompute_layers
from transduce.train.workers import WORKER_TOKENS, Workers, batch_loss, states

Letters = tuple[Store, Symbols]
CPU = torch.device("cpu")
TOKENS, WIDTH, ALPHA = 13, 6, 5.0


def problem(*, biased: bool = True, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """States of two passes that are near each other, projection, bias and gold tokens."""
    generator = torch.Generator().manual_seed(3)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    first = random(TOKENS, WIDTH)
    hidden = torch.cat([first, first + 0.3 * random(TOKENS, WIDTH)])
    expected = torch.randint(0, VOCABULARY, (TOKENS,), generator=generator)
    bias = random(VOCABULARY) if biased else None
    leaves = [None if t is None else t.to(dtype).requires_grad_() for t in (hidden, random(VOCABULARY, WIDTH), bias)]
    return leaves[0], leaves[1], leaves[2], expected  # type: ignore[return-value]


def plain(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, expected: Tensor, *, smoothing: float, alpha: float
) -> tuple[Tensor, Loss]:
    """Half of the paper's loss, with all logits at once."""
    passes = F.linear(hidden, weight, bias).chunk(2)
    first, second = (logits.log_softmax(dim=1) for logits in passes)
    divergence = sum(F.kl_div(a, b, reduction="sum", log_target=True) for a, b in ((second, first), (first, second)))
    smoothed, nll = (
        sum(F.cross_entropy(logits, expected, label_smoothing=eps, reduction="sum") for logits in passes)
        for eps in (smoothing, 0.0)
    )
    correct = sum((logits.argmax(dim=1) == expected).sum() for logits in passes)
    return (smoothed + alpha / 2 * divergence) / 2, Loss(smoothed / 2, nll / 2, correct / 2)


@pytest.mark.parametrize(("dtype", "relative"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("smoothing", "alpha"), [(0.0, ALPHA), (0.1, ALPHA), (0.1, 0.5)])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_it_is_half_of_the_papers_loss_and_so_are_its_gradients(
    monkeypatch: pytest.MonkeyPatch,
    chunk: int,
    smoothing: float,
    alpha: float,
    biased: bool,
    dtype: torch.dtype,
    relative: float,
) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_ELEMENTS", chunk)
    *inputs, expected = problem(biased=biased, dtype=dtype)
    weights = [t for t in inputs if t is not None]
    (ours, told), (theirs, truth) = (
        form(*inputs, expected, smoothing=smoothing, alpha=alpha) for form in (r_drop, plain)
    )
    assert_same(ours, theirs, relative=relative)
    assert_same(told.smoothed, truth.smoothed, relative=relative)
    assert_same(told.nll, truth.nll, relative=relative)
    assert told.correct == truth.correct
    for mine, reference in zip(torch.autograd.grad(ours, weights), torch.autograd.grad(theirs, weights), strict=True):
        assert_same(mine, reference, relative=relative)


def test_the_gradient_is_the_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_ELEMENTS", 10 * VOCABULARY)
    *inputs, expected = problem()
    assert torch.autograd.gradcheck(lambda *t: r_drop(*t, expected, smoothing=0.1, alpha=ALPHA)[0], inputs)


def test_one_token_by_hand() -> None:
    p, q = (0.8, 0.2), (0.6, 0.4)
    objective, told = r_drop(
        torch.tensor([p, q], dtype=torch.float64).log(),
        torch.eye(2, dtype=torch.float64),
        None,
        torch.tensor([0]),
        smoothing=0.0,
        alpha=3.0,
    )
    forth, back = (sum(a * math.log(a / b) for a, b in zip(*pair, strict=True)) for pair in ((p, q), (q, p)))
    surprise = -(math.log(0.8) + math.log(0.6)) / 2
    assert told.nll.item() == pytest.approx(surprise)
    assert objective.item() == pytest.approx(surprise + 3.0 * (forth + back) / 4)
    assert told.correct == 1


def test_two_equal_passes_are_one_pass() -> None:
    hidden, weight, bias, expected = problem()
    states = hidden.detach()[:TOKENS].requires_grad_()
    leaves = [t for t in (states, weight, bias) if t is not None]
    objective, told = r_drop(torch.cat([states, states]), weight, bias, expected, smoothing=0.1, alpha=ALPHA)
    once = smoothed_cross_entropy(states, weight, bias, expected, 0.1)
    assert objective.item() == pytest.approx(once.smoothed.item(), rel=1e-12)
    assert [t.item() for t in told] == pytest.approx([t.item() for t in once], rel=1e-12)
    for mine, theirs in zip(
        torch.autograd.grad(objective, leaves), torch.autograd.grad(once.smoothed, leaves), strict=True
    ):
        assert_same(mine, theirs, relative=1e-12)


def test_a_tied_weight_gets_the_gradient_of_all_its_uses() -> None:
    _, weight, _, expected = problem()

    def gradient(form: Callable[..., tuple[Tensor, Loss]]) -> Tensor:
        passes = torch.cat([weight[expected].tanh(), weight[expected].sin()])
        return torch.autograd.grad(form(passes, weight, None, expected, smoothing=0.1, alpha=ALPHA)[0], weight)[0]

    assert_same(gradient(r_drop), gradient(plain), relative=1e-9)


def test_only_what_is_differentiated_has_a_gradient_and_not_twice() -> None:
    *inputs, expected = problem()
    objective, told = r_drop(*inputs, expected, smoothing=0.1, alpha=ALPHA)
    assert objective.requires_grad
    assert not any(sum_.requires_grad for sum_ in told)
    (gradient,) = torch.autograd.grad(objective * objective, inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_without_gradients_none_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    *inputs, expected = problem()
    learning, _ = r_drop(*inputs, expected, smoothing=0.1, alpha=ALPHA)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the gradient by the logits was computed")

    monkeypatch.setattr(Tensor, "scatter_add_", refuse)
    with pytest.raises(AssertionError):
        r_drop(*inputs, expected, smoothing=0.1, alpha=ALPHA)
    with torch.no_grad():
        measured, _ = r_drop(*inputs, expected, smoothing=0.1, alpha=ALPHA)
    assert measured.item() == learning.item()


def test_huge_logits_that_contradict_each_other_are_finite() -> None:
    hidden = torch.tensor([[1e4, -1e4], [-1e4, 1e4]], requires_grad=True)
    objective, told = r_drop(hidden, torch.eye(2), None, torch.tensor([1]), smoothing=0.1, alpha=ALPHA)
    (gradient,) = torch.autograd.grad(objective, hidden)
    assert told.nll == 1e4  # 2e4 for one pass, nothing for the other
    assert objective.isfinite()
    assert bool(gradient.isfinite().all())


def test_no_tokens_lose_nothing() -> None:
    hidden, weight, bias, expected = problem()
    objective, told = r_drop(hidden[:0], weight, bias, expected[:0], smoothing=0.1, alpha=ALPHA)
    assert [t.item() for t in (objective, *told)] == [0, 0, 0, 0]
    assert not torch.autograd.grad(objective, weight)[0].any()


@pytest.mark.parametrize("chunk", CHUNKS)
def test_under_autocast_its_gradients_are_no_further_from_the_truth_than_the_plain_forms(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_ELEMENTS", chunk)
    *exact, expected = problem()
    truth, _ = plain(*exact, expected, smoothing=0.1, alpha=ALPHA)
    wanted = [truth, *torch.autograd.grad(truth, [t for t in exact if t is not None])]

    def error(form: Callable[..., tuple[Tensor, Loss]]) -> Tensor:
        inputs = [None if t is None else t.detach().float().requires_grad_() for t in exact]
        with torch.autocast("cpu", torch.bfloat16):
            objective, _ = form(*inputs, expected, smoothing=0.1, alpha=ALPHA)
        found = [objective, *torch.autograd.grad(objective, [t for t in inputs if t is not None])]
        assert {t.dtype for t in found} == {torch.float32}
        return torch.stack([(ours - true).norm() / true.norm() for ours, true in zip(found, wanted, strict=True)])

    ours, theirs = error(r_drop), error(plain)
    assert (theirs[1:] > 1e-4).all()  # bfloat16 was at work
    assert (ours[1:] <= theirs[1:]).all()
    assert ours[0] < 2e-3, "one number, so that chance says whose is nearer"


SHAPE = ModelConfig(encoder_layers=1, decoder_layers=2, d_model=8, d_ff=16, num_heads=2, dropout=0.0)


def model(codec: Symbols, **changes: float) -> Transformer:
    torch.manual_seed(1)
    return Transformer(SHAPE.model_copy(update=changes), codec.size, codec.size).double()


def batch_of(store: Store) -> LoadedBatch:
    batch = load(collate(store, np.arange(len(store))), CPU)
    assert batch.present is not None, "rows of different lengths"
    return batch


def test_both_passes_have_the_same_tokens_in_the_same_order(letters: Letters) -> None:
    store, codec = letters
    own, batch = model(codec), batch_of(store)
    for each in (batch, load(collate(store, np.arange(1)), CPU)):  # padded, and not
        first, second = states(own, twice(each), Noise(1, 1)).chunk(2)
        assert torch.allclose(first, states(own, each, None), atol=1e-12)
        assert torch.allclose(second, first, atol=1e-12)
    assert twice(batch).tokens == batch.tokens


def test_the_two_passes_differ_in_their_masks(letters: Letters) -> None:
    store, codec = letters
    first, second = states(model(codec, dropout=0.5), twice(batch_of(store)), Noise(1, 1)).chunk(2)
    assert ((first - second).abs().amax(dim=1) > 1e-3).all(), "each token"


def recipe(count: int, alpha: float) -> TrainConfig:
    tokens = count * WORKER_TOKENS
    return TrainConfig(threads=count, batch_tokens=tokens, micro_batch_tokens=tokens, r_drop=alpha)


def gradient_of(model: Transformer) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize(("count", "parts"), [(1, 3), (2, 2), (2, 5)])
def test_however_shared_out_passes_without_dropout_have_the_gradient_of_one(
    letters: Letters, count: int, parts: int
) -> None:
    store, codec = letters
    shared, whole, everything = model(codec), model(codec), batch_of(store)
    cuts = [load(collate(store, part), CPU) for part in parted(np.arange(len(store)), parts)]
    before = torch.get_num_threads()
    try:
        loss = Workers(shared, recipe(count, ALPHA)).backward(cuts, step=1)
    finally:
        torch.set_num_threads(before)
    once = batch_loss(whole, everything, None, TrainConfig().label_smoothing)
    (once.smoothed / everything.tokens).backward()  # type: ignore[no-untyped-call]
    assert len(gradient_of(shared)) == whole.num_parameters()
    assert torch.allclose(gradient_of(shared), gradient_of(whole), rtol=1e-9, atol=1e-12)
    assert [t.item() for t in loss] == pytest.approx([t.item() for t in once])


def test_with_dropout_the_gradient_is_that_of_the_plain_form(letters: Letters) -> None:
    store, codec = letters
    ours, theirs, batch = model(codec, dropout=0.4), model(codec, dropout=0.4), batch_of(store)
    loss = Workers(ours, recipe(1, ALPHA)).backward([batch], step=7)
    passes = states(theirs, twice(batch), Noise(TrainConfig().seed, 7))
    projection = theirs.projection
    objective, told = plain(
        passes, projection.weight, projection.bias, batch.expected, smoothing=TrainConfig().label_smoothing, alpha=ALPHA
    )
    (objective / batch.tokens).backward()  # type: ignore[no-untyped-call]
    assert torch.allclose(gradient_of(ours), gradient_of(theirs), rtol=1e-9, atol=1e-12)
    assert loss.smoothed.item() == pytest.approx(told.smoothed.item())
    assert loss.smoothed.item() < objective.item(), "the divergence is not told"


def test_recomputing_gives_the_same_gradients_bit_for_bit(tmp_path: Path, letters: Letters) -> None:
    everywhere = ("model.dropout=0.2", "model.attention_dropout=0.2", "model.relu_dropout=0.2", "train.r_drop=2.0")
    gradients = []
    for again in (False, True):
        loop = new_loop(*letters, tmp_path / "a", *everywhere)
        if again:
            recompute_layers(loop.model)
        update = next(updates(loop.store, loop.batching, CPU, parts=1, epoch=0, update=0))
        loop.workers.backward(update.batches, 1)
        gradients.append(gradient_of(loop.model))
    assert torch.equal(*gradients)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_lower_precision_learns_as_float32_does(tmp_path: Path, letters: Letters, precision: str) -> None:
    ends = []
    for each in ("float32", precision):
        settings = ("train.steps=6", "train.r_drop=5.0", f"train.precision={each}")
        loop = new_loop(*letters, tmp_path / each, *settings)
        loop.model.float()
        loop.run()
        ends.append([p.detach() for p in loop.model.parameters()])
    assert any(not torch.equal(a, b) for a, b in zip(*ends, strict=True))
    for a, b in zip(*ends, strict=True):
        assert torch.allclose(a, b, atol=0.05)
