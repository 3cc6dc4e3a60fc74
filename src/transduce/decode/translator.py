"""Text in, text out: the one facade over codecs and search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from transduce.bundle import Bundle, load_model, open_bundle
from transduce.config import SearchConfig
from transduce.decode.engine import Engine, go_on
from transduce.decode.hypothesis import Hypothesis, Request
from transduce.decode.overlap import overlapped
from transduce.decode.plan import Plan, Planner
from transduce.decode.repetition import TIMES, repeated_run
from transduce.decode.stream import growing_text
from transduce.decode.translation import Alternative, Continuation, Token, Translation, empty, join
from transduce.decode.tree import BeamTree
from transduce.errors import ConfigError, UserError
from transduce.text.codec import EOS, Codec

if TYPE_CHECKING:
    from transduce.decode.choice import Wanted
    from transduce.decode.glossary import Glossary
    from transduce.decode.score import PairScore
    from transduce.decode.torch_engine import TorchEngine

__all__ = ["Alternative", "Continuation", "Token", "Translation", "Translator"]

NO_SETTINGS: Mapping[str, object] = {}


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
        say: Callable[[str], None] = _ignore,
        between: Callable[[], None] = go_on,
    ) -> None:
        """`warn` hears of lines that had to be changed, `say` of what was decided; `between` is called before each
        batch and may raise.
        """
        self.engine, self.source_codec, self.target_codec = engine, source_codec, target_codec
        self.search = search or SearchConfig()
        self.bundle, self.warn, self.say, self.between = bundle, warn, say, between
        self._reference: TorchEngine | None = None
        self._one_at_a_time = Lock()
        self._said: set[str] = set()

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        engine: Wanted = "auto",
        shortlist: bool = False,
        warn: Callable[[str], None] = _ignore,
        say: Callable[[str], None] = _ignore,
    ) -> Translator:
        """The translator of a bundle or a run; `warn` hears of lines that had to be changed, `say` of the engine.

        With a shortlist, which CTranslate2 alone has, a sentence is translated with the words that its own words bring
        along: faster, and a little dependent on its neighbours.
        """
        from transduce.decode.choice import open_engine

        bundle = open_bundle(Path(path))
        codecs = bundle.source_codec, bundle.target_codec
        opened = open_engine(bundle, engine, say, warn, shortlist=shortlist)
        return cls(opened, *codecs, bundle.config.search, bundle=bundle, warn=warn, say=say)

    @classmethod
    def load_ensemble(cls, paths: Sequence[str | Path], *, warn: Callable[[str], None] = _ignore) -> Translator:
        """Several models with one vocabulary as one, in PyTorch; the first one's settings hold."""
        from transduce.decode.torch_engine import TorchEngine

        bundles = [open_bundle(Path(path)) for path in paths]
        if not bundles:
            raise UserError("an ensemble of no models: give one or more")
        first = bundles[0]
        for other in bundles[1:]:
            for side in ("source_codec", "target_codec"):
                if getattr(other, side).fingerprint() != getattr(first, side).fingerprint():
                    name = side.removesuffix("_codec")
                    raise UserError(
                        f"{other.path}: its {name} vocabulary is not that of {first.path}: models of an ensemble are"
                        " trained with one, as by runs that share data.store"
                    )
        engine = TorchEngine(*map(load_model, bundles))
        return cls(engine, first.source_codec, first.target_codec, first.config.search, bundle=first, warn=warn)

    @property
    def reference(self) -> TorchEngine:
        """The PyTorch engine, for what another engine cannot do; loaded when first needed."""
        if self.engine.name == "pytorch":
            return cast("TorchEngine", self.engine)
        if self._reference is None:
            from transduce.decode.torch_engine import TorchEngine

            assert self.bundle is not None, "without a bundle there is only the engine that was given"
            self._reference = TorchEngine(load_model(self.bundle))
        return self._reference

    @property
    def max_input(self) -> int:
        """The longest line, in tokens, that is taken whole."""
        positions = self.engine.max_positions
        return self.search.max_input if positions is None else min(self.search.max_input, positions - 1)

    def translate(
        self,
        lines: Sequence[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        n_best: int = 1,
        first_line: int = 1,
        prefix: str | Sequence[str] = "",
        glossary: Glossary | None = None,
        tokens: bool = False,
        settings: Mapping[str, object] = NO_SETTINGS,
    ) -> list[Translation]:
        """One translation per line, in order; blank lines stay empty.

        A sentence's translation does not depend on the other lines. `first_line` only names lines in warnings.
        `prefix` is how every output begins, or, as a list, how each does. `settings` are keys of `SearchConfig`.
        """
        search = self._settings(settings, beam=beam, alpha=alpha)
        if search.sampling:
            search = search.model_copy(update={"beam": n_best})  # as many as are asked for are drawn
        prefixes = [prefix] * len(lines) if isinstance(prefix, str) else list(prefix)
        if len(prefixes) != len(lines):
            raise UserError(f"{len(prefixes)} prefixes for {len(lines)} lines: give one for each, or one for all")

        def plan(part: slice) -> list[Plan]:
            first = first_line + part.start
            return list(
                self._planner.plans(lines[part], prefixes[part], glossary, first_line=first, token_scores=tokens)
            )

        def find(plans: list[Plan], wanted: Callable[[], None]) -> list[list[Hypothesis]]:
            return self._search([request for plan in plans for request in plan.requests], search, wanted)

        size = self.engine.part or len(lines)
        if len(lines) <= size:
            plans = plan(slice(0, size))
            return self._translations(plans, find(plans, go_on), n_best)
        parts = (plan(slice(at, at + size)) for at in range(0, len(lines), size))
        found = overlapped(parts, find)
        return [each for plans, results in found for each in self._translations(plans, results, n_best)]

    def stream(
        self,
        line: str,
        *,
        prefix: str = "",
        glossary: Glossary | None = None,
        settings: Mapping[str, object] = NO_SETTINGS,
    ) -> Iterator[str]:
        """The translation of a line, in pieces as soon as they will not change any more; blank lines give none.

        At `{"beam": 1}` that is after every token; with a beam, what all hypotheses agree on.
        """
        search = self._settings(settings)
        (plan,) = self._planner.plans([line], [prefix], glossary)
        if plan.error is not None:
            raise UserError(plan.error)
        for number, request in enumerate(plan.requests):
            if number:
                yield " "
            yield from growing_text(self.target_codec, self.reference.stream(request, search))

    def alternatives(self, line: str, prefix: str | Sequence[int] = "", n: int = 5) -> list[Continuation]:
        """The n likeliest tokens after a prefix (text or ids), best first, each with the best output that takes it."""
        request = self._whole(line, prefix)
        likely = self.reference.next_tokens(request, self.search, n)
        going_on = [replace(request, prefix=(*request.prefix, token)) for token, _ in likely if token != EOS]
        found = iter(self._search(going_on, self.search))
        continuations = []
        for token, log_probability in likely:
            hypotheses = [] if token == EOS else next(found)
            ids = hypotheses[0].ids if hypotheses else request.prefix
            (piece,) = self.target_codec.pieces([token])
            continuations.append(Continuation(token, piece, log_probability, self.target_codec.decode(ids)))
        return continuations

    def tree(
        self, line: str, *, prefix: str | Sequence[int] = "", settings: Mapping[str, object] = NO_SETTINGS
    ) -> BeamTree:
        """The beam search for a line as data."""
        tree = self.reference.tree(self._whole(line, prefix), self._settings(settings))
        pieces = self.target_codec.pieces([node.token for node in tree.nodes])
        tree.nodes = [replace(node, piece=piece) for node, piece in zip(tree.nodes, pieces, strict=True)]
        return tree

    def likelihood(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[float, int]:
        """The negative log-likelihood of given translations, end tokens included, and how many tokens they have."""
        limit = self.max_input
        sides = [self.source_codec.encode_many(sources), self.target_codec.encode_many(targets)]
        for number, ids in enumerate(zip(*sides, strict=True), 1):
            if max(map(len, ids)) > limit:
                self.warn(f"line {number}: {max(map(len, ids))} tokens: perplexity looks at the first {limit} only")
        pairs = [(source[:limit], target[:limit]) for source, target in zip(*sides, strict=True)]
        return self.reference.likelihood(pairs, self.search.batch_tokens, between=self.between)

    def score(self, sources: Sequence[str], targets: Sequence[str], *, first_line: int = 1) -> list[PairScore]:
        """What the model thinks of given translations, one score a pair."""
        from transduce.decode.score import score_lines

        return score_lines(self, sources, targets, first_line=first_line)

    @property
    def _planner(self) -> Planner:
        return Planner(self.source_codec, self.target_codec, self.max_input, self.warn)

    def _settings(self, settings: Mapping[str, object], **given: object) -> SearchConfig:
        changes = {**settings, **{key: value for key, value in given.items() if value is not None}}
        try:
            return SearchConfig.model_validate({**self.search.model_dump(), **changes}) if changes else self.search
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(["search", *map(str, first["loc"])])
            raise ConfigError(f"{key}: {first['msg'].removeprefix('Value error, ')}") from None

    def _whole(self, line: str, prefix: str | Sequence[int]) -> Request:
        source = tuple(self.source_codec.encode(line))
        if len(source) > self.max_input:
            raise UserError(f"a line of {len(source)} tokens: at most {self.max_input} are looked at together: cut it")
        start = self.target_codec.encode(prefix.rstrip()) if isinstance(prefix, str) else prefix
        return Request(source, prefix=tuple(start))

    def _search(
        self, requests: Sequence[Request], search: SearchConfig, wanted: Callable[[], None] = go_on
    ) -> list[list[Hypothesis]]:
        """By the engine; what it lacks, by the reference, for one thread at a time. `wanted` is called as between."""

        def between() -> None:
            wanted()
            self.between()

        places: dict[str | None, list[int]] = {None: list(range(len(requests)))}
        if self.engine.lacks(requests, search) is not None:
            places = {}
            for place, request in enumerate(requests):
                places.setdefault(self.engine.lacks([request], search), []).append(place)
        found: list[list[Hypothesis]] = [[] for _ in requests]
        for lacking, own in places.items():
            if lacking is not None and lacking not in self._said:
                self._said.add(lacking)
                self.say(f"{lacking}: PyTorch does it, {self.engine.name} does not")
            with nullcontext() if lacking is None else self._one_at_a_time:
                engine = self.engine if lacking is None else self.reference
                results = engine.search([requests[place] for place in own], search, between=between)
            for place, hypotheses in zip(own, results, strict=True):
                found[place] = hypotheses
        return found

    def _translations(self, plans: list[Plan], found: list[list[Hypothesis]], n_best: int) -> list[Translation]:
        """One for each plan, from the hypotheses of all their requests."""
        coming = iter(found)
        return [self._translation(plan, [next(coming) for _ in plan.requests], n_best) for plan in plans]

    def _translation(self, plan: Plan, found: list[list[Hypothesis]], n_best: int) -> Translation:
        if plan.error is not None or not plan.requests:
            return empty(plan.error)
        if not all(found):
            return empty(plan.unmet)
        warning = None
        for request, hypotheses in zip(plan.requests, found, strict=True):
            run = repeated_run(hypotheses[0].ids)
            if run is not None and repeated_run(request.source) is None:
                warning = f"repeats itself: {self.target_codec.decode(run)!r} {TIMES} times in a row or more"
        return join([[self._text(each) for each in part[:n_best]] for part in found], n_best, warning)

    def _text(self, hypothesis: Hypothesis) -> Alternative:
        tokens: tuple[Token, ...] = ()
        if hypothesis.token_log_probabilities:
            pieces = self.target_codec.pieces([*hypothesis.ids, EOS])
            tokens = tuple(map(Token, pieces, hypothesis.token_log_probabilities))
        text = self.target_codec.decode(hypothesis.ids)
        return Alternative(text, hypothesis.score, hypothesis.log_probability, tokens)
