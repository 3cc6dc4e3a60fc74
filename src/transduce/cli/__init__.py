"""The command. A user's mistake is one line on stderr and exit code 2; stdout carries results only.

| exit code | meaning |
|---|---|
| 0 | done; also when the reader of a pipe went away |
| 1 | a bug of ours, with a traceback; or `verify` found what should not be |
| 2 | a mistake of the user's, or a refusal of the machine's such as a full disk, with the way out |
| 130 | SIGINT (Ctrl-C), after saving |
| 143 | SIGTERM, after saving |
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from itertools import takewhile
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from transduce.cli import (
    attend,
    backtranslate,
    config,
    demo,
    distill,
    doctor,
    evaluate,
    explain,
    export,
    import_,
    paper,
    parse,
    plan,
    score,
    serve,
    train,
    translate,
    verify,
    watch,
)
from transduce.cli.display import Display
from transduce.errors import Interrupted, UserError
from transduce.version import __version__

app = typer.Typer(
    name="transduce",
    help="The Transformer of 'Attention Is All You Need': train, translate, measure.",
    epilog="Example: transduce train --source a.en --target a.de --out run/; transduce translate run/ < in > out",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog="Example: transduce demo")(demo.demo)
app.command(epilog="Example: transduce doctor --source train.en.gz --target train.de.gz")(doctor.doctor)
app.command(epilog="Example: transduce train --source train.en --target train.de --minutes 20 --out run/")(train.train)
app.command(epilog="Example: transduce distill run/ --source train.en --out student/")(distill.distill)
app.command(epilog="Example: transduce backtranslate de-en/ news.de -o news.en-de.tsv")(backtranslate.backtranslate)
app.command(epilog="Example: transduce watch run/; transduce watch run/ --once")(watch.watch)
app.command(epilog="Example: transduce translate run/ < in.en > out.de")(translate.translate)
app.command(epilog="Example: transduce evaluate run/ --source test.en --reference test.de")(evaluate.evaluate)
app.command(epilog="Example: transduce score run/ --source test.en --target test.de")(score.score)
app.command(epilog="Example: transduce export run/ --to ctranslate2 -o model-ct2/")(export.export)
app.command(name="import", epilog="Example: transduce import opus-mt-en-de/ -o en-de/")(import_.import_)
app.command(epilog="Example: transduce parse run/ < sentences > trees")(parse.parse)
app.command(epilog="Example: transduce serve run/; transduce serve --pair en-de=run/ --port 8080")(serve.serve)
app.command(epilog='Example: transduce attend run/ "The dog sees the cat." -o heads.svg')(attend.attend)
app.command(epilog='Example: transduce explain run/ "The dog sees the cat."')(explain.explain)
app.command(epilog="Example: transduce paper table1 figure1")(paper.paper)
app.command(epilog="Example: transduce plan --preset wmt14-en-de --gpu A100 --gpus 8")(plan.plan)
app.command(epilog="Example: transduce verify run/; transduce verify resume run/ --steps 40")(verify.verify)
app.command(epilog="Example: transduce config --preset tiny --set train.minutes=20")(config.config)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"transduce {__version__}")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors on stderr.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Sample translations, and tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The Transformer of 'Attention Is All You Need': train, translate, measure."""
    context.obj = Display(Console(stderr=True, highlight=False), quiet=quiet, verbose=verbose)


def main() -> None:
    """Run the command and turn what went wrong into the exit code."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        app(prog_name="transduce")  # also for `python -m transduce`
    except Interrupted as interruption:
        typer.echo(f"transduce: {interruption}", err=True)
        sys.exit(interruption.exit_code)
    except UserError as error:
        _refuse(str(error))
    except OSError as error:  # the machine's refusal, such as a full disk
        _refuse(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))
    except SystemExit as end:
        # typer and rich answer a broken pipe by exit code 1, but a reader that has seen enough is no failure
        if isinstance(end.__context__, BrokenPipeError):
            _let_go_of_pipes()
            sys.exit(0)
        raise


def _refuse(message: str) -> NoReturn:
    """One line on stderr, with --verbose below the traceback, and exit code 2."""
    flags = list(takewhile(lambda argument: argument.startswith("-"), sys.argv[1:]))
    if "--verbose" in flags or "-v" in flags:
        traceback.print_exc()
    typer.echo("transduce: " + message.replace("\n", " "), err=True)
    sys.exit(2)


def _let_go_of_pipes() -> None:
    """What is still buffered must not be flushed to a reader that went away."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
