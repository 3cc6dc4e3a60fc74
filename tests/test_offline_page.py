"""The page of one sentence is one file that needs nothing else."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from transduce import Translator
from transduce.explain.ablation import switched_off
from transduce.explain.drawing import PALETTE
from transduce.explain.head import Head, all_heads
from transduce.explain.offline_page import EXPORT, IMPORT, joined, offline_page, page_of, static
from transduce.explain.sentence_record import sentence_record

STATIC = Path(__file__).parent.parent / "src" / "transduce" / "serve" / "static"
TEXT = "The dog sees a bird."
HOSTILE = "</script><script>alert(1)</script> <!-- <b>dog</b> \u2028 &amp; \"'"


class Elements(HTMLParser):
    """What a browser would find in a page: tags with attributes, and the text of each script, style and title."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style", "title") and data.strip():
            self.texts.append((*self.tags[-1], data))


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle, engine="pytorch")


@pytest.fixture(scope="module")
def elements(translator: Translator) -> Elements:
    return Elements(offline_page(translator, TEXT))


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy(elements: Elements) -> dict[str, str]:
    (content,) = [
        attributes["content"] for _, attributes in elements.tags if "http-equiv" in attributes and attributes["content"]
    ]
    return dict(part.split(" ", 1) for part in content.split("; "))


def data_of(elements: Elements) -> Any:
    (data,) = [text for tag, attributes, text in elements.texts if tag == "script" and "type" in attributes]
    return json.loads(data)


def test_only_this_script_and_this_style_may_run(elements: Elements) -> None:
    (script,) = [text for tag, attributes, text in elements.texts if tag == "script" and "type" not in attributes]
    (style,) = [text for tag, _, text in elements.texts if tag == "style"]
    assert policy(elements) == {
        "default-src": "'none'",
        "script-src": hashed(script),
        "style-src": hashed(style),
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_nothing_is_loaded_and_no_server_is_spoken_to(elements: Elements) -> None:
    addresses = [
        value for _, attributes in elements.tags for name in ("src", "href") if (value := attributes.get(name))
    ]
    assert addresses == ["data:,"]
    script = joined("recorded.js")
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|EventSource|\bapi/", script)
    assert re.search(r"fetch\(", joined("live.js"))


def test_the_file_holds_the_record(translator: Translator, elements: Elements) -> None:
    data = data_of(elements)
    del data["ablations"]
    assert data == json.loads(json.dumps(sentence_record(translator, TEXT)))


def test_it_tells_the_translation_without_each_head(translator: Translator, elements: Elements) -> None:
    model = translator.reference.model
    told = {Head(*each["off"]): each["text"] for each in data_of(elements)["ablations"]}
    assert list(told) == all_heads(model.config)
    for head in list(told)[::7]:
        with switched_off(model, [head]):
            assert told[head] == translator.translate([TEXT])[0].text


def test_a_sentence_is_text_whatever_it_looks_like(translator: Translator) -> None:
    whole = Elements(page_of(sentence_record(translator, HOSTILE)))
    plain = Elements(page_of(sentence_record(translator, TEXT)))
    assert [tag for tag, _ in whole.tags] == [tag for tag, _ in plain.tags]
    assert data_of(whole)["source"]["text"] == HOSTILE
    assert [text for tag, _, text in whole.texts if tag == "title"] == [HOSTILE]


def modules() -> list[str]:
    return sorted(path.name for path in STATIC.glob("*.js"))


@pytest.mark.parametrize("name", modules())
def test_what_a_module_imports_is_exported(name: str) -> None:
    for names, other in IMPORT.findall(static(name)):
        wanted = {each.strip() for each in names.split(",") if each.strip()}
        assert wanted <= set(EXPORT.findall(static(other))), f"{name} wants of {other}"


@pytest.mark.parametrize("name", modules())
def test_nothing_is_parsed_as_html_or_run_as_text(name: str) -> None:
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc|"
        r"setAttribute\(\s*[\"']style",
        static(name),
    )


def test_every_module_is_used(elements: Elements) -> None:
    live, recorded = joined("live.js"), joined("recorded.js")
    named = {name for name in modules() if f'modules["{name}"] =' in live + recorded}
    assert named == set(modules())
    assert 'modules["api.js"]' not in recorded


def test_heads_have_the_colours_of_the_figures() -> None:
    (colours,) = re.findall(r"ON_WHITE = \[([^\]]+)\]", static("palette.js"))
    assert tuple(json.loads(f"[{colours}]")) == PALETTE


def test_markup_has_no_inline_code() -> None:
    elements = Elements(static("index.html"))
    assert not any(name.startswith("on") or name == "style" for _, attributes in elements.tags for name in attributes)
    assert all(tag != "style" and "src" in attributes for tag, attributes, _ in elements.texts if tag != "title")
