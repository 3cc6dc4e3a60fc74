"""`transduce doctor`: what is wrong with a corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import UserError


def doctor(
    context: typer.Context,
    source: Annotated[
        list[Path] | None, typer.Option(help="Source text, a sentence a line; plain, .gz or .xz.")
    ] = None,
    target: Annotated[list[Path] | None, typer.Option(help="Its translation, line by line.")] = None,
    pairs: Annotated[list[Path] | None, typer.Option(help="Instead: .tsv or .jsonl files with both.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Instead: a TOML file of settings that names the corpora, with weights.")
    ] = None,
    valid_source: Annotated[list[Path] | None, typer.Option(help="Validation source, for overlap.")] = None,
    valid_target: Annotated[list[Path] | None, typer.Option(help="Validation target.")] = None,
    test_source: Annotated[list[Path] | None, typer.Option(help="Test source, for overlap.")] = None,
    test_target: Annotated[list[Path] | None, typer.Option(help="Test target.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Read corpora once and report line counts, damage, outliers, copies, overlap and shifted lines."""
    display: Display = context.obj
    from transduce.config import DataConfig
    from transduce.data.corpus import Corpus, training_corpus, validation_corpus
    from transduce.data.doctor import examine
    from transduce.settings import load_config

    if config is not None and (source or target or pairs):
        raise UserError("--config names the corpora: give it without --source, --target and --pairs")

    def corpus(source: list[Path] | None, target: list[Path] | None) -> Corpus | None:
        return Corpus(tuple(source or ()), tuple(target or ())) if source or target else None

    data = DataConfig() if config is None else load_config(path=config).data
    files = (tuple(source or ()), tuple(target or ()), tuple(pairs or ()))
    with display.progress("reading, bytes:", None) as progress:
        report = examine(
            Corpus(*files) if config is None else training_corpus(data),
            valid=corpus(valid_source, valid_target) or validation_corpus(data),
            test=corpus(test_source, test_target),
            data=data,
            tick=lambda done, total: progress.update(progress.task_ids[0], completed=done, total=total),
        )
    if json_:
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False, indent=2))
    else:
        typer.echo("\n".join(report.lines()))
