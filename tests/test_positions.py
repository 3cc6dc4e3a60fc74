from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.model.positions import Learned, Sinusoidal, sinusoids

widths = st.integers(1, 32).map(lambda half: 2 * half)


def by_the_formula(position: int, dimension: int, d_model: int) -> float:
    """Section 3.5, one number at a time."""
    i = dimension // 2
    angle = position / math.pow(10000, 2 * i / d_model)
    return math.sin(angle) if dimension % 2 == 0 else math.cos(angle)


@given(start=st.integers(0, 3000), length=st.integers(0, 5), d_model=widths)
def test_sinusoids_are_the_papers(start: int, length: int, d_model: int) -> None:
    table = sinusoids(start, start + length, d_model, torch.float64)
    expected = [[by_the_formula(p, d, d_model) for d in range(d_model)] for p in range(start, start + length)]
    assert table.shape == (length, d_model)
    assert torch.allclose(table, torch.tensor(expected, dtype=torch.float64).view(length, d_model), rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@given(start=st.integers(0, 40), length=st.integers(1, 20), d_model=widths)
def test_positions_past_the_table_are_as_exact_as_those_in_it(
    dtype: torch.dtype, start: int, length: int, d_model: int
) -> None:
    positions = Sinusoidal(d_model, ready=30).to(dtype)
    exact = sinusoids(start, start + length, d_model, torch.float64)
    found = positions(start, start + length)
    assert found.dtype == dtype
    assert (found.double() - exact).abs().max() <= torch.finfo(dtype).eps
    assert positions.table.shape == (30, d_model)


def test_a_sequence_longer_than_the_ready_table_can_be_encoded() -> None:
    shape = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 4, "d_ff": 4, "num_heads": 1}
    model = Transformer(ModelConfig.model_validate({**shape, "window": 2}), 9, 9)
    ready = model.source_embedding.positions.table.size(0)
    ids = torch.randint(4, 9, (1, ready + 10), generator=torch.Generator().manual_seed(1))
    embedded = model.source_embedding(ids, 0, None)
    expected = model.source_embedding.tokens(ids) * 2 + sinusoids(0, ready + 10, 4)
    assert torch.equal(embedded, expected)
    assert model(ids, ids).isfinite().all()


@given(position=st.integers(500, 2000), shift=st.integers(-500, 500), d_model=widths)
def test_a_shift_is_one_linear_map_whatever_the_position(position: int, shift: int, d_model: int) -> None:
    rotation = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(d_model // 2):
        angle = shift / 10000 ** (2 * i / d_model)
        sine, cosine = 2 * i, 2 * i + 1
        rotation[sine, sine] = rotation[cosine, cosine] = math.cos(angle)
        rotation[sine, cosine], rotation[cosine, sine] = math.sin(angle), -math.sin(angle)
    here, there = (sinusoids(p, p + 1, d_model, torch.float64)[0] for p in (position, position + shift))
    assert torch.allclose(rotation @ here, there, rtol=0, atol=1e-10)


def test_sinusoids_are_not_weights() -> None:
    positions = Sinusoidal(8)
    assert not list(positions.parameters())
    assert not positions.state_dict()


def test_the_embedding_is_scaled_and_positions_are_not() -> None:
    shape = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 4, "num_heads": 1}
    for kind in ("sinusoidal", "learned"):
        model = Transformer(ModelConfig.model_validate({**shape, "positions": kind}), 9, 9)
        ids = torch.tensor([[5, 6, 5]])
        for embedding in (model.source_embedding, model.target_embedding):
            expected = model.projection.weight[ids[0]] * 4 + embedding.positions(7, 10)
            assert torch.equal(embedding(ids, 7, None)[0], expected)


def test_learned_positions_are_rows_of_a_table_and_end_with_it() -> None:
    positions = Learned(4, 6)
    torch.nn.init.normal_(positions.weight)
    assert torch.equal(positions(2, 6), positions.weight[2:6])
    with pytest.raises(AssertionError, match="position 7 is past the learned table of 6"):
        positions(2, 7)
    positions(2, 4).sum().backward()
    assert positions.weight.grad is not None
    assert positions.weight.grad.any(dim=1).tolist() == [False, False, True, True, False, False]


def test_source_and_target_learn_positions_of_their_own() -> None:
    shape = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 4, "d_ff": 4, "num_heads": 1}
    model = Transformer(ModelConfig.model_validate({**shape, "positions": "learned", "max_positions": 5}), 9, 9)
    tables = [model.source_embedding.positions.weight, model.target_embedding.positions.weight]
    assert tables[0].data_ptr() != tables[1].data_ptr()
    assert [table.shape for table in tables] == [(5, 4), (5, 4)]
