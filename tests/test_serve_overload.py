"""What a server that has too much to do tells those who come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving import Echo, client, closing, service_of
from transduce.serve.app import app_of, refusals
from transduce.serve.service import Service

PLACES = 4
KEY = "secret"


class Body:
    """A request's body that knows whether anybody has read it."""

    def __init__(self) -> None:
        self.read = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.read = True
        yield b'{"text": "later", "q": "later", "source": "en", "target": "de"}'


@asynccontextmanager
async def full(echo: Echo, root_path: str = "", **changes: Any) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A server whose worker is held and in whose queue every place is taken; what waits is answered in the end."""
    with closing(service_of(echo, queue=PLACES, cache=0, **changes)) as service:
        async with client(app_of(service), root_path=root_path) as asking:
            asking.headers["X-API-Key"] = KEY
            echo.hold()
            path = f"{root_path}/api/translate"
            texts = [asyncio.ensure_future(asking.post(path, json={"text": "first"}))]
            assert await asyncio.to_thread(echo.has_begun)
            texts += [asyncio.ensure_future(asking.post(path, json={"text": f"{n}"})) for n in range(PLACES)]
            while len(service.queue) < PLACES:
                await asyncio.sleep(0.001)
            yield service, asking
            echo.go_on()
            assert [each.status_code for each in await asyncio.gather(*texts)] == [200] * (PLACES + 1)


@pytest.mark.parametrize("path", refusals())
@pytest.mark.parametrize("root_path", ["", "/under"])
def test_after_one_was_refused_the_others_are_not_read(path: str, root_path: str) -> None:
    async def scene() -> tuple[httpx.Response, Body]:
        async with full(Echo(), root_path) as (_, asking):
            heard = await asking.post(f"{root_path}/api/translate", json={"text": "one too many"})
            assert heard.status_code == 429
            body = Body()
            return await asking.post(root_path + path, content=body), body

    response, body = asyncio.run(scene())
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) >= 1
    assert not body.read
    (said,) = response.json().values()
    assert "more to do than it can" in said


def test_a_full_queue_hears_the_first_and_what_needs_no_place() -> None:
    async def scene() -> None:
        async with full(Echo()) as (_, asking):
            assert (await asking.post("/api/translate", json=[])).status_code == 422
            assert (await asking.post("/api/translate", json={"text": "a"})).status_code == 429
            assert (await asking.post("/detect", json={"q": "hello"})).status_code == 200
            assert (await asking.get("/health")).status_code == 200
            assert (await asking.get("/api/translate")).status_code == 405

    asyncio.run(scene())


def test_when_places_are_free_again_everybody_is_heard() -> None:
    async def scene() -> None:
        echo = Echo()
        async with full(echo) as (service, asking):
            assert (await asking.post("/api/translate", json={"text": "a"})).status_code == 429
            assert (await asking.post("/api/translate", json={"text": "b"})).status_code == 429
            echo.go_on()
            while len(service.queue) > PLACES * 3 // 4:
                await asyncio.sleep(0.001)
            assert (await asking.post("/api/translate", json={"text": "c"})).status_code == 200

    asyncio.run(scene())


def test_the_log_and_the_metrics_name_the_route() -> None:
    async def scene() -> str:
        async with full(Echo()) as (_, asking):
            for _ in range(3):
                await asking.post("/translate", json={"q": "a", "source": "en", "target": "de"})
            return (await asking.get("/metrics")).text

    lines = [line for line in asyncio.run(scene()).split("\n") if 'status="429"' in line and "_count" not in line]
    assert any('route="/translate"' in line and line.endswith(" 3.0") for line in lines), lines


def test_a_key_that_is_not_known_is_told_first(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{KEY} characters=1000\n", encoding="utf-8")

    async def scene() -> dict[tuple[str, str | None], int]:
        async with full(Echo(), api_keys=tmp_path / "keys") as (service, asking):
            assert (await asking.post("/api/translate", json={"text": "one too many"})).status_code == 429
            used = service.used(service.identify(KEY) or pytest.fail("there are keys"))
            found = {}
            for path in ("/api/translate", "/translate", "/v2/translate"):
                for key in (KEY, "wrong", None):
                    asking.headers.pop("X-API-Key", None)
                    asking.headers.update({"X-API-Key": key} if key else {})
                    found[path, key] = (await asking.post(path, content=Body())).status_code
            assert service.used(service.identify(KEY) or pytest.fail("there are keys")) == used
            return found

    assert asyncio.run(scene()) == {
        ("/api/translate", KEY): 429,
        ("/api/translate", "wrong"): 403,
        ("/api/translate", None): 401,
        ("/translate", KEY): 429,
        ("/translate", "wrong"): 403,
        ("/translate", None): 429,  # it might be in the body
        ("/v2/translate", KEY): 429,
        ("/v2/translate", "wrong"): 403,
        ("/v2/translate", None): 403,
    }


def test_an_answer_that_is_used_again_has_the_headers_of_its_own_request() -> None:
    async def scene() -> list[httpx.Headers]:
        page = "https://page.example"
        async with full(Echo(), cors_origins=(page,)) as (_, asking):
            origins = [{"Origin": page}, {"Origin": page}, {}]
            return [(await asking.post("/api/translate", json={"text": "a"}, headers=o)).headers for o in origins]

    found = asyncio.run(scene())
    assert ["access-control-allow-origin" in headers for headers in found] == [True, True, False]
    assert len({headers["content-security-policy"] for headers in found}) == 1
