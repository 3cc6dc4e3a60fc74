"""Attention that looks at everything it may alike: what chance would give, beside which heads are measured."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from transduce.explain.record import Attention


def even_weights(queries: int, keys: int, *, causal: bool) -> NDArray[np.float64]:
    """Each query's weights over the keys; a causal query sees as many keys as there are queries up to it."""
    visible = np.ones((queries, keys))
    if causal:
        visible = np.tril(visible)
    return np.asarray(visible / visible.sum(axis=-1, keepdims=True))


def evened(attention: Attention) -> Attention:
    """One layer of one such head over the same tokens; in the decoder it sees what was read so far."""
    sizes = len(attention.queries), len(attention.keys)
    weights = even_weights(*sizes, causal=attention.kind == "decoder")
    return Attention(attention.kind, weights[None, None], attention.queries, attention.keys)
