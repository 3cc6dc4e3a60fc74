"""What a person sees on stderr: live numbers in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from transduce.train.progress import Listener, Report, Validation

if TYPE_CHECKING:
    from pathlib import Path


class Display(Listener):
    """A listener to a run, and the voice of every command."""

    def __init__(self, console: Console, *, quiet: bool = False, verbose: bool = False) -> None:
        self.console, self.quiet, self.verbose = console, quiet, verbose
        self._live: Live | None = None
        self._report: Report | None = None
        self._validation: Validation | None = None

    def note(self, message: str) -> None:
        """A line about what happens."""
        if not self.quiet:
            self.console.print(escape(message), soft_wrap=True)

    def aside(self, message: str) -> None:
        """A line for a person who watches: on a terminal, or with --verbose."""
        if self.verbose or self.console.is_terminal:
            self.note(message)

    def warn(self, message: str) -> None:
        """A line that is shown even with --quiet."""
        self.console.print(f"[yellow]warning:[/yellow] {escape(message)}", soft_wrap=True)

    def report(self, report: Report) -> None:
        """Training went on."""
        self._report = report
        if self._live is not None:
            self._live.update(self._panel())
        else:
            self.note(describe_report(report))

    def validated(self, validation: Validation) -> None:
        """The model was validated."""
        self._validation = validation
        if self._live is not None:
            self._live.update(self._panel())
        else:
            self.note(describe_validation(validation))
            if self.verbose:
                for sample in validation.samples:
                    self.note(f"    {sample.source}\n    = {sample.reference}\n    > {sample.translation}")

    def saved(self, path: Path, step: int) -> None:
        """A checkpoint was written; only --verbose tells."""
        if self.verbose:
            self.note(f"saved {path.name}")

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show reports in place while this is open, if stderr is a terminal."""
        if self.quiet or not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, refresh_per_second=4, transient=False) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Progress]:
        """A bar for work that is counted: `progress.update(0, completed=n)`."""
        columns = (TextColumn(label), BarColumn(), TextColumn("{task.completed:,}"), TimeRemainingColumn())
        hidden = self.quiet or not self.console.is_terminal
        with Progress(*columns, console=self.console, transient=True, disable=hidden) as progress:
            progress.add_task(label, total=total)
            yield progress

    def _panel(self) -> Group:
        parts: list[Text | Table | str] = []
        if self._report is not None:
            parts.append(Text(describe_report(self._report)))
        if self._validation is not None:
            parts.append(Text(describe_validation(self._validation)))
            table = Table(show_edge=False, expand=True)
            for heading in ("source", "reference", "translation"):
                table.add_column(heading, ratio=1)
            for sample in self._validation.samples:
                table.add_row(escape(sample.source), escape(sample.reference), escape(sample.translation))
            parts.append(table)
        return Group(*parts)


def describe_report(report: Report) -> str:
    """A report in a line."""
    left = "" if report.remaining is None else f"  {timedelta(seconds=round(report.remaining))} left"
    return (
        f"step {report.step:,}  epoch {report.epoch + 1}  loss {report.loss:.3f}  ppl {report.perplexity:.2f}  "
        f"lr {report.learning_rate:.2e}  {report.tokens_per_second:,.0f} tokens/s{left}"
    )


def describe_validation(validation: Validation) -> str:
    """A validation in a line."""
    return (
        f"step {validation.step:,}  validation ppl {validation.perplexity:.2f}  BLEU {validation.bleu:.2f}  "
        f"({validation.seconds:.1f} s)"
    )
