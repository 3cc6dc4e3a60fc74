"""Tasks for a grid that need no torch, so that a process for each starts soon."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import Interrupted, UserError
from transduce.paper.grid import Numbers
from transduce.train.progress import Listener
from transduce.train.signals import Signals


@dataclass(frozen=True)
class Counted:
    """Leaves a line in a file for each time that it is run."""

    name: str
    value: int = 1
    work: float = 1.0

    def run(self, out: Path, listener: Listener) -> Numbers:
        with (out.parent / "runs").open("a", encoding="utf-8") as file:
            file.write(f"{self.name}\n")
        return {"value": self.value}


@dataclass(frozen=True)
class Placed(Counted):
    """Tells which cores it may use, once another task has begun too."""

    def run(self, out: Path, listener: Listener) -> Numbers:
        super().run(out, listener)
        begun, deadline = out.parent / "runs", time.monotonic() + 60
        while begun.read_text(encoding="utf-8").count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        return {"cores": sorted(os.sched_getaffinity(0))}


@dataclass(frozen=True)
class Refused(Counted):
    """Fails until there is a file that mends it."""

    def run(self, out: Path, listener: Listener) -> Numbers:
        if not (out.parent / "mended").is_file():
            raise UserError("it is broken: mend it")
        return super().run(out, listener)


@dataclass(frozen=True)
class Killed(Counted):
    """Its process ends without a word."""

    def run(self, out: Path, listener: Listener) -> Numbers:
        os._exit(3)


@dataclass(frozen=True)
class Endless(Counted):
    """Works until a signal comes, then saves, as training does."""

    def run(self, out: Path, listener: Listener) -> Numbers:
        with Signals(listener) as signals:
            (out.parent / "begun").touch()
            while signals.number is None:
                time.sleep(0.05)
        (out.parent / "saved").touch()
        raise Interrupted("saved", exit_code=128 + signals.number)
