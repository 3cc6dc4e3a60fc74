"""The PyTorch engine: the reference, for every model and every kind of search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from transduce.config import SearchConfig
from transduce.decode.beam import BeamSearch, beam_search
from transduce.decode.engine import batches, go_on
from transduce.decode.ensemble import Ensemble
from transduce.decode.greedy import walk
from transduce.decode.hypothesis import Hypothesis, Request
from transduce.decode.limits import forbid, length_limit
from transduce.decode.sample import sample
from transduce.decode.score import negative_log_likelihood
from transduce.decode.tree import BeamTree
from transduce.errors import UserError
from transduce.model import Transformer
from transduce.text.codec import BOS, EOS, PAD

MAX_LOGITS = 2**25  # scores of the vocabulary at once: 128 MB


class TorchEngine:
    """A Transformer on its device, or several with one vocabulary, whose probabilities are averaged."""

    name = "pytorch"
    part = None

    def __init__(self, *models: Transformer) -> None:
        self.models = models
        self.model = models[0]

    @property
    def max_positions(self) -> int | None:
        """Learned positions end somewhere; sinusoids do not."""
        configs = [model.config for model in self.models]
        return min((c.max_positions for c in configs if c.positions == "learned"), default=None)

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
        """The hypotheses of each request, best first; none, where nothing that it asks for was found."""
        refuse(requests, search)
        results: list[list[Hypothesis]] = [[] for _ in requests]
        for beam, alike in by_beam(requests, search).items():
            rows = max(1, MAX_LOGITS // (self.model.projection.out_features * beam))
            lengths = [len(requests[place].source) for place in alike]
            for batch in batches(lengths, search.batch_tokens // beam, rows):
                between()
                places = [alike[i] for i in batch]
                found = self._find([requests[place] for place in places], search, beam)
                for place, hypotheses in zip(places, found, strict=True):
                    results[place] = hypotheses[: search.beam]
        return results

    def stream(self, request: Request, search: SearchConfig) -> Iterator[tuple[int, ...]]:
        """After each step the ids that will not change any more; at last all ids of the best hypothesis, if any.

        A sample has no better or worse on its way: it comes at once.
        """
        if search.sampling:
            yield from (hypotheses[0].ids for hypotheses in self.search([request], search) if hypotheses)
            return
        under_way = self._begin(request, search)
        while not under_way.done:
            under_way.step()
            yield under_way.agreed()
        if not under_way.results[0]:
            raise UserError("no output with all that it must contain was found within the length limit: ask for less")

    def tree(self, request: Request, search: SearchConfig) -> BeamTree:
        """All that a beam search for one request looks at."""
        if search.sampling:
            raise UserError("a tree is of beam search: without search.sampling = true")
        under_way = self._begin(request, search)
        tree = BeamTree(under_way.beam)
        while not under_way.done:
            candidates = under_way.step()
            totals, rows, tokens = (part.flatten().tolist() for part in candidates)
            first = torch.arange(len(candidates.tokens)).unsqueeze(1) * candidates.tokens.size(1)
            going_on = (candidates.going_on.cpu() + first).flatten().tolist()
            alive = [] if under_way.done else under_way.sums[:, -1].isfinite().tolist()
            kept = [place if lives else None for place, lives in zip(going_on, alive, strict=False)]
            tree.grow(list(zip(totals, rows, tokens, strict=True)), candidates.finished.flatten().tolist(), kept)
        return tree

    @torch.inference_mode()
    def next_tokens(self, request: Request, search: SearchConfig, count: int) -> list[tuple[int, float]]:
        """The likeliest tokens after a request's prefix, with their log-probabilities, best first."""
        if self.max_positions is not None and len(request.prefix) >= self.max_positions:
            raise UserError(f"a prefix of {len(request.prefix)} tokens: this model has {self.max_positions} positions")
        ensemble = Ensemble(self.models, pad([request.source]).to(self.device), rows=1)
        tokens = torch.tensor([[BOS, *request.prefix]], device=self.device)
        for position in range(tokens.size(1)):
            scores = ensemble.step(tokens[:, position])
        limit = max(length_limit(request, search, self.max_positions), tokens.size(1) + 1)
        forbid(scores, tokens, [request], [limit], search)
        found = scores[0].topk(min(count, int(scores.isfinite().sum())))
        return list(zip(found.indices.tolist(), found.values.tolist(), strict=True))

    def likelihood(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        batch_tokens: int,
        *,
        between: Callable[[], None] = go_on,
    ) -> tuple[float, int]:
        """The negative log-likelihood of given targets, end tokens included, and how many tokens they have."""
        if len(self.models) > 1:
            raise UserError("the likelihood of given outputs is that of one model: name one of the ensemble")

        def tensors() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
            budget = min(batch_tokens, MAX_LOGITS // self.model.projection.out_features)
            for places in batches([max(map(len, pair)) for pair in pairs], budget, budget):
                between()
                source = pad([pairs[place][0] for place in places])
                expected = pad([pairs[place][1] for place in places])
                yield source.to(self.device), shift_right(expected).to(self.device), expected.to(self.device)

        return negative_log_likelihood(self.model, tensors())

    def _find(self, requests: Sequence[Request], search: SearchConfig, beam: int) -> list[list[Hypothesis]]:
        """The hypotheses of a batch by the search that the settings ask for."""
        source, limits = self._prepare(requests, search)
        if search.sampling or beam == 1:
            return (sample if search.sampling else walk)(self.models, source, requests, limits, search)
        return beam_search(self.models, source, requests, limits, search, beam=beam)

    def _begin(self, request: Request, search: SearchConfig) -> BeamSearch:
        refuse([request], search)
        source, limits = self._prepare([request], search)
        return BeamSearch(self.models, source, [request], limits, search, beam=beam_for(request, search))

    def _prepare(self, requests: Sequence[Request], search: SearchConfig) -> tuple[Tensor, list[int]]:
        limits = [length_limit(request, search, self.max_positions) for request in requests]
        return pad([request.source for request in requests]).to(self.device), limits


def find(model: Transformer, source: Tensor, search: SearchConfig) -> list[list[Hypothesis]]:
    """Hypotheses of each source sentence (BS) by the search that the settings ask for."""
    rows = [row[row != PAD][:-1].tolist() for row in source]
    return TorchEngine(model).search([Request(tuple(ids)) for ids in rows], search)


def refuse(requests: Sequence[Request], search: SearchConfig) -> None:
    """Phrases are a matter of beam search in one group."""
    if any(request.phrases for request in requests) and (search.sampling or search.groups > 1):
        other = "search.sampling = true" if search.sampling else f"search.groups = {search.groups}"
        raise UserError(f"phrases that must occur (a glossary) need plain beam search: without {other}")


def beam_for(request: Request, search: SearchConfig) -> int:
    """How many rows a request's beam has: those asked for, and two more for each token that must occur."""
    return search.beam + 2 * sum(phrase.shortest for phrase in request.phrases)


def by_beam(requests: Sequence[Request], search: SearchConfig) -> dict[int, list[int]]:
    """The places of requests by the width of their beams."""
    places: dict[int, list[int]] = {}
    for place, request in enumerate(requests):
        places.setdefault(beam_for(request, search), []).append(place)
    return places


def pad(sequences: Sequence[Sequence[int]]) -> Tensor:
    """Sequences of ids as one tensor (BS), each ended by EOS."""
    source = np.full((len(sequences), max(map(len, sequences)) + 1), PAD, np.int64)
    for row, ids in enumerate(sequences):
        source[row, : len(ids)] = ids
        source[row, len(ids)] = EOS
    return torch.from_numpy(source)


def shift_right(expected: Tensor) -> Tensor:
    """What the decoder reads to say `expected` (BT): BOS, then all but the last; nothing after the end."""
    target = torch.full_like(expected, BOS)
    target[:, 1:] = torch.where(expected[:, 1:] == PAD, PAD, expected[:, :-1])
    return target
