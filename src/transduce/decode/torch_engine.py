"""The PyTorch engine: the reference, for every model and every kind of search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from transduce.config import SearchConfig
from transduce.decode.beam import beam_search
from transduce.decode.engine import batches, go_on
from transduce.decode.greedy import greedy
from transduce.decode.hypothesis import Hypothesis, Request
from transduce.decode.score import negative_log_likelihood
from transduce.model import Transformer
from transduce.text.codec import BOS, EOS, PAD

MAX_LOGITS = 2**25  # scores of the vocabulary at once: 128 MB


class TorchEngine:
    """A Transformer on its device."""

    name = "pytorch"

    def __init__(self, model: Transformer) -> None:
        self.model = model

    @property
    def max_positions(self) -> int | None:
        """Learned positions end somewhere; sinusoids do not."""
        return self.model.config.max_positions if self.model.config.positions == "learned" else None

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.projection.weight.device

    def lacks(self, requests: Sequence[Request], search: SearchConfig) -> str | None:
        """Nothing."""
        return None

    def search(
        self, requests: Sequence[Request], search: SearchConfig, *, between: Callable[[], None] = go_on
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each request, best first."""
        results: list[list[Hypothesis]] = [[] for _ in requests]
        rows = MAX_LOGITS // (self.model.projection.out_features * search.beam)
        for places in batches([len(r.source) for r in requests], search.batch_tokens // search.beam, rows):
            between()
            source = pad([requests[place].source for place in places]).to(self.device)
            for place, found in zip(places, find(self.model, source, search), strict=True):
                results[place] = found
        return results

    def likelihood(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        batch_tokens: int,
        *,
        between: Callable[[], None] = go_on,
    ) -> tuple[float, int]:
        """The negative log-likelihood of given targets, end tokens included, and how many tokens they have."""

        def tensors() -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
            budget = min(batch_tokens, MAX_LOGITS // self.model.projection.out_features)
            for places in batches([max(map(len, pair)) for pair in pairs], budget, budget):
                between()
                source = pad([pairs[place][0] for place in places])
                expected = pad([pairs[place][1] for place in places])
                yield source.to(self.device), shift_right(expected).to(self.device), expected.to(self.device)

        return negative_log_likelihood(self.model, tensors())


def find(model: Transformer, source: torch.Tensor, search: SearchConfig) -> list[list[Hypothesis]]:
    """Hypotheses of each source sentence by the search that the settings ask for."""
    if search.beam == 1:
        return [[hypothesis] for hypothesis in greedy(model, source, extra_length=search.extra_length)]
    return beam_search(model, source, beam=search.beam, alpha=search.alpha, extra_length=search.extra_length)


def pad(sequences: Sequence[Sequence[int]]) -> torch.Tensor:
    """Sequences of ids as one tensor (BS), each ended by EOS."""
    source = np.full((len(sequences), max(map(len, sequences)) + 1), PAD, np.int64)
    for row, ids in enumerate(sequences):
        source[row, : len(ids)] = ids
        source[row, len(ids)] = EOS
    return torch.from_numpy(source)


def shift_right(expected: torch.Tensor) -> torch.Tensor:
    """What the decoder reads to say `expected` (BT): BOS, then all but the last; nothing after the end."""
    target = torch.full_like(expected, BOS)
    target[:, 1:] = torch.where(expected[:, 1:] == PAD, PAD, expected[:, :-1])
    return target
