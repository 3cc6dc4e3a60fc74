"""`transduce translate`: N lines in, N lines out."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.display import Display
from transduce.cli.lines import open_output, read, refuse_output, standard_input
from transduce.decode.columns import Format, Layout, Row, format_of, layout
from transduce.errors import UserError
from transduce.files import sha256
from transduce.version import __version__

if TYPE_CHECKING:
    from transduce.decode.job import Work
    from transduce.decode.translator import Translator

NAMED = 20  # doubtful lines; more are counted
WINDOW = 2000  # lines read, translated and committed together; shards are cut between windows


class Engines(StrEnum):
    """Who runs the model."""

    AUTO = "auto"
    PYTORCH = "pytorch"
    CTRANSLATE2 = "ctranslate2"


Write = Callable[[bytes, int], None]
"""Takes the output of a window, and how many lines of input that answers."""


def translate(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A run or a bundle.")],
    inputs: Annotated[list[Path] | None, typer.Argument(help="Files, plain, .gz or .xz; else stdin.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new file, also .gz; else stdout.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; 1 is greedy.")] = None,
    alpha: Annotated[float | None, typer.Option(min=0, help="Length penalty ((5 + length) / 6)^alpha.")] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Write so many outputs a line: line, score, text.")] = 1,
    prefix: Annotated[str, typer.Option(help="How every output begins.")] = "",
    glossary: Annotated[Path | None, typer.Option(help="A file of source<TAB>target terms that must be kept.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="search.key=value; see `transduce config`.")] = None,
    engine: Annotated[Engines, typer.Option(help="CTranslate2 is faster, PyTorch can do everything.")] = Engines.AUTO,
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="Faster: only words that a line's words bring.")
    ] = False,
    ensemble: Annotated[list[Path] | None, typer.Option(help="Another model to average with; PyTorch.")] = None,
    shards: Annotated[str | None, typer.Option(metavar="I/N", help="Only the I-th of N parts of the lines.")] = None,
    format_: Annotated[Format | None, typer.Option("--format", help="What a line is; else by the file's name.")] = None,
    column: Annotated[str | None, typer.Option(help="What to translate of a table: a name, or a number.")] = None,
    into: Annotated[str | None, typer.Option(help="The new column's name; else `translation`.")] = None,
) -> None:
    """Translate text, a sentence a line; line i of the output belongs to line i of the input.

    Blank lines stay empty. Bad UTF-8 becomes U+FFFD, and a line too long for the model is translated in parts;
    a warning names each such line. From files to a file, the same command goes on where it was broken off.

    Such as: transduce translate run/ big.txt -o out.txt --glossary terms.tsv --set search.no_repeat=4
    """
    display: Display = context.obj
    kind = format_ or format_of(inputs or [])
    table, shard = layout(kind, column, into), read_shards(shards)
    refuse(inputs or [], output, shards=shards, n_best=n_best, kind=kind)
    size = 1 if not inputs and standard_input().isatty() else WINDOW
    lines, digest = look_through(inputs, table) if inputs else (0, "")
    from transduce.decode.glossary import Glossary
    from transduce.decode.job import Work, shard_of
    from transduce.settings import search_settings

    translator = load(model, engine, ensemble or [], display, shortlist=shortlist)
    terms = None if glossary is None else Glossary.read(glossary)
    chosen = search_settings(set_ or [])
    if not chosen.get("sampling", translator.search.sampling) and n_best > (
        beam or chosen.get("beam", translator.search.beam)
    ):
        raise typer.BadParameter(f"{n_best} is more than the beam: raise --beam", param_hint="--n-best")
    options: dict[str, Any] = {"beam": beam, "alpha": alpha, "n_best": n_best, "prefix": prefix}
    asked = {**options, "glossary": terms, "settings": chosen}
    task = Task(translator, table, asked, read_rows(inputs, table), size, display)
    mine = shard_of(lines, WINDOW, shard=shard[0], of=shard[1]) if inputs else None
    if mine is not None and not mine:
        display.warn(f"--shards {shards}: has no lines: {lines:,} are cut only after each {WINDOW:,}th")
    if output is None or mine is None:
        to_stream(task, output, mine)
        return
    settings = {**options, "format": kind.value, "column": column, "into": into, "shards": shards, "window": WINDOW}
    settings |= {
        "shortlist": shortlist,
        "engine": translator.engine.name,
        "transduce": __version__,
        "set": " ".join(sorted(set_ or [])),
    }
    settings |= {"glossary": None if glossary is None else sha256(glossary)}
    settings |= {"ensemble": " ".join(manifest_digest(other) for other in ensemble or [])}
    to_file(task, output, mine, Work(lines=lines, sha256=digest, model=manifest_digest(model), settings=settings))


@dataclass(frozen=True)
class Task:
    """What is translated how, window by window."""

    translator: Translator
    table: Layout
    options: dict[str, Any]
    """Of `Translator.translate`."""
    rows: Iterator[Row]
    size: int
    """Lines of a window."""
    display: Display
    doubts: list[int] = field(default_factory=list)
    """Numbers of lines whose translation is doubtful."""

    def doubt(self, number: int, reason: str) -> None:
        """Name a line, unless many have been named; `run` counts the others."""
        self.doubts.append(number)
        if len(self.doubts) <= NAMED:
            self.display.warn(f"line {number}: {reason}")

    def run(self, write: Write, lines: range | None, done: int = 0) -> None:
        """Translate these lines, from 0, or all there are; so many of them are done already."""
        first, stop = (0, None) if lines is None else (lines.start, lines.stop)
        rows, total = islice(self.rows, first + done, stop), None if lines is None else len(lines)
        with self.display.progress("translating", total) as progress:
            bar = progress.task_ids[0]
            progress.reset(bar, total=total, completed=done)  # what was done before says nothing of the speed
            while window := list(islice(rows, self.size)):
                for warning in (warning for row in window for warning in row.warnings):
                    self.display.warn(warning)
                write(self.answer(window, first + done + 1), len(window))
                done += len(window)
                progress.update(bar, completed=done)
        if len(self.doubts) > NAMED:
            self.display.warn(
                f"{len(self.doubts) - NAMED:,} more lines are doubtful, the last is line {self.doubts[-1]}"
            )

    def answer(self, window: list[Row], first_line: int) -> bytes:
        """The lines of the output that belong to a window."""
        sources = [row.source or "" for row in window]
        found = self.translator.translate(sources, first_line=first_line, **self.options)
        lines: list[str] = []
        for number, (row, translation) in enumerate(zip(window, found, strict=True), first_line):
            if translation.error is not None:
                self.display.warn(f"line {number}: not translated: {translation.error}")
            if translation.warning is not None:
                self.doubt(number, translation.warning)
            if self.options["n_best"] > 1:
                lines += [f"{number}\t{each.score:.4f}\t{each.text}" for each in translation.alternatives]
            elif row.source is None:
                lines.append(row.before)
            else:
                lines.append(row.before + self.table.spell(translation.text) + row.after)
        return "".join(line + "\n" for line in lines).encode()


def to_stream(task: Task, output: Path | None, lines: range | None) -> None:
    """To stdout, or to a file that appears when it is whole; what is read from stdin cannot be read again."""
    with open_output(output) as file:

        def write(data: bytes, lines: int) -> None:
            file.write(packed(data, output))
            file.flush()

        task.run(write, lines)


def to_file(task: Task, output: Path, lines: range, work: Work) -> None:
    """To a file, from where the same work was broken off."""
    from transduce.decode.job import resumable

    with resumable(output, work, lines=len(lines)) as job:
        done = job.record.lines
        if done:
            task.display.note(f"{output}: going on after {done:,} of {len(lines):,} lines")
        try:
            task.run(lambda data, lines: job.commit(packed(data, output), lines), lines, done)
        except BaseException:
            if kept := job.record.lines:
                task.display.warn(f"{job.part}: {kept:,} lines are kept; the same command goes on with them")
            raise


def packed(data: bytes, output: Path | None) -> bytes:
    """As the output's name asks for; a window is a gzip member of its own, without the time."""
    return gzip.compress(data, mtime=0) if output is not None and output.suffix == ".gz" else data


def load(
    model: Path, engine: Engines, ensemble: list[Path], display: Display, *, shortlist: bool = False
) -> Translator:
    """The translator of a model, or of several as one."""
    from transduce.decode.translator import Translator

    if not ensemble:
        voices = {"warn": display.warn, "say": display.aside}
        return Translator.load(model, engine=engine.value, shortlist=shortlist, **voices)
    if shortlist:
        raise UserError("--ensemble: runs in PyTorch, which has no shortlist: leave --shortlist out")
    if engine is Engines.CTRANSLATE2:
        raise UserError("--ensemble: CTranslate2 has no ensembles: --engine pytorch has")
    return Translator.load_ensemble([model, *ensemble], warn=display.warn)


def manifest_digest(model: Path) -> str:
    """A bundle's identity: its manifest hashes every other file."""
    from transduce.bundle import MANIFEST, locate

    return sha256(locate(model) / MANIFEST)


def look_through(inputs: list[Path], table: Layout) -> tuple[int, str]:
    """How many lines the files have, and their SHA-256; a damaged file is found before anything is written."""
    digest, lines = hashlib.sha256(), 0
    for row in read_rows(inputs, table):
        digest.update(row.line.encode() + b"\n")
        lines += 1
    return lines, digest.hexdigest()


def read_rows(inputs: list[Path] | None, table: Layout) -> Iterator[Row]:
    """Every line of the files, or of stdin, as a row with what has to be told of it."""
    for name, number, text, problem in read(inputs):
        told = [] if problem is None else [f"{name}: line {number}: {problem}"]
        try:
            row = table.row(text, number)
        except ValueError as error:
            told.append(f"{name}: line {number}: {error}: left as it is")
            row = Row(text, None, text)
        except UserError as error:
            raise UserError(f"{name}: line {number}: {error}") from None
        yield replace(row, warnings=tuple(told)) if told else row


def read_shards(value: str | None) -> tuple[int, int]:
    """I/N as two numbers; without it all is one shard."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", "1/1" if value is None else value)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter(f"{value!r}: write I/N, such as 2/4, with I from 1 to N", param_hint="--shards")
    return int(found[1]), int(found[2])


def refuse(inputs: list[Path], output: Path | None, *, shards: str | None, n_best: int, kind: Format) -> None:
    """What cannot be; better told before the work than after it."""
    if shards is not None and not inputs:
        raise UserError("--shards needs input files: how many lines stdin has is not known before its end")
    if n_best > 1 and kind is not Format.TEXT:
        raise UserError(f"--n-best writes rows of its own: not with {kind}; --format text takes whole lines")
    if output is not None and output.suffix in (".xz", ".bz2", ".zst", ".zip"):
        raise UserError(f"{output}: the output is plain text, or .gz: choose another --output")
    if output is not None and output.exists() and any(path.exists() and path.samefile(output) for path in inputs):
        raise UserError(f"{output}: exists and is one of the inputs: choose another --output")
    from transduce.decode.job import record_of

    if output is None or not inputs or not record_of(output).exists():  # else the work may go on
        refuse_output(output)
