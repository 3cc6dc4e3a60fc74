"""The key file: a key a line, then its limits if it has any; `#` begins a comment.

    4f1c...e9  requests=60 characters=500000
    a71d...02

`requests` are counted a minute, `characters` a day, since the server started.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers

from transduce.errors import UserError

HEADERS = ("bearer", "deepl-auth-key")
"""What stands before a key in Authorization."""
LIMIT = re.compile(r"(requests|characters)=([1-9][0-9]*)")


@dataclass(frozen=True)
class Key:
    """A key, by its hash: nobody who prints this prints a key."""

    digest: bytes
    requests: int | None = None
    """A minute."""
    characters: int | None = None
    """A day."""


class Keys:
    """The keys of a file."""

    def __init__(self, keys: list[Key]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The file's keys; an empty file lets nobody in and is refused."""
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise UserError(f"{path}: cannot read: {error.strerror}: check the path of --api-keys") from None
        except UnicodeDecodeError:
            raise UserError(f"{path}: not UTF-8: save the key file as UTF-8") from None
        keys = [_parse(line, f"{path}: line {number}") for number, line in enumerate(lines, 1)]
        known = [key for key in keys if key is not None]
        if not known:
            raise UserError(f"{path}: no key in it: write one a line, or leave --api-keys out")
        if len({key.digest for key in known}) < len(known):
            raise UserError(f"{path}: a key stands in it twice: keep one of the lines")
        return cls(known)

    def find(self, given: str) -> Key | None:
        """The key that was given, if it is one; takes as long whichever it is, or none."""
        digest, found = _digest(given), None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


def key_in(headers: Headers) -> str | None:
    """The key of a request: `Authorization: Bearer KEY` or `X-API-Key: KEY`."""
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() in HEADERS else headers.get("x-api-key")


def _parse(line: str, where: str) -> Key | None:
    words = line.partition("#")[0].split()
    if not words:
        return None
    limits = {}
    for word in words[1:]:
        match = LIMIT.fullmatch(word)
        if match is None or match[1] in limits:
            raise UserError(f"{where}: after the key, write requests=N or characters=N, each once at most")
        limits[match[1]] = int(match[2])
    return Key(_digest(words[0]), **limits)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
