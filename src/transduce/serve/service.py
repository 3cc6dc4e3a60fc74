"""What all APIs of the server share: the models, the queue before them, and who may ask for how much.

    service.find("en", "de")                              -> Model; source None: any that leads to the target
    service.named("run")                                  -> Model
    with service.admit(address, key, texts): ...          before anything else: key, limits, caps
    await service.translate(model, texts, options, deadline=service.deadline())     -> a Translated for each text
    service.stream(model, text, options, deadline=..., make=...)    -> Stream, to be read piece by piece
    await service.compute(model, text, function, deadline=...)     what else a worker can do with one sentence

A text is a sentence, or as much as shall be translated as one. All of them raise `ServeError`s, which know their HTTP
status. Cancelling a call takes its sentences out of the queue. Everything here runs on one event loop and never blocks
it: models are used by the queue's worker threads only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from transduce.decode.ctranslate2_engine import cores
from transduce.errors import BundleError, UserError
from transduce.serve.addresses import neighbourhood
from transduce.serve.admission import Admission
from transduce.serve.cache import Cache
from transduce.serve.errors import (
    BadKey,
    BadRequest,
    Draining,
    KeyNeeded,
    Late,
    QuotaUsed,
    ServeError,
    TooLarge,
    TooMany,
    UnknownLanguage,
    UnknownPair,
    Unusable,
)
from transduce.serve.keys import Key, Keys
from transduce.serve.metrics import Metrics
from transduce.serve.model import Model, Translated
from transduce.serve.options import Options
from transduce.serve.queue import Job, Queue
from transduce.serve.rates import Rates, Usage
from transduce.serve.settings import Settings
from transduce.serve.streaming import Stream

T = TypeVar("T")

INLINE = 10_000
"""Characters whose tokens are counted on the spot, about a millisecond's work; more are counted in a thread."""


@dataclass(frozen=True)
class Batched:
    """Sentences of one model with the same options: those that may share a batch."""

    model: Model
    options: Options

    def __call__(self, texts: list[str]) -> list[Translated]:
        """Their translations; in a worker thread."""
        return self.model.translate(texts, self.options)


class Alone:
    """One sentence that shares with nobody."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def __call__(self, items: list[Any]) -> list[Any]:
        """Its outcome; in a worker thread."""
        return [self._function()]


class Service:
    """Models behind one queue."""

    def __init__(self, models: Sequence[Model], settings: Settings) -> None:
        self.models, self.settings, self.caps = tuple(models), settings, settings.caps
        self.metrics = Metrics()
        self.keys = None if settings.api_keys is None else Keys.read(settings.api_keys)
        self.draining = False
        self.pending = 0
        """Requests that were accepted and are not done."""
        self.queue = Queue(
            workers=settings.workers or cores(),
            places=settings.queue,
            batch_tokens=settings.batch_tokens,
            heard=self.metrics.batch,
        )
        self._cache, self._rates, self._usage = Cache(settings.cache), Rates(), Usage()
        self.metrics.watch(waiting=lambda: len(self.queue), pending=lambda: self.pending)

    def find(self, source: str | None, target: str) -> Model:
        """The first model from one language to the other; from any language, where none is named."""
        leading = [model for model in self.models if model.target_lang == target.lower()]
        if not leading:
            raise UnknownLanguage(f"{target} is not supported")
        if source is None:
            return leading[0]
        for model in leading:
            if model.source_lang == source.lower():
                return model
        if source.lower() not in (model.source_lang for model in self.models):
            raise UnknownLanguage(f"{source} is not supported")
        raise UnknownPair(f"there is no model from {source} to {target}")

    def named(self, name: str) -> Model:
        """The model of that name."""
        for model in self.models:
            if model.name == name:
                return model
        names = ", ".join(model.name for model in self.models)
        raise BadRequest(f"there is no model {name!r}: choose from {names}")

    def deadline(self) -> float:
        """When a request that has just come must be answered (`time.monotonic`)."""
        return time.monotonic() + self.caps.seconds

    def admit(self, address: str, key: str | None, texts: Sequence[str]) -> Admission:
        """Whether somebody may have these texts translated: raises, or lets in; what is done for them is done within.

        Who was let in may finish, whatever signal comes.
        """
        known = self.identify(key)
        self.check_size(texts)
        if self.draining:
            raise Draining("the server is about to stop: try again later", retry_after=5)
        own = known is not None and known.requests is not None
        limit = known.requests if known is not None and own else self.settings.requests_per_minute
        if limit is not None:
            who = known.digest if known is not None and own else neighbourhood(address)
            if wait := self._rates.take(who, limit):
                raise TooMany(f"more than {limit} requests a minute: slow down", retry_after=wait)
        characters = sum(map(len, texts))
        if known is not None and known.characters is not None and self.used(known) + characters > known.characters:
            wait = self._usage.until_tomorrow()
            raise QuotaUsed(f"more than this key's {known.characters} characters a day", retry_after=wait)
        return Admission(self._usage, known, characters, self._under_way)

    def identify(self, key: str | None) -> Key | None:
        """The key, if keys are in use; any will do where they are not."""
        if self.keys is None:
            return None
        if not key:
            raise KeyNeeded("this server needs an API key: send yours")
        known = self.keys.find(key)
        if known is None:
            raise BadKey("this API key is not known: check it")
        return known

    def used(self, key: Key) -> int:
        """Characters that a key has had translated today."""
        return self._usage.count(key.digest)

    def reload_keys(self) -> int:
        """Read the key file again: how many keys there are; a file with a mistake changes nothing and raises."""
        if self.settings.api_keys is None:
            return 0
        self.keys = Keys.read(self.settings.api_keys)
        return len(self.keys)

    def check_size(self, texts: Sequence[str]) -> None:
        """Refuse more texts, or longer ones, than a request may have."""
        if len(texts) > self.caps.texts:
            raise TooLarge("texts", len(texts), self.caps.texts)
        if (characters := sum(map(len, texts))) > self.caps.characters:
            raise TooLarge("characters", characters, self.caps.characters)

    async def translate(
        self, model: Model, texts: Sequence[str], options: Options, *, deadline: float
    ) -> list[Translated]:
        """One translation a text, in order; equal texts are translated once."""
        texts = [whole_characters(text) for text in texts]
        model.prepare(options)
        call = Batched(model, options)
        found = {text: self._cache.get((call, text)) for text in texts} if options.plain else dict.fromkeys(texts)
        missing = [text for text, known in found.items() if known is None]
        self.metrics.cached.inc(len(found) - len(missing))
        if missing:
            for text, outcome in zip(missing, await self._do(model, call, missing, deadline), strict=True):
                found[text] = outcome
                if options.plain:
                    self._cache.put((call, text), outcome, key_size=len(text) + options.size)
        return [known for text in texts if (known := found[text]) is not None]

    def stream(
        self, model: Model, text: str, options: Options, *, deadline: float, make: Callable[[], Iterator[str]]
    ) -> Stream:
        """A translation in pieces, which `make` gives in a worker thread; it waits in the queue like any other."""
        model.prepare(options)
        (length,) = model.lengths([text])
        stream = Stream(make, deadline)
        stream.job = self._job(stream, text, length, deadline)
        self.queue.submit([stream.job])
        self.metrics.tokens.labels(model.name).inc(length)
        return stream

    async def read(self, stream: Stream) -> AsyncIterator[str]:
        """The pieces of a stream; whoever stops reading leaves the queue."""
        assert stream.job is not None
        self._under_way(1)
        try:
            with self._withdrawing([stream.job]), _user_errors():
                async for piece in stream.read():
                    yield piece
        finally:
            self._under_way(-1)

    async def compute(self, model: Model, text: str, function: Callable[[], T], *, deadline: float) -> T:
        """What a worker finds out about one sentence."""
        (outcome,) = await self._do(model, Alone(function), [text], deadline)
        found: T = outcome
        return found

    def close(self) -> None:
        """End the workers."""
        self.queue.close()

    async def _do(self, model: Model, call: Any, texts: Sequence[str], deadline: float) -> list[Any]:
        """The outcomes of some sentences, in order, by the deadline."""
        self.queue.check(len(texts))
        if sum(map(len, texts)) > INLINE:
            lengths = await asyncio.to_thread(model.lengths, texts)
        else:
            lengths = model.lengths(texts)
        jobs = [self._job(call, text, length, deadline) for text, length in zip(texts, lengths, strict=True)]
        self.queue.submit(jobs)
        self.metrics.tokens.labels(model.name).inc(sum(lengths))
        with self._withdrawing(jobs), _user_errors():
            timeout = max(0.0, deadline - time.monotonic())
            _, late = await asyncio.wait([job.future for job in jobs], timeout=timeout)
            if late:
                raise Late("not done in time: send less at a time, or try again later", retry_after=1)
            return [job.future.result() for job in jobs]

    def _job(self, call: Any, item: str, tokens: int, deadline: float) -> Job:
        return Job(call, item, tokens, asyncio.get_running_loop().create_future(), deadline)

    @contextmanager
    def _withdrawing(self, jobs: Sequence[Job]) -> Iterator[None]:
        """While somebody waits for jobs; after that they wait no more."""
        try:
            yield
        finally:
            self.queue.withdraw(jobs)

    def _under_way(self, more: int) -> None:
        self.pending += more


@contextmanager
def _user_errors() -> Iterator[None]:
    """What a translator refuses, the client can mend; a model that cannot be read, it cannot."""
    try:
        yield
    except (ServeError, BundleError):
        raise
    except UserError as error:
        raise Unusable(str(error)) from None


def whole_characters(text: str) -> str:
    """The same, if it can be written: halves of characters, which JSON lets pass, become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
