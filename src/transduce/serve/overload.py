"""While the queue is too full, requests for it are refused before their bodies are read.

To find out that there is no place for a request costs a server as much as a short sentence does: at ten times the load
that a model can bear, that would take much of its processors from it. Nor has each a line in the log: one a second
says how many they were.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from transduce.serve.body import own_path
from transduce.serve.errors import ServeError
from transduce.serve.keys import key_in
from transduce.serve.queue import Queue

Refuse = Callable[[ServeError], Response]

SECONDS = 1.0
"""Between two lines in the log, and two answers that are not the same."""

log = logging.getLogger("transduce.serve")


@dataclass(frozen=True)
class Unread:
    """What stands for the route of a request that was not led to it, in the metrics."""

    path: str
    counted: bool
    """Whether the log tells of it only by its count."""


class Overload:
    """Middleware for HTTP."""

    def __init__(
        self,
        app: ASGIApp,
        queue: Queue,
        refusals: Mapping[str, Refuse],
        identify: Callable[[str | None], object],
        keys_inside: Container[str] = (),
    ) -> None:
        """`refusals`: the paths that need a place in the queue, and how the API of each refuses.

        `identify` raises if a key is not known; with `keys_inside` it may be in the body, which is not read.
        """
        self.app, self.queue, self.refusals = app, queue, refusals
        self.identify, self.keys_inside = identify, keys_inside
        self._untold, self._told = 0, 0.0
        self._answers: dict[str, tuple[float, Response]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse at once, or pass on."""
        path = own_path(scope) if scope["type"] == "http" and scope["method"] == "POST" else ""
        overload = self.queue.overload() if path in self.refusals else None
        if overload is None:
            await self.app(scope, receive, send)
            return
        unknown = self._unknown(path, Headers(scope=scope))
        scope["route"] = Unread(path, counted=unknown is None)
        answer = unknown or self._refused(path, overload)
        await send({"type": "http.response.start", "status": answer.status_code, "headers": [*answer.raw_headers]})
        await send({"type": "http.response.body", "body": answer.body})

    def _unknown(self, path: str, headers: Headers) -> Response | None:
        """The answer to those who would be refused anyway, whose key need not be looked for in the body."""
        key = key_in(headers)
        if key is None and path in self.keys_inside:
            return None
        try:
            self.identify(key)
        except ServeError as error:
            return self.refusals[path](error)
        return None

    def _refused(self, path: str, overload: ServeError) -> Response:
        """The answer to the others: made once a second."""
        self._untold += 1
        if (now := time.monotonic()) - self._told >= SECONDS:
            log.info("too much to do: %d requests refused unread", self._untold)
            self._untold, self._told = 0, now
        made, answer = self._answers.get(path, (-SECONDS, None))
        if answer is None or now - made >= SECONDS:
            answer = self.refusals[path](overload)
            self._answers[path] = now, answer
        return answer
