"""Text in, text out: the one facade over codecs and search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.bundle import Bundle, load_model, open_bundle
from transduce.config import SearchConfig
from transduce.decode.engine import Engine, go_on
from transduce.decode.hypothesis import Hypothesis, Request
from transduce.decode.splitting import split_long
from transduce.text.codec import Codec

if TYPE_CHECKING:
    from transduce.decode.torch_engine import TorchEngine


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


EMPTY = Translation("", 0.0, 0.0, (Alternative("", 0.0, 0.0),))


def _ignore(message: str) -> None:
    """Nobody listens."""


class Translator:
    """A model with its codecs: `Translator.load("run").translate(["A dog barks."])[0].text`."""

    def __init__(
        self,
        engine: Engine,
        source_codec: Codec,
        target_codec: Codec,
        search: SearchConfig | None = None,
        *,
        bundle: Bundle | None = None,
        warn: Callable[[str], None] = _ignore,
        between: Callable[[], None] = go_on,
    ) -> None:
        """`warn` hears of lines that had to be changed; `between` is called before each batch and may raise."""
        self.engine, self.source_codec, self.target_codec = engine, source_codec, target_codec
        self.search = search or SearchConfig()
        self.bundle, self.warn, self.between = bundle, warn, between

    @classmethod
    def load(cls, path: str | Path, *, warn: Callable[[str], None] = _ignore) -> Translator:
        """The translator of a bundle or a run; `warn` hears of lines that had to be changed."""
        from transduce.decode.torch_engine import TorchEngine

        bundle = open_bundle(Path(path))
        engine, search = TorchEngine(load_model(bundle)), bundle.config.search
        return cls(engine, bundle.source_codec, bundle.target_codec, search, bundle=bundle, warn=warn)

    @property
    def reference(self) -> TorchEngine:
        """The PyTorch engine."""
        from transduce.decode.torch_engine import TorchEngine

        assert isinstance(self.engine, TorchEngine)
        return self.engine

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
        pairs = [(source[:limit], target[:limit]) for source, target in zip(*sides, strict=True)]
        return self.reference.likelihood(pairs, self.search.batch_tokens, between=self.between)

    @property
    def max_input(self) -> int:
        """The longest line, in tokens, that is taken whole."""
        positions = self.engine.max_positions
        return self.search.max_input if positions is None else min(self.search.max_input, positions - 1)

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
        requests = [Request(tuple(ids)) for ids in self.source_codec.encode_many(texts)]
        found = self.engine.search(requests, search, between=self.between)
        return [[self._text(hypothesis) for hypothesis in hypotheses[:n_best]] for hypotheses in found]

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
