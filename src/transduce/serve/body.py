"""A request's body, read whole before anyone looks at it; and a client that hangs up while its answer is made.

A body that is larger than its cap, or that does not come in time, is refused here. When a client goes away, whatever
was being done for it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.serve.answer import refusal
from transduce.serve.settings import Caps

CLOSE = {"Connection": "close"}
"""What is left of a body that was refused is not worth reading."""
LONGEST_NUMBER = 18
"""Digits of a length that need not be read to be known to be too much."""


class WholeBody:
    """Middleware for HTTP."""

    def __init__(self, app: ASGIApp, caps: Caps, others: Container[str] = ()) -> None:
        """`others`: paths of an API that has 400 for what is over a cap."""
        self.app, self.caps, self.others = app, caps, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read, then pass on; nothing is passed on for those who hang up meanwhile."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(self._read(Headers(scope=scope), receive), self.caps.seconds)
        except TimeoutError:
            await refusal(408, "the body did not come in time", CLOSE)(scope, receive, send)
            return
        except _Oversize:
            message = f"a body of more than {self.caps.body} bytes: send less at a time"
            await refusal(400 if own_path(scope) in self.others else 413, message, CLOSE)(scope, receive, send)
            return
        if body is not None:
            await self._answer(body, scope, receive, send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """The body; None: the client has gone."""
        announced = headers.get("content-length", "").lstrip("0")
        if announced.isdecimal() and (len(announced) > LONGEST_NUMBER or int(announced) > self.caps.body):
            raise _Oversize
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self.caps.body:
                raise _Oversize
            if not message.get("more_body", False):
                return bytes(body)

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        answered = False

        async def sending(message: Message) -> None:
            nonlocal answered
            answered = answered or (message["type"] == "http.response.body" and not message.get("more_body", False))
            await send(message)

        gone = asyncio.ensure_future(_hang_up(receive))
        work = asyncio.ensure_future(self.app(scope, _replay(body, gone), sending))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not answered:
                work.cancel()
                await asyncio.wait((work,))
            if not work.cancelled():
                await work
        finally:
            gone.cancel()
            work.cancel()


def own_path(scope: Scope) -> str:
    """The path of a request as the routes have it, whatever --root-path puts before it."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


class _Oversize(Exception):  # noqa: N818 - never leaves this file
    """More than the cap."""


async def _hang_up(receive: Receive) -> None:
    """Ends when the client is gone, or has its answer."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _replay(body: bytes, gone: asyncio.Future[None]) -> Receive:
    """The body again, and then that the client has gone, when it has."""
    messages: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.wait((gone,))
        return {"type": "http.disconnect"}

    return receive
