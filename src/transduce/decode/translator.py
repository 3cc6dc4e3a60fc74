"""Text in, text out: the one facade over codecs and search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from transduce.bundle import Bundle, load_model, open_bundle
from transduce.config import SearchConfig
from transduce.decode.beam import beam_search
from transduce.decode.greedy import greedy
from transduce.decode.hypothesis import Hypothesis
from transduce.decode.score import negative_log_likelihood
from transduce.decode.splitting import split_long
from transduce.model import Transformer
from transduce.text.codec import BOS, EOS, PAD, Codec


@dataclass(frozen=True)
class Alternative:
    """One of the n best outputs; higher scores are better."""

    text: str
    score: float
    log_probability: float


@dataclass(frozen=True)
class Translation:
    """The best output of a line, and the n best if more were asked for (best first, the best included)."""

    text: str
    score: float
    log_probability: float
    alternatives: tuple[Alternative, ...] = ()


MAX_LOGITS = 2**25  # scores of the vocabulary at once: 128 MB
EMPTY = Translation("", 0.0, 0.0, (Alternative("", 0.0, 0.0),))


def _ignore(message: str) -> None:
    """Nobody listens."""


def go_on() -> None:
    """Nobody wants to stop."""


class Translator:
    """A model with its codecs: `Translator.load("run").translate(["A dog barks."])[0].text`."""

    def __init__(
        self,
        model: Transformer,
        source_codec: Codec,
        target_codec: Codec,
        search: SearchConfig | None = None,
        *,
        bundle: Bundle | None = None,
        warn: Callable[[str], None] = _ignore,
        between: Callable[[], None] = go_on,
    ) -> None:
        """`warn` hears of lines that had to be changed; `between` is called before each batch and may raise."""
        self.model, self.source_codec, self.target_codec = model, source_codec, target_codec
        self.search = search or SearchConfig()
        self.bundle, self.warn, self.between = bundle, warn, between

    @classmethod
    def load(cls, path: str | Path, *, warn: Callable[[str], None] = _ignore) -> Translator:
        """The translator of a bundle or a run; `warn` hears of lines that had to be changed."""
        bundle = open_bundle(Path(path))
        model = load_model(bundle)
        search = bundle.config.search
        return cls(model, bundle.source_codec, bundle.target_codec, search, bundle=bundle, warn=warn)

    def translate(
        self,
        lines: Sequence[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        n_best: int = 1,
        first_line: int = 1,
    ) -> list[Translation]:
        """One translation per line, in order; blank lines stay empty.

        A sentence's translation does not depend on the other lines. `first_line` only names lines in warnings.
        """
        search = self.search.model_copy(update={k: v for k, v in (("beam", beam), ("alpha", alpha)) if v is not None})
        parts = [self._parts(line, first_line + i) for i, line in enumerate(lines)]
        flat = [part for line in parts for part in line]
        found = iter(self._search(flat, search, n_best))
        return [self._join([next(found) for _ in line], n_best) if line else EMPTY for line in parts]

    def likelihood(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[float, int]:
        """The negative log-likelihood of given translations, end tokens included, and how many tokens they have."""
        limit = self.max_input
        sides = [self.source_codec.encode_many(sources), self.target_codec.encode_many(targets)]
        for number, ids in enumerate(zip(*sides, strict=True), 1):
            if max(map(len, ids)) > limit:
                self.warn(f"line {number}: {max(map(len, ids))} tokens: perplexity looks at the first {limit} only")
        encoded = [(source[:limit], target[:limit]) for source, target in zip(*sides, strict=True)]
        device = self.model.projection.weight.device

        def tensors() -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
            budget = min(self.search.batch_tokens, MAX_LOGITS // self.target_codec.size)
            for places in batches([max(map(len, pair)) for pair in encoded], budget, budget):
                self.between()
                source = pad([encoded[place][0] for place in places])
                expected = pad([encoded[place][1] for place in places])
                yield source.to(device), shift_right(expected).to(device), expected.to(device)

        return negative_log_likelihood(self.model, tensors())

    @property
    def max_input(self) -> int:
        """The longest line, in tokens, that is taken whole."""
        if self.model.config.positions == "learned":
            return min(self.search.max_input, self.model.config.max_positions - 1)
        return self.search.max_input

    def _parts(self, line: str, number: int) -> list[str]:
        if not line.strip():
            return []
        limit = self.max_input
        length = len(self.source_codec.encode(line))
        if length <= limit:
            return [line]
        parts = split_long(line, self.source_codec, limit)
        self.warn(f"line {number}: {length} tokens, over {limit}: translated in {len(parts)} parts")
        return parts

    def _search(self, texts: list[str], search: SearchConfig, n_best: int) -> list[list[Alternative]]:
        encoded = self.source_codec.encode_many(texts)
        results: list[list[Alternative]] = [[] for _ in texts]
        rows = MAX_LOGITS // (self.target_codec.size * search.beam)
        for places in batches([len(ids) for ids in encoded], search.batch_tokens // search.beam, rows):
            self.between()
            source = pad([encoded[place] for place in places])
            found = find(self.model, source.to(self.model.projection.weight.device), search)
            for place, hypotheses in zip(places, found, strict=True):
                results[place] = [self._text(h) for h in hypotheses[:n_best]]
        return results

    def _text(self, hypothesis: Hypothesis) -> Alternative:
        return Alternative(self.target_codec.decode(hypothesis.ids), hypothesis.score, hypothesis.log_probability)

    def _join(self, parts: list[list[Alternative]], n_best: int) -> Translation:
        """One line from its parts; alternatives are of the same rank in each part."""
        ranks = range(min(n_best, *(len(part) for part in parts)) if parts else 0)
        joined = tuple(
            Alternative(
                " ".join(part[rank].text for part in parts),
                sum(part[rank].score for part in parts),
                sum(part[rank].log_probability for part in parts),
            )
            for rank in ranks
        )
        best = joined[0]
        return Translation(best.text, best.score, best.log_probability, joined)


def find(model: Transformer, source: torch.Tensor, search: SearchConfig) -> list[list[Hypothesis]]:
    """Hypotheses of each source sentence by the search that the settings ask for."""
    if search.beam == 1:
        return [[hypothesis] for hypothesis in greedy(model, source, extra_length=search.extra_length)]
    return beam_search(model, source, beam=search.beam, alpha=search.alpha, extra_length=search.extra_length)


def batches(lengths: Sequence[int], budget: int, rows: int) -> Iterator[list[int]]:
    """At most `rows` places of like length whose padded tokens fit the budget, longest first: memory peaks at once."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if batch and ((lengths[batch[0]] + 1) * (len(batch) + 1) > budget or len(batch) >= rows):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


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
