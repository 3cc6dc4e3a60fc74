"""What the command lines of the scripts have in common."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from transduce.cli.display import Display
from transduce.errors import Interrupted, UserError
from transduce.paper.study import shared_data
from transduce.train.progress import Listener

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Order:
    """What a script is asked for."""

    work: Path
    """Where trainings are kept; what is there is gone on with."""
    tried: tuple[str, ...] = ()
    """Settings of a trial: then only validation is scored, and nothing is published."""
    data: Path = field(default_factory=shared_data)
    results: Path = RESULTS
    listener: Listener = field(default_factory=Listener)


def obey(description: str | None, publish: Callable[[Order], None]) -> None:
    """Do what the command line asks for; a signal ends it with everything saved."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--work", type=Path, required=True, help="where trainings are kept, outside of the checkout")
    options.add_argument(
        "--set",
        dest="tried",
        metavar="SECTION.KEY=VALUE",
        action="append",
        default=[],
        help="try another setting: only validation is scored, and nothing is published",
    )
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    display = Display(Console(stderr=True, highlight=False))
    try:
        publish(Order(given.work, tuple(given.tried), listener=display))
    except Interrupted as interruption:
        sys.exit(interruption.exit_code)
    except UserError as error:
        sys.exit(f"error: {error}")
