"""Per-token perplexity, from sums that can be merged over batches and processes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from transduce.errors import UserError


def perplexity(negative_log_likelihood: float, tokens: int) -> float:
    """exp of the mean negative log-likelihood (nats, no label smoothing); infinite where exp overflows."""
    assert tokens >= 0
    if tokens == 0:
        raise UserError("perplexity of no tokens: give at least one line of text")
    try:
        return math.exp(negative_log_likelihood / tokens)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Likelihood:
    """A sum of negative log-likelihoods and its number of tokens; add two to merge them."""

    negative_log_likelihood: float = 0.0
    tokens: int = 0

    def __add__(self, other: Likelihood) -> Likelihood:
        return Likelihood(
            self.negative_log_likelihood + other.negative_log_likelihood,
            self.tokens + other.tokens,
        )

    @property
    def perplexity(self) -> float:
        """Of everything added so far."""
        return perplexity(self.negative_log_likelihood, self.tokens)
