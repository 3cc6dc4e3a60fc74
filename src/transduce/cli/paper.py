"""`transduce paper`: the paper's tables and figures, made again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import UserError
from transduce.version import __version__

if TYPE_CHECKING:
    from transduce.paper.result import Result
    from transduce.paper.study import Study

PARTS = (
    "table1",
    "scaling",
    "positions",
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "figure5",
    "questions",
    "table2",
    "table4",
    "table3",
)  # the quick ones first


class Scales(StrEnum):
    """How large."""

    TINY = "tiny"
    SMALL = "small"
    PAPER = "paper"


def paper(
    context: typer.Context,
    parts: Annotated[list[str], typer.Argument(metavar="PART...", help=f"{', '.join(PARTS)}; or all.")],
    scale: Annotated[Scales, typer.Option(help="2 cores; ten times that; the paper's own, for GPUs.")] = Scales.TINY,
    model: Annotated[list[Path] | None, typer.Option(help="A run or bundle to look into, again for more.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of pages and pictures.")] = Path("paper"),
    work: Annotated[Path | None, typer.Option(help="Directory of trainings, to go on with; else OUT/work.")] = None,
) -> None:
    """Make tables and figures of "Attention Is All You Need" again, the paper's values beside the measured ones.

    Each part prints a page and writes it as Markdown, with a CSV file for each table and an SVG file for each picture.
    What an interrupted part has trained or measured is kept: the same command goes on. A part that cannot be made is
    told of, and the others go on.

    A **--model** is given to the parts that it fits: table4 takes a parser, table2 and figures 3 to 5 a translator,
    figures 1 and 2 draw any. With **all**, a part that none fits uses its own default; a part asked for by name is
    refused before anything is trained.

    **scaling** is section 3.2.1, **positions** section 3.5; **questions** are those that readers ask.
    """
    display: Display = context.obj
    chosen = choose(parts)
    from transduce.paper.study import Study

    study = Study(scale=scale.value, work=work or out / "work", listener=display)
    models = share_out(chosen, model or [], display, named="all" not in parts)
    studies = {part: replace(study, bundles=models[part]) for part in chosen}
    failures = [failure for part in chosen if (failure := _make(part, studies[part], out, display))]
    if failures:
        raise UserError("; ".join(failures))


def choose(parts: Sequence[str]) -> list[str]:
    """The parts asked for, each once, in the order in which they are made."""
    if unknown := sorted({*parts} - {*PARTS, "all"}):
        raise UserError(f"no part {', '.join(unknown)}: choose from {', '.join(PARTS)}, or all")
    return [part for part in PARTS if part in parts or "all" in parts]


def share_out(
    parts: Sequence[str], models: Sequence[Path], display: Display, *, named: bool
) -> dict[str, tuple[Path, ...]]:
    """Which of the models each part gets. All are opened now: a damaged one is not to be found out after hours."""
    if not models:
        return dict.fromkeys(parts, ())
    from transduce.bundle import open_bundle
    from transduce.paper.fitting import fitting

    opened = {path: open_bundle(path) for path in models}
    found: dict[str, tuple[Path, ...]] = {}
    for part in parts:
        try:
            found[part] = fitting(part, opened)
        except UserError as error:
            if named:
                raise
            display.note(f"{error}: that is used")
            found[part] = ()
    return found


def _make(part: str, study: Study, out: Path, display: Display) -> str | None:
    """Print and write a part; what the user has to mend is returned."""
    display.note(f"{part}, scale {study.scale}")
    command = ["transduce", "paper", part, "--scale", study.scale, *(f"--model={path}" for path in study.bundles)]
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    origin = f"Made by `{shlex.join(command)}`, written on {today} by transduce {__version__}."
    try:
        result = load(part)(study)
        page = result.write(out, origin)
    except (UserError, OSError) as error:
        display.warn(f"{part}: {error}")
        return f"{part}: {error}"
    typer.echo(result.markdown(origin))
    display.note(f"wrote {page}")
    return None


def load(part: str) -> Callable[[Study], Result]:
    """The function of a part; only its own file is imported."""
    match part:
        case "table1":
            from transduce.paper.table1 import table1 as study
        case "scaling":
            from transduce.paper.scaling import scaling as study
        case "positions":
            from transduce.paper.positions import positions as study
        case "figure1":
            from transduce.paper.figure1 import figure1 as study
        case "figure2":
            from transduce.paper.figure2 import figure2 as study
        case "figure3":
            from transduce.paper.figure3 import figure3 as study
        case "figure4":
            from transduce.paper.figure4 import figure4 as study
        case "figure5":
            from transduce.paper.figure5 import figure5 as study
        case "questions":
            from transduce.paper.questions import questions as study
        case "table2":
            from transduce.paper.table2 import table2 as study
        case "table3":
            from transduce.paper.table3 import table3 as study
        case "table4":
            from transduce.paper.table4 import table4 as study
        case _:
            raise AssertionError(part)
    return study
