from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.train import loss as loss_module
from transduce.train.loss import Loss, smoothed_cross_entropy

TOKENS, WIDTH, VOCABULARY = 13, 6, 11
ONE_ROW_AT_A_TIME, FIVE_ROWS, ALL_AT_ONCE = 1, 5 * VOCABULARY, 10**6
CHUNKS = [ONE_ROW_AT_A_TIME, FIVE_ROWS, ALL_AT_ONCE]


def problem(*, biased: bool = True, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """States, projection, bias and gold tokens."""
    generator = torch.Generator().manual_seed(3)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    expected = torch.randint(0, VOCABULARY, (TOKENS,), generator=generator)
    return leaf(TOKENS, WIDTH), leaf(VOCABULARY, WIDTH), leaf(VOCABULARY) if biased else None, expected


def plain(hidden: Tensor, weight: Tensor, bias: Tensor | None, expected: Tensor, smoothing: float) -> Loss:
    """The textbook form, with all logits at once."""
    logits = F.linear(hidden, weight, bias)
    return Loss(
        F.cross_entropy(logits, expected, label_smoothing=smoothing, reduction="sum"),
        F.cross_entropy(logits, expected, reduction="sum"),
        (logits.argmax(dim=1) == expected).sum(),
    )


def assert_same(ours: Tensor, theirs: Tensor, *, relative: float) -> None:
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= relative * (1 + theirs.abs().max())


@pytest.mark.parametrize(("dtype", "relative"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_loss_and_its_gradients_are_those_of_the_plain_form(
    monkeypatch: pytest.MonkeyPatch, chunk: int, smoothing: float, biased: bool, dtype: torch.dtype, relative: float
) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_ELEMENTS", chunk)
    *inputs, expected = problem(biased=biased, dtype=dtype)
    weights = [t for t in inputs if t is not None]
    ours, theirs = (form(*inputs, expected, smoothing) for form in (smoothed_cross_entropy, plain))
    assert_same(ours.smoothed, theirs.smoothed, relative=relative)
    assert_same(ours.nll, theirs.nll, relative=relative)
    assert ours.correct == theirs.correct
    gradients = [torch.autograd.grad(loss.smoothed, weights) for loss in (ours, theirs)]
    for mine, reference in zip(*gradients, strict=True):
        assert_same(mine, reference, relative=relative)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_gradient_is_the_slope(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_ELEMENTS", chunk)
    *inputs, expected = problem()
    assert torch.autograd.gradcheck(lambda *t: smoothed_cross_entropy(*t, expected, 0.1).smoothed, inputs)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_accuracy_counts_the_gold_tokens_that_have_the_highest_logit(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_ELEMENTS", chunk)
    states = torch.eye(VOCABULARY)
    gold = torch.arange(VOCABULARY)
    assert smoothed_cross_entropy(states, torch.eye(VOCABULARY), None, gold, 0.1).correct == VOCABULARY
    gold[:4] = gold[:4].roll(1)
    assert smoothed_cross_entropy(states, torch.eye(VOCABULARY), None, gold, 0.1).correct == VOCABULARY - 4


def test_the_gradient_scales_with_what_the_loss_is_multiplied_by() -> None:
    *inputs, expected = problem()
    once = torch.autograd.grad(smoothed_cross_entropy(*inputs, expected, 0.1).smoothed, inputs)
    scaled = torch.autograd.grad(smoothed_cross_entropy(*inputs, expected, 0.1).smoothed * -2.5, inputs)
    for gradient, multiple in zip(once, scaled, strict=True):
        assert_same(multiple, -2.5 * gradient, relative=1e-12)


def test_a_graph_that_is_retained_gives_the_same_gradients_again() -> None:
    *inputs, expected = problem()
    loss = smoothed_cross_entropy(*inputs, expected, 0.1).smoothed / 7
    first = torch.autograd.grad(loss, inputs, retain_graph=True)
    again = torch.autograd.grad(loss, inputs)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    *inputs, expected = problem()
    loss = smoothed_cross_entropy(*inputs, expected, 0.1).smoothed
    (gradient,) = torch.autograd.grad(loss * loss, inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_only_the_smoothed_loss_has_a_gradient() -> None:
    *inputs, expected = problem()
    loss = smoothed_cross_entropy(*inputs, expected, 0.1)
    assert loss.smoothed.requires_grad
    assert not loss.nll.requires_grad
    assert not loss.correct.requires_grad


def test_a_tied_weight_gets_the_gradient_of_both_its_uses() -> None:
    _, weight, _, expected = problem()

    def gradient(form: object) -> Tensor:
        loss = form(weight[expected].tanh(), weight, None, expected.roll(1), 0.1)  # type: ignore[operator]
        return torch.autograd.grad(loss.smoothed, weight)[0]

    assert_same(gradient(smoothed_cross_entropy), gradient(plain), relative=1e-9)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_none_is_computed(mode: type[torch.no_grad], monkeypatch: pytest.MonkeyPatch) -> None:
    *inputs, expected = problem()
    learning = smoothed_cross_entropy(*inputs, expected, 0.1)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the hidden states' gradient was computed")

    monkeypatch.setattr(Tensor, "scatter_add_", refuse)
    with pytest.raises(AssertionError):
        smoothed_cross_entropy(*inputs, expected, 0.1)
    with mode():
        measured = smoothed_cross_entropy(*inputs, expected, 0.1)
    assert [t.item() for t in measured] == [t.item() for t in learning]
    assert not measured.smoothed.requires_grad


def test_huge_logits_give_a_finite_loss_and_gradient() -> None:
    states = torch.tensor([[1e4, -1e4]], requires_grad=True)
    loss = smoothed_cross_entropy(states, torch.eye(2), None, torch.tensor([1]), 0.1)
    loss.smoothed.backward()
    assert loss.nll == 2e4
    assert states.grad is not None
    assert torch.allclose(states.grad, torch.tensor([[1 - 0.05, -0.95]]))


def test_no_tokens_lose_nothing() -> None:
    hidden, weight, bias, expected = problem()
    loss = smoothed_cross_entropy(hidden[:0], weight, bias, expected[:0], 0.1)
    assert [t.item() for t in loss] == [0, 0, 0]
    assert not torch.autograd.grad(loss.smoothed, weight)[0].any()


def test_a_perfect_model_of_the_smoothed_target_has_the_least_smoothed_loss() -> None:
    smoothing, size = 0.1, 5
    identity = torch.eye(size, dtype=torch.float64)
    target = smoothing / size + (1 - smoothing) * identity
    states = target.log().requires_grad_()
    loss = smoothed_cross_entropy(states, identity, None, torch.arange(size), smoothing)
    assert torch.allclose(loss.smoothed, -(target * target.log()).sum())
    assert torch.autograd.grad(loss.smoothed, states)[0].abs().max() < 1e-12


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("biased", [True, False])
def test_under_autocast_it_is_hardly_further_from_the_truth_than_the_plain_form(
    monkeypatch: pytest.MonkeyPatch, chunk: int, biased: bool
) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_ELEMENTS", chunk)
    *exact, expected = problem(biased=biased)
    truth = plain(*exact, expected, 0.1).smoothed
    wanted = [truth, *torch.autograd.grad(truth, [t for t in exact if t is not None])]

    def error(form: Callable[..., Loss]) -> Tensor:
        inputs = [None if t is None else t.detach().float().requires_grad_() for t in exact]
        with torch.autocast("cpu", torch.bfloat16):
            loss = form(*inputs, expected, 0.1).smoothed
        assert loss.dtype == torch.float32
        found = [loss, *torch.autograd.grad(loss, [t for t in inputs if t is not None])]
        assert {t.dtype for t in found} == {torch.float32}
        return torch.stack([(ours - true).norm() / true.norm() for ours, true in zip(found, wanted, strict=True)])

    ours, theirs = error(smoothed_cross_entropy), error(plain)
    assert (theirs[1:] > 1e-4).all()  # bfloat16 was at work
    assert (ours <= theirs * 1.2 + 1e-6).all()
