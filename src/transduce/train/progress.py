"""What a run tells while it goes: reports, validations, notes; and the log that keeps them.

A logger of your own is a `Listener` with a few methods overridden; docs/watching.md shows some.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from transduce.config import Config
from transduce.errors import Interrupted, TransduceError, UserError
from transduce.train.environment import environment


@dataclass(frozen=True)
class Report:
    """Training since the report before; `loss` is smoothed, perplexity is not."""

    step: int
    epoch: int
    loss: float
    perplexity: float
    accuracy: float
    learning_rate: float
    tokens_per_second: float
    seconds: float
    remaining: float | None
    share: float | None
    gradient_norm: float | None = None
    """Of the last update, before clipping; None without train.clip_norm."""


@dataclass(frozen=True)
class Sample:
    """One validation sentence, its reference and what the model says now."""

    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class Validation:
    """How the model does on text it does not train on."""

    step: int
    perplexity: float
    bleu: float
    samples: tuple[Sample, ...]
    seconds: float


class Listener:
    """Override what you want to hear of. A listener must not change the run.

    What it raises does not end the run: it is warned of, and the listener hears no more. A `UserError` does end it.
    """

    def started(self, run: Path, config: Config) -> None:
        """Training begins, or goes on, in this directory; the configuration is resolved."""

    def note(self, message: str) -> None:
        """A line about what happens."""

    def warn(self, message: str) -> None:
        """A line that the user should read."""

    def report(self, report: Report) -> None:
        """Training went on."""

    def validated(self, validation: Validation) -> None:
        """The model was validated."""

    def skipped(self, step: int, culprit: str, lines: list[int]) -> None:
        """An update was left out, as `culprit` was not finite; its pairs came from these lines of the corpus."""

    def saved(self, path: Path, step: int) -> None:
        """A checkpoint was written."""

    def ended(self, outcome: str) -> None:
        """The last event: "finished", "interrupted" or "failed: " and why. A run that is killed cannot tell."""


class Log(Listener):
    """`log.jsonl`: one line an event, for machines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, kind: str, values: dict[str, object]) -> None:
        """Append one event."""
        event = {"event": kind, "time": round(time.time(), 3), **values}
        line = (json.dumps(event, ensure_ascii=False) + "\n").encode()
        try:
            with self.path.open("ab+") as file:
                if file.tell() and not _ends_a_line(file):  # a killed run may leave half a line
                    line = b"\n" + line
                file.write(line)
        except OSError as error:
            raise UserError(f"{self.path}: cannot write {len(line):,} bytes: {error.strerror or error}") from error

    def started(self, run: Path, config: Config) -> None:
        """What the run runs on."""
        self.write("start", {"environment": environment(config.train)})

    def note(self, message: str) -> None:
        """Kept as it is."""
        self.write("note", {"message": message})

    def warn(self, message: str) -> None:
        """Kept as it is."""
        self.write("warning", {"message": message})

    def report(self, report: Report) -> None:
        """All numbers; JSON has no infinity, so one becomes null."""
        self.write("report", {k: v if v is None or math.isfinite(v) else None for k, v in asdict(report).items()})

    def validated(self, validation: Validation) -> None:
        """Scores and samples."""
        finite = validation.perplexity if math.isfinite(validation.perplexity) else None
        self.write("validation", {**asdict(validation), "perplexity": finite})

    def skipped(self, step: int, culprit: str, lines: list[int]) -> None:
        """All the lines."""
        self.write("skipped", {"step": step, "culprit": culprit, "lines": lines})

    def saved(self, path: Path, step: int) -> None:
        """The checkpoint's name."""
        self.write("checkpoint", {"step": step, "name": path.name})

    def ended(self, outcome: str) -> None:
        """How it ended."""
        self.write("end", {"outcome": outcome})


def _ends_a_line(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


class Listeners(Listener):
    """Several listeners as one; one that raises is warned of and left out."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = list(listeners)

    def _tell(self, event: Callable[[Listener], None]) -> None:
        for listener in list(self.listeners):
            try:
                event(listener)
            except TransduceError:
                raise
            except Exception as error:
                self.listeners.remove(listener)
                self.warn(f"{type(listener).__name__} failed and is told no more: {type(error).__name__}: {error}")

    def started(self, run: Path, config: Config) -> None:
        """To each."""
        self._tell(lambda listener: listener.started(run, config))

    def note(self, message: str) -> None:
        """To each."""
        self._tell(lambda listener: listener.note(message))

    def warn(self, message: str) -> None:
        """To each."""
        self._tell(lambda listener: listener.warn(message))

    def report(self, report: Report) -> None:
        """To each."""
        self._tell(lambda listener: listener.report(report))

    def validated(self, validation: Validation) -> None:
        """To each."""
        self._tell(lambda listener: listener.validated(validation))

    def skipped(self, step: int, culprit: str, lines: list[int]) -> None:
        """To each."""
        self._tell(lambda listener: listener.skipped(step, culprit, lines))

    def saved(self, path: Path, step: int) -> None:
        """To each."""
        self._tell(lambda listener: listener.saved(path, step))

    def ended(self, outcome: str) -> None:
        """To each."""
        self._tell(lambda listener: listener.ended(outcome))


@contextmanager
def told(listener: Listener, run: Path, config: Config) -> Iterator[None]:
    """Tell the listener that training starts and, whatever happens inside, how it ended."""
    listener.started(run, config)
    try:
        yield
    except BaseException as error:
        stopped = isinstance(error, Interrupted | KeyboardInterrupt | SystemExit)
        with suppress(UserError):  # of a full disk the first error is the one to read
            listener.ended("interrupted" if stopped else f"failed: {str(error) or type(error).__name__}")
        raise
    listener.ended("finished")
