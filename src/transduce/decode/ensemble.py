"""One model, or several with one vocabulary, a step at a time.

Several models give the mean of their probabilities.

B sentences, N rows of each, R = B x N, S source length, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.model import AttentionRecord, Cache, Transformer

UNSEEN = 1e-10
"""The least attention that a source token counts as having, so that its logarithm is a number."""


class Ensemble:
    """Models at work on a batch: a token for each row in, the log-probabilities of the next one out."""

    def __init__(self, models: Sequence[Transformer], source: Tensor, *, rows: int, coverage: bool = False) -> None:
        self.models = models
        self.caches: list[Cache] = []
        self.may_attend: Tensor | None = None  # B11S
        for model in models:
            memory, self.may_attend = model.encode(source)
            self.caches.append(model.start(memory))
        self.attended = memory.new_zeros(source.size(0) * rows, source.size(1)) if coverage else None  # RS

    def step(self, tokens: Tensor) -> Tensor:
        """R -> RV."""
        found = [self._step(model, cache, tokens) for model, cache in zip(self.models, self.caches, strict=True)]
        if len(found) == 1:
            return found[0]
        return torch.stack(found).logsumexp(dim=0) - math.log(len(found))

    def select(self, sentences: Tensor | None, rows: Tensor) -> None:
        """Go on with these sentences (None: with all), row i as the continuation of what was row rows[i]."""
        for cache in self.caches:
            if sentences is not None:
                cache.keep(sentences)
            cache.reorder(rows)
        if sentences is not None and self.may_attend is not None:
            self.may_attend = self.may_attend.index_select(0, sentences)
        if self.attended is not None:
            self.attended = self.attended.index_select(0, rows)

    def coverage(self) -> list[float]:
        """Of each row, the sum over source tokens of log(min(attention paid to it so far, 1)): GNMT's, without beta."""
        assert self.attended is not None
        logs = self.attended.clamp(UNSEEN, 1.0).log()
        if self.may_attend is not None:
            present = self.may_attend[:, 0, 0]  # BS
            rows = logs.size(0) // present.size(0)
            logs = logs.masked_fill(~present.repeat_interleave(rows, dim=0), 0.0)
        totals: list[float] = logs.sum(dim=1).tolist()
        return totals

    def _step(self, model: Transformer, cache: Cache, tokens: Tensor) -> Tensor:
        record = None if self.attended is None else AttentionRecord()
        hidden = model.decode(tokens.unsqueeze(1), None, self.may_attend, cache=cache, record=record)
        if self.attended is not None and record is not None:
            weights = record.cross[coverage_layer(model)].mean(dim=1)  # BHNS -> BNS
            self.attended += weights.flatten(0, 1) / len(self.models)
        return torch.log_softmax(model.logits(hidden[:, -1]), dim=-1)


def coverage_layer(model: Transformer) -> int:
    """Whose heads' mean counts as attention to the source: the last layer but one, where it follows words best."""
    return max(0, model.config.decoder_layers - 2)
