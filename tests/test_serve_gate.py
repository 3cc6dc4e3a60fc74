"""Before the routes: names, origins, proxies, sizes, keys, headers and the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving import Echo, client, closing, service_of
from transduce.serve.app import app_of
from transduce.serve.gate import CONTENT_SECURITY_POLICY, host_name
from transduce.serve.settings import Caps, Settings

BODY = {"text": "hello", "target": "de"}


def ask(
    method: str = "POST",
    path: str = "/api/translate",
    *,
    headers: dict[str, str] | None = None,
    address: str = "127.0.0.1",
    base: str = "http://localhost",
    times: int = 1,
    echo: Echo | None = None,
    settings: dict[str, Any] | None = None,
    **more: Any,
) -> httpx.Response:
    """The last of some equal requests to a server of its own."""

    async def scene() -> httpx.Response:
        with closing(service_of(*([echo] if echo else []), **(settings or {}))) as service:
            async with client(app_of(service), address=address, base=base) as asking:
                for _ in range(times):
                    if method == "POST" and "content" not in more:
                        more.setdefault("json", BODY)
                    response = await asking.request(method, path, headers=headers, **more)
        return response

    return asyncio.run(scene())


def test_every_answer_carries_the_policy() -> None:
    for response in (ask(), ask("GET", "/health"), ask("GET", "/nowhere"), ask("PUT"), ask(json={"text": 7})):
        assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
    assert ask("GET", "/nowhere").status_code == 404
    assert ask("PUT").status_code == 405


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_whoever_looks_after_servers_may_ask_for_the_head_alone(path: str) -> None:
    response = ask("HEAD", path)
    assert (response.status_code, response.content) == (200, b"")


def test_the_policy_is_the_strict_one() -> None:
    assert CONTENT_SECURITY_POLICY == (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none';"
        " frame-ancestors 'none'; form-action 'self'"
    )


@pytest.mark.parametrize("host", ["localhost", "localhost:5000", "127.0.0.1:5000", "[::1]:5000", "LOCALHOST"])
def test_the_loopback_has_its_names(host: str) -> None:
    assert ask(headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:5000", "127.0.0.1.evil.example", "10.0.0.1", "", "["])
def test_another_name_is_refused(host: str) -> None:
    assert ask(headers={"Host": host}).status_code == 400


def test_names_can_be_added_and_a_server_for_all_has_its_addresses() -> None:
    added = Settings(models=(), allowed_hosts=("Translate.example",))
    assert added.allows_host("translate.example")
    assert not added.allows_host("example")
    everywhere = Settings(models=(), host="0.0.0.0")
    assert everywhere.allows_host("10.0.0.1")
    assert not everywhere.allows_host("evil.example")
    assert Settings(models=(), allowed_hosts=("*",)).allows_host("anything")


@pytest.mark.parametrize(("host", "name"), [("a:1", "a"), ("a", "a"), ("[::1]:1", "::1"), ("::1", "::1"), ("", "")])
def test_host_names_are_without_port(host: str, name: str) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:81", "", "http://["])
@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
def test_a_foreign_page_is_refused(origin: str, method: str) -> None:
    echo = Echo()
    response = ask(method, headers={"Origin": origin, "Host": "localhost"}, echo=echo)
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers
    assert echo.batches == []


def test_the_servers_own_page_may_ask() -> None:
    for origin, host in (("http://localhost:5000", "localhost:5000"), ("https://localhost", "localhost")):
        response = ask(headers={"Origin": origin, "Host": host})
        assert response.status_code == 200
        assert "access-control-allow-origin" not in response.headers


def test_an_origin_that_was_named_may_ask() -> None:
    known = {"cors_origins": ("https://page.example",)}
    headers = {"Origin": "https://page.example"}
    response = ask(headers=headers, settings=known)
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, "https://page.example")
    asked = {**headers, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    before = ask("OPTIONS", headers=asked, settings=known)
    assert before.status_code == 204
    assert before.headers["access-control-allow-headers"] == "content-type"
    assert ask(headers={"Origin": "https://other.example"}, settings=known).status_code == 403


@pytest.mark.parametrize(
    ("address", "forwarded", "limited"),
    [
        ("10.1.1.1", ["1.1.1.1", "2.2.2.2"], False),  # through the proxy: two clients
        ("10.1.1.1", ["1.1.1.1", "1.1.1.1"], True),
        ("10.1.1.1", ["6.6.6.6, 1.1.1.1", "7.7.7.7, 1.1.1.1"], True),  # what a client itself claims does not count
        ("10.1.1.1", ["1.1.1.1, 10.2.2.2", "2.2.2.2, 10.2.2.2"], False),  # through two proxies
        ("9.9.9.9", ["1.1.1.1", "2.2.2.2"], True),  # not through the proxy
        ("::ffff:10.1.1.1", ["1.1.1.1", "2.2.2.2"], False),  # through the proxy, to a server on ::
        ("::ffff:10.1.1.1", ["::ffff:1.1.1.1", "1.1.1.1"], True),
    ],
)
def test_an_address_is_believed_from_a_trusted_proxy_only(address: str, forwarded: list[str], limited: bool) -> None:
    async def scene() -> list[int]:
        with closing(service_of(requests_per_minute=1, trusted_proxies=("10.0.0.0/8",))) as service:
            async with client(app_of(service), address=address) as asking:
                return [
                    (await asking.post("/api/translate", json=BODY, headers={"X-Forwarded-For": line})).status_code
                    for line in forwarded
                ]

    assert asyncio.run(scene()) == [200, 429 if limited else 200]


def test_large_bodies_are_refused_announced_or_not() -> None:
    echo = Echo()
    caps = {"caps": Caps(body=1000)}
    large = b'{"text": "' + b"a" * 2000 + b'"}'

    async def in_parts() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 100):
            yield large[start : start + 100]

    assert ask(content=large, settings=caps, echo=echo).status_code == 413
    assert ask(content=in_parts(), settings=caps, echo=echo).status_code == 413
    assert echo.batches == []


def test_a_length_of_many_digits_is_a_length() -> None:
    content, kind = b'{"text": "hello"}', {"Content-Type": "application/json"}
    assert ask(content=content, headers={**kind, "Content-Length": "0" * 5000 + "17"}).status_code == 200
    assert ask(content=content, headers={**kind, "Content-Length": "9" * 5000}).status_code == 413


def test_keys_are_asked_for_in_a_header(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("secret\n", encoding="utf-8")
    settings = {"api_keys": tmp_path / "keys"}
    assert ask(settings=settings).status_code == 401
    assert ask(headers={"Authorization": "Bearer wrong"}, settings=settings).status_code == 403
    assert ask(headers={"Authorization": "Bearer secret"}, settings=settings).status_code == 200
    assert ask(headers={"X-API-Key": "secret"}, settings=settings).status_code == 200
    assert ask("GET", "/api/models", settings=settings).status_code == 200


def test_too_many_requests_are_told_when_to_come_back() -> None:
    response = ask(times=3, settings={"requests_per_minute": 2})
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) >= 1


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "transduce.access"):
        yield caplog


def test_the_log_has_no_text_no_query_and_no_key(log: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("topsecret\n", encoding="utf-8")
    settings = {"api_keys": tmp_path / "keys"}
    private = {"text": "my private text"}
    ask(headers={"Authorization": "Bearer topsecret"}, json=private, settings=settings)
    ask("GET", "/api/attend?text=my+private+text&key=topsecret", settings=settings)
    ask("GET", "/my%20private%20text/topsecret%0Aforged line", settings=settings)
    ask(json={"text": ["my private text"], "topsecret": 1}, headers={"X-API-Key": "topsecret"}, settings=settings)
    assert len(log.messages) == 4
    assert "127.0.0.1 POST /api/translate 200" in log.messages[0]
    for message in log.messages:
        assert "private" not in message
        assert "topsecret" not in message
        assert "\n" not in message


def test_a_bug_is_an_answer_and_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    response = ask(json={"text": "bug"})
    assert response.status_code == 500
    assert response.json()["error"] == "internal error"
    assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert any("a bug" in message for message in caplog.messages)
