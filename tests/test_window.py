from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from random_weights import random, randomized
from transduce.config import ModelConfig
from transduce.model import AttentionRecord, Transformer
from transduce.model.attention import Compatibility, SelfAttention, causal_mask
from transduce.model.window import in_window, windowed

WIDTH, HEADS, KEY, VALUE = 6, 2, 3, 4


def config(**changes: object) -> ModelConfig:
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": WIDTH, "d_ff": 8, "num_heads": HEADS}
    return ModelConfig.model_validate({**shape, "d_k": KEY, "d_v": VALUE, **changes})


def band(length: int, window: int, *, causal: bool) -> Tensor:
    """The restriction, written out."""
    reach = window // 2
    rows = [[abs(i - j) <= reach and not (causal and j > i) for j in range(length)] for i in range(length)]
    return torch.tensor(rows)


@given(length=st.integers(1, 20), window=st.integers(1, 25), causal=st.booleans())
def test_the_window_is_a_band(length: int, window: int, causal: bool) -> None:
    positions = torch.arange(length)
    assert torch.equal(in_window(positions, positions, window, causal=causal), band(length, window, causal=causal))


def assert_like_full_attention(
    name: str, length: int, window: int, *, causal: bool, padding: int, bias: bool = False
) -> None:
    restricted = randomized(SelfAttention(config(window=window, attention=name, attention_bias=bias), causal=causal))
    full = randomized(SelfAttention(config(attention=name, attention_bias=bias), causal=causal))
    x = random(2, length, WIDTH).requires_grad_()
    present = torch.ones(2, length, dtype=torch.bool)
    present[1, length - padding :] = False
    mask = band(length, window, causal=causal) & present[:, None, None, :] | torch.eye(length, dtype=torch.bool)
    ours, theirs = [], []
    out = restricted(x, present[:, None, None, :] if padding else None, record=ours)
    expected = full(x, mask, record=theirs)
    plain = restricted(x, present[:, None, None, :] if padding else None)
    assert (out - expected).abs().max() < 1e-9
    assert (plain - expected).abs().max() < 1e-9
    assert (ours[0] - theirs[0]).abs().max() < 1e-9
    upstream = random(*out.shape, seed=2)
    gradients = torch.autograd.grad(plain, [x, *restricted.parameters()], upstream)
    references = torch.autograd.grad(expected, [x, *full.parameters()], upstream)
    assert all((a - b).abs().max() < 1e-9 for a, b in zip(gradients, references, strict=True))


@given(length=st.integers(1, 24), window=st.integers(1, 30), causal=st.booleans(), data=st.data())
@settings(max_examples=80)
def test_blocks_give_what_full_attention_with_a_band_mask_gives(
    length: int, window: int, causal: bool, data: st.DataObject
) -> None:
    padding = data.draw(st.integers(0, length - 1))
    assert_like_full_attention("scaled", length, window, causal=causal, padding=padding)


@pytest.mark.parametrize("name", ["scaled", "unscaled", "additive"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("length", "window", "padding"),
    [(7, 1, 0), (7, 2, 3), (7, 3, 0), (9, 4, 2), (8, 4, 0), (10, 6, 9), (11, 7, 1), (5, 10, 2), (5, 40, 0), (1, 4, 0)],
)
def test_every_compatibility_can_be_restricted(name: str, causal: bool, length: int, window: int, padding: int) -> None:
    assert_like_full_attention(name, length, window, causal=causal, padding=padding, bias=True)


def test_a_window_of_one_sees_only_itself() -> None:
    record: list[Tensor] = []
    randomized(SelfAttention(config(window=1), causal=False))(random(2, 5, WIDTH), None, record=record)
    assert torch.equal(record[0], torch.eye(5, dtype=torch.float64).expand(2, HEADS, 5, 5))


def test_a_window_over_everything_is_the_unrestricted_model() -> None:
    models = [randomized(Transformer(config(window=window), 20, 20)) for window in (None, 40)]
    source = torch.randint(4, 20, (2, 9), generator=torch.Generator().manual_seed(1))
    source[1, 6:] = 0
    target = torch.randint(4, 20, (2, 11), generator=torch.Generator().manual_seed(2))
    for given_source in (source[:1], source):
        full, restricted = (model(given_source, target[: len(given_source)]) for model in models)
        assert (full - restricted).abs().max() < 1e-9


def test_the_memory_is_attended_to_whole() -> None:
    model = randomized(Transformer(config(window=3), 20, 20))
    record = AttentionRecord()
    model(torch.arange(4, 13)[None], torch.arange(4, 9)[None], record=record)
    assert all((weights > 0).all() for weights in record.cross)
    assert all((weights == 0).any() for weights in record.encoder)


def heads(length: int) -> tuple[Tensor, Tensor, Tensor]:
    return random(1, HEADS, length, KEY), random(1, HEADS, length, KEY, seed=2), random(1, HEADS, length, VALUE, seed=3)


def flops(length: int, window: int | None, *, causal: bool) -> int:
    """Multiplications and additions of the attention itself, without projections."""
    attend, (q, k, v) = Compatibility(config()), heads(length)
    with FlopCounterMode(display=False) as counter:
        if window is None:
            attend(q, k, v, causal_mask(length, length, q.device) if causal else None)
        else:
            windowed(attend, q, k, v, None, window, causal=causal, noise=None, record=None)
    return counter.get_total_flops()


@pytest.mark.parametrize("causal", [True, False])
def test_restricted_attention_grows_with_length_times_window(causal: bool) -> None:
    for length in (64, 128, 256):
        assert flops(2 * length, None, causal=causal) == 4 * flops(length, None, causal=causal) > 0
        assert flops(2 * length, 8, causal=causal) == 2 * flops(length, 8, causal=causal) > 0
        assert flops(length + 3, 8, causal=causal) == flops(length + 4, 8, causal=causal)
    for window in (2, 4, 8):
        assert flops(64, 2 * window, causal=causal) == 2 * flops(64, window, causal=causal)
    assert flops(1024, 8, causal=causal) <= flops(1024, None, causal=causal) / 80


class LargestResult(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.elements = max(self.elements, result.numel())
        return result


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_restricted_attention_makes_no_tensor_of_length_by_length(causal: bool, padded: bool) -> None:
    def largest(length: int) -> int:
        mask = torch.ones(1, 1, 1, length, dtype=torch.bool) if padded else None
        with LargestResult() as mode:
            windowed(Compatibility(config()), *heads(length), mask, 8, causal=causal, noise=None, record=None)
        return mode.elements

    assert 0 < largest(1024) <= 2.1 * largest(512)


def test_a_decoding_step_costs_the_same_after_a_long_past_as_after_a_short_one() -> None:
    def step(past: int) -> int:
        q, k, v = heads(past)
        with FlopCounterMode(display=False) as counter:
            windowed(Compatibility(config()), q[:, :, -1:], k, v, None, 8, causal=True, noise=None, record=None)
        return counter.get_total_flops()

    assert step(500) == step(50) > 0
