"""Connections that are slow, that say too much or that speak no HTTP: raw bytes to a real server on the loopback."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from contextlib import suppress
from random import Random

import httpx
import pytest

from malformed import OF_OTHER_APIS, Kind, Wire
from serving import PATIENCE, Echo, connect, post, running, service_of, until
from transduce.serve import connection as connections
from transduce.serve.gate import CONTENT_SECURITY_POLICY

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
SHORT = 0.4


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SILENCE", SHORT)
    monkeypatch.setattr(connections, "LINGER", SHORT)


def answer(connection: socket.socket) -> tuple[bytes, dict[str, str], bytes]:
    """The first line, the headers and the body of an answer that has a length."""
    told = b""
    while b"\r\n\r\n" not in told:
        more = connection.recv(1 << 16)
        assert more, told
        told += more
    head, _, body = told.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = {name.lower(): value for name, _, value in (line.decode().partition(": ") for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += connection.recv(1 << 16)
    return first, headers, body


def is_closed(connection: socket.socket) -> bool:
    """Waits until the server closes a connection, on which it says nothing more."""
    with suppress(ConnectionError):
        return connection.recv(1) == b""
    return True


def drip(connection: socket.socket, data: bytes) -> float:
    """Send the same bytes again and again, each well in time: the seconds until the server has had enough."""
    begin = time.monotonic()
    connection.setblocking(False)
    while time.monotonic() - begin < PATIENCE:
        try:
            connection.send(data)
            if connection.recv(1 << 16) == b"":
                break
        except BlockingIOError:
            time.sleep(SHORT / 10)
        except ConnectionError:
            break
    return time.monotonic() - begin


def test_a_head_that_does_not_end_is_refused() -> None:
    with running(service_of(Echo())) as (url, _), connect(url) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        with suppress(ConnectionError):  # it is not read to its end
            for number in range(10_000):
                connection.sendall(f"X-{number}: {'x' * 100}\r\n".encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
        assert httpx.get(url + "health").is_success


def test_trailers_that_do_not_end_are_refused() -> None:
    with running(service_of(Echo())) as (url, _), connect(url) as connection:
        connection.sendall(
            b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        )
        with suppress(ConnectionError):
            for number in range(10_000):
                connection.sendall(f"X-{number}: {'x' * 100}\r\n".encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400 ")


def test_long_bodies_do_not_count_as_heads() -> None:
    with running(service_of(Echo())) as (url, _), httpx.Client(timeout=PATIENCE) as asking:
        for _ in range(3):
            long = {"text": "a", "glossary": [["b" * 1000, "c" * 1000]] * 100}
            assert asking.post(url + "api/translate", json=long).status_code in {200, 413}
            assert asking.post(url + "api/translate", json={"text": "a"}).status_code == 200


def test_the_body_of_an_upgrade_is_no_request() -> None:
    inner = b"GET /api/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    with running(service_of(Echo())) as (url, _), connect(url) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(inner) + inner)
        assert answer(connection)[0].startswith(b"HTTP/1.1 405 ")
        connection.sendall(HEALTH)
        assert answer(connection)[2] == b'{"status":"ok"}'


def test_requests_that_come_all_at_once_wait_for_each_other() -> None:
    echo = Echo()
    echo.hold()
    with running(service := service_of(echo, workers=2)) as (url, _), connect(url) as connection:
        for number in range(5):
            post(connection, "/api/translate", {"text": f"text {number}"})
        assert echo.has_begun()
        assert service.pending == 1
        echo.go_on()
        told = b""
        while told.count(b"HTTP/1.1 200 OK") < 5:
            told += connection.recv(1 << 16)
    assert echo.batches == [[f"text {number}"] for number in range(5)]


@pytest.mark.usefixtures("impatient")
def test_a_whole_head_has_its_time_however_often_a_byte_comes() -> None:
    with running(service_of(Echo())) as (url, _):
        with connect(url) as silent:
            assert is_closed(silent)
        with connect(url) as slow:
            assert SHORT / 2 <= drip(slow, b"P") < PATIENCE
        with connect(url) as slow_later:
            slow_later.sendall(HEALTH)
            assert answer(slow_later)[0] == b"HTTP/1.1 200 OK"
            assert SHORT / 2 <= drip(slow_later, b"P") < PATIENCE


@pytest.mark.usefixtures("impatient")
def test_an_answer_may_take_longer_than_a_head() -> None:
    echo = Echo()
    with running(service_of(echo, cache=0)) as (url, _), connect(url) as connection:
        for _ in range(2):
            echo.hold()
            post(connection, "/api/translate", {"text": "a"})
            threading.Timer(2 * SHORT, echo.go_on).start()
            assert answer(connection)[0] == b"HTTP/1.1 200 OK"


@pytest.mark.usefixtures("impatient")
def test_whoever_does_not_take_an_answer_is_left() -> None:
    with running(service_of(Echo())) as (url, server), connect(url) as connection:
        until(lambda: len(server.server_state.connections) == 1)
        (protocol,) = server.server_state.connections
        protocol.pause_writing()
        assert is_closed(connection)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("status", "head"),
    [
        (400, "Host: evil.example\r\nContent-Length: 1000"),
        (403, "Host: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 1000"),
        (413, "Host: localhost\r\nContent-Length: 100000000"),
    ],
)
def test_an_answer_before_the_body_closes_the_connection(status: int, head: str) -> None:
    with running(service_of(Echo())) as (url, _), connect(url) as connection:
        connection.sendall(f"POST /api/translate HTTP/1.1\r\n{head}\r\n\r\n".encode())
        first, headers, _ = answer(connection)
        assert first.startswith(b"HTTP/1.1 %d " % status)
        assert headers["connection"] == "close"
        assert drip(connection, b"a") < PATIENCE


def test_a_refusal_with_its_body_keeps_the_connection() -> None:
    with running(service_of(Echo())) as (url, _), connect(url) as connection:
        for _ in range(2):
            connection.sendall(b"POST /api/translate HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}")
            first, headers, _ = answer(connection)
            assert first.startswith(b"HTTP/1.1 400 ")
            assert "connection" not in headers


def test_a_refusal_is_not_lost_when_the_rest_of_the_body_comes_after_it() -> None:
    with running(service_of(Echo())) as (url, _), connect(url) as connection:
        connection.sendall(b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n")
        for _ in range(30):
            connection.sendall(b"a" * 100_000)
        assert answer(connection)[0].startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET  /  HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ],
)
def test_what_is_no_http_is_told_so_by_the_policy(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "transduce.access")
    with running(service_of(Echo())) as (url, _), connect(url) as connection:
        connection.sendall(data)
        first, headers, _ = answer(connection)
        assert first == b"HTTP/1.1 400 Bad Request"
        assert (headers["connection"], headers["content-security-policy"]) == ("close", CONTENT_SECURITY_POLICY)
        assert is_closed(connection)
    assert any("127.0.0.1 other unknown 400" in message for message in caplog.messages)


@pytest.mark.parametrize("kind", OF_OTHER_APIS, ids=lambda kind: kind.name)
def test_malformed_requests_are_refused_for_what_they_are(kind: Kind) -> None:
    async def scene(url: str) -> list[int]:
        wire, random = Wire(url), Random(0)
        found = [(await wire.status(kind.make(random)))[0] for _ in range(8)]
        assert (await wire.status(HEALTH))[0] == 200
        wire.close()
        return found

    with running(service_of(Echo())) as (url, _):
        assert set(asyncio.run(scene(url))) <= kind.expected


def test_a_stream_to_an_old_client_has_no_chunks() -> None:
    body = b'{"text": "a b"}'
    with running(service_of(Echo())) as (url, _), connect(url) as connection:
        head = b"POST /api/stream HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        told = b""
        while more := connection.recv(1 << 16):
            told += more
    head, _, events = told.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    assert events.startswith(b'data: {"text": "A"}\n\n')
    assert events.endswith(b"}\n\n")
