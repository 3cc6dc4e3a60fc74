"""One bounded queue that feeds one worker thread per core with batches.

A worker takes the job that has waited longest, and with it others that may share its batch: of the same call, in the
order of their coming, as long as the padded tokens fit the budget. When several workers are idle they share out what
waits. A job that is withdrawn leaves the queue at once; a batch under way ends at its own boundary, and nobody hears
of what was withdrawn meanwhile.

Jobs belong to an event loop: `submit` and `withdraw` are called there, and outcomes arrive there.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from transduce.serve.errors import Overloaded

ROWS = 64
"""Sentences of a batch, at most: more do not make it faster."""
PATIENCE = 5.0
"""Seconds to wait for the workers at the end; they may be at a batch that nobody waits for."""
RECENT = 0.2
"""How much the last batch counts in the seconds that a job takes."""
FREE = 0.25
"""The share of the places that is free again when a queue that had to refuse is open to all."""


class Call(Hashable, Protocol):
    """What is done with jobs. Jobs of equal calls may be done together, and one's outcome does not depend on that."""

    def __call__(self, items: list[Any]) -> Sequence[Any]:
        """The outcome of each item, in order; in a worker thread."""
        ...


@dataclass(eq=False)
class Job:
    """One sentence: what to do with it, how long it is, who waits for it, and until when (`time.monotonic`)."""

    call: Call
    item: Any
    tokens: int
    future: asyncio.Future[Any]
    deadline: float


class Queue:
    """Jobs that wait, and the workers that do them."""

    def __init__(
        self,
        *,
        workers: int,
        places: int,
        batch_tokens: int,
        heard: Callable[[int, float], None] = lambda jobs, seconds: None,
    ) -> None:
        """`places` is how many jobs may wait; `heard` hears of each batch how many jobs it had and its seconds."""
        self.places, self.batch_tokens, self.heard = places, batch_tokens, heard
        self._waiting: dict[Job, None] = {}  # in the order of their coming
        self._idle = 0
        self._seconds_per_job = 0.0
        self._refused = False
        self._closed = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, name=f"transduce-worker-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def idle(self) -> int:
        """Workers that have nothing to do."""
        return self._idle

    def check(self, count: int) -> None:
        """Refuse so many jobs if there are no places for them: what costs least to say is said first."""
        if self._waiting and len(self._waiting) + count > self.places:
            self._refused = True
            raise self._overloaded()

    def overload(self) -> Overloaded | None:
        """Why nobody need be heard: somebody was refused, and since then too few places have become free."""
        self._refused = self._refused and len(self._waiting) > (1 - FREE) * self.places
        return self._overloaded() if self._refused else None

    def submit(self, jobs: Sequence[Job]) -> None:
        """All of them or none. Who asks for more than there are places for has to come when nothing waits."""
        with self._changed:
            self.check(len(jobs))
            self._waiting.update(dict.fromkeys(jobs))
            self._changed.notify(len(jobs))

    def withdraw(self, jobs: Sequence[Job]) -> None:
        """Those of them that still wait leave the queue."""
        with self._changed:
            for job in jobs:
                self._waiting.pop(job, None)

    def close(self) -> None:
        """End the workers after what they are at; what waits is left."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _overloaded(self) -> Overloaded:
        """Come back after about as long as what waits will take."""
        seconds = len(self._waiting) * self._seconds_per_job / len(self._threads)
        return Overloaded("the server has more to do than it can: try again later", retry_after=seconds)

    def _work(self) -> None:
        while batch := self._take():
            began = time.monotonic()
            outcomes = attempt(batch[0].call, [job.item for job in batch])
            seconds = time.monotonic() - began
            self._seconds_per_job += RECENT * (seconds / len(batch) - self._seconds_per_job)
            self.heard(len(batch), seconds)
            settle(batch, outcomes)

    def _take(self) -> list[Job]:
        """The next batch, as soon as there is one; none when the queue is closed."""
        with self._changed:
            self._idle += 1
            try:
                while not self._closed:
                    self._forget_late()
                    if self._waiting:
                        return self._batch()
                    self._changed.wait()
                return []
            finally:
                self._idle -= 1

    def _forget_late(self) -> None:
        """Nobody waits any more for jobs whose deadline is over."""
        now = time.monotonic()
        for job in [job for job in self._waiting if job.deadline <= now]:
            del self._waiting[job]

    def _batch(self) -> list[Job]:
        first = next(iter(self._waiting))
        share = min(ROWS, -(-len(self._waiting) // self._idle))
        batch: list[Job] = []
        longest = 0
        for job in self._waiting:
            padded = max(longest, job.tokens + 1) * (len(batch) + 1)
            if job.call == first.call and (not batch or padded <= self.batch_tokens):
                batch.append(job)
                longest = max(longest, job.tokens + 1)
            if len(batch) >= share:
                break
        for job in batch:
            del self._waiting[job]
        return batch


def attempt(call: Call, items: list[Any]) -> list[Any]:
    """The outcome of each item, or the exception that it raised: one that fails among others is tried alone."""
    try:
        outcomes = list(call(items))
        assert len(outcomes) == len(items), "a call has to answer every item"
    except Exception as error:
        if len(items) == 1:
            return [error]
        return [outcome for item in items for outcome in attempt(call, [item])]
    return outcomes


def settle(batch: Sequence[Job], outcomes: Sequence[Any]) -> None:
    """Tell those who wait, each on its own event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[Job, Any]]] = {}
    for job, outcome in zip(batch, outcomes, strict=True):
        loops.setdefault(job.future.get_loop(), []).append((job, outcome))
    for loop, own in loops.items():
        with suppress(RuntimeError):  # closed: nobody waits
            loop.call_soon_threadsafe(_tell, own)


def _tell(outcomes: list[tuple[Job, Any]]) -> None:
    for job, outcome in outcomes:
        if job.future.done():
            continue
        if isinstance(outcome, Exception):
            job.future.set_exception(outcome)
            job.future.exception()  # whoever waited may have gone: that is no fault
        else:
            job.future.set_result(outcome)
