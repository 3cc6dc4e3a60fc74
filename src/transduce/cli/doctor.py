"""`transduce doctor`: what is wrong with a corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.display import Display


def doctor(
    context: typer.Context,
    source: Annotated[
        list[Path] | None, typer.Option(help="Source text, a sentence a line; plain, .gz or .xz.")
    ] = None,
    target: Annotated[list[Path] | None, typer.Option(help="Its translation, line by line.")] = None,
    pairs: Annotated[list[Path] | None, typer.Option(help="Instead: .tsv or .jsonl files with both.")] = None,
    valid_source: Annotated[list[Path] | None, typer.Option(help="Validation source, for overlap.")] = None,
    valid_target: Annotated[list[Path] | None, typer.Option(help="Validation target.")] = None,
    test_source: Annotated[list[Path] | None, typer.Option(help="Test source, for overlap.")] = None,
    test_target: Annotated[list[Path] | None, typer.Option(help="Test target.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Read a corpus once and report line counts, damage, outliers, copies, overlap and shifted lines."""
    display: Display = context.obj
    from transduce.config import DataConfig
    from transduce.data.corpus import Corpus
    from transduce.data.doctor import examine

    def corpus(source: list[Path] | None, target: list[Path] | None) -> Corpus | None:
        return Corpus(tuple(source or ()), tuple(target or ())) if source or target else None

    train = Corpus(tuple(source or ()), tuple(target or ()), tuple(pairs or ()))
    with display.progress("reading lines", None) as progress:
        report = examine(
            train,
            valid=corpus(valid_source, valid_target),
            test=corpus(test_source, test_target),
            data=DataConfig(),
            progress=lambda lines: progress.update(progress.task_ids[0], completed=lines),
        )
    if json_:
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False, indent=2))
    else:
        typer.echo("\n".join(report.lines()))
