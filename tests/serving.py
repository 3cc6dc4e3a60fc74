"""Servers for tests: a model that does what it is told, an application without a network, and a real server."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
from fastapi import FastAPI

from transduce.config import ModelConfig
from transduce.serve.app import app_of
from transduce.serve.model import Model, Translated
from transduce.serve.options import Options
from transduce.serve.server import Server, listen, make_server, url_of
from transduce.serve.service import Service
from transduce.serve.settings import Caps, Served, Settings

PATIENCE = 120.0
"""Seconds after which a test gives up; none takes as long."""
SETTINGS = Settings(models=(), workers=1, port=0, caps=Caps(seconds=PATIENCE))


class Echo:
    """In place of a model: upper case, in batches that can be seen and, with `hold`, held up."""

    def __init__(self, name: str = "echo", source: str = "en", target: str = "de") -> None:
        self.name, self.source_lang, self.target_lang, self.ensemble = name, source, target, False
        self.config = ModelConfig()
        self.translator = SimpleNamespace(
            engine=SimpleNamespace(name="echo"), search=SimpleNamespace(beam=4), max_input=1000
        )
        self.batches: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self._go_on = threading.Event()
        self._go_on.set()

    def hold(self) -> None:
        """Begin batches, but do not end them."""
        self._go_on.clear()

    def go_on(self) -> None:
        self._go_on.set()

    def has_begun(self) -> bool:
        """Whether one more batch begins."""
        return self.begun.acquire(timeout=PATIENCE)

    def prepare(self, options: Options) -> None:
        pass

    def lengths(self, texts: list[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def translate(self, texts: list[str], options: Options) -> list[Translated]:
        self.batches.append(texts)
        self.begun.release()
        assert self._go_on.wait(PATIENCE)
        if "bug" in texts:
            raise RuntimeError("a bug")
        return [Translated(text.upper(), -1.0, -1.0, engine="echo") for text in texts]

    def stream(self, text: str, options: Options) -> Iterator[str]:
        self.begun.release()
        for word in text.split():
            assert self._go_on.wait(PATIENCE)
            yield word.upper()

    def as_model(self) -> Model:
        return cast(Model, self)


def service_of(*models: Echo, settings: Settings = SETTINGS, **changes: Any) -> Service:
    """A service of such models, or of one."""
    return Service([model.as_model() for model in models or (Echo(),)], replace(settings, **changes))


def service_for(bundle: Path, **changes: Any) -> Service:
    """A service of a real model, from English to German."""
    model = Model.load(Served((bundle,), "en", "de"), say=lambda message: None)
    return Service([model], replace(SETTINGS, **changes))


@contextmanager
def closing(service: Service) -> Iterator[Service]:
    """Its workers end with the block."""
    try:
        yield service
    finally:
        service.close()


def client(
    app: FastAPI, *, address: str = "127.0.0.1", base: str = "http://localhost", root_path: str = ""
) -> httpx.AsyncClient:
    """Of an application, without a network."""
    transport = httpx.ASGITransport(app, root_path=root_path, client=(address, 1234))
    return httpx.AsyncClient(transport=transport, base_url=base, timeout=PATIENCE)


@contextmanager
def running(service: Service) -> Iterator[tuple[str, Server]]:
    """A real server in a thread: its URL, and itself."""
    with listen(service.settings) as listening:
        server = make_server(app_of(service), service.settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield url_of(listening), server
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


def connect(url: str) -> socket.socket:
    """To a running server."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    return socket.create_connection((parts.hostname, parts.port or 80), timeout=PATIENCE)


def post(connection: socket.socket, path: str, body: object) -> None:
    """A request in HTTP/1.1, of which the answer is not read."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    connection.sendall(head.encode() + b"\r\n\r\n" + data)


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that is about to hold; fails if it never does."""
    waited = threading.Event()
    for _ in range(int(PATIENCE / 0.005)):
        if holds():
            return
        waited.wait(0.005)
    raise AssertionError("it never held")


def send(app: FastAPI, method: str, path: str, **more: Any) -> httpx.Response:
    """One request, without a network."""

    async def ask() -> httpx.Response:
        async with client(app) as asking:
            return await asking.request(method, path, **more)

    return asyncio.run(ask())
