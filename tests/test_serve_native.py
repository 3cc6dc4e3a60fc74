"""The native API gives what `Translator` gives, names the engine, and refuses with reasons."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from random_bundle import random_bundle
from serving import SETTINGS, client, closing, service_for
from short_phrases import short_phrases
from transduce import Translator
from transduce.decode.alignment import align_lines
from transduce.decode.glossary import Glossary, Term
from transduce.explain.ablation import switched_off
from transduce.explain.head import Head
from transduce.serve.app import app_of
from transduce.serve.model import Model
from transduce.serve.service import Service
from transduce.serve.settings import Caps, Served

SENTENCES = [phrase.source for phrase in short_phrases("test", 40)][:8]


@pytest.fixture(scope="module")
def app(bundle: Path) -> Iterator[FastAPI]:
    with closing(service_for(bundle)) as service:
        yield app_of(service)


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle)


def post(app: FastAPI, path: str, body: object, **more: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with client(app) as asking:
            return await asking.post(path, json=body, **more)

    return asyncio.run(ask())


def get(app: FastAPI, path: str, **more: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with client(app) as asking:
            return await asking.get(path, **more)

    return asyncio.run(ask())


def translate(app: FastAPI, **body: object) -> dict[str, Any]:
    response = post(app, "/api/translate", body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_translations_are_the_translators(app: FastAPI, translator: Translator) -> None:
    answer = translate(app, text=SENTENCES, source="en", target="de")
    expected = translator.translate(SENTENCES)
    assert [each["text"] for each in answer["translations"]] == [each.text for each in expected]
    for found, own in zip(answer["translations"], expected, strict=True):
        assert found["log_probability"] == pytest.approx(own.log_probability, abs=1e-3)
    assert (answer["source"], answer["target"]) == ("en", "de")
    assert answer["engine"] == translator.engine.name == "ctranslate2"


def test_one_text_is_answered_as_one_of_several(app: FastAPI) -> None:
    single = translate(app, text=SENTENCES[0])["translations"]
    assert single == translate(app, text=[SENTENCES[0]])["translations"]


def test_blank_texts_stay_empty(app: FastAPI) -> None:
    assert [each["text"] for each in translate(app, text=["", " \n"])["translations"]] == ["", ""]


def test_search_options_are_followed(app: FastAPI, translator: Translator) -> None:
    greedy = translate(app, text=SENTENCES, beam=1)["translations"]
    assert [each["text"] for each in greedy] == [each.text for each in translator.translate(SENTENCES, beam=1)]
    short = translate(app, text=SENTENCES[0], search={"max_length": 2})
    expected = translator.translate(SENTENCES[:1], settings={"max_length": 2})
    assert short["translations"][0]["text"] == expected[0].text
    assert short["engine"] == "ctranslate2"
    assert translate(app, text=SENTENCES[0], search={"no_repeat": 2})["engine"] == "pytorch"


def test_the_n_best_are_told_best_first(app: FastAPI) -> None:
    (answer,) = translate(app, text=SENTENCES[0], n_best=3)["translations"]
    scores = [each["score"] for each in answer["n_best"]]
    assert scores == sorted(scores, reverse=True)
    assert len({each["text"] for each in answer["n_best"]}) == 3
    assert answer["n_best"][0]["text"] == answer["text"]


def test_probabilities_of_tokens_make_up_the_outputs(app: FastAPI) -> None:
    answer = translate(app, text=SENTENCES[0], tokens=True)
    assert answer["engine"] == "pytorch"
    (found,) = answer["translations"]
    total = math.fsum(math.log(token["probability"]) for token in found["tokens"])
    assert total == pytest.approx(found["log_probability"], abs=1e-4)


def test_alignments_are_those_of_align(app: FastAPI, translator: Translator) -> None:
    answer = translate(app, text=SENTENCES, alignments=True, attention=True)["translations"]
    expected = align_lines(translator, SENTENCES, [each["text"] for each in answer])
    assert [[tuple(link) for link in each["alignment"]] for each in answer] == [each.links for each in expected]
    for found, own in zip(answer, expected, strict=True):
        assert np.allclose(found["attention"], own.soft, atol=1e-3)


def test_an_output_begins_with_its_prefix(app: FastAPI) -> None:
    (answer,) = translate(app, text=SENTENCES[0], prefix="Die")["translations"]
    assert answer["text"].startswith("Die")
    assert answer["engine"] == "pytorch"


def test_a_glossary_and_terms_that_stay_are_kept(app: FastAPI, translator: Translator) -> None:
    sentence = SENTENCES[0]
    word = sentence.split()[1].strip(".,?!")
    glossary = Glossary([Term(word, "Zug", 1)])
    (answer,) = translate(app, text=sentence, glossary=[[word, "Zug"]])["translations"]
    assert "Zug" in answer["text"]
    assert answer["text"] == translator.translate([sentence], glossary=glossary)[0].text
    (kept,) = translate(app, text=sentence, keep=[word])["translations"]
    assert word in kept["text"]
    other = translate(app, text=sentence, glossary=[["nowhere", "nirgends"]])
    assert other["engine"] == "ctranslate2"  # a line without a term needs no PyTorch


def test_heads_can_be_switched_off_for_one_request(app: FastAPI, translator: Translator) -> None:
    off = [Head("cross", layer, head) for layer in range(2) for head in range(4)]
    places = [[head.kind, head.layer, head.head] for head in off]
    without = translate(app, text=SENTENCES, off=places)
    with switched_off(translator.reference.model, off):
        reference = Translator(translator.reference, translator.source_codec, translator.target_codec)
        expected = [each.text for each in reference.translate(SENTENCES)]
    assert [each["text"] for each in without["translations"]] == expected
    whole = [each.text for each in translator.translate(SENTENCES)]
    assert expected != whole
    assert [each["text"] for each in translate(app, text=SENTENCES)["translations"]] == whole


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"].startswith("text/event-stream")
    return [json.loads(event.removeprefix("data: ")) for event in response.text.split("\n\n") if event]


@pytest.mark.parametrize("beam", [1, 4])
def test_a_stream_grows_into_the_translation(app: FastAPI, translator: Translator, beam: int) -> None:
    told = events(post(app, "/api/stream", {"text": SENTENCES[0], "beam": beam}))
    texts = [each["text"] for each in told]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert texts[-1] == "".join(translator.stream(SENTENCES[0], settings={"beam": beam}))
    assert told[-1]["done"] is True
    assert [each for each in told[:-1] if "done" in each] == []
    if beam == 1:
        assert len(told) > 2


def test_a_stream_of_what_cannot_be_ends_with_an_error(app: FastAPI) -> None:
    told = events(post(app, "/api/stream", {"text": SENTENCES[0], "search": {"max_length": 1}, "prefix": "Die Katze"}))
    assert "error" in told[-1] or told[-1]["done"]
    assert post(app, "/api/stream", {"text": ["a", "b"]}).status_code == 400
    assert post(app, "/api/stream", {"text": "a", "tokens": True}).status_code == 400


def test_alternatives_are_the_likeliest_continuations(app: FastAPI, translator: Translator) -> None:
    found = post(app, "/api/alternatives", {"text": SENTENCES[0], "prefix": "", "count": 3}).json()
    own = translator.alternatives(SENTENCES[0], "", 3)
    assert [each["text"] for each in found] == [each.text for each in own]
    assert [each["probability"] for each in found] == pytest.approx(
        [math.exp(e.log_probability) for e in own], abs=1e-6
    )


def test_attention_is_shown_by_body_and_by_link(app: FastAPI) -> None:
    body = {"text": SENTENCES[0], "beam": 2, "off": [["cross", 0, 1]]}
    record = post(app, "/api/attend", body).json()
    assert record["source"]["text"] == SENTENCES[0]
    assert record["off"] == [["cross", 0, 1]]
    linked = get(app, "/api/attend", params={"text": SENTENCES[0], "beam": 2, "off": "cross.0.1"}).json()
    assert linked == record
    assert get(app, "/api/attend", params={"text": SENTENCES[0], "off": "cross"}).status_code == 400
    assert post(app, "/api/attend", {"text": "word " * 300}).status_code == 413
    assert post(app, "/api/attend", {"text": SENTENCES[0], "off": [["cross", 9, 1]]}).status_code == 422
    assert post(app, "/api/attend", {"text": SENTENCES[0], "off": [["cross", 0, 1]] * 1001}).status_code == 413


def test_models_are_listed(app: FastAPI, translator: Translator) -> None:
    (model,) = get(app, "/api/models").json()
    assert (model["source"], model["target"], model["layers"]) == ("en", "de", 2)
    assert model["engine"] == translator.engine.name
    assert translate(app, text="", model=model["name"])["model"] == model["name"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"text": "a", "target": "zz"}),
        (400, {"text": "a", "source": "de", "target": "de"}),
        (400, {"text": "a", "model": "nobody"}),
        (413, {"text": "a" * 5001}),
        (413, {"text": ["a"] * 65}),
        (413, {"text": "a", "beam": 17}),
        (413, {"text": "a", "prefix": "a" * 1001}),
        (413, {"text": "a", "keep": ["a"] * 101}),
        (413, {"text": "a", "glossary": [["a", "b" * 201]]}),
        (413, {"text": "a", "search": {"extra_length": 10**9}}),
        (422, {}),
        (422, {"text": 7}),
        (422, {"text": "a", "bean": 3}),
        (422, {"text": "a", "beam": 0}),
        (422, {"text": "a", "n_best": 5}),
        (422, {"text": "a", "alpha": "high"}),
        (422, {"text": "a", "glossary": [["a", "b"], ["a", "c"]]}),
        (422, {"text": "a", "search": {"groups": 3}}),
        (422, {"text": "a", "search": {"batch_tokens": 1}}),
        (422, {"text": "a", "off": [["encoder", 7, 0]]}),
        (422, {"text": "a", "off": [["nobody", 0, 0]]}),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(app: FastAPI, status: int, body: object) -> None:
    response = post(app, "/api/translate", body)
    assert response.status_code == status, response.text
    assert response.json()["error"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"null", b'{"text": "a"', b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_objects_are_refused(app: FastAPI, content: bytes) -> None:
    response = post(app, "/api/translate", None, content=content, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    assert response.json()["error"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "text",
    "source",
    "target",
    "model",
    "beam",
    "alpha",
    "n_best",
    "prefix",
    "glossary",
    "keep",
    "search",
    "off",
    "split",
]


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=5), json_values)
def test_no_body_makes_the_server_fail(app: FastAPI, body: dict[str, object], text: object) -> None:
    content = json.dumps({**body, "text": text}).encode()  # NaN and halves of characters among them
    response = post(app, "/api/translate", None, content=content, headers={"Content-Type": "application/json"})
    assert response.status_code in (200, 400, 413, 422), response.text


def test_odd_characters_are_translated_or_refused(app: FastAPI) -> None:
    odd = ["\x00", "a\x00b", "\u2028", "a\nb", "\ufeff", "🙂" * 50, "﷽", "e\u0301" * 100, "\u202e", "ß" * 500]
    assert len(translate(app, text=odd)["translations"]) == len(odd)
    lone = post(
        app, "/api/translate", None, content=b'{"text": "\\ud800"}', headers={"Content-Type": "application/json"}
    )
    assert lone.status_code in (200, 422)


def test_the_server_tells_its_limits(app: FastAPI) -> None:
    told = get(app, "/frontend/settings").json()
    assert (told["charLimit"], told["textLimit"], told["bodyLimit"], Caps().seconds) == (5000, 64, 1 << 20, 30)
    caps = app.state.service.caps
    assert told["timeLimit"] == caps.seconds
    shown = [value for name, value in told.items() if name.endswith("Limit")]
    assert [cap for cap in vars(caps).values() if cap not in shown] == []
    assert told["language"]["source"] == {"code": "en", "name": "English"}
    assert (told["apiKeys"], told["keyRequired"]) == (False, False)


def test_health_readiness_and_metrics(app: FastAPI) -> None:
    assert get(app, "/health").json() == {"status": "ok"}
    assert get(app, "/ready").status_code == 200
    translate(app, text="a sentence for the metrics")
    page = get(app, "/metrics").text
    assert 'transduce_requests_total{method="POST",route="/api/translate",status="200"}' in page
    assert "a sentence for the metrics" not in page
    app.state.service.draining = True
    try:
        assert get(app, "/ready").status_code == 503
        assert get(app, "/health").status_code == 200
        refused = post(app, "/api/translate", {"text": "new"})
        assert refused.status_code == 503
        assert "retry-after" in refused.headers
    finally:
        app.state.service.draining = False


def test_a_record_has_the_languages_that_the_server_was_told(tmp_path: Path) -> None:
    path = random_bundle(tmp_path / "bundle").path
    model = Model.load(Served((path,), "fr", "es"), say=lambda message: None)
    with closing(Service([model], SETTINGS)) as service:
        for off in ([], [["cross", 0, 1]]):
            record = post(app_of(service), "/api/attend", {"text": "a b c", "off": off}).json()
            assert (record["model"]["source"], record["model"]["target"]) == ("fr", "es")
            assert record["model"]["heads"] == 4


def test_an_ensemble_is_served_as_one_model(tmp_path: Path) -> None:
    paths = tuple(random_bundle(tmp_path / str(seed), seed=seed).path for seed in (1, 2))
    model = Model.load(Served(paths, "en", "de"), say=lambda message: None)
    expected = Translator.load_ensemble(paths).translate(["a b c"])[0].text
    with closing(Service([model], SETTINGS)) as service:
        own = app_of(service)
        answer = translate(own, text="a b c")
        assert (answer["engine"], answer["translations"][0]["text"]) == ("pytorch", expected)
        assert post(own, "/api/translate", {"text": "a b c", "alignments": True}).status_code == 422
        assert post(own, "/api/attend", {"text": "a b c"}).status_code == 422


def test_every_route_is_in_the_reference(app: FastAPI) -> None:
    openapi = get(app, "/openapi.json").json()
    page = get(app, "/reference").text
    for path in openapi["paths"]:
        assert path in page
    assert "https://" not in page
    assert "<script" not in page
    assert get(app, "/reference.css").headers["content-type"].startswith("text/css")
    for cdn_page in ("/docs", "/redoc"):
        assert get(app, cdn_page).status_code == 404
