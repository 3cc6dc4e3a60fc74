r"""One text file as blocks of lines: plain, gzip or xz, split at "\n" only, in bounded memory."""

from __future__ import annotations

import gzip
import lzma
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from transduce.data.problems import Problem
from transduce.errors import CorpusError

MAX_LINE = 1 << 20
"""Bytes of a line that are kept; the rest is skipped unseen and the line is flagged as over-long."""
CHUNK = 1 << 18
XZ_MEMORY = 128 << 20  # xz -9 needs 65 MiB; a hostile header could ask for gigabytes

_GZIP, _XZ, _BOM = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive lines of a file."""

    texts: list[str]
    problems: dict[int, Problem] = field(default_factory=dict)
    """By index into `texts`: what reading alone can tell."""
    boms: int = 0
    crs: int = 0
    read: int = 0
    """Bytes of the file, as it lies on disk, that were read since the block before."""


def check_file(path: Path) -> None:
    """Refuse early what cannot be read twice: training reads once to learn subwords and once to encode."""
    try:
        status = path.stat()
    except OSError as error:
        raise CorpusError(f"{path}: cannot read: {error.strerror}: check the path") from None
    if stat.S_ISDIR(status.st_mode):
        raise CorpusError(f"{path}: is a directory: name the files in it")
    if not stat.S_ISREG(status.st_mode):
        raise CorpusError(f"{path}: a pipe or device can be read only once: save it to a file first")
    if status.st_size == 0:
        raise CorpusError(f"{path}: is empty: it should hold one sentence a line")


def read_blocks(path: Path) -> Iterator[Block]:
    """Every line of `path`, in order; an unfinished last line counts, an empty one does not."""
    tail = b""
    skipping = False
    boms = told = at = 0
    for number, (chunk, at) in enumerate(_chunks(path)):
        if number == 0:
            if chunk.startswith(_UTF16):
                raise CorpusError(f"{path}: line 1 looks like UTF-16: convert it: iconv -f UTF-16 -t UTF-8")
            if chunk.startswith(_BOM):
                chunk, boms = chunk.removeprefix(_BOM), 1
        if skipping:
            _, newline, chunk = chunk.partition(b"\n")
            skipping = not newline
        data = tail + chunk
        end = data.rfind(b"\n") + 1
        if end:
            yield _block(data[:end], boms, at - told)
            boms, told = 0, at
        tail = data[end:]
        if len(tail) > MAX_LINE:
            yield _cut(tail, boms, at - told)
            tail, skipping, boms, told = b"", True, 0, at
    if tail:
        yield _block(tail + b"\n", boms, at - told)


def _block(data: bytes, boms: int, read: int) -> Block:
    """Whole lines, each ended by a newline."""
    crs = data.count(b"\r\n")
    if crs:
        data = data.replace(b"\r\n", b"\n")
    if data.find(b"\n") > MAX_LINE:  # only the first can be: what follows it is within one chunk
        first, _, rest = data.partition(b"\n")
        data = first[:MAX_LINE] + b"\n" + rest
        problems = {0: Problem.OVER_LONG}
    else:
        problems = {}
    try:
        return Block(data[:-1].decode("utf-8").split("\n"), problems, boms, crs, read)
    except UnicodeDecodeError:
        texts = []
        for index, line in enumerate(data[:-1].split(b"\n")):
            try:
                texts.append(line.decode("utf-8"))
            except UnicodeDecodeError:
                texts.append(line.decode("utf-8", errors="replace"))
                problems.setdefault(index, Problem.BAD_UTF8)
        return Block(texts, problems, boms, crs, read)


def _cut(line: bytes, boms: int, read: int) -> Block:
    text = line[:MAX_LINE].decode("utf-8", errors="replace")
    return Block([text], {0: Problem.OVER_LONG}, boms, read=read)


def _chunks(path: Path) -> Iterator[tuple[bytes, int]]:
    """The file's bytes, decompressed by what the file is, and how far it was read; its name must not say otherwise."""
    check_file(path)
    try:
        with path.open("rb") as file:
            magic = file.read(len(_XZ))
            file.seek(0)
            if magic.startswith(_GZIP):
                with gzip.open(file) as content:
                    while chunk := content.read(CHUNK):
                        yield chunk, file.tell()
            elif magic.startswith(_XZ):
                for chunk in _xz_chunks(file):
                    yield chunk, file.tell()
            elif path.suffix in (".gz", ".xz"):
                raise CorpusError(
                    f"{path}: is not {path.suffix[1:]} data: fetch it again, or rename it if it is plain text"
                )
            else:
                while chunk := file.read(CHUNK):
                    yield chunk, file.tell()
    except EOFError:
        raise CorpusError(f"{path}: the compressed data ends too early: fetch it again") from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise CorpusError(f"{path}: the compressed data is damaged ({error}): fetch it again") from None
    except OSError as error:
        raise CorpusError(f"{path}: cannot read: {error.strerror or error}: check its permissions and disk") from None


def _xz_chunks(file: BinaryIO) -> Iterator[bytes]:
    """As lzma.open, which cannot limit the memory that the file asks for."""
    pending = file.read(CHUNK)
    while pending:
        decompressor = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
        while not decompressor.eof:
            if decompressor.needs_input and not pending:
                pending = file.read(CHUNK)
                if not pending:
                    raise EOFError
            chunk = decompressor.decompress(pending, CHUNK)
            pending = b""
            if chunk:
                yield chunk
        pending = decompressor.unused_data or file.read(CHUNK)
        while pending and not (pending := pending.lstrip(b"\0")):  # padding between streams
            pending = file.read(CHUNK)
