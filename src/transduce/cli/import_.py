"""`transduce import`: a model of others as a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.display import Display


def import_(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(help="A MarianMT directory, such as OPUS-MT's.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new directory, for the bundle.")],
) -> None:
    """Make a bundle of a MarianMT model that lies on this machine; it then translates like one of our own.

    Needs config.json, model.safetensors or pytorch_model.bin, source.spm, target.spm and vocab.json. Nothing is
    downloaded, and no code from the directory is run.
    """
    from transduce.cli.export import refuse_existing

    refuse_existing(output)
    from transduce.bundle import open_bundle
    from transduce.decode.conversion import convert_early
    from transduce.interop.marian_import import import_marian

    display: Display = context.obj
    import_marian(directory, output)
    convert_early(open_bundle(output), display.note)
    typer.echo(str(output))
