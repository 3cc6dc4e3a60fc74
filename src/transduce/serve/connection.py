"""One connection of a client: how long it may take for what, and what it is told when it speaks no HTTP.

h11 reads one request at a time, bounds heads and trailers, and reads on only when an answer is out. What it leaves to
us is time:

- The whole head of a request has `SILENCE` seconds, the first one of a connection and every other, and so has whoever
  is slow to take an answer. The deadline of bodies is in `serve/body.py`.
- An answer that comes before the whole body is there says `Connection: close`; what is left of the body is thrown away
  for `LINGER` seconds, so that the answer is not lost in a reset.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import h11
from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from transduce.serve.addresses import printable
from transduce.serve.gate import NO_ROUTE, OF_EVERY_ANSWER

SILENCE = 30.0
"""Seconds."""
LINGER = 2.0
"""Seconds."""
TOGETHER = 1 << 16
"""Bytes that are not held back until the next turn of the event loop."""
UNREADABLE = b"this is not HTTP/1.1, or its head is too long\n"

access = logging.getLogger("transduce.access")


class Lingering(asyncio.Transport):
    """A transport that goes on hearing for a while, when it is closed before all was heard.

    What is written in one turn of the event loop, as the head and the body of a short answer, is sent together: to send
    is what a short answer costs most.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport, self._loop = transport, loop
        self._unsent = bytearray()
        self.unheard = False
        """Whether some of a request is still to come."""
        self.left = False
        """Whether it is closed, but still hears."""

    def close(self) -> None:
        """At once, or by and by."""
        self._send()
        if not self.unheard or self.is_closing():
            self._transport.close()
            return
        self.left = True
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._loop.call_later(LINGER, self._transport.abort)

    def is_closing(self) -> bool:
        """Whether nothing is to be written any more."""
        return self.left or self._transport.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send soon."""
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent += data
        if len(self._unsent) >= TOGETHER:
            self._send()

    def pause_reading(self) -> None:
        """Let what comes wait."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Hear it."""
        self._transport.resume_reading()

    def abort(self) -> None:
        """Close, whatever is left to send."""
        self._transport.abort()

    def _send(self) -> None:
        if self._unsent:
            data, self._unsent = bytes(self._unsent), bytearray()
            self._transport.write(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Addresses and the like."""
        return self._transport.get_extra_info(name, default)


class Protocol(H11Protocol):
    """HTTP/1.1 with an end to all waiting."""

    transport: Lingering

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._answer, self.app = self.app, self._answer_or_close
        self._hearing: asyncio.TimerHandle | None = None
        self._telling: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(Lingering(transport, self.loop))
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
        self._wait_no_more()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; the first bytes after an answer begin a head, or the rest of a body, which have their time."""
        if self.transport.left:
            return
        if self.timeout_keep_alive_task is not None:
            self._wait_no_more()
            self._wait()
        super().data_received(data)
        if self.cycle and not self.cycle.response_complete:
            self._wait_no_more()

    def pause_writing(self) -> None:
        """The client takes no more for now; it has its time."""
        super().pause_writing()
        if self._telling is None:
            self._telling = self.loop.call_later(SILENCE, self.transport.abort)

    def resume_writing(self) -> None:
        """It does again."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """To what is no HTTP; if an answer is under way there is nothing left to say."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            told = {**OF_EVERY_ANSWER, "Content-Type": "text/plain; charset=utf-8", "Connection": "close"}
            headers = [*told.items(), ("Content-Length", str(len(UNREADABLE)))]
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=UNREADABLE),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
            client = printable(self.client[0] if self.client else "")
            access.info("%s other %s 400 0 ms %d bytes", client, NO_ROUTE, len(UNREADABLE))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.unheard = True
        self.transport.close()

    async def _answer_or_close(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, whose answer says so if it comes too early for the next request."""
        cycle = self.cycle

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and cycle.more_body:
                MutableHeaders(scope=message)["connection"] = "close"
                self.transport.unheard = True
            await send(message)

        await self._answer(scope, receive, answer)

    def _wait(self) -> None:
        self._hearing = self.loop.call_later(SILENCE, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
            self._hearing = None
