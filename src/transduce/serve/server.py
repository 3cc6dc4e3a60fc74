"""Uvicorn with manners: SIGTERM drains, SIGHUP reads the keys again; `serve/connection.py` has those of connections.

After SIGTERM or SIGINT the server is not ready, takes no more work, and leaves when what it has accepted is done, or
after `drain_seconds`. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from transduce.errors import UserError
from transduce.serve.connection import SILENCE, Protocol
from transduce.serve.service import Service
from transduce.serve.settings import Settings

BACKLOG = 2048
"""Connections that may wait to be accepted."""
TICK = 0.05
"""Seconds between two looks whether all is done."""

log = logging.getLogger("transduce.serve")


class Server(uvicorn.Server):
    """A server that finishes what it has accepted."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Listen, also to SIGHUP."""
        self._loop = loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        if threading.current_thread() is threading.main_thread() and self.service.settings.api_keys is not None:
            loop.add_signal_handler(signal.SIGHUP, self.reload_keys)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, the second ends."""
        if self.service.draining or self._loop is None:
            self.should_exit = self.force_exit = True
            return
        self.service.draining = True
        self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        log.info("stopping: finishing %d requests", self.service.pending)
        self._leaving = asyncio.ensure_future(self._leave())

    async def _leave(self) -> None:
        """As soon as all that was accepted is done; answers that are on their way have the rest of the time."""
        end = time.monotonic() + self.service.settings.drain_seconds
        while self.service.pending and time.monotonic() < end:
            await asyncio.sleep(TICK)
        self.config.timeout_graceful_shutdown = grace(end - time.monotonic())
        self.should_exit = True

    def reload_keys(self) -> None:
        """Read the key file again; a mistake in it leaves the keys as they were."""
        try:
            log.info("%d keys", self.service.reload_keys())
        except UserError as error:
            log.error("the keys stay as they were: %s", error)


def grace(seconds: float) -> int:
    """Whole seconds for answers to go out, and at least one."""
    return max(1, math.ceil(seconds))


def listen(settings: Settings) -> socket.socket:
    """A socket that takes connections from now on; they wait until the server runs."""
    where = f"{settings.host}:{settings.port}"
    listening: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        if listening is not None:
            listening.close()
        raise UserError(f"cannot listen on {where}: {error.strerror}: choose another --host or --port") from None
    return listening


def url_of(listening: socket.socket) -> str:
    """Where a server is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def make_server(app: FastAPI, settings: Settings) -> Server:
    """Not running yet: `run()` blocks, `serve()` is a coroutine."""
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        root_path=settings.root_path,
        backlog=BACKLOG,
        timeout_keep_alive=int(SILENCE),
        timeout_graceful_shutdown=grace(settings.drain_seconds),
        h11_max_incomplete_event_size=settings.caps.head,
    )
    return Server(config, app.state.service)


def log_to_stderr(*, quiet: bool) -> None:
    """The access log and what the server says of itself; with `quiet` only what is wrong.

    What uvicorn warns of is what clients do.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    for name in ("transduce.access", "transduce.serve", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.ERROR if name == "uvicorn.error" else logging.WARNING if quiet else logging.INFO)
