"""Attention with its gradient written out is equation 1."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transduce.config import ModelConfig
from transduce.model import Noise
from transduce.model.attention import Compatibility, attention_weights, causal_mask, scaled_dot_product
from transduce.model.written_out import attend

sizes = st.tuples(*(st.integers(1, 5) for _ in range(6)))  # batch, heads, queries, keys, d_k, d_v


def leaves(shape: tuple[int, ...], *, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    batch, heads, queries, keys, key_width, value_width = shape
    generator = torch.Generator().manual_seed(sum(shape))

    def leaf(length: int, width: int) -> Tensor:  # strided as the heads of a projection are
        made = torch.randn(batch, length, heads, width, generator=generator, dtype=dtype).transpose(1, 2)
        return made.requires_grad_()

    return [leaf(queries, key_width), leaf(keys, key_width), leaf(keys, value_width)]


def padding(batch: int, keys: int) -> Tensor:
    return (torch.arange(keys) <= torch.arange(batch)[:, None] % keys)[:, None, None, :]


def all_of(shape: tuple[int, ...]) -> Tensor:
    return torch.ones(shape[:4], dtype=torch.bool)


def assert_same_values_and_gradients(ours: Tensor, theirs: Tensor, inputs: list[Tensor]) -> None:
    upstream = torch.randn(ours.shape, generator=torch.Generator().manual_seed(7), dtype=ours.dtype)
    assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    found, wanted = (torch.autograd.grad(out, inputs, upstream) for out in (ours, theirs))
    for mine, reference in zip(found, wanted, strict=True):
        assert torch.allclose(mine, reference, rtol=1e-10, atol=1e-12)


@given(sizes)
def test_it_is_equation_1_and_so_is_its_gradient(shape: tuple[int, ...]) -> None:
    inputs = leaves(shape)
    ours = attend(*inputs, None, all_of(shape), scale=shape[4] ** -0.5, keep_scale=1.0)
    assert_same_values_and_gradients(ours, scaled_dot_product(*inputs), inputs)


@given(sizes)
def test_without_a_mask_to_drop_by_all_weights_are_kept(shape: tuple[int, ...]) -> None:
    inputs, mask = leaves(shape), padding(shape[0], shape[3])
    ours = attend(*inputs, mask, None, scale=shape[4] ** -0.5, keep_scale=1.0)
    assert_same_values_and_gradients(ours, scaled_dot_product(*inputs, mask), inputs)


@given(sizes)
def test_padded_keys_are_not_attended_to(shape: tuple[int, ...]) -> None:
    inputs, mask = leaves(shape), padding(shape[0], shape[3])
    ours = attend(*inputs, mask, all_of(shape), scale=shape[4] ** -0.5, keep_scale=1.0)
    assert_same_values_and_gradients(ours, scaled_dot_product(*inputs, mask), inputs)


@given(sizes)
def test_a_causal_mask_serves_all_heads(shape: tuple[int, ...]) -> None:
    shape = (*shape[:3], shape[2], *shape[4:])
    inputs = leaves(shape)
    mask = causal_mask(shape[2], shape[2], torch.device("cpu"))
    ours = attend(*inputs, mask, all_of(shape), scale=shape[4] ** -0.5, keep_scale=1.0)
    assert_same_values_and_gradients(ours, scaled_dot_product(*inputs, mask), inputs)


@given(sizes)
def test_weights_go_through_the_dropout_mask(shape: tuple[int, ...]) -> None:
    inputs, mask = leaves(shape), padding(shape[0], shape[3])
    keep = torch.rand(shape[:4], generator=torch.Generator().manual_seed(1)) < 0.6
    ours = attend(*inputs, mask, keep, scale=0.5, keep_scale=1 / 0.6)
    q, k, v = inputs
    weights = attention_weights(0.5 * q @ k.transpose(-2, -1), mask)
    assert_same_values_and_gradients(ours, weights * keep / 0.6 @ v, inputs)


def test_the_gradient_is_the_slope() -> None:
    inputs = leaves((2, 2, 3, 4, 2, 3))
    keep = torch.rand(2, 2, 3, 4, generator=torch.Generator().manual_seed(1)) < 0.6
    assert torch.autograd.gradcheck(lambda *t: attend(*t, None, keep, scale=0.7, keep_scale=1.5), inputs)


def test_scores_of_any_size_give_finite_weights() -> None:
    inputs = leaves((1, 1, 3, 4, 2, 2))
    out = attend(*(1e4 * t for t in inputs), None, all_of((1, 1, 3, 4)), scale=1.0, keep_scale=1.0)
    assert out.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), inputs))


def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    inputs = leaves((1, 1, 2, 2, 2, 2))
    attended = attend(*inputs, None, all_of((1, 1, 2, 2)), scale=1.0, keep_scale=1.0)
    (gradient,) = torch.autograd.grad((attended**2).sum(), inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize(("dropout", "way"), [(0.0, "ScaledDotProduct"), (0.3, "_Attention")])
def test_training_on_a_cpu_attends_as_the_recorded_path_does(dropout: float, way: str) -> None:
    compatibility = Compatibility(ModelConfig(d_model=8, num_heads=2, attention_dropout=dropout))
    inputs, mask, noise = leaves((3, 2, 4, 4, 4, 4)), padding(3, 4), Noise(1, 2)
    fast = compatibility(*inputs, mask, noise=noise)
    assert way in fast.grad_fn.name()
    assert_same_values_and_gradients(fast, compatibility(*inputs, mask, noise=noise, record=[]), inputs)


def test_a_mask_does_not_depend_on_the_precision() -> None:
    compatibility = Compatibility(ModelConfig(d_model=8, num_heads=2, attention_dropout=0.3))
    inputs = leaves((3, 2, 4, 4, 4, 4), dtype=torch.float32)
    exact = compatibility(*inputs, None, noise=Noise(1, 2))
    with torch.autocast("cpu", torch.bfloat16):
        rounded = compatibility(*(t.bfloat16() for t in inputs), None, noise=Noise(1, 2))
    assert torch.allclose(exact, rounded, atol=0.05)
