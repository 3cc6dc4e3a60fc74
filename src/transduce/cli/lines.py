"""Lines in and lines out: files or stdin, a new file or stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from transduce.cli.display import Display
from transduce.errors import UserError

REPLACED = "not UTF-8: bad bytes became U+FFFD"
CUT = "over 1 MiB: the rest is cut off"
BOM = b"\xef\xbb\xbf"


def read_lines(inputs: list[Path] | None, display: Display) -> Iterator[str]:
    """Every line of the files, or of stdin; what is not UTF-8 is replaced, with a warning that names the line."""
    for name, number, text, problem in read(inputs):
        if problem:
            display.warn(f"{name}: line {number}: {problem}")
        yield text


def read(inputs: list[Path] | None) -> Iterator[tuple[str, int, str, str | None]]:
    """Every line: the name of its file, its number there, its text, and what had to be done to it."""
    files = [(str(path), read_file(path)) for path in inputs or ()] or [("stdin", read_stream(standard_input()))]
    for name, lines in files:
        for number, (text, problem) in enumerate(lines, 1):
            yield name, number, text, problem


def read_file(path: Path) -> Iterator[tuple[str, str | None]]:
    """Every line of a file, and what had to be done to it."""
    from transduce.data.lines import read_blocks
    from transduce.data.problems import Problem

    done = {Problem.BAD_UTF8: REPLACED, Problem.OVER_LONG: CUT}
    for block in read_blocks(path):
        for index, text in enumerate(block.texts):
            problem = block.problems.get(index)
            yield text, None if problem is None else done[problem]


def read_stream(stream: BinaryIO) -> Iterator[tuple[str, str | None]]:
    r"""Every line of a stream, split at "\n" alone, and what had to be done to it; as files are read."""
    from transduce.data.lines import CHUNK, MAX_LINE

    longest, first = MAX_LINE + len(BOM + b"\r\n"), True
    while raw := stream.readline(longest):
        if len(raw) == longest and not raw.endswith(b"\n"):
            while (rest := stream.readline(CHUNK)) and not rest.endswith(b"\n"):
                pass
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if first:
            line, first = line.removeprefix(BOM), False
        if len(line) > MAX_LINE:
            yield line[:MAX_LINE].decode("utf-8", errors="replace"), CUT
            continue
        try:
            yield line.decode("utf-8"), None
        except UnicodeDecodeError:
            yield line.decode("utf-8", errors="replace"), REPLACED


def standard_input() -> BinaryIO:
    """The bytes of stdin."""
    if sys.stdin is None:
        raise UserError("stdin is closed: name input files, or pipe text in")
    return sys.stdin.buffer


def refuse_output(path: Path | None) -> None:
    """An output is a new file, or a stdout that is open."""
    if path is not None and (path.exists() or path.is_symlink()):
        raise UserError(f"{path}: exists: choose another --output")
    if path is None and sys.stdout is None:
        raise UserError("stdout is closed: name a file with --output")


@contextmanager
def open_output(path: Path | None) -> Iterator[BinaryIO]:
    """A file that appears when it is whole, or stdout as it is."""
    from transduce.files import new_file

    try:
        with nullcontext(sys.stdout.buffer) if path is None else new_file(path) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        name = "stdout" if path is None else path
        raise UserError(f"{name}: cannot write: {error.strerror or error}: choose another --output") from None
