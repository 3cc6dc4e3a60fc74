"""`transduce config`: every setting, resolved or explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from transduce import settings


def config(
    preset: Annotated[str | None, typer.Option(help="Start from this preset.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value.")] = None,
    explain: Annotated[str | None, typer.Option(help="Say what section.key means, and its default.")] = None,
    presets: Annotated[bool, typer.Option("--presets", help="List the presets.")] = False,
) -> None:
    """Print the configuration that these flags give, as TOML."""
    if explain is not None:
        meaning, default = settings.describe(explain)
        typer.echo(f"{explain} (default: {'unset' if default is None else json.dumps(default)})\n{meaning}")
    elif presets:
        typer.echo("\n".join(settings.presets()))
    else:
        typer.echo(settings.load_config(preset=preset, path=config, settings=set_ or []).to_toml(), nl=False)
