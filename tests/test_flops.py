"""Operations of a model: the formula against torch's own counter, and against the paper's models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.model.flops import forward_flops, training_flops
from transduce.settings import load_config
from transduce.train.feed import LoadedBatch
from transduce.train.workers import batch_loss

VOCABULARY = 50
SMALL: dict[str, Any] = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 24, "d_ff": 40, "num_heads": 4}

Shape = tuple[int, ...]


def in_place(total: Shape, a: Shape, b: Shape, out_shape: Shape, beta: float = 1, alpha: float = 1) -> int:
    """Of `total.addmm_(a, b)`, which the counter does not know."""
    return 2 * a[0] * a[1] * b[1]


def counter() -> FlopCounterMode:
    return FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: in_place})


def random_batch(sentences: int, source: int, target: int) -> LoadedBatch:
    generator = torch.Generator().manual_seed(0)
    sides = [torch.randint(4, VOCABULARY, (sentences, length), generator=generator) for length in (source, target)]
    return LoadedBatch(sides[0], sides[1], sides[1].flatten(), present=None, source_padded=False)


def counted(config: ModelConfig, batch: LoadedBatch) -> tuple[int, int]:
    """What torch counts forward, and forward and backward, when attention is made of plain products."""
    model = Transformer(config, VOCABULARY, VOCABULARY)
    with sdpa_kernel(SDPBackend.MATH):
        with counter() as forward:
            batch_loss(model.requires_grad_(False), batch, None, 0.1)
        with counter() as both:
            batch_loss(model.requires_grad_(True), batch, None, 0.1).smoothed.backward()
    return int(forward.get_total_flops()), int(both.get_total_flops())


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"d_k": 5, "d_v": 7},
        {"norm": "pre", "positions": "learned", "activation": "gelu"},
        {"tying": "none", "output_bias": True, "attention_bias": True},
        {"attention": "unscaled"},
        {"attention": "additive"},
        {"window": 6},
        {"window": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize(("source", "target"), [(7, 5), (4, 11)])
def test_the_formula_is_what_torch_counts(variant: dict[str, Any], source: int, target: int) -> None:
    config = ModelConfig(**SMALL, **variant)
    batch = random_batch(3, source, target)
    forward, both = counted(config, batch)
    assert forward == 3 * forward_flops(config, source, target, VOCABULARY)
    assert both == 3 * training_flops(config, source, target, VOCABULARY)


def test_attention_alone_grows_with_the_square_of_the_length() -> None:
    config = ModelConfig(**SMALL)
    one, two, four = (forward_flops(config, n, n, VOCABULARY) for n in (16, 32, 64))
    heads = 2 * SMALL["d_model"]  # d_k + d_v of all heads
    products = (
        2 * heads * (2 + 3 + 3)
    )  # a multiplication and an addition; 2 layers of the encoder, 3 + 3 of the decoder
    assert two - 2 * one == products * (32**2 - 2 * 16**2)
    assert four - 2 * two == products * (64**2 - 2 * 32**2)


def test_a_window_makes_that_linear() -> None:
    config = ModelConfig(**SMALL, window=8)
    own = [forward_flops(config, n, 1, VOCABULARY) - forward_flops(config, n - 4, 1, VOCABULARY) for n in (64, 128)]
    assert own[0] == own[1]


@pytest.mark.parametrize(
    ("preset", "steps", "operations"), [("wmt14-en-de", 100_000, 9.4e17), ("wmt14-en-de-big", 300_000, 9.6e18)]
)
def test_the_papers_models_take_as_much_as_is_known_of_them(preset: str, steps: int, operations: float) -> None:
    """But for attention's own products, which depend on the length of sentences."""
    config = load_config(preset=preset)
    assert config.train.steps == steps
    one, two = (forward_flops(config.model, n, n, config.text.vocabulary) for n in (1000, 2000))
    per_token = 3 * (4 * one - two) / 2000  # what is not squared
    total = per_token * config.train.batch_tokens * steps
    assert total == pytest.approx(operations, rel=0.01)
