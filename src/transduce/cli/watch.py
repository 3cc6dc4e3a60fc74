"""`transduce watch`: a run's curves in the terminal, live."""

from __future__ import annotations

import re
import sys
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from transduce.cli.braille import braille
from transduce.cli.display import describe_report, describe_validation
from transduce.train.progress import Report, Validation
from transduce.train.report_curves import can_draw, linear, logarithmic, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from transduce.train.history import History

SECONDS = 1.0  # between two looks at the log
SILENCE = 60.0  # seconds after which a run is called silent
AXIS = 8  # characters for the numbers left of a curve
TWO_ABREAST = 72  # characters that two curves beside each other need
ROWS = (3, 8)  # of a curve, at least and at most
AROUND = 18  # lines of a frame that are no curve


def watch(
    run: Annotated[Path, typer.Argument(help="Directory of a run, under way or over.", metavar="RUN")],
    once: Annotated[bool, typer.Option("--once", help="Print one frame and leave.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Only write RUN/report.html again.")] = False,
) -> None:
    """Show a run's curves, scores and samples from its log until it ends; Ctrl-C leaves, the run goes on.

    Where stdout is no terminal: one frame, then a line for each report and validation.
    """
    if report:
        from transduce.train.report_page import write_page

        typer.echo(write_page(run))
        return
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # samples hold any character, a terminal may not
    console = Console(highlight=False)
    histories = look(run)
    with suppress(KeyboardInterrupt):
        if once:
            console.print(frame(run, next(histories), console))
        elif console.is_terminal:
            show(run, histories, console)
        else:
            tell(run, histories, console)


def look(run: Path) -> Iterator[History]:
    """The run's history, again and again until it has ended."""
    from transduce.train.history import read_history

    seen, history = _size(run), read_history(run)
    while True:
        yield history
        if history.outcome is not None:
            return
        time.sleep(SECONDS)
        if (size := _size(run)) != seen:
            seen, history = size, read_history(run)


def show(run: Path, histories: Iterator[History], console: Console) -> None:
    """Frames in place."""
    with Live(console=console, auto_refresh=False) as live:
        for history in histories:
            live.update(frame(run, history, console), refresh=True)


def tell(run: Path, histories: Iterator[History], console: Console) -> None:
    """One frame, then what is new, line by line."""
    seen = next(histories)
    console.print(frame(run, seen, console))
    for history in histories:
        told = {(each.step, each.seconds) for each in events(seen)}
        for event in events(history):
            if (event.step, event.seconds) not in told:
                console.print(describe(event), soft_wrap=True, markup=False)
        seen = history
    console.print(headline(seen, time.time()), soft_wrap=True, markup=False)


def events(history: History) -> list[Report | Validation]:
    """Reports and validations in the order of their steps."""
    both: list[Report | Validation] = [*history.reports, *history.validations]
    return sorted(both, key=lambda event: event.step)


def describe(event: Report | Validation) -> str:
    """An event in a line."""
    return describe_report(event) if isinstance(event, Report) else describe_validation(event)


def frame(run: Path, history: History, console: Console) -> RenderableType:
    """All there is to see of a run, as wide as the console."""
    name = printable(run.resolve().name)
    parts: list[RenderableType] = [Text(f"{name}: {headline(history, time.time())}", style="bold")]
    if history.reports:
        parts += [Text(describe(replace(history.reports[-1], remaining=None))), plots(history, console)]
    elif history.messages:
        parts.append(Text(printable(history.messages[-1].text)))
    if history.validations:
        last = history.validations[-1]
        table = Table(show_edge=False, expand=True)
        for heading in ("source", "reference", "translation"):
            table.add_column(heading, ratio=1)
        for sample in last.samples:
            table.add_row(*(Text(printable(side)) for side in (sample.source, sample.reference, sample.translation)))
        parts += [Text(describe(last)), table]
    warnings = [message.text for message in history.messages if message.warning]
    parts += [Text(f"warning: {printable(text)}", style="yellow") for text in warnings[-2:]]
    return Group(*parts)


def headline(history: History, now: float) -> str:
    """What the run is doing, how far it is and when it will be done."""
    if history.outcome is not None:
        way_on = "; `transduce train --resume` goes on" if history.outcome == "interrupted" else ""
        return printable(history.outcome) + way_on
    silent = 0.0 if history.heard is None else now - history.heard
    silence = f"; silent for {_duration(silent)}" if silent > SILENCE else ""
    if not history.reports:
        return f"no report yet{silence}"
    last = history.reports[-1]
    share = "" if last.share is None else f" {last.share:.0%}"
    left = "" if last.remaining is None else f", {_duration(max(0.0, last.remaining - silent))} left"
    return f"training{share}{left}{silence}"


def plots(history: History, console: Console) -> Table:
    """Loss, perplexity, BLEU and speed, two abreast where there is room."""
    perplexity: Sequence[Report | Validation] = history.validations or history.reports
    curves: dict[str, tuple[list[tuple[float, float]], Callable[[float], float]]] = {
        "loss": ([(each.step, each.loss) for each in history.reports], linear),
        f"{'validation ' if history.validations else ''}perplexity": (
            [(each.step, each.perplexity) for each in perplexity],
            logarithmic,
        ),
        "BLEU": ([(each.step, each.bleu) for each in history.validations], linear),
        "tokens/s": ([(each.step, each.tokens_per_second) for each in history.reports], linear),
    }
    abreast = 2 if console.width >= TWO_ABREAST else 1
    width = (console.width - 2 * abreast) // abreast - AXIS
    height = min(max((console.height - AROUND) // 2, ROWS[0]), ROWS[1])
    end = float(history.reports[-1].step)
    drawn = [
        plot(title, points, width=max(width, 8), height=height, end=end, scale=scale)
        for title, (points, scale) in curves.items()
        if points
    ]
    grid = Table.grid(padding=(0, 2))
    for row in range(0, len(drawn), abreast):
        grid.add_row(*drawn[row : row + abreast])
    return grid


def plot(
    title: str,
    points: list[tuple[float, float]],
    *,
    width: int,
    height: int,
    end: float,
    scale: Callable[[float], float],
) -> Text:
    """A curve under its title and last value, its highest and lowest value to its left."""
    lines = braille(points, width=width, height=height, end=end, scale=scale)
    finite = [value for _, value in points if can_draw(value, scale)]
    labels = [""] * height
    if finite:
        labels[0], labels[-1] = short(max(finite)), short(min(finite))
    text = Text(f"{'':{AXIS}}{title} ")
    text.append(short(points[-1][1]), style="bold")
    for label, line in zip(labels, lines, strict=True):
        text.append(f"\n{label:>{AXIS - 1}} ", style="dim")
        text.append(line, style="cyan")
    return text


def printable(text: str) -> str:
    """Text that cannot command the terminal: control characters, escapes and odd line ends become U+FFFD."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", "\ufffd", text)


def _size(run: Path) -> int | None:
    log = run / "log.jsonl"
    return log.stat().st_size if log.is_file() else None


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
