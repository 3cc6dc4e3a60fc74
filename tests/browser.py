"""A headless Chromium, and a small stand-in for the server behind the page.

The stand-in answers the native API with the tests' own model, so that the page is tried without the server.
"""

from __future__ import annotations

import email
import email.policy
import json
import math
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from transduce import Translator
from transduce.decode.alignment import align_lines
from transduce.decode.glossary import Glossary, Term
from transduce.errors import UserError
from transduce.explain.head import Head
from transduce.explain.sentence_record import sentence_record
from transduce.serve.document import plain, whole

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

TEXT = "The dog sees a bird."
STATIC = Path(__file__).parent.parent / "src" / "transduce" / "serve" / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none';"
    " form-action 'self'"
)
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--force-color-profile=srgb",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser that `make browser` installs; without it or playwright, skip the test."""
    api = pytest.importorskip("playwright.sync_api", reason="the extra 'dev' brings playwright")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium: make browser installs it")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def stand_in(
    translator: Translator,
    *,
    offered: Sequence[tuple[str, str, str]] = (("phrasebook", "en", "de"),),
    key: str | None = None,
) -> Iterator[str]:
    """The address of a server for a page; its requests are answered one at a time, and all models are one."""
    lock = threading.Lock()

    class Bound(Handler):
        api = Api(translator, offered, key)

        def do_POST(self) -> None:
            with lock:
                super().do_POST()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Api:
    """What the server would answer."""

    def __init__(self, translator: Translator, offered: Sequence[tuple[str, str, str]], key: str | None) -> None:
        self.translator, self.offered, self.key = translator, offered, key

    def models(self) -> list[dict[str, object]]:
        return [{"name": name, "source": source, "target": target} for name, source, target in self.offered]

    def translate(self, asked: dict[str, Any]) -> dict[str, object]:
        document = (plain if asked.get("split") else whole)(asked["text"])
        left = iter(self.sentences(document.sentences, asked))
        parts = [
            {"text": piece.text} if piece.sentence is None else {**next(left), "source": piece.sentence}
            for piece in document.pieces
        ]
        answer = {"parts": parts} if asked.get("split") else parts[0]
        return {"model": "phrasebook", "engine": "pytorch", "translations": [answer]}

    def sentences(self, texts: list[str], asked: dict[str, Any]) -> list[dict[str, object]]:
        found = self.translator.translate(
            texts, n_best=asked["n_best"], prefix=asked.get("prefix", ""), glossary=glossary(asked), tokens=True
        )
        aligned = align_lines(self.translator, texts, [each.text for each in found])
        return [
            {
                "text": each.text,
                "score": each.score,
                "tokens": [{"piece": t.piece, "probability": math.exp(t.log_probability)} for t in each.tokens],
                "alignment": links.links,
                "n_best": [{"text": other.text, "score": other.score} for other in each.alternatives],
            }
            for each, links in zip(found, aligned, strict=True)
        ]

    def stream(self, asked: dict[str, Any]) -> Iterator[dict[str, object]]:
        text, terms = "", glossary(asked)
        document = (plain if asked.get("split") else whole)(asked["text"])
        for piece in document.growing(lambda each: self.translator.stream(each, glossary=terms)):
            text += piece
            yield {"text": text}
        yield {"done": True, "text": text}

    def alternatives(self, asked: dict[str, Any]) -> list[dict[str, object]]:
        found = self.translator.alternatives(asked["text"], asked["prefix"])
        return [{"text": each.text, "probability": math.exp(each.log_probability)} for each in found]

    def attend(self, asked: dict[str, Any]) -> dict[str, object]:
        off = [Head(*place) for place in asked["off"]]
        beam, prefix = asked.get("beam"), asked.get("prefix", "")
        return sentence_record(self.translator, asked["text"], prefix=prefix, beam=beam, off=off)

    def translate_file(self, text: str) -> str:
        lines = text.removesuffix("\n").split("\n")
        return "".join(f"{each.text}\n" for each in self.translator.translate(lines))


def glossary(asked: dict[str, Any]) -> Glossary | None:
    terms = [Term(source, target, line) for line, (source, target) in enumerate(asked.get("glossary", ()), 1)]
    return Glossary(terms) if terms else None


class Handler(BaseHTTPRequestHandler):
    """HTTP for the above."""

    api: Api
    files: dict[str, bytes] = {}  # noqa: RUF012 - one server a test session

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].removeprefix("/static/")
        if self.path == "/":
            name = "index.html"
        if name == "/api/models":
            self.reply(json.dumps(self.api.models()), "application/json")
        elif name in self.files:
            self.reply(self.files[name].decode(), "text/plain")
        elif (STATIC / name).parent == STATIC and (STATIC / name).is_file():
            self.reply((STATIC / name).read_text(encoding="utf-8"), TYPES[Path(name).suffix])
        else:
            self.reply("", "text/plain", status=404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        given = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        if self.api.key is not None and given != self.api.key:
            error = "this API key is not known: check it" if given else "this server needs an API key: send yours"
            self.reply(json.dumps({"error": error}), "application/json", status=403 if given else 401)
            return
        try:
            if self.path == "/translate_file":
                self.files["/file.txt"] = self.api.translate_file(uploaded(self.headers["Content-Type"], body)).encode()
                self.reply(json.dumps({"translatedFileUrl": "/file.txt"}), "application/json")
                return
            asked = json.loads(body)
            if self.path == "/api/stream":
                events = "".join(f"data: {json.dumps(each)}\n\n" for each in self.api.stream(asked))
                self.reply(events, "text/event-stream")
                return
            answer = getattr(self.api, self.path.removeprefix("/api/"))(asked)
            self.reply(json.dumps(answer), "application/json")
        except UserError as error:
            self.reply(json.dumps({"error": str(error)}), "application/json", status=400)

    def reply(self, text: str, media_type: str, *, status: int = 200) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{media_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        with suppress(ConnectionError):  # the page asks for something else by now
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def uploaded(content_type: str, body: bytes) -> str:
    """The text of the file in a form."""
    form = email.message_from_bytes(
        b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body, policy=email.policy.HTTP
    )
    (file,) = [part for part in form.iter_parts() if part.get_filename()]
    content = file.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content.decode("utf-8")


@contextmanager
def watched(browser: Browser, **settings: Any) -> Iterator[Page]:
    """A new page, in which nothing may fail or be refused by the policy; mistakes that the server tells of may."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True, **settings)
    page = context.new_page()
    page.set_default_timeout(60_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    try:
        yield page
    finally:
        context.close()
    assert [problem for problem in problems if not re.search("status of 40[013]", problem)] == []


def looked(page: Page, site: str, query: str = "") -> None:
    """The page at the attention of the sentence."""
    page.goto(f"{site}/#/attend?text={TEXT}{query}")
    page.locator(".heat canvas.over").wait_for()


def labels(words: Locator) -> list[str]:
    return [" ".join(text.split()) for text in words.all_text_contents()]


def chosen(page: Page, legend: str, label: str) -> None:
    page.get_by_role("group", name=legend).get_by_role("radio", name=label, exact=True).check(force=True)
