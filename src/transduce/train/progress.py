"""What a run tells while it goes: reports, validations, notes; and the log that keeps them."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path


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
    """Override what you want to hear of. A listener must not change the run."""

    def note(self, message: str) -> None:
        """A line about what happens."""

    def warn(self, message: str) -> None:
        """A line that the user should read."""

    def report(self, report: Report) -> None:
        """Training went on."""

    def validated(self, validation: Validation) -> None:
        """The model was validated."""

    def saved(self, path: Path, step: int) -> None:
        """A checkpoint was written."""


class Log(Listener):
    """`log.jsonl`: one line an event, for machines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, kind: str, values: dict[str, object]) -> None:
        """Append one event."""
        line = json.dumps({"event": kind, "time": round(time.time(), 3), **values}, ensure_ascii=False)
        with self.path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")

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

    def saved(self, path: Path, step: int) -> None:
        """The checkpoint's name."""
        self.write("checkpoint", {"step": step, "name": path.name})


class Listeners(Listener):
    """Several listeners as one."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners

    def note(self, message: str) -> None:
        """To each."""
        for listener in self.listeners:
            listener.note(message)

    def warn(self, message: str) -> None:
        """To each."""
        for listener in self.listeners:
            listener.warn(message)

    def report(self, report: Report) -> None:
        """To each."""
        for listener in self.listeners:
            listener.report(report)

    def validated(self, validation: Validation) -> None:
        """To each."""
        for listener in self.listeners:
            listener.validated(validation)

    def saved(self, path: Path, step: int) -> None:
        """To each."""
        for listener in self.listeners:
            listener.saved(path, step)
