"""Training speed, side by side: contenders take turns, round after round, each in its own process."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.batches import write_batches
from benchmarks.contenders import MARIAN
from benchmarks.conversation import ContenderError, Conversation
from benchmarks.corpus import Workload
from benchmarks.environments import interpreter
from benchmarks.flops import flops_per_token, sgemm
from benchmarks.results import Race, Speed, this_machine
from benchmarks.shapes import Shape

ENVIRONMENTS = {MARIAN: "marian"}  # contenders that have one of their own


class Runner(Conversation):
    """A training loop in its own process; what it says is kept beside the batches."""

    def __init__(self, contender: str, shape: Shape, batches: Path) -> None:
        python = interpreter(ENVIRONMENTS[contender]) if contender in ENVIRONMENTS else Path(sys.executable)
        if isinstance(python, str):
            raise ContenderError(python)
        command: list[str | Path] = [python, "-m", "benchmarks.worker", contender, json.dumps(asdict(shape)), batches]
        super().__init__(command, batches.parent / f"{contender}.log")

    def train(self, numbers: Sequence[int]) -> float:
        """Seconds for an update with each of these batches."""
        return float(self.ask({"train": list(numbers)})["seconds"])

    def peak_memory(self) -> int:
        """Bytes above what the process held after its imports."""
        return int(self.ask({"memory": True})["peak"])


class Entry:
    """A contender's part in a race: what it did in each round, or why it is out."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runner: Runner | None = None
        self.seconds: list[float] = []
        self.peak_memory: int | None = None
        self.reason: str | None = None

    def start(self, shape: Shape, batches: Path, stack: ExitStack) -> None:
        """Start its process; the stack ends it."""
        with self.out_on_error():
            self.runner = stack.enter_context(Runner(self.name, shape, batches))

    def train(self, numbers: Sequence[int]) -> None:
        """A round, if it is not out."""
        if self.runner is not None:
            with self.out_on_error():
                self.seconds.append(self.runner.train(numbers))
                self.peak_memory = self.runner.peak_memory()

    @contextmanager
    def out_on_error(self) -> Iterator[None]:
        """A contender that fails is out; the race goes on."""
        try:
            yield
        except ContenderError as error:
            self.runner, self.reason = None, str(error)

    def speed(self, tokens: Sequence[int]) -> Speed:
        """From the tokens of each round; the first one, for warming up, does not count."""
        if self.reason is not None:
            return Speed(self.name, reason=self.reason)
        rounds = [count / seconds for count, seconds in zip(tokens, self.seconds, strict=True)]
        return Speed(self.name, rounds[1:], self.peak_memory)


def race(contenders: Sequence[str], shape: Shape, work: Workload, *, rounds: int, updates: int) -> Race:
    """Each round gives every contender the same `updates` batches, one contender after the other."""
    batches, entries = work.batches, [Entry(name) for name in contenders]
    schedule = [[(lap * updates + index) % len(batches) for index in range(updates)] for lap in range(rounds + 1)]
    limits = []
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        path = Path(directory) / "batches.npz"
        write_batches(path, batches)
        for entry in entries:
            entry.start(shape, path, stack)
        for numbers in schedule:
            limits.append(sgemm())
            for entry in entries:
                entry.train(numbers)
    used = [[batches[number] for number in numbers] for numbers in schedule]
    tokens = [sum(batch.tokens for batch in lap) for lap in used]
    return Race(
        machine=this_machine(),
        shape=shape,
        text=work.name,
        updates=updates,
        flops_per_token=flops_per_token(shape, [batch for lap in used[1:] for batch in lap]),
        sgemm=max(limits),
        speeds=[entry.speed(tokens) for entry in entries],
    )
