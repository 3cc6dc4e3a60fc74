"""While the queue is too full, requests for it are refused before their bodies are read.

To find out that there is no place for a request costs a server as much as a short sentence does: at ten times the load
that a model can bear, that would take much of its processors from it. Nor has each a line in the log: one a second
says how many they were.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from transduce.serve.body import own_path
from transduce.serve.errors import ServeError
from transduce.serve.queue import Queue

Refuse = Callable[[ServeError], Response]

SECONDS = 1.0
"""Between two lines in the log."""

log = logging.getLogger("transduce.serve")


@dataclass(frozen=True)
class Unread:
    """What stands for the route of a request that was not led to it, in the metrics."""

    path: str


class Overload:
    """Middleware for HTTP."""

    def __init__(self, app: ASGIApp, queue: Queue, refusals: Mapping[str, Refuse]) -> None:
        """`refusals`: the paths that need a place in the queue, and how the API of each refuses."""
        self.app, self.queue, self.refusals = app, queue, refusals
        self._untold, self._told = 0, 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse at once, or pass on."""
        refuse = self.refusals.get(own_path(scope)) if scope["type"] == "http" and scope["method"] == "POST" else None
        overload = self.queue.overload() if refuse else None
        if refuse is None or overload is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = Unread(own_path(scope))
        self._tell()
        await refuse(overload)(scope, receive, send)

    def _tell(self) -> None:
        self._untold += 1
        if (now := time.monotonic()) - self._told >= SECONDS:
            log.info("too much to do: %d requests refused unread", self._untold)
            self._untold, self._told = 0, now
