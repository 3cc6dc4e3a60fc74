"""Parts of a work whose middle, which leaves Python alone, overlaps with the beginning and the end of others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")
UNDER_WAY = 2
"""Parts at once: while one comes to its end, the next keeps the processors busy."""


class GivenUp(Exception):  # noqa: N818 - never leaves this file
    """Nobody waits for this part any more."""


def overlapped(
    parts: Iterable[Part], work: Callable[[Part, Callable[[], None]], Result]
) -> Iterator[tuple[Part, Result]]:
    """Each part and what `work` makes of it in a thread, in order; the next parts are made meanwhile.

    `work` gets a function to call now and then, which raises once an earlier part has failed or nobody waits any more.
    """
    given_up = Event()

    def go_on() -> None:
        if given_up.is_set():
            raise GivenUp

    under_way: deque[tuple[Part, Future[Result]]] = deque()
    with ThreadPoolExecutor(UNDER_WAY, thread_name_prefix="search") as threads:
        try:
            for part in parts:
                under_way.append((part, threads.submit(work, part, go_on)))
                if len(under_way) > UNDER_WAY:
                    done, result = under_way.popleft()
                    yield done, result.result()
            while under_way:
                done, result = under_way.popleft()
                yield done, result.result()
        finally:
            given_up.set()
