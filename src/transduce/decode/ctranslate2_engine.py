"""The CTranslate2 engine: greedy and beam search in int8 on a CPU, one single-threaded worker per core; no torch.

Its beam search has the rule of `decode/beam.py`, if told so (`_options`), and its hypotheses are ranked here by the
paper's penalty. What differs:

- PAD and BOS are left out before the softmax and not after it, so that a token's probability is larger by the share
  that the model gives to these two.
- When several hypotheses finish in the last step there may be more than `beam`. The worst are left out by
  log-probability / length^p, before they come here.
- A length limit is a batch's and ends nothing. A sentence that went past its own, or may not end before it, is
  searched up to one token before it, and what goes on there is ended by the end token. Of the rows that would have
  taken the place of those that finished in that very step nothing is known.

With a shortlist, a batch may use what any of its sentences may use, and probability is shared out among that alone: a
translation depends a little on its neighbours.
"""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from transduce.config import Config, SearchConfig
from transduce.decode.engine import batches, go_on
from transduce.decode.hypothesis import Hypothesis, Request, length_penalty
from transduce.errors import require
from transduce.interop.ctranslate2 import EXTRA, VMAP, table_rows
from transduce.text.codec import BOS, EOS, PAD

ROWS = 64
"""Sentences decoded together, at most, and so many if `batch_tokens` allows: both more and fewer are slower."""
MAX_LOGITS = 2**25
"""Scores of the vocabulary at once: 128 MB."""
UNCHOSEN = -1e9
"""Below it a log-probability is that of a token that was forbidden, or of no row at all."""
SLOPE, LEAST = 0.75, 1e-6
"""p is SLOPE times alpha, near to what the paper's penalty is at 15 tokens. With a p of 0 CTranslate2 has another rule
for the end of a search, so that LEAST stands for it: it changes no order."""
SETTINGS = frozenset({"beam", "alpha", "extra_length", "min_length", "max_length", "batch_tokens", "max_input"})
"""Those of `SearchConfig` that are followed."""


@dataclass(frozen=True)
class Output:
    """What CTranslate2 returned: ids without the end token, their log-probability, and whether the end token came."""

    ids: tuple[int, ...]
    log_probability: float
    ended: bool

    @property
    def length(self) -> int:
        """The end token counted, if it came."""
        return len(self.ids) + self.ended


@dataclass(frozen=True)
class Batch:
    """Places in the list of requests, and the most tokens their outputs may have."""

    places: list[int]
    max_length: int


class Ctranslate2Engine:
    """A converted model (`decode/conversion.py`), with as many workers as there are cores."""

    name = "ctranslate2"
    part = 1000

    def __init__(self, directory: Path, config: Config, *, workers: int | None = None) -> None:
        """`config` is that of the bundle which `directory` was made of."""
        ctranslate2 = require("ctranslate2", extra=EXTRA)
        self.workers = workers or cores()
        # what makes it is left with one OpenMP thread: in a thread of its own, PyTorch in this one keeps its threads
        with ThreadPoolExecutor(1) as thread:
            options = {"inter_threads": self.workers, "intra_threads": 1, "max_queued_batches": -1}
            self._model = thread.submit(ctranslate2.Translator, str(directory), device="cpu", **options).result()
        self._source_tokens, self._target_tokens = _vocabularies(directory)
        self._target_ids = {token: id for id, token in enumerate(self._target_tokens)}
        self._rows = table_rows(config)
        self._learned = config.model.positions == "learned"
        self._shortlist = (directory / VMAP).is_file()

    @property
    def max_positions(self) -> int | None:
        """Learned positions end somewhere; of sinusoids there are as many as the bundle's settings can ask for."""
        return self._rows if self._learned else None

    def lacks(self, requests: Sequence[Request], search: SearchConfig) -> str | None:
        """Whatever is not plain greedy or beam search, positions that the conversion has not, and empty sources,
        to which CTranslate2 gives an empty output without a look at the model."""
        for name, setting in type(search).model_fields.items():
            if name not in SETTINGS and getattr(search, name) != setting.get_default(call_default_factory=True):
                return f"search.{name}"
        for request in requests:
            if not request.source:
                return "empty sources"
            for field in fields(request):
                default = field.default_factory() if field.default_factory is not MISSING else field.default
                if field.name != "source" and getattr(request, field.name) != default:
                    return field.name
        longest = max((self._limit(request, search) for request in requests), default=0)
        return f"sequences of {longest} tokens" if longest > self._rows else None

    def search(
        self, requests: Sequence[Request], search: SearchConfig, *, between: Callable[[], None] = go_on
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each request, best first."""
        sources = [[self._source_tokens[id] for id in request.source] for request in requests]
        limits = [self._limit(request, search) for request in requests]
        may_end = [place for place, limit in enumerate(limits) if limit > search.min_length + 1]  # before its limit
        found = self._decode(sources, self._alike(may_end, requests, limits, search), search, between)
        late = [p for p, limit in enumerate(limits) if p not in found or _is_late(found[p], limit)]
        if late:
            again = self._decode(sources, _before_the_end(late, limits, search), search, between)
            between()
            self._end(sources, again, max(limits))
            for place in late:
                in_time = {output.ids: output for output in again[place]}
                in_time |= {o.ids: o for o in found.get(place, ()) if o.ended and o.length <= limits[place]}
                found[place] = list(in_time.values())
        return [_ranked(found[place], search) for place in range(len(requests))]

    def _limit(self, request: Request, search: SearchConfig) -> int:
        """How many tokens an output may have, the end token included, as in `decode/limits.py`."""
        limit = len(request.source) + 1 + search.extra_length
        if search.max_length is not None:
            limit = min(limit, search.max_length + 1)
        return min(limit, self._rows) if self._learned else limit

    def _alike(
        self, places: list[int], requests: Sequence[Request], limits: list[int], search: SearchConfig
    ) -> Iterator[Batch]:
        """Batches of like length, small enough that every worker has one, with the largest limit of each."""
        rows = min(ROWS, -(-len(places) // self.workers))
        lengths = [len(requests[place].source) for place in places]
        for chosen in batches(lengths, search.batch_tokens, rows):
            own = [places[i] for i in chosen]
            yield Batch(own, max(limits[place] for place in own))

    def _decode(
        self, sources: list[list[str]], work: Iterable[Batch], search: SearchConfig, between: Callable[[], None]
    ) -> dict[int, list[Output]]:
        """The outputs of all batches by place; as many batches are under way as keep the workers busy."""
        found: dict[int, list[Output]] = {}
        under_way: deque[tuple[list[int], list[Any]]] = deque()

        def collect() -> None:
            places, results = under_way.popleft()
            for place, result in zip(places, results, strict=True):
                found[place] = list(self._outputs(result.result(), search))

        try:
            for batch in work:
                between()
                if len(under_way) == 2 * self.workers:
                    collect()
                under_way.append((batch.places, self._submit([sources[p] for p in batch.places], batch, search)))
            while under_way:
                collect()
        finally:
            for _, results in under_way:  # whoever stops waits for what cannot be stopped
                for result in results:
                    with suppress(Exception):
                        result.result()
        return found

    def _submit(self, sources: list[list[str]], batch: Batch, search: SearchConfig) -> list[Any]:
        submitted: list[Any] = self._model.translate_batch(
            sources,
            asynchronous=True,
            beam_size=search.beam,
            num_hypotheses=search.beam,
            length_penalty=_exponent(search),
            suppress_sequences=[[self._target_tokens[id]] for id in (PAD, BOS)],
            max_input_length=0,
            min_decoding_length=min(search.min_length, batch.max_length),
            max_decoding_length=batch.max_length,
            return_end_token=True,
            return_scores=True,
            use_vmap=self._shortlist,
        )
        return submitted

    def _outputs(self, result: Any, search: SearchConfig) -> Iterator[Output]:
        exponent = _exponent(search)
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            log_probability = score * len(tokens) ** exponent  # a score is divided by it
            if log_probability > UNCHOSEN:
                ids = [self._target_ids[token] for token in tokens]
                ended = ids[-1] == EOS
                yield Output(tuple(ids[:-1] if ended else ids), log_probability, ended)

    def _end(self, sources: list[list[str]], found: dict[int, list[Output]], longest: int) -> None:
        """End what goes on by the end token, and score it with that."""
        going_on = [(place, rank) for place, outputs in found.items() for rank, o in enumerate(outputs) if not o.ended]
        scored = self._model.score_batch(
            [sources[place] for place, _ in going_on],
            [[self._target_tokens[id] for id in found[place][rank].ids] for place, rank in going_on],
            max_batch_size=max(1, MAX_LOGITS // (longest * len(self._target_tokens))),
            max_input_length=0,
        )
        for (place, rank), score in zip(going_on, scored, strict=True):
            found[place][rank] = Output(found[place][rank].ids, math.fsum(score.log_probs), ended=True)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _vocabularies(directory: Path) -> tuple[list[str], list[str]]:
    """The tokens of both sides by id, as the conversion has them."""

    def read(side: str) -> list[str]:
        tokens: list[str] = json.loads((directory / f"{side}_vocabulary.json").read_text(encoding="utf-8"))
        return tokens

    if (directory / "shared_vocabulary.json").is_file():
        shared = read("shared")
        return shared, shared
    return read("source"), read("target")


def _before_the_end(late: list[int], limits: list[int], search: SearchConfig) -> Iterator[Batch]:
    """Batches of one limit each, to be searched up to one token before it."""
    for limit in sorted({limits[place] for place in late}, reverse=True):
        same = [place for place in late if limits[place] == limit]
        for chosen in batches([limit] * len(same), search.batch_tokens, ROWS):
            yield Batch([same[i] for i in chosen], limit - 1)


def _is_late(outputs: list[Output], limit: int) -> bool:
    return any(output.length > limit or not output.ended for output in outputs)


def _exponent(search: SearchConfig) -> float:
    return max(SLOPE * search.alpha, LEAST)


def _ranked(outputs: list[Output], search: SearchConfig) -> list[Hypothesis]:
    # greedy search has nothing to rank: its score is the log-probability
    alpha = search.alpha if search.beam > 1 else 0.0
    found = [Hypothesis(o.ids, o.log_probability, o.log_probability / length_penalty(o.length, alpha)) for o in outputs]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)[: search.beam]
