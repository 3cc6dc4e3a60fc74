"""Requests that are none, or that ask for what cannot be, as bytes on the wire, and the statuses that answer them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from urllib.parse import urlsplit

MEGABYTE = 1 << 20
NATIVE, LIBRE, LIBRE_FILE, DEEPL = "/api/translate", "/translate", "/translate_file", "/v2/translate"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Kind:
    """Requests of one kind."""

    name: str
    make: Callable[[Random], bytes]
    expected: frozenset[int]


def request(path: str, content: bytes, *headers: str, media_type: str = JSON) -> bytes:
    """A POST in HTTP/1.1."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Type: {media_type}", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""]).encode() + content


def native(name: str, make: Callable[[Random], bytes | dict[str, object]], *expected: int) -> Kind:
    """Of the native API."""
    return Kind(name, lambda random: request(NATIVE, written(make(random))), frozenset(expected))


def libre(name: str, make: Callable[[Random], bytes | dict[str, object]], *expected: int) -> Kind:
    """Of LibreTranslate's."""
    return Kind(f"LibreTranslate: {name}", lambda random: request(LIBRE, written(make(random))), frozenset(expected))


def deepl(name: str, make: Callable[[Random], bytes | dict[str, object]], *expected: int) -> Kind:
    """Of DeepL's."""
    return Kind(f"DeepL: {name}", lambda random: request(DEEPL, written(make(random))), frozenset(expected))


def wire(name: str, make: Callable[[Random], bytes], *expected: int) -> Kind:
    """Of HTTP itself."""
    return Kind(f"HTTP: {name}", make, frozenset(expected))


def written(content: bytes | dict[str, object]) -> bytes:
    """As a body."""
    return content if isinstance(content, bytes) else json.dumps(content).encode()


def form(charset: str, *, path: str = LIBRE, boundary: str = "b", file: bytes | None = None) -> bytes:
    """A form in parts."""
    fields = [("q", "hello"), ("source", "en"), ("target", "de")]
    parts = [f'--b\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n'.encode() for n, v in fields]
    if file is not None:
        parts.append(b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' + file + b"\r\n")
    media_type = f"multipart/form-data; boundary={boundary}" + (f"; charset={charset}" if charset else "")
    return request(path, b"".join([*parts, b"--b--\r\n"]), media_type=media_type)


ASKED: dict[str, object] = {"q": "hello", "source": "en", "target": "de"}
ASKED_OF_DEEPL: dict[str, object] = {"text": ["hello"], "source_lang": "EN", "target_lang": "DE"}
NO_TEXTS: tuple[object, ...] = (7, {}, [7], [None], [["a"]], True)
HELLO = b'{"text": "hello"}'
HEAD = b"POST /api/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"

OF_THE_NATIVE_API = [
    native("random bytes", lambda r: r.randbytes(r.randrange(1, 2000)), 400, 422),
    native("half a body", lambda r: b'{"text": "hello there"}'[: r.randrange(1, 20)], 400, 422),
    native(
        "another type",
        lambda r: json.dumps(r.choice([[], 7, None, "text", True, 1e400, [[[]]]])).encode(),
        400,
        422,
    ),
    native("a field of another type", lambda r: {"text": r.choice([7, None, {}, [7], [None]])}, 422),
    native("an unknown field", lambda r: {"text": "hello", f"x{r.random()}": 1}, 422),
    native(
        "a wrong value",
        lambda r: {"text": "hello", "beam": r.choice([0, -1, 1e9, "x", None, [], 2.5])},
        200,
        413,
        422,
    ),
    native("nesting", lambda r: b"[" * r.randrange(1, 50_000), 400, 422),
    native("half a character", lambda r: b'{"text": "\\ud8%02x"}' % r.randrange(256), 200, 422),
    native("a number of many digits", lambda r: b'{"text": "a", "beam": 1%s}' % (b"0" * r.randrange(4400, 9000)), 400),
    native("too many texts", lambda r: {"text": ["a"] * r.randrange(65, 5000)}, 413),
    native("too many heads", lambda r: {"text": "a", "off": [["cross", 0, 0]] * r.randrange(5000, 9000)}, 413),
    native("too long a text", lambda r: {"text": "a" * r.randrange(5001, 100_000)}, 413),
    native("too long a body", lambda r: b" " * (MEGABYTE + r.randrange(1, 1000)), 413),
    native("an unknown language", lambda r: {"text": "hello", "target": f"z{r.randrange(9)}"}, 400),
    native("a contradiction", lambda r: {"text": "hello", "search": {"groups": 3}}, 422),
]
OF_OTHER_APIS = [
    libre("random bytes", lambda r: r.randbytes(r.randrange(1, 2000)), 400),
    libre("another type", lambda r: json.dumps(r.choice([[], 7, None, "text", True, 1e400])).encode(), 400),
    libre("nesting", lambda r: b"[" * r.randrange(1, 50_000), 400),
    libre("no text", lambda r: {**ASKED, "q": r.choice(NO_TEXTS)}, 400),
    libre("a field that is missing", lambda r: {n: v for n, v in ASKED.items() if n != r.choice([*ASKED])}, 200, 400),
    libre("a wrong language", lambda r: {**ASKED, "target": r.choice(["zz", "x" * 5000, 7, [], {}])}, 400),
    libre("a wrong format", lambda r: {**ASKED, "format": r.choice(["pdf", 7, ["html"]])}, 400),
    libre("wrong alternatives", lambda r: {**ASKED, "alternatives": r.choice([-1, 99, "x", [], 1.5, "9" * 5000])}, 400),
    libre("too long a text", lambda r: {**ASKED, "q": "a" * r.randrange(5001, 100_000)}, 400),
    libre("too long a body", lambda r: b" " * (MEGABYTE + r.randrange(1, 1000)), 400),
    libre(
        "half a tag",
        lambda r: {**ASKED, "q": r.choice(["<b", "<b a='", "<!--", "</", "&#x;"]) * 50, "format": "html"},
        200,
    ),
    Kind(
        "LibreTranslate: a charset",
        lambda r: form(r.choice(["undefined", "punycode", "idna", "utf-16", "\u00e9", "x" * 300])),
        frozenset({400}),
    ),
    Kind("LibreTranslate: no boundary", lambda r: form("", boundary=f"{r.random()}"), frozenset({400})),
    Kind(
        "LibreTranslate: a file that is no text",
        lambda r: form("", path=LIBRE_FILE, file=b"\xff" + r.randbytes(r.randrange(1, 500)).replace(b"-", b"")),
        frozenset({400}),
    ),
    Kind(
        "LibreTranslate: too many fields",
        lambda r: request(LIBRE, b"&".join([b"a=b"] * r.randrange(1001, 5000)), media_type=FORM),
        frozenset({400}),
    ),
    deepl("random bytes", lambda r: r.randbytes(r.randrange(1, 2000)), 400),
    deepl("no text", lambda r: {**ASKED_OF_DEEPL, "text": r.choice(NO_TEXTS)}, 400),
    deepl("a wrong language", lambda r: {**ASKED_OF_DEEPL, "target_lang": r.choice(["ZZ", 7, [], "x" * 5000])}, 400),
    deepl("too long a text", lambda r: {**ASKED_OF_DEEPL, "text": ["a" * r.randrange(5001, 100_000)]}, 413),
    deepl("too long a body", lambda r: b" " * r.randrange(128 * 1024 + 1, 200_000), 413),
    wire("random bytes", lambda r: r.randbytes(r.randrange(10, 2000)).replace(b"\n", b"") + b"\r\n\r\n", 400),
    wire("a length of many digits", lambda r: HEAD + b"Content-Length: %s17\r\n\r\n" % (b"0" * 5000) + HELLO, 200, 400),
    wire("too great a length", lambda r: HEAD + b"Content-Length: 9%s\r\n\r\n" % (b"9" * r.randrange(7, 30)), 400, 413),
    wire("no length", lambda r: HEAD + b"Content-Length: %s\r\n\r\n" % r.choice([b"x", b"-1", b"1.5", b"+3"]), 400),
    wire("two lengths", lambda r: HEAD + b"Content-Length: 17\r\nContent-Length: 3\r\n\r\n" + HELLO, 400),
    wire("wrong chunks", lambda r: HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + r.choice([b"x\r\n", b"-1\r\n"]), 400),
    wire("another coding", lambda r: HEAD + b"Transfer-Encoding: %d\r\n\r\n" % r.randrange(9), 400, 501),
    wire("too long a head", lambda r: HEAD + b"X: %s" % (b"x" * r.randrange(70_000, 100_000)), 400),
    wire(
        "a foreign name", lambda r: request(NATIVE, HELLO).replace(b"127.0.0.1", b"x%d.example" % r.randrange(99)), 400
    ),
    wire(
        "an upgrade",
        lambda r: request(NATIVE, HELLO, "Connection: Upgrade", f"Upgrade: {r.choice(['h2c', 'websocket', 'x'])}"),
        200,
    ),
]
KINDS = [*OF_THE_NATIVE_API, *OF_OTHER_APIS]


class Wire:
    """A client that sends bytes, over one connection as long as it stays open."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def status(self, data: bytes) -> tuple[int, bytes]:
        """The status and the body of what is answered."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._streams
        writer.write(data)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        answer = await reader.readexactly(int(fields.get("content-length", "0")))
        if fields.get("connection") == "close":
            self.close()
        return int(head[0].split()[1]), answer

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
