"""What `log.jsonl` tells of a run: the other end of `progress.py:Log`. Half a line, as a kill leaves it, is no line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from transduce.errors import RunError
from transduce.train.progress import Report, Sample, Validation

Stepped = TypeVar("Stepped", Report, Validation)
FIELDS: dict[type, dict[str, str]] = {
    kind: {each.name: str(each.type) for each in fields(kind)} for kind in (Report, Validation)
}


@dataclass(frozen=True)
class Message:
    """A note or a warning, and when."""

    time: float
    text: str
    warning: bool


@dataclass
class History:
    """A run so far; steps only grow, as what was done again after a restart replaces what was lost."""

    reports: list[Report] = field(default_factory=list)
    validations: list[Validation] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    begun: float | None = None
    """Time of the first event."""
    heard: float | None = None
    """Time of the last event."""
    outcome: str | None = None
    """How the run ended; None while it goes, and of one that was killed."""

    def add(self, event: dict[str, Any]) -> None:
        """One line of the log; a ValueError or KeyError if it is not one."""
        time = float(event["time"])
        match event["event"]:
            case "report":
                _append(self.reports, _known(Report, event))
            case "validation":
                samples = tuple(Sample(**sample) for sample in event["samples"])
                _append(self.validations, _known(Validation, {**event, "samples": samples}))
            case "note" | "warning" as kind:
                self.messages.append(Message(time, str(event["message"]), kind == "warning"))
            case "start":
                self.environment = {str(name): str(value) for name, value in event["environment"].items()}
        self.outcome = str(event["outcome"]) if event["event"] == "end" else None
        self.begun, self.heard = time if self.begun is None else self.begun, time


def read_history(run: Path) -> History:
    """The history of a run; an empty one if it has no log yet."""
    check_run(run)
    history = History()
    for event in _events(run / "log.jsonl"):
        try:
            history.add(event)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue  # of another version
    return history


def check_run(run: Path) -> None:
    """Refuse what is not a run."""
    if not run.is_dir():
        raise RunError(f"{run}: no such directory: give the --out of `transduce train`")
    if (run / "manifest.json").exists():
        raise RunError(f"{run}: holds a bundle, which has no log: give the run that it came from")
    if not (run / "config.toml").is_file():
        raise RunError(f"{run}: no config.toml: not a run; start one with `transduce train --out DIRECTORY`")


def _events(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                event = json.loads(line)
            except ValueError:  # half a line, or bytes that are not UTF-8
                continue
            if isinstance(event, dict):
                yield event


def _known(kind: type[Stepped], event: dict[str, Any]) -> Stepped:
    """The event as its class; a number that JSON could not hold comes back as NaN."""
    values = {name: event[name] for name in FIELDS[kind] if name in event}
    lost = {name: math.nan for name, value in values.items() if value is None and "None" not in FIELDS[kind][name]}
    return kind(**values | lost)


def _append(past: list[Stepped], new: Stepped) -> None:
    while past and past[-1].step >= new.step:
        past.pop()
    past.append(new)
