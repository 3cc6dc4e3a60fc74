"""A translation that is read while it is made: a worker thread writes, an event loop reads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

from transduce.serve.errors import Late
from transduce.serve.queue import Job

Piece = str | Exception | None
"""Some text, what went wrong, or that it is done."""


class Stream:
    """The pieces of one text; whoever stops reading it stops it after the step under way."""

    def __init__(self, make: Callable[[], Iterator[str]], deadline: float) -> None:
        self._make, self._deadline = make, deadline
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self._stopped = threading.Event()
        self.job: Job | None = None
        """By which it waits in the queue."""

    def __call__(self, items: list[object]) -> list[None]:
        """In a worker: make the pieces, until they are done or nobody wants them."""
        try:
            for piece in self._make():
                if self._stopped.is_set() or time.monotonic() > self._deadline:
                    break
                self._put(piece)
            self._put(None)
        except Exception as error:
            self._put(error)
        return [None] * len(items)

    async def read(self) -> AsyncIterator[str]:
        """The pieces, as they come."""
        try:
            while (piece := await self._next()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self._stopped.set()

    async def _next(self) -> Piece:
        try:
            return await asyncio.wait_for(self._pieces.get(), max(0.0, self._deadline - time.monotonic()))
        except TimeoutError:
            raise Late("the translation was not done in time: send less at a time") from None

    def _put(self, piece: Piece) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody reads
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)
