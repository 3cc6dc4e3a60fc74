"""A run that is killed again and again and resumed must end with the weights of one that never was."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from transduce.bundle import WEIGHTS, read_weights, weights_digest
from transduce.config import Config
from transduce.data.preparation import RECORD
from transduce.errors import RunError
from transduce.files import write_file, write_json
from transduce.settings import make_config, read_toml
from transduce.train.beginning import keep_given
from transduce.train.state import OPTIMIZER, checkpoints

SAVES = 20
"""In a rehearsal: many, so that kills fall into saves too."""
VALIDATION = 20
"""Sentences of a rehearsal's validation: it is the validating that must not matter, not its score."""
STEPS, KILLS = 40, 5
"""What is tried when nothing else is asked for."""
STARTING, SAVING, POLL = 3.0, 0.02, 0.002
"""Seconds: how long a start and a save of a small model may take, and between two looks at a run."""


@dataclass(frozen=True)
class Ending:
    """The digests of a run's model and of its last checkpoint's weights and optimiser."""

    model: str
    weights: str
    optimizer: str


@dataclass(frozen=True)
class Resumed:
    """Two runs of one configuration, one of them killed."""

    steps: int
    kills: int
    in_saves: int
    """Kills that left a half-written checkpoint behind."""
    damaged: int
    """Checkpoints that the killed run had to set aside: none, or more than what was not yet saved was lost."""
    unbroken: Ending
    broken: Ending

    @property
    def holds(self) -> bool:
        """Whether both ended with the same numbers, and no kill cost a checkpoint."""
        return self.unbroken == self.broken and not self.damaged


def check_resume(run: Path, *, steps: int, kills: int, note: Callable[[str], None], seed: int | None = None) -> Resumed:
    """Train `steps` updates twice with the configuration and the data of `run`, which is not touched."""
    with TemporaryDirectory(prefix="transduce-verify-") as directory:
        unbroken, broken = Path(directory) / "unbroken", Path(directory) / "broken"
        for each in (unbroken, broken):
            rehearse(run, each, steps=steps)
        note(f"training {steps:,} steps without a break")
        started = time.monotonic()
        _finish(unbroken)
        interval = (time.monotonic() - started) / SAVES
        note(f"training them again, killed {kills} times")
        generator, in_saves, done = random.Random(seed), 0, 0
        while done < kills and kill_once(broken, generator, interval=interval):
            done += 1
            in_saves += left_half_a_save(broken)
        _finish(broken)
        damaged = len(list((broken / "checkpoints").glob("damaged-*")))
        return Resumed(steps, done, in_saves, damaged, ending(unbroken), ending(broken))


def rehearse(run: Path, directory: Path, *, steps: int) -> Config:
    """A new run in `directory` with the configuration and the prepared data of `run`, for `train --resume` to begin."""
    path = run / "config.toml"
    if not (path.is_file() and (run / RECORD).is_file()):
        raise RunError(f"{run}: no config.toml and {RECORD}: give a run that has begun to train")
    config = make_config(read_toml(path), where=str(path))
    try:
        record = json.loads((run / RECORD).read_text(encoding="utf-8"))
    except ValueError:
        raise RunError(f"{run / RECORD}: damaged: start again with another --out") from None
    budget = {"steps": steps, "epochs": None, "minutes": None, "patience": None, "start": None}
    intervals = {"save_every": max(1, steps // SAVES), "validate_every": max(1, steps // 4)}
    train = config.train.model_copy(update=budget | intervals)
    config = config.model_copy(update={"train": train})
    record["directory"] = str((run / record["directory"]).absolute())
    record["validation"] = record["validation"][:VALIDATION]
    directory.mkdir(parents=True)
    write_file(directory / "config.toml", config.to_toml().encode())
    write_json(directory / RECORD, record)
    keep_given(directory, ())  # what a budget decides is open, as in a run that was killed before it was measured
    return config


def kill_once(run: Path, generator: random.Random, *, interval: float) -> bool:
    """Go on with a run and `kill -9` it; False if it came to its end first.

    One in five dies while it is still starting. The others live until they have saved once, so that the run gets
    somewhere; half of those die inside the next save, the rest within `interval` seconds.
    """
    before, chance = _saved(run), generator.random()
    with _resuming(run) as process:
        try:
            if chance < 0.2:
                lives = _lives_until(process, _after(generator.uniform(0, STARTING)))
            else:
                lives = _lives_until(process, lambda: not _saved(run) <= before)
                if chance < 0.6:
                    lives = lives and _lives_until(process, lambda: left_half_a_save(run))
                    interval = SAVING
                lives = lives and _lives_until(process, _after(generator.uniform(0, interval)))
        finally:
            process.kill()
        if lives:
            process.wait()
        else:
            _refuse_failure(run, process)
        return lives


def _lives_until(process: subprocess.Popen[bytes], reached: Callable[[], bool]) -> bool:
    """Wait until something is so; False if the process ends first."""
    while not reached():
        if process.poll() is not None:
            return False
        time.sleep(POLL)
    return True


def _after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def left_half_a_save(run: Path) -> bool:
    """Whether a kill fell between the first byte of a checkpoint and its appearance."""
    return any((run / "checkpoints").glob(".step-*.tmp"))


def ending(run: Path) -> Ending:
    """The digests of a run that is done."""
    last = checkpoints(run / "checkpoints")[-1]
    files = run / "model" / WEIGHTS, last / WEIGHTS, last / OPTIMIZER
    return Ending(*(weights_digest(read_weights(file)) for file in files))


def _saved(run: Path) -> set[str]:
    """Names of the checkpoints that there are."""
    return {path.name for path in (run / "checkpoints").glob("step-*")}


def _finish(run: Path) -> None:
    with _resuming(run) as process:
        try:
            _refuse_failure(run, process)
        finally:
            process.kill()


def _resuming(run: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "transduce", "--quiet", "train", "--resume", str(run)]
    with (run / "stderr").open("wb") as errors:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)


def _refuse_failure(run: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait for the end; if it is not a good one, say what the command said."""
    if process.wait():
        said = (run / "stderr").read_text(encoding="utf-8", errors="replace").strip().split("\n")[-1]
        raise RunError(f"{run.name} run: exit code {process.returncode}: {said}")
