"""A grid of trainings: what is done stays, what fails is told, and what is interrupted goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from grid_tasks import Counted, Killed, Placed, Refused
from transduce.errors import Interrupted
from transduce.paper.grid import Failure, Numbers, key, own_cores, run_grid
from transduce.paper.training import Training, cost
from transduce.train.progress import Listener
from trials import SMALL


@dataclass(frozen=True)
class Trained:
    """A real training, very small."""

    name: str
    training: Training

    @property
    def work(self) -> float:
        return self.training.work

    def run(self, out: Path, listener: Listener) -> Numbers:
        return cost(self.training.run(out, listener), out)


class Notes(Listener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)

    def warn(self, message: str) -> None:
        self.notes.append(f"warning: {message}")


def runs(directory: Path) -> list[str]:
    path = directory / "runs"
    return path.read_text(encoding="utf-8").split() if path.is_file() else []


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(2400):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("waited for two minutes")


def test_finished_tasks_are_not_run_again(tmp_path: Path) -> None:
    tasks = [Counted("a"), Counted("b", 2)]
    first = run_grid(tasks, tmp_path, Listener(), processes=1)
    assert first == {"a": {"value": 1}, "b": {"value": 2}}
    assert run_grid(tasks, tmp_path, Listener(), processes=1) == first
    assert runs(tmp_path) == ["a", "b"]


def test_a_task_that_is_asked_for_otherwise_is_another_task(tmp_path: Path) -> None:
    run_grid([Counted("a", 1)], tmp_path, Listener(), processes=1)
    assert run_grid([Counted("a", 2)], tmp_path, Listener(), processes=1) == {"a": {"value": 2}}
    assert key(Counted("a", 1)) != key(Counted("a", 2))


def test_the_longest_is_begun_first(tmp_path: Path) -> None:
    run_grid(
        [Counted("short"), Counted("long", work=5.0), Counted("middle", work=2.0)], tmp_path, Listener(), processes=1
    )
    assert runs(tmp_path) == ["long", "middle", "short"]


def test_a_failure_is_told_while_the_others_go_on_and_the_next_start_tries_again(tmp_path: Path) -> None:
    tasks = [Refused("first", work=2.0), Counted("second")]
    notes = Notes()
    outcomes = run_grid(tasks, tmp_path, notes, processes=1)
    assert outcomes == {"first": Failure("it is broken: mend it"), "second": {"value": 1}}
    assert "warning: first: failed: it is broken: mend it" in notes.notes
    (tmp_path / "mended").touch()
    assert run_grid(tasks, tmp_path, Listener(), processes=1)["first"] == {"value": 1}
    assert runs(tmp_path) == ["second", "first"]


def test_what_failed_before_counts_as_work_to_do(tmp_path: Path) -> None:
    tasks = [Refused("a"), Refused("b"), Refused("c")]
    run_grid(tasks, tmp_path, Listener(), processes=1)
    (tmp_path / "mended").touch()
    notes = Notes()
    run_grid(tasks, tmp_path, notes, processes=1)
    ended = [note for note in notes.notes if ": ended; " in note]
    assert ["not yet known" in note for note in ended] == [False, False, False]
    assert "about 0:00:00 to go" in ended[-1]
    assert not list(tmp_path.glob("*.failed"))


def test_side_by_side_every_task_has_a_process_that_may_fail_or_die(tmp_path: Path) -> None:
    tasks = [Counted("counted"), Refused("refused"), Killed("killed")]
    assert run_grid(tasks, tmp_path, Listener(), processes=3) == {
        "counted": {"value": 1},
        "refused": Failure("it is broken: mend it"),
        "killed": Failure("its process ended with exit code 3"),
    }


@pytest.fixture
def two_cores() -> Iterator[None]:
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if len(usable) < 2:
        pytest.skip("fewer than two cores, or they cannot be chosen")
    os.sched_setaffinity(0, set(sorted(usable)[:2]))
    yield
    os.sched_setaffinity(0, usable)


@pytest.mark.usefixtures("two_cores")
def test_side_by_side_every_process_has_a_core_of_its_own(tmp_path: Path) -> None:
    assert own_cores(1) == [None], "one of two may be another's"
    found = run_grid([Placed("one"), Placed("other")], tmp_path, Listener(), processes=2)
    cores = [set(found[name]["cores"]) for name in ("one", "other")]  # type: ignore[index]
    assert [len(each) for each in cores] == [1, 1]
    assert cores[0] != cores[1]


SCRIPT = """
import signal
import sys
from pathlib import Path
from grid_tasks import Endless
from transduce.paper.grid import run_grid
from transduce.train.progress import Listener
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started deaf to it
    run_grid([Endless("endless")], Path(sys.argv[1]), Listener(), processes=2)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_when_the_grid_is_stopped_or_killed_its_processes_save_and_end(tmp_path: Path, number: int) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, str(path), str(tmp_path)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as grid:
        try:
            wait_for((tmp_path / "begun").is_file)
            grid.send_signal(number)
            _, errors = grid.communicate(timeout=120)
            wait_for((tmp_path / "saved").is_file)
        finally:
            grid.kill()
    if number == signal.SIGINT:
        assert b"Interrupted: stopped: " in errors
        assert b"the same command goes on from there" in errors
    else:
        assert grid.returncode == -number


class Interrupter(Listener):
    """Sends SIGINT at the first checkpoint."""

    def saved(self, path: Path, step: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupted_training_is_gone_on_with_and_ends_as_an_unbroken_one(
    tmp_path: Path, small_corpus: Path
) -> None:
    files = [
        f'data.{side}=["{small_corpus / name}"]' for side, name in (("source", "train.en"), ("target", "train.de"))
    ]
    recipe = (*files, *SMALL, "train.steps=6", "train.save_every=3", "train.validate_every=7", "train.keep=1")
    task = Trained("row", Training(recipe, preset="tiny"))
    weights = []
    for name, listeners in (("broken", [Interrupter(), Listener()]), ("unbroken", [Listener()])):
        directory = tmp_path / name
        for listener in listeners:
            if isinstance(listener, Interrupter):
                with pytest.raises(Interrupted):
                    run_grid([task], directory, listener, processes=1)
                assert not list(directory.glob("*.json"))
            else:
                assert run_grid([task], directory, listener, processes=1)["row"]["updates"] == 6  # type: ignore[index]
        weights.append((directory / key(task) / "checkpoints" / "step-00000006" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
