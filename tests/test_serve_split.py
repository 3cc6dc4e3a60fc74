"""Texts of many sentences in the native API: nothing of them is lost, and what is cut is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given, settings

from random_bundle import random_bundle
from serving import SETTINGS, Echo, closing, send, service_of
from test_serve_document import TEXTS
from transduce.config import SearchConfig
from transduce.serve.app import app_of
from transduce.serve.document import plain
from transduce.serve.model import Model
from transduce.serve.service import Service
from transduce.serve.settings import Served

PARAGRAPH = "The dog barks.  The cat sleeps! \n\n\tIs it late?\n"


@pytest.fixture(scope="module")
def app() -> Iterator[FastAPI]:
    with closing(service_of(Echo())) as service:
        yield app_of(service)


def ask(app: FastAPI, path: str = "/api/translate", **body: object) -> httpx.Response:
    return send(app, "POST", path, json=body)


def translations(app: FastAPI, **body: object) -> list[dict[str, Any]]:
    response = ask(app, **body)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["translations"]
    return found


def test_a_text_is_a_sentence_unless_it_is_split(app: FastAPI) -> None:
    (whole,) = translations(app, text=PARAGRAPH)
    assert (whole["text"], whole["score"], "parts" in whole) == (PARAGRAPH.upper(), -1.0, False)
    (split,) = translations(app, text=PARAGRAPH, split=True)
    assert (split["text"], split["score"], split["log_probability"]) == (PARAGRAPH.upper(), -3.0, -3.0)


@given(TEXTS)
@settings(max_examples=60)
def test_the_parts_are_the_sentences_and_what_stands_between(app: FastAPI, text: str) -> None:
    (found,) = translations(app, text=text, split=True)
    assert "".join(part["text"] for part in found["parts"]) == found["text"]
    assert [part["source"] for part in found["parts"] if "source" in part] == plain(text).sentences
    assert [part.get("source", part["text"]) for part in found["parts"]] == [each.text for each in plain(text).pieces]


def test_details_are_of_each_sentence(app: FastAPI) -> None:
    first, second = translations(app, text=["One. Two.", "Three."], split=True, n_best=2, tokens=True)
    assert "tokens" not in first
    assert [("tokens" in part, "n_best" in part) for part in first["parts"]] == [
        (True, True),
        (False,) * 2,
        (True,) * 2,
    ]
    assert second["parts"][0]["source"] == "Three."


def test_many_lines_are_one_text(app: FastAPI) -> None:
    lines = "a line\n" * 500
    assert translations(app, text=lines, split=True)[0]["text"] == lines.upper()
    response = ask(app, text="a line\n" * 1000, split=True)
    assert (response.status_code, "5000" in response.json()["error"]) == (413, True)


def test_a_stream_of_a_text_grows_to_the_whole_of_it(app: FastAPI) -> None:
    response = ask(app, "/api/stream", text="a bb.\n\nC dd.  E", split=True)
    told = [json.loads(line.removeprefix("data: ")) for line in response.text.split("\n") if line]
    assert [each["text"] for each in told][:3] == ["A", "ABB.", "ABB.\n\n"]
    assert (told[-1]["done"], told[-1]["text"]) == (True, "ABB.\n\nCDD.  E")


def test_a_prefix_is_of_one_sentence(app: FastAPI) -> None:
    response = ask(app, text="a", split=True, prefix="b")
    assert (response.status_code, "prefix" in response.json()["error"]) == (422, True)


def test_halves_of_characters_do_no_harm(app: FastAPI) -> None:
    content, headers = b'{"text": "aa. \\ud800 B", "split": true}', {"Content-Type": "application/json"}
    response = send(app, "POST", "/api/translate", content=content, headers=headers)
    assert response.json()["translations"][0]["text"] == "AA. \ufffd B"


def test_a_text_that_is_cut_for_its_length_is_told_so(tmp_path: Path) -> None:
    path = random_bundle(tmp_path / "bundle", search=SearchConfig(max_input=10)).path
    model = Model.load(Served((path,), "en", "de"), say=lambda message: None)
    with closing(Service([model], SETTINGS)) as service:
        short, long = translations(app_of(service), text=["a b c", "a b c d e f g h i j k l m"])
        (split,) = translations(app_of(service), text="a b c\nd e f g h i j k l m n o p", split=True)
        streamed = ask(app_of(service), "/api/stream", text="a b c d e f g h i j k l m")
    told = "13 tokens are more than the 10"
    assert told not in short.get("warning", "")
    assert told in long["warning"]
    assert told in split["warning"]
    assert [told in part.get("warning", "") for part in split["parts"]] == [False, False, True]
    assert told in json.loads(streamed.text.rstrip().rpartition("data: ")[2])["warning"]
