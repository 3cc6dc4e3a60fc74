"""Text files as they come, and translated ones that wait to be fetched.

They wait in memory, under names that nobody can guess, and not for long.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from transduce.serve.errors import BadRequest

FORMATS = (".txt",)
"""What is taken."""
SECONDS = 30 * 60.0
MOST_FILES = 256
"""That wait at most; those that have waited longest go first."""
LONGEST_NAME = 100


@dataclass(frozen=True)
class Upload:
    """A file that came with a form."""

    name: str
    body: bytes


@dataclass(frozen=True)
class Waiting:
    """One file."""

    name: str
    body: bytes
    until: float


class Downloads:
    """Files by what stands for them in an address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._files: OrderedDict[str, Waiting] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def put(self, name: str, body: bytes) -> str:
        """Keep a file: `SECRET.NAME`, by which it can be had."""
        self._forget()
        while len(self._files) >= MOST_FILES:
            self._files.popitem(last=False)
        name = harmless(name)
        address = f"{secrets.token_urlsafe(32)}.{name}"
        self._files[address] = Waiting(name, body, self._clock() + SECONDS)
        return address

    def get(self, address: str) -> Waiting | None:
        """The file, if it is still there."""
        self._forget()
        return self._files.get(address)

    def _forget(self) -> None:
        """Those whose time has passed; the oldest come first."""
        now = self._clock()
        while self._files and next(iter(self._files.values())).until <= now:
            self._files.popitem(last=False)


def harmless(name: str) -> str:
    """A file's name as one part of an address: no directories, nothing that cannot be seen."""
    name = re.split(r"[/\\]", name)[-1]
    name = re.sub(r"[^\w.() -]+", "_", name).strip(" .")
    return name[-LONGEST_NAME:] or "file.txt"


def text_file(file: object) -> tuple[str, str]:
    """The name and the text of a file that was sent."""
    if not isinstance(file, Upload):
        raise BadRequest("Invalid request: missing file parameter")
    name, body = file.name, file.body
    if not name or not body:
        raise BadRequest("Invalid request: empty file")
    if not name.lower().endswith(FORMATS):
        raise BadRequest(f"Invalid request: file format not supported: send one of {', '.join(FORMATS)}")
    try:
        return name, body.decode()
    except UnicodeDecodeError:
        raise BadRequest("Invalid request: the file is not UTF-8: save it as UTF-8") from None
