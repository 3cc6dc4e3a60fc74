"""`transduce verify`: the guarantees, tried out on your own run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import UserError

EXAMPLES = 5  # differences shown; the rest is counted
BELONGS = {"steps": "resume", "kills": "resume", "file": "batch or lines"}


def verify(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="[resume|batch|lines] MODEL", help="A run or a bundle.")],
    steps: Annotated[int | None, typer.Option(min=2, help="resume: updates to train.")] = None,
    kills: Annotated[int | None, typer.Option(min=1, help="resume: how often to kill.")] = None,
    file: Annotated[Path | None, typer.Option(help="batch, lines: sentences; else the run's validation.")] = None,
) -> None:
    """Check what is promised, on your own run or bundle; exit code 1 where it does not hold.

    **MODEL**: every file of a bundle, or of a run's checkpoints and model, against its hash; prints the digest of the
    weights.

    **resume RUN**: trains the run's configuration anew in a temporary directory, once in one go and once killed
    (kill -9) and resumed; both must end with the same weights.

    **batch MODEL**: translates in batches of 1, 7 and 64 and shuffled; at least 99.9 % must have the same text.

    **lines MODEL**: nasty lines through `transduce translate`: as many lines out as in, in order.
    """
    display: Display = context.obj
    match words:
        case [path]:
            kind, findings = "MODEL", _files(Path(path))
        case ["resume", path]:
            kind, findings = "resume", _resume(Path(path), steps, kills, display.note)
        case ["batch", path]:
            kind, findings = "batch", _batch(Path(path), file)
        case ["lines", path]:
            kind, findings = "lines", _lines(Path(path), file)
        case _:
            raise UserError(
                "give a run or a bundle, or resume, batch or lines and then one: transduce verify batch run/"
            )
    given = {"steps": steps, "kills": kills, "file": file}
    for option, value in given.items():
        if value is not None and kind not in BELONGS[option]:
            raise UserError(f"--{option}: belongs to `transduce verify {BELONGS[option]}`: leave it out")
    failed = False
    for holds, line in findings:
        failed |= not holds
        typer.echo(line)
    if failed:
        raise typer.Exit(1)


Finding = tuple[bool, str]
"""Whether something holds, and a line about it."""


def _files(path: Path) -> Iterator[Finding]:
    from transduce.verify.files import check_files

    for checked in check_files(path):
        for damage in checked.damage:
            yield False, damage
        if not checked.damage:
            yield True, f"{checked.path}: {checked.files} files as they were written, weights {checked.digest}"


def _resume(path: Path, steps: int | None, kills: int | None, note: Callable[[str], None]) -> Iterator[Finding]:
    from transduce.verify.resume import KILLS, STEPS, check_resume

    found = check_resume(path, steps=steps or STEPS, kills=kills or KILLS, note=note)
    did = f"{found.steps:,} steps, killed {found.kills} times ({found.in_saves} of them inside a save) and resumed"
    if found.damaged:
        yield False, f"{did}: {found.damaged} checkpoints were damaged"
    if found.broken != found.unbroken:
        yield False, f"{did}: ended DIFFERENTLY: {found.broken} is not {found.unbroken}"
    if found.holds:
        yield True, f"{did}: ended the same as without a break, weights {found.unbroken.model}"


def _batch(path: Path, file: Path | None) -> Iterator[Finding]:
    from transduce.verify.batches import check_batches
    from transduce.verify.sentences import sentences

    found = check_batches(path, sentences(path, file))
    same = found.sentences - len(found.differences)
    yield found.holds, f"{same:,} of {found.sentences:,} sentences ({found.share:.2%}) are the same in any batch"
    for difference in found.differences[:EXAMPLES]:
        yield True, f"  {difference.source}\n    alone:    {difference.alone}\n    together: {difference.together}"


def _lines(path: Path, file: Path | None) -> Iterator[Finding]:
    from transduce.verify.lines import check_lines
    from transduce.verify.sentences import sentences

    found = check_lines(path, sentences(path, file))
    for problem in found.problems:
        yield False, problem
    if not found.problems:
        yield True, f"{found.lines} lines in, {found.lines} lines out, in order; {found.nasty} of them nasty"
