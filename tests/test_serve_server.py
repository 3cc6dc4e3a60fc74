"""A real server on the loopback: hanging up, draining, and streams."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from serving import PATIENCE, SETTINGS, Echo, connect, post, running, service_of, until
from transduce.errors import UserError
from transduce.serve.server import listen

BODY = {"text": "hello"}


def answers(url: str) -> bool:
    try:
        return httpx.get(url + "health", timeout=PATIENCE).is_success
    except httpx.TransportError:
        return False


def test_a_client_that_hangs_up_leaves_the_queue() -> None:
    echo = Echo()
    echo.hold()
    with running(service := service_of(echo)) as (url, _), httpx.Client(timeout=PATIENCE) as asking:
        first, second = connect(url), connect(url)
        post(first, "/api/translate", {"text": "first"})
        assert echo.has_begun()
        post(second, "/api/translate", {"text": ["second", "third"]})
        until(lambda: len(service.queue) == 2)
        second.close()
        until(lambda: len(service.queue) == 0)
        until(lambda: service.pending == 1)
        first.close()  # of a batch under way nobody hears
        until(lambda: service.pending == 0)
        echo.go_on()
        assert asking.post(url + "api/translate", json={"text": "fourth"}).json()["translations"][0]["text"] == "FOURTH"
    assert echo.batches == [["first"], ["fourth"]]


def test_a_client_that_stops_reading_a_stream_stops_it() -> None:
    echo = Echo()
    echo.hold()
    with running(service := service_of(echo)) as (url, _), connect(url) as connection:
        post(connection, "/api/stream", {"text": "a b c"})
        assert echo.has_begun()
        until(lambda: service.pending == 1)
        connection.close()
        until(lambda: service.pending == 0)
        echo.go_on()
        until(lambda: service.queue.idle == 1)


def test_a_signal_drains() -> None:
    echo = Echo()
    echo.hold()
    service = service_of(echo)
    with running(service) as (url, server), ThreadPoolExecutor() as threads, httpx.Client(timeout=PATIENCE) as asking:
        accepted = threads.submit(httpx.post, url + "api/translate", json=BODY, timeout=PATIENCE)
        assert echo.has_begun()
        waiting = threads.submit(httpx.post, url + "api/translate", json={"text": "waiting"}, timeout=PATIENCE)
        until(lambda: len(service.queue) == 1)
        assert asking.get(url + "ready").status_code == 200
        server.handle_exit(signal.SIGTERM, None)
        assert asking.get(url + "ready").status_code == 503
        refused = asking.post(url + "api/translate", json={"text": "late"})
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        echo.go_on()
        assert accepted.result(PATIENCE).json()["translations"][0]["text"] == "HELLO"
        assert waiting.result(PATIENCE).json()["translations"][0]["text"] == "WAITING"
        until(lambda: server.should_exit)
        until(lambda: not answers(url))
    assert not any(thread.name.startswith("transduce-worker") and thread.is_alive() for thread in threading.enumerate())


def test_a_request_for_two_models_is_finished_after_the_signal() -> None:
    first, second = Echo("a", "en", "de"), Echo("b", "fr", "de")
    first.hold()
    asked = {"q": ["The dog barks in the garden.", "Le chien aboie dans le jardin."], "source": "auto", "target": "de"}
    service = service_of(first, second)
    with running(service) as (url, server), ThreadPoolExecutor() as threads:
        accepted = threads.submit(httpx.post, url + "translate", json=asked, timeout=PATIENCE)
        assert first.has_begun()
        server.handle_exit(signal.SIGTERM, None)
        until(lambda: service.draining)
        first.go_on()
        assert accepted.result(PATIENCE).json()["translatedText"] == [text.upper() for text in asked["q"]]
    assert len(second.batches) == 1


def test_a_server_leaves_in_time_whatever_it_has_accepted() -> None:
    echo = Echo()
    echo.hold()
    with running(service_of(echo, drain_seconds=0.5)) as (url, server), connect(url) as connection:
        post(connection, "/api/translate", BODY)
        assert echo.has_begun()
        begin = time.monotonic()
        server.handle_exit(signal.SIGTERM, None)
        threading.Timer(2.5, echo.go_on).start()  # the worker cannot be stopped
        until(lambda: not answers(url))
    assert time.monotonic() - begin < 5


def test_streams_come_in_pieces() -> None:
    with running(service_of()) as (url, _), httpx.stream("POST", url + "api/stream", json={"text": "a b"}) as response:
        told = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line]
    assert [each["text"] for each in told] == ["A", "AB", "AB"]


def test_many_clients_at_once_are_all_answered() -> None:
    echo = Echo()
    with running(service_of(echo, workers=2)) as (url, _):

        async def scene() -> list[str]:
            limits = httpx.Limits(max_connections=20)
            async with httpx.AsyncClient(limits=limits, timeout=PATIENCE) as asking:
                asked = (asking.post(url + "api/translate", json={"text": f"text {n}"}) for n in range(60))
                return [answer.json()["translations"][0]["text"] for answer in await asyncio.gather(*asked)]

        assert asyncio.run(scene()) == [f"TEXT {n}" for n in range(60)]
    assert sorted(text for batch in echo.batches for text in batch) == sorted(f"text {n}" for n in range(60))


def test_a_port_that_is_taken_is_named() -> None:
    with listen(SETTINGS) as taken, pytest.raises(UserError, match="--port"):
        listen(replace(SETTINGS, port=taken.getsockname()[1]))
