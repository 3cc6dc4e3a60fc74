"""Clients from PyPI against a running server: they find what they expect."""

from __future__ import annotations

import contextlib
import json
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import deep_translator
import deepl
import libretranslatepy
import pytest

from serving import Echo, closing, running, service_of

ENGLISH, GERMAN = "Where is the station, please?", "Wo ist denn hier der Bahnhof?"
TEXT = "First one.  Second & one.\n\nThird one: größer?"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with closing(service_of(Echo("a", "en", "de"), Echo("b", "de", "en"))) as service, running(service) as (found, _):
        yield found


@pytest.fixture(scope="module")
def keyed_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("secret\nshort characters=10\n", encoding="utf-8")
    with closing(service_of(Echo(), api_keys=keys)) as service, running(service) as (found, _):
        yield found


def test_libretranslatepy(url: str) -> None:
    api = libretranslatepy.LibreTranslateAPI(url)
    assert api.translate(TEXT, "en", "de") == TEXT.upper()
    assert api.translate(ENGLISH, "auto", "de") == ENGLISH.upper()
    assert [each["language"] for each in api.detect(GERMAN)] == ["de", "en"]
    assert [(each["code"], each["targets"]) for each in api.languages()] == [("en", ["de"]), ("de", ["en"])]


def test_libretranslatepy_is_told_what_is_wrong(url: str, keyed_url: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as unknown:
        libretranslatepy.LibreTranslateAPI(url).translate("a", "en", "zz")
    with unknown.value as response:
        assert (response.code, json.load(response)) == (400, {"error": "zz is not supported"})
    assert libretranslatepy.LibreTranslateAPI(keyed_url, "secret").translate("a", "en", "de") == "A"
    assert libretranslatepy.LibreTranslateAPI(keyed_url, "secret").languages()
    for key, status in (("wrong", 403), (None, 400)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            libretranslatepy.LibreTranslateAPI(keyed_url, key).translate("a", "en", "de")
        with refused.value as response:
            assert response.code == status


def test_deep_translator(url: str, keyed_url: str, tmp_path: Path) -> None:
    own = {"source": "en", "target": "de", "custom_url": f"{url.rstrip('/')}/"}
    translator = deep_translator.LibreTranslator(api_key="any", **own)
    assert translator.translate(TEXT) == TEXT.upper()
    assert translator.translate_batch(["one", "two"]) == ["ONE", "TWO"]
    (tmp_path / "a.txt").write_text("one\ntwo", encoding="utf-8")
    assert translator.translate_file(str(tmp_path / "a.txt")) == "ONE\nTWO"
    keyed = own | {"custom_url": f"{keyed_url.rstrip('/')}/"}
    assert deep_translator.LibreTranslator(api_key="secret", **keyed).translate("one") == "ONE"
    with pytest.raises(deep_translator.exceptions.AuthorizationException):
        deep_translator.LibreTranslator(api_key="wrong", **keyed).translate("one")


def client_of(key: str, url: str) -> contextlib.closing[deepl.DeepLClient]:
    return contextlib.closing(deepl.DeepLClient(key, server_url=url.rstrip("/")))


def test_deepl(url: str) -> None:
    with client_of("any", url) as client:
        result = client.translate_text(TEXT, target_lang="DE", source_lang="EN")
        assert (result.text, result.billed_characters) == (TEXT.upper(), len(TEXT))
        found = client.translate_text(
            [GERMAN, "zwei", "zwei"], target_lang="EN-US", formality="prefer_more", context="x"
        )
        assert [each.text for each in found] == [GERMAN.upper(), "ZWEI", "ZWEI"]
        assert found[0].detected_source_lang == "DE"
        assert [each.code for each in client.get_source_languages()] == ["EN", "DE"]
        assert [each.code for each in client.get_target_languages()] == ["DE", "EN-GB", "EN-US"]
        usage = client.get_usage()
        assert usage.character.valid
        assert not usage.any_limit_reached


def test_deepl_is_told_what_is_wrong(url: str, keyed_url: str) -> None:
    with client_of("any", url) as client:
        with pytest.raises(deepl.DeepLException, match="'target_lang' not supported"):
            client.translate_text("a", target_lang="FR")
        with pytest.raises(deepl.DeepLException, match="5001 characters"):
            client.translate_text("a" * 5001, target_lang="DE")
    with client_of("wrong", keyed_url) as client, pytest.raises(deepl.AuthorizationException):
        client.translate_text("a", target_lang="DE")
    with client_of("short", keyed_url) as client:
        assert client.translate_text("one", target_lang="DE", source_lang="EN").text == "ONE"
        assert client.get_usage().character.count == 3
        with pytest.raises(deepl.QuotaExceededException):
            client.translate_text("more than ten", target_lang="DE", source_lang="EN")
