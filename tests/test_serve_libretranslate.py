"""LibreTranslate's API: every field, every refusal, whatever is sent."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from serving import Echo, client, closing, send, service_for, service_of
from short_phrases import short_phrases
from test_serve_markup import XSS
from transduce import Translator
from transduce.decode.translation import Alternative
from transduce.serve.app import app_of
from transduce.serve.detection import Langid
from transduce.serve.download import MOST_FILES, SECONDS, Downloads, harmless
from transduce.serve.model import Translated
from transduce.serve.options import Options

ENGLISH, GERMAN = "Where is the station, please?", "Wo ist denn hier der Bahnhof?"
JSON = {"Content-Type": "application/json"}
ASKED = {"q": "hello there", "source": "en", "target": "de"}


class Many(Echo):
    """Knows as many translations as are asked for."""

    def translate(self, texts: list[str], options: Options) -> list[Translated]:
        assert options.beam is None or options.beam >= max(4, options.n_best)
        outputs = [[text.upper(), *(f"{text} {n}" for n in range(1, options.n_best))] for text in texts]
        return [
            Translated(each[0], 0.0, 0.0, tuple(Alternative(text, 0.0, 0.0) for text in each), engine="echo")
            for each in outputs
        ]


@pytest.fixture(scope="module")
def app() -> Iterator[FastAPI]:
    models = Many("a", "en", "de"), Many("b", "de", "en"), Many("c", "en", "fr")
    with closing(service_of(*models)) as service:
        yield app_of(service)


def post(app: FastAPI, path: str = "/translate", body: object = None, **more: Any) -> httpx.Response:
    return send(app, "POST", path, **({"json": body} if body is not None else {}), **more)


def answer(app: FastAPI, **changes: object) -> dict[str, Any]:
    response = post(app, body=ASKED | changes)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


def refused(app: FastAPI, body: object, path: str = "/translate", **more: Any) -> tuple[int, str]:
    response = post(app, path, body, **more)
    assert list(response.json()) == ["error"]
    return response.status_code, response.json()["error"]


def test_json_a_form_and_a_query_string_are_the_same(app: FastAPI) -> None:
    expected = {"translatedText": "HELLO THERE"}
    assert answer(app) == expected
    assert post(app, data=ASKED).json() == expected
    assert post(app, params=ASKED).json() == expected
    assert post(app, files={name: (None, value) for name, value in ASKED.items()}).json() == expected
    raw = "q=grüße&source=en&target=de".encode()
    form = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    assert post(app, content=raw, headers=form).json() == {"translatedText": "GRÜSSE"}


def test_unknown_fields_are_ignored_and_null_is_nothing(app: FastAPI) -> None:
    more: dict[str, object] = {"nobody": {"knows": [1]}, "api_key": None, "format": None, "alternatives": None}
    assert answer(app, **more) == {"translatedText": "HELLO THERE"}
    assert answer(app, api_key="any will do", source="EN", target="De") == {"translatedText": "HELLO THERE"}


def test_long_texts_keep_their_lines(app: FastAPI) -> None:
    text = "First one.  Second one.\n\n\tThird one.\r\n"
    assert answer(app, q=text) == {"translatedText": text.upper()}


def test_a_list_is_answered_by_a_list(app: FastAPI) -> None:
    assert answer(app, q=["one", "", "two"]) == {"translatedText": ["ONE", "", "TWO"]}
    assert answer(app, q=["one"]) == {"translatedText": ["ONE"]}


@pytest.mark.parametrize("text", ["😀", " 😀🎉 \n", "  ", "!?", "42"])
def test_text_without_letters_is_echoed(app: FastAPI, text: str) -> None:
    assert answer(app, q=text) == {"translatedText": text}


def test_html_keeps_its_tags(app: FastAPI) -> None:
    text = '<p title="a">one &amp; two</p><script>let x</script>'
    assert answer(app, q=text, format="html")["translatedText"] == text.replace("one &amp; two", "ONE &amp; TWO")
    assert answer(app, q="<b>one</b>", format="text")["translatedText"] == "<B>ONE</B>"


def test_alternatives_are_told_where_they_are_wanted(app: FastAPI) -> None:
    assert answer(app, alternatives=2)["alternatives"] == ["hello there 1", "hello there 2"]
    assert answer(app, alternatives="1", q=["a", "b"])["alternatives"] == [["a 1"], ["b 1"]]
    assert answer(app, q="😀", alternatives=2) == {"translatedText": "😀", "alternatives": []}
    assert "alternatives" not in answer(app, alternatives=0)


def test_a_source_that_is_not_known_is_detected(app: FastAPI) -> None:
    told = answer(app, q=ENGLISH, source="auto")
    assert told["translatedText"] == ENGLISH.upper()
    assert told["detectedLanguage"]["language"] == "en"
    assert 0 <= told["detectedLanguage"]["confidence"] <= 100
    assert answer(app, q=GERMAN, source="auto", target="en")["detectedLanguage"]["language"] == "de"
    batch = answer(app, q=[ENGLISH, "😀"], source="auto")["detectedLanguage"]
    assert [each["language"] for each in batch] == ["en", "en"]
    assert batch[1]["confidence"] == 0
    assert answer(app, q=f"<p>{ENGLISH}</p>", source="auto", format="html")["detectedLanguage"]["language"] == "en"
    assert "detectedLanguage" not in answer(app)


def test_each_text_of_a_batch_gets_the_model_of_its_language() -> None:
    english, german = Echo("a", "en", "fr"), Echo("b", "de", "fr")
    with closing(service_of(english, german)) as service:
        told = answer(app_of(service), q=[GERMAN, ENGLISH, GERMAN], source="auto", target="fr")
    assert told["translatedText"] == [GERMAN.upper(), ENGLISH.upper(), GERMAN.upper()]
    assert [each["language"] for each in told["detectedLanguage"]] == ["de", "en", "de"]
    assert (english.batches, german.batches) == ([[ENGLISH]], [[GERMAN]])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"source": "en", "target": "de"}, "Invalid request: missing q parameter"),
        (ASKED | {"q": ""}, "Invalid request: missing q parameter"),
        (ASKED | {"q": []}, "Invalid request: missing q parameter"),
        ({"q": "a", "target": "de"}, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "en"}, "Invalid request: missing target parameter"),
        (ASKED | {"q": 7}, "Invalid request: q parameter is not a string or a list of strings"),
        (ASKED | {"q": ["a", None]}, "Invalid request: q parameter is not a string or a list of strings"),
        (ASKED | {"source": 7}, "Invalid request: source parameter is not a string"),
        (ASKED | {"target": ["de"]}, "Invalid request: target parameter is not a string"),
        (ASKED | {"target": "zz"}, "zz is not supported"),
        (ASKED | {"source": "zz"}, "zz is not supported"),
        (ASKED | {"source": "auto", "target": "zz"}, "zz is not supported"),
        (ASKED | {"target": "\ud800"}, "\ufffd is not supported"),
        (ASKED | {"target": "z" * 100}, "z" * 35 + " is not supported"),
        (
            ASKED | {"source": "de", "target": "fr"},
            "French (fr) is not available as a target language from German (de)",
        ),
        (ASKED | {"target": "en"}, "English (en) is not available as a target language from English (en)"),
        (ASKED | {"format": "pdf"}, "pdf format is not supported"),
        (ASKED | {"format": 7}, "7 format is not supported"),
        (ASKED | {"alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
        (ASKED | {"alternatives": -1}, "Invalid request: alternatives parameter must be a whole number from 0 to 15"),
        (ASKED | {"alternatives": 16}, "Invalid request: alternatives parameter must be a whole number from 0 to 15"),
        (ASKED | {"alternatives": 0.5}, "Invalid request: alternatives parameter must be a whole number from 0 to 15"),
        (ASKED | {"q": "a" * 5001}, "Invalid request: request (5001) exceeds text limit (5000)"),
        (ASKED | {"q": ["a"] * 65}, "Invalid request: request (65) exceeds text limit (64)"),
        ([ASKED], "Invalid request: the body is not a JSON object"),
        ("text", "Invalid request: the body is not a JSON object"),
    ],
)
def test_what_cannot_be_is_refused_in_its_words(app: FastAPI, body: object, message: str) -> None:
    assert refused(app, body=None, content=json.dumps(body), headers=JSON) == (400, message)


@pytest.mark.parametrize("path", ["/translate", "/detect", "/translate_file"])
@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 5000, b'{"q": "\xff"}'])
def test_a_body_that_is_not_json_is_refused(app: FastAPI, path: str, body: bytes) -> None:
    assert refused(app, None, path, content=body, headers=JSON) == (400, "Invalid request: the body is not JSON")


@pytest.mark.parametrize("path", ["/translate", "/detect", "/translate_file"])
def test_too_large_a_body_is_refused_as_a_bad_request(app: FastAPI, path: str) -> None:
    assert post(app, path, {"q": "a" * (1 << 20)}).status_code == 400


def test_bad_forms_are_refused(app: FastAPI) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert refused(app, None, content=b"a&" * 2000 + b"b=1", headers=form)[0] == 400
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
        assert refused(app, None, content=b"--y\r\nnothing", headers={"Content-Type": kind})[0] == 400
    assert refused(app, None, content=b"q=a", headers={"Content-Type": "text/plain"})[1].endswith("missing q parameter")


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["q", "source", "target", "format", "alternatives", "api_key", "file", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["en", "de", "auto", "html", ""]),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
            max_leaves=4,
        ),
    ),
    st.sampled_from(["/translate", "/detect", "/translate_file"]),
)
def test_no_body_is_answered_by_422_or_500(app: FastAPI, body: dict[str, Any], path: str) -> None:
    response = post(app, path, content=json.dumps(body), headers=JSON)
    assert response.status_code in (200, 400)
    assert response.headers["content-type"] == "application/json"


def test_only_posts_are_taken(app: FastAPI) -> None:
    for path in ("/translate", "/detect", "/translate_file"):
        response = send(app, "GET", path, params=ASKED)
        assert response.status_code == 405
        assert response.json()["error"] == "Method Not Allowed"


def test_nothing_is_fetched(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*more: object) -> None:
        reached.append(more)
        raise OSError("no network")

    reached: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    texts = [
        *XSS,
        "http://evil.example/",
        "file:///etc/passwd",
        '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>&e;',
    ]
    for text in texts:
        for form in ("text", "html"):
            assert post(app, content=json.dumps(ASKED | {"q": text, "format": form}), headers=JSON).status_code == 200
    assert reached == []


@pytest.mark.parametrize("text", XSS)
def test_nothing_that_is_sent_comes_back_as_a_page(app: FastAPI, text: str) -> None:
    bodies = [ASKED | {name: text} for name in ("q", "source", "target", "format", "alternatives", "api_key")]
    for body in [*bodies, ASKED | {"q": text, "format": "html"}]:
        response = post(app, content=json.dumps(body), headers=JSON)
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "'unsafe-inline'" not in response.headers["content-security-policy"]
        assert isinstance(response.json(), dict)


def test_detection_tells_the_served_languages_best_first(app: FastAPI) -> None:
    english, german = (post(app, "/detect", {"q": text}).json() for text in (ENGLISH, GERMAN))
    assert [each["language"] for each in english] == ["en", "de"]
    assert [each["language"] for each in german] == ["de", "en"]
    for told in (english, german):
        assert told[0]["confidence"] > 50
        assert sum(each["confidence"] for each in told) == pytest.approx(100, abs=0.2)
    assert [each["confidence"] for each in post(app, "/detect", data={"q": "😀"}).json()] == [0, 0]
    assert refused(app, {}, "/detect") == (400, "Invalid request: missing q parameter")
    assert refused(app, {"q": "a" * 5001}, "/detect")[1].endswith("request (5001) exceeds text limit (5000)")


def test_of_languages_that_it_does_not_know_the_detector_is_not_sure() -> None:
    found = Langid().rank(ENGLISH, ["qq", "en_gb", "de", "en_gb"])
    assert found[0].language == "en_gb"
    assert {each.language: each.confidence for each in found}["qq"] == 0
    assert len(found) == 3
    assert [each.confidence for each in Langid().rank(ENGLISH, ["qq"])] == [0]


def test_languages_are_listed_with_their_targets(app: FastAPI) -> None:
    response = send(app, "GET", "/languages", content=b"api_key=1", headers={"Content-Type": "text/plain"})
    assert response.json() == [
        {"code": "en", "name": "English", "targets": ["de", "fr"]},
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "fr", "name": "French", "targets": []},
    ]


def test_settings_say_what_files_are_taken(app: FastAPI) -> None:
    told = send(app, "GET", "/frontend/settings").json()
    assert told["filesTranslation"] is True
    assert told["supportedFilesFormat"] == [".txt"]
    assert told["charLimit"] == 5000
    assert told["language"] == {
        "source": {"code": "en", "name": "English"},
        "target": {"code": "de", "name": "German"},
    }


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[FastAPI]:
    (tmp_path / "keys").write_text("secret requests=2 characters=20\nother\n", encoding="utf-8")
    with closing(service_of(Many(), api_keys=tmp_path / "keys", requests_per_minute=3)) as service:
        yield app_of(service)


def test_keys_are_asked_for(keyed: FastAPI) -> None:
    for path in ("/translate", "/detect"):
        assert refused(keyed, ASKED, path)[0] == 400
        assert refused(keyed, ASKED | {"api_key": "wrong"}, path)[0] == 403
        assert refused(keyed, {"api_key": "wrong"}, path)[0] == 403
        assert refused(keyed, ASKED | {"api_key": 7}, path)[0] == 403
    assert answer(keyed, api_key="secret")
    assert post(keyed, params=ASKED | {"api_key": "other"}).status_code == 200
    assert post(keyed, body=ASKED, headers={"Authorization": "Bearer other"}).status_code == 200
    assert send(keyed, "GET", "/languages").status_code == 200


def test_who_asks_too_often_is_told_to_slow_down(keyed: FastAPI) -> None:
    assert answer(keyed, api_key="secret")
    assert answer(keyed, api_key="secret", q="a")
    response = post(keyed, body=ASKED | {"api_key": "secret"})
    assert response.status_code == 429
    assert response.json()["error"].startswith("Slowdown: ")
    assert int(response.headers["retry-after"]) >= 1


def test_a_key_whose_characters_are_used_up_is_told_so(keyed: FastAPI) -> None:
    assert answer(keyed, api_key="secret")
    status, message = refused(keyed, ASKED | {"api_key": "secret"})
    assert status == 429
    assert message.startswith("Slowdown: more than this key's 20 characters")


def test_a_full_queue_and_a_server_that_stops_are_told() -> None:
    async def scene() -> tuple[httpx.Response, httpx.Response]:
        echo = Echo()
        with closing(service_of(echo, queue=1, cache=0)) as service:
            async with client(app_of(service)) as asking:
                echo.hold()
                texts = [asyncio.ensure_future(asking.post("/translate", json=ASKED | {"q": "one"}))]
                assert await asyncio.to_thread(echo.has_begun)
                texts.append(asyncio.ensure_future(asking.post("/translate", json=ASKED | {"q": "two"})))
                while not len(service.queue):
                    await asyncio.sleep(0.001)
                full = await asking.post("/translate", json=ASKED | {"q": "three"})
                echo.go_on()
                assert [each.status_code for each in await asyncio.gather(*texts)] == [200, 200]
                service.draining = True
                return full, await asking.post("/translate", json=ASKED)

    full, draining = asyncio.run(scene())
    assert (full.status_code, draining.status_code) == (429, 503)
    assert full.json()["error"].startswith("Slowdown: ")
    assert list(draining.json()) == ["error"]


def test_what_is_late_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    echo = Echo()
    echo.hold()
    with closing(service_of(echo)) as service:
        monkeypatch.setattr(service, "deadline", lambda: time.monotonic() + 0.05)
        response = post(app_of(service), body=ASKED)
        echo.go_on()
    assert response.status_code == 504
    assert list(response.json()) == ["error"]


def upload(app: FastAPI, name: str, body: bytes, **form: str) -> httpx.Response:
    return post(app, "/translate_file", files={"file": (name, body)}, data={"source": "en", "target": "de"} | form)


def test_a_text_file_is_translated_and_fetched(app: FastAPI) -> None:
    response = upload(app, "../../a café.txt", "\ufeffHello there.\r\n\r\nSecond line\n".encode())
    assert response.status_code == 200, response.text
    url = response.json()["translatedFileUrl"]
    assert url.startswith("http://localhost/download_file/")
    fetched = send(app, "GET", url)
    assert fetched.content.decode() == "\ufeffHELLO THERE.\r\n\r\nSECOND LINE\n"
    assert fetched.headers["content-type"] == "text/plain; charset=utf-8"
    assert fetched.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20caf%C3%A9.txt"
    assert fetched.headers["x-content-type-options"] == "nosniff"
    assert upload(app, "a.txt", GERMAN.encode(), source="auto", target="en").status_code == 200


def test_behind_tls_the_page_is_told_an_address_with_tls(app: FastAPI) -> None:
    for origin in ("https://localhost", "http://localhost"):
        file = {"file": ("a.txt", b"hello")}
        form = {"source": "en", "target": "de"}
        told = post(app, "/translate_file", files=file, data=form, headers={"Origin": origin}).json()
        assert told["translatedFileUrl"].startswith(f"{origin}/download_file/")


@pytest.mark.parametrize(("proxy", "scheme"), [("127.0.0.1", "https"), ("10.0.0.1", "http")])
def test_a_proxy_that_is_trusted_tells_whether_there_is_tls(proxy: str, scheme: str) -> None:
    form = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.txt", b"hello")}}
    with closing(service_of(trusted_proxies=(proxy,))) as service:
        told = post(app_of(service), "/translate_file", headers={"X-Forwarded-Proto": "https"}, **form).json()
    assert told["translatedFileUrl"].startswith(f"{scheme}://localhost/download_file/")


def test_two_files_have_different_addresses(app: FastAPI) -> None:
    urls = {upload(app, "a.txt", b"hello").json()["translatedFileUrl"] for _ in range(2)}
    assert len(urls) == 2
    assert all(len(url.rpartition("/")[2]) > 40 for url in urls)


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("a.pdf", b"hello", "Invalid request: file format not supported: send one of .txt"),
        ("a.html", b"hello", "Invalid request: file format not supported: send one of .txt"),
        ("a.txt", b"", "Invalid request: empty file"),
        ("a.txt", b"\xff\xfe", "Invalid request: the file is not UTF-8: save it as UTF-8"),
        ("a.txt", b"a" * 5001, "Invalid request: request (5001) exceeds text limit (5000)"),
    ],
)
def test_files_that_cannot_be_are_refused(app: FastAPI, name: str, body: bytes, message: str) -> None:
    response = upload(app, name, body)
    assert (response.status_code, response.json()) == (400, {"error": message})


def test_a_file_needs_its_fields(app: FastAPI, keyed: FastAPI) -> None:
    file = {"file": ("a.txt", b"hello")}
    assert refused(app, None, "/translate_file", data=ASKED)[1] == "Invalid request: missing file parameter"
    assert refused(app, None, "/translate_file", files=file)[1] == "Invalid request: missing source parameter"
    assert upload(app, "a.txt", b"hello", target="zz").json() == {"error": "zz is not supported"}
    assert upload(keyed, "a.txt", b"hello").status_code == 400
    assert upload(keyed, "a.txt", b"hello", api_key="wrong").status_code == 403
    assert upload(keyed, "a.txt", b"hello", api_key="other").status_code == 200


@pytest.mark.parametrize("place", ["nothing.txt", "..%2f..%2fetc%2fpasswd", "%2e%2e", "../../etc/passwd", "<script>"])
def test_no_other_address_leads_to_a_file(app: FastAPI, place: str) -> None:
    response = send(app, "GET", f"/download_file/{place}")
    assert response.status_code == 404
    assert "error" in response.json()


def test_files_are_forgotten_after_their_time_and_in_their_turn() -> None:
    now = 0.0
    downloads = Downloads(lambda: now)
    place = downloads.put("a.txt", b"a")
    now = SECONDS - 1
    found = downloads.get(place)
    assert found is not None
    assert (found.name, found.body) == ("a.txt", b"a")
    now = SECONDS
    assert downloads.get(place) is None
    assert len(downloads) == 0
    places = [downloads.put("a.txt", b"a") for _ in range(MOST_FILES + 1)]
    assert len(downloads) == MOST_FILES
    assert downloads.get(places[0]) is None
    assert downloads.get(places[-1]) is not None


@given(st.text(max_size=200))
def test_names_of_files_are_harmless(name: str) -> None:
    found = harmless(name)
    assert 0 < len(found) <= 100
    assert not set(found) & set("/\\\r\n\x00\"'<>%?#")
    assert found not in (".", "..")


def test_translations_are_the_translators(bundle: Path) -> None:
    lines: Sequence[str] = [phrase.source for phrase in short_phrases("test", 12)][:6]
    translator = Translator.load(bundle)
    best = [each.text for each in translator.translate(lines)]
    second = translator.translate(lines[:1], beam=6, n_best=6)[0].alternatives
    with closing(service_for(bundle)) as service:
        app = app_of(service)
        assert answer(app, q=lines)["translatedText"] == best
        assert answer(app, q="\n".join(lines))["translatedText"] == "\n".join(best)
        told = answer(app, q=lines[0], alternatives=5)
    assert [told["translatedText"], *told["alternatives"]] == list(dict.fromkeys(each.text for each in second))
