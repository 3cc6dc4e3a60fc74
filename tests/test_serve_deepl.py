"""DeepL's API: every field, every refusal, whatever is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from serving import Echo, client, closing, send, service_of
from test_serve_markup import XSS
from transduce.serve.app import app_of
from transduce.serve.settings import Caps

ENGLISH, GERMAN = "Where is the station, please?", "Wo ist denn hier der Bahnhof?"
ASKED = {"text": ["hello there"], "source_lang": "EN", "target_lang": "DE"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def app() -> Iterator[FastAPI]:
    models = Echo("a", "en", "de"), Echo("b", "de", "en"), Echo("c", "en", "pt"), Echo("d", "fr", "sr_latn")
    with closing(service_of(*models)) as service:
        yield app_of(service)


def translate(app: FastAPI, body: object, **more: Any) -> httpx.Response:
    return send(app, "POST", "/v2/translate", content=json.dumps(body), headers=JSON | more.pop("headers", {}), **more)


def translations(app: FastAPI, **changes: object) -> list[dict[str, Any]]:
    response = translate(app, ASKED | changes)
    assert response.status_code == 200, response.text
    assert list(response.json()) == ["translations"]
    told: list[dict[str, Any]] = response.json()["translations"]
    return told


def refused(response: httpx.Response) -> tuple[int, str]:
    assert list(response.json()) == ["message"]
    return response.status_code, response.json()["message"]


def test_json_and_forms_are_the_same(app: FastAPI) -> None:
    one = {"detected_source_language": "EN", "text": "HELLO THERE", "billed_characters": 11}
    two = {"detected_source_language": "EN", "text": "TWO", "billed_characters": 3}
    assert translations(app) == [one]
    assert translations(app, text="hello there") == [one]
    assert translations(app, text=["hello there", "two"]) == [one, two]
    form = ASKED | {"text": ["hello there", "two"]}
    assert send(app, "POST", "/v2/translate", data=form).json() == {"translations": [one, two]}
    assert send(app, "POST", "/v2/translate", data=ASKED).json() == {"translations": [one]}


def test_what_is_taken_and_ignored_changes_nothing(app: FastAPI) -> None:
    ignored = {
        "context": "a station",
        "split_sentences": "0",
        "preserve_formatting": True,
        "formality": "more",
        "tag_handling": "html",
        "show_billed_characters": True,
        "nobody": {"knows": 1},
    }
    assert translations(app, **ignored) == translations(app)


def test_long_texts_keep_their_lines(app: FastAPI) -> None:
    text = "First one.  Second one.\n\n\tThird one.\r\n"
    (told,) = translations(app, text=[text])
    assert told["text"] == text.upper()
    assert told["billed_characters"] == len(text)
    assert [each["text"] for each in translations(app, text=["", "😀 "])] == ["", "😀 "]


def test_a_source_that_is_not_named_is_detected(app: FastAPI) -> None:
    for nothing in (None, ""):
        (told,) = translations(app, text=[ENGLISH], source_lang=nothing)
        assert told["detected_source_language"] == "EN"
    (told,) = translations(app, text=[GERMAN], source_lang=None, target_lang="EN-US")
    assert (told["detected_source_language"], told["text"]) == ("DE", GERMAN.upper())


@pytest.mark.parametrize(
    ("source", "target"), [("DE", "EN"), ("de", "en-us"), ("DE", "EN-GB"), ("EN", "PT-BR"), ("EN-GB", "pt-PT")]
)
def test_regions_lead_to_their_language(app: FastAPI, source: str, target: str) -> None:
    (told,) = translations(app, source_lang=source, target_lang=target)
    assert told["detected_source_language"] == source[:2].upper()


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, {"target_lang": "DE"}, "Parameter 'text' not specified."),
        (400, ASKED | {"text": []}, "Parameter 'text' not specified."),
        (400, ASKED | {"text": 7}, "Value for 'text' not supported: it is a list of texts."),
        (400, ASKED | {"text": ["a", None]}, "Value for 'text' not supported: it is a list of texts."),
        (400, {"text": ["a"]}, "Parameter 'target_lang' not specified."),
        (400, ASKED | {"target_lang": 7}, "Value for 'target_lang' not supported: it is a language code."),
        (400, ASKED | {"target_lang": "ZZ"}, "Value for 'target_lang' not supported: de, en, pt, sr_latn are."),
        (400, ASKED | {"source_lang": "\ud800"}, "Value for 'source_lang' not supported: en, de, fr are."),
        (
            400,
            ASKED | {"source_lang": "DE", "target_lang": "PT-BR"},
            "Value for 'target_lang' not supported: there is no model from German to Portuguese.",
        ),
        (413, ASKED | {"text": ["a" * 5001]}, "5001 characters: at most 5000 are taken: send less at a time"),
        (413, ASKED | {"text": ["a"] * 65}, "65 texts: at most 64 are taken: send less at a time"),
        (400, [ASKED], "Invalid request: the body is not a JSON object"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(app: FastAPI, status: int, body: object, message: str) -> None:
    assert refused(translate(app, body)) == (status, message)


def test_a_large_body_and_one_that_is_not_json_are_refused(app: FastAPI) -> None:
    large = refused(translate(app, ASKED | {"context": "a" * 131_072}))
    assert large[0] == 413
    assert large[1].endswith("at most 131072 are taken: send less at a time")
    assert refused(send(app, "POST", "/v2/translate", content=b"{", headers=JSON))[0] == 400
    assert send(app, "GET", "/v2/nowhere").status_code == 404
    assert send(app, "GET", "/v2/nowhere").json()["message"] == "Not Found"
    assert send(app, "GET", "/v2/translate").status_code == 405


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["text", "source_lang", "target_lang", "formality", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.sampled_from(["EN", "DE", "", "a"]),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
            max_leaves=4,
        ),
    )
)
def test_no_body_is_answered_by_422_or_500(app: FastAPI, body: dict[str, Any]) -> None:
    response = translate(app, body)
    assert response.status_code in (200, 400)
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("text", XSS)
def test_nothing_that_is_sent_comes_back_as_a_page(app: FastAPI, text: str) -> None:
    for name in ("text", "source_lang", "target_lang", "formality"):
        response = translate(app, ASKED | {name: text})
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert isinstance(response.json(), dict)


def test_languages_are_listed_by_side(app: FastAPI) -> None:
    sources = [
        {"language": "EN", "name": "English"},
        {"language": "DE", "name": "German"},
        {"language": "FR", "name": "French"},
    ]
    assert send(app, "GET", "/v2/languages").json() == sources
    assert send(app, "GET", "/v2/languages", params={"type": "source"}).json() == sources
    targets = send(app, "GET", "/v2/languages", params={"type": "target"}).json()
    assert [each["language"] for each in targets] == ["DE", "EN-GB", "EN-US", "PT-BR", "PT-PT", "SR-LATN"]
    assert {each["supports_formality"] for each in targets} == {False}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert send(app, "GET", "/v2/languages", content=b"type=target", headers=form).json() == targets
    assert refused(send(app, "GET", "/v2/languages", params={"type": "<b>"}))[0] == 400


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[FastAPI]:
    (tmp_path / "keys").write_text("secret characters=20\nbusy requests=1\n", encoding="utf-8")
    with closing(service_of(Echo(), api_keys=tmp_path / "keys")) as service:
        yield app_of(service)


def of(key: str) -> dict[str, str]:
    return {"Authorization": f"DeepL-Auth-Key {key}"}


def test_keys_are_asked_for_everywhere(keyed: FastAPI) -> None:
    for headers in ({}, of("wrong"), {"Authorization": "secret"}):
        for body in (ASKED, {}, ASKED | {"target_lang": "ZZ"}):
            assert refused(translate(keyed, body, headers=headers))[0] == 403
        for path in ("/v2/languages", "/v2/usage"):
            assert refused(send(keyed, "GET", path, headers=headers))[0] == 403
    assert translate(keyed, ASKED, headers=of("secret")).status_code == 200
    assert send(keyed, "GET", "/v2/languages", headers=of("secret")).status_code == 200


def test_usage_is_counted_and_the_quota_kept(keyed: FastAPI, app: FastAPI) -> None:
    usage = send(keyed, "GET", "/v2/usage", headers=of("secret")).json()
    assert usage == {"character_count": 0, "character_limit": 20}
    assert translate(keyed, ASKED, headers=of("secret")).status_code == 200
    usage = send(keyed, "GET", "/v2/usage", headers=of("secret")).json()
    assert usage == {"character_count": 11, "character_limit": 20}
    assert refused(translate(keyed, ASKED, headers=of("secret")))[0] == 456
    unlimited = {"character_count": 0, "character_limit": 1_000_000_000_000}
    assert send(keyed, "GET", "/v2/usage", headers=of("busy")).json() == unlimited
    assert send(app, "GET", "/v2/usage").json() == unlimited


def test_who_asks_too_often_is_told_when_to_come_back(keyed: FastAPI) -> None:
    assert translate(keyed, ASKED, headers=of("busy")).status_code == 200
    response = translate(keyed, ASKED, headers=of("busy"))
    assert refused(response)[0] == 429
    assert int(response.headers["retry-after"]) >= 1


def test_a_server_that_stops_and_one_that_is_late_are_unavailable() -> None:
    echo = Echo()
    echo.hold()
    with closing(service_of(echo, caps=Caps(deepl_seconds=0.05))) as service:
        late = translate(app_of(service), ASKED)
        echo.go_on()
        service.draining = True
        stopping = translate(app_of(service), ASKED | {"text": ["another"]})
    assert (refused(late)[0], refused(stopping)[0]) == (503, 503)
    assert int(late.headers["retry-after"]) >= 1


def test_a_full_queue_is_too_many_requests() -> None:
    async def scene() -> httpx.Response:
        echo = Echo()
        with closing(service_of(echo, queue=1, cache=0)) as service:
            async with client(app_of(service)) as asking:
                echo.hold()
                texts = [asyncio.ensure_future(asking.post("/v2/translate", json=ASKED | {"text": ["one"]}))]
                assert await asyncio.to_thread(echo.has_begun)
                texts.append(asyncio.ensure_future(asking.post("/v2/translate", json=ASKED | {"text": ["two"]})))
                while not len(service.queue):
                    await asyncio.sleep(0.001)
                full = await asking.post("/v2/translate", json=ASKED | {"text": ["three"]})
                echo.go_on()
                assert [each.status_code for each in await asyncio.gather(*texts)] == [200, 200]
                return full

    assert refused(asyncio.run(scene()))[0] == 429
