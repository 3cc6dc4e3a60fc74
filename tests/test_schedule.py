from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transduce.train.average import average
from transduce.train.schedule import cooled, learning_rate

steps = st.integers(1, 10**6)
widths = st.integers(1, 4096)
warmups = st.integers(1, 20_000)


def rate(step: int, warmup_steps: int = 4000, d_model: int = 512) -> float:
    return learning_rate(step, d_model=d_model, warmup_steps=warmup_steps)


@given(step=steps, d_model=widths, warmup_steps=warmups)
def test_the_rate_is_equation_3(step: int, d_model: int, warmup_steps: int) -> None:
    rising = step / (math.sqrt(d_model) * warmup_steps * math.sqrt(warmup_steps))
    falling = 1 / math.sqrt(d_model * step)
    assert rate(step, warmup_steps, d_model) == pytest.approx(rising if step < warmup_steps else falling, rel=1e-12)


@given(warmup_steps=warmups, away=st.integers(1, 10**6))
def test_the_peak_is_at_the_end_of_the_warm_up(warmup_steps: int, away: int) -> None:
    peak = rate(warmup_steps, warmup_steps)
    assert peak == pytest.approx((512 * warmup_steps) ** -0.5, rel=1e-12)
    assert rate(warmup_steps + away, warmup_steps) < peak
    if away < warmup_steps:
        assert rate(warmup_steps - away, warmup_steps) < peak


@given(warmup_steps=st.integers(2, 20_000), data=st.data())
def test_before_the_peak_the_rate_is_linear(warmup_steps: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, warmup_steps))
    assert rate(step, warmup_steps) == pytest.approx(step * rate(1, warmup_steps), rel=1e-12)


@given(warmup_steps=warmups, beyond=steps)
def test_after_the_peak_four_times_the_steps_halve_the_rate(warmup_steps: int, beyond: int) -> None:
    step = warmup_steps + beyond
    assert rate(4 * step, warmup_steps) == pytest.approx(rate(step, warmup_steps) / 2, rel=1e-12)


@given(step=steps, factor=st.floats(0.01, 100))
def test_the_factor_multiplies(step: int, factor: float) -> None:
    scaled = learning_rate(step, d_model=512, warmup_steps=4000, factor=factor)
    assert scaled == pytest.approx(factor * rate(step), rel=1e-12)


def test_updates_are_counted_from_one() -> None:
    with pytest.raises(AssertionError, match="from 1"):
        rate(0)


# Weights that float64 adds without rounding, so that the order can be checked to the bit.
weights = st.integers(-(2**24), 2**24).map(lambda whole: whole / 2**20)


@given(values=st.lists(weights, min_size=1, max_size=5))
def test_the_average_is_the_mean_of_each_weight_in_any_order(values: list[float]) -> None:
    models = [{"a": torch.tensor([value, -value]), "b.c": torch.full((2, 1), value * value)} for value in values]
    expected = torch.tensor(math.fsum(values) / len(values), dtype=torch.float64).float()
    for order in itertools.permutations(models):
        mean = average(iter(order))
        assert set(mean) == {"a", "b.c"}
        assert mean["a"].dtype == torch.float32
        assert torch.equal(mean["a"], torch.stack([expected, -expected]))
        assert torch.equal(mean["b.c"], average(models)["b.c"])


def test_a_sum_that_float32_would_round_is_averaged_exactly() -> None:
    values = [2.0**24, 1.0, 1.0, -(2.0**24)]
    assert average({"a": torch.tensor(v)} for v in values)["a"] == 0.5


def test_averaging_one_checkpoint_is_that_checkpoint_and_none_is_a_bug() -> None:
    only = {"a": torch.randn(3, 2, generator=torch.Generator().manual_seed(0))}
    assert torch.equal(average([only])["a"], only["a"])
    with pytest.raises(AssertionError, match="nothing"):
        average([])


def test_averaging_leaves_the_checkpoints_alone() -> None:
    models = [{"a": torch.full((2,), float(n), dtype=torch.float64)} for n in range(3)]
    assert average(models)["a"].tolist() == [1.0, 1.0]
    assert [model["a"].tolist() for model in models] == [[float(n)] * 2 for n in range(3)]


@given(spent=st.floats(0, 1), cooldown=st.floats(0.01, 1))
def test_a_cool_down_is_a_line_from_1_to_0_over_the_last_share_of_the_budget(spent: float, cooldown: float) -> None:
    expected = 1.0 if spent <= 1 - cooldown else (1 - spent) / cooldown
    assert cooled(spent, cooldown) == pytest.approx(expected, abs=1e-9)
    assert cooled(1.0, cooldown) == 0.0


def test_without_a_cool_down_or_a_budget_the_rate_is_the_papers() -> None:
    assert cooled(1.0, 0.0) == 1.0
    assert cooled(None, 0.5) == 1.0
