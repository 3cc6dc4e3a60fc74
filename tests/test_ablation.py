"""Heads that are switched off: what is left of the model, and that nothing of it is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from random_weights import randomized
from transduce.config import ModelConfig
from transduce.errors import UserError
from transduce.explain.ablation import attention_of, switched_off
from transduce.explain.head import KINDS, Head, all_heads
from transduce.model import Transformer

SHAPE = ModelConfig(
    encoder_layers=2, decoder_layers=3, d_model=16, d_ff=24, num_heads=4, d_v=3, attention_bias=True, output_bias=True
)
SOURCE, TARGET = torch.tensor([[5, 9, 4, 3]]), torch.tensor([[2, 6, 8]])


@pytest.fixture
def model() -> Transformer:
    return randomized(Transformer(SHAPE, 12, 12))


@torch.inference_mode()
def states(model: Transformer) -> Tensor:
    return model(SOURCE, TARGET)  # type: ignore[no-any-return]


def layer_of(head: Head) -> list[Head]:
    return [Head(head.kind, head.layer, each) for each in range(SHAPE.num_heads)]


every_layer = pytest.mark.parametrize("first", [head for head in all_heads(SHAPE) if head.head == 0], ids=str)


@every_layer
def test_without_all_its_heads_a_sublayer_adds_only_its_bias(model: Transformer, first: Head) -> None:
    with switched_off(model, layer_of(first)):
        found = states(model)
    attention = attention_of(model, first)
    attention.forward = lambda x, *rest, **more: attention.output.bias.expand_as(x)  # type: ignore[method-assign]
    assert torch.allclose(found, states(model))


@every_layer
def test_without_one_head_its_part_of_the_concatenation_is_zero(model: Transformer, first: Head) -> None:
    whole, off = states(model), Head(first.kind, first.layer, 2)
    with switched_off(model, [off]):
        found = states(model)

    def silence(module: torch.nn.Module, arguments: tuple[Tensor]) -> tuple[Tensor]:
        joined = arguments[0].clone()
        joined[..., 2 * 3 : 3 * 3] = 0
        return (joined,)

    attention_of(model, off).output.register_forward_pre_hook(silence)
    assert torch.allclose(found, states(model))
    assert not torch.allclose(found, whole)


def test_afterwards_every_weight_is_what_it_was(model: Transformer) -> None:
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    twice = Head("cross", 1, 1)
    with switched_off(model, [twice, Head("encoder", 0, 3), twice]), switched_off(model, [twice]):
        pass
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


def test_an_exception_brings_the_heads_back(model: Transformer) -> None:
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    with pytest.raises(KeyboardInterrupt), switched_off(model, all_heads(SHAPE)):
        raise KeyboardInterrupt
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


def _output(model: Transformer) -> Tensor:
    return attention_of(model, Head("encoder", 0, 0)).output.weight


def test_a_head_inside_comes_back_when_its_own_block_ends(model: Transformer) -> None:
    outer, inner = Head("encoder", 1, 0), Head("decoder", 2, 1)
    with switched_off(model, [outer]):
        expected = states(model)
        with switched_off(model, [inner]):
            assert not torch.allclose(states(model), expected)
        assert torch.equal(states(model), expected)


def wrong() -> Iterator[Any]:
    for kind, layers in zip(KINDS, (2, 3, 3), strict=True):
        name = "encoder-decoder" if kind == "cross" else kind
        yield pytest.param(
            Head(kind, layers, 0), f"{name} layer {layers + 1}: there are {layers}: choose from 1 to {layers}"
        )
        yield pytest.param(Head(kind, 0, 4), "head 5: there are 4: choose from 1 to 4")
        yield pytest.param(Head(kind, 0, -1), "head 0: there are 4")


@pytest.mark.parametrize(("head", "message"), list(wrong()))
def test_a_head_that_the_model_has_not_is_refused(model: Transformer, head: Head, message: str) -> None:
    before = _output(model).clone()
    with pytest.raises(UserError, match=message), switched_off(model, [Head("encoder", 0, 0), head]):
        pytest.fail("switched off a head that is not there")
    assert torch.equal(_output(model), before)
