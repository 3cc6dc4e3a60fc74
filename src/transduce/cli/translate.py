"""`transduce translate`: N lines in, N lines out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from transduce.cli.display import Display
from transduce.errors import UserError

REPLACED = "not UTF-8: bad bytes became U+FFFD"
WINDOW = 2000  # lines read, translated and written together


def translate(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A run or a bundle.")],
    inputs: Annotated[list[Path] | None, typer.Argument(help="Text files, plain, .gz or .xz; else stdin.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new file; else stdout.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; 1 is greedy.")] = None,
    alpha: Annotated[float | None, typer.Option(min=0, help="Length penalty ((5 + length) / 6)^alpha.")] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Write so many outputs a line: line, score, text.")] = 1,
) -> None:
    """Translate text, a sentence a line; line i of the output belongs to line i of the input.

    Blank lines stay empty. Bad UTF-8 becomes U+FFFD, and a line too long for the model is translated in parts;
    a warning names each such line.
    """
    display: Display = context.obj
    window_size = 1 if not inputs and standard_input().isatty() else WINDOW
    refuse_output(output)
    total = count_lines(inputs) if inputs else None
    from transduce.decode.translator import Translator

    translator = Translator.load(model, warn=display.warn)
    if n_best > (beam or translator.search.beam):
        raise typer.BadParameter(f"{n_best} is more than the beam: raise --beam", param_hint="--n-best")
    lines = read_lines(inputs, display)
    done = 0
    with open_output(output) as out, display.progress("translating", total) as progress:
        while window := list(islice(lines, window_size)):
            found = translator.translate(window, beam=beam, alpha=alpha, n_best=n_best, first_line=done + 1)
            for number, translation in enumerate(found, done + 1):
                if n_best == 1:
                    out.write(translation.text.encode() + b"\n")
                for each in translation.alternatives if n_best > 1 else ():
                    out.write(f"{number}\t{each.score:.4f}\t{each.text}\n".encode())
            out.flush()
            done += len(window)
            progress.update(progress.task_ids[0], completed=done)


def count_lines(inputs: list[Path]) -> int:
    """How many lines the files have; reading them all first finds a damaged one before anything is written."""
    return sum(1 for path in inputs for _ in read_file(path))


def read_lines(inputs: list[Path] | None, display: Display) -> Iterator[str]:
    """Every line of the files, or of stdin; what is not UTF-8 is replaced, with a warning that names the line."""
    if not inputs:
        yield from decode_lines(standard_input(), "stdin", display)
        return
    for path in inputs:
        for line, (text, problem) in enumerate(read_file(path), 1):
            if problem:
                display.warn(f"{path}: line {line}: {problem}")
            yield text


def read_file(path: Path) -> Iterator[tuple[str, str | None]]:
    """Every line of a file, and what had to be done to it."""
    from transduce.data.lines import read_blocks
    from transduce.data.problems import Problem

    done = {Problem.BAD_UTF8: REPLACED, Problem.OVER_LONG: "over 1 MiB: the rest is cut off"}
    for block in read_blocks(path):
        for index, text in enumerate(block.texts):
            problem = block.problems.get(index)
            yield text, None if problem is None else done[problem]


def decode_lines(stream: Iterable[bytes], name: str, display: Display) -> Iterator[str]:
    r"""Lines of a binary stream, which Python splits at "\n" alone."""
    for number, raw in enumerate(stream, 1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            display.warn(f"{name}: line {number}: {REPLACED}")
            yield line.decode("utf-8", errors="replace")


def standard_input() -> BinaryIO:
    """The bytes of stdin."""
    if sys.stdin is None:
        raise UserError("stdin is closed: name input files, or pipe text in")
    return sys.stdin.buffer


def refuse_output(path: Path | None) -> None:
    """An output is a new file, or a stdout that is open; better told before the work than after it."""
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
