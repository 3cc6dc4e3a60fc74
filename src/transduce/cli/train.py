"""`transduce train`: two text files to a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import UserError


def train(
    context: typer.Context,
    source: Annotated[
        list[Path] | None, typer.Option(help="Source text, a sentence a line; plain, .gz or .xz.")
    ] = None,
    target: Annotated[list[Path] | None, typer.Option(help="Its translation, line by line.")] = None,
    pairs: Annotated[list[Path] | None, typer.Option(help="Instead: .tsv or .jsonl files with both.")] = None,
    valid_source: Annotated[list[Path] | None, typer.Option(help="Validation source; else 1 % is held out.")] = None,
    valid_target: Annotated[list[Path] | None, typer.Option(help="Validation target.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the run; new or empty.")] = None,
    preset: Annotated[str | None, typer.Option(help="Shape and recipe; else chosen by the size of the corpus.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value; see `transduce config`.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after so much time.")] = None,
    steps: Annotated[int | None, typer.Option(help="Stop after so many updates.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Stop after so many passes over the data.")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Number of subwords.")] = None,
    source_lang: Annotated[str | None, typer.Option(help="Language code; else from the file name.")] = None,
    target_lang: Annotated[str | None, typer.Option(help="Language code; else from the file name.")] = None,
    seed: Annotated[int | None, typer.Option(help="Order of data, first weights and dropout.")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; else one per core.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Any unusable pair is an error.")] = False,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this directory.")] = None,
) -> None:
    """Train a Transformer on pairs of sequences; the result is OUT/model, a bundle.

    Without --minutes, --steps or --epochs it stops when validation stops getting better. Ctrl-C saves;
    --resume goes on.
    """
    display: Display = context.obj
    flags: dict[str, object] = {
        "data.source": source,
        "data.target": target,
        "data.pairs": pairs,
        "data.valid_source": valid_source,
        "data.valid_target": valid_target,
        "data.source_lang": source_lang,
        "data.target_lang": target_lang,
        "data.strict": strict or None,
        "text.vocabulary": vocabulary,
        "train.minutes": minutes,
        "train.steps": steps,
        "train.epochs": epochs,
        "train.seed": seed,
        "train.threads": threads,
        "train.device": device,
    }
    settings = [f"{key}={_toml(value)}" for key, value in flags.items() if value is not None]
    if resume is not None and (settings or preset or config or set_ or out):
        raise UserError("--resume takes its settings from the run: give it alone")
    if resume is None and out is None:
        raise UserError("--out is missing: name a new directory for the run")

    from transduce.trainer import Trainer

    if resume is not None:
        trainer = Trainer.resume(resume, listener=display)
    else:
        assert out is not None
        everything = [*settings, *(set_ or [])]
        trainer = Trainer(out, preset=preset, config=config, settings=everything, listener=display)
    with display.live():
        bundle = trainer.run()
    typer.echo(bundle)


def _toml(value: object) -> str:
    import tomli_w

    plain = [str(each) for each in value] if isinstance(value, list) else value
    return tomli_w.dumps({"value": plain}).partition("=")[2].strip()
