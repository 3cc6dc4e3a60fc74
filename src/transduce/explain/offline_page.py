"""One sentence as one HTML file: the page of the server with a record instead of a server behind it.

The file asks the network for nothing, and its policy forbids that anything else runs or is loaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from transduce.decode.hypothesis import Request
from transduce.explain.ablation import switched_off
from transduce.explain.head import all_heads
from transduce.explain.reading import sentence_ids
from transduce.explain.sentence_record import Record, plain_search, sentence_record

if TYPE_CHECKING:
    from transduce.decode.translator import Translator

STYLE = '<link rel="stylesheet" href="static/page.css">'
SCRIPT = '<script type="module" src="static/live.js"></script>'
TITLE = "<title>transduce</title>"
IMPORT = re.compile(r'^import \{([\w\s,]+)\} from "\./([\w-]+\.js)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)


def offline_page(translator: Translator, text: str) -> str:
    """The page of a sentence, with what the translation would be without each of the model's heads."""
    return page_of({**sentence_record(translator, text), "ablations": ablations(translator, text)})


def ablations(translator: Translator, text: str) -> list[Record]:
    """The translation with each head switched off in turn."""
    engine, search = translator.reference, plain_search(translator.search, None)
    request = Request(tuple(sentence_ids(translator, text)))
    found = []
    for head in all_heads(engine.model.config):
        with switched_off(engine.model, [head]):
            best = engine.search([request], search)[0][0]
        translation = translator.target_codec.decode(best.ids)
        found.append({"off": [head.kind, head.layer, head.head], "text": translation, "score": best.score})
    return found


def page_of(record: Record) -> str:
    """The page of a record."""
    style, script = static("page.css"), joined("recorded.js")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    source = record["source"]
    assert isinstance(source, dict)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    page = static("index.html")
    for old, new in (
        (TITLE, f"{meta}\n<title>{escape(source['text'])}</title>"),
        (STYLE, f"<style>{style}</style>"),
        (SCRIPT, f'<script type="application/json" id="record">{_json(record)}</script>\n<script>{script}</script>'),
    ):
        before, found, after = page.partition(old)
        assert found, f"index.html has no {old}"
        page = before + new + after
    return page


def joined(entry: str) -> str:
    """A module and all that it imports as one script: each module is a function that returns what it exports."""
    order: list[str] = []
    _visit(entry, order)
    body = "\n".join(_as_function(name) for name in order)
    return f'"use strict";\nconst modules = {{}};\n{body}\n'


def static(name: str) -> str:
    """A file of the page."""
    return (files("transduce") / "serve" / "static" / name).read_text(encoding="utf-8")


def _visit(name: str, order: list[str]) -> None:
    """Put a module behind those that it needs."""
    for _, other in IMPORT.findall(static(name)):
        if other not in order:
            _visit(other, order)
    order.append(name)


def _as_function(name: str) -> str:
    source = static(name)
    exported = ", ".join(EXPORT.findall(source))
    body = EXPORT.sub("", IMPORT.sub(r'const {\1} = modules["\2"];', source))
    assert not re.search(r"^(import|export)\b", body, re.MULTILINE), (
        f"{name}: only plain imports and exports are joined"
    )
    return f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();'


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _json(record: Record) -> str:
    """JSON that cannot end the element that holds it."""
    return json.dumps(record, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
