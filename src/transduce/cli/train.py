"""`transduce train`: two text files to a bundle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import Interrupted, UserError
from transduce.train.progress import Listener

if TYPE_CHECKING:
    from transduce.train.world import World
    from transduce.trainer import Trainer

Steps = Annotated[int | None, typer.Option(help="Stop after so many updates.")]
Epochs = Annotated[int | None, typer.Option(help="Stop after so many passes over the data.")]
Minutes = Annotated[float | None, typer.Option(help="Stop training after so much time.")]
Vocabulary = Annotated[int | None, typer.Option(help="Number of subwords.")]
Seed = Annotated[int | None, typer.Option(help="Order of data, first weights and dropout.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads of training; else one per core.")]
Device = Annotated[str | None, typer.Option(help="Where to train: auto, cpu, cuda or mps.")]
"""Options of every command that trains."""


def train(
    context: typer.Context,
    source: Annotated[
        list[Path] | None, typer.Option(help="Source text, a sentence a line; plain, .gz or .xz.")
    ] = None,
    target: Annotated[list[Path] | None, typer.Option(help="Its translation, line by line.")] = None,
    pairs: Annotated[list[Path] | None, typer.Option(help="Instead: .tsv or .jsonl files with both.")] = None,
    trees: Annotated[
        list[Path] | None, typer.Option(help="Instead: .trees files, a tree a line; makes a parser of words.")
    ] = None,
    valid_source: Annotated[list[Path] | None, typer.Option(help="Validation source; else pairs are held out.")] = None,
    valid_target: Annotated[list[Path] | None, typer.Option(help="Validation target.")] = None,
    valid_pairs: Annotated[list[Path] | None, typer.Option(help="Instead: .tsv or .jsonl files with both.")] = None,
    valid_trees: Annotated[list[Path] | None, typer.Option(help="Validation trees.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the run; new or empty.")] = None,
    from_: Annotated[
        Path | None, typer.Option("--from", help="Start from this run's or bundle's weights and vocabulary.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Shape and recipe; else chosen by corpus and time.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value; see `transduce config`.")] = None,
    minutes: Minutes = None,
    steps: Steps = None,
    epochs: Epochs = None,
    vocabulary: Vocabulary = None,
    source_lang: Annotated[str | None, typer.Option(help="Language code; else from the file name.")] = None,
    target_lang: Annotated[str | None, typer.Option(help="Language code; else from the file name.")] = None,
    seed: Seed = None,
    threads: Threads = None,
    device: Device = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's events too.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Any unusable pair is an error.")] = False,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this directory.")] = None,
    more: Annotated[int | None, typer.Option(help="With --resume: so many updates beyond its end.")] = None,
) -> None:
    """Train a Transformer on pairs of sequences; the result is OUT/model, a bundle.

    Without --minutes, --steps or --epochs it stops when validation stops getting better. Ctrl-C saves;
    --resume goes on, --resume RUN --more N for N updates beyond the run's end.

    --from MODEL trains a model further on other pairs: transduce train --from run/ --source own.en --target own.de
    --out own/ ...; its shape and vocabulary stay, and the learning rate warms up again.

    On several GPUs or machines: torchrun --nproc-per-node 8 -m transduce train ...
    """
    display: Display = context.obj
    flags: dict[str, object] = {
        "data.source": source,
        "data.target": target,
        "data.pairs": [*(pairs or ()), *(trees or ())] or None,
        "data.valid_source": valid_source,
        "data.valid_target": valid_target,
        "data.valid_pairs": [*(valid_pairs or ()), *(valid_trees or ())] or None,
        "data.source_lang": source_lang,
        "data.target_lang": target_lang,
        "data.strict": strict or None,
        "text.vocabulary": vocabulary,
        "train.start": None if from_ is None else str(from_),
        "train.minutes": minutes,
        "train.steps": steps,
        "train.epochs": epochs,
        "train.seed": seed,
        "train.threads": threads,
        "train.device": device,
        "train.tensorboard": tensorboard or None,
    }
    settings = settings_of(flags)
    others = len(settings) > (steps is not None) or preset or config or set_ or out
    _refuse(resume is not None, out is not None, others=bool(others), steps=steps is not None, more=more is not None)

    from transduce.train.world import restarted
    from transduce.trainer import Trainer

    if restarted():  # by torchrun: what the command asks for has begun
        more = None
        if out is not None and (out / "config.toml").is_file():
            resume, steps = out, None

    def make(listener: Listener, world: World) -> Trainer:
        if resume is not None:
            return Trainer.resume(resume, more=more, steps=steps, listener=listener, world=world)
        assert out is not None
        everything = [*settings, *(set_ or [])]
        return Trainer(out, preset=preset, config=config, settings=everything, listener=listener, world=world)

    run_trainer(make, display)


def _refuse(resume: bool, out: bool, *, others: bool, steps: bool, more: bool) -> None:
    """Options that do not go together, by which of them were given."""
    if resume and (others or (steps and more)):
        raise UserError("--resume takes its settings from the run: give it alone, or with --more N or --steps N")
    if more and not resume:
        raise UserError("--more goes on with a run: name it by --resume RUN")
    if not resume and not out:
        raise UserError("--out is missing: name a new directory for the run")


def settings_of(flags: dict[str, object]) -> list[str]:
    """`section.key=value` for each flag that was given."""
    return [f"{key}={_toml(value)}" for key, value in flags.items() if value is not None]


def run_trainer(make: Callable[[Listener, World], Trainer], display: Display) -> None:
    """Train, alone or as one of the processes that torchrun started; the first of them speaks."""
    from transduce.train.world import joined

    with joined() as world:
        trainer = make(display if world.first else Listener(), world)
        with display.live() if world.first else nullcontext():
            try:
                bundle = trainer.run()
            except Interrupted as interruption:
                if world.first:
                    raise
                raise SystemExit(interruption.exit_code) from None
        if world.first:
            typer.echo(bundle)


def _toml(value: object) -> str:
    import tomli_w

    plain = [str(each) for each in value] if isinstance(value, list) else value
    return tomli_w.dumps({"value": plain}).partition("=")[2].strip()
