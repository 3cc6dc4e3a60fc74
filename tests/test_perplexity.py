from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import UserError
from transduce.evaluate.perplexity import Likelihood, perplexity


@given(st.integers(2, 50_000), st.integers(1, 1000))
def test_guessing_evenly_among_n_has_perplexity_n(choices: int, tokens: int) -> None:
    assert perplexity(tokens * math.log(choices), tokens) == pytest.approx(choices)


def test_certainty_has_perplexity_one() -> None:
    assert perplexity(0.0, 7) == 1.0


def test_what_overflows_is_infinite_and_nan_stays_visible() -> None:
    assert perplexity(1e6, 1) == math.inf
    assert perplexity(math.inf, 5) == math.inf
    assert math.isnan(perplexity(math.nan, 5))


def test_no_tokens_have_no_perplexity() -> None:
    with pytest.raises(UserError, match="no tokens"):
        _ = Likelihood().perplexity


parts = st.lists(st.tuples(st.floats(0, 1e4), st.integers(1, 500)), min_size=1)


@given(parts)
def test_merged_batches_are_one_batch(parts: list[tuple[float, int]]) -> None:
    total = sum((Likelihood(*part) for part in parts), start=Likelihood())
    sums = sum(loss for loss, _ in parts), sum(tokens for _, tokens in parts)
    assert (total.negative_log_likelihood, total.tokens) == sums
    assert total.perplexity == perplexity(*sums)
