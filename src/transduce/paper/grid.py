"""A grid of trainings: a process for each core, what is finished stays, what fails is told while the others go on.

A task's run is DIRECTORY/KEY and its numbers are DIRECTORY/KEY.json. The key is its name and a hash of all that it was
asked for, so that a task that is asked for otherwise is another task. This file imports no torch: tasks do.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Protocol

from transduce.errors import Interrupted, RunError
from transduce.files import write_file, write_json
from transduce.train.history import read_history
from transduce.train.progress import Listener

Numbers = dict[str, Any]
NOTE_SECONDS = 60.0


class Task(Protocol):
    """A frozen dataclass that can be pickled; its `repr` says all that its numbers depend on."""

    @property
    def name(self) -> str:
        """What to call it."""
        ...

    @property
    def work(self) -> float:
        """How long it takes, relative to others."""
        ...

    def run(self, out: Path, listener: Listener) -> Numbers:
        """Train in `out`, or go on with what is there; what comes of it, as JSON can hold it."""
        ...


@dataclass(frozen=True)
class Failure:
    """Why a task has no numbers; the next start tries it again."""

    message: str


Outcome = Numbers | Failure


def run_grid(tasks: Sequence[Task], directory: Path, listener: Listener, *, processes: int) -> dict[str, Outcome]:
    """What came of each task, by its name. One process is this one; more are started, each with a task at a time."""
    directory.mkdir(parents=True, exist_ok=True)
    left = sorted((task for task in tasks if not _numbers_of(task, directory).is_file()), key=lambda task: -task.work)
    if len(left) < len(tasks):
        listener.note(f"{directory}: {len(tasks) - len(left)} of {len(tasks)} trainings are done: they stay")
    for task in left:
        _failure_of(task, directory).unlink(missing_ok=True)  # it is tried again: nothing of it is done
    grid = _Grid(left, directory, listener)
    try:
        if processes == 1:
            grid.one_by_one()
        else:
            grid.side_by_side(processes)
    except (KeyboardInterrupt, Interrupted) as stop:
        code = stop.exit_code if isinstance(stop, Interrupted) else 128 + signal.SIGINT
        message = f"stopped: {directory} holds what is done; the same command goes on from there"
        raise Interrupted(message, exit_code=code) from None
    return {task.name: _outcome(task, directory) for task in tasks}


def cores() -> int:
    """Processes of one thread that this machine is for; with a GPU one, which has it to itself."""
    import torch

    return 1 if torch.cuda.is_available() else torch.get_num_threads()


def own_cores(processes: int) -> list[int | None]:
    """One for each process, if there are just as many, so that none takes another's time; else None: any of them."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    return list(usable) if len(usable) == processes else [None] * processes


def key(task: Task) -> str:
    """The name of a task's files."""
    return f"{re.sub(r'[^a-zA-Z0-9_.=]+', '-', task.name)}-{hashlib.sha256(repr(task).encode()).hexdigest()[:8]}"


def complete(task: Task, directory: Path, listener: Listener) -> None:
    """Run a task and write its numbers, or why there are none."""
    try:
        numbers = task.run(directory / key(task), listener)
    except Interrupted:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        write_file(_failure_of(task, directory), f"{reason}\n\n{traceback.format_exc()}".encode())
    else:
        write_json(_numbers_of(task, directory), numbers)


class _Grid:
    """The tasks that are left, and how fast they go."""

    def __init__(self, tasks: Sequence[Task], directory: Path, listener: Listener) -> None:
        self.tasks, self.directory, self.listener = tasks, directory, listener
        self.started, self.at_start = time.monotonic(), self.progress()

    def one_by_one(self) -> None:
        for task in self.tasks:
            self.listener.note(f"{task.name}: training in {self.directory / key(task)}")
            complete(task, self.directory, self.listener)
            self.tell(task)

    def side_by_side(self, processes: int) -> None:
        """Whatever ends this, also ends the processes; they save what they have."""
        context = multiprocessing.get_context("spawn")
        waiting, free = deque(self.tasks), own_cores(processes)
        running: dict[int, tuple[Task, SpawnProcess, int | None]] = {}
        try:
            while waiting or running:
                while waiting and free:
                    task, core = waiting.popleft(), free.pop()
                    process = context.Process(target=_work, args=(task, self.directory, core), daemon=True)
                    process.start()
                    running[process.sentinel] = (task, process, core)
                ended = wait(list(running), timeout=NOTE_SECONDS)
                for sentinel in ended:
                    assert isinstance(sentinel, int)
                    task, process, core = running.pop(sentinel)
                    free.append(core)
                    process.join()
                    self.tell(task, process.exitcode)
                if not ended:
                    self.listener.note(f"{', '.join(task.name for task, *_ in running.values())}: {self.to_go()}")
        finally:
            for _, process, _ in running.values():
                process.terminate()
            for _, process, _ in running.values():
                process.join()

    def tell(self, task: Task, exit_code: int | None = 0) -> None:
        """Note what came of a task; a process that was killed could not write why."""
        files = (_numbers_of(task, self.directory), _failure_of(task, self.directory))
        if not any(file.is_file() for file in files):
            write_file(files[1], f"its process ended with exit code {exit_code}\n".encode())
        outcome = _outcome(task, self.directory)
        if isinstance(outcome, Failure):
            self.listener.warn(f"{task.name}: failed: {outcome.message}")
        done = sum(_numbers_of(each, self.directory).is_file() for each in self.tasks)
        self.listener.note(f"{task.name}: ended; {done} of {len(self.tasks)} done; {self.to_go()}")

    def progress(self) -> float:
        """Work that is done, in units of `Task.work`."""
        return sum(task.work * _share(task, self.directory) for task in self.tasks)

    def to_go(self) -> str:
        """When the rest will be done, if it goes on as since the start."""
        now = self.progress()
        if now <= self.at_start:
            return "time to go not yet known"
        pace = (now - self.at_start) / (time.monotonic() - self.started)
        left = sum(task.work for task in self.tasks) - now
        return f"about {timedelta(seconds=round(left / pace))} to go"


def _work(task: Task, directory: Path, core: int | None) -> None:
    """The life of a process: it hears of Ctrl-C from the process that started it, not from the terminal as well."""
    if os.name == "posix":
        os.setsid()
    if core is not None:
        _stay_on(core)
    threading.Thread(target=_outlive_nobody, daemon=True).start()
    try:
        complete(task, directory, Listener())
    except Interrupted as interruption:
        sys.exit(interruption.exit_code)


def _stay_on(core: int) -> None:
    """Let this process and what it will start have one core; a torch that the task brought counted more of them."""
    os.sched_setaffinity(0, {core})
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


def _outlive_nobody() -> None:
    """When the process that started this one is gone, even killed, stop as if it had said so."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _share(task: Task, directory: Path) -> float:
    """How much of a task is done, 0 to 1."""
    if any(file.is_file() for file in (_numbers_of(task, directory), _failure_of(task, directory))):
        return 1.0
    try:
        reports = read_history(directory / key(task)).reports
    except RunError:
        return 0.0
    return (reports[-1].share or 0.0) if reports else 0.0


def _outcome(task: Task, directory: Path) -> Outcome:
    if _numbers_of(task, directory).is_file():
        numbers: Numbers = json.loads(_numbers_of(task, directory).read_text(encoding="utf-8"))
        return numbers
    return Failure(_failure_of(task, directory).read_text(encoding="utf-8").partition("\n")[0])


def _numbers_of(task: Task, directory: Path) -> Path:
    return directory / f"{key(task)}.json"


def _failure_of(task: Task, directory: Path) -> Path:
    return directory / f"{key(task)}.failed"
